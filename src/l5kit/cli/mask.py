"""``l5kit mask``: agents that training can use."""

import warnings
from typing import Annotated

import typer

from l5kit.cli.options import (
    AddressOption,
    DatasetArgument,
    Engine,
    EngineOption,
    JobOption,
    JsonOption,
    ProbabilityOption,
    WorkersOption,
)
from l5kit.cli.output import print_facts, print_json, print_table, remark
from l5kit.cli.workers import RequestedWorkers
from l5kit.data.dataset_files import find_dataset
from l5kit.data.progress import show_progress
from l5kit.data.zarr_dataset import ChunkedDataset

_CACHE_BYTES = 2**27
"""Cache of decoded chunks per process; small, as scenes are read once, one after the other."""


def mask(
    path: DatasetArgument,
    probability: ProbabilityOption = 0.5,
    yaw: Annotated[float, typer.Option(min=0, help="Largest jump of the heading between two frames, degrees.")] = 30,
    extent_ratio: Annotated[
        float, typer.Option(min=1, help="Largest jump of the size between two frames, a ratio.")
    ] = 1.1,
    distance: Annotated[float, typer.Option(min=0, help="Largest distance to the AV, metres.")] = 50,
    store: Annotated[
        bool, typer.Option("--store", help="Store the mask inside the dataset, where L5Kit 1.x looks for it.")
    ] = False,
    workers: WorkersOption = None,
    engine: EngineOption = Engine.THREADS,
    address: AddressOption = None,
    job: JobOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how many agents have enough past and future frames for training.

    The agents mask is read from the dataset or from the user's cache folder, or else computed and kept there.

    Examples:
        l5kit mask city
        l5kit mask city --json
        l5kit mask city/scenes/sample.zarr --store
    """
    location = find_dataset(path)
    dataset = ChunkedDataset(location).open(cache_size_bytes=_CACHE_BYTES)
    from l5kit.dataset.mask_cache import load_or_compute_mask
    from l5kit.dataset.select_agents.selection import TABLE_STEPS, mask_table
    from l5kit.dataset.select_agents.stored_mask import require_no_mask, write_mask
    from l5kit.dataset.select_agents.thresholds import MaskThresholds
    from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
    from l5kit.dataset.utils import AGENT_MIN_FRAME_FUTURE, AGENT_MIN_FRAME_HISTORY

    # A mask to be stored inside the dataset is always computed, as only this gives the reasons of rejected rows, and an
    # existing one is refused first. Any other mask is kept in the user's cache.
    thresholds = MaskThresholds(probability, yaw, extent_ratio, distance)
    rejections: dict[str, int] = {}
    with (
        RequestedWorkers(engine, address, workers, job).opened(
            "mask", [location], **thresholds.as_attributes()
        ) as carriers,
        show_progress("Agents mask", visible=True) as progress,
    ):
        if store:
            require_no_mask(dataset, thresholds.probability)
            counts, report = compute_agents_mask(dataset, thresholds, progress=progress, workers=carriers)
            rejections = dict(sorted(report.items()))
            remark(f"agents mask stored in {write_mask(dataset, thresholds, counts)}")
        else:
            warnings.filterwarnings("ignore", message="the agents mask of", category=RuntimeWarning)
            counts = load_or_compute_mask(dataset, thresholds, progress=progress, strict=True, workers=carriers)
    taken = (counts[:, 0] >= AGENT_MIN_FRAME_HISTORY) & (counts[:, 1] >= AGENT_MIN_FRAME_FUTURE)
    num_rows = {"agent_rows": len(counts), "agent_rows_taken_by_default": int(taken.sum())}
    facts = thresholds.as_attributes() | rejections | num_rows
    table = mask_table(counts).tolist()
    if as_json:
        print_json({"dataset": location, **facts, "table": table})
        return
    print_facts(f"Agents mask of {dataset.path}", facts)
    columns = ("Past frames", *(f"{step} future" for step in TABLE_STEPS))
    rows = [
        [f"at least {step}", *(f"{count:,}" for count in of_step)]
        for step, of_step in zip(TABLE_STEPS, table, strict=True)
    ]
    print_table("Agent rows by past and future frames of their track (0 / 0 counts everything)", columns, rows)

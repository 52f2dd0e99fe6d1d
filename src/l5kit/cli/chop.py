"""``l5kit chop``: test sets, with the future of each scene held out."""

from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.options import (
    AddressOption,
    Engine,
    EngineOption,
    JobOption,
    JsonOption,
    ProbabilityOption,
    WorkersOption,
)
from l5kit.cli.output import print_json, print_texts
from l5kit.cli.workers import RequestedWorkers
from l5kit.data.dataset_files import find_dataset


def chop(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Dataset folders, or .zarr (folders or zip files) in them, or URLs."),
    ],
    frames: Annotated[int, typer.Option(min=1, help="Frames to keep of each scene.")] = 100,
    future: Annotated[int, typer.Option(min=1, help="Number of future steps with true positions.")] = 50,
    min_future: Annotated[int, typer.Option(min=0, help="Future frames in which a test agent must stay valid.")] = 10,
    probability: ProbabilityOption = 0.5,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Output folder, for one PATH. Default: NAME_chopped_FRAMES next to it."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing test set.")] = False,
    workers: WorkersOption = None,
    engine: EngineOption = Engine.THREADS,
    address: AddressOption = None,
    job: JobOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make test sets as in the competition: the start of each scene, and the future of the agents in its last frame.

    A test set is a folder with a shorter dataset, mask.npz (arr_0 marks the agent rows to predict) and gt.csv (the true
    positions). A warning counts the agents that a training with default settings would not select.

    Examples:
        l5kit chop city --frames 50 --future 40
        l5kit chop scenes/validate.zarr scenes/sample.zarr --json
        l5kit chop scenes/validate.zarr --future 30 --out test-set --overwrite
    """
    from l5kit.evaluation.chop_dataset.chopping import create_chopped_dataset
    from l5kit.evaluation.selection_parity import load_mask

    if out is not None and len(paths) > 1:
        raise typer.BadParameter("--out names one folder, so there must be one PATH")
    # find all datasets before making the first test set
    datasets = [find_dataset(path) for path in paths]
    made = []
    with RequestedWorkers(engine, address, workers, job).opened(
        "chop", datasets, numbers=[frames, future, min_future], probability=probability
    ) as carriers:
        for dataset in datasets:
            folder = create_chopped_dataset(
                dataset,
                probability,
                frames,
                future,
                min_future,
                output_folder=out,
                overwrite=overwrite,
                workers=carriers,
            )
            mask, _ = load_mask(Path(folder))
            counts = {"agent_rows": len(mask), "test_agents": int(mask.sum())}
            made.append({"dataset": dataset, "folder": Path(folder), **counts})
    if as_json:
        print_json(made)
        return
    rows = [[str(facts["folder"]), f"{facts['test_agents']:,}", f"{facts['agent_rows']:,}"] for facts in made]
    print_texts("Test sets", ("folder", "test agents", "agent rows"), rows)

"""``l5kit evaluate``: score a trained network on a log."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from l5kit._types import JsonObject
from l5kit.cli.options import (
    AddressOption,
    ChangesOption,
    DataFolderOption,
    Engine,
    EngineOption,
    JobOption,
    JsonOption,
    PickleOption,
    WorkflowOption,
)
from l5kit.cli.output import print_facts, print_json, print_table, require_writable_folder, short_number
from l5kit.cli.workers import RequestedWorkers
from l5kit.configs.known_keys import check_known_keys
from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.configs.training import read_workflow
from l5kit.data.jobs.scene_jobs import count_workers
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.stores.store import whole_path_of
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.selection_parity import find_evaluated_log
from l5kit.planning.weights_file import network_of

_MODE_COLUMNS = {
    "nll": "NLL",
    "rmse": "RMSE",
    "ade_oracle_m": "best ADE",
    "ade_mean_m": "mean ADE",
    "fde_oracle_m": "best FDE",
    "fde_mean_m": "mean FDE",
    "time_displace_m": "time displacement",
}


def evaluate(
    checkpoint: Annotated[
        str,  # or the name of a shipped network; "./NAME" is a folder
        typer.Argument(
            metavar="CHECKPOINT",
            help="File of weights, folder of l5kit train for its final weights, or route_planner, the network that "
            "ships with l5kit.",
        ),
    ],
    data: DataFolderOption = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            show_default=False,
            help="Log in the data folder, or folder of l5kit chop. Default: val_data_loader.key.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for scores, tables and pictures; new or empty.")
    ] = Path("evaluation"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the evaluation in the folder.")] = False,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="YAML file of the training, if the checkpoint does not contain it."),
    ] = None,
    workflow: WorkflowOption = None,
    changes: ChangesOption = None,
    horizons: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS",
            show_default=False,
            help="Horizons in seconds, such as 1,2,3. Default: every full second and the end.",
        ),
    ] = None,
    max_samples: Annotated[
        int | None,
        typer.Option(min=1, show_default=False, help="Use at most this many samples, evenly spread over the log."),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="Default: that of the configuration.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            "--threads",
            min=0,
            show_default=False,
            help="Threads that make batches while the network runs, or workers of another engine that make and predict "
            "them; 0 for one per core. Does not change the result.",
        ),
    ] = None,
    engine: EngineOption = Engine.THREADS,
    address: AddressOption = None,
    job: JobOption = None,
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Device of the network.")] = "auto",
    worst: Annotated[int, typer.Option(min=0, help="Number of pictures of the worst cases.")] = 6,
    worst_by: Annotated[Literal["fde", "ade"], typer.Option(help="Error by which the worst cases are chosen.")] = "fde",
    allow_pickle: PickleOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score a trained network open loop: on a log, or on a test set of l5kit chop as the competition did.

    Compares the errors with those of three kinematic baselines. The folder gets scores.json and scores.csv,
    samples.csv with a line for each trajectory, worst/ with pictures, and predictions.csv for a test set. A warning
    tells you if the training selected other agents. Does not need Lightning.

    Examples:
        l5kit evaluate planner --data city
        l5kit evaluate motion.safetensors --data city --key scenes/sample_chopped_100 --out test --json
        l5kit evaluate planner.pt --config config.yaml --workflow raster_planner --max-samples 2000 --worst 12
    """
    require_writable_folder(out)
    # report wrong arguments before the slow import of torch
    weights = network_of(checkpoint)
    check_known_keys(with_overrides({} if config is None else load_training_config(config), changes or []))
    if workflow is not None:
        read_workflow({"workflow": workflow})
    data_manager = LocalDataManager(data)
    if key is not None:
        find_evaluated_log(data_manager, key)
    from l5kit.openloop.files import scores_of
    from l5kit.openloop.run import evaluate as evaluate_network
    from l5kit.openloop.setup import OpenLoopOptions
    from l5kit.workflows.trained_network import configuration_of

    try:
        horizons_s = () if horizons is None else tuple(float(part) for part in horizons.split(","))
    except ValueError:
        raise typer.BadParameter(f"{horizons!r} is not a list of seconds, such as 1,2,3") from None
    has_threads = engine is Engine.THREADS
    options = OpenLoopOptions(
        key=key,
        horizons_s=horizons_s,
        max_samples=max_samples,
        batch_size=batch_size,
        threads=count_workers(workers) if has_threads and workers is not None else None,
        device=device,
        num_worst=worst,
        worst_by=worst_by,
        overwrite=overwrite,
        allow_pickle=allow_pickle,
    )
    given = configuration_of(weights, allow_pickle=allow_pickle) if config is None else load_training_config(config)
    cfg = with_overrides(given, changes or [])
    if workflow is not None:
        trained = cfg.get("workflow", workflow)
        if config is None and trained != workflow:
            raise InvalidArgumentError(
                f"workflow is {workflow!r}, but {checkpoint} is a network of {trained!r}; drop --workflow, or choose "
                "another checkpoint"
            )
        cfg["workflow"] = workflow
    # everything that determines the result, as a job folder is resumed only for the same weights, configuration,
    # samples and files
    of_this = [
        hashlib.sha256(weights.read_bytes()).hexdigest(),
        json.dumps(cfg, sort_keys=True, default=str),
        [options.key, options.max_samples, options.batch_size, options.device],
        None if data is None else whole_path_of(data),
    ]
    with RequestedWorkers(engine, address, workers, job).opened("evaluate", [], of=of_this) as carriers:
        options = options if isinstance(carriers, int) else replace(options, workers=carriers)
        scores = scores_of(evaluate_network(weights, out, cfg=cfg, data_folder=data, options=options))
    if as_json:
        print_json({"folder": str(out), **scores})
    else:
        _print_scores(scores, out)


def _print_scores(scores: JsonObject, out: Path) -> None:
    """Print facts and scores of an evaluation."""
    from l5kit.kinematic.baselines import BASELINE_TITLES  # loads torch

    facts = {
        "checkpoint": scores["checkpoint"],
        "log": scores["log"],
        "samples": f"{scores['num_samples']:,} of {scores['num_samples_of_log']:,}",
        "trajectories": f"{scores['num_trajectories']:,}",
        "time": f"{scores['duration_s']:.1f} s, {scores['samples_per_s']:,.0f} samples/s on {scores['device']}",
        "written to": str(out),
    }
    print_facts(f"Evaluated {scores['workflow']}", facts)
    # the sort is stable: for each horizon the network first, followed by the baselines
    titles = {"network": "network", **BASELINE_TITLES}
    errors = [
        [
            _ahead(row),
            titles[row["who"]],
            short_number(row["ade_m"]),
            short_number(row["fde_m"]),
            "-" if row["miss_rate"] is None else f"{row['miss_rate']:.1%}",
        ]
        for row in sorted(scores["scores"], key=lambda row: row["horizon_s"])
    ]
    columns = ("ahead", "who", "ADE", "FDE", "misses")
    print_table("Errors in metres; misses end more than 2 m off", columns, errors)
    modes = [row for row in scores["scores"] if "nll" in row]
    if modes:
        rows = [[_ahead(row), *(short_number(row[name]) for name in _MODE_COLUMNS)] for row in modes]
        print_table("All trajectories, distances in metres", ("ahead", *_MODE_COLUMNS.values()), rows)
        print_facts(
            "Probability of each trajectory given the truth",
            {_ahead(row): _as_text(row["prob_true_mode"]) for row in modes},
        )
    if scores["competition"]:
        metrics = {name: _as_text(value) for name, value in scores["competition"].items() if name != "time_displace"}
        print_facts("Metrics of the csv files, as in the competition", metrics)


def _ahead(row: JsonObject) -> str:
    return f"{row['horizon_s']:g} s"


def _as_text(value: float | list[float | None] | None) -> str:
    return ", ".join(map(short_number, value)) if isinstance(value, list) else short_number(value)

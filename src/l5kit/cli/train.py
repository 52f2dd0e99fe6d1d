"""``l5kit train``: train a network."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from l5kit._types import JsonObject
from l5kit.cli.artifact import link_used_artifact, parse_used_artifact
from l5kit.cli.logs import require_log_of
from l5kit.cli.options import ChangesOption, DataFolderOption, JsonOption, ResumeOption, UsedArtifactOption
from l5kit.cli.output import print_facts, print_json, print_line, print_table, remark, require_writable_folder
from l5kit.configs.known_keys import check_known_keys
from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.configs.sweeps import parse_sweep, plan_sweep
from l5kit.configs.training import TrainingParams
from l5kit.data.jobs.folder_lock import is_main_process, require_unused
from l5kit.data.loader_folders import folders_of, log_keys_of
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.texts import duration_text

if TYPE_CHECKING:
    from l5kit.training.run import TrainingResult

_SCORES = {"val/ade_m": "ADE", "val/fde_m": "FDE", "ctra/ade_m": "CTRA ADE", "ctra/fde_m": "CTRA FDE"}
"""Printed scores: at each horizon for a training, at the last one for a sweep."""

_DRIVING = "driving/score"
"""Driving score; the largest is the best."""


def train(
    config: Annotated[
        str,
        typer.Argument(metavar="CONFIG", help="YAML file, or the name of a small configuration that ships with l5kit."),
    ],
    data: DataFolderOption = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for weights, checkpoints and curves; new or empty.")
    ] = Path("training"),
    workflow: Annotated[
        str | None, typer.Option(metavar="NAME", help="Workflow to train, if the configuration does not name it.")
    ] = None,
    changes: ChangesOption = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="KEY=[A,B]",
            help="Train once for each value of the list; given several times, for all combinations.",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Train N times (each combination), with train_params.seed and the following seeds."
        ),
    ] = None,
    resume: ResumeOption = False,
    artifact: UsedArtifactOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a planner, a prediction or a simulation model.

    Workflows: raster_planner, vector_planner, urban_driver, agent_motion, agent_motion_multimodal, safepathnet, simnet,
    motion_tokens, query_centric, route_planner.
    Each has a small configuration of that name. Configurations of L5Kit 1.x work as they are, with --workflow. The
    network is compared with three kinematic baselines. With --sweep or --seeds, each training has a folder below
    --out, and table.csv has their results; a failed training does not stop the rest.

    Examples:
        l5kit train raster_planner --data city --out planner
        l5kit train config.yaml --workflow simnet --set train_params.learning_rate=0.0005
        l5kit train config.yaml --out planner --resume
    """
    cfg = with_overrides(load_training_config(config), changes or [])
    if workflow is not None:
        cfg["workflow"] = workflow
    is_swept = bool(sweep) or seeds is not None
    if is_swept and artifact is not None:
        raise typer.BadParameter("it links a single training; drop it for a sweep", param_hint="--artifact")
    values = parse_sweep(sweep or [])
    # Report wrong arguments before the slow import of torch and Lightning. Wrong values of a sweep are reported in
    # their rows of the table instead.
    if values:
        check_known_keys(plan_sweep(cfg, values)[0].cfg)
    else:
        params, data_manager = TrainingParams.from_cfg(cfg), LocalDataManager(data)
        loaders = {"train_data_loader": params.train_loader, "val_data_loader": params.val_loader}
        for section, loader in loaders.items():
            for key in [] if loader is None else log_keys_of(loader, data_manager):
                require_log_of(f"{section}.key", key, data_manager)
    require_writable_folder(out)
    if not resume and is_main_process():
        require_unused(out)
    if is_swept:
        _train_all(cfg, values, seeds, data=data, out=out, resume=resume, as_json=as_json)
        return
    from l5kit.training.run import train as train_network

    in_use = parse_used_artifact(artifact)
    result = train_network(cfg, out, data_folder=data, resume=resume, tell=remark)
    facts = {
        "weights": str(result.weights),
        "steps": result.num_steps,
        "minutes": round(result.minutes, 2),
        **{name: round(value, 4) for name, value in result.scores.items()},
    }
    if not is_main_process():
        return
    link_used_artifact(in_use, result.folder)
    if as_json:
        print_json(facts)
    else:
        _print_trained(result, cfg, data)


def _print_trained(result: "TrainingResult", cfg: JsonObject, data: Path | None) -> None:
    """Print what was trained, its scores at each horizon, and commands for the next steps."""
    facts: dict[str, object] = {
        "weights": str(result.weights),
        "steps": result.num_steps,
        "time": duration_text(60 * result.minutes),
    }
    # the best weights are from an evaluation during the training, of errors or of driving
    if result.best_weights is not None:
        by_driving = f", which drive best: {result.best_score:.3f} of 1" if result.best_by == _DRIVING else ""
        facts["best weights"] = f"{result.best_weights}, of step {result.best_step}{by_driving}"
    if _DRIVING in result.scores:
        facts[_DRIVING] = f"{result.scores[_DRIVING]:.3f} at the end, of 1"
    print_facts(f"Trained {cfg['workflow']}", facts)
    times = dict.fromkeys(name.rpartition("/")[2] for name in result.scores if name.startswith(tuple(_SCORES)))
    rows = [[time, *(_cell(result.scores.get(f"{name}/{time}")) for name in _SCORES)] for time in times]
    if rows:
        print_table("Mean errors in metres", ("ahead", *_SCORES.values()), rows)
    # Both commands take one log. For a folder of towns, evaluate gets the first town used for validation, and simulate
    # the log of the driving evaluation, if there was one.
    params, data_manager = TrainingParams.from_cfg(cfg), LocalDataManager(data)
    folders, driving = folders_of(params.val_loader or params.train_loader, data_manager), params.val_driving
    town = data if folders is None else data_manager.root_folder / folders[0]
    log = town if driving is None else data_manager.root_folder / (driving.folder or "") / driving.key
    where = ["--data", str(town)] if town is not None else []
    print_line(f"next: {shlex.join(['l5kit', 'evaluate', str(result.folder), *where])}")
    option = "--agents" if params.is_of_agents else "--planner"
    driver = result.best_weights if result.best_weights is not None and result.best_by == _DRIVING else result.folder
    print_line(f"next: {shlex.join(['l5kit', 'simulate', str(log or 'DATASET'), option, str(driver)])}")


def _train_all(
    cfg: JsonObject,
    values: dict[str, list[object]],
    num_seeds: int | None,
    *,
    data: Path | None,
    out: Path,
    resume: bool,
    as_json: bool,
) -> None:
    """Run a sweep and print its table; the exit status is 1 if a training failed."""
    from l5kit.training.sweeping import sweep

    result = sweep(cfg, out, values, num_seeds=num_seeds, data_folder=data, resume=resume, tell=remark)
    if as_json:
        print_json({"table": result.table, "runs": [row.as_dict() for row in result.rows]})
    else:
        # show scores at the last horizon of any training
        contents = [row.as_dict() for row in result.rows]
        split_names = [name.rpartition("/") for row in contents for name in row if name.startswith(tuple(_SCORES))]
        last = max((time for _, _, time in split_names), key=lambda time: float(time.removesuffix("s")), default="")
        scores = {f"{name}/{last}": f"{called} {last}" for name, called in _SCORES.items()} if last else {}
        keys = {name: name.rpartition(".")[2] for name in result.rows[0].values}
        best = "best driving" if any(row["best_by"] == _DRIVING for row in contents) else "best"
        names = {"status": "", **keys, **scores, "best_score": best, "minutes": "minutes"}
        rows = [[row.run[:4], *(_cell(row.as_dict().get(name)) for name in names)] for row in result.rows]
        print_table(f"Trained {len(rows)} times: {result.table}", ("run", *names.values()), rows)
    if result.num_failed:
        raise typer.Exit(1)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)

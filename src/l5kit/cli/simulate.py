"""``l5kit simulate``: let a planner drive the scenes of a log, and score it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from l5kit._types import JsonObject
from l5kit.cli.options import (
    AddressOption,
    Engine,
    EngineOption,
    JsonOption,
    MapOption,
    MetaOption,
    PickleOption,
    ScenesArgument,
    ScenesOption,
    WorkersOption,
)
from l5kit.cli.output import (
    MOST_LISTED,
    print_facts,
    print_json,
    print_table,
    remark,
    remark_cut,
    remark_some,
    require_writable_folder,
    short_number,
)
from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.engines.opening import open_workers
from l5kit.errors import install_command
from l5kit.evaluation.driving.metric import NUPLAN
from l5kit.evaluation.epdms.scene_metrics import NUM_WINDOWS, SHARE_PLANNED
from l5kit.evaluation.epdms.terms import EPDMS

if TYPE_CHECKING:
    from l5kit.closedloop.folder import ClosedLoopResult

_COUNTS_OF_WINDOWS = (NUM_WINDOWS, SHARE_PLANNED)


def simulate(
    path: ScenesArgument,
    planner: Annotated[
        str,
        typer.Option(
            metavar="DRIVER",
            help="Planner of the AV: idm, rules, replay, standing, constant-velocity, full-throttle; route_planner"
            " or route_policy (a network and a policy that ship with l5kit); a file of weights or folder of "
            "l5kit train or l5kit train-rl; or your own, FILE.py:NAME, whose code runs.",
        ),
    ] = "idm",
    fallback: Annotated[
        str | None,
        typer.Option(
            metavar="rules",
            show_default=False,
            help="Planner that takes over where the plan, rolled out, collides, leaves the road, comes too close or "
            "passes a red stop line, or where the AV stands still on a free road. Default: none.",
        ),
    ] = None,
    agents: Annotated[
        str,
        typer.Option(
            metavar="DRIVER",
            help="Drivers of other agents: replay, idm, yielding, cautious, assertive, changing, constant-velocity; a "
            "network, a policy, your own (FILE.py:NAME); or a mix of these by weights: idm=2,changing=1.",
        ),
    ] = "replay",
    scenes: ScenesOption = None,
    workers: WorkersOption = None,
    engine: EngineOption = Engine.THREADS,
    address: AddressOption = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Output folder; a killed run continues there.")] = Path(
        "simulation"
    ),
    start_frame: Annotated[int, typer.Option(min=0, help="First frame of each scene; earlier ones are its past.")] = 0,
    frames: Annotated[
        int | None,
        typer.Option(
            min=1, show_default=False, help="Number of frames of each scene, including the first. Default: all."
        ),
    ] = None,
    moves: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            show_default=False,
            help="tracked: a tracker and a kinematic bicycle follow the plans; poses: the AV takes the planned poses "
            "exactly; FILE.py:NAME: your own vehicle model. Default: tracked, but poses for standing and idm, and the "
            "frames of the log for replay.",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Scenes simulated at once; more need more memory.")] = 32,
    plans: Annotated[bool, typer.Option(help="Store the plan of each frame.")] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first scene that fails.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the simulation in the folder.")] = False,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Configuration of the training, a YAML file or a name such as vector_planner, if --planner is a "
            "checkpoint that does not contain it, or your own torch network.",
        ),
    ] = None,
    workflow: Annotated[
        str | None, typer.Option(metavar="NAME", help="Workflow of the planner, if --config does not name it.")
    ] = None,
    agents_config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="YAML file of the training, if the checkpoint of --agents does not contain it."
        ),
    ] = None,
    agents_workflow: Annotated[
        str | None, typer.Option(metavar="NAME", help="Workflow of --agents, if --agents-config does not name it.")
    ] = None,
    agents_changes: Annotated[
        list[str] | None,
        typer.Option(
            "--agents-set",
            metavar="KEY=VALUE",
            help="Override a key of the configuration of --agents, such as model_params.temperature; may be given "
            "several times.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Device of networks.")] = "auto",
    allow_pickle: PickleOption = False,
    truth: Annotated[
        Path | None,
        typer.Option(
            metavar="LOG", help="Log with the true boxes of a noisy log (l5kit synth --noise), used for scoring."
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE.py:NAME",
            show_default=False,
            help="Additional metric of your own, whose code runs; may be given several times.",
        ),
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option(
            metavar="nuplan|epdms",
            show_default=False,
            help="nuplan (default) scores the drive through each scene; epdms (NAVSIM v2) scores plans in windows of "
            "4 s; nuplan,epdms gives both.",
        ),
    ] = None,
    map_path: MapOption = None,
    meta: MetaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a planner drive the scenes of a log in closed loop, and score it.

    The folder gets scores.json, scenes.csv and frames.csv (with the extra arrow also as Parquet), simulated.zarr with
    the driven scenes, and plans.npz. They do not depend on the number of workers or the batch size. Repeat the command
    to continue a killed run.

    Failed scenes, and those in which neither planner nor log moves, are listed and left out of means. The exit status
    is 1 if no scene could be scored, or with --strict if any fails.

    Examples:
        l5kit simulate city
        l5kit simulate city --agents idm --scenes 0:100 --workers 4 --out reactive --json
        l5kit simulate city --planner planner --agents simnet.safetensors --out learned
        l5kit simulate city --planner my_planner.py:MyPlanner --frames 100 --out mine
    """
    require_writable_folder(out)
    from l5kit.closedloop.options import ClosedLoopOptions
    from l5kit.closedloop.run import simulate as simulate_log
    from l5kit.closedloop.tables import can_write_parquet

    options = ClosedLoopOptions(
        scenes=scenes,
        start_frame=start_frame,
        num_frames=frames,
        moves=moves,
        keeps_plans=plans,
        batch_size=batch_size,
        device=device,
        allow_pickle=allow_pickle,
        strict=strict,
        overwrite=overwrite,
    )
    planner_cfg = _read_config(config, workflow)
    agents_cfg = _read_config(agents_config, agents_workflow, whose="agents-")
    if agents_changes:
        from l5kit.workflows.trained_network import configuration_of

        # override values of the given configuration, or else of the one in the checkpoint
        if agents_cfg is None:
            agents_cfg = configuration_of(agents, allow_pickle=allow_pickle)
        agents_cfg = with_overrides(agents_cfg, agents_changes)
    with open_workers(engine, address=address, num_workers=workers) as carriers:
        result = simulate_log(
            path,
            out,
            planner=planner,
            agents=agents,
            planner_cfg=planner_cfg,
            agents_cfg=agents_cfg,
            map_path=map_path,
            meta_path=meta,
            truth=truth,
            fallback=fallback,
            metrics=metrics or (),
            score=score or NUPLAN,
            options=replace(options, workers=carriers),
        )
    num_driven = result.num_scenes + len(result.unscored)
    remark_cut("--scenes", scenes, num_driven + len(result.failed), owner="the log")
    if result.scores["files"]["map"] is None or result.scores["files"]["meta"] is None:
        missing = ", ".join(metric.name.replace("_", " ") for metric in result.about_metrics if metric.needs_map)
        remark(f"note: scored without a map, so without {missing}; these need a semantic map and a meta.json")
    if not can_write_parquet():
        remark(f"note: tables are CSV only; Parquet needs pyarrow: {install_command('arrow')}")
    failed = list(map(str, result.failed))
    remark_some("failed", failed, listed_in=f"{result.folder / 'scores.json'} (failed)")
    reasons = [f"scene {scene}: {reason}" for scene, reason in result.unscored.items()]
    remark_some("no score", reasons, listed_in="scores.json (unscored)")
    if as_json:
        print_json({"folder": out, **result.scores})
    else:
        _print_scores(result)
    if result.num_scenes == 0:
        raise typer.Exit(1)


def _read_config(file: str | None, workflow: str | None, *, whose: str = "") -> JsonObject | None:
    """Return the configuration of a file, with the workflow if given; None without a file."""
    if file is None:
        if workflow is not None:
            raise typer.BadParameter(f"--{whose}workflow needs --{whose}config")
        return None
    cfg = dict(load_training_config(file))
    return cfg if workflow is None else cfg | {"workflow": workflow}


def _print_scores(result: "ClosedLoopResult") -> None:
    scores, totals = result.scores, result.scores["totals"]
    rate = ""
    if result.scenes_per_s is not None:
        rate = f", {result.scenes_per_s:{',.1f' if result.scenes_per_s >= 1 else '.2g'}} scenes/s"
    unscored = f"{len(result.unscored):,} without a score, " if result.unscored else ""
    facts = {
        "log": scores["files"]["log"],
        "agents": scores["agents"],
        "scenes": f"{result.num_scenes:,} scored, {unscored}{len(result.failed):,} failed{rate}",
    }
    if result.fallback_share is not None:
        share = f"{result.fallback_share:.0%}".replace("%", " %")
        rest = f"{1 - result.fallback_share:.0%}".replace("%", " %")
        facts["driven by"] = (
            f"{scores['planner']} {rest} of the steps, {scores.get('fallback', 'its fallback')} {share}"
        )
    if result.num_scenes:
        facts["collisions at fault"] = f"{totals['collisions_at_fault']:,}"
        if appeared := scores["appeared_close"]:
            firsts = [f"track {each['track']} in frame {each['frame']} of scene {each['scene']}" for each in appeared]
            more = ", ..." if len(firsts) > MOST_LISTED else ""
            facts["appeared close"] = f"{totals['appeared_close']:,}: {', '.join(firsts[:MOST_LISTED])}{more}"
        if (windows := result.metrics.get(NUM_WINDOWS)) is not None:
            planned = result.metrics[SHARE_PLANNED] or 0.0
            words = {0.0: "as driven, without plans", 1.0: "all planned"}
            share = words.get(planned, f"{planned:.0%}".replace("%", " % planned"))
            facts["windows"] = f"{windows:,.0f}, {share}"
        facts["driven"] = f"{totals['way_m']:,.0f} m, the log {totals['expert_way_m']:,.0f} m"
    print_facts(f"Simulated {scores['planner']}", facts | {"written to": str(result.folder)})
    if not result.num_scenes:
        return
    # one table per score, and one for the user's metrics
    name = "score without a map" if result.is_without_map else "score"
    rows, of_windows, added = [[name, short_number(result.score), ""]], [], []
    for metric in result.about_metrics:
        value, failing = result.metrics[metric.name], str(scores["scenes_failing"][metric.name])
        lacks_map = result.is_without_map and metric.needs_map
        row = [metric.name.replace("_", " "), short_number(value), "needs a map" if lacks_map else failing]
        if metric.of_score == EPDMS:
            if metric.name not in _COUNTS_OF_WINDOWS:
                of_windows.append(row if metric.role is not None else [*row[:2], ""])
            continue
        if metric.role is None:
            text = "-" if value is None else f"{value:.{metric.digits}f} {metric.unit}".rstrip()
            fold = metric.over_scenes if isinstance(metric.over_scenes, str) else f"percentile {metric.over_scenes:g}"
            added.append([metric.label, fold, text, "" if metric.passes_from is None else failing])
            continue
        rows.append(row)
    if len(rows) > 1:
        print_table("Means over the scenes, 0 to 1", ("metric", "mean", "scenes below 1"), rows)
    if of_windows:
        print_table("Means over the windows of scenes, 0 to 1", ("metric", "mean", "scenes below 1"), of_windows)
    if added:
        print_table("Your own metrics", ("metric", "of scenes", "value", "scenes that fail"), added)

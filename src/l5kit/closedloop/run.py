"""Closed-loop simulation of a log: scenes are driven, scored, and written to a folder, where a killed run goes on."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import closing
from pathlib import Path

import numpy as np

from l5kit._files import write_json
from l5kit._types import Config
from l5kit.closedloop.assembling import assemble, scores_of
from l5kit.closedloop.blocks import FailedSceneError, SimulateBlock
from l5kit.closedloop.folder import (
    FINISHED,
    ClosedLoopResult,
    claimed,
    digest_of_run,
    is_complete,
    read_result,
    require_folder,
)
from l5kit.closedloop.measured import RequestedMetric
from l5kit.closedloop.options import ClosedLoopOptions
from l5kit.closedloop.parts import drop_damaged, find_parts
from l5kit.closedloop.planners import RequestedPlanner, RequestedTraffic
from l5kit.closedloop.scenes import FailedScene
from l5kit.closedloop.setup import ClosedLoopSetup, SimulationRequest, set_up
from l5kit.closedloop.tables import can_write_parquet
from l5kit.data.jobs.receipts import RECEIPT_FILE, finish_output
from l5kit.data.jobs.scene_jobs import count_workers, map_scenes, without_job
from l5kit.data.progress import show_progress
from l5kit.data.stores.store import whole_path_of
from l5kit.errors import EngineError
from l5kit.evaluation.driving.metric import NUPLAN
from l5kit.simulation.folder.simulation_folder import SCORES_FILE

_DEFAULTS = ClosedLoopOptions()


def simulate(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str] = "simulation",
    *,
    planner: RequestedPlanner = "idm",
    agents: RequestedTraffic = "replay",
    planner_cfg: Config | None = None,
    agents_cfg: Config | None = None,
    map_path: str | os.PathLike[str] | None = None,
    meta_path: str | os.PathLike[str] | None = None,
    truth: str | os.PathLike[str] | None = None,
    fallback: str | None = None,
    metrics: Sequence[RequestedMetric] = (),
    score: str | Sequence[str] = NUPLAN,
    options: ClosedLoopOptions = _DEFAULTS,
) -> ClosedLoopResult:
    """Let a planner drive the scenes of a log, and score how well it does.

    The folder gets ``scores.json``, ``scenes.csv`` and ``frames.csv`` (with pyarrow also as Parquet), the driven scenes
    as the dataset ``simulated.zarr``, ``plans.npz``, and ``run.json`` with what was run. The files are the same for any
    number of workers and any batch size, those of networks up to the rounding of torch. A run that was killed goes on
    where it was when it is started again with the same options on the same data; one that is complete is not repeated.

    A scene that cannot be read, driven or scored is listed as failed and is in no mean; the others go on.

    Args:
        path: Dataset folder, or one ``.zarr`` in it; or the folder of a simulation, or the driven scenes in it, with
            map and ``meta.json`` of the log.
        folder: Where to write.
        planner: Who drives the AVs: a name of :data:`l5kit.closedloop.planners.PLANNERS`; a checkpoint, or the folder
            of a training; ``FILE.py:NAME``; a network of torch, with ``planner_cfg``; a driver; or a driver with how
            its plans are carried out.
        agents: Who drives the others: a name of :data:`l5kit.closedloop.planners.TRAFFIC`; a checkpoint; a policy;
            ``FILE.py:NAME``; a network; a driver; a seat; or a mix, ``NAME=WEIGHT,NAME=WEIGHT,seed=N`` or a
            :class:`~l5kit.simulation.drivers.traffic_mix.TrafficMix`.
        planner_cfg: Configuration of the training, with ``workflow``, for a checkpoint that has none in it, and for a
            network: it says which samples that takes.
        agents_cfg: The same for a checkpoint or network that drives the others.
        map_path: The semantic map; None to look for it. Without one its metrics do not apply.
        meta_path: ``meta.json``; None to look for it.
        truth: A log with the true boxes of the same scenes, against which is scored, where planners see boxes with
            noise; None to score against what they see. Others must be replayed.
        fallback: Who drives where a plan of the planner has a fault by the rules of
            :class:`l5kit.simulation.drivers.fallback_planner.FallbackPlanner`: ``rules``; None for no fallback. In the
            scores ``driven_by`` counts the steps of planner and fallback.
        metrics: What is measured beside the metrics of the score: a :class:`~l5kit.evaluation.driving.Metric`, or
            ``FILE.py:NAME`` for one of a file, whose code runs.
        score: ``nuplan``, the score of the drive of a scene; ``epdms``, that of the plans of its windows (NAVSIM v2),
            for which frames must be 0.1 s apart; or both, which gives EPDMS beside the score.
        options: Which scenes and frames, and how.

    Raises:
        DatasetNotFoundError: There is no dataset.
        InvalidArgumentError: There are several logs or maps, no such planner, scenes or first frame, the true log is
            not of the log, or the folder holds something else; the message says what.
        FileNotFoundError: A file does not exist.
        FailedSceneError: A scene fails, and ``options.strict``.
        L5KitError: A checkpoint cannot be used; the message says why.
    """
    target, path = Path(os.path.abspath(folder)), whole_path_of(path)  # code of users may change the directory
    require_folder(target, overwrite=options.overwrite)
    with show_progress("Reading", visible=options.show_bar) as progress:
        request = SimulationRequest(
            path=path,
            planner=planner,
            agents=agents,
            planner_cfg=planner_cfg,
            agents_cfg=agents_cfg,
            map_path=map_path,
            meta_path=meta_path,
            truth=truth,
            fallback=fallback,
            metrics=metrics,
            score=score,
            options=options,
        )
        setup = set_up(request, progress=progress)
    true_path = None if setup.truth is None else setup.truth.path
    inputs = (setup.files.dataset, setup.files.semantic_map, setup.files.meta, true_path)
    with claimed(target, setup.facts, inputs=inputs, overwrite=options.overwrite) as parts:
        scenes_per_s = None
        if not is_complete(target):
            for name in (RECEIPT_FILE, SCORES_FILE):
                (target / name).unlink(missing_ok=True)
            scenes_per_s = _simulate_missing(setup, parts)
            with show_progress("Writing", visible=options.show_bar) as progress:
                rows = assemble(
                    target,
                    list(find_parts(parts)),
                    setup.scenes,
                    metrics=setup.measured.metrics,
                    facts=setup.log.facts,
                    with_parquet=can_write_parquet(),
                    progress=progress,
                )
            # the scores, and then the receipt: where that is, the simulation is complete
            scores = scores_of(rows, setup.measured.metrics, setup.facts)
            write_json(target / SCORES_FILE, scores, allow_nan=False)
            finish_output(target, "simulate", FINISHED)
    result = read_result(target)
    if options.strict and result.failed:
        raise FailedSceneError(result.failed[0])
    return ClosedLoopResult(target, result.scores, scenes_per_s)


def _simulate_missing(setup: ClosedLoopSetup, parts: Path) -> float | None:
    """Simulate the scenes that no part has, and return how many in a second; None if there was none.

    Raises:
        FailedSceneError: A scene fails, now or in a run before, and the simulation is strict.
        EngineError: Workers have written their parts elsewhere.
    """
    options = setup.options
    finished: list[int] = []
    run = digest_of_run(setup.facts)
    drop_damaged(parts, run)
    for part in find_parts(parts):
        finished += part.scenes
        failed = next(filter(None, map(FailedScene.of_row, part.rows)), None)
        if options.strict and failed is not None:
            raise FailedSceneError(failed)
    missing = setup.scenes[~np.isin(setup.scenes, finished)]
    if len(missing) == 0:
        return None
    start_s = time.perf_counter()
    carriers = without_job(options.workers)  # the folder of the simulation keeps its parts
    num_workers = count_workers(carriers)
    # as many scenes step at once as asked for, fewer where workers would have nothing to do
    block_size = max(1, min(options.batch_size, -(-len(missing) // num_workers)))
    with show_progress("Simulating", visible=options.show_bar, rate_of="scenes") as progress:
        results = map_scenes(
            SimulateBlock(setup, parts.absolute(), run),
            missing,
            carriers if isinstance(carriers, Executor) else num_workers,
            block_size=block_size,
            num_ahead=num_workers,
            progress=progress,
        )
        with closing(results):
            for _ in results:
                pass
    # workers on other machines may see another folder under the same path: their parts are then nowhere here
    present = [scene for part in find_parts(parts) for scene in part.scenes]
    lacking = setup.scenes[~np.isin(setup.scenes, present)]
    if len(lacking):
        raise EngineError(
            f"folder is {str(parts.parent)!r}, in which there is nothing of scene {lacking[0]} and {len(lacking) - 1} "
            "more that workers have simulated; name a folder that all machines share, under the same path"
        )
    return len(missing) / (time.perf_counter() - start_s)

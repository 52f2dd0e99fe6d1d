"""Closed-loop simulation of a log: drives and scores scenes, writes a folder, and resumes after a kill."""

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
    """Let a planner drive the scenes of a log, and score its driving.

    The folder gets ``scores.json``, ``scenes.csv`` and ``frames.csv`` (with pyarrow also as Parquet), the driven scenes
    as the dataset ``simulated.zarr``, ``plans.npz``, and ``run.json``, a description of the run. The files are the same
    for any number of workers and any batch size, with networks up to rounding in torch. A killed run resumes when it is
    started again with the same options on the same data; a complete one is not repeated.

    A scene that cannot be read, driven or scored is listed as failed and excluded from all means.

    Args:
        path: Dataset folder, or one ``.zarr`` in it; or the folder of a simulation, or the driven scenes in it, with
            the map and ``meta.json`` of the log.
        folder: Output folder.
        planner: Driver of the AVs: a name of :data:`l5kit.closedloop.planners.PLANNERS`; a checkpoint, or a training
            folder; ``FILE.py:NAME``; a torch network, with ``planner_cfg``; a driver; or an ``EgoSeat``, a driver with
            the model that carries out its plans.
        agents: Driver of the other agents: a name of :data:`l5kit.closedloop.planners.TRAFFIC`; a checkpoint; a policy;
            ``FILE.py:NAME``; a network; a driver; a seat; or a mix, ``NAME=WEIGHT,NAME=WEIGHT,seed=N`` or a
            :class:`~l5kit.simulation.drivers.traffic_mix.TrafficMix`.
        planner_cfg: Training configuration, with ``workflow``, for a network or a checkpoint without one; it defines
            the samples of the network.
        agents_cfg: The same for a network or checkpoint that drives the agents.
        map_path: The semantic map; None to look for it. Without a map, metrics that need one do not apply.
        meta_path: ``meta.json``; None to look for it.
        truth: Log with the true boxes of the same scenes, used for scoring, if planners see noisy boxes; None to score
            against the boxes they see. It requires replayed agents.
        fallback: ``rules`` to drive with the rule planner where a plan fails the checks of
            :class:`l5kit.simulation.drivers.fallback_planner.FallbackPlanner`; None for no fallback. ``driven_by`` in
            the scores counts the steps of planner and fallback.
        metrics: Additional metrics: :class:`~l5kit.evaluation.driving.Metric` objects, or ``FILE.py:NAME`` for one in a
            file, whose code runs.
        score: ``nuplan``, the score of the drive through a scene; ``epdms``, the score of the plans in its windows
            (NAVSIM v2), which needs frames 0.1 s apart; or both, which reports EPDMS next to the nuPlan score.
        options: Scenes and frames to simulate, and how.

    Raises:
        DatasetNotFoundError: There is no dataset.
        InvalidArgumentError: There are several logs or maps; planner, scenes or first frame do not exist; the true log
            does not match; or the folder holds something else. The message names the problem.
        FileNotFoundError: A file does not exist.
        FailedSceneError: A scene fails, and ``options.strict`` is set.
        L5KitError: A checkpoint cannot be used; the message says why.
    """
    target, path = Path(os.path.abspath(folder)), whole_path_of(path)  # user code may change the directory
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
            # the receipt comes last: it marks the simulation as complete
            scores = scores_of(rows, setup.measured.metrics, setup.facts)
            write_json(target / SCORES_FILE, scores, allow_nan=False)
            finish_output(target, "simulate", FINISHED)
    result = read_result(target)
    if options.strict and result.failed:
        raise FailedSceneError(result.failed[0])
    return ClosedLoopResult(target, result.scores, scenes_per_s)


def _simulate_missing(setup: ClosedLoopSetup, parts: Path) -> float | None:
    """Simulate the scenes that are in no part, and return their number per second; None if there were none.

    Raises:
        FailedSceneError: The simulation is strict, and a scene fails or failed in an earlier run.
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
    carriers = without_job(options.workers)  # the simulation folder itself keeps the parts
    num_workers = count_workers(carriers)
    # batches have the requested size, or less if some workers would otherwise be idle
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
    # workers on other machines may see another folder under the same path, so their parts may be missing here
    present = [scene for part in find_parts(parts) for scene in part.scenes]
    lacking = setup.scenes[~np.isin(setup.scenes, present)]
    if len(lacking):
        raise EngineError(
            f"folder is {str(parts.parent)!r}, but it lacks scene {lacking[0]} and {len(lacking) - 1} more that "
            "workers have simulated; choose a folder that all machines share under the same path"
        )
    return len(missing) / (time.perf_counter() - start_s)

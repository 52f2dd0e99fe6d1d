"""Closed-loop rows: scenes driven through the interface of 1.5, and states alone with their checks."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.scene_records import SceneRecords, join_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.evaluation.driving.scene_score import score_scenes
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import SceneSimulation
from l5kit.warmup.workloads import (
    EGO_SMALL,
    URBAN_DRIVER,
    RowLeftOutError,
    VectorWorkload,
    Workload,
    check_drive,
    config_with_files,
    drive_by_idm,
    make_samples,
    read_road,
)
from l5kit_bench.log_rows import CityMaker
from l5kit_bench.row import PreparedRow, Row
from l5kit_bench.workplace import Workplace

if TYPE_CHECKING:
    from l5kit.simulation.unroll import ClosedLoopSimulator

_FRAMES = "frames"
_STEP_ROWS = "agent-steps"
_SCENES = "scenes"


def closed_loop_rows() -> tuple[Row, ...]:
    """Return the rows under the interface of 1.5, as its rates were recorded, and those of the real scene's states."""
    return (
        _unroll_row("unroll-raster", EGO_SMALL, 1, 5),
        _unroll_row("unroll-raster-32", EGO_SMALL, 32, 25),
        _unroll_row("unroll-vector", URBAN_DRIVER, 1, 6),
        _unroll_row("unroll-vector-32", URBAN_DRIVER, 32, 50),
        _unroll_row("unroll-raster-agents", EGO_SMALL, 8, 20, with_agents=True),
        _unroll_row("unroll-vector-agents", URBAN_DRIVER, 8, 60, with_agents=True),
        Row(
            key="cle-metrics",
            title="CLEMetricSet, scenes of 248 frames",
            unit=_SCENES,
            prepare=_prepare_metrics,
            floor=40,
            reference="CLEMetricSet, scenes of 248 frames",
        ),
        Row(key="state-replay", title="replay and checks, states only", unit=_STEP_ROWS, prepare=_prepare_replay),
        Row(key="drive-score", title="score of replayed scenes", unit=_SCENES, prepare=_prepare_scores),
    )


def state_row(make_city: CityMaker) -> Row:
    """Return the row of a synthetic city in which IDM drives the AV and all vehicles on lanes."""
    return Row(
        key="state-idm",
        title="IDM and checks, states only, made city",
        unit=_STEP_ROWS,
        prepare=partial(_prepare_idm, make_city=make_city),
    )


def _unroll_row(
    key: str, workload: Workload | VectorWorkload, num_scenes: int, floor: float, *, with_agents: bool = False
) -> Row:
    kind = "raster" if isinstance(workload, Workload) else "vector"
    scenes = "1 scene" if num_scenes == 1 else f"{num_scenes} scenes"
    title = f"unroll {kind}{' with agents' if with_agents else ''}, {scenes}"

    def prepare(place: Workplace) -> PreparedRow:
        start, num_steps = (140, 12) if with_agents else (40, 60 if num_scenes == 1 else 30)
        simulator, frames = _make_simulator(place, workload, num_scenes, (start, num_steps), with_agents)
        from l5kit_bench.straight_models import on_one_thread

        def work() -> int:
            return frames * len(simulator().unroll(list(range(num_scenes))))

        return PreparedRow(partial(on_one_thread, work))

    return Row(key=key, title=title, unit=_FRAMES, prepare=prepare, floor=floor, reference=title)


def _make_simulator(
    place: Workplace, workload: Workload | VectorWorkload, num_scenes: int, frames: tuple[int, int], with_agents: bool
) -> tuple[partial["ClosedLoopSimulator"], int]:
    """Return what makes simulators of copies of the first scene, and how many frames each scene has there."""
    # imported here, so that other rows need no torch
    try:
        import torch
    except ModuleNotFoundError as error:
        raise RowLeftOutError("torch is not installed") from error
    from l5kit.simulation.dataset import SimulationConfig
    from l5kit.simulation.unroll import ClosedLoopSimulator
    from l5kit_bench.straight_models import StraightModel

    scene = SceneRecords.read(place.dataset, 0)
    log = join_scenes([scene] * num_scenes).as_dataset()
    cfg = config_with_files(workload, place.files)
    num_steps = min(frames[1], len(scene.frames))
    far_m = 1000.0 if with_agents else 30.0
    sim_cfg = SimulationConfig(
        use_agents_gt=not with_agents,
        distance_th_far=far_m,
        distance_th_close=far_m,
        start_frame_index=min(frames[0], len(scene.frames) - num_steps),
        num_simulation_steps=num_steps,
    )
    samples = make_samples(workload, cfg, log)
    agents = StraightModel(0.5) if with_agents else None
    make = partial(ClosedLoopSimulator, sim_cfg, samples, torch.device("cpu"), StraightModel(1.1), agents)
    return make, num_steps


def _prepare_metrics(place: Workplace) -> PreparedRow:
    simulator, _ = _make_simulator(place, URBAN_DRIVER, 1, (0, len(place.dataset.frames)), with_agents=False)
    outputs = simulator().unroll([0])
    from l5kit.environment.gym_metric_set import CLEMetricSet
    from l5kit_bench.straight_models import on_one_thread

    def work() -> int:
        metrics = CLEMetricSet()
        for _ in range(place.amounts.num_metric_repeats):
            metrics.evaluate(outputs)
        return place.amounts.num_metric_repeats

    return PreparedRow(partial(on_one_thread, work))


def _prepare_replay(place: Workplace) -> PreparedRow:
    scenes, road = [SceneRecords.read(place.dataset, 0)] * place.amounts.num_simulated_scenes, read_road(place.files)
    return PreparedRow(lambda: check_drive(SceneSimulation(SceneBatch.of_scenes(scenes, road=road)).run()))


def _prepare_scores(place: Workplace) -> PreparedRow:
    scenes, road = [SceneRecords.read(place.dataset, 0)] * place.amounts.num_simulated_scenes, read_road(place.files)
    driven = SceneSimulation(SceneBatch.of_scenes(scenes, road=road)).run()

    def work() -> int:
        scores = score_scenes(driven.ego_states(), driven.road_users(), road.driving, expert=driven.expert())
        return len(scores.score)

    return PreparedRow(work)


def _prepare_idm(place: Workplace, make_city: CityMaker) -> PreparedRow:
    scenes, road = _read_city(place, make_city)
    return PreparedRow(lambda: check_drive(drive_by_idm(SceneBatch.of_scenes(scenes, road=road))))


def _read_city(place: Workplace, make_city: CityMaker) -> tuple[list[SceneRecords], RoadMap]:
    """Return the scenes and the map of a city that is generated for this row."""
    folder: Path = place.scratch / "simulated"
    make_city(folder, place.amounts.num_simulated_scenes)
    files = find_dataset_files(folder)
    log = ChunkedDataset(str(files.dataset)).open()
    return [SceneRecords.read(log, scene) for scene in range(len(log.scenes))], read_road(files)

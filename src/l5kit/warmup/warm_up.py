"""Compilation of the kernels ahead of use, for container images and CI."""

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from l5kit._compiling import CompilationWatch
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.map.api import InterpolationMethod
from l5kit.data.map.opened import open_map
from l5kit.data.map.wire import read_varint
from l5kit.data.progress import Progress
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
from l5kit.device.opening import open_backend
from l5kit.environment.episode_roads import EpisodeRoads
from l5kit.environment.model_actions import choose_controls, scale_actions
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.observations.compact_state import RouteRows, SeenMap, VehicleRows, write_compact_states
from l5kit.environment.observations.compact_view import CompactView
from l5kit.environment.rewards.driving_reward import DrivingReward
from l5kit.environment.rewards.step_reward import DrivenStep
from l5kit.environment.slots.av_slots import AvSlots, ModelMover
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.lane_positions import are_in_several_lanes
from l5kit.evaluation.driving.road_users import classify_rows
from l5kit.evaluation.driving.scene_states import read_road_users
from l5kit.evaluation.epdms.plan_windows import EpdmsParams
from l5kit.evaluation.scene_tags.tag_scenes import tag_scenes
from l5kit.lanes.lane_paths import TrackPoses, straight_paths
from l5kit.lanes.path_positions import follow_routes
from l5kit.lanes.red_lights import LightRows, SceneLights
from l5kit.rasterization.painter import draw_shapes
from l5kit.rasterization.turned_crop import turn_and_scale
from l5kit.sampling.agent_sampling import get_agent_context
from l5kit.simulation.drivers.intelligent import POPULATIONS, IntelligentDriver, intelligent_traffic
from l5kit.simulation.drivers.rule_planner import RulePlanner
from l5kit.simulation.drivers.simple import ConstantVelocity
from l5kit.simulation.engine.agent_control import find_blocked
from l5kit.simulation.engine.appearances import find_gaps_at_appearance
from l5kit.simulation.engine.driven_scenes import score_drives
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation
from l5kit.simulation.lanes.lane_following import SceneRows
from l5kit.simulation.lanes.route_tracking import track_routes
from l5kit.simulation.lanes.track_poses import paths_of_avs
from l5kit.simulation.vehicle_models import KinematicBicycle
from l5kit.simulation.windows.scored_windows import score_windows_of
from l5kit.warmup.small_log import write_small_log
from l5kit.warmup.workloads import (
    AGENT_BOX,
    AGENT_SEMANTIC,
    AGENT_STUB,
    EGO_SEMANTIC,
    SAFEPATHNET,
    URBAN_DRIVER,
    VectorWorkload,
    Workload,
    check_drive,
    config_with_files,
    drive_by_idm,
    make_samples,
    read_road,
)

_BATCH_SIZE = 4


@dataclass(frozen=True)
class WarmUp:
    """Result of a warm-up.

    Attributes:
        seconds: Duration.
        was_cold: Whether any kernel had to be compiled.
        cache_folder: Folder whose subfolders hold the compiled kernels.
    """

    seconds: float
    was_cold: bool
    cache_folder: Path


def warm_up(*, progress: Progress | None = None) -> WarmUp:
    """Compile all kernels for samples, vectors, maps, masks and the closed loop that are not on disk yet.

    The kernels are run once on a log of three seconds in a temporary folder; those needed first are compiled first.

    Args:
        progress: Called with the number of steps done and the total.
    """
    compiled: list[bool] = []
    watch = CompilationWatch(lambda: compiled.append(True))
    watch.start()
    start = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="l5kit-warmup-") as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            steps = _steps(write_small_log(Path(folder)))
            for done, step in enumerate(steps, start=1):
                step()
                if progress is not None:
                    progress(done, len(steps))
    finally:
        watch.stop()
    seconds = time.perf_counter() - start
    # each package has its own kernel folder; the common parent of two distant packages contains all of them
    folders = [str(kernel.stats.cache_path) for kernel in (draw_shapes, read_varint)]
    return WarmUp(seconds, bool(compiled), Path(os.path.commonpath(folders)))


def _steps(files: DatasetFiles) -> list[Callable[[], object]]:
    log = ChunkedDataset(str(files.dataset)).open()
    rasters: tuple[tuple[Workload, dict[str, object]], ...] = (
        (AGENT_SEMANTIC, {}),
        (EGO_SEMANTIC, {"image_dtype": "uint8"}),
        (AGENT_BOX, {"solid_boxes": True}),
        (AGENT_STUB, {}),
    )
    by_distance = {"order_agents_by_distance": True}
    picture, boxes, is_there = np.zeros((9, 9, 3), np.uint8), np.zeros((1, 5)), np.ones(1, np.bool_)
    return [
        partial(_ask_map, files),
        partial(compute_agents_mask, log, MaskThresholds(0.5)),
        *(partial(_draw, workload, files, log, raster_params=values) for workload, values in rasters),
        # rotate an image like an aerial image
        partial(turn_and_scale, picture, 0.1, (6, 6), 4, np.empty((3, 4, 4), np.uint8), upside_down=False),
        *(partial(_draw, workload, files, log) for workload in (URBAN_DRIVER, SAFEPATHNET)),
        partial(_draw, URBAN_DRIVER, files, log, data_generation_params=by_distance),
        partial(_draw, AGENT_STUB, files, log, model_params={"history_step_size": 2, "future_step_size": 2}),
        partial(get_agent_context, 5, log.frames, log.agents, log.tl_faces, 2, 2),
        partial(_drive, files, log),
        # an agent that appears in closed loop, which does not happen in the small log
        partial(find_blocked, np.array([0, 1]), boxes, boxes, is_there, is_there),
        partial(_observe, files, log),
        partial(_reward, files),
    ]


def _ask_map(files: DatasetFiles) -> None:
    """Query a map for lines, bounds and neighbourhoods."""
    semantic_map = open_map(files)
    if semantic_map is None:
        raise InvalidArgumentError(f"a map and meta.json must lie beside {files.dataset}")
    lane = semantic_map.bounds_info["lanes"]["ids"][0]
    for step, method in ((5, InterpolationMethod.INTER_ENSURE_LEN), (1.0, InterpolationMethod.INTER_METER)):
        semantic_map.get_lane_as_interpolation(lane, step, method)
    semantic_map.get_nearest_lane(np.zeros(2))
    semantic_map.get_lanes_within(np.zeros(2), 20.0)


def _draw(
    workload: Workload | VectorWorkload, files: DatasetFiles, log: ChunkedDataset, **changes: Mapping[str, object]
) -> None:
    """Draw a sample and a batch of a workload, with changes to sections of its configuration."""
    cfg = config_with_files(workload, files)
    for section, values in changes.items():
        cfg[section].update(values)
    samples = make_samples(workload, cfg, log)
    samples[0]
    samples.__getitems__(list(range(min(_BATCH_SIZE, len(samples)))))


def _drive(files: DatasetFiles, log: ChunkedDataset) -> None:
    """Simulate a scene in closed loop with the rules of 1.5, the rule-based planner, and IDM, and score it.

    The rows are classified first, as for scenes that are screened before simulation.
    """
    road = read_road(files)
    records = SceneRecords.read(log, 0)
    classify_rows(records.agents["label_probabilities"], records.agents["extent"])
    batch = SceneBatch.of_scenes([records], road=road)
    ego, agents = EgoSeat(ConstantVelocity()), AgentSeat(ConstantVelocity())
    SceneSimulation(batch, ego=ego, agents=agents).run()
    SceneSimulation(batch, ego=EgoSeat(RulePlanner())).run()
    for name in ("yielding", "changing"):
        SceneSimulation(batch, agents=intelligent_traffic(POPULATIONS[name])).run()
    driven = drive_by_idm(batch)
    check_drive(driven)
    for drives in score_drives(driven):
        details = drives.details
        paths, users = paths_of_avs(batch), details.road_users
        find_gaps_at_appearance(details.states, users, paths, path_of_scene=drives.scenes)
        _ = details.gaps_m  # used by user-defined metrics
        score_windows_of(driven, drives, params=EpdmsParams(horizon_s=1.0, past_s=0.5), rules=RulePlanner())
        # rarely used by windows
        are_in_several_lanes(details.states.boxes[:, 0], road.driving)
    read_road_users([driven.arrays(0)])
    tag_scenes(log, open_map(files), scenes=[0])


def _observe(files: DatasetFiles, log: ChunkedDataset) -> None:
    """Run one step of an environment and write the observations of its AV, of several observation types."""
    road, one, layout = read_road(files), np.zeros(1, np.int64), CompactLayout()
    bank = SceneBank(log, road=road, drives_agents=True)
    roads = EpisodeRoads(bank, 1, drives=IntelligentDriver(max_lateral_mps2=1.0))
    limits, controls, is_bad = np.ones((2, 2)), np.zeros((1, 2)), np.zeros(1, np.bool_)
    backend = open_backend("cpu")
    mover = ModelMover(1, KinematicBicycle(), step_time_s=0.1, backend=backend)
    slots = AvSlots(1, mover, size_m=(2.0, 2.0), step_time_s=0.1, roads=roads, backend=backend)
    rows, avs = roads.start(one, one, one + 1), slots.arrays
    slots.start(one, bank.ego_poses[rows - 1], bank.ego_poses[rows])
    slots.move(one, controls)
    CompactView(roads, layout).look(one, avs)
    backend.run(scale_actions, 1, *limits, controls, controls, is_bad)
    backend.run(choose_controls, 1, *limits, np.full(2, 3), one, controls, is_bad)
    follow_routes(bank.paths, one, avs.boxes, roads.now.positions)
    motions = np.zeros((1, 3))
    track_routes(
        *(bank.paths, one, roads.now.positions),
        motions=motions,
        axles_m=np.ones((1, 2)),
        wanted_mps2=np.zeros(1),
        step_s=0.1,
    )
    write_compact_states(
        layout,
        SeenMap.of_map(road.driving),
        VehicleRows(avs.boxes, motions, one),
        seen=(roads.rows(one).scene_rows, roads.lights_before(one)),
        routes=RouteRows(bank.paths, one, roads.now.positions),
        out=np.zeros((1, layout.size), np.float32),
    )


def _reward(files: DatasetFiles) -> None:
    """Compute the reward of one step of an AV on a straight path, with a road user ahead."""
    one, pose, row = np.zeros(1, np.int64), np.zeros((1, 3)), np.array([[3.0, 0.0, 0.0, 4.0, 2.0]])
    track = TrackPoses(np.array([0, 1]), pose[:, :2], pose[:, 2], np.zeros(1))
    motions, arcs_m = np.zeros((1, 4)), np.zeros(1)
    step = DrivenStep(
        *(row, row, motions, motions, pose, pose, arcs_m, arcs_m, pose),
        rows=SceneRows(np.array([0, 1]), one, row, np.zeros((1, 2))),
        track_rows=one,
        paths=straight_paths(track).arrays,
        routes=one,
        lights=LightRows(one, one, SceneLights(np.zeros(2, np.int64), one[:0].astype(np.int8), one[:0], one[:0])),
        step_time_s=0.1,
        driving_map=read_road(files).driving,
    )
    reward = DrivingReward()
    reward.begin(one, step)
    reward.of_step(one, step)

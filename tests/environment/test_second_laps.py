"""A roundabout that the log circles one and a half times: episodes that begin in the second lap follow its route."""

import numpy as np
import pytest

from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.data.scene_records import SceneRecords
from l5kit.environment.actors import choose_actors
from l5kit.environment.episode_roads import AvArrays, EpisodeRoads
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.observations.compact_view import CompactSight
from l5kit.environment.slots.log_slots import LogSlots
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.simulation.dataset import SimulationConfig, SimulationDataset
from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import SceneSimulation
from l5kit.vectorization.vectorizer import Vectorizer
from support.driving import straight_lane
from support.logs import make_agent, make_scene
from support.maps import WORLD_TO_ECEF
from support.vectors import make_vector_cfg

torch = pytest.importorskip("torch")

from l5kit.dataset import EgoDatasetVectorized  # noqa: E402

RADIUS_M, AHEAD_M, NUM_FRAMES = 15.0, 12.0, 220
EXIT_M = 3 * np.pi * RADIUS_M
FIRST = 100
"""A frame of the second lap, which is left 41 m ahead."""


def poses_around(first_m=0.0):
    """Poses 1 m apart around the origin to the left from the x axis on, and out to the south after the second half."""
    along_m = first_m + np.arange(NUM_FRAMES)
    turns = np.minimum(along_m, EXIT_M) / RADIUS_M
    positions_m = RADIUS_M * np.stack([np.cos(turns), np.sin(turns)], axis=-1)
    positions_m[:, 1] -= np.maximum(along_m - EXIT_M, 0.0)
    return positions_m, turns + np.pi / 2


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """The roundabout, of four lanes, and the way out."""
    builder = MapBuilder(WORLD_TO_ECEF)
    for lane in range(4):
        turns = np.linspace(lane, lane + 1, 60) * np.pi / 2
        around = np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=-1)
        ahead = [f"ring-{(lane + 1) % 4}", *(["exit"] if lane == 1 else [])]
        builder.add_lane(f"ring-{lane}", (RADIUS_M - 2) * around, (RADIUS_M + 2) * around, lanes_ahead=ahead)
    builder.add_lane("exit", *straight_lane((-RADIUS_M, 0), (-RADIUS_M, -400)))
    path = tmp_path_factory.mktemp("ring") / "ring.pb"
    builder.save(path)
    return MapAPI(str(path), WORLD_TO_ECEF)


@pytest.fixture(scope="module")
def log():
    """The AV, and a car ahead of it."""
    positions_m, yaws = poses_around()
    car = {"extent": (4.0, 2.0, 1.5), "label": PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]}
    agents = [[make_agent(1, place_m, yaw=yaw, **car)] for place_m, yaw in zip(*poses_around(AHEAD_M), strict=True)]
    return make_scene(agents, positions_m=positions_m, yaws_rad=yaws)


@pytest.fixture(scope="module")
def samples(ring, log):
    cfg = make_vector_cfg(route=True, other_agents_num=3, max_num_lanes=6, max_retrieval_distance_m=60)
    return EgoDatasetVectorized(cfg, log, Vectorizer(cfg, ring))


@pytest.fixture(scope="module")
def bank(ring, log):
    bank = SceneBank(log, road=RoadMap(ring), drives_agents=True)
    bank.prepare(np.zeros(1, np.int64))
    return bank


def batch_of(ring, log, start):
    return SceneBatch.of_scenes([SceneRecords.of_scene_dataset(log)], road=RoadMap(ring), start=start)


def assert_as_in_the_log(columns, samples, frame):
    sample = samples[frame]
    for key in ("route_polyline", "route_lanes", "goal_position"):
        np.testing.assert_allclose(columns[key][0], sample[key], atol=0.02, err_msg=key)
    places = "all_other_agents_route_places"  # except for speeds, which simulations measure
    np.testing.assert_allclose(columns[places][0, :, :2], sample[places][:, :2], atol=0.02)


def test_samples_of_the_second_lap_leave_the_roundabout(samples):
    for frame, is_left in ((FIRST - round(2 * np.pi * RADIUS_M), False), (FIRST, True)):
        sample = samples[frame]
        points_m = sample["route_polyline"][:, :2] @ sample["world_from_agent"][:2, :2].T + sample["centroid"]
        assert (np.hypot(*points_m[-1]) > 30) == is_left


@pytest.mark.parametrize("every", [1, 5], ids=["every frame", "every fifth frame"])
def test_simulations_begin_in_the_lap_of_the_log(ring, log, samples, every):
    simulation = SceneSimulation(batch_of(ring, log, FIRST))
    for frame in range(FIRST, FIRST + 20):
        if (frame - FIRST) % every == 0:
            assert_as_in_the_log(simulation.state().samples(samples), samples, frame)
        simulation.step()


def test_simulated_datasets_begin_in_the_lap_of_the_log(samples):
    cfg = SimulationConfig(use_ego_gt=True, use_agents_gt=True, start_frame_index=FIRST)
    simulated = SimulationDataset.from_dataset_indices(samples, [0], cfg)
    for frame in range(3):
        (sample,) = simulated.rasterise_frame_batch(frame)
        assert_as_in_the_log({key: np.asarray(value)[None] for key, value in sample.items()}, samples, FIRST + frame)


def test_episodes_with_samples_begin_in_the_lap_of_the_log(samples):
    slots = LogSlots(samples, 2, 40)
    for first in (FIRST, 3, FIRST):  # episodes that end early, in the same slot
        slots.start(1, 0, first, 40)
        for frame in range(3):
            columns = slots.look(np.array([1]), np.array([frame]))
            assert_as_in_the_log(columns, samples, first + frame)


def test_compact_sights_begin_in_the_lap_of_the_log(ring, log):
    followed, layout = SceneSimulation(batch_of(ring, log, 0)), CompactLayout(num_route_points=12)
    sight = CompactSight(followed.batch, layout, threshold=0.5)
    for _ in range(FIRST + 1):
        expected, _ = sight.look(followed.state())
        followed.step()
    batch = batch_of(ring, log, FIRST)
    seen, _ = CompactSight(batch, layout, threshold=0.5).look(SceneSimulation(batch).state())
    for part in ("route", "agents", "lanes"):
        np.testing.assert_allclose(layout.split(seen)[part], layout.split(expected)[part], atol=1e-3, err_msg=part)


def avs_at(poses):
    """AVs of 4 m at poses, which go on at 10 m/s."""
    boxes = np.column_stack([poses, np.tile([4.0, 2.0], (len(poses), 1))])
    velocities_mps = 10.0 * np.stack([np.cos(poses[:, 2]), np.sin(poses[:, 2])], axis=-1)
    motions = np.tile([10.0, 0.0, 0.0, 0.0], (len(poses), 1))
    return AvArrays(boxes, velocities_mps, motions, motions.copy())


def test_episodes_begin_in_the_lap_of_the_log(bank):
    roads, slots = EpisodeRoads(bank, 1, drives=None), np.zeros(1, np.int64)
    for first in (FIRST, 2, FIRST):
        roads.start(slots, slots, np.array([first + 1]))
        poses = roads.log_poses(slots)
        roads.enter(slots, avs_at(poses), begins=True)
        np.testing.assert_allclose(roads.now.positions[:, 0], first + 1, atol=0.3)
        np.testing.assert_allclose(roads.now.expert_arcs_m, first + 1, atol=0.3)


def test_actors_begin_in_the_lap_of_the_log(bank):
    actors = choose_actors(bank, 0, range(FIRST, NUM_FRAMES), most=1, only_at_start=False)
    assert actors.expert_arcs_m.shape == (NUM_FRAMES - FIRST, 2)
    np.testing.assert_allclose(actors.expert_arcs_m[:, 1], np.arange(FIRST, NUM_FRAMES), atol=0.3)


def test_vehicles_that_are_driven_leave_in_the_lap_of_the_log(bank):
    roads, slots = EpisodeRoads(bank, 1, drives=IntelligentDriver()), np.zeros(1, np.int64)
    roads.start(slots, slots, np.array([FIRST + 1]))
    for step in range(60):
        avs = avs_at(roads.log_poses(slots))
        roads.enter(slots, avs, begins=step == 0)
        roads.leave(slots, avs)
    (box,) = roads.rows(slots).boxes
    assert box[0] == pytest.approx(-RADIUS_M, abs=0.5)
    assert box[1] < -20


def test_simulations_on_a_device_begin_in_the_lap_of_the_log(bank, backend):
    from l5kit.environment.slots.slot_simulation import SlotSimulation

    simulation = SlotSimulation(bank, 2, model=None, drives=None, backend=backend)
    for first in (FIRST, 2, FIRST):
        simulation.reset([0], [first], [1])
        assert backend.tensor(simulation.roads.now.positions)[1, 0].item() == pytest.approx(first, abs=1.3)

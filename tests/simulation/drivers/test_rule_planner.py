"""Rule-based planner in made situations: what it does about cars, pedestrians, lights and the edge of the road."""

import numpy as np
import pytest

from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.scene_score import score_scenes
from l5kit.evaluation.driving.scene_states import read_road_users
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.simulation.drivers.rule_planner import RulePlanner
from l5kit.simulation.drivers.simple import ConstantVelocity, Standing
from l5kit.simulation.engine.actions import PlannedPoses
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation, SimulationError
from l5kit.simulation.trajectory_tracker import TrackerParams, TrajectoryTracker
from support.driving import LIMIT_MPS, LINE_M, make_lit_road
from support.logs import make_faces, make_scene

LENGTH_M = 4.87
START_M = 20.0


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    return RoadMap(make_lit_road(tmp_path_factory.mktemp("road"), width_m=5.0))


@pytest.fixture(scope="module")
def narrow_road(tmp_path_factory):
    return RoadMap(make_lit_road(tmp_path_factory.mktemp("road"), width_m=2.4))


def drive(road, agents, *, num_frames=150, speed_mps=8.0, faces=(), planner=None):
    """Return the drive of the planner from x = 20 on; ``agents`` gives the rows of a frame."""
    log = make_scene(
        [agents(frame) for frame in range(num_frames)],
        [make_faces(*faces)] * num_frames,
        positions_m=np.column_stack([START_M + 0.1 * speed_mps * np.arange(num_frames), np.zeros(num_frames)]),
    )
    batch = SceneBatch.of_scenes([SceneRecords.read(log, 0)], road=road)
    seat = EgoSeat(planner or RulePlanner())
    driven = SceneSimulation(batch, ego=seat, keeps_plans=True, strict=True).run()
    states = driven.ego_states()
    users = read_road_users([driven.arrays(0)])
    for frame in range(num_frames):
        for row in range(users.starts[frame], users.starts[frame + 1]):
            assert not boxes_overlap(states.boxes[0, frame], users.boxes[row]), f"collision in frame {frame}"
    return states


def nobody(frame):
    return []


def parked_at(x_m, y_m):
    return lambda frame: [{"track_id": 1, "centroid": (x_m, y_m), "extent": (4.0, 2.0, 1.5)}]


def test_on_an_empty_road_it_drives_in_the_middle_as_fast_as_it_may(road):
    states = drive(road, nobody)
    assert np.abs(states.positions_m[0, :, 1]).max() < 0.05
    assert states.speeds_mps[0, -1] > LIMIT_MPS - 0.4
    assert states.speeds_mps[0].max() <= LIMIT_MPS + 1e-6


def test_it_goes_round_a_car_that_stands_half_in_the_lane(road):
    states = drive(road, parked_at(80.0, -1.7))
    assert states.positions_m[0, -1, 0] > 100.0
    assert 0.3 < states.positions_m[0, :, 1].max() < 1.3
    assert abs(states.positions_m[0, -1, 1]) < 0.2


def test_it_stops_behind_a_car_that_fills_the_lane(road):
    states = drive(road, parked_at(80.0, 0.0))
    assert 70.0 < states.positions_m[0, -1, 0] + LENGTH_M / 2 < 78.0
    assert states.speeds_mps[0, -1] < 0.1


def test_where_only_leaving_the_road_would_help_it_stops(narrow_road):
    states = drive(narrow_road, parked_at(80.0, -1.6))
    assert states.positions_m[0, -1, 0] + LENGTH_M / 2 < 78.0
    assert np.abs(states.positions_m[0, :, 1]).max() < 0.35
    assert states.speeds_mps[0, -1] < 0.1


def test_it_brakes_for_somebody_who_crosses_and_drives_on(road):
    def crossing(frame):
        at = (70.0, -9.0 + 0.15 * frame)
        return [{"track_id": 1, "centroid": at, "extent": (0.6, 0.6, 1.7), "velocity": (0.0, 1.5), "label": 14}]

    states = drive(road, crossing)
    assert states.speeds_mps[0].min() < 7.0
    assert states.positions_m[0, -1, 0] > 90.0


@pytest.mark.parametrize(("faces", "passes"), [(["F1"], False), ([], True)], ids=["red", "off"])
def test_it_stops_before_a_red_line(road, faces, passes):
    states = drive(road, nobody, num_frames=220, faces=faces)
    front_m = states.positions_m[0, -1, 0] + LENGTH_M / 2
    if passes:
        assert front_m > LINE_M + 20
    else:
        assert LINE_M - 4.0 < front_m <= LINE_M
        assert states.speeds_mps[0, -1] < 0.05


def test_it_follows_a_slower_car(road):
    def ahead(frame):
        return [{"track_id": 1, "centroid": (50.0 + 0.4 * frame, 0.0), "velocity": (4.0, 0.0)}]

    states = drive(road, ahead)
    assert states.speeds_mps[0, -1] == pytest.approx(4.0, abs=0.3)


def test_in_an_emergency_it_brakes_hard(road):
    def stepping_out(frame):
        person = {"track_id": 1, "centroid": (50.0, 0.0), "extent": (0.6, 0.6, 1.7), "label": 14}
        return [person] if frame >= 20 else []

    states = drive(road, stepping_out, num_frames=80)
    assert states.positions_m[0, 20, 0] + LENGTH_M / 2 > 37.0
    assert states.accelerations_mps2[0, :, 0].min() < -3.5
    assert states.speeds_mps[0, -1] < 0.1


@pytest.mark.parametrize("is_unknown", [False, True], ids=["not seen", "not told apart from clutter"])
def test_it_does_not_set_off_when_the_car_ahead_is_lost_for_a_moment(road, is_unknown):
    car = parked_at(30.0, 0.0)
    unknown = [{**row, "label": PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_UNKNOWN"]} for row in car(0) if is_unknown]
    states = drive(road, lambda frame: unknown if 90 <= frame < 100 else car(frame), num_frames=120, speed_mps=1.0)
    assert states.speeds_mps[0, 85:].max() < 0.1


def test_without_a_map_it_goes_straight_on_as_fast_as_it_was_and_stops_behind_others():
    states = drive(None, nobody, num_frames=60)
    np.testing.assert_allclose(states.speeds_mps[0], 8.0, atol=0.15)
    np.testing.assert_allclose(states.positions_m[0, :, 1], 0.0, atol=1e-9)
    assert drive(None, parked_at(80.0, 0.0)).speeds_mps[0, -1] < 0.1


@pytest.mark.parametrize("speed_mps", [1e6, 1e12])
def test_speeds_that_no_car_has_are_planned_for(road, speed_mps):
    log = make_scene([[]] * 3, positions_m=[(START_M + 0.1 * speed_mps * frame, 0) for frame in range(3)])
    batch = SceneBatch.of_scenes([SceneRecords.read(log, 0)], num_frames=2, road=road)
    driven = SceneSimulation(batch, ego=EgoSeat(RulePlanner(), PlannedPoses())).run()
    assert all("m in one step" in fault.message for fault in driven.faults.values())


def test_beside_all_lanes_it_goes_straight_on(road):
    log = make_scene([()] * 30, positions_m=np.column_stack([np.arange(30.0), np.full(30, 100.0)]))
    batch = SceneBatch.of_scenes([SceneRecords.read(log, 0)], road=road)
    states = SceneSimulation(batch, ego=EgoSeat(RulePlanner()), strict=True).run().ego_states()
    np.testing.assert_allclose(states.positions_m[0, :, 1], 100.0, atol=1e-9)
    assert states.positions_m[0, -1, 0] > 25.0


def test_at_the_end_of_the_lanes_it_stops(road):
    log = make_scene([()] * 150, positions_m=np.column_stack([350.0 + 0.3 * np.arange(150), np.zeros(150)]))
    batch = SceneBatch.of_scenes([SceneRecords.read(log, 0)], road=road)
    states = SceneSimulation(batch, ego=EgoSeat(RulePlanner()), strict=True).run().ego_states()
    assert 390.0 < states.positions_m[0, -1, 0] + LENGTH_M / 2 <= 400.0


@pytest.fixture(scope="module")
def together(scenes, city_road):
    batch = SceneBatch.of_scenes(scenes, road=city_road)
    return SceneSimulation(batch, ego=EgoSeat(RulePlanner()), keeps_plans=True, strict=True).run()


def test_a_scene_does_not_depend_on_its_batch(scenes, city_road, together):
    for number, scene in enumerate(scenes):
        batch = SceneBatch.of_scenes([scene], road=city_road)
        alone = SceneSimulation(batch, ego=EgoSeat(RulePlanner()), keeps_plans=True, strict=True).run()
        assert alone.records(0).frames.tobytes() == together.records(number).frames.tobytes()
        np.testing.assert_array_equal(alone.plans[0], together.plans[number])


class AskedTwice:
    """Planner that is called for all scenes, then for each alone, as after an error in one of them."""

    def drive(self, state):
        first = RulePlanner().drive(state).values
        for scene in range(len(state)):
            np.testing.assert_array_equal(RulePlanner().drive(state.only(scene)).values[0], first[scene])
        return RulePlanner().drive(state)


def test_asked_again_it_says_the_same(scenes, city_road):
    batch = SceneBatch.of_scenes(scenes, road=city_road, num_frames=40)
    twice, once = (
        SceneSimulation(batch, ego=EgoSeat(driver), strict=True).run() for driver in (AskedTwice(), RulePlanner())
    )
    np.testing.assert_array_equal(twice.ego_states().positions_m, once.ego_states().positions_m)


def test_in_a_made_city_it_scores_above_0_8_and_above_simple_drivers(scenes, city_road, together):
    def score(driven):
        users = read_road_users([driven.arrays(scene) for scene in range(len(scenes))])
        return score_scenes(driven.ego_states(), users, city_road.driving, expert=driven.expert()).score.mean()

    others = [
        SceneSimulation(SceneBatch.of_scenes(scenes, road=city_road), ego=EgoSeat(driver), strict=True).run()
        for driver in (Standing(), ConstantVelocity())
    ]
    assert score(together) > max(0.8, *map(score, others))


def test_it_drives_no_agents(scenes, city_road):
    batch = SceneBatch.of_scenes(scenes[:1], road=city_road)
    with pytest.raises(SimulationError, match="RulePlanner drives AVs only"):
        SceneSimulation(batch, agents=AgentSeat(RulePlanner()), strict=True).run()


@pytest.mark.parametrize(
    "values",
    [
        {"offsets_m": ()},
        {"offsets_m": (0.0, np.nan)},
        {"speed_parts": ()},
        {"speed_parts": (1.0, 0.0)},
        {"unknown_limit_mps": -1.0},
        {"tracker": TrajectoryTracker(params=TrackerParams(step_time_s=0.2))},
    ],
    ids=lambda values: f"{values}"[:30],
)
def test_wrong_values(values):
    with pytest.raises(InvalidArgumentError, match=f"RulePlanner: .*{next(iter(values))}"):
        RulePlanner(**values)

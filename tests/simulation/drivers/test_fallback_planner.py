"""Planner with a fallback: plans it overrules, plans it accepts, and stationary AVs that it starts."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.data.scene_records import SceneRecords
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.scene_states import read_road_users
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.simulation.drivers.fallback_planner import FallbackPlanner
from l5kit.simulation.drivers.rule_planner import RulePlanner
from l5kit.simulation.drivers.simple import ConstantVelocity, FullThrottle, Replay, Standing
from l5kit.simulation.engine.actions import Actions, Controls
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation, SimulationError
from l5kit.simulation.vehicle_models import KinematicBicycle
from support.driving import LIMIT_MPS, LINE_M, make_lit_road
from support.logs import make_faces, make_scene

LENGTH_M = 4.87
WIDTH_M = 1.85
START_M = 20.0


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    return RoadMap(make_lit_road(tmp_path_factory.mktemp("road"), width_m=5.0))


def run(planner, road, agents=lambda frame: [], *, num_frames=120, speed_mps=8.0, faces=(), strict=True):
    """Return the driven scene of a log along the road from x = 20 on; ``agents`` gives the rows of a frame."""
    log = make_scene(
        [agents(frame) for frame in range(num_frames)],
        [make_faces(*faces)] * num_frames,
        positions_m=np.column_stack([START_M + 0.1 * speed_mps * np.arange(num_frames), np.zeros(num_frames)]),
    )
    batch = SceneBatch.of_scenes([SceneRecords.read(log, 0)], road=road)
    return SceneSimulation(batch, ego=EgoSeat(planner), keeps_plans=True, strict=strict).run()


def share_of_fallback(driven):
    """Return which part of the steps the fallback drove."""
    steps = driven.by_fallback[driven.by_fallback >= 0]
    return steps.mean()


def front_m(driven):
    return driven.ego_states().positions_m[0, -1, 0] + LENGTH_M / 2


def slow_car(frame):
    return [{"track_id": 1, "centroid": (50.0 + 0.4 * frame, 0.0), "velocity": (4.0, 0.0)}]


def parked_car(frame):
    return [{"track_id": 1, "centroid": (80.0, 0.0), "extent": (4.0, 2.0, 1.5)}]


@dataclass(frozen=True)
class Swerving:
    """Goes on at its speed, and to the left all the time."""

    num_steps: int = 40

    def drive(self, state):
        ahead_m = 0.1 * state.ego.speeds_mps[:, None] * np.arange(1, self.num_steps + 1)
        yaws_rad = np.full(ahead_m.shape, 0.15)
        positions_m = state.ego.positions_m[:, None] + np.stack([ahead_m, 0.15 * ahead_m], axis=-1)
        return Actions(np.concatenate([positions_m, yaws_rad[..., None]], axis=-1))


@pytest.mark.parametrize(
    ("planner", "agents", "faces", "stops_before_m"),
    [
        pytest.param(ConstantVelocity(), parked_car, (), 78.0, id="a car that stands"),
        pytest.param(FullThrottle(), slow_car, (), np.inf, id="a slower leader"),
        pytest.param(ConstantVelocity(), lambda frame: [], ["F1"], LINE_M + 0.5, id="a red line"),
        pytest.param(Swerving(), lambda frame: [], (), np.inf, id="the edge of the road"),
    ],
)
def test_plans_with_a_fault_are_overruled(road, planner, agents, faces, stops_before_m):
    alone, driven = (
        run(each, road, agents, num_frames=200, faces=faces) for each in (planner, FallbackPlanner(planner))
    )
    users, states = read_road_users([driven.arrays(0)]), driven.ego_states()
    for frame in range(200):
        for row in range(users.starts[frame], users.starts[frame + 1]):
            assert not boxes_overlap(states.boxes[0, frame], users.boxes[row]), f"collision in frame {frame}"
    assert front_m(driven) < stops_before_m
    assert np.abs(states.boxes[0, :, 1]).max() < 2.5 - 0.9  # half of the road less half of the car
    assert share_of_fallback(driven) > 0
    # the planner alone does what it is overruled for
    far_off_m = np.abs(alone.ego_states().positions_m[0, :, 1]).max()
    assert front_m(alone) > min(stops_before_m, front_m(driven) + 20) or far_off_m > 5


@pytest.mark.parametrize(("gap_m", "is_overruled"), [(0.25, True), (0.35, False)])
def test_a_given_plan_keeps_0_3_m_from_what_it_passes(road, gap_m, is_overruled):
    aside_m = WIDTH_M / 2 + gap_m + 1.0
    parked = [{**parked_car(0)[0], "centroid": (80.0, aside_m)}]
    driven = run(FallbackPlanner(ConstantVelocity(40)), road, lambda frame: parked)
    assert (share_of_fallback(driven) > 0) == is_overruled


def test_plans_without_a_fault_are_driven_to_the_bit(road):
    alone, driven = (run(each, road) for each in (ConstantVelocity(40), FallbackPlanner(ConstantVelocity(40))))
    assert share_of_fallback(driven) == 0.0
    assert driven.by_fallback[0, -1] == -1  # no plan in the last frame
    assert (alone.by_fallback == -1).all()
    assert_allclose(driven.ego_states().positions_m, alone.ego_states().positions_m, atol=1e-6)
    assert_allclose(driven.plans, alone.plans, atol=1e-5)


def test_the_log_itself_is_hardly_overruled(road):
    """It follows a vehicle and passes a car that is parked next to the lane."""

    def others(frame):
        leader = {"track_id": 2, "centroid": (START_M + 25.0 + 0.8 * frame, 0.0), "velocity": (8.0, 0.0)}
        return [{"track_id": 1, "centroid": (80.0, -3.6), "extent": (4.0, 2.0, 1.5)}, leader]

    driven = run(FallbackPlanner(Replay(40)), road, others)
    assert share_of_fallback(driven) < 0.05
    from_log_m = np.abs(driven.ego_states().positions_m - driven.expert().positions_m)
    assert from_log_m[:, :-15].max() < 0.5  # its plans stop where the log ends


def test_an_av_that_stays_though_the_way_is_free_is_started_and_driven_on(road):
    driven = run(FallbackPlanner(Standing()), road, speed_mps=0.0, num_frames=200)
    assert driven.ego_states().speeds_mps[0, -1] > LIMIT_MPS - 1.0
    assert share_of_fallback(driven) > 0.9
    assert not driven.by_fallback[0, :10].any()
    near = [{**parked_car(0)[0], "centroid": (START_M + 9.0, 0.0)}]
    waits = run(FallbackPlanner(Standing()), road, lambda frame: near, speed_mps=0.0)
    assert front_m(waits) < START_M + LENGTH_M / 2 + 2.0


class Late:
    """Stays for 2 s, then goes at 5 m/s."""

    def drive(self, state):
        goes = state.frame_indices[0] >= 20
        ahead_m = 0.5 * np.arange(1.0, 41.0)[None] * goes
        poses = np.stack([state.ego.positions_m[:, :1] + ahead_m, 0 * ahead_m, 0 * ahead_m], axis=-1)
        return Actions(poses)


def test_a_planner_that_goes_on_itself_gets_the_wheel_back(road):
    by_fallback = run(FallbackPlanner(Late()), road, speed_mps=0.0, num_frames=60).by_fallback[0, :-1]
    assert_array_equal(by_fallback, (np.arange(59) >= 10) & (np.arange(59) < 20))


def test_a_scene_does_not_depend_on_its_batch_and_may_be_asked_twice(scenes, city_road):
    planner = FallbackPlanner(FullThrottle())

    class Twice:
        def drive(self, state):
            first = planner.drive(state)
            assert_array_equal(planner.drive(state.only(0)).values[0], first.values[0])
            return planner.drive(state)

    def drive(chosen, driver):
        batch = SceneBatch.of_scenes(chosen, road=city_road, num_frames=60)
        return SceneSimulation(batch, ego=EgoSeat(driver), strict=True).run()

    together = drive(scenes, planner)
    assert_array_equal(drive(scenes, Twice()).by_fallback, together.by_fallback)
    for number, scene in enumerate(scenes):
        alone = drive([scene], planner)
        assert alone.records(0).frames.tobytes() == together.records(number).frames.tobytes()
        assert_array_equal(alone.by_fallback[0], together.by_fallback[number])


class Bend:
    """Plans a circle of 20 m to the left at 5 m/s, for some steps of some length."""

    def __init__(self, num_steps, step_s=0.1):
        self.times_s = step_s * np.arange(1, num_steps + 1)

    def drive(self, state):
        turns_rad = 5.0 * self.times_s / 20.0
        poses = np.stack([START_M + 20 * np.sin(turns_rad), 20 - 20 * np.cos(turns_rad), turns_rad], axis=-1)
        return Actions(np.repeat(poses[None], len(state), axis=0), self.times_s)


@pytest.mark.parametrize(("num_steps", "step_s"), [(40, 0.1), (8, 0.1), (30, 0.25)], ids=["4 s", "0.8 s", "7.5 s"])
def test_a_plan_is_read_in_steps_of_0_1_s_and_goes_on_as_it_ends(num_steps, step_s):
    plans = run(FallbackPlanner(Bend(num_steps, step_s)), None, num_frames=2, speed_mps=5.0).plans[0, 0]
    turns_rad = 5.0 * 0.1 * np.arange(1, 41) / 20.0
    expected = np.stack([START_M + 20 * np.sin(turns_rad), 20 - 20 * np.cos(turns_rad), turns_rad], axis=-1)
    assert_allclose(plans, expected, atol=0.02)


@dataclass(frozen=True)
class Pedals:
    """Bicycle controls: brake, or continue."""

    acceleration_mps2: float

    def drive(self, state):
        return Actions(np.tile([self.acceleration_mps2, 0.0], (len(state), 1)))


@pytest.mark.parametrize(("acceleration_mps2", "final_mps"), [(-1.0, 3.0), (0.0, 8.0)], ids=["brakes", "goes on"])
def test_controls_are_carried_out_as_plans(road, acceleration_mps2, final_mps):
    planner = FallbackPlanner(Pedals(acceleration_mps2), controls=Controls(KinematicBicycle()))
    driven = run(planner, road, num_frames=51)
    assert share_of_fallback(driven) == 0.0
    assert driven.ego_states().speeds_mps[0, -1] == pytest.approx(final_mps, abs=1.0)
    with pytest.raises(SimulationError, match=r"planner Pedals gives controls .* pass controls with their"):
        run(FallbackPlanner(Pedals(0.0)), road)


class Failing:
    """Goes on, and fails in frame 5."""

    def __init__(self, fault):
        self.fault = fault

    def drive(self, state):
        actions = ConstantVelocity().drive(state)
        if state.frame_indices[0] == 5 and self.fault == "raises":
            raise ValueError("out of ideas")
        if state.frame_indices[0] == 5:
            actions.values[0, 3] = np.nan
        return actions


@pytest.mark.parametrize(
    ("fault", "message"),
    [("raises", r"FallbackPlanner: ValueError: out of ideas \(line \d+ of .*test_fallback"), ("nan", "are not finite")],
)
def test_a_planner_that_fails_fails_as_it_does_alone(road, fault, message):
    with pytest.raises(SimulationError, match=f"frame 5: .*{message}"):
        run(FallbackPlanner(Failing(fault)), road, num_frames=10)


def test_it_drives_no_agents_and_takes_no_plan_that_ends_at_once(scenes, city_road, road):
    batch = SceneBatch.of_scenes(scenes[:1], road=city_road)
    with pytest.raises(SimulationError, match="FallbackPlanner drives AVs only"):
        SceneSimulation(batch, agents=AgentSeat(FallbackPlanner(Standing())), strict=True).run()
    with pytest.raises(SimulationError, match=r"plans end at 0\.05 s; they must reach 0\.1 s"):
        run(FallbackPlanner(Bend(1, 0.05)), road, num_frames=3)
    with pytest.raises(InvalidArgumentError, match="is_fallback must be one bool for each of 2 vehicles"):
        Actions(np.zeros((2, 3, 3)), is_fallback=np.zeros(3, np.bool_))


def test_rules_behind_themselves_are_rules(scenes, city_road):
    batch = SceneBatch.of_scenes(scenes, road=city_road, num_frames=40)
    twice, once = (
        SceneSimulation(batch, ego=EgoSeat(driver), strict=True).run().ego_states()
        for driver in (FallbackPlanner(RulePlanner()), RulePlanner())
    )
    assert_allclose(twice.positions_m, once.positions_m, atol=1e-3)

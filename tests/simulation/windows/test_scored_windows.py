"""Windows of driven scenes: where they begin, how plans are rolled out, and what they are among."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.data.scene_records import SceneRecords
from l5kit.evaluation.epdms import TERMS, EpdmsParams
from l5kit.simulation.drivers.intelligent import IntelligentDriver, intelligent_traffic
from l5kit.simulation.drivers.rule_planner import RulePlanner
from l5kit.simulation.drivers.simple import ConstantVelocity, Replay
from l5kit.simulation.engine.actions import Actions, Controls, PlannedPoses
from l5kit.simulation.engine.driven_scenes import score_drives
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import EgoSeat, SceneSimulation
from l5kit.simulation.vehicle_models import Unicycle
from l5kit.simulation.windows.drive_windows import (
    driven_in_all_frames,
    find_window_starts,
    follow_plans,
    kept_plans_of,
    plan_by_rules,
    present_states,
)
from l5kit.simulation.windows.scored_windows import score_windows_of

PARAMS = EpdmsParams()
NUM_STEPS = PARAMS.num_steps


@pytest.fixture(scope="module")
def scenes(city):
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    return [SceneRecords.read(log, scene) for scene in range(len(log.scenes))]


@pytest.fixture(scope="module")
def road(city):
    return RoadMap(open_map(find_dataset_files(city)))


def drive(scenes, road, ego, agents=None, *, start=0, num_frames=None):
    """Driven scenes of one length, and those that are scored."""
    batch = SceneBatch.of_scenes(scenes, start=start, num_frames=num_frames, road=road)
    driven = SceneSimulation(batch, ego=ego, agents=agents, keeps_plans=True).run()
    (drives,) = score_drives(driven)
    return driven, drives


class SlowingDown:
    """Plans to brake by 1 m/s2, poses of 4 s."""

    def drive(self, state):
        times_s = 0.1 * np.arange(1, 41)
        now = state.actor_states
        ways_m = np.maximum(now.speeds_mps[:, None] * times_s - times_s**2 / 2, 0.0)
        headings = np.stack([np.cos(now.yaws_rad), np.sin(now.yaws_rad)], axis=-1)
        positions_m = now.positions_m[:, None] + ways_m[..., None] * headings[:, None]
        yaws_rad = np.broadcast_to(now.yaws_rad[:, None, None], (*ways_m.shape, 1))
        return Actions(np.concatenate([positions_m, yaws_rad], axis=-1))


@pytest.mark.parametrize(
    ("start", "num_frames", "firsts"),
    [
        pytest.param(0, None, range(15, 60, 5), id="1.5 s behind the begin of the log, 4 s before its end"),
        pytest.param(10, None, range(15, 60, 5), id="the past before the start counts"),
        pytest.param(12, None, range(17, 60, 5), id="every 0.5 s from the start on"),
        pytest.param(20, 41, [20], id="one that just fits"),
        pytest.param(20, 40, [], id="none"),
    ],
)
def test_windows_have_their_past_and_their_future(scenes, road, start, num_frames, firsts):
    driven, drives = drive(scenes, road, None, start=start, num_frames=num_frames)
    places = find_window_starts(driven, drives, PARAMS)
    size = len(firsts)
    assert places.scene_frames.tolist() == 3 * list(firsts)
    assert (places.scene_frames - places.frames == start).all()
    assert places.rows.tolist() == [scene for scene in range(3) for _ in firsts]
    if size:
        ends = [-1 if window % size == size - 1 else window + 1 for window in range(3 * size)]
        assert places.following.tolist() == ends
    found = score_windows_of(driven, drives, rules=RulePlanner())
    assert len(found.scores) == 3 * size
    assert set(found.terms) == {term.name for term in TERMS}


def test_a_plan_that_is_kept_to_is_where_the_av_comes(scenes, road):
    """Straight on with one speed: the roll-out of each plan is what the simulation drives."""
    driven, drives = drive(scenes, road, EgoSeat(ConstantVelocity(40)))
    places = find_window_starts(driven, drives, PARAMS)
    whole = driven_in_all_frames(driven, drives)
    present = present_states(driven, whole, places)
    plans, planned = kept_plans_of(driven, places, present, NUM_STEPS)
    assert (planned == 1).all()
    states = follow_plans(plans, present, driven.batch.body)
    expected = whole.windows(places.rows, places.scene_frames, NUM_STEPS + 1)
    assert_allclose(states.positions_m, expected.positions_m, atol=0.05)
    assert_allclose(states.speeds_mps, expected.speeds_mps, atol=0.02)


def test_a_window_begins_with_the_state_of_the_vehicle(scenes, road):
    driven, drives = drive(scenes, road, EgoSeat(Replay(40)), start=10)
    places = find_window_starts(driven, drives, PARAMS)
    present = present_states(driven, driven_in_all_frames(driven, drives), places)
    rows = places.scenes, places.frames
    assert_array_equal(present.steering_rad, driven.motion.steering_rad[rows])
    assert_array_equal(present.speeds_mps, driven.motion.speeds_mps[rows])
    assert np.abs(present.steering_rad).max() > 0.01
    # the next step of the simulation is the first of the roll-out of this plan
    plans, _ = kept_plans_of(driven, places, present, NUM_STEPS)
    states = follow_plans(plans, present, driven.batch.body)
    after_m = drives.details.states.positions_m[places.rows, places.frames + 1]
    assert_allclose(states.positions_m[:, 1], after_m, atol=1e-9)


def test_without_a_vehicle_steering_is_that_of_the_poses(scenes, road):
    replayed, drives = drive(scenes, road, None)
    places = find_window_starts(replayed, drives, PARAMS)
    present = present_states(replayed, driven_in_all_frames(replayed, drives), places)
    followed, of_followed = drive(scenes, road, EgoSeat(Replay(40)))
    of_vehicle = present_states(followed, driven_in_all_frames(followed, of_followed), places)
    assert_allclose(present.steering_rad, of_vehicle.steering_rad, atol=0.1)
    assert_allclose(present.speeds_mps, of_vehicle.speeds_mps, atol=1.0)


def test_plans_that_end_before_go_on_and_say_so(scenes, road):
    whole, short = (
        score_windows_of(*drive(scenes, road, EgoSeat(ConstantVelocity(num_steps)))) for num_steps in (40, 12)
    )
    assert (whole.planned == 1.0).all()
    assert_allclose(short.planned, 0.3)
    for term in TERMS:
        assert_array_equal(short.terms[term.name], whole.terms[term.name], err_msg=term.name)


class Coasting:
    """Gives controls: neither accelerates nor turns."""

    def drive(self, state):
        return Actions(np.zeros((len(state), 2)))


@pytest.mark.parametrize("ego", [None, EgoSeat(Coasting(), Controls(Unicycle()))], ids=["replay", "controls"])
def test_without_plans_windows_are_what_was_driven(scenes, road, ego):
    driven, drives = drive(scenes, road, ego)
    found = score_windows_of(driven, drives, rules=RulePlanner())
    assert (found.planned == 0.0).all()
    assert_array_equal(np.isnan(found.terms["epdms_extended_comfort"]).sum(), 3)  # the last one of each scene


def test_the_log_is_near_1(scenes, road):
    driven, drives = drive(scenes, road, None)
    found = score_windows_of(driven, drives, rules=RulePlanner())
    assert found.scores.mean() > 0.9
    for name in ("no_at_fault_collisions", "drivable_area_compliance", "driving_direction_compliance"):
        assert (found.terms[f"epdms_{name}"] == 1.0).all()


def test_a_batch_is_its_scenes_one_by_one(scenes, road):
    """To the bit: other vehicles react, plans are followed, and compared with rules."""
    ego = EgoSeat(SlowingDown())
    together = score_windows_of(*drive(scenes, road, ego, intelligent_traffic()), rules=RulePlanner())
    for scene in range(3):
        alone = score_windows_of(
            *drive(scenes[scene : scene + 1], road, ego, intelligent_traffic()), rules=RulePlanner()
        )
        is_of = together.scenes == scene
        assert_array_equal(alone.frames, together.frames[is_of])
        assert_array_equal(alone.scores, together.scores[is_of])
        for term in TERMS:
            assert_array_equal(alone.terms[term.name], together.terms[term.name][is_of], err_msg=term.name)


def test_rules_plan_each_window_by_itself(scenes, road):
    driven, drives = drive(scenes, road, EgoSeat(SlowingDown()))
    places = find_window_starts(driven, drives, PARAMS)
    present = present_states(driven, driven_in_all_frames(driven, drives), places)
    plans = plan_by_rules(driven, places, present, rules=RulePlanner(), num_steps=NUM_STEPS)
    assert_array_equal(plans[:, 0, :2], present.positions_m)
    for window in (4, 13):
        row = np.array([window])
        only = replace(
            places,
            **{name: getattr(places, name)[row] for name in ("rows", "scenes", "frames", "scene_frames", "following")},
        )
        alone = plan_by_rules(driven, only, present.taken(row), rules=RulePlanner(), num_steps=NUM_STEPS)
        assert_array_equal(alone[0], plans[window])


def test_slower_plans_have_less_progress_than_rules(scenes, road):
    driven, drives = drive(scenes, road, EgoSeat(IntelligentDriver(limit_part=0.3), PlannedPoses()))
    compared, alone = (score_windows_of(driven, drives, rules=rules) for rules in (RulePlanner(), None))
    name = "epdms_progress"
    assert (alone.terms[name] == 1.0).mean() > 0.9
    assert 0.6 < compared.terms[name].min() < 0.8


def test_without_a_map_what_needs_none_is_scored(scenes):
    found = score_windows_of(*drive(scenes, None, EgoSeat(SlowingDown())), rules=RulePlanner())
    for term in TERMS:
        assert np.isnan(found.terms[term.name]).all() == term.needs_map, term.name
    assert np.isfinite(found.scores).all()

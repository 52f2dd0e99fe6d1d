"""Tags of made situations without a map, each just inside and just outside its threshold.

The AV is 4 x 2 m and its frames are 0.1 s apart.
"""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.evaluation.scene_tags.neighbour_tags import tag_neighbours
from l5kit.evaluation.scene_tags.tag_scenes import tag_motion
from l5kit.evaluation.scene_tags.tag_table import TagThresholds
from support.driving import drive_along, road_users_at, straight_drive

DEFAULTS = TagThresholds()


def drive_of_speeds(speeds_mps):
    """Return a drive along x with a given speed for each frame."""
    way_m = np.concatenate([[0.0], np.cumsum(np.array(speeds_mps[:-1], float) * 0.1)])
    return drive_along(np.column_stack([way_m, 0 * way_m]), 0 * way_m)


def turning_drive(turn_deg, *, num_frames=61):
    """Return a drive of 6 s whose heading changes by as much, evenly between 1 s and 5 s."""
    yaws = np.radians(turn_deg) * np.clip((np.arange(num_frames) - 10) / 40, 0, 1)
    steps_m = 0.5 * np.column_stack([np.cos(yaws), np.sin(yaws)])
    return drive_along(np.cumsum(steps_m, axis=0), yaws)


@pytest.mark.parametrize(
    ("turn_deg", "left", "right"), [(46, 1, 0), (44, 0, 0), (-46, 0, 1), (-44, 0, 0), (200, 1, 0)], ids=str
)
def test_turns(turn_deg, left, right):
    found = tag_motion(turning_drive(turn_deg), DEFAULTS)
    assert (len(found["left_turn"]), len(found["right_turn"])) == (left, right)
    for begin, end in [*found["left_turn"], *found["right_turn"]]:
        assert 5 <= begin <= 10
        assert 50 <= end <= 57


def test_a_heading_that_changes_slowly_is_no_turn():
    """100 degrees in 30 s are 3.3 a second."""
    yaws = np.radians(np.linspace(0, 100, 301))
    steps_m = np.column_stack([np.cos(yaws), np.sin(yaws)])
    assert len(tag_motion(drive_along(np.cumsum(steps_m, axis=0), yaws), DEFAULTS)["left_turn"]) == 0


@pytest.mark.parametrize(
    ("num_standing", "speed_mps", "expected"),
    [(23, 0.0, 1), (17, 0.0, 0), (23, 0.29, 1), (23, 0.31, 0)],
    ids=["2 s", "shorter", "just below", "too fast"],
)
def test_standing(num_standing, speed_mps, expected):
    states = drive_of_speeds([5.0] * 10 + [speed_mps] * num_standing + [5.0] * 10)
    assert len(tag_motion(states, DEFAULTS)["standing"]) == expected


@pytest.mark.parametrize(("brake_mps2", "expected"), [(3.2, 1), (2.8, 0)])
def test_hard_brakes(brake_mps2, expected):
    braked_mps = 15.0 - brake_mps2 * 0.1 * np.arange(25)
    states = drive_of_speeds([15.0] * 20 + braked_mps.tolist() + [braked_mps[-1]] * 20)
    found = tag_motion(states, DEFAULTS)["hard_brake"]
    assert len(found) == expected
    for begin, end in found:
        assert 15 <= begin <= 26
        assert 38 <= end <= 48


def test_a_single_frame_has_no_tag_of_motion_or_of_others():
    found = tag_motion(straight_drive(1), DEFAULTS) | tag_neighbours(
        straight_drive(1), road_users_at([[{"at": (0.0, 2.1), "v": (9.0, 0.0)}]]), DEFAULTS
    )
    assert {name for name, runs in found.items() if len(runs)} == set()


def near(other, *, ego_mps=5.0):
    states = straight_drive(3, speed_mps=ego_mps)
    return tag_neighbours(states, road_users_at([[], [other], []]), DEFAULTS)


@pytest.mark.parametrize(
    ("other", "ego_mps", "expected"),
    [
        pytest.param({"at": (0.5, 2.99), "v": (-3.0, 0)}, 5.0, 1, id="gap of 0.99 m"),
        pytest.param({"at": (0.5, 3.01), "v": (-3.0, 0)}, 5.0, 0, id="gap of 1.01 m"),
        pytest.param({"at": (0.5, 2.5), "v": (7.1, 0)}, 5.0, 1, id="2.1 m/s faster"),
        pytest.param({"at": (0.5, 2.5), "v": (6.9, 0)}, 5.0, 0, id="1.9 m/s faster"),
        pytest.param({"at": (0.5, 2.5), "v": (0.9, 0)}, 5.0, 0, id="parked"),
        pytest.param({"at": (0.1, 2.5), "v": (5.0, 0)}, 0.9, 0, id="AV stands"),
    ],
)
def test_close_passes(other, ego_mps, expected):
    found = near(other, ego_mps=ego_mps)["close_pass"]
    assert_array_equal(found, [[1, 2]] * expected if expected else np.zeros((0, 2)))


@pytest.mark.parametrize(
    ("gap_m", "group", "expected"),
    [(1.99, RoadUserGroup.VULNERABLE, 1), (2.01, RoadUserGroup.VULNERABLE, 0), (1.0, RoadUserGroup.VEHICLE, 0)],
)
def test_pedestrians_and_cyclists_near(gap_m, group, expected):
    walker = {"at": (0.5, 1.0 + gap_m + 0.25), "size": (0.5, 0.5), "group": group}
    assert len(near(walker)["vulnerable_near"]) == expected


def cut_in(*, ahead_m=10.0, from_m=3.5, to_m=0.9, over_s=2.0, yaw=0.0, speed_mps=10.0):
    """Return the cut-ins of a drive of 12 s, 10 m/s, where a car moves aside from 2 s on."""
    states = straight_drive(120)
    part = np.clip((np.arange(120) * 0.1 - 2.0) / over_s, 0, 1)
    frames = [
        [{"at": (frame + 4.0 + ahead_m, from_m + part[frame] * (to_m - from_m)), "v": (speed_mps, 0), "yaw": yaw}]
        for frame in range(120)
    ]
    return tag_neighbours(states, road_users_at(frames), DEFAULTS)["cut_in"]


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        pytest.param({}, 1, id="into the way"),
        pytest.param({"to_m": 1.1}, 0, id="stays 1.1 m beside it"),
        pytest.param({"from_m": 1.9}, 0, id="was never beside it"),
        pytest.param({"from_m": -3.5}, 1, id="from the right"),
        pytest.param({"ahead_m": 19.9}, 1, id="19.9 m ahead"),
        pytest.param({"ahead_m": 20.1}, 0, id="20.1 m ahead"),
        pytest.param({"ahead_m": -0.1}, 0, id="not ahead"),
        pytest.param({"over_s": 8.0}, 0, id="from 2 m to 1 m in more than 3 s"),
        pytest.param({"yaw": np.radians(44)}, 1, id="44 degrees"),
        pytest.param({"yaw": np.radians(46)}, 0, id="crosses"),
        pytest.param({"speed_mps": 0.9}, 0, id="said to stand"),
    ],
)
def test_cut_ins(situation, expected):
    found = cut_in(**situation)
    assert len(found) == expected
    if expected and not situation:
        assert found.tolist() == [[40, 41]]  # 3.5 - 2.6 * (t - 2) / 2 is 0.9 at 4 s and 1.03 one frame before


@pytest.mark.parametrize(("num_frames", "expected"), [(60, 0), (80, 1)], ids=["ends before", "goes on"])
def test_cut_ins_beyond_the_end_of_the_way_of_the_av_are_not_known(num_frames, expected):
    """The car is in the way from x = 62 on; the AV gets to 59 or 79."""
    frames = [[{"at": (12.0 + frame, 3.5 if frame < 50 else 0.5), "v": (10.0, 0)}] for frame in range(num_frames)]
    found = tag_neighbours(straight_drive(num_frames), road_users_at(frames), DEFAULTS)["cut_in"]
    assert found.tolist() == [[50, 51]] * expected


def test_thresholds_that_cannot_be_are_refused():
    with pytest.raises(InvalidArgumentError, match="turn_deg must be finite and at least 0, got -1"):
        TagThresholds(turn_deg=-1.0)
    with pytest.raises(InvalidArgumentError, match="cut_in_inside_m below cut_in_beside_m, got"):
        TagThresholds(cut_in_inside_m=2.0)

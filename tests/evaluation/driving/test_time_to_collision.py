"""Time to collision of made situations.

The AV is 4 x 2 m and looks along x from the origin; cars are 4 x 2 m, so that centres meet 4 m before each other.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.collisions import find_collisions
from l5kit.evaluation.driving.lane_positions import LanePositions
from l5kit.evaluation.driving.time_to_collision import LookAhead, find_times_to_collision, time_to_collision
from support.driving import road_users_at, straight_drive

INF = np.inf


def times_of(frames, *, num_frames=2, speed_mps=10.0, is_across=False, is_in_junction=False, look=None):
    states = straight_drive(num_frames, speed_mps=speed_mps)
    shape = states.is_there.shape
    places = LanePositions(np.full(shape, -1), np.full(shape, is_across), np.full(shape, is_in_junction))
    others = road_users_at(frames)
    return find_times_to_collision(states, others, places, find_collisions(states, others, places), look=look)[0]


@pytest.mark.parametrize(
    ("other", "speed_mps", "expected_s"),
    [
        pytest.param({"at": (13.95, 0)}, 10.0, 1.0, id="stands 10 m ahead"),
        pytest.param({"at": (14.5, 0)}, 10.0, 1.1, id="stands between two looks"),
        pytest.param({"at": (13.95, 0), "v": (10.0, 0)}, 10.0, INF, id="same speed"),
        pytest.param({"at": (13.95, 0), "v": (5.0, 0)}, 10.0, 2.0, id="half the speed"),
        pytest.param({"at": (23.95, 0), "yaw": np.pi, "v": (-10.0, 0)}, 10.0, 1.0, id="comes towards"),
        pytest.param({"at": (32.95, 0)}, 10.0, 2.9, id="the last look"),
        pytest.param({"at": (33.95, 0)}, 10.0, INF, id="behind the last look"),
        pytest.param({"at": (13.95, 0)}, 0.004, INF, id="AV stands"),
        pytest.param({"at": (0, 5.95), "yaw": -np.pi / 2, "v": (0, -4.0)}, 1.0, INF, id="from the side"),
        pytest.param({"at": (-7, 0), "v": (20.0, 0)}, 10.0, INF, id="from behind"),
    ],
)
def test_one_road_user(other, speed_mps, expected_s):
    assert_allclose(times_of([[other], []], speed_mps=speed_mps)[0], expected_s)


@pytest.mark.parametrize("place", ["is_across", "is_in_junction"])
def test_across_lanes_and_in_junctions_those_beside_count_too(place):
    crossing = {"at": (0, 5.95), "yaw": -np.pi / 2, "v": (0, -4.0)}  # 2.95 m apart
    assert_allclose(times_of([[crossing], []], speed_mps=1.0, **{place: True})[0], 0.8)
    behind = {"at": (-7, 0), "v": (20.0, 0)}
    assert times_of([[behind], []], **{place: True})[0] == INF


def test_the_nearest_counts():
    frame = [{"track": 0, "at": (23.95, 0)}, {"track": 1, "at": (13.95, 0)}, {"track": 2, "at": (33, 0)}]
    assert_allclose(times_of([frame, []])[0], 1.0)


def test_zero_where_a_collision_is_at_fault_and_afterwards_the_track_counts_no_more():
    parked = [{"at": (3.5, 0)}]
    assert_array_equal(times_of([parked, parked]), [0.0, INF])


def test_a_collision_that_is_not_at_fault_leaves_the_others():
    hit_from_behind = {"track": 0, "at": (-3.5, 0), "v": (12.0, 0)}
    assert_allclose(times_of([[hit_from_behind, {"track": 1, "at": (13.95, 0)}], []]), [1.0, INF])


@pytest.mark.parametrize(
    ("times_s", "score"),
    [([INF, 1.0], 1.0), ([1.0, 0.9], 0.0), ([0.95], 0.0), ([INF], 1.0), ([0.0], 0.0)],
    ids=["above", "one below", "at the threshold", "nobody", "collision"],
)
def test_score_of_times(times_s, score):
    assert time_to_collision(np.array([times_s])) == score


def test_another_look_ahead():
    look = LookAhead(step_s=0.5, horizon_s=5.0, least_s=1.2)
    times_s = times_of([[{"at": (13.95, 0)}], [{"at": (49.95, 0)}]], look=look)
    assert_allclose(times_s, [1.0, 4.5])
    assert time_to_collision(times_s[None], look=look) == 0.0
    with pytest.raises(InvalidArgumentError, match="step_s must be above 0"):
        LookAhead(step_s=0.0)


def test_what_belongs_to_other_frames_or_rows_is_refused():
    states, others = straight_drive(2), road_users_at([[{"at": (9, 0)}], []])
    places = LanePositions.unknown((1, 2))
    found = find_collisions(states, others, places)
    with pytest.raises(
        InvalidArgumentError, match=r"states of shape \(1, 2\) need positions of the same shape, got \(1, 3\)"
    ):
        find_times_to_collision(states, others, LanePositions.unknown((1, 3)), found)
    with pytest.raises(InvalidArgumentError, match="the 0 rows of road_users, got 1"):
        find_times_to_collision(states, road_users_at([[], []]), places, found)

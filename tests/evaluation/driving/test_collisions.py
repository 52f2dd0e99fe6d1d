"""Collisions of the AV: kinds, fault and score of made situations.

The AV is 4 x 2 m, its rear axle 1 m behind its centre; cars are 4 x 2 m.
"""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.collisions import (
    CollisionKind,
    count_at_fault,
    find_collisions,
    no_at_fault_collisions,
)
from l5kit.evaluation.driving.lane_positions import LanePositions
from l5kit.evaluation.driving.road_users import RoadUserGroup
from support.driving import road_users_at, stacked, straight_drive

MOVES = (3.0, 0.0)


def places_of(states, *, is_across=False):
    shape = states.is_there.shape
    return LanePositions(np.full(shape, -1), np.full(shape, is_across), np.zeros(shape, bool))


def meet(other, *, speed_mps=10.0, is_across=False):
    """Kind, fault and score of one frame with one road user near the AV at the origin, which faces along x."""
    states = straight_drive(2, speed_mps=speed_mps)
    others = road_users_at([[other], []])
    found = find_collisions(states, others, places_of(states, is_across=is_across))
    score = no_at_fault_collisions(count_at_fault(states, others, found))[0]
    return CollisionKind(found.kinds[0]), bool(found.is_at_fault[0]), score


@pytest.mark.parametrize(
    ("other", "speed_mps", "kind", "is_at_fault", "score"),
    [
        pytest.param({"at": (4.5, 0), "v": MOVES}, 10.0, CollisionKind.NONE, False, 1.0, id="half a metre ahead"),
        pytest.param({"at": (4, 0), "v": MOVES}, 10.0, CollisionKind.NONE, False, 1.0, id="boxes touch"),
        pytest.param({"at": (3.5, 0), "v": MOVES}, 10.0, CollisionKind.FRONT, True, 0.0, id="runs into a car"),
        pytest.param({"at": (-3.5, 0), "v": MOVES}, 10.0, CollisionKind.REAR, False, 1.0, id="is run into"),
        pytest.param({"at": (-1, 1.9), "v": MOVES}, 10.0, CollisionKind.LATERAL, False, 1.0, id="scratched in lane"),
        pytest.param({"at": (3.5, 0)}, 10.0, CollisionKind.OTHER_STOPPED, True, 0.0, id="runs into a parked car"),
        pytest.param({"at": (-3.5, 0)}, 10.0, CollisionKind.OTHER_STOPPED, True, 0.0, id="parked car at its rear"),
        pytest.param({"at": (3.5, 0), "v": MOVES}, 0.04, CollisionKind.EGO_STOPPED, False, 1.0, id="AV stands"),
        pytest.param({"at": (3.5, 0), "v": (0.04, 0)}, 0.06, CollisionKind.OTHER_STOPPED, True, 0.0, id="AV creeps"),
        pytest.param(
            {"at": (2, 0), "v": MOVES, "size": (0.5, 0.5), "group": RoadUserGroup.VULNERABLE},
            10.0, CollisionKind.FRONT, True, 0.0, id="pedestrian",
        ),
        pytest.param(
            {"at": (2, 0), "v": MOVES, "size": (0.5, 0.5), "group": RoadUserGroup.OTHER},
            10.0, CollisionKind.OTHER_STOPPED, True, 0.5, id="one animal",
        ),
    ],
)  # fmt: skip
def test_one_road_user(other, speed_mps, kind, is_at_fault, score):
    assert meet(other, speed_mps=speed_mps) == (kind, is_at_fault, score)


def test_lateral_across_lanes_is_at_fault():
    assert meet({"at": (-1, 1.9), "v": MOVES}, is_across=True) == (CollisionKind.LATERAL, True, 0.0)


@pytest.mark.parametrize(
    ("angle_deg", "kind"), [(149.0, CollisionKind.LATERAL), (151.0, CollisionKind.REAR)], ids=["beside", "behind"]
)
def test_behind_is_more_than_150_degrees_from_the_rear_axle(angle_deg, kind):
    bearing = np.radians(angle_deg)
    at = (-1 + 1.2 * np.cos(bearing), 1.2 * np.sin(bearing))
    assert meet({"at": at, "v": MOVES, "size": (0.5, 0.5)})[0] == kind


@pytest.mark.parametrize(
    ("counts", "score"),
    [
        ([0, 0, 0], 1.0),
        ([1, 0, 0], 0.0),
        ([0, 1, 0], 0.0),
        ([0, 0, 1], 0.5),
        ([0, 0, 2], 0.0),
        ([0, 0, 3], 0.0),
    ],
    ids=["none", "vehicle", "vulnerable", "object", "two objects", "three objects"],
)
def test_score_of_counts(counts, score):
    assert no_at_fault_collisions(np.array([[[0, 0, 0], counts]])) == score


@pytest.mark.parametrize(
    ("counts", "score"),
    [([0, 0, 0], 1.0), ([0, 0, 1], 0.5), ([0, 0, 3], 0.5), ([2, 0, 0], 0.0), ([0, 1, 1], 0.0)],
)
def test_score_of_counts_without_their_numbers(counts, score):
    frames = np.array([[[0, 0, 0], counts, [0, 0, 0], [0, 0, counts[2]]]])
    assert no_at_fault_collisions(frames, by_number=False) == score


def test_a_track_collides_once():
    states = straight_drive(3)
    car = {"at": (3.5, 0), "v": MOVES}
    others = road_users_at([[car], [{**car, "at": (4, 0)}], [{**car, "at": (5, 0)}]])
    found = find_collisions(states, others, places_of(states))
    assert found.kinds.tolist() == [CollisionKind.FRONT, CollisionKind.NONE, CollisionKind.NONE]
    assert_array_equal(count_at_fault(states, others, found), [[[1, 0, 0], [0, 0, 0], [0, 0, 0]]])


def test_two_objects_in_two_frames_leave_nothing():
    states = straight_drive(2)
    cone = {"size": (0.5, 0.5), "group": RoadUserGroup.OTHER}
    others = road_users_at([[{**cone, "at": (2, 0), "track": 1}], [{**cone, "at": (3, 0), "track": 0}]])
    counts = count_at_fault(states, others, find_collisions(states, others, places_of(states)))
    assert no_at_fault_collisions(counts) == 0.0


def test_scenes_do_not_know_of_each_other():
    states = stacked(straight_drive(3), straight_drive(2))
    car = {"at": (3.5, 0), "v": MOVES}
    others = road_users_at([[], [{**car, "at": (4.5, 0)}], [], [car], [], []])
    found = find_collisions(states, others, places_of(states))
    assert found.kinds.tolist() == [CollisionKind.FRONT] * 2
    assert_array_equal(no_at_fault_collisions(count_at_fault(states, others, found)), [0, 0])


def test_without_road_users():
    states = straight_drive(2)
    others = road_users_at([[], []])
    found = find_collisions(states, others, places_of(states))
    assert_array_equal(no_at_fault_collisions(count_at_fault(states, others, found)), [1])


def test_road_users_of_other_frames_are_refused():
    with pytest.raises(InvalidArgumentError, match="1 scenes of 3 frames need 4"):
        find_collisions(straight_drive(3), road_users_at([[], []]), places_of(straight_drive(3)))

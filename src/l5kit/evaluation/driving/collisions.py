"""Collisions of the AV with road users: when, of what kind, and whether the AV is at fault."""

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.evaluation.driving.ego_states import EgoArrays, EgoStates
from l5kit.evaluation.driving.lane_positions import LanePositions
from l5kit.evaluation.driving.road_users import RoadUserArrays, RoadUserGroup, RoadUsers
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.geometry.relative_pose import turn_between

_STANDS_MPS = 0.05
"""Speed at or below which a road user counts as stationary, the AV and others alike."""

BEHIND_RAD = math.radians(150.0)
"""Angle off the heading, seen from the rear axle, above which a road user counts as behind."""

_TOLERATED = {RoadUserGroup.VEHICLE: 0, RoadUserGroup.VULNERABLE: 0, RoadUserGroup.OTHER: 1}
"""Number of collisions with each group that the AV may have before the score is 0."""


class CollisionKind(IntEnum):
    """How the AV and a road user collide; the first kind whose condition holds."""

    NONE = 0
    EGO_STOPPED = 1
    """The AV drives at 0.05 m/s or less."""
    OTHER_STOPPED = 2
    """The road user is in the group of other objects, or moves at 0.05 m/s or less."""
    REAR = 3
    """The road user is behind: more than 150 degrees off the heading, seen from the rear axle."""
    FRONT = 4
    """The front edge of the AV overlaps the box of the road user."""
    LATERAL = 5


_EGO_STOPPED, _OTHER_STOPPED, _REAR, _FRONT, _LATERAL = (int(kind) for kind in list(CollisionKind)[1:])
_OTHER_OBJECT = int(RoadUserGroup.OTHER)


@dataclass(frozen=True, eq=False)
class Collisions(ReadOnlyArrays):
    """Collisions of the AV with N rows of road users; each track collides at most once.

    Attributes:
        kinds: The :class:`CollisionKind` of each row, int64 (N,).
        is_at_fault: Whether the AV is at fault, bool (N,).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    kinds: Int64Array
    is_at_fault: BoolArray

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, kinds=(len(self.kinds),), is_at_fault=(len(self.kinds),))


def find_collisions(states: EgoStates, road_users: RoadUsers, lane_positions: LanePositions) -> Collisions:
    """Return the collisions of the AV.

    Each road user that has not collided before collides in the first frame in which its box overlaps that of the AV;
    touching boxes do not overlap. The AV is at fault for FRONT and OTHER_STOPPED, and for LATERAL if its corners lie
    neither in one lane nor in successive lanes; never for REAR and EGO_STOPPED.

    Args:
        states: The AV in S scenes.
        road_users: The road users in the same frames.
        lane_positions: Lanes of the AV.

    Raises:
        InvalidArgumentError: Road users or lane positions have another number of frames.
    """
    kinds = find_kinds(states, road_users)
    lane_positions.require_shape(states.is_there.shape)
    return blame(kinds, lane_positions.is_across.reshape(-1)[road_users.frames_of_rows])


def find_kinds(states: EgoStates, road_users: RoadUsers) -> Int64Array:
    """Return the :class:`CollisionKind` of each row of road users, int64 (N,).

    Args:
        states: The AV in S scenes.
        road_users: The road users in the same frames.

    Raises:
        InvalidArgumentError: Road users have another number of frames.
    """
    road_users.require_frames_of(states.is_there.shape)
    kinds = np.zeros(len(road_users), np.int64)
    has_collided = np.zeros(road_users.num_tracks, np.bool_)
    _write_kinds(states.arrays, states.rear_axles_m, road_users.arrays, road_users.speeds_mps, has_collided, kinds)
    return kinds


def blame(kinds: Int64Array, is_across: BoolArray) -> Collisions:
    """Return collisions of given kinds with the fault of the AV, by the rule of :func:`find_collisions`.

    Args:
        kinds: Kinds of N rows, as :func:`find_kinds` returns them, (N,).
        is_across: Whether the AV is neither in one lane nor in successive lanes, in the frame of each row, (N,).
    """
    # in NumPy, as the kernel would be compiled again for each layout of arrays
    return Collisions(kinds, np.asarray(is_fault_of_ego.py_func(kinds, is_across)))


def count_at_fault(states: EgoStates, road_users: RoadUsers, collisions: Collisions) -> Int64Array:
    """Return the number of road users of each group with which the AV collides at fault, by frame.

    Returns:
        Counts of the groups VEHICLE, VULNERABLE and OTHER, int64 (S, F, 3).
    """
    counts = np.zeros((states.is_there.size, len(_TOLERATED)), np.int64)
    rows = np.flatnonzero(collisions.is_at_fault)
    np.add.at(counts, (road_users.frames_of_rows[rows], road_users.groups[rows]), 1)
    return counts.reshape(*states.is_there.shape, len(_TOLERATED))


def no_at_fault_collisions(counts: Int64Array, *, by_number: bool = True) -> Float64Array:
    """Return the score of scenes: the product over the groups of max(0, 1 - n / (tolerated + 1)).

    Args:
        counts: As :func:`count_at_fault` returns them, (S, F, 3).
        by_number: Whether n is the number of collisions with a group. If not, several collisions count as one, and the
            score is the minimum over the groups, as in NAVSIM: 0 with a vehicle or vulnerable road user, else 0.5 with
            another object.

    Returns:
        0, 0.5 or 1, (S,).
    """
    tolerated = np.array([_TOLERATED[RoadUserGroup(group)] for group in range(len(_TOLERATED))])
    totals = counts.sum(axis=1) if by_number else counts.any(axis=1)
    of_groups = np.maximum(0.0, 1.0 - totals / (tolerated + 1))
    scores: Float64Array = of_groups.prod(axis=1) if by_number else of_groups.min(axis=1)
    return scores


@kernel_jit
def angle_from_heading(yaw_rad: float, from_m: Float64Array, to_m: Float64Array) -> float:
    """Return the absolute angle between a heading and the line from one point to another, 0 to pi."""
    return turn_between(np.arctan2(to_m[1] - from_m[1], to_m[0] - from_m[0]), yaw_rad)


@kernel_jit
def kind_of(
    ego: Float64Array, rear_axle_m: Float64Array, speed_mps: float, other: Float64Array, other_stands: bool
) -> int:
    """Return the kind of collision of the AV and a road user whose boxes overlap."""
    if speed_mps <= _STANDS_MPS:
        return _EGO_STOPPED
    if other_stands:
        return _OTHER_STOPPED
    if angle_from_heading(ego[2], rear_axle_m, other) > BEHIND_RAD:
        return _REAR
    # the front edge is a box without length
    half_m = 0.5 * ego[3]
    front = ego[0] + half_m * np.cos(ego[2]), ego[1] + half_m * np.sin(ego[2]), ego[2], 0.0, ego[4]
    return _FRONT if boxes_overlap(front, other) else _LATERAL


@kernel_jit
def stands(group: int, speed_mps: float) -> bool:
    """Return whether a road user with this group and speed counts as stationary."""
    return group == _OTHER_OBJECT or speed_mps <= _STANDS_MPS


@kernel_jit
def is_fault_of_ego(kind: int | Int64Array, is_across: bool | BoolArray) -> bool | BoolArray:
    """Return whether the AV is at fault for a collision, by :func:`find_collisions`; elementwise for arrays (N,)."""
    return (kind == _FRONT) | (kind == _OTHER_STOPPED) | ((kind == _LATERAL) & is_across)


@kernel_jit
def _write_kinds(
    egos: EgoArrays,
    rear_axles_m: Float64Array,
    others: RoadUserArrays,
    speeds_mps: Float64Array,
    has_collided: BoolArray,
    kinds: Int64Array,
) -> None:
    """Write the kind of collision of each row; ``has_collided`` is a buffer for the tracks of a scene."""
    starts, tracks, boxes = others.starts, others.tracks, others.boxes
    for scene in range(len(egos.num_frames)):
        has_collided[:] = False
        for frame in range(egos.num_frames[scene]):
            frame_index = scene * egos.boxes.shape[1] + frame
            ego, speed_mps = egos.boxes[scene, frame], egos.speeds_mps[scene, frame]
            for row in range(starts[frame_index], starts[frame_index + 1]):
                if has_collided[tracks[row]] or not boxes_overlap(ego, boxes[row]):
                    continue
                has_collided[tracks[row]] = True
                other_stands = stands(others.groups[row], speeds_mps[row])
                kinds[row] = kind_of(ego, rear_axles_m[scene, frame], speed_mps, boxes[row], other_stands)

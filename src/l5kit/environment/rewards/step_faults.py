"""Faults of AVs in a step: new collisions with road users, short times to collision, and last areas of corners."""

from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.device.backend import Backend, DeviceArray
from l5kit.evaluation.driving.collisions import (
    BEHIND_RAD,
    CollisionKind,
    angle_from_heading,
    is_fault_of_ego,
    kind_of,
    stands,
)
from l5kit.evaluation.driving.ego_states import EgoBody
from l5kit.evaluation.driving.lane_positions import is_across_lanes
from l5kit.evaluation.driving.time_to_collision import STOPPED_MPS, LookAhead, counts_ahead, meeting_time
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.road_surface import RoadSurface, no_surface
from l5kit.simulation.lanes.lane_following import SceneRows


class FaultArrays(NamedTuple):
    """Memory of faults of N slots from step to step.

    Attributes:
        tracks: Road users that have collided with the AV of each slot, int64 (N, any).
        num_tracks: Number of these, int64 (N,).
        areas: Last area that held each corner of the AV, -1 for none, int64 (N, 4); only a hint for the search.
    """

    tracks: DeviceArray
    num_tracks: DeviceArray
    areas: DeviceArray

    @classmethod
    def make(cls, backend: Backend, size: int, most: int) -> "FaultArrays":
        """Return memory with a capacity of ``most`` road users in each slot, without collisions."""
        zeros = backend.zeros
        return cls(zeros((size, most), np.int64), zeros(size, np.int64), backend.full((size, 4), -1, np.int64))

    def with_room(self, slots: Int64Array, starts: Int64Array, *, forgets: bool) -> "FaultArrays":
        """Return the memory, on the processor, grown for collisions with all rows of slots (B,).

        Args:
            slots: The slots.
            starts: First row of each, and the end of the last one, (B + 1,).
            forgets: Whether the slots are cleared.
        """
        # arrays at least double when they grow, so that adding slots one by one does not copy each time
        tracks, num_tracks, areas = self
        missing = int(slots.max(initial=-1)) + 1 - len(num_tracks)
        if missing > 0:
            missing = max(missing, len(num_tracks))
            tracks = np.pad(tracks, ((0, missing), (0, 0)))
            num_tracks = np.pad(num_tracks, (0, missing))
            areas = np.pad(areas, ((0, missing), (0, 0)), constant_values=-1)
        if forgets:
            num_tracks[slots], areas[slots] = 0, -1
        needed = int((num_tracks[slots] + np.diff(starts)).max(initial=0))
        if needed > tracks.shape[1]:
            wider = max(needed, 2 * tracks.shape[1])
            tracks = np.pad(tracks, ((0, 0), (0, wider - tracks.shape[1])))
        return FaultArrays(tracks, num_tracks, areas)


class AvState(NamedTuple):
    """State of one AV: box, (5,), absolute speed, corners, (4, 2), and middle of the rear axle, (2,)."""

    box: Float64Array
    speed_mps: float
    corners_m: Float64Array
    rear_axle_m: Float64Array


_REAR_AXLE_PART = EgoBody.of_extent(1.0, 1.0).rear_axle_to_centre_m
_LATERAL = int(CollisionKind.LATERAL)
_LOOK_S = LookAhead().step_s
_NUM_LOOKS = LookAhead().num_least_steps
_HORIZON_S = _NUM_LOOKS * _LOOK_S
_ROUNDING_M = 1e-6


def surface_arrays(driving_map: DrivingMap | None) -> RoadSurface:
    """Return the drivable surface of a map; without a map there are no areas, and nothing is off the road."""
    return no_surface() if driving_map is None else driving_map.surface


@kernel_jit
def _meets(
    av: AvState,
    other: Float64Array,
    velocity_mps: Float64Array,
    map_parts: tuple[RoadSurface, Int64Array],
) -> bool:
    """Return whether the time to collision between the AV and a road user is shorter than the score allows."""
    box, speed_mps, corners_m, rear_axle_m = av
    if speed_mps <= STOPPED_MPS:
        return False
    angle_rad = angle_from_heading(box[2], rear_axle_m, other)
    other_mps = np.hypot(velocity_mps[0], velocity_mps[1])
    if angle_rad > BEHIND_RAD:
        return False

    # First a cheap test: circles around both boxes, moving along their headings, are closest at the time
    # -(d . v) / v^2, clipped to the horizon.
    x_m, y_m = other[0] - box[0], other[1] - box[1]
    x_mps = other_mps * np.cos(other[2]) - speed_mps * np.cos(box[2])
    y_mps = other_mps * np.sin(other[2]) - speed_mps * np.sin(box[2])
    squared = x_mps * x_mps + y_mps * y_mps
    time_s = 0.0
    if squared > 0:
        time_s = min(max(-(x_m * x_mps + y_m * y_mps) / squared, 0.0), _HORIZON_S)
    reach_m = 0.5 * (np.hypot(box[3], box[4]) + np.hypot(other[3], other[4])) + _ROUNDING_M
    if not (x_m + time_s * x_mps) ** 2 + (y_m + time_s * y_mps) ** 2 <= reach_m * reach_m:
        return False
    if not meeting_time(box, speed_mps, other, other_mps, (_LOOK_S, _NUM_LOOKS)) < np.inf:
        return False
    surface, room = map_parts
    return counts_ahead(angle_rad, surface, corners_m, rear_axle_m, room)


@kernel_jit
def _has_collided(memory: FaultArrays, slot: int, track: int) -> bool:
    """Return whether a road user has already collided with the AV of a slot."""
    is_known = False
    for index in range(memory.num_tracks[slot]):
        is_known = is_known or memory.tracks[slot, index] == track
    return is_known


@kernel_jit
def write_rear_axle(box: Float64Array, rear_axle_m: Float64Array) -> None:
    """Write the position of the middle of the rear axle of an AV."""
    rear_axle_m[0] = box[0] - _REAR_AXLE_PART * box[3] * np.cos(box[2])
    rear_axle_m[1] = box[1] - _REAR_AXLE_PART * box[3] * np.sin(box[2])


@kernel_jit
def find_faults(
    av: AvState,
    slot: int,
    item: int,
    rows: SceneRows,
    track_rows: Int64Array,
    memory: FaultArrays,
    map_parts: tuple[RoadSurface, Int64Array],
    counts: Int64Array,
) -> bool:
    """Write the new collisions of one AV, and return whether its time to collision with any road user is too short.

    Args:
        av: The AV.
        slot: Slot of the AV.
        item: Index of its rows in ``rows``.
        rows: All road users; rows of group -1 are unused.
        track_rows: Track numbers of the rows.
        memory: Memory of all slots, with capacity for all rows.
        map_parts: Map surface, and a buffer for lanes from :func:`room_for_lanes`.
        counts: Receives the collisions at fault and the others, (2,).
    """
    box, speed_mps, corners_m, rear_axle_m = av
    starts, groups, others, velocities_mps = rows
    counts[0], counts[1], is_close = 0, 0, False
    for row in range(starts[item], starts[item + 1]):
        if groups[row] < 0:
            continue
        # most road users are too far away; a bound without angles excludes them
        x_m, y_m = others[row, 0] - box[0], others[row, 1] - box[1]
        most_mps = speed_mps + abs(velocities_mps[row, 0]) + abs(velocities_mps[row, 1])
        reach_m = 0.5 * (box[3] + box[4] + others[row, 3] + others[row, 4]) + _HORIZON_S * most_mps
        if x_m * x_m + y_m * y_m > reach_m * reach_m:
            continue
        other, velocity_mps = others[row], velocities_mps[row]
        if not boxes_overlap(box, other):
            if not is_close and _meets(av, other, velocity_mps, map_parts):
                is_close = not _has_collided(memory, slot, track_rows[row])
            continue
        # each road user collides once in an episode
        if _has_collided(memory, slot, track_rows[row]):
            continue
        memory.tracks[slot, memory.num_tracks[slot]] = track_rows[row]
        memory.num_tracks[slot] += 1
        other_stands = stands(groups[row], np.hypot(velocity_mps[0], velocity_mps[1]))
        kind = kind_of(box, rear_axle_m, speed_mps, other, other_stands)
        # look up lanes only for lateral collisions, where they decide
        is_across = kind == _LATERAL and is_across_lanes(map_parts[0], corners_m, map_parts[1])
        counts[0 if is_fault_of_ego(kind, is_across) else 1] += 1
    return is_close or counts[0] > 0

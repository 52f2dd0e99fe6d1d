"""Faults of AVs in a step: new collisions with road users, meetings ahead, and corners off the drivable surface."""

import math
from functools import cache

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import as_read_only
from l5kit.data.map.bounds_grid import BoundsGrid, GridArrays, is_near, slots_of_cell
from l5kit.evaluation.driving.collisions import angle_from_heading, is_fault_of_ego, kind_of, stands
from l5kit.evaluation.driving.ego_states import EgoBody
from l5kit.evaluation.driving.lane_places import reach_all_corners, write_lanes_of_corners
from l5kit.evaluation.driving.time_to_collision import AHEAD_RAD, BEHIND_RAD, STOPPED_MPS, LookAhead, meeting_time
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.geometry.polygon import distance_to_polygon, is_inside_polygon
from l5kit.lanes.driving_map import REACH_M, DrivingMap
from l5kit.simulation.lanes.lane_following import SceneRows

__all__ = [
    "CollidedTracks",
    "FaultMemory",
    "SurfaceArrays",
    "farthest_corner",
    "find_faults",
    "room_for_lanes",
    "surface_arrays",
    "write_corners",
    "write_faults",
    "write_rear_axle",
]

SurfaceArrays = tuple[GridArrays, Float64Array, Int64Array, BoolArray, tuple[Int64Array, Int64Array]]
"""The grid of a DrivingMap, ``area_points_m``, ``area_starts``, ``is_in_junction``, and which lanes follow each."""

Memory = tuple[Int64Array, Int64Array, Int64Array]
"""The fields of a :class:`FaultMemory`."""

CollidedTracks = tuple[Int64Array, Int64Array]
"""The first two of them."""

AvPlace = tuple[Float64Array, float, Float64Array, Float64Array]
"""Of one AV its box, (5,), the size of its speed, its corners, (4, 2), and the middle of its rear axle, (2,)."""

_REAR_AXLE_PART = EgoBody.of_extent(1.0, 1.0).rear_axle_to_centre_m
_ROW_BLOCK = 32
_LOOK_S = LookAhead().step_s
_NUM_LOOKS = int(LookAhead().least_s / _LOOK_S)
_HORIZON_S = _NUM_LOOKS * _LOOK_S
_ROUNDING_M = 1e-6


class FaultMemory:
    """What is remembered of N slots from step to step; there is room for any slot that is asked for.

    Attributes:
        tracks: The road users that have collided with the AV of each slot, int64 (N, any).
        num_tracks: How many they are, int64 (N,).
        areas: The area that held each corner of the AV last, -1 for none, int64 (N, 4); only a hint.
    """

    def __init__(self) -> None:
        self.tracks: Int64Array = np.zeros((0, _ROW_BLOCK), np.int64)
        self.num_tracks: Int64Array = np.zeros(0, np.int64)
        self.areas: Int64Array = np.zeros((0, 4), np.int64)

    @property
    def arrays(self) -> Memory:
        """All of it as kernels take it."""
        return self.tracks, self.num_tracks, self.areas

    def forget(self, slots: Int64Array) -> None:
        """Forget what is remembered of slots (B,)."""
        self._make_slots(slots)
        self.num_tracks[slots], self.areas[slots] = 0, -1

    def make_room(self, slots: Int64Array, starts: Int64Array) -> None:
        """Make room for collisions with all rows of slots (B,), whose rows begin at ``starts`` (B + 1,)."""
        self._make_slots(slots)
        needed = int((self.num_tracks[slots] + np.diff(starts)).max(initial=0))
        if needed > self.tracks.shape[1]:
            wider = max(needed, 2 * self.tracks.shape[1])
            self.tracks = np.pad(self.tracks, ((0, 0), (0, wider - self.tracks.shape[1])))

    def _make_slots(self, slots: Int64Array) -> None:
        """Make room for slots."""
        missing = int(slots.max(initial=-1)) + 1 - len(self.num_tracks)
        if missing > 0:
            missing = max(missing, len(self.num_tracks))
            self.tracks = np.pad(self.tracks, ((0, missing), (0, 0)))
            self.num_tracks = np.pad(self.num_tracks, (0, missing))
            self.areas = np.pad(self.areas, ((0, missing), (0, 0)), constant_values=-1)


def surface_arrays(driving_map: DrivingMap | None) -> SurfaceArrays:
    """Return what :func:`write_faults` reads of a map; without one there are no areas, and nothing is off the road."""
    if driving_map is None:
        return _no_surface()
    ahead = driving_map.ahead_starts, driving_map.ahead_rows
    areas = driving_map.area_points_m, driving_map.area_starts
    return driving_map.grid.arrays, *areas, driving_map.is_in_junction, ahead


def room_for_lanes(driving_map: DrivingMap | None, num_slots: int) -> tuple[int, int, int]:
    """Return the shape of the room, int64, that :func:`find_faults` needs for slots that are looked at together."""
    return num_slots, 5, max(5, 0 if driving_map is None else driving_map.most_lanes_of_corners)


@cache
def _no_surface() -> SurfaceArrays:
    """Return a map without areas."""
    grid, none = BoundsGrid.build(np.zeros((0, 2, 2)), REACH_M), as_read_only(np.zeros(0, np.int64))
    start = as_read_only(np.zeros(1, np.int64))
    return grid.arrays, as_read_only(np.zeros((0, 2))), start, as_read_only(np.zeros(0, np.bool_)), (start, none)


@njit(nogil=True, cache=True, error_model="numpy")
def _find_surface(surface: SurfaceArrays, point_m: Float64Array, hint: int) -> tuple[float, int]:
    """Return the distance of a point from the drivable surface, as DrivingMap measures it, and the area that holds it.

    The hint is looked at first, which changes nothing but the time.
    """
    grid, points_m, starts, _, _ = surface
    if 0 <= hint < len(starts) - 1 and is_inside_polygon(points_m[starts[hint] : starts[hint + 1]], point_m):
        return 0.0, hint
    first, end = slots_of_cell(point_m[0], point_m[1], grid[2], grid[3], grid[4], grid[5])
    for slot in range(first, end):
        area = grid[6][slot]
        polygon = points_m[starts[area] : starts[area + 1]]
        if is_near(point_m[0], point_m[1], grid[0], area, grid[1]) and is_inside_polygon(polygon, point_m):
            return 0.0, area
    distance_m = np.inf
    for slot in range(first, end):
        area = grid[6][slot]
        if is_near(point_m[0], point_m[1], grid[0], area, grid[1]):
            distance_m = min(distance_m, distance_to_polygon(points_m[starts[area] : starts[area + 1]], point_m))
    return (distance_m if distance_m < REACH_M else np.inf), -1


@njit(nogil=True, cache=True, error_model="numpy")
def farthest_corner(surface: SurfaceArrays, corners_m: Float64Array, areas: Int64Array) -> float:
    """Return how far the farthest of four corners (4, 2) is from the drivable surface.

    It is infinite from half a metre on, and 0 without a map.

    Args:
        surface: The map.
        corners_m: World x and y.
        areas: The area that held each corner last, -1 for none, (4,), changed; only a hint.
    """
    farthest_m = 0.0
    for corner in range(4 if len(surface[2]) > 1 else 0):
        far_m, area = _find_surface(surface, corners_m[corner], areas[corner])
        areas[corner] = area if area >= 0 else areas[corner]
        farthest_m = max(farthest_m, far_m)
    return farthest_m


@njit(nogil=True, cache=True, error_model="numpy")
def write_corners(box: Float64Array, corners_m: Float64Array) -> None:
    """Write front left, front right, rear right and rear left corner of a box."""
    cos, sin = math.cos(box[2]), math.sin(box[2])
    for corner in range(4):
        along = 0.5 * box[3] if corner < 2 else -0.5 * box[3]
        across = 0.5 * box[4] if corner == 0 or corner == 3 else -0.5 * box[4]
        corners_m[corner, 0] = box[0] + along * cos - across * sin
        corners_m[corner, 1] = box[1] + along * sin + across * cos


@njit(nogil=True, cache=True, error_model="numpy")
def _is_across(surface: SurfaceArrays, corners_m: Float64Array, room: Int64Array) -> bool:
    """Return whether corners lie neither in one lane nor in lanes that follow each other; never without a map."""
    grid, points_m, area_starts, is_in_junction, ahead = surface
    if len(area_starts) == 1:
        return False
    rows, starts, lanes, corners, reached = room[0], room[1], room[2], room[3], room[4]
    count, starts[0] = 0, 0
    for corner in range(4):
        first, end = slots_of_cell(corners_m[corner, 0], corners_m[corner, 1], grid[2], grid[3], grid[4], grid[5])
        for slot in range(first, end):
            area = grid[6][slot]
            polygon = points_m[area_starts[area] : area_starts[area + 1]]
            if area < len(is_in_junction) and is_inside_polygon(polygon, corners_m[corner]):
                rows[count] = area
                count += 1
        starts[corner + 1] = count
    num_lanes = write_lanes_of_corners(rows, starts, ahead, lanes, corners)
    return not reach_all_corners(lanes[:num_lanes], corners[:num_lanes], ahead, reached)


@njit(nogil=True, cache=True, error_model="numpy")
def _is_in_junction(surface: SurfaceArrays, point_m: Float64Array) -> bool:
    """Return whether a lane of a junction holds a point."""
    grid, points_m, starts, is_in_junction, _ = surface
    first, end = slots_of_cell(point_m[0], point_m[1], grid[2], grid[3], grid[4], grid[5])
    is_held = False
    for slot in range(first, end):
        area = grid[6][slot]
        if area < len(is_in_junction) and is_in_junction[area]:
            is_held = is_held or is_inside_polygon(points_m[starts[area] : starts[area + 1]], point_m)
    return is_held


@njit(nogil=True, cache=True, error_model="numpy")
def _is_far(box: Float64Array, speed_mps: float, others: Float64Array, velocities_mps: Float64Array, row: int) -> bool:
    """Return whether a road user is too far away to be met soon, by a bound without angles; most are."""
    x_m, y_m = others[row, 0] - box[0], others[row, 1] - box[1]
    most_mps = speed_mps + abs(velocities_mps[row, 0]) + abs(velocities_mps[row, 1])
    reach_m = 0.5 * (box[3] + box[4] + others[row, 3] + others[row, 4]) + _HORIZON_S * most_mps
    return bool(x_m * x_m + y_m * y_m > reach_m * reach_m)


@njit(nogil=True, cache=True, error_model="numpy")
def _come_near(box: Float64Array, speed_mps: float, other: Float64Array, other_mps: float) -> bool:
    """Return whether circles around two boxes meet within the horizon when both go on along their headings."""
    x_m, y_m = other[0] - box[0], other[1] - box[1]
    x_mps = other_mps * np.cos(other[2]) - speed_mps * np.cos(box[2])
    y_mps = other_mps * np.sin(other[2]) - speed_mps * np.sin(box[2])
    squared = x_mps * x_mps + y_mps * y_mps
    time_s = 0.0
    if squared > 0:
        time_s = min(max(-(x_m * x_mps + y_m * y_mps) / squared, 0.0), _HORIZON_S)
    reach_m = 0.5 * (np.hypot(box[3], box[4]) + np.hypot(other[3], other[4])) + _ROUNDING_M
    return bool((x_m + time_s * x_mps) ** 2 + (y_m + time_s * y_mps) ** 2 <= reach_m * reach_m)


@njit(nogil=True, cache=True, error_model="numpy")
def _meets(
    av: AvPlace,
    other: Float64Array,
    velocity_mps: Float64Array,
    map_parts: tuple[SurfaceArrays, Int64Array],
) -> bool:
    """Return whether the AV and another who counts have less time to a collision than the score wants."""
    box, speed_mps, corners_m, rear_axle_m = av
    if speed_mps <= STOPPED_MPS:
        return False
    angle_rad = angle_from_heading(box[2], rear_axle_m, other)
    other_mps = np.hypot(velocity_mps[0], velocity_mps[1])
    if angle_rad > BEHIND_RAD or not _come_near(box, speed_mps, other, other_mps):
        return False
    if not meeting_time(box, speed_mps, other, other_mps, (_LOOK_S, _NUM_LOOKS)) < np.inf:
        return False
    surface, room = map_parts
    return angle_rad <= AHEAD_RAD or _is_across(surface, corners_m, room) or _is_in_junction(surface, rear_axle_m)


@njit(nogil=True, cache=True, error_model="numpy")
def _has_collided(memory: CollidedTracks, slot: int, track: int) -> bool:
    """Return whether the AV of a slot has collided with a road user."""
    tracks, num_tracks = memory
    is_known = False
    for place in range(num_tracks[slot]):
        is_known = is_known or tracks[slot, place] == track
    return is_known


@njit(nogil=True, cache=True, error_model="numpy")
def _remember(memory: CollidedTracks, slot: int, track: int) -> bool:
    """Remember that a road user has collided, and return whether it is the first time."""
    tracks, num_tracks = memory
    is_first = not _has_collided(memory, slot, track)
    if is_first:
        tracks[slot, num_tracks[slot]] = track
        num_tracks[slot] += 1
    return is_first


@njit(nogil=True, cache=True, error_model="numpy")
def write_rear_axle(box: Float64Array, rear_axle_m: Float64Array) -> None:
    """Write where the middle of the rear axle of an AV is."""
    rear_axle_m[0] = box[0] - _REAR_AXLE_PART * box[3] * np.cos(box[2])
    rear_axle_m[1] = box[1] - _REAR_AXLE_PART * box[3] * np.sin(box[2])


@njit(nogil=True, cache=True, error_model="numpy")
def find_faults(
    av: AvPlace,
    slot: int,
    bounds: tuple[int, int],
    rows: tuple[Int64Array, Float64Array, Float64Array, Int64Array],
    memory: CollidedTracks,
    map_parts: tuple[SurfaceArrays, Int64Array],
    counts: Int64Array,
) -> bool:
    """Write with how many road users one AV collides for the first time, and return whether it is close to somebody.

    Args:
        av: The AV.
        slot: Its slot.
        bounds: First of its road users, and their end.
        rows: Groups, boxes, velocities and numbers of all road users.
        memory: Of all slots; it has room for all rows.
        map_parts: The map, and room for what is looked up there, as :func:`room_for_lanes` makes it.
        counts: Takes the collisions at fault and the others, (2,).
    """
    box, speed_mps, corners_m, rear_axle_m = av
    groups, others, velocities_mps, track_rows = rows
    counts[0], counts[1], is_close = 0, 0, False
    for row in range(bounds[0], bounds[1]):
        if groups[row] < 0 or _is_far(box, speed_mps, others, velocities_mps, row):
            continue
        other, velocity_mps = others[row], velocities_mps[row]
        if not boxes_overlap(box, other):
            if not is_close and _meets(av, other, velocity_mps, map_parts):
                is_close = not _has_collided(memory, slot, track_rows[row])
            continue
        if not _remember(memory, slot, track_rows[row]):
            continue
        other_stands = stands(groups[row], np.hypot(velocity_mps[0], velocity_mps[1]))
        kind = kind_of(box, rear_axle_m, speed_mps, other, other_stands)
        counts[0 if is_fault_of_ego(kind, _is_across(map_parts[0], corners_m, map_parts[1])) else 1] += 1
    return is_close or counts[0] > 0


@njit(nogil=True, cache=True, error_model="numpy")
def write_faults(
    boxes: Float64Array,
    motions: Float64Array,
    slots: Int64Array,
    rows: SceneRows,
    track_rows: Int64Array,
    memory: Memory,
    map_parts: tuple[SurfaceArrays, Int64Array],
    counts: Int64Array,
    off_road_m: Float64Array,
    is_close: BoolArray,
) -> None:
    """Write with how many road users AVs collide for the first time, how far off the road they are, and who is close.

    Args:
        boxes: The AVs, (B, 5).
        motions: Their speeds, below 0 backwards, and more, (B, 1 or more).
        slots: The slot of each.
        rows: The road users of each.
        track_rows: Numbers of the road users.
        memory: Of all slots; it has room for all rows.
        map_parts: The map, and room for what is looked up there, as :func:`room_for_lanes` makes it.
        counts: Takes the collisions at fault and the others, (B, 2).
        off_road_m: Takes the distance of the farthest corner from the drivable surface, infinite from half a metre on,
            0 without a map, (B,).
        is_close: Takes whether the time to a collision is below what the score wants, or one at fault is there, (B,).
    """
    starts, groups, others, velocities_mps = rows
    corners_m, rear_axle_m = np.empty((4, 2)), np.empty(2)
    for index in range(len(slots)):
        slot, box = slots[index], boxes[index]
        write_corners(box, corners_m)
        write_rear_axle(box, rear_axle_m)
        is_close[index] = find_faults(
            (box, abs(motions[index, 0]), corners_m, rear_axle_m),
            slot,
            (starts[index], starts[index + 1]),
            (groups, others, velocities_mps, track_rows),
            (memory[0], memory[1]),
            map_parts,
            counts[index],
        )
        off_road_m[index] = farthest_corner(map_parts[0], corners_m, memory[2][slot])

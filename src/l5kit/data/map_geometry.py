"""Geometry of the semantic map: vertex deltas to world coordinates, and resampling of lines.

A line is stored as offsets in centimetres, per axis: vertex 0 from the origin of a local frame (x east, y north, z up,
at height 0 of the WGS-84 ellipsoid), each later vertex from the one before. Many lines are kept as one array of points
and the positions where each starts: line i is ``points[offsets[i]:offsets[i + 1]]``.
"""

import numpy as np
from numba import njit
from pymap3d.ecef import geodetic2ecef

from l5kit._types import Float64Array, Int64Array, UInt8Array
from l5kit.data.map_wire import read_varint


def decode_lines(
    data: UInt8Array, *, line_runs: Int64Array, origins_e7: Int64Array, ecef_to_world: Float64Array
) -> tuple[Float64Array, Int64Array]:
    """Return the world points of all lines, and the offset of each line in them.

    Args:
        data: Bytes of the map, shape (length,).
        line_runs: Byte positions [start, end) of the packed deltas per line and axis, shape (n, 3, 2).
        origins_e7: Latitude and longitude of each line's frame, 1e-7 degrees, shape (n, 2).
        ecef_to_world: Transform from ECEF to world, shape (4, 4).

    Returns:
        Points, float64 (total, 3), and offsets, int64 (n + 1,). A line whose axes differ in length gets offset -1 in
        the entry behind it, and no points are decoded.
    """
    offsets = _line_offsets(data, line_runs)
    if offsets.min() < 0:
        return np.zeros((0, 3)), offsets
    local_m = _decode_deltas(data, line_runs, offsets)
    return world_from_local(local_m, offsets=offsets, origins_e7=origins_e7, ecef_to_world=ecef_to_world), offsets


def world_from_local(
    local_m: Float64Array, *, offsets: Int64Array, origins_e7: Int64Array, ecef_to_world: Float64Array
) -> Float64Array:
    """Return lines given in east-north-up frames at height 0 in world coordinates.

    Args:
        local_m: Points, float64 (total, 3).
        offsets: Start of each line and the end of the last, int64 (n + 1,).
        origins_e7: Latitude and longitude of each line's frame, 1e-7 degrees, shape (n, 2).
        ecef_to_world: Transform from ECEF to world, shape (4, 4).

    Returns:
        World points in metres, float64 (total, 3).
    """
    latitudes_deg, longitudes_deg = origins_e7[:, 0] / 1e7, origins_e7[:, 1] / 1e7
    origins_ecef_m = np.stack(geodetic2ecef(latitudes_deg, longitudes_deg, np.zeros(len(origins_e7))), axis=-1)
    latitudes, longitudes = np.radians(latitudes_deg), np.radians(longitudes_deg)
    cos_sin = np.stack([np.cos(latitudes), np.sin(latitudes), np.cos(longitudes), np.sin(longitudes)], axis=-1)
    return _apply_frames(local_m, offsets, origins_ecef_m, cos_sin, ecef_to_world)


@njit(nogil=True, cache=True, error_model="numpy")
def _count_varints(data: UInt8Array, start: int, end: int) -> int:
    count = 0
    for position in range(start, end):
        count += data[position] < 0x80
    return count


@njit(nogil=True, cache=True, error_model="numpy")
def _line_offsets(data: UInt8Array, line_runs: Int64Array) -> Int64Array:
    """Return the offsets of the lines; a line whose axes differ in length gets -1 behind it and ends the work."""
    offsets = np.zeros(len(line_runs) + 1, dtype=np.int64)
    for line in range(len(line_runs)):
        count = _count_varints(data, line_runs[line, 0, 0], line_runs[line, 0, 1])
        for axis in range(1, 3):
            if _count_varints(data, line_runs[line, axis, 0], line_runs[line, axis, 1]) != count:
                offsets[line + 1] = -1
                return offsets
        offsets[line + 1] = offsets[line] + count
    return offsets


@njit(nogil=True, cache=True, error_model="numpy")
def _decode_deltas(data: UInt8Array, line_runs: Int64Array, offsets: Int64Array) -> Float64Array:
    """Return local points in metres: each delta is divided by 100 first, then accumulated from its line's start."""
    local_m = np.empty((offsets[-1], 3), dtype=np.float64)
    for line in range(len(line_runs)):
        for axis in range(3):
            position, total = line_runs[line, axis, 0], 0.0
            for point in range(offsets[line], offsets[line + 1]):
                encoded, position = read_varint(data, position)
                # The wire carries sint32: only the lower 32 bits count, whatever a longer number says.
                zigzag = np.int64(encoded & np.uint64(0xFFFFFFFF))
                total += ((zigzag >> 1) ^ -(zigzag & 1)) / 100.0
                local_m[point, axis] = total
    return local_m


@njit(nogil=True, cache=True, error_model="numpy")
def _apply_frames(
    local_m: Float64Array,
    offsets: Int64Array,
    origins_ecef_m: Float64Array,
    cos_sin: Float64Array,
    ecef_to_world: Float64Array,
) -> Float64Array:
    """Turn and shift each line from its east-north-up frame to ECEF, and from there to the world."""
    world_m = np.empty_like(local_m)
    for line in range(len(offsets) - 1):
        cos_lat, sin_lat = cos_sin[line, 0], cos_sin[line, 1]
        cos_lng, sin_lng = cos_sin[line, 2], cos_sin[line, 3]
        for i in range(offsets[line], offsets[line + 1]):
            east, north, up = local_m[i, 0], local_m[i, 1], local_m[i, 2]
            t = cos_lat * up - sin_lat * north
            x = origins_ecef_m[line, 0] + (cos_lng * t - sin_lng * east)
            y = origins_ecef_m[line, 1] + (sin_lng * t + cos_lng * east)
            z = origins_ecef_m[line, 2] + (sin_lat * up + cos_lat * north)
            for axis in range(3):
                turned = ecef_to_world[axis, 0] * x + ecef_to_world[axis, 1] * y + ecef_to_world[axis, 2] * z
                world_m[i, axis] = turned + ecef_to_world[axis, 3]
    return world_m


@njit(nogil=True, cache=True, error_model="numpy")
def segment_bounds(points: Float64Array, starts: Int64Array, ends: Int64Array) -> Float64Array:
    """Return [[x_min, y_min], [x_max, y_max]] of each range of points, float64 (n, 2, 2)."""
    bounds = np.empty((len(starts), 2, 2), dtype=np.float64)
    for segment in range(len(starts)):
        for axis in range(2):
            lowest, highest = np.inf, -np.inf
            for i in range(starts[segment], ends[segment]):
                lowest, highest = min(lowest, points[i, axis]), max(highest, points[i, axis])
            bounds[segment, 0, axis], bounds[segment, 1, axis] = lowest, highest
    return bounds


@njit(nogil=True, cache=True, error_model="numpy")
def _arc_lengths(points: Float64Array) -> Float64Array:
    """Return the length along the line up to each point, float64 (n,)."""
    lengths = np.zeros(len(points), dtype=np.float64)
    for i in range(1, len(points)):
        squared = 0.0
        for axis in range(points.shape[1]):
            difference = points[i, axis] - points[i - 1, axis]
            squared += difference * difference
        lengths[i] = lengths[i - 1] + np.sqrt(squared)
    return lengths


@njit(nogil=True, cache=True, error_model="numpy")
def _sample_at(points: Float64Array, lengths: Float64Array, step_m: float, resampled: Float64Array) -> None:
    """Fill ``resampled`` with the points of the line at the lengths 0, step, 2 step, ..., by linear interpolation."""
    last, j = len(points) - 1, 0
    for i in range(len(resampled)):
        position = i * step_m
        while j < last and lengths[j + 1] <= position:
            j += 1
        for axis in range(points.shape[1]):
            value = points[j, axis]
            if j < last and lengths[j] != position:
                slope = (points[j + 1, axis] - value) / (lengths[j + 1] - lengths[j])
                value = slope * (position - lengths[j]) + value
            resampled[i, axis] = value


@njit(nogil=True, cache=True, error_model="numpy")
def resample_into(points: Float64Array, resampled: Float64Array) -> None:
    """Fill ``resampled`` (m, d) with m >= 2 points equally spaced along the line (n, d), n >= 1, ends included."""
    lengths = _arc_lengths(points)
    _sample_at(points, lengths, lengths[-1] / (len(resampled) - 1), resampled)
    for axis in range(points.shape[1]):
        resampled[-1, axis] = points[-1, axis]


@njit(nogil=True, cache=True, error_model="numpy")
def resample_every(points: Float64Array, step_m: float) -> Float64Array:
    """Return points at the lengths 0, step, 2 step, ... strictly below the end of the line (n, d), n >= 1."""
    lengths = _arc_lengths(points)
    resampled = np.empty((int(np.ceil(lengths[-1] / step_m)), points.shape[1]), dtype=np.float64)
    _sample_at(points, lengths, step_m, resampled)
    return resampled


@njit(nogil=True, cache=True, error_model="numpy")
def resample_lanes(
    points: Float64Array, offsets: Int64Array, lanes: Int64Array, num_points: int
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return left boundary, right boundary and midline of the given lanes, each float64 (n, num_points, 3).

    Lane k has its left boundary as line 2 k and its right one as line 2 k + 1. The midline is the mean of the resampled
    boundaries, resampled once more so that its points are equally spaced.
    """
    shape = (len(lanes), num_points, 3)
    left, right, midline = np.empty(shape), np.empty(shape), np.empty(shape)
    mean = np.empty((num_points, 3))
    for row in range(len(lanes)):
        start, middle, end = offsets[2 * lanes[row]], offsets[2 * lanes[row] + 1], offsets[2 * lanes[row] + 2]
        resample_into(points[start:middle], left[row])
        resample_into(points[middle:end], right[row])
        for i in range(num_points):
            for axis in range(3):
                mean[i, axis] = (left[row, i, axis] + right[row, i, axis]) / 2
        resample_into(mean, midline[row])
    return left, right, midline

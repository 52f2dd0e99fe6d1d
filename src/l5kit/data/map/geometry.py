"""Geometry of semantic maps: vertex deltas to world coordinates, and resampling of lines.

A line is stored as offsets in centimetres, per axis: vertex 0 from the origin of a local frame (x east, y north, z up,
at height 0 of the WGS-84 ellipsoid), each later vertex from the previous one. Many lines are stored as one array of
points and the start of each line: line i is ``points[offsets[i]:offsets[i + 1]]``.
"""

import math

import numpy as np
from pymap3d.ecef import geodetic2ecef

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array, UInt8Array
from l5kit.data.array_shapes import as_kernel_array
from l5kit.data.map.wire import read_varint
from l5kit.errors import InvalidArgumentError

GREATEST_LATITUDE_E7 = 900_000_000
"""A pole, in 1e-7 degrees; beyond it the formulas would give a point on its other side."""

_EQUAL_SPACING = 0.0
"""Special step of a resampled line: equally spaced points, both ends included."""


def decode_lines(
    data: UInt8Array, *, line_runs: Int64Array, origins_e7: Int64Array, ecef_to_world: Float64Array
) -> tuple[Float64Array, Int64Array, Float64Array]:
    """Return the world points of all lines, the offset of each line in them, and the bounds of each line.

    Args:
        data: Bytes of the map, shape (length,).
        line_runs: Byte positions [start, end) of the packed deltas per line and axis, shape (n, 3, 2).
        origins_e7: Latitude and longitude of frames, 1e-7 degrees, (n / k, 2), each shared by k consecutive lines.
        ecef_to_world: Transform from ECEF to world, shape (4, 4).

    Returns:
        Points, float64 (total, 3), offsets, int64 (n + 1,), and [[x_min, y_min], [x_max, y_max]], float64 (n, 2, 2),
        infinite for a line without points. If the axes of a line differ in length, the offset after it is -1 and no
        points are decoded.
    """
    capacity = int((line_runs[:, 0, 1] - line_runs[:, 0, 0]).sum())  # a delta takes at least one byte
    local_m, offsets = np.empty((capacity, 3)), np.zeros(len(line_runs) + 1, dtype=np.int64)
    _decode_deltas(data, line_runs, local_m, offsets)
    if offsets.min() < 0:
        return np.zeros((0, 3)), offsets, np.zeros((0, 2, 2))
    world_m, bounds_m = _to_world(local_m[: offsets[-1]], offsets, origins_e7, ecef_to_world)
    return world_m, offsets, bounds_m


def world_from_local(
    local_m: Float64Array, *, offsets: Int64Array, origins_e7: Int64Array, ecef_to_world: Float64Array
) -> Float64Array:
    """Return the world coordinates of lines given in east-north-up frames at height 0.

    Args:
        local_m: Points, float64 (total, 3).
        offsets: Start of each line, and the end of the last one, int64 (n + 1,).
        origins_e7: Latitude and longitude of each line's frame, 1e-7 degrees, shape (n, 2).
        ecef_to_world: Transform from ECEF to world, shape (4, 4).

    Returns:
        World points in metres, float64 (total, 3).

    Raises:
        InvalidArgumentError: A latitude is beyond a pole.
    """
    if (beyond := np.flatnonzero(np.abs(origins_e7[:, 0]) > GREATEST_LATITUDE_E7)).size:
        raise InvalidArgumentError(
            f"a frame has its origin at latitude {origins_e7[beyond[0], 0] / 1e7}; allowed are -90 to 90 degrees"
        )
    return _to_world(local_m, offsets, origins_e7, ecef_to_world)[0]


def _to_world(
    local_m: Float64Array, offsets: Int64Array, origins_e7: Int64Array, ecef_to_world: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return the result of :func:`world_from_local`, and the bounds of each line, float64 (n, 2, 2)."""
    latitudes_deg, longitudes_deg = origins_e7[:, 0] / 1e7, origins_e7[:, 1] / 1e7
    origins_ecef_m = np.stack(geodetic2ecef(latitudes_deg, longitudes_deg, np.zeros(len(origins_e7))), axis=-1)
    latitudes, longitudes = np.radians(latitudes_deg), np.radians(longitudes_deg)
    cos_sin = np.stack([np.cos(latitudes), np.sin(latitudes), np.cos(longitudes), np.sin(longitudes)], axis=-1)
    num_lines = len(offsets) - 1
    world_m, bounds_m = np.empty_like(local_m), np.empty((num_lines, 2, 2))
    lines_per_frame = num_lines // max(len(origins_e7), 1)
    _apply_frames(local_m, offsets, lines_per_frame, origins_ecef_m, cos_sin, ecef_to_world, world_m, bounds_m)
    return world_m, bounds_m


def resample_lines(points: Float64Array, starts: Int64Array, ends: Int64Array, num_points: int) -> Float64Array:
    """Return equally spaced points of lines, ends included.

    Args:
        points: Points of all lines, float64 (total, d).
        starts: First point of each line, int64 (n,).
        ends: End of each line, exclusive, int64 (n,); lines have at least one point.
        num_points: Points of a resampled line, at least 2.

    Returns:
        float64 (n, num_points, d).
    """
    points, lengths_m = as_kernel_array(points, np.float64), np.empty(int((ends - starts).max(initial=0)))
    resampled = np.empty((len(starts), num_points, points.shape[1]))
    _resample(points, starts, ends, _EQUAL_SPACING, lengths_m, resampled)
    return resampled


def resample_line(line: Float64Array, num_points: int) -> Float64Array:
    """Return the result of :func:`resample_lines` for a single line (n, d), float64 (num_points, d)."""
    starts, ends = np.array([[0], [len(line)]])
    resampled: Float64Array = resample_lines(line, starts, ends, num_points)[0]
    return resampled


def resample_every(line: Float64Array, step_m: float, *, max_points: int) -> Float64Array:
    """Return points at arc lengths 0, step, 2 step, ... strictly below the length of a line (n, d), n >= 1.

    Raises:
        InvalidArgumentError: There would be more points than ``max_points``.
    """
    line, lengths_m = as_kernel_array(line, np.float64), np.empty(len(line))
    starts, ends = np.array([[0], [len(line)]])
    _resample(line, starts, ends, _EQUAL_SPACING, lengths_m, np.empty((1, 0, line.shape[1])))
    length_m = float(lengths_m[-1])
    if not length_m / step_m <= max_points:
        raise InvalidArgumentError(
            f"step is {step_m} m, but the line is {length_m / 1000:,.1f} km long: that would be more than "
            f"{max_points:,} points; take a larger step, if the map and the matrix world_to_ecef are right"
        )
    resampled: Float64Array = np.empty((math.ceil(length_m / step_m), line.shape[1]))
    _resample(line, starts, ends, float(step_m), lengths_m, resampled[None])
    return resampled


def resample_lanes(
    points: Float64Array, offsets: Int64Array, num_points: int
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return left boundary, right boundary and midline of n lanes, each float64 (n, num_points, 3).

    Lane k has line 2 k as its left boundary and line 2 k + 1 as its right one. The midline is the mean of the resampled
    boundaries, resampled once more so that its points are equally spaced.
    """
    num_lanes = (len(offsets) - 1) // 2
    lines = np.arange(2 * num_lanes).reshape(num_lanes, 2).T.reshape(-1)
    boundaries = resample_lines(points, offsets[lines], offsets[lines + 1], num_points)
    left, right = boundaries[:num_lanes], boundaries[num_lanes:]
    starts = np.arange(num_lanes) * num_points
    mean = left + right
    mean /= 2
    midline = resample_lines(mean.reshape(-1, 3), starts, starts + num_points, num_points)
    return left, right, midline


@kernel_jit
def _decode_deltas(data: UInt8Array, line_runs: Int64Array, local_m: Float64Array, offsets: Int64Array) -> None:
    """Write local points in metres: each delta is divided by 100 first, then accumulated from its line's start.

    If the axes of a line differ in length, the offset after it is set to -1 and decoding stops.
    """
    for line in range(len(line_runs)):
        end = offsets[line]
        for axis in range(3):
            # the x axis determines the number of points; y and z must have the same
            position, point, total = line_runs[line, axis, 0], offsets[line], 0.0
            while position < line_runs[line, axis, 1] and (axis == 0 or point < end):
                encoded, position = read_varint(data, position)
                # The wire type is sint32: only the lower 32 bits of a longer number count.
                zigzag = np.int64(encoded & np.uint64(0xFFFFFFFF))
                total += ((zigzag >> 1) ^ -(zigzag & 1)) / 100.0
                local_m[point, axis] = total
                point += 1
            if axis == 0:
                end = point
            elif point != end or position < line_runs[line, axis, 1]:
                offsets[line + 1] = -1
                return
        offsets[line + 1] = end


@kernel_jit
def _apply_frames(
    local_m: Float64Array,
    offsets: Int64Array,
    lines_per_frame: int,
    origins_ecef_m: Float64Array,
    cos_sin: Float64Array,
    ecef_to_world: Float64Array,
    world_m: Float64Array,
    bounds_m: Float64Array,
) -> None:
    """Transform each line from its east-north-up frame to ECEF and on to the world; write its bounds."""
    for line in range(len(offsets) - 1):
        frame = line // lines_per_frame
        cos_lat, sin_lat = cos_sin[frame, 0], cos_sin[frame, 1]
        cos_lng, sin_lng = cos_sin[frame, 2], cos_sin[frame, 3]
        for axis in range(2):
            bounds_m[line, 0, axis], bounds_m[line, 1, axis] = np.inf, -np.inf
        for i in range(offsets[line], offsets[line + 1]):
            east, north, up = local_m[i, 0], local_m[i, 1], local_m[i, 2]
            # east, north, up to ECEF: t points away from the earth's axis, in the plane of the meridian
            t = cos_lat * up - sin_lat * north
            x = origins_ecef_m[frame, 0] + (cos_lng * t - sin_lng * east)
            y = origins_ecef_m[frame, 1] + (sin_lng * t + cos_lng * east)
            z = origins_ecef_m[frame, 2] + (sin_lat * up + cos_lat * north)
            for axis in range(3):
                turned = ecef_to_world[axis, 0] * x + ecef_to_world[axis, 1] * y + ecef_to_world[axis, 2] * z
                world_m[i, axis] = turned + ecef_to_world[axis, 3]
                if axis < 2:
                    bounds_m[line, 0, axis] = min(bounds_m[line, 0, axis], world_m[i, axis])
                    bounds_m[line, 1, axis] = max(bounds_m[line, 1, axis], world_m[i, axis])


@kernel_jit
def _resample(
    points: Float64Array,
    starts: Int64Array,
    ends: Int64Array,
    step_m: float,
    lengths_m: Float64Array,
    resampled: Float64Array,
) -> None:
    """Write (n, m, d) points of lines at arc lengths 0, step, 2 step, ..., by linear interpolation.

    A step of :data:`_EQUAL_SPACING` stands for the length of each line divided by m - 1. On return ``lengths_m``, which
    is as long as the longest line, holds the arc length up to each point of the last line.
    """
    for line in range(len(starts)):
        start, last = starts[line], ends[line] - starts[line] - 1
        lengths_m[0] = 0.0
        for j in range(1, last + 1):
            squared = 0.0
            for axis in range(points.shape[1]):
                difference = points[start + j, axis] - points[start + j - 1, axis]
                squared += difference * difference
            lengths_m[j] = lengths_m[j - 1] + np.sqrt(squared)
        step = lengths_m[last] / (resampled.shape[1] - 1) if step_m == _EQUAL_SPACING else step_m
        j = 0
        for i in range(resampled.shape[1]):
            position = i * step
            # arc lengths and positions both ascend, so a single pass finds the edges of all points
            while j < last and lengths_m[j + 1] <= position:
                j += 1
            for axis in range(points.shape[1]):
                value = points[start + j, axis]
                if j < last and lengths_m[j] != position:
                    slope = (points[start + j + 1, axis] - value) / (lengths_m[j + 1] - lengths_m[j])
                    value = slope * (position - lengths_m[j]) + value
                resampled[line, i, axis] = value
        # make the last point the exact end of the line, which accumulated steps may miss slightly
        if step_m == _EQUAL_SPACING and resampled.shape[1] > 0:
            for axis in range(points.shape[1]):
                resampled[line, -1, axis] = points[start + last, axis]

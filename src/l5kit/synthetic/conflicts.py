"""Conflicts of paths across an intersection: which ones overlap, and up to where."""

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.synthetic.town_plan import interpolated, line_lengths

CAR_ENVELOPE_M = (5.6, 2.2)
"""Length and width of the largest car of a town, with some clearance."""
BIKE_ENVELOPE_M = (2.2, 0.9)
"""Length and width of the largest bicycle, with some clearance."""
_MARGIN_M = 0.4
_BEFORE_M, _BEHIND_M = 1.5, 3.5
_STEP_M = 0.75
_CROSSWALK_HALF_DEPTH_M = 2.2
_NO_CONFLICT = -100.0


def conflict_zone_ends(
    lines: list[Float64Array], is_bike: BoolArray, node: Int64Array, local_index: Int64Array
) -> Float64Array:
    """Return, for each pair of connectors of an intersection, where the first one leaves the area that they share.

    Args:
        lines: Centre lines of all lanes, (n, 2) each.
        is_bike: Whether bicycles use the lane, (L,).
        node: Intersection of each lane, (L,).
        local_index: Index of each connector in its intersection, -1 for road lanes, (L,).

    Returns:
        Positions of the vehicle centre along the first connector, metres, -100 if no area is shared, (N, M, M).
    """
    size = int(local_index.max()) + 1
    ends = np.full((int(node.max()) + 1, size, size), _NO_CONFLICT)
    for n in range(len(ends)):
        members = np.nonzero((node == n) & (local_index >= 0))[0]
        # boxes swept along each connector: arc length, x, y, yaw, length and width every 0.75 m, (n, 6)
        swept = []
        for lane in members:
            at, xy, yaw = _poses(lines[lane])
            sizes_m = np.broadcast_to(np.array(_envelope(is_bike[lane])) + _MARGIN_M, (len(at), 2))
            swept.append(np.concatenate([at[:, None], xy, yaw[:, None], sizes_m], axis=1))
        first = np.concatenate([[0], np.cumsum([len(s) for s in swept])]).astype(np.int64)
        order = local_index[members]
        ends[n][np.ix_(order, order)] = _zone_ends(np.concatenate(swept), first)
    return ends


def _poses(line_m: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Sample a line from a little before its start to a little beyond its end: arc lengths, positions, directions."""
    # Extend the line by ten times its first and last steps: the ends of a long vehicle arrive earlier and leave later
    # than its centre.
    s, steps = line_lengths(line_m), np.diff(line_m, axis=0)
    before, behind = line_m[:1] - 10 * steps[:1], line_m[-1:] + 10 * steps[-1:]
    line_m = np.concatenate([before, line_m, behind])
    s = np.concatenate([[-10 * s[1]], s, [s[-1] + 10 * (s[-1] - s[-2])]])
    at = np.arange(-_BEFORE_M, s[-2] + _BEHIND_M, _STEP_M)
    xy = interpolated(at, s, *line_m.T)
    tangent = np.gradient(xy, axis=0)
    return at, xy, np.arctan2(tangent[:, 1], tangent[:, 0])


def _envelope(is_bike: bool) -> tuple[float, float]:
    return BIKE_ENVELOPE_M if is_bike else CAR_ENVELOPE_M


@njit(nogil=True, cache=True)
def _zone_ends(swept: Float64Array, first: Int64Array) -> Float64Array:
    count = first.shape[0] - 1
    ends = np.full((count, count), _NO_CONFLICT)
    # the last box of i that overlaps any box of j; the area ends one step beyond
    for i in range(count):
        for j in range(count):
            if i == j:
                continue
            for k in range(first[i], first[i + 1]):
                for m in range(first[j], first[j + 1]):
                    if boxes_overlap(swept[k, 1:], swept[m, 1:]):
                        ends[i, j] = swept[k, 0] + _STEP_M
                        break
    return ends


def crossing_ends(
    lines: list[Float64Array],
    is_bike: BoolArray,
    lane_crosswalk: Int64Array,
    crosswalk_ends_m: Float64Array,
) -> tuple[Float64Array, Float64Array]:
    """Return where a vehicle has passed the crosswalks of its connector, and which part of them it sweeps.

    Returns:
        Position of the vehicle centre along the connector beyond which the crosswalk is clear, (L, 2), and the swept
        interval along the crosswalk, from its first end, (L, 2, 2), both in metres.
    """
    clear_m = np.full((len(lines), 2), _NO_CONFLICT)
    across_m = np.zeros((len(lines), 2, 2))
    for lane, side in zip(*np.nonzero(lane_crosswalk >= 0), strict=True):
        # 36 points of the vehicle, on three lines along it, at each pose, (n, 36)
        at, xy, yaw = _poses(lines[lane])
        length_m, width_m = _envelope(bool(is_bike[lane]))
        x, y = np.meshgrid(np.linspace(-0.5, 0.5, 12) * length_m, np.linspace(-0.5, 0.5, 3) * width_m)
        cos, sin = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
        points_x = xy[:, :1] + cos * x.ravel() - sin * y.ravel()
        points_y = xy[:, 1:] + sin * x.ravel() + cos * y.ravel()
        # their coordinates along the crosswalk, from its first end, and across it
        ends_m = crosswalk_ends_m[lane_crosswalk[lane, side]]
        axis = (ends_m[1] - ends_m[0]) / np.hypot(*(ends_m[1] - ends_m[0]))
        along = (points_x - ends_m[0, 0]) * axis[0] + (points_y - ends_m[0, 1]) * axis[1]
        across = (points_y - ends_m[0, 1]) * axis[0] - (points_x - ends_m[0, 0]) * axis[1]
        inside = (np.abs(across) < _CROSSWALK_HALF_DEPTH_M) & (along > 0) & (along < np.hypot(*(ends_m[1] - ends_m[0])))
        if inside.any():
            clear_m[lane, side] = at[inside.any(axis=1)].max() + _STEP_M
            across_m[lane, side] = along[inside].min() - _MARGIN_M, along[inside].max() + _MARGIN_M
    return clear_m, across_m

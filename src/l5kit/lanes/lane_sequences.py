"""Sequences of lanes driven by tracks: logged lanes first, then the straightest lanes ahead."""

import math

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.map.bounds_grid import GridArrays
from l5kit.data.map.centre_lines import CHANGE_M
from l5kit.lanes.lane_choice import (
    LaneArrays,
    arc_on_lane,
    choose_lane,
    is_ahead,
    point_on_lane,
    straightest_ahead,
)

MOST_PIECES = 400
"""Largest number of lane pieces of a path; longer paths end there."""

_SAMPLE_STEP_M = 2.0
_FORK_M = 30.0
_CHANGE_AHEAD_M = 0.5 * CHANGE_M
_MOST_BETWEEN, _MOST_REACHED = 12, 256


@kernel_jit
def write_logged_pieces(
    positions_m: Float64Array,
    yaws_rad: Float64Array,
    lanes: LaneArrays,
    grid: GridArrays,
    pieces: Int64Array,
    spans_m: Float64Array,
) -> int:
    """Write the lanes that a track drove, and return their number; 0 if its first row is on no lane.

    Rows are evaluated every 2 m. A lane of a fork that is left within 30 m for another lane of the fork was chosen by
    mistake, and is replaced by the other one. A skipped lane is inserted. Otherwise a neighbouring lane is a lane
    change. A lane farther away than the length of a lane change, such as after a track was lost for seconds, is reached
    along at most 12 lanes in between; if they do not lead there, the path continues as if the log had ended.

    Args:
        positions_m: Rows of the track, (F, 2).
        yaws_rad: World headings, (F,).
        lanes: Lanes of the map.
        grid: Grid of the lanes.
        pieces: Output: the lane of each piece, and 1 if it begins with a lane change, (MOST_PIECES, 2).
        spans_m: Output: start and end of each piece on its centre line, (MOST_PIECES, 2).
    """
    count, last = 0, -1
    for row in range(len(yaws_rad)):
        if last >= 0:
            x, y = positions_m[row, 0] - positions_m[last, 0], positions_m[row, 1] - positions_m[last, 1]
            if x * x + y * y < _SAMPLE_STEP_M * _SAMPLE_STEP_M:
                continue
        before = pieces[count - 1, 0] if count else -1
        lane = choose_lane(lanes, grid, before, positions_m[row], yaws_rad[row])
        if last < 0 and lane < 0:
            return 0
        last = row
        if lane < 0 or lane == before:
            continue
        if count == 0:
            arc_m = arc_on_lane(lanes, lane, positions_m[row])[0]
            count = _append_piece(pieces, spans_m, count, lane, 0, arc_m, lanes)
        else:
            count = _append_next_lane(pieces, spans_m, count, lane, positions_m[row], lanes)
        if count > MOST_PIECES - 2 - _MOST_BETWEEN:
            break
    return count


@kernel_jit
def _append_piece(
    pieces: Int64Array, spans_m: Float64Array, count: int, lane: int, is_change: int, arc_m: float, lanes: LaneArrays
) -> int:
    """Append a piece from an arc length to the end of its lane, and return the new number of pieces."""
    pieces[count, 0], pieces[count, 1] = lane, is_change
    spans_m[count, 0], spans_m[count, 1] = arc_m, lanes.arc_lengths_m[lane, -1]
    return count + 1


@kernel_jit
def _append_next_lane(
    pieces: Int64Array, spans_m: Float64Array, count: int, lane: int, point_m: Float64Array, lanes: LaneArrays
) -> int:
    """Append the next lane of a track, and return the new number of pieces."""
    before = pieces[count - 1, 0]
    if is_ahead(lanes, before, lane):
        return _append_piece(pieces, spans_m, count, lane, 0, 0.0, lanes)
    # the lane of a fork was chosen by mistake, as the track now shows
    arc_m = arc_on_lane(lanes, before, point_m)[0]
    if count >= 2 and pieces[count - 1, 1] == 0 and arc_m < _FORK_M:
        if is_ahead(lanes, pieces[count - 2, 0], lane):
            return _append_piece(pieces, spans_m, count - 1, lane, 0, 0.0, lanes)
        if lane == pieces[count - 2, 0]:
            return count - 1
    # insert skipped lanes; if there are none, a lane nearby is a lane change, and a distant one ends the log
    x, y = point_on_lane(lanes, before, arc_m)
    is_far = math.hypot(point_m[0] - x, point_m[1] - y) > CHANGE_M
    between = _lanes_between(lanes, before, lane, _MOST_BETWEEN if is_far else 1)
    for other in between:
        count = _append_piece(pieces, spans_m, count, other, 0, 0.0, lanes)
    if len(between) > 0:
        return _append_piece(pieces, spans_m, count, lane, 0, 0.0, lanes)
    if is_far:
        return count
    spans_m[count - 1, 1] = max(arc_m - _CHANGE_AHEAD_M, spans_m[count - 1, 0])
    return _append_piece(pieces, spans_m, count, lane, 1, -1.0, lanes)


@kernel_jit
def _lanes_between(lanes: LaneArrays, before: int, lane: int, most: int) -> Int64Array:
    """Return the fewest lanes that lead from one lane to another, in order, 1 to ``most``; empty if there are none.

    In a tie, the first in map order is used.
    """
    reached, parents = np.empty(_MOST_REACHED, np.int64), np.empty(_MOST_REACHED, np.int64)
    depths = np.zeros(_MOST_REACHED, np.int64)
    # breadth-first search, so that the first hit has the fewest lanes in between
    reached[0], parents[0], count, position = before, -1, 1, 0
    while position < count and depths[position] <= most:
        if position > 0 and is_ahead(lanes, reached[position], lane):
            between = np.empty(depths[position], np.int64)
            for slot in range(len(between) - 1, -1, -1):
                between[slot], position = reached[position], parents[position]
            return between
        for slot in range(lanes.ahead_starts[reached[position]], lanes.ahead_starts[reached[position] + 1]):
            other = lanes.ahead_rows[slot]
            if count < _MOST_REACHED and depths[position] < most and not (reached[:count] == other).any():
                reached[count], parents[count], depths[count] = other, position, depths[position] + 1
                count += 1
        position += 1
    return reached[:0]


@kernel_jit
def write_pieces_ahead(
    pieces: Int64Array,
    spans_m: Float64Array,
    count: int,
    lanes: LaneArrays,
    limits_mps: Float64Array,
    duration_s: float,
    margin_m: float,
) -> int:
    """Append the straightest lanes until a vehicle at the limits cannot reach the end; return the number of pieces."""
    left_s, left_m, piece = duration_s, margin_m, 0
    while True:
        # pieces first use up the time at their limits, then the margin
        while piece < count:
            length_m = max(spans_m[piece, 1] - max(spans_m[piece, 0], 0.0), 0.0)
            limit_mps = limits_mps[pieces[piece, 0]]
            driven_m = min(length_m, left_s * limit_mps)
            left_s -= driven_m / limit_mps
            left_m -= length_m - driven_m
            piece += 1
        if left_m <= 0 or count >= MOST_PIECES:
            return count
        lane = straightest_ahead(lanes, pieces[count - 1, 0])
        if lane < 0:
            return count
        count = _append_piece(pieces, spans_m, count, lane, 0, 0.0, lanes)


@kernel_jit
def mark_moving(positions_m: Float64Array, starts: Int64Array, least_m: float, is_moving: BoolArray) -> None:
    """Mark the tracks that reach a minimum distance from their first row."""
    for track in range(len(starts) - 1):
        first = starts[track]
        for row in range(first + 1, starts[track + 1]):
            x, y = positions_m[row, 0] - positions_m[first, 0], positions_m[row, 1] - positions_m[first, 1]
            if x * x + y * y >= least_m * least_m:
                is_moving[track] = True
                break

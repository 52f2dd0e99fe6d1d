"""Collisions of the AV in all frames of a scene at once, each exactly as :func:`detect_collision` finds it.

Few agents are near the AV in any frame. A kernel finds these, NumPy computes their corners as for a single frame,
:mod:`l5kit.geometry.box_contact` finds the ones that touch, and another kernel the side. Where rounding leaves the side
in doubt, exact integer arithmetic decides, as for a single frame.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, FloatArray, Int64Array, NumericArray, RecordArray
from l5kit.data.array_shapes import require_shapes
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.collision import SIDE_CORNERS, TYPE_OF_SIDE, is_hidden, require_agents, require_finite
from l5kit.geometry.box import compute_box_outline, within_range
from l5kit.geometry.box_contact import boxes_touch, lengths_inside, turn_from_edge

NO_COLLISION = -1
"""Type and row of frames without a collision."""

_EPS: Final = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class SceneCollisions:
    """Types and agents of the collisions of the AV in each of N frames.

    Attributes:
        types: Values of :class:`~l5kit.evaluation.collision.CollisionType`, -1 for none, (N,).
        rows: Row of the agent in the array of all agents, -1 for none, (N,).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    types: Int64Array
    rows: Int64Array

    def __post_init__(self) -> None:
        require_shapes(self, rows=self.types.shape)


@dataclass(frozen=True)
class _NearAgents:
    """Agents near the AV: frames and rows (P,), ordered by frame and row, and outlines of AV and agent, (P, 4, 2)."""

    frames: Int64Array
    rows: Int64Array
    egos_m: Float64Array
    agents_m: Float64Array

    def __post_init__(self) -> None:
        size = len(self.frames)
        require_shapes(self, rows=(size,), egos_m=(size, 4, 2), agents_m=(size, 4, 2))


def detect_scene_collisions(
    centroids_m: FloatArray,
    yaws_rad: FloatArray,
    extent_m: FloatArray,
    *,
    agents: RecordArray,
    intervals: NumericArray,
    is_left_out: BoolArray | None = None,
) -> SceneCollisions:
    """Return the collisions of the AV in N frames.

    Each frame has the result of :func:`~l5kit.evaluation.collision.detect_collision` for arrays of the same types: the
    first touching agent in the order of the array decides, and hidden agents are skipped.

    Args:
        centroids_m: World positions of the AV in metres, (N, 2).
        yaws_rad: World headings of the AV in radians, (N,).
        extent_m: Length and width of the AV in metres, (2,).
        agents: Agents of all frames, (M,), structured with ``centroid``, ``extent``, ``yaw`` and ``track_id``.
        intervals: First row, and row after the last one, of the agents of each frame, (N, 2).
        is_left_out: Agents to skip, (M,); none by default.

    Raises:
        InvalidArgumentError: A shape or field is wrong, an interval exceeds the agents, or a position, heading or
            extent is not finite.
    """
    _require_valid(centroids_m, yaws_rad, extent_m, agents, intervals)
    if is_left_out is not None and is_left_out.shape != agents.shape:
        raise InvalidArgumentError(f"is_left_out has shape {is_left_out.shape}; agents need {agents.shape}")
    types, rows = np.full((2, len(centroids_m)), NO_COLLISION, np.int64)
    near = _find_near(centroids_m, yaws_rad, extent_m, agents, intervals, is_left_out)

    touching = np.flatnonzero(boxes_touch(near.egos_m, near.agents_m))

    # the first touching agent of each frame decides, with the side of the longest part inside its box
    frames, is_first = np.unique(near.frames[touching], return_index=True)
    deciding = touching[is_first]
    egos_m, agents_m, sides = near.egos_m[deciding], near.agents_m[deciding], np.array(SIDE_CORNERS)
    types_of_pairs = _types_where_sure(egos_m, agents_m)
    for pair in np.flatnonzero(types_of_pairs < 0).tolist():
        types_of_pairs[pair] = TYPE_OF_SIDE[int(np.argmax(lengths_inside(egos_m[pair][sides], agents_m[pair])))]
    types[frames], rows[frames] = types_of_pairs, near.rows[deciding]
    return SceneCollisions(types, rows)


def _require_valid(
    centroids_m: FloatArray, yaws_rad: FloatArray, extent_m: FloatArray, agents: RecordArray, intervals: NumericArray
) -> None:
    """Check the arguments of :func:`detect_scene_collisions`."""
    if yaws_rad.ndim != 1 or centroids_m.shape != (len(yaws_rad), 2) or extent_m.shape != (2,):
        raise InvalidArgumentError(
            f"centroids_m has shape {centroids_m.shape}, yaws_rad {yaws_rad.shape} and extent_m {extent_m.shape}; "
            "pass (N, 2), (N,) and (2,)"
        )
    is_known = np.isfinite(centroids_m).all(axis=1) & np.isfinite(yaws_rad)
    if not is_known.all():
        frame = int(np.argmin(is_known))
        raise InvalidArgumentError(
            f"the AV of frame {frame} is at {centroids_m[frame].tolist()} with yaw {yaws_rad[frame]}; "
            "pass finite numbers"
        )
    if not np.isfinite(extent_m).all():
        raise InvalidArgumentError(f"extent_m is {extent_m.tolist()}; pass finite numbers")
    require_agents(agents)
    if intervals.shape != (len(yaws_rad), 2):
        raise InvalidArgumentError(f"intervals has shape {intervals.shape}; for {len(yaws_rad)} frames pass (N, 2)")
    is_wrong = (intervals[:, 0] < 0) | (intervals[:, 0] > intervals[:, 1]) | (intervals[:, 1] > len(agents))
    if is_wrong.any():
        frame = int(np.argmax(is_wrong))
        raise InvalidArgumentError(
            f"the interval of frame {frame} is {intervals[frame].tolist()}; it must lie within {len(agents)} agents"
        )


def _find_near(
    centroids_m: FloatArray,
    yaws_rad: FloatArray,
    extent_m: FloatArray,
    agents: RecordArray,
    intervals: NumericArray,
    is_left_out: BoolArray | None,
) -> _NearAgents:
    """Return the agents that detect_collision would check, in all frames."""
    frames, rows = _rows_around(
        np.ascontiguousarray(centroids_m, np.float64),
        float(np.hypot(*extent_m)),
        np.ascontiguousarray(agents["centroid"], np.float64),
        np.ascontiguousarray(agents["extent"][:, :2], np.float64),
        np.ascontiguousarray(intervals, np.int64),
    )
    # narrow down to exactly the agents that a single frame checks, by the same calls on arrays of the same types
    around = agents[rows]
    is_near = within_range(centroids_m[frames], extent_m, around["centroid"], around["extent"]) & ~is_hidden(around)
    if is_left_out is not None:
        is_near &= ~is_left_out[rows]
    frames, rows, near = frames[is_near], rows[is_near], around[is_near]
    agents_m = compute_box_outline(near["centroid"], near["yaw"], near["extent"])
    require_finite(near, agents_m)
    extents_m = np.broadcast_to(extent_m, (len(frames), 2))
    egos_m = compute_box_outline(centroids_m[frames], yaws_rad[frames], extents_m)
    return _NearAgents(frames, rows, egos_m, agents_m)


@kernel_jit
def _rows_around(
    egos_m: Float64Array,
    ego_diagonal_m: float,
    centroids_m: Float64Array,
    extents_m: Float64Array,
    intervals: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Return frames and rows of all agents within range of the AV, and of some slightly beyond."""
    size = 0
    for frame in range(len(intervals)):
        size += intervals[frame, 1] - intervals[frame, 0]
    frames, rows = np.empty(size, np.int64), np.empty(size, np.int64)
    count = 0
    for frame in range(len(intervals)):
        for row in range(intervals[frame, 0], intervals[frame, 1]):
            x, y = centroids_m[row, 0] - egos_m[frame, 0], centroids_m[row, 1] - egos_m[frame, 1]
            diagonal_m = np.sqrt(extents_m[row, 0] ** 2 + extents_m[row, 1] ** 2)
            reach_m = 0.501 * (ego_diagonal_m + diagonal_m) + 0.001  # callers check the exact range
            if x * x + y * y <= reach_m * reach_m:
                frames[count], rows[count] = frame, row
                count += 1
    return frames[:count].copy(), rows[:count].copy()


@kernel_jit
def _types_where_sure(egos_m: Float64Array, agents_m: Float64Array) -> Int64Array:
    """Return the types of collisions of pairs of boxes (P, 4, 2), -1 if rounding might decide, (P,)."""
    types = np.full(len(egos_m), -1, np.int64)
    for pair in range(len(egos_m)):
        least_m, most_m = np.zeros(3), np.zeros(3)  # front, rear and the longer of the flanks
        for side in range(4):
            start, end, group = SIDE_CORNERS[side][0], SIDE_CORNERS[side][1], min(side, 2)
            low_m, high_m = _bounds_of_length_inside(egos_m[pair, start], egos_m[pair, end], agents_m[pair])
            least_m[group], most_m[group] = max(least_m[group], low_m), max(most_m[group], high_m)
        if most_m.max() == 0:
            types[pair] = 0
        # sure if the lower bound of one side exceeds the upper bounds of the others
        for group in range(3):
            if least_m[group] > max(most_m[(group + 1) % 3], most_m[(group + 2) % 3]):
                types[pair] = group
    return types


@kernel_jit
def _bounds_of_length_inside(start_m: Float64Array, end_m: Float64Array, box_m: Float64Array) -> tuple[float, float]:
    """Return lower and upper bounds, allowing for rounding, of the length of a segment inside a box."""
    length_m = np.sqrt((end_m[0] - start_m[0]) ** 2 + (end_m[1] - start_m[1]) ** 2)
    # Clip the segment by the line of each edge (Cyrus and Beck, 1978): shares of its length at which it enters and
    # leaves the box, bounds of their rounding errors, and whether an end is too close to a line to know its side.
    enters, leaves, error, is_doubtful = 0.0, 1.0, 4 * _EPS, False
    for edge in range(4):
        of_start, start_error = turn_from_edge(box_m, edge, start_m[0], start_m[1])
        of_end, end_error = turn_from_edge(box_m, edge, end_m[0], end_m[1])
        if of_start > start_error and of_end > end_error:
            return 0.0, 0.0
        if not (abs(of_start) > start_error and abs(of_end) > end_error):
            is_doubtful = True
        elif of_start > 0 or of_end > 0:
            part = of_start / (of_start - of_end)
            error = max(error, 2 * max(start_error, end_error) / abs(of_start - of_end) + 4 * _EPS)
            if of_start > 0:
                enters = max(enters, part)
            else:
                leaves = min(leaves, part)
    if leaves - enters < -2 * error:
        return 0.0, 0.0
    if is_doubtful:
        return 0.0, 2 * length_m
    largest_m = max(np.abs(start_m).max(), np.abs(end_m).max())
    error_m = 2 * error * length_m + 16 * _EPS * largest_m  # of the shares, and of the points
    inside_m = max(leaves - enters, 0.0) * length_m
    return max(inside_m - error_m, 0.0), inside_m + error_m

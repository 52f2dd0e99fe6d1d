"""Left and right boundary of a lane, from the corners of its polygon and its centre line."""

import numpy as np

from l5kit._types import Float64Array

ON_LINE_M = 0.05
"""Corners no farther from the centre line are of neither side: they lie in the middle of an end of the lane, metres."""

_MOST_PAIRS = 4_000_000
"""So many corners times points of a line are compared at most."""


def sides_of_lane(centre_m: Float64Array, outline_m: Float64Array) -> tuple[Float64Array | None, Float64Array | None]:
    """Return the corners to the left and to the right of a centre line, each in driving direction.

    The polygon of a lane goes along one side and back along the other. So the corners on a side follow one another;
    where they do not, or a side has one corner alone, the polygon is not that of a lane, and there are no sides.

    Args:
        centre_m: Centre line, x and y, (n, 2).
        outline_m: Corners of the polygon in either sense, the first not repeated, (m, 2).

    Returns:
        Left and right side, (k, 2) each, or None and None.
    """
    if len(centre_m) * len(outline_m) > _MOST_PAIRS:  # no lane has so many, and all are compared at once
        return None, None
    offsets_m, along_m = _offsets(centre_m, outline_m)
    is_sided = np.abs(offsets_m) > ON_LINE_M
    corners_m, is_left, along_m = outline_m[is_sided], offsets_m[is_sided] > 0, along_m[is_sided]
    changes = np.flatnonzero(is_left != np.roll(is_left, 1))
    if len(changes) != 2:
        return None, None
    # From one change of side to the next corners are on one side, and over the end of the list on the other.
    first, second = changes.tolist()
    runs = np.arange(first, second), np.arange(second, first + len(corners_m)) % len(corners_m)
    if min(map(len, runs)) < 2:
        return None, None
    sides = [corners_m[run if along_m[run[-1]] >= along_m[run[0]] else run[::-1]] for run in runs]
    return (sides[0], sides[1]) if is_left[first] else (sides[1], sides[0])


def _offsets(line_m: Float64Array, points_m: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return how far points lie to the left of a line that goes on straight at both ends, and how far along it, (m,).

    Args:
        line_m: The line, whose neighbouring points differ, (n, 2).
        points_m: The points, (m, 2).
    """
    # How far along each piece a point is, (m, n - 1): the dot product with its direction, cut at its ends, but for the
    # outer ends of the first and the last one.
    steps_m = np.diff(line_m, axis=0)
    lengths_m = np.linalg.norm(steps_m, axis=1)
    directions = steps_m / lengths_m[:, None]
    starts_m = np.concatenate([[0.0], np.cumsum(lengths_m)[:-1]])
    from_start_m = points_m[:, None] - line_m[:-1]
    along_m = (from_start_m * directions).sum(axis=-1)
    lowest, highest = np.zeros_like(lengths_m), lengths_m.copy()
    lowest[0], highest[-1] = -np.inf, np.inf
    along_m = np.clip(along_m, lowest, highest)
    # How far to the left of the nearest piece a point is: the cross product with its direction.
    nearest = np.linalg.norm(from_start_m - along_m[..., None] * directions, axis=-1).argmin(axis=1)
    rows = np.arange(len(points_m))
    vectors_m = from_start_m[rows, nearest]
    offsets_m = directions[nearest, 0] * vectors_m[:, 1] - directions[nearest, 1] * vectors_m[:, 0]
    return offsets_m, starts_m[nearest] + along_m[rows, nearest]

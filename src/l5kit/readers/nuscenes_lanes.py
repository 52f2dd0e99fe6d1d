"""Lanes of the nuScenes map expansion: points of their centre lines, and their left and right boundaries.

Centre lines are chains of arcs and straight lines; boundaries come from the corners of the lane's polygon.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from l5kit._types import Float64Array
from l5kit.errors import DatasetFormatError

_TURNS = {
    "LRL": (1.0, -1.0, 1.0),
    "LSL": (1.0, 0.0, 1.0),
    "LSR": (1.0, 0.0, -1.0),
    "RLR": (-1.0, 1.0, -1.0),
    "RSL": (-1.0, 0.0, 1.0),
    "RSR": (-1.0, 0.0, -1.0),
}
"""Sign of the curvature of each of the three segments: 1 to the left, 0 straight on, -1 to the right."""

LONGEST_STEP_M = 2.0
"""Maximum distance between points of a centre line, metres."""

LARGEST_SAGITTA_M = 0.005
"""Maximum distance of an arc from the chord between two of its points, metres."""

_SAME_POINT_M = 1e-6

_MOST_STEPS = 10_000
"""A segment with more steps is treated as damaged, before it exhausts the memory."""

ON_LINE_M = 0.05
"""Corners at most this far from the centre line, metres, belong to neither side, but to the middle of a lane end."""

_MOST_PAIRS = 4_000_000
"""Maximum number of corners times points of a line that are compared."""


class ArclinePath(msgspec.Struct, frozen=True):
    """One path of a lane: three consecutive segments, each an arc of the same radius or straight (a Dubins path).

    Attributes:
        start_pose: World x and y of the start in metres, and the heading there in radians.
        shape: Letters of the segments: left, straight, right.
        radius: Radius of the arcs, metres.
        segment_length: Arc length of each segment, metres; 0 for none.
    """

    start_pose: tuple[float, float, float]
    shape: str
    radius: float
    segment_length: tuple[float, float, float]


def discretize_lane(paths: Sequence[ArclinePath]) -> Float64Array:
    """Return points exactly on a centre line, including both ends of all segments; world metres, (N, 2).

    Consecutive points are at most :data:`LONGEST_STEP_M` apart, and arcs deviate at most :data:`LARGEST_SAGITTA_M` from
    the polyline. Consecutive points differ.

    Args:
        paths: The paths of the lane, in order; a gap between two paths becomes a straight piece.

    Raises:
        DatasetFormatError: A path has an unknown shape, a radius that is not above 0, invalid lengths, or too many
            points; or there are fewer than two points.
    """
    points_m: list[Float64Array] = []
    for path in paths:
        # other values would give meaningless points
        values = np.array([*path.start_pose, path.radius, *path.segment_length])
        if path.shape not in _TURNS:
            raise DatasetFormatError(f"shape is {path.shape!r}, must be one of {', '.join(_TURNS)}")
        if not np.isfinite(values).all() or path.radius <= 0.0 or min(path.segment_length) < 0.0:
            raise DatasetFormatError(
                "start_pose, radius and segment_length must be finite, radius above 0 and lengths not below 0, got "
                f"{path}"
            )
        x_m, y_m, heading_rad = path.start_pose
        points_m.append(np.array([[x_m, y_m]]))
        for turn, length_m in zip(_TURNS[path.shape], path.segment_length, strict=True):
            if length_m == 0.0:
                continue
            curvature = turn / path.radius

            # Points are so dense that the sagitta stays below its limit: s^2 / (8 r) for a chord s.
            step_m = LONGEST_STEP_M
            if curvature:
                step_m = min(step_m, float(np.sqrt(8.0 * LARGEST_SAGITTA_M / abs(curvature))))
            if not length_m / step_m <= _MOST_STEPS:
                raise DatasetFormatError(
                    f"segment_length is {length_m:g} m with a curvature of {abs(curvature):g} 1/m, which takes more "
                    f"than {_MOST_STEPS} points"
                )
            num_steps = max(1, int(np.ceil(length_m / step_m)))
            along_m = np.linspace(0.0, length_m, num_steps + 1)[1:]  # without its start, the end of the segment before

            # An arc of curvature k and length s has a chord of length s sinc(k s / 2), at the start heading plus k s /
            # 2. This also holds for straight lines, and is numerically exact near them.
            halves_rad = 0.5 * curvature * along_m
            chords_m, headings_rad = along_m * np.sinc(halves_rad / np.pi), heading_rad + halves_rad
            chords_xy_m = np.stack([chords_m * np.cos(headings_rad), chords_m * np.sin(headings_rad)], axis=-1)
            points_m.append(points_m[-1][-1] + chords_xy_m)
            heading_rad += curvature * length_m

    # where paths and segments meet, keep the shared point once
    line_m = np.concatenate(points_m) if points_m else np.zeros((0, 2))
    is_new = np.ones(len(line_m), dtype=bool)
    is_new[1:] = np.linalg.norm(np.diff(line_m, axis=0), axis=1) > _SAME_POINT_M
    line_m = line_m[is_new]
    if len(line_m) < 2:
        raise DatasetFormatError(f"its {len(paths)} arc line paths have no length")
    return line_m


def sides_of_lane(centre_m: Float64Array, outline_m: Float64Array) -> tuple[Float64Array | None, Float64Array | None]:
    """Return the corners to the left and to the right of a centre line, each in driving direction.

    The polygon of a lane runs along one side and back along the other, so the corners of a side are consecutive. If
    they are not, or a side has fewer than two corners, the polygon is not that of a lane, and there are no sides.

    Args:
        centre_m: Centre line, x and y, (n, 2).
        outline_m: Corners of the polygon in either orientation, the first not repeated, (m, 2).

    Returns:
        Left and right side, (k, 2) each, or None and None.
    """
    if len(centre_m) * len(outline_m) > _MOST_PAIRS:  # no real lane has so many, and all pairs are held at once
        return None, None
    offsets_m, along_m = _offsets(centre_m, outline_m)
    is_sided = np.abs(offsets_m) > ON_LINE_M
    corners_m, is_left, along_m = outline_m[is_sided], offsets_m[is_sided] > 0, along_m[is_sided]
    changes = np.flatnonzero(is_left != np.roll(is_left, 1))
    if len(changes) != 2:
        return None, None
    # corners from one change of side to the next are on one side; the rest, wrapping around, on the other
    first, second = changes.tolist()
    runs = np.arange(first, second), np.arange(second, first + len(corners_m)) % len(corners_m)
    if min(map(len, runs)) < 2:
        return None, None
    sides = [corners_m[run if along_m[run[-1]] >= along_m[run[0]] else run[::-1]] for run in runs]
    return (sides[0], sides[1]) if is_left[first] else (sides[1], sides[0])


def _offsets(line_m: Float64Array, points_m: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the offset of points to the left of a line extended at both ends, and their distance along it, (m,).

    Args:
        line_m: The line, whose neighbouring points differ, (n, 2).
        points_m: The points, (m, 2).
    """
    # distance of each point along each piece, (m, n - 1): the dot product with its direction, clipped to the piece
    # except at the two outer ends of the line
    steps_m = np.diff(line_m, axis=0)
    lengths_m = np.linalg.norm(steps_m, axis=1)
    directions = steps_m / lengths_m[:, None]
    starts_m = np.concatenate([[0.0], np.cumsum(lengths_m)[:-1]])
    from_start_m = points_m[:, None] - line_m[:-1]
    along_m = (from_start_m * directions).sum(axis=-1)
    lowest, highest = np.zeros_like(lengths_m), lengths_m.copy()
    lowest[0], highest[-1] = -np.inf, np.inf
    along_m = np.clip(along_m, lowest, highest)
    # offset to the left of the nearest piece: the cross product with its direction
    nearest = np.linalg.norm(from_start_m - along_m[..., None] * directions, axis=-1).argmin(axis=1)
    rows = np.arange(len(points_m))
    vectors_m = from_start_m[rows, nearest]
    offsets_m = directions[nearest, 0] * vectors_m[:, 1] - directions[nearest, 1] * vectors_m[:, 0]
    return offsets_m, starts_m[nearest] + along_m[rows, nearest]

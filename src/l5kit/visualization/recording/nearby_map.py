"""The part of a map near the path of the AV, and colour changes of its lanes."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array, Int64Array, NumericArray, UInt32Array
from l5kit.data.array_shapes import require_shapes
from l5kit.data.map.map_arrays import MapArrays
from l5kit.visualization.map_shapes import read_map_shapes
from l5kit.visualization.scene_content import LaneLightRows

MAX_LINE_POINTS = 10_000
"""Largest number of points of a lane boundary or crosswalk outline; usual streets have hundreds."""


@dataclass(frozen=True)
class NearbyLane:
    """A lane as an area; x and y in metres.

    Attributes:
        lane_id: Its id on the map.
        left_m: Left boundary, float64, shape (L, 2).
        right_m: Right boundary, float64, shape (R, 2).
        triangles: Indices into the left points followed by the right ones, counter-clockwise, shape (L + R - 2, 3).
    """

    lane_id: str
    left_m: Float64Array
    right_m: Float64Array
    triangles: UInt32Array

    def __post_init__(self) -> None:
        require_shapes(self, left_m=(len(self.left_m), 2), right_m=(len(self.right_m), 2))
        require_shapes(self, triangles=(len(self.left_m) + len(self.right_m) - 2, 3))

    @property
    def vertices_m(self) -> Float64Array:
        """The left points followed by the right ones, shape (L + R, 2)."""
        return np.concatenate([self.left_m, self.right_m])


@dataclass(frozen=True)
class NearbyMap:
    """Lanes by their rows in ``bounds_info["lanes"]``, and crosswalk outlines, each float64, shape (n, 2)."""

    lanes: dict[int, NearbyLane]
    crosswalks: list[Float64Array]

    def crosswalk_rims_m(self) -> list[Float64Array]:
        """Return the outlines of the crosswalks, closed by repeating the first point at the end."""
        return [np.concatenate([outline_m, outline_m[:1]]) for outline_m in self.crosswalks]


def find_nearby_map(
    arrays: MapArrays, positions_m: NumericArray, radius_m: float, *, origin_m: Float64Array
) -> NearbyMap:
    """Return the lanes and crosswalks near positions.

    Lines of more than :data:`MAX_LINE_POINTS` points are thinned to that number, evenly from first to last.

    Args:
        arrays: The map.
        positions_m: World x and y, shape (F, 2).
        radius_m: Distance, along x and y, from any position to the bounds of an element.
        origin_m: World x and y of the new origin, shape (2,).
    """
    shapes, rows = read_map_shapes(arrays).near(positions_m, radius_m)
    ids = arrays.lane_ids
    outlines_m = np.split(shapes.lanes.points_m - origin_m, shapes.lanes.starts[1:-1])
    crosswalks_m = list(map(_thinned, np.split(shapes.crosswalks.points_m - origin_m, shapes.crosswalks.starts[1:-1])))
    # An outline is the left boundary followed by the reversed right one; without lanes there is one empty outline.
    lanes = {}
    for row, outline_m, num_left in zip(rows.tolist(), outlines_m, shapes.lane_left_counts.tolist(), strict=False):
        left_m, right_m = _thinned(outline_m[:num_left]), _thinned(outline_m[num_left:][::-1])
        lanes[row] = NearbyLane(ids[row], left_m, right_m, _triangles_between(left_m, right_m))
    return NearbyMap(lanes, crosswalks_m[: len(shapes.crosswalks)])


def light_changes(lights: LaneLightRows, lanes: dict[int, NearbyLane]) -> Iterator[tuple[int, dict[int, int]]]:
    """Yield each frame in which a lane changes its colour, with the colours of all lit lanes.

    The first frame is always included. Colours are indices in ``LIGHT_COLORS`` by row of the lane.
    """
    before: dict[int, int] | None = None
    for frame_index in range(len(lights.starts) - 1):
        rows = lights.rows_of(frame_index)
        pairs = zip(lights.lanes[rows].tolist(), lights.colors[rows].tolist(), strict=True)
        now = {lane: color for lane, color in pairs if lane in lanes}
        if now != before:
            yield frame_index, now
        before = now


def _thinned(line_m: Float64Array) -> Float64Array:
    """Return a line (n, 2) thinned to at most :data:`MAX_LINE_POINTS` points, including the first and the last."""
    if len(line_m) <= MAX_LINE_POINTS:
        return line_m
    return line_m[np.arange(MAX_LINE_POINTS) * (len(line_m) - 1) // (MAX_LINE_POINTS - 1)]


def _triangles_between(left_m: Float64Array, right_m: Float64Array) -> UInt32Array:
    """Return triangles between two lines of the same direction; each segment of either line gives a triangle.

    Segments of both lines are ordered by the share of the line length at their end.
    """
    reached = np.concatenate([_parts_of_length(left_m)[1:], _parts_of_length(right_m)[1:]])
    is_left = np.arange(len(reached)) < len(left_m) - 1
    is_left = is_left[np.argsort(reached, kind="stable")]
    left: Int64Array = np.cumsum(is_left) - is_left  # points reached before each step
    right: Int64Array = len(left_m) + np.cumsum(~is_left) - ~is_left
    third = np.where(is_left, left + 1, right + 1)
    return np.column_stack([left, right, third]).astype(np.uint32)


def _parts_of_length(line_m: Float64Array) -> Float64Array:
    """Return the share of the length of a line before each point, from 0 to 1."""
    lengths_m = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line_m, axis=0), axis=1))])
    return lengths_m / lengths_m[-1] if lengths_m[-1] > 0 else lengths_m

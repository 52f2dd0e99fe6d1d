"""Outlines of lanes and crosswalks, stacked, and what of them is drawn in the rasters of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int32Array, Int64Array
from l5kit.data.lane_lights import LaneLights
from l5kit.errors import InvalidArgumentError
from l5kit.rasterization.culling import touches_picture
from l5kit.rasterization.subpixel import CV2_SHIFT_VALUE

FILLED: Final = 0
OPEN_LINE: Final = 1
CLOSED_LINE: Final = 2
"""Kinds of shapes."""

LINE_COLORS: Final = 4
"""Colours of lane boundaries: that of lanes without a light, then :data:`l5kit.data.lane_lights.LIGHT_COLORS`."""

ROAD_COLOR: Final = 4
CROSSWALK_COLOR: Final = 5


@dataclass(frozen=True)
class MapShapes:
    """What is drawn in the pictures of B windows, in this order.

    Attributes:
        points: Column and row in 512ths of a pixel, int32, shape (P, 2).
        spans: First point and end point of each shape, shape (S, 2).
        kinds: :data:`FILLED`, :data:`OPEN_LINE` or :data:`CLOSED_LINE`, shape (S,).
        colors: Number of the colour, shape (S,).
        starts: First shape of each window and the end of the last one, shape (B + 1,).
    """

    points: Int32Array
    spans: Int64Array
    kinds: Int64Array
    colors: Int64Array
    starts: Int64Array


@dataclass(frozen=True)
class MapOutlines:
    """Outlines of N map elements: first lanes, which consist of two lines, then crosswalks, which are one line.

    Attributes:
        vertices_m: World x and y of all vertices, float64, shape (V, 2).
        line_starts: First vertex of each line and the end of the last one.
        element_starts: First line of each element and the end of the last one, shape (N + 1,).
        num_lanes: How many elements are lanes.
    """

    vertices_m: Float64Array
    line_starts: Int64Array
    element_starts: Int64Array
    num_lanes: int

    def __post_init__(self) -> None:
        if self.line_starts[-1] != len(self.vertices_m) or self.element_starts[-1] != len(self.line_starts) - 1:
            raise InvalidArgumentError(
                f"shapes do not fit: vertices_m {self.vertices_m.shape}, line_starts {self.line_starts.shape} to"
                f" {self.line_starts[-1]}, element_starts {self.element_starts.shape} to {self.element_starts[-1]}"
            )
        for array in (self.vertices_m, self.line_starts, self.element_starts):
            array.setflags(write=False)

    @classmethod
    def stack(cls, left_m: Float64Array, right_m: Float64Array, crosswalks_m: Sequence[Float64Array]) -> "MapOutlines":
        """Return the outlines of lanes, left boundary forward, then right boundary backward, and of crosswalks.

        Args:
            left_m: Left boundaries, shape (L, P, >= 2).
            right_m: Right boundaries, shape (L, P, >= 2).
            crosswalks_m: Polygons, each of shape (n, >= 2).
        """
        lanes_m = np.stack([left_m[..., :2], right_m[:, ::-1, :2]], axis=1)  # (L, 2, P, 2)
        num_lanes, _, num_points, _ = lanes_m.shape
        lengths = np.array([num_points] * (2 * num_lanes) + [len(polygon) for polygon in crosswalks_m], np.int64)
        lines_per_element = np.array([2] * num_lanes + [1] * len(crosswalks_m), np.int64)
        return cls(
            np.concatenate([lanes_m.reshape(-1, 2), *(polygon[:, :2] for polygon in crosswalks_m)]),
            _starts_of(lengths),
            _starts_of(lines_per_element),
            num_lanes,
        )

    def list_shapes(
        self,
        rows: Int64Array,
        row_starts: Int64Array,
        raster_from_world: Float64Array,
        raster_size: tuple[int, int],
        *,
        lights: LaneLights,
        active: tuple[Int64Array, Int64Array],
    ) -> MapShapes:
        """Return what of the given elements may touch the pictures of B windows, in the order of drawing.

        Lanes are filled first. Then come their boundaries by colour, the colours in the order of the lanes, and at last
        the outlines of crosswalks.

        Args:
            rows: The elements of each window, ascending, one window after the other.
            row_starts: Where those of each window start, shape (B + 1,).
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
            raster_size: Width and height in pixels.
            lights: The lights of the lanes.
            active: The active faces of each window and where they start, from :meth:`LaneLights.find_active`.
        """
        points, spans, is_visible = _project_lines(
            self.vertices_m,
            self.line_starts,
            self.element_starts,
            rows,
            row_starts,
            raster_from_world,
            raster_size,
        )
        ranks = _rank_lanes(
            rows, row_starts, self.num_lanes, *active, lights.ranks, lights.lane_starts, lights.lane_rows
        )
        return MapShapes(points, *_order_shapes(ranks, row_starts, spans, is_visible))


def _starts_of(lengths: Int64Array) -> Int64Array:
    return np.concatenate([[0], np.cumsum(lengths)])


@njit(nogil=True, cache=True, error_model="numpy")
def _project_lines(
    vertices_m: Float64Array,
    line_starts: Int64Array,
    element_starts: Int64Array,
    rows: Int64Array,
    row_starts: Int64Array,
    raster_from_world: Float64Array,
    raster_size: tuple[int, int],
) -> tuple[Int32Array, Int64Array, BoolArray]:
    """Project elements; a crosswalk leaves the second of its two lines empty.

    Returns:
        Points in 512ths of a pixel (P, 2), first and end point of both lines of each element (R, 2, 2), and whether
        the element and each of its lines may touch the picture (R, 3).
    """
    num_points = 0
    for row in rows:
        num_points += line_starts[element_starts[row + 1]] - line_starts[element_starts[row]]
    points = np.empty((num_points, 2), np.int32)
    spans = np.empty((len(rows), 2, 2), np.int64)
    is_visible = np.zeros((len(rows), 3), np.bool_)
    end = 0
    for window in range(len(row_starts) - 1):
        matrix = raster_from_world[window]
        for index in range(row_starts[window], row_starts[window + 1]):
            row = rows[index]
            spans[index] = end
            element_low, element_high = (np.inf, np.inf), (-np.inf, -np.inf)
            for part in range(element_starts[row + 1] - element_starts[row]):
                first, last = line_starts[element_starts[row] + part], line_starts[element_starts[row] + part + 1]
                low, high = _project_line(vertices_m[first:last], matrix, points[end : end + last - first])
                is_visible[index, 1 + part] = touches_picture(low, high, raster_size)
                element_low = (min(element_low[0], low[0]), min(element_low[1], low[1]))
                element_high = (max(element_high[0], high[0]), max(element_high[1], high[1]))
                spans[index, part, 0] = end
                end += last - first
                spans[index, part:, 1] = end
            is_visible[index, 0] = touches_picture(element_low, element_high, raster_size)
    return points, spans, is_visible


@njit(nogil=True, cache=True, error_model="numpy")
def _project_line(
    vertices_m: Float64Array, raster_from_world: Float64Array, points: Int32Array
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Write a line (n, 2) to ``points`` in 512ths of a pixel; return its lowest and highest pixel."""
    column_low = row_low = np.inf
    column_high = row_high = -np.inf
    for i in range(len(vertices_m)):
        x, y = vertices_m[i, 0], vertices_m[i, 1]
        column = x * raster_from_world[0, 0] + y * raster_from_world[0, 1] + raster_from_world[0, 2]
        row = x * raster_from_world[1, 0] + y * raster_from_world[1, 1] + raster_from_world[1, 2]
        points[i, 0] = np.int32(np.int64(column * CV2_SHIFT_VALUE))
        points[i, 1] = np.int32(np.int64(row * CV2_SHIFT_VALUE))
        column_low, column_high = min(column_low, column), max(column_high, column)
        row_low, row_high = min(row_low, row), max(row_high, row)
    return (column_low, row_low), (column_high, row_high)


@njit(nogil=True, cache=True, error_model="numpy")
def _rank_lanes(
    rows: Int64Array,
    row_starts: Int64Array,
    num_lanes: int,
    active: Int64Array,
    active_starts: Int64Array,
    face_ranks: Int64Array,
    lane_starts: Int64Array,
    lane_rows: Int64Array,
) -> Int64Array:
    """Return for each element the highest rank of the active faces of its window that control it; -1 for crosswalks."""
    ranks = np.full(len(rows), -1, np.int64)
    rank_of_lane = np.zeros(num_lanes, np.int64)
    for window in range(len(row_starts) - 1):
        faces = active[active_starts[window] : active_starts[window + 1]]
        for face in faces:
            for lane in lane_rows[lane_starts[face] : lane_starts[face + 1]]:
                rank_of_lane[lane] = max(rank_of_lane[lane], face_ranks[face])
        for index in range(row_starts[window], row_starts[window + 1]):
            if rows[index] < num_lanes:
                ranks[index] = rank_of_lane[rows[index]]
        for face in faces:
            rank_of_lane[lane_rows[lane_starts[face] : lane_starts[face + 1]]] = 0
    return ranks


@njit(nogil=True, cache=True, error_model="numpy")
def _order_shapes(
    ranks: Int64Array, row_starts: Int64Array, spans: Int64Array, is_visible: BoolArray
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Return the last four fields of :class:`MapShapes`."""
    shapes = np.empty((3 * len(ranks), 2), np.int64)
    kinds, colors = np.empty(len(shapes), np.int64), np.empty(len(shapes), np.int64)
    starts = np.zeros(len(row_starts), np.int64)
    end = 0
    for window in range(len(row_starts) - 1):
        first, last = row_starts[window], row_starts[window + 1]
        num_lanes = 0
        for index in range(first, last):
            if ranks[index] >= 0:
                num_lanes += 1
                if is_visible[index, 0]:
                    shapes[end, 0], shapes[end, 1] = spans[index, 0, 0], spans[index, 1, 1]
                    kinds[end], colors[end] = FILLED, ROAD_COLOR
                    end += 1
        is_done = np.zeros(LINE_COLORS, np.bool_)
        for leader in range(first, first + num_lanes):
            color = ranks[leader]
            for index in range(leader, first + num_lanes) if not is_done[color] else range(0):
                for part in range(2):
                    if ranks[index] == color and is_visible[index, 1 + part]:
                        shapes[end] = spans[index, part]
                        kinds[end], colors[end] = OPEN_LINE, color
                        end += 1
            is_done[color] = True
        for index in range(first + num_lanes, last):
            if is_visible[index, 0]:
                shapes[end] = spans[index, 0]
                kinds[end], colors[end] = CLOSED_LINE, CROSSWALK_COLOR
                end += 1
        starts[window + 1] = end
    return shapes[:end], kinds[:end], colors[:end], starts

"""Outlines of lanes and crosswalks, stacked, and what of them is drawn in the rasters of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int32Array, Int64Array
from l5kit.data.lane_lights import LaneLights
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.relative_pose import transform_xy
from l5kit.rasterization.antialiased import CLOSED_LINE, FILLED, OPEN_LINE
from l5kit.rasterization.culling import touches_picture
from l5kit.rasterization.subpixel import CV2_SHIFT_VALUE

ROAD_COLOR: Final[Any] = np.int64(4)
CROSSWALK_COLOR: Final[Any] = np.int64(5)
"""Colours of shapes; before them come those of lane boundaries, by the rank of the light of their lane."""


@dataclass(frozen=True)
class MapShapes:
    """What is drawn in the pictures of B windows, in this order.

    Attributes:
        points: Column and row in 512ths of a pixel, int32, shape (P, 2).
        spans: First point and end point of each shape, shape (S, 2).
        table: Kind, first contour, end contour, colour and first plane of each shape, (S, 5), where contour 2 i has the
            points of span i; see :func:`l5kit.rasterization.antialiased.draw_shapes`.
        starts: First shape of each window and the end of the last one, shape (B + 1,).
    """

    points: Int32Array
    spans: Int64Array
    table: Int64Array
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
        num_lanes, num_points = left_m.shape[:2]
        lengths = np.array([num_points] * (2 * num_lanes) + [len(polygon) for polygon in crosswalks_m], np.int64)
        lines_per_element = np.array([2] * num_lanes + [1] * len(crosswalks_m), np.int64)
        line_starts = _starts_of(lengths)
        vertices_m = np.empty((line_starts[-1], 2))
        end_lanes = 2 * num_lanes * num_points
        lanes_m = vertices_m[:end_lanes].reshape(num_lanes, 2, num_points, 2)
        lanes_m[:, 0], lanes_m[:, 1] = left_m[..., :2], right_m[:, ::-1, :2]
        if len(crosswalks_m):
            np.concatenate([polygon[:, :2] for polygon in crosswalks_m], out=vertices_m[end_lanes:])
        return cls(vertices_m, line_starts, _starts_of(lines_per_element), num_lanes)

    @cached_property
    def _num_vertices(self) -> Int64Array:
        """Number of vertices of each element, (N,)."""
        return np.diff(self.line_starts[self.element_starts])

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
        points = np.empty((int(self._num_vertices[rows].sum()), 2), np.int32)
        spans, is_visible = np.empty((len(rows), 2, 2), np.int64), np.zeros((len(rows), 3), np.bool_)
        _project_lines(
            self.vertices_m,
            self.line_starts,
            self.element_starts,
            rows,
            row_starts,
            raster_from_world,
            raster_size,
            points,
            spans,
            is_visible,
        )
        shapes = np.empty((3 * len(rows), 2), np.int64), np.empty((3 * len(rows), 5), np.int64)
        starts = np.zeros(len(row_starts), np.int64)
        _order_shapes(
            rows,
            row_starts,
            self.num_lanes,
            *active,
            (lights.ranks, lights.lane_starts, lights.lane_rows),
            spans,
            is_visible,
            np.empty(len(rows), np.int64),
            np.zeros(self.num_lanes, np.int64),
            *shapes,
            starts,
        )
        return MapShapes(points, shapes[0][: starts[-1]], shapes[1][: starts[-1]], starts)


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
    points: Int32Array,
    spans: Int64Array,
    is_visible: BoolArray,
) -> None:
    """Project R elements; a crosswalk leaves the second of its two lines empty.

    Writes points in 512ths of a pixel (P, 2), first and end point of both lines of each element (R, 2, 2), and whether
    the element and each of its lines may touch the picture (R, 3), False before.
    """
    end = 0
    for window in range(len(row_starts) - 1):
        matrix = raster_from_world[window]
        for index in range(row_starts[window], row_starts[window + 1]):
            first_line, end_line = element_starts[rows[index]], element_starts[rows[index] + 1]
            lowest_column = lowest_row = np.inf
            highest_column = highest_row = -np.inf
            for part in range(2):
                spans[index, part, 0] = end
                line = first_line + part
                if line < end_line:
                    column_low = row_low = np.inf
                    column_high = row_high = -np.inf
                    for vertex in range(line_starts[line], line_starts[line + 1]):
                        column, row = transform_xy(matrix, vertices_m[vertex, 0], vertices_m[vertex, 1])
                        points[end, 0] = np.int32(np.int64(column * CV2_SHIFT_VALUE))
                        points[end, 1] = np.int32(np.int64(row * CV2_SHIFT_VALUE))
                        end += 1
                        column_low, column_high = min(column_low, column), max(column_high, column)
                        row_low, row_high = min(row_low, row), max(row_high, row)
                    is_visible[index, 1 + part] = touches_picture(
                        column_low, row_low, column_high, row_high, raster_size
                    )
                    lowest_column, highest_column = min(lowest_column, column_low), max(highest_column, column_high)
                    lowest_row, highest_row = min(lowest_row, row_low), max(highest_row, row_high)
                spans[index, part, 1] = end
            is_visible[index, 0] = touches_picture(lowest_column, lowest_row, highest_column, highest_row, raster_size)


@njit(nogil=True, cache=True, error_model="numpy")
def _order_shapes(
    rows: Int64Array,
    row_starts: Int64Array,
    num_lanes: int,
    active: Int64Array,
    active_starts: Int64Array,
    lights: tuple[Int64Array, Int64Array, Int64Array],
    spans: Int64Array,
    is_visible: BoolArray,
    ranks: Int64Array,
    rank_of_lane: Int64Array,
    shape_spans: Int64Array,
    table: Int64Array,
    starts: Int64Array,
) -> None:
    """Write the last three fields of :class:`MapShapes`; ``lights`` are ranks, lane starts and lane rows of the faces.

    A lane has the highest rank of the active faces of its window that control it. ``ranks`` (R,) and ``rank_of_lane``,
    one for each lane and 0 before, are overwritten.
    """
    face_ranks, lane_starts, lane_rows = lights
    end: Any = np.int64(0)  # as a literal it would let numba compile what it is handed to twice
    for window in range(len(row_starts) - 1):
        first, last = row_starts[window], row_starts[window + 1]
        for face in active[active_starts[window] : active_starts[window + 1]]:
            for lane in lane_rows[lane_starts[face] : lane_starts[face + 1]]:
                rank_of_lane[lane] = max(rank_of_lane[lane], face_ranks[face])
        end_lane = first
        for index in range(first, last):
            if rows[index] >= num_lanes:
                break
            ranks[index] = rank_of_lane[rows[index]]
            end_lane += 1
            if is_visible[index, 0]:
                _put(shape_spans, table, end, spans[index, 0, 0], spans[index, 1, 1], FILLED, ROAD_COLOR)
                end += 1
        for face in active[active_starts[window] : active_starts[window + 1]]:
            for lane in lane_rows[lane_starts[face] : lane_starts[face + 1]]:
                rank_of_lane[lane] = 0
        colors_done = 0
        for leader in range(first, end_lane):
            color = ranks[leader]
            if colors_done >> color & 1:
                continue
            colors_done |= 1 << color
            for index in range(leader, end_lane):
                for part in range(2):
                    if ranks[index] == color and is_visible[index, 1 + part]:
                        _put(shape_spans, table, end, spans[index, part, 0], spans[index, part, 1], OPEN_LINE, color)
                        end += 1
        for index in range(end_lane, last):
            if is_visible[index, 0]:
                _put(shape_spans, table, end, spans[index, 0, 0], spans[index, 0, 1], CLOSED_LINE, CROSSWALK_COLOR)
                end += 1
        starts[window + 1] = end


@njit(nogil=True, cache=True, error_model="numpy")
def _put(spans: Int64Array, table: Int64Array, shape: int, first: int, end: int, kind: int, color: int) -> None:
    """Write a shape of one contour, which is drawn from the first plane on."""
    spans[shape, 0], spans[shape, 1] = first, end
    table[shape, 0], table[shape, 1], table[shape, 2] = kind, 2 * shape, 2 * shape + 1
    table[shape, 3], table[shape, 4] = color, 0

"""Outlines of lanes and crosswalks, stacked, and the draw list of those that a batch of windows shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int32Array, Int64Array, NumericArray, UInt8Array
from l5kit.data.array_shapes import require_shapes
from l5kit.data.map.lane_lights import LaneLights, LightArrays
from l5kit.data.map.map_arrays import MapArrays
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.relative_pose import transform_xy
from l5kit.rasterization.culling import touches_picture
from l5kit.rasterization.draw_list import CLOSED_LINE, FILLED, OPEN_LINE, ShapeList
from l5kit.rasterization.subpixel import subpixel_of

ROAD_COLOR: Final[Any] = np.int64(4)
CROSSWALK_COLOR: Final[Any] = np.int64(5)
"""Colours of shapes; before them come those of lane boundaries, by the rank of the light of their lane."""


_BACKGROUND = 255
"""White."""


class NearElements(NamedTuple):
    """The elements of a map that are near each of B windows.

    Attributes:
        rows: Ascending, one window after the other, (R,).
        starts: Where those of each window start, and the end of the last ones, (B + 1,).
    """

    rows: Int64Array
    starts: Int64Array


class ActiveFaces(NamedTuple):
    """The traffic light faces that are active in each of B windows.

    Attributes:
        faces: One window after the other.
        starts: Where those of each window start, and the end of the last ones, (B + 1,).
    """

    faces: Int64Array
    starts: Int64Array


class _Lines(NamedTuple):
    """A :class:`MapOutlines`, as the kernel takes it."""

    vertices_m: Float64Array
    line_starts: Int64Array
    element_starts: Int64Array


class _Projected(NamedTuple):
    """Both lines of R elements in the pictures; a crosswalk leaves the second one empty.

    Attributes:
        points: Column and row in 512ths of a pixel, (P, 2).
        spans: First point and end point of each line, (R, 2, 2).
        is_visible: Whether the element and each of its lines may touch the picture, (R, 3).
    """

    points: Int32Array
    spans: Int64Array
    is_visible: BoolArray


class _Found(NamedTuple):
    """Arrays of a :class:`l5kit.rasterization.draw_list.ShapeList` of shapes of one contour each."""

    contours: Int64Array
    shapes: Int64Array
    starts: Int64Array


@dataclass(frozen=True)
class MapOutlines:
    """Outlines of N map elements: first lanes, which consist of two lines, then crosswalks, which are one line.

    Attributes:
        vertices_m: World x and y of all vertices, float64, shape (V, 2).
        line_starts: First vertex of each line and the end of the last one.
        element_starts: First line of each element and the end of the last one, shape (N + 1,).
        num_lanes: How many elements are lanes.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    vertices_m: Float64Array
    line_starts: Int64Array
    element_starts: Int64Array
    num_lanes: int

    def __post_init__(self) -> None:
        num_lines, num_elements = len(self.line_starts) - 1, len(self.element_starts) - 1
        require_shapes(
            self,
            vertices_m=(len(self.vertices_m), 2),
            line_starts=(max(num_lines, 0) + 1,),
            element_starts=(max(num_elements, 0) + 1,),
        )
        if self.line_starts[-1] != len(self.vertices_m) or self.element_starts[-1] != num_lines:
            raise InvalidArgumentError(
                f"shapes do not fit: vertices_m {self.vertices_m.shape}, line_starts {self.line_starts.shape} to"
                f" {self.line_starts[-1]}, element_starts {self.element_starts.shape} to {self.element_starts[-1]}"
            )
        for array in (self.vertices_m, self.line_starts, self.element_starts):
            array.setflags(write=False)

    @classmethod
    def of_map(cls, arrays: MapArrays, num_points: int) -> "MapOutlines":
        """Return the outlines of a map, with as many points on each boundary of a lane."""
        lines = arrays.resampled(num_points)
        return cls.stack(lines.xyz_left, lines.xyz_right, arrays.polygons())

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

    @cached_property
    def _most_points(self) -> int:
        """Number of vertices of the lane that has most of them."""
        return int(self._num_vertices[: self.num_lanes].max(initial=0))

    def list_shapes(
        self,
        near: NearElements,
        raster_from_world: Float64Array,
        raster_size: tuple[int, int],
        *,
        lights: LaneLights,
        active: ActiveFaces,
        colors: UInt8Array,
    ) -> ShapeList:
        """Return what of the given elements may touch the pictures of B windows, on white.

        Lanes are filled first. Then come their boundaries by colour, the colours in the order of the lanes, and at last
        the outlines of crosswalks.

        Args:
            near: The elements of each window.
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
            raster_size: Width and height in pixels.
            lights: The lights of the lanes.
            active: The active faces of each window, from :meth:`LaneLights.find_active`.
            colors: Red, green and blue of lane boundaries by the rank of the light of their lane, then
                :data:`ROAD_COLOR` and :data:`CROSSWALK_COLOR`, (6, 3).
        """
        num_near = len(near.rows)
        points = np.empty((int(self._num_vertices[near.rows].sum()), 2), np.int32)
        found = _Found(
            contours=np.empty((3 * num_near, 2), np.int64),
            shapes=np.empty((3 * num_near, 5), np.int64),
            starts=np.zeros(len(near.starts), np.int64),
        )
        _list_shapes(
            (self.vertices_m, self.line_starts, self.element_starts),
            self.num_lanes,
            (near.rows, near.starts),
            (raster_from_world, raster_size),
            (lights.ranks, lights.lane_starts, lights.lane_rows),
            (active.faces, active.starts),
            points,
            (found.contours, found.shapes, found.starts),
        )
        end = found.starts[-1]
        width, height = raster_size
        return ShapeList(
            points=points,
            contours=found.contours[:end],
            shapes=found.shapes[:end],
            starts=found.starts,
            colors=colors,
            planes_shape=(colors.shape[1], height, width),
            background=_BACKGROUND,
            known_most_points=self._most_points,
        )


def _starts_of(lengths: Int64Array) -> Int64Array:
    return np.concatenate([[0], np.cumsum(lengths)])


@njit(nogil=True, cache=True, error_model="numpy")
def _list_shapes(
    line_arrays: tuple[NumericArray, ...],
    num_lanes: int,
    near_arrays: tuple[Int64Array, Int64Array],
    raster: tuple[Float64Array, tuple[int, int]],
    light_arrays: tuple[Int64Array, ...],
    active_arrays: tuple[Int64Array, Int64Array],
    points: Int32Array,
    found_arrays: tuple[Int64Array, ...],
) -> None:
    """Write the points of all lines, and the shapes that may touch the picture.

    The tuples get their names in here: plain ones are cheaper to hand over to a kernel.
    """
    near = NearElements(*near_arrays)
    num_near = len(near.rows)
    spans, is_visible = np.empty((num_near, 2, 2), np.int64), np.zeros((num_near, 3), np.bool_)
    projected = _Projected(points, spans, is_visible)
    _project_lines(_Lines(*line_arrays), near, raster[0], raster[1], projected)
    _order_shapes(
        num_lanes, near, LightArrays(*light_arrays), ActiveFaces(*active_arrays), projected, _Found(*found_arrays)
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _project_lines(
    lines: _Lines,
    near: NearElements,
    raster_from_world: Float64Array,
    raster_size: tuple[int, int],
    projected: _Projected,
) -> None:
    """Write where elements lie in the pictures; ``is_visible`` is False before."""
    points, spans, is_visible = projected
    end = 0
    for window in range(len(near.starts) - 1):
        matrix = raster_from_world[window]
        for index in range(near.starts[window], near.starts[window + 1]):
            element = near.rows[index]
            first_line, end_line = lines.element_starts[element], lines.element_starts[element + 1]
            lowest_column = lowest_row = np.inf
            highest_column = highest_row = -np.inf
            for part in range(2):
                spans[index, part, 0] = end
                line = first_line + part
                if line < end_line:
                    first, stop = lines.line_starts[line], lines.line_starts[line + 1]
                    column_low, row_low, column_high, row_high = project_line(
                        lines.vertices_m, first, stop, matrix, points, end
                    )
                    end += stop - first
                    is_visible[index, 1 + part] = touches_picture(
                        column_low, row_low, column_high, row_high, raster_size
                    )
                    lowest_column, highest_column = min(lowest_column, column_low), max(highest_column, column_high)
                    lowest_row, highest_row = min(lowest_row, row_low), max(highest_row, row_high)
                spans[index, part, 1] = end
            is_visible[index, 0] = touches_picture(lowest_column, lowest_row, highest_column, highest_row, raster_size)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def project_line(
    vertices_m: Float64Array, first: int, stop: int, matrix: Float64Array, points: Int32Array, end: int
) -> tuple[float, float, float, float]:
    """Write where the vertices of a line are in a picture, and return its lowest and highest columns and rows.

    Args:
        vertices_m: World x and y, (V, 2).
        first: First vertex of the line.
        stop: End of its vertices.
        matrix: Pixels from world metres, (3, 3).
        points: Takes columns and rows in 512ths of a pixel, (P, 2).
        end: Where in ``points`` the line begins.

    Returns:
        Lowest column and row, then the highest ones, in pixels; infinite the other way round for no vertex.
    """
    column_low = row_low = np.inf
    column_high = row_high = -np.inf
    for vertex in range(first, stop):
        column, row = transform_xy(matrix, vertices_m[vertex, 0], vertices_m[vertex, 1])
        points[end, 0] = subpixel_of(column)
        points[end, 1] = subpixel_of(row)
        end += 1
        column_low, column_high = min(column_low, column), max(column_high, column)
        row_low, row_high = min(row_low, row), max(row_high, row)
    return column_low, row_low, column_high, row_high


@njit(nogil=True, cache=True, error_model="numpy")
def _order_shapes(
    num_lanes: int,
    near: NearElements,
    lights: LightArrays,
    active: ActiveFaces,
    projected: _Projected,
    found: _Found,
) -> None:
    """Write the shapes of all windows in the order of drawing.

    A lane has the highest rank of the active faces of its window that control it.
    """
    spans, is_visible = projected.spans, projected.is_visible
    ranks, rank_of_lane = np.empty(len(near.rows), np.int64), np.zeros(num_lanes, np.int64)
    end: Any = np.int64(0)  # as a literal it would let numba compile what it is handed to twice
    for window in range(len(near.starts) - 1):
        first, last = near.starts[window], near.starts[window + 1]
        for face in active.faces[active.starts[window] : active.starts[window + 1]]:
            for lane in lights.lane_rows[lights.lane_starts[face] : lights.lane_starts[face + 1]]:
                rank_of_lane[lane] = max(rank_of_lane[lane], lights.ranks[face])
        end_lane = first
        for index in range(first, last):
            if near.rows[index] >= num_lanes:
                break
            ranks[index] = rank_of_lane[near.rows[index]]
            end_lane += 1
            if is_visible[index, 0]:
                _put(found, end, spans[index, 0, 0], spans[index, 1, 1], FILLED, ROAD_COLOR)
                end += 1
        for face in active.faces[active.starts[window] : active.starts[window + 1]]:
            for lane in lights.lane_rows[lights.lane_starts[face] : lights.lane_starts[face + 1]]:
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
                        _put(found, end, spans[index, part, 0], spans[index, part, 1], OPEN_LINE, color)
                        end += 1
        for index in range(end_lane, last):
            if is_visible[index, 0]:
                _put(found, end, spans[index, 0, 0], spans[index, 0, 1], CLOSED_LINE, CROSSWALK_COLOR)
                end += 1
        found.starts[window + 1] = end


@njit(nogil=True, cache=True, error_model="numpy")
def _put(found: _Found, shape: int, first: int, end: int, kind: int, color: int) -> None:
    """Write a shape of one contour, which is drawn from the first plane on."""
    found.contours[shape, 0], found.contours[shape, 1] = first, end
    table = found.shapes
    table[shape, 0], table[shape, 1], table[shape, 2] = kind, shape, shape + 1
    table[shape, 3], table[shape, 4] = color, 0

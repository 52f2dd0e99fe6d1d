"""Semantic rasterizer: lanes, crosswalks and traffic lights of the map."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Final, NamedTuple

import cv2
import numpy as np
from numba import njit

from l5kit._kernels import kernel_jit
from l5kit._types import (
    BoolArray,
    Float64Array,
    FloatArray,
    Int32Array,
    Int64Array,
    NumericArray,
    RecordArray,
    UInt8Array,
)
from l5kit.data.array_shapes import require_shapes
from l5kit.data.device_log import DeviceLog
from l5kit.data.index.windows import Targets, WindowArrays, WindowRows, Windows
from l5kit.data.map.api import MapAPI
from l5kit.data.map.bounds_grid import BoundsGrid, GridArrays, find_near_point, write_near
from l5kit.data.map.lane_lights import LIGHT_COLORS, LaneLights, LightArrays, rank_of_lane
from l5kit.data.map.map_arrays import MapArrays
from l5kit.data.records import TL_FACE_DTYPE
from l5kit.device.backend import Backend, DeviceArray
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.relative_pose import transform_xy
from l5kit.rasterization.draw_list import CLOSED_LINE, FILLED, OPEN_LINE, PictureList, ShapeList
from l5kit.rasterization.planar_rasterizer import ColorRasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.row_painting import ShapeArrays, bound_rows, require_countable
from l5kit.rasterization.subpixel import CV2_SHIFT_VALUE, CV2_SUB_VALUES, cv2_subpixel, subpixel_of, touches_picture

__all__ = [
    "COLORS",
    "CV2_SHIFT_VALUE",
    "CV2_SUB_VALUES",
    "INTERPOLATION_POINTS",
    "RasterEls",
    "SemanticRasterizer",
    "cv2_subpixel",
    "indices_in_bounds",
]

ROAD_COLOR: Final[Any] = np.int64(4)
CROSSWALK_COLOR: Final[Any] = np.int64(5)
"""Colour indices that follow those of lane boundaries, which are the rank of the light of the lane."""


_BACKGROUND = 255
"""White."""

_PARTS: Final = 3
"""Contours of an element: both of its lines combined, and each of them."""


class NearElements(NamedTuple):
    """The map elements near each of B windows.

    Attributes:
        rows: Ascending for each window, window after window, (R,).
        starts: First row of each window, and the end of the last one, (B + 1,).
        num_points: Number of their vertices.
    """

    rows: Int64Array
    starts: Int64Array
    num_points: int


class ActiveFaces(NamedTuple):
    """The active traffic light faces of each of B windows.

    Attributes:
        faces: Window after window.
        starts: First face of each window, and the end of the last one, (B + 1,).
    """

    faces: Int64Array
    starts: Int64Array


class _Lines(NamedTuple):
    """A :class:`MapOutlines` in the form of kernels."""

    vertices_m: Float64Array
    line_starts: Int64Array
    element_starts: Int64Array


class _Elements(NamedTuple):
    """The elements near windows, window after window.

    Attributes:
        rows: Their rows, (R,).
        ranks: Lights of the lanes among them, (R,).
        is_visible: Whether each element, and each of its two lines, may touch the raster, (R, 3).
    """

    rows: NumericArray
    ranks: NumericArray
    is_visible: BoolArray


@dataclass(frozen=True)
class MapOutlines:
    """Outlines of N map elements: lanes, which consist of two lines, followed by crosswalks of one line.

    Attributes:
        vertices_m: World x and y of all vertices, float64, shape (V, 2).
        line_starts: First vertex of each line and the end of the last one.
        element_starts: First line of each element and the end of the last one, shape (N + 1,).
        num_lanes: Number of lanes.

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
        """Return the outlines of a map, with ``num_points`` points for each lane boundary."""
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
    def _most_points(self) -> int:
        """Largest number of vertices of a lane."""
        return int(np.diff(self.line_starts[self.element_starts])[: self.num_lanes].max(initial=0))

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
        """Return those of the given elements that may touch the rasters of B windows, on white.

        Lanes are filled first, followed by their boundaries grouped by colour, in the order of the first lane of each
        colour, and finally the outlines of crosswalks.

        Args:
            near: The elements of each window.
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
            raster_size: Width and height in pixels.
            lights: The lights of the lanes.
            active: The active faces of each window, from :meth:`LaneLights.find_active`.
            colors: Red, green and blue of lane boundaries by the rank of the light of their lane, then
                :data:`ROAD_COLOR` and :data:`CROSSWALK_COLOR`, (6, 3).
        """
        num_contours = _PARTS * len(near.rows)
        points, contours = np.empty((near.num_points, 2), np.int32), np.empty((num_contours, 2), np.int64)
        shapes, starts = np.zeros((num_contours, 5), np.int64), np.zeros(len(near.starts), np.int64)
        num_shapes = _list_shapes(
            (self.vertices_m, self.line_starts, self.element_starts),
            self.num_lanes,
            tuple(near),
            (raster_from_world, raster_size),
            tuple(lights.arrays),
            tuple(active),
            (points, contours, shapes, starts),
        )
        width, height = raster_size
        return ShapeList(
            points=points,
            contours=contours,
            shapes=shapes[:num_shapes],
            starts=starts,
            colors=colors,
            planes_shape=(colors.shape[1], height, width),
            background=_BACKGROUND,
            known_most_points=self._most_points,
        )


class SentOutlines(NamedTuple):
    """A :class:`MapOutlines` on a device, with grid, lights and colours.

    Attributes:
        grid: Grid of the elements.
        lines: The lines.
        lights: The lights of lanes.
        colors: As for :meth:`MapOutlines.list_shapes`.
        num_lanes: Number of lanes.
        most_near: Largest number of elements in a cell of the grid, at least 1.
        most_points: Largest number of their vertices, at least 1.
    """

    grid: GridArrays
    lines: _Lines
    lights: LightArrays
    colors: DeviceArray
    num_lanes: int
    most_near: int
    most_points: int

    @property
    def bytes_per_window(self) -> int:
        """Memory for the shapes of a window."""
        return 8 * self.most_points + self.most_near * (8 + _PARTS * (16 + 16 + 1) + 4)


def send_outlines(
    outlines: MapOutlines, grid: BoundsGrid, lights: LaneLights, *, colors: UInt8Array, backend: Backend
) -> SentOutlines:
    """Return a map on a device."""
    lines = _Lines(outlines.vertices_m, outlines.line_starts, outlines.element_starts)
    # running sums of vertices over the entries of all cells; differences give the vertices of each cell
    num_vertices = np.diff(outlines.line_starts[outlines.element_starts])
    ends = np.append(0, np.cumsum(num_vertices[grid.cell_rows]))
    return SentOutlines(
        backend.upload_tuple(grid.arrays),
        backend.upload_tuple(lines),
        backend.upload_tuple(lights.arrays),
        backend.upload_one(colors),
        outlines.num_lanes,
        max(grid.most_in_cell, 1),
        max(int(np.diff(ends[grid.cell_starts]).max(initial=0)), 1),
    )


def list_shapes_on_device(
    sent: SentOutlines,
    log: DeviceLog,
    windows: WindowArrays,
    centers_m: DeviceArray,
    raster_from_world: DeviceArray,
    *,
    raster_size: tuple[int, int],
    planes: tuple[int, int],
) -> ShapeArrays:
    """Return the map elements that may touch the rasters of B windows, like :meth:`MapOutlines.list_shapes`.

    Args:
        sent: The map.
        log: The log, whose faces are indexed as in the map.
        windows: The windows; their newest lights are drawn.
        centers_m: World x and y of the centres of the rasters, float64 (B, 2).
        raster_from_world: Pixels from world metres, float64 (B, 3, 3).
        raster_size: Width and height in pixels.
        planes: Number of planes of a window, and its first plane for the map.

    Returns:
        The arrays; each window is a group.

    Raises:
        InvalidArgumentError: There are more elements than can be counted.
    """
    backend, num_windows, most = log.backend, int(centers_m.shape[0]), sent.most_near
    num_rows = num_windows * most
    require_countable(num_windows * max(sent.most_points, _PARTS * most))
    empty = backend.empty
    rows, begins, counts = empty(num_rows, np.int32), empty(num_rows, np.int32), empty(num_windows, np.int32)
    near = (most, rows, begins, counts)
    backend.run(_find_near, num_windows, sent.grid, sent.lines, centers_m, near)
    points, contours = empty((num_windows * sent.most_points, 2), np.int32), empty((_PARTS * num_rows, 4), np.int32)
    is_visible, ranks = empty((num_rows, _PARTS), np.bool_), empty(num_rows, np.int32)
    backend.run(
        _project,
        num_rows,
        sent.lines,
        near,
        (raster_from_world, raster_size, sent.most_points, sent.num_lanes),
        (windows.face_bounds, log.faces),
        sent.lights,
        (points, contours, is_visible, ranks),
    )
    shapes, groups = empty((_PARTS * num_rows, 4), np.int32), empty((num_windows, 3), np.int32)
    rows_of_map = (sent.num_lanes, *planes)
    backend.run(_order, num_windows, (most, rows, counts), ranks, is_visible, rows_of_map, (shapes, groups))
    return ShapeArrays(points, contours, shapes, groups, sent.colors)


def _starts_of(lengths: Int64Array) -> Int64Array:
    return np.concatenate([[0], np.cumsum(lengths)])


@kernel_jit
def write_middles(raster_from_world: Float64Array, raster_size_px: Int64Array, middles_m: Float64Array) -> None:
    """Write the world positions of the centres of rasters, (B, 2).

    Args:
        raster_from_world: Pixels from world metres, affine, (B, 3, 3).
        raster_size_px: Width and height, (2,).
        middles_m: The output.
    """
    for i in range(len(middles_m)):
        # the inverse of [[a, b], [c, d]] is [[d, -b], [-c, a]] over the determinant
        a, b, c, d = (
            raster_from_world[i, 0, 0],
            raster_from_world[i, 0, 1],
            raster_from_world[i, 1, 0],
            raster_from_world[i, 1, 1],
        )
        column = 0.5 * raster_size_px[0] - raster_from_world[i, 0, 2]
        row = 0.5 * raster_size_px[1] - raster_from_world[i, 1, 2]
        determinant = a * d - b * c
        middles_m[i, 0] = (d * column - b * row) / determinant
        middles_m[i, 1] = (a * row - c * column) / determinant


@kernel_jit
def _find_elements(
    centers_m: Float64Array,
    grid_arrays: tuple[Any, ...],
    line_starts: Int64Array,
    element_starts: Int64Array,
    rows: Int64Array,
    starts: Int64Array,
) -> int:
    """Write the elements near points (B, 2) and their starts (B + 1,); return the number of vertices.

    ``grid_arrays`` are those of :class:`~l5kit.data.map.bounds_grid.GridArrays`.
    """
    num_points = np.int64(0)
    for element in rows[: write_near(centers_m, grid_arrays, rows, starts)]:
        num_points += line_starts[element_starts[element + 1]] - line_starts[element_starts[element]]
    return int(num_points)


@kernel_jit
def _list_shapes(
    line_arrays: tuple[NumericArray, ...],
    num_lanes: int,
    near_arrays: tuple[Any, ...],
    raster: tuple[Float64Array, tuple[int, int]],
    light_arrays: tuple[Int64Array, ...],
    active_arrays: tuple[Int64Array, ...],
    result: tuple[NumericArray, ...],
) -> int:
    """Write the points of all lines, and the shapes that may touch the raster; return the number of shapes.

    ``result`` are points, contours, shapes and starts, the last two zeros, of a
    :class:`l5kit.rasterization.draw_list.ShapeList` of shapes of one contour each. An element has three contours: both
    of its lines combined, and each of them; the last one of a crosswalk is empty. Plain tuples are cheaper to pass to a
    kernel than named ones, which are created here, and passing arrays is cheaper than returning them.
    """
    near, lines = NearElements(*near_arrays), _Lines(*line_arrays)
    points, all_contours, shapes, starts = result
    num_near = len(near.rows)
    is_visible, ranks = np.empty((num_near, _PARTS), np.bool_), np.empty(num_near, np.int64)

    # project the elements of all windows, and find those that may touch the raster
    point: Any = np.int64(0)
    for window in range(len(near.starts) - 1):
        matrix = raster[0][window]
        for row in range(near.starts[window], near.starts[window + 1]):
            begin, seen = point, (is_visible, row)
            middle, point = _project_element(lines, near.rows[row], matrix, raster[1], points, begin, seen)
            contours = all_contours[_PARTS * row : _PARTS * (row + 1)]
            contours[0, 0], contours[0, 1] = begin, point
            contours[1, 0], contours[1, 1] = begin, middle
            contours[2, 0], contours[2, 1] = middle, point

    # shapes of each window in drawing order
    _write_ranks(num_lanes, near, LightArrays(*light_arrays), ActiveFaces(*active_arrays), ranks)
    end: Any = np.int64(0)  # a literal would make numba compile the callee twice
    for window in range(len(near.starts) - 1):
        rows = (near.starts[window], near.starts[window + 1])
        end = _order_shapes(_Elements(near.rows, ranks, is_visible), rows, num_lanes, shapes, end)
        starts[window + 1] = end
    return int(end)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _project_element(
    lines: _Lines,
    element: int,
    matrix: Float64Array,
    raster_size: tuple[int, int],
    points: Int32Array,
    begin: int,
    seen: tuple[BoolArray, int],
) -> tuple[int, int]:
    """Write the points of an element from ``begin`` on; return the first and the end point of its second line.

    ``seen`` is an array (R, 3), and the row of it that receives whether the element and each line may touch the raster.
    """
    is_visible, row = seen
    middle = end = begin
    lowest_column = lowest_row = np.inf
    highest_column = highest_row = -np.inf
    for part in range(2):
        line = lines.element_starts[element] + part
        middle = end
        is_visible[row, 1 + part] = False
        if line < lines.element_starts[element + 1]:
            first, stop = lines.line_starts[line], lines.line_starts[line + 1]
            # the vertices in 512ths of a pixel, and the upright box around them
            column_low = row_low = np.inf
            column_high = row_high = -np.inf
            for vertex in range(first, stop):
                column, row_px = transform_xy(matrix, lines.vertices_m[vertex, 0], lines.vertices_m[vertex, 1])
                points[end, 0], points[end, 1] = subpixel_of(column), subpixel_of(row_px)
                end += 1
                column_low, column_high = min(column_low, column), max(column_high, column)
                row_low, row_high = min(row_low, row_px), max(row_high, row_px)
            is_visible[row, 1 + part] = touches_picture(column_low, row_low, column_high, row_high, raster_size)
            lowest_column, highest_column = min(lowest_column, column_low), max(highest_column, column_high)
            lowest_row, highest_row = min(lowest_row, row_low), max(highest_row, row_high)
    is_visible[row, 0] = touches_picture(lowest_column, lowest_row, highest_column, highest_row, raster_size)
    return middle, end


@kernel_jit
def _write_ranks(
    num_lanes: int, near: NearElements, lights: LightArrays, active: ActiveFaces, ranks: Int64Array
) -> None:
    """Write for each lane the highest rank of the active faces of its window that control it."""
    # one table for all windows; the entries of a window are cleared after use
    of_lanes = np.zeros(num_lanes, np.int64)
    for window in range(len(near.starts) - 1):
        faces = active.faces[active.starts[window] : active.starts[window + 1]]
        for face in faces:
            for lane in lights.lane_rows[lights.lane_starts[face] : lights.lane_starts[face + 1]]:
                of_lanes[lane] = max(of_lanes[lane], lights.ranks[face])
        for row in range(near.starts[window], near.starts[window + 1]):
            if near.rows[row] >= num_lanes:
                break
            ranks[row] = of_lanes[near.rows[row]]
        for face in faces:
            for lane in lights.lane_rows[lights.lane_starts[face] : lights.lane_starts[face + 1]]:
                of_lanes[lane] = 0


@kernel_jit
def _order_shapes(
    elements: _Elements,
    rows: tuple[int, int],
    num_lanes: int,
    shapes: NumericArray,
    end: int,
) -> int:
    """Write the shapes of a window from ``end`` on in drawing order; return their end.

    Lanes come first, then their boundaries by colour, then crosswalks.

    Args:
        elements: The elements of all windows. Each has three contours: both of its lines combined, and each of them.
        rows: First and end row of the window among them.
        num_lanes: Number of lanes of the map.
        shapes: Kind, first contour, end contour and colour of each, (any, 4 or more).
        end: The first shape.
    """
    # the surfaces of lanes
    rows_of_map, ranks, is_visible = elements
    first, last = rows
    end_lane = first
    for row in range(first, last):
        if rows_of_map[row] >= num_lanes:
            break
        end_lane += 1
        if is_visible[row, 0]:
            _put(shapes, end, FILLED, _PARTS * row, ROAD_COLOR)
            end += 1

    # boundaries grouped by colour; a group starts at the first lane of its colour
    colors_done = np.int64(0)
    for leader in range(first, end_lane):
        color: Any = np.int64(ranks[leader])
        if colors_done >> color & 1:
            continue
        colors_done |= np.int64(1) << color
        for row in range(leader, end_lane):
            for part in range(1, _PARTS):
                if ranks[row] == color and is_visible[row, part]:
                    _put(shapes, end, OPEN_LINE, _PARTS * row + part, color)
                    end += 1

    # crosswalks over all lanes
    for row in range(end_lane, last):
        if is_visible[row, 0]:
            _put(shapes, end, CLOSED_LINE, _PARTS * row + 1, CROSSWALK_COLOR)
            end += 1
    return end


@kernel_jit
def _put(shapes: NumericArray, shape: int, kind: int, contour: int, color: int) -> None:
    """Write a shape of one contour."""
    shapes[shape, 0], shapes[shape, 1], shapes[shape, 2], shapes[shape, 3] = kind, contour, contour + 1, color


@kernel_jit
def _find_near(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the elements near a point, and the index of the first vertex of each among all of their vertices."""
    grid, of_lines, centers_m, (most, rows, begins, counts) = arguments
    lines = _Lines(*of_lines)
    first = item * most
    num_near = find_near_point(centers_m[item, 0], centers_m[item, 1], grid, rows[first : first + most])
    end = np.int64(0)
    for row in range(first, first + num_near):
        begins[row] = end
        element = rows[row]
        first_line, end_line = lines.element_starts[element], lines.element_starts[element + 1]
        end += lines.line_starts[end_line] - lines.line_starts[first_line]
    counts[item] = num_near


@kernel_jit
def _project(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the position of an element in the raster, its visibility, and the light of a lane."""
    of_lines, (most, rows, begins, counts), raster, faces, lights, (points, contours, is_visible, ranks) = arguments
    raster_from_world, raster_size, most_points, num_lanes = raster
    window = item // most
    if item % most >= counts[window]:
        return
    element: Any = np.int64(rows[item])
    begin, matrix = window * most_points + begins[item], raster_from_world[window]
    middle, end = _project_element(_Lines(*of_lines), element, matrix, raster_size, points, begin, (is_visible, item))
    bound_rows(points, begin, end, raster_size[1], contours, _PARTS * item)
    bound_rows(points, begin, middle, raster_size[1], contours, _PARTS * item + 1)
    bound_rows(points, middle, end, raster_size[1], contours, _PARTS * item + 2)
    ranks[item] = rank_of_lane(element, faces[0][window], faces[1], lights) if element < num_lanes else 0


@kernel_jit
def _order(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the shapes of a window in drawing order, and its group."""
    (most, rows, counts), ranks, is_visible, (num_lanes, num_planes, first_plane), (shapes, groups) = arguments
    first = item * most
    first_shape: Any = np.int64(_PARTS * first)
    of_window = (first, first + counts[item])
    end = _order_shapes(_Elements(rows, ranks, is_visible), of_window, num_lanes, shapes, first_shape)
    groups[item, 0], groups[item, 1], groups[item, 2] = first_shape, end, item * num_planes + first_plane


class RasterEls(IntEnum):
    """Kinds of drawn elements."""

    LANE_NOTL = 0
    ROAD = 1
    CROSSWALK = 2


COLORS = {
    "GREEN": (0, 255, 0),
    "RED": (255, 0, 0),
    "YELLOW": (255, 255, 0),
    RasterEls.CROSSWALK.name: (255, 117, 69),
    RasterEls.LANE_NOTL.name: (255, 217, 82),
    RasterEls.ROAD.name: (17, 17, 31),
}
"""Red, green and blue of each kind of element and of each state of the traffic light of a lane."""

INTERPOLATION_POINTS = 20
"""Number of points of a drawn lane boundary."""

COLOR_TABLE: Final[UInt8Array] = np.array(
    [COLORS[name] for name in (RasterEls.LANE_NOTL.name, *LIGHT_COLORS, RasterEls.ROAD.name, RasterEls.CROSSWALK.name)],
    np.uint8,
)
"""The colours of the map, (colours, 3), in the order of their indices in outlines."""


def indices_in_bounds(center: FloatArray, bounds: Float64Array, half_extent: float) -> Int64Array:
    """Return the indices of bounds that are closer than ``half_extent`` to a point along both axes.

    Args:
        center: World x and y, shape (>= 2,).
        bounds: Lowest and highest x and y, shape (N, 2, 2).
        half_extent: Distance in metres, exclusive.

    Returns:
        Ascending, shape (M,).
    """
    above_low = bounds[:, 0] - half_extent < center[:2]
    below_high = center[:2] < bounds[:, 1] + half_extent
    return np.flatnonzero((above_low & below_high).all(axis=1))


class SemanticRasterizer(ColorRasterizer):
    """Rasterizer of the semantic map around the agent of interest: lanes, their lights and crosswalks on white.

    Attributes:
        mapAPI: The map.
        world_to_ecef: ECEF from world metres, shape (4, 4).
        outlines: Outlines of the lanes and crosswalks of the map.
        grid: Grid of the map elements.
        lights: The faces that colour lanes.
    """

    def __init__(
        self,
        render_context: RenderContext,
        semantic_map_path: str,
        world_to_ecef: Float64Array,
        *,
        image_dtype: str = "float32",
    ) -> None:
        super().__init__(render_context, image_dtype=image_dtype)
        self.world_to_ecef = world_to_ecef
        self.mapAPI = MapAPI(semantic_map_path, world_to_ecef)
        self._stack_outlines()

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the outlines, which the receiving process can rebuild from the map."""
        return {name: value for name, value in vars(self).items() if name not in ("grid", "outlines", "lights")}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._stack_outlines()

    def prepare(
        self,
        windows: Windows,
        targets: Targets,  # noqa: ARG002
        raster_from_world: Float64Array,
    ) -> ShapeList | PictureList:
        """Return the map around the centre of the raster with the lights of the newest frame.

        If a subclass overrides :meth:`render_semantic_map`, its images are used.

        Args:
            windows: The history of B windows; without frames of faces, the lights are off.
            targets: The agents of interest, (B,).
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
        """
        centers_m = np.empty((len(raster_from_world), 2))
        write_middles(raster_from_world, self.raster_size, centers_m)
        if getattr(self.render_semantic_map, "__func__", None) is SemanticRasterizer.render_semantic_map:
            return self._list_map(centers_m, raster_from_world, windows.tl_faces)
        pictures = np.empty(self.images_shape(len(windows)), np.uint8)
        for index, planes in enumerate(pictures):
            faces = windows.tl_faces.rows_of_frame(index, 0) if windows.tl_faces.num_frames else None
            picture = self.render_semantic_map(centers_m[index], raster_from_world[index], faces)
            cv2.split(np.ascontiguousarray(picture), list(planes))
        return PictureList(pictures)

    def render_semantic_map(
        self, center_in_world: FloatArray, raster_from_world: Float64Array, tl_faces: RecordArray | None = None
    ) -> UInt8Array:
        """Return the map around a point as an RGB image.

        Lanes are filled first, followed by the boundaries of all lanes and the outlines of crosswalks.

        Args:
            center_in_world: World x and y of the centre of the image, shape (>= 2,).
            raster_from_world: Pixels from world metres, shape (3, 3).
            tl_faces: Faces of one frame, TL_FACE_DTYPE. The boundaries of a lane have the colour of its active face;
                with several, red takes precedence over yellow and yellow over green. None for no faces.

        Returns:
            Shape (height, width, 3).
        """
        width, height = self.raster_size.tolist()
        planes = np.empty((3, height, width), np.uint8)
        centers_m = np.array(center_in_world, dtype=np.float64)[None, :2]
        matrices = np.array(raster_from_world, dtype=np.float64)[None]
        faces = WindowRows.from_frames([] if tl_faces is None else [tl_faces], np.dtype(TL_FACE_DTYPE))
        self.painter.paint(self._list_map(centers_m, matrices, faces), 0, planes)
        return np.ascontiguousarray(planes.transpose(1, 2, 0))

    def _stack_outlines(self) -> None:
        arrays = self.mapAPI.arrays
        self.grid = arrays.grid(0.5 * float(np.linalg.norm(self.raster_size * self.pixel_size)))
        self.outlines = MapOutlines.of_map(arrays, INTERPOLATION_POINTS)
        self.lights = arrays.lights

    def _list_map(self, centers_m: Float64Array, raster_from_world: Float64Array, tl_faces: WindowRows) -> ShapeList:
        """Return the map around world positions (B, 2) with the lights of the newest frames."""
        grid, outlines, num_windows = self.grid, self.outlines, len(centers_m)
        rows, starts = np.empty(grid.most_in_cell * num_windows, np.int64), np.empty(num_windows + 1, np.int64)
        of_outlines = outlines.line_starts, outlines.element_starts
        num_points = _find_elements(centers_m, tuple(grid.arrays), *of_outlines, rows, starts)
        width, height = self.raster_size.tolist()
        return outlines.list_shapes(
            NearElements(rows[: starts[-1]], starts, num_points),
            raster_from_world,
            (width, height),
            lights=self.lights,
            active=ActiveFaces(*self.lights.find_active(tl_faces)),
            colors=COLOR_TABLE,
        )

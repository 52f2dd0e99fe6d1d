"""Semantic map on a device: the lanes and crosswalks around windows, as shapes in the order in which they are drawn."""

from typing import Any, Final

import numpy as np
from numba import njit

from l5kit._types import Int64Array
from l5kit.data.device_log import DeviceLog, DeviceWindows
from l5kit.data.map.bounds_grid import BoundsGrid, find_near_point
from l5kit.data.map.lane_lights import rank_of_lane
from l5kit.device.backend import Backend, DeviceArray
from l5kit.rasterization.culling import touches_picture
from l5kit.rasterization.draw_list import CLOSED_LINE, FILLED, OPEN_LINE
from l5kit.rasterization.map_outlines import CROSSWALK_COLOR, ROAD_COLOR, project_line
from l5kit.rasterization.row_painting import bound_rows, require_countable
from l5kit.rasterization.semantic_rasterizer import COLOR_TABLE, SemanticRasterizer

__all__ = ["DeviceMap"]

_PARTS: Final = 3
"""Contours of an element: both of its lines as one, and each of them."""


class DeviceMap:
    """Lists the map around windows, as :meth:`l5kit.rasterization.semantic_rasterizer.SemanticRasterizer.prepare` does.

    Args:
        rasterizer: What is drawn.
        backend: The device, to which the map is sent.

    Attributes:
        bytes_per_window: Memory that the shapes of a window take.
    """

    def __init__(self, rasterizer: SemanticRasterizer, backend: Backend) -> None:
        self._backend = backend
        outlines, grid, lights = rasterizer.outlines, rasterizer.grid, rasterizer.lights
        num_vertices = np.diff(outlines.line_starts[outlines.element_starts])
        self._most_near = max(grid.most_in_cell, 1)
        self._most_points = max(_most_in_cell(grid, num_vertices), 1)
        self._size = tuple(rasterizer.raster_size.tolist())
        self._num_lanes = outlines.num_lanes
        self._lines = tuple(backend.upload([outlines.vertices_m, outlines.line_starts, outlines.element_starts]))
        self._grid = _grid_on(backend, grid)
        self._lights = tuple(backend.upload([lights.ranks, lights.lane_starts, lights.lane_rows]))
        self._colors = backend.upload_one(COLOR_TABLE)
        self.bytes_per_window = 8 * self._most_points + self._most_near * (8 + _PARTS * (16 + 16 + 1) + 4)

    def list(
        self,
        log: DeviceLog,
        windows: DeviceWindows,
        centers_m: DeviceArray,
        raster_from_world: DeviceArray,
        planes: tuple[int, int],
    ) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray, DeviceArray]:
        """Return the map around B points, as :func:`l5kit.rasterization.row_painting.paint_row` draws it.

        Args:
            log: The log, whose faces are numbered as in the map.
            windows: Windows, whose newest lights count.
            centers_m: World x and y of the middles of the pictures, float64 (B, 2).
            raster_from_world: Pixels from world metres, float64 (B, 3, 3).
            planes: Planes of a window, and the first one that is drawn in.

        Returns:
            The arrays; each window is a group.

        Raises:
            InvalidArgumentError: There is more of the map than can be counted.
        """
        num_windows, most = int(centers_m.shape[0]), self._most_near
        require_countable(num_windows * max(self._most_points, _PARTS * most))
        empty = self._backend.empty
        near, counts = empty((num_windows, most, 2), np.int32), empty(num_windows, np.int32)
        self._backend.run(_find_near, num_windows, self._grid, self._lines, centers_m, (near, counts))
        points = empty((num_windows * self._most_points, 2), np.int32)
        contours = empty((num_windows * most * _PARTS, 4), np.int32)
        is_visible, ranks = empty((num_windows, most, _PARTS), np.bool_), empty((num_windows, most), np.int32)
        self._backend.run(
            _project,
            num_windows * most,
            self._lines,
            (near, counts),
            (raster_from_world, self._size[0], self._size[1], self._most_points, self._num_lanes),
            (windows.face_bounds, log.faces, *self._lights),
            (points, contours, is_visible, ranks),
        )
        shapes, groups = empty((num_windows * most * _PARTS, 4), np.int32), empty((num_windows, 3), np.int32)
        self._backend.run(
            _order, num_windows, (near, counts), (is_visible, ranks), (self._num_lanes, *planes), (shapes, groups)
        )
        return points, contours, shapes, groups, self._colors


def _grid_on(backend: Backend, grid: BoundsGrid) -> tuple[Any, ...]:
    """Return the arrays of a grid on a device."""
    bounds_m, radius_m, origin_m, cell_m, num_cells, cell_starts, cell_rows = grid.arrays
    bounds_m, origin_m, cell_m, cell_starts, cell_rows = backend.upload(
        [bounds_m, origin_m, cell_m, cell_starts, cell_rows]
    )
    return bounds_m, radius_m, origin_m, cell_m, num_cells, cell_starts, cell_rows


def _most_in_cell(grid: BoundsGrid, counts: Int64Array) -> int:
    """Return the largest sum of counts of the elements of a cell."""
    ends = np.append(0, np.cumsum(counts[grid.cell_rows]))
    return int(np.diff(ends[grid.cell_starts]).max(initial=0))


@njit(nogil=True, cache=True, error_model="numpy")
def _find_near(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the elements near a point, and where the vertices of each begin among those of all of them."""
    grid, lines, centers_m, found = arguments
    near, counts = found
    num_near = find_near_point(centers_m[item, 0], centers_m[item, 1], grid, near[item, :, 0])
    end = np.int64(0)
    for slot in range(num_near):
        near[item, slot, 1] = end
        element = near[item, slot, 0]
        end += lines[1][lines[2][element + 1]] - lines[1][lines[2][element]]
    counts[item] = num_near


@njit(nogil=True, cache=True, error_model="numpy")
def _project(item: int, arguments: tuple[Any, ...]) -> None:
    """Write where an element lies in the picture, whether it can be seen, and the light of a lane."""
    lines, found, raster, lights, projected = arguments
    vertices_m, line_starts, element_starts = lines
    raster_from_world, width, height, most_points, num_lanes = raster
    near, counts = found
    points, contours, is_visible, ranks = projected
    most = near.shape[1]
    window, slot = item // most, item % most
    if slot >= counts[window]:
        return
    element: Any = np.int64(near[window, slot, 0])
    begin = window * most_points + near[window, slot, 1]
    matrix, end = raster_from_world[window], begin
    lowest_column = lowest_row = np.inf
    highest_column = highest_row = -np.inf
    for part in range(2):
        line, first_point = element_starts[element] + part, end
        is_visible[window, slot, 1 + part] = False
        if line < element_starts[element + 1]:
            first, stop = line_starts[line], line_starts[line + 1]
            low_column, low_row, high_column, high_row = project_line(vertices_m, first, stop, matrix, points, end)
            end += stop - first
            is_visible[window, slot, 1 + part] = touches_picture(
                low_column, low_row, high_column, high_row, (width, height)
            )
            lowest_column, highest_column = min(lowest_column, low_column), max(highest_column, high_column)
            lowest_row, highest_row = min(lowest_row, low_row), max(highest_row, high_row)
        bound_rows(points, first_point, end, height, contours, _PARTS * item + 1 + part)
    is_visible[window, slot, 0] = touches_picture(
        lowest_column, lowest_row, highest_column, highest_row, (width, height)
    )
    bound_rows(points, begin, end, height, contours, _PARTS * item)
    ranks[window, slot] = rank_of_lane(element, lights[0][window], lights[1], lights[2:]) if element < num_lanes else 0


@njit(nogil=True, cache=True, error_model="numpy")
def _order(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the shapes of a window in the order of drawing: lanes, their boundaries by colour, crosswalks."""
    found, projected, sizes, listed = arguments
    near, counts = found
    is_visible, ranks = projected[0][item], projected[1][item]
    num_lanes, num_planes, first_plane = sizes
    shapes, groups = listed
    most, num_near = near.shape[1], np.int64(counts[item])
    first = item * most * _PARTS
    end, end_lane = first, np.int64(0)
    for slot in range(num_near):
        if near[item, slot, 0] >= num_lanes:
            break
        end_lane += 1
        if is_visible[slot, 0]:
            _put(shapes, end, FILLED, first + _PARTS * slot, ROAD_COLOR)
            end += 1
    colors_done = np.int64(0)
    for leader in range(end_lane):
        color: Any = np.int64(ranks[leader])
        if colors_done >> color & 1:
            continue
        colors_done |= np.int64(1) << color
        for slot in range(leader, end_lane):
            for part in range(1, _PARTS):
                if ranks[slot] == color and is_visible[slot, part]:
                    _put(shapes, end, OPEN_LINE, first + _PARTS * slot + part, color)
                    end += 1
    for slot in range(end_lane, num_near):
        if is_visible[slot, 0]:
            _put(shapes, end, CLOSED_LINE, first + _PARTS * slot + 1, CROSSWALK_COLOR)
            end += 1
    groups[item, 0], groups[item, 1], groups[item, 2] = first, end, item * num_planes + first_plane


@njit(nogil=True, cache=True, error_model="numpy")
def _put(shapes: Any, shape: int, kind: int, contour: int, color: int) -> None:
    """Write a shape of one contour."""
    shapes[shape, 0], shapes[shape, 1], shapes[shape, 2], shapes[shape, 3] = kind, contour, contour + 1, color

"""Outlines of map elements, stacked, and their projection into the raster."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, FloatArray, Int32Array, Int64Array
from l5kit.errors import InvalidArgumentError
from l5kit.rasterization.culling import touches_picture
from l5kit.rasterization.subpixel import CV2_SHIFT_VALUE


@dataclass(frozen=True)
class MapOutlines:
    """Outlines of N map elements; each consists of the same number of lines, drawn one after the other.

    Attributes:
        vertices_m: World x and y of all vertices, float64, shape (V, 2).
        line_starts: First vertex of each line and the end of the last one, shape (N * lines + 1,).
        bounds_m: Lowest and highest x and y of each element, float64, shape (N, 2, 2).
        lines_per_element: Lines of each element.
    """

    vertices_m: Float64Array
    line_starts: Int64Array
    bounds_m: Float64Array
    lines_per_element: int = 1

    def __post_init__(self) -> None:
        num_lines = len(self.bounds_m) * self.lines_per_element
        if self.line_starts.shape != (num_lines + 1,) or self.line_starts[-1] != len(self.vertices_m):
            raise InvalidArgumentError(
                f"shapes do not fit: vertices_m {self.vertices_m.shape}, line_starts {self.line_starts.shape},"
                f" bounds_m {self.bounds_m.shape} with {self.lines_per_element} lines each"
            )
        for array in (self.vertices_m, self.line_starts, self.bounds_m):
            array.setflags(write=False)

    @classmethod
    def from_lane_lines(cls, left_m: Float64Array, right_m: Float64Array, bounds_m: Float64Array) -> "MapOutlines":
        """Return the outlines of lanes: left boundary forward, then right boundary backward.

        Args:
            left_m: Left boundaries, shape (N, P, >= 2).
            right_m: Right boundaries, shape (N, P, >= 2).
            bounds_m: Lowest and highest x and y, shape (N, 2, 2).
        """
        lines = np.stack([left_m[..., :2], right_m[:, ::-1, :2]], axis=1)  # (N, 2, P, 2)
        num_points = lines.shape[2]
        starts = np.arange(2 * len(lines) + 1, dtype=np.int64) * num_points
        return cls(lines.reshape(-1, 2), starts, np.array(bounds_m, dtype=np.float64), lines_per_element=2)

    @classmethod
    def from_polygons(cls, polygons_m: Sequence[Float64Array], bounds_m: Float64Array) -> "MapOutlines":
        """Return the outlines of polygons, each of shape (n, >= 2), with bounds (N, 2, 2)."""
        vertices_m = np.concatenate([np.empty((0, 2)), *(polygon[:, :2] for polygon in polygons_m)])
        starts = np.cumsum([0, *(len(polygon) for polygon in polygons_m)], dtype=np.int64)
        return cls(vertices_m, starts, np.array(bounds_m, dtype=np.float64))

    def project(
        self, center_m: FloatArray, radius_m: float, raster_from_world: Float64Array, raster_size: tuple[int, int]
    ) -> "ProjectedOutlines":
        """Return the elements whose bounds come closer than ``radius_m`` to ``center_m`` along both axes, in pixels.

        Args:
            center_m: World position, shape (2,).
            radius_m: Distance in metres; being exactly as far away is too far.
            raster_from_world: Pixels from world metres, shape (3, 3).
            raster_size: Width and height in pixels.
        """
        return ProjectedOutlines(
            *_project_outlines(
                self.vertices_m,
                self.line_starts,
                self.bounds_m,
                self.lines_per_element,
                (float(center_m[0]), float(center_m[1]), float(radius_m)),
                raster_from_world,
                raster_size,
            )
        )


@dataclass(frozen=True)
class ProjectedOutlines:
    """Outlines of R selected map elements in the raster.

    Attributes:
        rows: Which elements were selected, ascending, shape (R,).
        points: Column and row of all vertices in 512ths of a pixel, int32, shape (P, 2).
        line_starts: First point of each line and the end of the last one, shape (R * lines + 1,).
        is_visible: Whether the element may touch the picture, shape (R,).
        is_line_visible: Whether the line may touch the picture, shape (R * lines,).
    """

    rows: Int64Array
    points: Int32Array
    line_starts: Int64Array
    is_visible: BoolArray
    is_line_visible: BoolArray

    def visible_lines(self) -> list[Int32Array]:
        """Return the lines that may touch the picture, each (n, 2)."""
        starts = self.line_starts.tolist()
        return [self.points[starts[line] : starts[line + 1]] for line in np.flatnonzero(self.is_line_visible).tolist()]


@njit(nogil=True, cache=True, error_model="numpy")
def _project_outlines(
    vertices_m: Float64Array,
    line_starts: Int64Array,
    bounds_m: Float64Array,
    lines_per_element: int,
    circle: tuple[float, float, float],
    raster_from_world: Float64Array,
    raster_size: tuple[int, int],
) -> tuple[Int64Array, Int32Array, Int64Array, BoolArray, BoolArray]:
    """Return the fields of :class:`ProjectedOutlines`; ``circle`` is x, y and radius in metres."""
    x, y, radius = circle
    rows = np.empty(len(bounds_m), np.int64)
    num_rows = num_points = 0
    for row in range(len(bounds_m)):
        if (
            bounds_m[row, 0, 0] - radius < x < bounds_m[row, 1, 0] + radius
            and bounds_m[row, 0, 1] - radius < y < bounds_m[row, 1, 1] + radius
        ):
            rows[num_rows] = row
            num_rows += 1
            line = row * lines_per_element
            num_points += line_starts[line + lines_per_element] - line_starts[line]
    rows = rows[:num_rows].copy()
    points = np.empty((num_points, 2), np.int32)
    starts = np.zeros(num_rows * lines_per_element + 1, np.int64)
    is_visible = np.empty(num_rows, np.bool_)
    is_line_visible = np.empty(num_rows * lines_per_element, np.bool_)
    for index in range(num_rows):
        element_low, element_high = (np.inf, np.inf), (-np.inf, -np.inf)
        for part in range(lines_per_element):
            source = rows[index] * lines_per_element + part
            line = index * lines_per_element + part
            first, last = line_starts[source], line_starts[source + 1]
            starts[line + 1] = starts[line] + last - first
            low, high = _project_line(vertices_m[first:last], raster_from_world, points[starts[line] :])
            is_line_visible[line] = touches_picture(low, high, raster_size)
            element_low = (min(element_low[0], low[0]), min(element_low[1], low[1]))
            element_high = (max(element_high[0], high[0]), max(element_high[1], high[1]))
        is_visible[index] = touches_picture(element_low, element_high, raster_size)
    return rows, points, starts, is_visible, is_line_visible


@njit(nogil=True, cache=True, error_model="numpy")
def _project_line(
    vertices_m: Float64Array, raster_from_world: Float64Array, points: Int32Array
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Write a line (n, 2) to the head of ``points`` in 512ths of a pixel; return its lowest and highest pixel."""
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

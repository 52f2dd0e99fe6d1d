"""Vector map: the lanes and crosswalks around targets as polylines with a fixed number of points."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float32Array, Float64Array, Int64Array, NumericArray
from l5kit.configs.parameters import LaneParams
from l5kit.data.map.bounds_grid import BoundsGrid
from l5kit.data.map.lane_lights import LaneLights, LightArrays
from l5kit.data.map.map_arrays import MapArrays
from l5kit.data.window_rows import WindowRows
from l5kit.data.windows import Targets
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.relative_pose import transform_xy

RowsOfPoints = tuple[Int64Array, Int64Array]
"""Rows for each of B points, one point after the other, and where those of each start, (B + 1,)."""

NO_LIGHT = 4
"""State of a lane without a traffic light; 0 stands for a light without an active face, then come their colours."""


@dataclass(frozen=True)
class VectorMap:
    """The N lanes and M crosswalks of a map, resampled once, and where they are found.

    Attributes:
        params: How much of the map is in a sample.
        grid: Finds lanes, rows below N, and crosswalks, the rows behind them.
        lights: Finds the lanes that active faces control.
        has_light: Whether a traffic light controls the lane, (N,).
        midlines_m: World x and y, (N, P, 2).
        boundaries_m: Left and right boundary, (N, 2, P, 2).
        crosswalks_m: Vertices of all crosswalks, (V, 2).
        crosswalk_starts: First vertex of each crosswalk and the end of the last one, (M + 1,).
    """

    params: LaneParams
    grid: BoundsGrid
    lights: LaneLights
    has_light: BoolArray
    midlines_m: Float64Array
    boundaries_m: Float64Array
    crosswalks_m: Float64Array
    crosswalk_starts: Int64Array

    def __post_init__(self) -> None:
        num_lanes, num_points = self.midlines_m.shape[:2]
        if self.has_light.shape != (num_lanes,) or self.boundaries_m.shape != (num_lanes, 2, num_points, 2):
            raise InvalidArgumentError(
                f"shapes do not fit: has_light {self.has_light.shape}, midlines_m {self.midlines_m.shape}, "
                f"boundaries_m {self.boundaries_m.shape}"
            )
        for array in (self.has_light, self.midlines_m, self.boundaries_m, self.crosswalks_m, self.crosswalk_starts):
            array.setflags(write=False)

    @classmethod
    def build(cls, arrays: MapArrays, params: LaneParams) -> "VectorMap":
        """Return the polylines of a map."""
        lines, crosswalks = arrays.resampled(params.max_points_per_lane), arrays.crosswalk_lines
        return cls(
            params,
            arrays.grid(params.max_retrieval_distance_m),
            arrays.lights,
            arrays.has_light,
            np.ascontiguousarray(lines.xyz_midlane[..., :2]),
            np.stack([lines.xyz_left[..., :2], lines.xyz_right[..., :2]], axis=1),
            np.ascontiguousarray(crosswalks.points[:, :2]),
            crosswalks.offsets,
        )

    def columns(
        self, targets: Targets, tl_faces: WindowRows, lane_rows: Int64Array | None = None
    ) -> dict[str, NumericArray]:
        """Return the map around B targets, one array (B, ...) for each key of a sample.

        Args:
            targets: Around whom.
            tl_faces: The traffic light faces of their windows; those of the newest frames count.
            lane_rows: Takes the rows of the lanes in the map, -1 where there is none, int64 (B, L); None for nothing.
        """
        near = self.grid.find_near(targets.centroids_m)
        active = self.lights.find_active(tl_faces)
        if lane_rows is None:
            lane_rows = np.empty((len(targets), self.params.max_num_lanes), np.int64)
        return self._lane_columns(targets, near, active, lane_rows) | self._crosswalk_columns(targets, near)

    def _lane_columns(
        self, targets: Targets, near: RowsOfPoints, active: RowsOfPoints, lane_rows: Int64Array
    ) -> dict[str, NumericArray]:
        num_windows, num_lanes, num_points = len(targets), self.params.max_num_lanes, self.midlines_m.shape[1]
        boundaries_m = np.zeros((num_windows, num_lanes, 2, num_points, 3), np.float32)
        midlines_m = np.zeros((num_windows, num_lanes, num_points, 3), np.float32)
        boundary_availabilities = np.zeros(boundaries_m.shape[:-1], np.bool_)
        midline_availabilities = np.zeros(midlines_m.shape[:-1], np.bool_)
        _write_lanes(
            near,
            targets.centroids_m,
            targets.agent_from_world,
            np.float32(self.params.max_retrieval_distance_m),
            (self.midlines_m, self.boundaries_m, self.has_light),
            active,
            (self.lights.ranks, self.lights.lane_starts, self.lights.lane_rows),
            (boundaries_m, midlines_m),
            (boundary_availabilities, midline_availabilities),
            lane_rows,
        )
        return {
            "lanes": boundaries_m.reshape(num_windows, 2 * num_lanes, num_points, 3),
            "lanes_availabilities": boundary_availabilities.reshape(num_windows, 2 * num_lanes, num_points),
            "lanes_mid": midlines_m,
            "lanes_mid_availabilities": midline_availabilities,
        }

    def _crosswalk_columns(self, targets: Targets, near: RowsOfPoints) -> dict[str, NumericArray]:
        shape = len(targets), self.params.max_num_crosswalks, self.params.max_points_per_crosswalk
        crosswalks_m, availabilities = np.zeros((*shape, 3), np.float32), np.zeros(shape, np.bool_)
        _write_crosswalks(
            near,
            len(self.midlines_m),
            targets.agent_from_world,
            (self.crosswalks_m, self.crosswalk_starts),
            (crosswalks_m, availabilities),
        )
        return {"crosswalks": crosswalks_m, "crosswalks_availabilities": availabilities}


class _Lanes(NamedTuple):
    """Fields of a :class:`VectorMap` inside kernels."""

    midlines_m: Float64Array
    boundaries_m: Float64Array
    has_light: BoolArray


@njit(nogil=True, cache=True, error_model="numpy")
def _write_lanes(
    near: RowsOfPoints,
    centroids_m: Float64Array,
    agent_from_world: Float64Array,
    radius_m: np.float32,
    lane_arrays: tuple[NumericArray, ...],
    active: RowsOfPoints,
    light_arrays: tuple[Int64Array, ...],
    polylines_m: tuple[Float32Array, Float32Array],
    availabilities: tuple[BoolArray, BoolArray],
    lane_rows: Int64Array,
) -> None:
    """Write the lanes nearest to each target with the states of their lights, and their rows in the map.

    The tuples hold fields of :class:`VectorMap`, what :meth:`LaneLights.find_active` returns, fields of
    :class:`LaneLights`, and the arrays for boundaries and midlines.
    """
    rows, row_starts = near
    midlines_m, boundaries_m, has_light = _Lanes(*lane_arrays)
    lights = LightArrays(*light_arrays)
    faces, face_starts = active
    states = np.zeros(len(midlines_m), np.int64)
    nearest = np.empty(polylines_m[1].shape[1], np.int64)
    distances_m = np.empty(len(nearest), np.float64)
    for window in range(len(centroids_m)):
        found = rows[row_starts[window] : row_starts[window + 1]]
        num_lanes = _find_nearest(found, midlines_m, centroids_m[window], nearest, distances_m)
        lane_rows[window, :num_lanes] = nearest[:num_lanes]
        lane_rows[window, num_lanes:] = -1
        window_faces = faces[face_starts[window] : face_starts[window + 1]]
        set_states(window_faces, lights, states, is_on=True)
        for i in range(num_lanes):
            lane = nearest[i]
            state = states[lane] if has_light[lane] else NO_LIGHT
            for side in range(2):
                write_line(
                    boundaries_m[lane, side],
                    agent_from_world[window],
                    (radius_m, np.float32(0)),
                    polylines_m[0][window, i, side],
                    availabilities[0][window, i, side],
                )
            write_line(
                midlines_m[lane],
                agent_from_world[window],
                (radius_m, np.float32(state)),
                polylines_m[1][window, i],
                availabilities[1][window, i],
            )
        set_states(window_faces, lights, states, is_on=False)


@njit(nogil=True, cache=True, error_model="numpy")
def _find_nearest(
    rows: Int64Array, midlines_m: Float64Array, centroid_m: Float64Array, nearest: Int64Array, distances_m: Float64Array
) -> int:
    """Write the lanes among ``rows`` whose midlines come closest to a point, closest first; return their number.

    Those at the same distance keep their order.
    """
    num_nearest = 0
    for row in rows:
        if row >= len(midlines_m) or len(nearest) == 0:
            break
        num_nearest = keep_nearest(row, distance_of(row, midlines_m, centroid_m), num_nearest, nearest, distances_m)
    return num_nearest


@njit(nogil=True, cache=True, error_model="numpy")
def distance_of(row: int, midlines_m: Float64Array, centroid_m: Float64Array) -> float:
    """Return how close the points of a lane come to a point (2,)."""
    squared_m = np.inf
    for i in range(midlines_m.shape[1]):
        x, y = midlines_m[row, i, 0] - centroid_m[0], midlines_m[row, i, 1] - centroid_m[1]
        squared_m = min(squared_m, x * x + y * y)
    return math.sqrt(squared_m)


@njit(nogil=True, cache=True, error_model="numpy")
def keep_nearest(
    row: int, distance_m: float, num_nearest: int, nearest: NumericArray, distances_m: Float64Array
) -> int:
    """Put a row among the nearest ones (L,), closest first, if there is room or it is nearer; return their number.

    Those at the same distance keep their order.
    """
    if num_nearest == len(nearest):
        if num_nearest == 0 or not distance_m < distances_m[num_nearest - 1]:
            return num_nearest
        num_nearest -= 1
    i = num_nearest
    while i > 0 and distance_m < distances_m[i - 1]:
        nearest[i], distances_m[i] = nearest[i - 1], distances_m[i - 1]
        i -= 1
    nearest[i], distances_m[i] = row, distance_m
    return num_nearest + 1


@njit(nogil=True, cache=True, error_model="numpy")
def set_states(faces: Int64Array, lights: LightArrays, states: Int64Array, is_on: bool) -> None:
    """Write the highest rank of the faces to the states of their lanes, or take it away."""
    ranks, lane_starts, lane_rows = lights
    for face in faces:
        for lane in lane_rows[lane_starts[face] : lane_starts[face + 1]]:
            states[lane] = max(states[lane], ranks[face]) if is_on else 0


@njit(nogil=True, cache=True, error_model="numpy")
def write_line(
    line_m: Float64Array,
    agent_from_world: Float64Array,
    radius_and_value: tuple[np.float32, np.float32],
    polyline_m: Float32Array,
    availabilities: BoolArray,
) -> None:
    """Write a line (P, 2) with a third value in the target's frame; points beyond the radius are not available."""
    radius_m, value = radius_and_value
    for i in range(len(line_m)):
        x, y = transform_xy(agent_from_world, line_m[i, 0], line_m[i, 1])
        polyline_m[i, 0], polyline_m[i, 1], polyline_m[i, 2] = x, y, value
        squared_m = polyline_m[i, 0] * polyline_m[i, 0] + polyline_m[i, 1] * polyline_m[i, 1]
        availabilities[i] = np.float32(math.sqrt(squared_m)) < radius_m


@njit(nogil=True, cache=True, error_model="numpy")
def _write_crosswalks(
    near: RowsOfPoints,
    first_row: int,
    agent_from_world: Float64Array,
    crosswalks: tuple[Float64Array, Int64Array],
    polygons: tuple[Float32Array, BoolArray],
) -> None:
    """Write the first crosswalks near each target, and the first vertices of each.

    The tuples hold vertices and starts of :class:`VectorMap`, and the arrays for polygons and availabilities.
    """
    rows, row_starts = near
    vertices_m, starts = crosswalks
    crosswalks_m, availabilities = polygons
    for window in range(len(row_starts) - 1):
        slot = 0
        for row in rows[row_starts[window] : row_starts[window + 1]]:
            if row < first_row or slot == crosswalks_m.shape[1]:
                continue
            first, end = starts[row - first_row], starts[row - first_row + 1]
            write_polygon(
                vertices_m[first:end],
                agent_from_world[window],
                crosswalks_m[window, slot],
                availabilities[window, slot],
            )
            slot += 1


@njit(nogil=True, cache=True, error_model="numpy")
def write_polygon(
    vertices_m: Float64Array, agent_from_world: Float64Array, polygon_m: Float32Array, availabilities: BoolArray
) -> None:
    """Write the first vertices (V, 2) of a crosswalk in the target's frame to the rows (Q, 3) that are there."""
    for i in range(min(len(vertices_m), len(polygon_m))):
        x, y = transform_xy(agent_from_world, vertices_m[i, 0], vertices_m[i, 1])
        polygon_m[i, 0], polygon_m[i, 1] = x, y
        availabilities[i] = True

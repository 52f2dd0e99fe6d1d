"""Vector map: the lanes and crosswalks around targets as polylines with a fixed number of points."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float32Array, Float64Array, Int64Array, NumericArray
from l5kit.configs.parameters import LaneParams
from l5kit.data.device_log import DeviceLog
from l5kit.data.index.windows import NewArray, TargetArrays, Targets, WindowArrays, WindowRows
from l5kit.data.map.bounds_grid import BoundsGrid, GridArrays, find_near_point, is_near, slots_of_cell
from l5kit.data.map.lane_lights import LaneLights, LightArrays, rank_of_lane
from l5kit.data.map.map_arrays import MapArrays
from l5kit.device.backend import Backend, KernelArguments
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.relative_pose import transform_xy

NO_LIGHT = 4
"""State of a lane without a traffic light; 0 is a light without an active face, followed by the colours."""


_LINES = 3
"""Lines of a lane: its left and its right boundary, and its midline."""

_FAR = -1.0
"""Placeholder distance of elements that are not near."""


@dataclass(frozen=True)
class VectorMap:
    """The N lanes and M crosswalks of a map, resampled once, with their grid.

    Attributes:
        params: Amount of the map in a sample.
        grid: Grid of lanes, rows below N, and crosswalks, the rows after them.
        lights: Lanes that active faces control.
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
            targets: The targets.
            tl_faces: The traffic light faces of their windows; those of the newest frames are used.
            lane_rows: Receives the rows of the lanes in the map, -1 for missing ones, int64 (B, L); None to skip it.
        """
        if lane_rows is None:
            lane_rows = np.empty((len(targets), self.params.max_num_lanes), np.int64)
        written = self.polylines(np.zeros, len(targets))
        _write_map_of_windows(
            targets.centroids_m,
            targets.agent_from_world,
            (np.empty(self.grid.most_in_cell, np.int64), tuple(self.grid.arrays)),
            np.float32(self.params.max_retrieval_distance_m),
            (self.midlines_m, self.boundaries_m, self.has_light),
            (self.crosswalks_m, self.crosswalk_starts),
            self.lights.find_active(tl_faces),
            tuple(self.lights.arrays),
            tuple(written),
            lane_rows,
        )
        return written._asdict()

    def polylines(self, zeros: NewArray, num_windows: int) -> "MapPolylines":
        """Return uninitialized polylines of a number of windows, in arrays from ``zeros``."""
        params, num_points = self.params, int(self.midlines_m.shape[1])
        boundaries = num_windows, 2 * params.max_num_lanes, num_points
        lanes = num_windows, params.max_num_lanes, num_points
        crosswalks = num_windows, params.max_num_crosswalks, params.max_points_per_crosswalk
        return MapPolylines(
            zeros((*boundaries, 3), np.float32),
            zeros(boundaries, np.bool_),
            zeros((*lanes, 3), np.float32),
            zeros(lanes, np.bool_),
            zeros((*crosswalks, 3), np.float32),
            zeros(crosswalks, np.bool_),
        )

    @property
    def bytes_per_window(self) -> int:
        """Memory of a window while the map around it is looked up on a device."""
        return 8 * max(self.grid.most_in_cell, 1) + 12 * self.params.max_num_lanes + 4 * self.params.max_num_crosswalks


class MapPolylines(NamedTuple):
    """The map around the targets of B windows, in the form of samples, as NumPy or device arrays.

    Attributes:
        lanes: Alternating left and right boundaries of each lane, (B, 2 L, P, 3) float32.
        lanes_availabilities: (B, 2 L, P) bool.
        lanes_mid: (B, L, P, 3) float32.
        lanes_mid_availabilities: (B, L, P) bool.
        crosswalks: (B, X, Q, 3) float32.
        crosswalks_availabilities: (B, X, Q) bool.
    """

    lanes: Float32Array
    lanes_availabilities: BoolArray
    lanes_mid: Float32Array
    lanes_mid_availabilities: BoolArray
    crosswalks: Float32Array
    crosswalks_availabilities: BoolArray


class _Lanes(NamedTuple):
    """Fields of a :class:`VectorMap` inside kernels."""

    midlines_m: Float64Array
    boundaries_m: Float64Array
    has_light: BoolArray


class SentMap(NamedTuple):
    """A :class:`VectorMap` on a device, in the form of kernels.

    Attributes:
        grid: Grid of lanes and crosswalks.
        lights: Lanes that faces control.
        lanes: Their lines.
        crosswalks_m: Vertices of crosswalks.
        crosswalk_starts: First vertex of each, and the end of the last one.
        most_in_cell: Largest number of rows of a cell of the grid, at least 1.
        params: Amount of the map in a sample.
    """

    grid: GridArrays
    lights: LightArrays
    lanes: _Lanes
    crosswalks_m: Float64Array
    crosswalk_starts: Int64Array
    most_in_cell: int
    params: LaneParams


def send_map(vector_map: VectorMap, backend: Backend) -> SentMap:
    """Return a map on a device."""
    lanes = _Lanes(vector_map.midlines_m, vector_map.boundaries_m, vector_map.has_light)
    crosswalks_m, crosswalk_starts = backend.upload([vector_map.crosswalks_m, vector_map.crosswalk_starts])
    return SentMap(
        backend.upload_tuple(vector_map.grid.arrays),
        backend.upload_tuple(vector_map.lights.arrays),
        backend.upload_tuple(lanes),
        crosswalks_m,
        crosswalk_starts,
        max(vector_map.grid.most_in_cell, 1),
        vector_map.params,
    )


def write_map_on_device(
    sent: SentMap,
    log: DeviceLog,
    windows: WindowArrays,
    targets: TargetArrays,
    written: MapPolylines,
    *,
    part: tuple[int, int],
) -> None:
    """Write the map around the targets of some windows, as on the host.

    Args:
        sent: The map, on the device of the log.
        log: The log of the windows.
        windows: B windows.
        targets: Their targets.
        written: The output, initially zeros.
        part: First and end window.
    """
    backend, first, num_windows = log.backend, part[0], part[1] - part[0]
    num_lanes, num_crosswalks = sent.params.max_num_lanes, sent.params.max_num_crosswalks
    radius_m = np.float32(sent.params.max_retrieval_distance_m)
    near_m = backend.empty((num_windows, sent.most_in_cell), np.float64)
    distances_m = backend.empty((num_windows, num_lanes), np.float64)
    chosen = backend.empty((num_windows, num_lanes + num_crosswalks), np.int32)
    backend.run(
        _measure,
        num_windows * sent.most_in_cell,
        (first, sent.most_in_cell),
        targets.centroids_m,
        sent.grid,
        sent.lanes.midlines_m,
        near_m,
    )
    backend.run(
        _choose,
        num_windows,
        (first, num_lanes, num_crosswalks, int(sent.lanes.midlines_m.shape[0])),
        targets.centroids_m,
        sent.grid,
        near_m,
        (chosen, distances_m),
    )
    backend.run(
        _write_lanes,
        num_windows * num_lanes * _LINES,
        (first, num_lanes, radius_m),
        chosen,
        targets.agent_from_world,
        sent.lanes,
        sent.lights,
        (log.faces, windows.face_bounds),
        written,
    )
    backend.run(
        _write_crosswalks,
        num_windows * num_crosswalks,
        (first, num_lanes, num_crosswalks),
        chosen,
        targets.agent_from_world,
        (sent.crosswalks_m, sent.crosswalk_starts),
        (written.crosswalks, written.crosswalks_availabilities),
    )


@kernel_jit
def _write_map_of_windows(
    centroids_m: Float64Array,
    agent_from_world: Float64Array,
    finder: tuple[Int64Array, tuple[Any, ...]],
    radius_m: np.float32,
    lane_arrays: tuple[NumericArray, ...],
    crosswalks: tuple[Float64Array, Int64Array],
    active: tuple[Int64Array, Int64Array],
    light_arrays: tuple[Int64Array, ...],
    polylines: tuple[NumericArray, ...],
    lane_rows: Int64Array,
) -> None:
    """Write the lanes nearest to each target with the states of their lights, their rows, and the first crosswalks.

    ``finder`` holds memory for all rows of a cell, and a grid; the other tuples hold fields of :class:`VectorMap`, the
    result of :meth:`LaneLights.find_active`, fields of :class:`LaneLights`, and those of :class:`MapPolylines`.
    """
    near, grid, lanes, written = finder[0], GridArrays(*finder[1]), _Lanes(*lane_arrays), MapPolylines(*polylines)
    lights, (vertices_m, vertex_starts), (faces, face_starts) = LightArrays(*light_arrays), crosswalks, active
    states = np.zeros(len(lanes.midlines_m), np.int64)
    nearest = np.empty(lane_rows.shape[1], np.int64)
    distances_m = np.empty(len(nearest), np.float64)
    for window in range(len(centroids_m)):
        num_near = find_near_point(centroids_m[window, 0], centroids_m[window, 1], grid, near)

        # the nearest lanes, closest first, with a stable order; crosswalks follow the lanes
        num_lanes = 0
        for row in near[:num_near]:
            if row >= len(lanes.midlines_m) or len(nearest) == 0:
                break
            distance_m = distance_of(row, lanes.midlines_m, centroids_m[window])
            num_lanes = keep_nearest(row, distance_m, num_lanes, nearest, distances_m)
        lane_rows[window, :num_lanes] = nearest[:num_lanes]
        lane_rows[window, num_lanes:] = -1

        # their lines with the states of their lights, from one table for all windows that is restored afterwards
        window_faces, pose = faces[face_starts[window] : face_starts[window + 1]], agent_from_world[window]
        set_states(window_faces, lights, states, is_on=True)
        for i in range(num_lanes):
            lane = nearest[i]
            state = states[lane] if lanes.has_light[lane] else NO_LIGHT
            for line in range(_LINES):
                _write_lane(lanes, lane, line, pose, (radius_m, np.float32(state)), written, (window, i))
        set_states(window_faces, lights, states, is_on=False)

        # the first crosswalks, and the first vertices of each
        slot = 0
        for row in near[:num_near]:
            crosswalk = row - len(lanes.midlines_m)
            if crosswalk >= 0 and slot < written.crosswalks.shape[1]:
                vertices = vertices_m[vertex_starts[crosswalk] : vertex_starts[crosswalk + 1]]
                polygon, availabilities = written.crosswalks[window, slot], written.crosswalks_availabilities[window]
                write_polygon(vertices, pose, polygon, availabilities[slot])
                slot += 1


@kernel_jit
def distance_of(row: int, midlines_m: Float64Array, centroid_m: Float64Array) -> float:
    """Return the smallest distance of the points of a lane to a point (2,)."""
    squared_m = np.inf
    for i in range(midlines_m.shape[1]):
        x, y = midlines_m[row, i, 0] - centroid_m[0], midlines_m[row, i, 1] - centroid_m[1]
        squared_m = min(squared_m, x * x + y * y)
    return math.sqrt(squared_m)


@kernel_jit
def keep_nearest(
    row: int, distance_m: float, num_nearest: int, nearest: NumericArray, distances_m: Float64Array
) -> int:
    """Insert a row into the nearest ones (L,), closest first, if there is room or it is closer; return their number.

    Rows at the same distance keep their order.
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


@kernel_jit
def set_states(faces: Int64Array, lights: LightArrays, states: Int64Array, is_on: bool) -> None:
    """Write the highest rank of the faces to the states of their lanes, or reset these to 0."""
    ranks, lane_starts, lane_rows = lights
    for face in faces:
        for lane in lane_rows[lane_starts[face] : lane_starts[face + 1]]:
            states[lane] = max(states[lane], ranks[face]) if is_on else 0


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _write_lane(
    lanes: _Lanes,
    lane: int,
    line: int,
    agent_from_world: Float64Array,
    radius_and_state: tuple[np.float32, np.float32],
    written: MapPolylines,
    at: tuple[int, int],
) -> None:
    """Write the left (0) or right (1) boundary or the midline (2) of a lane to a window and slot."""
    window, slot = at
    if line < 2:
        write_line(
            lanes.boundaries_m[lane, line],
            agent_from_world,
            (radius_and_state[0], np.float32(0)),
            written.lanes[window, 2 * slot + line],
            written.lanes_availabilities[window, 2 * slot + line],
        )
    else:
        write_line(
            lanes.midlines_m[lane],
            agent_from_world,
            radius_and_state,
            written.lanes_mid[window, slot],
            written.lanes_mid_availabilities[window, slot],
        )


@kernel_jit
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


@kernel_jit
def write_polygon(
    vertices_m: Float64Array, agent_from_world: Float64Array, polygon_m: Float32Array, availabilities: BoolArray
) -> None:
    """Write the first vertices (V, 2) of a crosswalk in the target's frame to the available rows (Q, 3)."""
    for i in range(min(len(vertices_m), len(polygon_m))):
        x, y = transform_xy(agent_from_world, vertices_m[i, 0], vertices_m[i, 1])
        polygon_m[i, 0], polygon_m[i, 1] = x, y
        availabilities[i] = True


@kernel_jit
def _measure(item: int, arguments: KernelArguments) -> None:
    """Write the distance of one row of a target's cell: 0 for a near crosswalk, negative for rows that are not near."""
    (first_window, most_in_cell), centroids_m, of_grid, midlines_m, near_m = arguments
    grid = GridArrays(*of_grid)
    at, in_cell = item // most_in_cell, item % most_in_cell
    centroid_m = centroids_m[first_window + at]
    first, end = _slots_near(centroid_m, grid)
    distance_m = _FAR
    if first + in_cell < end:
        row = grid.cell_rows[first + in_cell]
        if is_near(centroid_m[0], centroid_m[1], grid.bounds_m, row, grid.radius_m):
            distance_m = distance_of(row, midlines_m, centroid_m) if row < len(midlines_m) else 0.0
    near_m[at, in_cell] = distance_m


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _slots_near(centroid_m: Float64Array, grid: GridArrays) -> tuple[int, int]:
    """Return first and end slot of the cell of a point (2,)."""
    x_m, y_m = centroid_m[0], centroid_m[1]
    return slots_of_cell(x_m, y_m, grid.origin_m, grid.cell_m, grid.num_cells, grid.cell_starts)


@kernel_jit
def _choose(item: int, arguments: KernelArguments) -> None:
    """Write the nearest lanes and the first crosswalks of a window, -1 for missing ones."""
    (first_window, num_lanes, num_crosswalks, first_crosswalk), centroids_m, of_grid = arguments[:3]
    near_m, (chosen, distances_m) = arguments[3:]
    grid = GridArrays(*of_grid)
    first, end = _slots_near(centroids_m[first_window + item], grid)
    lanes, crosswalks = chosen[item, :num_lanes], chosen[item, num_lanes:]
    num_near_lanes = num_near_crosswalks = 0
    for slot in range(first, end):
        distance_m, row = near_m[item, slot - first], grid.cell_rows[slot]
        if distance_m < 0:
            continue
        if row < first_crosswalk:
            num_near_lanes = keep_nearest(row, distance_m, num_near_lanes, lanes, distances_m[item])
        elif num_near_crosswalks < num_crosswalks:
            crosswalks[num_near_crosswalks] = row - first_crosswalk
            num_near_crosswalks += 1
    lanes[num_near_lanes:] = -1
    crosswalks[num_near_crosswalks:] = -1


@kernel_jit
def _write_lanes(item: int, arguments: KernelArguments) -> None:
    """Write the left or right boundary or the midline of one of the lanes of a window."""
    (first_window, num_lanes, radius_m), chosen, agent_from_world, of_lanes, lights, faces, written = arguments
    lanes = _Lanes(*of_lanes)
    line, slot, at = item % _LINES, item // _LINES % num_lanes, item // _LINES // num_lanes
    window, lane = first_window + at, chosen[at, slot]
    if lane < 0:
        return
    state: Any = np.int64(0)
    if line == _LINES - 1:
        state = rank_of_lane(lane, faces[1][window], faces[0], lights) if lanes.has_light[lane] else NO_LIGHT
    pose, radius_and_state = agent_from_world[window], (radius_m, np.float32(state))
    _write_lane(lanes, lane, line, pose, radius_and_state, MapPolylines(*written), (window, slot))


@kernel_jit
def _write_crosswalks(item: int, arguments: KernelArguments) -> None:
    """Write one of the crosswalks of a window."""
    (first_window, num_lanes, num_crosswalks), chosen, agent_from_world, crosswalks, written = arguments
    vertices_m, starts = crosswalks
    polygons_m, availabilities = written
    at, slot = item // num_crosswalks, item % num_crosswalks
    window, crosswalk = first_window + at, chosen[at, num_lanes + slot]
    if crosswalk < 0:
        return
    write_polygon(
        vertices_m[starts[crosswalk] : starts[crosswalk + 1]],
        agent_from_world[window],
        polygons_m[window, slot],
        availabilities[window, slot],
    )

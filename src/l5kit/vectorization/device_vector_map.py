"""Vector map on a device: the kernels that find and write the lanes and crosswalks around the targets of windows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from l5kit.data.device_log import DeviceLog, DeviceTargets, DeviceWindows
from l5kit.data.map.bounds_grid import is_near, slots_of_cell
from l5kit.data.map.lane_lights import rank_of_lane
from l5kit.device.backend import Backend, DeviceArray
from l5kit.vectorization.vector_map import (
    NO_LIGHT,
    VectorMap,
    distance_of,
    keep_nearest,
    write_line,
    write_polygon,
)

__all__ = ["DeviceVectorMap", "MapPolylines"]

_FAR = -1.0
"""In place of a distance, of what is not near."""


@dataclass(frozen=True, eq=False)
class MapPolylines:
    """The map around the targets of B windows on a device, as in a sample.

    Attributes:
        lanes: (B, 2 L, P, 3) float32.
        lanes_availabilities: (B, 2 L, P) bool.
        lanes_mid: (B, L, P, 3) float32.
        lanes_mid_availabilities: (B, L, P) bool.
        crosswalks: (B, X, Q, 3) float32.
        crosswalks_availabilities: (B, X, Q) bool.
    """

    lanes: DeviceArray
    lanes_availabilities: DeviceArray
    lanes_mid: DeviceArray
    lanes_mid_availabilities: DeviceArray
    crosswalks: DeviceArray
    crosswalks_availabilities: DeviceArray


class DeviceVectorMap:
    """A vector map on a device.

    Args:
        vector_map: The map.
        backend: The device.
    """

    def __init__(self, vector_map: VectorMap, backend: Backend) -> None:
        params, grid, lights = vector_map.params, vector_map.grid, vector_map.lights
        self._backend = backend
        self._params = params
        self._num_points, self._most_in_cell = int(vector_map.midlines_m.shape[1]), max(grid.most_in_cell, 1)
        self._radius_m = float(grid.radius_m)
        self._num_cells = grid.num_cells
        arrays = backend.upload(
            [
                grid.bounds_m,
                grid.origin_m,
                grid.cell_m,
                grid.cell_starts,
                grid.cell_rows,
                vector_map.midlines_m,
                vector_map.boundaries_m,
                vector_map.has_light,
                lights.ranks,
                lights.lane_starts,
                lights.lane_rows,
                vector_map.crosswalks_m,
                vector_map.crosswalk_starts,
            ]
        )
        self._bounds, self._cells, self._midlines_m = arrays[0], tuple(arrays[1:5]), arrays[5]
        self._boundaries_m, self._has_light = arrays[6:8]
        self._lights, self._crosswalks = tuple(arrays[8:11]), tuple(arrays[11:])

    @property
    def num_bytes(self) -> int:
        """Memory that a window takes while the map around it is found."""
        return 8 * self._most_in_cell + 12 * self._params.max_num_lanes + 4 * self._params.max_num_crosswalks

    def polylines(self, num_windows: int) -> MapPolylines:
        """Return zeros for so many windows."""
        params, zeros = self._params, self._backend.zeros
        lanes = num_windows, params.max_num_lanes, self._num_points
        boundaries = num_windows, 2 * params.max_num_lanes, self._num_points
        crosswalks = num_windows, params.max_num_crosswalks, params.max_points_per_crosswalk
        return MapPolylines(
            zeros((*boundaries, 3), np.float32),
            zeros(boundaries, np.bool_),
            zeros((*lanes, 3), np.float32),
            zeros(lanes, np.bool_),
            zeros((*crosswalks, 3), np.float32),
            zeros(crosswalks, np.bool_),
        )

    def write(
        self,
        log: DeviceLog,
        windows: DeviceWindows,
        targets: DeviceTargets,
        found: MapPolylines,
        *,
        part: tuple[int, int],
    ) -> None:
        """Write the map around the targets of some windows, as on the processor.

        Args:
            log: The log that the windows are of.
            windows: B windows.
            targets: Whom they are about.
            found: Where to write; zeros yet.
            part: First and end window.
        """
        backend, first, num_windows = self._backend, part[0], part[1] - part[0]
        num_lanes, num_crosswalks = self._params.max_num_lanes, self._params.max_num_crosswalks
        near_m = backend.empty((num_windows, self._most_in_cell), np.float64)
        distances_m = backend.empty((num_windows, num_lanes), np.float64)
        chosen = backend.empty((num_windows, num_lanes + num_crosswalks), np.int32)
        cells = (self._cells, self._num_cells)
        backend.run(
            _measure,
            num_windows * self._most_in_cell,
            (first, self._most_in_cell, self._radius_m),
            targets.centroids_m,
            cells,
            (self._bounds, self._midlines_m),
            near_m,
        )
        backend.run(
            _choose,
            num_windows,
            (first, num_lanes, num_crosswalks, int(self._midlines_m.shape[0])),
            targets.centroids_m,
            cells,
            near_m,
            (chosen, distances_m),
        )
        backend.run(
            _write_lanes,
            num_windows * num_lanes * 3,
            (first, num_lanes, np.float32(self._params.max_retrieval_distance_m)),
            chosen,
            targets.agent_from_world,
            (self._midlines_m, self._boundaries_m, self._has_light),
            self._lights,
            (log.faces, windows.face_bounds),
            (found.lanes, found.lanes_availabilities, found.lanes_mid, found.lanes_mid_availabilities),
        )
        backend.run(
            _write_crosswalks,
            num_windows * num_crosswalks,
            (first, num_lanes, num_crosswalks),
            chosen,
            targets.agent_from_world,
            self._crosswalks,
            (found.crosswalks, found.crosswalks_availabilities),
        )


@njit(nogil=True, cache=True, error_model="numpy")
def _measure(item: int, arguments: Any) -> None:
    """Write how far one of the rows of a target's cell is away, 0 for a crosswalk that is near."""
    (first_window, most_in_cell, radius_m), centroids_m, (cells, num_cells), (bounds_m, midlines_m), near_m = arguments
    origin_m, cell_m, cell_starts, cell_rows = cells
    place, in_cell = item // most_in_cell, item % most_in_cell
    centroid_m = centroids_m[first_window + place]
    first, end = slots_of_cell(centroid_m[0], centroid_m[1], origin_m, cell_m, num_cells, cell_starts)
    distance_m = _FAR
    if first + in_cell < end:
        row = cell_rows[first + in_cell]
        if is_near(centroid_m[0], centroid_m[1], bounds_m, row, radius_m):
            distance_m = distance_of(row, midlines_m, centroid_m) if row < len(midlines_m) else 0.0
    near_m[place, in_cell] = distance_m


@njit(nogil=True, cache=True, error_model="numpy")
def _choose(item: int, arguments: Any) -> None:
    """Write the nearest lanes and the first crosswalks of a window, -1 where there are no more."""
    (first_window, num_lanes, num_crosswalks, first_crosswalk), centroids_m, (cells, num_cells) = arguments[:3]
    near_m, (chosen, distances_m) = arguments[3:]
    origin_m, cell_m, cell_starts, cell_rows = cells
    centroid_m = centroids_m[first_window + item]
    first, end = slots_of_cell(centroid_m[0], centroid_m[1], origin_m, cell_m, num_cells, cell_starts)
    lanes, crosswalks = chosen[item, :num_lanes], chosen[item, num_lanes:]
    num_near_lanes = num_near_crosswalks = 0
    for slot in range(first, end):
        distance_m, row = near_m[item, slot - first], cell_rows[slot]
        if distance_m < 0:
            continue
        if row < first_crosswalk:
            num_near_lanes = keep_nearest(row, distance_m, num_near_lanes, lanes, distances_m[item])
        elif num_near_crosswalks < num_crosswalks:
            crosswalks[num_near_crosswalks] = row - first_crosswalk
            num_near_crosswalks += 1
    lanes[num_near_lanes:] = -1
    crosswalks[num_near_crosswalks:] = -1


@njit(nogil=True, cache=True, error_model="numpy")
def _write_lanes(item: int, arguments: Any) -> None:
    """Write the left or right boundary or the midline of one of the lanes of a window."""
    (first_window, num_lanes, radius_m), chosen, agent_from_world, lines, lights, faces, found = arguments
    midlines_m, boundaries_m, has_light = lines
    lanes, lanes_availabilities, lanes_mid, lanes_mid_availabilities = found
    line, slot, place = item % 3, item // 3 % num_lanes, item // 3 // num_lanes
    window, lane = first_window + place, chosen[place, slot]
    if lane < 0:
        return
    if line < 2:
        write_line(
            boundaries_m[lane, line],
            agent_from_world[window],
            (radius_m, np.float32(0)),
            lanes[window, 2 * slot + line],
            lanes_availabilities[window, 2 * slot + line],
        )
    else:
        state = rank_of_lane(lane, faces[1][window], faces[0], lights) if has_light[lane] else NO_LIGHT
        write_line(
            midlines_m[lane],
            agent_from_world[window],
            (radius_m, np.float32(state)),
            lanes_mid[window, slot],
            lanes_mid_availabilities[window, slot],
        )


@njit(nogil=True, cache=True, error_model="numpy")
def _write_crosswalks(item: int, arguments: Any) -> None:
    """Write one of the crosswalks of a window."""
    (first_window, num_lanes, num_crosswalks), chosen, agent_from_world, crosswalks, found = arguments
    vertices_m, starts = crosswalks
    polygons_m, availabilities = found
    place, slot = item // num_crosswalks, item % num_crosswalks
    window, crosswalk = first_window + place, chosen[place, num_lanes + slot]
    if crosswalk < 0:
        return
    write_polygon(
        vertices_m[starts[crosswalk] : starts[crosswalk + 1]],
        agent_from_world[window],
        polygons_m[window, slot],
        availabilities[window, slot],
    )

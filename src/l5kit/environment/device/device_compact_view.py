"""Device compact view: routes, road users and lanes around AVs as rows of numbers, written on a device."""

from typing import Any

import numpy as np
import torch
from numba import njit

from l5kit._types import Int64Array
from l5kit.device.backend import Backend, DeviceArray
from l5kit.environment.device.device_simulation import DeviceSimulation
from l5kit.environment.device.device_traffic import RowMemory
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.observations.compact_state import sizes_of, write_lanes, write_surroundings
from l5kit.environment.observations.lane_points import LanePointArrays, LanePoints, find_nearest_points
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.route_places import follow_route

__all__ = ["DeviceCompactView"]


class DeviceCompactView:
    """What the AVs of a device simulation see, without a picture.

    The twin of :class:`~l5kit.environment.observations.compact_view.CompactView`. Places on routes are followed from
    look to look, so look in every step.

    Args:
        simulation: The AVs.
        layout: What stands where; None for the usual one.

    Attributes:
        layout: As above.
        memory: What was seen last, float32 (N, ``layout.size``) on the device.
    """

    def __init__(self, simulation: DeviceSimulation, layout: CompactLayout | None = None) -> None:
        self.layout = CompactLayout() if layout is None else layout
        self._simulation = simulation
        size, backend = len(simulation), simulation.backend
        most = max(self.layout.num_agents, self.layout.num_lane_points, 1)
        self._out = backend.zeros((size, self.layout.size), np.float32)
        self.memory: torch.Tensor = backend.tensor(self._out)
        self._rows = simulation.traffic.make_row_memory(size)
        road = simulation.bank.road
        self._points = _upload_points(LanePoints.none() if road is None else LanePoints.of_map(road.driving), backend)
        starts, places = backend.zeros(size, np.int64), backend.zeros((size, 3), np.float64)
        self._followed = (starts, places, simulation.traffic.on_device.expert_arcs_m)
        self._room = (
            backend.empty((size, most), np.int64),
            backend.empty((size, most), np.float64),
            backend.empty((size, most), np.int64),
        )
        backend.wait()  # for what other streams may read

    @property
    def rows(self) -> RowMemory:
        """The road users of all slots when they were looked at last, as kernels take them."""
        return self._rows

    @property
    def places(self) -> DeviceArray:
        """Where AVs were on their routes then, float64 (N, 3), as ``follow_routes`` writes it; changed by each look."""
        return self._followed[1]

    def look(self) -> torch.Tensor:
        """Return what all AVs see now, in memory that the next look uses again; 0 where nothing has started."""
        simulation, traffic = self._simulation, self._simulation.traffic
        bank, (_, starts, found) = traffic.on_device, self._rows
        traffic.write_rows(simulation.slots, self._rows)
        simulation.backend.run(
            _look,
            len(simulation),
            traffic.arrays[0],
            bank.scenes,
            bank.paths,
            (bank.lights, bank.light_lanes),
            (starts, *found[:3]),
            simulation.arrays,
            self._followed,
            (sizes_of(self.layout), self._points),
            self._room,
            self._out,
        )
        return self.memory


def _upload_points(points: LanePoints, backend: Backend) -> tuple[DeviceArray | float | tuple[int, int], ...]:
    """Return points of lanes on a device, in the order of ``LanePointArrays``."""
    *columns, origin_m, cell_m, num_cells, starts = points.arrays
    *columns, origin, firsts = backend.upload([*columns, origin_m, starts])
    return *columns, origin, cell_m, num_cells, firsts


@njit(nogil=True, cache=True, error_model="numpy")
def _look(item: int, arguments: tuple[Any, ...]) -> None:
    """Write what the AV of a slot sees.

    Arguments: frames, scenes and counts of all slots; ``scenes``, ``paths``, ``lights`` and ``light_lanes`` of a
    DeviceBank; road users of all slots; AVs; starts that have been seen, places on routes, and how far logged AVs are;
    layout and points of lanes; room; what is written.
    """
    (frames, bank_rows, _), scenes, paths, (lights, light_lanes), rows, avs, followed, map_parts, room, out = arguments
    paths = PathArrays(*paths)
    boxes, velocities_mps, motions, num_starts = avs
    row = out[item]
    if frames[item] < 0:
        for column in range(len(row)):
            row[column] = 0.0
        return
    sizes, points = map_parts[0], LanePointArrays(*map_parts[1])
    near, far_m2, point_ranks = room[0][item], room[1][item], room[2][item]
    scene, box = bank_rows[item], boxes[item]
    frame, route = scenes[0][scene] + frames[item], scenes[1][scene]
    if followed[0][item] != num_starts[item]:
        # a route may come by the same place twice: at first an AV is looked for around where the log has it
        followed[0][item], followed[1][item, 0] = num_starts[item], followed[2][frame]
    follow_route(paths.starts, paths.points_m, route, box, False, followed[1][item])
    ranks = lights[1][lights[0][frame] : lights[0][frame + 1]]
    vehicle, egos, place = (box, motions[item]), (boxes, velocities_mps), followed[1][item]
    write_surroundings(row, sizes, vehicle, (item, -1), rows, egos, paths, route, place, ranks, (near, far_m2))
    count = find_nearest_points(points, (box[0], box[1], sizes[4]), near, far_m2, sizes[2])
    lanes = light_lanes[1][light_lanes[0][scene] : light_lanes[0][scene + 1]]
    for number in range(count):
        light = _find_sorted(lanes, points.lanes[near[number]])
        point_ranks[number] = ranks[light] if light >= 0 else 0
    write_lanes(row, sizes, box, points, point_ranks, near, count)


@njit(nogil=True, cache=True, error_model="numpy")
def _find_sorted(values: Int64Array, value: int) -> int:
    """Return the place of a value among ascending ones, -1 for none."""
    first, stop = 0, len(values)
    while first < stop:
        middle = (first + stop) // 2
        if values[middle] < value:
            first = middle + 1
        else:
            stop = middle
    return first if first < len(values) and values[first] == value else -1

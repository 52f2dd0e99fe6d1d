"""Device compact view: routes, road users and lanes around AVs as rows of numbers, written on a device."""

from typing import Any

import numpy as np
import torch
from numba import njit

from l5kit.device.backend import Backend, DeviceArray
from l5kit.environment.device.device_simulation import DeviceSimulation
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.observations.compact_state import sizes_of, write_compact_state
from l5kit.environment.observations.lane_points import LanePointArrays, LanePoints
from l5kit.environment.traffic.traffic_slots import RowMemory
from l5kit.environment.traffic.traffic_steps import SceneStarts, SlotPlaces
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.red_lights import SceneLights
from l5kit.lanes.route_places import follow_route
from l5kit.simulation.lanes.lane_following import SceneRows

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
        self._followed = (starts, places, simulation.traffic.arrays.ego.arcs_m)
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
        bank, memory = traffic.arrays, self._rows
        traffic.write_rows(simulation.slots, memory)
        simulation.backend.run(
            _look,
            len(simulation),
            traffic.places,
            bank.scenes,
            bank.paths,
            bank.lights,
            memory.rows.scene_rows,
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

    Arguments: places of all slots; ``scenes``, ``paths`` and ``lights`` of BankArrays; road users of all slots; AVs;
    starts that have been seen, places on routes, and how far logged AVs are; layout and points of lanes; room; what is
    written.
    """
    places, scenes, paths, lights, rows, avs, followed, (sizes, points), room, out = arguments
    places, scenes, paths, lights = SlotPlaces(*places), SceneStarts(*scenes), PathArrays(*paths), SceneLights(*lights)
    boxes, velocities_mps, motions, num_starts = avs
    seen_starts, route_places, expert_arcs_m = followed
    near, far_m2, point_ranks = room
    row = out[item]
    if places.frames[item] < 0:
        for column in range(len(row)):
            row[column] = 0.0
        return
    scene, box, place = places.bank_rows[item], boxes[item], route_places[item]
    frame, route = scenes.frames[scene] + places.frames[item], scenes.routes[scene]
    if seen_starts[item] != num_starts[item]:
        # a route may come by the same place twice: at first an AV is looked for around where the log has it
        seen_starts[item], place[0] = num_starts[item], expert_arcs_m[frame]
    follow_route(paths.starts, paths.points_m, route, box, False, place)
    write_compact_state(
        row,
        sizes,
        LanePointArrays(*points),
        (box, motions[item]),
        (item, -1),
        SceneRows(*rows),
        (boxes, velocities_mps),
        paths,
        (route, place),
        lights,
        (frame, scene),
        (near[item], far_m2[item], point_ranks[item]),
    )

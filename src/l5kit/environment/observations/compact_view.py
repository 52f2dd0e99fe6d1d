"""Compact view of environments: routes, road users and lanes around AVs as one row of numbers each."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from l5kit.device.backend import DeviceArray
from l5kit.environment.episode_roads import AvArrays, EpisodeRoads, RoutePlaces
from l5kit.environment.observations.compact_layout import BOUND, CompactLayout
from l5kit.environment.observations.compact_state import LookRoom, Sizes, sizes_of, write_compact_state
from l5kit.environment.observations.lane_points import LanePointArrays, LanePoints
from l5kit.environment.traffic.traffic_steps import SlotPlaces
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.red_lights import SceneLights
from l5kit.simulation.lanes.lane_following import SceneRows

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["CompactView", "compact_space"]


def compact_space(layout: CompactLayout) -> "spaces.Box":
    """Return the space of what one environment sees, float32 (``layout.size``,)."""
    from gymnasium import spaces  # here, as views are also used without environments

    return spaces.Box(-BOUND, BOUND, (layout.size,), np.float32)


class CompactView:
    """View of the states around AVs of N slots, without a picture, on the processor or a device.

    Args:
        roads: What is around them, and where.
        layout: What stands where; None for the usual one.

    Attributes:
        layout: As above.
        memory: What was seen last, float32 (N, ``layout.size``), 0 where nothing has been seen.
    """

    def __init__(self, roads: EpisodeRoads, layout: CompactLayout | None = None) -> None:
        self.layout = CompactLayout() if layout is None else layout
        self._roads, backend, driving_map = roads, roads.backend, roads.driving_map
        self.memory: DeviceArray = backend.zeros((len(roads), self.layout.size), np.float32)
        points = LanePoints.none() if driving_map is None else LanePoints.of_map(driving_map)
        self._points: LanePointArrays = backend.shared(points.arrays)
        shape = (1 if backend.is_serial else len(roads), max(self.layout.num_agents, self.layout.num_lane_points, 1))
        self._room = LookRoom(
            backend.empty(shape, np.int64), backend.empty(shape, np.float64), backend.empty(shape, np.int64)
        )
        backend.wait()  # for what other streams may read

    @property
    def space(self) -> "spaces.Box":
        """Space of one environment, float32 (``layout.size``,)."""
        return compact_space(self.layout)

    def look(self, slots: DeviceArray, avs: AvArrays) -> None:
        """Write what AVs of slots (B,), some of those of all slots, see."""
        roads, traffic = self._roads, self._roads.traffic
        of_bank = (traffic.arrays.paths, traffic.arrays.lights)
        around = (roads.rows(slots).scene_rows, avs.boxes, avs.velocities_mps, avs.motions, roads.now)
        sizes = sizes_of(self.layout)
        roads.backend.run(
            _look, len(slots), slots, traffic.places, *of_bank, around, (sizes, self._points), self._room, self.memory
        )


@njit(nogil=True, cache=True, error_model="numpy")
def _look(item: int, arguments: tuple[Any, ...]) -> None:
    """Write what the AV of a slot sees.

    Arguments: slots (B,); places of all slots; ``paths`` and ``lights`` of BankArrays; road users of the B slots, then
    boxes, velocities and motions of all AVs, and where they are on their routes; layout and points of lanes; room; what
    is written, (N, D).
    """
    slots, places, paths, lights, around, (sizes, points), room, out = arguments
    rows, boxes, velocities_mps, motions, now = around
    places, now, room, slot = SlotPlaces(*places), RoutePlaces(*now), LookRoom(*room), slots[item]
    if places.frames[slot] < 0:
        return
    own = slot % len(room.near)
    write_compact_state(
        out[slot],
        Sizes(*sizes),
        LanePointArrays(*points),
        (boxes[slot], motions[slot]),
        (item, -1),
        SceneRows(*rows),
        (boxes, velocities_mps),
        PathArrays(*paths),
        (now.routes[slot], now.places[slot]),
        SceneLights(*lights),
        (now.frames[slot], places.bank_rows[slot]),
        LookRoom(room.near[own], room.far_m2[own], room.point_ranks[own]),
    )

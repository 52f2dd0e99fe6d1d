"""Compact view of environments: routes, road users and lanes around AVs as one row of numbers each."""

from typing import TYPE_CHECKING

import numpy as np

from l5kit.device.backend import DeviceArray
from l5kit.environment.episode_roads import AvArrays, EpisodeRoads
from l5kit.environment.observations.compact_layout import BOUND, CompactLayout
from l5kit.environment.observations.compact_state import LookRoom, SeenMap, sizes_of, write_state

if TYPE_CHECKING:
    from gymnasium import spaces


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
        self._roads, backend = roads, roads.backend
        self.memory: DeviceArray = backend.zeros((len(roads), self.layout.size), np.float32)
        self._seen_map = backend.shared(SeenMap.of_map(roads.driving_map))
        self._room = LookRoom.make(backend, len(roads), self.layout)
        backend.wait()  # for what other streams may read

    @property
    def space(self) -> "spaces.Box":
        """Space of one environment, float32 (``layout.size``,)."""
        return compact_space(self.layout)

    def look(self, slots: DeviceArray, avs: AvArrays) -> None:
        """Write what AVs of slots (B,), some of those of all slots, see."""
        roads = self._roads
        now, bank = roads.now, roads.traffic.arrays
        roads.backend.run(
            write_state,
            len(slots),
            slots,
            roads.items(len(slots)),
            (avs.boxes, avs.motions),
            roads.rows(slots).scene_rows,
            bank.paths,
            (now.routes, now.positions),
            (now.frames, roads.bank_rows, bank.lights),
            (sizes_of(self.layout), self._seen_map),
            self._room,
            self.memory,
        )

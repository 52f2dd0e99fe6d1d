"""Compact view of environments: routes, road users and lanes around the AV as one row of numbers."""

import numpy as np
from gymnasium import spaces

from l5kit._types import Float32Array, Float64Array, Int64Array
from l5kit.environment.episode_roads import EpisodeRoads
from l5kit.environment.observations.compact_layout import BOUND, CompactLayout
from l5kit.environment.observations.compact_state import write_compact_states
from l5kit.environment.observations.lane_points import LanePoints

__all__ = ["CompactView", "compact_space"]


def compact_space(layout: CompactLayout) -> spaces.Box:
    """Return the space of what one environment sees, float32 (``layout.size``,)."""
    return spaces.Box(-BOUND, BOUND, (layout.size,), np.float32)


class CompactView:
    """View of the states around AVs, without a picture.

    Args:
        roads: What is around them.
        num_slots: Number of environments, N.
        layout: What stands where.

    Attributes:
        layout: As above.
        space: Space of one environment, float32 (``layout.size``,).
        memory: What was seen last, float32 (N, ``layout.size``).
    """

    def __init__(self, roads: EpisodeRoads, num_slots: int, layout: CompactLayout | None = None) -> None:
        self.layout = CompactLayout() if layout is None else layout
        self.space = compact_space(self.layout)
        self.memory: Float32Array = np.zeros((num_slots, self.layout.size), np.float32)
        self._roads = roads
        driving_map = roads.driving_map
        self._lane_points = LanePoints.none() if driving_map is None else LanePoints.of_map(driving_map)

    def look(self, slots: Int64Array, boxes: Float64Array, motions: Float64Array) -> None:
        """Write what AVs of slots (B,), boxes (B, 5), with speeds, accelerations and steering (B, 3), see."""
        roads = self._roads
        rows, routes = roads.rows(slots), roads.routes(slots)
        size = len(slots)
        out = self.memory if size == len(self.memory) else np.empty((size, self.layout.size), np.float32)
        headings = np.stack([np.cos(boxes[:, 2]), np.sin(boxes[:, 2])], axis=-1)
        write_compact_states(
            self.layout,
            self._lane_points,
            (boxes, motions, np.arange(size), np.full(size, -1)),
            seen=(rows.scene_rows, (boxes, motions[:, :1] * headings), routes.lights),
            routes=(roads.paths, routes.routes, routes.places),
            out=out,
        )
        if out is not self.memory:
            self.memory[slots] = out

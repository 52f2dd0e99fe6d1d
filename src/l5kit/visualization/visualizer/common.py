"""Contents of the frames of a page; all coordinates are world coordinates in metres."""

import math
from typing import Any, NamedTuple

import numpy as np

from l5kit._types import Float64Array, NumericArray

__all__ = [
    "HALF_SIDE_M",
    "AgentVisualization",
    "CWVisualization",
    "EgoVisualization",
    "FrameVisualization",
    "LaneVisualization",
    "MapLaneVisualization",
    "MovingAgentVisualization",
    "TrajectoryVisualization",
]

HALF_SIDE_M = 50.0
"""Half the side of the displayed square around the AV."""


class LaneVisualization(NamedTuple):
    """A lane as a filled polygon.

    Attributes:
        xs: World x of its vertices, shape (n,).
        ys: World y of its vertices, shape (n,).
        color: CSS name or hex.
    """

    xs: Float64Array
    ys: Float64Array
    color: str


class MapLaneVisualization(LaneVisualization):
    """A lane with known boundaries, which are drawn as lines; also a tuple of three.

    Attributes:
        num_left_points: Number of vertices of the left boundary, which come first; the others are the reversed right
            boundary. 0 if unknown.
    """

    num_left_points: int = 0

    @classmethod
    def of_boundaries(cls, left_m: NumericArray, right_m: NumericArray, color: str) -> "MapLaneVisualization":
        """Return the lane between two boundaries (n, 2 or more) and (m, 2 or more), world positions in metres."""
        outline_m = np.concatenate([left_m[:, :2], right_m[::-1, :2]])
        lane = cls(outline_m[:, 0], outline_m[:, 1], color)
        lane.num_left_points = len(left_m)
        return lane

    def _replace(self, /, **fields: Any) -> "MapLaneVisualization":
        lane: MapLaneVisualization = super()._replace(**fields)
        lane.num_left_points = self.num_left_points
        return lane

    @property
    def boundaries(self) -> list[tuple[Float64Array, Float64Array]]:
        """World x and y of the left and the right boundary; empty if unknown."""
        end = self.num_left_points
        return [(self.xs[:end], self.ys[:end]), (self.xs[end:], self.ys[end:])] if end else []


class CWVisualization(NamedTuple):
    """A crosswalk as a filled polygon.

    Attributes:
        xs: World x of its vertices, shape (n,).
        ys: World y of its vertices, shape (n,).
        color: CSS name or hex; ``"yellow"`` is drawn in a tone of the page.
    """

    xs: Float64Array
    ys: Float64Array
    color: str


class AgentVisualization(NamedTuple):
    """The box of an agent.

    Attributes:
        xs: World x of its corners, shape (4,).
        ys: World y of its corners, shape (4,).
        color: CSS name or hex.
        track_id: Its track.
        agent_type: Its most probable class, such as ``"PERCEPTION_LABEL_CAR"``.
        prob: Probability of that class, 0 to 1.
    """

    xs: Float64Array
    ys: Float64Array
    color: str
    track_id: int
    agent_type: str
    prob: float


class MovingAgentVisualization(AgentVisualization):
    """An agent whose speed may be known; also a tuple of six.

    Attributes:
        speed_mps: Its speed, NaN if unknown.
    """

    speed_mps: float = math.nan

    def _replace(self, /, **fields: Any) -> "MovingAgentVisualization":
        agent: MovingAgentVisualization = super()._replace(**fields)
        agent.speed_mps = self.speed_mps
        return agent


class EgoVisualization(NamedTuple):
    """The box of the AV.

    Attributes:
        xs: World x of its corners, shape (4,).
        ys: World y of its corners, shape (4,).
        color: CSS name or hex; ``"red"`` is drawn in a tone of the page.
        center_x: World x of its centre, which is the centre of the view.
        center_y: World y of its centre.
    """

    xs: Float64Array
    ys: Float64Array
    color: str
    center_x: float
    center_y: float


class TrajectoryVisualization(NamedTuple):
    """A line of positions.

    Attributes:
        xs: World x of the positions, shape (n,).
        ys: World y of the positions, shape (n,).
        color: CSS name or hex.
        legend_label: Trajectories with the same label are shown and hidden together.
        track_id: Track of the agent, -1 for the AV.
    """

    xs: Float64Array
    ys: Float64Array
    color: str
    legend_label: str
    track_id: int


class FrameVisualization(NamedTuple):
    """Contents of one frame.

    Attributes:
        ego: The AV.
        agents: Other road users.
        lanes: Lanes around the AV.
        crosswalks: Crosswalks around the AV.
        trajectories: Lines of positions.
    """

    ego: EgoVisualization
    agents: list[AgentVisualization]
    lanes: list[LaneVisualization]
    crosswalks: list[CWVisualization]
    trajectories: list[TrajectoryVisualization]

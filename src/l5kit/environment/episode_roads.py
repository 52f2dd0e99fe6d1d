"""Roads of episodes: road users, routes and lights around the AVs of many episodes, as arrays of kernels."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.environment.episode_choice import FIRST_FRAME
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.environment.traffic.traffic_slots import TrafficRows, TrafficSlots
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.red_lights import LightRows
from l5kit.lanes.route_places import follow_routes
from l5kit.simulation.drivers.intelligent import IntelligentDriver

__all__ = ["EpisodeRoads", "RouteStates"]


@dataclass(frozen=True, eq=False)
class RouteStates:
    """Where the AVs of B episodes, and those of the log, are on their routes.

    Attributes:
        routes: The paths of the AVs, (B,).
        places: Where they are on these, (B, 3); see :func:`~l5kit.lanes.route_places.follow_routes`.
        expert_arcs_m: How far the AVs of the log are, (B,).
        lights: The lights.
    """

    routes: Int64Array
    places: Float64Array
    expert_arcs_m: Float64Array
    lights: LightRows


class EpisodeRoads:
    """What is around the AVs of N episodes.

    Args:
        bank: Scenes of the log.
        num_slots: N.
        drives: Drives other vehicles; None to replay them.

    Attributes:
        bank: As above.
        traffic: The road users.
        frames: Current frame of each episode, counted in its scene, int64 (N,).
    """

    def __init__(self, bank: SceneBank, num_slots: int, *, drives: IntelligentDriver | None) -> None:
        self.bank = bank
        self.traffic = TrafficSlots(bank, num_slots, drives=drives)
        self.frames: Int64Array = np.zeros(num_slots, np.int64)
        self._bank_rows: Int64Array = np.zeros(num_slots, np.int64)
        self._places: Float64Array = np.zeros((num_slots, 3))
        self._last: tuple[Int64Array, TrafficRows] | None = None

    @property
    def driving_map(self) -> DrivingMap | None:
        """Lanes and drivable surface; None without a map."""
        return None if self.bank.road is None else self.bank.road.driving

    @property
    def drives_agents(self) -> bool:
        """Whether others leave the log."""
        return self.traffic.drives is not None

    @property
    def paths(self) -> PathArrays:
        """All paths."""
        return self.bank.paths

    def begin(self, slots: Int64Array, scenes: Int64Array, first_frames: Int64Array) -> None:
        """Begin episodes in slots (B,), of scenes (B,) from frames (B,) on.

        Raises:
            CorruptedDataError: A scene is damaged.
        """
        self._bank_rows[slots] = self.bank.prepare(scenes)
        self.frames[slots] = first_frames + FIRST_FRAME
        self._last = None
        self.traffic.start(slots, self._bank_rows[slots], self.frames[slots])

    def log_poses(self, slots: Int64Array, ahead: int = 0) -> Float64Array:
        """Return x, y and heading of the AVs of the log, (B, 3), in the current frames of slots or beside them."""
        poses: Float64Array = self.bank.ego_poses[self._rows_of(slots) + ahead]
        return poses

    def leave(self, slots: Int64Array, boxes: Float64Array, velocities_mps: Float64Array) -> None:
        """Move the others of slots (B,) to the next frames, whose AVs (B, 5) are still in the current ones."""
        self._last = None
        self.traffic.step(slots, boxes, velocities_mps)
        self.frames[slots] += 1

    def enter(self, slots: Int64Array, boxes: Float64Array, *, is_new: BoolArray) -> None:
        """Let in who comes into the frames that are current now, in which the AVs of slots are at (B, 5)."""
        self._last = None
        self.traffic.enter(slots, boxes)
        places = self._places[slots]
        # a route may come by the same place twice: at first an AV is looked for around where the log has it
        places[is_new, 0] = self.bank.expert_arcs_m[self._rows_of(slots)][is_new]
        follow_routes(self.paths, self.bank.routes[self._bank_rows[slots]], boxes, places)
        self._places[slots] = places

    def rows(self, slots: Int64Array) -> TrafficRows:
        """Return the road users of slots (B,) now, until the next step."""
        if self._last is None or not np.array_equal(self._last[0], slots):
            self._last = slots, self.traffic.rows(slots)
        return self._last[1]

    def routes(self, slots: Int64Array) -> RouteStates:
        """Return where the AVs of slots (B,) are on their routes now."""
        rows = self._rows_of(slots)
        return RouteStates(
            self.bank.routes[self._bank_rows[slots]],
            self._places[slots],
            self.bank.expert_arcs_m[rows],
            LightRows(rows, self._bank_rows[slots], self.bank.lights),
        )

    def _rows_of(self, slots: Int64Array) -> Int64Array:
        """Return the rows of the current frames of slots in the bank, (B,)."""
        rows: Int64Array = self.bank.frame_starts[self._bank_rows[slots]] + self.frames[slots]
        return rows

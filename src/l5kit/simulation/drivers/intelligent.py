"""Intelligent driver on lanes: vehicles that follow the lanes of their log, their leaders and red lights."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.read_only_views import behind_view
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.lane_paths import UNKNOWN_LIMIT_MPS, LanePaths, make_lane_paths, write_highest_speeds
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.intelligent_driver import AGENT_DRIVER, AV_DRIVER, IntelligentDriverParams
from l5kit.simulation.lanes.av_paths import paths_of_avs
from l5kit.simulation.lanes.lane_following import (
    NUM_COLUMNS,
    drive_agents,
    drive_avs,
    locate_vehicles,
)
from l5kit.simulation.lanes.track_poses import find_lane_followers, poses_of_tracks

_MEMORY = "intelligent driver"


@dataclass(frozen=True)
class IntelligentDriver:
    """Drivers of the intelligent driver model (IDM) on the lanes of the map, for AVs or for agents.

    A vehicle follows the lanes that it has in the log, then at each fork the lane after which its heading has changed
    least. The nearest object ahead whose box meets this path, widened to the width of the vehicle, is its leader; the
    first red line and the end of the path stand as leaders beside it. AVs get a plan of some seconds, in which the
    leader keeps its speed; agents get the pose of the next step, which ``PlannedPoses`` takes as it is. An AV on no
    lane, or without a map, goes straight on and comes to stand within 50 m.

    Attributes:
        params: Parameters of the model; None for the published ones, those of agents or those of the AV.
        limit_part: The part of the speed limit that a driver wants to drive, above 0.
        unknown_limit_mps: The limit where the map does not say one, above 0.
        num_steps: Steps that are planned for AVs.
        max_lateral_mps2: Acceleration across in bends, above 0, before which a driver slows down with b; None for the
            published rule, which knows no bends.

    Raises:
        InvalidArgumentError: A value is out of range.
    """

    params: IntelligentDriverParams | None = None
    limit_part: float = 1.0
    unknown_limit_mps: float = UNKNOWN_LIMIT_MPS
    num_steps: int = 40
    max_lateral_mps2: float | None = None

    def __post_init__(self) -> None:
        for name in ("limit_part", "unknown_limit_mps", "num_steps", "max_lateral_mps2"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise InvalidArgumentError(f"IntelligentDriver: {name} is {value}; it must be above 0")

    def tracks(self, batch: SceneBatch) -> BoolArray:
        """Return which tracks of a batch it drives, (T,): vehicles on lanes that do not stay parked.

        ``AgentControl.of_traffic(tracks=driver.tracks)`` lets it drive these; all others are replayed.
        """
        return find_lane_followers(batch)

    def drive(self, state: TrafficState) -> Actions:
        """Return the poses of the next step of agents, (K, 1, 3), or the plans of AVs, (R, T, 3).

        Raises:
            InvalidArgumentError: An agent is on no lane in the log, or there is no map.
        """
        state = behind_view(state)
        seat = state.memory.get(_MEMORY)
        if seat is None:
            seat = state.memory[_MEMORY] = _Seat.of_batch(state, self.unknown_limit_mps)
        params = self.params or (AV_DRIVER if state.actors is None else AGENT_DRIVER)
        bends_mps = seat.bends_of(self.max_lateral_mps2, params.max_braking_mps2)
        drive = (params.kernel_parameters, float(self.limit_part), float(state.step_time_s), bends_mps)
        vehicles = seat.locate(state)
        num_steps = self.num_steps if state.actors is None else 1
        poses = np.empty((len(state), num_steps, 3))
        rows, ego = state.agents.scene_rows, state.ego_rows
        colors, num_lanes = state.colors, seat.num_lanes
        if state.actors is None:
            drive_avs(seat.arrays, seat.motions, vehicles, rows, ego, colors, num_lanes, drive, poses)
        else:
            of_rows = state.agents.track_rows
            actors = np.ascontiguousarray(state.actors)
            drive_agents(seat.arrays, seat.motions, actors, of_rows, rows, ego, colors, num_lanes, drive, poses)
        return Actions(poses)


def intelligent_traffic() -> AgentSeat:
    """Return the seat of vehicles on lanes, which it drives and which react; all others are replayed."""
    driver = IntelligentDriver()
    return AgentSeat(driver, control=AgentControl.of_traffic(tracks=driver.tracks))


class _Seat:
    """What a driver remembers of a batch: the paths, and where on its path each vehicle is."""

    def __init__(self, paths: LanePaths, num_lanes: int) -> None:
        self.paths, self.num_lanes = paths, num_lanes
        self.arrays = paths.arrays
        self.motions: Float64Array = np.zeros((len(paths), NUM_COLUMNS))
        self._bends_mps: Float64Array | None = None
        self._before: Float64Array = np.zeros((len(paths), NUM_COLUMNS))
        self._frames: Int64Array = np.full(len(paths), -2, np.int64)
        self._is_before_new: BoolArray = np.zeros(len(paths), np.bool_)

    def __deepcopy__(self, memo: dict[int, object]) -> "_Seat":
        """Return itself: asked again in a frame, it starts from what it knew before."""
        return self

    @classmethod
    def of_batch(cls, state: TrafficState, unknown_limit_mps: float) -> "_Seat":
        """Return the paths of the AVs of a batch, or of its agents."""
        batch = state.batch
        driving_map = batch.driving_map
        is_av = state.actors is None
        if batch.road is None or driving_map is None or driving_map.num_lanes == 0:
            if not is_av:
                raise InvalidArgumentError("IntelligentDriver: the batch has no map with lanes, on which agents drive")
            straight = paths_of_avs(batch, unknown_limit_mps=unknown_limit_mps)
            return cls(straight, 1)
        if is_av:
            paths = paths_of_avs(batch, unknown_limit_mps=unknown_limit_mps)
        else:
            poses = poses_of_tracks(batch, find_lane_followers(batch))
            paths = make_lane_paths(poses, driving_map, unknown_limit_mps=unknown_limit_mps)
        return cls(paths, driving_map.num_lanes)

    def locate(self, state: TrafficState) -> Int64Array:
        """Bring the motions of the vehicles to where they are now, and return their paths.

        A driver that is asked twice in one frame, as after an error in another scene, starts from the same motions.
        """
        is_av = state.actors is None
        vehicles = state.scenes if is_av else state.actor_tracks
        self._require_paths(state, vehicles)
        frames = state.frame_indices[state.actor_scenes]
        is_again = self._frames[vehicles] == frames
        is_new: BoolArray = np.where(is_again, self._is_before_new[vehicles], self._frames[vehicles] != frames - 1)
        again = vehicles[is_again]
        self.motions[again] = self._before[again]
        self._before[vehicles] = self.motions[vehicles]
        self._is_before_new[vehicles], self._frames[vehicles] = is_new, frames
        boxes = state.ego_boxes if is_av else state.agents.boxes[state.actors]
        locate_vehicles(self.arrays, vehicles, boxes, state.actor_states.speeds_mps, is_new, self.motions)
        return vehicles

    def bends_of(self, lateral_mps2: float | None, braking_mps2: float) -> Float64Array:
        """Return how fast a driver may be at each point of the paths, by the bends ahead; empty for no bends."""
        if self._bends_mps is None:
            self._bends_mps = np.empty(0 if lateral_mps2 is None else len(self.paths.points_m))
            if lateral_mps2 is not None:
                write_highest_speeds(self.arrays, float(lateral_mps2), float(braking_mps2), False, self._bends_mps)
        return self._bends_mps

    def _require_paths(self, state: TrafficState, vehicles: Int64Array) -> None:
        is_lost = ~self.paths.has_path[vehicles]
        if is_lost.any():
            first = int(np.argmax(is_lost))
            scene = int(state.batch.scene_indices[state.scenes[state.actor_scenes[first]]])
            raise InvalidArgumentError(
                f"IntelligentDriver: track {int(state.batch.tracks.track_ids[vehicles[first]])} of scene {scene} is on "
                "no lane where the log first has it, or parked; let AgentControl leave such agents to the log with "
                "tracks=driver.tracks"
            )

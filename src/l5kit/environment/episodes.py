"""Episodes that go on at the same time: their AVs, what moves them, what is seen, and what a step is worth."""

from dataclasses import dataclass, fields

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.data.read_only_views import shown_to
from l5kit.environment.action_kinds import ActionKind, EgosNow
from l5kit.environment.actors.logged_start import states_at_start
from l5kit.environment.episode_choice import FIRST_FRAME
from l5kit.environment.episode_roads import EpisodeRoads, RouteStates
from l5kit.environment.observations.compact_view import CompactView
from l5kit.environment.observations.views import LogView
from l5kit.environment.rewards.step_reward import DrivenStep, StepReward, StepWorth
from l5kit.environment.slots.log_slots import LogSlots
from l5kit.environment.slots.scene_slots import SceneSlots
from l5kit.environment.traffic.traffic_slots import TrafficRows
from l5kit.geometry.angle import angular_distance
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.red_lights import LightRows, SceneLights
from l5kit.sampling.sample_columns import SampleColumns
from l5kit.simulation.vehicle_models import VehicleStates

__all__ = ["EpisodeParts", "Episodes"]

_SEEN_MOTIONS = [0, 1, 3]
_STATES = [each.name for each in fields(VehicleStates)]


@dataclass(frozen=True, eq=False)
class EpisodeParts:
    """What N episodes are made of.

    Attributes:
        view: What is seen.
        actions: What moves the AVs.
        reward: What steps are worth.
        log: The frames of the episodes; None where nobody looks at records.
        roads: Road users, routes and the map as arrays; None where nobody asks for them.
        ego_size_m: Length and width of the AV.
        step_time_s: Seconds of a step.
    """

    view: LogView | CompactView
    actions: ActionKind
    reward: StepReward
    log: LogSlots | SceneSlots | None
    roads: EpisodeRoads | None
    ego_size_m: tuple[float, float]
    step_time_s: float


class Episodes:
    """Episodes in N slots, each of which begins and ends by itself.

    An episode has the frames of a scene from a first one on. The AV is where the log has it in the first two, and is
    driven from then on.

    Args:
        parts: What they are made of.
        num_slots: N.

    Attributes:
        parts: As above.
        scene_indices: Scene of each episode, int64 (N,).
        lengths: Number of its frames, int64 (N,).
        frame_indices: Its current frame, -1 before the first episode, int64 (N,).
        states: The AVs, N of them.
    """

    def __init__(self, parts: EpisodeParts, num_slots: int) -> None:
        self.parts = parts
        self.scene_indices: Int64Array = np.zeros(num_slots, np.int64)
        self.lengths: Int64Array = np.zeros(num_slots, np.int64)
        self.frame_indices: Int64Array = np.full(num_slots, -1, np.int64)
        length_m, width_m = parts.ego_size_m
        columns = [np.zeros((num_slots, 2)), *np.zeros((4, num_slots)), np.full(num_slots, length_m)]
        self.states = VehicleStates(*columns)
        self._boxes: Float64Array = np.zeros((num_slots, 5))
        self._boxes[:, 3:] = length_m, width_m
        self._motions: Float64Array = np.zeros((num_slots, 4))
        self._world_from_agent: Float64Array = np.zeros((num_slots, 3, 3))
        self._world_from_agent[:, 2, 2] = 1.0
        self._yaws_rad: Float64Array = np.zeros(num_slots)
        if isinstance(parts.log, LogSlots) and parts.roads is not None and parts.roads.drives_agents:
            parts.log.drive_agents()

    def __len__(self) -> int:
        return len(self.frame_indices)

    @property
    def is_at_end(self) -> BoolArray:
        """Which episodes are in their last frame, (N,)."""
        is_at_end: BoolArray = self.frame_indices + 1 == self.lengths
        return is_at_end

    def begin(
        self, slots: Int64Array, scenes: Int64Array, first_frames: Int64Array, num_frames: Int64Array
    ) -> SampleColumns | None:
        """Begin episodes, and return what :meth:`look` does.

        Args:
            slots: Where, (B,), none of them twice.
            scenes: Their scenes, (B,), which can be read.
            first_frames: Their first frames, counted in the scenes, (B,).
            num_frames: How many frames they have, (B,); the scenes have them.
        """
        log, roads = self.parts.log, self.parts.roads
        if roads is not None:
            roads.begin(slots, scenes, first_frames)
        if log is not None:
            for each in zip(slots.tolist(), scenes.tolist(), first_frames.tolist(), num_frames.tolist(), strict=True):
                log.start(*each)
        self.scene_indices[slots], self.lengths[slots] = scenes, num_frames
        self.frame_indices[slots] = FIRST_FRAME
        self._place(slots)
        now = self._note(slots, begins=True)
        seen = self.look(slots)
        speeds_mps = self.states.speeds_mps[slots]
        if seen is not None and "curr_speed" in seen:
            speeds_mps = np.asarray(seen["curr_speed"], np.float64)
        self.parts.actions.begin(*shown_to(self.parts.actions, "begin", (slots, speeds_mps)))
        self.parts.reward.begin(*shown_to(self.parts.reward, "begin", (slots, self._step_of(slots, now, now))))
        return seen

    def drive(self, slots: Int64Array, actions: NumericArray) -> StepWorth:
        """Drive the AVs of slots (B,) by actions (B, ...) to their next frames, and return what that was worth.

        Raises:
            InvalidArgumentError: An action leads to a state that is not finite; nothing has moved then.
        """
        parts, roads = self.parts, self.parts.roads
        before = self._moments_of(slots)
        states = self.states.taken(slots)
        egos = EgosNow(states, self._world_from_agent[slots], self._yaws_rad[slots])
        moved = parts.actions.move(*shown_to(parts.actions, "move", (slots, egos, actions)), parts.step_time_s)
        if roads is not None:
            roads.leave(slots, before.boxes, states.velocities_mps)
        self._set_states(slots, moved, states)
        self.frame_indices[slots] += 1
        if parts.log is not None:
            parts.log.set_ego(slots, self.frame_indices[slots], moved.positions_m, moved.yaws_rad)
        step = self._step_of(slots, before, self._note(slots, begins=False))
        return parts.reward.of_step(*shown_to(parts.reward, "of_step", (slots, step)))

    def look(self, slots: Int64Array, *, frame: int | None = None) -> SampleColumns | None:
        """Write what slots (B,) see into the memory of the view, and return it where it is made of samples.

        Args:
            slots: Whose eyes these are.
            frame: What was seen in another frame than the current one; samples only.
        """
        view = self.parts.view
        if isinstance(view, LogView):
            frames = self.frame_indices[slots] if frame is None else np.full(len(slots), frame)
            columns = view.look(slots, frames)
            self._world_from_agent[slots] = np.asarray(columns["world_from_agent"])
            self._yaws_rad[slots] = np.asarray(columns["yaw"])
            return columns
        view.look(slots, self._boxes[slots], self._motions[slots][:, _SEEN_MOTIONS])
        yaws_rad = self.states.yaws_rad[slots]
        cos, sin, poses = np.cos(yaws_rad), np.sin(yaws_rad), self._world_from_agent
        poses[slots, 0, 0], poses[slots, 0, 1], poses[slots, 1, 0], poses[slots, 1, 1] = cos, -sin, sin, cos
        poses[slots, :2, 2] = self.states.positions_m[slots]
        self._yaws_rad[slots] = yaws_rad
        return None

    def _log_poses(self, slots: Int64Array, ahead: int) -> Float64Array:
        """Return x, y and heading of the AVs of slots (B,) as logged, in the current frames or beside them, (B, 3)."""
        if self.parts.log is not None:
            poses: Float64Array = self.parts.log.recorded[slots, self.frame_indices[slots] + ahead]
            return poses
        assert self.parts.roads is not None
        return self.parts.roads.log_poses(slots, ahead)

    def _place(self, slots: Int64Array) -> None:
        """Set the AVs of slots to where the log has them, with speeds and turns of the step before."""
        placed, yaw_rates = states_at_start(
            self._log_poses(slots, -1),
            self._log_poses(slots, 0),
            length_m=self.parts.ego_size_m[0],
            step_time_s=self.parts.step_time_s,
        )
        self._set_states(slots, placed, placed)
        self._motions[slots, 2] = yaw_rates

    def _set_states(self, slots: Int64Array, states: VehicleStates, before: VehicleStates) -> None:
        for name in _STATES:
            getattr(self.states, name)[slots] = getattr(states, name)
        self._boxes[slots, :2], self._boxes[slots, 2] = states.positions_m, states.yaws_rad
        yaw_rates = angular_distance(states.yaws_rad, before.yaws_rad) / self.parts.step_time_s
        columns = (states.speeds_mps, states.accelerations_mps2, yaw_rates, states.steering_rad)
        self._motions[slots] = np.stack(columns, axis=-1)

    def _note(self, slots: Int64Array, *, begins: bool) -> "_Moment":
        """Let others come into the frames that slots have reached, and return how things stand."""
        roads, log = self.parts.roads, self.parts.log
        if roads is not None:
            roads.enter(slots, self._boxes[slots], is_new=np.full(len(slots), begins))
            if isinstance(log, LogSlots) and roads.drives_agents:
                log.set_others(slots, self.frame_indices[slots], roads.traffic.driven_rows(slots))
        return self._moments_of(slots)

    def _moments_of(self, slots: Int64Array) -> "_Moment":
        roads = self.parts.roads
        routes = _no_routes(len(slots)) if roads is None else roads.routes(slots)
        return _Moment(self._boxes[slots], self._motions[slots], routes)

    def _step_of(self, slots: Int64Array, before: "_Moment", after: "_Moment") -> DrivenStep:
        """Return the step that slots have done, for the reward."""
        roads = self.parts.roads
        rows = _no_rows(len(slots)) if roads is None else roads.rows(slots)
        return DrivenStep(
            boxes=after.boxes,
            boxes_before=before.boxes,
            motions=after.motions,
            motions_before=before.motions,
            places=after.routes.places,
            places_before=before.routes.places,
            expert_arcs_m=after.routes.expert_arcs_m,
            expert_arcs_before_m=before.routes.expert_arcs_m,
            log_poses=self._log_poses(slots, 0),
            rows=rows.scene_rows,
            track_rows=rows.track_rows,
            paths=_NO_PATHS if roads is None else roads.paths,
            routes=after.routes.routes,
            lights=before.routes.lights,
            step_time_s=self.parts.step_time_s,
            driving_map=None if roads is None else roads.driving_map,
        )


def _no_routes(size: int) -> RouteStates:
    none = np.zeros(0, np.int64)
    scenes, starts = np.zeros(size, np.int64), np.zeros(2, np.int64)
    lights = LightRows(scenes, scenes, SceneLights(starts, none.astype(np.int8), starts, none))
    return RouteStates(np.full(size, -1), np.zeros((size, 3)), np.zeros(size), lights)


def _no_rows(size: int) -> TrafficRows:
    none = np.zeros(0, np.int64)
    starts = np.zeros(size + 1, np.int64)
    return TrafficRows(starts[:size], starts, none, np.zeros((0, 5)), np.zeros((0, 2)), none)


def _no_paths() -> PathArrays:
    start, none = np.zeros(1, np.int64), np.zeros(0)
    whole = none.astype(np.int64)
    return PathArrays(start, np.zeros((0, 2)), none, start, none, whole, np.zeros((0, 2), np.int64), none)


_NO_PATHS = _no_paths()


@dataclass(frozen=True, eq=False)
class _Moment:
    """How the AVs of B episodes stand: boxes (B, 5), motions (B, 4), and their routes."""

    boxes: Float64Array
    motions: Float64Array
    routes: RouteStates

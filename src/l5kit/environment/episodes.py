"""Episodes that go on at the same time: their AVs, what moves them, what is seen, and what a step is worth."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.data.read_only_views import shown_to
from l5kit.environment.action_kinds import ActionKind, EgosNow
from l5kit.environment.actors.logged_start import states_at_start
from l5kit.environment.episode_choice import FIRST_FRAME
from l5kit.environment.episode_roads import AvArrays, EpisodeRoads, RoutePlaces
from l5kit.environment.observations.compact_state import RouteRows
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
        frames_per_action: Frames that an action holds; rewards are added up over them.
    """

    view: LogView | CompactView
    actions: ActionKind
    reward: StepReward
    log: LogSlots | SceneSlots | None
    roads: EpisodeRoads | None
    ego_size_m: tuple[float, float]
    step_time_s: float
    frames_per_action: int = 1


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
    """

    def __init__(self, parts: EpisodeParts, num_slots: int) -> None:
        self.parts = parts
        self.scene_indices: Int64Array = np.zeros(num_slots, np.int64)
        self.lengths: Int64Array = np.zeros(num_slots, np.int64)
        self.frame_indices: Int64Array = np.full(num_slots, -1, np.int64)
        length_m, width_m = parts.ego_size_m
        self._avs = AvArrays(*(np.zeros((num_slots, width)) for width in (5, 2, 4, 4)))
        self._avs.boxes[:, 3:] = length_m, width_m
        self._world_from_agent: Float64Array = np.zeros((num_slots, 3, 3))
        self._world_from_agent[:, 2, 2] = 1.0
        self._yaws_rad: Float64Array = np.zeros(num_slots)
        if isinstance(parts.log, LogSlots) and parts.roads is not None and parts.roads.drives_agents:
            parts.log.drive_agents()

    def __len__(self) -> int:
        return len(self.frame_indices)

    @property
    def states(self) -> VehicleStates:
        """The AVs, N of them."""
        return self._states_of(slice(None))

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
        self._enter(slots, begins=True)
        seen = self.look(slots)
        speeds_mps = self._avs.motions[slots, 0]
        if seen is not None and "curr_speed" in seen:
            speeds_mps = np.asarray(seen["curr_speed"], np.float64)
        self.parts.actions.begin(*shown_to(self.parts.actions, "begin", (slots, speeds_mps)))
        step = self._step_of(slots, self._avs.boxes[slots])
        self.parts.reward.begin(*shown_to(self.parts.reward, "begin", (slots, step)))
        return seen

    def drive(self, slots: Int64Array, actions: NumericArray) -> StepWorth:
        """Drive the AVs of slots (B,) by actions (B, ...) for the frames of an action, and return what that was worth.

        One that fails, or reaches the end of its episode, stays there.

        Raises:
            InvalidArgumentError: An action leads to a state that is not finite; nothing has moved in that frame.
        """
        worth = self._drive_frame(slots, actions)
        for _ in range(self.parts.frames_per_action - 1):
            goes_on = ~(worth.is_failed | self.is_at_end[slots])
            if not goes_on.any():
                break
            worth = worth.with_next(self._drive_frame(slots[goes_on], actions[goes_on]), goes_on)
        return worth

    def _drive_frame(self, slots: Int64Array, actions: NumericArray) -> StepWorth:
        """Drive the AVs of slots (B,) to their next frames, and return what that was worth."""
        parts, roads = self.parts, self.parts.roads
        boxes_before = self._avs.boxes[slots]
        states = self._states_of(slots)
        routes = None if roads is None else RouteRows(roads.paths, roads.now.routes[slots], roads.now.places[slots])
        egos = EgosNow(states, self._world_from_agent[slots], self._yaws_rad[slots], routes)
        moved = parts.actions.move(*shown_to(parts.actions, "move", (slots, egos, actions)), parts.step_time_s)
        if roads is not None:
            roads.leave(slots, self._avs)
        self._set_states(slots, moved, states)
        self.frame_indices[slots] += 1
        if parts.log is not None:
            parts.log.set_ego(slots, self.frame_indices[slots], moved.positions_m, moved.yaws_rad)
        self._enter(slots, begins=False)
        step = self._step_of(slots, boxes_before)
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
        view.look(slots, self._avs)
        yaws_rad = self._avs.boxes[slots, 2]
        cos, sin, poses = np.cos(yaws_rad), np.sin(yaws_rad), self._world_from_agent
        poses[slots, 0, 0], poses[slots, 0, 1], poses[slots, 1, 0], poses[slots, 1, 1] = cos, -sin, sin, cos
        poses[slots, :2, 2] = self._avs.boxes[slots, :2]
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
        self._avs.motions[slots, 2] = yaw_rates
        self._avs.motions_before[slots] = self._avs.motions[slots]

    def _states_of(self, slots: Int64Array | slice) -> VehicleStates:
        """Return the AVs of some slots as vehicle models take them."""
        boxes, motions = self._avs.boxes[slots], self._avs.motions[slots]
        return VehicleStates(
            positions_m=boxes[:, :2],
            yaws_rad=boxes[:, 2],
            speeds_mps=motions[:, 0],
            accelerations_mps2=motions[:, 1],
            steering_rad=motions[:, 3],
            lengths_m=boxes[:, 3],
        )

    def _set_states(self, slots: Int64Array, states: VehicleStates, before: VehicleStates) -> None:
        avs = self._avs
        avs.boxes[slots, :2], avs.boxes[slots, 2] = states.positions_m, states.yaws_rad
        avs.velocities_mps[slots] = states.velocities_mps
        yaw_rates = angular_distance(states.yaws_rad, before.yaws_rad) / self.parts.step_time_s
        columns = (states.speeds_mps, states.accelerations_mps2, yaw_rates, states.steering_rad)
        avs.motions_before[slots] = avs.motions[slots]
        avs.motions[slots] = np.stack(columns, axis=-1)

    def _enter(self, slots: Int64Array, *, begins: bool) -> None:
        """Let others come into the frames that slots have reached."""
        roads, log = self.parts.roads, self.parts.log
        if roads is not None:
            roads.enter(slots, self._avs, begins=begins)
            if isinstance(log, LogSlots) and roads.drives_agents:
                log.set_others(slots, self.frame_indices[slots], roads.traffic.driven_rows(slots))

    def _step_of(self, slots: Int64Array, boxes_before: Float64Array) -> DrivenStep:
        """Return the step that slots have done, for the reward."""
        roads, avs, size = self.parts.roads, self._avs, len(slots)
        rows = _no_rows(size) if roads is None else roads.rows(slots)
        if roads is None:
            now = before = RoutePlaces(slots, np.full(size, -1), np.zeros((size, 3)), np.zeros(size))
        else:
            now, before = (RoutePlaces(*(each[slots] for each in places)) for places in (roads.now, roads.before))
        return DrivenStep(
            boxes=avs.boxes[slots],
            boxes_before=boxes_before,
            motions=avs.motions[slots],
            motions_before=avs.motions_before[slots],
            places=now.places,
            places_before=before.places,
            expert_arcs_m=now.expert_arcs_m,
            expert_arcs_before_m=before.expert_arcs_m,
            log_poses=self._log_poses(slots, 0),
            rows=rows.scene_rows,
            track_rows=rows.track_rows,
            paths=_NO_PATHS if roads is None else roads.paths,
            routes=now.routes,
            lights=_no_lights(size) if roads is None else roads.lights_before(slots),
            step_time_s=self.parts.step_time_s,
            driving_map=None if roads is None else roads.driving_map,
        )


def _no_lights(size: int) -> LightRows:
    none = np.zeros(0, np.int64)
    scenes, starts = np.zeros(size, np.int64), np.zeros(2, np.int64)
    return LightRows(scenes, scenes, SceneLights(starts, none.astype(np.int8), starts, none))


def _no_rows(size: int) -> TrafficRows:
    none = np.zeros(0, np.int64)
    starts = np.zeros(size + 1, np.int64)
    return TrafficRows(starts[:size], starts, none, np.zeros((0, 5)), np.zeros((0, 2)), none)


def _no_paths() -> PathArrays:
    start, none = np.zeros(1, np.int64), np.zeros(0)
    whole = none.astype(np.int64)
    return PathArrays(start, np.zeros((0, 2)), none, start, none, whole, np.zeros((0, 2), np.int64), none)


_NO_PATHS = _no_paths()

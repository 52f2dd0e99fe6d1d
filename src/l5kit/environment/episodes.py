"""Episodes in progress: their AVs, actions, observations and rewards, for many slots at once."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray
from l5kit.data.read_only_views import shown_to
from l5kit.device.opening import open_backend
from l5kit.environment.action_kinds import ActionKind, ActionMover, moves_in_kernels
from l5kit.environment.episode_choice import FIRST_FRAME
from l5kit.environment.episode_roads import EpisodeRoads
from l5kit.environment.model_actions import EgosNow
from l5kit.environment.observations.compact_state import RouteRows
from l5kit.environment.observations.compact_view import CompactView
from l5kit.environment.observations.views import LogView
from l5kit.environment.rewards.driving_reward import DrivingReward
from l5kit.environment.rewards.step_reward import DrivenStep, StepOutcome, StepReward
from l5kit.environment.slots.av_slots import AvMover, AvSlots, as_columns
from l5kit.environment.slots.log_slots import LogSlots
from l5kit.environment.slots.scene_slots import SceneSlots
from l5kit.geometry.angle import angular_distance
from l5kit.geometry.transform import compute_agent_poses
from l5kit.sampling.sample_columns import SampleColumns


@dataclass(frozen=True, eq=False)
class EpisodeParts:
    """Parts of N episodes.

    Attributes:
        view: Observations.
        actions: Actions that move the AVs.
        reward: The reward of steps.
        log: Frames of the episodes; None if no part reads records.
        roads: Road users, routes and the map as arrays; None if no part reads them.
        ego_size_m: Length and width of the AV.
        step_time_s: Seconds of a step.
        frames_per_action: Frames that an action is held for; rewards are summed over them.
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
    """Episodes in N slots; each begins and ends independently.

    An episode covers consecutive frames of a scene. The AV is at its logged pose in the first two frames, and driven
    from then on.

    Args:
        parts: Parts of the episodes.
        num_slots: N.

    Attributes:
        parts: Parts of the episodes.
        avs: AVs and their mover.
        scene_indices: Scene of each episode, int64 (N,).
        lengths: Number of frames of each episode, int64 (N,).
        frame_indices: Current frame of each episode, -1 before the first episode, int64 (N,).
    """

    def __init__(self, parts: EpisodeParts, num_slots: int) -> None:
        self.parts, kind = parts, parts.actions
        backend = open_backend("cpu") if parts.roads is None else parts.roads.backend
        if isinstance(parts.reward, DrivingReward):
            parts.reward.backend = backend
        self.scene_indices: Int64Array = np.zeros(num_slots, np.int64)
        self.lengths: Int64Array = np.zeros(num_slots, np.int64)
        self.frame_indices: Int64Array = np.full(num_slots, -1, np.int64)
        self._world_from_agent: Float64Array = np.zeros((num_slots, 3, 3))
        self._yaws_rad: Float64Array = np.zeros(num_slots)
        # actions that kernels do not support move AVs by the method `moved` of this class
        mover: AvMover = self
        if parts.roads is not None and moves_in_kernels(kind):
            mover = ActionMover(num_slots, kind, step_time_s=parts.step_time_s, backend=backend, refuses=True)
        self.avs = AvSlots(
            num_slots,
            mover,
            size_m=parts.ego_size_m,
            step_time_s=parts.step_time_s,
            roads=parts.roads,
            backend=backend,
        )
        if isinstance(parts.log, LogSlots) and parts.roads is not None and parts.roads.drives_agents:
            parts.log.drive_agents()

    def __len__(self) -> int:
        return len(self.frame_indices)

    @property
    def is_at_end(self) -> BoolArray:
        """Mask of episodes that are in their last frame, (N,)."""
        is_at_end: BoolArray = self.frame_indices + 1 == self.lengths
        return is_at_end

    def begin(
        self, slots: Int64Array, scenes: Int64Array, first_frames: Int64Array, num_frames: Int64Array
    ) -> SampleColumns | None:
        """Begin episodes, and return the result of :meth:`look`.

        Args:
            slots: Slots of the episodes, (B,), all different.
            scenes: Their scenes, (B,); they must be readable.
            first_frames: Their first frames, counted in the scenes, (B,).
            num_frames: Their numbers of frames, (B,), which the scenes must have.
        """
        # logged poses of the AVs; those of records take precedence
        log, roads = self.parts.log, self.parts.roads
        if roads is not None:
            rows = roads.start(slots, scenes, first_frames + FIRST_FRAME)
            before, now = roads.bank.ego_poses[rows - 1], roads.bank.ego_poses[rows]
        if log is not None:
            for each in zip(slots.tolist(), scenes.tolist(), first_frames.tolist(), num_frames.tolist(), strict=True):
                log.start(*each)
            before, now = log.recorded[slots, FIRST_FRAME - 1], log.recorded[slots, FIRST_FRAME]
        self.scene_indices[slots], self.lengths[slots] = scenes, num_frames
        self.frame_indices[slots] = FIRST_FRAME
        self.avs.start(slots, before, now)
        self._set_others(slots)
        return self.open(slots)

    def open(self, slots: Int64Array) -> SampleColumns | None:
        """Begin slots (B,), whose AVs are placed, in actions and reward, and return the result of :meth:`look`."""
        seen = self.look(slots)
        speeds_mps = self.avs.arrays.motions[slots, 0]
        if seen is not None and "curr_speed" in seen:
            speeds_mps = np.asarray(seen["curr_speed"], np.float64)
        self.parts.actions.begin(*shown_to(self.parts.actions, "begin", (slots, speeds_mps)))
        step = self._step_of(slots, self.avs.arrays.boxes[slots])
        self.parts.reward.begin(*shown_to(self.parts.reward, "begin", (slots, step)))
        return seen

    def drive(self, slots: Int64Array, actions: NumericArray) -> StepOutcome:
        """Drive the AVs of slots (B,) by actions (B, ...) for the frames of an action, and return their reward.

        An AV that fails, or reaches the end of its episode, stops there.

        Raises:
            InvalidArgumentError: An action leads to a state that is not finite; no AV has moved in that frame.
        """
        outcome = self._drive_frame(slots, actions)
        for _ in range(self.parts.frames_per_action - 1):
            goes_on = ~(outcome.is_failed | self.is_at_end[slots])
            if not goes_on.any():
                break
            outcome = outcome.with_next(self._drive_frame(slots[goes_on], actions[goes_on]), goes_on)
        return outcome

    def _drive_frame(self, slots: Int64Array, actions: NumericArray) -> StepOutcome:
        """Drive the AVs of slots (B,) to their next frames, and return their reward."""
        log, reward, boxes = self.parts.log, self.parts.reward, self.avs.arrays.boxes
        boxes_before = boxes[slots]
        self.avs.move(slots, actions)
        self.frame_indices[slots] += 1
        if log is not None:
            log.set_ego(slots, self.frame_indices[slots], boxes[slots, :2], boxes[slots, 2])
        self._set_others(slots)
        step = self._step_of(slots, boxes_before)
        return reward.of_step(*shown_to(reward, "of_step", (slots, step)))

    def look(self, slots: Int64Array, *, frame: int | None = None) -> SampleColumns | None:
        """Write the observations of slots (B,) into the memory of the view, and return them if they are samples.

        Args:
            slots: The slots, (B,).
            frame: Frame to look at instead of the current one; samples only.
        """
        view = self.parts.view
        if not isinstance(view, LogView):
            view.look(slots, self.avs.arrays)
            return None
        columns = view.look(slots, self.frame_indices[slots] if frame is None else np.full(len(slots), frame))
        self._world_from_agent[slots] = np.asarray(columns["world_from_agent"])
        self._yaws_rad[slots] = np.asarray(columns["yaw"])
        return columns

    def moved(self, avs: AvSlots, slots: Int64Array, actions: NumericArray) -> Float64Array:
        """Return the AVs of slots (B,) one step later, for any kind of actions; see :class:`AvMover`."""
        states, roads, kind = avs.states_of(slots), avs.roads, self.parts.actions
        poses, yaws_rad = self._world_from_agent[slots], self._yaws_rad[slots]
        if not isinstance(self.parts.view, LogView):
            poses, yaws_rad = compute_agent_poses(states.positions_m, states.yaws_rad), states.yaws_rad
        routes = None if roads is None else RouteRows(roads.paths, roads.now.routes[slots], roads.now.positions[slots])
        egos = EgosNow(states, poses, yaws_rad, routes)
        moved = kind.move(*shown_to(kind, "move", (slots, egos, actions)), avs.step_time_s)
        return as_columns(moved, angular_distance(moved.yaws_rad, states.yaws_rad) / avs.step_time_s)

    def _set_others(self, slots: Int64Array) -> None:
        """Write vehicles that a driver moves into the current frames of slots."""
        roads, log = self.parts.roads, self.parts.log
        if isinstance(log, LogSlots) and roads is not None and roads.drives_agents:
            log.set_others(slots, self.frame_indices[slots], roads.traffic.driven_rows(slots))

    def _step_of(self, slots: Int64Array, boxes_before: Float64Array) -> DrivenStep:
        """Return the last step of slots, for the reward."""
        log, roads = self.parts.log, self.parts.roads
        if log is not None:
            log_poses = log.recorded[slots, self.frame_indices[slots]]
        else:
            assert roads is not None
            log_poses = roads.log_poses(slots)
        return self.avs.step_of(slots, boxes_before=boxes_before, log_poses=log_poses)

"""Episode of an environment: the scene as recorded, and as driven so far."""

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from l5kit._types import Float64Array, Int64Array, RecordArray
from l5kit.data.read_only_views import read_only, shown_to
from l5kit.environment.episode_choice import FIRST_FRAME
from l5kit.environment.reward import Reward
from l5kit.environment.rewards.step_reward import DrivenStep, StepOutcome
from l5kit.geometry.transform import rotations33_as_yaws, yaws_as_rotations33
from l5kit.simulation.dataset import SimulationDataset
from l5kit.simulation.unroll import SimulationOutputCLE, TrajectoryStateIndices, UnrollInputOutput


class EpisodeOutputGym(SimulationOutputCLE):
    """Output of an episode, for metrics, rewards and the visualizer.

    Attributes:
        tls_frames: Traffic light faces of the simulated scene, ``TL_FACE_DTYPE``.
        agents_th: Least label probability of an agent that is used.
    """

    def __init__(
        self,
        scene_id: int,
        sim_dataset: SimulationDataset,
        ego_ins_outs: Mapping[int, list[UnrollInputOutput]],
        agents_ins_outs: Mapping[int, list[list[UnrollInputOutput]]],
    ) -> None:
        super().__init__(scene_id, sim_dataset, ego_ins_outs, agents_ins_outs)
        simulated = sim_dataset.scene_dataset_batch[scene_id]
        self.tls_frames: RecordArray = simulated.dataset.tl_faces
        self.agents_th: float = simulated.cfg["raster_params"]["filter_agents_threshold"]


class EpisodeSoFar:
    """Episode in progress: states of the AV are kept up to date, all else is built on first access.

    It has the attributes of :class:`EpisodeOutputGym`.

    Args:
        scene_id: The scene.
        recorded: Recorded frames of the episode, ``FRAME_DTYPE``, (N,).
        make_output: Function that returns the complete output of the episode so far.
        step_time_s: Seconds of a step.

    Attributes:
        scene_id: The scene.
        simulated_ego_states: States of the AV in each frame, (N, 7); those of the log in future frames.
        recorded_ego_states: Recorded states of the AV.
    """

    def __init__(
        self, scene_id: int, recorded: RecordArray, make_output: Callable[[], EpisodeOutputGym], *, step_time_s: float
    ) -> None:
        self.scene_id, self._make_output = scene_id, make_output
        self.recorded_ego_states = SimulationOutputCLE.build_trajectory_states(recorded, step_time_s=step_time_s)
        self.simulated_ego_states = self.recorded_ego_states.clone()

    def get_scene_id(self) -> int:
        """Return the id of the scene."""
        return self.scene_id

    def note_ego(self, frame_index: int, position_m: Float64Array, yaw_rad: float) -> None:
        """Set the world pose of the AV in a frame, rounded as the record of the frame rounds it."""
        state = self.simulated_ego_states.numpy()[frame_index]
        state[TrajectoryStateIndices.X], state[TrajectoryStateIndices.Y] = position_m[:2]
        state[TrajectoryStateIndices.THETA] = rotations33_as_yaws(yaws_as_rotations33(np.array([yaw_rad])))[0]
        vars(self).pop("_whole", None)

    def as_read_only(self) -> "EpisodeSoFar":
        """Return the episode for code that must not change it; its states are copies, as tensors are writable."""
        shown, make_output = copy.copy(self), self._make_output
        shown.recorded_ego_states = self.recorded_ego_states.clone()
        shown.simulated_ego_states = self.simulated_ego_states.clone()
        vars(shown).pop("_whole", None)
        shown._make_output = lambda: _show(make_output())
        return shown

    @cached_property
    def _whole(self) -> EpisodeOutputGym:
        return self._make_output()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._whole, name)


def _show(output: EpisodeOutputGym) -> EpisodeOutputGym:
    """Make the arrays of an output read-only; the output must have no other owner."""
    vars(output).update({name: read_only(value) for name, value in vars(output).items()})
    return output


class EpisodeReward:
    """Adapter of a reward of L5Kit 1.5, which reads the episode so far, to the steps of a single environment.

    Args:
        reward: The reward.

    Attributes:
        reward: The reward.
        frame_index: Frame in which the next step starts.
    """

    terms = ("distance", "yaw")

    def __init__(self, reward: Reward) -> None:
        self.reward, self.frame_index = reward, FIRST_FRAME
        self._episode: EpisodeSoFar | None = None

    def begin_episode(self, episode: EpisodeSoFar) -> None:
        """Set the episode and reset the reward."""
        self._episode = episode
        self.reward.reset()

    def begin(self, slots: Int64Array, step: DrivenStep) -> None:
        """Do nothing: :meth:`begin_episode` is called right after this."""

    def of_step(self, slots: Int64Array, step: DrivenStep) -> StepOutcome:  # noqa: ARG002
        """Return the reward of the step; it never ends an episode."""
        assert self._episode is not None
        self._episode.note_ego(self.frame_index + 1, step.boxes[0, :2], float(step.boxes[0, 2]))
        rewards = self.reward.get_reward(self.frame_index, shown_to(self.reward, "get_reward", [self._episode]))
        terms = np.array([[rewards[name] for name in self.terms]])
        return StepOutcome(np.array([rewards["total"]]), terms, np.zeros(1, np.bool_), {})

"""Rewards of the environment, from the distance between the AV and its logged pose."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from l5kit._types import Float32Array, Float64Array, FloatArray
from l5kit.cle.metric_set import L5MetricSet
from l5kit.environment.gym_metric_set import L2DisplacementYawMetricSet
from l5kit.errors import EvaluationPlanError, InvalidArgumentError
from l5kit.simulation.unroll import TrajectoryStateIndices

__all__ = ["L2DisplacementYawReward", "Reward"]

_DISPLACEMENT, _YAW = "displacement_error_l2", "yaw_error_closest_angle"


class SimulatedStates(Protocol):
    """Protocol of the episode data that rewards read: simulated and recorded states of the AV, (N, 7)."""

    simulated_ego_states: torch.Tensor
    recorded_ego_states: torch.Tensor

    def get_scene_id(self) -> int:
        """Return the scene."""
        ...


@dataclass(frozen=True)
class StatesOfScene:
    """The AV of a scene in some frames; other attributes are read from the output, for metrics that need more.

    Attributes:
        scene_id: The scene.
        simulated_ego_states: As simulated, (N, 7).
        recorded_ego_states: As recorded, (N, 7).
        output: The output of the whole scene.
    """

    scene_id: int
    simulated_ego_states: torch.Tensor
    recorded_ego_states: torch.Tensor
    output: SimulatedStates

    def get_scene_id(self) -> int:
        """Return the scene."""
        return self.scene_id

    def __getattr__(self, name: str) -> Any:
        if name == "output" or name.startswith("__"):  # missing while an object is copied or unpickled
            raise AttributeError(name)
        return getattr(self.output, name)


class Reward(ABC):
    """Protocol of the reward of a step of an episode.

    Attributes:
        reward_prefix: Name of the reward.
    """

    reward_prefix: str

    @abstractmethod
    def reset(self) -> None:
        """Begin an episode."""

    @abstractmethod
    def get_reward(self, frame_index: int, simulated_outputs: Sequence[Any]) -> dict[str, float]:
        """Return the reward of the step from a frame to the next.

        Args:
            frame_index: The frame in which the step started; the AV is now in the next one.
            simulated_outputs: The episode so far, as the only item; its attributes are those of
                :class:`l5kit.environment.envs.l5_env.EpisodeOutputGym`.

        Returns:
            ``total`` and, for the ``info`` of this environment, ``distance`` and ``yaw``; further keys are allowed.
        """


class L2DisplacementYawReward(Reward):
    """Negative distance from the logged position, and negative difference from the logged heading.

    Args:
        reward_prefix: Name of the reward.
        metric_set: Has the metrics ``displacement_error_l2`` and ``yaw_error_closest_angle``; None for these alone.
        enable_clip: Whether distances count up to a threshold only.
        rew_clip_thresh: That threshold, metres.
        use_yaw: Whether the heading counts.
        yaw_weight: Weight of a radian, in metres.

    Raises:
        EvaluationPlanError: The metric set lacks a metric (a ``RuntimeError``).
    """

    def __init__(
        self,
        reward_prefix: str = "L2DisplacementYaw",
        metric_set: L5MetricSet | None = None,
        enable_clip: bool = True,
        rew_clip_thresh: float = 15.0,
        use_yaw: bool = True,
        yaw_weight: float = 1.0,
    ) -> None:
        self.reward_prefix = reward_prefix
        self.metric_set = L2DisplacementYawMetricSet() if metric_set is None else metric_set
        self.enable_clip, self.rew_clip_thresh = enable_clip, rew_clip_thresh
        self.use_yaw, self.yaw_weight = use_yaw, yaw_weight
        names = {metric.metric_name for metric in self.metric_set.evaluation_plan.metrics}
        for name in (_DISPLACEMENT, _YAW):
            if name not in names:
                raise EvaluationPlanError(
                    f"metric_set lacks the metric {name!r}; it has {', '.join(sorted(names)) or 'none'}"
                )

    def reset(self) -> None:
        """Forget the results of the metric set."""
        self.metric_set.reset()

    @staticmethod
    def slice_simulated_output(index: int, simulated_outputs: Sequence[SimulatedStates]) -> list[StatesOfScene]:
        """Return the states of one frame of the first output, which is not changed.

        Raises:
            InvalidArgumentError: There is no output, or no such frame.
        """
        if len(simulated_outputs) == 0:
            raise InvalidArgumentError("simulated_outputs must hold an output, got none")
        output = simulated_outputs[0]
        if not 0 <= index < len(output.simulated_ego_states):
            raise InvalidArgumentError(
                f"index is {index}; the simulated scene has frames 0 to {len(output.simulated_ego_states) - 1}"
            )
        row = slice(index, index + 1)
        simulated, recorded = output.simulated_ego_states[row], output.recorded_ego_states[row]
        return [StatesOfScene(output.get_scene_id(), simulated, recorded, output)]

    def get_reward(self, frame_index: int, simulated_outputs: Sequence[SimulatedStates]) -> dict[str, float]:
        """Return ``total``, ``distance`` and ``yaw`` of the frame after a step, all at most 0."""
        sliced = self.slice_simulated_output(frame_index + 1, simulated_outputs)
        self.metric_set.evaluate(sliced)
        if self.has_usual_metrics:
            states = (sliced[0].simulated_ego_states.numpy(), sliced[0].recorded_ego_states.numpy())
            rewards = self.of_states(
                *(part for each in states for part in (each[:, :2], each[:, TrajectoryStateIndices.THETA]))
            )
        else:
            results = self.metric_set.evaluator.metric_results()[sliced[0].scene_id]
            rewards = self._weighted(np.array([results[_DISPLACEMENT].item()]), np.array([results[_YAW].item()]))
        return {name: float(value[0]) for name, value in rewards.items()}

    @property
    def has_usual_metrics(self) -> bool:
        """Whether the metrics are those of l5kit, which :meth:`of_states` computes."""
        return type(self.metric_set) is L2DisplacementYawMetricSet

    def of_states(
        self,
        simulated_m: FloatArray,
        simulated_yaws_rad: Float32Array,
        recorded_m: FloatArray,
        recorded_yaws_rad: Float32Array,
    ) -> dict[str, Float64Array]:
        """Return ``total``, ``distance`` and ``yaw`` of N scenes in one frame, float64 (N,), without the metric set.

        Args:
            simulated_m: World x and y of the AVs, (N, 2).
            simulated_yaws_rad: Their headings, (N,).
            recorded_m: World x and y as recorded.
            recorded_yaws_rad: Headings as recorded.
        """
        # in float32, like the metrics on tensors
        offsets_m = (simulated_m - recorded_m).astype(np.float32)
        displacements_m = np.sqrt(offsets_m[:, 0] * offsets_m[:, 0] + offsets_m[:, 1] * offsets_m[:, 1])
        turn = np.float32(2 * np.pi)  # as in closest_angle_error, which takes tensors
        wrapped_rad = np.fmod(recorded_yaws_rad - simulated_yaws_rad, turn)
        turns_rad = np.abs(np.fmod(2 * wrapped_rad, turn) - wrapped_rad)
        return self._weighted(displacements_m.astype(np.float64), turns_rad.astype(np.float64))

    def _weighted(self, displacements_m: Float64Array, turns_rad: Float64Array) -> dict[str, Float64Array]:
        """Return rewards and their terms from errors (N,)."""
        distance = -displacements_m
        if self.enable_clip:
            distance = np.maximum(distance, -float(self.rew_clip_thresh))
        yaw = -self.yaw_weight * turns_rad if self.use_yaw else np.zeros(len(turns_rad))
        return {"total": distance + yaw, "distance": distance, "yaw": yaw}

"""Rewards of the environment for small displacements of the AV from the log."""

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
    """Protocol of the episode that a reward reads: simulated and recorded states of the AV, (N, 7)."""

    simulated_ego_states: torch.Tensor
    recorded_ego_states: torch.Tensor

    def get_scene_id(self) -> int:
        """Return the id of the scene."""
        ...


@dataclass(frozen=True)
class StatesOfScene:
    """States of the AV in some frames of a scene; other attributes are those of the output, for metrics that need more.

    Attributes:
        scene_id: The scene.
        simulated_ego_states: Simulated states, (N, 7).
        recorded_ego_states: Recorded states, (N, 7).
        output: The output of the whole scene.
    """

    scene_id: int
    simulated_ego_states: torch.Tensor
    recorded_ego_states: torch.Tensor
    output: SimulatedStates

    def get_scene_id(self) -> int:
        """Return the id of the scene."""
        return self.scene_id

    def __getattr__(self, name: str) -> Any:
        if name == "output" or name.startswith("__"):  # not set yet while an object is copied or unpickled
            raise AttributeError(name)
        return getattr(self.output, name)


class Reward(ABC):
    """Base of rewards for the steps of an episode.

    Attributes:
        reward_prefix: Name of the reward.
    """

    reward_prefix: str

    @abstractmethod
    def reset(self) -> None:
        """Reset the reward for a new episode."""

    @abstractmethod
    def get_reward(self, frame_index: int, simulated_outputs: Sequence[Any]) -> dict[str, float]:
        """Return the reward of the step from one frame to the next.

        Args:
            frame_index: Frame before the step; the AV is in the next one now.
            simulated_outputs: The episode so far, as the only item; see
                :class:`l5kit.environment.envs.l5_env.EpisodeOutputGym` for its attributes.

        Returns:
            ``total`` and, for the ``info`` of the environment, ``distance`` and ``yaw``; more keys are allowed.
        """


class L2DisplacementYawReward(Reward):
    """Negative distance from the logged position plus negative difference from the logged heading.

    Args:
        reward_prefix: Name of the reward.
        metric_set: Metric set with ``displacement_error_l2`` and ``yaw_error_closest_angle``; None for these only.
        enable_clip: Whether distances are clipped.
        rew_clip_thresh: Largest distance then, metres.
        use_yaw: Whether the heading is included.
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
        """Reset the metric set."""
        self.metric_set.reset()

    @staticmethod
    def slice_simulated_output(index: int, simulated_outputs: Sequence[SimulatedStates]) -> list[StatesOfScene]:
        """Return the states of one frame of the first output, without changing the output.

        Raises:
            InvalidArgumentError: There is no output, or the frame does not exist.
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
        """Return ``total``, ``distance`` and ``yaw`` of the frame after a step, all of them 0 or less."""
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
        """Whether the metric set is the default one, which :meth:`of_states` can compute directly."""
        return type(self.metric_set) is L2DisplacementYawMetricSet

    def of_states(
        self,
        simulated_m: FloatArray,
        simulated_yaws_rad: Float32Array,
        recorded_m: FloatArray,
        recorded_yaws_rad: Float32Array,
    ) -> dict[str, Float64Array]:
        """Return ``total``, ``distance`` and ``yaw`` of N scenes in a frame, float64 (N,), without the metric set.

        Args:
            simulated_m: World x and y of the AVs, (N, 2).
            simulated_yaws_rad: Their headings, (N,).
            recorded_m: World x and y of the recorded AVs, (N, 2).
            recorded_yaws_rad: Their headings, (N,).
        """
        # in float32, as the metrics do on tensors
        offsets_m = (simulated_m - recorded_m).astype(np.float32)
        displacements_m = np.sqrt(offsets_m[:, 0] * offsets_m[:, 0] + offsets_m[:, 1] * offsets_m[:, 1])
        turn = np.float32(2 * np.pi)  # as in closest_angle_error, without tensors
        wrapped_rad = np.fmod(recorded_yaws_rad - simulated_yaws_rad, turn)
        turns_rad = np.abs(np.fmod(2 * wrapped_rad, turn) - wrapped_rad)
        return self._weighted(displacements_m.astype(np.float64), turns_rad.astype(np.float64))

    def _weighted(self, displacements_m: Float64Array, turns_rad: Float64Array) -> dict[str, Float64Array]:
        """Return the reward and its terms for errors (N,)."""
        distance = -displacements_m
        if self.enable_clip:
            distance = np.maximum(distance, -float(self.rew_clip_thresh))
        yaw = -self.yaw_weight * turns_rad if self.use_yaw else np.zeros(len(turns_rad))
        return {"total": distance + yaw, "distance": distance, "yaw": yaw}

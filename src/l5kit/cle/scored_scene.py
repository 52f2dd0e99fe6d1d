"""Simulated scenes as the input of metrics: the outputs of simulations, and values shared by metrics, computed once."""

from functools import cached_property
from typing import Final, Protocol

import numpy as np
import torch

from l5kit._types import BoolArray, FloatArray, Int64Array, RecordArray
from l5kit.data.filter import _get_label_filter
from l5kit.data.log_facts import EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH, LogFacts
from l5kit.data.records import AGENT_INTERVAL
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.scene_collisions import detect_scene_collisions
from l5kit.simulation.unroll import TrajectoryStateIndices

THETA: Final = TrajectoryStateIndices.THETA
"""Column of the heading in the states of the AV, in radians."""

TIME: Final = TrajectoryStateIndices.TIME
"""Column of the time since the first frame in the states of the AV, in seconds."""

EGO_EXTENT_M: Final = (EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH)
"""Default length and width of the AV's box, if the output has none."""


class SimulatedSceneLike(Protocol):
    """Output of the simulation of a scene, with the members that metrics of l5kit use; a metric may use only some."""

    @property
    def simulated_ego_states(self) -> torch.Tensor:
        """Simulated states of the AV: x, y, heading, speed, acceleration, curvature, time; (N, 7)."""

    @property
    def recorded_ego_states(self) -> torch.Tensor:
        """Recorded states of the AV, as for the simulated ones, (R, 7)."""

    @property
    def simulated_agents(self) -> RecordArray:
        """Agents of all simulated frames, AGENT_DTYPE, (M,)."""

    @property
    def simulated_ego(self) -> RecordArray:
        """Simulated frames, FRAME_DTYPE, whose intervals are rows of the simulated agents, (N,)."""

    def get_scene_id(self) -> int:
        """Return the id of the scene in results."""


class ScoredScene:
    """One simulated scene during the computation of its metrics.

    Values are computed on first use and cached: create a new object when the output has changed.

    Args:
        output: Output of the simulation of the scene.
    """

    def __init__(self, output: SimulatedSceneLike) -> None:
        self.output = output
        self._collision_types: dict[float | None, Int64Array] = {}

    @cached_property
    def simulated_states(self) -> torch.Tensor:
        """Simulated states of the AV, (N, 7)."""
        return self.output.simulated_ego_states

    @cached_property
    def recorded_states(self) -> torch.Tensor:
        """Recorded states of the AV, (R, 7)."""
        return self.output.recorded_ego_states

    @cached_property
    def matched_recorded_states(self) -> torch.Tensor:
        """Recorded states of the simulated frames, (N, 7).

        Raises:
            InvalidArgumentError: There are fewer recorded states than simulated ones.
        """
        self.require_recorded()
        return self.recorded_states[: len(self.simulated_states)]

    @cached_property
    def simulated_steps_m(self) -> torch.Tensor:
        """Distances between the positions of successive simulated frames, (N - 1,)."""
        return _step_lengths(self.simulated_states)

    @cached_property
    def recorded_steps_m(self) -> torch.Tensor:
        """Distances between the positions of successive recorded frames, (R - 1,)."""
        return _step_lengths(self.recorded_states)

    @cached_property
    def step_time_s(self) -> float:
        """Mean time between simulated frames in seconds, from the states if the output has ``facts``, else 0.1.

        Times are float32, so the mean at 10 Hz is rounded to give exactly 0.1.
        """
        if self._facts is None:
            return LogFacts.step_time_s
        times_s = as_array(self.simulated_states[:, TIME]).astype(np.float64)
        step_time_s = round(float(times_s[-1] - times_s[0]) / (len(times_s) - 1), 7) if len(times_s) > 1 else 0.0
        return step_time_s if step_time_s > 0 else LogFacts.step_time_s

    @cached_property
    def ego_extent_m(self) -> FloatArray:
        """Length and width of the AV's box, those of the log if the output has ``facts``; (2,)."""
        return np.array(EGO_EXTENT_M if self._facts is None else self._facts.ego_extent_m[:2])

    @property
    def _facts(self) -> LogFacts | None:
        """Facts of the log; None for outputs of other programs, and for mocks, which have any attribute."""
        facts = getattr(self.output, "facts", None)
        return facts if isinstance(facts, LogFacts) else None

    def require_recorded(self) -> None:
        """Require a recorded state for every simulated one.

        Raises:
            InvalidArgumentError: There are fewer recorded states than simulated ones.
        """
        if len(self.recorded_states) < len(self.simulated_states):
            raise InvalidArgumentError(
                f"More simulated timesteps than observed: simulated_ego_states has {len(self.simulated_states)} rows, "
                f"recorded_ego_states {len(self.recorded_states)}; simulate frames of the log only"
            )

    def collision_types(self, threshold: float | None = None) -> Int64Array:
        """Return the type of the AV's collision in each simulated frame, -1 for none, (N,).

        Args:
            threshold: Probability of being a road user above which agents count; None counts all.

        Raises:
            InvalidArgumentError: There are fewer simulated frames than states, a field of the agents is missing, an
                interval exceeds them, or a pose or extent near the AV is not finite.
        """
        if threshold not in self._collision_types:
            states, is_counted = as_array(self.simulated_states), self.counted_agents(threshold)
            collisions = detect_scene_collisions(
                states[:, :2],
                states[:, THETA],
                self.ego_extent_m,
                agents=self.output.simulated_agents,
                intervals=self.frame_intervals(),
                is_left_out=None if is_counted is None else ~is_counted,
            )
            self._collision_types[threshold] = collisions.types
        return self._collision_types[threshold]

    def frame_intervals(self) -> Int64Array:
        """Return the range of rows of the simulated agents in each simulated frame, (N, 2).

        Raises:
            InvalidArgumentError: There are fewer simulated frames than states.
        """
        frames, num_states = self.output.simulated_ego, len(self.simulated_states)
        if len(frames) < num_states:
            raise InvalidArgumentError(
                f"simulated_ego has {len(frames)} frames, but simulated_ego_states {num_states} rows; "
                "pass the frames of all states"
            )
        intervals: Int64Array = frames[AGENT_INTERVAL][:num_states]
        return intervals

    def counted_agents(self, threshold: float | None) -> BoolArray | None:
        """Return which simulated agents can collide, (M,); None for all."""
        if threshold is None:
            return None
        return _get_label_filter(self.output.simulated_agents["label_probabilities"], threshold)


def as_array(values: torch.Tensor) -> FloatArray:
    """Return a tensor as an array, a view if possible."""
    array: FloatArray = values.detach().cpu().numpy()
    return array


def _step_lengths(states: torch.Tensor) -> torch.Tensor:
    """Return the distances between successive positions, (N - 1,)."""
    steps_m: torch.Tensor = torch.linalg.vector_norm(torch.diff(states[:, :2], dim=0), dim=-1)
    return steps_m

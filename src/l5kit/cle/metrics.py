"""Closed-loop metrics: one number for each frame, or step, of a simulated scene.

A metric is any object with a ``metric_name`` and a method ``compute``. The metrics of l5kit are subclasses of
:class:`SceneMetric`: a plan computes several of them from one :class:`~l5kit.cle.scored_scene.ScoredScene`, so that
shared values are computed once. If a subclass overrides ``compute``, that is called instead.

They have the same meaning as in L5Kit 1.5. The score of :mod:`l5kit.evaluation.driving` measures other aspects of the
same scenes; where it has a similar metric, the class here documents the differences.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

import numpy as np
import torch

from l5kit._overriding import overrides
from l5kit._types import FloatArray, RecordArray
from l5kit.cle.scored_scene import EGO_EXTENT_M, THETA, ScoredScene, SimulatedSceneLike, as_array
from l5kit.errors import InvalidArgumentError, TrajectoryLengthError
from l5kit.evaluation.collision import CollisionType, detect_collision
from l5kit.evaluation.error_functions import ErrorFunction, closest_angle_error, l2_error
from l5kit.evaluation.metrics import distance_to_reference_trajectory

__all__ = [
    "CollisionFrontMetric",
    "CollisionMetricBase",
    "CollisionRearMetric",
    "CollisionSideMetric",
    "DisplacementErrorL2Metric",
    "DisplacementErrorMetric",
    "DistanceToRefTrajectoryMetric",
    "ReplayDrivenMilesMetric",
    "SceneMetric",
    "SimulatedDrivenMilesMetric",
    "SimulatedVsRecordedEgoSpeedMetric",
    "SupportsMetricCompute",
    "YawErrorCAMetric",
    "YawErrorMetric",
    "compute_metric",
]

_METER_TO_MILES = 0.000621371


class SupportsMetricCompute(Protocol):
    """A metric of a simulated scene; users write subclasses of this, or any class with the same members.

    Attributes:
        metric_name: Name of its values in results; validators and composite metrics refer to it.
    """

    metric_name: str

    def compute(self, simulation_output: SimulatedSceneLike) -> torch.Tensor:
        """Return the values of a scene, one for each frame, (N,)."""


class SceneMetric(SupportsMetricCompute, ABC):
    """Base of metrics that share values through a :class:`~l5kit.cle.scored_scene.ScoredScene`."""

    def compute(self, simulation_output: SimulatedSceneLike) -> torch.Tensor:
        """Return the values of one simulated scene.

        Args:
            simulation_output: Output of a simulation of the scene.

        Raises:
            InvalidArgumentError: The output lacks frames, or has values that are not finite, as the class documents.
        """
        return self.compute_scene(ScoredScene(simulation_output))

    @abstractmethod
    def compute_scene(self, scene: ScoredScene) -> torch.Tensor:
        """Return the values of a scene that is shared with other metrics."""


def compute_metric(metric: SupportsMetricCompute, scene: ScoredScene) -> torch.Tensor:
    """Return the values of any metric, calling its own ``compute`` if it has one."""
    if isinstance(metric, SceneMetric) and not overrides(metric, "compute", base=SceneMetric):
        return metric.compute_scene(scene)
    return metric.compute(scene.output)


class CollisionMetricBase(SceneMetric):
    """1 in the frames in which the AV collides with one side, 0 in the others; (N,) float32.

    The first agent in the order of the array that touches the simulated box of the AV decides the type, as in
    :func:`l5kit.evaluation.collision.detect_collision`. The box is that of the log, or 4.87 by 1.85 m if the output has
    none. Agents hidden by a simulation do not collide. Agents of all classes do, unless a threshold is given.

    The collisions of the score (:func:`l5kit.evaluation.driving.collisions.find_collisions`) differ: boxes that only
    touch do not collide there, every road user counts, but only in its first frame, and the kinds decide who is at
    fault.

    Args:
        collision_type: The side that counts.
        filter_agents_threshold: Agents collide only if their summed probability of the classes of road users is above
            it; ``None`` lets all collide.

    Raises:
        InvalidArgumentError: By ``compute``: there are fewer simulated frames than states, or a pose or extent near the
            AV is not finite.
    """

    filter_agents_threshold: float | None = None  # constructors written for 1.5 may not call this one

    def __init__(self, collision_type: CollisionType, *, filter_agents_threshold: float | None = None) -> None:
        self.collision_type = collision_type
        self.filter_agents_threshold = filter_agents_threshold

    def compute_scene(self, scene: ScoredScene) -> torch.Tensor:
        """Return the values of a scene, by ``_compute_frame`` if a subclass overrides it."""
        if not overrides(self, "_compute_frame", base=CollisionMetricBase):
            is_collision = scene.collision_types(self.filter_agents_threshold) == self.collision_type
            return torch.from_numpy(is_collision.astype(np.float32))
        # pass only the counted agents of a frame to a subclass
        agents, is_counted = scene.output.simulated_agents, scene.counted_agents(self.filter_agents_threshold)
        values = []
        for (start, stop), state in zip(scene.frame_intervals().tolist(), scene.simulated_states, strict=True):
            of_frame = agents[start:stop]
            values.append(
                self._compute_frame(of_frame if is_counted is None else of_frame[is_counted[start:stop]], state)
            )
        return torch.tensor(values, dtype=torch.float32)

    def _compute_frame(self, simulated_agent_frame: RecordArray, simulated_frame_ego_state: torch.Tensor) -> float:
        """Return 1 if the AV collides with this side with the agents of one frame, else 0.

        Args:
            simulated_agent_frame: The agents of the frame.
            simulated_frame_ego_state: State of the AV, (7,).
        """
        state: FloatArray = as_array(simulated_frame_ego_state)
        collision = detect_collision(state[:2], state[THETA], np.array(EGO_EXTENT_M), simulated_agent_frame)
        return float(collision is not None and collision[0] == self.collision_type)


class _OneSideMetric(CollisionMetricBase):
    """Base of metrics whose class defines the side."""

    collision_type: CollisionType

    def __init__(self, *, filter_agents_threshold: float | None = None) -> None:
        super().__init__(self.collision_type, filter_agents_threshold=filter_agents_threshold)


class CollisionFrontMetric(_OneSideMetric):
    """1 in the frames in which the AV's front collides, 0 in the others; (N,) float32.

    Args:
        filter_agents_threshold: As in :class:`CollisionMetricBase`.
    """

    metric_name, collision_type = "collision_front", CollisionType.FRONT


class CollisionRearMetric(_OneSideMetric):
    """1 in the frames in which the AV's rear collides, 0 in the others; (N,) float32.

    Args:
        filter_agents_threshold: As in :class:`CollisionMetricBase`.
    """

    metric_name, collision_type = "collision_rear", CollisionType.REAR


class CollisionSideMetric(_OneSideMetric):
    """1 in the frames in which a flank of the AV collides, 0 in the others; (N,) float32.

    Args:
        filter_agents_threshold: As in :class:`CollisionMetricBase`.
    """

    metric_name, collision_type = "collision_side", CollisionType.SIDE


class DisplacementErrorMetric(SceneMetric):
    """Error of the simulated positions against the recorded ones of the same frames.

    Recorded frames after the last simulated one are ignored.

    Args:
        error_function: Takes simulated and recorded positions in metres, (N, 2) each.

    Raises:
        InvalidArgumentError: By ``compute``: there are fewer recorded frames than simulated ones.
    """

    metric_name = "displacement_error"

    def __init__(self, error_function: ErrorFunction) -> None:
        self.error_function = error_function

    def compute_scene(self, scene: ScoredScene) -> torch.Tensor:
        """Return the result of the error function, usually (N,)."""
        recorded = scene.matched_recorded_states
        return self.error_function(scene.simulated_states[:, :2], recorded[:, :2])


class DisplacementErrorL2Metric(DisplacementErrorMetric):
    """Distance in metres of the simulated positions from the recorded ones of the same frames, (N,)."""

    metric_name = "displacement_error_l2"

    def __init__(self) -> None:
        super().__init__(l2_error)


class DistanceToRefTrajectoryMetric(SceneMetric):
    """Distance in metres of the simulated positions from the nearest of all recorded ones, (int(N * scene_fraction),).

    The last simulated frames are left out, as the recording may end before them. The nearest point counts, not the
    line between points, wherever it is along the trajectory; the score measures the latter as progress along the route.

    Args:
        scene_fraction: Share of the simulated frames to evaluate, in [0, 1].

    Raises:
        InvalidArgumentError: The fraction is outside [0, 1]; or, by ``compute``, there are fewer recorded frames than
            simulated ones.
    """

    metric_name = "distance_to_reference_trajectory"

    def __init__(self, scene_fraction: float = 0.8) -> None:
        if not 0.0 <= scene_fraction <= 1.0:
            raise InvalidArgumentError(f"scene_fraction is {scene_fraction}; pass a number from 0 to 1")
        self.scene_fraction = scene_fraction

    def compute_scene(self, scene: ScoredScene) -> torch.Tensor:
        """Return the distances in the first frames."""
        scene.require_recorded()
        simulated = scene.simulated_states[: int(len(scene.simulated_states) * self.scene_fraction), :2]
        if len(simulated) == 0:
            return simulated.new_zeros(0)
        return distance_to_reference_trajectory(simulated, scene.recorded_states[None, :, :2])


class SimulatedDrivenMilesMetric(SceneMetric):
    """Miles driven by the simulated AV from the previous frame to each frame, 0 at the first; (N,) float64.

    The sum is the distance driven; progress in the score is along the route, to which driving sideways or back and
    forth does not add.
    """

    metric_name = "simulated_driven_miles"
    METER_TO_MILES: ClassVar[float] = _METER_TO_MILES

    def compute_scene(self, scene: ScoredScene) -> torch.Tensor:
        """Return the miles of each frame."""
        return _miles(scene.simulated_steps_m, len(scene.simulated_states), self.METER_TO_MILES)


class ReplayDrivenMilesMetric(SceneMetric):
    """Miles driven by the recorded AV from the previous frame to each frame, 0 at the first; (R,) float64."""

    metric_name = "replay_driven_miles"
    METER_TO_MILES: ClassVar[float] = _METER_TO_MILES

    def compute_scene(self, scene: ScoredScene) -> torch.Tensor:
        """Return the miles of each frame."""
        return _miles(scene.recorded_steps_m, len(scene.recorded_states), self.METER_TO_MILES)


def _miles(steps_m: torch.Tensor, num_frames: int, meter_to_miles: float) -> torch.Tensor:
    """Return the miles of frames from the lengths of the steps between them, (num_frames,)."""
    miles = torch.zeros(num_frames, dtype=torch.float64)
    miles[1:] = steps_m
    return miles.mul_(meter_to_miles)


class YawErrorMetric(SceneMetric):
    """Error of the simulated headings against the recorded ones of the same frames, (N, 1).

    Args:
        error_function: Takes simulated and recorded headings in radians, (N, 1) each.

    Raises:
        InvalidArgumentError: By ``compute``: there are fewer recorded frames than simulated ones.
    """

    metric_name = "yaw_error"

    def __init__(self, error_function: ErrorFunction = closest_angle_error) -> None:
        self.error_function = error_function

    def compute_scene(self, scene: ScoredScene) -> torch.Tensor:
        """Return the result of the error function, usually (N, 1)."""
        recorded = scene.matched_recorded_states
        return self.error_function(scene.simulated_states[:, THETA : THETA + 1], recorded[:, THETA : THETA + 1])


class YawErrorCAMetric(YawErrorMetric):
    """Unsigned angle in radians between simulated and recorded headings of the same frames, (N, 1)."""

    metric_name = "yaw_error_closest_angle"

    def __init__(self) -> None:
        super().__init__(closest_angle_error)


class SimulatedVsRecordedEgoSpeedMetric(SceneMetric):
    """Speed of the simulated AV minus that of the recorded one in each step, in metres per second, (N - 1,).

    Speeds are the lengths of single steps over time; the score uses central differences
    (:func:`l5kit.evaluation.driving.motion.rates_of_frames`), and compares speeds with the limit of the lane.

    Args:
        step_time_s: Time between frames in seconds; None for that of the log, or 0.1 if the output has no ``facts``.

    Raises:
        InvalidArgumentError: The time is not above 0.
        TrajectoryLengthError: By ``compute``: the numbers of recorded and simulated frames differ.
    """

    metric_name = "simulated_minus_recorded_ego_speed"

    step_time_s: float | None = None  # constructors written for 1.5 do not call this one

    def __init__(self, *, step_time_s: float | None = None) -> None:
        if step_time_s is not None and not step_time_s > 0:
            raise InvalidArgumentError(f"step_time_s is {step_time_s}; pass the seconds between frames, above 0")
        self.step_time_s = step_time_s

    def compute_scene(self, scene: ScoredScene) -> torch.Tensor:
        """Return the difference of speeds in each step."""
        lengths = len(scene.simulated_states), len(scene.recorded_states)
        if lengths[0] != lengths[1]:
            raise TrajectoryLengthError(
                "simulated_ego_states has {} rows, recorded_ego_states {}; pass the same number".format(*lengths)
            )
        step_time_s = scene.step_time_s if self.step_time_s is None else self.step_time_s
        return (scene.simulated_steps_m - scene.recorded_steps_m) * (1 / step_time_s)

"""Step rewards of many environments at once, and the arrays that they are computed from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from l5kit._types import BoolArray, Float32Array, Float64Array, FloatArray, Int64Array
from l5kit.environment.reward import L2DisplacementYawReward
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import round_world, yaws_of_rotations
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.red_lights import LightRows
from l5kit.simulation.lanes.lane_following import SceneRows


class DrivenStep(NamedTuple):
    """Step of B slots: the AVs before and after it, and their surroundings after it. Nothing is checked.

    Arrays are contiguous. Boxes are x, y, yaw, length and width. Motions are speed, negative if reversing, acceleration
    along the heading, yaw rate and steering. Route positions are arc length, offset to the left and heading minus that
    of the route, wrapped. Units are metres, seconds and radians in the world frame. At the start of an episode the
    states before and after are equal.

    Attributes:
        boxes: Boxes of the AVs, float64 (B, 5).
        boxes_before: Boxes before the step.
        motions: Motions, float64 (B, 4).
        motions_before: Motions before the step.
        route_positions: Positions on their routes, float64 (B, 3).
        route_positions_before: Positions before the step.
        expert_arcs_m: Arc lengths of the logged AVs on the routes, float64 (B,).
        expert_arcs_before_m: Arc lengths before the step.
        log_poses: x, y and yaw of the logged AVs, float64 (B, 3).
        rows: The road users of each slot.
        track_rows: Number of each row of ``rows`` that identifies a road user of a slot in all frames, int64 (M,).
        paths: All paths; ``line_lanes`` holds light numbers of the scene, -1 for none.
        routes: The path of each AV, int64 (B,).
        lights: Lights of each slot in the frame before the step, as the AV saw them.
        step_time_s: Seconds of a step.
        driving_map: The map; None for none.
    """

    boxes: Float64Array
    boxes_before: Float64Array
    motions: Float64Array
    motions_before: Float64Array
    route_positions: Float64Array
    route_positions_before: Float64Array
    expert_arcs_m: Float64Array
    expert_arcs_before_m: Float64Array
    log_poses: Float64Array
    rows: SceneRows
    track_rows: Int64Array
    paths: PathArrays
    routes: Int64Array
    lights: LightRows
    step_time_s: float
    driving_map: DrivingMap | None


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Rewards and failures of a step of B slots.

    Attributes:
        total: The reward, float64 (B,).
        terms: Terms of the reward, which add up to it, float64 (B, number of terms).
        is_failed: Whether the step ends the episode, bool (B,).
        failures: Failures in the step by name, bool (B,) each.
    """

    total: Float64Array
    terms: Float64Array
    is_failed: BoolArray
    failures: dict[str, BoolArray]

    @classmethod
    def joined(cls, outcomes: Sequence["StepOutcome"]) -> "StepOutcome":
        """Return the outcomes of several steps of the same reward, concatenated along the slots."""
        return cls(
            total=np.concatenate([each.total for each in outcomes]),
            terms=np.concatenate([each.terms for each in outcomes]),
            is_failed=np.concatenate([each.is_failed for each in outcomes]),
            failures={
                name: np.concatenate([each.failures[name] for each in outcomes]) for name in outcomes[0].failures
            },
        )

    def with_next(self, outcome: "StepOutcome", goes_on: BoolArray) -> "StepOutcome":
        """Return the sum of this step and the next one, whose rows are the slots marked in ``goes_on`` (B,)."""
        total, terms, is_failed = self.total.copy(), self.terms.copy(), self.is_failed.copy()
        total[goes_on] += outcome.total
        terms[goes_on] += outcome.terms
        is_failed[goes_on] = outcome.is_failed
        failures = {name: value.copy() for name, value in self.failures.items()}
        for name, value in outcome.failures.items():
            failures[name][goes_on] |= value
        return StepOutcome(total, terms, is_failed, failures)


class StepReward(Protocol):
    """Protocol of rewards of steps of many environments; a reward may keep state for each slot."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms of the reward."""
        ...

    def begin(self, slots: Int64Array, step: DrivenStep) -> None:
        """Begin episodes in slots (B,); their state is reset."""
        ...

    def of_step(self, slots: Int64Array, step: DrivenStep) -> StepOutcome:
        """Return the reward of a step of slots (B,), all different."""
        ...


class DisplacementReward:
    """Reward of L5Kit 1.5 for many environments: minus the distance from the logged position and heading.

    Positions and headings are rounded first, as in states of episodes; headings of the AV pass through a rotation
    matrix, as they do there.

    Args:
        reward: Reward with clipping and weights; that of 1.5 by default.

    Raises:
        InvalidArgumentError: The reward has custom metrics, which need whole episodes.
    """

    terms = ("distance", "yaw")

    def __init__(self, reward: L2DisplacementYawReward | None = None) -> None:
        self.reward = L2DisplacementYawReward() if reward is None else reward
        if not self.reward.has_usual_metrics:
            raise InvalidArgumentError(
                f"reward has the metrics of a {type(self.reward.metric_set).__name__}, which need whole episodes; pass "
                "one with L2DisplacementYawMetricSet"
            )

    def begin(self, slots: Int64Array, step: DrivenStep) -> None:
        """Do nothing: the reward has no state."""

    def of_step(self, slots: Int64Array, step: DrivenStep) -> StepOutcome:
        """Return the reward of a step of slots (B,); it never ends an episode."""
        # headings of the AV pass through a matrix, as in frames; logged ones have done so already
        yaws_rad = yaws_of_rotations(step.boxes[:, 2])
        logged = _states_of(step.log_poses, step.log_poses[:, 2])
        rewards = self.reward.of_states(*_states_of(step.boxes, yaws_rad), *logged)
        terms = np.empty((len(slots), len(self.terms)))
        for column, name in enumerate(self.terms):
            terms[:, column] = rewards[name]
        return StepOutcome(rewards["total"], terms, np.zeros(len(slots), np.bool_), {})


def _states_of(poses: Float64Array, yaws_rad: Float64Array) -> tuple[FloatArray, Float32Array]:
    """Return world x and y (B, 2), and headings (B,), in the precision of states."""
    return round_world(poses[:, :2]), yaws_rad.astype(np.float32)

"""Driving reward: progress along the route minus penalties of the closed-loop score, for each step."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.configs.environment import DrivingParams
from l5kit.data.array_shapes import as_read_only
from l5kit.device.opening import open_backend
from l5kit.environment.rewards.step_faults import FaultArrays, surface_arrays
from l5kit.environment.rewards.step_judge import (
    FAILURES,
    TERMS,
    JudgeRoom,
    OutcomeArrays,
    StepRules,
    judge_step,
    step_for_kernel,
)
from l5kit.environment.rewards.step_reward import DrivenStep, StepOutcome
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.comfort import COMFORT_BOUNDS

_NAMES = {"progress_reference": ("limit", "expert"), "combines": ("sum", "product")}
"""Weights that are names, with their allowed values."""

_FEW_TRACKS = 32
"""Initial capacity for collided road users of a slot."""

_SIGNS = np.array([1.0, *[-1.0] * (len(TERMS) - 1)])


@dataclass(frozen=True)
class DrivingWeights:
    """Weights of the terms of the reward of a step of dt seconds.

    Attributes:
        progress: Per second at the pace of the reference: + w x dt x clip(gain / reference, -1, 1), both in metres
            along the route. 0 off the route.
        collision: Per road user that the AV collides with at fault, once in an episode: - w x n.
        contact: Per collision without fault, in the same way.
        off_road: Per second with a corner 0.3 m or more off the drivable surface: - w x dt.
        time_to_collision: Per second in which the AV would collide within 0.9 s at constant motion of all, or collides
            at fault: - w x dt.
        off_route: Per second more than ``most_offset_m`` away from the route, or more than 90 degrees off it: - w x dt.
        speed: Per second at 2.23 m/s above the limit of the route: - w x dt x min(excess / 2.23 m/s, 3).
        comfort: Per second with all six signals of the score at twice their bounds: - w x dt x mean of
            clip(signal / bound - 1, 0, 1). Here the signals are differences of two motions, not filtered.
        red_light: Per red stop line that the front of the AV passes on its route: - w x n.
        end: At a failure that ends the episode: - w. Without it, a policy that cannot avoid penalties learns to end
            episodes early.
        most_offset_m: Largest offset at which the AV counts as on its route, metres.
        progress_reference: ``"limit"`` for the distance at the speed limit, ``"expert"`` for the distance of the logged
            AV in the same step.
        least_reference_mps: Lower bound of the reference, metres per second.
        combines: ``"sum"``: the terms are added. ``"product"``: the terms per second, ``off_road``,
            ``time_to_collision``, ``off_route``, ``speed`` and ``comfort``, scale the progress of the step instead,
            each by 1 - w x its share of the step, at least 0 (route completion scaled by infractions: CaRL, Jaeger et
            al. 2025, arXiv 2504.17838).

    Raises:
        InvalidArgumentError: A number is negative or not finite, or a name is unknown.
    """

    progress: float = DrivingParams.progress
    collision: float = DrivingParams.collision
    contact: float = DrivingParams.contact
    off_road: float = DrivingParams.off_road
    time_to_collision: float = DrivingParams.time_to_collision
    off_route: float = DrivingParams.off_route
    speed: float = DrivingParams.speed
    comfort: float = DrivingParams.comfort
    red_light: float = DrivingParams.red_light
    end: float = DrivingParams.end
    most_offset_m: float = DrivingParams.most_offset_m
    progress_reference: str = DrivingParams.progress_reference
    least_reference_mps: float = DrivingParams.least_reference_mps
    combines: str = DrivingParams.combines

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in _NAMES and not (0 <= value < math.inf):
                raise InvalidArgumentError(f"DrivingWeights: {field.name} is {value}; pass a number of at least 0")
        if self.least_reference_mps == 0:
            raise InvalidArgumentError("DrivingWeights: least_reference_mps is 0; pass metres per second above 0")
        for name, (first, second) in _NAMES.items():
            if getattr(self, name) not in (first, second):
                raise InvalidArgumentError(
                    f"DrivingWeights: {name} is {getattr(self, name)!r}; pass {first!r} or {second!r}"
                )


class DrivingReward:
    """Reward of driving by the criteria of the closed-loop score, for many environments, with state for each slot.

    Collisions, fault, time to collision and distances off the road are those of :mod:`l5kit.evaluation.driving`.
    Progress is along the path of the route. The speed limit is that of the route at the AV, 10 m/s if the map has none.
    Road users that overlap the AV at the start of an episode count as already collided. Without a map nothing is off
    the road, and no lateral collision is at fault.

    Args:
        weights: Weights of the terms.
        ends_at: Members of :data:`FAILURES` that end an episode.

    Attributes:
        terms: Names of the terms, in the order of the columns of ``StepOutcome.terms``.
        failures: Names of failures, :data:`FAILURES`.
        weights: Weights of the terms.
        ends_at: Members of :data:`FAILURES` that end an episode.
        factors: Factors of the terms, float64 (number of terms,).
        backend: Backend of the kernels; environments set their own.

    Raises:
        InvalidArgumentError: ``ends_at`` has another name.
    """

    terms = TERMS
    failures = FAILURES

    def __init__(self, weights: DrivingWeights | None = None, *, ends_at: Iterable[str] = ()) -> None:
        self.weights = DrivingWeights() if weights is None else weights
        self.ends_at = frozenset(ends_at)
        unknown = sorted(self.ends_at - set(FAILURES))
        if unknown:
            raise InvalidArgumentError(f"ends_at has {unknown[0]!r}; names are {', '.join(FAILURES)}")
        self.backend = open_backend("cpu")
        self._memory = FaultArrays.make(self.backend, 0, _FEW_TRACKS)
        self.factors: Float64Array = _SIGNS * [getattr(self.weights, name) for name in TERMS]
        self._bounds = np.array(list(COMFORT_BOUNDS.values()))

    def rules(self, step_time_s: float) -> StepRules:
        """Return the parameters of the reward for a step time."""
        weights = self.weights
        ends = np.array([name in self.ends_at for name in FAILURES])
        return StepRules(
            step_s=float(step_time_s),
            tolerated_m=float(weights.most_offset_m),
            least_mps=float(weights.least_reference_mps),
            by_expert=weights.progress_reference == "expert",
            bounds=as_read_only(self._bounds),
            factors=as_read_only(self.factors),
            ends=as_read_only(ends),
            is_product=weights.combines == "product",
        )

    def begin(self, slots: Int64Array, step: DrivenStep) -> None:
        """Begin episodes in slots (B,); road users that overlap the AV are remembered as collided."""
        self._judge(slots, step, begins=True)

    def of_step(self, slots: Int64Array, step: DrivenStep) -> StepOutcome:
        """Return the reward of a step of slots (B,), all different."""
        totals, terms, failures, is_failed = self._judge(slots, step, begins=False)
        return StepOutcome(totals, terms, is_failed, dict(zip(FAILURES, failures.T, strict=True)))

    def _judge(self, slots: Int64Array, step: DrivenStep, *, begins: bool) -> OutcomeArrays:
        """Return the reward of steps of slots (B,), or begin episodes there; collisions are remembered."""
        backend, size = self.backend, len(slots)
        self._memory = self._memory.with_room(slots, step.rows.starts, forgets=begins)
        outcome, room = OutcomeArrays.make(backend, size), JudgeRoom.make(backend, size, step.driving_map)
        own = (self._memory, surface_arrays(step.driving_map), self.rules(step.step_time_s), room, outcome)
        # slots with the dtype of simulations, so that the kernel is compiled only once
        backend.run(judge_step, size, np.array(slots), np.full(size, begins), step_for_kernel(step), *own)
        return outcome

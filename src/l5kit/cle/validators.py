"""Closed-loop validators: whether metrics of a scene stay within bounds, and counts of scenes that fail."""

import math
import warnings
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, FloatArray
from l5kit.cle.metrics import SupportsMetricCompute
from l5kit.cle.scored_scene import TIME, SimulatedSceneLike, as_array
from l5kit.errors import InvalidArgumentError

__all__ = [
    "DurationMode",
    "FailedFrame",
    "RangeValidator",
    "SupportsMetricValidate",
    "SupportsValidationAggregation",
    "ValidationCountingAggregator",
    "ValidationFailedFramesAggregator",
    "ValidatorOutput",
]


class ValidatorOutput(NamedTuple):
    """Result of a validator for a scene.

    Attributes:
        is_valid_scene: Whether the scene passes.
        failed_frames: Indices of the failed frames, ascending.
    """

    is_valid_scene: bool
    failed_frames: list[int]


SceneValidations = Mapping[int, Mapping[str, ValidatorOutput]]
"""Outputs of validators by scene id and name."""


class SupportsMetricValidate(Protocol):
    """A validator of metric values; users write subclasses of this, or any class with the same members.

    Attributes:
        validator_name: Name of its outputs in results.
        requires_metric: Names of the metrics whose values it receives.
    """

    validator_name: str
    requires_metric: list[str]

    def validate(
        self, metric_results: dict[str, torch.Tensor], simulation_output: SimulatedSceneLike
    ) -> ValidatorOutput:
        """Return whether a scene passes.

        Args:
            metric_results: Values of the required metrics by name.
            simulation_output: Output of the simulation of the scene.
        """


class DurationMode(IntEnum):
    """How the time of violations adds up: over the whole scene, or within each continuous violation."""

    TOTAL = 0
    CONTINUOUS = 1


class RangeValidator(SupportsMetricValidate):
    """Validator that fails frames in which a metric is outside a range, at once or after a duration.

    The bounds are in range, and so is NaN, which gives a warning. Without a duration, each frame outside the range
    fails. With a duration, it fails if violations up to it have lasted longer: in ``TOTAL`` mode all violations so far,
    in ``CONTINUOUS`` mode the current one. A frame counts with the time since the previous one, the first with its own
    time. Frames without a value of the metric are in range.

    Times are those of the simulated states: float32, summed in float64, and compared in float32, so that a duration of
    whole steps gives the same result as L5Kit 1.5.

    With values in several columns, such as (N, 1), a frame fails if any of them is outside.

    Args:
        validator_name: Name of its outputs in results.
        metric: Class of the metric, or an object of it.
        min_value: Smallest allowed value; no lower bound if None.
        max_value: Largest allowed value; no upper bound if None.
        violation_duration_s: Time in seconds that violations may last.
        duration_mode: How the time of violations adds up.
        aligned_to_steps: For a metric of steps, with one value less than there are frames: whether each value counts
            with the time of its own step. L5Kit 1.5 used the time of the previous step.

    Attributes:
        metric_name: Name of the metric.
        validation_duration_s: The duration, equal to ``violation_duration_s``.

    Raises:
        InvalidArgumentError: There is no bound, the bounds are not ascending, a number is NaN, or the mode is unknown;
            or, by ``validate``, the metric has more values than there are frames with times.
    """

    def __init__(
        self,
        validator_name: str,
        metric: type[SupportsMetricCompute] | SupportsMetricCompute,
        min_value: float | None = None,
        max_value: float | None = None,
        violation_duration_s: float = 0.0,
        duration_mode: DurationMode = DurationMode.TOTAL,
        *,
        aligned_to_steps: bool = False,
    ) -> None:
        if min_value is None and max_value is None:
            raise InvalidArgumentError(f"validator {validator_name!r} has no bound; pass min_value, max_value or both")
        if min_value is not None and max_value is not None and min_value >= max_value:
            raise InvalidArgumentError(
                f"min_value {min_value} of validator {validator_name!r} must be below its max_value {max_value}"
            )
        # NaN bounds, and modes given by name, would otherwise be ignored silently
        given = {"min_value": min_value, "max_value": max_value, "violation_duration_s": violation_duration_s}
        for name, value in given.items():
            if value is not None and math.isnan(value):
                raise InvalidArgumentError(f"{name} of validator {validator_name!r} is {value}; pass a number")
        if duration_mode not in tuple(DurationMode):
            raise InvalidArgumentError(
                f"duration_mode of validator {validator_name!r} is {duration_mode!r}; pass DurationMode.TOTAL or "
                "DurationMode.CONTINUOUS"
            )
        self.validator_name = validator_name
        self.metric_name = metric.metric_name
        self.requires_metric = [self.metric_name]
        self.min_value = min_value
        self.max_value = max_value
        self.validation_duration_s = violation_duration_s
        self.duration_mode = duration_mode
        self.aligned_to_steps = aligned_to_steps

    @property
    def violation_duration_s(self) -> float:
        """Time in seconds that violations may last."""
        return self.validation_duration_s

    def validate(
        self, metric_results: dict[str, torch.Tensor], simulation_output: SimulatedSceneLike
    ) -> ValidatorOutput:
        """Return whether the metric stays in its range in a scene.

        Args:
            metric_results: Values of metrics by name, including this one.
            simulation_output: Output of the simulation of the scene, used only with a duration.
        """
        values = as_array(metric_results[self.metric_name])
        columns = values.reshape(len(values), math.prod(values.shape[1:]))
        is_unknown = np.isnan(columns)
        if is_unknown.any():
            warnings.warn(
                f"validator {self.validator_name!r}: {int(is_unknown.any(axis=1).sum())} of {len(columns)} values of "
                f"{self.metric_name} are NaN and count as in range",
                RuntimeWarning,
                stacklevel=2,
            )
        # NaN is neither below nor above a bound
        least = -math.inf if self.min_value is None else float(self.min_value)
        greatest = math.inf if self.max_value is None else float(self.max_value)
        is_outside: BoolArray = np.any((columns < least) | (columns > greatest), axis=1)
        is_failed = is_outside
        if self.validation_duration_s > 0:
            # float32 throughout, as in L5Kit 1.5, so that a duration of whole steps fails the same frames
            times_s = as_array(simulation_output.simulated_ego_states)[:, TIME].astype(np.float32)
            differences_s = np.diff(times_s, prepend=times_s.dtype.type(0))
            if self.aligned_to_steps and len(is_outside) == len(times_s) - 1:
                differences_s = differences_s[1:]
            if len(is_outside) > len(differences_s):
                raise InvalidArgumentError(
                    f"{self.metric_name} has {len(is_outside)} values, but validator {self.validator_name!r} has "
                    f"times of only {len(differences_s)} simulated frames; drop its duration"
                )
            # a metric may have fewer values than there are frames; the remaining frames are in range
            is_violated = np.zeros(len(differences_s), np.bool_)
            is_violated[: len(is_outside)] = is_outside
            # frames fail after too long a violation, continuous or in total
            longest_s = np.float32(self.validation_duration_s)
            if self.duration_mode == DurationMode.CONTINUOUS:
                lasted = self.cumsum_with_reset(torch.from_numpy(differences_s), torch.from_numpy(is_violated))
                is_failed = as_array(lasted > float(longest_s)).astype(np.bool_)
            else:
                total_s = _time_of_violations(differences_s, is_violated, False).astype(differences_s.dtype)
                is_failed = is_violated & (total_s > longest_s)
        failed_frames: list[int] = np.flatnonzero(is_failed).tolist()
        return ValidatorOutput(not failed_frames, failed_frames)

    @staticmethod
    def cumsum_with_reset(timestamp_diff: torch.Tensor, validation_mask: torch.Tensor) -> torch.Tensor:
        """Return for each frame how long the current violation has lasted, 0 without one.

        Args:
            timestamp_diff: Seconds since the previous frame, (N,).
            validation_mask: Mask of violations, bool, (N,).

        Returns:
            Seconds in the dtype of the differences, summed in float64, (N,).
        """
        lasted_s = _time_of_violations(as_array(timestamp_diff), as_array(validation_mask) != 0, True)
        return torch.from_numpy(lasted_s).to(timestamp_diff.dtype)


@kernel_jit
def _time_of_violations(differences_s: FloatArray, is_violated: BoolArray, starts_anew: bool) -> Float64Array:
    """Return the time of violations up to each frame (N,); only of the current one if ``starts_anew``."""
    sums_s = np.empty(len(differences_s), np.float64)
    sum_s = 0.0
    for frame in range(len(differences_s)):
        if is_violated[frame]:
            sum_s += differences_s[frame]
        elif starts_anew:
            sum_s = 0.0
        sums_s[frame] = sum_s
    return sums_s


class SupportsValidationAggregation(Protocol):
    """Aggregates the outputs of each validator over scenes into one result."""

    def aggregate(self, scene_validation_results: SceneValidations) -> dict[str, Any]:
        """Return the results by name of the validator."""


class ValidationCountingAggregator(SupportsValidationAggregation):
    """Counts the scenes, or frames, that fail each validator.

    Args:
        failed_frames: Count frames instead of scenes.
    """

    def __init__(self, failed_frames: bool = False) -> None:
        self.failed_frames = failed_frames

    def aggregate_scenes(self, scene_validation_results: SceneValidations) -> dict[str, torch.Tensor]:
        """Return the counts, int64 tensors of shape (), of all validators with outputs."""
        counts: dict[str, int] = {}
        for outputs in scene_validation_results.values():
            for name, output in outputs.items():
                count = len(output.failed_frames) if self.failed_frames else not output.is_valid_scene
                counts[name] = counts.get(name, 0) + count
        return {name: torch.tensor(count, dtype=torch.int64) for name, count in counts.items()}

    def aggregate(self, scene_validation_results: SceneValidations) -> dict[str, torch.Tensor]:
        """Return :meth:`aggregate_scenes`."""
        return self.aggregate_scenes(scene_validation_results)


class FailedFrame(NamedTuple):
    """A frame that fails a validator.

    Attributes:
        scene_id: Id of its scene.
        frame_index: Index of the frame in the simulated scene.
    """

    scene_id: int
    frame_index: int


class ValidationFailedFramesAggregator(SupportsValidationAggregation):
    """Lists the frames that fail each validator."""

    def aggregate_scenes(self, scene_validation_results: SceneValidations) -> dict[str, torch.Tensor]:
        """Return scene id and index of the failed frames, int64 (n, 2), of all validators with any."""
        failed: dict[str, list[FailedFrame]] = {}
        for scene_id, outputs in scene_validation_results.items():
            for name, output in outputs.items():
                if output.failed_frames:
                    frames = [FailedFrame(scene_id, frame) for frame in output.failed_frames]
                    failed.setdefault(name, []).extend(frames)
        return {name: torch.tensor(frames, dtype=torch.int64) for name, frames in failed.items()}

    def aggregate(self, scene_validation_results: SceneValidations) -> dict[str, torch.Tensor]:
        """Return :meth:`aggregate_scenes`."""
        return self.aggregate_scenes(scene_validation_results)

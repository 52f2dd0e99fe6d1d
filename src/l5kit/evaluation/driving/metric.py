"""Metric of driving: measures scenes, and describes itself for result files, texts and pages."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from l5kit._types import BoolArray, Float64Array, JsonObject
from l5kit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from l5kit.evaluation.driving.scene_score import SceneDetails

MULTIPLIER: Final = "multiplier"
"""Role of a metric that multiplies the score of a scene."""

NUPLAN: Final = "nuplan"
"""The default score that metrics are part of."""

Fold: TypeAlias = Literal["mean", "least", "most", "sum"]
OfFrames: TypeAlias = Callable[["SceneDetails"], Float64Array]
OfScenes: TypeAlias = Callable[["SceneDetails", Float64Array], Float64Array]

_FOLDS: Final[Mapping[str, Callable[..., Float64Array]]] = {
    "mean": np.nanmean,
    "least": np.nanmin,
    "most": np.nanmax,
    "sum": np.nansum,
}
_OVER_SCENES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "mean": lambda values: math.fsum(values) / len(values),
    "least": min,
    "most": max,
    "sum": math.fsum,
}
_COMPARISONS: Final[Mapping[str, Callable[[Float64Array, float], BoolArray]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class MetricError(InvalidArgumentError):
    """A metric is ill-defined, or its function returns a wrong shape; the message says why."""


@dataclass(frozen=True)
class Fault:
    """Rule for the frame values that are failures: a comparison with a limit.

    Attributes:
        sign: ``<``, ``<=``, ``>`` or ``>=``.
        limit: Limit in the unit of the values.
        kind: Identifier of the failure in data; the name of the metric by default.
        name: Name for display; the label of the metric by default.
    """

    sign: str
    limit: float
    kind: str = ""
    name: str = ""

    def find(self, values: Float64Array) -> BoolArray:
        """Return which values fail; unknown values (NaN) do not."""
        return _COMPARISONS[self.sign](values, self.limit)


@dataclass(frozen=True, kw_only=True)
class MetricFacts:
    """Description of a metric, which ``scores.json`` stores with the values.

    Attributes:
        name: Column of the scenes table, such as ``distance_to_pedestrian_m``.
        label: Short name for display.
        sentence: Description for display.
        unit: Unit of its values; empty for a number without one.
        digits: Number of meaningful decimals.
        range: Smallest and largest value of a scene; None for no bound.
        better: Which values are better, ``high`` or ``low``.
        over_scenes: Aggregate of the known values of scenes: ``mean``, ``least``, ``most`` or ``sum``, or q for the
            q-th percentile, 0 to 100.
        role: :data:`MULTIPLIER`, a weight above 0 in the mean of the score, or None if not part of the score. With a
            role, values are from 0 to 1.
        of_score: The score that it belongs to.
        needs_map: Whether it has no value without a map.
        column: Column of the frames table with its values; None without one.
        fault: Which frame values are failures; None for none.
        counted_as: Column of the scenes table with the number of such frames; None for none.
        passes_from: Scenes with a worse value have failed; None if none can fail.
        failure: Short description of the failure.

    Raises:
        MetricError: A value is not allowed.
    """

    name: str
    label: str
    sentence: str
    unit: str = ""
    digits: int = 3
    range: tuple[float | None, float | None] = (0.0, 1.0)
    better: str = "high"
    over_scenes: str | float = "mean"
    role: str | float | None = None
    of_score: str = NUPLAN
    needs_map: bool = False
    column: str | None = None
    fault: Fault | None = None
    counted_as: str | None = None
    passes_from: float | None = None
    failure: str = ""

    def __post_init__(self) -> None:
        self._require(self.name.isidentifier(), "name", "a word of letters, digits and _, such as gap_m")
        self._require(self.better in ("high", "low"), "better", "'high' or 'low'")
        is_percentile = not isinstance(self.over_scenes, str) and 0 <= self.over_scenes <= 100
        self._require(
            is_percentile or self.over_scenes in _FOLDS,
            "over_scenes",
            f"{', '.join(_FOLDS)}, or a number from 0 to 100",
        )
        is_weight = not isinstance(self.role, str | None) and self.role > 0
        self._require(
            is_weight or self.role in (None, MULTIPLIER), "role", f"{MULTIPLIER!r}, a weight above 0, or None"
        )
        self._require(self.role is None or self.range == (0.0, 1.0), "range", "(0, 1) for a metric with a role")
        self._require(
            self.fault is None or self.fault.sign in _COMPARISONS, "fault", "one with the sign <, <=, > or >="
        )

    def _require(self, is_fine: bool, name: str, allowed: str) -> None:
        if not is_fine:
            raise MetricError(f"metric {self.name!r}: {name} must be {allowed}, got {getattr(self, name)!r}")

    def fails(self, value: float | None) -> bool:
        """Return whether a scene with this value has failed; a scene without a value has not."""
        if value is None or self.passes_from is None:
            return False
        return value < self.passes_from if self.better == "high" else value > self.passes_from

    def over(self, values: Sequence[float | None]) -> float | None:
        """Return the aggregate of the values of scenes; None if none has one."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        if not isinstance(self.over_scenes, str):
            return float(np.percentile(known, self.over_scenes))
        return _OVER_SCENES[self.over_scenes](known)

    def as_json(self) -> JsonObject:
        """Return the facts as JSON; :meth:`of_json` reads them."""
        facts = {name: value for name, value in asdict(self).items() if name in _NAMES}
        if self.of_score == NUPLAN:  # same files as before there were several scores
            del facts["of_score"]
        return facts

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> "MetricFacts":
        """Return the facts of :meth:`as_json`, ignoring keys unknown to this version."""
        known = {name: content[name] for name in _NAMES if name in content}
        known["range"] = tuple(known.get("range", (0.0, 1.0)))
        known["fault"] = None if known.get("fault") is None else Fault(**known["fault"])
        return MetricFacts(**known)


_NAMES: Final = tuple(field.name for field in fields(MetricFacts))


@dataclass(frozen=True, kw_only=True)
class Metric(MetricFacts):
    """A metric: functions that measure drives, and its description.

    It has values of frames, which are a column of ``frames.csv`` and a curve in the viewer, or of scenes only. The
    value of a scene in ``scenes.csv`` is the fold of its frame values.

    Attributes:
        of_frames: Returns the values of the F frames of S scenes, float64 (S, F), NaN or infinite for none; None for a
            metric of scenes only.
        of_scenes: Fold of the known frame values of a scene: ``mean``, ``least``, ``most`` or ``sum``; or a function of
            the scenes and the values of their frames (NaN without ``of_frames``) that returns (S,), NaN for none.

    Raises:
        MetricError: A value is not allowed.
    """

    of_frames: OfFrames | None = None
    of_scenes: Fold | OfScenes = "mean"

    def __post_init__(self) -> None:
        if self.of_frames is not None and self.column is None:
            object.__setattr__(self, "column", self.name)
        if self.fault is not None:
            named = replace(self.fault, kind=self.fault.kind or self.name, name=self.fault.name or self.label)
            object.__setattr__(self, "fault", named)
        super().__post_init__()
        is_fold = isinstance(self.of_scenes, str)
        self._require(not is_fold or self.of_scenes in _FOLDS, "of_scenes", f"{', '.join(_FOLDS)}, or a function")
        has_values = self.of_frames is not None
        self._require(
            has_values or not is_fold, "of_scenes", "a function, as there is no of_frames whose values it folds"
        )
        self._require(has_values or self.fault is None, "fault", "None where there is no of_frames")

    def measure(self, details: "SceneDetails") -> tuple[Float64Array, Float64Array]:
        """Return the values of the frames of S scenes, (S, F), and of the scenes, (S,), NaN for none.

        Raises:
            MetricError: A function of the metric returns another shape.
        """
        shape = details.states.is_there.shape
        frames = np.full(shape, np.nan)
        if self.of_frames is not None:
            frames = self._checked(self.of_frames(details), shape, "of_frames")
            frames = np.where(details.states.is_there & np.isfinite(frames), frames, np.nan)
        return frames, self.fold(details, frames)

    def fold(self, details: "SceneDetails", frames: Float64Array) -> Float64Array:
        """Return the values of S scenes, (S,), NaN for none, from the values of their frames, (S, F).

        A metric that needs a map has no values without one.

        Raises:
            MetricError: A function of the metric returns another shape.
        """
        scenes = np.full(len(frames), np.nan)
        if self.needs_map and details.driving_map is None:  # its rule would treat unknown values as good
            return scenes
        if not isinstance(self.of_scenes, str):
            return self._checked(self.of_scenes(details, frames), scenes.shape, "of_scenes")
        # fold the known values of each scene
        is_known = ~np.isnan(frames).all(axis=1)
        scenes[is_known] = _FOLDS[self.of_scenes](frames[is_known], axis=1)
        return scenes

    def judge(self, details: "SceneDetails") -> tuple[Float64Array, Float64Array, BoolArray]:
        """Return the result of :meth:`measure`, and the faulty frames, bool (S, F); none in scenes without a value."""
        frames, scenes = self.measure(details)
        if self.fault is None:
            return frames, scenes, np.zeros(frames.shape, np.bool_)
        return frames, scenes, self.fault.find(frames) & ~np.isnan(scenes)[:, None]

    def _checked(self, values: object, shape: tuple[int, ...], function: str) -> Float64Array:
        array: Float64Array = np.asarray(values, np.float64)
        if array.shape != shape:
            raise MetricError(f"metric {self.name!r}: {function} must return an array {shape}, got {array.shape}")
        return array


def combine(values: Mapping[str, Float64Array], metrics: Sequence[MetricFacts]) -> Float64Array:
    """Return the score of scenes: the product of the multipliers times the weighted mean of the others, (S,).

    A multiplier that does not apply (NaN) counts as 1, and the weight of other metrics that do not apply is dropped.

    Args:
        values: Values of each metric with a role, 0 to 1, (S,).
        metrics: The metrics; those without a role are ignored.
    """
    product = np.stack([values[metric.name] for metric in metrics if metric.role == MULTIPLIER])
    weighted = [metric for metric in metrics if not isinstance(metric.role, str | None)]
    means = np.stack([values[metric.name] for metric in weighted])
    weights = np.array([metric.role for metric in weighted], np.float64)[:, None] * ~np.isnan(means)
    total = weights.sum(axis=0)
    mean = np.divide(
        (weights * np.nan_to_num(means)).sum(axis=0), total, out=np.full(len(total), np.nan), where=total > 0
    )
    scores: Float64Array = np.where(np.isnan(product), 1.0, product).prod(axis=0) * mean
    return scores

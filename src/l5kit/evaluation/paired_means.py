"""Means of several planners over the same scenes, and their differences to one of them, scene by scene (paired)."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.resampling import Estimate, Resampling, chance_of, estimate_of

_SAME: Final = 1e-9
"""Values that differ by less are the same: tables have six digits."""


@dataclass(frozen=True, eq=False)
class SceneValues(ReadOnlyArrays):
    """What P planners have in the same S scenes by M metrics.

    Attributes:
        values: NaN where a metric does not apply, float64 (P, S, M).
        counts: Of how many numbers a value is the mean, such as samples of the scene, 1 for a value of the scene
            itself, float64 (S, M).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    values: Float64Array
    counts: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, counts=self.values.shape[1:])

    @property
    def is_known(self) -> BoolArray:
        """Which scenes have a value for all planners, so that all means are over the same ones, (S, M)."""
        is_known: BoolArray = np.logical_and.reduce(~np.isnan(self.values), axis=0)
        return is_known


@dataclass(frozen=True)
class PairedMean:
    """The mean of a planner over scenes by one metric, and how much it is above that of the reference.

    Attributes:
        num_scenes: Scenes that all planners have a value for.
        mean: Over these scenes.
        difference: To the mean of the reference; each draw of scenes is the same for both.
        chance: The p-value of the difference, of :func:`~l5kit.evaluation.resampling.chance_of`; NaN for the reference,
            and where there are fewer than two scenes.
        num_better: Scenes in which the planner is better than the reference.
        num_worse: Scenes in which it is worse.
    """

    num_scenes: int
    mean: Estimate
    difference: Estimate
    chance: float
    num_better: int
    num_worse: int


def paired_means(
    scenes: SceneValues,
    groups: BoolArray,
    metrics: tuple[MetricFacts, ...],
    *,
    reference: int,
    resampling: Resampling,
) -> list[list[list[PairedMean]]]:
    """Return the means over each of G groups of scenes, by metric, of each planner: G lists of M lists of P.

    All scenes are drawn again, and of each draw those of a group are taken.

    Args:
        scenes: The values.
        groups: Which scenes each group has, (G, S).
        metrics: What is measured, M; whether high or low values are better, and what is possible.
        reference: The planner that others are compared with.
        resampling: How scenes are drawn again.

    Raises:
        InvalidArgumentError: The groups are of other scenes, or the metrics are others.
    """
    num_planners, num_scenes, num_metrics = scenes.values.shape
    if groups.shape[1:] != (num_scenes,) or len(metrics) != num_metrics:
        raise InvalidArgumentError(
            f"groups and metrics must be for {num_scenes} scenes and {num_metrics} metrics, got {groups.shape} and "
            f"{len(metrics)}"
        )
    # columns of sums and counts: a column is drawn once, whatever number of groups and planners it serves
    counts = np.where(scenes.is_known, scenes.counts, 0.0)
    is_in = groups.T.astype(np.float64)  # (S, G)
    parts = is_in[:, :, None] * counts[:, None]  # (S, G, M)
    sums = parts[..., None] * np.nan_to_num(scenes.values).transpose(1, 2, 0)[:, None]  # (S, G, M, P)
    drawn = resampling.sums(np.concatenate([parts[..., None], sums], axis=-1).reshape(num_scenes, -1))
    drawn = drawn.reshape(len(drawn), len(groups), num_metrics, 1 + num_planners)
    with np.errstate(invalid="ignore"):
        means = drawn[..., 1:] / drawn[..., :1]

    of_groups = []
    for group, is_of_group in enumerate(groups):
        of_group = []
        for index, metric in enumerate(metrics):
            values = scenes.values[:, is_of_group & scenes.is_known[:, index], index]
            of_group.append(_means_of(means[:, group, index], values, metric, reference, resampling))
        of_groups.append(of_group)
    return of_groups


def _means_of(
    means: Float64Array, values: Float64Array, metric: MetricFacts, reference: int, resampling: Resampling
) -> list[PairedMean]:
    """Return what the draws of means (1 + draws, P) and values of scenes (P, n) tell of each planner."""
    least, most = (
        bound if bound is not None else sign * np.inf for bound, sign in zip(metric.range, (-1, 1), strict=True)
    )
    sign = 1.0 if metric.better == "high" else -1.0
    paired = []
    for planner, of_planner in enumerate(values):
        # gains are above 0 where the planner is better, whichever way that is; the difference of means keeps its sign
        gains = sign * (of_planner - values[reference])
        is_better, is_worse = gains > _SAME, gains < -_SAME
        draws = means[:, planner] - means[:, reference]
        num_scenes = len(of_planner)
        has_test = planner != reference and num_scenes > 1
        paired.append(
            PairedMean(
                num_scenes=num_scenes,
                mean=estimate_of(means[:, planner], resampling, num_scenes=num_scenes, lowest=least, highest=most),
                difference=estimate_of(
                    draws, resampling, num_scenes=num_scenes, lowest=least - most, highest=most - least
                ),
                chance=chance_of(draws, num_different=int((is_better | is_worse).sum())) if has_test else np.nan,
                num_better=int(is_better.sum()),
                num_worse=int(is_worse.sum()),
            )
        )
    return paired

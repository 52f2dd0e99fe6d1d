"""Bootstrap over scenes: estimates with intervals, and paired comparisons of planners over the same scenes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from l5kit.evaluation.driving.metric import MetricFacts  # slow to import

_DRAWS_AT_ONCE: Final = 1000
"""Number of draws whose weights are in memory at a time."""

_SAME: Final = 1e-9
"""Values that differ by less count as equal; tables have six digits."""


@dataclass(frozen=True)
class Estimate:
    """A number and its interval of 95 %.

    Attributes:
        value: Value over all scenes; NaN without any data.
        low: Lower end of the interval; NaN for fewer than two scenes.
        high: Upper end of the interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Resampling:
    """Parameters of the bootstrap over scenes.

    Attributes:
        num_draws: Number of draws of S of S scenes, with replacement.
        seed: Seed of the draws.
        level: Share of the draws within an interval.

    Raises:
        InvalidArgumentError: There are no draws, or the level is not between 0 and 1.
    """

    num_draws: int = 1000
    seed: int = 0
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.num_draws < 1 or not 0 < self.level < 1:
            raise InvalidArgumentError(
                f"Resampling: num_draws must be at least 1 and level between 0 and 1, got {self.num_draws} and "
                f"{self.level}"
            )

    def weights(self, num_scenes: int) -> Float64Array:
        """Return the weight of each scene: 1 in the first row, then the number of times drawn, (1 + draws, S)."""
        return np.concatenate([np.ones((1, num_scenes)), *self._drawn(num_scenes)])

    def sums(self, columns: Float64Array) -> Float64Array:
        """Return the sums of columns (S, K) over all scenes, followed by those over each draw, (1 + draws, K).

        Weights are generated in blocks to save memory.
        """
        drawn = [weights @ columns for weights in self._drawn(len(columns))]
        return np.concatenate([columns.sum(axis=0)[None], *drawn])

    def _drawn(self, num_scenes: int) -> Iterator[Float64Array]:
        """Yield blocks of rows with the number of times each scene was drawn, (n, S) each."""
        generator = np.random.default_rng(self.seed)
        if num_scenes == 0:
            yield np.zeros((self.num_draws, 0))
            return
        shares = np.full(num_scenes, 1.0 / num_scenes)
        for start in range(0, self.num_draws, _DRAWS_AT_ONCE):
            size = min(_DRAWS_AT_ONCE, self.num_draws - start)
            yield generator.multinomial(num_scenes, shares, size=size).astype(np.float64)


def estimate_of(
    values: Float64Array,
    resampling: Resampling,
    *,
    num_scenes: int,
    lowest: float = -np.inf,
    highest: float = np.inf,
) -> Estimate:
    """Return an estimate from the value over all scenes and those of the draws.

    Bootstrap draws bias distances upwards, as fewer distinct scenes differ more. So the draws are shifted back to have
    the value over all scenes as their mean before their quantiles are taken. The interval contains the value, and
    stays within the possible range.

    Args:
        values: Value over all scenes, followed by those of the draws, NaN for none, (1 + draws,).
        resampling: Parameters of the draws.
        num_scenes: Number of scenes, S.
        lowest: Lowest possible value.
        highest: Highest possible value.
    """
    value, draws = float(values[0]), _centred(values)
    if num_scenes < 2 or len(draws) == 0 or np.isnan(value):
        return Estimate(value, np.nan, np.nan)
    if (draws == value).all():
        return Estimate(value, value, value)
    tail = 0.5 * (1.0 - resampling.level)
    low, high = np.quantile(draws, [tail, 1.0 - tail]).tolist()
    return Estimate(value, min(value, max(low, lowest)), max(value, min(high, highest)))


def chance_of(values: Float64Array, *, num_different: int) -> float:
    """Return the p-value of a difference: the chance of one at least as large if there is none, NaN if unknown.

    It is twice the share of the draws on the other side of 0, with draws shifted as in :func:`estimate_of`; a draw that
    is 0 before the shift is on both sides, and the value counts as a draw (Davison and Hinkley, "Bootstrap Methods and
    their Application", 1997, 4.2). Few scenes cannot give a small p-value: the chance that n scenes all differ in the
    same direction is 2 / 2^n, which is a lower bound.

    Args:
        values: Difference over all scenes, followed by those of the draws, NaN for none, (1 + draws,).
        num_different: Number of scenes with a difference.
    """
    draws = _centred(values)
    if np.isnan(values[0]) or len(draws) == 0:
        return np.nan
    # with few distinct values many draws are 0: the side to which all of them are shifted is arbitrary
    is_zero = np.abs(values[1:][~np.isnan(values[1:])]) < _SAME
    share = (1 + min(((draws <= 0.0) | is_zero).sum(), ((draws >= 0.0) | is_zero).sum())) / (1 + len(draws))
    return float(min(1.0, max(2.0 * share, 2.0 / 2.0 ** min(num_different, 1000))))


def adjust_by_holm(chances: Float64Array) -> Float64Array:
    """Return p-values (K,) corrected for multiple comparisons (Holm, 1979); NaN is no comparison, and stays.

    The smallest of K is multiplied by K, the next by K - 1 and so on, and none becomes smaller than the one before.
    """
    order = np.argsort(chances)  # NaN comes last
    known = order[~np.isnan(chances[order])]
    adjusted = np.full(len(chances), np.nan)
    factors = np.arange(len(known), 0, -1)
    adjusted[known] = np.minimum(1.0, np.maximum.accumulate(chances[known] * factors))
    return adjusted


def _centred(values: Float64Array) -> Float64Array:
    """Return the known draws, shifted so that their mean is the value over all scenes."""
    draws = values[1:][~np.isnan(values[1:])]
    if len(draws) == 0 or (draws == values[0]).all():
        return draws
    moved: Float64Array = draws - (draws.mean() - values[0])
    return moved


@dataclass(frozen=True, eq=False)
class SceneValues(ReadOnlyArrays):
    """Values of P planners in the same S scenes by M metrics.

    Attributes:
        values: The values, NaN where a metric does not apply, float64 (P, S, M).
        counts: Number of items that a value is the mean of, such as samples of the scene; 1 for a value of the scene
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
        """Which scenes have a value for all planners, so that all means are over the same scenes, (S, M)."""
        is_known: BoolArray = np.logical_and.reduce(~np.isnan(self.values), axis=0)
        return is_known


@dataclass(frozen=True)
class PairedMean:
    """The mean of a planner over scenes by one metric, and its difference to the reference.

    Attributes:
        num_scenes: Number of scenes with a value for all planners.
        mean: Mean over these scenes.
        difference: Difference to the mean of the reference, with the same draws of scenes for both.
        chance: p-value of the difference, of :func:`chance_of`; NaN for the reference, and for fewer than two scenes.
        num_better: Number of scenes in which the planner is better than the reference.
        num_worse: Number of scenes in which it is worse.
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
    metrics: "tuple[MetricFacts, ...]",
    *,
    reference: int,
    resampling: Resampling,
) -> list[list[list[PairedMean]]]:
    """Return the means over each of G groups of scenes, by metric, of each planner: G lists of M lists of P.

    All scenes are drawn together, and each group uses its scenes of each draw.

    Args:
        scenes: The values.
        groups: Mask of the scenes of each group, (G, S).
        metrics: The M metrics; their range, and whether high or low values are better, are used.
        reference: Index of the planner that others are compared with.
        resampling: Parameters of the draws.

    Raises:
        InvalidArgumentError: The groups have other scenes, or the number of metrics differs.
    """
    num_planners, num_scenes, num_metrics = scenes.values.shape
    if groups.shape[1:] != (num_scenes,) or len(metrics) != num_metrics:
        raise InvalidArgumentError(
            f"groups and metrics must be for {num_scenes} scenes and {num_metrics} metrics, got {groups.shape} and "
            f"{len(metrics)}"
        )
    # columns of sums and counts, so that each is drawn once for all groups and planners
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
    means: Float64Array, values: Float64Array, metric: "MetricFacts", reference: int, resampling: Resampling
) -> list[PairedMean]:
    """Return the estimates of each planner from draws of means (1 + draws, P) and values of scenes (P, n)."""
    least, most = (
        bound if bound is not None else sign * np.inf for bound, sign in zip(metric.range, (-1, 1), strict=True)
    )
    sign = 1.0 if metric.better == "high" else -1.0
    paired = []
    for planner, of_planner in enumerate(values):
        # gains are positive if the planner is better, whatever the metric; the difference of means keeps its sign
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

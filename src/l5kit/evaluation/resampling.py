"""Estimates with intervals, by drawing scenes again (bootstrap), and how likely differences are by chance."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import Float64Array
from l5kit.errors import InvalidArgumentError

_DRAWS_AT_ONCE: Final = 1000
"""Draws whose weights are in memory."""


@dataclass(frozen=True)
class Estimate:
    """A number and its interval of 95 %.

    Attributes:
        value: Of all scenes; NaN where there is nothing to compute it from.
        low: Lower end of the interval; NaN for fewer than two scenes.
        high: Upper end.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Resampling:
    """How scenes are drawn again.

    Attributes:
        num_draws: So often S of S scenes are drawn, with replacement.
        seed: Of the draws.
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
        """Return how often each scene counts: once in the first row, then as it was drawn, (1 + draws, S)."""
        return np.concatenate([np.ones((1, num_scenes)), *self._drawn(num_scenes)])

    def sums(self, columns: Float64Array) -> Float64Array:
        """Return the sums of columns (S, K) over all scenes, and then over those of each draw, (1 + draws, K).

        Few weights are in memory at a time.
        """
        drawn = [weights @ columns for weights in self._drawn(len(columns))]
        return np.concatenate([columns.sum(axis=0)[None], *drawn])

    def _drawn(self, num_scenes: int) -> Iterator[Float64Array]:
        """Yield blocks of rows that say how often each scene was drawn, (n, S) each."""
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
    """Return an estimate of the value of all scenes and those of the draws.

    Drawing scenes again moves distances upwards, as fewer different scenes differ more. So the draws are moved back by
    the difference of their mean from the value of all scenes before their quantiles are taken. The interval holds the
    value, and stays within what is possible.

    Args:
        values: That of all scenes, then those of the draws, NaN where there is none, (1 + draws,).
        resampling: How scenes were drawn.
        num_scenes: S.
        lowest: The lowest value that is possible.
        highest: The highest.
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
    """Return the p-value of a difference: how likely one as large or larger is where there is none, NaN if unknown.

    It is twice the share of the draws that lie on the other side of 0, each draw moved as in :func:`estimate_of`; 0
    itself is on both sides, and the value counts as a draw (Davison and Hinkley, "Bootstrap Methods and their
    Application", 1997, 4.2). Few scenes never tell much: if each of n scenes could have gone the other way, all of them
    go one way with a chance of 2 / 2^n, and the p-value is not below that.

    Args:
        values: The difference over all scenes, then those of the draws, NaN where there is none, (1 + draws,).
        num_different: In how many scenes there is a difference.
    """
    draws = _centred(values)
    if np.isnan(values[0]) or len(draws) == 0:
        return np.nan
    share = (1 + min((draws <= 0.0).sum(), (draws >= 0.0).sum())) / (1 + len(draws))
    return float(min(1.0, max(2.0 * share, 2.0 / 2.0 ** min(num_different, 1000))))


def adjust_by_holm(chances: Float64Array) -> Float64Array:
    """Return p-values (K,) corrected for as many questions (Holm, 1979); NaN is no question, and stays.

    Of K of them the least is multiplied by K, the next by K - 1 and so on, and none becomes less than one before it.
    """
    order = np.argsort(chances)  # NaN comes last
    known = order[~np.isnan(chances[order])]
    adjusted = np.full(len(chances), np.nan)
    factors = np.arange(len(known), 0, -1)
    adjusted[known] = np.minimum(1.0, np.maximum.accumulate(chances[known] * factors))
    return adjusted


def _centred(values: Float64Array) -> Float64Array:
    """Return the draws that are known, moved so that their mean is the value of all scenes."""
    draws = values[1:][~np.isnan(values[1:])]
    if len(draws) == 0 or (draws == values[0]).all():
        return draws
    moved: Float64Array = draws - (draws.mean() - values[0])
    return moved

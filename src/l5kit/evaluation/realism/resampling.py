"""Estimates with intervals, by drawing scenes again (bootstrap)."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array
from l5kit.errors import InvalidArgumentError

__all__ = ["Estimate", "Resampling", "estimate_of"]


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
        weights = np.ones((1 + self.num_draws, num_scenes))
        if num_scenes:
            shares = np.full(num_scenes, 1.0 / num_scenes)
            weights[1:] = np.random.default_rng(self.seed).multinomial(num_scenes, shares, size=self.num_draws)
        return weights


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
    value, draws = float(values[0]), values[1:][~np.isnan(values[1:])]
    if num_scenes < 2 or len(draws) == 0 or np.isnan(value):
        return Estimate(value, np.nan, np.nan)
    if (draws == value).all():
        return Estimate(value, value, value)
    tail = 0.5 * (1.0 - resampling.level)
    low, high = (np.quantile(draws, [tail, 1.0 - tail]) - (draws.mean() - value)).tolist()
    return Estimate(value, min(value, max(low, lowest)), max(value, min(high, highest)))

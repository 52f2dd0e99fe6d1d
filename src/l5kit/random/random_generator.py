"""Generators that return one random sample a call."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from l5kit._types import Float64Array, NumericArray
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.random.seeding import derive_rng

Parameter = float | Sequence[float] | NumericArray
"""A parameter of a distribution, a scalar or one value for each dimension."""


class RandomGenerator(ABC):
    """Base of the generators: an object that returns one sample when called without arguments.

    Subclasses implement ``_sample``, and ``reseed`` if they draw numbers.
    """

    def __call__(self) -> Any:
        """Return the next sample."""
        return self._sample()

    def reseed(self, seed: int) -> None:  # noqa: B027 - generators that draw nothing have nothing to reseed
        """Go on with the random stream that belongs to ``seed``; nothing happens in generators that draw no numbers.

        Each worker of a DataLoader calls this with a seed of its own, so that workers draw differently and
        reproducibly.

        Args:
            seed: At least 0.

        Raises:
            InvalidArgumentError: ``seed`` is negative.
        """

    @abstractmethod
    def _sample(self) -> object:
        """Return one sample."""


class LambdaRandomGenerator(RandomGenerator):
    """Returns what a function returns.

    Args:
        sampling_function: Called without arguments for every sample.
    """

    def __init__(self, sampling_function: Callable[[], object]) -> None:
        self.sampling_function = sampling_function

    def _sample(self) -> object:
        return self.sampling_function()


class ReplayRandomGenerator(RandomGenerator):
    """Returns given values one after the other, as arrays.

    Calls beyond the last value raise an ``IndexOutOfRangeError`` (an ``IndexError``); there is no way back.

    Args:
        values: The samples, one a call.
    """

    def __init__(self, values: Sequence[object] | NumericArray) -> None:
        self.values = values
        self._next_index = 0

    def _sample(self) -> NumericArray:
        if self._next_index >= len(self.values):
            raise IndexOutOfRangeError(f"all {len(self.values)} values have been replayed; pass more of them as values")
        value = np.array(self.values[self._next_index])
        self._next_index += 1
        return value


class GaussianRandomGenerator(RandomGenerator):
    """Draws from a normal distribution with a generator of its own, ``rng``.

    Until ``reseed`` is called the samples are those of ``np.random.default_rng(random_seed)``; after ``reseed(s)`` they
    depend on ``random_seed`` and ``s`` (on ``s`` alone if ``random_seed`` is None).

    Args:
        mean: Of each dimension, broadcast against ``std``.
        std: Standard deviation of each dimension, at least 0.
        random_seed: None takes fresh entropy from the operating system.

    Raises:
        InvalidArgumentError: A standard deviation is negative.
    """

    def __init__(self, mean: Parameter, std: Parameter, random_seed: int | None = 0) -> None:
        if np.any(np.asarray(std) < 0):
            raise InvalidArgumentError(f"std is {std!r}; standard deviations must be at least 0")
        self.mean = mean
        self.std = std
        self.random_seed = random_seed
        self.rng = np.random.default_rng(random_seed)

    def reseed(self, seed: int) -> None:
        """Go on with the stream that belongs to ``random_seed`` and ``seed``.

        Args:
            seed: At least 0.

        Raises:
            InvalidArgumentError: ``seed`` is negative.
        """
        self.rng = derive_rng(seed, random_seed=self.random_seed)

    def _sample(self) -> float | Float64Array:
        return self.rng.normal(self.mean, self.std)


class UniformRandomGenerator(RandomGenerator):
    """Draws from a uniform distribution over [low, high).

    By default the numbers come from NumPy's global state, as in L5Kit 1.x (``np.random.seed`` governs them). With
    ``random_seed`` or ``rng``, and after ``reseed``, they come from a generator of its own.

    Args:
        low: Lower bound of each dimension, broadcast against ``high``.
        high: Upper bound of each dimension.
        random_seed: Seed of an own generator.
        rng: An own generator, instead of ``random_seed``.

    Raises:
        InvalidArgumentError: Both ``random_seed`` and ``rng`` are given.
    """

    def __init__(
        self,
        low: Parameter,
        high: Parameter,
        *,
        random_seed: int | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        if random_seed is not None and rng is not None:
            raise InvalidArgumentError(f"both random_seed ({random_seed}) and rng are given; pass one of them")
        self.low = low
        self.high = high
        self.random_seed = random_seed
        self.rng = rng if random_seed is None else np.random.default_rng(random_seed)

    def reseed(self, seed: int) -> None:
        """Go on with an own generator, whose stream belongs to ``random_seed`` and ``seed``.

        Args:
            seed: At least 0.

        Raises:
            InvalidArgumentError: ``seed`` is negative.
        """
        self.rng = derive_rng(seed, random_seed=self.random_seed)

    def _sample(self) -> float | Float64Array:
        if self.rng is None:
            return np.random.uniform(self.low, self.high)  # noqa: NPY002 - the same draws as L5Kit 1.x
        return self.rng.uniform(self.low, self.high)

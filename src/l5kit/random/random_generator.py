"""Random generators that return one sample per call."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from l5kit._types import Float64Array, NumericArray
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.random.seeding import derive_rng

Parameter = float | Sequence[float] | NumericArray
"""Parameter of a distribution: a scalar or one value per dimension."""


class RandomGenerator(ABC):
    """Base of the generators: objects that return one sample when called without arguments.

    Subclasses implement ``_sample``, and ``reseed`` if they draw numbers.
    """

    def __call__(self) -> Any:
        """Return the next sample."""
        return self._sample()

    def reseed(self, seed: int) -> None:  # noqa: B027 - generators that draw nothing have nothing to reseed
        """Restart the random stream from ``seed``; no effect on generators that draw no random numbers.

        Each worker of a DataLoader calls this with its own seed, so that workers draw different, reproducible numbers.

        Args:
            seed: At least 0.

        Raises:
            InvalidArgumentError: ``seed`` is negative.
        """

    @abstractmethod
    def _sample(self) -> object:
        """Return one sample."""


class LambdaRandomGenerator(RandomGenerator):
    """Generator that returns the results of a function.

    Args:
        sampling_function: Called without arguments for every sample.
    """

    def __init__(self, sampling_function: Callable[[], object]) -> None:
        self.sampling_function = sampling_function

    def _sample(self) -> object:
        return self.sampling_function()


class ReplayRandomGenerator(RandomGenerator):
    """Generator that returns given values one after the other, as arrays.

    Calls after the last value raise an ``IndexOutOfRangeError`` (an ``IndexError``); the replay cannot be restarted.

    Args:
        values: The samples, one per call.
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
    """Generator of normally distributed samples, with its own random stream ``rng``.

    Until ``reseed`` is called the samples are those of ``np.random.default_rng(random_seed)``; after ``reseed(s)`` they
    depend on ``random_seed`` and ``s`` (on ``s`` alone if ``random_seed`` is None).

    Args:
        mean: Mean of each dimension, broadcast against ``std``.
        std: Standard deviation of each dimension, at least 0.
        random_seed: Seed; None takes fresh entropy from the operating system.

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
        """Restart the random stream from ``random_seed`` and ``seed``.

        Args:
            seed: At least 0.

        Raises:
            InvalidArgumentError: ``seed`` is negative.
        """
        self.rng = derive_rng(seed, random_seed=self.random_seed)

    def _sample(self) -> float | Float64Array:
        return self.rng.normal(self.mean, self.std)


class UniformRandomGenerator(RandomGenerator):
    """Generator of samples distributed uniformly over [low, high).

    By default, numbers come from NumPy's global state, as in L5Kit 1.x (seeded by ``np.random.seed``). With
    ``random_seed`` or ``rng``, or after ``reseed``, they come from a private generator.

    Args:
        low: Lower bound of each dimension, broadcast against ``high``.
        high: Upper bound of each dimension.
        random_seed: Seed of a private generator.
        rng: Private generator, instead of ``random_seed``.

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
        """Restart with a private generator seeded by ``random_seed`` and ``seed``.

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

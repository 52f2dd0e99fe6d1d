"""Counter draws: random numbers that depend on a seed and on whole numbers, such as scene, track and frame, only."""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from l5kit._types import Float64Array
from l5kit.errors import InvalidArgumentError

_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def counter_uniforms(seed: int, *keys: ArrayLike) -> Float64Array:
    """Return a uniform number for each combination of whole numbers, whoever else is drawn for at the same time.

    Nothing is drawn from a generator: each number is a hash of the seed and its keys, by the finaliser of SplitMix64
    (Steele, Lea and Flood, 2014). It is the same in any order, batch, thread or process.

    Args:
        seed: At least 0, below 2 to the power of 64.
        *keys: Whole numbers, whose shapes broadcast; their order counts.

    Returns:
        At least 0 and below 1, float64, in the shape of the keys together.

    Raises:
        InvalidArgumentError: The seed is not in its range.
    """
    if not 0 <= seed < 2**64:
        raise InvalidArgumentError(f"seed is {seed}; it must be a whole number of at least 0, below 2**64")
    # a key goes in hashed, so that small keys differ in all bits; the step between keys makes their order count
    state = _hashed(np.full(1, seed, np.uint64))
    for key in keys:
        state = _hashed(state + _STEP + _hashed(np.asarray(key).astype(np.int64).view(np.uint64)))
    shape = np.broadcast_shapes(*(np.shape(key) for key in keys))
    # the upper 53 bits, all that a float64 of less than 1 can hold
    uniforms: Float64Array = np.multiply(state >> np.uint64(11), 2.0**-53, dtype=np.float64).reshape(shape)
    return uniforms


def _hashed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return whole numbers, all of whose bits depend on all of those given; products wrap around."""
    values = np.atleast_1d(values)
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))

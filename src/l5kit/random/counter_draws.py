"""Counter-based draws: random numbers that depend only on a seed and integer keys, such as scene, track and frame."""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from l5kit._types import Float64Array
from l5kit.errors import InvalidArgumentError

_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def counter_uniforms(seed: int, *keys: ArrayLike) -> Float64Array:
    """Return a uniform random number for each combination of integer keys, independent of all other draws.

    No generator state is used: each number is a hash of the seed and its keys by the SplitMix64 finaliser (Steele, Lea
    and Flood, 2014). Results do not depend on order, batch, thread or process.

    Args:
        seed: At least 0, below 2 to the power of 64.
        *keys: Integers, whose shapes broadcast; their order matters.

    Returns:
        Numbers in [0, 1), float64, in the broadcast shape of the keys.

    Raises:
        InvalidArgumentError: The seed is out of range.
    """
    if not 0 <= seed < 2**64:
        raise InvalidArgumentError(f"seed is {seed}; it must be a whole number of at least 0, below 2**64")
    # hash each key, so that small keys differ in all bits; hashing between keys makes their order matter
    state = _hashed(np.full(1, seed, np.uint64))
    for key in keys:
        state = _hashed(state + _STEP + _hashed(np.asarray(key).astype(np.int64).view(np.uint64)))
    shape = np.broadcast_shapes(*(np.shape(key) for key in keys))
    # the upper 53 bits, the most that a float64 below 1 can hold
    uniforms: Float64Array = np.multiply(state >> np.uint64(11), 2.0**-53, dtype=np.float64).reshape(shape)
    return uniforms


def _hashed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of integers, in which every output bit depends on every input bit; products wrap around."""
    values = np.atleast_1d(values)
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))

"""Seeds: random streams of processes, workers and objects."""

import numpy as np

from l5kit.errors import InvalidArgumentError


def derive_rng(seed: int, *, random_seed: int | None = None) -> np.random.Generator:
    """Return a generator whose stream depends on a worker's seed and on the seed of the object that draws from it.

    Equal arguments give equal streams. Streams of different arguments are independent of each other and of
    ``np.random.default_rng(random_seed)``.

    Args:
        seed: Seed of the worker, at least 0.
        random_seed: Seed of the object, at least 0; None if it has none.

    Raises:
        InvalidArgumentError: A seed is negative.
    """
    _check_seed("seed", seed)
    if random_seed is None:
        return np.random.default_rng(np.random.SeedSequence(int(seed)))
    _check_seed("random_seed", random_seed)
    return np.random.default_rng(np.random.SeedSequence(int(random_seed), spawn_key=(int(seed),)))


def split_seed(seed: int, num_seeds: int) -> list[int]:
    """Return seeds derived from one seed and independent of each other, one for each part of an object.

    Args:
        seed: At least 0.
        num_seeds: Number of seeds.

    Raises:
        InvalidArgumentError: ``seed`` is negative.
    """
    _check_seed("seed", seed)
    return [int(part) for part in np.random.SeedSequence(int(seed)).generate_state(num_seeds, np.uint64)]


def mix_seeds(*seeds: int) -> int:
    """Return one seed that depends on several seeds and their order, independent of the results for other seeds.

    Args:
        *seeds: Each at least 0.

    Returns:
        Seed of at least 0 and below 2 to the power of 63.

    Raises:
        InvalidArgumentError: A seed is negative.
    """
    for seed in seeds:
        _check_seed("a seed", seed)
    entropy = [len(seeds)]  # with the length of each seed in words, so that (1, 2**32) differs from (1, 0, 1)
    for seed in map(int, seeds):
        words = [seed >> shift & 0xFFFFFFFF for shift in range(0, max(seed.bit_length(), 1), 32)]
        entropy += [len(words), *words]
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]) >> 1


def _check_seed(name: str, seed: int) -> None:
    if seed < 0:
        raise InvalidArgumentError(f"{name} is {seed}; seeds are integers of at least 0")

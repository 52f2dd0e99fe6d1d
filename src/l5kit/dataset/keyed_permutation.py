"""Keyed permutation: the place of each of many things in a shuffled order, computed one by one without the order."""

from typing import Final

import numpy as np

from l5kit._types import Int64Array, UInt64Array

__all__ = ["permuted"]

_NUM_ROUNDS: Final = 8
_ROUND_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def permuted(numbers: Int64Array, sizes: Int64Array, keys: UInt64Array) -> Int64Array:
    """Return the image of each number under a permutation of as many numbers as its size, chosen by its key.

    It is an alternating Feistel network on a rectangle that holds the size, walked until it meets a number below the
    size (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002), with the mixing function of SplitMix64
    (Steele, Lea and Flood, 2014). Two numbers with the same size and key never have the same image.

    Args:
        numbers: From 0, below their sizes, (N,).
        sizes: At least 1 and below 2**52, (N,).
        keys: uint64, (N,).
    """
    images = np.array(numbers, dtype=np.int64)
    widths = np.ceil(np.sqrt(sizes)).astype(np.int64)
    heights = -(-sizes // widths)
    walking = np.arange(len(images))
    while len(walking):
        rectangles = widths[walking], heights[walking]
        images[walking] = _one_walk(images[walking], rectangles, keys[walking])
        walking = walking[images[walking] >= sizes[walking]]
    return images


def _one_walk(numbers: Int64Array, rectangles: tuple[Int64Array, Int64Array], keys: UInt64Array) -> Int64Array:
    """Return the images in rectangles of (widths, heights) (N,), row by row."""
    widths, heights = rectangles
    rows, columns = np.divmod(numbers, widths)
    rows, columns = rows.astype(np.uint64), columns.astype(np.uint64)
    wide, high = widths.astype(np.uint64), heights.astype(np.uint64)
    round_keys = keys.astype(np.uint64)
    for number in range(_NUM_ROUNDS):
        round_keys = round_keys + _ROUND_STEP
        if number % 2:
            rows = (rows + _mixed(columns ^ round_keys) % high) % high
        else:
            columns = (columns + _mixed(rows ^ round_keys) % wide) % wide
    images: Int64Array = (rows * wide + columns).astype(np.int64)
    return images


def _mixed(values: UInt64Array) -> UInt64Array:
    """Return numbers of 64 bits in which each bit of a value changes about half of the bits."""
    first, second = _MULTIPLIERS
    values = (values ^ (values >> np.uint64(30))) * first
    values = (values ^ (values >> np.uint64(27))) * second
    return values ^ (values >> np.uint64(31))

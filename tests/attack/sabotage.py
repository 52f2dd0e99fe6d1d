"""Samples spoiled on purpose, to see that the harness finds each outcome; a worker calls one of these by its name."""

import os
import time
from typing import Any

import numpy as np
from numba import njit

from l5kit.dataset import EgoDataset

_ORIGINAL = EgoDataset.__getitem__


def _spoil(method: Any) -> None:
    EgoDataset.__getitem__ = method  # type: ignore[method-assign]


def nothing() -> None:
    """Samples are as they should be."""
    _spoil(_ORIGINAL)


def another_scene() -> None:
    """All samples are those of the first frame."""
    _spoil(lambda self, index: _ORIGINAL(self, 0))


def another_value() -> None:
    """One number of a sample is off by a millimetre."""

    def spoiled(self: EgoDataset, index: int) -> dict[str, Any]:
        sample = _ORIGINAL(self, index)
        return sample | {"centroid": sample["centroid"] + np.array([0.001, 0.0])}

    _spoil(spoiled)


def raises_key_error() -> None:
    def spoiled(self: EgoDataset, index: int) -> None:
        raise KeyError(index)

    _spoil(spoiled)


def sleeps() -> None:
    _spoil(lambda self, index: time.sleep(3600))


def exits() -> None:
    _spoil(lambda self, index: os._exit(7))


def reads_where_nothing_is() -> None:
    def spoiled(self: EgoDataset, index: int) -> None:
        import ctypes

        ctypes.string_at(0)

    _spoil(spoiled)


def indexes_outside() -> None:
    """A kernel reads what lies behind an array, which only checks of bounds show."""
    kernel = njit(lambda array, index: array[index])
    _spoil(lambda self, index: kernel(np.zeros(3), 3))


def takes_memory() -> None:
    """Fills 450 MB, which is less than a worker may take and far more than it needs."""

    def spoiled(self: EgoDataset, index: int) -> Any:
        return int(np.ones(450 * 2**20, np.uint8)[0]) if index == 0 else _ORIGINAL(self, index)

    _spoil(spoiled)


def takes_all_memory() -> None:
    """Asks for more than a worker may take."""
    _spoil(lambda self, index: np.ones(2**40, np.uint8))

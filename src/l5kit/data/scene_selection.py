"""Scene selection: conversion of ``dataset[...]`` and ``scenes=`` arguments to scene indices."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from l5kit._types import BoolArray, Int64Array, NumericArray
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError

SceneSelection: TypeAlias = "int | slice | range | Sequence[int] | Int64Array | BoolArray | None"
"""Scenes of a dataset: an index, a slice, indices, a mask, or None for all; negative indices count from the end."""


def selected_scenes(scenes: SceneSelection, num_scenes: int, *, argument: str = "scenes") -> Int64Array:
    """Return the indices of selected scenes in the requested order, int64, shape (N,), all non-negative.

    Args:
        scenes: Index, slice, indices, mask of shape (``num_scenes``,), or None for all scenes.
        num_scenes: Number of scenes.
        argument: Name of the argument in errors.

    Raises:
        IndexOutOfRangeError: A scene does not exist.
        InvalidArgumentError: The value is not a selection of scenes.
    """
    if scenes is None:
        return np.arange(num_scenes, dtype=np.int64)
    if isinstance(scenes, slice):
        return np.arange(num_scenes, dtype=np.int64)[scenes]
    given: NumericArray = np.asarray(scenes)
    if given.dtype == bool and given.shape == (num_scenes,):
        return np.flatnonzero(given)
    if given.shape == (0,):
        return np.empty(0, dtype=np.int64)
    if given.ndim > 1 or given.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"{argument} must be a whole number, a slice, a list of such numbers or a mask of {num_scenes} scenes, "
            f"got {scenes!r}"
        )
    if given.dtype.kind == "u":
        given = np.minimum(given, np.uint64(np.iinfo(np.int64).max))  # avoid overflow to negative values
    indices: Int64Array = given.astype(np.int64).reshape(-1)

    # negative indices count from the end
    beyond = indices[(indices < -num_scenes) | (indices >= num_scenes)]
    if len(beyond):
        allowed = f"use {-num_scenes} to {num_scenes - 1}" if num_scenes else "open() it first if it lies on disk"
        raise IndexOutOfRangeError(
            f"{argument} names scene {int(beyond[0])}, but the dataset has {num_scenes} scenes; {allowed}"
        )
    return np.where(indices < 0, indices + num_scenes, indices)

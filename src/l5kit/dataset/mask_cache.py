"""Agents mask of a dataset: stored in it, cached in the user's cache folder, or computed."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np

from l5kit._types import UInt32Array
from l5kit._warning import warn_caller
from l5kit.data.jobs.scene_jobs import Workers
from l5kit.data.stores.npy_files import keep_npy, kept_npy
from l5kit.data.user_cache import CACHE_DIR_ENV_KEY, cache_folder, hold_lock
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.select_agents.stored_mask import read_stored_mask
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_readable_mask

_MASK_VERSION = 1

Progress = Callable[[int, int], None]


def load_or_compute_mask(
    dataset: ChunkedDataset,
    thresholds: MaskThresholds,
    *,
    progress: Progress | None = None,
    strict: bool = False,
    workers: Workers = 1,
) -> UInt32Array:
    """Return the agents mask (N, 2) of a dataset.

    A mask stored in the dataset is used if its length and thresholds fit. A computed mask is cached in the cache
    folder, under a digest of the files of the dataset and the thresholds. One process computes it while others wait;
    the file is written atomically. Masks of in-memory and of damaged datasets are not cached. A damaged dataset gives a
    ``RuntimeWarning``, and the agents of its damaged scenes are rejected.

    Args:
        dataset: An opened dataset.
        thresholds: Conditions for a valid agent row.
        progress: Called with the number of finished scenes and of all scenes, while the mask is computed.
        strict: Refuse a damaged dataset.
        workers: Number of threads that compute it, or an executor; see :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.

    Raises:
        CorruptedDataError: The scenes cannot be read, or all scenes are damaged; with ``strict``, if any is.
    """
    return mask_and_whether_kept(dataset, thresholds, progress=progress, strict=strict, workers=workers)[0]


def mask_and_whether_kept(
    dataset: ChunkedDataset,
    thresholds: MaskThresholds,
    *,
    progress: Progress | None = None,
    strict: bool = False,
    workers: Workers = 1,
) -> tuple[UInt32Array, bool]:
    """Return the agents mask (N, 2) of a dataset, and whether other processes can read it from disk.

    Arguments and errors are those of :func:`load_or_compute_mask`.
    """
    mask, problem = read_stored_mask(dataset, thresholds)
    if mask is not None:
        return np.asarray(mask, dtype=np.uint32), True
    if problem:
        warn_caller(f"{problem}; it is computed anew")
    # do not cache the mask of a log without an identity, or one with missing scenes
    fingerprint = dataset.fingerprint()
    if fingerprint is None:
        return _compute(dataset, thresholds, progress, strict, workers)[0], False
    values = sorted((name, float(value)) for name, value in thresholds.as_attributes().items())
    digest = sha256(repr((_MASK_VERSION, fingerprint, values)).encode()).hexdigest()
    file = cache_folder() / "agents_mask" / f"{digest}.npy"
    shape = (len(dataset.agents), 2)
    mask = kept_npy(file, dtype="<u4", shape=shape)
    if mask is not None:
        return mask, True

    # one of several processes computes it; the others wait for the lock and find the file
    with hold_lock(file.with_suffix(".lock")) as problem:
        mask = None if problem else kept_npy(file, dtype="<u4", shape=shape)
        if mask is not None:
            return mask, True
        warn_caller(
            f"the agents mask of {dataset.path!r} has to be computed, which takes a while; {_fate(file, problem)}"
        )
        computed, is_complete = _compute(dataset, thresholds, progress, strict, workers)
        if problem or not is_complete:
            return computed, False
        try:
            keep_npy(file, computed.astype("<u4", copy=False))
        except OSError as error:
            warn_caller(f"the agents mask of {dataset.path!r} was computed, but {_fate(file, str(error))}")
            return computed, False
        return computed, True


def _compute(
    dataset: ChunkedDataset, thresholds: MaskThresholds, progress: Progress | None, strict: bool, workers: Workers
) -> tuple[UInt32Array, bool]:
    """Return the mask, and whether it covers all scenes; raise an error if no scene can be read."""
    mask, _, errors = compute_readable_mask(dataset, thresholds, progress=progress, strict=strict, workers=workers)
    if errors:
        scene, error = next(iter(errors.items()))
        if len(errors) == len(dataset.scenes):
            raise error
        warn_caller(
            f"the agents mask of {dataset.path or 'a log in memory'!r} takes no agent of {len(errors)} damaged scenes "
            f"(scene {scene}: {error}) and is not kept"
        )
    return mask, not errors


def _fate(file: Path, problem: str) -> str:
    if not problem:
        return f"it is kept in {file.parent} if no scene is damaged"
    return f"it cannot be kept in {file.parent} ({problem}); set {CACHE_DIR_ENV_KEY} to a folder with space"

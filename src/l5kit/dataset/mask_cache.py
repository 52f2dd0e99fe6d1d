"""The agents mask of a dataset: from the dataset itself, from the user's cache folder, or computed."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np
from filelock import FileLock
from platformdirs import user_cache_dir

from l5kit._files import replaced_when_complete
from l5kit._types import UInt32Array
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.select_agents.stored_mask import read_stored_mask
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask

CACHE_DIR_ENV_KEY = "L5KIT_CACHE_DIR"
"""Environment variable that names the cache folder, in place of the usual one of the platform."""

_MASK_VERSION = 1
_BYTES_PER_ROW = 8

Progress = Callable[[int, int], None]


def cache_folder() -> Path:
    """Return the folder for what l5kit keeps between runs; it may not exist yet."""
    return Path(os.environ.get(CACHE_DIR_ENV_KEY) or user_cache_dir("l5kit", appauthor=False))


def load_or_compute_mask(
    dataset: ChunkedDataset, thresholds: MaskThresholds, *, progress: Progress | None = None
) -> UInt32Array:
    """Return the agents mask (N, 2) of a dataset.

    A mask stored in the dataset is read if its length and thresholds fit. One that has to be computed is kept in the
    cache folder, under a digest of the dataset's files and the thresholds. One process computes it while others wait;
    it is renamed to its name when it is complete, so that none reads half of it. For a dataset in memory nothing is
    kept.

    Args:
        dataset: An opened dataset.
        thresholds: What an agent row must keep to be valid.
        progress: Called with the number of scenes done and of all scenes, while the mask is computed.
    """
    mask, problem = read_stored_mask(dataset, thresholds)
    if mask is not None:
        return np.asarray(mask, dtype=np.uint32)
    if problem:
        warnings.warn(f"{problem}; it is computed anew", RuntimeWarning, stacklevel=5)
    fingerprint = dataset.fingerprint()
    if fingerprint is None:
        return compute_agents_mask(dataset, thresholds, progress=progress)[0]
    file = cache_folder() / "agents_mask" / f"{_digest(fingerprint, thresholds)}.npy"
    mask = _read_cached(file, len(dataset.agents))
    if mask is not None:
        return mask
    with _lock_of(file) as problem:
        return _compute_unless_kept(file, problem, dataset, thresholds, progress)


@contextmanager
def _lock_of(file: Path) -> Iterator[str]:
    """Hold the lock of a file of the cache; yield why nothing can be kept there, or an empty text."""
    lock, problem = FileLock(file.with_suffix(".lock")), ""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError) as error:  # some network file systems know no locks
        problem = str(error)
    try:
        yield problem
    finally:
        lock.release()


def _compute_unless_kept(
    file: Path, problem: str, dataset: ChunkedDataset, thresholds: MaskThresholds, progress: Progress | None
) -> UInt32Array:
    """Return the mask that another process has kept meanwhile, else a computed one, kept if there is no problem."""
    kept = None if problem else _read_cached(file, len(dataset.agents))
    if kept is not None:
        return kept
    _warn(f"the agents mask of {dataset.path!r} has to be computed, which takes a while; {_fate(file, problem)}")
    mask = compute_agents_mask(dataset, thresholds, progress=progress)[0]
    if problem:
        return mask
    try:
        _write_whole(file, mask)
    except OSError as error:
        _warn(f"the agents mask of {dataset.path!r} was computed, but {_fate(file, str(error))}")
    return mask


def _fate(file: Path, problem: str) -> str:
    if not problem:
        return f"it is kept in {file.parent}"
    return f"it cannot be kept in {file.parent} ({problem}); set {CACHE_DIR_ENV_KEY} to a folder with space"


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=7)


def _read_cached(file: Path, num_agents: int) -> UInt32Array | None:
    """Return a kept mask, mapped into memory; None if there is none that can be read and fits."""
    header = _npy_header(num_agents)
    try:
        with file.open("rb") as opened:
            is_whole = os.fstat(opened.fileno()).st_size == len(header) + num_agents * _BYTES_PER_ROW
            if not is_whole or opened.read(len(header)) != header:
                return None
            return np.memmap(opened, dtype="<u4", mode="r", offset=len(header), shape=(num_agents, 2))
    except OSError:
        return None


def _write_whole(file: Path, mask: UInt32Array) -> None:
    """Write a mask under a temporary name and rename it; the lock of the file must be held."""
    for left_by_killed in file.parent.glob(f".*-{file.name}"):
        left_by_killed.unlink(missing_ok=True)
    with replaced_when_complete(file) as temporary, temporary.open("wb") as opened:
        opened.write(_npy_header(len(mask)))
        opened.write(mask.astype("<u4", copy=False).data)


def _npy_header(num_agents: int) -> bytes:
    """Return how the ``.npy`` file of a mask begins."""
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<u4", "fortran_order": False, "shape": (num_agents, 2)})
    return header.getvalue()


def _digest(fingerprint: str, thresholds: MaskThresholds) -> str:
    values = sorted((name, float(value)) for name, value in thresholds.as_attributes().items())
    return sha256(repr((_MASK_VERSION, fingerprint, values)).encode()).hexdigest()

"""User cache: the folder for data that l5kit keeps between runs, and its locks."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from filelock import FileLock
from numpy.typing import DTypeLike

from l5kit._cache_folders import temporary_cache_folder, usual_cache_folder
from l5kit._types import NumericArray

CACHE_DIR_ENV_KEY = "L5KIT_CACHE_DIR"
"""Environment variable that overrides the cache folder of the platform."""

LARGE_NUM_BYTES = 1 << 28
"""Minimum size in bytes of arrays that are stored in files."""


def scratch_array(shape: tuple[int, ...], dtype: DTypeLike) -> NumericArray:
    """Return an array of zeros; large ones are backed by an unnamed file, so that the system may page them out.

    The file is in the cache folder and disappears with the array. If it cannot be created, the array is in memory.
    """
    num_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if num_bytes < LARGE_NUM_BYTES:
        return np.zeros(shape, dtype)
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_folder()) as file:
            return np.memmap(file, dtype=dtype, mode="w+", shape=shape).view(np.ndarray)
    except OSError:
        return np.zeros(shape, dtype)


def cache_folder() -> Path:
    """Return the folder for data that l5kit keeps between runs; it may not exist yet.

    For users without a writable home it is a temporary folder. If there is none either, the path cannot be created, and
    callers have to handle that.
    """
    named = os.environ.get(CACHE_DIR_ENV_KEY)
    return (
        Path(named) if named else usual_cache_folder("l5kit") or temporary_cache_folder() or Path(os.devnull, "l5kit")
    )


def key_of(text: str, num_digits: int = 16) -> str:
    """Return the first hexadecimal digits (of 64) of the SHA-256 of a text, as a cache key."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:num_digits]


@contextmanager
def hold_lock(file: Path, *, wait: bool = True) -> Iterator[str]:
    """Hold an exclusive inter-process lock of the cache, and create its folder.

    Args:
        file: Lock file. The lock of a killed process is released; the file stays.
        wait: Wait until the lock is free.

    Yields:
        Reason why nothing can be cached (or that the lock is taken); an empty text if the lock is held.
    """
    lock, problem = FileLock(file), ""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=-1 if wait else 0)
    except (OSError, NotImplementedError) as error:  # some network file systems do not support locks
        problem = str(error)
    try:
        yield problem
    finally:
        lock.release()

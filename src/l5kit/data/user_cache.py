"""The folder for what l5kit keeps between runs, and the locks in it."""

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
"""Environment variable that names the cache folder, in place of the usual one of the platform."""

LARGE_NUM_BYTES = 1 << 28
"""Bytes of an array from which on it lies in a file."""


def scratch_array(shape: tuple[int, ...], dtype: DTypeLike) -> NumericArray:
    """Return an array of zeros: a large one in a file without a name, so that the system may take its pages to disk.

    The file lies in the cache folder, and is gone with the array. Where it cannot be made the array lies in memory.
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
    """Return the folder for what l5kit keeps between runs; it may not exist yet.

    It is a temporary one for users without a home, or with one that cannot be written to; where there is none either,
    it is one that cannot be made, which whoever keeps something has to bear.
    """
    named = os.environ.get(CACHE_DIR_ENV_KEY)
    return (
        Path(named) if named else usual_cache_folder("l5kit") or temporary_cache_folder() or Path(os.devnull, "l5kit")
    )


def key_of(text: str, num_digits: int = 16) -> str:
    """Return the first hexadecimal digits (64 are all) of the SHA-256 of a text, which name what is kept for it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:num_digits]


@contextmanager
def hold_lock(file: Path, *, wait: bool = True) -> Iterator[str]:
    """Hold a lock of the cache, which only one process holds at a time, and make its folder.

    Args:
        file: The lock file. A process that is killed gives the lock back; the file stays.
        wait: Wait for whoever holds it.

    Yields:
        Why nothing can be kept in the folder (or that somebody holds the lock); an empty text if the lock is held.
    """
    lock, problem = FileLock(file), ""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=-1 if wait else 0)
    except (OSError, NotImplementedError) as error:  # some network file systems know no locks
        problem = str(error)
    try:
        yield problem
    finally:
        lock.release()

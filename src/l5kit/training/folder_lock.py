"""Locks of folders that a training or a sweep writes to, so that no two processes write to one at a time.

The folder itself is locked: no file is left behind, and the kernel gives the lock back however the process ends. Where
the system or the file system knows no such locks, nothing is held.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from l5kit.errors import InvalidArgumentError

try:
    import fcntl
except ImportError:  # Windows locks no folders
    fcntl = None  # type: ignore[assignment]

__all__ = ["hold_folder"]


@contextmanager
def hold_folder(folder: Path, *, may_make: bool) -> Iterator[None]:
    """Hold the lock of a folder in a block; of one that is not there nothing is held.

    Args:
        folder: The folder.
        may_make: Whether it is made where nothing has its name.

    Raises:
        InvalidArgumentError: Another process holds it.
    """
    if may_make and not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
    descriptor = _locked(folder) if folder.is_dir() else None
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _locked(folder: Path) -> int | None:
    """Return the descriptor of a folder whose lock is held as long as it is open; None where there are no locks."""
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise InvalidArgumentError(
            f"folder is {str(folder)!r}, to which another process writes a training now; wait until it has ended, or "
            "name another folder"
        ) from error
    except OSError:  # some network file systems know no locks
        os.close(descriptor)
        return None
    return descriptor

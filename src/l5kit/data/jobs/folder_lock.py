"""Checks and locks of output folders: a single writing process, and no foreign files."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from l5kit._files import clear_leftovers_in
from l5kit.errors import InvalidArgumentError

LOCK_FILE: Final = ".lock"
"""Name of the lock file in a folder."""

_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Errors by which network file systems report that they do not support locks."""

_RANKS: Final = ("LOCAL_RANK", "RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID")
"""Variables with the rank of a process or machine, set by Lightning, torchrun and Slurm."""


def is_main_process() -> bool:
    """Return whether this is the first process of the first machine; only it writes, although Lightning starts more."""
    return all(os.environ.get(name, "0") == "0" for name in _RANKS)


def require_unused(folder: Path) -> None:
    """Refuse a folder with files for a new training; leftovers of writes by killed processes are removed.

    Args:
        folder: The folder, which need not exist.

    Raises:
        InvalidArgumentError: It holds other files, or is a file.
    """
    if folder.is_dir():
        clear_leftovers_in(folder)
    if folder.exists() and (not folder.is_dir() or any(file.name != LOCK_FILE for file in folder.iterdir())):
        raise InvalidArgumentError(
            f"folder is {str(folder)!r}, which holds files; name another, or resume to continue from them"
        )


@contextmanager
def hold_folder(folder: Path, *, may_make: bool) -> Iterator[None]:
    """Keep other processes from writing a training or a sweep to a folder; a missing folder is not locked.

    Args:
        folder: The folder.
        may_make: Whether it is created if it does not exist.

    Raises:
        InvalidArgumentError: Another process holds it.
    """
    if may_make and not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
    busy = (
        f"folder is {str(folder)!r}, to which another process is writing a training; wait until it has ended, or name "
        "another folder"
    )
    with held_alone(folder / LOCK_FILE, busy) if folder.is_dir() else nullcontext():
        yield


@contextmanager
def held_alone(lock_file: Path, otherwise: str) -> Iterator[None]:
    """Hold a lock file during the block and remove it afterwards; no-op on file systems without locks.

    Args:
        lock_file: The file, in an existing folder.
        otherwise: Text of the error if another process holds it.

    Raises:
        InvalidArgumentError: Another process holds it.
    """
    lock = FileLock(lock_file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InvalidArgumentError(otherwise) from None
    except NotImplementedError:
        pass
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    try:
        yield
    finally:
        with suppress(OSError):  # Windows does not remove open files
            lock_file.unlink(missing_ok=True)  # while held, so that it cannot be another process's
        lock.release(force=True)

"""Whether a folder may be written to: one process at a time does so, and nothing of others is in it."""

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
"""Name of the lock of a folder in it."""

_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP})
"""How network file systems say that they have no locks."""

_RANKS: Final = ("LOCAL_RANK", "RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID")
"""Variables by which Lightning, torchrun and Slurm tell a process or a machine its number."""


def is_main_process() -> bool:
    """Return whether this is the first process of the first machine, which alone writes; Lightning adds others."""
    return all(os.environ.get(name, "0") == "0" for name in _RANKS)


def require_unused(folder: Path) -> None:
    """Refuse to write a new training to a folder that holds files; what a killed process has left of writing goes.

    Args:
        folder: The folder, which need not be there.

    Raises:
        InvalidArgumentError: It holds others, or is a file.
    """
    if folder.is_dir():
        clear_leftovers_in(folder)
    if folder.exists() and (not folder.is_dir() or any(file.name != LOCK_FILE for file in folder.iterdir())):
        raise InvalidArgumentError(
            f"folder is {str(folder)!r}, which holds files; name another, or resume to go on with what is in it"
        )


@contextmanager
def hold_folder(folder: Path, *, may_make: bool) -> Iterator[None]:
    """Keep other processes from writing a training or a sweep to a folder; of one that is not there nothing is held.

    Args:
        folder: The folder.
        may_make: Whether it is made where nothing has its name.

    Raises:
        InvalidArgumentError: Another process holds it.
    """
    if may_make and not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
    busy = (
        f"folder is {str(folder)!r}, to which another process writes a training now; wait until it has ended, or name "
        "another folder"
    )
    with held_alone(folder / LOCK_FILE, busy) if folder.is_dir() else nullcontext():
        yield


@contextmanager
def held_alone(lock_file: Path, otherwise: str) -> Iterator[None]:
    """Hold a lock file in the block, and remove it at the end; where the file system knows no locks, do nothing.

    Args:
        lock_file: The file, in a folder that is there.
        otherwise: What the error says where another process holds it.

    Raises:
        InvalidArgumentError: One does.
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
        with suppress(OSError):  # Windows removes no open file
            lock_file.unlink(missing_ok=True)  # while it is held, so that it is nobody else's
        lock.release(force=True)

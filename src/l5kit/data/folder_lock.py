"""Lock of a folder: one process at a time writes into it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from l5kit.errors import InvalidArgumentError

__all__ = ["held_alone"]


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
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file
            lock_file.unlink(missing_ok=True)  # while it is held, so that it is nobody else's
        lock.release(force=True)

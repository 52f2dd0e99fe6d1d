"""Atomic writes of files and folders, and cleanup of the leftovers of killed writers.

Output is written to a scratch folder next to its target, ``.NAME.RANDOM.part``, and moved to the target when it is
complete. The owner of a scratch folder holds a lock on a file in it. A lock is more reliable than a process id in a
name: the kernel releases it when the owner ends, however it ends; it is visible across containers, which have separate
process ids; and on a file system without locks, no lock is mistaken for a free one. Only on shared folders with
separate locks for each machine would a lock of another machine seem free. Scratch folders of other machines are
therefore kept for a day.
"""

import json
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

if TYPE_CHECKING:
    from filelock import BaseFileLock

_SUFFIX = ".part"
_LOCK = "owner.lock"
_HOST = "owner.txt"
_REPLACED = "replaced"
_OTHERS_LEFT_ALONE_S = 24 * 3600.0
_SCRATCH = re.compile(rf"\.(?P<target>.+)\.[^.]+{re.escape(_SUFFIX)}", re.DOTALL)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@contextmanager
def replaced_when_complete(path: str | os.PathLike[str], *, argument: str = "output_filepath") -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` when the block ends without an error.

    After an error, the temporary file is removed and an existing file stays unchanged. The temporary file has the final
    name, because video writers choose the container by it. The block creates the file, so that it has the permissions
    of any new file. Leftovers of killed writers of the same file are removed.

    Args:
        path: Path of the output file.
        argument: Name of the user's argument that holds ``path``, for error messages.

    Raises:
        FileNotFoundError: The folder of ``path`` does not exist.
        IsADirectoryError: ``path`` is a folder.
    """
    target = Path(path)
    require_file_path(target, argument=argument)
    clear_leftovers(target)
    with placed_when_complete(target) as temporary:
        yield temporary


def require_file_path(target: Path, *, argument: str) -> None:
    """Refuse a path at which no file can be written.

    Args:
        target: The path.
        argument: Name of the user's argument that holds the path, for error messages.

    Raises:
        FileNotFoundError: The folder of the path does not exist.
        IsADirectoryError: The path is a folder.
    """
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{argument} {str(target)!r}: the folder {str(target.parent)!r} does not exist; create it first"
        )
    if target.is_dir():
        raise IsADirectoryError(f"{argument} {str(target)!r} is a folder; give the name of a file in it")


def write_json(
    path: str | os.PathLike[str], content: object, *, argument: str = "folder", allow_nan: bool = True
) -> None:
    """Write a JSON value to a file, indented, atomically.

    Args:
        path: The file.
        content: The JSON value.
        argument: Name of the user's argument that holds the path, for error messages.
        allow_nan: Write NaN and infinity, which standard JSON does not have.

    Raises:
        FileNotFoundError: The folder of ``path`` does not exist.
        ValueError: ``content`` holds NaN or infinity, and ``allow_nan`` is False.
    """
    with replaced_when_complete(path, argument=argument) as temporary:
        temporary.write_text(json.dumps(content, indent=2, allow_nan=allow_nan) + "\n", encoding="utf-8")


@contextmanager
def placed_when_complete(
    target: Path, *, may_replace: bool = True, is_synced: bool = False, scratch_by: Path | None = None
) -> Iterator[Path]:
    """Yield a temporary path for a file or folder that moves to its target when the block ends without an error.

    The block creates the content under the final name; an existing target is replaced only at the end. The caller must
    clear leftovers of killed writers before it checks whether the target exists.

    Args:
        target: Final path; its parent folders are created.
        may_replace: Whether to replace an existing target. Otherwise, one of several writers of a folder wins.
        is_synced: Whether the new name must survive a power failure, if the system supports it; the block syncs its
            content.
        scratch_by: Path next to which the temporary path is created, on the same file system; None for ``target``.

    Raises:
        FileExistsError: The target exists at the end, and ``may_replace`` is False.
    """
    anchor = scratch_by or target
    anchor.parent.mkdir(parents=True, exist_ok=True)
    with scratch_beside(anchor) as scratch:
        complete = scratch / target.name
        yield complete
        target.parent.mkdir(parents=True, exist_ok=True)
        publish(complete, target, scratch=scratch, may_replace=may_replace)
        if is_synced:
            sync_folder(target.parent)


@contextmanager
def scratch_beside(target: Path) -> Iterator[Path]:
    """Yield a new folder next to a target, on the same file system, which is removed at the end.

    Args:
        target: The target, whose parent folder exists.

    Raises:
        PermissionError: The parent folder is not writable.
    """
    from filelock import FileLock  # imported here, since reading a configuration needs no locks

    while True:
        scratch = target.parent / f".{target.name}.{secrets.token_hex(4)}{_SUFFIX}"
        lock = FileLock(scratch / _LOCK)
        # Called once, at interpreter exit at the latest: a generator that is still suspended is closed after that, when
        # the modules that remove folders are gone.
        remove = finalize(lock, _remove, scratch, target, lock)
        try:  # before the folder exists, so that an interruption at any moment leaves nothing behind
            try:
                scratch.mkdir(mode=0o700)
            except FileExistsError:
                remove.detach()
                continue
            except PermissionError as error:
                raise PermissionError(
                    f"{str(target)!r} cannot be written: the folder {str(target.parent)!r} is not writable; name "
                    "one that is"
                ) from error
            if _own(scratch, lock):
                yield scratch
                return
        finally:
            remove()


def _own(scratch: Path, lock: "BaseFileLock") -> bool:
    """Lock a new folder and write its owner; return False if another process has already cleared it as a leftover."""
    from filelock import Timeout

    with suppress(Timeout, OSError, NotImplementedError):  # some file systems have no locks
        lock.acquire(timeout=0)
    try:
        (scratch / _HOST).write_text("\n".join(_this_machine()), "utf-8")
    except FileNotFoundError:
        return False
    return not lock.is_locked or (scratch / _LOCK).exists()


def publish(complete: Path, target: Path, *, scratch: Path, may_replace: bool = True) -> None:
    """Move complete output to its target; an existing target is replaced, and restored if the move fails.

    A file replaces a file in one step. An existing folder is moved away first.

    Args:
        complete: File or folder in ``scratch``.
        target: Final path.
        scratch: From :func:`scratch_beside`.
        may_replace: Whether to replace an existing target.

    Raises:
        FileExistsError: The target exists, and ``may_replace`` is False.
    """
    if not may_replace:
        problem = f"{target} exists; another process has just written it"
        if os.path.lexists(target):
            raise FileExistsError(problem)
        try:
            os.rename(complete, target)
        except OSError as error:
            if os.path.lexists(target):
                raise FileExistsError(problem) from error
            raise
    elif (target.is_dir() or complete.is_dir()) and os.path.lexists(target):
        # no system replaces one folder by another, so the old one is moved to the scratch folder first
        os.replace(target, scratch / _REPLACED)
        try:
            os.replace(complete, target)
        except OSError:
            os.replace(scratch / _REPLACED, target)
            raise
    else:
        os.replace(complete, target)


def remove_whole(folder: Path) -> None:
    """Remove a folder after renaming it, so that no process sees it partially removed.

    Raises:
        OSError: The folder is in use, on some systems, or may not be removed.
    """
    with scratch_beside(folder) as scratch:
        os.replace(folder, scratch / folder.name)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names in it survive a power failure, if the system supports it."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def clear_leftovers(target: Path) -> None:
    """Remove leftovers of killed writers of a file or folder; scratch folders of running writers are kept.

    If a writer was killed between the two moves of :func:`publish`, the previous content is restored.

    Args:
        target: Target of the writers. No effect if its folder cannot be read or changed.
    """
    from filelock import FileLock, Timeout

    for scratch, name in _scratch_folders(target.parent):
        if name != target.name or not _may_be_judged(scratch):
            continue
        lock = FileLock(scratch / _LOCK)
        with suppress(Timeout, OSError, NotImplementedError):
            lock.acquire(timeout=0)
        if not lock.is_locked:
            continue
        if not os.path.lexists(target):
            with suppress(OSError):
                os.replace(scratch / _REPLACED, target)
        _remove(scratch, target, lock)


def clear_leftovers_in(folder: Path) -> None:
    """Remove leftovers of killed writers of all files and folders in a folder; see :func:`clear_leftovers`."""
    for name in sorted({name for _, name in _scratch_folders(folder)}):
        clear_leftovers(folder / name)


def is_scratch(folder: Path) -> bool:
    """Return whether a folder is the scratch folder of a running or killed writer, by its name and content."""
    return _SCRATCH.fullmatch(folder.name) is not None and any((folder / name).is_file() for name in (_LOCK, _HOST))


def _scratch_folders(folder: Path) -> list[tuple[Path, str]]:
    """Return the scratch folders in a folder, and the name of the target of each."""
    try:
        with os.scandir(folder) as entries:
            matches = [(Path(entry.path), _SCRATCH.fullmatch(entry.name)) for entry in entries]
    except OSError:
        return []
    return [(path, match["target"]) for path, match in matches if match]


def _may_be_judged(scratch: Path) -> bool:
    """Return whether the lock of a scratch folder is reliable for its owner, or the folder is old enough."""
    with suppress(OSError):
        owner = (scratch / _HOST).read_text("utf-8").split("\n")
        if (scratch / _LOCK).is_file() and not set(_this_machine()).isdisjoint(owner):
            return True
    with suppress(OSError, ValueError):  # the writer has just finished
        newest = max(path.lstat().st_mtime for path in (scratch, *scratch.rglob("*")))
        return time.time() - newest > _OTHERS_LEFT_ALONE_S
    return False


def _this_machine() -> list[str]:
    """Return the names of this machine: host name, and boot id of the kernel, which its containers share."""
    names = [platform.node()]
    with suppress(OSError):
        names.append(_BOOT_ID.read_text("utf-8").strip())
    return [name for name in names if name]


def _remove(scratch: Path, target: Path, lock: "BaseFileLock") -> None:
    """Remove a scratch folder and release its lock; a replaced target that could not be restored stays in it."""
    if os.path.lexists(scratch / _REPLACED) and not os.path.lexists(target):
        lock.release(force=True)
        return
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        lock.release(force=True)
        shutil.rmtree(scratch, ignore_errors=True)  # on Windows, open files cannot be removed
    except OSError as error:
        # rmtree closes a folder twice if Ctrl-C interrupts closing it; the next writer clears the rest
        if isinstance(error.__context__, KeyboardInterrupt | SystemExit):
            raise error.__context__ from None
        raise

"""Files and folders that are either written whole or not at all, and what killed writers leave behind.

Whatever is written comes to be in a scratch folder beside its place, ``.NAME.RANDOM.part``, and moves there when it is
complete. The owner of a scratch folder holds a lock on a file in it. The lock, other than a number of a process in a
name, needs no guessing: the kernel gives it back when the owner ends, however it ends; it is seen from containers, in
which processes have other numbers; and where a file system knows no locks, nobody takes one for free. Only on shared
folders that keep the locks of each machine apart would one seem free that another machine holds. What another machine
has made is therefore left alone for a day.
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
    """Hand out a temporary path near ``path`` that takes its place when the block ends without an error.

    After an error the temporary file is removed and an older file of the wanted name stays as it was. The temporary
    file has the wanted name, because video writers choose the container by it. The block makes the file itself, so
    that its permissions are those of any new file. What killed writers of the same file have left is removed.

    Args:
        path: The wanted name.
        argument: What the caller's caller knows ``path`` as, for the errors.

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
    """Refuse a path that no file can be written to.

    Args:
        target: The path.
        argument: What the caller's caller knows it as, for the errors.

    Raises:
        FileNotFoundError: Its folder does not exist.
        IsADirectoryError: It is a folder.
    """
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{argument} {str(target)!r}: the folder {str(target.parent)!r} does not exist; make it first"
        )
    if target.is_dir():
        raise IsADirectoryError(f"{argument} {str(target)!r} is a folder; give the name of a file in it")


def write_json(
    path: str | os.PathLike[str], content: object, *, argument: str = "folder", allow_nan: bool = True
) -> None:
    """Write what JSON holds, human-readable, whole or not at all.

    Args:
        path: The file.
        content: What it is to hold.
        argument: What the caller's caller knows the path as, for the errors.
        allow_nan: Write NaN and infinity, which JSON itself does not have.

    Raises:
        FileNotFoundError: The folder of ``path`` does not exist.
        ValueError: There is a NaN or infinity, and ``allow_nan`` is False.
    """
    with replaced_when_complete(path, argument=argument) as temporary:
        temporary.write_text(json.dumps(content, indent=2, allow_nan=allow_nan) + "\n", encoding="utf-8")


@contextmanager
def placed_when_complete(
    target: Path, *, may_replace: bool = True, is_synced: bool = False, scratch_by: Path | None = None
) -> Iterator[Path]:
    """Hand out a temporary path for a file or folder that moves to its place when the block ends without an error.

    The block makes what is to be there, under the wanted name; what is in the place goes only then. What killed
    writers have left is for the caller to clear, before it asks whether the place is free.

    Args:
        target: The place; folders around it are made.
        may_replace: Let it take the place of what is there. Otherwise, of several writers of a folder one wins.
        is_synced: Let the new name outlast a power failure, where the system can; the block syncs what it writes.
        scratch_by: Place beside which the temporary path lies, on the same file system; None for ``target``.

    Raises:
        FileExistsError: There is something at the end, and ``may_replace`` is False.
    """
    beside = scratch_by or target
    beside.parent.mkdir(parents=True, exist_ok=True)
    with scratch_beside(beside) as scratch:
        complete = scratch / target.name
        yield complete
        target.parent.mkdir(parents=True, exist_ok=True)
        publish(complete, target, scratch=scratch, may_replace=may_replace)
        if is_synced:
            sync_folder(target.parent)


@contextmanager
def scratch_beside(target: Path) -> Iterator[Path]:
    """Hand out a new folder beside a place, on the same file system, which is removed at the end.

    Args:
        target: The place, whose parent exists.

    Raises:
        PermissionError: The folder of the place may not be written to.
    """
    from filelock import FileLock  # here, since reading a configuration needs no locks

    while True:
        scratch = target.parent / f".{target.name}.{secrets.token_hex(4)}{_SUFFIX}"
        lock = FileLock(scratch / _LOCK)
        # called once, and at the end of Python at the latest: a block that nobody has left is closed after that, when
        # the modules whose functions remove folders are gone
        remove = finalize(lock, _remove, scratch, target, lock)
        try:  # before the folder is there, so that an interruption at any moment leaves nothing
            try:
                scratch.mkdir(mode=0o700)
            except FileExistsError:
                remove.detach()
                continue
            except PermissionError as error:
                raise PermissionError(
                    f"{str(target)!r} cannot be made: the folder {str(target.parent)!r} may not be written to; name "
                    "one that may"
                ) from error
            if _own(scratch, lock):
                yield scratch
                return
        finally:
            remove()


def _own(scratch: Path, lock: "BaseFileLock") -> bool:
    """Show in a new folder whose it is; return False if somebody who clears leftovers has come before."""
    from filelock import Timeout

    with suppress(Timeout, OSError, NotImplementedError):  # some file systems know no locks
        lock.acquire(timeout=0)
    try:
        (scratch / _HOST).write_text("\n".join(_this_machine()), "utf-8")
    except FileNotFoundError:
        return False
    return not lock.is_locked or (scratch / _LOCK).exists()


def publish(complete: Path, target: Path, *, scratch: Path, may_replace: bool = True) -> None:
    """Move what is complete to its place; what is there goes, and comes back where the move fails.

    A file takes the place of a file in one step. A folder that is there is moved away first.

    Args:
        complete: File or folder in ``scratch``.
        target: Its place.
        scratch: From :func:`scratch_beside`.
        may_replace: Let it take the place of what is there.

    Raises:
        FileExistsError: There is something, and ``may_replace`` is False.
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
        # no system puts a folder in the place of another one, so that what is there waits beside it
        os.replace(target, scratch / _REPLACED)
        try:
            os.replace(complete, target)
        except OSError:
            os.replace(scratch / _REPLACED, target)
            raise
    else:
        os.replace(complete, target)


def remove_whole(folder: Path) -> None:
    """Remove a folder under another name, so that nobody finds half of it.

    Raises:
        OSError: It is in use, as a system may have it, or may not be removed.
    """
    with scratch_beside(folder) as scratch:
        os.replace(folder, scratch / folder.name)


def sync_folder(folder: Path) -> None:
    """Let the names in a folder outlast a power failure, where the system can."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def clear_leftovers(target: Path) -> None:
    """Remove what writers of a file or folder have left that were killed; those that are at work keep theirs.

    A writer that was killed between the two moves of :func:`publish` has taken away what was there: it is put
    back.

    Args:
        target: The place that they wrote to. Nothing happens where its folder cannot be read or changed.
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
    """Remove what writers of any file or folder in a folder have left, as :func:`clear_leftovers` does for one."""
    for name in sorted({name for _, name in _scratch_folders(folder)}):
        clear_leftovers(folder / name)


def is_scratch(folder: Path) -> bool:
    """Return whether a folder is the scratch folder of a writer, at work or killed, by its name and what it holds."""
    return _SCRATCH.fullmatch(folder.name) is not None and any((folder / name).is_file() for name in (_LOCK, _HOST))


def _scratch_folders(folder: Path) -> list[tuple[Path, str]]:
    """Return the scratch folders in a folder, and the name of what is written in each, whoever writes."""
    try:
        with os.scandir(folder) as entries:
            matches = [(Path(entry.path), _SCRATCH.fullmatch(entry.name)) for entry in entries]
    except OSError:
        return []
    return [(path, match["target"]) for path, match in matches if match]


def _may_be_judged(scratch: Path) -> bool:
    """Return whether the lock of a scratch folder tells if its owner lives."""
    with suppress(OSError):
        owner = (scratch / _HOST).read_text("utf-8").split("\n")
        if (scratch / _LOCK).is_file() and not set(_this_machine()).isdisjoint(owner):
            return True
    with suppress(OSError, ValueError):  # of one that has just finished
        newest = max(path.lstat().st_mtime for path in (scratch, *scratch.rglob("*")))
        return time.time() - newest > _OTHERS_LEFT_ALONE_S
    return False


def _this_machine() -> list[str]:
    """Return names of this machine: of the host, and of the running kernel, which its containers have in common."""
    names = [platform.node()]
    with suppress(OSError):
        names.append(_BOOT_ID.read_text("utf-8").strip())
    return [name for name in names if name]


def _remove(scratch: Path, target: Path, lock: "BaseFileLock") -> None:
    """Remove a scratch folder and give its lock back; what was taken away and could not be put back stays in it."""
    if os.path.lexists(scratch / _REPLACED) and not os.path.lexists(target):
        lock.release(force=True)
        return
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        lock.release(force=True)
        shutil.rmtree(scratch, ignore_errors=True)  # on Windows no open file can be removed
    except OSError as error:
        # rmtree closes a folder again that Ctrl-C comes upon in closing; the next writer clears what is left
        if isinstance(error.__context__, KeyboardInterrupt | SystemExit):
            raise error.__context__ from None
        raise

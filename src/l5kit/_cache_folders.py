"""Folders for what is kept between runs, also where there is no home and nothing of the installation can be written to.

Images of containers are often run by users that have neither. numba then refuses every kernel that is to be kept, and
so the import of whatever has one: the package imports this module first, which finds numba a folder.
"""

import os
import stat
import sys
import tempfile
import warnings
from pathlib import Path

KERNELS_ENV_KEY = "NUMBA_CACHE_DIR"
"""Environment variable of numba that names the folder for compiled kernels."""


def usual_cache_folder(program: str) -> Path | None:
    """Return the folder that the platform has for what a program keeps; None if this user cannot write to it."""
    from platformdirs import user_cache_dir  # here, as it takes longer than the rest of importing l5kit

    folder = Path(user_cache_dir(program, appauthor=False))
    # without a home the path is relative ("~/.cache"), and would litter the working directory
    return folder if folder.is_absolute() and _can_be_written(folder) else None


def temporary_cache_folder() -> Path | None:
    """Return a folder of this user alone among the temporary ones, the same for all runs; None if none can be made.

    Whoever can write to it could exchange compiled kernels, so a folder that is not this user's is not taken.
    """
    owner = os.getuid() if sys.platform != "win32" else 0  # on Windows temporary folders are the user's own
    try:
        folder = Path(tempfile.gettempdir(), f"l5kit-cache-{owner}")
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        is_own = sys.platform == "win32" or (status.st_uid == owner and not status.st_mode & 0o022)
        return folder if stat.S_ISDIR(status.st_mode) and is_own else Path(tempfile.mkdtemp(prefix="l5kit-cache-"))
    except OSError:
        return None


def keep_kernels_somewhere() -> None:
    """Give numba a temporary folder for kernels if it can keep them nowhere, or else have it keep none.

    Both give a ``RuntimeWarning``. Processes that this one starts use the same folder.
    """
    # the places where numba looks, in its order
    named = os.environ.get(KERNELS_ENV_KEY)
    if os.environ.get("NUMBA_CACHE_LOCATOR_CLASSES") or (named and _can_be_written(Path(named).absolute())):
        return
    if _can_be_written(Path(__file__).parent / "__pycache__") or usual_cache_folder("numba") is not None:
        return

    folder = temporary_cache_folder()
    warnings.warn(
        "compiled kernels can be kept neither beside the package nor in a home of this user"
        + (f" nor in {named}" if named else "")
        + (", so that each process compiles its own" if folder is None else f"; they are kept in {folder}")
        + f". Set {KERNELS_ENV_KEY} to a folder that this user can write to",
        RuntimeWarning,
        stacklevel=2,
    )
    if folder is None:
        from numba.core.dispatcher import Dispatcher

        Dispatcher.enable_caching = lambda _: None  # type: ignore[assignment, method-assign]
        return
    os.environ[KERNELS_ENV_KEY] = str(folder / "kernels")
    if "numba" in sys.modules:  # which has read the environment already
        sys.modules["numba"].config.CACHE_DIR = os.environ[KERNELS_ENV_KEY]


def _can_be_written(folder: Path) -> bool:
    """Return whether a folder can be written to, or be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


keep_kernels_somewhere()

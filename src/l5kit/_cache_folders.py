"""Cache folders that persist between runs, also without a home folder and with a read-only installation.

Container images are often run by users without either. numba then refuses every kernel with caching, which makes the
import of its module fail. So the package imports this module first, which finds a folder for numba.
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
    """Return the platform's cache folder of a program; None if this user cannot write to it."""
    from platformdirs import user_cache_dir  # imported here, as it takes longer than the rest of importing l5kit

    folder = Path(user_cache_dir(program, appauthor=False))
    # without a home folder, the path is relative ("~/.cache") and would litter the working directory
    return folder if folder.is_absolute() and _can_be_written(folder) else None


def temporary_cache_folder() -> Path | None:
    """Return a private temporary folder of this user, the same for all runs; None if none can be created.

    Anybody with write access could replace compiled kernels, so a folder of another user is not used.
    """
    owner = os.getuid() if sys.platform != "win32" else 0  # on Windows, temporary folders belong to the user
    try:
        folder = Path(tempfile.gettempdir(), f"l5kit-cache-{owner}")
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        is_own = sys.platform == "win32" or (status.st_uid == owner and not status.st_mode & 0o022)
        return folder if stat.S_ISDIR(status.st_mode) and is_own else Path(tempfile.mkdtemp(prefix="l5kit-cache-"))
    except OSError:
        return None


def keep_kernels_somewhere() -> None:
    """Give numba a temporary folder for kernels if it has no writable one; without any, disable its cache.

    Both give a ``RuntimeWarning``. Processes that this one starts use the same folder.
    """
    # the folders that numba tries, in its order
    named = os.environ.get(KERNELS_ENV_KEY)
    if os.environ.get("NUMBA_CACHE_LOCATOR_CLASSES") or (named and _can_be_written(Path(named).absolute())):
        return
    if _can_be_written(Path(__file__).parent / "__pycache__") or usual_cache_folder("numba") is not None:
        return

    folder = temporary_cache_folder()
    warnings.warn(
        "compiled kernels can be kept neither next to the package nor in a home folder of this user"
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
    if "numba" in sys.modules:  # numba has already read the environment
        sys.modules["numba"].config.CACHE_DIR = os.environ[KERNELS_ENV_KEY]


def _can_be_written(folder: Path) -> bool:
    """Return whether a folder can be written to, or created."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


keep_kernels_somewhere()

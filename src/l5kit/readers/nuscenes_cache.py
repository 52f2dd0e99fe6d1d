"""Cache of nuScenes indices in the user's cache folder, memory-mapped so that processes share their pages.

An index is valid only while no table has changed, judged by size, modification time, status change time and inode.
No index is kept if a table was written to within two seconds before reading, because of the limited resolution of
file system clocks.
"""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np

from l5kit._files import placed_when_complete, remove_whole
from l5kit.data.user_cache import cache_folder
from l5kit.readers.nuscenes_index import NuscenesIndex, build_index
from l5kit.readers.nuscenes_tables import TABLES

_VERSION: Final = 2
_TICK_NS: Final = 2 * 10**9
_LARGE_BYTES: Final = 1 << 20


def index_of(folder: Path) -> NuscenesIndex:
    """Return the index of the tables in a folder, from the cache or built anew and then cached if possible.

    Args:
        folder: Folder of the tables, such as ``v1.0-mini``.

    Raises:
        SourceDataError: A table is missing or damaged.
    """
    start_ns = time.time_ns()
    state, newest_ns = _state_of(folder)
    location = hashlib.sha256(os.path.realpath(folder).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    target = cache_folder() / "nuscenes" / f"{location}-{state[:16]}"

    # cached index: pages of large arrays are read on demand
    with suppress(OSError, ValueError, EOFError):
        files = {name: target / f"{name}.npy" for name in NuscenesIndex.names()}
        return NuscenesIndex(
            **{
                name: np.load(file, mmap_mode="r" if file.stat().st_size > _LARGE_BYTES else None)
                for name, file in files.items()
            }
        )
    index = build_index(folder)

    # Cache it unless a table was written to meanwhile, and delete older indices of the same tables; failures only mean
    # that it is built again next time.
    if newest_ns <= start_ns - _TICK_NS and _state_of(folder)[0] == state:
        with suppress(OSError), placed_when_complete(target) as complete:
            complete.mkdir()
            for name in NuscenesIndex.names():
                np.save(complete / f"{name}.npy", getattr(index, name))
        with suppress(OSError):
            for older in target.parent.glob(f"{location}-*"):
                if older.name != target.name:
                    remove_whole(older)
    return index


def _state_of(folder: Path) -> tuple[str, int]:
    """Return a digest of the state of the tables, and the time of the newest change."""
    lines = [f"{_VERSION}"]
    newest_ns = 0
    for name in TABLES:
        with suppress(FileNotFoundError):
            status = (folder / f"{name}.json").stat()
            lines.append(f"{name} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}")
            newest_ns = max(newest_ns, status.st_mtime_ns, status.st_ctime_ns)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest(), newest_ns

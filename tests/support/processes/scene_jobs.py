"""Functions for jobs over scenes that other processes can import, and a program with workers to be interrupted.

``python -m support.processes.scene_jobs FOLDER`` has two worker processes, each of which leaves its process id in a
folder and then works for much longer than any test waits.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l5kit.data.jobs.scene_jobs import map_scenes
from l5kit.data.jobs.worker_processes import WorkerProcesses
from l5kit.errors import CorruptedDataError

_LOCKS: list[Any] = []


def squares(scenes: Any) -> list[int]:
    """Return the squares of numbers."""
    squared: list[int] = (scenes * scenes).tolist()
    return squared


def process_id(scenes: Any) -> int:
    """Return the process that was called."""
    return os.getpid()


def with_lock(scenes: Any) -> int:
    """Return the process that was called, and hold a lock, like numcodecs, which a killed process leaves behind."""
    _LOCKS.append(multiprocessing.Lock())
    return os.getpid()


def late_first(scenes: Any) -> int:
    """Return the first number; the lower it is, the later."""
    time.sleep(0.02 * max(0, 5 - int(scenes[0])))
    return int(scenes[0])


@dataclass(frozen=True)
class FailsAt:
    """A function that fails at some scenes, each with a different message."""

    scenes: tuple[int, ...]

    def __call__(self, scenes: Any) -> int:
        for scene in scenes.tolist():
            if scene in self.scenes:
                raise CorruptedDataError(f"there is no picture number {scene}")
        return len(scenes)


@dataclass(frozen=True)
class StopsAt:
    """A function that asks an iterator for more than it has, at one scene."""

    scene: int

    def __call__(self, scenes: Any) -> int:
        return len(scenes) if self.scene not in scenes else next(iter(()))


@dataclass(frozen=True)
class DiesAt:
    """A function that kills the process that has a scene."""

    scene: int

    def __call__(self, scenes: Any) -> int:
        if self.scene in scenes:
            os.kill(os.getpid(), signal.SIGKILL)
        return len(scenes)


def exits(scenes: Any) -> int:
    """End the process, as code of users may: at scene 1 by an exception, at scene 2 at once."""
    if 1 in scenes:
        sys.exit(0)
    if 2 in scenes:
        os._exit(0)
    return len(scenes)


class OddError(Exception):
    """An error that cannot be pickled and read again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def fails_oddly(scenes: Any) -> None:
    """Fail with an error that cannot be sent."""
    raise OddError("very ", "odd")


@dataclass(frozen=True)
class HoldsALock:
    """A function that no other process can get."""

    lock: Any

    def __call__(self, scenes: Any) -> list[int]:
        with self.lock:
            return squares(scenes)


@dataclass(frozen=True)
class Hangs:
    """A function that reports its start and does not end."""

    folder: str

    def __call__(self, scenes: Any) -> None:
        (Path(self.folder) / f"{scenes[0]}.pid").write_text(f"{os.getpid()}", "utf-8")
        time.sleep(600)


def a_lock() -> Any:
    """Return a lock, which cannot be pickled."""
    return threading.Lock()


def main() -> int:
    """Hang in two workers until interrupted; return the status of an interrupted command."""
    try:
        with WorkerProcesses(2) as workers:
            list(map_scenes(Hangs(sys.argv[1]), range(10), workers, block_size=1))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

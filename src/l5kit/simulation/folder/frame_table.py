"""Frame table of a simulation, ``frames.csv``, read one scene at a time."""

import csv
import threading
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np

from l5kit._types import Float64Array
from l5kit.errors import CorruptedDataError

FrameColumns: TypeAlias = dict[str, Float64Array]
"""Columns of a scene of F frames by name, float64, shape (F,), NaN for cells that are empty or not numbers."""

_TRACKS = ("collision_track", "appeared_track")
"""Columns of track ids, which floating point numbers cannot hold exactly."""


class FrameTable:
    """Reader of ``frames.csv``, which finds the lines of each scene once. It is thread-safe.

    Args:
        path: The file. It has a line for each frame of each scene; lines of a scene are contiguous.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def columns_of(self, scene: int) -> FrameColumns:
        """Return the columns of a scene, except track columns; without rows if the table lacks the scene.

        Args:
            scene: Index of the scene in the log.

        Raises:
            CorruptedDataError: The table has no column ``scene`` of whole numbers.
            OSError: The file cannot be read.
        """
        rows = self._rows(scene)
        names = {at: name for at, name in enumerate(self._names) if name not in _TRACKS}
        return {name: np.array([_number(row, at) for row in rows]) for at, name in names.items()}

    def tracks_of(self, scene: int, column: str = "collision_track") -> list[int | None]:
        """Return the track that the AV collides with in each frame of a scene; None without a collision, or if unknown.

        Args:
            scene: Index of the scene in the log.
            column: Another column of track ids: ``appeared_track``, the track that appears close ahead.

        Raises:
            CorruptedDataError: The table has no column ``scene`` of whole numbers.
            OSError: The file cannot be read.
        """
        rows = self._rows(scene)
        at = self._names.index(column) if column in self._names else len(self._names)
        return [_whole(row, at) for row in rows]

    def _rows(self, scene: int) -> list[list[str]]:
        with self._lock:
            start, end = self._byte_ranges.get(scene, (0, 0))
        with self._path.open("rb") as file:
            file.seek(start)
            return list(csv.reader(file.read(end - start).decode("utf-8").splitlines()))

    @cached_property
    def _names(self) -> list[str]:
        with self._path.open(encoding="utf-8", newline="") as file:
            names = next(csv.reader(file), [])
        if "scene" not in names:
            raise CorruptedDataError(f"{self._path} has no column 'scene' in its first line: {', '.join(names)}")
        return names

    @cached_property
    def _byte_ranges(self) -> dict[int, tuple[int, int]]:
        """First byte and end of the lines of each scene."""
        byte_ranges: dict[int, tuple[int, int]] = {}
        for scene, start, end in self._runs(self._names.index("scene")):
            byte_ranges.setdefault(scene, (start, end))
        return byte_ranges

    def _runs(self, column: int) -> Iterator[tuple[int, int, int]]:
        """Yield scene, first byte and end of each run of lines with the same scene."""
        with self._path.open("rb") as file:
            start = at = len(file.readline())
            current: bytes | None = None
            for line in file:
                cell = line.split(b",", column + 1)[column] if line.count(b",") >= column else b""
                if cell != current:
                    if current is not None:
                        yield self._scene(current), start, at
                    start, current = at, cell
                at += len(line)
            if current is not None:
                yield self._scene(current), start, at

    def _scene(self, cell: bytes) -> int:
        try:
            return int(cell)
        except ValueError:
            raise CorruptedDataError(f"{self._path} has the scene {cell!r}; allowed are whole numbers") from None


def _number(row: list[str], column: int) -> float:
    try:
        return float(row[column])
    except (IndexError, ValueError):
        return np.nan


def _whole(row: list[str], column: int) -> int | None:
    try:
        return int(row[column])
    except (IndexError, ValueError):
        return None

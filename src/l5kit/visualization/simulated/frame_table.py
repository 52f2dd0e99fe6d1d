"""Table of frames of a simulation, ``frames.csv``, of which the rows of one scene are read at a time."""

import csv
import threading
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from l5kit._types import Float64Array
from l5kit.errors import CorruptedDataError

__all__ = ["FrameColumns", "FrameTable"]

FrameColumns: TypeAlias = dict[str, Float64Array]
"""Columns of a scene of F frames by name, float64, shape (F,), NaN where a cell is empty or no number."""

_KEYS: Final = ("log", "scene")
_WORDS: Final = {"true": 1.0, "false": 0.0}


class FrameTable:
    """Reads ``frames.csv``; which lines are whose is looked up once. May be used from several threads.

    Args:
        path: The file. It has a line for each frame of each scene; those of a scene follow each other.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def columns_of(self, log: str, scene: int) -> FrameColumns:
        """Return the columns of a scene; without rows if the table does not have it.

        Args:
            log: Name of its log.
            scene: Its number in the log.

        Raises:
            CorruptedDataError: The table has no header, or lacks a column that tells the scenes apart.
            OSError: The file cannot be read.
        """
        with self._lock:
            place = self._places.get((log, scene)) or self._places.get(("", scene))
        lines = [] if place is None else self._lines(*place)
        rows = list(csv.reader(lines))
        return {name: np.array([_number(row, at) for row in rows]) for at, name in enumerate(self._names)}

    @cached_property
    def _names(self) -> list[str]:
        with self._path.open(encoding="utf-8", newline="") as file:
            names = next(csv.reader(file), [])
        if "scene" not in names:
            raise CorruptedDataError(f"{self._path} has no column 'scene' in its first line: {', '.join(names)}")
        return names

    @cached_property
    def _places(self) -> dict[tuple[str, int], tuple[int, int]]:
        """First byte and end of the lines of each scene, by log (empty without such a column) and number."""
        columns = [self._names.index(name) if name in self._names else -1 for name in _KEYS]
        places: dict[tuple[str, int], tuple[int, int]] = {}
        for start, end, key in self._runs(columns):
            places.setdefault(key, (start, end))
        return places

    def _runs(self, columns: list[int]) -> Iterator[tuple[int, int, tuple[str, int]]]:
        """Yield first byte, end and scene of the lines that follow each other with the same scene."""
        with self._path.open("rb") as file:
            at = len(file.readline())
            start, last = at, None
            for line in file:
                key = tuple(_cell(line, column) for column in columns)
                if key != last and last is not None:
                    yield start, at, (last[0], _scene(last[1], self._path))
                    start = at
                last, at = key, at + len(line)
            if last is not None:
                yield start, at, (last[0], _scene(last[1], self._path))

    def _lines(self, start: int, end: int) -> list[str]:
        with self._path.open("rb") as file:
            file.seek(start)
            return file.read(end - start).decode("utf-8").splitlines()


def _cell(line: bytes, column: int) -> str:
    """Return one cell of a line; empty where the table has no such column."""
    if column < 0:
        return ""
    if b'"' in line:
        return next(csv.reader([line.decode("utf-8")]))[column]
    return line.split(b",", column + 1)[column].strip().decode("utf-8")


def _scene(text: str, path: Path) -> int:
    try:
        return int(text)
    except ValueError:
        raise CorruptedDataError(f"{path} has the scene {text!r}; allowed are whole numbers") from None


def _number(row: list[str], column: int) -> float:
    text = row[column] if column < len(row) else ""
    try:
        return float(text)
    except ValueError:
        return _WORDS.get(text.strip().lower(), np.nan)

"""The table of curves, a csv file that goes on where a training goes on, however its process ended."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from l5kit._files import replaced_when_complete
from l5kit.training.lightning_parts import Logger, rank_zero_only
from l5kit.training.state_file import ResumePoint

__all__ = ["CurveTable"]

_STEP = "step"
_SCORES = "val/"

_Row: TypeAlias = dict[str, str | float]
"""A row of the table: numbers, or their texts as they stand in the file, by column."""


class CurveTable(Logger):
    """Writes each point of the curves at once as a row of a csv file; columns stand in the order of their names.

    Args:
        path: The file.
        resumed: Where a training goes on; rows of what comes after are dropped, as they will come again. None for a
            new training.
    """

    def __init__(self, path: Path, *, resumed: ResumePoint | None) -> None:
        super().__init__()
        self._path = path
        self._columns: list[str] = []
        if resumed is not None:
            self._take_up(resumed)

    @property
    def name(self) -> str:
        """Name of the folder of all curves."""
        return self._path.parent.parent.name

    @property
    def version(self) -> str:
        """Name of the folder of the table."""
        return self._path.parent.name

    @property
    def log_dir(self) -> str:
        """Folder of the table."""
        return str(self._path.parent)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Append a row."""
        row: _Row = {**{name: float(value) for name, value in metrics.items()}, _STEP: step or 0}
        if not row.keys() <= set(self._columns):
            self._write([*self._rows(), row], sorted({*self._columns, *row}))
            return
        with self._path.open("a", encoding="utf-8", newline="") as file:
            file.write(_as_lines([row], self._columns))

    def log_hyperparams(self, params: object, *_: object, **__: object) -> None:
        """Write nothing: the configuration stands beside the table."""

    @rank_zero_only
    def _take_up(self, resumed: ResumePoint) -> None:
        self._columns = self._stored_columns()
        self._write([row for row in self._rows() if _is_before(row, resumed)], self._columns)

    def _stored_columns(self) -> list[str]:
        if not self._path.is_file():
            return []
        with self._path.open(encoding="utf-8", newline="") as file:
            return next(csv.reader(file), [])

    def _rows(self) -> list[_Row]:
        """Return all rows that are complete."""
        if not self._path.is_file():
            return []
        text = self._path.read_text("utf-8")
        whole = text[: text.rfind("\n") + 1]  # of a killed process, the last line may be cut
        return [row for row in csv.DictReader(io.StringIO(whole)) if row.get(_STEP)]

    def _write(self, rows: list[_Row], columns: list[str]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._columns = columns
        head = _as_lines([dict(zip(columns, columns, strict=True))], columns) if columns else ""
        with replaced_when_complete(self._path, argument="folder") as temporary:
            temporary.write_text(head + _as_lines(rows, columns), encoding="utf-8", newline="")


def _as_lines(rows: list[_Row], columns: list[str]) -> str:
    text = io.StringIO()
    csv.DictWriter(text, columns, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _is_before(row: _Row, resumed: ResumePoint) -> bool:
    """Return whether a row, whose step counts from 0, is of what a training had done; evaluations may be to come."""
    step = int(row[_STEP])
    is_evaluation = any(name.startswith(_SCORES) and value for name, value in row.items())
    if is_evaluation and step + 1 == resumed.step:
        return resumed.evaluated_step == resumed.step
    return step < resumed.step

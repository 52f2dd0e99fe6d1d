"""The table of curves, a csv file that goes on where a training goes on, however its process ended."""

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from l5kit._files import replaced_when_complete
from l5kit.errors import CorruptedDataError
from l5kit.training.lightning_parts import Logger, rank_zero_only
from l5kit.training.state_file import ResumePoint

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

    Raises:
        CorruptedDataError: The file that is to go on is no such table.
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
        # a curve that nobody has seen before is a column more, for which the whole table is written again
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
        rows = self._rows()
        try:
            rows = [row for row in rows if _is_before(row, resumed)]
        except ValueError as error:
            raise self._damaged(f"a step is no whole number ({error})") from error
        self._write(rows, self._columns)

    def _stored_columns(self) -> list[str]:
        if not self._path.is_file():
            return []
        columns = next(iter(self._cells_of(self._whole_lines())), [])
        if columns and _STEP not in columns:
            raise self._damaged(f"it has no column {_STEP!r}")
        return columns

    def _rows(self) -> list[_Row]:
        """Return all rows that are complete."""
        if not self._path.is_file():
            return []
        lines = self._cells_of(self._whole_lines())
        columns = next(lines, [])
        rows: list[_Row] = []
        for cells in lines:
            if len(cells) > len(columns):
                raise self._damaged(f"a line has {len(cells)} cells, and there are {len(columns)} columns")
            rows.append(dict(zip(columns, cells, strict=False)))
        return [row for row in rows if row.get(_STEP)]

    def _whole_lines(self) -> str:
        """Return the lines that are complete: of a killed process, the last one may be cut."""
        try:
            text = self._path.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise self._damaged("it is no text in UTF-8") from error
        return text[: text.rfind("\n") + 1]

    def _cells_of(self, text: str) -> Iterator[list[str]]:
        """Yield the cells of each line."""
        try:
            yield from csv.reader(io.StringIO(text))
        except csv.Error as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, why: str) -> CorruptedDataError:
        return CorruptedDataError(
            f"{self._path} is no table of curves: {why}; put another copy in its place, or remove it to begin a new one"
        )

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
    # the evaluation of a step comes behind its checkpoint, so that a state may know the step and not its scores
    step = int(row[_STEP])
    is_evaluation = any(name.startswith(_SCORES) and value for name, value in row.items())
    if is_evaluation and step + 1 == resumed.step:
        return resumed.evaluated_step == resumed.step
    return step < resumed.step

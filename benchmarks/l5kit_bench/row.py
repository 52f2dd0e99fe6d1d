"""Rows of the benchmark, and their measurement."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from l5kit.configs.texts import did_you_mean
from l5kit.errors import InvalidArgumentError
from l5kit_bench.score import Clock

if TYPE_CHECKING:
    from l5kit_bench.workplace import Workplace

SCORE_OF_FLOORS = 1500
"""Machine score at which rate floors apply; see :attr:`Row.rate_floor`."""

Work = Callable[[], int]
"""Function that runs one pass of a row and returns the number of its units."""


@dataclass(frozen=True)
class Fact:
    """A figure that comes with a row and is not a rate.

    Attributes:
        title: Its name.
        value: The figure.
        limit: Upper bound; None for none.
        unit: Its unit.
    """

    title: str
    value: float
    limit: float | None = None
    unit: str = "MB"


@dataclass(frozen=True)
class PreparedRow:
    """A row that is ready to be measured.

    Attributes:
        work: Runs one pass.
        facts: Returns figures that come with the row, after all passes.
    """

    work: Work
    facts: Callable[[], Sequence[Fact]] = tuple


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the benchmark.

    Attributes:
        key: Its short name.
        title: Description of the work.
        unit: Unit of the rate.
        prepare: Prepares it on a workplace (:class:`l5kit_bench.workplace.Workplace`).
        floor: Least ratio to the reference or to ``base``.
        reference: Its name among the reference rates; None without one.
        base: Key of the row to compare with, instead of the reference.
        base_title: Short name of that row.
        rate_floor: Least rate at the score ``SCORE_OF_FLOORS``, instead of ``floor``.
    """

    key: str
    title: str
    unit: str
    prepare: Callable[["Workplace"], PreparedRow]
    floor: float | None = None
    reference: str | None = None
    base: str | None = None
    base_title: str | None = None
    rate_floor: float | None = None

    @property
    def least_ratio(self) -> float | None:
        """Least ratio; None for no requirement."""
        return self.floor if self.rate_floor is None else 1.0


@dataclass(frozen=True)
class MeasuredRow:
    """A measured row.

    Attributes:
        row: The row.
        rates: Units per second in each pass.
        facts: Figures that come with the row.
    """

    row: Row
    rates: tuple[float, ...]
    facts: tuple[Fact, ...] = ()

    @property
    def rate(self) -> float:
        """Median of the rates, units per second."""
        return statistics.median(self.rates)


def choose_rows(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Return the rows of the given keys or titles, and those that they are compared with; all where none is named.

    Raises:
        InvalidArgumentError: There is no such row; the message names the nearest one.
    """
    if not names:
        return list(rows)
    by_key = {row.key: row for row in rows}
    wanted = {_key_of(rows, name) for name in names}
    bases = {base for key in wanted if (base := by_key[key].base) is not None}
    return [row for row in rows if row.key in wanted | bases]


def _key_of(rows: Sequence[Row], name: str) -> str:
    key_of_name = {row.title.lower(): row.key for row in rows} | {row.key: row.key for row in rows}
    if name.lower() in key_of_name:
        return key_of_name[name.lower()]
    hint = did_you_mean(name, [row.key for row in rows])
    raise InvalidArgumentError(f"there is no row {name!r}{hint}; the rows are {', '.join(row.key for row in rows)}")


def measure_rows(
    prepared: Sequence[tuple[Row, PreparedRow]],
    *,
    num_passes: int,
    clock: Clock = time.perf_counter,
) -> list[MeasuredRow]:
    """Measure rows in alternating passes: each pass of all rows before the next, after one that is not counted.

    Args:
        prepared: The rows.
        num_passes: Passes that count.
        clock: Tells the time.
    """
    rates: list[list[float]] = [[] for _ in prepared]
    for number in range(num_passes + 1):
        for (_, ready), values in zip(prepared, rates, strict=True):
            rate = measure_pass(ready.work, clock)
            if number:
                values.append(rate)
    return [
        MeasuredRow(row, tuple(values), tuple(ready.facts()))
        for (row, ready), values in zip(prepared, rates, strict=True)
    ]


def measure_pass(work: Work, clock: Clock = time.perf_counter) -> float:
    """Return the units per second of one pass."""
    start = clock()
    count = work()
    return count / (clock() - start)

"""A row of the benchmark, and how rows are measured."""

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
"""The score of the machine that rates are asked of; see :attr:`Row.rate_floor`."""

Work = Callable[[], int]
"""Does one pass of a row, and returns how many of its units it did."""


@dataclass(frozen=True)
class Fact:
    """A figure that comes with a row and is no rate.

    Attributes:
        title: What it is.
        value: The figure.
        limit: Below what it is to be; None where nothing is asked.
        unit: What it is counted in.
    """

    title: str
    value: float
    limit: float | None = None
    unit: str = "MB"


@dataclass(frozen=True)
class PreparedRow:
    """A row that is ready to be measured.

    Attributes:
        work: Does one pass.
        facts: Returns figures that come with the row, when all passes are done.
    """

    work: Work
    facts: Callable[[], Sequence[Fact]] = tuple


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the benchmark.

    Attributes:
        key: Its short name.
        title: What is done.
        unit: What is counted.
        prepare: Makes it ready on a workplace (:class:`l5kit_bench.workplace.Workplace`).
        floor: The least ratio that is asked for, to the reference or to ``base``.
        reference: Its name among the rates of the reference; None where it has none.
        base: Key of the row that it is compared with, in place of the reference.
        base_title: That row in a word or two.
        rate_floor: The least rate that is asked for where the score is ``SCORE_OF_FLOORS``, in place of ``floor``.
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
        """The least ratio that is asked for; None where nothing is asked."""
        return self.floor if self.rate_floor is None else 1.0


@dataclass(frozen=True)
class MeasuredRow:
    """A row with what was measured.

    Attributes:
        row: The row.
        rates: Units per second in each pass.
        facts: What came with it.
    """

    row: Row
    rates: tuple[float, ...]
    facts: tuple[Fact, ...] = ()

    @property
    def rate(self) -> float:
        """The median of the rates, units per second."""
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

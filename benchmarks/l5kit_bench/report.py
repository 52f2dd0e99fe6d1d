"""Results of a benchmark run, as lines of a table, Markdown and JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from l5kit_bench.machine import Machine
from l5kit_bench.row import SCORE_OF_FLOORS, Fact, MeasuredRow, Row

COLUMNS = ("Workload", "Rate", "Per 1,000", "Ratio", "Asked")
"""Titles of the columns of :meth:`BenchReport.lines`."""

_REFERENCE_TITLE = "L5Kit 1.5"
_MILLION = 1_000_000
_NONE = "-"


@dataclass(frozen=True, kw_only=True)
class BenchReport:
    """Results of a run.

    Attributes:
        data: Description of the data.
        machine: Facts of the machine.
        scores: Its score before and after.
        num_passes: Passes behind each median.
        measured: The rows.
        left_out: Reasons for rows that could not be measured, by title.
        reference: Recorded rates per 1,000 points of score by name; empty without a reference.
    """

    data: str
    machine: Machine
    scores: tuple[float, float]
    num_passes: int
    measured: Sequence[MeasuredRow]
    left_out: Mapping[str, str]
    reference: Mapping[str, float]

    @property
    def score(self) -> float:
        """Mean of the scores before and after."""
        return sum(self.scores) / 2

    def per_1000_score(self, measured: MeasuredRow) -> float:
        """Return the rate of a row per 1,000 points of score."""
        return measured.rate / self.score * 1000

    def ratio(self, measured: MeasuredRow) -> float | None:
        """Return the rate of a row relative to its reference; None without one."""
        row = measured.row
        if row.rate_floor is not None:
            return measured.rate / self.score * SCORE_OF_FLOORS / row.rate_floor
        if row.base is not None:
            base = next((other for other in self.measured if other.row.key == row.base), None)
            return None if base is None else measured.rate / base.rate
        recorded = self.reference.get(row.reference) if row.reference else None
        return None if recorded is None else self.per_1000_score(measured) / recorded

    def lines(self) -> list[tuple[str, ...]]:
        """Return the table: the cells of each row and each of its facts."""
        lines = []
        for measured in self.measured:
            lines.append(self._line(measured))
            for fact in measured.facts:
                limit = _NONE if fact.limit is None else f"< {fact.limit:g} {fact.unit}"
                lines.append((f"  {fact.title}", f"{_short(fact.value)} {fact.unit}", _NONE, _NONE, limit))
        return lines

    def misses(self) -> list[str]:
        """Return a text for each figure below its floor or above its limit."""
        missed = []
        for measured in self.measured:
            ratio, floor = self.ratio(measured), measured.row.least_ratio
            if ratio is not None and floor is not None and ratio < floor:
                link = "asked" if measured.row.rate_floor is None else "of the asked"
                missed.append(f"{measured.row.title}: {_short(ratio)}, {link} {_asked(measured.row)}")
            missed += [
                f"{measured.row.title}: {fact.title}, {_short(fact.value)} {fact.unit}, "
                f"asked below {fact.limit:g} {fact.unit}"
                for fact in measured.facts
                if fact.limit is not None and fact.value >= fact.limit
            ]
        return missed

    def verdict(self) -> str:
        """Return whether all figures meet their limits, with a line for each that does not."""
        if all(self.ratio(measured) is None for measured in self.measured):
            return "There is nothing to compare with; --reference names recorded rates."
        if missed := self.misses():
            return "\n  ".join(("Not what is asked:", *missed))
        return "All that is compared is what is asked or better."

    def facts(self) -> dict[str, str]:
        """Return the machine and its score in a few lines."""
        before, after = self.scores
        score = f"{self.score:,.0f} ({before:,.0f} before, {after:,.0f} after)"
        return {"Machine": self.machine.hardware, "Software": self.machine.software, "Score": score}

    def as_markdown(self) -> str:
        """Return the machine and the table in Markdown."""
        titles = ("workload", "rate", "per 1,000 score", "ratio", "asked")
        rows = [titles, ("---",) * len(titles), *(tuple(cell.strip() for cell in line) for line in self.lines())]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
        left_out = "".join(f"\nLeft out: {title}: {reason}.\n" for title, reason in self.left_out.items())
        facts = self.facts()
        return f"{self.data}; {facts['Machine']}; {facts['Software']}; score {facts['Score']}.\n\n{table}\n{left_out}"

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "data": self.data,
            "machine": asdict(self.machine),
            "score": {"before": self.scores[0], "after": self.scores[1], "mean": self.score},
            "num_passes": self.num_passes,
            "rows": [self._row_as_json(measured) for measured in self.measured],
            "left_out": dict(self.left_out),
            "not_what_is_asked": self.misses(),
        }

    def _line(self, measured: MeasuredRow) -> tuple[str, ...]:
        row, ratio = measured.row, self.ratio(measured)
        asked = _asked(row)
        if row.rate_floor is None and row.floor is not None:
            asked = f"{asked} to {row.base_title or _REFERENCE_TITLE}"
        rate = f"{_short(measured.rate)} {row.unit}/s"
        return row.title, rate, _short(self.per_1000_score(measured)), _NONE if ratio is None else _short(ratio), asked

    def _row_as_json(self, measured: MeasuredRow) -> dict[str, Any]:
        row = measured.row
        return {
            "key": row.key,
            "title": row.title,
            "unit": f"{row.unit}/s",
            "rate": measured.rate,
            "rates": list(measured.rates),
            "per_1000_score": self.per_1000_score(measured),
            "ratio": self.ratio(measured),
            "compared_with": row.base or (row.reference if row.reference in self.reference else None),
            "asked": row.least_ratio,
            "asked_rate": row.rate_floor,
            "facts": [_fact_as_json(fact) for fact in measured.facts],
        }


def _asked(row: Row) -> str:
    """Return the requirement of a row: a ratio, or a rate and the score it holds for."""
    if row.rate_floor is not None:
        return f"{row.rate_floor:,.0f}/s at score {SCORE_OF_FLOORS:,}"
    return _NONE if row.floor is None else f"{row.floor:g}"


def _fact_as_json(fact: Fact) -> dict[str, Any]:
    """Return a figure whose name has its unit."""
    unit = fact.unit.lower()
    return {"title": fact.title, unit: fact.value, f"below_{unit}": fact.limit}


def _short(number: float) -> str:
    """Return a number with about three digits: 15.2 M, 8,253, 437, 43.7, 9.35, 0.853."""
    if number >= _MILLION:
        return f"{number / _MILLION:,.3g} M"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"

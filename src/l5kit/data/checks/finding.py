"""Findings: problems of a dataset, and their collection."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from l5kit._types import BoolArray, Int64Array

Severity = Literal["error", "warning"]

MAX_PER_CHECK = 10
"""Findings that are kept per check and severity."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One problem of a dataset.

    Attributes:
        severity: ``error`` if samples become wrong or impossible, ``warning`` if something looks wrong.
        check: Name of the check that found it.
        message: Description of the problem.
        file: The affected file, if it is a single one.
        scene: Index of the scene, None if unknown; likewise the next two.
        frame: Row of ``frames``.
        row: Row of the checked array.
    """

    severity: Severity
    check: str
    message: str
    file: str | None = None
    scene: int | None = None
    frame: int | None = None
    row: int | None = None


class FindingList:
    """Findings: the first of each check are kept, the others counted."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[Severity, str]] = Counter()

    @property
    def has_errors(self) -> bool:
        """Whether a finding is an error."""
        return any(severity == "error" for severity, _ in self._counts)

    def add(self, finding: Finding, *, count: int = 1) -> None:
        """Add a finding, which represents ``count`` of its kind."""
        kind = (finding.severity, finding.check)
        if self._counts[kind] < MAX_PER_CHECK:
            self._kept.append(finding)
        self._counts[kind] += count

    def add_where(self, bad: BoolArray, make: Callable[[int], Finding]) -> None:
        """Add the finding that ``make`` creates for each position where ``bad`` (N,) is true."""
        positions = np.flatnonzero(bad)
        self.add_rows(positions, len(positions), make)

    def add_rows(self, rows: Int64Array, count: int, make: Callable[[int], Finding]) -> None:
        """Add the finding that ``make`` creates for each of the first of ``count`` rows of one kind."""
        if count == 0:
            return
        first = make(int(rows[0]))
        room = max(0, MAX_PER_CHECK - self._counts[first.severity, first.check])
        for row in rows[:room]:
            self.add(make(int(row)))
        self._counts[first.severity, first.check] += count - min(room, len(rows))

    def as_list(self) -> list[Finding]:
        """Return the kept findings, errors first, with a final count for each check that had more."""
        findings = list(self._kept)
        kept = Counter((finding.severity, finding.check) for finding in self._kept)
        for (severity, check), count in self._counts.items():
            more = count - kept[severity, check]
            if more > 0:
                findings.append(Finding(severity=severity, check=check, message=f"... and {more:,} more"))
        return sorted(findings, key=lambda finding: finding.severity != "error")

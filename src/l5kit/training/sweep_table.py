"""The table of a sweep: a row for each training, with its values, its scores and those of baselines, its minutes."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from l5kit._files import replaced_when_complete

TABLE_FILE: Final = "table.csv"

_FACTS = ("num_steps", "minutes", "best_step", "best_score", "best_by")
"""Keys of ``result.json`` that are columns, beside the scores."""


@dataclass(frozen=True)
class SweepRow:
    """A training of a sweep and what became of it.

    Attributes:
        run: Name of its folder.
        status: Whether it has its result.
        values: What sets it apart from the others, by the paths of the keys.
        result: What ``result.json`` has; empty without one.
        error: Why it failed; empty if it did not.
    """

    run: str
    status: Literal["done", "failed", "waiting"]
    values: Mapping[str, object]
    result: Mapping[str, object] = field(default_factory=dict, repr=False)
    error: str = ""

    def as_dict(self) -> dict[str, object]:
        """Return its cells by column."""
        scores = self.result.get("scores")
        return {
            "run": self.run,
            "status": self.status,
            **self.values,
            **{name: self.result.get(name) for name in _FACTS},
            **(scores if isinstance(scores, Mapping) else {}),
            "error": self.error,
        }


def columns_of(rows: Sequence[SweepRow]) -> list[str]:
    """Return the columns of rows in their order; scores that some lack are those of others."""
    columns = dict.fromkeys(name for row in rows for name in row.as_dict() if name != "error")
    return [*columns, "error"]


def write_table(rows: Sequence[SweepRow], path: Path) -> None:
    """Write the rows as a csv file, which appears whole; cells that a row lacks are empty, lists are JSON."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns_of(rows), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = row.as_dict().items()
        writer.writerow({name: json.dumps(x) if isinstance(x, (list, dict, bool)) else x for name, x in cells})
    with replaced_when_complete(path, argument="folder") as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8", newline="")

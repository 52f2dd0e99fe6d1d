"""Rows of numbers from csv files with known headers; all faults of a file are reported together."""

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array
from l5kit.configs.texts import require_regular_file
from l5kit.errors import InvalidArgumentError

KEY_COLUMNS = ("timestamp", "track_id")
"""The first two columns of every file."""

MAX_LISTED = 10
"""Maximum number of rows listed in an error."""


@dataclass(frozen=True)
class CsvRow:
    """One row of a file.

    Attributes:
        timestamp: Text in the file.
        track_id: Text in the file.
        values: The other columns in the requested order, (K,).
    """

    timestamp: str
    track_id: str
    values: Float64Array


def read_rows(
    csv_path: str | os.PathLike[str], headers_for: Callable[[Sequence[str]], list[list[str]]]
) -> Iterator[CsvRow]:
    """Yield the rows of a file.

    Columns may be in any order if their names differ. After an unreadable row the rest is checked before the error is
    raised, so that it lists all such rows, up to a limit.

    Args:
        csv_path: The file, UTF-8.
        headers_for: Returns the allowed headers for the header of the file; values are in their order.

    Raises:
        FileNotFoundError: The file does not exist.
        InvalidArgumentError: The header is wrong, or rows have too few columns or values that are not numbers.
    """
    require_regular_file(csv_path, called="csv file")
    with open(csv_path, encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, strict=True)
        try:
            order = column_order(csv_path, next(lines, []), headers_for)
            problems = []
            for fields in lines:
                if not fields:
                    continue  # an empty line
                try:
                    if len(fields) != len(order):
                        raise ValueError(f"{len(fields)} columns instead of {len(order)}")
                    timestamp, track_id, *values = [fields[index] for index in order]
                    row = CsvRow(timestamp, track_id, np.array([float(value) for value in values]))
                except ValueError as error:
                    problems.append(f"line {lines.line_num}: {error}")
                    continue
                if not problems:  # after a bad row, only look for more bad rows
                    yield row
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidArgumentError(
                f"{os.fspath(csv_path)!r}, line {lines.line_num + 1}: not valid csv ({error})"
            ) from error
    if problems:
        raise InvalidArgumentError(
            f"{os.fspath(csv_path)!r} has {len(problems)} rows that cannot be read: {listed(problems)}; "
            "write the file again"
        )


def listed(items: Sequence[object]) -> str:
    """Return the first items as text, and the number of further ones."""
    text = "; ".join(map(str, items[:MAX_LISTED]))
    return text + (f"; and {len(items) - MAX_LISTED} more" if len(items) > MAX_LISTED else "")


def column_order(
    csv_path: str | os.PathLike[str], header: list[str], headers_for: Callable[[Sequence[str]], list[list[str]]]
) -> list[int]:
    """Return the index in the file of each requested column.

    Args:
        csv_path: The file, for the error.
        header: Names of its columns.
        headers_for: As for :func:`read_rows`.

    Raises:
        InvalidArgumentError: The header is wrong.
    """
    try:
        allowed = headers_for(header)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{os.fspath(csv_path)!r}: {error}") from error
    for wanted in allowed:
        if header == wanted:
            return list(range(len(header)))
        indices = {name: index for index, name in enumerate(header)}
        if len(indices) == len(header) and indices.keys() == set(wanted):
            return [indices[name] for name in wanted]
    missing = [name for name in allowed[0] if name not in header]
    unknown = [name for name in header if name not in allowed[0]]
    raise InvalidArgumentError(
        f"{os.fspath(csv_path)!r}: the columns are not those of this kind of file: "
        f"missing {listed(missing) or 'none'}; unknown {listed(unknown) or 'none'}; "
        f"{len(header) - len(set(header))} repeated names"
    )

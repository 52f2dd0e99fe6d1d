"""Read rows of numbers from csv files whose header is known, and say all that is wrong with them."""

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array
from l5kit.configs.texts import require_regular_file
from l5kit.errors import InvalidArgumentError

KEY_COLUMNS = ("timestamp", "track_id")
"""The first two columns of all files."""

MAX_LISTED = 10
"""Rows that an error lists."""


@dataclass(frozen=True)
class CsvRow:
    """One row.

    Attributes:
        timestamp: As it stands in the file.
        track_id: As it stands in the file.
        values: The other columns in the wanted order, (K,).
    """

    timestamp: str
    track_id: str
    values: Float64Array


def read_rows(
    csv_path: str | os.PathLike[str], headers_for: Callable[[Sequence[str]], list[list[str]]]
) -> Iterator[CsvRow]:
    """Yield the rows of a file.

    Columns may stand in any order as long as their names differ. After a row that cannot be read the rest is looked
    through before the error is raised, so that it lists them all, up to a limit.

    Args:
        csv_path: The file, UTF-8.
        headers_for: Returns the headers that are allowed, for the header of the file; values come in their order.

    Raises:
        FileNotFoundError: There is no such file.
        InvalidArgumentError: The header is another one, or rows have too few columns or hold something else than
            numbers.
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
                if not problems:  # behind the first row that is wrong, all are read to list what is wrong with others
                    yield row
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidArgumentError(
                f"{os.fspath(csv_path)!r}, line {lines.line_num + 1}: this is no csv text ({error})"
            ) from error
    if problems:
        raise InvalidArgumentError(
            f"{os.fspath(csv_path)!r} has {len(problems)} rows that cannot be read: {listed(problems)}; "
            "write the file again"
        )


def listed(items: Sequence[object]) -> str:
    """Return the first items as text, and how many more there are."""
    text = "; ".join(map(str, items[:MAX_LISTED]))
    return text + (f"; and {len(items) - MAX_LISTED} more" if len(items) > MAX_LISTED else "")


def column_order(
    csv_path: str | os.PathLike[str], header: list[str], headers_for: Callable[[Sequence[str]], list[list[str]]]
) -> list[int]:
    """Return for each wanted column its index in the file.

    Args:
        csv_path: The file, for the error.
        header: The names of its columns.
        headers_for: As for :func:`read_rows`.

    Raises:
        InvalidArgumentError: The header is another one.
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
        f"missing {listed(missing) or 'none'}; not known {listed(unknown) or 'none'}; "
        f"{len(header) - len(set(header))} names twice"
    )

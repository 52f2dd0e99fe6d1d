"""Rows of users' tables as plain arrays, from CSV, Parquet or MCAP with a column map."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from l5kit._types import Float64Array, Int64Array
from l5kit.configs.texts import did_you_mean, require_regular_file
from l5kit.data.array_shapes import require_shapes
from l5kit.readers.arrow_columns import unpacked_bytes, value_type
from l5kit.readers.source_bounds import as_times_ns
from l5kit.readers.table_columns import OTHER_CLASS, TableColumns
from l5kit.readers.table_mcap import read_messages

SUFFIXES: Final = (".csv", ".parquet")
"""Suffixes of table files."""

MCAP_SUFFIXES: Final = (".mcap",)
"""Suffixes of message files."""

_MOST_BYTES: Final = 8 << 30
_MOST_ROWS: Final = 200_000_000
_DELIMITERS: Final = (",", ";", "\t")
_LONGEST_HEADER: Final = 1 << 16
_SINCE_1970_NS: Final = 10**17
"""Smallest time that counts as time since 1970; smaller times are relative to the start of the recording."""

_START_NS: Final = 1_000_000_000
_NUMBERS: Final = ("x", "y", "z", "heading", "length", "width", "height", "velocity_x", "velocity_y")
_TEXTS: Final = ("track", "class", "scene")


@dataclass(frozen=True)
class TableRows:
    """R rows of a table.

    Attributes:
        times_ns: Time of each row, int64, (R,).
        tracks: Index of the row's track in ``track_names``, (R,).
        track_names: Ids of the tracks, sorted.
        numeric: The numeric columns by their meaning, float64, (R,) each; headings in radians.
        classes: Class of each track, from its first row; ``other`` if the table has no classes.
        scenes: Index of the row's scene in ``scene_names``, (R,).
        scene_names: Ids of the scenes, sorted; one empty name if the table is a single scene.
    """

    times_ns: Int64Array
    tracks: Int64Array
    track_names: tuple[str, ...]
    numeric: dict[str, Float64Array]
    classes: tuple[str, ...]
    scenes: Int64Array
    scene_names: tuple[str, ...]

    def __post_init__(self) -> None:
        size = len(self.times_ns)
        require_shapes(self, times_ns=(size,), tracks=(size,), scenes=(size,))


def read_rows(path: Path, columns: TableColumns) -> TableRows:
    """Read a table.

    Args:
        path: A CSV file with a header, a Parquet file, or an MCAP file.
        columns: The column map.

    Raises:
        MissingDependencyError: The library for MCAP files is missing.
        TypeError: A column has another type.
        ValueError: The file is no such table, has no rows, or a column is missing or has rows without a value.
    """
    table = (
        _read_table(path, list(columns.names.values()))
        if columns.mcap is None
        else read_messages(path, columns.mcap, av=columns.av)
    )
    if not table.num_rows:
        raise ValueError("it has no rows")
    chosen = {meaning: table.column(name) for meaning, name in columns.names.items()}
    texts = {meaning: _codes_of(chosen[meaning], columns.names[meaning]) for meaning in _TEXTS if meaning in chosen}
    numeric: dict[str, Float64Array] = {
        meaning: _values_of(chosen[meaning], columns.names[meaning]) for meaning in _NUMBERS if meaning in chosen
    }
    if columns.is_in_degrees and "heading" in numeric:
        numeric["heading"] = np.radians(numeric["heading"])
    tracks, track_names = texts["track"]
    classes = (OTHER_CLASS,) * len(track_names)
    if "class" in texts:
        of_rows, names = texts["class"]
        firsts = np.unique(tracks, return_index=True)[1]
        classes = tuple(names[number] for number in of_rows[firsts])
    scenes, scene_names = texts.get("scene", (np.zeros(len(tracks), np.int64), ("",)))

    # Relative times start one second after 1970, as 0 is not a valid time of a log.
    time, name = chosen["time"], columns.names["time"]
    _require_whole(time, name)
    if pa.types.is_timestamp(time.type):
        times_ns = np.asarray(pc.cast(time.cast(pa.timestamp("ns")), pa.int64()).to_numpy(), np.int64)
    else:
        times = time.to_numpy().astype(np.int64) if pa.types.is_integer(time.type) else _values_of(time, name)
        is_relative = float(times.min()) * columns.ns_per_time < _SINCE_1970_NS
        start_ns = _START_NS if is_relative else 0
        times_ns = as_times_ns(f"column {name!r}", times, ns_per_unit=columns.ns_per_time, start_ns=start_ns)
    return TableRows(times_ns, tracks, track_names, numeric, classes, scenes, scene_names)


def _read_table(path: Path, names: list[str]) -> pa.Table:
    """Return the requested columns of a file."""
    try:
        require_regular_file(path, called="table")
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(
                f"it has {path.stat().st_size} bytes, more than {_MOST_BYTES}; split it into several files"
            )
        if path.suffix == ".parquet":
            with pyarrow.parquet.ParquetFile(path) as opened:
                num_rows, num_bytes = opened.metadata.num_rows, unpacked_bytes(opened.metadata)
                if num_bytes > _MOST_BYTES or num_rows > _MOST_ROWS:
                    raise ValueError(
                        f"it has {num_rows} rows of {num_bytes} bytes, more than {_MOST_ROWS} of {_MOST_BYTES}"
                    )
                _require_columns(opened.schema_arrow.names, names)
                return opened.read(list(dict.fromkeys(names)), use_threads=False)
        with path.open("rb") as file:
            header = file.readline(_LONGEST_HEADER).decode("utf-8-sig", "replace")
        delimiter = max(_DELIMITERS, key=header.count)
        _require_columns([each.strip().strip('"') for each in header.split(delimiter)], names)
        return pyarrow.csv.read_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
            convert_options=pyarrow.csv.ConvertOptions(include_columns=list(dict.fromkeys(names))),
        )
    except FileNotFoundError as error:
        raise ValueError("the file no longer exists") from error
    except (pa.ArrowException, OSError, KeyError) as error:
        kind = "Parquet" if path.suffix == ".parquet" else "CSV with a header"
        raise ValueError(f"it cannot be read as {kind}: {' '.join(str(error).split())}") from error


def _require_columns(there: list[str], wanted: list[str]) -> None:
    for name in wanted:
        if name not in there:
            raise ValueError(
                f"there is no column {name!r}{did_you_mean(name, there)}, which the column map names; there are: "
                f"{', '.join(map(repr, there[:30]))}"
            )
        if there.count(name) > 1:
            raise ValueError(f"the column {name!r} occurs twice")


def _require_whole(column: pa.ChunkedArray, name: str) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise ValueError(f"column {name!r} has no value in row {row + 1}, and in {column.null_count} rows in all")


def _codes_of(column: pa.ChunkedArray, name: str) -> tuple[Int64Array, tuple[str, ...]]:
    """Return the code of each row's text, and the texts in order; whole numbers become texts in numeric order."""
    _require_whole(column, name)
    kind = value_type(column)
    if pa.types.is_floating(kind):
        values = column.to_numpy()
        if (values != np.rint(values)).any() or np.abs(values).max(initial=0.0) > 2**53:
            raise TypeError(f"column {name!r} must hold text or whole numbers, got {column.type} with a fraction")
        column = pa.chunked_array([pa.array(values.astype(np.int64))])
    elif not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise TypeError(f"column {name!r} must hold text or whole numbers, got {column.type}")
    encoded = column.combine_chunks()
    encoded = encoded if pa.types.is_dictionary(encoded.type) else encoded.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    order = sorted(range(len(distinct)), key=lambda number: (isinstance(distinct[number], str), distinct[number]))
    ranks = np.empty(len(distinct), np.int64)
    ranks[order] = np.arange(len(distinct))
    return ranks[encoded.indices.to_numpy().astype(np.int64)], tuple(str(distinct[number]) for number in order)


def _values_of(column: pa.ChunkedArray, name: str) -> Float64Array:
    _require_whole(column, name)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        shown = ""
        if pa.types.is_string(column.type):
            texts = column.to_pylist()
            row = 0
            for number, text in enumerate(texts):  # the first text that is not a number
                try:
                    float(text)
                except ValueError:
                    row = number
                    break
            shown = f", such as {texts[row]!r:.40} in row {row + 1}"
        raise TypeError(f"column {name!r} must hold numbers, got {column.type}{shown}")
    values: Float64Array = column.to_numpy().astype(np.float64)
    return values

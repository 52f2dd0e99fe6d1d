"""Tables of a simulation: columns, and row by row writing of CSV and, with the extra ``arrow``, Parquet."""

import csv
import importlib.util
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from l5kit._files import replaced_when_complete
from l5kit._types import BoolArray, DType, RecordArray
from l5kit.evaluation.driving.collisions import CollisionKind
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.driving.scene_score import METRICS

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetWriter


@dataclass(frozen=True)
class Column:
    """Type of a column; unknown values are empty in CSV and null in Parquet.

    Attributes:
        kind: Whole numbers, ids of tracks (whole numbers up to 2**64 - 1), numbers, yes or no as 1 or 0, or texts.
        digits: Decimals in CSV; Parquet keeps all.
    """

    kind: Literal["int", "id", "float", "bool", "text"]
    digits: int = 0


_INT, _ID, _BOOL, _TEXT, _THOUSANDTHS = Column("int"), Column("id"), Column("bool"), Column("text"), Column("float", 3)

FRAME_COLUMNS: Final[Mapping[str, Column]] = {
    "scene": _INT,
    "frame": _INT,
    "time_s": _THOUSANDTHS,
    "x_m": _THOUSANDTHS,
    "y_m": _THOUSANDTHS,
    "yaw_rad": Column("float", 5),
    "speed_mps": _THOUSANDTHS,
    "acceleration_mps2": _THOUSANDTHS,
    "lateral_acceleration_mps2": _THOUSANDTHS,
    "distance_to_log_m": _THOUSANDTHS,
    "distance_off_road_m": _THOUSANDTHS,
    "time_to_collision_s": Column("float", 2),
    "speed_limit_mps": _THOUSANDTHS,
    "speed_excess_mps": _THOUSANDTHS,
    "progress_m": _THOUSANDTHS,
    "way_along_lanes_m": _THOUSANDTHS,
    "is_comfortable": _BOOL,
    "collisions": _INT,
    "collision_track": _ID,
    "collision_kind": _TEXT,
    "collision_at_fault": _BOOL,
    "appeared_close": _INT,
    "appeared_track": _ID,
    "by_fallback": _BOOL,
}
"""``frames.csv``: one row for each frame of each scored scene; docs/reference/simulate.md describes every column."""

_DTYPES: Final = {"int": "int64", "id": "uint64", "float": "float64", "bool": "int8", "text": "int8"}
"""Dtypes of columns in memory, and in Parquet, where kinds of collisions are texts instead."""

_APPEARED: Final = {"appeared_close": _INT, "first_appeared_frame": _INT, "first_appeared_track": _ID}


def frame_columns_of(metrics: Sequence[MetricFacts]) -> dict[str, Column]:
    """Return the columns of the frames table, including those of additional metrics."""
    columns = dict(FRAME_COLUMNS)
    for metric in metrics:
        if metric.column is not None:
            columns.setdefault(metric.column, Column("float", metric.digits))
    return columns


def frame_dtype_of(columns: Mapping[str, Column]) -> DType:
    """Return the dtype of frame rows in memory: kinds of collisions as numbers, -1 where yes or no is unknown.

    Where ``collision_at_fault`` is unknown, so is the track.
    """
    return np.dtype([(name, _DTYPES[column.kind]) for name, column in columns.items()])


def scene_columns_of(metrics: Sequence[MetricFacts]) -> dict[str, Column]:
    """Return the columns of the scenes table, including those of metrics."""
    return {
        "log": _TEXT,
        "scene": _INT,
        "position": _INT,
        "frames": _INT,
        "score": Column("float", 6),
        **{metric.name: Column("float", 6) for metric in metrics},
        "collisions": _INT,
        "collisions_at_fault": _INT,
        **{metric.counted_as: _INT for metric in metrics if metric.counted_as is not None},
        "way_m": _THOUSANDTHS,
        "expert_way_m": _THOUSANDTHS,
        "route_m": _THOUSANDTHS,
        "expert_route_m": _THOUSANDTHS,
        "most_from_log_m": _THOUSANDTHS,
        "driven_agents": _INT,
        "fallback_steps": _INT,
        **{f"first_{metric.name}_frame": _INT for metric in metrics if metric.fault is not None},
        **_APPEARED,
        "failed_frame": _INT,
        "failed_track": _ID,
        "message": _TEXT,
    }


SCENE_COLUMNS: Final[Mapping[str, Column]] = scene_columns_of(METRICS)
"""``scenes.csv``: one row for each scene, failed ones too; docs/reference/simulate.md describes every column."""

_ROWS_OF_GROUP = 65_536
"""Rows of a row group of Parquet, buffered in memory."""

_KNOWN_WHERE: Final[Mapping[str, Callable[[RecordArray], BoolArray]]] = {
    "collision_track": lambda rows: rows["collision_at_fault"] >= 0,
    "collision_at_fault": lambda rows: rows["collision_at_fault"] >= 0,
    "appeared_track": lambda rows: rows["appeared_close"] > 0,
    "by_fallback": lambda rows: rows["by_fallback"] >= 0,
}
"""Masks of the rows in which columns of whole numbers have a value."""

_KINDS = np.array([None, *(kind.name.lower() for kind in list(CollisionKind)[1:])], object)


def can_write_parquet() -> bool:
    """Return whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def frame_columns(rows: RecordArray, known: Mapping[str, Column] = FRAME_COLUMNS) -> dict[str, list[object]]:
    """Return the columns of frame rows, with None for unknown values."""
    columns: dict[str, list[object]] = {}
    for name, column in known.items():
        values = rows[name]
        if column.kind == "text":
            columns[name] = _KINDS[values].tolist()
        elif column.kind == "float":
            columns[name] = [None if value != value else value for value in values.tolist()]
        elif name in _KNOWN_WHERE:
            is_known = _KNOWN_WHERE[name](rows).tolist()
            columns[name] = [value if known else None for value, known in zip(values.tolist(), is_known, strict=True)]
        else:
            columns[name] = values.tolist()
    return columns


class TableWriter:
    """Appends rows to a table.

    Args:
        columns: Columns by name.
        csv_file: An open text file.
        parquet: Writer of the Parquet file; None for CSV only.
    """

    def __init__(self, columns: Mapping[str, Column], csv_file: io.TextIOBase, parquet: "ParquetWriter | None") -> None:
        self._columns = columns
        self._csv = csv.writer(csv_file, lineterminator="\n")
        self._csv.writerow(columns)
        self._parquet = parquet
        self._waiting: dict[str, list[object]] = {name: [] for name in columns}

    def append(self, rows: Mapping[str, Sequence[object]]) -> None:
        """Append rows: the values of each column, None where unknown."""
        texts: list[list[str]] = []
        for name, column in self._columns.items():
            form = f".{column.digits}f" if column.kind == "float" else ""
            texts.append(["" if value is None else format(value, form) for value in rows[name]])
        self._csv.writerows(zip(*texts, strict=True))
        if self._parquet is None:
            return
        # row groups of a fixed size, however rows are appended, so that equal tables give equal files
        for name, values in self._waiting.items():
            values.extend(rows[name])
        while len(next(iter(self._waiting.values()))) >= _ROWS_OF_GROUP:
            self._write_group()

    def end(self) -> None:
        """Write the buffered rows."""
        if self._parquet is not None and next(iter(self._waiting.values())):
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow

        if self._parquet is None:
            return
        group = {name: values[:_ROWS_OF_GROUP] for name, values in self._waiting.items()}
        self._waiting = {name: values[_ROWS_OF_GROUP:] for name, values in self._waiting.items()}
        self._parquet.write_table(pyarrow.table(group, schema=_schema_of(self._columns)))


@contextmanager
def write_table(path: Path, columns: Mapping[str, Column], *, with_parquet: bool) -> Iterator[TableWriter]:
    """Yield the writer of a table; its files appear when the block ends without an error.

    Args:
        path: The CSV file; the Parquet file has the same name with ``.parquet``.
        columns: Columns by name.
        with_parquet: Whether to write a Parquet file, too, which needs pyarrow.
    """
    with ExitStack() as stack:
        parquet = None
        if with_parquet:
            from pyarrow.parquet import ParquetWriter

            parquet_path = stack.enter_context(replaced_when_complete(path.with_suffix(".parquet"), argument="folder"))
            parquet = stack.enter_context(ParquetWriter(parquet_path, _schema_of(columns)))
        csv_path = stack.enter_context(replaced_when_complete(path, argument="folder"))
        file = stack.enter_context(csv_path.open("w", encoding="utf-8", newline=""))
        writer = TableWriter(columns, file, parquet)
        yield writer
        writer.end()


def _schema_of(columns: Mapping[str, Column]) -> Any:
    import pyarrow

    types = _DTYPES | {"text": "string"}
    return pyarrow.schema([(name, types[column.kind]) for name, column in columns.items()])

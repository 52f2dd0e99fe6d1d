"""Dask dataframes of the records of a dataset, whose partitions end where the chunks of its files do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from l5kit._types import DType, NumericArray, Records
from l5kit.data.interop.chunk_bounds import PartsOfRecords
from l5kit.data.interop.fields import column_names
from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["to_dask_dataframe"]


def to_dask_dataframe(records: Records, columns: Sequence[str] | None = None, *, chunks_at_once: int = 1) -> Any:
    """Return an array of a dataset as a Dask dataframe; nothing is read until it is computed.

    The index, named ``row``, holds the numbers of the rows. Each number of a field is a column, such as ``centroid_x``,
    ``extent_length``, ``ego_rotation_x_y`` (row x, column y) or ``label_probabilities_PERCEPTION_LABEL_CAR``.
    Partitions end where chunks of the files do.

    Args:
        records: Array of an opened dataset, such as ``dataset.agents``; also of a view, or a NumPy array.
        columns: Names of fields, for all their columns, and of single columns, in the order wanted; None for all.
        chunks_at_once: Chunks of the files in each partition.

    Returns:
        A ``dask.dataframe.DataFrame`` with known divisions.

    Raises:
        InvalidArgumentError: ``records`` are none, there is no such column or ``chunks_at_once`` is less than 1.
        MissingDependencyError: Dask or pandas is not installed.
    """
    try:
        import dask.dataframe as dd
    except ImportError as error:
        raise MissingDependencyError(
            f"Dask dataframes need Dask and pandas: {install_command('xarray', 'pandas')} 'dask[dataframe]'"
        ) from error
    parts = PartsOfRecords(records, chunks_at_once=chunks_at_once)
    read = _ReadPart(parts, _chosen_columns(parts.dtype, columns))
    starts = parts.starts
    divisions = (*starts, max(len(parts) - 1, starts[-1]))
    bounds = list(zip(starts, parts.lengths, strict=True))
    from_map: Any = dd.from_map  # which has no types
    return from_map(read, bounds, meta=read((0, 0)), divisions=divisions, label="l5kit")


def _chosen_columns(dtype: DType, wanted: Sequence[str] | None) -> dict[str, tuple[str, int]]:
    """Return field and number within the field of each column, by its name."""
    known = {
        name: (field, number) for field in dtype.names or () for number, name in enumerate(column_names(dtype, field))
    }
    if wanted is None:
        return known
    if isinstance(wanted, str):
        raise InvalidArgumentError(f"columns must be a list of names, got the single {wanted!r}; put it into a list")
    chosen: dict[str, tuple[str, int]] = {}
    for name in wanted:
        if name in (dtype.names or ()):
            chosen |= {column: known[column] for column in column_names(dtype, name)}
        elif name in known:
            chosen[name] = known[name]
        else:
            raise InvalidArgumentError(
                f"columns has {name!r}; these records have the fields {list(dtype.names or ())}, and of one such as "
                f"{next(reversed(known))!r} also the column alone"
            )
    return chosen


class _ReadPart:
    """Reads a part of the rows as a table."""

    def __init__(self, parts: PartsOfRecords, columns: dict[str, tuple[str, int]]) -> None:
        self._parts = parts
        self._columns = columns

    def __call__(self, bounds: tuple[int, int]) -> "pd.DataFrame":
        import pandas as pd

        start, length = bounds
        rows = self._parts[start : start + length]
        index = pd.RangeIndex(start, start + length, name="row")
        columns: dict[str, pd.Series[Any]] = {}
        for name, source in self._columns.items():
            values = _column(rows, *source)
            kind = "str" if values.dtype.kind == "U" else values.dtype  # texts of all versions of pandas
            columns[name] = pd.Series(values, index=index, dtype=kind)
        return pd.DataFrame(columns, index=index, copy=False)


def _column(rows: NumericArray, field: str, number: int) -> NumericArray:
    """Return one number, or the text, of each row, (N,), side by side in memory."""
    values: NumericArray = rows[field].reshape(len(rows), -1)[:, number] if len(rows) else rows[field].reshape(0)
    return values.copy()

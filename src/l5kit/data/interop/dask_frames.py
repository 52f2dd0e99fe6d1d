"""Dask dataframes of the records of a dataset, whose partitions end where the chunks of its files do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from l5kit._types import Records
from l5kit.data.interop.chunk_bounds import PartsOfRecords
from l5kit.data.interop.pandas_frames import to_pandas
from l5kit.data.interop.table_columns import choose_columns
from l5kit.errors import MissingDependencyError, install_command

if TYPE_CHECKING:
    import pandas as pd


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
    chosen = choose_columns(parts.dtype, columns, nested=False, label_names=False)
    read = _ReadPart(parts, [column.name for column in chosen])
    starts = parts.starts
    divisions = (*starts, max(len(parts) - 1, starts[-1]))
    bounds = list(zip(starts, parts.lengths, strict=True))
    from_map: Any = dd.from_map  # which has no types
    return from_map(read, bounds, meta=read((0, 0)), divisions=divisions, label="l5kit")


class _ReadPart:
    """Reads a part of the rows as a table."""

    def __init__(self, parts: PartsOfRecords, columns: list[str]) -> None:
        self._parts = parts
        self._columns = columns

    def __call__(self, bounds: tuple[int, int]) -> "pd.DataFrame":
        import pandas as pd

        start, length = bounds
        frame = to_pandas(self._parts[start : start + length], columns=self._columns)
        frame.index = pd.RangeIndex(start, start + length, name="row")
        return frame

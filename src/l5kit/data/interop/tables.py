"""Conversion of records and scenes to Arrow tables and streams, and to pandas and polars dataframes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from l5kit._types import DType, Int64Array, NumericArray, RecordArray, Records
from l5kit.data.interop.arrow_columns import ArrowColumns, require_library, stream_of
from l5kit.data.interop.table_columns import AnyColumn, NameColumn
from l5kit.data.interop.table_parts import require_records, tables_of
from l5kit.data.record_sequence import ROWS_PER_BLOCK, passing_blocks
from l5kit.data.scene_selection import SceneSelection
from l5kit.data.texts import shown_texts
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Frame = TypeVar("Frame")


@overload
def to_arrow(
    data: ChunkedDataset, scenes: SceneSelection = None, *, nested: bool = True, label_names: bool = False
) -> "dict[str, pa.Table]": ...
@overload
def to_arrow(
    data: Records, *, columns: Sequence[str] | None = None, nested: bool = True, label_names: bool = False
) -> "pa.Table": ...
def to_arrow(
    data: Records | ChunkedDataset,
    scenes: SceneSelection = None,
    *,
    columns: Sequence[str] | None = None,
    nested: bool = True,
    label_names: bool = False,
) -> "pa.Table | dict[str, pa.Table]":
    """Return an array of records as a ``pyarrow.Table``, or scenes as a table for each of their arrays.

    A field of several values is a column of fixed-size lists: ``centroid`` is ``fixed_size_list<double>[2]``,
    ``ego_rotation`` lists of lists. Texts are strings. Metadata of the columns give meaning, unit and frame of
    reference.

    Records are stored row by row, Arrow columns are contiguous: each column is copied once, a block of rows at a time.
    Nothing is copied if a field is contiguous already, such as the only one of its records.

    Args:
        data: An array such as ``dataset.agents``, a slice or view of one, or a NumPy array of records; or a dataset,
            also one scene of it (``dataset[3]``).
        scenes: Scenes of a dataset: an index, a slice, indices or a mask; None for all. Tables begin with the columns
            ``scene_index``, relative to ``data``, and ``frame_index``, relative to the scene; ``columns`` is for
            arrays.
        columns: Names of fields, or of single columns if not ``nested``, in the desired order; None for all.
        nested: Represent fields of several values by lists; otherwise by a column per value, such as ``centroid_x``.
        label_names: Add a dictionary column: for agents ``label``, the class of the highest probability, for faces
            ``status``, the state of the highest value; null where all are 0.

    Returns:
        A table; for a dataset a dictionary of the tables ``scenes``, ``frames``, ``agents`` and
        ``traffic_light_faces``,
        with the rows of the scenes in order. Values are bit-identical to the dataset; intervals refer to its rows.

    Raises:
        CorruptedDataError: Rows cannot be read, or intervals of scenes are wrong.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: ``data`` is neither, there is no such column, or the arguments are incompatible.
        MissingDependencyError: pyarrow is not installed.
    """
    require_library("pyarrow", "to_arrow")
    return tables_of(data, scenes, ArrowColumns, columns=columns, nested=nested, label_names=label_names)


def to_arrow_batches(
    records: Records,
    *,
    columns: Sequence[str] | None = None,
    nested: bool = True,
    label_names: bool = False,
    rows_per_batch: int = ROWS_PER_BLOCK,
) -> "pa.RecordBatchReader":
    """Return an array of records as a stream of batches, each read when it is requested and not cached.

    DuckDB, polars and pyarrow accept it directly. The arrays of opened datasets provide this stream themselves
    (``__arrow_c_stream__``): ``pyarrow.table(dataset.agents)`` and ``polars.DataFrame(dataset.agents)`` work.

    Args:
        records: An array such as ``dataset.agents``, a slice or view of one, or a NumPy array of records.
        columns: See :func:`to_arrow`; likewise the next two.
        nested: Represent fields of several values by lists.
        label_names: Add the column ``label`` or ``status``.
        rows_per_batch: Approximate rows per batch: batches end at chunk boundaries of the files.

    Raises:
        CorruptedDataError: Rows cannot be read; raised when they are requested, by some libraries as their own error.
        InvalidArgumentError: ``records`` is not such an array, there is no such column, or ``rows_per_batch`` is less
            than 1.
        MissingDependencyError: pyarrow is not installed.
    """
    require_library("pyarrow", "to_arrow_batches")
    if rows_per_batch < 1:
        raise InvalidArgumentError(f"rows_per_batch must be 1 or more, got {rows_per_batch!r}")
    require_records(records)
    blocks = passing_blocks(records, rows_per_batch)
    return stream_of(records.dtype, blocks, columns=columns, nested=nested, label_names=label_names)


@overload
def to_pandas(
    data: ChunkedDataset, scenes: SceneSelection = None, *, label_names: bool = False
) -> "dict[str, pd.DataFrame]": ...
@overload
def to_pandas(data: Records, *, columns: Sequence[str] | None = None, label_names: bool = False) -> "pd.DataFrame": ...
def to_pandas(
    data: Records | ChunkedDataset,
    scenes: SceneSelection = None,
    *,
    columns: Sequence[str] | None = None,
    label_names: bool = False,
) -> "pd.DataFrame | dict[str, pd.DataFrame]":
    """Return an array of records as a ``pandas.DataFrame``, or scenes as a dataframe for each of their arrays.

    Each value of a field is a separate column: ``centroid_x``, ``centroid_y``, ``extent_length``, ``ego_rotation_x_y``
    (row x, column y), ``label_probabilities_PERCEPTION_LABEL_CAR``, ``agent_index_interval_start``. Types are those of
    the fields, texts are strings, times are integer nanoseconds. The dataframe owns its memory; each column is copied
    once.

    Args:
        data: An array such as ``dataset.agents``, a slice or view of one, or a NumPy array of records; or a dataset,
            also one scene of it (``dataset[3]``).
        scenes: Scenes of a dataset: an index, a slice, indices or a mask; None for all. Tables begin with the columns
            ``scene_index``, relative to ``data``, and ``frame_index``, relative to the scene; ``columns`` is for
            arrays.
        columns: Names of fields, for all their columns, and of single columns, in the desired order; None for all.
        label_names: Add a categorical column: for agents ``label``, the class of the highest probability, for faces
            ``status``, the state of the highest value; missing where all are 0.

    Returns:
        A dataframe; for a dataset a dictionary of ``scenes``, ``frames``, ``agents`` and ``traffic_light_faces``, with
        the rows of the scenes in order. Values are bit-identical to the dataset; intervals refer to its rows.

    Raises:
        CorruptedDataError: Rows cannot be read, or intervals of scenes are wrong.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: ``data`` is neither, there is no such column, or the arguments are incompatible.
        MissingDependencyError: pandas is not installed.
    """
    require_library("pandas", "to_pandas")
    return tables_of(
        data, scenes, partial(_NumpyColumns, _pandas_frame), columns=columns, nested=False, label_names=label_names
    )


@overload
def to_polars(
    data: ChunkedDataset, scenes: SceneSelection = None, *, nested: bool = True, label_names: bool = False
) -> "dict[str, pl.DataFrame]": ...
@overload
def to_polars(
    data: Records, *, columns: Sequence[str] | None = None, nested: bool = True, label_names: bool = False
) -> "pl.DataFrame": ...
def to_polars(
    data: Records | ChunkedDataset,
    scenes: SceneSelection = None,
    *,
    columns: Sequence[str] | None = None,
    nested: bool = True,
    label_names: bool = False,
) -> "pl.DataFrame | dict[str, pl.DataFrame]":
    """Return an array of records as a ``polars.DataFrame``, or scenes as a dataframe for each of their arrays.

    A field of several values is a column of type ``Array``: ``centroid`` is ``Array(Float64, 2)``, whose x is
    ``pl.col("centroid").arr.get(0)``; ``ego_rotation`` is ``Array(Float64, (3, 3))``. This does not need pyarrow.

    Args:
        data: An array such as ``dataset.agents``, a slice or view of one, or a NumPy array of records; or a dataset,
            also one scene of it (``dataset[3]``).
        scenes: Scenes of a dataset: an index, a slice, indices or a mask; None for all. Tables begin with the columns
            ``scene_index``, relative to ``data``, and ``frame_index``, relative to the scene; ``columns`` is for
            arrays.
        columns: Names of fields, or of single columns if not ``nested``, in the desired order; None for all.
        nested: Represent fields of several values by an ``Array``; otherwise by a column per value, such as
            ``centroid_x``.
        label_names: Add a column of type ``Enum``: for agents ``label``, the class of the highest probability, for
            faces ``status``, the state of the highest value; null where all are 0.

    Returns:
        A dataframe; for a dataset a dictionary of ``scenes``, ``frames``, ``agents`` and ``traffic_light_faces``, with
        the rows of the scenes in order. Values are bit-identical to the dataset; intervals refer to its rows.

    Raises:
        CorruptedDataError: Rows cannot be read, or intervals of scenes are wrong.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: ``data`` is neither, there is no such column, or the arguments are incompatible.
        MissingDependencyError: polars is not installed.
    """
    require_library("polars", "to_polars")
    return tables_of(
        data, scenes, partial(_NumpyColumns, _polars_frame), columns=columns, nested=nested, label_names=label_names
    )


@dataclass(frozen=True)
class _NumpyColumns(Generic[Frame]):
    """Columns of a table as NumPy arrays, for pandas and polars.

    They are not converted from Arrow tables: those need pyarrow, and writable dataframes would copy each column twice.

    Attributes:
        frame_of: Creates the dataframe from the values of all columns by name, (N, ...), which it may own, and the
            names that the codes in some columns stand for, -1 for none.
        dtype: Record type.
        columns: The columns.
        index_names: Names of the index columns before them.
    """

    frame_of: Callable[[dict[str, NumericArray], dict[str, tuple[str, ...]]], Frame]
    dtype: DType
    columns: list[AnyColumn]
    index_names: tuple[str, ...]

    def batch_of(self, rows: RecordArray, indices: dict[str, Int64Array]) -> dict[str, NumericArray]:
        """Return the values of each column for some rows."""
        own = {
            each.name: each.codes(rows) if isinstance(each, NameColumn) else each.values(rows) for each in self.columns
        }
        return indices | own

    def table_of(self, batches: list[dict[str, NumericArray]]) -> Frame:
        """Return the dataframe of batches; columns are removed from the batches when joined, to limit memory."""
        if not batches:
            none = dict.fromkeys(self.index_names, np.empty(0, np.int64))
            batches = [self.batch_of(np.empty(0, self.dtype), none)]
        names = {column.name: column.names for column in self.columns if isinstance(column, NameColumn)}
        joined = {}
        for name in list(batches[0]):
            parts = [batch.pop(name) for batch in batches]
            joined[name] = parts[0] if len(parts) == 1 and parts[0].flags.owndata else np.concatenate(parts)
        return self.frame_of(joined, names)


def _pandas_frame(columns: dict[str, NumericArray], names: dict[str, tuple[str, ...]]) -> "pd.DataFrame":
    import pandas as pd

    # types that pandas accepts without a copy
    taken: dict[str, Any] = {}
    for name, values in columns.items():
        if name in names:
            taken[name] = pd.Categorical.from_codes(values, categories=list(names[name]))
        elif values.dtype.kind == "U":
            taken[name] = pd.Series(shown_texts(values), dtype="str")
        else:
            taken[name] = values
    return pd.DataFrame(taken, copy=False)


def _polars_frame(columns: dict[str, NumericArray], names: dict[str, tuple[str, ...]]) -> "pl.DataFrame":
    import polars as pl

    series = []
    for name, values in columns.items():
        if name in names:
            texts = np.array([*names[name], None], dtype=object)  # the code -1 selects the last entry, null
            series.append(pl.Series(name, texts[values].tolist(), dtype=pl.Enum(names[name])))
            continue
        flat = values.reshape(-1)
        column = pl.Series(name, shown_texts(flat) if flat.dtype.kind == "U" else flat)
        series.append(column.reshape(values.shape) if values.ndim > 1 else column)
    return pl.DataFrame(series)

"""Arrow tables of arrays of records and of scenes, whole or as a stream of batches."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from l5kit._types import DType, Records
from l5kit.data.interop.arrow_columns import ArrowColumns, require_pyarrow, stream_of
from l5kit.data.interop.table_columns import choose_columns
from l5kit.data.interop.table_parts import TablePart, require_records, tables_of
from l5kit.data.record_sequence import ROWS_PER_BLOCK, passing_blocks
from l5kit.data.scene_selection import SceneSelection
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa


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
    """Return an array of records as a ``pyarrow.Table``, or scenes as one for each of their arrays.

    A field of several values is a column of lists of fixed size: ``centroid`` is ``fixed_size_list<double>[2]``,
    ``ego_rotation`` lists of lists. Texts are strings. Metadata of the columns tell meaning, unit and frame
    of reference.

    Records lie one after the other in memory, Arrow's columns do not: each column is copied once, a block of rows at a
    time. There is no copy where a field lies alone, such as the only one of its records.

    Args:
        data: An array such as ``dataset.agents``, a slice or view of one, or a NumPy array of records; or a dataset,
            also one scene of one (``dataset[3]``).
        scenes: Scenes of a dataset: a number, a slice, numbers or a mask; None for all. Tables begin with the column
            ``scene_index``, counted in ``data``, and ``frame_index``, counted in the scene; ``columns`` is for arrays.
        columns: Names of fields, or of single columns without ``nested``, in the order wanted; None for all.
        nested: Make lists of fields of several values; else a column of each value, such as ``centroid_x``.
        label_names: Add a dictionary column: for agents ``label``, the class of the highest probability, for faces
            ``status``, the state of the highest value; null where all are 0.

    Returns:
        A table; for a dataset a dictionary of those of ``scenes``, ``frames``, ``agents`` and ``traffic_light_faces``,
        with the rows of the scenes in their order. Values are those of the dataset to the bit; intervals count its
        rows.

    Raises:
        CorruptedDataError: Rows cannot be read, or intervals of scenes are wrong.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: ``data`` is neither, there is no such column, or arguments do not go together.
        MissingDependencyError: pyarrow is not installed.
    """
    require_pyarrow("to_arrow")

    def make_builder(dtype: DType, index_names: tuple[str, ...]) -> _ArrowTable:
        chosen = choose_columns(dtype, columns, nested=nested, label_names=label_names)
        return _ArrowTable(ArrowColumns(dtype, chosen, index_names=index_names))

    return tables_of(data, scenes, columns, make_builder)


def to_arrow_batches(
    records: Records,
    *,
    columns: Sequence[str] | None = None,
    nested: bool = True,
    label_names: bool = False,
    rows_per_batch: int = ROWS_PER_BLOCK,
) -> "pa.RecordBatchReader":
    """Return an array of records as a stream of batches, which are read when they are asked for and then forgotten.

    DuckDB, polars and pyarrow take it as it is. The arrays of opened datasets offer this stream themselves
    (``__arrow_c_stream__``): ``pyarrow.table(dataset.agents)`` and ``polars.DataFrame(dataset.agents)`` work.

    Args:
        records: An array such as ``dataset.agents``, a slice or view of one, or a NumPy array of records.
        columns: As in :func:`to_arrow`; likewise the next two.
        nested: Make lists of fields of several values.
        label_names: Add the column ``label`` or ``status``.
        rows_per_batch: Rows of a batch, about: batches end where chunks of the files do.

    Raises:
        CorruptedDataError: Rows cannot be read; raised when they are asked for, by some libraries as their own error.
        InvalidArgumentError: ``records`` are none, there is no such column, or a batch is to have no rows.
        MissingDependencyError: pyarrow is not installed.
    """
    require_pyarrow("to_arrow_batches")
    if rows_per_batch < 1:
        raise InvalidArgumentError(f"rows_per_batch must be 1 or more, got {rows_per_batch!r}")
    require_records(records)
    blocks = passing_blocks(records, rows_per_batch)
    return stream_of(records.dtype, blocks, columns=columns, nested=nested, label_names=label_names)


class _ArrowTable:
    """Puts an Arrow table together."""

    def __init__(self, columns: ArrowColumns) -> None:
        self._columns = columns
        self._batches: list[pa.RecordBatch] = []

    def append(self, part: TablePart) -> None:
        if len(part.rows):
            self._batches.append(self._columns.batch_of(part.rows, part.indices))

    def end(self) -> "pa.Table":
        import pyarrow as pa

        return pa.Table.from_batches(self._batches, schema=self._columns.schema)

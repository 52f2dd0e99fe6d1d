"""Arrow tables of arrays of records and of scenes, whole or as a stream of batches."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from l5kit._types import DType, JsonObject, NumericArray, Records
from l5kit.data.interop.fields import AXES, FIELDS, axis_names
from l5kit.data.interop.table_columns import AnyColumn, FieldColumn, NameColumn, choose_columns
from l5kit.data.interop.table_parts import (
    TablePart,
    parts_of_array,
    require_records,
    tables_of,
)
from l5kit.data.record_sequence import ROWS_PER_BLOCK
from l5kit.data.scene_selection import SceneSelection
from l5kit.data.texts import shown_texts
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowColumns", "to_arrow", "to_arrow_batches"]

_NUMBER_MEANINGS = {
    "scene_index": "number of the scene in the dataset, from 0",
    "frame_index": "number of the frame in its scene, from 0",
}


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

    def make_builder(dtype: DType, numbers: tuple[str, ...]) -> _ArrowTable:
        chosen = choose_columns(dtype, columns, nested=nested, label_names=label_names)
        return _ArrowTable(ArrowColumns(dtype, chosen, numbers=numbers))

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
    import pyarrow as pa

    arrow = ArrowColumns(records.dtype, choose_columns(records.dtype, columns, nested=nested, label_names=label_names))
    batches: Iterator[pa.RecordBatch] = map(arrow.batch_of, parts_of_array(records, rows_per_batch))
    return pa.RecordBatchReader.from_batches(arrow.schema, batches)


def require_pyarrow(what: str) -> None:
    """Refuse to go on without pyarrow.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(f"{what} needs pyarrow: {install_command('arrow')}") from error


class ArrowColumns:
    """Columns of an Arrow table of records.

    Args:
        dtype: Record type.
        columns: The columns.
        numbers: Names of the columns of numbers before them.
        metadata: What is told of the table.
    """

    def __init__(
        self,
        dtype: DType,
        columns: Sequence[AnyColumn],
        *,
        numbers: Sequence[str] = (),
        metadata: JsonObject | None = None,
    ) -> None:
        import pyarrow as pa

        self._columns = list(columns)
        fields = [pa.field(name, pa.int64(), metadata={"long_name": _NUMBER_MEANINGS[name]}) for name in numbers]
        fields += [pa.field(column.name, _type_of(dtype, column), metadata=_metadata_of(column)) for column in columns]
        self._numbers = tuple(numbers)
        self.schema = pa.schema(fields, metadata={"l5kit": json.dumps(metadata)} if metadata else None)

    def batch_of(self, part: TablePart) -> "pa.RecordBatch":
        """Return the batch of some rows."""
        import pyarrow as pa

        numbers = [pa.array(part.numbers[name]) for name in self._numbers]
        values = [_array_of(column, part.rows) for column in self._columns]
        return pa.RecordBatch.from_arrays([*numbers, *values], schema=self.schema)


class _ArrowTable:
    """Puts an Arrow table together."""

    def __init__(self, columns: ArrowColumns) -> None:
        self._columns = columns
        self._batches: list[pa.RecordBatch] = []

    def append(self, part: TablePart) -> None:
        if len(part.rows):
            self._batches.append(self._columns.batch_of(part))

    def end(self) -> "pa.Table":
        import pyarrow as pa

        return pa.Table.from_batches(self._batches, schema=self._columns.schema)


def _type_of(dtype: DType, column: AnyColumn) -> "pa.DataType":
    import pyarrow as pa

    if isinstance(column, NameColumn):
        return pa.dictionary(pa.int8(), pa.string())
    base = dtype[column.field].base.newbyteorder("=")
    arrow = pa.string() if base.kind == "U" else pa.from_numpy_dtype(base)
    for size in reversed(column.shape):
        arrow = pa.list_(arrow, size)
    return arrow


def _metadata_of(column: AnyColumn) -> dict[str, str] | None:
    """Return meaning, unit, frame of reference and names of the places of a column."""
    if isinstance(column, NameColumn):
        return {"long_name": f"name of the highest of {column.field}"}
    if column.field not in FIELDS:
        return None
    axes = axis_names(column.field, column.shape)
    names = {"axes": json.dumps({axis: AXES[axis] for axis in axes})} if column.shape and set(axes) <= set(AXES) else {}
    return FIELDS[column.field].as_attributes() | names


def _array_of(column: AnyColumn, rows: NumericArray) -> "pa.Array":
    import pyarrow as pa

    if isinstance(column, NameColumn):
        codes = column.codes(rows)
        names = pa.array(column.names, pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), names)
    return _array_of_values(column, rows)


def _array_of_values(column: FieldColumn, rows: NumericArray) -> "pa.Array":
    import pyarrow as pa

    values = column.values(rows)
    flat = values.reshape(-1)
    array = pa.array(shown_texts(flat), pa.string()) if flat.dtype.kind == "U" else pa.array(flat)
    for size in reversed(column.shape):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array

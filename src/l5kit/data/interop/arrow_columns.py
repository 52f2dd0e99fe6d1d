"""Arrow columns for tables and streams of records."""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from l5kit._types import DType, Int64Array, JsonObject, NumericArray, RecordArray
from l5kit.data.interop.table_columns import AXES, FIELDS, AnyColumn, NameColumn, axis_names, choose_columns
from l5kit.data.texts import shown_texts
from l5kit.errors import MissingDependencyError, install_command

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER_MEANINGS = {
    "scene_index": "number of the scene in the dataset, from 0",
    "frame_index": "number of the frame in its scene, from 0",
}


def stream_of(
    dtype: DType,
    blocks: Iterator[NumericArray],
    *,
    columns: Sequence[str] | None = None,
    nested: bool = True,
    label_names: bool = False,
) -> "pa.RecordBatchReader":
    """Return blocks of records as a stream of batches, as described for :func:`l5kit.data.interop.to_arrow_batches`."""
    require_library("pyarrow", "to_arrow_batches")
    import pyarrow as pa

    arrow = ArrowColumns(dtype, choose_columns(dtype, columns, nested=nested, label_names=label_names))
    return pa.RecordBatchReader.from_batches(arrow.schema, map(arrow.batch_of, blocks))


def require_library(library: str, what: str) -> None:
    """Refuse to continue without a table library.

    Args:
        library: pyarrow, pandas or polars.
        what: The function that needs it.

    Raises:
        MissingDependencyError: It is not installed.
    """
    if find_spec(library) is None:
        extra = "arrow" if library == "pyarrow" else library
        raise MissingDependencyError(f"{what} needs {library}: {install_command(extra)}")


class ArrowColumns:
    """Columns of an Arrow table of records.

    Args:
        dtype: Record type.
        columns: The columns.
        index_names: Names of the index columns before them.
        metadata: Metadata of the table.
    """

    def __init__(
        self,
        dtype: DType,
        columns: Sequence[AnyColumn],
        index_names: Sequence[str] = (),
        *,
        metadata: JsonObject | None = None,
    ) -> None:
        import pyarrow as pa

        self._columns = list(columns)
        fields = [pa.field(name, pa.int64(), metadata={"long_name": _NUMBER_MEANINGS[name]}) for name in index_names]
        for column in columns:
            # meaning, unit, frame of reference and names along axes, if known
            meaning: dict[str, str] | None = None
            if isinstance(column, NameColumn):
                kind = pa.dictionary(pa.int8(), pa.string())
                meaning = {"long_name": f"name of the highest of {column.field}"}
            else:
                base = dtype[column.field].base.newbyteorder("=")
                kind = pa.string() if base.kind == "U" else pa.from_numpy_dtype(base)
                for size in reversed(column.shape):
                    kind = pa.list_(kind, size)
                if column.field in FIELDS:
                    meaning = FIELDS[column.field].as_attributes()
                    axes = axis_names(column.field, column.shape)
                    if column.shape and set(axes) <= set(AXES):
                        meaning["axes"] = json.dumps({axis: AXES[axis] for axis in axes})
            fields.append(pa.field(column.name, kind, metadata=meaning))
        self.schema = pa.schema(fields, metadata={"l5kit": json.dumps(metadata)} if metadata else None)

    def batch_of(self, rows: RecordArray, indices: Mapping[str, Int64Array] | None = None) -> "pa.RecordBatch":
        """Return a batch of some rows, preceded by the index columns in their order."""
        import pyarrow as pa

        before = map(pa.array, (indices or {}).values())
        values = []
        for column in self._columns:
            if isinstance(column, NameColumn):
                codes = column.codes(rows)
                names = pa.array(column.names, pa.string())
                values.append(pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), names))
                continue
            # all values contiguous, then divided into lists axis by axis, the last axis first, without a copy
            flat = column.values(rows).reshape(-1)
            array = pa.array(shown_texts(flat), pa.string()) if flat.dtype.kind == "U" else pa.array(flat)
            for size in reversed(column.shape):
                array = pa.FixedSizeListArray.from_arrays(array, size)
            values.append(array)
        return pa.RecordBatch.from_arrays([*before, *values], schema=self.schema)

    def table_of(self, batches: "list[pa.RecordBatch]") -> "pa.Table":
        """Return the table of some batches."""
        import pyarrow as pa

        return pa.Table.from_batches(batches, schema=self.schema)

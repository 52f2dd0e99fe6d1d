"""Columns of tables: which ones arrays of records become in Arrow, pandas, polars and Parquet, and their values."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from l5kit._types import DType, NumericArray, RecordArray
from l5kit.data.interop.fields import column_names
from l5kit.data.labels import PERCEPTION_LABELS, TL_FACE_LABELS
from l5kit.errors import InvalidArgumentError


@dataclass(frozen=True)
class FieldColumn:
    """A column with the values of a field.

    Attributes:
        name: Name of the column.
        field: Name of the field.
        shape: Shape of one value of the column; empty for a number or text.
        number: Which number of a field of several values; None for all of them.
    """

    name: str
    field: str
    shape: tuple[int, ...] = ()
    number: int | None = None

    def values(self, rows: RecordArray) -> NumericArray:
        """Return the values of rows, (N, *shape), side by side in memory and in the byte order of this machine.

        They are a copy, except where the field already lies so, as in records of one field.
        """
        column: NumericArray = rows[self.field]
        if self.number is not None:
            column = column.reshape(len(rows), prod(column.shape[1:]))[:, self.number]
        return np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))


@dataclass(frozen=True)
class NameColumn:
    """A column with the name of the class of the highest probability, or of the state of the highest value.

    Attributes:
        name: Name of the column.
        field: Name of the field of probabilities or values.
        names: Name of each class or state.
    """

    name: str
    field: str
    names: tuple[str, ...]

    def codes(self, rows: RecordArray) -> NumericArray:
        """Return numbers of names, int8 (N,); -1 where all values are 0, or one is not a number."""
        values: NumericArray = rows[self.field]
        codes: NumericArray = values.argmax(axis=1).astype(np.int8)
        # NaN is not above 0 either
        codes[~(values.max(axis=1, initial=0) > 0)] = -1
        return codes


AnyColumn: TypeAlias = FieldColumn | NameColumn

_NAMED = {
    "label_probabilities": ("label", PERCEPTION_LABELS),
    "traffic_light_face_status": ("status", TL_FACE_LABELS),
}


def choose_columns(
    dtype: DType, wanted: Sequence[str] | None = None, *, nested: bool, label_names: bool
) -> list[AnyColumn]:
    """Return the columns of a table of records.

    Args:
        dtype: Record type.
        wanted: Names of fields, for all their columns, and of single columns, in the order wanted; None for all.
        nested: Let a field of several values be one column, of lists; else each of its values is one.
        label_names: Add the columns ``label`` of agents and ``status`` of faces, behind the others where ``wanted``
            does not name them.

    Raises:
        InvalidArgumentError: There is no such column.
    """
    fields = dtype.names or ()
    of_fields: dict[str, list[AnyColumn]] = {}
    for name in fields:
        if nested or not dtype[name].shape:
            of_fields[name] = [FieldColumn(name, name, dtype[name].shape)]
        else:
            columns = column_names(dtype, name)
            of_fields[name] = [FieldColumn(column, name, (), number) for number, column in enumerate(columns)]
    for field, (name, names) in _NAMED.items():
        if field in of_fields and dtype[field].shape == (len(names),) and name not in fields and label_names:
            of_fields[name] = [NameColumn(name, field, tuple(names))]
    if wanted is None:
        return [column for columns in of_fields.values() for column in columns]
    if isinstance(wanted, str):
        raise InvalidArgumentError(f"columns must be a list of names, got the single {wanted!r}; put it into a list")
    # a name may be that of a field, which stands for all of its columns, or of a single column
    single = {column.name: [column] for columns in of_fields.values() for column in columns}
    unknown = [name for name in wanted if name not in of_fields and name not in single]
    if unknown:
        raise InvalidArgumentError(
            f"columns has {unknown[0]!r}; there are {list(dict.fromkeys([*of_fields, *single]))}"
        )
    added = [name for name, columns in of_fields.items() if any(isinstance(c, NameColumn) for c in columns)]
    chosen = [column for name in (*wanted, *added) for column in of_fields.get(name) or single[name]]
    return list(dict.fromkeys(chosen))

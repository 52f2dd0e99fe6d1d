"""Columns of a table as NumPy arrays, of which pandas and polars make theirs.

They are not made of Arrow tables: those need pyarrow, and frames that may be written to would copy each column twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from l5kit._types import DType, NumericArray
from l5kit.data.interop.table_columns import AnyColumn, NameColumn, choose_columns
from l5kit.data.interop.table_parts import BuilderMaker, TablePart

Frame = TypeVar("Frame")


@dataclass(frozen=True)
class Coded:
    """Names by their numbers.

    Attributes:
        codes: int8, (N,); -1 for none.
        names: The names.
    """

    codes: NumericArray
    names: tuple[str, ...]


NumpyColumns: TypeAlias = dict[str, NumericArray | Coded]
"""By name, the values of each column, (N, ...), in memory of their own."""


def make_numpy_columns(
    columns: Sequence[str] | None, *, nested: bool, label_names: bool, frame_of: Callable[[NumpyColumns], Frame]
) -> BuilderMaker[Frame]:
    """Return what makes a builder of frames, by ``frame_of``; for the other arguments see ``choose_columns``."""

    def make_builder(dtype: DType, index_names: tuple[str, ...]) -> _FrameBuilder[Frame]:
        chosen = choose_columns(dtype, columns, nested=nested, label_names=label_names)
        return _FrameBuilder(dtype, chosen, index_names, frame_of)

    return make_builder


class _FrameBuilder(Generic[Frame]):
    """Collects columns part by part, and makes a frame of them."""

    def __init__(
        self,
        dtype: DType,
        columns: list[AnyColumn],
        index_names: tuple[str, ...],
        frame_of: Callable[[NumpyColumns], Frame],
    ) -> None:
        self._dtype, self._columns, self._index_names = dtype, columns, index_names
        self._frame_of = frame_of
        self._parts: dict[str, list[NumericArray]] = {name: [] for name in (*index_names, *(c.name for c in columns))}
        self._num_parts = 0

    def append(self, part: TablePart) -> None:
        if len(part.rows):
            self._add(part)

    def _add(self, part: TablePart) -> None:
        self._num_parts += 1
        for name in self._index_names:
            self._parts[name].append(part.indices[name])
        for column in self._columns:
            values = column.codes(part.rows) if isinstance(column, NameColumn) else column.values(part.rows)
            self._parts[column.name].append(values)

    def end(self) -> Frame:
        if self._num_parts == 0:
            self._add(TablePart(np.empty(0, self._dtype), dict.fromkeys(self._index_names, np.empty(0, np.int64))))
        names = {column.name: column.names for column in self._columns if isinstance(column, NameColumn)}
        joined: NumpyColumns = {}
        for name in list(self._parts):
            parts = self._parts.pop(name)
            values = parts[0] if len(parts) == 1 and parts[0].flags.owndata else np.concatenate(parts)
            joined[name] = Coded(values, names[name]) if name in names else values
        return self._frame_of(joined)

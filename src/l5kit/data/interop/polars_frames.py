"""polars data frames of arrays of records and of scenes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from l5kit._types import Records
from l5kit.data.interop.numpy_columns import Coded, NumpyColumns, make_numpy_columns
from l5kit.data.interop.table_parts import tables_of
from l5kit.data.scene_selection import SceneSelection
from l5kit.data.texts import shown_texts
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import MissingDependencyError, install_command

if TYPE_CHECKING:
    import polars as pl


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
    """Return an array of records as a ``polars.DataFrame``, or scenes as one for each of their arrays.

    A field of several values is a column of type ``Array``: ``centroid`` is ``Array(Float64, 2)``, of which
    ``pl.col("centroid").arr.get(0)`` is x; ``ego_rotation`` is ``Array(Float64, (3, 3))``. It needs no pyarrow.

    Args:
        data: An array such as ``dataset.agents``, a slice or view of one, or a NumPy array of records; or a dataset,
            also one scene of one (``dataset[3]``).
        scenes: Scenes of a dataset: a number, a slice, numbers or a mask; None for all. Frames begin with the column
            ``scene_index``, counted in ``data``, and ``frame_index``, counted in the scene; ``columns`` is for arrays.
        columns: Names of fields, or of single columns without ``nested``, in the order wanted; None for all.
        nested: Make an ``Array`` of fields of several values; else a column of each value, such as ``centroid_x``.
        label_names: Add a column of type ``Enum``: for agents ``label``, the class of the highest probability, for
            faces ``status``, the state of the highest value; null where all are 0.

    Returns:
        A frame; for a dataset a dictionary of those of ``scenes``, ``frames``, ``agents`` and ``traffic_light_faces``,
        with the rows of the scenes in their order. Values are those of the dataset to the bit; intervals count its
        rows.

    Raises:
        CorruptedDataError: Rows cannot be read, or intervals of scenes are wrong.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: ``data`` is neither, there is no such column, or arguments do not go together.
        MissingDependencyError: polars is not installed.
    """
    try:
        import polars  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(f"to_polars needs polars: {install_command('polars')}") from error
    make_builder = make_numpy_columns(columns, nested=nested, label_names=label_names, frame_of=_frame_of)
    return tables_of(data, scenes, columns, make_builder)


def _frame_of(columns: NumpyColumns) -> "pl.DataFrame":
    import polars as pl

    series = []
    for name, values in columns.items():
        if isinstance(values, Coded):
            names = np.array([*values.names, None], dtype=object)  # the code -1 takes the last one, which is null
            series.append(pl.Series(name, names[values.codes].tolist(), dtype=pl.Enum(values.names)))
            continue
        flat = values.reshape(-1)
        column = pl.Series(name, shown_texts(flat) if flat.dtype.kind == "U" else flat)
        series.append(column.reshape(values.shape) if values.ndim > 1 else column)
    return pl.DataFrame(series)

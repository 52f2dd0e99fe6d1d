"""pandas data frames of arrays of records and of scenes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from l5kit._types import Records
from l5kit.data.interop.numpy_columns import Coded, NumpyColumns, make_numpy_columns
from l5kit.data.interop.table_parts import tables_of
from l5kit.data.scene_selection import SceneSelection
from l5kit.data.texts import shown_texts
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import MissingDependencyError, install_command

if TYPE_CHECKING:
    import pandas as pd


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
    """Return an array of records as a ``pandas.DataFrame``, or scenes as one for each of their arrays.

    Each value of a field is a column of its own: ``centroid_x``, ``centroid_y``, ``extent_length``,
    ``ego_rotation_x_y`` (row x, column y), ``label_probabilities_PERCEPTION_LABEL_CAR``,
    ``agent_index_interval_start``. Types are those of the fields, texts are strings, times are whole nanoseconds. The
    frame owns its memory; each column is copied once.

    Args:
        data: An array such as ``dataset.agents``, a slice or view of one, or a NumPy array of records; or a dataset,
            also one scene of one (``dataset[3]``).
        scenes: Scenes of a dataset: a number, a slice, numbers or a mask; None for all. Frames begin with the column
            ``scene_index``, counted in ``data``, and ``frame_index``, counted in the scene; ``columns`` is for arrays.
        columns: Names of fields, for all their columns, and of single columns, in the order wanted; None for all.
        label_names: Add a categorical column: for agents ``label``, the class of the highest probability, for faces
            ``status``, the state of the highest value; missing where all are 0.

    Returns:
        A frame; for a dataset a dictionary of those of ``scenes``, ``frames``, ``agents`` and ``traffic_light_faces``,
        with the rows of the scenes in their order. Values are those of the dataset to the bit; intervals count its
        rows.

    Raises:
        CorruptedDataError: Rows cannot be read, or intervals of scenes are wrong.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: ``data`` is neither, there is no such column, or arguments do not go together.
        MissingDependencyError: pandas is not installed.
    """
    try:
        import pandas  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(f"to_pandas needs pandas: {install_command('pandas')}") from error
    make_builder = make_numpy_columns(columns, nested=False, label_names=label_names, frame_of=_frame_of)
    return tables_of(data, scenes, columns, make_builder)


def _frame_of(columns: NumpyColumns) -> "pd.DataFrame":
    import pandas as pd

    # each column as pandas takes it without a copy
    taken: dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, Coded):
            taken[name] = pd.Categorical.from_codes(values.codes, categories=list(values.names))
        elif values.dtype.kind == "U":
            taken[name] = pd.Series(shown_texts(values), dtype="str")
        else:
            taken[name] = values
    return pd.DataFrame(taken, copy=False)

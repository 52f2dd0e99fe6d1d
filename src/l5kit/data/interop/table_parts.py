"""Parts of tables: rows of arrays and of scenes, read in bounded pieces and combined to tables."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from l5kit._types import DType, Int64Array, RecordArray, Records
from l5kit.data import layout
from l5kit.data.frame_rows import expand_ranges
from l5kit.data.interop.table_columns import AnyColumn, choose_columns
from l5kit.data.record_bytes import as_record_type
from l5kit.data.record_sequence import ROWS_PER_BLOCK, RecordSequence, passing_blocks, rows_of
from l5kit.data.records import (
    AGENT_ARRAY_KEY,
    AGENT_INTERVAL,
    FACE_INTERVAL,
    FRAME_ARRAY_KEY,
    FRAME_INTERVAL,
    SCENE_ARRAY_KEY,
    TL_FACE_ARRAY_KEY,
)
from l5kit.data.scene_selection import SceneSelection, selected_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError

Batch = TypeVar("Batch")
Table = TypeVar("Table", covariant=True)

NUMBER_COLUMNS = {
    SCENE_ARRAY_KEY: ("scene_index",),
    FRAME_ARRAY_KEY: ("scene_index", "frame_index"),
    AGENT_ARRAY_KEY: ("scene_index", "frame_index"),
    TL_FACE_ARRAY_KEY: ("scene_index", "frame_index"),
}
"""Index columns of the tables of a dataset, which precede those of the fields."""


@dataclass(frozen=True)
class TablePart:
    """Successive rows of a table.

    Attributes:
        rows: Records, (N,).
        indices: ``scene_index`` in the dataset and ``frame_index`` in the scene of each row, (N,).
    """

    rows: RecordArray
    indices: dict[str, Int64Array]


class TableForm(Protocol[Batch, Table]):
    """Builder of a kind of table."""

    def batch_of(self, rows: RecordArray, indices: dict[str, Int64Array]) -> Batch:
        """Return a batch of some rows, given their index columns."""

    def table_of(self, batches: list[Batch]) -> Table:
        """Return the table of all batches; there may be none."""


FormMaker = Callable[[DType, list[AnyColumn], tuple[str, ...]], TableForm[Batch, Table]]
"""Creates a builder, given the record type, the columns, and the names of the index columns."""


def tables_of(
    data: Records | ChunkedDataset,
    scenes: SceneSelection,
    make_form: FormMaker[Batch, Table],
    *,
    columns: Sequence[str] | None,
    nested: bool,
    label_names: bool,
) -> Table | dict[str, Table]:
    """Return the table of an array, or the tables of some scenes of a dataset, by name on disk.

    Args:
        data: An array or a dataset.
        scenes: Scenes of a dataset; None for all.
        make_form: Creates the builder of a table.
        columns: Columns of an array; None for all. For this and the next two see ``choose_columns``.
        nested: Represent a field of several values by one column.
        label_names: Add the names of labels and states.

    Raises:
        CorruptedDataError: Rows cannot be read, or intervals of scenes are wrong.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: ``data`` is neither or not open, there is no such column, or the arguments are
            incompatible.
    """

    def form_of(dtype: DType, index_names: tuple[str, ...]) -> TableForm[Batch, Table]:
        chosen = choose_columns(dtype, columns, nested=nested, label_names=label_names)
        return make_form(dtype, chosen, index_names)

    if not isinstance(data, ChunkedDataset):
        if scenes is not None:
            raise InvalidArgumentError(
                f"scenes is {scenes!r}, but data is an array, which has no scenes; pass the dataset"
            )
        require_records(data)
        form = form_of(data.dtype, ())
        return form.table_of([form.batch_of(rows, {}) for rows in passing_blocks(data, ROWS_PER_BLOCK) if len(rows)])

    if columns is not None:
        raise InvalidArgumentError(
            f"columns is {columns!r}, but data is a dataset, whose arrays have different columns; pass one array, or "
            "select from the tables"
        )
    if data.path and len(data) == 0 and not hasattr(data, "root"):
        raise InvalidArgumentError(f"data is {data!r}, which is not open; call open() on it first")
    forms = {key: form_of(dtype, NUMBER_COLUMNS[key]) for key, (_, dtype, _) in layout.ARRAYS.items()}
    indices = selected_scenes(scenes, len(data)).tolist()
    # reading a scene checks all scenes, so keep them in memory if several are read
    dataset = with_scenes_in_memory(data) if len(indices) > 1 else data
    batches: dict[str, list[Batch]] = {key: [] for key in forms}
    for scene in indices:
        for key, part in parts_of_scene(dataset, scene).items():
            if len(part.rows):
                batches[key].append(forms[key].batch_of(part.rows, part.indices))
    return {key: form.table_of(batches[key]) for key, form in forms.items()}


def require_records(records: object) -> None:
    """Refuse anything but a one-dimensional array of records.

    Raises:
        InvalidArgumentError: It is something else.
    """
    if not is_records(records):
        got = f"{records.dtype} of shape {records.shape}" if isinstance(records, np.ndarray) else repr(records)
        raise InvalidArgumentError(
            f"data must be records along one axis such as dataset.agents, or a dataset, got {got}"
        )


def is_records(records: object) -> bool:
    """Return whether an object is a one-dimensional array of records."""
    is_array = isinstance(records, RecordSequence) or (isinstance(records, np.ndarray) and records.ndim == 1)
    return is_array and bool(getattr(records, "dtype", np.dtype(float)).names)


def parts_of_scene(dataset: ChunkedDataset, scene_index: int) -> dict[str, TablePart]:
    """Return the rows of a scene by array name on disk, with all fields as stored in the dataset.

    Records have the types of the format. Intervals refer to rows of the dataset.

    Args:
        dataset: An opened dataset, or one in memory.
        scene_index: Index of the scene.

    Raises:
        CorruptedDataError: A file of the scene is damaged or missing, or its intervals are wrong.
    """
    view = dataset.view_scene(scene_index)
    records = {
        key: as_record_type(np.asarray(getattr(view, attribute)), dtype)
        for key, (attribute, dtype, _) in layout.ARRAYS.items()
    }
    scene, frames = records[SCENE_ARRAY_KEY], records[FRAME_ARRAY_KEY]

    # agents and faces referenced by frames, with their frames; rows are copied only if some belong to no frame
    parts = {}
    for key, interval in _CHILDREN.items():
        rows, frame_indices = records[key], np.empty(0, dtype=np.int64)
        if len(rows):
            starts, counts = frames[interval][:, 0], frames[interval][:, 1] - frames[interval][:, 0]
            frame_indices, kept_rows = np.repeat(np.arange(len(frames)), counts), expand_ranges(starts, counts)
            is_all = len(kept_rows) == len(rows) and bool((kept_rows == np.arange(len(rows))).all())
            rows = rows if is_all else rows[kept_rows]
        parts[key] = _numbered(rows, scene_index, frame_indices)

    # intervals of the view refer to the scene: restore those of the dataset in scene and frames, which are copies
    stored = rows_of(dataset.scenes, slice(scene_index, scene_index + 1), strict=True)
    scene[FRAME_INTERVAL] = stored[FRAME_INTERVAL]
    start, stop = stored[FRAME_INTERVAL][0].tolist()
    if start != stop:
        first = rows_of(dataset.frames, slice(start, start + 1), strict=True)
        for interval in set(_CHILDREN.values()) & set(first.dtype.names or ()):
            frames[interval] += first[interval][0, 0]
    parts[FRAME_ARRAY_KEY] = _numbered(frames, scene_index, np.arange(len(frames)))
    return {SCENE_ARRAY_KEY: TablePart(scene, {"scene_index": np.full(1, scene_index)}), **parts}


def with_scenes_in_memory(dataset: ChunkedDataset) -> ChunkedDataset:
    """Return a dataset with its scenes as a NumPy array, as reading a scene checks all of them."""
    prepared = copy.copy(dataset)
    prepared.scenes = np.asarray(dataset.scenes)
    return prepared


_CHILDREN = {AGENT_ARRAY_KEY: AGENT_INTERVAL, TL_FACE_ARRAY_KEY: FACE_INTERVAL}


def _numbered(rows: RecordArray, scene_index: int, frame_indices: Int64Array) -> TablePart:
    return TablePart(rows, {"scene_index": np.full(len(rows), scene_index), "frame_index": frame_indices})

"""Parts of tables: rows of arrays and of scenes, read a bounded number at a time for those that build tables."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from l5kit._types import DType, Int64Array, RecordArray, Records
from l5kit.data import layout
from l5kit.data.frame_rows import expand_ranges
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

Table = TypeVar("Table", covariant=True)

NUMBER_COLUMNS = {
    SCENE_ARRAY_KEY: ("scene_index",),
    FRAME_ARRAY_KEY: ("scene_index", "frame_index"),
    AGENT_ARRAY_KEY: ("scene_index", "frame_index"),
    TL_FACE_ARRAY_KEY: ("scene_index", "frame_index"),
}
"""Columns of the tables of a dataset that stand before those of the fields."""


@dataclass(frozen=True)
class TablePart:
    """Successive rows of a table.

    Attributes:
        rows: Records, (N,).
        indices: ``scene_index``, counted in the dataset, and ``frame_index``, counted in the scene, of each row, (N,);
            none for the rows of an array.
    """

    rows: RecordArray
    indices: dict[str, Int64Array] = field(default_factory=dict)


class TableBuilder(Protocol[Table]):
    """Puts a table together."""

    def append(self, part: TablePart) -> None:
        """Add rows."""

    def end(self) -> Table:
        """Return the table of all rows."""


BuilderMaker = Callable[[DType, tuple[str, ...]], TableBuilder[Table]]
"""Makes a builder of a table, given the type of its records and the names of the columns of numbers."""


def tables_of(
    data: Records | ChunkedDataset,
    scenes: SceneSelection,
    columns: Sequence[str] | None,
    make_builder: BuilderMaker[Table],
) -> Table | dict[str, Table]:
    """Return the table of an array, or those of some scenes of a dataset by their names on disk.

    Args:
        data: Either.
        scenes: Scenes of a dataset; None for all.
        columns: Columns of an array, which the builders choose; None for all.
        make_builder: Makes the builder of a table.

    Raises:
        CorruptedDataError: Rows cannot be read, or intervals of scenes are wrong.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: ``data`` is neither or not open, or arguments do not go together.
    """
    if not isinstance(data, ChunkedDataset):
        if scenes is not None:
            raise InvalidArgumentError(
                f"scenes is {scenes!r}, but data is an array, whose rows know of no scenes; pass the dataset"
            )
        require_records(data)
        builder = make_builder(data.dtype, ())
        for rows in passing_blocks(data, ROWS_PER_BLOCK):
            builder.append(TablePart(rows))
        return builder.end()

    if columns is not None:
        raise InvalidArgumentError(
            f"columns is {columns!r}, but data is a dataset, whose arrays have other columns each; pass one array, or "
            "select from the tables"
        )
    if data.path and len(data) == 0 and not hasattr(data, "root"):
        raise InvalidArgumentError(f"data is {data!r}, which is not open; call open() on it first")
    builders = {key: make_builder(np.dtype(dtype), NUMBER_COLUMNS[key]) for key, (_, dtype, _) in layout.ARRAYS.items()}
    indices = selected_scenes(scenes, len(data)).tolist()
    # whoever reads a scene checks all of them, so that they are read once for several
    dataset = with_scenes_in_memory(data) if len(indices) > 1 else data
    for scene in indices:
        for key, part in parts_of_scene(dataset, scene).items():
            builders[key].append(part)
    return {key: builder.end() for key, builder in builders.items()}


def require_records(records: object) -> None:
    """Refuse what is no array of records along one axis.

    Raises:
        InvalidArgumentError: It is something else.
    """
    is_array = isinstance(records, RecordSequence) or (isinstance(records, np.ndarray) and records.ndim == 1)
    if not is_array or not getattr(records, "dtype", np.dtype(float)).names:
        got = f"{records.dtype} of shape {records.shape}" if isinstance(records, np.ndarray) else repr(records)
        raise InvalidArgumentError(
            f"data must be records along one axis such as dataset.agents, or a dataset, got {got}"
        )


def parts_of_scene(dataset: ChunkedDataset, scene_index: int) -> dict[str, TablePart]:
    """Return the rows of a scene by the names of the arrays on disk, all fields as they stand in the dataset.

    Records are in the types of the format. Intervals count rows of the dataset.

    Args:
        dataset: An opened dataset, or one in memory.
        scene_index: The scene, from 0.

    Raises:
        CorruptedDataError: A file of the scene is damaged or missing, or its intervals are wrong.
    """
    view = dataset.view_scene(scene_index)
    records = {
        key: as_record_type(np.asarray(getattr(view, attribute)), dtype)
        for key, (attribute, dtype, _) in layout.ARRAYS.items()
    }
    scene, frames = records[SCENE_ARRAY_KEY], records[FRAME_ARRAY_KEY]

    # agents and faces that frames name, with their frames; rows are copied only where some belong to none
    parts = {}
    for key, interval in _CHILDREN.items():
        rows, frame_indices = records[key], np.empty(0, dtype=np.int64)
        if len(rows):
            starts, counts = frames[interval][:, 0], frames[interval][:, 1] - frames[interval][:, 0]
            frame_indices, kept_rows = np.repeat(np.arange(len(frames)), counts), expand_ranges(starts, counts)
            is_all = len(kept_rows) == len(rows) and bool((kept_rows == np.arange(len(rows))).all())
            rows = rows if is_all else rows[kept_rows]
        parts[key] = _numbered(rows, scene_index, frame_indices)

    # the view counts rows of the scene: scene and frames, which are copies, get back those of the dataset
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
    """Return a dataset whose scenes, all of which are checked for each scene that is read, are a NumPy array."""
    prepared = copy.copy(dataset)
    prepared.scenes = np.asarray(dataset.scenes)
    return prepared


_CHILDREN = {AGENT_ARRAY_KEY: AGENT_INTERVAL, TL_FACE_ARRAY_KEY: FACE_INTERVAL}


def _numbered(rows: RecordArray, scene_index: int, frame_indices: Int64Array) -> TablePart:
    return TablePart(rows, {"scene_index": np.full(len(rows), scene_index), "frame_index": frame_indices})

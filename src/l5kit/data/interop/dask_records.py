"""Dask arrays and dataframes of the records of a dataset, partitioned so that no chunk file is read twice.

An xarray dataset is built from them: a variable for each field, with named axes, units and frames.
"""

import json
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from l5kit._types import JsonObject, NumericArray, Records
from l5kit.data.interop.table_columns import AXES, FIELDS, ROW_AXES, axis_names, choose_columns
from l5kit.data.interop.table_parts import is_records
from l5kit.data.interop.tables import to_pandas
from l5kit.data.layout import ARRAYS
from l5kit.data.record_sequence import ROWS_PER_BLOCK, rows_of
from l5kit.data.scene_selection import SceneSelection, selected_scenes
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.data.views import RecordView, view_of_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command

if TYPE_CHECKING:
    import dask.array as da
    import pandas as pd
    import xarray as xr


class PartsOfRecords:
    """The rows of an array of a dataset, read in parts, by threads or, pickled, by other processes.

    Nothing is cached except the last chunk of a file. A missing file is an error.

    Args:
        records: Array of an opened dataset, of a view, or NumPy array.
        chunks_at_once: File chunks per part.

    Attributes:
        lengths: Rows of each part, at least one part; parts end at chunk boundaries of the files. Short parts of scenes
            that are apart in the files are combined while they do not exceed a chunk.

    Raises:
        InvalidArgumentError: ``records`` is not such an array, or ``chunks_at_once`` is less than 1.
    """

    ndim = 1

    def __init__(self, records: Records, *, chunks_at_once: int = 1) -> None:
        if not is_records(records):
            raise InvalidArgumentError(
                f"records must be an array of an opened dataset, such as dataset.agents, got {type(records).__name__}"
            )
        if chunks_at_once < 1:
            raise InvalidArgumentError(f"chunks_at_once must be 1 or more, got {chunks_at_once}")
        self.dtype = records.dtype
        self.shape = (len(records),)
        self._records = _uncached(records)
        ranges: list[tuple[Records, int, int]] = [(records, 0, len(records))]
        if isinstance(records, RecordView):
            rows = records.segments
            ranges = [
                (records.sources[source], int(start), int(stop))
                for source, start, stop in zip(rows.source, rows.start, rows.stop, strict=True)
            ]

        # split each range at the chunk boundaries of its source, then join short neighbours
        longest, lengths = _chunk_length(records) * chunks_at_once, list[int]()
        for source, start, stop in ranges:
            # multiples of the part length, the first one after the start; none if there are no rows
            step = _chunk_length(source) * chunks_at_once
            inside = np.arange(-(-(start + 1) // step) * step, stop, step, dtype=np.int64)
            for low, high in pairwise(np.unique(np.concatenate(([start], inside, [stop]))).tolist()):
                if lengths and lengths[-1] + high - low <= longest:
                    lengths[-1] += high - low
                else:
                    lengths.append(high - low)
        self.lengths = tuple(lengths) or (0,)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def starts(self) -> list[int]:
        """First row of each part."""
        return [0, *np.cumsum(self.lengths[:-1]).tolist()]

    def __getitem__(self, index: slice | tuple[slice, ...]) -> NumericArray:
        """Return rows, as an array that must not be modified.

        Raises:
            CorruptedDataError: They cannot be read.
        """
        rows = index[0] if isinstance(index, tuple) else index
        start, stop, step = rows.indices(len(self))
        if step > 0:
            return rows_of(self._records, slice(start, max(start, stop)), strict=True)[::step]
        return rows_of(self._records, slice(0, len(self)), strict=True)[rows]


def _chunk_length(records: Records) -> int:
    """Return the number of rows that are always read together."""
    if isinstance(records, ChunkedArray):
        return records.chunks[0]
    if isinstance(records, RecordView):
        return max((_chunk_length(source) for source in records.sources), default=ROWS_PER_BLOCK)
    return ROWS_PER_BLOCK


def _uncached(records: Records) -> Records:
    """Return the same rows, read through arrays without a cache."""
    if isinstance(records, ChunkedArray):
        return records.uncached()
    if isinstance(records, RecordView):
        return RecordView([_uncached(source) for source in records.sources], records.segments, dtype=records.dtype)
    return records


def to_dask_array(records: Records, field: str | None = None, *, chunks_at_once: int = 1) -> "da.Array":
    """Return an array of a dataset, or one field of it, as a Dask array; nothing is read until it is computed.

    The chunks of the Dask array end at chunk boundaries of the files, so no file is read twice, and threads and other
    processes read their parts independently: only the location of a dataset on disk is sent. Fields of one array of
    records, ``to_dask_array(dataset.agents)["yaw"]``, share one read.

    Args:
        records: Array of an opened dataset, such as ``dataset.agents``; also of a view, or a NumPy array.
        field: Name of a field; None for the records.
        chunks_at_once: File chunks per chunk of the Dask array; increase it if there are so many tasks that scheduling
            dominates.

    Returns:
        Records of shape (N,), or the field, (N, ...). Units and frames are those of the field.

    Raises:
        InvalidArgumentError: ``records`` is not such an array, there is no such field, or ``chunks_at_once`` is less
            than 1.
        MissingDependencyError: Dask is not installed.
    """
    try:
        import dask.array as da
    except ImportError as error:
        raise MissingDependencyError(f"Dask arrays need Dask: {install_command('xarray')}") from error
    parts = PartsOfRecords(records, chunks_at_once=chunks_at_once)
    names = parts.dtype.names or ()
    if field is not None and field not in names:
        raise InvalidArgumentError(f"field must be one of {list(names)}, or None for all, got {field!r}")
    empty = np.empty(0, dtype=parts.dtype)
    from_array: Any = da.from_array  # untyped
    array: da.Array = from_array(parts, chunks=(parts.lengths,), name=f"l5kit-{uuid4()}", asarray=False, meta=empty)
    return array if field is None else array[field]


def to_dask_dataframe(records: Records, columns: Sequence[str] | None = None, *, chunks_at_once: int = 1) -> Any:
    """Return an array of a dataset as a Dask dataframe; nothing is read until it is computed.

    The index ``row`` has the row numbers. Each number of a field is a column, such as ``centroid_x``,
    ``extent_length``, ``ego_rotation_x_y`` (row x, column y) or ``label_probabilities_PERCEPTION_LABEL_CAR``.
    Partitions end at chunk boundaries of the files.

    Args:
        records: Array of an opened dataset, such as ``dataset.agents``; also of a view, or a NumPy array.
        columns: Names of fields, for all their columns, and of single columns, in the desired order; None for all.
        chunks_at_once: File chunks per partition.

    Returns:
        A ``dask.dataframe.DataFrame`` with known divisions.

    Raises:
        InvalidArgumentError: ``records`` is not such an array, there is no such column or ``chunks_at_once`` is less
            than 1.
        MissingDependencyError: Dask or pandas is not installed.
    """
    try:
        import dask.dataframe as dd
    except ImportError as error:
        raise MissingDependencyError(
            f"Dask dataframes need Dask and pandas: {install_command('xarray', 'pandas')} 'dask[dataframe]'"
        ) from error
    parts = PartsOfRecords(records, chunks_at_once=chunks_at_once)
    chosen = choose_columns(parts.dtype, columns, nested=False, label_names=False)
    read = partial(_read_part, parts, [column.name for column in chosen])
    starts = parts.starts
    divisions = (*starts, max(len(parts) - 1, starts[-1]))
    bounds = list(zip(starts, parts.lengths, strict=True))
    from_map: Any = dd.from_map  # untyped
    return from_map(read, bounds, meta=read((0, 0)), divisions=divisions, label="l5kit")


def _read_part(parts: PartsOfRecords, columns: list[str], bounds: tuple[int, int]) -> "pd.DataFrame":
    """Return some rows as a table, given the first row and their number."""
    import pandas as pd

    start, length = bounds
    frame = to_pandas(parts[start : start + length], columns=columns)
    frame.index = pd.RangeIndex(start, start + length, name="row")
    return frame


def to_xarray(dataset: ChunkedDataset, scenes: SceneSelection = None, *, chunks_at_once: int = 1) -> "xr.Dataset":
    """Return a dataset as one lazy ``xarray.Dataset``; records are read when they are computed.

    Each field of each array is a variable named after both: ``frames_ego_translation``, ``agents_centroid``,
    ``traffic_light_faces_face_id``. Axes of rows are ``scene``, ``frame``, ``agent`` and ``face``; ``xy``, ``xyz``,
    ``size``, ``label``, ``status`` and ``bound`` have their names as coordinates, and the axes of rotations are
    ``world_axis`` and ``av_axis``. Attributes give units, frame of reference and meaning, and the facts of the log.

    The variables are Dask arrays whose chunks end at chunk boundaries of the files. Variables of one array that are
    computed together share one read. Only the location of the files is sent to other processes.

    Args:
        dataset: Opened dataset, a view, or one in memory.
        scenes: Scenes to include: an index, a slice, indices in any order or a mask; None for all. For a subset, all
            three kinds of intervals are renumbered to rows of the subset, which start at 0. This reads only the scenes
            and their first and last frames.
        chunks_at_once: File chunks per chunk of the variables.

    Raises:
        CorruptedDataError: A subset is requested, and intervals of its scenes are wrong.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: ``dataset`` is not a dataset, or ``scenes`` is invalid.
        MissingDependencyError: xarray or Dask is not installed.
    """
    try:
        import xarray as xr
    except ImportError as error:
        raise MissingDependencyError(f"to_xarray needs xarray and Dask: {install_command('xarray')}") from error
    if not isinstance(dataset, ChunkedDataset):
        raise InvalidArgumentError(f"dataset must be an opened dataset, got {dataset!r}; open one with ChunkedDataset")
    if scenes is not None:
        dataset = view_of_scenes(dataset, selected_scenes(scenes, len(dataset)))
    variables: dict[str, tuple[tuple[str, ...], Any, JsonObject]] = {}
    for key, (attribute, _, _) in ARRAYS.items():
        records = to_dask_array(getattr(dataset, attribute), chunks_at_once=chunks_at_once)
        for field in records.dtype.names or ():
            axes = (ROW_AXES[key], *axis_names(field, records.dtype[field].shape))
            attributes = FIELDS[field].as_attributes() if field in FIELDS else {}
            variables[f"{key}_{field}"] = (axes, records[field], attributes)
    used = {axis for axes, _, _ in variables.values() for axis in axes}
    coordinates = {axis: list(names) for axis, names in AXES.items() if axis in used}

    # netCDF attributes are numbers, texts and lists of these, so dictionaries are stored as JSON
    facts = dataset.facts
    attributes_of_all: JsonObject = {
        "title": "log of scenes, frames, agents and traffic light faces",
        "source": dataset.path or "memory",
        "ego_extent_m": list(facts.ego_extent_m),
        "step_time_s": facts.step_time_s,
        "label_mapping": json.dumps(dict(facts.label_mapping)),
    }
    if facts.sources:
        attributes_of_all["sources"] = json.dumps([dict(source) for source in facts.sources])
    return xr.Dataset(variables, coordinates, attrs=attributes_of_all)

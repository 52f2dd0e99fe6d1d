"""Layout of a dataset on disk: names, record types, chunks and compression of its arrays, and file names of logs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numcodecs
import numpy as np
import zarr
from numpy.typing import DTypeLike
from zarr.abc.store import Store
from zarr.core.sync import sync

from l5kit._types import DType, JsonObject
from l5kit.configs.texts import nearest_name
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.log_facts import LogFacts
from l5kit.data.record_dtype import RecordDType
from l5kit.data.records import (
    AGENT_ARRAY_KEY,
    AGENT_CHUNK_SIZE,
    AGENT_DTYPE,
    AGENT_INTERVAL,
    FACE_INTERVAL,
    FORMAT_VERSION,
    FRAME_ARRAY_KEY,
    FRAME_CHUNK_SIZE,
    FRAME_DTYPE,
    SCENE_ARRAY_KEY,
    SCENE_CHUNK_SIZE,
    SCENE_DTYPE,
    TL_FACE_ARRAY_KEY,
    TL_FACE_CHUNK_SIZE,
    TL_FACE_DTYPE,
)
from l5kit.data.stores.consolidated import drop_consolidated
from l5kit.data.stores.store import ZarrArray, chunk_indices
from l5kit.errors import DatasetFormatError

MAX_BYTES = 2**63

MAX_CHUNK_BYTES = 2**31
"""Maximum chunk size of Blosc in bytes."""

_NARROW_BYTES = 4

MAX_LOST_FILES = 16
"""Number of chunk files at the end of an array that may always be missing."""

GROUP_FILES: Final = (".zgroup", "zarr.json")
"""Metadata files of zarr 2 (datasets) and of zarr 3 (columnar exports)."""

LOG_SUFFIXES: Final = (".zarr", ".zarr.zip")
"""Suffixes of folders and of zip files."""


class ArrayLayout(NamedTuple):
    """One array on disk.

    Attributes:
        attribute: Attribute of the dataset that holds the array.
        dtype: Record type.
        chunks: Rows per chunk, as a tuple.
    """

    attribute: str
    dtype: DType
    chunks: tuple[int]


ARRAYS = {
    SCENE_ARRAY_KEY: ArrayLayout("scenes", np.dtype(SCENE_DTYPE), SCENE_CHUNK_SIZE),
    FRAME_ARRAY_KEY: ArrayLayout("frames", np.dtype(FRAME_DTYPE), FRAME_CHUNK_SIZE),
    AGENT_ARRAY_KEY: ArrayLayout("agents", np.dtype(AGENT_DTYPE), AGENT_CHUNK_SIZE),
    TL_FACE_ARRAY_KEY: ArrayLayout("tl_faces", np.dtype(TL_FACE_DTYPE), TL_FACE_CHUNK_SIZE),
}
"""Array layouts by name on disk."""


def create_group(store: Store, mode: Any, facts: LogFacts | None = None) -> zarr.Group:
    """Create a zarr group in ``store`` with the attributes of a dataset and the facts of its log, and return it."""
    attributes: JsonObject = {"format_version": FORMAT_VERSION, "labels": PERCEPTION_LABELS}
    attributes |= {} if facts is None else facts.as_attributes()
    if mode == "a":
        drop_consolidated(store)
    return zarr.open_group(store=store, mode=mode, zarr_format=2, attributes=attributes, use_consolidated=False)


def create_array(group: zarr.Group, key: str, length: int, *, dtype: DTypeLike | None = None) -> ZarrArray:
    """Create one of the arrays of a dataset in ``group`` with ``length`` rows, and return it.

    Metadata and chunks are the same as zarr-python 2 writes by default.

    Args:
        group: Group of the dataset.
        key: Name of the array.
        length: Number of rows.
        dtype: Record type; None for the standard type of the format.
    """
    _, standard, chunks = ARRAYS[key]
    return group.create_array(
        key,
        shape=(length,),
        chunks=chunks,
        dtype=RecordDType.from_numpy(standard if dtype is None else dtype),
        compressors=numcodecs.Blosc("lz4", 5, 1),
        fill_value=0,
        config={"write_empty_chunks": True},
    )


def check_fields(dtype: DType, key: str, file: str) -> None:
    """Refuse a record type that lacks fields of the format; see :func:`find_wrong_field`.

    Args:
        dtype: Record type to check.
        key: Name of the array.
        file: Path of its metadata, for the message.

    Raises:
        DatasetFormatError: A field is missing or has another type.
    """
    problem = find_wrong_field(dtype, key)
    if problem is not None:
        raise DatasetFormatError(f"{file} {problem}; this is not a dataset of this format, or its metadata is damaged")


def check_size(array: ZarrArray, file: str) -> None:
    """Refuse an array that is longer than its chunk files can be, to avoid long reads of rows that do not exist.

    Single lost files are reported when their rows are read; only lengths with most files missing are refused.

    Args:
        array: A zarr array of one axis.
        file: Path of its metadata, for the message.

    Raises:
        DatasetFormatError: The length or the chunks are too large.
    """
    length, chunk_length, row_bytes = int(array.shape[0]), int(array.chunks[0]), array.dtype.itemsize
    advice = "the metadata is damaged, or files were lost: restore the dataset from its source"
    if length * row_bytes >= MAX_BYTES:
        raise DatasetFormatError(f"{file} says that there are {length} rows, more than any machine can hold; {advice}")
    if chunk_length * row_bytes > MAX_CHUNK_BYTES:
        raise DatasetFormatError(
            f"{file} says that a chunk has {chunk_length} rows of {row_bytes} bytes, more than the {MAX_CHUNK_BYTES} "
            f"bytes that the format can hold; {advice}"
        )
    num_chunks = -(-length // chunk_length)
    path = array.store_path.path
    if not array.read_only or num_chunks <= MAX_LOST_FILES or sync(array.store.exists(f"{path}/{num_chunks - 1}")):
        return
    # the last chunk has no file: either some files were lost, or the length is far too large
    last_ones = range(max(0, num_chunks - MAX_LOST_FILES - 1), num_chunks)
    present = [index for index in chunk_indices(array.store, path, last_ones) if index < num_chunks]
    num_behind = num_chunks - 1 - max(present, default=-1)
    if num_behind > max(MAX_LOST_FILES, len(present)):
        raise DatasetFormatError(
            f"{file} says that there are {length} rows, in {num_chunks} chunks of {chunk_length}, but there are "
            f"{len(present)} chunk files, and none of the last {num_behind}; {advice} "
            "(one that is yet to be filled opens with mode='r+')"
        )


def find_wrong_field(dtype: DType, key: str) -> str | None:
    """Return what is wrong with the record type of an array, as text; None if it has all required fields.

    Fields may have narrower types (as in datasets made before April 2020), and the face interval may be missing.
    """
    expected = ARRAYS[key].dtype
    for name in dtype.names or ():
        if dtype[name].base.str.startswith(">"):
            return f"must have little-endian fields, as the format has, got {dtype[name].base.str} as field {name!r}"
    for name in expected.names or ():
        if name not in (dtype.names or ()):
            if name == FACE_INTERVAL:
                continue
            return _explain_missing_field(dtype, key, name)
        # integers of either signedness and narrower numbers are accepted, as their values are the same
        stored, wanted = dtype[name], expected[name]
        is_same_kind = stored.base.kind == wanted.base.kind or {stored.base.kind, wanted.base.kind} == {"i", "u"}
        if stored.shape != wanted.shape or not is_same_kind:
            return f"must have {wanted} as field {name!r}, got {stored}"
    return None


def _explain_missing_field(dtype: DType, key: str, name: str) -> str:
    """Return a text that records lack a field, with the most similar name among their other fields."""
    near = nearest_name(name, set(dtype.names or ()) - set(ARRAYS[key].dtype.names or ()))
    return f"lacks the field {name!r}{'' if near is None else f' (it has {near!r}, much like it)'}, got {dtype}"


def find_ownerless_faces(frames: DType, num_faces: int) -> str | None:
    """Return a text if frames have no field for the intervals of the traffic light faces; None if all is well.

    Without faces, the field may be missing, as in datasets with three arrays.

    Args:
        frames: Record type of the frames.
        num_faces: Number of faces.
    """
    if num_faces == 0 or FACE_INTERVAL in (frames.names or ()):
        return None
    problem = _explain_missing_field(frames, FRAME_ARRAY_KEY, FACE_INTERVAL)
    return f"{problem}: nothing says whose the {num_faces} traffic light faces are"


def with_face_interval(dtype: DType) -> DType:
    """Return a record type of frames, with the face interval inserted at its usual place if missing."""
    names = list(dtype.names or ())
    if FACE_INTERVAL in names:
        return dtype
    fields: list[tuple[str, DType, tuple[int, ...]]] = [(name, dtype[name].base, dtype[name].shape) for name in names]
    fields.insert(names.index(AGENT_INTERVAL) + 1, (FACE_INTERVAL, np.dtype(np.int64), (2,)))
    return np.dtype(fields)


def standard_with_others(dtype: DType, key: str) -> DType:
    """Return the record type of one of the arrays, followed by additional fields of another type."""
    standard = ARRAYS[key].dtype
    names = [name for name in dtype.names or () if name not in (standard.names or ())]
    return np.dtype([*standard.descr, *((name, dtype[name].base, dtype[name].shape) for name in names)])


def presented_dtype(stored: DType, key: str) -> DType:
    """Return the record type of the rows that an array returns.

    It is the stored type if kernels support the widths of its fields: those of the format, or 4 bytes as in datasets
    made before April 2020. Other widths are converted. Frames always have the face interval, even if it is not stored.

    Args:
        stored: Type of the records on disk.
        key: Name of the array.
    """
    expected = ARRAYS[key].dtype
    fields = []
    for name in stored.names or ():
        base = stored[name].base
        wanted = expected[name].base if name in (expected.names or ()) else base
        is_usual = base.kind in "US" or base.itemsize in (_NARROW_BYTES, wanted.itemsize)
        fields.append((name, base if is_usual else wanted, stored[name].shape))
    native = np.dtype(fields)
    if native == stored:
        native = stored
    return with_face_interval(native) if key == FRAME_ARRAY_KEY else native


def is_group(folder: Path) -> bool:
    """Return whether a folder on this machine is a zarr group."""
    return any((folder / name).is_file() for name in GROUP_FILES)


def logs_in(folders: Sequence[Path]) -> list[Path]:
    """Return the logs in folders of this machine, sorted.

    Logs are recognized by name; if there is none, by the files of zarr groups, as for renamed columnar exports.
    """
    entries = sorted(entry for folder in folders if folder.is_dir() for entry in folder.iterdir())
    named = [
        entry for entry in entries if entry.name.endswith(LOG_SUFFIXES) and (entry.is_dir() or entry.suffix == ".zip")
    ]
    return named or [
        entry for entry in entries if entry.name not in ARRAYS and is_group(entry) and not is_group(entry.parent)
    ]


def name_of_log(file_name: str) -> str:
    """Return the name of a log without its suffix: ``sample`` for ``sample.zarr`` and ``sample.zarr.zip``."""
    endings = [ending for ending in LOG_SUFFIXES if file_name.endswith(ending)]
    return file_name.removesuffix(endings[-1]) if endings else file_name

"""How the arrays of a dataset are laid out on disk: names, record types, chunks, compression."""

from typing import Any

import numcodecs
import numpy as np
import zarr

from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.record_dtype import RecordDType
from l5kit.data.records import (
    AGENT_ARRAY_KEY,
    AGENT_CHUNK_SIZE,
    AGENT_DTYPE,
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
from l5kit.errors import DatasetFormatError

ARRAYS: dict[str, tuple[str, Any, tuple[int]]] = {
    SCENE_ARRAY_KEY: ("scenes", SCENE_DTYPE, SCENE_CHUNK_SIZE),
    FRAME_ARRAY_KEY: ("frames", FRAME_DTYPE, FRAME_CHUNK_SIZE),
    AGENT_ARRAY_KEY: ("agents", AGENT_DTYPE, AGENT_CHUNK_SIZE),
    TL_FACE_ARRAY_KEY: ("tl_faces", TL_FACE_DTYPE, TL_FACE_CHUNK_SIZE),
}
"""For each array on disk: attribute of the dataset, record type, rows per chunk."""

FACE_INTERVAL = "traffic_light_faces_index_interval"
"""Field of ``frames`` that datasets of the older layout, without traffic lights, lack."""


def create_group(store: Any, mode: Any) -> zarr.Group:
    """Return a zarr group with the attributes of a dataset, created in ``store``."""
    attributes: dict[str, Any] = {"format_version": FORMAT_VERSION, "labels": PERCEPTION_LABELS}
    return zarr.open_group(store=store, mode=mode, zarr_format=2, attributes=attributes)


def create_array(group: zarr.Group, key: str, length: int, *, dtype: Any = None) -> Any:
    """Return one of the arrays of a dataset, created in ``group`` with ``length`` rows.

    The metadata and chunks are what zarr-python 2 writes by default.

    Args:
        group: The group of the dataset.
        key: Name of the array.
        length: Number of rows.
        dtype: Record type; None for that of the format.
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


def check_records(array: Any, key: str, file: str) -> None:
    """Refuse what is not an array of one axis whose records have the fields of the format.

    The fields may have narrower types (sets made before April 2020 have), and the face interval may be missing.

    Args:
        array: What the group holds under ``key``.
        key: Name of the array.
        file: Path of its metadata, for the message.

    Raises:
        DatasetFormatError: It is something else.
    """
    advice = "this is not a dataset of this format, or its metadata is damaged"
    if not isinstance(array, zarr.Array) or array.ndim != 1:
        raise DatasetFormatError(f"{file} must describe an array of one axis, got {array!r}; {advice}")
    if array.chunks[0] < 1:
        raise DatasetFormatError(f"{file} must have chunks of at least one row, got {array.chunks}; {advice}")
    problem = _find_wrong_field(array.dtype, key)
    if problem is not None:
        raise DatasetFormatError(f"{file} {problem}; {advice}")


def has_format(dtype: np.dtype[Any], key: str) -> bool:
    """Return whether records of a type have the fields of one of the arrays, as :func:`check_records` asks for."""
    return _find_wrong_field(dtype, key) is None


def _find_wrong_field(dtype: np.dtype[Any], key: str) -> str | None:
    expected = np.dtype(ARRAYS[key][1])
    for name in expected.names or ():
        if name not in (dtype.names or ()):
            if name == FACE_INTERVAL:
                continue
            return f"lacks the field {name!r}, got {dtype}"
        found, wanted = dtype[name], expected[name]
        if found.shape != wanted.shape or not _same_kind(found.base, wanted.base):
            return f"must have {wanted} as field {name!r}, got {found}"
    return None


def with_face_interval(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a record type of frames with the face interval, at its usual place, if it lacks it."""
    names = list(dtype.names or ())
    if FACE_INTERVAL in names:
        return dtype
    fields: list[Any] = [(name, dtype[name].base, dtype[name].shape) for name in names]
    fields.insert(names.index("agent_index_interval") + 1, (FACE_INTERVAL, np.dtype(np.int64), (2,)))
    return np.dtype(fields)


def _same_kind(found: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Return whether a stored type can stand for another: signed for unsigned and narrower ones can."""
    return found.kind == wanted.kind or {found.kind, wanted.kind} == {"i", "u"}

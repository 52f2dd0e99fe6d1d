"""Arrays of records on disk, read and written with a little NumPy and numcodecs, without l5kit and zarr.

The results of attacked readers are compared with these, so none of their code is used here.
"""

import base64
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np

CODEC = numcodecs.Blosc("lz4", 5, 1)
ATTRIBUTES = {"scenes": "scenes", "frames": "frames", "agents": "agents", "traffic_light_faces": "tl_faces"}
"""Attribute of a dataset by the name of the array on disk."""

MOST_ROWS = 1_000_000
"""A claimed length above this is taken for what cannot be true."""

_TEXT = "<U16"
STANDARD = {
    "scenes": np.dtype(
        [("frame_index_interval", "<i8", (2,)), ("host", _TEXT), ("start_time", "<i8"), ("end_time", "<i8")]
    ),
    "frames": np.dtype(
        [
            ("timestamp", "<i8"),
            ("agent_index_interval", "<i8", (2,)),
            ("traffic_light_faces_index_interval", "<i8", (2,)),
            ("ego_translation", "<f8", (3,)),
            ("ego_rotation", "<f8", (3, 3)),
        ]
    ),
    "agents": np.dtype(
        [
            ("centroid", "<f8", (2,)),
            ("extent", "<f4", (3,)),
            ("yaw", "<f4"),
            ("velocity", "<f4", (2,)),
            ("track_id", "<u8"),
            ("label_probabilities", "<f4", (17,)),
        ]
    ),
    "traffic_light_faces": np.dtype(
        [("face_id", _TEXT), ("traffic_light_id", _TEXT), ("traffic_light_face_status", "<f4", (3,))]
    ),
}
"""The record types of the format, written down a second time on purpose."""

LABELS = [
    "NOT_SET",
    "UNKNOWN",
    "DONTCARE",
    "CAR",
    "VAN",
    "TRAM",
    "BUS",
    "TRUCK",
    "EMERGENCY_VEHICLE",
    "OTHER_VEHICLE",
    "BICYCLE",
    "MOTORCYCLE",
    "CYCLIST",
    "MOTORCYCLIST",
    "PEDESTRIAN",
    "ANIMAL",
]


@dataclass
class Records:
    """The rows of the four arrays, by their names on disk, and which of them could not be read.

    Attributes:
        arrays: Rows by array.
        is_missing: Rows whose chunk has no file (zeros in ``arrays``), by array, bool.
        is_unreadable: Rows whose chunk does not decode (zeros in ``arrays``), by array, bool.
    """

    arrays: dict[str, np.ndarray]
    is_missing: dict[str, np.ndarray] = field(default_factory=dict)
    is_unreadable: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, rows in self.arrays.items():
            self.is_missing.setdefault(key, np.zeros(len(rows), np.bool_))
            self.is_unreadable.setdefault(key, np.zeros(len(rows), np.bool_))

    def __getitem__(self, key: str) -> np.ndarray:
        return self.arrays[key]

    def is_lost(self, key: str) -> np.ndarray:
        """Return which rows of an array have no stored value."""
        return self.is_missing[key] | self.is_unreadable[key]

    def bounds(self, key: str, name: str) -> np.ndarray:
        """Return an interval field, (N, 2) int64."""
        return self.arrays[key][name].astype(np.int64).reshape(-1, 2)


def metadata_of(length: int, dtype: np.dtype, chunk_length: int) -> dict[str, Any]:
    """Return the ``.zarray`` content of an array, as zarr 2 writes it."""
    return {
        "chunks": [chunk_length],
        "compressor": {"blocksize": 0, "clevel": 5, "cname": "lz4", "id": "blosc", "shuffle": 1},
        "dtype": [_field_of(dtype, name) for name in dtype.names],
        "fill_value": base64.standard_b64encode(bytes(dtype.itemsize)).decode(),
        "filters": None,
        "order": "C",
        "shape": [length],
        "zarr_format": 2,
    }


def _field_of(dtype: np.dtype, name: str) -> list[Any]:
    base, shape = dtype[name].base, dtype[name].shape
    return [name, base.str, list(shape)] if shape else [name, base.str]


def write_log(folder: Path, arrays: dict[str, np.ndarray], chunk_lengths: dict[str, int]) -> None:
    """Write a log as a folder; arrays that are not given are left out."""
    folder.mkdir(parents=True)
    (folder / ".zgroup").write_text(json.dumps({"zarr_format": 2}))
    labels = [f"PERCEPTION_LABEL_{name}" for name in LABELS] + ["AVRESEARCH_LABEL_DONTCARE"]
    (folder / ".zattrs").write_text(json.dumps({"format_version": 2, "labels": labels}))
    for key, rows in arrays.items():
        (folder / key).mkdir()
        metadata = metadata_of(len(rows), rows.dtype, chunk_lengths[key])
        (folder / key / ".zarray").write_text(json.dumps(metadata, indent=4))
        ArrayFiles(folder, key).write(rows)


class ArrayFiles:
    """One array of a log in a folder, undamaged so far."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder / key
        self.key = key
        self.metadata = json.loads((self.folder / ".zarray").read_text())
        self.length = int(self.metadata["shape"][0])
        self.chunk_length = int(self.metadata["chunks"][0])
        self.dtype = _dtype_of(self.metadata["dtype"])

    @property
    def num_chunks(self) -> int:
        return -(-self.length // self.chunk_length)

    def chunk(self, index: int) -> Path:
        return self.folder / str(index)

    def read(self) -> np.ndarray:
        """Return a copy of all rows."""
        chunks = [np.frombuffer(CODEC.decode(self.chunk(i).read_bytes()), self.dtype) for i in range(self.num_chunks)]
        return np.concatenate([*chunks, np.zeros(0, self.dtype)])[: self.length].copy()

    def write(self, rows: np.ndarray) -> None:
        """Write all rows; files of chunks that stay the same are left alone."""
        for index in range(self.num_chunks):
            part = np.zeros(self.chunk_length, self.dtype)
            chosen = rows[index * self.chunk_length : (index + 1) * self.chunk_length]
            part[: len(chosen)] = chosen
            content = CODEC.encode(part.view(np.uint8))
            if not self.chunk(index).exists() or self.chunk(index).read_bytes() != content:
                self.chunk(index).write_bytes(content)

    def encode(self, rows: np.ndarray) -> bytes:
        return bytes(CODEC.encode(np.ascontiguousarray(rows).view(np.uint8)))


def zip_folder(folder: Path, target: Path) -> None:
    """Put the files of a log into a zip file, uncompressed and in a fixed order."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.writestr(zipfile.ZipInfo(str(path.relative_to(folder))), path.read_bytes())


def read_records(path: Path, *, is_zip: bool) -> Records | None:
    """Return the content of a path according to the format; None if it cannot be determined."""
    try:
        if not is_zip:
            return _read_records(lambda name: (path / name).read_bytes() if (path / name).exists() else None)
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            return _read_records(lambda name: archive.read(name) if name in names else None)
    except Exception:
        return None


def _read_records(read: Callable[[str], bytes | None]) -> Records | None:
    if read(".zgroup") is None or json.loads(read(".zgroup")) != {"zarr_format": 2}:
        return None
    records = Records({})
    for key in STANDARD:
        metadata = read(f"{key}/.zarray")
        if metadata is None and key == "traffic_light_faces":
            records.arrays[key] = np.zeros(0, STANDARD[key])
            continue
        if metadata is None:
            return None
        stored = _read_array(lambda name, key=key: read(f"{key}/{name}"), json.loads(metadata))
        if stored is None:
            return None
        rows, records.is_missing[key], records.is_unreadable[key] = stored
        complete = _in_standard_type(rows, key)
        if complete is None:
            return None
        records.arrays[key] = complete
    records.__post_init__()
    return records


def _read_array(read: Callable[[str], bytes | None], metadata: dict[str, Any]) -> tuple[np.ndarray, ...] | None:
    (length,), (chunk_length,) = metadata["shape"], metadata["chunks"]
    if type(length) is not int or type(chunk_length) is not int or not 0 <= length <= MOST_ROWS:
        return None
    if metadata["zarr_format"] != 2 or not 0 < chunk_length <= MOST_ROWS:
        return None
    dtype = _dtype_of(metadata["dtype"])
    codecs = [numcodecs.get_codec(metadata["compressor"])] if metadata["compressor"] else []
    codecs += [numcodecs.get_codec(filter_) for filter_ in reversed(metadata["filters"] or [])]
    rows = np.zeros(length, dtype)
    is_missing, is_unreadable = np.zeros(length, np.bool_), np.zeros(length, np.bool_)
    for index in range(-(-length // chunk_length)):
        part = slice(index * chunk_length, min((index + 1) * chunk_length, length))
        try:
            content = read(str(index))
        except OSError:
            is_unreadable[part] = True
            continue
        except Exception:  # a member of a zip file that is damaged
            is_unreadable[part] = True
            continue
        if content is None:
            is_missing[part] = True
            continue
        try:
            for codec in codecs:
                _require_whole(content, codec)
                content = codec.decode(content)
            decoded = np.frombuffer(bytes(np.ascontiguousarray(content).view(np.uint8)), dtype)
            if len(decoded) != chunk_length:
                raise ValueError(len(decoded))
        except Exception:
            is_unreadable[part] = True
            continue
        rows[part] = decoded[: part.stop - part.start]
    return rows, is_missing, is_unreadable


def _require_whole(content: Any, codec: Any) -> None:
    """Refuse truncated Blosc data, for which Blosc would read beyond the buffer."""
    if isinstance(codec, numcodecs.Blosc) and len(content) < max(int.from_bytes(bytes(content[12:16]), "little"), 16):
        raise ValueError(len(content))


def _dtype_of(fields: Any) -> np.dtype:
    return np.dtype([(name, kind, *map(tuple, shape)) for name, kind, *shape in fields])


def _in_standard_type(rows: np.ndarray, key: str) -> np.ndarray | None:
    """Return rows in the type of the format; None unless all its fields, the face interval aside, are there."""
    standard = STANDARD[key]
    complete = np.zeros(len(rows), standard)
    for name in standard.names:
        if name not in rows.dtype.names:
            if name == "traffic_light_faces_index_interval":
                continue
            return None
        found, wanted = rows.dtype[name], standard[name]
        if found == wanted:
            complete[name] = rows[name]
        elif found.base.newbyteorder("=") == wanted.base and found.shape == wanted.shape:
            complete[name] = rows[name].byteswap().view(wanted.base)
        else:
            return None
    return complete

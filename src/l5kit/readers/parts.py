"""Parts of an import: one file per scene read, kept next to the new dataset until that is complete."""

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from l5kit import __version__
from l5kit._files import replaced_when_complete
from l5kit._types import Float64Array
from l5kit.data.scene_records import SceneRecords
from l5kit.readers.formats import OwnReader
from l5kit.readers.joined_map import pack_map, unpack_map
from l5kit.readers.map_writing import least_bytes_of
from l5kit.readers.reader import Reader, SceneRef
from l5kit.readers.scene_conversion import track_ids_of
from l5kit.readers.source_map import SourceMap
from l5kit.readers.source_scene import SourceScene

_VERSION = 5
_ARRAYS = ("frames", "agents", "tl_faces")


@dataclass(frozen=True)
class PartHead:
    """Properties of a scene, readable without its records.

    Attributes:
        ref: Location of the scene in its source.
        map_name: Name of its map.
        bounds_m: [[x_min, y_min], [x_max, y_max]] of its map and of everything that drives there, in the map frame.
        ego_size_m: Length, width and height of the AV.
        targets: Numbers of the tracks whose future the source asks for; None if it does not specify any.
        track_ids: Id of each track in the source, by its number; None if ids and numbers are equal.
        lights: Position of the light of each lane, None if unknown, by the id of the lane.
        remarks: What was dropped or repaired while reading.
        map_bytes: Lower bound of the bytes of its map in the semantic map.
    """

    ref: SceneRef
    map_name: str
    bounds_m: list[list[float]]
    ego_size_m: list[float]
    targets: list[int] | None
    track_ids: dict[str, str] | None
    lights: dict[str, list[float] | None]
    remarks: list[str]
    map_bytes: int


class Part:
    """File of one scene that was read.

    Args:
        path: Path of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def head_if_whole(self, ref: SceneRef) -> PartHead | None:
        """Return the head if the file is intact and of this scene; else None."""
        try:
            with zipfile.ZipFile(self._path) as archive:
                if archive.testzip() is not None:
                    return None
            head = self.read_head()
        except MemoryError:
            raise
        except Exception:  # damage can look like encryption, unknown compression or a negative length
            return None
        return head if head.ref == ref else None

    def read_head(self) -> PartHead:
        """Return the head of the scene."""
        return msgspec.json.decode(self._read_bytes("head"), type=PartHead)

    def read_map(self) -> SourceMap:
        """Return the scene's piece of the map."""
        return unpack_map(self._read_bytes("map"))

    def read_records(self, offset_m: Float64Array) -> SceneRecords:
        """Return the records in the world frame.

        Args:
            offset_m: Offset added to x and y of the map frame, (2,).
        """
        with np.load(self._path, allow_pickle=False) as arrays:
            frames, agents, tl_faces = (arrays[name] for name in _ARRAYS)
            host = str(arrays["host"])
        frames["ego_translation"][:, :2] += offset_m
        agents["centroid"] += offset_m
        return SceneRecords(frames, agents, tl_faces, host=host)

    def _read_bytes(self, name: str) -> bytes:
        with np.load(self._path, allow_pickle=False) as arrays:
            content: bytes = arrays[name].tobytes()
        return content


def part_path(parts: Path, reader: Reader, ref: SceneRef) -> Path:
    """Return the path of a scene's part, which changes whenever one of the scene's files changes.

    Args:
        parts: Folder of the parts.
        reader: Reader of the scene.
        ref: Location of the scene.
    """
    # size and modification time of each file, -1 and -1 if it is missing
    files = []
    for file in (ref.file, *ref.others):
        try:
            status = os.stat(reader.source / file)
            files.append((status.st_size, status.st_mtime_ns))
        except (OSError, ValueError):
            files.append((-1, -1))
    code = reader.code if isinstance(reader, OwnReader) else type(reader).__qualname__
    text = json.dumps([_VERSION, __version__, code, vars(ref), files])  # asdict() takes ten times as long
    name = hashlib.sha256(text.encode()).hexdigest()[:32]
    return parts / name[:2] / f"{name[2:]}.npz"


def write_part(path: Path, ref: SceneRef, scene: SourceScene, records: SceneRecords) -> PartHead:
    """Write the part of a scene atomically, and return its head.

    Args:
        path: Path of the part.
        ref: Location of the scene in its source.
        scene: The scene.
        records: Its records, in the frame of its map.

    Raises:
        OSError: The disk is full or not writable.
    """
    lines_m = [line_m[:, :2] for _, _, line_m in scene.map.lines()]
    positions_m = np.concatenate([*lines_m, scene.ego.positions_m[:, :2], records.agents["centroid"]])
    tracks = scene.tracks
    track_ids = track_ids_of(tracks.ids)
    are_kept = [str(number) for number in track_ids.tolist()] == list(tracks.ids)
    head = PartHead(
        ref=ref,
        map_name=scene.map.name,
        bounds_m=[positions_m.min(axis=0).tolist(), positions_m.max(axis=0).tolist()],
        ego_size_m=scene.ego.size_m.tolist(),
        targets=None if tracks.is_target is None else track_ids[tracks.is_target].tolist(),
        track_ids=None if are_kept else {str(n): name for n, name in zip(track_ids, tracks.ids, strict=True)},
        lights={
            lane: position_m.tolist() if np.isfinite(position_m).all() else None
            for lane, position_m in zip(scene.lights.lane_ids, scene.lights.positions_m, strict=True)
        },
        remarks=list(scene.remarks),
        map_bytes=least_bytes_of(scene.map),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        naming_path(path),
        replaced_when_complete(path, argument="parts") as temporary,
        temporary.open("wb") as file,
    ):
        np.savez(
            file,
            head=np.frombuffer(msgspec.json.encode(head, enc_hook=np.generic.item), np.uint8),  # texts may be of NumPy
            map=np.frombuffer(pack_map(scene.map), np.uint8),
            host=np.array(records.host),
            **{name: getattr(records, name) for name in _ARRAYS},
        )
    return head


@contextmanager
def naming_path(path: Path) -> Iterator[None]:
    """Add the path to system errors that lack one, such as a full disk.

    Args:
        path: The file or folder.

    Raises:
        OSError: Writing failed.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error

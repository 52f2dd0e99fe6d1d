"""Logs made by hand: records of agents, faces, frames and scenes, joined to a log in memory or in a folder.

The one builder of logs of the tests: it counts the intervals itself and does not use what l5kit writes logs with.
"""

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numcodecs
import numpy as np
from zarr.storage import LocalStore

from l5kit._types import RecordArray
from l5kit.data import layout
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.log_facts import LogFacts
from l5kit.data.record_dtype import RecordDType
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE, SCENE_DTYPE, TL_FACE_DTYPE
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.geometry import yaw_as_rotation33

CHUNK_LENGTHS = {"scenes": 2, "frames": 5, "agents": 7, "traffic_light_faces": 4}
STEP_NS = 100_000_000
CAR = 3
_UNKNOWN = 1


def make_agent(
    track_id: int = 0,
    centroid: Sequence[float] = (0.0, 0.0),
    *,
    yaw: float = 0.0,
    extent: Sequence[float] = (4.0, 2.0, 1.5),
    velocity: Sequence[float] = (0.0, 0.0),
    label: int = CAR,
    probability: float = 1.0,
    labels: Mapping[str | int, float] | None = None,
) -> np.void:
    """Return a record of an agent, by default a stationary car of 4 by 2 m at the origin.

    ``probability`` is that of the column ``label``; the rest to 1 goes to unknown. ``labels`` gives the probabilities
    of classes by name (``CAR``) or column instead, 0 for all others.
    """
    probabilities = np.zeros(17, np.float32)
    if labels is None:
        probabilities[label] = probability
        probabilities[_UNKNOWN] = 1 - probability
    for name, value in (labels or {}).items():
        column = name if isinstance(name, int) else PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"]
        probabilities[column] = value
    return np.array((centroid, extent, yaw, velocity, track_id, probabilities), AGENT_DTYPE)[()]


def make_agents(*agents: Any) -> RecordArray:
    """Return records of agents from such records or from the arguments of :func:`make_agent`, by name."""
    records = [make_agent(**agent) if isinstance(agent, Mapping) else agent for agent in agents]
    return np.array(records, AGENT_DTYPE)


def make_faces(*lit: str, **statuses: Any) -> RecordArray:
    """Return records of faces of the light T1: first those that are on, then those by name with a status.

    A status is the probability of being on, the rest being off, or three of them: active, inactive, unknown.
    """
    records = []
    for name, status in {**dict.fromkeys(lit, 1), **statuses}.items():
        records.append((name, "T1", [status, 1 - status, 0] if np.ndim(status) == 0 else status))
    return np.array(records, TL_FACE_DTYPE)


def make_frames(
    agents: int | Sequence[Any] = 0,
    faces: Sequence[RecordArray] | None = None,
    *,
    positions_m: Any = (0.0, 0.0, 0.0),
    yaws_rad: Any = 0.0,
    timestamps_ns: Any = None,
) -> tuple[RecordArray, RecordArray, RecordArray]:
    """Return frames, their agents and their traffic light faces.

    Args:
        agents: What :func:`make_agents` takes for each frame, or only the number of frames.
        faces: Faces of each frame; none without.
        positions_m: Of the AV, for all frames or for each, shape (2,), (3,), (n, 2) or (n, 3).
        yaws_rad: Heading of the AV, for all frames or for each.
        timestamps_ns: Time of each frame; without it a tenth of a second apart, from 0.
    """
    rows_of_frames = [()] * agents if isinstance(agents, int) else agents
    agents_of_frames = [rows if isinstance(rows, np.ndarray) else make_agents(*rows) for rows in rows_of_frames]
    faces_of_frames = [make_faces()] * len(agents_of_frames) if faces is None else list(faces)
    num_frames = len(agents_of_frames)
    frames = np.zeros(num_frames, FRAME_DTYPE)
    frames["timestamp"] = STEP_NS * np.arange(num_frames) if timestamps_ns is None else timestamps_ns
    frames["agent_index_interval"] = intervals(map(len, agents_of_frames))
    frames["traffic_light_faces_index_interval"] = intervals(map(len, faces_of_frames))
    if num_frames:
        positions_m = np.asarray(positions_m, dtype=np.float64)
        frames["ego_translation"][:, : positions_m.shape[-1]] = positions_m
        frames["ego_rotation"] = [yaw_as_rotation33(yaw) for yaw in np.broadcast_to(yaws_rad, num_frames)]
    return frames, np.concatenate([make_agents(), *agents_of_frames]), np.concatenate([make_faces(), *faces_of_frames])


def scenes_of(lengths: Sequence[int], *, hosts: Any = "host", start_ns: Any = 0, end_ns: Any = 1) -> RecordArray:
    """Return records of scenes with numbers of frames, one after the other."""
    scenes = np.zeros(len(lengths), SCENE_DTYPE)
    scenes["frame_index_interval"] = intervals(lengths)
    scenes["host"], scenes["start_time"], scenes["end_time"] = hosts, start_ns, end_ns
    return scenes


def make_log(
    frames_of_scenes: Sequence[Sequence[Any]],
    *,
    faces: Sequence[RecordArray] | None = None,
    facts: LogFacts | None = None,
    **frames: Any,
) -> ChunkedDataset:
    """Return a log in memory from the agents of each frame of each scene, as :func:`make_agents` takes them.

    By default the AV is stationary at the origin, and face F1 is on in every frame.

    Args:
        frames_of_scenes: Agents by scene and frame.
        faces: Faces of each frame of all scenes.
        facts: Facts of the log; default those of 1.5.
        frames: Further arguments of :func:`make_frames`, for the frames of all scenes.
    """
    lengths = [len(scene) for scene in frames_of_scenes]
    if faces is None:
        faces = [make_faces("F1")] * sum(lengths)
    records = make_frames([rows for scene in frames_of_scenes for rows in scene], faces, **frames)
    hosts = [f"host-{scene}" for scene in range(len(lengths))]
    return log_of(scenes_of(lengths, hosts=hosts), *records, facts=facts)


def make_scene(
    agents: Sequence[Any],
    faces: Sequence[RecordArray] | None = None,
    *,
    facts: LogFacts | None = None,
    **frames: Any,
) -> ChunkedDataset:
    """Return a log of one scene in memory; by default the AV drives 1 m a frame along x."""
    positions_m = np.column_stack([np.arange(len(agents)), np.zeros(len(agents))])
    records = make_frames(agents, faces, **{"positions_m": positions_m, **frames})
    return log_of(scenes_of([len(agents)]), *records, facts=facts)


def log_of(
    scenes: RecordArray,
    frames: RecordArray | None = None,
    agents: RecordArray | None = None,
    tl_faces: RecordArray | None = None,
    *,
    facts: LogFacts | None = None,
) -> ChunkedDataset:
    """Return records as a log in memory."""
    given = {"frames": frames, "agents": agents, "tl_faces": tl_faces}
    return ChunkedDataset.in_memory(
        scenes=scenes, facts=facts, **{name: records for name, records in given.items() if records is not None}
    )


def intervals(counts: Any) -> np.ndarray:
    """Return start and end of runs of some lengths, one after the other, (n, 2)."""
    counts = np.array(list(counts), dtype=np.int64)
    ends = np.cumsum(counts)
    return np.stack([ends - counts, ends], axis=1)


def without_face_intervals(frames: RecordArray) -> RecordArray:
    """Return frames in the layout before there were traffic lights."""
    names = [name for name in frames.dtype.names if name != "traffic_light_faces_index_interval"]
    old = np.zeros(len(frames), [(name, frames.dtype[name].base, frames.dtype[name].shape) for name in names])
    for name in names:
        old[name] = frames[name]
    return old


def write_with_chunks(dataset, path, *, chunk_lengths=CHUNK_LENGTHS, type_of=lambda name, dtype: dtype):
    """Write a dataset to a folder with few rows per chunk, so that small ones have many chunks.

    ``type_of(name, dtype)`` returns the type in which a field is stored.
    """
    group = layout.create_group(LocalStore(path), "w")
    for key, (attribute, _, _) in layout.ARRAYS.items():
        records = np.asarray(getattr(dataset, attribute))
        fields = [
            (name, type_of(name, records.dtype[name].base), records.dtype[name].shape) for name in records.dtype.names
        ]
        array = group.create_array(
            key,
            shape=records.shape,
            chunks=(chunk_lengths[key],),
            dtype=RecordDType.from_numpy(fields),
            compressors=numcodecs.Blosc("lz4", 5, 1),
            fill_value=0,
            config={"write_empty_chunks": True},
        )
        array[:] = records.astype(fields)
    return str(path)


def copy_writable(source, target):
    """Copy a folder that may be read-only to one that is not."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for folder in [target, *(path for path in target.rglob("*") if path.is_dir())]:
        folder.chmod(0o755)
    return target


def make_several_scenes_log() -> ChunkedDataset:
    """Return four scenes: 20 frames, none, one frame, and 16 frames with empty frames and a track that comes late."""
    moving = [[{"track_id": 1, "centroid": (0.5 * k, 3.0)}, {"track_id": 2, "yaw": 0.01 * k}] for k in range(20)]
    late = [
        [] if k in (0, 7, 15) else [{"track_id": 1}] + ([{"track_id": 9, "centroid": (k, k)}] if k >= 8 else [])
        for k in range(16)
    ]
    return make_log([moving, [], [[{"track_id": 1}, {"track_id": 5}]], late])


def rows_as_bytes(rows: RecordArray) -> bytes:
    return np.ascontiguousarray(rows).tobytes()

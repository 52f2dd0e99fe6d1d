"""Export of datasets as folders of py123d: logs and a map in Arrow files.

A log consists of the AV, the boxes of agents, and the lights of lanes, with one row per frame.
"""

import hashlib
import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from scipy.spatial.transform import Rotation

from l5kit._types import Int64Array, JsonObject, RecordArray
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.frame_rows import expand_ranges
from l5kit.data.interop.arrow_columns import require_library
from l5kit.data.interop.export_folder import placed_export, require_export_target
from l5kit.data.interop.py123d_arrow import DATASET, VERSION, fixed_lists, lists_of, write_arrow
from l5kit.data.interop.py123d_map import LOCATION, map_metadata, read_areas, write_map
from l5kit.data.interop.table_parts import with_scenes_in_memory
from l5kit.data.jobs.job_folder import WritesFiles, require_shared
from l5kit.data.jobs.scene_jobs import KeptWorkers, Workers, map_scenes
from l5kit.data.labels import PERCEPTION_LABELS, TL_FACE_LABEL_TO_INDEX
from l5kit.data.log_facts import LogFacts
from l5kit.data.map.lane_lights import LIGHT_COLORS, LaneLights
from l5kit.data.map.opened import open_map
from l5kit.data.progress import Progress
from l5kit.data.records import AGENT_INTERVAL, FACE_INTERVAL
from l5kit.data.scene_selection import SceneSelection, selected_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError, InvalidArgumentError

_SPLIT: Final = re.compile(r"[\w-]+")

EGO_WHEELBASE_PART: Final = 0.6
"""Ratio of wheelbase to length of the AV, which logs do not have; its axles are symmetric about its centre."""

_EGO, _BOXES, _LIGHTS = "ego_state_se3", "box_detections_se3", "traffic_light_detections"
_UUID_NAMESPACE: Final = uuid.UUID("123D123D-123D-123D-123D-123D123D123D")
_LABEL_CLASS: Final = "py123d.datatypes.detections.box_detection_label.DefaultBoxDetectionLabel"
_VEHICLE, _TRAIN, _TWO_WHEELER, _PERSON, _ANIMAL, _OTHER = 1, 2, 3, 4, 5, 11
_LABELS: Final = {
    "PERCEPTION_LABEL_CAR": _VEHICLE,
    "PERCEPTION_LABEL_VAN": _VEHICLE,
    "PERCEPTION_LABEL_TRAM": _TRAIN,
    "PERCEPTION_LABEL_BUS": _VEHICLE,
    "PERCEPTION_LABEL_TRUCK": _VEHICLE,
    "PERCEPTION_LABEL_EMERGENCY_VEHICLE": _VEHICLE,
    "PERCEPTION_LABEL_OTHER_VEHICLE": _VEHICLE,
    "PERCEPTION_LABEL_BICYCLE": _TWO_WHEELER,
    "PERCEPTION_LABEL_MOTORCYCLE": _TWO_WHEELER,
    "PERCEPTION_LABEL_CYCLIST": _TWO_WHEELER,
    "PERCEPTION_LABEL_MOTORCYCLIST": _TWO_WHEELER,
    "PERCEPTION_LABEL_PEDESTRIAN": _PERSON,
    "PERCEPTION_LABEL_ANIMAL": _ANIMAL,
}
"""py123d label of each class; all other classes are "other"."""

_LABEL_OF_COLUMN: Final = np.array([_LABELS.get(label, _OTHER) for label in PERCEPTION_LABELS], np.uint16)

_STATUS_OF_COLOR: Final = {"GREEN": 0, "YELLOW": 1, "RED": 2}
_STATUS_UNKNOWN: Final = 4
_ACTIVE: Final = TL_FACE_LABEL_TO_INDEX["ACTIVE"]


def export_py123d(
    dataset: ChunkedDataset,
    out: str | os.PathLike[str],
    *,
    files: DatasetFiles | None = None,
    split: str = "train",
    scenes: SceneSelection = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    workers: Workers = 1,
) -> None:
    """Write a dataset as logs and a map of py123d to a new folder, atomically.

    The folder has ``logs/l5kit_SPLIT/scene-000000/`` for each scene, with the files ``sync``, ``ego_state_se3``,
    ``box_detections_se3`` and, with a map, ``traffic_light_detections.arrow``, and ``maps/l5kit/l5kit_world.arrow``.
    They are in the Arrow IPC format, and can be read with pyarrow and msgpack alone. Coordinates are those of the
    dataset. Values required by py123d that logs do not have are assumed: the wheelbase of the AV, the heights of boxes,
    which stand on the ground of the AV, and the motion of the AV, which is computed by differences. Scenes without
    frames are skipped.

    Args:
        dataset: An opened dataset, or one in memory.
        out: The folder.
        files: Files of the dataset with its map and the areas next to it; None, or files without a map, for logs
            without a map.
        split: ``train``, ``val``, ``test`` or another purpose of the logs.
        scenes: Scenes to write, without duplicates; None for all.
        overwrite: Replace an existing export or dataset.
        progress: Called with the number of scenes written and their total.
        workers: Number of threads that write scenes at the same time, or an executor; the files do not depend on it.

    Raises:
        CorruptedDataError: Rows or the map cannot be read, or times of a scene do not ascend.
        FileExistsError: ``out`` exists, and ``overwrite`` is False.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: ``split`` is not a name, there are no scenes, ``out`` is not an export, or the parts kept
            by ``workers`` are of another split or map.
        MissingDependencyError: pyarrow is not installed.
    """
    require_library("pyarrow", "an export to py123d")
    if not _SPLIT.fullmatch(split):
        raise InvalidArgumentError(f"split must be a name of letters and digits such as 'train', got {split!r}")
    scene_indices = selected_scenes(scenes, len(dataset))
    if len(scene_indices) == 0 or len(set(scene_indices.tolist())) < len(scene_indices):
        raise InvalidArgumentError(f"scenes must name scenes to write, each once, got {scenes!r} of {len(dataset)}")
    require_export_target(out, overwrite=overwrite)
    semantic_map = open_map(files, what="an export to py123d") if files is not None else None
    lights = LightsOfLanes.of(semantic_map.arrays.lights) if semantic_map is not None else None
    with placed_export(out, overwrite=overwrite) as folder:
        folder.mkdir()
        if semantic_map is not None and files is not None and files.semantic_map is not None:
            maps = folder / "maps" / DATASET
            maps.mkdir(parents=True)
            areas = read_areas(files.semantic_map.parent / "areas.json")
            write_map(maps / f"{DATASET}_{LOCATION}.arrow", semantic_map, areas)
        logs = folder / "logs" / f"{DATASET}_{split}"
        logs.mkdir(parents=True)
        if isinstance(workers, KeptWorkers):
            # lights depend on the map, so parts written with another map must not be reused
            digest_of_map = None
            if files is not None and files.semantic_map is not None:
                with files.semantic_map.open("rb") as file:
                    digest_of_map = hashlib.file_digest(file, "sha256").hexdigest()
            workers.job.require_same("export", {"split": split, "map": digest_of_map})
        job = _WriteScenes(logs, with_scenes_in_memory(dataset), logs.name, lights)
        with map_scenes(job, scene_indices, workers, progress=progress) as written:
            for _ in written:
                pass


@dataclass(frozen=True, eq=False)
class LightsOfLanes:
    """Colour and lanes of each face of a map, by face id."""

    faces: dict[str, tuple[int, list[int]]]

    @classmethod
    def of(cls, lights: LaneLights) -> "LightsOfLanes":
        """Return the faces of a map with their lanes."""
        ids = [lights.id_of(face) for face in range(len(lights.ranks))]
        lanes = [lights.lanes_of(face).tolist() for face in range(len(lights.ranks))]
        return cls({name: (int(rank), rows) for name, rank, rows in zip(ids, lights.ranks, lanes, strict=True)})

    def statuses(self, faces: RecordArray) -> dict[int, int]:
        """Return the status of each lane controlled by faces of a frame; the active colour of highest rank counts."""
        ranks: dict[int, int] = {}
        active = faces["traffic_light_face_status"][:, _ACTIVE] > 0
        for name, is_active in zip(faces["face_id"].tolist(), active.tolist(), strict=True):
            rank, lanes = self.faces.get(name, (0, []))
            for lane in lanes:
                # the active face of the highest rank counts; inactive faces only mark the lane as controlled
                ranks[lane] = max(ranks.get(lane, 0), rank if is_active else 0)
        colors = {rank + 1: _STATUS_OF_COLOR[color] for rank, color in enumerate(LIGHT_COLORS)}
        return {lane: colors.get(ranks[lane], _STATUS_UNKNOWN) for lane in sorted(ranks)}


@dataclass(frozen=True)
class _WriteScenes(WritesFiles):
    """Writes the logs of scenes, and returns their number."""

    dataset: ChunkedDataset
    split: str
    lights: LightsOfLanes | None

    def __call__(self, scenes: Int64Array) -> int:
        require_shared(self.folder)
        for scene in scenes.tolist():
            log = self.dataset.view_scene(scene)
            name = f"scene-{scene:06}"
            if len(log.frames):
                write_scene(self.folder / name, log, split=self.split, name=name, lights=self.lights)
        return len(scenes)


def split_of_log(path: str | os.PathLike[str]) -> str:
    """Return the split of a log according to its name: ``train``, ``val`` or ``test``; ``train`` if unclear."""
    name = os.path.basename(os.fspath(path).rstrip("/\\")).lower()
    return next((split for split in ("val", "test") if name.startswith(split)), "train")


def write_scene(folder: Path, log: ChunkedDataset, *, split: str, name: str, lights: LightsOfLanes | None) -> None:
    """Write the files of a scene to a folder, created if needed; files left by a worker that died are overwritten.

    Args:
        folder: Folder of the log.
        log: A dataset with only this scene.
        split: Split of the dataset, such as ``l5kit_train``.
        name: Name of the log.
        lights: Faces of the map; None without a map.

    Raises:
        CorruptedDataError: A rotation of the AV is invalid, or times do not ascend.
    """
    import pyarrow as pa

    frames, agents, faces = np.asarray(log.frames), np.asarray(log.agents), np.asarray(log.tl_faces)
    times_us = frames["timestamp"] // 1000
    if (np.diff(times_us) <= 0).any():
        frame = int(np.argmax(np.diff(times_us) <= 0)) + 1
        raise CorruptedDataError(f"{name}: times must ascend by at least a microsecond, but frame {frame} does not")
    folder.mkdir(exist_ok=True)
    ego = _ego_columns(frames, times_us, name)
    write_arrow(folder / f"{_EGO}.arrow", _named(_EGO, ego), _ego_metadata(log.facts))
    boxes = _box_columns(frames, agents, times_us)
    labels = agents["label_probabilities"][_rows_of_frames(frames[AGENT_INTERVAL])[1]].argmax(axis=1)
    own = {"labels": labels.astype(np.uint8).tobytes()}
    write_arrow(folder / f"{_BOXES}.arrow", _named(_BOXES, boxes), {"box_detection_label_class": _LABEL_CLASS}, own)
    modalities = [_EGO, _BOXES]
    if lights is not None:
        write_arrow(folder / f"{_LIGHTS}.arrow", _named(_LIGHTS, _light_columns(frames, faces, times_us, lights)), {})
        modalities.append(_LIGHTS)
    ids = [uuid.uuid5(_UUID_NAMESPACE, f"{split}:{name}:{time_us}").bytes for time_us in times_us.tolist()]
    rows = pa.array(np.arange(len(frames), dtype=np.int64))
    sync = {"sync.uuid": pa.array(ids, pa.binary(16)), "sync.timestamp_us": pa.array(times_us)}
    metadata = {
        "dataset": DATASET,
        "split": split,
        "log_name": name,
        "location": LOCATION if lights is not None else None,
        "version": VERSION,
        "map_metadata": map_metadata() if lights is not None else None,
    }
    # the licences of the sources also apply to derived files
    sources = {"sources": [dict(source) for source in log.facts.sources]}
    write_arrow(folder / "sync.arrow", sync | dict.fromkeys(modalities, rows), metadata, sources)


def _named(modality: str, columns: JsonObject) -> JsonObject:
    return {f"{modality}.{name}": column for name, column in columns.items()}


def _ego_metadata(facts: LogFacts) -> JsonObject:
    """Return size and axles of the AV; its poses are those of the centre of its box, on the ground."""
    length_m, width_m, height_m = facts.ego_extent_m
    wheelbase_m = EGO_WHEELBASE_PART * length_m
    return {
        "vehicle_name": "l5kit",
        "width": width_m,
        "length": length_m,
        "height": height_m,
        "wheel_base": wheelbase_m,
        "center_to_imu_se3": [0.0, 0.0, 0.5 * height_m, 1.0, 0.0, 0.0, 0.0],
        "rear_axle_to_imu_se3": [-0.5 * wheelbase_m, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
    }


def _ego_columns(frames: RecordArray, times_us: Int64Array, name: str) -> JsonObject:
    import pyarrow as pa

    positions_m = frames["ego_translation"].astype(np.float64)
    matrices = frames["ego_rotation"].astype(np.float64).reshape(-1, 3, 3)
    if not (np.linalg.det(matrices) > 0).all():  # also NaN; SciPy below 1.15 accepts such matrices
        raise CorruptedDataError(f"{name}: a rotation of the AV is invalid, as its determinant is not above 0")
    rotations = Rotation.from_matrix(matrices)

    # velocity, acceleration and angular velocity in the frame of the AV, by differences, as in py123d
    times_s, size = times_us / 1e6, len(frames)
    dynamics = np.zeros((size, 9))
    if size > 1:
        # central differences, one-sided in the first and the last frame
        before, after = np.maximum(np.arange(size) - 1, 0), np.minimum(np.arange(size) + 1, size - 1)
        passed_s = (times_s[after] - times_s[before])[:, None]
        velocities_mps = (positions_m[after] - positions_m[before]) / passed_s
        dynamics[:, :3] = rotations.inv().apply(velocities_mps)
        dynamics[:, 6:] = (rotations[before].inv() * rotations[after]).as_rotvec() / passed_s
    if size > 2:
        # second differences for steps of any length: change of speed over the time between the step midpoints
        steps_s = np.diff(times_s)[:, None]
        speeds_mps = np.diff(positions_m, axis=0) / steps_s
        changes = 2.0 * np.diff(speeds_mps, axis=0) / (steps_s[1:] + steps_s[:-1])
        dynamics[1:-1, 3:6] = rotations[1:-1].inv().apply(changes)

    # SciPy orders quaternions as x, y, z, w, py123d as w, x, y, z
    poses = np.concatenate([positions_m, rotations.as_quat(canonical=True)[:, [3, 0, 1, 2]]], axis=1)
    return {
        "timestamp_us": pa.array(times_us),
        "imu_se3": fixed_lists(poses),
        "dynamic_state_se3": fixed_lists(dynamics),
    }


def _box_columns(frames: RecordArray, agents: RecordArray, times_us: Int64Array) -> JsonObject:
    import pyarrow as pa

    starts, rows = _rows_of_frames(frames[AGENT_INTERVAL])
    agents = agents[rows]
    heights_m = agents["extent"][:, 2].astype(np.float64)
    ground_m = np.repeat(frames["ego_translation"][:, 2].astype(np.float64), np.diff(starts))
    # a rotation by yaw about z is the quaternion (cos yaw / 2, 0, 0, sin yaw / 2); boxes stand on the ground of the AV
    halves_rad = 0.5 * agents["yaw"].astype(np.float64)
    zeros = np.zeros(len(agents))
    positions_m = (agents["centroid"].astype(np.float64), (ground_m + 0.5 * heights_m)[:, None])
    turns = np.stack([np.cos(halves_rad), zeros, zeros, np.sin(halves_rad)], axis=1)
    boxes = np.concatenate([*positions_m, turns, agents["extent"].astype(np.float64)], axis=1)
    velocities = np.concatenate([agents["velocity"].astype(np.float64), zeros[:, None]], axis=1)
    labels = _LABEL_OF_COLUMN[agents["label_probabilities"].argmax(axis=1)]
    tokens = pa.array(agents["track_id"]).cast(pa.string())
    return {
        "timestamp_us": pa.array(times_us),
        "bounding_box_se3": lists_of(starts, fixed_lists(boxes)),
        "track_token": lists_of(starts, tokens),
        "label": lists_of(starts, pa.array(labels)),
        "velocity_3d": lists_of(starts, fixed_lists(velocities)),
        "num_lidar_points": lists_of(starts, pa.nulls(len(agents), pa.int32())),
    }


def _light_columns(frames: RecordArray, faces: RecordArray, times_us: Int64Array, lights: LightsOfLanes) -> JsonObject:
    import pyarrow as pa

    # older datasets have no faces, and no field for their intervals
    bounds = frames[FACE_INTERVAL] if FACE_INTERVAL in (frames.dtype.names or ()) else np.zeros((len(frames), 2), int)
    statuses = [lights.statuses(faces[start:stop]) for start, stop in bounds.tolist()]
    starts = np.cumsum([0, *map(len, statuses)], dtype=np.int64)
    lanes = [lane for of_frame in statuses for lane in of_frame]
    values = [status for of_frame in statuses for status in of_frame.values()]
    return {
        "timestamp_us": pa.array(times_us),
        "lane_id": lists_of(starts, pa.array(lanes, pa.int32())),
        "status": lists_of(starts, pa.array(values, pa.uint8())),
    }


def _rows_of_frames(bounds: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the start of each frame's rows, with the end appended, and all rows, for intervals (F, 2)."""
    counts = bounds[:, 1] - bounds[:, 0]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return starts, expand_ranges(bounds[:, 0], counts)

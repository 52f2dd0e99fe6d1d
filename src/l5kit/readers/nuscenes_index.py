"""Index of the tables of nuScenes: key frames, AV poses and boxes of each scene, as plain arrays.

The tables are read once, piece by piece. Only what scenes need is kept: of the 2.6 million records of sensors and poses
of the full set the 34,000 that belong to lidar key frames, and 90 bytes for each of its 1.2 million boxes. A fault only
affects the scene that it is in.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int32Array, Int64Array, NumericArray
from l5kit.data.array_shapes import require_shapes
from l5kit.readers.nuscenes_tables import (
    Annotation,
    Attribute,
    CalibratedSensor,
    Category,
    EgoPose,
    Instance,
    LogRecord,
    Sample,
    SampleData,
    SceneRecord,
    Sensor,
    file_name,
    read_table,
    table_pieces,
)
from l5kit.readers.reader import SourceDataError
from l5kit.readers.source_bounds import FIRST_TIME_NS, LAST_TIME_NS

LIDAR_CHANNEL = "LIDAR_TOP"
"""Sensor whose key frames determine the AV poses, as its time is that of the sample."""

RIDER_ATTRIBUTE = "cycle.with_rider"
"""Attribute of a bicycle or motorcycle with a rider."""


@dataclass(frozen=True)
class NuscenesIndex:
    """S scenes with N key frames and M boxes of I instances of C categories; rows of a scene are contiguous.

    Attributes:
        scene_names: Name of each scene, text, (S,).
        scene_locations: City of each scene, text, (S,).
        problems: File, record and description of the first fault of each scene, empty for none, text, (S, 3).
        sample_starts: First key frame of each scene, and the end, (S + 1,).
        sample_tokens: Token of each key frame, in the order of the scene, text, (N,).
        timestamps_us: Time of each key frame, int64, (N,).
        ego_positions_m: World x, y, z of the middle of the AV's rear axle, (N, 3).
        ego_rotations: Rotation of the AV w, x, y, z, (N, 4).
        box_starts: First box of each key frame, and the end, (N + 1,).
        box_instances: Instance of each box, ascending in a key frame, -1 if unknown, int32, (M,).
        box_positions_m: World x, y, z of the centre of each box, (M, 3).
        box_sizes_m: Width, length and height, (M, 3).
        box_rotations: Rotation w, x, y, z, (M, 4).
        box_has_rider: Whether it is a cycle with a rider, bool, (M,).
        box_records: Index of each box in ``sample_annotation.json``, int32, (M,).
        instance_tokens: Token of each instance, text, (I,).
        instance_categories: Category of each instance, -1 if unknown, int32, (I,).
        instance_lacks: Number of boxes missing compared with the record of each instance, int32, (I,).
        categories: Name of each category, text, (C,).
        lost_boxes: Records of ``sample_annotation.json`` without a known scene, int64, (L,).
    """

    scene_names: NumericArray
    scene_locations: NumericArray
    problems: NumericArray
    sample_starts: Int64Array
    sample_tokens: NumericArray
    timestamps_us: Int64Array
    ego_positions_m: Float64Array
    ego_rotations: Float64Array
    box_starts: Int64Array
    box_instances: Int32Array
    box_positions_m: Float64Array
    box_sizes_m: Float64Array
    box_rotations: Float64Array
    box_has_rider: BoolArray
    box_records: Int32Array
    instance_tokens: NumericArray
    instance_categories: Int32Array
    instance_lacks: Int32Array
    categories: NumericArray
    lost_boxes: Int64Array

    def __post_init__(self) -> None:
        scenes, samples, boxes = len(self.scene_names), len(self.sample_tokens), len(self.box_instances)
        require_shapes(self, scene_locations=(scenes,), problems=(scenes, 3))
        require_shapes(self, sample_starts=(scenes + 1,), timestamps_us=(samples,), box_starts=(samples + 1,))
        require_shapes(self, ego_positions_m=(samples, 3), ego_rotations=(samples, 4))
        require_shapes(self, box_positions_m=(boxes, 3), box_sizes_m=(boxes, 3), box_rotations=(boxes, 4))
        require_shapes(self, box_has_rider=(boxes,), box_records=(boxes,))
        instances = len(self.instance_tokens)
        require_shapes(self, instance_categories=(instances,), instance_lacks=(instances,))

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the arrays."""
        return [field.name for field in fields(cls)]


def build_index(folder: Path) -> NuscenesIndex:
    """Return the index of the tables in a folder.

    Args:
        folder: Folder of the tables, such as ``v1.0-mini``.

    Raises:
        SourceDataError: A table is missing or damaged, so that no scene can be read.
    """
    scenes = _Scenes(folder)
    positions_m, rotations, problem_of = _read_poses(folder, scenes.sample_rows)
    boxes = _box_arrays(folder, scenes)

    # scenes with a key frame without an AV pose cannot be read
    tokens = list(scenes.sample_rows)
    for row, problem in sorted(problem_of.items()):
        scenes.add_fault(int(scenes.scene_of_row[row]), "sample_data", f"sample_token {tokens[row]!r}", problem)
    return NuscenesIndex(
        scene_names=_texts(scene.name for scene in scenes.records),
        scene_locations=_texts(scenes.locations),
        problems=np.array(scenes.problems, dtype=str).reshape(-1, 3),
        sample_starts=scenes.sample_starts,
        sample_tokens=_texts(scenes.sample_rows),
        timestamps_us=scenes.timestamps_us,
        ego_positions_m=positions_m,
        ego_rotations=rotations,
        **boxes,
    )


class _Scenes:
    """Scenes with their key frames in order, and the fault of each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = sorted(read_table(folder, "scene", SceneRecord), key=lambda scene: scene.name)
        self.problems = [("", "", "") for _ in self.records]
        for first, second in zip(self.records[:-1], self.records[1:], strict=True):
            if first.name == second.name:
                raise SourceDataError(file_name(folder, "scene"), f"scene {first.name!r}", "occurs twice")

        # The city of each scene is that of its recording.
        logs = {log.token: log for log in read_table(folder, "log", LogRecord)}
        self.locations = []
        for number, scene in enumerate(self.records):
            log = logs.get(scene.log_token)
            if log is None:
                self.add_fault(number, "scene", scene.name, f"log_token {scene.log_token!r} is not in log.json")
            self.locations.append(log.location if log else "")

        # key frames are numbered in the order of their scenes, without those of faulty scenes
        samples = {sample.token: sample for sample in read_table(folder, "sample", Sample)}
        counts = Counter(sample.scene_token for sample in samples.values())
        chains = [self._chain_of(number, samples, counts) for number in range(len(self.records))]
        self.sample_starts = np.cumsum([0, *map(len, chains)], dtype=np.int64)
        self.sample_rows = {sample.token: row for row, sample in enumerate(chain.from_iterable(chains))}
        self.left_out = samples.keys() - self.sample_rows.keys()
        self.scene_of_row = np.repeat(np.arange(len(chains)), np.diff(self.sample_starts))
        self.timestamps_us = np.array([samples[token].timestamp for token in self.sample_rows], dtype=np.int64)

    def add_fault(self, scene: int, table: str, record: str, problem: str) -> None:
        """Record the fault of a scene, unless it already has one."""
        if not self.problems[scene][2]:
            self.problems[scene] = (file_name(self.folder, table), record, problem)

    def _chain_of(self, number: int, samples: dict[str, Sample], counts: Counter[str]) -> list[Sample]:
        """Return the key frames of a scene by following their links; empty after a fault."""
        scene = self.records[number]
        chain: list[Sample] = []
        token, num_listed = scene.first_sample_token, counts[scene.token]
        while token and len(chain) <= num_listed:  # one more than listed means a cycle
            sample = samples.get(token)
            if sample is None or sample.scene_token != scene.token:
                what = "is not in the table" if sample is None else "is of another scene"
                self.add_fault(
                    number, "sample", f"{scene.name}, step {len(chain)}", f"the next key frame {token!r} {what}"
                )
                return []
            if not FIRST_TIME_NS <= sample.timestamp * 1000 <= LAST_TIME_NS:
                text = f"its timestamp must be from 1 to {LAST_TIME_NS // 1000} microseconds, got {sample.timestamp}"
                self.add_fault(number, "sample", f"{scene.name}, sample {token!r}", text)
                return []
            if chain and sample.timestamp <= chain[-1].timestamp:
                text = f"its timestamp {sample.timestamp} is not after {chain[-1].timestamp} of the previous one"
                self.add_fault(number, "sample", f"{scene.name}, sample {token!r}", text)
                return []
            chain.append(sample)
            token = sample.next

        # the scene, the table and the chain must agree on the number of key frames
        if num_listed == 0:
            self.add_fault(number, "scene", scene.name, "has no key frames in sample.json")
        elif not len(chain) == num_listed == scene.nbr_samples:
            self.add_fault(
                number,
                "scene",
                scene.name,
                f"nbr_samples is {scene.nbr_samples}, but sample.json has {num_listed} key frames of it, of which "
                f"{len(chain)} follow one another",
            )
        return [] if self.problems[number][2] else chain


def _read_poses(folder: Path, sample_rows: Mapping[str, int]) -> tuple[Float64Array, Float64Array, dict[int, str]]:
    """Return world positions (N, 3) and rotations (N, 4) of the AV at the lidar key frames, NaN if missing.

    The third value maps rows of key frames to the fault of their pose.
    """
    positions_m, rotations = np.full((len(sample_rows), 3), np.nan), np.full((len(sample_rows), 4), np.nan)
    problem_of: dict[int, str] = {}

    # pose of each key frame, from the record of the lidar, whose time is that of the key frame
    sensors = {sensor.token for sensor in read_table(folder, "sensor", Sensor) if sensor.channel == LIDAR_CHANNEL}
    mounted = read_table(folder, "calibrated_sensor", CalibratedSensor)
    lidars = {sensor.token for sensor in mounted if sensor.sensor_token in sensors}
    tokens: dict[int, str] = {}
    for _, records in table_pieces(folder, "sample_data", SampleData):
        for data in records:
            if data.is_key_frame and data.calibrated_sensor_token in lidars and data.sample_token in sample_rows:
                row = sample_rows[data.sample_token]
                if tokens.setdefault(row, data.ego_pose_token) != data.ego_pose_token:
                    problem_of[row] = f"the key frame has two poses of {LIDAR_CHANNEL}"
    rows_of_pose: dict[str, list[int]] = {}
    for row, token in tokens.items():
        rows_of_pose.setdefault(token, []).append(row)

    # read these poses, skipping all others of the table
    seen: set[str] = set()
    for _, poses in table_pieces(folder, "ego_pose", EgoPose):
        for pose in poses:
            for row in rows_of_pose.get(pose.token, ()):
                positions_m[row], rotations[row] = pose.translation, pose.rotation
                if pose.token in seen:
                    problem_of[row] = f"ego_pose_token {pose.token!r} is repeated in ego_pose.json"
            if pose.token in rows_of_pose:
                seen.add(pose.token)
    for token in rows_of_pose.keys() - seen:
        problem_of |= dict.fromkeys(rows_of_pose[token], f"ego_pose_token {token!r} is not in ego_pose.json")
    for row in np.flatnonzero(np.isnan(positions_m).any(axis=1)).tolist():
        problem_of.setdefault(row, f"the key frame has no {LIDAR_CHANNEL}, and so no pose of the AV")
    return positions_m, rotations, problem_of


def _read_boxes(
    folder: Path, scenes: _Scenes, instance_rows: Mapping[str, int]
) -> tuple[dict[str, NumericArray], list[tuple[int, int, str]]]:
    """Return the columns of all boxes in the order of the table, -1 for unknown key frames and instances.

    The second value lists the boxes whose key frame is in no table, with record, instance and token.
    """
    riders = {a.token for a in read_table(folder, "attribute", Attribute) if a.name == RIDER_ATTRIBUTE}
    parts: list[dict[str, NumericArray]] = []
    lost: list[tuple[int, int, str]] = []
    row_of, instance_of = scenes.sample_rows.get, instance_rows.get
    for first, boxes in table_pieces(folder, "sample_annotation", Annotation):
        samples = np.array([row_of(box.sample_token, -1) for box in boxes], np.int32)
        instances = np.array([instance_of(box.instance_token, -1) for box in boxes], np.int32)
        lost += [
            (first + index, int(instances[index]), boxes[index].sample_token)
            for index in np.flatnonzero(samples < 0).tolist()
            if boxes[index].sample_token not in scenes.left_out
        ]
        parts.append(
            {
                "samples": samples,
                "box_instances": instances,
                "box_positions_m": np.array([box.translation for box in boxes], np.float64).reshape(-1, 3),
                "box_sizes_m": np.array([box.size for box in boxes], np.float64).reshape(-1, 3),
                "box_rotations": np.array([box.rotation for box in boxes], np.float64).reshape(-1, 4),
                "box_has_rider": np.array([not riders.isdisjoint(box.attribute_tokens) for box in boxes], bool),
                "box_records": np.arange(first, first + len(boxes), dtype=np.int32),
            }
        )
    # columns are popped from each part once joined, so that boxes are not held twice
    return {name: np.concatenate([part.pop(name) for part in parts]) for name in tuple(parts[0])}, lost


def _box_arrays(folder: Path, scenes: _Scenes) -> dict[str, NumericArray]:
    """Return the arrays of boxes, instances and categories; faults of boxes are recorded for their scenes."""
    categories = read_table(folder, "category", Category)
    instances = read_table(folder, "instance", Instance)
    category_rows = {category.token: row for row, category in enumerate(categories)}
    instance_rows = {instance.token: row for row, instance in enumerate(instances)}
    columns, lost = _read_boxes(folder, scenes, instance_rows)

    # boxes of known key frames, sorted by key frame and instance, and the first box of each key frame
    samples = columns.pop("samples")
    order = np.lexsort((columns["box_instances"], samples))
    order = order[np.searchsorted(samples[order], 0) :]
    starts = np.searchsorted(samples[order], np.arange(len(scenes.sample_rows) + 1)).astype(np.int64)
    arrays = {name: values[order] for name, values in columns.items()} | {
        "box_starts": starts,
        "instance_tokens": _texts(instance_rows),
        "instance_categories": np.array([category_rows.get(i.category_token, -1) for i in instances], np.int32),
        "categories": _texts(category.name for category in categories),
    }

    # boxes of unknown key frames count as well, as they do in the records of instances
    expected = np.array([instance.nbr_annotations for instance in instances], np.int64)
    known = columns["box_instances"][columns["box_instances"] >= 0]
    arrays["instance_lacks"] = (expected - np.bincount(known, minlength=len(expected))).astype(np.int32)

    # A box whose key frame is in no table is a fault of the scene with other boxes of its instance. Without such boxes
    # its scene is unknown.
    scene_of_box = np.repeat(scenes.scene_of_row, np.diff(starts))
    others = []
    for record, instance, token in lost:
        rows = np.flatnonzero((arrays["box_instances"] == instance) & (instance >= 0))
        if len(rows):
            problem = f"sample_token {token!r} is not in sample.json"
            scenes.add_fault(int(scene_of_box[rows[0]]), "sample_annotation", f"record {record}", problem)
        else:
            others.append(record)
    arrays["lost_boxes"] = np.array(others, np.int64)
    return arrays


def _texts(texts: Iterable[str]) -> NumericArray:
    """Return texts as an array, (N,)."""
    return np.array(list(texts), dtype=str).reshape(-1)

"""Logs of py123d: the AV, boxes with classes and lights of lanes, with the rows of each frame in several files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from l5kit._types import Int64Array, NumericArray
from l5kit.data.frame_rows import expand_ranges
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.readers.motion import require_unit, rotations_of, yaws_of
from l5kit.readers.py123d_arrow import ArrowFile, numeric_values, open_arrow, rows_of
from l5kit.readers.reader import naming_source
from l5kit.readers.source_bounds import as_times_ns, require_few_states, require_one_state
from l5kit.readers.source_scene import LightState, SourceEgo, SourceLights, SourceTracks, tracks_of_boxes

UNKNOWN: Final = "unknown"
"""Class of unknown numbers and label classes."""

_CLASSES: Final = {
    "DefaultBoxDetectionLabel": (
        "ego CAR, vehicle CAR, train TRAM, two-wheeler CYCLIST, person PEDESTRIAN, animal ANIMAL, "
        "traffic sign UNKNOWN, traffic cone UNKNOWN, traffic light UNKNOWN, barrier UNKNOWN, generic object UNKNOWN, "
        "other UNKNOWN"
    ),
    "AV2SensorBoxDetectionLabel": (
        "animal ANIMAL, articulated bus BUS, bicycle BICYCLE, bicyclist CYCLIST, bollard UNKNOWN, box truck TRUCK, "
        "bus BUS, construction barrel UNKNOWN, construction cone UNKNOWN, dog ANIMAL, large vehicle OTHER_VEHICLE, "
        "message board trailer UNKNOWN, mobile pedestrian crossing sign UNKNOWN, motorcycle MOTORCYCLE, "
        "motorcyclist MOTORCYCLIST, official signaler PEDESTRIAN, pedestrian PEDESTRIAN, railed vehicle TRAM, "
        "regular vehicle CAR, school bus BUS, sign UNKNOWN, stop sign UNKNOWN, stroller PEDESTRIAN, "
        "traffic light trailer UNKNOWN, truck TRUCK, truck cab TRUCK, vehicular trailer OTHER_VEHICLE, "
        "wheelchair PEDESTRIAN, wheeled device UNKNOWN, wheeled rider CYCLIST"
    ),
    "KITTI360BoxDetectionLabel": (
        "bicycle BICYCLE, box UNKNOWN, bus BUS, car CAR, caravan OTHER_VEHICLE, lamp UNKNOWN, motorcycle MOTORCYCLE, "
        "person PEDESTRIAN, pole UNKNOWN, rider CYCLIST, small pole UNKNOWN, stop UNKNOWN, traffic light UNKNOWN, "
        "traffic sign UNKNOWN, trailer OTHER_VEHICLE, train TRAM, trash bin UNKNOWN, truck TRUCK, "
        "vending machine UNKNOWN"
    ),
    "NuPlanBoxDetectionLabel": (
        "vehicle CAR, cyclist CYCLIST, pedestrian PEDESTRIAN, traffic cone UNKNOWN, barrier UNKNOWN, "
        "construction sign UNKNOWN, generic object UNKNOWN"
    ),
    "NuScenesBoxDetectionLabel": (
        "car CAR, truck TRUCK, bendy bus BUS, rigid bus BUS, construction vehicle OTHER_VEHICLE, "
        "ambulance EMERGENCY_VEHICLE, police car EMERGENCY_VEHICLE, trailer OTHER_VEHICLE, bicycle BICYCLE, "
        "motorcycle MOTORCYCLE, adult PEDESTRIAN, child PEDESTRIAN, construction worker PEDESTRIAN, "
        "personal mobility PEDESTRIAN, police officer PEDESTRIAN, stroller PEDESTRIAN, wheelchair PEDESTRIAN, "
        "traffic cone UNKNOWN, barrier UNKNOWN, pushable UNKNOWN, debris UNKNOWN, bicycle rack UNKNOWN, "
        "animal ANIMAL"
    ),
    "PandasetBoxDetectionLabel": (
        "bird ANIMAL, animal ANIMAL, bicycle BICYCLE, bus BUS, car CAR, cones UNKNOWN, construction signs UNKNOWN, "
        "emergency vehicle EMERGENCY_VEHICLE, medium-sized truck TRUCK, motorcycle MOTORCYCLE, "
        "motorized scooter MOTORCYCLIST, construction vehicle OTHER_VEHICLE, pedicab CYCLIST, "
        "uncommon vehicle OTHER_VEHICLE, pedestrian PEDESTRIAN, pedestrian with object PEDESTRIAN, "
        "personal mobility PEDESTRIAN, pickup truck CAR, pylons UNKNOWN, road barriers UNKNOWN, "
        "rolling containers UNKNOWN, semi-truck TRUCK, signs UNKNOWN, temporary barriers UNKNOWN, "
        "towed object OTHER_VEHICLE, train TRAM, tram TRAM"
    ),
    "WODPerceptionBoxDetectionLabel": (
        "unset UNKNOWN, vehicle CAR, pedestrian PEDESTRIAN, sign UNKNOWN, cyclist CYCLIST"
    ),
    "WODMotionBoxDetectionLabel": "unset UNKNOWN, vehicle CAR, pedestrian PEDESTRIAN, cyclist CYCLIST, other UNKNOWN",
}
"""Name and label of each number, in numeric order, by the name of the label class in version 0.7."""


def names_of_labels(label_class: str) -> tuple[str, ...]:
    """Return the class of each number of a label class, as in :data:`LABEL_MAPPING`; empty for an unknown one.

    Args:
        label_class: Its name, with or without that of its module.
    """
    short = label_class.rpartition(".")[2]
    members = _CLASSES[short].split(", ") if short in _CLASSES else []
    return tuple(f"{short.removesuffix('BoxDetectionLabel')} {each.rpartition(' ')[0]}" for each in members)


LABEL_MAPPING: Final = {
    **{
        name: f"PERCEPTION_LABEL_{member.rpartition(' ')[2]}"
        for label_class, members in _CLASSES.items()
        for name, member in zip(names_of_labels(label_class), members.split(", "), strict=True)
    },
    UNKNOWN: "PERCEPTION_LABEL_UNKNOWN",
}
"""Label of each class of each label class, and of unknown ones."""

SYNC: Final = "sync"
EGO, BOXES, LIGHTS = "ego_state_se3", "box_detections_se3", "traffic_light_detections"

_ALL_BOXED: Final = 0.9
"""All frames are kept if at least this share has boxes; else only those with boxes, the annotated key frames."""

_STATES: Final = (LightState.GREEN, LightState.YELLOW, LightState.RED, LightState.UNKNOWN, LightState.UNKNOWN)
"""Light state of each status number: green, yellow, red, off, unknown."""

_POSITION, _ROTATION, _SIZE = slice(0, 3), slice(3, 7), slice(7, 10)


@dataclass(frozen=True, eq=False)
class Py123dLog:
    """The open files of one log.

    Attributes:
        folder: Folder of the log.
        name: The folder relative to the source, for errors.
        sync: Time of each frame, and its row in each other file.
    """

    folder: Path
    name: str
    sync: ArrowFile

    @classmethod
    def open(cls, folder: Path, name: str) -> "Py123dLog":
        """Open a log.

        Raises:
            SourceDataError: ``sync.arrow`` is missing or damaged.
        """
        with naming_source(f"{name}/{SYNC}.arrow"):
            return cls(folder, name, open_arrow(folder / f"{SYNC}.arrow", SYNC))

    def frames(self) -> Int64Array:
        """Return the rows of ``sync.arrow`` that become frames: those with an AV, and boxes if few frames have some.

        Raises:
            SourceDataError: There are none.
        """
        with naming_source(f"{self.name}/{SYNC}.arrow"):
            kept = self._rows_of(EGO) >= 0
            if not kept.any():
                raise ValueError("no frame has a pose of the AV")
            boxed = kept & (self._rows_of(BOXES) >= 0)
            if boxed.any() and np.count_nonzero(boxed) < _ALL_BOXED * np.count_nonzero(kept):
                kept = boxed
            return np.flatnonzero(kept)

    def times_ns(self, frames: Int64Array) -> Int64Array:
        """Return the times of frames, (T,)."""
        with naming_source(f"{self.name}/{SYNC}.arrow"):
            return as_times_ns("sync.timestamp_us", self.sync.numeric("timestamp_us")[frames], ns_per_unit=1e3)

    def ego(self, frames: Int64Array) -> SourceEgo:
        """Return the AV in some frames, with positions on the ground below the centre of its box.

        Raises:
            SourceDataError: The file is missing or damaged.
        """
        with self._opened(EGO) as opened:
            metadata = opened.metadata
            sizes_m = {key: metadata.number(key) for key in ("length", "width", "height")}
            for key, each_m in sizes_m.items():
                if each_m is None:
                    raise ValueError(f"{key} of the AV must be a number, got {metadata.values.get(key)!r:.80}")
            size_m = np.array(list(sizes_m.values()), np.float64)
            middle = metadata.floats("center_to_imu_se3", 7)
            rows = self._rows_of(EGO)[frames]
            if rows.max(initial=-1) >= opened.table.num_rows:
                raise ValueError(f"it has {opened.table.num_rows} rows, but {SYNC}.arrow names row {rows.max()}")
            poses = rows_of(opened.column("imu_se3"), "imu_se3", 7)[rows]
            require_unit(poses[:, _ROTATION], "step")
            require_unit(middle[None, _ROTATION], "center_to_imu_se3")

            # from the IMU to the centre of the box, and down by half its height to the ground
            rotations = rotations_of(poses[:, _ROTATION])
            below_m = middle[_POSITION] - np.array([0.0, 0.0, size_m[2] / 2.0])
            positions_m = poses[:, _POSITION] + rotations @ below_m
            rotations = rotations @ rotations_of(middle[None, _ROTATION])[0]
            yaws_rad = np.arctan2(rotations[:, 1, 0], rotations[:, 0, 0])
            return SourceEgo(positions_m, yaws_rad, size_m, rotations)

    def tracks(
        self, frames: Int64Array, times_ns: Int64Array, known: Callable[[str], bool], remarks: list[str]
    ) -> SourceTracks:
        """Return the boxes in some frames.

        Args:
            frames: The frames.
            times_ns: Their times.
            known: Whether a class is in the label mapping of the source; others become unknown.
            remarks: List to which remarks are added.

        Raises:
            SourceDataError: The file is damaged, or has a track twice in a frame.
        """
        if not self._has(BOXES):
            remarks.append("There are no boxes: only the AV is recorded.")
            return SourceTracks.none(len(frames))
        with self._opened(BOXES) as opened:
            return _tracks_of(opened, self._rows_of(BOXES)[frames], times_ns, known, remarks)

    def label_classes(self) -> set[str]:
        """Return the possible classes of boxes.

        Raises:
            SourceDataError: The file is damaged.
        """
        if not self._has(BOXES):
            return set()
        with self._opened(BOXES) as opened:
            if "labels" in opened.own:  # written by l5kit
                return set(PERCEPTION_LABELS)
            return set(names_of_labels(opened.metadata.text("box_detection_label_class", "")))

    def lights(self, frames: Int64Array) -> SourceLights:
        """Return the lights of lanes in some frames, each at the end of its lane.

        Raises:
            SourceDataError: The file is damaged.
        """
        if not self._has(LIGHTS):
            return SourceLights.none(len(frames))
        with self._opened(LIGHTS) as opened:
            rows = self._rows_of(LIGHTS)[frames]
            starts, lanes = opened.lists("lane_id")
            statuses = opened.values_beside("lane_id", "status")
            lists = _Lists.of(starts, rows)
            lane_ids, light_rows = np.unique(numeric_values(lanes, "lane_id")[lists.indices], return_inverse=True)

            # numbers beyond the last status are unknown
            shown: NumericArray = np.array([*_STATES, LightState.UNKNOWN], np.uint8)
            status = np.clip(numeric_values(statuses, "status")[lists.indices].astype(np.int64), 0, len(_STATES))
            states = np.full((len(lane_ids), len(rows)), LightState.ABSENT, np.uint8)
            states[light_rows, lists.steps] = shown[status]
            return SourceLights(tuple(map(str, lane_ids.tolist())), states, np.full((len(lane_ids), 3), np.nan))

    def _has(self, modality: str) -> bool:
        return (self.folder / f"{modality}.arrow").exists()

    @contextmanager
    def _opened(self, modality: str) -> Iterator[ArrowFile]:
        """Yield the file of a modality, which is named in errors of the block."""
        with naming_source(f"{self.name}/{modality}.arrow"):
            yield open_arrow(self.folder / f"{modality}.arrow", modality)

    def _rows_of(self, modality: str) -> Int64Array:
        """Return the row of each frame in the file of a modality, -1 if it has none, (N,)."""
        if modality not in self.sync.table.column_names:
            return np.full(self.sync.table.num_rows, -1)
        column = self.sync.column(modality)
        if not pa.types.is_integer(column.type):
            raise TypeError(f"column {modality} must hold rows, got {column.type}")
        rows: Int64Array = column.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return rows


@dataclass(frozen=True, eq=False)
class _Lists:
    """Lists of some frames: the step of each value, and its index in the flattened values of the file, (M,)."""

    steps: Int64Array
    indices: Int64Array

    @classmethod
    def of(cls, starts: Int64Array, rows: Int64Array) -> "_Lists":
        """Return the lists of rows of a file, -1 for frames without a row."""
        if rows.max(initial=-1) >= len(starts) - 1:
            raise ValueError(f"it has {len(starts) - 1} rows, but {SYNC}.arrow names row {rows.max()}")
        counts = np.where(rows >= 0, np.diff(starts)[rows], 0) if len(starts) > 1 else np.zeros(len(rows), np.int64)
        steps = np.repeat(np.arange(len(rows)), counts)
        return cls(steps, expand_ranges(starts[rows], counts))


def _tracks_of(
    opened: ArrowFile, rows: Int64Array, times_ns: Int64Array, known: Callable[[str], bool], remarks: list[str]
) -> SourceTracks:
    """Return the boxes in some rows of the file as tracks."""
    starts, boxes = opened.lists("bounding_box_se3")
    column, label_column = (opened.values_beside("bounding_box_se3", name) for name in ("track_token", "label"))
    lists = _Lists.of(starts, rows)
    values = rows_of(boxes, "bounding_box_se3", 10)[lists.indices]

    # the track of each box, with ids in order of first appearance
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) or column.null_count:
        raise TypeError(f"column track_token must hold text in all rows, got {column.type}")
    encoded = column.take(pa.array(lists.indices)).dictionary_encode()
    tracks, ids = encoded.indices.to_numpy().astype(np.int64), tuple(encoded.dictionary.to_pylist())
    if not ids:
        return SourceTracks.none(len(times_ns))
    require_few_states(len(ids), len(times_ns), called="frames")
    require_one_state(ids, tracks, lists.steps, len(times_ns), problem_of=lambda step: f"has two boxes in frame {step}")
    require_unit(values[:, _ROTATION], "box")

    labels = numeric_values(label_column, "label").astype(np.int64)
    # the class of a track is that of its first box
    firsts = np.unique(tracks, return_index=True)[1]
    classes = _classes_of(opened, labels, lists.indices[firsts], remarks)

    velocities = opened.values_beside("bounding_box_se3", "velocity_3d")
    velocities_mps = None
    if velocities.null_count:
        remarks.append("Velocities are differences of positions, as some are missing in the log.")
    else:
        velocities_mps = rows_of(velocities, "velocity_3d", 3)[lists.indices, :2]
    return tracks_of_boxes(
        ids,
        [name if known(name) else UNKNOWN for name in classes],
        (tracks, lists.steps),
        times_ns,
        positions_m=values[:, :2],
        yaws_rad=yaws_of(values[:, _ROTATION]),
        sizes_m=values[:, _SIZE],
        velocities_mps=velocities_mps,
    )


def _classes_of(opened: ArrowFile, labels: Int64Array, boxes: Int64Array, remarks: list[str]) -> list[str]:
    """Return the classes of some boxes.

    Args:
        opened: The file.
        labels: Label of each box of the file, (M,).
        boxes: Indices of the boxes.
        remarks: List to which a remark on unknown labels is added.
    """
    # logs exported by l5kit also have its own labels, which are finer than those of other datasets
    own = opened.own.get("labels")
    if isinstance(own, bytes) and len(own) == len(labels):
        own_labels = np.frombuffer(own, np.uint8)[boxes].tolist()
        return [PERCEPTION_LABELS[number] if number < len(PERCEPTION_LABELS) else UNKNOWN for number in own_labels]
    label_class = opened.metadata.text("box_detection_label_class", "")
    names = names_of_labels(label_class)
    if not names:
        remarks.append(f"Labels of {label_class[:100] or 'no class'} are not known; all boxes are unknown.")
    return [names[number] if number < len(names) else UNKNOWN for number in labels[boxes].tolist()]

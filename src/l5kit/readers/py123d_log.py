"""Logs of py123d: the AV, boxes with classes and lights of lanes, each frame as a row of several files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from l5kit._types import Int64Array, NumericArray
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.readers.py123d_arrow import ArrowFile, numeric_values, open_arrow, rows_of
from l5kit.readers.quaternions import require_unit, rotations_of, yaws_of
from l5kit.readers.reader import naming_source
from l5kit.readers.source_bounds import as_times_ns, require_few_states
from l5kit.readers.source_scene import LightState, SourceEgo, SourceLights, SourceTracks, tracks_of_boxes

UNKNOWN: Final = "unknown"
"""The class of numbers and label classes that are not known."""

_CAR, _BUS, _TRUCK, _OTHER_VEHICLE = "CAR", "BUS", "TRUCK", "OTHER_VEHICLE"
_PERSON, _CYCLIST, _MOTORCYCLIST, _ANIMAL, _NONE = "PEDESTRIAN", "CYCLIST", "MOTORCYCLIST", "ANIMAL", "UNKNOWN"
_BICYCLE, _MOTORCYCLE, _TRAM, _EMERGENCY = "BICYCLE", "MOTORCYCLE", "TRAM", "EMERGENCY_VEHICLE"

_CLASSES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "DefaultBoxDetectionLabel": (
        ("ego", _CAR), ("vehicle", _CAR), ("train", _TRAM), ("two-wheeler", _CYCLIST), ("person", _PERSON),
        ("animal", _ANIMAL), ("traffic sign", _NONE), ("traffic cone", _NONE), ("traffic light", _NONE),
        ("barrier", _NONE), ("generic object", _NONE), ("other", _NONE),
    ),
    "AV2SensorBoxDetectionLabel": (
        ("animal", _ANIMAL), ("articulated bus", _BUS), ("bicycle", _BICYCLE), ("bicyclist", _CYCLIST),
        ("bollard", _NONE), ("box truck", _TRUCK), ("bus", _BUS), ("construction barrel", _NONE),
        ("construction cone", _NONE), ("dog", _ANIMAL), ("large vehicle", _OTHER_VEHICLE),
        ("message board trailer", _NONE), ("mobile pedestrian crossing sign", _NONE), ("motorcycle", _MOTORCYCLE),
        ("motorcyclist", _MOTORCYCLIST), ("official signaler", _PERSON), ("pedestrian", _PERSON),
        ("railed vehicle", _TRAM), ("regular vehicle", _CAR), ("school bus", _BUS), ("sign", _NONE),
        ("stop sign", _NONE), ("stroller", _PERSON), ("traffic light trailer", _NONE), ("truck", _TRUCK),
        ("truck cab", _TRUCK), ("vehicular trailer", _OTHER_VEHICLE), ("wheelchair", _PERSON),
        ("wheeled device", _NONE), ("wheeled rider", _CYCLIST),
    ),
    "KITTI360BoxDetectionLabel": (
        ("bicycle", _BICYCLE), ("box", _NONE), ("bus", _BUS), ("car", _CAR), ("caravan", _OTHER_VEHICLE),
        ("lamp", _NONE), ("motorcycle", _MOTORCYCLE), ("person", _PERSON), ("pole", _NONE), ("rider", _CYCLIST),
        ("small pole", _NONE), ("stop", _NONE), ("traffic light", _NONE), ("traffic sign", _NONE),
        ("trailer", _OTHER_VEHICLE), ("train", _TRAM), ("trash bin", _NONE), ("truck", _TRUCK),
        ("vending machine", _NONE),
    ),
    "NuPlanBoxDetectionLabel": (
        ("vehicle", _CAR), ("cyclist", _CYCLIST), ("pedestrian", _PERSON), ("traffic cone", _NONE),
        ("barrier", _NONE), ("construction sign", _NONE), ("generic object", _NONE),
    ),
    "NuScenesBoxDetectionLabel": (
        ("car", _CAR), ("truck", _TRUCK), ("bendy bus", _BUS), ("rigid bus", _BUS),
        ("construction vehicle", _OTHER_VEHICLE), ("ambulance", _EMERGENCY), ("police car", _EMERGENCY),
        ("trailer", _OTHER_VEHICLE), ("bicycle", _BICYCLE), ("motorcycle", _MOTORCYCLE), ("adult", _PERSON),
        ("child", _PERSON), ("construction worker", _PERSON), ("personal mobility", _PERSON),
        ("police officer", _PERSON), ("stroller", _PERSON), ("wheelchair", _PERSON), ("traffic cone", _NONE),
        ("barrier", _NONE), ("pushable", _NONE), ("debris", _NONE), ("bicycle rack", _NONE), ("animal", _ANIMAL),
    ),
    "PandasetBoxDetectionLabel": (
        ("bird", _ANIMAL), ("animal", _ANIMAL), ("bicycle", _BICYCLE), ("bus", _BUS), ("car", _CAR),
        ("cones", _NONE), ("construction signs", _NONE), ("emergency vehicle", _EMERGENCY),
        ("medium-sized truck", _TRUCK), ("motorcycle", _MOTORCYCLE), ("motorized scooter", _MOTORCYCLIST),
        ("construction vehicle", _OTHER_VEHICLE), ("pedicab", _CYCLIST), ("uncommon vehicle", _OTHER_VEHICLE),
        ("pedestrian", _PERSON), ("pedestrian with object", _PERSON), ("personal mobility", _PERSON),
        ("pickup truck", _CAR), ("pylons", _NONE), ("road barriers", _NONE), ("rolling containers", _NONE),
        ("semi-truck", _TRUCK), ("signs", _NONE), ("temporary barriers", _NONE), ("towed object", _OTHER_VEHICLE),
        ("train", _TRAM), ("tram", _TRAM),
    ),
    "WODPerceptionBoxDetectionLabel": (
        ("unset", _NONE), ("vehicle", _CAR), ("pedestrian", _PERSON), ("sign", _NONE), ("cyclist", _CYCLIST),
    ),
    "WODMotionBoxDetectionLabel": (
        ("unset", _NONE), ("vehicle", _CAR), ("pedestrian", _PERSON), ("cyclist", _CYCLIST), ("other", _NONE),
    ),
}  # fmt: skip
"""Name and label of each number, in the order of the numbers, by the name of the label class in version 0.7."""


def names_of_labels(label_class: str) -> tuple[str, ...]:
    """Return the class of each number of a label class, as in :data:`LABEL_MAPPING`; nothing for one not known.

    Args:
        label_class: Its name, alone or with that of its module.
    """
    short = label_class.rpartition(".")[2]
    return tuple(f"{short.removesuffix('BoxDetectionLabel')} {name}" for name, _ in _CLASSES.get(short, ()))


LABEL_MAPPING: Final = {
    **{
        name: f"PERCEPTION_LABEL_{label}"
        for label_class, members in _CLASSES.items()
        for name, (_, label) in zip(names_of_labels(label_class), members, strict=True)
    },
    UNKNOWN: "PERCEPTION_LABEL_UNKNOWN",
}
"""Label of each class of each label class, and of what is not known."""


SYNC: Final = "sync"
EGO, BOXES, LIGHTS = "ego_state_se3", "box_detections_se3", "traffic_light_detections"

_ALL_BOXED: Final = 0.9
"""Where at least so many of the frames have boxes, all are kept; else those with boxes, as of annotated key frames."""

_STATES: Final = (LightState.GREEN, LightState.YELLOW, LightState.RED, LightState.UNKNOWN, LightState.UNKNOWN)
"""What each number of a status shows: green, yellow, red, off, unknown."""

_POSITION, _ROTATION, _SIZE = slice(0, 3), slice(3, 7), slice(7, 10)


@dataclass(frozen=True, eq=False)
class Py123dLog:
    """The files of one log, opened.

    Attributes:
        folder: Folder of the log.
        name: The same, relative to the source, for errors.
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
        """Return the rows of ``sync.arrow`` that become frames: those with an AV, and boxes where these are rare.

        Raises:
            SourceDataError: There is none.
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
        """Return the AV in some frames; positions are on the ground below the middle of its box.

        Raises:
            SourceDataError: The file is missing or damaged.
        """
        with naming_source(f"{self.name}/{EGO}.arrow"):
            opened = open_arrow(self.folder / f"{EGO}.arrow", EGO)
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

            # From the pose of the IMU to the middle of the box, and from there down by half its height to the ground.
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
            known: Whether a class is one of the source; others become unknown.
            remarks: Where to tell what was made up.

        Raises:
            SourceDataError: The file is damaged, or has a track twice in a frame.
        """
        if not (self.folder / f"{BOXES}.arrow").exists():
            remarks.append("There are no boxes: nobody but the AV is seen.")
            return SourceTracks.none(len(frames))
        with naming_source(f"{self.name}/{BOXES}.arrow"):
            opened = open_arrow(self.folder / f"{BOXES}.arrow", BOXES)
            return _tracks_of(opened, self._rows_of(BOXES)[frames], times_ns, known, remarks)

    def lights(self, frames: Int64Array) -> SourceLights:
        """Return the lights of lanes in some frames; each stands at the end of its lane.

        Raises:
            SourceDataError: The file is damaged.
        """
        if not (self.folder / f"{LIGHTS}.arrow").exists():
            return SourceLights.none(len(frames))
        with naming_source(f"{self.name}/{LIGHTS}.arrow"):
            opened = open_arrow(self.folder / f"{LIGHTS}.arrow", LIGHTS)
            rows = self._rows_of(LIGHTS)[frames]
            starts, lanes = opened.lists("lane_id")
            status_starts, statuses = opened.lists("status")
            if not np.array_equal(status_starts, starts):
                raise ValueError("lists of status have other lengths than those of lane_id")
            lists = _Lists.of(starts, rows)
            lane_ids, light_rows = np.unique(numeric_values(lanes, "lane_id")[lists.indices], return_inverse=True)

            # Numbers behind the last status are unknown.
            shown: NumericArray = np.array([*_STATES, LightState.UNKNOWN], np.uint8)
            status = np.clip(numeric_values(statuses, "status")[lists.indices].astype(np.int64), 0, len(_STATES))
            states = np.full((len(lane_ids), len(rows)), LightState.ABSENT, np.uint8)
            states[light_rows, lists.steps] = shown[status]
            return SourceLights(tuple(map(str, lane_ids.tolist())), states, np.full((len(lane_ids), 3), np.nan))

    def _rows_of(self, modality: str) -> Int64Array:
        """Return the row of each frame in the file of a modality, -1 where it has none, (N,)."""
        if modality not in self.sync.table.column_names:
            return np.full(self.sync.table.num_rows, -1)
        column = self.sync.column(modality)
        if not pa.types.is_integer(column.type):
            raise TypeError(f"column {modality} must hold rows, got {column.type}")
        rows: Int64Array = column.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return rows


@dataclass(frozen=True, eq=False)
class _Lists:
    """Lists of some frames: the step of each value, and its place among all values of the file, (M,)."""

    steps: Int64Array
    indices: Int64Array

    @classmethod
    def of(cls, starts: Int64Array, rows: Int64Array) -> "_Lists":
        """Return those of rows of a file, -1 where a frame has none."""
        if rows.max(initial=-1) >= len(starts) - 1:
            raise ValueError(f"it has {len(starts) - 1} rows, but {SYNC}.arrow names row {rows.max()}")
        # Values of a list follow each other: its start, and how many values of the same list came before each.
        counts = np.where(rows >= 0, np.diff(starts)[rows], 0) if len(starts) > 1 else np.zeros(len(rows), np.int64)
        steps = np.repeat(np.arange(len(rows)), counts)
        ends = np.cumsum(counts)
        indices = np.arange(len(steps)) - np.repeat(ends - counts, counts) + np.repeat(starts[rows], counts)
        return cls(steps, indices)


def _tracks_of(
    opened: ArrowFile, rows: Int64Array, times_ns: Int64Array, known: Callable[[str], bool], remarks: list[str]
) -> SourceTracks:
    """Return the boxes in some rows of the file as tracks."""
    starts, boxes = opened.lists("bounding_box_se3")
    for name in ("track_token", "label"):
        if not np.array_equal(opened.lists(name)[0], starts):
            raise ValueError(f"lists of {name} have other lengths than those of bounding_box_se3")
    lists = _Lists.of(starts, rows)
    values = rows_of(boxes, "bounding_box_se3", 10)[lists.indices]

    # the number of the track of each box, and the ids of tracks in the order in which they come
    column = opened.lists("track_token")[1]
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) or column.null_count:
        raise TypeError(f"column track_token must hold text in all rows, got {column.type}")
    encoded = column.take(pa.array(lists.indices)).dictionary_encode()
    tracks, ids = encoded.indices.to_numpy().astype(np.int64), tuple(encoded.dictionary.to_pylist())
    shape = len(ids), len(times_ns)
    if not shape[0]:
        return SourceTracks.none(len(times_ns))
    require_few_states(*shape, called="frames")
    counts = np.bincount(tracks * shape[1] + lists.steps, minlength=shape[0] * shape[1]).reshape(shape)
    if counts.max() > 1:
        track, step = np.argwhere(counts > 1)[0].tolist()
        raise ValueError(f"track {ids[track]!r} has two boxes in frame {step}")
    require_unit(values[:, _ROTATION], "box")

    labels = numeric_values(opened.lists("label")[1], "label").astype(np.int64)
    # The class of a track is that of its first box: written last, it stays.
    firsts = np.zeros(len(ids), np.int64)
    firsts[tracks[::-1]] = lists.indices[::-1]
    classes = _classes_of(opened, labels, firsts, remarks)

    velocity_starts, velocities = opened.lists("velocity_3d")
    if not np.array_equal(velocity_starts, starts):
        raise ValueError("lists of velocity_3d have other lengths than those of bounding_box_se3")
    velocities_mps = None
    if velocities.null_count:
        remarks.append("Velocities are differences of places, as the log does not tell all.")
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
        boxes: Which boxes.
        remarks: Where to tell that labels are not known.
    """
    # Logs that l5kit has exported tell its own labels, of which other datasets have fewer.
    own = opened.own.get("labels")
    if isinstance(own, bytes) and len(own) == len(labels):
        own_labels = np.frombuffer(own, np.uint8)[boxes].tolist()
        return [PERCEPTION_LABELS[number] if number < len(PERCEPTION_LABELS) else UNKNOWN for number in own_labels]
    label_class = opened.metadata.text("box_detection_label_class", "")
    names = names_of_labels(label_class)
    if not names:
        remarks.append(f"Labels of {label_class[:100] or 'no class'} are not known; all boxes are unknown.")
    return [names[number] if number < len(names) else UNKNOWN for number in labels[boxes].tolist()]

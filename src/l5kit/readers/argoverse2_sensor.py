"""Argoverse 2 sensor logs: boxes with measured sizes at 10 Hz, poses of the AV and a map, in one folder per log."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from l5kit._types import Float64Array, Int64Array
from l5kit.errors import DatasetNotFoundError
from l5kit.readers.argoverse2_map import map_of, read_elements
from l5kit.readers.arrow_columns import codes_of, read_arrow_table, require_columns
from l5kit.readers.motion import forward_of, require_unit, rotations_of, rows_around
from l5kit.readers.reader import SceneRef, SourceDataError, SourceInfo, naming_source, require_source_folder
from l5kit.readers.source_bounds import as_times_ns, require_few_states, require_one_state
from l5kit.readers.source_scene import SourceEgo, SourceLights, SourceScene, SourceTracks, tracks_of_boxes

_BOXES, _POSES = "annotations.feather", "city_SE3_egovehicle.feather"
_MAP: Final = re.compile(r"log_map_archive_.*____(?P<city>[A-Z]+)_city_\d+\.json")
_ROTATION: Final = ("qw", "qx", "qy", "qz")
_PLACE: Final = ("tx_m", "ty_m", "tz_m")
_SIZE: Final = ("length_m", "width_m", "height_m")
_TIME: Final = "timestamp_ns"
_POSE_COLUMNS: Final = {
    _TIME: "whole numbers",
    **dict.fromkeys((*_ROTATION, *_PLACE), "numbers"),
}
_BOX_COLUMNS: Final = {
    **_POSE_COLUMNS,
    **dict.fromkeys(_SIZE, "numbers"),
    **dict.fromkeys(("track_uuid", "category"), "text"),
}
_SPLITS: Final = ("train", "val", "test")
_MOST_BYTES: Final = 1 << 30
_MOST_ROWS: Final = 5_000_000

_AV_SIZE_M: Final = (4.87, 1.85, 1.48)
_MIDDLE_AHEAD_M: Final = 1.339
"""Distance from the rear axle, where poses are, forward to the centre of the AV."""

_AXLE_HEIGHT_M: Final = 0.30
"""Height of poses above the ground."""

_LONGEST_BRACKET_NS: Final = 200_000_000
"""Maximum gap between two poses for interpolating a pose at the time of boxes."""

_CLASSES: Final = {
    "ANIMAL": "ANIMAL",
    "ARTICULATED_BUS": "BUS",
    "BICYCLE": "BICYCLE",
    "BICYCLIST": "CYCLIST",
    "BOLLARD": "UNKNOWN",
    "BOX_TRUCK": "TRUCK",
    "BUS": "BUS",
    "CONSTRUCTION_BARREL": "UNKNOWN",
    "CONSTRUCTION_CONE": "UNKNOWN",
    "DOG": "ANIMAL",
    "LARGE_VEHICLE": "OTHER_VEHICLE",
    "MESSAGE_BOARD_TRAILER": "UNKNOWN",
    "MOBILE_PEDESTRIAN_CROSSING_SIGN": "UNKNOWN",
    "MOBILE_PEDESTRIAN_SIGN": "UNKNOWN",
    "MOTORCYCLE": "MOTORCYCLE",
    "MOTORCYCLIST": "MOTORCYCLIST",
    "OFFICIAL_SIGNALER": "PEDESTRIAN",
    "PEDESTRIAN": "PEDESTRIAN",
    "RAILED_VEHICLE": "TRAM",
    "REGULAR_VEHICLE": "CAR",
    "SCHOOL_BUS": "BUS",
    "SIGN": "UNKNOWN",
    "STOP_SIGN": "UNKNOWN",
    "STROLLER": "PEDESTRIAN",
    "TRAFFIC_LIGHT_TRAILER": "UNKNOWN",
    "TRUCK": "TRUCK",
    "TRUCK_CAB": "TRUCK",
    "VEHICULAR_TRAILER": "OTHER_VEHICLE",
    "WHEELCHAIR": "PEDESTRIAN",
    "WHEELED_DEVICE": "UNKNOWN",
    "WHEELED_RIDER": "CYCLIST",
    "OTHER": "UNKNOWN",
}

_INFO: Final = SourceInfo(
    dataset="Argoverse 2 sensor",
    version="not told in its files",
    licence="CC BY-NC-SA 4.0: not for commercial use, shared alike, naming Argoverse 2 (Wilson et al., 2021)",
    step_time_s=0.1,
    label_mapping={name: f"PERCEPTION_LABEL_{label}" for name, label in _CLASSES.items()},
    missing=(
        "There are no traffic lights and speed limits; stop signs are boxes, and control no lane.",
        "Logs of the test set have no boxes and are not read.",
        "Images, point clouds and ground heights are not read.",
    ),
    made_up=(
        "The size of the AV is 4.87 x 1.85 x 1.48 m, its middle 1.339 m ahead of the rear axle, where its poses are, "
        "and the ground 0.3 m below them.",
        "Velocities are differences of positions.",
        "Poses are interpolated where none has the time of the boxes.",
        "Centre lines of lanes: the middle of the boundaries.",
        "Lane changes are allowed to neighbours in the same direction unless the marking is solid.",
    ),
)


class Argoverse2SensorReader:
    """Reader of the sensor logs of Argoverse 2; a :class:`~l5kit.readers.reader.Reader`.

    Args:
        source: A folder of logs, with or without folders ``train``, ``val`` and ``test``; or the folder of one log.

    Attributes:
        source: The folder.
        info: Facts that hold for all scenes.
    """

    info = _INFO

    def __init__(self, source: str | os.PathLike[str]) -> None:
        self.source = Path(source)

    def list_scenes(self) -> list[SceneRef]:
        """Return the locations of the logs, sorted, without opening their files.

        Raises:
            DatasetNotFoundError: The folder does not exist, or has no logs.
        """
        require_source_folder(self.source, called="logs")
        # The source is the folder of one log, of logs, or of splits.
        folders = sorted(
            {path.parent for pattern in ("", "*/", "*/*/") for path in self.source.glob(f"{pattern}{_POSES}")}
        )
        if not folders:
            raise DatasetNotFoundError(
                f"no sensor logs of Argoverse 2 in {str(self.source)!r}: there is no {_POSES} in it or in its folders"
            )
        refs = []
        for folder in folders:
            log = folder.relative_to(self.source).as_posix()
            name = folder.absolute().name
            split = next((each for each in (log.partition("/")[0], self.source.name) if each in _SPLITS), "sample")
            maps = sorted(path.relative_to(folder).as_posix() for path in folder.glob("map/log_map_archive_*.json"))
            files = [f"{log}/{file}".removeprefix("./") for file in (_BOXES, _POSES, *maps)]
            refs.append(SceneRef(split, name, files[0], others=tuple(files[1:])))
        return sorted(refs)

    def read(self, ref: SceneRef) -> SourceScene:
        """Return a log with its map.

        Raises:
            SourceDataError: A file is damaged, missing, or holds impossible values.
        """
        poses_file, *map_files = ref.others
        remarks: list[str] = []
        with naming_source(ref.file):
            boxes = _read_columns(self.source / ref.file, _BOX_COLUMNS)
            row_times_ns = as_times_ns(_TIME, boxes.column(_TIME).to_numpy(), ns_per_unit=1.0)
            times_ns, steps = np.unique(row_times_ns, return_inverse=True)
        with naming_source(poses_file):
            poses = _read_columns(self.source / poses_file, _POSE_COLUMNS)
            positions_m, rotations = _poses_at(poses, times_ns, remarks)
        with naming_source(ref.file):
            tracks = _tracks_of(boxes, steps, times_ns, positions_m, rotations, remarks)
        if len(map_files) != 1:
            folder = ref.file.removesuffix(_BOXES)
            raise SourceDataError(
                f"{folder}map",
                "",
                f"there must be one log_map_archive_LOG____CITY_city_N.json, found {len(map_files)}",
            )
        match = _MAP.fullmatch(Path(map_files[0]).name)
        city = match["city"] if match else ref.name  # names the frame of the map
        source_map = map_of(map_files[0], read_elements(self.source, map_files[0]), city, remarks)
        with naming_source(ref.file):
            offset_m = np.array([_MIDDLE_AHEAD_M, 0.0, -_AXLE_HEIGHT_M])
            return SourceScene(
                name=ref.name,
                timestamps_ns=times_ns,
                ego=SourceEgo(
                    positions_m + rotations @ offset_m,
                    np.arctan2(rotations[:, 1, 0], rotations[:, 0, 0]),
                    np.array(_AV_SIZE_M),
                    rotations,
                ),
                tracks=tracks,
                lights=SourceLights.none(len(times_ns)),
                map=source_map,
                remarks=tuple(remarks),
            )


def _read_columns(path: Path, kinds: Mapping[str, str]) -> pa.Table:
    """Return a feather file after checking the types of its columns.

    Raises:
        TypeError: A column has another type.
        ValueError: The file is missing, damaged or too large, or lacks a column or values in it.
    """
    missing = "there is no such file; logs of the test set have no annotations and are not read"
    table = read_arrow_table(path, called="feather file", read_as="feather", most_bytes=_MOST_BYTES, missing=missing)
    if not 0 < table.num_rows <= _MOST_ROWS:
        raise ValueError(f"it has {table.num_rows} rows, must have some, and {_MOST_ROWS} at most")
    require_columns(table, kinds)
    return table


def _rows_of(table: pa.Table, names: tuple[str, ...]) -> Float64Array:
    """Return some numeric columns side by side, (N, K)."""
    return np.stack([table.column(name).to_numpy() for name in names], axis=1).astype(np.float64)


def _poses_at(poses: pa.Table, times_ns: Int64Array, remarks: list[str]) -> tuple[Float64Array, Float64Array]:
    """Return positions (T, 3) and rotations (T, 3, 3) of the AV at given times, interpolated where needed.

    Raises:
        ValueError: Poses are too far from a time, or have invalid rotations.
    """
    # each time must lie between two poses or on one; there is no extrapolation
    known_ns, order = np.unique(poses.column(_TIME).to_numpy().astype(np.int64), return_index=True)
    before, after = rows_around(known_ns, times_ns)
    is_far = (known_ns[after] < times_ns) | (known_ns[before] > times_ns)
    is_far |= known_ns[after] - known_ns[before] > _LONGEST_BRACKET_NS
    if is_far.any():
        raise ValueError(f"there is no pose of the AV at {times_ns[int(np.argmax(is_far))]} ns, where boxes are")
    if between := int(np.count_nonzero(before != after)):
        remarks.append(f"Poses of {between} steps are interpolated, as none has their time.")

    # Positions and quaternions are interpolated linearly. A quaternion and its negative are the same rotation, so the
    # second one is flipped to the side of the first to take the shorter turn. Its norm does not matter, as the matrix
    # is normalized.
    parts = ((times_ns - known_ns[before]) / np.maximum(known_ns[after] - known_ns[before], 1))[:, None]
    positions_m, turns = _rows_of(poses, _PLACE)[order], _rows_of(poses, _ROTATION)[order]
    require_unit(turns, "row")
    second = turns[after] * np.where((turns[before] * turns[after]).sum(axis=1) < 0, -1.0, 1.0)[:, None]
    return (
        positions_m[before] + parts * (positions_m[after] - positions_m[before]),
        rotations_of(turns[before] + parts * (second - turns[before])),
    )


def _tracks_of(
    boxes: pa.Table,
    steps: Int64Array,
    times_ns: Int64Array,
    av_positions_m: Float64Array,
    rotations: Float64Array,
    remarks: list[str],
) -> SourceTracks:
    """Return the tracks of the boxes, transformed from the frame of the AV to that of the city.

    Raises:
        ValueError: A track has two boxes in a step, or the rotation of a box is invalid.
    """
    tracks, ids = codes_of(boxes.column("track_uuid"))
    require_few_states(len(ids), len(times_ns))
    require_one_state(
        ids, tracks, steps, len(times_ns), problem_of=lambda step: f"has two boxes at {times_ns[step]} ns"
    )

    # boxes are in the frame of the AV; its pose transforms them to the city
    turns = _rows_of(boxes, _ROTATION)
    require_unit(turns, "box")
    in_city_m = av_positions_m[steps] + np.einsum("nij,nj->ni", rotations[steps], _rows_of(boxes, _PLACE))
    forward = np.einsum("nij,nj->ni", rotations[steps], forward_of(turns))
    codes, names = codes_of(boxes.column("category"))
    if unknown := sorted({*names} - {*_CLASSES}):
        remarks.append(f"Boxes of the unknown categories {', '.join(unknown)[:200]} are OTHER.")
    # the class of a track is that of its first row
    classes = [names[code] for code in codes[np.unique(tracks, return_index=True)[1]]]
    return tracks_of_boxes(
        ids,
        [name if name in _CLASSES else "OTHER" for name in classes],
        (tracks, steps),
        times_ns,
        positions_m=in_city_m[:, :2],
        yaws_rad=np.arctan2(forward[:, 1], forward[:, 0]),
        sizes_m=_rows_of(boxes, _SIZE),
    )

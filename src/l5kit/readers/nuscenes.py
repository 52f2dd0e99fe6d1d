"""Reader of nuScenes: key frames from the JSON tables, with the map expansion of their city."""

import os
import re
from functools import cached_property
from pathlib import Path

import numpy as np

from l5kit._types import Int64Array, PickledState
from l5kit.errors import DatasetNotFoundError
from l5kit.readers.motion import forward_of, require_unit, yaws_of
from l5kit.readers.nuscenes_cache import index_of
from l5kit.readers.nuscenes_index import NuscenesIndex
from l5kit.readers.nuscenes_map import read_city_map
from l5kit.readers.nuscenes_tables import TABLES, file_name
from l5kit.readers.reader import SceneRef, SourceDataError, SourceInfo, naming_source
from l5kit.readers.source_map import CityMap
from l5kit.readers.source_scene import SourceEgo, SourceLights, SourceScene, SourceTracks, tracks_of_boxes

MAP_REACH_M = 200.0
"""Maximum distance of map elements from the path of the AV to be included in a scene, metres."""

EGO_SIZE_M = (4.084, 1.730, 1.562)
"""Length, width and height of a Renault Zoe, the car of nuScenes, metres."""

EGO_MIDDLE_AHEAD_M = 1.385
"""Distance from the middle of the rear axle, where poses of nuScenes are, forward to the centre of the car, metres."""

WITH_RIDER = " with rider"
"""Suffix of the class of a bicycle or motorcycle that has a rider in at least one of its boxes."""

_CYCLES = ("vehicle.bicycle", "vehicle.motorcycle")

LABEL_MAPPING = {
    "animal": "PERCEPTION_LABEL_ANIMAL",
    "human.pedestrian.adult": "PERCEPTION_LABEL_PEDESTRIAN",
    "human.pedestrian.child": "PERCEPTION_LABEL_PEDESTRIAN",
    "human.pedestrian.construction_worker": "PERCEPTION_LABEL_PEDESTRIAN",
    "human.pedestrian.personal_mobility": "PERCEPTION_LABEL_PEDESTRIAN",
    "human.pedestrian.police_officer": "PERCEPTION_LABEL_PEDESTRIAN",
    "human.pedestrian.stroller": "PERCEPTION_LABEL_PEDESTRIAN",
    "human.pedestrian.wheelchair": "PERCEPTION_LABEL_PEDESTRIAN",
    "movable_object.barrier": "PERCEPTION_LABEL_UNKNOWN",
    "movable_object.debris": "PERCEPTION_LABEL_UNKNOWN",
    "movable_object.pushable_pullable": "PERCEPTION_LABEL_UNKNOWN",
    "movable_object.trafficcone": "PERCEPTION_LABEL_UNKNOWN",
    "static_object.bicycle_rack": "PERCEPTION_LABEL_UNKNOWN",
    "vehicle.bicycle": "PERCEPTION_LABEL_BICYCLE",
    "vehicle.bicycle with rider": "PERCEPTION_LABEL_CYCLIST",
    "vehicle.bus.bendy": "PERCEPTION_LABEL_BUS",
    "vehicle.bus.rigid": "PERCEPTION_LABEL_BUS",
    "vehicle.car": "PERCEPTION_LABEL_CAR",
    "vehicle.construction": "PERCEPTION_LABEL_OTHER_VEHICLE",
    "vehicle.emergency.ambulance": "PERCEPTION_LABEL_EMERGENCY_VEHICLE",
    "vehicle.emergency.police": "PERCEPTION_LABEL_EMERGENCY_VEHICLE",
    "vehicle.motorcycle": "PERCEPTION_LABEL_MOTORCYCLE",
    "vehicle.motorcycle with rider": "PERCEPTION_LABEL_MOTORCYCLIST",
    "vehicle.trailer": "PERCEPTION_LABEL_OTHER_VEHICLE",
    "vehicle.truck": "PERCEPTION_LABEL_TRUCK",
}
"""Label of each of the 23 classes of nuScenes, and of cycles with a rider."""

_LICENCE = (
    "nuScenes (Motional AD, https://www.nuscenes.org): CC BY-NC-SA 4.0 with the terms of use of nuScenes, which allow "
    "no commercial use without a licence of its own; name Caesar et al., nuScenes, CVPR 2020"
)
_MAPS = "maps/expansion"
_CITY = re.compile(r"\w[\w.-]*")
_VERSION = re.compile(r"v1\.0-\w+")

_VALIDATION = (
    *((3, 3), (12, 18), (35, 36), (38, 39), (92, 110), (221, 221), (268, 278), (329, 332), (344, 346), (519, 524)),
    *((552, 565), (625, 627), (629, 630), (632, 638), (770, 771), (775, 775), (777, 778), (780, 784), (794, 800)),
    *((802, 802), (904, 917), (919, 931), (962, 963), (966, 969), (971, 972), (1059, 1073)),
)
"""First and last number of each run of the 150 validation scenes of ``v1.0-trainval``."""

_VALIDATION_OF_MINI = ((103, 103), (916, 916))


class NuscenesReader:
    """Reader of the key frames (2 Hz) of one version of nuScenes; a :class:`~l5kit.readers.reader.Reader`.

    Args:
        source: Folder of a version, such as ``nuscenes/v1.0-mini`` with the maps next to it in ``nuscenes/maps``; or
            its parent folder, if that has only one version.

    Raises:
        DatasetNotFoundError: There are no tables, or those of several versions.
    """

    def __init__(self, source: str | os.PathLike[str]) -> None:
        path = Path(source)
        is_version = path.is_dir() and ((path / "scene.json").is_file() or _VERSION.fullmatch(path.name))
        folders = [path] if is_version else sorted(file.parent for file in path.glob("*/scene.json"))
        if len(folders) > 1:
            names = ", ".join(folder.name for folder in folders)
            raise DatasetNotFoundError(
                f"{str(path)!r} holds several versions ({names}); name one, such as {folders[0]}"
            )
        if not folders:
            got = "this is a file" if path.is_file() else "there is no folder v1.0-... with scene.json"
            raise DatasetNotFoundError(f"no nuScenes at {str(path)!r}: {got}; check the spelling of the path")
        self._folder = folders[0].absolute()
        self._cities: dict[str, CityMap] = {}

    def __getstate__(self) -> PickledState:
        """Return the location of the tables only; another process reads them again."""
        return {"_folder": self._folder, "_cities": {}}

    @property
    def source(self) -> Path:
        """Parent folder of the tables; file names in errors are relative to it."""
        return self._folder.parent

    @property
    def info(self) -> SourceInfo:
        """Facts that hold for all scenes.

        Raises:
            SourceDataError: The version of the folder is unknown.
        """
        self._require_version()
        return SourceInfo(
            dataset="nuScenes",
            version=self._folder.name,
            licence=_LICENCE,
            step_time_s=0.5,
            label_mapping=LABEL_MAPPING,
            missing=(
                "Frames between the key frames: steps are 0.5 s; l5kit resample makes 10 Hz of them.",
                "Lights: the map has traffic lights, but their states are not recorded.",
                "Speed limits.",
                "Neighbours of lanes.",
                "Heights of the map: all are 0.",
                "Boundaries of lane connectors.",
            ),
            made_up=(
                f"The size of the AV is that of a Renault Zoe, {' x '.join(f'{size:g}' for size in EGO_SIZE_M)} m; the "
                f"middle of its box is {EGO_MIDDLE_AHEAD_M:g} m ahead of the rear axle, where the poses are.",
                "Velocities are differences between neighbouring key frames.",
                "A stop sign is in the middle of its stop line, and controls the lanes that end there.",
                "A bicycle or motorcycle with a rider in one of its boxes is a cyclist in all of them.",
            ),
        )

    def list_scenes(self) -> list[SceneRef]:
        """Return the locations of the scenes, ordered by name; the first call reads all tables.

        Raises:
            SourceDataError: The version is unknown, or a table is missing or damaged.
        """
        self._require_version()
        file, index = file_name(self._folder, "scene"), self._index
        tables = tuple(file_name(self._folder, name) for name in TABLES if name != "scene")
        version, refs = self._folder.name.removeprefix("v1.0-"), []
        for row, (name, city) in enumerate(
            zip(index.scene_names.tolist(), index.scene_locations.tolist(), strict=True)
        ):
            # the official splits, by scene number; sample for unknown scenes
            digits = name.removeprefix("scene-")
            split = "test" if version == "test" else "sample"
            if version in ("mini", "trainval") and name.startswith("scene-") and digits.isdecimal():
                number = int(digits)
                runs = _VALIDATION if version == "trainval" else _VALIDATION_OF_MINI
                split = "val" if any(first <= number <= last for first, last in runs) else "train"
            refs.append(SceneRef(split, name, file, name, (row,), (*tables, f"{_MAPS}/{city}.json")))
        return refs

    def read(self, ref: SceneRef) -> SourceScene:
        """Return a scene with the piece of its city's map around it.

        Args:
            ref: One of :meth:`list_scenes`.

        Raises:
            SourceDataError: A record of the scene or the map is invalid; the message names file and record.
        """
        index, scene = self._index, ref.key[0]
        if index.problems[scene, 2]:
            raise SourceDataError(*index.problems[scene].tolist())
        samples = slice(*index.sample_starts[scene : scene + 2].tolist())
        times_ns = index.timestamps_us[samples] * 1000
        with naming_source(file_name(self._folder, "ego_pose"), ref.name):
            # poses are at the rear axle, the AV's position is its centre
            rotations = index.ego_rotations[samples]
            require_unit(rotations, "step")
            positions_m = index.ego_positions_m[samples] + EGO_MIDDLE_AHEAD_M * forward_of(rotations)
            positions_m[:, 2] = index.ego_positions_m[samples, 2]  # ground height at the rear axle
            ego = SourceEgo(positions_m, yaws_of(rotations), np.array(EGO_SIZE_M))
        boxes_file = file_name(self._folder, "sample_annotation")
        with naming_source(boxes_file, ref.name):
            tracks = _tracks_of(index, samples, times_ns, boxes_file)

        # Remarks on inconsistent tables: instances whose number of boxes differs from their records, and, with the
        # first scene, boxes without any scene.
        lacking, file = np.flatnonzero(index.instance_lacks), file_name(self._folder, "instance")
        lacks = dict(zip(index.instance_tokens[lacking].tolist(), index.instance_lacks[lacking].tolist(), strict=True))
        remarks = [
            f"{file} (instance {name!r}): nbr_annotations differs by {lacks[name]} from the boxes in the table."
            for name in tracks.ids
            if name in lacks
        ]
        lost = index.lost_boxes.tolist() if scene == 0 else []
        remarks += [f"{boxes_file} (record {row}): is of no key frame and no instance that is known." for row in lost]
        with naming_source(ref.file, ref.record):
            city = str(index.scene_locations[scene])
            if not _CITY.fullmatch(city):  # it becomes a file name and must not contain a path
                problem = f"location must be the name of a city, such as boston-seaport, got {city!r}"
                raise SourceDataError(file_name(self._folder, "log"), "", problem)
            if city not in self._cities:
                self._cities[city] = read_city_map(self._folder.parent / _MAPS / f"{city}.json", city)
            piece, left_out = self._cities[city].near(ego.positions_m[:, :2], MAP_REACH_M)
            return SourceScene(
                name=ref.name,
                timestamps_ns=times_ns,
                ego=ego,
                tracks=tracks,
                lights=SourceLights.none(len(times_ns)),
                map=piece,
                remarks=(*left_out, *remarks),
            )

    @cached_property
    def _index(self) -> NuscenesIndex:
        return index_of(self._folder)

    def _require_version(self) -> None:
        if not _VERSION.fullmatch(self._folder.name):
            raise SourceDataError(
                self._folder.name,
                "",
                "is no known version; the folder of the tables is named v1.0-mini, v1.0-trainval ...",
            )


def _tracks_of(index: NuscenesIndex, samples: slice, times_ns: Int64Array, file: str) -> SourceTracks:
    """Return the road users of a scene.

    Raises:
        SourceDataError: An instance has two boxes in a key frame, or an instance or its class is unknown.
    """
    # Boxes of the scene and the step of each. Within a step they are sorted by instance, so duplicates are adjacent.
    starts = index.box_starts[samples.start : samples.stop + 1]
    rows = np.arange(starts[0], starts[-1])
    steps = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    of_boxes = np.asarray(index.box_instances[rows])
    if (of_boxes < 0).any():
        record = index.box_records[rows[np.argmax(of_boxes < 0)]]
        raise SourceDataError(file, f"record {record}", "its instance_token is not in instance.json")
    is_again = np.zeros(len(rows), bool)
    is_again[1:] = (np.diff(of_boxes) == 0) & (np.diff(steps) == 0)
    if is_again.any():
        row = int(np.argmax(is_again))
        token = index.sample_tokens[samples.start + steps[row]]
        problem = f"instance {str(index.instance_tokens[of_boxes[row]])!r} has two boxes in sample {str(token)!r}"
        raise SourceDataError(file, f"record {index.box_records[rows[row]]}", problem)
    instances, tracks = np.unique(of_boxes, return_inverse=True)
    if not len(instances):
        return SourceTracks.none(len(times_ns))

    # a cycle counts as ridden in all of its boxes if it is ridden in one of them
    rotations = index.box_rotations[rows]
    require_unit(rotations, "box")
    has_rider = np.zeros(len(instances), bool)
    np.logical_or.at(has_rider, tracks, index.box_has_rider[rows])
    classes = []
    for instance, is_ridden in zip(instances.tolist(), has_rider.tolist(), strict=True):
        category = index.instance_categories[instance]
        name = str(index.categories[category]) if category >= 0 else ""
        if name not in LABEL_MAPPING:
            what = f"category {name!r} is not known" if name else "category_token is not in category.json"
            token = str(index.instance_tokens[instance])
            raise SourceDataError(file.replace("sample_annotation", "instance"), f"instance {token!r}", f"its {what}")
        classes.append(name + WITH_RIDER if is_ridden and name in _CYCLES else name)
    return tracks_of_boxes(
        index.instance_tokens[instances].tolist(),
        classes,
        (tracks, steps),
        times_ns,
        positions_m=index.box_positions_m[rows, :2],
        yaws_rad=yaws_of(rotations),
        sizes_m=index.box_sizes_m[rows][:, [1, 0, 2]],  # nuScenes has the width first
    )

"""Reader of py123d: logs and maps in its Arrow files, converted from nuPlan, nuScenes, Waymo, KITTI-360 and others."""

import os
import re
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from l5kit._types import Float64Array, PickledState
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.errors import DatasetNotFoundError
from l5kit.readers.py123d_arrow import open_arrow, unpack
from l5kit.readers.py123d_log import BOXES, EGO, LABEL_MAPPING, LIGHTS, SYNC, UNKNOWN, Py123dLog
from l5kit.readers.reader import SceneRef, SourceDataError, SourceInfo, licence_of, naming_source, require_source_folder
from l5kit.readers.source_bounds import is_text
from l5kit.readers.source_fields import SourceFields
from l5kit.readers.source_map import CityMap, SourceArea, SourceLane, SourceMap, SourceSign, is_line, open_outline
from l5kit.readers.source_scene import SourceScene

MAP_REACH_M: Final = 300.0
"""Maximum distance of map elements from the path of the AV to be included in a scene, metres."""

_LOGS, _MAPS, _MAP = "logs", "maps", "map.arrow"
_NOT_IN_NAMES: Final = re.compile(r"[^\w-]")
_MOST_MAPS: Final = 4
_MOST_LOOKED_AT: Final = 10

_LANE, _LANE_GROUP, _INTERSECTION, _STOP_ZONE = 0, 1, 2, 7
_KIND_OF_LAYER: Final = {
    _INTERSECTION: "drivable_area",
    3: "crosswalk",
    4: "walkway",
    5: "carpark",
    6: "drivable_area",
    10: "speed_bump",
}
_LINES: Final = (8, 9)
"""Road edges and road lines, which logs cannot represent."""

_KIND_OF_LANE: Final = {3: "bike", 4: "bus"}
_STOP_SIGN: Final = 2


class Py123dReader:
    """Reader of the logs of a py123d data root; a :class:`~l5kit.readers.reader.Reader`.

    Args:
        source: The data root, with the folder ``logs`` and, for most datasets, ``maps``.

    Attributes:
        source: The data root.
    """

    def __init__(self, source: str | os.PathLike[str]) -> None:
        self.source = Path(source)
        self._maps: dict[str, CityMap] = {}

    def __getstate__(self) -> PickledState:
        """Return the state without maps, which another process reads again."""
        return vars(self) | {"_maps": {}}

    @cached_property
    def info(self) -> SourceInfo:
        """Facts that hold for all logs, from the first ten of each split.

        Raises:
            DatasetNotFoundError: There are no logs.
        """
        datasets: set[str] = set()
        versions: set[str] = set()
        classes = {UNKNOWN}
        licences: dict[str, None] = {}
        steps_s: Counter[float] = Counter()
        for folders in self._folders.values():
            for name in folders[:_MOST_LOOKED_AT]:
                try:
                    log = Py123dLog.open(self.source / name, name)
                    times_ns = log.times_ns(log.frames())
                    label_classes = log.label_classes()
                except SourceDataError:  # reported by read
                    continue
                metadata = log.sync.metadata.values
                datasets.add(dataset if is_text(dataset := metadata.get("dataset")) else "unknown")
                versions.add(version if is_text(version := metadata.get("version")) else "unknown")
                classes |= label_classes
                sources = log.sync.own.get("sources")  # written by l5kit
                for source in sources if isinstance(sources, list) else ():
                    if isinstance(source, dict) and isinstance(source.get("licence"), str):
                        licences[source["licence"]] = None
                if len(times_ns) > 1:  # median time between two frames, rounded to milliseconds
                    steps_s[round(float(np.median(np.diff(times_ns))) / 1e9, 3)] += 1
        step_time_s = min(steps_s, key=lambda step_s: (-steps_s[step_s], step_s), default=0.1)
        names = sorted(datasets) or ["unknown"]
        licences = licences or dict.fromkeys(licence_of(name) for name in names)
        return SourceInfo(
            dataset=f"py123d ({', '.join(names)})",
            version=", ".join(sorted(versions)) or "not told",
            licence="; ".join(licences),
            step_time_s=step_time_s,
            label_mapping={name: label for name, label in _MAPPING.items() if name in classes},
            missing=(
                "What the original dataset lacks: remarks name scenes without speed limits, lights, boxes or a map.",
                "Road lines and road edges, except as boundaries of lanes.",
            ),
            made_up=(
                "The ground below the AV: half its height below the centre of its box.",
                "Frames without boxes are dropped if fewer than 90 % have boxes, as for annotated key frames.",
                "Lights are at the end of their lane, and control its entry if it is in an intersection.",
                "Junctions: lanes whose group is in an intersection; if a map has none, lanes that diverge, merge or "
                "cross another.",
                "Stop signs in the middle of their stop zones.",
                "Velocities where the log has none: differences of positions.",
            ),
        )

    def list_scenes(self) -> list[SceneRef]:
        """Return the locations of the logs, by split and name.

        Raises:
            DatasetNotFoundError: There are no logs.
        """
        self.info  # noqa: B018 - workers need it, and must not open logs for it again
        refs = []
        for split, folders in self._folders.items():
            for name in folders:
                others = [f"{name}/{each}.arrow" for each in (EGO, BOXES, LIGHTS)]
                try:
                    map_file = self._map_file_of(name, Py123dLog.open(self.source / name, name).sync.metadata)
                except SourceDataError:  # reported by read
                    map_file = None
                refs.append(
                    SceneRef(
                        _NOT_IN_NAMES.sub("-", split),
                        name.removeprefix(f"{_LOGS}/"),
                        f"{name}/{SYNC}.arrow",
                        others=tuple([*others, map_file] if map_file else others),
                    )
                )
        return sorted(refs)

    def read(self, ref: SceneRef) -> SourceScene:
        """Return a log with the piece of its map around it.

        Raises:
            SourceDataError: A file is missing, damaged, or holds impossible values.
        """
        name = ref.file.removesuffix(f"/{SYNC}.arrow")
        log = Py123dLog.open(self.source / name, name)
        frames = log.frames()
        times_ns = log.times_ns(frames)
        remarks: list[str] = []
        ego = log.ego(frames)
        tracks = log.tracks(frames, times_ns, self.info.label_mapping.__contains__, remarks)
        lights = log.lights(frames)
        source_map = self._map_of(log, ego.positions_m, remarks)
        if not lights.lane_ids:
            remarks.append("There are no traffic lights.")
        with naming_source(ref.file):
            return SourceScene(
                name=ref.name,
                timestamps_ns=times_ns,
                ego=ego,
                tracks=tracks,
                lights=lights,
                map=source_map,
                remarks=tuple(remarks),
            )

    @cached_property
    def _folders(self) -> dict[str, list[str]]:
        """Folders of the logs of each split, relative to the data root, sorted."""
        require_source_folder(self.source, called="data root of py123d")
        folders: dict[str, list[str]] = {}
        for path in sorted(self.source.glob(f"{_LOGS}/*/*/{SYNC}.arrow")):
            folder = path.parent
            folders.setdefault(folder.parent.name, []).append(folder.relative_to(self.source).as_posix())
        if not folders:
            raise DatasetNotFoundError(
                f"no logs of py123d in {str(self.source)!r}: there is no {_LOGS}/SPLIT/LOG/{SYNC}.arrow in it; give "
                f"the data root, the folder with {_LOGS} and {_MAPS}"
            )
        return folders

    def _map_file_of(self, name: str, metadata: SourceFields) -> str | None:
        """Return the map of a log, relative to the data root; None if it has none or does not name it."""
        if (self.source / name / _MAP).exists():
            return f"{name}/{_MAP}"
        dataset, location = metadata.values.get("dataset"), metadata.values.get("location")
        if not (is_text(dataset) and is_text(location)) or re.search(r"[/\\]|\.\.", f"{dataset}{location}"):
            return None
        return f"{_MAPS}/{dataset}/{dataset}_{location}.arrow"

    def _map_of(self, log: Py123dLog, positions_m: Float64Array, remarks: list[str]) -> SourceMap:
        """Return the piece of the map around the AV, without lanes if the log has no map."""
        name = log.name
        file = self._map_file_of(name, log.sync.metadata)
        if file is not None and not (self.source / file).exists() and log.sync.metadata.has("map_metadata"):
            raise SourceDataError(file, "", "there is no such file, the map of the log; copy it as well")
        if file is None or not (self.source / file).exists():
            remarks.append("There is no map.")
            return SourceMap(name.removeprefix(f"{_LOGS}/"))
        if file not in self._maps:
            while len(self._maps) >= _MOST_MAPS:
                del self._maps[next(iter(self._maps))]
            is_of_log = file.endswith(f"/{_MAP}")
            called = name.removeprefix(f"{_LOGS}/") if is_of_log else Path(file).stem
            self._maps[file] = _read_map(self.source / file, file=file, name=called)
        whole = self._maps[file]
        if not np.isfinite(positions_m).all():
            return whole.whole
        piece, left_out = whole.near(positions_m[:, :2], MAP_REACH_M)
        remarks += left_out
        if not any(lane.speed_limit_mps is not None for lane in piece.lanes):
            remarks.append("No lane has a speed limit.")
        return piece


_MAPPING: Final = {**LABEL_MAPPING, **{label: label for label in PERCEPTION_LABELS}}
"""Label of each class, including the labels of l5kit itself, which are in the logs that it exports."""


def _read_map(path: Path, *, file: str, name: str) -> CityMap:
    """Read a map.

    Args:
        path: The file.
        file: Name of the file in errors.
        name: Name for the map.

    Raises:
        SourceDataError: It cannot be read or holds impossible values; the message names the object.
    """
    with naming_source(file):
        opened = open_arrow(path)
        ids = opened.numeric("object_id")
        layers = opened.numeric("map_layer")
        features = opened.column("features")
        if len(set(zip(layers.tolist(), ids.tolist(), strict=True))) < len(ids):
            raise ValueError("two objects of a layer have one object_id")
    objects = []
    for row, (object_id, layer) in enumerate(zip(ids.tolist(), layers.tolist(), strict=True)):
        if layer not in _LINES:
            with naming_source(file, f"object {object_id} of layer {layer}"):
                objects.append((layer, str(object_id), unpack(features[row].as_py() or b"", "features")))
    # a lane is in an intersection if its group is; if no group is, intersections are unknown for all lanes
    intersections = {
        group: feature.values.get("intersection_id") for layer, group, feature in objects if layer == _LANE_GROUP
    }
    has_intersections = any(intersection is not None for intersection in intersections.values())
    lanes, areas, signs = [], [], []
    left_out: list[tuple[str, Float64Array]] = []
    for layer, object_id, feature in objects:
        with naming_source(file, f"object {object_id} of layer {layer}"):
            if layer == _LANE:
                group = str(feature.values.get("lane_group_id"))
                is_inside = intersections.get(group) is not None if has_intersections else None
                lane = _lane_of(object_id, feature, is_in_junction=is_inside)
                if lane is None:
                    text = f"Lane {object_id} of the map has no geometry and is left out."
                    left_out.append((text, np.full((2, 2), np.nan)))
                else:
                    lanes.append(lane)
            elif layer == _STOP_ZONE:
                if feature.values.get("stop_zone_type") == _STOP_SIGN:
                    position_m = feature.points("outline").mean(axis=0)
                    signs.append(SourceSign(object_id, position_m, feature.names("lane_ids")))
            elif layer in _KIND_OF_LAYER:
                # intersections and drivable areas become areas of the same kind, and may share ids
                area_id = object_id if layer != _INTERSECTION else f"intersection {object_id}"
                if (outline_m := open_outline(feature.points("outline"))) is not None:
                    areas.append(SourceArea(area_id, _KIND_OF_LAYER[layer], outline_m))
    with naming_source(file):
        return CityMap.of(SourceMap(name, tuple(lanes), tuple(areas), tuple(signs)), left_out)


def _lane_of(lane_id: str, feature: SourceFields, *, is_in_junction: bool | None) -> SourceLane | None:
    """Return a lane, or None if one of its lines is degenerate."""
    left_m, right_m = feature.points("left_boundary"), feature.points("right_boundary")
    centre_m = feature.points("centerline")
    if not all(map(is_line, (left_m, right_m, centre_m))):
        return None
    limit_mps, kind = feature.number("speed_limit_mps"), feature.values.get("lane_type")
    return SourceLane(
        lane_id=lane_id,
        centre_m=centre_m,
        left_m=left_m,
        right_m=right_m,
        successors=feature.names("successor_ids"),
        predecessors=feature.names("predecessor_ids"),
        left_neighbour=feature.name_or_none("left_lane_id"),
        right_neighbour=feature.name_or_none("right_lane_id"),
        speed_limit_mps=limit_mps if limit_mps is not None and limit_mps > 0 else None,
        kind=_KIND_OF_LANE.get(kind, "vehicle") if isinstance(kind, int) else "vehicle",
        is_in_junction=is_in_junction,
    )

"""Import of map formats as dataset folders: a semantic map and its georeference, without scenes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from l5kit import __version__
from l5kit._files import clear_leftovers, placed_when_complete, write_json
from l5kit._types import Float64Array, NumericArray
from l5kit.data.interop.exchanged_map import CROSSWALK, LIGHT, ExchangedMap, counted
from l5kit.data.jobs.owned_outputs import require_absent, require_own_folder
from l5kit.data.map.builder import MapBuilder
from l5kit.errors import InvalidArgumentError
from l5kit.readers.formats import MAP_FORMATS, SourceFormat
from l5kit.readers.import_files import IMPORT
from l5kit.readers.lane_groups import with_junctions
from l5kit.readers.lanelet2_map import read_lanelet2
from l5kit.readers.map_writing import WORLD_TO_ECEF, add_roads, turn_of
from l5kit.readers.opendrive_map import read_opendrive
from l5kit.readers.reader import naming_source
from l5kit.readers.source_map import SourceLane

_KIND_OF_ACCESS: Final = {"ONLY_BUS": "bus", "ONLY_BIKE": "bike"}


@dataclass(frozen=True)
class MapImport:
    """The outcome of a map import.

    Attributes:
        folder: The dataset folder.
        num_lanes: Number of lanes.
        num_lights: Number of traffic lights.
        num_crosswalks: Number of crosswalks.
        left_out: What was dropped or inferred, one sentence each.
    """

    folder: Path
    num_lanes: int
    num_lights: int
    num_crosswalks: int
    left_out: tuple[str, ...]


def import_map(
    map_format: SourceFormat | str,
    file: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    origin: tuple[float, float] | None = None,
    world_to_ecef: NumericArray | None = None,
    overwrite: bool = False,
) -> MapImport:
    """Write a dataset folder with the map of a file: ``semantic_map/semantic_map.pb`` and ``meta.json``.

    Args:
        map_format: Format of the file.
        file: The file.
        out: The folder to write; it appears when it is complete.
        origin: Latitude and longitude of x = y = 0 in degrees, for a file without local coordinates; None for the
            middle of the map.
        world_to_ecef: Transform from the world to ECEF, (4, 4), that replaces the one of the file, such as that of the
            dataset whose map was exported.
        overwrite: Replace a folder that an import has written.

    Raises:
        FileExistsError: ``out`` exists, and ``overwrite`` is False.
        InvalidArgumentError: ``out`` exists and is no import, or the format is not a map format.
        SourceDataError: The file cannot be read; the message names the element.
    """
    known, target = SourceFormat(map_format), Path(out).absolute()
    if known not in MAP_FORMATS:
        raise InvalidArgumentError(f"map_format must be one of {', '.join(MAP_FORMATS)}, got {known.value!r}")
    require_absent(target, overwrite=overwrite)
    require_own_folder(target, IMPORT, argument="out")
    exchanged = _READERS[known](file, origin=origin)
    matrix = WORLD_TO_ECEF if exchanged.world_to_ecef is None else exchanged.world_to_ecef
    if world_to_ecef is not None:
        matrix = np.array(world_to_ecef, np.float64)
    with naming_source(Path(file).name):
        builder, remarks = build_semantic_map(exchanged, world_to_ecef=matrix)
    left_out = (*exchanged.left_out, *remarks)
    about = {"l5kit_version": __version__, "dataset": exchanged.name, "format": known.value}
    clear_leftovers(target)
    with placed_when_complete(target, may_replace=overwrite) as folder:
        (folder / "semantic_map").mkdir(parents=True)
        builder.save(folder / "semantic_map" / "semantic_map.pb")
        write_json(folder / "meta.json", {"world_to_ecef": matrix.tolist()})
        write_json(folder / "import.json", about | {"scenes": {}, "map_remarks": list(left_out)})
    kinds = [control.kind for control in exchanged.controls.values()]
    return MapImport(target, len(exchanged.lanes), kinds.count(LIGHT), kinds.count(CROSSWALK), left_out)


def build_semantic_map(exchanged: ExchangedMap, *, world_to_ecef: Float64Array) -> tuple[MapBuilder, list[str]]:
    """Return a semantic map with lanes grouped into roads and junctions, and remarks on what was inferred.

    Args:
        exchanged: The map.
        world_to_ecef: Transform from the world to ECEF, (4, 4).

    Raises:
        InvalidArgumentError: An id is empty or used twice, or a line is degenerate.
    """
    builder = MapBuilder(world_to_ecef, name=exchanged.name)
    lanes, known = exchanged.lanes, exchanged.lanes.keys() | exchanged.controls.keys()
    followers = {name: [ahead for ahead in lane.ahead if ahead in lanes] for name, lane in lanes.items()}
    sources = {
        name: SourceLane(
            lane.lane_id,
            lane.centre_m,
            lane.left_m,
            lane.right_m,
            left_neighbour=lane.change_left if lane.change_left in lanes else None,
            right_neighbour=lane.change_right if lane.change_right in lanes else None,
            speed_limit_mps=lane.speed_limit_mps,
            kind=_KIND_OF_ACCESS.get(lane.access, "vehicle"),
            is_in_junction=lane.is_in_junction,
        )
        for name, lane in lanes.items()
    }
    if any(lane.is_in_junction is None for lane in lanes.values()):
        sources = with_junctions(sources, followers)

    def name_of(kind: str, first: str) -> str:
        if kind == "lane":
            return first
        name = f"{kind}/{first}"
        while name in known:  # avoid names of lanes and controls of the file
            name += "~"
        return name

    def add_lane(name: str, parent: str) -> None:
        lane, source = lanes[name], sources[name]
        builder.add_lane(
            lane.lane_id,
            lane.left_m,
            lane.right_m,
            lanes_ahead=followers[name],
            change_left=source.left_neighbour,
            change_right=source.right_neighbour,
            traffic_controls=lane.controls,
            yield_to_lanes=[other for other in lane.yields_to if other in lanes],
            parent=parent,
            turn_type=lane.turn or (turn_of(source) if source.is_in_junction else "THROUGH"),
            access=lane.access,
        )

    add_roads(builder, sources, followers, offset_m=np.zeros(3), name_of=name_of, add_lane=add_lane)
    for control in exchanged.controls.values():
        name, kind, points_m = control.control_id, control.kind, control.points_m
        if kind == CROSSWALK:
            builder.add_crosswalk(name, points_m, traffic_lights=control.parts)
        elif kind == LIGHT:
            builder.add_traffic_light(name, points_m[0], faces=control.parts)
        elif control.is_face:
            builder.add_traffic_light_face(name, kind, xyz=points_m[0] if len(points_m) else None)
        else:
            geometry = "POLYGON" if control.is_closed else None
            builder.add_traffic_control(name, kind, points_m, geometry_type=geometry)
    made_up = sum(sources[name].is_in_junction is True for name, lane in lanes.items() if lane.is_in_junction is None)
    return builder, counted(made_up, "lane", "assigned to junctions, as they diverge, merge or cross")


_READERS: Final = {SourceFormat.LANELET2: read_lanelet2, SourceFormat.OPENDRIVE: read_opendrive}

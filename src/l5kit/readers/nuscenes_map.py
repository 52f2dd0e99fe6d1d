"""Map expansion of nuScenes: lanes, crossings and areas of a city, from nodes, polygons and arc line paths."""

from collections.abc import Sequence, Sized
from pathlib import Path

import msgspec
import numpy as np

from l5kit._types import Float64Array
from l5kit.configs.texts import require_regular_file
from l5kit.errors import InvalidArgumentError, L5KitError
from l5kit.geometry.polygon import distance_to_polygon
from l5kit.readers.nuscenes_lanes import ArclinePath, discretize_lane, sides_of_lane
from l5kit.readers.reader import SourceDataError, naming_source
from l5kit.readers.source_map import (
    CityMap,
    SourceArea,
    SourceLane,
    SourceMap,
    SourceSign,
    bounds_of,
    open_outline,
    with_heights,
)

OLDEST_VERSION = (1, 3)
"""Oldest supported version; earlier map files lack arc line paths of lane connectors."""

SIGN_REACH_M = 2.0
"""Maximum distance from a stop line to the ends of the lanes that it controls, metres."""


class _Node(msgspec.Struct, frozen=True, gc=False):
    token: str
    x: float
    y: float


class _Hole(msgspec.Struct, frozen=True):
    node_tokens: list[str] = []


class _Polygon(msgspec.Struct, frozen=True):
    token: str
    exterior_node_tokens: list[str]
    holes: list[_Hole] = []


class _Shape(msgspec.Struct, frozen=True):
    token: str
    polygon_token: str | None = None
    lane_type: str | None = None
    stop_line_type: str | None = None


class _DrivableArea(msgspec.Struct, frozen=True):
    token: str
    polygon_tokens: list[str]


class _Connected(msgspec.Struct, frozen=True):
    incoming: list[str] = []
    outgoing: list[str] = []


class _Expansion(msgspec.Struct, frozen=True):
    node: list[_Node]
    polygon: list[_Polygon]
    lane: list[_Shape]
    lane_connector: list[_Shape]
    connectivity: dict[str, _Connected]
    arcline_path_3: dict[str, msgspec.Raw]
    drivable_area: list[_DrivableArea] = []
    ped_crossing: list[_Shape] = []
    walkway: list[_Shape] = []
    carpark_area: list[_Shape] = []
    stop_line: list[_Shape] = []


class _Versioned(msgspec.Struct, frozen=True):
    version: str = "1.0"


def read_city_map(file: Path, city: str) -> CityMap:
    """Return the map of a city.

    Args:
        file: ``maps/expansion/CITY.json``.
        city: Name of the city, used as the name of the map.

    Raises:
        SourceDataError: The file is missing, damaged, or of a version before 1.3.
    """
    name = f"maps/expansion/{file.name}"
    with naming_source(name):
        require_regular_file(file, called="map file")
    try:
        text = file.read_bytes()
    except FileNotFoundError as error:
        problem = "is missing; the map expansion is a separate download; unpack it into the folder maps"
        raise SourceDataError(name, "", problem) from error
    try:
        version = msgspec.json.decode(text, type=_Versioned).version
        parts = version.split(".")
        if not all(part.isdecimal() for part in parts):
            raise SourceDataError(name, "version", f"is {version!r}, must be numbers such as 1.3")
        if tuple(map(int, parts)) < OLDEST_VERSION or int(parts[0]) > OLDEST_VERSION[0]:
            raise SourceDataError(
                name, "version", f"is {version!r}, must be from 1.3 on; download the map expansion again"
            )
        expansion = msgspec.json.decode(text, type=_Expansion)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceDataError(name, "", f"is damaged: {error}; copy the file again") from error
    return _Builder(expansion, name).build(city)


class _Builder:
    """Builder of the elements of a map; elements without geometry are dropped and recorded."""

    def __init__(self, expansion: _Expansion, name: str) -> None:
        self._expansion = expansion
        self._name = name
        self._nodes = {node.token: (node.x, node.y, 0.0) for node in expansion.node}
        self._polygons = {polygon.token: polygon for polygon in expansion.polygon}
        self._left_out: list[tuple[str, Float64Array]] = []

    def build(self, city: str) -> CityMap:
        """Return the map.

        Raises:
            SourceDataError: Two elements have the same id.
        """
        expansion = self._expansion
        self._require_once("node", expansion.node, self._nodes)
        self._require_once("polygon", expansion.polygon, self._polygons)
        lanes = self._lanes()
        areas: list[SourceArea] = []
        of_kinds = {
            "crosswalk": expansion.ped_crossing,
            "walkway": expansion.walkway,
            "carpark": expansion.carpark_area,
        }
        for kind, records in of_kinds.items():
            for record in records:
                areas += self._area(kind, record.token, record.polygon_token)
        for area in expansion.drivable_area:
            for number, polygon in enumerate(area.polygon_tokens):
                areas += self._area("drivable_area", f"{area.token}-{number}", polygon)
        signs = self._signs(lanes)
        try:
            return CityMap.of(SourceMap(city, tuple(lanes), tuple(areas), tuple(signs)), self._left_out)
        except InvalidArgumentError as error:
            raise SourceDataError(self._name, "", str(error)) from error

    def _require_once(self, what: str, records: Sequence[_Node | _Polygon], known: Sized) -> None:
        """Refuse a token used by two records, one of which would be lost silently."""
        if len(known) == len(records):
            return
        seen: set[str] = set()
        for record in records:
            if record.token in seen:
                raise SourceDataError(self._name, f"{what} {record.token!r:.80}", "occurs twice; copy the file again")
            seen.add(record.token)

    def _lanes(self) -> list[SourceLane]:
        """Return the lanes and lane connectors that have a centre line."""
        lanes = []
        for record, is_connector in (
            *((record, False) for record in self._expansion.lane),
            *((record, True) for record in self._expansion.lane_connector),
        ):
            outline_m = None if is_connector else self._outline(record.polygon_token)
            token, lane_type = record.token, (record.lane_type or "").upper()
            connected = self._expansion.connectivity.get(token, _Connected())
            try:
                if token not in self._expansion.arcline_path_3:
                    raise InvalidArgumentError("it has no arc line path")
                paths = msgspec.json.decode(self._expansion.arcline_path_3[token], type=list[ArclinePath])
                centre_m = discretize_lane(paths)
                left_m, right_m = (None, None) if outline_m is None else sides_of_lane(centre_m, outline_m[:, :2])
                # the current map only has lanes for cars; other kinds would have these names
                is_bike, is_bus = "BIKE" in lane_type or "BICYCLE" in lane_type, "BUS" in lane_type
                lane = SourceLane(
                    lane_id=token,
                    centre_m=with_heights(centre_m),
                    left_m=None if left_m is None else with_heights(left_m),
                    right_m=None if right_m is None else with_heights(right_m),
                    successors=tuple(dict.fromkeys(connected.outgoing)),
                    predecessors=tuple(dict.fromkeys(connected.incoming)),
                    kind="bike" if is_bike else "bus" if is_bus else "vehicle",
                    is_in_junction=is_connector,
                )
                lanes.append(lane)
            except (L5KitError, msgspec.DecodeError) as error:
                kind = "lane_connector" if is_connector else "lane"
                self._leave_out(f"{kind} {record.token!r}", str(error), outline_m)
        return lanes

    def _area(self, kind: str, area_id: str, polygon_token: str | None) -> list[SourceArea]:
        """Return the area of a polygon, or an empty list after recording it as dropped."""
        outline_m = self._outline(polygon_token)
        if outline_m is None:
            self._leave_out(f"{kind} {area_id!r}", f"polygon {polygon_token!r} has no three corners", None)
            return []
        holes = self._polygons[polygon_token or ""].holes
        rings = [self._ring(hole.node_tokens) for hole in holes]  # rings with fewer than three corners are ignored
        try:
            return [SourceArea(area_id, kind, outline_m, tuple(ring for ring in rings if ring is not None))]
        except InvalidArgumentError as error:
            self._leave_out(f"{kind} {area_id!r}", str(error), None)
            return []

    def _signs(self, lanes: Sequence[SourceLane]) -> list[SourceSign]:
        """Return a sign for each stop line of type stop sign, with the lanes that end at it."""
        ends_m = np.array([lane.centre_m[-1] for lane in lanes]).reshape(-1, 3)
        signs = []
        for record in self._expansion.stop_line:
            if record.stop_line_type != "STOP_SIGN":
                continue
            outline_m = self._outline(record.polygon_token)
            if outline_m is None:
                problem = f"polygon {record.polygon_token!r} has no three corners"
                self._leave_out(f"stop_line {record.token!r}", problem, None)
                continue
            # It controls the lanes that end in it or near it, but not connectors, which end beyond the junction.
            # Distances are only computed for lanes that end in the bounding box around it.
            outline_xy_m = np.ascontiguousarray(outline_m[:, :2])
            window_m = outline_xy_m.min(axis=0) - SIGN_REACH_M, outline_xy_m.max(axis=0) + SIGN_REACH_M
            is_near = ((ends_m[:, :2] >= window_m[0]) & (ends_m[:, :2] <= window_m[1])).all(axis=1)
            held = [
                lanes[row].lane_id
                for row in np.flatnonzero(is_near).tolist()
                if distance_to_polygon(outline_xy_m, ends_m[row, :2]) <= SIGN_REACH_M and not lanes[row].is_in_junction
            ]
            try:
                signs.append(SourceSign(record.token, outline_m.mean(axis=0), tuple(held)))
            except InvalidArgumentError as error:
                self._leave_out(f"stop_line {record.token!r}", str(error), None)
        return signs

    def _outline(self, polygon_token: str | None) -> Float64Array | None:
        """Return the corners of a polygon, (n, 3); None if there are none."""
        polygon = self._polygons.get(polygon_token or "")
        if polygon is None:
            return None
        return self._ring(polygon.exterior_node_tokens)

    def _ring(self, node_tokens: Sequence[str]) -> Float64Array | None:
        """Return the corners of a ring of nodes, (n, 3); None if there are fewer than three, or a node is unknown."""
        corners = [self._nodes[token] for token in node_tokens if token in self._nodes]
        if len(corners) < len(node_tokens):
            return None
        return open_outline(np.array(corners, np.float64).reshape(-1, 3))

    def _leave_out(self, element: str, problem: str, outline_m: Float64Array | None) -> None:
        bounds_m = np.full((2, 2), np.nan) if outline_m is None else bounds_of([outline_m])[0]
        self._left_out.append((f"{self._name}: {element} is left out: {' '.join(problem.split())}", bounds_m))

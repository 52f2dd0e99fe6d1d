"""Content of a semantic map file, read once and shared: ids, kinds, and arrays of world coordinates."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
from google.protobuf.message import DecodeError

from l5kit._types import BoolArray, Float64Array, Int64Array, UInt8Array
from l5kit.data.array_shapes import ReadOnlyArrays, as_read_only, require_shapes
from l5kit.data.map.element_kinds import face_colors
from l5kit.data.map.geometry import GREATEST_LATITUDE_E7, decode_lines
from l5kit.data.map.lane_lights import LaneLights
from l5kit.data.map.lane_network import LaneNetwork, read_network
from l5kit.data.map.map_arrays import LaneControls, MapArrays, MapIds, MapLines
from l5kit.data.map.wire import KIND_LANE, KIND_TRAFFIC_CONTROL, MapScan, scan_fragment
from l5kit.data.proto.road_network_pb2 import MapFragment, TrafficControlElement
from l5kit.errors import CorruptedDataError

CROSSWALK_KIND = TrafficControlElement.PEDESTRIAN_CROSSWALK_FIELD_NUMBER
"""Number of the member of ``TrafficControlElement.Type`` that makes an element a crosswalk."""

_TRAFFIC_LIGHT = TrafficControlElement.TRAFFIC_LIGHT_FIELD_NUMBER


class MapDecodeError(CorruptedDataError, DecodeError):
    """A map file does not contain a serialized ``MapFragment`` (protobuf's ``DecodeError`` in L5Kit 1.x)."""


@dataclass(frozen=True, eq=False)
class MapContent(ReadOnlyArrays):
    """The content of a map file except its messages; n elements, of which k are lanes and m are crosswalks.

    All maps of a process that were read from one file share it; see :func:`share_map`.

    Attributes:
        path: The file, for error texts.
        data: Its bytes.
        ids: Id of each element, in file order.
        ids_to_el: Position of each id; the last one if several elements share an id.
        kinds: Field number in ``MapElement.Element.element`` of each element, 0 for none, int64 (n,).
        control_kinds: Field number in ``TrafficControlElement.Type`` of each element, 0 for none, int64 (n,).
        lanes: Elements that are lanes, int64 (k,).
        crosswalks: Elements that are crosswalks, with points or without, int64 (m,).
        lane_lines: Left and right boundary of lane i as lines 2 i and 2 i + 1, including lanes without geometry.
        crosswalk_lines: Points of each crosswalk.
        arrays: The lanes with geometry and the crosswalks with points.
        oddities: Warnings about the file.
    """

    path: str
    data: bytes
    ids: list[str]
    ids_to_el: dict[str, int]
    kinds: Int64Array
    control_kinds: Int64Array
    lanes: Int64Array
    crosswalks: Int64Array
    lane_lines: MapLines
    crosswalk_lines: MapLines
    arrays: MapArrays
    oddities: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        num_elements, num_lanes, num_crosswalks = len(self.ids), len(self.lanes), len(self.crosswalks)
        require_shapes(self, kinds=(num_elements,), control_kinds=(num_elements,))
        require_shapes(self.lane_lines, bounds_m=(2 * num_lanes, 2, 2))
        require_shapes(self.crosswalk_lines, bounds_m=(num_crosswalks, 2, 2))

    @cached_property
    def lane_of_id(self) -> dict[str, int]:
        """Index (among the lanes) of the lane with each id; the last one if several lanes share an id."""
        return {self.ids[element]: lane for lane, element in enumerate(self.lanes.tolist())}

    @cached_property
    def crosswalk_of_id(self) -> dict[str, int]:
        """Index (among the crosswalks) of the last crosswalk with points with each id."""
        drawable = np.flatnonzero(self.crosswalk_lines.lengths > 0)
        elements = self.crosswalks[drawable].tolist()
        return {self.ids[element]: crosswalk for crosswalk, element in zip(drawable.tolist(), elements, strict=True)}

    @cached_property
    def lanes_by_row(self) -> Int64Array:
        """Indices among the lanes of all lanes, (k,): first those with geometry, as in the arrays, then the others."""
        has_geometry = _has_geometry(self.lane_lines)
        return as_read_only(np.concatenate([np.flatnonzero(has_geometry), np.flatnonzero(~has_geometry)]))

    @cached_property
    def row_of_lane_id(self) -> dict[str, int]:
        """Row in :attr:`network` of the lane with each id; the last one if several lanes share an id."""
        rows = np.argsort(self.lanes_by_row).tolist()
        return {lane_id: rows[lane] for lane_id, lane in self.lane_of_id.items()}

    @cached_property
    def network(self) -> LaneNetwork:
        """Successors, neighbours and speed limits of the lanes; read from the messages on first use.

        Raises:
            CorruptedDataError: A lane names an id that is not UTF-8 text.
        """
        return read_network(
            self.parse().elements,
            lanes=self.lanes[self.lanes_by_row],
            ids=self.ids,
            ids_to_el=self.ids_to_el,
            path=self.path,
        )

    def parse(self) -> MapFragment:
        """Return the messages of the file, new at each call."""
        return _parse(self.data, self.path)


_SHARED: Final[WeakValueDictionary[tuple[str, bytes], MapContent]] = WeakValueDictionary()
"""Maps in use, by path and matrix; only :func:`share_map` accesses this cache."""


def share_map(
    data: bytes, *, file: str, path: str, ecef_to_world: Float64Array
) -> tuple[MapContent, MapFragment | None]:
    """Return the content of a map file, shared with all users of the file in this process.

    Args:
        data: The bytes of the file; content cached before the file changed is not used.
        file: Its absolute path.
        path: Its path for error texts.
        ecef_to_world: Transform from ECEF to world coordinates, float64 (4, 4).

    Returns:
        The content, and the messages of the file if they had to be parsed for it.

    Raises:
        MapDecodeError: ``data`` is not a serialized ``MapFragment``.
        CorruptedDataError: An id is not UTF-8, the axes of a line differ in their numbers of vertices, or a frame lies
            beyond a pole.
    """
    key = file, ecef_to_world.tobytes()
    held = _SHARED.get(key)
    if held is not None and held.data == data:
        return held, None
    fragment = _parse(data, path)
    content = _SHARED[key] = _read_content(data, fragment, path, ecef_to_world)
    return content, fragment


def _read_content(data: bytes, fragment: MapFragment, path: str, ecef_to_world: Float64Array) -> MapContent:
    # protobuf rewrites messages in a form that the scan does not support
    scanned = np.frombuffer(data, dtype=np.uint8)
    scan = scan_fragment(scanned)
    if scan is None:
        scanned = np.frombuffer(fragment.SerializeToString(deterministic=True), dtype=np.uint8)
        scan = scan_fragment(scanned)
    if scan is None:
        raise MapDecodeError(f"map file {path} contains a field twice; write it again with protobuf")

    element_ids = MapIds.gather(scanned, scan.id_runs)
    ids = _decode_ids(element_ids, path)
    control_ids = _decode_ids(MapIds.gather(scanned, scan.control_refs[:, 1:]), path)
    # if several elements share an id, the last one counts
    ids_to_el = dict(zip(ids, range(len(ids)), strict=True))
    lanes = np.flatnonzero(scan.kinds == KIND_LANE)
    crosswalks = np.flatnonzero((scan.kinds == KIND_TRAFFIC_CONTROL) & (scan.control_kinds == CROSSWALK_KIND))
    decoder = _LineDecoder(scanned, scan, ecef_to_world, ids, path)
    lane_lines = decoder.decode(lanes, lines_per_element=2)
    crosswalk_lines = decoder.decode(crosswalks, lines_per_element=1)

    # warn about ids shared by several elements, and about rotated frames
    oddities = []
    if len(ids_to_el) < len(ids):
        repeated = [element_id for element_id, count in Counter(ids).items() if count > 1 and element_id]
        if repeated:
            oddities.append(
                f"map file {path}: {len(repeated)} ids are used more than once, for example {repeated[0]!r}; a lookup "
                "gives the last element, or the last lane or crosswalk if one is requested"
            )
    turned = np.flatnonzero(scan.has_bearing)
    if turned.size > 0:
        oddities.append(
            f"map file {path}: the frames of {turned.size} elements are rotated, for example of {ids[turned[0]]!r}; "
            "bearings are ignored, as in L5Kit 1.x"
        )
    return MapContent(
        path=path,
        data=data,
        ids=ids,
        ids_to_el=ids_to_el,
        kinds=scan.kinds,
        control_kinds=scan.control_kinds,
        lanes=lanes,
        crosswalks=crosswalks,
        lane_lines=lane_lines,
        crosswalk_lines=crosswalk_lines,
        arrays=_to_arrays(
            scan, element_ids, ids_to_el, control_ids, (lanes, lane_lines), (crosswalks, crosswalk_lines)
        ),
        oddities=tuple(oddities),
    )


def _parse(data: bytes, path: str) -> MapFragment:
    fragment = MapFragment()
    try:
        fragment.ParseFromString(data)
    except DecodeError as error:
        raise MapDecodeError(
            f"map file {path} ({len(data)} bytes) is not a semantic map, or is cut off: {error}. "
            "Fetch or copy the file again and compare its size with the original."
        ) from error
    return fragment


def _decode_ids(ids: MapIds, path: str) -> list[str]:
    try:
        return ids.to_list()
    except UnicodeDecodeError as error:
        raise CorruptedDataError(f"map file {path}: the id {error.object!r} is not UTF-8 text") from error


def _has_geometry(lane_lines: MapLines) -> BoolArray:
    """Return whether each lane has points on both boundaries, (k,)."""
    has_points: BoolArray = lane_lines.lengths > 0
    return has_points[0::2] & has_points[1::2]


def _to_arrays(
    scan: MapScan,
    ids: MapIds,
    ids_to_el: dict[str, int],
    control_ids: list[str],
    lanes: tuple[Int64Array, MapLines],
    crosswalks: tuple[Int64Array, MapLines],
) -> MapArrays:
    """Return the lanes and crosswalks with geometry; both are given as elements and their lines."""
    drawn_lanes = np.flatnonzero(_has_geometry(lanes[1]))
    drawn_crosswalks = np.flatnonzero(crosswalks[1].lengths > 0)
    lane_elements, crosswalk_elements = lanes[0][drawn_lanes], crosswalks[0][drawn_crosswalks]
    lane_lines = lanes[1].taken((2 * drawn_lanes[:, None] + np.arange(2)).reshape(-1))
    crosswalk_lines = crosswalks[1].taken(drawn_crosswalks)
    bounds_m = np.empty((len(lane_elements) + len(crosswalk_elements), 2, 2))
    # the bounds of a lane cover both boundaries
    left_m, right_m = lane_lines.bounds_m[0::2], lane_lines.bounds_m[1::2]
    np.minimum(left_m[:, 0], right_m[:, 0], out=bounds_m[: len(lane_elements), 0])
    np.maximum(left_m[:, 1], right_m[:, 1], out=bounds_m[: len(lane_elements), 1])
    bounds_m[len(lane_elements) :] = crosswalk_lines.bounds_m
    row_of_element = np.full(len(ids), -1, dtype=np.int64)
    row_of_element[lane_elements] = np.arange(len(lane_elements))
    controls = _controls(control_ids, row_of_element[scan.control_refs[:, 0]], ids_to_el, scan.control_kinds)

    # Lanes of the coloured faces. Whether a lane has a light depends on the light itself, even if it has no faces.
    colors, kinds = face_colors(), controls.kinds.tolist()
    lanes_of_faces = {
        controls.ids[control]: (colors[kind].name, controls.lanes_of(control))
        for control, kind in enumerate(kinds)
        if kind in colors
    }
    is_lit = np.zeros(len(lane_elements), np.bool_)
    for control in np.flatnonzero(controls.kinds == _TRAFFIC_LIGHT).tolist():
        is_lit[controls.lanes_of(control)] = True
    return MapArrays(
        lane_ids=ids.taken(lane_elements),
        lane_lines=lane_lines,
        crosswalk_ids=ids.taken(crosswalk_elements),
        crosswalk_lines=crosswalk_lines,
        bounds_m=bounds_m,
        controls=controls,
        lights=LaneLights.of_faces(lanes_of_faces),
        has_light=is_lit,
    )


def _controls(
    control_ids: list[str], rows: Int64Array, ids_to_el: dict[str, int], control_kinds: Int64Array
) -> LaneControls:
    """Return the controls of lanes, given control id and lane row of each reference; a row of -1 is skipped."""
    index_of: dict[str, int] = {}
    pairs = zip(control_ids, rows.tolist(), strict=True)
    controls = [index_of.setdefault(control, len(index_of)) for control, row in pairs if row >= 0]
    num_rows = int(rows.max(initial=0)) + 1
    # encode pairs of control and lane as one number, so that one sort orders them and removes duplicates
    keys = np.unique(np.array(controls, dtype=np.int64) * num_rows + rows[rows >= 0])
    elements = [ids_to_el.get(control, -1) for control in index_of]
    return LaneControls(
        ids=MapIds.of_texts(list(index_of)),
        kinds=np.append(control_kinds, 0)[elements] if elements else np.empty(0, np.int64),
        lane_starts=np.searchsorted(keys // num_rows, np.arange(len(index_of) + 1)),
        lane_rows=keys % num_rows,
    )


@dataclass(frozen=True)
class _LineDecoder:
    """Decodes runs of bytes into lines of world points."""

    data: UInt8Array
    scan: MapScan
    ecef_to_world: Float64Array
    ids: list[str]
    path: str

    def decode(self, elements: Int64Array, *, lines_per_element: int) -> MapLines:
        """Return the lines of the given elements, ``lines_per_element`` for each.

        Raises:
            CorruptedDataError: The axes of a line differ in their numbers of vertices, or a frame lies beyond a pole.
        """
        latitudes_e7 = self.scan.origins_e7[elements, 0]
        if (beyond := np.flatnonzero(np.abs(latitudes_e7) > GREATEST_LATITUDE_E7)).size:
            element = elements[beyond[0]]
            raise CorruptedDataError(
                f"map file {self.path}: element {element} ({self.ids[element]!r}) has its origin at latitude "
                f"{latitudes_e7[beyond[0]] / 1e7}; allowed are -90 to 90 degrees, so the file is damaged"
            )
        points, offsets, bounds_m = decode_lines(
            self.data,
            line_runs=self.scan.line_runs[elements, :lines_per_element].reshape(-1, 3, 2),
            origins_e7=self.scan.origins_e7[elements],
            ecef_to_world=self.ecef_to_world,
        )
        if offsets.min() < 0:
            element = elements[(int(np.argmin(offsets)) - 1) // lines_per_element]
            raise CorruptedDataError(
                f"map file {self.path}: element {element} ({self.ids[element]!r}) has lists of x, y and z deltas of "
                "different lengths; each vertex needs all three"
            )
        return MapLines(points, offsets, bounds_m)

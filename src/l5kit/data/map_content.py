"""A semantic map file as message objects and as arrays of world coordinates."""

import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from google.protobuf.message import DecodeError

from l5kit._types import BoolArray, Float64Array, Int64Array, UInt8Array
from l5kit.data.map_geometry import decode_lines
from l5kit.data.map_wire import KIND_LANE, KIND_TRAFFIC_CONTROL, MapScan, scan_fragment
from l5kit.data.proto.road_network_pb2 import Lane, MapFragment, TrafficControlElement
from l5kit.errors import CorruptedDataError

CROSSWALK_KIND = TrafficControlElement.PEDESTRIAN_CROSSWALK_FIELD_NUMBER
"""Number of the member of ``TrafficControlElement.Type`` that makes an element a crosswalk."""


class MapDecodeError(CorruptedDataError, DecodeError):
    """A map file does not hold a serialized ``MapFragment`` (protobuf's ``DecodeError`` in L5Kit 1.x)."""


@dataclass(frozen=True)
class MapLines:
    """Lines of map elements in world coordinates; line i is ``points[offsets[i]:offsets[i + 1]]``.

    Attributes:
        points: World coordinates in metres, float64 (total, 3), read-only.
        offsets: Start of each line, and the end of the last, int64 (lines + 1,), read-only.
        bounds_m: [[x_min, y_min], [x_max, y_max]] of each line, float64 (lines, 2, 2), read-only; infinite for a line
            without points.
    """

    points: Float64Array
    offsets: Int64Array
    bounds_m: Float64Array

    def __post_init__(self) -> None:
        """Make all arrays read-only."""
        for array in (self.points, self.offsets, self.bounds_m):
            array.setflags(write=False)

    def line(self, index: int) -> Float64Array:
        """Return the points of one line, float64 (n, 3), a read-only view."""
        return self.points[self.offsets[index] : self.offsets[index + 1]]


@dataclass(frozen=True)
class MapContent:
    """What a map file holds; n elements, of which k are lanes and m are crosswalks.

    Attributes:
        fragment: The parsed message.
        ids: Id of each element, in file order.
        ids_to_el: Position of each id; of several elements with one id the last.
        scan: Kinds, frames and control references of the elements.
        control_ids: Id of the traffic control in each row of ``scan.control_refs``.
        lanes: Elements that are lanes, int64 (k,).
        crosswalks: Elements that are crosswalks, with points or without, int64 (m,).
        lane_lines: Left and right boundary of lane i as lines 2 i and 2 i + 1.
        crosswalk_lines: Points of each crosswalk.
    """

    fragment: MapFragment
    ids: list[str]
    ids_to_el: dict[str, int]
    scan: MapScan
    control_ids: list[str]
    lanes: Int64Array
    crosswalks: Int64Array
    lane_lines: MapLines
    crosswalk_lines: MapLines

    @cached_property
    def lane_of_id(self) -> dict[str, int]:
        """Index (among the lanes) of the lane with each id; of several lanes with one id the last."""
        return {self.ids[element]: lane for lane, element in enumerate(self.lanes.tolist())}

    @cached_property
    def crosswalk_of_id(self) -> dict[str, int]:
        """Index (among the crosswalks) of the crosswalk with points with each id; of several the last."""
        drawable = self.drawable_crosswalks()
        elements = self.crosswalks[drawable].tolist()
        return {self.ids[element]: crosswalk for crosswalk, element in zip(drawable.tolist(), elements, strict=True)}

    def find_lane(self, lane_id: str) -> Lane | None:
        """Return the message of the lane with an id, None if there is none."""
        lane = self.lane_of_id.get(lane_id)
        return None if lane is None else self.fragment.elements[int(self.lanes[lane])].element.lane

    def drawable_lanes(self) -> Int64Array:
        """Return the indices (among the lanes) of those whose boundaries both have points."""
        return np.flatnonzero((np.diff(self.lane_lines.offsets) > 0).reshape(-1, 2).all(axis=1))

    def drawable_crosswalks(self) -> Int64Array:
        """Return the indices (among the crosswalks) of those that have points."""
        return np.flatnonzero(np.diff(self.crosswalk_lines.offsets) > 0)

    def lane_bounds(self, lanes: Int64Array) -> Float64Array:
        """Return [[x_min, y_min], [x_max, y_max]] over both boundaries of each lane, float64 (len(lanes), 2, 2)."""
        of_sides = self.lane_lines.bounds_m.reshape(-1, 2, 2, 2)[lanes]
        left, right = of_sides[:, 0], of_sides[:, 1]
        return np.stack([np.minimum(left[:, 0], right[:, 0]), np.maximum(left[:, 1], right[:, 1])], axis=1)

    def crosswalk_bounds(self, crosswalks: Int64Array) -> Float64Array:
        """Return [[x_min, y_min], [x_max, y_max]] of each crosswalk, float64 (len(crosswalks), 2, 2)."""
        bounds_m: Float64Array = self.crosswalk_lines.bounds_m[crosswalks]
        return bounds_m


def read_map(data: bytes, *, path: str, ecef_to_world: Float64Array) -> MapContent:
    """Return the content of a serialized map.

    Args:
        data: The bytes of the file.
        path: Where they came from, for error texts.
        ecef_to_world: Transform from ECEF to world coordinates, shape (4, 4).

    Raises:
        MapDecodeError: ``data`` is not a serialized ``MapFragment``.
        CorruptedDataError: An id is not UTF-8, or the axes of a line differ in their numbers of vertices.
    """
    fragment = _parse(data, path)
    scan = scan_fragment(np.frombuffer(data, dtype=np.uint8))
    if scan is None:
        data = fragment.SerializeToString(deterministic=True)
        scan = scan_fragment(np.frombuffer(data, dtype=np.uint8))
    if scan is None:
        raise MapDecodeError(f"map file {path} names one field twice; write it again with protobuf")
    ids = _decode_ids(data, scan.id_runs, path)
    lanes = np.flatnonzero(scan.kinds == KIND_LANE)
    crosswalks = np.flatnonzero((scan.kinds == KIND_TRAFFIC_CONTROL) & (scan.control_kinds == CROSSWALK_KIND))
    decoder = _LineDecoder(np.frombuffer(data, dtype=np.uint8), scan, ecef_to_world, ids, path)
    content = MapContent(
        fragment=fragment,
        ids=ids,
        ids_to_el=dict(zip(ids, range(len(ids)), strict=True)),
        scan=scan,
        control_ids=_decode_ids(data, scan.control_refs[:, 1:], path),
        lanes=lanes,
        crosswalks=crosswalks,
        lane_lines=decoder.decode(lanes, lines_per_element=2),
        crosswalk_lines=decoder.decode(crosswalks, lines_per_element=1),
    )
    _warn_about_oddities(content, path)
    return content


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


def _decode_ids(data: bytes, runs: Int64Array, path: str) -> list[str]:
    try:
        bounds = zip(runs[:, 0].tolist(), runs[:, 1].tolist(), strict=True)  # far fewer objects than runs.tolist()
        return [data[start:end].decode("utf-8") for start, end in bounds]
    except UnicodeDecodeError as error:
        raise CorruptedDataError(f"map file {path}: the id {error.object!r} is not UTF-8 text") from error


def decode_reference(content: bytes, holder: str) -> str:
    """Return the id of an element that another one names.

    Args:
        content: The id as it stands in the map.
        holder: Which element of which file names it, for the error text.

    Raises:
        CorruptedDataError: It is not UTF-8 text.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptedDataError(
            f"{holder} names the id {content!r}, which is no UTF-8 text; the map is damaged, restore it"
        ) from error


def _warn_about_oddities(content: MapContent, path: str) -> None:
    """Warn once each about ids that stand for several elements, and about turned frames."""
    if len(content.ids_to_el) < len(content.ids):
        repeated = [element_id for element_id, count in Counter(content.ids).items() if count > 1 and element_id]
        if repeated:
            text = f"map file {path}: {len(repeated)} ids are used more than once, {repeated[0]!r} for one"
            advice = "looking one up gives the last element, or the last lane or crosswalk where one is asked for"
            warnings.warn(f"{text}; {advice}", RuntimeWarning, stacklevel=4)
    _warn_about_bearing(content.scan.has_bearing, content.ids, path)


def _warn_about_bearing(has_bearing: BoolArray, ids: list[str], path: str) -> None:
    turned = np.flatnonzero(has_bearing)
    if turned.size > 0:
        text = f"map file {path}: the frames of {turned.size} elements are turned, of {ids[turned[0]]!r} for one"
        warnings.warn(f"{text}; bearings are ignored, as in L5Kit 1.x", RuntimeWarning, stacklevel=5)


@dataclass(frozen=True)
class _LineDecoder:
    """Turns runs of bytes into lines of world points."""

    data: UInt8Array
    scan: MapScan
    ecef_to_world: Float64Array
    ids: list[str]
    path: str

    def decode(self, elements: Int64Array, *, lines_per_element: int) -> MapLines:
        """Return the lines of the given elements, ``lines_per_element`` of each.

        Raises:
            CorruptedDataError: The axes of a line differ in their numbers of vertices.
        """
        points, offsets, bounds_m = decode_lines(
            self.data,
            line_runs=self.scan.line_runs[elements, :lines_per_element].reshape(-1, 3, 2),
            origins_e7=np.repeat(self.scan.origins_e7[elements], lines_per_element, axis=0),
            ecef_to_world=self.ecef_to_world,
        )
        if offsets.min() < 0:
            element = elements[(int(np.argmin(offsets)) - 1) // lines_per_element]
            raise CorruptedDataError(
                f"map file {self.path}: element {element} ({self.ids[element]!r}) has lists of x, y and z deltas of "
                "different lengths; they must agree, as each vertex has all three"
            )
        return MapLines(points, offsets, bounds_m)

"""Reading the parts of a serialized map that l5kit needs as arrays straight from its bytes.

Going through the message objects costs some thirty attribute look-ups per lane; one compiled pass over the bytes finds
the ids, the kinds, the frames and the packed runs of vertex deltas of all elements at once. The bytes must have been
accepted by protobuf before. Forms that protobuf allows but never writes itself (a field split in two, unpacked numbers,
two members of a oneof) are reported, and the caller passes the bytes that protobuf writes for the same message instead.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Int64Array, UInt8Array
from l5kit.errors import InvalidArgumentError

KIND_LANE = 3
KIND_TRAFFIC_CONTROL = 4
"""Numbers of two members of the oneof ``MapElement.Element.element``; 0 stands for none."""

# Columns of the table, one row per element. A run is a pair of byte positions [start, end).
_ID_RUN = 0
_KIND = 2
_CONTROL_KIND = 3
_ORIGIN = 4  # latitude and longitude in 1e-7 degrees
_FIRST_RUNS = 6  # x, y and z deltas of the left boundary or of a traffic control element
_SECOND_RUNS = 12  # x, y and z deltas of the right boundary
_HAS_BEARING = 18
_SEEN = 19  # one bit per message of which there may be one
_NUM_COLUMNS = 20

_VARINT = 0
_FIXED64 = 1
_BYTES = 2
_GROUP_START = 3
_FIXED32 = 5


@dataclass(frozen=True)
class MapScan:
    """Where things stand in the bytes of a map; n elements, r references from lanes to traffic controls.

    Attributes:
        kinds: Number of the member of ``MapElement.Element.element`` that is set, 0 for none, int64 (n,).
        control_kinds: Number of the member of ``TrafficControlElement.Type`` that is set, 0 for none, int64 (n,).
        id_runs: Byte positions [start, end) of the ids, int64 (n, 2).
        origins_e7: Latitude and longitude of the frame, 1e-7 degrees, int64 (n, 2).
        line_runs: Byte positions of the packed deltas: line (left, right) x axis x [start, end), int64 (n, 2, 3, 2). A
            traffic control element has its points in the first line.
        has_bearing: Whether the frame is turned, bool (n,).
        control_refs: Element, start and end of the id of each traffic control that a lane lists, int64 (r, 3).
    """

    kinds: Int64Array
    control_kinds: Int64Array
    id_runs: Int64Array
    origins_e7: Int64Array
    line_runs: Int64Array
    has_bearing: BoolArray
    control_refs: Int64Array

    def __post_init__(self) -> None:
        """Check that all arrays have one row per element."""
        shapes = [
            array.shape
            for array in (self.control_kinds, self.id_runs, self.origins_e7, self.line_runs, self.has_bearing)
        ]
        if any(shape[0] != len(self.kinds) for shape in shapes):
            raise InvalidArgumentError(f"kinds has {len(self.kinds)} rows, the others have shapes {shapes}")


def scan_fragment(data: UInt8Array) -> MapScan | None:
    """Return where things stand in a serialized ``MapFragment``, None where protobuf itself would write it otherwise.

    Args:
        data: The bytes, accepted by protobuf's parser before, shape (length,).
    """
    num_elements = _count_elements(data)
    capacity = 4 * num_elements
    while True:
        table = np.zeros((num_elements, _NUM_COLUMNS), dtype=np.int64)
        control_refs = np.zeros((capacity, 3), dtype=np.int64)
        num_refs = _scan_elements(data, table, control_refs)
        if num_refs < 0:
            return None
        if num_refs <= capacity:
            return _as_scan(table, control_refs[:num_refs])
        capacity = num_refs


def _as_scan(table: Int64Array, control_refs: Int64Array) -> MapScan:
    return MapScan(
        kinds=table[:, _KIND].copy(),
        control_kinds=table[:, _CONTROL_KIND].copy(),
        id_runs=table[:, _ID_RUN : _ID_RUN + 2].copy(),
        origins_e7=table[:, _ORIGIN : _ORIGIN + 2].copy(),
        line_runs=table[:, _FIRST_RUNS:_HAS_BEARING].reshape(-1, 2, 3, 2).copy(),
        has_bearing=table[:, _HAS_BEARING] != 0,
        control_refs=control_refs,
    )


@njit(nogil=True, cache=True, error_model="numpy")
def read_varint(data: UInt8Array, position: int) -> tuple[Any, Any]:
    """Return the unsigned number that starts at a byte, and the position behind it."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while True:
        byte = data[position]
        position += 1
        value |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += np.uint64(7)


@njit(nogil=True, cache=True, error_model="numpy")
def _skip_group(data: UInt8Array, position: Any) -> Any:
    """Return the position behind the group whose start tag has just been read."""
    depth = 1
    while depth > 0:
        tag, position = read_varint(data, position)
        wire_type = np.int64(tag & np.uint64(7))
        if wire_type == _VARINT:
            _, position = read_varint(data, position)
        elif wire_type == _FIXED64:
            position += 8
        elif wire_type == _BYTES:
            length, position = read_varint(data, position)
            position += np.int64(length)
        elif wire_type == _FIXED32:
            position += 4
        else:
            depth += 1 if wire_type == _GROUP_START else -1
    return position


@njit(nogil=True, cache=True, error_model="numpy")
def _next_field(data: UInt8Array, position: int) -> tuple[Any, Any, Any, Any]:
    """Return number, wire type and byte positions [start, end) of the content of the field at a position."""
    tag, start = read_varint(data, position)
    number, wire_type = np.int64(tag >> np.uint64(3)), np.int64(tag & np.uint64(7))
    if wire_type == _BYTES:
        length, start = read_varint(data, start)
        return number, wire_type, start, start + np.int64(length)
    if wire_type == _VARINT:
        _, end = read_varint(data, start)
    elif wire_type == _FIXED64:
        end = start + 8
    elif wire_type == _FIXED32:
        end = start + 4
    else:
        end = _skip_group(data, start)
    return number, wire_type, start, end


@njit(nogil=True, cache=True, error_model="numpy")
def _count_elements(data: UInt8Array) -> int:
    """Return the number of elements of a ``MapFragment``."""
    position, count = 0, 0
    while position < len(data):
        number, wire_type, _, position = _next_field(data, position)
        count += number == 2 and wire_type == _BYTES
    return count


@njit(nogil=True, cache=True, error_model="numpy")
def _first_sight(row: Int64Array, bit: int) -> Any:
    """Return whether a message comes up for the first time in its element, and remember it."""
    is_first = (row[_SEEN] >> bit) & 1 == 0
    row[_SEEN] |= 1 << bit
    return is_first


@njit(nogil=True, cache=True, error_model="numpy")
def _scan_id(data: UInt8Array, start: int, end: int) -> tuple[int, int]:
    """Return the byte positions [start, end) of the text of a ``GlobalId``."""
    position, text_start, text_end = start, 0, 0
    while position < end:
        number, wire_type, start, position = _next_field(data, position)
        if number == 1 and wire_type == _BYTES:
            text_start, text_end = start, position
    return text_start, text_end


@njit(nogil=True, cache=True, error_model="numpy")
def _little_endian_int32(data: UInt8Array, start: int) -> Any:
    value = (
        np.int64(data[start])
        | np.int64(data[start + 1]) << 8
        | np.int64(data[start + 2]) << 16
        | np.int64(data[start + 3]) << 24
    )
    return value - (1 << 32) if value >= 1 << 31 else value


@njit(nogil=True, cache=True, error_model="numpy")
def _scan_origin(data: UInt8Array, start: int, end: int, row: Int64Array) -> None:
    """Read latitude and longitude of a ``GeoLocation``."""
    position = start
    while position < end:
        number, wire_type, start, position = _next_field(data, position)
        if 1 <= number <= 2 and wire_type == _FIXED32:
            row[_ORIGIN + number - 1] = _little_endian_int32(data, start)


@njit(nogil=True, cache=True, error_model="numpy")
def _scan_geo_frame(data: UInt8Array, start: int, end: int, row: Int64Array) -> bool:
    """Read a ``GeoFrame``; return whether it is as protobuf writes it."""
    position, is_regular = start, True
    while position < end:
        number, wire_type, start, position = _next_field(data, position)
        if number == 1 and wire_type == _BYTES:
            is_regular &= _first_sight(row, 0)
            _scan_origin(data, start, position, row)
        elif number == 2 and wire_type == _FIXED32:
            # The bits of a float that is neither +0 nor -0.
            row[_HAS_BEARING] = (_little_endian_int32(data, start) & 0x7FFFFFFF) != 0
    return is_regular


@njit(nogil=True, cache=True, error_model="numpy")
def _note_run(row: Int64Array, column: int, start: int, end: int, wire_type: int) -> bool:
    """Write the positions of packed deltas; return whether they are packed and in one piece."""
    is_first = row[column + 1] == 0
    row[column], row[column + 1] = start, end
    return is_first and wire_type == _BYTES


@njit(nogil=True, cache=True, error_model="numpy")
def _scan_boundary(data: UInt8Array, start: int, end: int, row: Int64Array, column: int) -> bool:
    """Read a ``Lane.Boundary``; return whether it is as protobuf writes it."""
    position, is_regular = start, True
    while position < end:
        number, wire_type, start, position = _next_field(data, position)
        if 1 <= number <= 3 and wire_type in (_BYTES, _VARINT):
            is_regular &= _note_run(row, column + 2 * (number - 1), start, position, wire_type)
    return is_regular


@njit(nogil=True, cache=True, error_model="numpy")
def _scan_lane(
    data: UInt8Array, start: int, end: int, row: Int64Array, element: int, control_refs: Int64Array, num_refs: int
) -> int:
    """Read a ``Lane``; return the number of control references so far, -1 if protobuf would write it otherwise."""
    position, is_regular = start, True
    while position < end:
        number, wire_type, start, position = _next_field(data, position)
        if wire_type != _BYTES:
            continue
        if number == 2:
            is_regular &= _first_sight(row, 1)
            is_regular &= _scan_geo_frame(data, start, position, row)
        elif number == 3 or number == 4:
            is_regular &= _first_sight(row, 2 + number)
            is_regular &= _scan_boundary(data, start, position, row, _FIRST_RUNS if number == 3 else _SECOND_RUNS)
        elif number == 8:
            if num_refs < len(control_refs):
                control_refs[num_refs, 0] = element
                control_refs[num_refs, 1], control_refs[num_refs, 2] = _scan_id(data, start, position)
            num_refs += 1
    return num_refs if is_regular else -1


@njit(nogil=True, cache=True, error_model="numpy")
def _scan_traffic_control(data: UInt8Array, start: int, end: int, row: Int64Array) -> bool:
    """Read a ``TrafficControlElement``; return whether it is as protobuf writes it."""
    position, is_regular = start, True
    while position < end:
        number, wire_type, start, position = _next_field(data, position)
        if number == 2 and wire_type == _BYTES:
            is_regular &= _first_sight(row, 1)
            is_regular &= _scan_geo_frame(data, start, position, row)
        elif 3 <= number <= 5 and wire_type in (_BYTES, _VARINT):
            is_regular &= _note_run(row, _FIRST_RUNS + 2 * (number - 3), start, position, wire_type)
        elif _is_control_kind(number) and wire_type == _BYTES:
            row[_CONTROL_KIND] = number
    return is_regular


@njit(nogil=True, cache=True, error_model="numpy")
def _is_control_kind(number: int) -> bool:
    """Return whether a field number of ``TrafficControlElement`` is a member of its oneof ``Type``."""
    return 7 <= number <= 73 and number != 14 and number != 26 and number != 28 and number != 48


@njit(nogil=True, cache=True, error_model="numpy")
def _scan_content(
    data: UInt8Array, start: int, end: int, row: Int64Array, element: int, control_refs: Int64Array, num_refs: int
) -> int:
    """Read a ``MapElement.Element``; return as :func:`_scan_lane`."""
    position = start
    while position < end:
        number, wire_type, start, position = _next_field(data, position)
        if wire_type != _BYTES or not (1 <= number <= 6 or number == 8):
            continue
        if row[_KIND] != 0:
            return -1
        row[_KIND] = number
        if number == KIND_LANE:
            num_refs = _scan_lane(data, start, position, row, element, control_refs, num_refs)
        elif number == KIND_TRAFFIC_CONTROL and not _scan_traffic_control(data, start, position, row):
            return -1
        if num_refs < 0:
            return -1
    return num_refs


@njit(nogil=True, cache=True, error_model="numpy")
def _scan_elements(data: UInt8Array, table: Int64Array, control_refs: Int64Array) -> int:
    """Fill the table and the control references of all elements; return as :func:`_scan_lane`."""
    position, element, num_refs = 0, 0, 0
    while position < len(data):
        number, wire_type, start, position = _next_field(data, position)
        if number != 2 or wire_type != _BYTES:
            continue
        row, end, inner = table[element], position, start
        while inner < end:
            number, wire_type, start, inner = _next_field(data, inner)
            if wire_type != _BYTES or number > 2:
                continue
            if not _first_sight(row, 8 + number):
                return -1
            if number == 1:
                row[_ID_RUN], row[_ID_RUN + 1] = _scan_id(data, start, inner)
            elif number == 2:
                num_refs = _scan_content(data, start, inner, row, element, control_refs, num_refs)
                if num_refs < 0:
                    return -1
        element += 1
    return num_refs

"""Reader of a serialized map that extracts the parts needed by l5kit as arrays, straight from the bytes.

Going through the message objects costs some thirty attribute lookups per lane. Here the messages of one kind of all
elements are split into their fields at once, level by level: one compiled pass over their bytes per level, and arrays
of fields in between. The bytes must have been accepted by protobuf before. Forms that protobuf allows but never writes
itself (a field split in two, unpacked numbers, two members of a oneof) are reported, and the caller passes the bytes
that protobuf writes for the same message instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Int64Array, UInt8Array
from l5kit.data.array_shapes import require_shapes

KIND_LANE = 3
KIND_TRAFFIC_CONTROL = 4
"""Field numbers of two members of the oneof ``MapElement.Element.element``; 0 stands for none."""

_ELEMENT_KINDS = (1, 2, 3, 4, 5, 6, 8)
_CONTROL_KINDS = tuple(number for number in range(7, 74) if number not in (14, 26, 28, 48))
"""Field numbers of the members of ``MapElement.Element.element`` and ``TrafficControlElement.Type``."""

_VARINT = 0
_FIXED64 = 1
_BYTES = 2
_GROUP_START = 3
_FIXED32 = 5

_USUAL_FIELDS = 4
"""Fields per message for which memory is allocated at first."""


@dataclass(frozen=True)
class MapScan:
    """Byte positions of the parts of a map; n elements, r references from lanes to traffic controls.

    Attributes:
        kinds: Field number of the member of ``MapElement.Element.element`` that is set, 0 for none, int64 (n,).
        control_kinds: Field number of the member of ``TrafficControlElement.Type`` that is set, 0 for none, int64 (n,).
        id_runs: Byte positions [start, end) of the ids, int64 (n, 2).
        origins_e7: Latitude and longitude of the frame, 1e-7 degrees, int64 (n, 2).
        line_runs: Byte positions of the packed deltas: line (left, right) x axis x [start, end), int64 (n, 2, 3, 2). A
            traffic control element has its points in the first line.
        has_bearing: Whether the frame is rotated, bool (n,).
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
        size = len(self.kinds)
        require_shapes(self, kinds=(size,), control_kinds=(size,), has_bearing=(size,))
        require_shapes(self, id_runs=(size, 2), origins_e7=(size, 2), line_runs=(size, 2, 3, 2))
        require_shapes(self, control_refs=(len(self.control_refs), 3))

    @classmethod
    def empty(cls, num_elements: int) -> "MapScan":
        """Return a scan of elements that are all empty."""
        kinds, control_kinds = np.zeros((2, num_elements), np.int64)
        id_runs, origins_e7 = np.zeros((2, num_elements, 2), np.int64)
        line_runs = np.zeros((num_elements, 2, 3, 2), np.int64)
        has_bearing, control_refs = np.zeros(num_elements, np.bool_), np.zeros((0, 3), np.int64)
        return cls(kinds, control_kinds, id_runs, origins_e7, line_runs, has_bearing, control_refs)


class _UnusualFormError(Exception):
    """The bytes differ from what protobuf itself writes."""


@dataclass(frozen=True)
class _Fields:
    """Fields of messages, in byte order.

    Attributes:
        owners: Index of the message or element that each field belongs to, ascending, (N,).
        field_ids: Field numbers, (N,).
        wire_types: Wire types, (N,).
        starts: First byte of the content of each field, (N,).
        ends: End of the content of each field, (N,).
    """

    owners: Int64Array
    field_ids: Int64Array
    wire_types: Int64Array
    starts: Int64Array
    ends: Int64Array

    def __post_init__(self) -> None:
        shape = self.owners.shape
        require_shapes(self, owners=shape[:1], field_ids=shape, wire_types=shape, starts=shape, ends=shape)

    @classmethod
    def of_messages(
        cls, data: UInt8Array, starts: Int64Array, ends: Int64Array, owners: Int64Array, field_ids: Sequence[int]
    ) -> "_Fields":
        """Return the fields with some numbers of messages at bytes ``starts`` to ``ends``, (M,); owners (M,) ascend."""
        is_wanted = np.zeros(max(field_ids) + 1, np.bool_)
        is_wanted[list(field_ids)] = True
        # allocate for the usual number of fields; if there are more, the first pass has counted them
        table = np.empty((5, _USUAL_FIELDS * len(starts)), np.int64)
        num_fields = _split_messages(data, starts, ends, is_wanted, table)
        if num_fields > table.shape[1]:
            table = np.empty((5, num_fields), np.int64)
            _split_messages(data, starts, ends, is_wanted, table)
        return cls(owners[table[0, :num_fields]], *table[1:, :num_fields])

    @property
    def runs(self) -> Int64Array:
        """Byte positions [start, end) of their content, (N, 2)."""
        return np.stack([self.starts, self.ends], axis=-1)

    def _where(self, mask: BoolArray) -> "_Fields":
        rows = np.flatnonzero(mask)
        if len(rows) == len(mask):
            return self
        columns = (self.owners, self.field_ids, self.wire_types, self.starts, self.ends)
        return _Fields(*(column[rows] for column in columns))

    def of_type(self, wire_type: int, first_number: int, last_number: int | None = None) -> "_Fields":
        """Return the fields of a wire type with a field number, or with a range of numbers, inclusive."""
        in_range = (self.field_ids >= first_number) & (self.field_ids <= (last_number or first_number))
        return self._where((self.wire_types == wire_type) & in_range)

    def lists(self, first_number: int) -> "_Fields":
        """Return the fields that hold a packed list of numbers, out of three consecutive field numbers.

        Raises:
            _UnusualFormError: A list is not packed, is split into pieces, or is not in the order of field numbers.
        """
        is_list = (self.field_ids >= first_number) & (self.field_ids < first_number + 3)
        packed = self._where(is_list & ((self.wire_types == _BYTES) | (self.wire_types == _VARINT)))
        # these keys ascend if each owner has each list once and in the order of field numbers
        keys = packed.owners * 3 + packed.field_ids
        if (packed.wire_types != _BYTES).any() or (keys[1:] <= keys[:-1]).any():
            raise _UnusualFormError
        return packed

    def only(self) -> "_Fields":
        """Return these fields after checking that each owner has at most one.

        Raises:
            _UnusualFormError: An owner has several.
        """
        if (self.owners[1:] == self.owners[:-1]).any():
            raise _UnusualFormError
        return self

    def split(self, data: UInt8Array, *field_ids: int) -> "_Fields":
        """Return the fields with some numbers of the messages that these fields hold, with the same owners."""
        return _Fields.of_messages(data, self.starts, self.ends, self.owners, field_ids)


def scan_fragment(data: UInt8Array) -> MapScan | None:
    """Return the byte positions in a serialized ``MapFragment``, None if protobuf itself would write it differently.

    Args:
        data: The bytes, accepted by protobuf's parser before, shape (length,).
    """
    start, end = np.array([[0], [len(data)]])
    elements = _Fields.of_messages(data, start, end, start, (2,)).of_type(_BYTES, 2)
    num_elements = len(elements.owners)
    parts = replace(elements, owners=np.arange(num_elements)).split(data, 1, 2)
    scan = MapScan.empty(num_elements)
    try:
        ids = parts.of_type(_BYTES, 1).only()
        scan.id_runs[ids.owners] = _text_runs(data, ids)
        content = parts.of_type(_BYTES, 2).only().split(data, *_ELEMENT_KINDS)
        content = content.of_type(_BYTES, _ELEMENT_KINDS[0], _ELEMENT_KINDS[-1]).only()
        scan.kinds[content.owners] = content.field_ids
        lanes = content.of_type(_BYTES, KIND_LANE).split(data, 2, 3, 4, 8)
        controls = content.of_type(_BYTES, KIND_TRAFFIC_CONTROL).split(data, 2, 3, 4, 5, *_CONTROL_KINDS)

        # frames and both boundaries of lanes; fields 3 and 4 hold messages with a list per axis
        _scan_frames(data, lanes.of_type(_BYTES, 2).only(), scan)
        for side, number in enumerate((3, 4)):
            axes = lanes.of_type(_BYTES, number).only().split(data, 1, 2, 3).lists(1)
            scan.line_runs[axes.owners, side, axes.field_ids - 1] = axes.runs

        # frames, points and kinds of traffic controls, which hold the lists of the axes directly, as fields 3 to 5
        _scan_frames(data, controls.of_type(_BYTES, 2).only(), scan)
        axes = controls.lists(3)
        scan.line_runs[axes.owners, 0, axes.field_ids - 3] = axes.runs
        kinds = controls.of_type(_BYTES, _CONTROL_KINDS[0], _CONTROL_KINDS[-1])
        scan.control_kinds[kinds.owners] = kinds.field_ids
    except _UnusualFormError:
        return None
    refs = lanes.of_type(_BYTES, 8)
    return replace(scan, control_refs=np.column_stack([refs.owners, _text_runs(data, refs)]))


def _text_runs(data: UInt8Array, ids: _Fields) -> Int64Array:
    """Return the byte positions [start, end) of the texts of ``GlobalId`` messages, (N, 2)."""
    texts = replace(ids, owners=np.arange(len(ids.owners))).split(data, 1).of_type(_BYTES, 1)
    runs = np.zeros((len(ids.owners), 2), np.int64)
    runs[texts.owners] = texts.runs
    return runs


def _scan_frames(data: UInt8Array, frames: _Fields, scan: MapScan) -> None:
    """Write origin and bearing of ``GeoFrame`` messages."""
    parts = frames.split(data, 1, 2)
    coordinates = parts.of_type(_BYTES, 1).only().split(data, 1, 2).of_type(_FIXED32, 1, 2)
    scan.origins_e7[coordinates.owners, coordinates.field_ids - 1] = _int32(data, coordinates)
    bearings = parts.of_type(_FIXED32, 2)
    # the bits of a float that is neither +0 nor -0
    scan.has_bearing[bearings.owners] = _int32(data, bearings) & 0x7FFFFFFF != 0


def _int32(data: UInt8Array, fields: _Fields) -> Int64Array:
    """Return the values of little-endian four-byte fields."""
    four_bytes = data[fields.starts[:, None] + np.arange(4)]
    values: Int64Array = four_bytes.view("<i4")[:, 0].astype(np.int64)
    return values


@kernel_jit
def read_varint(data: UInt8Array, position: int) -> tuple[np.uint64, int]:
    """Return the unsigned number that starts at a byte, and the position after it."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while True:
        byte = data[position]
        position += 1
        # seven bits per byte, lowest first; the highest bit is set if more bytes follow
        value |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += np.uint64(7)


@kernel_jit
def _split_messages(
    data: UInt8Array, starts: Int64Array, ends: Int64Array, is_wanted: BoolArray, table: Int64Array
) -> int:
    """Write message, number, wire type, start and end of fields of messages to the columns of a table (5, N).

    Only fields with a wanted number are written. Groups, which no message here has, are skipped with their content.

    Returns:
        The number of fields, including those for which the table has no column.
    """
    num_fields = 0
    for message in range(len(starts)):
        position, depth = starts[message], 0
        while position < ends[message]:
            tag, start = read_varint(data, position)
            wire_type = np.int64(tag & np.uint64(7))
            position = start
            if wire_type == _VARINT:
                _, position = read_varint(data, start)
            elif wire_type == _BYTES:
                length, start = read_varint(data, start)
                position = start + np.int64(length)
            elif wire_type == _FIXED32:
                position = start + 4
            elif wire_type == _FIXED64:
                position = start + 8
            else:
                depth += 1 if wire_type == _GROUP_START else -1
                continue
            number = np.int64(tag >> np.uint64(3))
            if depth == 0 and number < len(is_wanted) and is_wanted[number]:
                if num_fields < table.shape[1]:
                    table[0, num_fields], table[1, num_fields] = message, number
                    table[2, num_fields], table[3, num_fields], table[4, num_fields] = wire_type, start, position
                num_fields += 1
    return num_fields

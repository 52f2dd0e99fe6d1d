"""The scan of the bytes must find what protobuf finds, in every form in which a message may be written."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.data.map.content import share_map
from l5kit.data.map.wire import scan_fragment
from l5kit.data.proto.road_network_pb2 import MapElement, MapFragment, TrafficControlElement
from l5kit.errors import CorruptedDataError
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF

ECEF_TO_WORLD = np.linalg.inv(WORLD_TO_ECEF)


def read(data: bytes, ecef_to_world=ECEF_TO_WORLD):
    content, _ = share_map(data, file="test", path="test", ecef_to_world=ecef_to_world)
    return content


def scan(data: bytes):
    return scan_fragment(np.frombuffer(data, dtype=np.uint8))


def controls_in(data: bytes) -> list[tuple[int, str]]:
    """Element and control of each reference that the scan finds."""
    return [(element, data[start:end].decode()) for element, start, end in scan(data).control_refs.tolist()]


def varint(value: int) -> bytes:
    out = b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def packed(values) -> bytes:
    return b"".join(varint((value << 1) ^ (value >> 31)) for value in values)


def fragment_with(*elements: bytes) -> bytes:
    return b"".join(field(2, element) for element in elements)


def boundary(x, y, z) -> bytes:
    return b"".join(field(number, packed(values)) for number, values in enumerate((x, y, z), start=1))


FRAME = field(
    2, field(1, b"\x0d" + (374293427).to_bytes(4, "little") + b"\x15" + (-1221565407 % 2**32).to_bytes(4, "little"))
)
LEFT, RIGHT = ([500, 20, -300], [1, 2, 3], [0, -70000, 0]), ([600, 10], [4, 5], [0, 9])
ID = field(1, field(1, b"A"))


def lane_element(lane: bytes, element_id: bytes = ID) -> bytes:
    return element_id + field(2, field(3, lane))


USUAL = fragment_with(
    lane_element(FRAME + field(3, boundary(*LEFT)) + field(4, boundary(*RIGHT)) + field(8, field(1, b"T")))
)


def split_left() -> bytes:
    first, second = ([axis[:2] for axis in LEFT], [axis[2:] for axis in LEFT])
    return field(3, boundary(*first)) + field(4, boundary(*RIGHT)) + field(3, boundary(*second))


def unpacked_left() -> bytes:
    return field(
        3,
        b"".join(varint(number << 3) + packed([value]) for number, axis in enumerate(LEFT, start=1) for value in axis),
    ) + field(4, boundary(*RIGHT))


CONTROL = field(8, field(1, b"T"))
LINES = field(3, boundary(*LEFT)) + field(4, boundary(*RIGHT))
GROUP = varint(30 << 3 | 3) + number_field(1, 300) + field(2, b"abc") + varint(5 << 3 | 3) + varint(5 << 3 | 4)
GROUP += varint(6 << 3 | 5) + b"\x00" * 4 + varint(7 << 3 | 1) + b"\x00" * 8 + varint(30 << 3 | 4)

VARIANTS = {
    "boundary_in_two_pieces": fragment_with(lane_element(FRAME + split_left() + CONTROL)),
    "numbers_not_packed": fragment_with(lane_element(FRAME + unpacked_left() + CONTROL)),
    "frame_last": fragment_with(lane_element(CONTROL + LINES + FRAME)),
    "frame_twice": fragment_with(lane_element(field(2, field(1, b"\x0d\x01\x00\x00\x00")) + LINES + CONTROL + FRAME)),
    "lane_in_two_pieces": fragment_with(ID + field(2, field(3, FRAME + LINES) + field(3, CONTROL))),
    "content_in_two_pieces": fragment_with(field(2, field(3, LINES)) + ID + field(2, field(3, CONTROL + FRAME))),
    "id_twice": fragment_with(field(1, field(1, b"old")) + lane_element(FRAME + LINES + CONTROL)),
    "other_member_before": fragment_with(ID + field(2, field(2, b"") + field(3, FRAME + LINES + CONTROL))),
    "unknown_fields": number_field(99, 2**60)
    + fragment_with(
        number_field(77, 1)
        + lane_element(FRAME + LINES + CONTROL + field(40, b"xyz"))
        + varint(78 << 3 | 1)
        + b"\x01" * 8
    ),
    "unknown_groups": GROUP + fragment_with(ID + GROUP + field(2, GROUP + field(3, GROUP + FRAME + LINES + CONTROL))),
    "known_number_of_another_type": fragment_with(
        number_field(1, 5) + lane_element(number_field(3, 5) + FRAME + LINES + CONTROL + number_field(8, 1))
    ),
}


@pytest.mark.parametrize("data", VARIANTS.values(), ids=VARIANTS)
def test_unusual_forms_read_as_the_usual_one(data: bytes) -> None:
    usual, unusual = read(USUAL), read(data)
    assert unusual.ids == usual.ids == ["A"]
    assert unusual.arrays.controls.ids.to_list() == usual.arrays.controls.ids.to_list() == ["T"]
    np.testing.assert_array_equal(unusual.lane_lines.points, usual.lane_lines.points)
    assert unusual.lane_lines.offsets.tolist() == usual.lane_lines.offsets.tolist() == [0, 3, 5]


def test_usual_form_needs_no_second_look() -> None:
    assert scan(USUAL) is not None
    assert scan(FIXTURE_S_MAP) is not None
    assert scan(VARIANTS["boundary_in_two_pieces"]) is None


def test_later_member_of_the_oneof_wins() -> None:
    content = read(fragment_with(ID + field(2, field(3, FRAME + LINES + CONTROL) + field(2, b""))))
    assert content.kinds.tolist() == [2]
    assert content.arrays.num_lanes == len(content.arrays.controls.ids) == 0


def test_many_controls_are_all_found() -> None:
    controls = [b"".join(field(8, field(1, f"{i}/{j}".encode())) for j in range(50)) for i in range(3)]
    lanes = [lane_element(lane, field(1, field(1, b"%d" % i))) for i, lane in enumerate(controls)]
    assert controls_in(fragment_with(*lanes)) == [(i, f"{i}/{j}") for i in range(3) for j in range(50)]


@pytest.mark.parametrize(
    "kind", [member.name for member in TrafficControlElement.DESCRIPTOR.oneofs_by_name["Type"].fields]
)
def test_every_kind_of_traffic_control_is_told(kind: str) -> None:
    fragment = MapFragment()
    control = fragment.elements.add().element.traffic_control_element
    getattr(control, kind).SetInParent()
    control.geometry_type = 2
    control.controlled_paths.add()
    (number,) = scan(fragment.SerializeToString()).control_kinds
    assert TrafficControlElement.DESCRIPTOR.fields_by_number[int(number)].name == kind


@pytest.mark.parametrize("kind", [member.name for member in MapElement.Element.DESCRIPTOR.fields])
def test_every_kind_of_element_is_told(kind: str) -> None:
    element = MapElement()
    getattr(element.element, kind).SetInParent()
    element.bounding_box.SetInParent()
    element.associated_conditions.add().overrides.lane.SetInParent()
    (number,) = scan(MapFragment(name="x", elements=[element]).SerializeToString()).kinds
    assert MapElement.Element.DESCRIPTOR.fields_by_number[int(number)].name == kind


int32 = st.integers(-(2**31), 2**31 - 1)


@given(
    lines=st.lists(st.lists(st.tuples(int32, int32, int32), max_size=6), min_size=2, max_size=2),
    origin=st.tuples(st.integers(-900000000, 900000000), st.integers(-1800000000, 1800000000)),
    bearing=st.sampled_from([0.0, -0.0, 1.5]),
    element_id=st.text(max_size=5),
)
def test_scan_finds_what_was_written(lines, origin, bearing, element_id) -> None:
    fragment = MapFragment()
    element = fragment.elements.add()
    element.id.id = element_id.encode()
    lane = element.element.lane
    lane.geo_frame.origin.lat_e7, lane.geo_frame.origin.lng_e7 = origin
    lane.geo_frame.bearing_degrees = bearing
    for side, line in zip((lane.left_boundary, lane.right_boundary), lines, strict=True):
        for axis, values in zip("xyz", zip(*line, strict=True), strict=False):
            getattr(side, f"vertex_deltas_{axis}_cm").extend(values)
    data = fragment.SerializeToString()
    found = scan(data)
    start, end = found.id_runs[0]
    assert data[start:end].decode() == element_id
    assert found.origins_e7.tolist() == [list(origin)]
    assert found.has_bearing.tolist() == [bearing != 0.0]
    for runs, line in zip(found.line_runs[0], lines, strict=True):
        for axis, (run_start, run_end) in enumerate(runs):
            assert data[run_start:run_end] == packed([vertex[axis] for vertex in line])


@given(values=st.lists(int32, min_size=1, max_size=10))
def test_deltas_are_divided_before_they_are_added(values) -> None:
    content = read(fragment_with(lane_element(field(3, boundary(values, [0] * len(values), [0] * len(values))))))
    total, expected = 0.0, []
    for value in values:
        total += value / 100.0
        expected.append(total)
    # At latitude and longitude 0, east is the y axis of ECEF.
    in_ecef = read(
        fragment_with(lane_element(field(3, boundary(values, [0] * len(values), [0] * len(values))))), np.eye(4)
    )
    np.testing.assert_array_equal(in_ecef.lane_lines.points[:, 1], expected)
    assert len(content.lane_lines.points) == len(values)


@given(flips=st.lists(st.tuples(st.integers(0, len(FIXTURE_S_MAP) - 1), st.integers(1, 255)), min_size=1, max_size=4))
def test_damaged_bytes_give_a_map_or_a_clear_error(flips) -> None:
    data = bytearray(FIXTURE_S_MAP)
    for position, bits in flips:
        data[position] ^= bits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            content = read(bytes(data))
        except CorruptedDataError:
            return
    fragment = MapFragment.FromString(bytes(data))
    assert content.ids == [element.id.id.decode() for element in fragment.elements]
    is_lane = [element.element.HasField("lane") for element in fragment.elements]
    assert content.lanes.tolist() == np.flatnonzero(is_lane).tolist()
    counts = [
        len(boundary.vertex_deltas_x_cm)
        for lane in content.lanes
        for boundary in (
            fragment.elements[lane].element.lane.left_boundary,
            fragment.elements[lane].element.lane.right_boundary,
        )
    ]
    assert np.diff(content.lane_lines.offsets).tolist() == counts

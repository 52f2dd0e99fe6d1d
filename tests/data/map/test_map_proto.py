import base64
import importlib.util
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from l5kit.data.proto import generate, road_network_descriptor
from l5kit.data.proto import road_network_pb2 as rn
from support.maps import FIXTURE_S_MAP

COPY_IN_DEFAULT_POOL = """
import base64
from google.protobuf import descriptor_pb2, descriptor_pool, empty_pb2, message_factory
from l5kit.data.proto.road_network_descriptor import FILE_DESCRIPTOR_BASE64
def load_copy():
    file = descriptor_pool.Default().AddSerializedFile(base64.b64decode(FILE_DESCRIPTOR_BASE64))
    pool = descriptor_pool.Default()
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("l5kit.maps.MapFragment"))
{first}
{second}
ours = rn.MapFragment(name="a")
theirs = copy.FromString(ours.SerializeToString())
assert theirs.name == "a" and type(theirs) is not type(ours)
"""


@pytest.mark.process
@pytest.mark.parametrize("copy_first", [False, True], ids=["copy_after", "copy_before"])
def test_a3_another_copy_in_the_default_pool_does_no_harm(copy_first: bool) -> None:
    steps = ["from l5kit.data.proto import road_network_pb2 as rn", "copy = load_copy()"]
    first, second = reversed(steps) if copy_first else steps
    script = COPY_IN_DEFAULT_POOL.format(first=first, second=second)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_our_pool_is_not_the_default_one() -> None:
    assert rn.DESCRIPTOR.pool is not descriptor_pool.Default()


def test_classes_behave_like_generated_ones() -> None:
    element = rn.MapElement(id=rn.GlobalId(id=b"x"))
    control = element.element.traffic_control_element
    assert not element.element.HasField("traffic_control_element")
    control.signal_red_face.no_right_turn_on_red = True
    control.stop_sign.SetInParent()
    assert control.WhichOneof("Type") == "stop_sign"
    control.speed_bump.CopyFrom(rn.Empty())
    assert control.WhichOneof("Type") == "speed_bump"
    assert isinstance(element.element, rn.MapElement.Element)
    assert rn.MapElement.FromString(element.SerializeToString()) == element
    assert pickle.loads(pickle.dumps(element)) == element
    with pytest.raises(DecodeError):
        rn.MapFragment.FromString(b"\xff\xff")


@pytest.mark.parametrize(
    ("enum", "name", "number"),
    [
        (rn.Lane.TurnType, "U_TURN", 6),
        (rn.Lane.Boundary.DividerType, "CURB", 12),
        (rn.RoadNetworkSegment.RoadClass, "CYCLEWAY", 23),
        (rn.RoadNetworkSegment.LaneSet.BikeLaneAccess, "DESIGNATED_SHARED", 5),
        (rn.RoadNetworkSegment.BikeAccess, "PROTECTED", 5),
        (rn.AccessRestriction.Type, "ONLY_TURN", 5),
        (rn.DailyTimeInterval.DayOfTheWeek, "SATURDAY", 6),
        (rn.TrafficControlElement.GeometryType, "UKNOWN", 0),
        (rn.SegmentSequence.SegmentWithOrientation.Orientation, "BACKWARD", 2),
        (rn.AnnotatedShape.Building.Type, "GOVERNMENTAL", 9),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_enums_have_the_numbers_of_the_specification(enum, name: str, number: int) -> None:
    assert enum.Value(name) == number
    assert enum.Name(number) == name


def test_enum_values_and_field_numbers_are_attributes() -> None:
    assert (rn.Lane.SHARP_LEFT, rn.Lane.Boundary.SINGLE_WHITE_DASHED) == (3, 5)
    assert rn.TrafficControlElement.STATE_LAW_STOP_FOR_PEDESTRIAN_IN_CROSSWALK_SIGN_FIELD_NUMBER == 51
    assert len(rn.TrafficControlElement.DESCRIPTOR.oneofs_by_name["Type"].fields) == 63


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        (rn.Lane, range(1, 15)),
        (rn.MapElement, [1, 2, 3, 5]),
        (rn.MapElement.Element, [1, 2, 3, 4, 5, 6, 8]),
        (rn.RoadNetworkSegment, [*range(1, 16), 17, 20, 21, 23, 24]),
        (rn.TrafficControlElement, [n for n in range(2, 74) if n not in (14, 26, 28)]),
        (rn.AnnotatedShape, range(1, 9)),
        (rn.RoadNetworkSegment.LaneSet, [1, 2, 3, 4, 16]),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_messages_have_the_field_numbers_of_the_specification(message, numbers) -> None:
    assert sorted(message.DESCRIPTOR.fields_by_number) == sorted(numbers)


def test_fixture_s_is_written_back_byte_for_byte() -> None:
    assert rn.MapFragment.FromString(FIXTURE_S_MAP).SerializeToString() == FIXTURE_S_MAP


def test_stub_lists_the_classes_that_exist() -> None:
    stub = Path(rn.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    assert set(re.findall(r"^class (\w+)", stub, re.MULTILINE)) == {*rn.DESCRIPTOR.message_types_by_name, "Empty"}


@pytest.mark.skipif(importlib.util.find_spec("grpc_tools") is None, reason="needs grpcio-tools")
def test_generating_again_gives_the_embedded_descriptor() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some protoc versions use deprecated modules
        text = generate.generate()["road_network_descriptor.py"]
    again = FileDescriptorProto.FromString(base64.b64decode(text.split('"""')[3]))
    embedded = base64.b64decode(road_network_descriptor.FILE_DESCRIPTOR_BASE64)
    assert again == FileDescriptorProto.FromString(embedded)

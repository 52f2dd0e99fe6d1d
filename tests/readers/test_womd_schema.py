"""The reader's own schema of scenarios, and the rows it skips, against the definition of the dataset."""

import base64
import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from l5kit.data.proto import generate
from l5kit.errors import CorruptedDataError
from l5kit.readers import womd_scenario_descriptor
from l5kit.readers import womd_scenario_pb2 as schema
from l5kit.readers.womd_rows import BOOL, DOUBLE, FLOAT, RowSchema, read_rows
from support import womd

SAME_MESSAGE = {"RoadLine": "Line", "RoadEdge": "Line"}
STATES = RowSchema(3, ((11, BOOL), (3, DOUBLE), (9, FLOAT), (2, DOUBLE)))


def test_fields_have_the_numbers_of_the_definition():
    for name, message in womd.MESSAGES.items():
        own = schema.DESCRIPTOR.message_types_by_name.get(SAME_MESSAGE.get(name, name))
        if own is None:  # read as rows
            continue
        for field in own.fields:
            assert message.DESCRIPTOR.fields_by_number[field.number].name == field.name, name


def test_the_schema_has_a_pool_of_its_own():
    assert schema.DESCRIPTOR.pool is not descriptor_pool.Default()


@pytest.mark.skipif(importlib.util.find_spec("grpc_tools") is None, reason="needs grpcio-tools")
def test_generating_again_gives_the_embedded_descriptor_and_the_stub():
    path = Path(schema.__file__).with_name("womd_scenario.proto")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some protoc versions use deprecated modules
        texts = generate.generate(path)
    again = FileDescriptorProto.FromString(base64.b64decode(texts["womd_scenario_descriptor.py"].split('"""')[3]))
    assert again == FileDescriptorProto.FromString(base64.b64decode(womd_scenario_descriptor.FILE_DESCRIPTOR_BASE64))
    classes = [line for line in texts["womd_scenario_pb2.pyi"].splitlines() if line.startswith("class ")]
    stub = path.with_name("womd_scenario_pb2.pyi").read_text("utf-8")
    assert classes == [line for line in stub.splitlines() if line.startswith("class ")]


def random_track(rng):
    track = womd.MESSAGES["Track"](id=int(rng.integers(-5, 5)), object_type=1)
    for _ in range(rng.integers(0, 6)):
        state = track.states.add()
        for field in state.DESCRIPTOR.fields:
            if rng.random() < 0.7:
                value = rng.normal(0, 10.0 ** rng.integers(-3, 8))
                setattr(state, field.name, bool(value > 0) if field.name == "valid" else value)
    return track


def test_rows_are_what_protobuf_reads_field_by_field():
    rng = np.random.default_rng(3)
    tracks = [random_track(rng) for _ in range(200)]
    rows = read_rows([track.SerializeToString() for track in tracks], STATES, what="track")
    assert rows.counts.tolist() == [len(track.states) for track in tracks]
    for number, track in enumerate(tracks):
        expected = [[s.valid, s.center_y, s.velocity_x, s.center_x] for s in track.states]
        np.testing.assert_array_equal(
            rows.values[rows.starts[number] : rows.starts[number + 1]], np.reshape(expected, (-1, 4))
        )


def test_no_parents_have_no_rows():
    rows = read_rows([], STATES, what="track")
    assert rows.values.shape == (0, 4)
    assert rows.starts.tolist() == [0]


def test_of_a_field_that_comes_twice_the_last_one_counts():
    state = womd.MESSAGES["ObjectState"](center_x=1.0).SerializeToString()
    state += womd.MESSAGES["ObjectState"](center_x=2.0, valid=True).SerializeToString()
    rows = read_rows([b"\x1a" + bytes([len(state)]) + state], STATES, what="track")
    assert rows.values.tolist() == [[1.0, 0.0, 0.0, 2.0]]


@pytest.mark.parametrize(
    "damaged",
    [
        b"\x1a",
        b"\x1a\x05\x11",
        b"\x1a\x02\x11\x00",
        b"\x1a\x01\x58",
        b"\x80" * 11,
        b"\x00\x01",
        b"\x1b\x1c",
        b"\x1a\x80",
    ],
    ids=["no length", "cut", "cut number", "cut bool", "endless", "number 0", "group", "cut length"],
)
def test_bytes_that_are_no_message_name_their_parent(damaged):
    whole = womd.MESSAGES["Track"](id=3).SerializeToString()
    with pytest.raises(CorruptedDataError, match="track 1 is no message as protobuf writes it"):
        read_rows([whole, damaged, whole], STATES, what="track")


def test_every_cut_of_a_track_is_found_or_ends_between_fields():
    track = womd.MESSAGES["Track"](id=3)
    for number in range(3):
        track.states.add(center_x=number, valid=True)
    whole = track.SerializeToString()
    num_rows = []
    for end in range(len(whole)):
        try:
            num_rows.append(len(read_rows([whole[:end]], STATES, what="track").values))
        except CorruptedDataError:
            continue
    assert num_rows == [0, 0, 1, 2]

"""A tiny scene for tests of recordings, and what recordings of it hold when they are read back."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.logs import STEP_NS, log_of, make_agent, make_agents, make_faces, make_frames, scenes_of
from support.maps import make_map

START_NS = 1_571_846_881_502_692_276
EGO_YAW = 0.3
BIG_TRACK = 2**63 + 5
"""A track id that no signed integer and no float64 holds."""

AGENTS = (
    make_agents(
        make_agent(1, (10, 2), yaw=0.5, extent=(4, 2, 1.5), velocity=(3, 4)),
        make_agent(BIG_TRACK, (-3, -8), yaw=-2.5, extent=(0.6, 0.5, 1.8), labels={"PEDESTRIAN": 0.9, "CAR": 0.1}),
    ),
    make_agents(make_agent(1, (10.5, 2.25), yaw=0.6, extent=(4, 2, 1.5))),
    make_agents(),
    make_agents(
        make_agent(1, (11.5, 2.75), yaw=0.7, extent=(4, 2, 1.5)), make_agent(3, (5, 5), labels={"CYCLIST": 1.0})
    ),
)
"""Track 1 is not seen in frame 2, the pedestrian only in frame 0, the cyclist only in frame 3."""

FACES = (make_faces(R=1, G=0), make_faces(R=1, G=0), make_faces(R=0, G=0), make_faces(R=0, G=1))
"""Lane ``lights`` is red in the frames 0 and 1; in frame 3 it is green, and lane ``green`` too."""


def make_recorded_scene():
    """A dataset of four frames a tenth of a second apart; the AV is at (7 + 2 k, 1) in frame k."""
    positions_m = np.array([[7.0 + 2 * frame, 1.0] for frame in range(4)])
    times_ns = START_NS + STEP_NS * np.arange(4)
    records = make_frames(AGENTS, FACES, positions_m=positions_m, yaws_rad=EGO_YAW, timestamps_ns=times_ns)
    return log_of(scenes_of([4], hosts="host-a"), *records)


def read_case(map_path):
    """The scene as arrays, and its map."""
    from l5kit.visualization.scene_content import read_scene_content

    map_api = make_map(map_path)
    return read_scene_content(make_recorded_scene(), 0, map_api=map_api), map_api


def yaw_of(quaternion):
    """Heading of a quaternion with x, y, z and w."""
    assert abs(quaternion.x) + abs(quaternion.y) < 1e-12
    return 2 * np.arctan2(quaternion.z, quaternion.w)


@dataclass(frozen=True)
class Message:
    """A message of an MCAP file, decoded with the schema in the file."""

    topic: str
    time_ns: int
    content: Any


def read_mcap(path):
    """All messages in the order of the file."""
    from mcap.reader import make_reader

    decoders = {}
    messages = []
    with open(path, "rb") as file:
        for schema, channel, message in make_reader(file).iter_messages(log_time_order=False):
            if schema.id not in decoders:
                decoders[schema.id] = json.loads if channel.message_encoding == "json" else protobuf_decoder(schema)
            messages.append(Message(channel.topic, message.log_time, decoders[schema.id](message.data)))
    return messages


def protobuf_decoder(schema):
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    assert schema.encoding == "protobuf"
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(schema.data).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(schema.name)).FromString


def entities_after(messages, topic, time_ns):
    """The entities of a topic by id, as Foxglove keeps them when it has played from the start to a time."""
    kept = {}
    for message in messages:
        if message.topic == topic and message.time_ns <= time_ns:
            for deletion in message.content.deletions:
                assert deletion.type == 0, "only by id"
                kept.pop(deletion.id)
            kept.update({entity.id: entity for entity in message.content.entities})
    return kept


@dataclass(frozen=True)
class RerunContent:
    """A Rerun recording: components of entities without time, and rows of (frame, time, components)."""

    static: dict[str, dict[str, Any]]
    rows: dict[str, list[tuple[int, int, dict[str, Any]]]]


def read_rerun(path):
    """All of the first recording in a file."""
    from rerun.chunk import RrdReader

    content = RerunContent({}, {})
    for chunk in RrdReader(path).stream().to_chunks():
        batch = chunk.to_record_batch()
        for index in range(batch.num_rows):
            row = batch.slice(index, 1)
            values = {name: row.column(name) for name in row.schema.names if name != "rerun.controls.RowId"}
            if chunk.is_static:
                found = {name: column.to_pylist()[0] for name, column in values.items()}
                content.static.setdefault(chunk.entity_path, {}).update(found)
            else:
                frame, time_ns = values.pop("frame")[0].as_py(), values.pop("time")[0].value
                found = {name: column.to_pylist()[0] for name, column in values.items()}
                content.rows.setdefault(chunk.entity_path, []).append((frame, time_ns, found))
    return content

"""MCAP files as tables: boxes of ``foxglove.SceneUpdate`` and AV poses, transformed to one frame; needs ``mcap``."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from l5kit._types import Float64Array, Int64Array
from l5kit.configs.texts import did_you_mean, require_regular_file
from l5kit.errors import MissingDependencyError, error_line, install_command
from l5kit.readers.motion import require_unit, rotations_of, rows_around
from l5kit.readers.table_columns import OTHER_CLASS, McapTopics

_SCENES, _POSE, _TRANSFORM, _TRANSFORMS = (
    f"foxglove.{name}" for name in ("SceneUpdate", "PoseInFrame", "FrameTransform", "FrameTransforms")
)
_MOST_BYTES: Final = 8 << 30
_MOST_BYTES_OF_RECORD: Final = 1 << 30
_STALE_NS: Final = 500_000_000
"""Maximum age of the nearest transform of a moving frame: half a second."""

_Decoder = Callable[[bytes], Any]


class _Message(NamedTuple):
    """A message with its topic, the name of its schema, and its log time."""

    topic: str
    schema: str
    time_ns: int
    content: Any


class _Box(NamedTuple):
    """A box of a message: time, track, class, coordinate frame, pose in that frame, and size."""

    time_ns: int
    track: str
    kind: str
    frame: str
    position_m: list[float]
    rotation: list[float]
    size_m: list[float]


class _Frames:
    """Tree of coordinate frames, built from the transforms of a file."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}
        self._transforms: dict[str, list[tuple[int, list[float], list[float]]]] = {}

    def add(self, time_ns: int, transform: Any) -> None:
        """Add a transform."""
        parent, child = (_text(transform, name) for name in ("parent_frame_id", "child_frame_id"))
        if self._parents.setdefault(child, parent) != parent:
            raise ValueError(f"frame {child!r} has two parents, {self._parents[child]!r} and {parent!r}")
        pose = _pose_of(_as_pose(transform))
        self._transforms.setdefault(child, []).append((_time_of(transform, time_ns), *pose))

    def to_root(
        self, frame: str, times_ns: Int64Array, positions_m: Float64Array, rotations: Float64Array
    ) -> tuple[str, Float64Array, Float64Array]:
        """Transform poses (N,) of a frame to its root frame, and return them with the name of the root."""
        passed: list[str] = []
        while frame in self._parents:
            if frame in passed:
                raise ValueError(f"the transforms of frame {frame!r} go round in a circle")
            passed.append(frame)
            known = sorted(self._transforms[frame], key=lambda each: each[0])
            known_ns = np.array([each[0] for each in known], np.int64)
            # a moving frame uses the transform nearest in time, if that is near enough
            before, after = rows_around(known_ns, times_ns)
            nearest = np.where(times_ns - known_ns[before] <= known_ns[after] - times_ns, before, after)
            away_ns = np.abs(known_ns[nearest] - times_ns)
            if len(known_ns) > 1 and (away_ns > _STALE_NS).any():
                raise ValueError(
                    f"frame {frame!r} has no transform within {_STALE_NS * 1e-9:g} s of "
                    f"{int(times_ns[int(np.argmax(away_ns))])} ns"
                )
            turns = rotations_of(np.array([each[2] for each in known]))[nearest]
            moved_m = np.array([each[1] for each in known])[nearest]
            positions_m, rotations = (turns @ positions_m[..., None])[..., 0] + moved_m, turns @ rotations
            frame = self._parents[frame]
        return frame, positions_m, rotations


def read_messages(path: Path, topics: McapTopics, *, av: str) -> pa.Table:
    """Return the boxes of an MCAP file as a table, a row for each road user and message.

    Boxes are transformed to the root frame of the file's transforms. Times are the timestamps of entities, or the log
    time of the message if an entity has none.

    Args:
        path: The file, with messages in protobuf or JSON.
        topics: Topics and keys to read.
        av: Track id of the AV; with ``av_pose`` also the name of its frame in transforms.

    Raises:
        MissingDependencyError: The library ``mcap`` is missing.
        ValueError: The file is not MCAP, truncated or damaged, a topic is missing, or a message lacks a field.
    """
    boxes, frames, known, keys = list[_Box](), _Frames(), dict[str, str](), set[str]()
    for message in _messages_of(path):
        known[message.topic] = message.schema
        try:
            keys |= _take(message, topics, av, boxes, frames)
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"topic {message.topic!r} at {message.time_ns} ns: {error}") from error
    for topic in (*topics.objects, *([] if topics.av_pose is None else [topics.av_pose])):
        allowed = (_SCENES,) if topic in topics.objects else (_POSE, _TRANSFORM, _TRANSFORMS)
        if known.get(topic) not in allowed:
            is_there = f"has {known[topic]}" if topic in known else f"is not there{did_you_mean(topic, known)}"
            listed = ", ".join(f"{name} ({schema})" for name, schema in sorted(known.items())[:30])
            raise ValueError(f"topic {topic!r} must have {' or '.join(allowed)}, but it {is_there}; topics: {listed}")
    if topics.class_key is not None and topics.class_key not in keys and {box.track for box in boxes} - {av}:
        listed = ", ".join(sorted(keys)[:30]) or "none"
        raise ValueError(
            f"mcap.class is {topics.class_key!r}, which no entity has{did_you_mean(topics.class_key, keys)}; keys of "
            f"their metadata: {listed}"
        )
    # transform everything to the root frame, of which there must be only one
    times_ns = np.array([box.time_ns for box in boxes], np.int64)
    positions_m = np.array([box.position_m for box in boxes], np.float64).reshape(-1, 3)
    rotations = rotations_of(np.array([box.rotation for box in boxes], np.float64).reshape(-1, 4))
    roots, of_frames = dict[str, str](), np.array([box.frame for box in boxes], np.str_)
    for frame in dict.fromkeys(box.frame for box in boxes):
        own = np.flatnonzero(of_frames == frame)
        roots[frame], positions_m[own], rotations[own] = frames.to_root(
            frame, times_ns[own], positions_m[own], rotations[own]
        )
    if len(set(roots.values())) > 1:
        listed = ", ".join(f"{frame!r} in {root!r}" for frame, root in roots.items())
        raise ValueError(f"boxes and poses are in frames that no transform joins: {listed}")
    sizes_m = np.array([box.size_m for box in boxes], np.float64).reshape(-1, 3)
    columns = {"time": times_ns, "track": pa.array([box.track for box in boxes], pa.string())}
    columns |= {"class": pa.array([box.kind for box in boxes], pa.string())}
    columns |= dict(zip("xyz", positions_m.T, strict=True))
    columns |= {"heading": np.arctan2(rotations[:, 1, 0], rotations[:, 0, 0])}
    columns |= dict(zip(("length", "width", "height"), sizes_m.T, strict=True))
    return pa.table(columns)


def _take(message: _Message, topics: McapTopics, av: str, boxes: list[_Box], frames: _Frames) -> set[str]:
    """Add a message to the boxes or the transforms; return the metadata keys of its entities."""
    keys, av_size_m = set[str](), list(topics.av_size_m)
    if message.schema in (_TRANSFORM, _TRANSFORMS):
        several = message.schema == _TRANSFORMS
        for transform in _value(message.content, "transforms") if several else [message.content]:
            frames.add(message.time_ns, transform)
            if message.topic == topics.av_pose and _value(transform, "child_frame_id") == av:
                time_ns, frame = _time_of(transform, message.time_ns), _text(transform, "parent_frame_id")
                boxes.append(_Box(time_ns, av, OTHER_CLASS, frame, *_pose_of(_as_pose(transform)), av_size_m))
    elif message.schema == _POSE and message.topic == topics.av_pose:
        time_ns, frame = _time_of(message.content, message.time_ns), _text(message.content, "frame_id")
        boxes.append(_Box(time_ns, av, OTHER_CLASS, frame, *_pose_of(_value(message.content, "pose")), av_size_m))
    elif message.schema == _SCENES and message.topic in topics.objects:
        for entity in _value(message.content, "entities", ()):
            cubes = _value(entity, "cubes", ())
            if len(cubes) == 0:
                continue
            track = _text(entity, "id")
            if len(cubes) > 1:
                raise ValueError(f"entity {track!r} has {len(cubes)} cubes; a road user has one")
            facts = {_text(pair, "key"): _text(pair, "value") for pair in _value(entity, "metadata", ())}
            keys |= facts.keys()
            kind = OTHER_CLASS if topics.class_key is None else facts.get(topics.class_key, OTHER_CLASS)
            size_m = [_number(_value(_value(cubes[0], "size"), axis), "size") for axis in "xyz"]
            time_ns, frame = _time_of(entity, message.time_ns), _text(entity, "frame_id")
            boxes.append(_Box(time_ns, track, kind, frame, *_pose_of(_value(cubes[0], "pose")), size_m))
    return keys


def _messages_of(path: Path) -> Iterator[_Message]:
    """Yield the messages with a supported schema, in the order of the file."""
    try:
        from mcap.records import Channel, Chunk, Message, Schema
        from mcap.stream_reader import StreamReader, breakup_chunk
    except ImportError as error:
        raise MissingDependencyError(f"MCAP files need the library mcap: {install_command('mcap')}") from error
    require_regular_file(path, called="file")
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"it has {path.stat().st_size} bytes, more than {_MOST_BYTES}; split it into several files")
    schemas: dict[int, Schema] = {}
    channels: dict[int, tuple[str, str, _Decoder]] = {}
    num_bytes = 0
    try:
        with path.open("rb") as file:
            reader = StreamReader(file, emit_chunks=True, validate_crcs=True, record_size_limit=_MOST_BYTES_OF_RECORD)
            for outer in reader.records:
                records = [outer]
                if isinstance(outer, Chunk):
                    num_bytes += outer.uncompressed_size
                    if outer.uncompressed_size > _MOST_BYTES_OF_RECORD or num_bytes > _MOST_BYTES:
                        raise ValueError(f"its chunks unpack to more than {_MOST_BYTES} bytes; split it")
                    records = breakup_chunk(outer, validate_crc=True)
                for record in records:
                    if isinstance(record, Schema):
                        schemas[record.id] = record
                    elif isinstance(record, Channel) and record.schema_id in schemas:
                        schema = schemas[record.schema_id]
                        if schema.name in (_SCENES, _POSE, _TRANSFORM, _TRANSFORMS):
                            decoder = _decoder_of(schema.name, schema.encoding, schema.data, record.message_encoding)
                            channels[record.id] = record.topic, schema.name, decoder
                    elif isinstance(record, Message) and record.channel_id in channels:
                        topic, name, decode = channels[record.channel_id]
                        yield _Message(topic, name, record.log_time, decode(record.data))
    except ValueError:
        raise
    except Exception as error:  # parsers and decompressors raise errors of many kinds
        raise ValueError(
            f"it is no MCAP file, cut off, or damaged: {error_line(error)}; copy it again, or run mcap recover on it"
        ) from error


def _decoder_of(name: str, encoding: str, data: bytes, message_encoding: str) -> _Decoder:
    """Return the decoder of the messages of a schema."""
    if message_encoding == "json":
        return json.loads
    if message_encoding != "protobuf" or encoding != "protobuf":
        raise ValueError(f"messages of {name} are in {message_encoding!r}; protobuf and json can be read")
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    decode: _Decoder = GetMessageClass(pool.FindMessageTypeByName(name)).FromString
    return decode


def _value(message: Any, name: str, default: Any = None) -> Any:
    """Return a field of a message; JSON messages are mappings."""
    value = message.get(name, default) if isinstance(message, Mapping) else getattr(message, name, default)
    if value is None:
        raise ValueError(f"it has no {name!r}")
    return value


def _text(message: Any, name: str) -> str:
    """Return a text field of a message."""
    value = _value(message, name)
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {value!r:.40}")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise ValueError(f"{name} must be finite numbers, got {value!r:.40}")
    return float(value)


def _as_pose(transform: Any) -> dict[str, Any]:
    """Return a transform as the pose of its child frame."""
    return {"position": _value(transform, "translation"), "orientation": _value(transform, "rotation")}


def _pose_of(pose: Any) -> tuple[list[float], list[float]]:
    """Return x, y and z, and the quaternion w, x, y, z."""
    position, orientation = _value(pose, "position"), _value(pose, "orientation")
    rotation = [_number(_value(orientation, axis), "orientation") for axis in "wxyz"]
    require_unit(np.array([rotation]), "pose")
    return [_number(_value(position, axis), "position") for axis in "xyz"], rotation


def _time_of(message: Any, logged_ns: int) -> int:
    """Return the timestamp of a message in nanoseconds, or its log time if it has none."""
    stamp = message.get("timestamp") if isinstance(message, Mapping) else getattr(message, "timestamp", None)
    if stamp is None:
        return logged_ns
    names = ("sec", "nsec") if isinstance(stamp, Mapping) else ("seconds", "nanos")
    seconds, nanoseconds = (_number(_value(stamp, name, 0), "timestamp") for name in names)
    time_ns = int(seconds) * 1_000_000_000 + int(nanoseconds)
    if not 0 <= time_ns < 2**62:
        raise ValueError(f"timestamp is {time_ns} ns; it must be from 0 to {2**62}")
    return time_ns or logged_ns

"""MCAP files of people's own recordings: the AV at 8 m/s along x, and a car before it, in JSON or protobuf."""

import json

import numpy as np
import yaml

SIZE_M = (4.5, 1.8, 1.5)
AV_SIZE_M = (4.8, 1.9, 1.6)
START_NS = 1_700_000_000_000_000_000
STEP_NS = 100_000_000


def write_columns(folder, **changes):
    mcap = {"objects": "/boxes", "av_pose": "/pose", "av_size": list(AV_SIZE_M), "class": "kind"}
    content = {"mcap": mcap, "av": "ego", "classes": {"car": "CAR", "man": "PEDESTRIAN"}} | changes
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "columns.yaml").write_text(yaml.safe_dump(content))


def quaternion(yaw_rad):
    return {"x": 0.0, "y": 0.0, "z": float(np.sin(yaw_rad / 2)), "w": float(np.cos(yaw_rad / 2))}


def point(x, y, z=0.0):
    return {"x": float(x), "y": float(y), "z": float(z)}


def stamp(time_ns):
    return {"sec": time_ns // 10**9, "nsec": time_ns % 10**9}


def box(track, kind, frame, time_ns, position, yaw_rad, size_m=SIZE_M):
    cube = {"pose": {"position": point(*position), "orientation": quaternion(yaw_rad)}, "size": point(*size_m)}
    return {
        "id": track,
        "frame_id": frame,
        "timestamp": stamp(time_ns),
        "metadata": [{"key": "kind", "value": kind}],
        "cubes": [cube],
    }


def messages_of(num_steps, *, objects_frame="map"):
    """Topics, schemas, times and contents; in the frame ``base`` the car ahead of the AV is fixed at (20, 0)."""
    told = []
    for step in range(num_steps):
        time_ns, moved_m = START_NS + step * STEP_NS, 0.8 * step
        pose = {"position": point(100 + moved_m, 50), "orientation": quaternion(0.0)}
        told.append(
            ("/pose", "foxglove.PoseInFrame", time_ns, {"timestamp": stamp(time_ns), "frame_id": "map", "pose": pose})
        )
        if objects_frame == "base":
            transform = {
                "timestamp": stamp(time_ns),
                "parent_frame_id": "map",
                "child_frame_id": "base",
                "translation": point(100 + moved_m, 50),
                "rotation": quaternion(0.0),
            }
            told.append(("/tf", "foxglove.FrameTransform", time_ns, transform))
            entities = [box("7", "car", "base", time_ns, (20, 0), 0.0)]
        else:
            entities = [box("7", "car", "map", time_ns, (120 + moved_m, 50), 0.0)]
        entities.append({"id": "text", "frame_id": "map", "texts": [{"text": "no box"}]})
        told.append(("/boxes", "foxglove.SceneUpdate", time_ns, {"entities": entities, "deletions": []}))
    return told


def write_json(file, told, *, compression="zstd"):
    """Write messages as JSON with the library mcap."""
    from mcap.writer import CompressionType, Writer

    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "wb") as stream:
        writer = Writer(stream, compression=CompressionType[compression.upper()])
        writer.start()
        schemas, channels = {}, {}
        for topic, schema, time_ns, content in told:
            if topic not in channels:
                if schema not in schemas:
                    schemas[schema] = writer.register_schema(schema, "jsonschema", b"{}")
                channels[topic] = writer.register_channel(topic, "json", schemas[schema])
            writer.add_message(channels[topic], time_ns, json.dumps(content).encode(), time_ns)
        writer.finish()


def write_protobuf(file, told):
    """Write messages as protobuf with foxglove-sdk."""
    import foxglove
    from foxglove import messages as fox
    from foxglove.channels import FrameTransformChannel, PoseInFrameChannel, SceneUpdateChannel

    def pose_of(pose):
        return fox.Pose(position=fox.Vector3(**pose["position"]), orientation=fox.Quaternion(**pose["orientation"]))

    def entity_of(entity):
        if "cubes" not in entity:
            return fox.SceneEntity(id=entity["id"], frame_id=entity["frame_id"])
        (cube,) = entity["cubes"]
        return fox.SceneEntity(
            id=entity["id"],
            frame_id=entity["frame_id"],
            timestamp=fox.Timestamp(**entity["timestamp"]),
            metadata=[fox.KeyValuePair(**pair) for pair in entity["metadata"]],
            cubes=[fox.CubePrimitive(pose=pose_of(cube["pose"]), size=fox.Vector3(**cube["size"]))],
        )

    file.parent.mkdir(parents=True, exist_ok=True)
    context = foxglove.Context()
    kinds = {"/pose": PoseInFrameChannel, "/tf": FrameTransformChannel, "/boxes": SceneUpdateChannel}
    channels = {topic: kinds[topic](topic, context=context) for topic in {each[0] for each in told}}
    with foxglove.open_mcap(str(file), context=context):
        for topic, schema, time_ns, content in told:
            when = fox.Timestamp(**content["timestamp"]) if "timestamp" in content else None
            if schema.endswith("SceneUpdate"):
                message = fox.SceneUpdate(entities=[entity_of(each) for each in content["entities"]])
            elif schema.endswith("PoseInFrame"):
                message = fox.PoseInFrame(timestamp=when, frame_id=content["frame_id"], pose=pose_of(content["pose"]))
            else:
                message = fox.FrameTransform(
                    timestamp=when,
                    parent_frame_id=content["parent_frame_id"],
                    child_frame_id=content["child_frame_id"],
                    translation=fox.Vector3(**content["translation"]),
                    rotation=fox.Quaternion(**content["rotation"]),
                )
            channels[topic].log(message, log_time=time_ns)


def rewrite(file, change):
    """Write a file again with other bytes in its schemas and messages, and the checksums that belong to these.

    ``change`` gets a number, counted over schemas and messages in their order, and the bytes.
    """
    from mcap.reader import make_reader
    from mcap.writer import CompressionType, Writer

    with open(file, "rb") as stream:
        reader = make_reader(stream)
        records = list(reader.iter_messages(log_time_order=False))
    with open(file, "wb") as stream:
        writer = Writer(stream, compression=CompressionType.NONE)
        writer.start()
        schemas, channels, number = {}, {}, 0
        for schema, channel, message in records:
            if schema.id not in schemas:
                data = change(number, schema.data)
                schemas[schema.id], number = writer.register_schema(schema.name, schema.encoding, data), number + 1
            if channel.id not in channels:
                encoding = channel.message_encoding
                channels[channel.id] = writer.register_channel(channel.topic, encoding, schemas[schema.id])
            writer.add_message(channels[channel.id], message.log_time, change(number, message.data), message.log_time)
            number += 1
        writer.finish()

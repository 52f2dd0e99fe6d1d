"""Files of the Waymo Open Motion Dataset as its definition has them, made without the reader's schema or code.

The messages are built from the published field numbers, and records are laid out with an own CRC-32C, bit by bit.
"""

import struct
from pathlib import Path

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from l5kit.readers.importing import import_dataset
from l5kit.readers.womd import WomdReader

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "bool": _FIELD.TYPE_BOOL,
    "double": _FIELD.TYPE_DOUBLE,
    "float": _FIELD.TYPE_FLOAT,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "string": _FIELD.TYPE_STRING,
}
_SCHEMA = {
    "Scenario": "timestamps_seconds 1 double*, tracks 2 Track*, objects_of_interest 4 int32*, scenario_id 5 string, "
    "sdc_track_index 6 int32, dynamic_map_states 7 DynamicMapState*, map_features 8 MapFeature*, "
    "current_time_index 10 int32, tracks_to_predict 11 RequiredPrediction*",
    "Track": "id 1 int32, object_type 2 int32, states 3 ObjectState*",
    "ObjectState": "center_x 2 double, center_y 3 double, center_z 4 double, length 5 float, width 6 float, "
    "height 7 float, heading 8 float, velocity_x 9 float, velocity_y 10 float, valid 11 bool",
    "DynamicMapState": "lane_states 1 TrafficSignalLaneState*",
    "TrafficSignalLaneState": "lane 1 int64, state 2 int32, stop_point 3 MapPoint",
    "RequiredPrediction": "track_index 1 int32, difficulty 2 int32",
    "MapPoint": "x 1 double, y 2 double, z 3 double",
    "MapFeature": "id 1 int64, lane 3 LaneCenter, road_line 4 RoadLine, road_edge 5 RoadEdge, stop_sign 7 StopSign, "
    "crosswalk 8 Crosswalk, speed_bump 9 SpeedBump, driveway 10 Driveway",
    "LaneCenter": "speed_limit_mph 1 double, type 2 int32, interpolating 3 bool, polyline 8 MapPoint*, "
    "entry_lanes 9 int64+, exit_lanes 10 int64+, left_neighbors 11 LaneNeighbor*, right_neighbors 12 LaneNeighbor*, "
    "left_boundaries 13 BoundarySegment*, right_boundaries 14 BoundarySegment*",
    "LaneNeighbor": "feature_id 1 int64, self_start_index 2 int32, self_end_index 3 int32, "
    "neighbor_start_index 4 int32, neighbor_end_index 5 int32, boundaries 6 BoundarySegment*",
    "BoundarySegment": "lane_start_index 1 int32, lane_end_index 2 int32, boundary_feature_id 3 int64, "
    "boundary_type 4 int32",
    "RoadLine": "type 1 int32, polyline 2 MapPoint*",
    "RoadEdge": "type 1 int32, polyline 2 MapPoint*",
    "StopSign": "lane 1 int64*, position 2 MapPoint",
    "Crosswalk": "polygon 1 MapPoint*",
    "SpeedBump": "polygon 1 MapPoint*",
    "Driveway": "polygon 1 MapPoint*",
}
"""Fields by message: name, number and type, * for repeated, + for repeated and packed. Enums are numbers."""


def _add_field(message, text: str) -> None:
    name, number, kind = text.split()
    label = _FIELD.LABEL_REPEATED if kind[-1] in "*+" else _FIELD.LABEL_OPTIONAL
    field = message.field.add(name=name, number=int(number), label=label)
    if kind[-1] == "+":
        field.options.packed = True
    kind = kind.rstrip("*+")
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".vendor.{kind}"


def _message_classes():
    file = descriptor_pb2.FileDescriptorProto(name="vendor.proto", package="vendor", syntax="proto2")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            _add_field(message, text)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"vendor.{name}")) for name in _SCHEMA}


MESSAGES = _message_classes()
Scenario = MESSAGES["Scenario"]

STOP, CAUTION, GO = 4, 5, 6
VEHICLE, PEDESTRIAN, CYCLIST, OTHER = 1, 2, 3, 4
ROAD_Y_M = 0.0
LANE_WIDTH_M = 3.5


def masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record_of(content: bytes) -> bytes:
    """One record of a TFRecord file."""
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", masked_crc(length)) + content + struct.pack("<I", masked_crc(content))


def write_file(path: Path, contents) -> Path:
    """Write a file of records of messages or bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    serialized = [content if isinstance(content, bytes) else content.SerializeToString() for content in contents]
    path.write_bytes(b"".join(map(record_of, serialized)))
    return path


def add_points(field, points_m) -> None:
    for x, y, z in np.broadcast_to(np.asarray(points_m, float), (len(points_m), 3)).tolist():
        field.add(x=x, y=y, z=z)


def straight_line(y_m: float, *, start_m: float = 0.0, end_m: float = 40.0, step_m: float = 0.5, z_m: float = 7.0):
    xs_m = np.arange(start_m, end_m + 1e-9, step_m)
    return np.column_stack([xs_m, np.full(len(xs_m), y_m), np.full(len(xs_m), z_m)])


def add_track(scenario, track_id: int, kind: int, *, start_m, velocity_mps, valid, size_m=(4.5, 1.9, 1.6), z_m=8.0):
    """A track of constant velocity; states that are not valid are empty, as in the dataset."""
    track = scenario.tracks.add(id=track_id, object_type=kind)
    heading = float(np.arctan2(velocity_mps[1], velocity_mps[0]))
    for time_s, is_valid in zip(scenario.timestamps_seconds, valid, strict=True):
        state = track.states.add(valid=bool(is_valid))
        if is_valid:
            state.center_x = start_m[0] + velocity_mps[0] * time_s
            state.center_y = start_m[1] + velocity_mps[1] * time_s
            state.center_z = z_m
            state.length, state.width, state.height = size_m
            state.heading = heading
            state.velocity_x, state.velocity_y = velocity_mps
    return track


def add_lane(scenario, feature_id: int, points_m, **fields):
    feature = scenario.map_features.add(id=feature_id)
    for name, value in fields.items():
        if isinstance(value, list):
            getattr(feature.lane, name).extend(value)
        else:
            setattr(feature.lane, name, value)
    feature.lane.SetInParent()
    add_points(feature.lane.polyline, points_m)
    return feature.lane


def small_scenario(name: str = "a1b2c3", num_steps: int = 21):
    """A road of two lanes to the east, then one on; a car, a pedestrian with a gap, a cyclist and the AV, track 2."""
    scenario = Scenario(scenario_id=name, current_time_index=10, sdc_track_index=2)
    scenario.timestamps_seconds.extend(np.arange(num_steps) * 0.1)
    steps = np.arange(num_steps)
    always = np.ones(num_steps, bool)
    add_track(scenario, 11, VEHICLE, start_m=(12.0, 0.0), velocity_mps=(8.0, 0.0), valid=always)
    add_track(
        scenario, 7, PEDESTRIAN, start_m=(30.0, -6.0), velocity_mps=(0.0, 1.25),
        valid=(steps < 5) | (steps > 9), size_m=(0.8, 0.75, 1.8),
    )  # fmt: skip
    add_track(
        scenario, 90, VEHICLE, start_m=(2.0, 3.5), velocity_mps=(9.0, 0.0), valid=always, size_m=(5.25, 2.25, 2.0)
    )
    add_track(
        scenario, 8, CYCLIST, start_m=(20.0, 7.0), velocity_mps=(-4.0, 0.5), valid=steps > 3, size_m=(1.8, 0.7, 1.7)
    )
    add_track(scenario, 9, OTHER, start_m=(25.0, 5.0), velocity_mps=(1.0, 1.0), valid=steps == 2)
    scenario.tracks_to_predict.add(track_index=0, difficulty=1)
    scenario.tracks_to_predict.add(track_index=3)
    _add_map(scenario)
    for step in range(num_steps):
        states = scenario.dynamic_map_states.add()
        signal = states.lane_states.add(lane=101, state=STOP if step < 12 else GO)
        signal.stop_point.x, signal.stop_point.y, signal.stop_point.z = 39.0, 0.0, 7.0
        if step >= 4:
            states.lane_states.add(lane=102, state=step % 9)
        states.lane_states.add(lane=999, state=GO)  # a lane that the map does not have
    return scenario


def _add_map(scenario) -> None:
    right = add_lane(scenario, 101, straight_line(0.0), speed_limit_mph=25.0, type=2, exit_lanes=[103])
    left = add_lane(scenario, 102, straight_line(3.5), speed_limit_mph=35.0, type=1, exit_lanes=[103])
    ahead = np.column_stack([np.linspace(40.0, 70.0, 31), np.linspace(0.0, 4.0, 31), np.full(31, 7.0)])
    add_lane(scenario, 103, ahead, interpolating=True, type=2, entry_lanes=[101, 102])
    add_lane(scenario, 104, straight_line(-4.0, end_m=20.0), type=3)
    right.left_neighbors.add(feature_id=104, self_start_index=0, self_end_index=2)
    right.left_neighbors.add(feature_id=102, self_start_index=0, self_end_index=80)
    left.right_neighbors.add(feature_id=101, self_start_index=0, self_end_index=80)
    right.left_boundaries.add(lane_start_index=0, lane_end_index=80, boundary_feature_id=201, boundary_type=1)
    left.right_boundaries.add(lane_start_index=0, lane_end_index=80, boundary_feature_id=201, boundary_type=1)
    right.right_boundaries.add(lane_start_index=0, lane_end_index=39, boundary_feature_id=202)
    right.right_boundaries.add(lane_start_index=40, lane_end_index=80, boundary_feature_id=203)
    left.left_boundaries.add(lane_start_index=20, lane_end_index=60, boundary_feature_id=204)
    divider = scenario.map_features.add(id=201).road_line
    divider.type = 1
    add_points(divider.polyline, straight_line(1.75, start_m=-3.0, end_m=45.0, step_m=1.3))
    for feature_id, y_m, bounds_m in ((202, -1.5, (0.0, 20.0)), (203, -2.5, (19.0, 41.0)), (204, 6.0, (0.0, 40.0))):
        edge = scenario.map_features.add(id=feature_id).road_edge
        edge.type = 1
        add_points(edge.polyline, straight_line(y_m, start_m=bounds_m[0], end_m=bounds_m[1], step_m=5.0, z_m=7.5))
    sign = scenario.map_features.add(id=301).stop_sign
    sign.lane.extend([102, 103])
    sign.position.x, sign.position.y, sign.position.z = 38.0, 6.5, 9.0
    corners = np.array([[30.0, -3.0, 7.0], [33.0, -3.0, 7.0], [33.0, 6.0, 7.0], [30.0, 6.0, 7.0]])
    add_points(scenario.map_features.add(id=401).crosswalk.polygon, corners)
    add_points(scenario.map_features.add(id=402).speed_bump.polygon, corners - [20.0, 0.0, 0.0])
    add_points(scenario.map_features.add(id=403).driveway.polygon, np.vstack([corners, corners[:1]]) - [0.0, 9.0, 0.0])


def red_light_scenario(name: str = "red", *, num_steps: int = 131):
    """A junction whose lanes are not marked as such; both lanes to the east are red at their start, x = 0.

    The AV drives up to the line in the right lane and waits 1 m before it; a car in the left one drives through. Lanes
    1 and 2 come from the west to the lit lanes 11 and 12 (x = 0 to 25), which lead to 21 and 22; 13 turns from 1 to the
    south, lane 30 crosses from south to north at x = 12, and 40 does so 10 m further north. 51 to 53 are a road that
    widens from one lane to two.
    """
    scenario = Scenario(scenario_id=name, current_time_index=10, sdc_track_index=0)
    scenario.timestamps_seconds.extend(np.arange(num_steps) * 0.1)
    always = np.ones(num_steps, bool)
    av = add_track(scenario, 1, VEHICLE, start_m=(0, 0), velocity_mps=(8.0, 0), valid=always, size_m=(5.0, 2.0, 1.6))
    stop_s = 2 * 36.5 / 8.0
    for time_s, state in zip(scenario.timestamps_seconds, av.states, strict=True):
        left = max(1.0 - time_s / stop_s, 0.0)
        state.center_x, state.velocity_x = -3.5 - 36.5 * left**2, 8.0 * left
    add_track(scenario, 2, VEHICLE, start_m=(-36.0, 3.5), velocity_mps=(8.0, 0.0), valid=always)
    for lane, y_m in ((1, 0.0), (2, 3.5)):
        lit, after = 10 + lane, 20 + lane
        others = [lit, 13] if lane == 1 else [lit]
        add_lane(scenario, lane, straight_line(y_m, start_m=-80, end_m=0), speed_limit_mph=25, exit_lanes=others)
        add_lane(scenario, lit, straight_line(y_m, end_m=25), entry_lanes=[lane], exit_lanes=[after])
        add_lane(scenario, after, straight_line(y_m, start_m=25, end_m=150), speed_limit_mph=25, entry_lanes=[lit])
    turn = np.column_stack([np.linspace(0, 8, 9), -(np.linspace(0, 8, 9) ** 2) / 8, np.full(9, 7.0)])
    add_lane(scenario, 13, turn, entry_lanes=[1])
    for lane, z_m in ((30, 7.0), (40, 17.0)):
        add_lane(scenario, lane, straight_line(0.0, start_m=-30, end_m=30, z_m=z_m)[:, [1, 0, 2]] + [12.0, 0.0, 0.0])
    add_lane(scenario, 51, straight_line(60.0), exit_lanes=[52, 53])
    widened = add_lane(scenario, 52, straight_line(60.0, start_m=40, end_m=80), entry_lanes=[51])
    widened.left_neighbors.add(feature_id=53, self_start_index=0, self_end_index=80)
    add_lane(scenario, 53, np.array([[40.0, 60, 7], [50, 63.5, 7], [80, 63.5, 7]]), entry_lanes=[51])
    for _ in range(num_steps):
        states = scenario.dynamic_map_states.add()
        for lane, y_m in ((11, 0.0), (12, 3.5)):
            signal = states.lane_states.add(lane=lane, state=STOP)
            signal.stop_point.x, signal.stop_point.y, signal.stop_point.z = 0.0, y_m, 7.0
    return scenario


def import_red_light(folder: Path) -> Path:
    """Import :func:`red_light_scenario`, and return the dataset folder."""
    write_file(folder / "source" / "a.tfrecord", [red_light_scenario()])
    return import_dataset(WomdReader(folder / "source"), folder / "imported").folder

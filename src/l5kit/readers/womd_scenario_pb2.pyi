# Types of womd_scenario_pb2.py, written by `python -m l5kit.data.proto.generate`.
# ruff: noqa
# fmt: off
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Scenario(_message.Message):
    __slots__ = ("timestamps_seconds", "tracks", "objects_of_interest", "scenario_id", "sdc_track_index", "dynamic_map_states", "map_features", "current_time_index", "tracks_to_predict")
    TIMESTAMPS_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TRACKS_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_OF_INTEREST_FIELD_NUMBER: _ClassVar[int]
    SCENARIO_ID_FIELD_NUMBER: _ClassVar[int]
    SDC_TRACK_INDEX_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_MAP_STATES_FIELD_NUMBER: _ClassVar[int]
    MAP_FEATURES_FIELD_NUMBER: _ClassVar[int]
    CURRENT_TIME_INDEX_FIELD_NUMBER: _ClassVar[int]
    TRACKS_TO_PREDICT_FIELD_NUMBER: _ClassVar[int]
    timestamps_seconds: _containers.RepeatedScalarFieldContainer[float]
    tracks: _containers.RepeatedScalarFieldContainer[bytes]
    objects_of_interest: _containers.RepeatedScalarFieldContainer[int]
    scenario_id: bytes
    sdc_track_index: int
    dynamic_map_states: _containers.RepeatedCompositeFieldContainer[DynamicMapState]
    map_features: _containers.RepeatedCompositeFieldContainer[MapFeature]
    current_time_index: int
    tracks_to_predict: _containers.RepeatedCompositeFieldContainer[RequiredPrediction]
    def __init__(self, timestamps_seconds: _Optional[_Iterable[float]] = ..., tracks: _Optional[_Iterable[bytes]] = ..., objects_of_interest: _Optional[_Iterable[int]] = ..., scenario_id: _Optional[bytes] = ..., sdc_track_index: _Optional[int] = ..., dynamic_map_states: _Optional[_Iterable[_Union[DynamicMapState, _Mapping[str, object]]]] = ..., map_features: _Optional[_Iterable[_Union[MapFeature, _Mapping[str, object]]]] = ..., current_time_index: _Optional[int] = ..., tracks_to_predict: _Optional[_Iterable[_Union[RequiredPrediction, _Mapping[str, object]]]] = ...) -> None: ...

class Track(_message.Message):
    __slots__ = ("id", "object_type")
    ID_FIELD_NUMBER: _ClassVar[int]
    OBJECT_TYPE_FIELD_NUMBER: _ClassVar[int]
    id: int
    object_type: int
    def __init__(self, id: _Optional[int] = ..., object_type: _Optional[int] = ...) -> None: ...

class RequiredPrediction(_message.Message):
    __slots__ = ("track_index", "difficulty")
    TRACK_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIFFICULTY_FIELD_NUMBER: _ClassVar[int]
    track_index: int
    difficulty: int
    def __init__(self, track_index: _Optional[int] = ..., difficulty: _Optional[int] = ...) -> None: ...

class DynamicMapState(_message.Message):
    __slots__ = ("lane_states",)
    LANE_STATES_FIELD_NUMBER: _ClassVar[int]
    lane_states: _containers.RepeatedCompositeFieldContainer[TrafficSignalLaneState]
    def __init__(self, lane_states: _Optional[_Iterable[_Union[TrafficSignalLaneState, _Mapping[str, object]]]] = ...) -> None: ...

class TrafficSignalLaneState(_message.Message):
    __slots__ = ("lane", "state", "stop_point")
    LANE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STOP_POINT_FIELD_NUMBER: _ClassVar[int]
    lane: int
    state: int
    stop_point: MapPoint
    def __init__(self, lane: _Optional[int] = ..., state: _Optional[int] = ..., stop_point: _Optional[_Union[MapPoint, _Mapping[str, object]]] = ...) -> None: ...

class MapPoint(_message.Message):
    __slots__ = ("x", "y", "z")
    X_FIELD_NUMBER: _ClassVar[int]
    Y_FIELD_NUMBER: _ClassVar[int]
    Z_FIELD_NUMBER: _ClassVar[int]
    x: float
    y: float
    z: float
    def __init__(self, x: _Optional[float] = ..., y: _Optional[float] = ..., z: _Optional[float] = ...) -> None: ...

class MapFeature(_message.Message):
    __slots__ = ("id", "lane", "road_line", "road_edge", "stop_sign", "crosswalk", "speed_bump", "driveway")
    ID_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    ROAD_LINE_FIELD_NUMBER: _ClassVar[int]
    ROAD_EDGE_FIELD_NUMBER: _ClassVar[int]
    STOP_SIGN_FIELD_NUMBER: _ClassVar[int]
    CROSSWALK_FIELD_NUMBER: _ClassVar[int]
    SPEED_BUMP_FIELD_NUMBER: _ClassVar[int]
    DRIVEWAY_FIELD_NUMBER: _ClassVar[int]
    id: int
    lane: bytes
    road_line: bytes
    road_edge: bytes
    stop_sign: StopSign
    crosswalk: bytes
    speed_bump: bytes
    driveway: bytes
    def __init__(self, id: _Optional[int] = ..., lane: _Optional[bytes] = ..., road_line: _Optional[bytes] = ..., road_edge: _Optional[bytes] = ..., stop_sign: _Optional[_Union[StopSign, _Mapping[str, object]]] = ..., crosswalk: _Optional[bytes] = ..., speed_bump: _Optional[bytes] = ..., driveway: _Optional[bytes] = ...) -> None: ...

class LaneCenter(_message.Message):
    __slots__ = ("speed_limit_mph", "type", "interpolating", "entry_lanes", "exit_lanes", "left_neighbors", "right_neighbors", "left_boundaries", "right_boundaries")
    SPEED_LIMIT_MPH_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    INTERPOLATING_FIELD_NUMBER: _ClassVar[int]
    ENTRY_LANES_FIELD_NUMBER: _ClassVar[int]
    EXIT_LANES_FIELD_NUMBER: _ClassVar[int]
    LEFT_NEIGHBORS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_NEIGHBORS_FIELD_NUMBER: _ClassVar[int]
    LEFT_BOUNDARIES_FIELD_NUMBER: _ClassVar[int]
    RIGHT_BOUNDARIES_FIELD_NUMBER: _ClassVar[int]
    speed_limit_mph: float
    type: int
    interpolating: bool
    entry_lanes: _containers.RepeatedScalarFieldContainer[int]
    exit_lanes: _containers.RepeatedScalarFieldContainer[int]
    left_neighbors: _containers.RepeatedCompositeFieldContainer[LaneNeighbor]
    right_neighbors: _containers.RepeatedCompositeFieldContainer[LaneNeighbor]
    left_boundaries: _containers.RepeatedCompositeFieldContainer[BoundarySegment]
    right_boundaries: _containers.RepeatedCompositeFieldContainer[BoundarySegment]
    def __init__(self, speed_limit_mph: _Optional[float] = ..., type: _Optional[int] = ..., interpolating: _Optional[bool] = ..., entry_lanes: _Optional[_Iterable[int]] = ..., exit_lanes: _Optional[_Iterable[int]] = ..., left_neighbors: _Optional[_Iterable[_Union[LaneNeighbor, _Mapping[str, object]]]] = ..., right_neighbors: _Optional[_Iterable[_Union[LaneNeighbor, _Mapping[str, object]]]] = ..., left_boundaries: _Optional[_Iterable[_Union[BoundarySegment, _Mapping[str, object]]]] = ..., right_boundaries: _Optional[_Iterable[_Union[BoundarySegment, _Mapping[str, object]]]] = ...) -> None: ...

class LaneNeighbor(_message.Message):
    __slots__ = ("feature_id", "self_start_index", "self_end_index", "neighbor_start_index", "neighbor_end_index", "boundaries")
    FEATURE_ID_FIELD_NUMBER: _ClassVar[int]
    SELF_START_INDEX_FIELD_NUMBER: _ClassVar[int]
    SELF_END_INDEX_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOR_START_INDEX_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOR_END_INDEX_FIELD_NUMBER: _ClassVar[int]
    BOUNDARIES_FIELD_NUMBER: _ClassVar[int]
    feature_id: int
    self_start_index: int
    self_end_index: int
    neighbor_start_index: int
    neighbor_end_index: int
    boundaries: _containers.RepeatedCompositeFieldContainer[BoundarySegment]
    def __init__(self, feature_id: _Optional[int] = ..., self_start_index: _Optional[int] = ..., self_end_index: _Optional[int] = ..., neighbor_start_index: _Optional[int] = ..., neighbor_end_index: _Optional[int] = ..., boundaries: _Optional[_Iterable[_Union[BoundarySegment, _Mapping[str, object]]]] = ...) -> None: ...

class BoundarySegment(_message.Message):
    __slots__ = ("lane_start_index", "lane_end_index", "boundary_feature_id", "boundary_type")
    LANE_START_INDEX_FIELD_NUMBER: _ClassVar[int]
    LANE_END_INDEX_FIELD_NUMBER: _ClassVar[int]
    BOUNDARY_FEATURE_ID_FIELD_NUMBER: _ClassVar[int]
    BOUNDARY_TYPE_FIELD_NUMBER: _ClassVar[int]
    lane_start_index: int
    lane_end_index: int
    boundary_feature_id: int
    boundary_type: int
    def __init__(self, lane_start_index: _Optional[int] = ..., lane_end_index: _Optional[int] = ..., boundary_feature_id: _Optional[int] = ..., boundary_type: _Optional[int] = ...) -> None: ...

class Line(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: int
    def __init__(self, type: _Optional[int] = ...) -> None: ...

class StopSign(_message.Message):
    __slots__ = ("lane", "position")
    LANE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    lane: _containers.RepeatedScalarFieldContainer[int]
    position: MapPoint
    def __init__(self, lane: _Optional[_Iterable[int]] = ..., position: _Optional[_Union[MapPoint, _Mapping[str, object]]] = ...) -> None: ...

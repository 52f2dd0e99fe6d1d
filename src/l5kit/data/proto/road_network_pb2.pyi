# Types of road_network_pb2.py, written by `python -m l5kit.data.proto.generate`.
# ruff: noqa
# fmt: off
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GlobalId(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    def __init__(self, id: _Optional[bytes] = ...) -> None: ...

class GeoLocation(_message.Message):
    __slots__ = ("lat_e7", "lng_e7", "altitude_cm")
    LAT_E7_FIELD_NUMBER: _ClassVar[int]
    LNG_E7_FIELD_NUMBER: _ClassVar[int]
    ALTITUDE_CM_FIELD_NUMBER: _ClassVar[int]
    lat_e7: int
    lng_e7: int
    altitude_cm: int
    def __init__(self, lat_e7: _Optional[int] = ..., lng_e7: _Optional[int] = ..., altitude_cm: _Optional[int] = ...) -> None: ...

class GeoFrame(_message.Message):
    __slots__ = ("origin", "bearing_degrees")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    BEARING_DEGREES_FIELD_NUMBER: _ClassVar[int]
    origin: GeoLocation
    bearing_degrees: float
    def __init__(self, origin: _Optional[_Union[GeoLocation, _Mapping[str, object]]] = ..., bearing_degrees: _Optional[float] = ...) -> None: ...

class LocalizedString(_message.Message):
    __slots__ = ("language_code", "value")
    LANGUAGE_CODE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    language_code: str
    value: str
    def __init__(self, language_code: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class LatLngBox(_message.Message):
    __slots__ = ("south_west", "north_east")
    SOUTH_WEST_FIELD_NUMBER: _ClassVar[int]
    NORTH_EAST_FIELD_NUMBER: _ClassVar[int]
    south_west: GeoLocation
    north_east: GeoLocation
    def __init__(self, south_west: _Optional[_Union[GeoLocation, _Mapping[str, object]]] = ..., north_east: _Optional[_Union[GeoLocation, _Mapping[str, object]]] = ...) -> None: ...

class AccessRestriction(_message.Message):
    __slots__ = ("type",)
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[AccessRestriction.Type]
        NO_RESTRICTION: _ClassVar[AccessRestriction.Type]
        ONLY_HOV: _ClassVar[AccessRestriction.Type]
        ONLY_BUS: _ClassVar[AccessRestriction.Type]
        ONLY_BIKE: _ClassVar[AccessRestriction.Type]
        ONLY_TURN: _ClassVar[AccessRestriction.Type]
    UNKNOWN: AccessRestriction.Type
    NO_RESTRICTION: AccessRestriction.Type
    ONLY_HOV: AccessRestriction.Type
    ONLY_BUS: AccessRestriction.Type
    ONLY_BIKE: AccessRestriction.Type
    ONLY_TURN: AccessRestriction.Type
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: AccessRestriction.Type
    def __init__(self, type: _Optional[_Union[AccessRestriction.Type, str]] = ...) -> None: ...

class DailyTimeInterval(_message.Message):
    __slots__ = ("day_of_the_week", "start_local_time_seconds", "end_local_time_seconds", "timezone_database_region_name")
    class DayOfTheWeek(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SUNDAY: _ClassVar[DailyTimeInterval.DayOfTheWeek]
        MONDAY: _ClassVar[DailyTimeInterval.DayOfTheWeek]
        TUESDAY: _ClassVar[DailyTimeInterval.DayOfTheWeek]
        WEDNESDAY: _ClassVar[DailyTimeInterval.DayOfTheWeek]
        THURSDAY: _ClassVar[DailyTimeInterval.DayOfTheWeek]
        FRIDAY: _ClassVar[DailyTimeInterval.DayOfTheWeek]
        SATURDAY: _ClassVar[DailyTimeInterval.DayOfTheWeek]
    SUNDAY: DailyTimeInterval.DayOfTheWeek
    MONDAY: DailyTimeInterval.DayOfTheWeek
    TUESDAY: DailyTimeInterval.DayOfTheWeek
    WEDNESDAY: DailyTimeInterval.DayOfTheWeek
    THURSDAY: DailyTimeInterval.DayOfTheWeek
    FRIDAY: DailyTimeInterval.DayOfTheWeek
    SATURDAY: DailyTimeInterval.DayOfTheWeek
    DAY_OF_THE_WEEK_FIELD_NUMBER: _ClassVar[int]
    START_LOCAL_TIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    END_LOCAL_TIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_DATABASE_REGION_NAME_FIELD_NUMBER: _ClassVar[int]
    day_of_the_week: DailyTimeInterval.DayOfTheWeek
    start_local_time_seconds: int
    end_local_time_seconds: int
    timezone_database_region_name: str
    def __init__(self, day_of_the_week: _Optional[_Union[DailyTimeInterval.DayOfTheWeek, str]] = ..., start_local_time_seconds: _Optional[int] = ..., end_local_time_seconds: _Optional[int] = ..., timezone_database_region_name: _Optional[str] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("daily_schedule",)
    DAILY_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    daily_schedule: _containers.RepeatedCompositeFieldContainer[DailyTimeInterval]
    def __init__(self, daily_schedule: _Optional[_Iterable[_Union[DailyTimeInterval, _Mapping[str, object]]]] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("daily_temporal_condition",)
    DAILY_TEMPORAL_CONDITION_FIELD_NUMBER: _ClassVar[int]
    daily_temporal_condition: DailyTimeInterval
    def __init__(self, daily_temporal_condition: _Optional[_Union[DailyTimeInterval, _Mapping[str, object]]] = ...) -> None: ...

class LaneSequence(_message.Message):
    __slots__ = ("lanes",)
    LANES_FIELD_NUMBER: _ClassVar[int]
    lanes: _containers.RepeatedCompositeFieldContainer[GlobalId]
    def __init__(self, lanes: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ...) -> None: ...

class LaneSequences(_message.Message):
    __slots__ = ("lane_sequences",)
    LANE_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    lane_sequences: _containers.RepeatedCompositeFieldContainer[LaneSequence]
    def __init__(self, lane_sequences: _Optional[_Iterable[_Union[LaneSequence, _Mapping[str, object]]]] = ...) -> None: ...

class Polygon(_message.Message):
    __slots__ = ("shell_vertices", "holes")
    SHELL_VERTICES_FIELD_NUMBER: _ClassVar[int]
    HOLES_FIELD_NUMBER: _ClassVar[int]
    shell_vertices: _containers.RepeatedCompositeFieldContainer[GeoLocation]
    holes: _containers.RepeatedCompositeFieldContainer[Polygon]
    def __init__(self, shell_vertices: _Optional[_Iterable[_Union[GeoLocation, _Mapping[str, object]]]] = ..., holes: _Optional[_Iterable[_Union[Polygon, _Mapping[str, object]]]] = ...) -> None: ...

class MultiPolygon(_message.Message):
    __slots__ = ("polygons",)
    POLYGONS_FIELD_NUMBER: _ClassVar[int]
    polygons: _containers.RepeatedCompositeFieldContainer[Polygon]
    def __init__(self, polygons: _Optional[_Iterable[_Union[Polygon, _Mapping[str, object]]]] = ...) -> None: ...

class RoadNetworkNode(_message.Message):
    __slots__ = ("location", "road_segments", "z_level", "junction")
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    ROAD_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    Z_LEVEL_FIELD_NUMBER: _ClassVar[int]
    JUNCTION_FIELD_NUMBER: _ClassVar[int]
    location: GeoLocation
    road_segments: _containers.RepeatedCompositeFieldContainer[GlobalId]
    z_level: int
    junction: GlobalId
    def __init__(self, location: _Optional[_Union[GeoLocation, _Mapping[str, object]]] = ..., road_segments: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ..., z_level: _Optional[int] = ..., junction: _Optional[_Union[GlobalId, _Mapping[str, object]]] = ...) -> None: ...

class Junction(_message.Message):
    __slots__ = ("road_network_nodes", "traffic_control_elements", "lanes", "is_non_trivial_intersection")
    ROAD_NETWORK_NODES_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_CONTROL_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    IS_NON_TRIVIAL_INTERSECTION_FIELD_NUMBER: _ClassVar[int]
    road_network_nodes: _containers.RepeatedCompositeFieldContainer[GlobalId]
    traffic_control_elements: _containers.RepeatedCompositeFieldContainer[GlobalId]
    lanes: _containers.RepeatedCompositeFieldContainer[GlobalId]
    is_non_trivial_intersection: bool
    def __init__(self, road_network_nodes: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ..., traffic_control_elements: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ..., lanes: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ..., is_non_trivial_intersection: _Optional[bool] = ...) -> None: ...

class RoadNetworkSegment(_message.Message):
    __slots__ = ("vertices", "start_node", "end_node", "forward_lane_set", "name", "road_class", "travel_direction", "z_level", "speed_limit_meters_per_second", "backward_direction_speed_limit_meters_per_second", "restrictions", "lanes", "backward_lane_set", "is_private", "num_bidirectional_lanes", "is_toll_road", "driveable", "walkable", "forward_bikeable", "backward_bikeable")
    class RoadClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN_ROAD_CLASS: _ClassVar[RoadNetworkSegment.RoadClass]
        MOTORWAY: _ClassVar[RoadNetworkSegment.RoadClass]
        TRUNK: _ClassVar[RoadNetworkSegment.RoadClass]
        PRIMARY: _ClassVar[RoadNetworkSegment.RoadClass]
        SECONDARY: _ClassVar[RoadNetworkSegment.RoadClass]
        TERTIARY: _ClassVar[RoadNetworkSegment.RoadClass]
        RESIDENTIAL: _ClassVar[RoadNetworkSegment.RoadClass]
        UNCLASSIFIED: _ClassVar[RoadNetworkSegment.RoadClass]
        SERVICE: _ClassVar[RoadNetworkSegment.RoadClass]
        SERVICE_PARKING_AISLE: _ClassVar[RoadNetworkSegment.RoadClass]
        SERVICE_DRIVEWAY: _ClassVar[RoadNetworkSegment.RoadClass]
        SERVICE_ALLEY: _ClassVar[RoadNetworkSegment.RoadClass]
        SERVICE_EMERGENCY_ACCESS: _ClassVar[RoadNetworkSegment.RoadClass]
        SERVICE_DRIVE_THROUGH: _ClassVar[RoadNetworkSegment.RoadClass]
        MOTORWAY_LINK: _ClassVar[RoadNetworkSegment.RoadClass]
        TRUNK_LINK: _ClassVar[RoadNetworkSegment.RoadClass]
        PRIMARY_LINK: _ClassVar[RoadNetworkSegment.RoadClass]
        SECONDARY_LINK: _ClassVar[RoadNetworkSegment.RoadClass]
        TERTIARY_LINK: _ClassVar[RoadNetworkSegment.RoadClass]
        SERVICE_LIVING_STREET: _ClassVar[RoadNetworkSegment.RoadClass]
        PEDESTRIAN: _ClassVar[RoadNetworkSegment.RoadClass]
        PATH: _ClassVar[RoadNetworkSegment.RoadClass]
        STEPS: _ClassVar[RoadNetworkSegment.RoadClass]
        CYCLEWAY: _ClassVar[RoadNetworkSegment.RoadClass]
    UNKNOWN_ROAD_CLASS: RoadNetworkSegment.RoadClass
    MOTORWAY: RoadNetworkSegment.RoadClass
    TRUNK: RoadNetworkSegment.RoadClass
    PRIMARY: RoadNetworkSegment.RoadClass
    SECONDARY: RoadNetworkSegment.RoadClass
    TERTIARY: RoadNetworkSegment.RoadClass
    RESIDENTIAL: RoadNetworkSegment.RoadClass
    UNCLASSIFIED: RoadNetworkSegment.RoadClass
    SERVICE: RoadNetworkSegment.RoadClass
    SERVICE_PARKING_AISLE: RoadNetworkSegment.RoadClass
    SERVICE_DRIVEWAY: RoadNetworkSegment.RoadClass
    SERVICE_ALLEY: RoadNetworkSegment.RoadClass
    SERVICE_EMERGENCY_ACCESS: RoadNetworkSegment.RoadClass
    SERVICE_DRIVE_THROUGH: RoadNetworkSegment.RoadClass
    MOTORWAY_LINK: RoadNetworkSegment.RoadClass
    TRUNK_LINK: RoadNetworkSegment.RoadClass
    PRIMARY_LINK: RoadNetworkSegment.RoadClass
    SECONDARY_LINK: RoadNetworkSegment.RoadClass
    TERTIARY_LINK: RoadNetworkSegment.RoadClass
    SERVICE_LIVING_STREET: RoadNetworkSegment.RoadClass
    PEDESTRIAN: RoadNetworkSegment.RoadClass
    PATH: RoadNetworkSegment.RoadClass
    STEPS: RoadNetworkSegment.RoadClass
    CYCLEWAY: RoadNetworkSegment.RoadClass
    class TravelDirection(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN_TRAVEL_DIRECTION: _ClassVar[RoadNetworkSegment.TravelDirection]
        TWO_WAY: _ClassVar[RoadNetworkSegment.TravelDirection]
        ONE_WAY_FORWARD: _ClassVar[RoadNetworkSegment.TravelDirection]
        ONE_WAY_BACKWARD: _ClassVar[RoadNetworkSegment.TravelDirection]
        ONE_WAY_REVERSIBLE: _ClassVar[RoadNetworkSegment.TravelDirection]
    UNKNOWN_TRAVEL_DIRECTION: RoadNetworkSegment.TravelDirection
    TWO_WAY: RoadNetworkSegment.TravelDirection
    ONE_WAY_FORWARD: RoadNetworkSegment.TravelDirection
    ONE_WAY_BACKWARD: RoadNetworkSegment.TravelDirection
    ONE_WAY_REVERSIBLE: RoadNetworkSegment.TravelDirection
    class SideOfSegment(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN_SIDE_OF_SEGMENT: _ClassVar[RoadNetworkSegment.SideOfSegment]
        EITHER_SIDE_OF_SEGMENT: _ClassVar[RoadNetworkSegment.SideOfSegment]
        SEGMENT_LEFT: _ClassVar[RoadNetworkSegment.SideOfSegment]
        SEGMENT_RIGHT: _ClassVar[RoadNetworkSegment.SideOfSegment]
        NEITHER_SIDE_OF_SEGMENT: _ClassVar[RoadNetworkSegment.SideOfSegment]
    UNKNOWN_SIDE_OF_SEGMENT: RoadNetworkSegment.SideOfSegment
    EITHER_SIDE_OF_SEGMENT: RoadNetworkSegment.SideOfSegment
    SEGMENT_LEFT: RoadNetworkSegment.SideOfSegment
    SEGMENT_RIGHT: RoadNetworkSegment.SideOfSegment
    NEITHER_SIDE_OF_SEGMENT: RoadNetworkSegment.SideOfSegment
    class BikeAccess(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[RoadNetworkSegment.BikeAccess]
        NOT_ALLOWED: _ClassVar[RoadNetworkSegment.BikeAccess]
        ALLOWED: _ClassVar[RoadNetworkSegment.BikeAccess]
        SHARED: _ClassVar[RoadNetworkSegment.BikeAccess]
        DEDICATED: _ClassVar[RoadNetworkSegment.BikeAccess]
        PROTECTED: _ClassVar[RoadNetworkSegment.BikeAccess]
    UNKNOWN: RoadNetworkSegment.BikeAccess
    NOT_ALLOWED: RoadNetworkSegment.BikeAccess
    ALLOWED: RoadNetworkSegment.BikeAccess
    SHARED: RoadNetworkSegment.BikeAccess
    DEDICATED: RoadNetworkSegment.BikeAccess
    PROTECTED: RoadNetworkSegment.BikeAccess
    class LaneSet(_message.Message):
        __slots__ = ("num_driving_lanes", "num_left_turn_driving_lanes", "num_right_turn_driving_lanes", "turn_descriptions_for_driving_lanes", "bike_lane_access")
        class BikeLaneAccess(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            UNKNOWN_BIKE_ACCESS: _ClassVar[RoadNetworkSegment.LaneSet.BikeLaneAccess]
            NO: _ClassVar[RoadNetworkSegment.LaneSet.BikeLaneAccess]
            SHARED: _ClassVar[RoadNetworkSegment.LaneSet.BikeLaneAccess]
            DESIGNATED: _ClassVar[RoadNetworkSegment.LaneSet.BikeLaneAccess]
            DESIGNATED_BACKWARDS: _ClassVar[RoadNetworkSegment.LaneSet.BikeLaneAccess]
            DESIGNATED_SHARED: _ClassVar[RoadNetworkSegment.LaneSet.BikeLaneAccess]
        UNKNOWN_BIKE_ACCESS: RoadNetworkSegment.LaneSet.BikeLaneAccess
        NO: RoadNetworkSegment.LaneSet.BikeLaneAccess
        SHARED: RoadNetworkSegment.LaneSet.BikeLaneAccess
        DESIGNATED: RoadNetworkSegment.LaneSet.BikeLaneAccess
        DESIGNATED_BACKWARDS: RoadNetworkSegment.LaneSet.BikeLaneAccess
        DESIGNATED_SHARED: RoadNetworkSegment.LaneSet.BikeLaneAccess
        NUM_DRIVING_LANES_FIELD_NUMBER: _ClassVar[int]
        NUM_LEFT_TURN_DRIVING_LANES_FIELD_NUMBER: _ClassVar[int]
        NUM_RIGHT_TURN_DRIVING_LANES_FIELD_NUMBER: _ClassVar[int]
        TURN_DESCRIPTIONS_FOR_DRIVING_LANES_FIELD_NUMBER: _ClassVar[int]
        BIKE_LANE_ACCESS_FIELD_NUMBER: _ClassVar[int]
        num_driving_lanes: int
        num_left_turn_driving_lanes: int
        num_right_turn_driving_lanes: int
        turn_descriptions_for_driving_lanes: str
        bike_lane_access: _containers.RepeatedScalarFieldContainer[RoadNetworkSegment.LaneSet.BikeLaneAccess]
        def __init__(self, num_driving_lanes: _Optional[int] = ..., num_left_turn_driving_lanes: _Optional[int] = ..., num_right_turn_driving_lanes: _Optional[int] = ..., turn_descriptions_for_driving_lanes: _Optional[str] = ..., bike_lane_access: _Optional[_Iterable[_Union[RoadNetworkSegment.LaneSet.BikeLaneAccess, str]]] = ...) -> None: ...
    VERTICES_FIELD_NUMBER: _ClassVar[int]
    START_NODE_FIELD_NUMBER: _ClassVar[int]
    END_NODE_FIELD_NUMBER: _ClassVar[int]
    FORWARD_LANE_SET_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROAD_CLASS_FIELD_NUMBER: _ClassVar[int]
    TRAVEL_DIRECTION_FIELD_NUMBER: _ClassVar[int]
    Z_LEVEL_FIELD_NUMBER: _ClassVar[int]
    SPEED_LIMIT_METERS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BACKWARD_DIRECTION_SPEED_LIMIT_METERS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    RESTRICTIONS_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    BACKWARD_LANE_SET_FIELD_NUMBER: _ClassVar[int]
    IS_PRIVATE_FIELD_NUMBER: _ClassVar[int]
    NUM_BIDIRECTIONAL_LANES_FIELD_NUMBER: _ClassVar[int]
    IS_TOLL_ROAD_FIELD_NUMBER: _ClassVar[int]
    DRIVEABLE_FIELD_NUMBER: _ClassVar[int]
    WALKABLE_FIELD_NUMBER: _ClassVar[int]
    FORWARD_BIKEABLE_FIELD_NUMBER: _ClassVar[int]
    BACKWARD_BIKEABLE_FIELD_NUMBER: _ClassVar[int]
    vertices: _containers.RepeatedCompositeFieldContainer[GeoLocation]
    start_node: GlobalId
    end_node: GlobalId
    forward_lane_set: RoadNetworkSegment.LaneSet
    name: _containers.RepeatedCompositeFieldContainer[LocalizedString]
    road_class: RoadNetworkSegment.RoadClass
    travel_direction: RoadNetworkSegment.TravelDirection
    z_level: int
    speed_limit_meters_per_second: float
    backward_direction_speed_limit_meters_per_second: float
    restrictions: _containers.RepeatedCompositeFieldContainer[GlobalId]
    lanes: _containers.RepeatedCompositeFieldContainer[GlobalId]
    backward_lane_set: RoadNetworkSegment.LaneSet
    is_private: bool
    num_bidirectional_lanes: int
    is_toll_road: bool
    driveable: bool
    walkable: RoadNetworkSegment.SideOfSegment
    forward_bikeable: RoadNetworkSegment.BikeAccess
    backward_bikeable: RoadNetworkSegment.BikeAccess
    def __init__(self, vertices: _Optional[_Iterable[_Union[GeoLocation, _Mapping[str, object]]]] = ..., start_node: _Optional[_Union[GlobalId, _Mapping[str, object]]] = ..., end_node: _Optional[_Union[GlobalId, _Mapping[str, object]]] = ..., forward_lane_set: _Optional[_Union[RoadNetworkSegment.LaneSet, _Mapping[str, object]]] = ..., name: _Optional[_Iterable[_Union[LocalizedString, _Mapping[str, object]]]] = ..., road_class: _Optional[_Union[RoadNetworkSegment.RoadClass, str]] = ..., travel_direction: _Optional[_Union[RoadNetworkSegment.TravelDirection, str]] = ..., z_level: _Optional[int] = ..., speed_limit_meters_per_second: _Optional[float] = ..., backward_direction_speed_limit_meters_per_second: _Optional[float] = ..., restrictions: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ..., lanes: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ..., backward_lane_set: _Optional[_Union[RoadNetworkSegment.LaneSet, _Mapping[str, object]]] = ..., is_private: _Optional[bool] = ..., num_bidirectional_lanes: _Optional[int] = ..., is_toll_road: _Optional[bool] = ..., driveable: _Optional[bool] = ..., walkable: _Optional[_Union[RoadNetworkSegment.SideOfSegment, str]] = ..., forward_bikeable: _Optional[_Union[RoadNetworkSegment.BikeAccess, str]] = ..., backward_bikeable: _Optional[_Union[RoadNetworkSegment.BikeAccess, str]] = ...) -> None: ...

class SegmentSequence(_message.Message):
    __slots__ = ("type", "segments")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[SegmentSequence.Type]
        FORBIDDEN: _ClassVar[SegmentSequence.Type]
        MANDATORY: _ClassVar[SegmentSequence.Type]
    UNKNOWN: SegmentSequence.Type
    FORBIDDEN: SegmentSequence.Type
    MANDATORY: SegmentSequence.Type
    class SegmentWithOrientation(_message.Message):
        __slots__ = ("segment", "orientation")
        class Orientation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            UNKNOWN: _ClassVar[SegmentSequence.SegmentWithOrientation.Orientation]
            FORWARD: _ClassVar[SegmentSequence.SegmentWithOrientation.Orientation]
            BACKWARD: _ClassVar[SegmentSequence.SegmentWithOrientation.Orientation]
        UNKNOWN: SegmentSequence.SegmentWithOrientation.Orientation
        FORWARD: SegmentSequence.SegmentWithOrientation.Orientation
        BACKWARD: SegmentSequence.SegmentWithOrientation.Orientation
        SEGMENT_FIELD_NUMBER: _ClassVar[int]
        ORIENTATION_FIELD_NUMBER: _ClassVar[int]
        segment: GlobalId
        orientation: SegmentSequence.SegmentWithOrientation.Orientation
        def __init__(self, segment: _Optional[_Union[GlobalId, _Mapping[str, object]]] = ..., orientation: _Optional[_Union[SegmentSequence.SegmentWithOrientation.Orientation, str]] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    type: SegmentSequence.Type
    segments: _containers.RepeatedCompositeFieldContainer[SegmentSequence.SegmentWithOrientation]
    def __init__(self, type: _Optional[_Union[SegmentSequence.Type, str]] = ..., segments: _Optional[_Iterable[_Union[SegmentSequence.SegmentWithOrientation, _Mapping[str, object]]]] = ...) -> None: ...

class Lane(_message.Message):
    __slots__ = ("parent_segment_or_junction", "geo_frame", "left_boundary", "right_boundary", "lanes_ahead", "adjacent_lane_change_left", "adjacent_lane_change_right", "traffic_controls", "yield_to_lanes", "can_have_parked_cars", "access_restriction", "orientation_in_parent_segment", "turn_type_in_parent_junction", "tolls")
    class TurnType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[Lane.TurnType]
        THROUGH: _ClassVar[Lane.TurnType]
        LEFT: _ClassVar[Lane.TurnType]
        SHARP_LEFT: _ClassVar[Lane.TurnType]
        RIGHT: _ClassVar[Lane.TurnType]
        SHARP_RIGHT: _ClassVar[Lane.TurnType]
        U_TURN: _ClassVar[Lane.TurnType]
    UNKNOWN: Lane.TurnType
    THROUGH: Lane.TurnType
    LEFT: Lane.TurnType
    SHARP_LEFT: Lane.TurnType
    RIGHT: Lane.TurnType
    SHARP_RIGHT: Lane.TurnType
    U_TURN: Lane.TurnType
    class Boundary(_message.Message):
        __slots__ = ("vertex_deltas_x_cm", "vertex_deltas_y_cm", "vertex_deltas_z_cm", "divider_type", "type_change_point_cm")
        class DividerType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            UNKNOWN: _ClassVar[Lane.Boundary.DividerType]
            NONE: _ClassVar[Lane.Boundary.DividerType]
            SINGLE_YELLOW_SOLID: _ClassVar[Lane.Boundary.DividerType]
            SINGLE_WHITE_SOLID: _ClassVar[Lane.Boundary.DividerType]
            SINGLE_YELLOW_DASHED: _ClassVar[Lane.Boundary.DividerType]
            SINGLE_WHITE_DASHED: _ClassVar[Lane.Boundary.DividerType]
            DOUBLE_YELLOW_SOLID: _ClassVar[Lane.Boundary.DividerType]
            DOUBLE_WHITE_SOLID: _ClassVar[Lane.Boundary.DividerType]
            DOUBLE_YELLOW_SOLID_FAR_DASHED_NEAR: _ClassVar[Lane.Boundary.DividerType]
            DOUBLE_YELLOW_DASHED_FAR_SOLID_NEAR: _ClassVar[Lane.Boundary.DividerType]
            CURB_RED: _ClassVar[Lane.Boundary.DividerType]
            CURB_YELLOW: _ClassVar[Lane.Boundary.DividerType]
            CURB: _ClassVar[Lane.Boundary.DividerType]
        UNKNOWN: Lane.Boundary.DividerType
        NONE: Lane.Boundary.DividerType
        SINGLE_YELLOW_SOLID: Lane.Boundary.DividerType
        SINGLE_WHITE_SOLID: Lane.Boundary.DividerType
        SINGLE_YELLOW_DASHED: Lane.Boundary.DividerType
        SINGLE_WHITE_DASHED: Lane.Boundary.DividerType
        DOUBLE_YELLOW_SOLID: Lane.Boundary.DividerType
        DOUBLE_WHITE_SOLID: Lane.Boundary.DividerType
        DOUBLE_YELLOW_SOLID_FAR_DASHED_NEAR: Lane.Boundary.DividerType
        DOUBLE_YELLOW_DASHED_FAR_SOLID_NEAR: Lane.Boundary.DividerType
        CURB_RED: Lane.Boundary.DividerType
        CURB_YELLOW: Lane.Boundary.DividerType
        CURB: Lane.Boundary.DividerType
        VERTEX_DELTAS_X_CM_FIELD_NUMBER: _ClassVar[int]
        VERTEX_DELTAS_Y_CM_FIELD_NUMBER: _ClassVar[int]
        VERTEX_DELTAS_Z_CM_FIELD_NUMBER: _ClassVar[int]
        DIVIDER_TYPE_FIELD_NUMBER: _ClassVar[int]
        TYPE_CHANGE_POINT_CM_FIELD_NUMBER: _ClassVar[int]
        vertex_deltas_x_cm: _containers.RepeatedScalarFieldContainer[int]
        vertex_deltas_y_cm: _containers.RepeatedScalarFieldContainer[int]
        vertex_deltas_z_cm: _containers.RepeatedScalarFieldContainer[int]
        divider_type: _containers.RepeatedScalarFieldContainer[Lane.Boundary.DividerType]
        type_change_point_cm: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, vertex_deltas_x_cm: _Optional[_Iterable[int]] = ..., vertex_deltas_y_cm: _Optional[_Iterable[int]] = ..., vertex_deltas_z_cm: _Optional[_Iterable[int]] = ..., divider_type: _Optional[_Iterable[_Union[Lane.Boundary.DividerType, str]]] = ..., type_change_point_cm: _Optional[_Iterable[int]] = ...) -> None: ...
    PARENT_SEGMENT_OR_JUNCTION_FIELD_NUMBER: _ClassVar[int]
    GEO_FRAME_FIELD_NUMBER: _ClassVar[int]
    LEFT_BOUNDARY_FIELD_NUMBER: _ClassVar[int]
    RIGHT_BOUNDARY_FIELD_NUMBER: _ClassVar[int]
    LANES_AHEAD_FIELD_NUMBER: _ClassVar[int]
    ADJACENT_LANE_CHANGE_LEFT_FIELD_NUMBER: _ClassVar[int]
    ADJACENT_LANE_CHANGE_RIGHT_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_CONTROLS_FIELD_NUMBER: _ClassVar[int]
    YIELD_TO_LANES_FIELD_NUMBER: _ClassVar[int]
    CAN_HAVE_PARKED_CARS_FIELD_NUMBER: _ClassVar[int]
    ACCESS_RESTRICTION_FIELD_NUMBER: _ClassVar[int]
    ORIENTATION_IN_PARENT_SEGMENT_FIELD_NUMBER: _ClassVar[int]
    TURN_TYPE_IN_PARENT_JUNCTION_FIELD_NUMBER: _ClassVar[int]
    TOLLS_FIELD_NUMBER: _ClassVar[int]
    parent_segment_or_junction: GlobalId
    geo_frame: GeoFrame
    left_boundary: Lane.Boundary
    right_boundary: Lane.Boundary
    lanes_ahead: _containers.RepeatedCompositeFieldContainer[GlobalId]
    adjacent_lane_change_left: GlobalId
    adjacent_lane_change_right: GlobalId
    traffic_controls: _containers.RepeatedCompositeFieldContainer[GlobalId]
    yield_to_lanes: _containers.RepeatedCompositeFieldContainer[GlobalId]
    can_have_parked_cars: bool
    access_restriction: AccessRestriction
    orientation_in_parent_segment: RoadNetworkSegment.TravelDirection
    turn_type_in_parent_junction: Lane.TurnType
    tolls: _containers.RepeatedCompositeFieldContainer[GlobalId]
    def __init__(self, parent_segment_or_junction: _Optional[_Union[GlobalId, _Mapping[str, object]]] = ..., geo_frame: _Optional[_Union[GeoFrame, _Mapping[str, object]]] = ..., left_boundary: _Optional[_Union[Lane.Boundary, _Mapping[str, object]]] = ..., right_boundary: _Optional[_Union[Lane.Boundary, _Mapping[str, object]]] = ..., lanes_ahead: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ..., adjacent_lane_change_left: _Optional[_Union[GlobalId, _Mapping[str, object]]] = ..., adjacent_lane_change_right: _Optional[_Union[GlobalId, _Mapping[str, object]]] = ..., traffic_controls: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ..., yield_to_lanes: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ..., can_have_parked_cars: _Optional[bool] = ..., access_restriction: _Optional[_Union[AccessRestriction, _Mapping[str, object]]] = ..., orientation_in_parent_segment: _Optional[_Union[RoadNetworkSegment.TravelDirection, str]] = ..., turn_type_in_parent_junction: _Optional[_Union[Lane.TurnType, str]] = ..., tolls: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ...) -> None: ...

class TrafficControlElement(_message.Message):
    __slots__ = ("geo_frame", "points_x_deltas_cm", "points_y_deltas_cm", "points_z_deltas_cm", "controlled_paths", "geometry_type", "stop_sign", "yield_sign", "signal_flashing_yellow", "signal_flashing_red", "signal_red_face", "signal_yellow_face", "signal_green_face", "speed_bump", "pedestrian_crosswalk", "keep_clear_zone", "pedestrian_crossing_sign", "signal_ahead_sign", "no_left_turn_sign", "no_right_turn_sign", "left_turn_yield_on_green_sign", "no_parking_sign", "one_way_sign", "school_zone_sign", "speed_bump_sign", "traffic_light", "signal_left_arrow_red_face", "signal_left_arrow_green_face", "signal_right_arrow_red_face", "signal_right_arrow_green_face", "speed_hump", "parking_zone", "signal_left_arrow_yellow_face", "signal_right_arrow_yellow_face", "signal_upper_left_arrow_red_face", "signal_upper_left_arrow_yellow_face", "signal_upper_left_arrow_green_face", "signal_upper_right_arrow_red_face", "signal_upper_right_arrow_yellow_face", "signal_upper_right_arrow_green_face", "signal_red_u_turn", "signal_yellow_u_turn", "signal_green_u_turn", "stop_line", "construction_zone", "stop_here_for_pedestrians_sign", "state_law_stop_for_pedestrian_in_crosswalk_sign", "yield_here_for_pedestrians_sign", "turning_vehicles_yield_to_pedestrians_sign", "state_law_yield_for_pedestrian_sign", "railroad_crossing_regulatory_sign", "railroad_crossing_warning_sign", "railroad_crossing_other_sign", "roundabout_circulation_sign", "roundabout_directional_sign", "roundabout_other_sign", "no_left_turn_on_red_sign", "no_right_turn_on_red_sign", "no_turn_on_red_sign", "do_not_enter_sign", "no_u_turn_sign", "no_left_and_u_turn_sign", "no_straight_through_sign", "left_turn_only_sign", "right_turn_only_sign", "u_turn_only_sign", "straight_through_only_sign", "other_turn_restriction_sign", "construction_zone_sign")
    class GeometryType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UKNOWN: _ClassVar[TrafficControlElement.GeometryType]
        POINT: _ClassVar[TrafficControlElement.GeometryType]
        MULTI_POINT: _ClassVar[TrafficControlElement.GeometryType]
        LINESTRING: _ClassVar[TrafficControlElement.GeometryType]
        POLYGON: _ClassVar[TrafficControlElement.GeometryType]
    UKNOWN: TrafficControlElement.GeometryType
    POINT: TrafficControlElement.GeometryType
    MULTI_POINT: TrafficControlElement.GeometryType
    LINESTRING: TrafficControlElement.GeometryType
    POLYGON: TrafficControlElement.GeometryType
    class PedestrianCrosswalk(_message.Message):
        __slots__ = ("traffic_lights", "yield_lines")
        TRAFFIC_LIGHTS_FIELD_NUMBER: _ClassVar[int]
        YIELD_LINES_FIELD_NUMBER: _ClassVar[int]
        traffic_lights: _containers.RepeatedCompositeFieldContainer[GlobalId]
        yield_lines: _containers.RepeatedCompositeFieldContainer[GlobalId]
        def __init__(self, traffic_lights: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ..., yield_lines: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ...) -> None: ...
    class AuxiliaryElement(_message.Message):
        __slots__ = ("primary_traffic_control_elements",)
        PRIMARY_TRAFFIC_CONTROL_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
        primary_traffic_control_elements: _containers.RepeatedCompositeFieldContainer[GlobalId]
        def __init__(self, primary_traffic_control_elements: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ...) -> None: ...
    class TrafficLight(_message.Message):
        __slots__ = ("face_states",)
        FACE_STATES_FIELD_NUMBER: _ClassVar[int]
        face_states: _containers.RepeatedCompositeFieldContainer[GlobalId]
        def __init__(self, face_states: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ...) -> None: ...
    class TrafficLightFaceState(_message.Message):
        __slots__ = ("yield_rules_when_on", "no_right_turn_on_red")
        class YieldSet(_message.Message):
            __slots__ = ("lane", "yield_to_lanes", "yield_to_crosswalks")
            LANE_FIELD_NUMBER: _ClassVar[int]
            YIELD_TO_LANES_FIELD_NUMBER: _ClassVar[int]
            YIELD_TO_CROSSWALKS_FIELD_NUMBER: _ClassVar[int]
            lane: GlobalId
            yield_to_lanes: _containers.RepeatedCompositeFieldContainer[GlobalId]
            yield_to_crosswalks: _containers.RepeatedCompositeFieldContainer[GlobalId]
            def __init__(self, lane: _Optional[_Union[GlobalId, _Mapping[str, object]]] = ..., yield_to_lanes: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ..., yield_to_crosswalks: _Optional[_Iterable[_Union[GlobalId, _Mapping[str, object]]]] = ...) -> None: ...
        YIELD_RULES_WHEN_ON_FIELD_NUMBER: _ClassVar[int]
        NO_RIGHT_TURN_ON_RED_FIELD_NUMBER: _ClassVar[int]
        yield_rules_when_on: _containers.RepeatedCompositeFieldContainer[TrafficControlElement.TrafficLightFaceState.YieldSet]
        no_right_turn_on_red: bool
        def __init__(self, yield_rules_when_on: _Optional[_Iterable[_Union[TrafficControlElement.TrafficLightFaceState.YieldSet, _Mapping[str, object]]]] = ..., no_right_turn_on_red: _Optional[bool] = ...) -> None: ...
    GEO_FRAME_FIELD_NUMBER: _ClassVar[int]
    POINTS_X_DELTAS_CM_FIELD_NUMBER: _ClassVar[int]
    POINTS_Y_DELTAS_CM_FIELD_NUMBER: _ClassVar[int]
    POINTS_Z_DELTAS_CM_FIELD_NUMBER: _ClassVar[int]
    CONTROLLED_PATHS_FIELD_NUMBER: _ClassVar[int]
    GEOMETRY_TYPE_FIELD_NUMBER: _ClassVar[int]
    STOP_SIGN_FIELD_NUMBER: _ClassVar[int]
    YIELD_SIGN_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FLASHING_YELLOW_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FLASHING_RED_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_RED_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_YELLOW_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_GREEN_FACE_FIELD_NUMBER: _ClassVar[int]
    SPEED_BUMP_FIELD_NUMBER: _ClassVar[int]
    PEDESTRIAN_CROSSWALK_FIELD_NUMBER: _ClassVar[int]
    KEEP_CLEAR_ZONE_FIELD_NUMBER: _ClassVar[int]
    PEDESTRIAN_CROSSING_SIGN_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_AHEAD_SIGN_FIELD_NUMBER: _ClassVar[int]
    NO_LEFT_TURN_SIGN_FIELD_NUMBER: _ClassVar[int]
    NO_RIGHT_TURN_SIGN_FIELD_NUMBER: _ClassVar[int]
    LEFT_TURN_YIELD_ON_GREEN_SIGN_FIELD_NUMBER: _ClassVar[int]
    NO_PARKING_SIGN_FIELD_NUMBER: _ClassVar[int]
    ONE_WAY_SIGN_FIELD_NUMBER: _ClassVar[int]
    SCHOOL_ZONE_SIGN_FIELD_NUMBER: _ClassVar[int]
    SPEED_BUMP_SIGN_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_LIGHT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_LEFT_ARROW_RED_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_LEFT_ARROW_GREEN_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_RIGHT_ARROW_RED_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_RIGHT_ARROW_GREEN_FACE_FIELD_NUMBER: _ClassVar[int]
    SPEED_HUMP_FIELD_NUMBER: _ClassVar[int]
    PARKING_ZONE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_LEFT_ARROW_YELLOW_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_RIGHT_ARROW_YELLOW_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_UPPER_LEFT_ARROW_RED_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_UPPER_LEFT_ARROW_YELLOW_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_UPPER_LEFT_ARROW_GREEN_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_UPPER_RIGHT_ARROW_RED_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_UPPER_RIGHT_ARROW_YELLOW_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_UPPER_RIGHT_ARROW_GREEN_FACE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_RED_U_TURN_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_YELLOW_U_TURN_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_GREEN_U_TURN_FIELD_NUMBER: _ClassVar[int]
    STOP_LINE_FIELD_NUMBER: _ClassVar[int]
    CONSTRUCTION_ZONE_FIELD_NUMBER: _ClassVar[int]
    STOP_HERE_FOR_PEDESTRIANS_SIGN_FIELD_NUMBER: _ClassVar[int]
    STATE_LAW_STOP_FOR_PEDESTRIAN_IN_CROSSWALK_SIGN_FIELD_NUMBER: _ClassVar[int]
    YIELD_HERE_FOR_PEDESTRIANS_SIGN_FIELD_NUMBER: _ClassVar[int]
    TURNING_VEHICLES_YIELD_TO_PEDESTRIANS_SIGN_FIELD_NUMBER: _ClassVar[int]
    STATE_LAW_YIELD_FOR_PEDESTRIAN_SIGN_FIELD_NUMBER: _ClassVar[int]
    RAILROAD_CROSSING_REGULATORY_SIGN_FIELD_NUMBER: _ClassVar[int]
    RAILROAD_CROSSING_WARNING_SIGN_FIELD_NUMBER: _ClassVar[int]
    RAILROAD_CROSSING_OTHER_SIGN_FIELD_NUMBER: _ClassVar[int]
    ROUNDABOUT_CIRCULATION_SIGN_FIELD_NUMBER: _ClassVar[int]
    ROUNDABOUT_DIRECTIONAL_SIGN_FIELD_NUMBER: _ClassVar[int]
    ROUNDABOUT_OTHER_SIGN_FIELD_NUMBER: _ClassVar[int]
    NO_LEFT_TURN_ON_RED_SIGN_FIELD_NUMBER: _ClassVar[int]
    NO_RIGHT_TURN_ON_RED_SIGN_FIELD_NUMBER: _ClassVar[int]
    NO_TURN_ON_RED_SIGN_FIELD_NUMBER: _ClassVar[int]
    DO_NOT_ENTER_SIGN_FIELD_NUMBER: _ClassVar[int]
    NO_U_TURN_SIGN_FIELD_NUMBER: _ClassVar[int]
    NO_LEFT_AND_U_TURN_SIGN_FIELD_NUMBER: _ClassVar[int]
    NO_STRAIGHT_THROUGH_SIGN_FIELD_NUMBER: _ClassVar[int]
    LEFT_TURN_ONLY_SIGN_FIELD_NUMBER: _ClassVar[int]
    RIGHT_TURN_ONLY_SIGN_FIELD_NUMBER: _ClassVar[int]
    U_TURN_ONLY_SIGN_FIELD_NUMBER: _ClassVar[int]
    STRAIGHT_THROUGH_ONLY_SIGN_FIELD_NUMBER: _ClassVar[int]
    OTHER_TURN_RESTRICTION_SIGN_FIELD_NUMBER: _ClassVar[int]
    CONSTRUCTION_ZONE_SIGN_FIELD_NUMBER: _ClassVar[int]
    geo_frame: GeoFrame
    points_x_deltas_cm: _containers.RepeatedScalarFieldContainer[int]
    points_y_deltas_cm: _containers.RepeatedScalarFieldContainer[int]
    points_z_deltas_cm: _containers.RepeatedScalarFieldContainer[int]
    controlled_paths: _containers.RepeatedCompositeFieldContainer[LaneSequence]
    geometry_type: TrafficControlElement.GeometryType
    stop_sign: Empty
    yield_sign: Empty
    signal_flashing_yellow: TrafficControlElement.TrafficLightFaceState
    signal_flashing_red: TrafficControlElement.TrafficLightFaceState
    signal_red_face: TrafficControlElement.TrafficLightFaceState
    signal_yellow_face: TrafficControlElement.TrafficLightFaceState
    signal_green_face: TrafficControlElement.TrafficLightFaceState
    speed_bump: Empty
    pedestrian_crosswalk: TrafficControlElement.PedestrianCrosswalk
    keep_clear_zone: Empty
    pedestrian_crossing_sign: Empty
    signal_ahead_sign: Empty
    no_left_turn_sign: Empty
    no_right_turn_sign: Empty
    left_turn_yield_on_green_sign: Empty
    no_parking_sign: Empty
    one_way_sign: Empty
    school_zone_sign: Empty
    speed_bump_sign: Empty
    traffic_light: TrafficControlElement.TrafficLight
    signal_left_arrow_red_face: TrafficControlElement.TrafficLightFaceState
    signal_left_arrow_green_face: TrafficControlElement.TrafficLightFaceState
    signal_right_arrow_red_face: TrafficControlElement.TrafficLightFaceState
    signal_right_arrow_green_face: TrafficControlElement.TrafficLightFaceState
    speed_hump: Empty
    parking_zone: Empty
    signal_left_arrow_yellow_face: TrafficControlElement.TrafficLightFaceState
    signal_right_arrow_yellow_face: TrafficControlElement.TrafficLightFaceState
    signal_upper_left_arrow_red_face: TrafficControlElement.TrafficLightFaceState
    signal_upper_left_arrow_yellow_face: TrafficControlElement.TrafficLightFaceState
    signal_upper_left_arrow_green_face: TrafficControlElement.TrafficLightFaceState
    signal_upper_right_arrow_red_face: TrafficControlElement.TrafficLightFaceState
    signal_upper_right_arrow_yellow_face: TrafficControlElement.TrafficLightFaceState
    signal_upper_right_arrow_green_face: TrafficControlElement.TrafficLightFaceState
    signal_red_u_turn: TrafficControlElement.TrafficLightFaceState
    signal_yellow_u_turn: TrafficControlElement.TrafficLightFaceState
    signal_green_u_turn: TrafficControlElement.TrafficLightFaceState
    stop_line: TrafficControlElement.AuxiliaryElement
    construction_zone: Empty
    stop_here_for_pedestrians_sign: Empty
    state_law_stop_for_pedestrian_in_crosswalk_sign: Empty
    yield_here_for_pedestrians_sign: Empty
    turning_vehicles_yield_to_pedestrians_sign: Empty
    state_law_yield_for_pedestrian_sign: Empty
    railroad_crossing_regulatory_sign: Empty
    railroad_crossing_warning_sign: Empty
    railroad_crossing_other_sign: Empty
    roundabout_circulation_sign: Empty
    roundabout_directional_sign: Empty
    roundabout_other_sign: Empty
    no_left_turn_on_red_sign: Empty
    no_right_turn_on_red_sign: Empty
    no_turn_on_red_sign: Empty
    do_not_enter_sign: Empty
    no_u_turn_sign: Empty
    no_left_and_u_turn_sign: Empty
    no_straight_through_sign: Empty
    left_turn_only_sign: Empty
    right_turn_only_sign: Empty
    u_turn_only_sign: Empty
    straight_through_only_sign: Empty
    other_turn_restriction_sign: Empty
    construction_zone_sign: Empty
    def __init__(self, geo_frame: _Optional[_Union[GeoFrame, _Mapping[str, object]]] = ..., points_x_deltas_cm: _Optional[_Iterable[int]] = ..., points_y_deltas_cm: _Optional[_Iterable[int]] = ..., points_z_deltas_cm: _Optional[_Iterable[int]] = ..., controlled_paths: _Optional[_Iterable[_Union[LaneSequence, _Mapping[str, object]]]] = ..., geometry_type: _Optional[_Union[TrafficControlElement.GeometryType, str]] = ..., stop_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., yield_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., signal_flashing_yellow: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_flashing_red: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_red_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_yellow_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_green_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., speed_bump: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., pedestrian_crosswalk: _Optional[_Union[TrafficControlElement.PedestrianCrosswalk, _Mapping[str, object]]] = ..., keep_clear_zone: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., pedestrian_crossing_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., signal_ahead_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., no_left_turn_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., no_right_turn_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., left_turn_yield_on_green_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., no_parking_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., one_way_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., school_zone_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., speed_bump_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., traffic_light: _Optional[_Union[TrafficControlElement.TrafficLight, _Mapping[str, object]]] = ..., signal_left_arrow_red_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_left_arrow_green_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_right_arrow_red_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_right_arrow_green_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., speed_hump: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., parking_zone: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., signal_left_arrow_yellow_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_right_arrow_yellow_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_upper_left_arrow_red_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_upper_left_arrow_yellow_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_upper_left_arrow_green_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_upper_right_arrow_red_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_upper_right_arrow_yellow_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_upper_right_arrow_green_face: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_red_u_turn: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_yellow_u_turn: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., signal_green_u_turn: _Optional[_Union[TrafficControlElement.TrafficLightFaceState, _Mapping[str, object]]] = ..., stop_line: _Optional[_Union[TrafficControlElement.AuxiliaryElement, _Mapping[str, object]]] = ..., construction_zone: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., stop_here_for_pedestrians_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., state_law_stop_for_pedestrian_in_crosswalk_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., yield_here_for_pedestrians_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., turning_vehicles_yield_to_pedestrians_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., state_law_yield_for_pedestrian_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., railroad_crossing_regulatory_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., railroad_crossing_warning_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., railroad_crossing_other_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., roundabout_circulation_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., roundabout_directional_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., roundabout_other_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., no_left_turn_on_red_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., no_right_turn_on_red_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., no_turn_on_red_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., do_not_enter_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., no_u_turn_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., no_left_and_u_turn_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., no_straight_through_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., left_turn_only_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., right_turn_only_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., u_turn_only_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., straight_through_only_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., other_turn_restriction_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., construction_zone_sign: _Optional[_Union[Empty, _Mapping[str, object]]] = ...) -> None: ...

class AnnotatedShape(_message.Message):
    __slots__ = ("name", "multipolygon", "building", "region", "venue", "administrative_boundary", "park", "drivable_surface_prior")
    class Building(_message.Message):
        __slots__ = ("type", "height_meters", "above_ground_floors")
        class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            UNKNOWN: _ClassVar[AnnotatedShape.Building.Type]
            COMMERCIAL: _ClassVar[AnnotatedShape.Building.Type]
            RESIDENTIAL: _ClassVar[AnnotatedShape.Building.Type]
            TRANSPORTATION: _ClassVar[AnnotatedShape.Building.Type]
            HOSPITAL: _ClassVar[AnnotatedShape.Building.Type]
            EVENT: _ClassVar[AnnotatedShape.Building.Type]
            PARKING_STRUCTURE: _ClassVar[AnnotatedShape.Building.Type]
            RELIGIOUS: _ClassVar[AnnotatedShape.Building.Type]
            EDUCATIONAL: _ClassVar[AnnotatedShape.Building.Type]
            GOVERNMENTAL: _ClassVar[AnnotatedShape.Building.Type]
        UNKNOWN: AnnotatedShape.Building.Type
        COMMERCIAL: AnnotatedShape.Building.Type
        RESIDENTIAL: AnnotatedShape.Building.Type
        TRANSPORTATION: AnnotatedShape.Building.Type
        HOSPITAL: AnnotatedShape.Building.Type
        EVENT: AnnotatedShape.Building.Type
        PARKING_STRUCTURE: AnnotatedShape.Building.Type
        RELIGIOUS: AnnotatedShape.Building.Type
        EDUCATIONAL: AnnotatedShape.Building.Type
        GOVERNMENTAL: AnnotatedShape.Building.Type
        TYPE_FIELD_NUMBER: _ClassVar[int]
        HEIGHT_METERS_FIELD_NUMBER: _ClassVar[int]
        ABOVE_GROUND_FLOORS_FIELD_NUMBER: _ClassVar[int]
        type: AnnotatedShape.Building.Type
        height_meters: int
        above_ground_floors: int
        def __init__(self, type: _Optional[_Union[AnnotatedShape.Building.Type, str]] = ..., height_meters: _Optional[int] = ..., above_ground_floors: _Optional[int] = ...) -> None: ...
    class Region(_message.Message):
        __slots__ = ("source",)
        SOURCE_FIELD_NUMBER: _ClassVar[int]
        source: str
        def __init__(self, source: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    MULTIPOLYGON_FIELD_NUMBER: _ClassVar[int]
    BUILDING_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    VENUE_FIELD_NUMBER: _ClassVar[int]
    ADMINISTRATIVE_BOUNDARY_FIELD_NUMBER: _ClassVar[int]
    PARK_FIELD_NUMBER: _ClassVar[int]
    DRIVABLE_SURFACE_PRIOR_FIELD_NUMBER: _ClassVar[int]
    name: _containers.RepeatedCompositeFieldContainer[LocalizedString]
    multipolygon: MultiPolygon
    building: AnnotatedShape.Building
    region: AnnotatedShape.Region
    venue: Empty
    administrative_boundary: Empty
    park: Empty
    drivable_surface_prior: Empty
    def __init__(self, name: _Optional[_Iterable[_Union[LocalizedString, _Mapping[str, object]]]] = ..., multipolygon: _Optional[_Union[MultiPolygon, _Mapping[str, object]]] = ..., building: _Optional[_Union[AnnotatedShape.Building, _Mapping[str, object]]] = ..., region: _Optional[_Union[AnnotatedShape.Region, _Mapping[str, object]]] = ..., venue: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., administrative_boundary: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., park: _Optional[_Union[Empty, _Mapping[str, object]]] = ..., drivable_surface_prior: _Optional[_Union[Empty, _Mapping[str, object]]] = ...) -> None: ...

class MapElement(_message.Message):
    __slots__ = ("id", "element", "bounding_box", "associated_conditions")
    class Element(_message.Message):
        __slots__ = ("segment", "node", "lane", "traffic_control_element", "junction", "segment_sequence", "annotated_shape")
        SEGMENT_FIELD_NUMBER: _ClassVar[int]
        NODE_FIELD_NUMBER: _ClassVar[int]
        LANE_FIELD_NUMBER: _ClassVar[int]
        TRAFFIC_CONTROL_ELEMENT_FIELD_NUMBER: _ClassVar[int]
        JUNCTION_FIELD_NUMBER: _ClassVar[int]
        SEGMENT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        ANNOTATED_SHAPE_FIELD_NUMBER: _ClassVar[int]
        segment: RoadNetworkSegment
        node: RoadNetworkNode
        lane: Lane
        traffic_control_element: TrafficControlElement
        junction: Junction
        segment_sequence: SegmentSequence
        annotated_shape: AnnotatedShape
        def __init__(self, segment: _Optional[_Union[RoadNetworkSegment, _Mapping[str, object]]] = ..., node: _Optional[_Union[RoadNetworkNode, _Mapping[str, object]]] = ..., lane: _Optional[_Union[Lane, _Mapping[str, object]]] = ..., traffic_control_element: _Optional[_Union[TrafficControlElement, _Mapping[str, object]]] = ..., junction: _Optional[_Union[Junction, _Mapping[str, object]]] = ..., segment_sequence: _Optional[_Union[SegmentSequence, _Mapping[str, object]]] = ..., annotated_shape: _Optional[_Union[AnnotatedShape, _Mapping[str, object]]] = ...) -> None: ...
    class AssociatedConditions(_message.Message):
        __slots__ = ("conditions", "overrides")
        CONDITIONS_FIELD_NUMBER: _ClassVar[int]
        OVERRIDES_FIELD_NUMBER: _ClassVar[int]
        conditions: _containers.RepeatedCompositeFieldContainer[Condition]
        overrides: MapElement.Element
        def __init__(self, conditions: _Optional[_Iterable[_Union[Condition, _Mapping[str, object]]]] = ..., overrides: _Optional[_Union[MapElement.Element, _Mapping[str, object]]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_FIELD_NUMBER: _ClassVar[int]
    BOUNDING_BOX_FIELD_NUMBER: _ClassVar[int]
    ASSOCIATED_CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    id: GlobalId
    element: MapElement.Element
    bounding_box: LatLngBox
    associated_conditions: _containers.RepeatedCompositeFieldContainer[MapElement.AssociatedConditions]
    def __init__(self, id: _Optional[_Union[GlobalId, _Mapping[str, object]]] = ..., element: _Optional[_Union[MapElement.Element, _Mapping[str, object]]] = ..., bounding_box: _Optional[_Union[LatLngBox, _Mapping[str, object]]] = ..., associated_conditions: _Optional[_Iterable[_Union[MapElement.AssociatedConditions, _Mapping[str, object]]]] = ...) -> None: ...

class MapFragment(_message.Message):
    __slots__ = ("name", "elements")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    elements: _containers.RepeatedCompositeFieldContainer[MapElement]
    def __init__(self, name: _Optional[str] = ..., elements: _Optional[_Iterable[_Union[MapElement, _Mapping[str, object]]]] = ...) -> None: ...

"""The semantic map of a made town."""

import numpy as np

from l5kit._types import Float64Array
from l5kit.data.map.builder import MapBuilder
from l5kit.synthetic.names import FACE_COLORS, crosswalk_id, face_id, junction_id, lane_id, light_id, segment_id
from l5kit.synthetic.road_network import CAR_CONNECTOR, CAR_LANE, LEFT, RIGHT, RoadNetwork, line_lengths, offset_line
from l5kit.synthetic.town_plan import LANE_WIDTH_M, TownPlan

MAP_NAME = "made town"
"""The name of every such map, by which it is known."""

_PIECE_LENGTH_M = 35.0
_VERTEX_STEP = 3
_HEAD_HEIGHT_M = 5.5
_WIDENING_M = 15.0
"""Along which a lane gets its width that no other one leads into: there the road gets wider, at corners as a rule."""

_LEAST_WIDTH_SHARE = 0.1
_TURN_TYPE = {LEFT: "LEFT", RIGHT: "RIGHT"}


def build_map(plan: TownPlan, network: RoadNetwork, *, world_to_ecef: Float64Array, ground_z_m: float) -> MapBuilder:
    """Describe a town as a semantic map: lanes in pieces of up to 35 m, lights, crosswalks, roads, intersections."""
    builder = MapBuilder(world_to_ecef, name=MAP_NAME)
    # a light hangs above its head, and has a face of each colour
    for head, position_m in enumerate(network.heads.position_m):
        faces = [face_id(head, color) for color in FACE_COLORS]
        light_position = _at_height(position_m[None], ground_z_m + _HEAD_HEIGHT_M)
        builder.add_traffic_light(light_id(head), light_position, faces=faces)
        arrow = "left_arrow_" if network.heads.is_left[head] else ""
        for face, color in zip(faces, FACE_COLORS, strict=True):
            builder.add_traffic_light_face(face, kind=f"signal_{arrow}{color}_face")
    for lane in np.nonzero(network.lanes.kind == CAR_LANE)[0]:
        _add_road_lane(builder, plan, network, int(lane), ground_z_m)
    for lane in np.nonzero(network.lanes.kind == CAR_CONNECTOR)[0]:
        _add_connector(builder, network, int(lane), ground_z_m)
    for index, corners_m in enumerate(network.crosswalks.corners_m):
        builder.add_crosswalk(crosswalk_id(index), _at_height(corners_m, ground_z_m))
    _add_segments(builder, plan, network, ground_z_m)
    _add_junctions(builder, plan, network)
    return builder


def _at_height(points_m: Float64Array, z_m: float) -> Float64Array:
    return np.column_stack([points_m, np.full(len(points_m), z_m)])


def _num_pieces(network: RoadNetwork, lane: int) -> int:
    """Return into how many pieces a lane is cut; all lanes of a road are cut at the same points."""
    if network.lanes.kind[lane] != CAR_LANE:
        return 1
    num_points = int(network.lanes.end_point[lane] - network.lanes.first_point[lane])
    return max(1, round(num_points / _PIECE_LENGTH_M))


def _boundaries(points_m: Float64Array, z_m: float) -> tuple[Float64Array, Float64Array]:
    """Return the left and right boundary of a lane, (n, 3) each."""
    left, right = (offset_line(points_m, side * LANE_WIDTH_M / 2) for side in (1, -1))
    return _at_height(left, z_m), _at_height(right, z_m)


def _thinned(first: int, last: int) -> list[int]:
    """Return every third number from the first to the last, both included."""
    return [*range(first, last, _VERTEX_STEP), last]


def _heads_of(network: RoadNetwork, lane: int) -> list[int]:
    """Return the signal heads that control leaving a road lane."""
    heads = {int(network.lanes.head[connector]) for connector in network.next_of(lane)}
    return sorted(heads - {-1})


def _controls(network: RoadNetwork, lane: int) -> list[str]:
    heads = _heads_of(network, lane)
    return [name for h in heads for name in (light_id(h), *(face_id(h, color) for color in FACE_COLORS))]


def _add_road_lane(builder: MapBuilder, plan: TownPlan, network: RoadNetwork, lane: int, ground_z_m: float) -> None:
    points_m, count = network.lane_points_m(lane), _num_pieces(network, lane)
    left_m, right_m = _boundaries(points_m, ground_z_m)
    if not _is_entered(network, lane):
        shares = np.clip(line_lengths(points_m) / _WIDENING_M, _LEAST_WIDTH_SHARE, 1.0)
        right_m = left_m + shares[:, None] * (right_m - left_m)
    cuts = np.linspace(0, len(points_m) - 1, count + 1).round().astype(int)
    record = network.lanes[lane]
    connectors = [lane_id(connector, 0) for connector in network.next_of(lane)]
    forward = plan.roads[record.road].end == (record.node, record.arm)
    for piece in range(count):
        rows = _thinned(cuts[piece], cuts[piece + 1])
        is_last = piece == count - 1
        builder.add_lane(
            lane_id(lane, piece),
            left_m[rows],
            right_m[rows],
            lanes_ahead=connectors if is_last else [lane_id(lane, piece + 1)],
            change_left=None if record.left_lane < 0 else lane_id(record.left_lane, piece),
            change_right=None if record.right_lane < 0 else lane_id(record.right_lane, piece),
            traffic_controls=_controls(network, lane) if is_last else [],
            parent=segment_id(record.road),
            orientation="ONE_WAY_FORWARD" if forward else "ONE_WAY_BACKWARD",
        )


def _is_entered(network: RoadNetwork, lane: int) -> bool:
    """Return whether an intersection or a corner leads into a lane, or nothing does because the town ends there."""
    is_connector = network.lanes.kind == CAR_CONNECTOR
    left = int(network.lanes[lane].left_lane)
    entered = np.isin([lane, left], network.lanes.to_lane[is_connector])
    return bool(entered[0] or left < 0 or not entered[1])


def _add_connector(builder: MapBuilder, network: RoadNetwork, lane: int, ground_z_m: float) -> None:
    record = network.lanes[lane]
    left_m, right_m = _boundaries(network.lane_points_m(lane), ground_z_m)
    rows = _thinned(0, len(left_m) - 1)
    builder.add_lane(
        lane_id(lane, 0),
        left_m[rows],
        right_m[rows],
        lanes_ahead=[lane_id(int(record.to_lane), 0)],
        yield_to_lanes=[lane_id(other, 0) for other in _goes_first(network, lane)],
        parent=junction_id(int(record.node)),
        turn_type=_TURN_TYPE.get(int(record.turn), "THROUGH"),
    )


def _goes_first(network: RoadNetwork, lane: int) -> list[int]:
    """Return the connectors that cross a connector and have the right of way over it."""
    lanes, node = network.lanes, network.lanes.node[lane]
    others = np.nonzero((lanes.kind == CAR_CONNECTOR) & (lanes.node == node) & (lanes.priority > lanes.priority[lane]))
    shared = network.zone_end_m[node, lanes.local_index[lane], lanes.local_index[others[0]]] > -50.0
    elsewhere = lanes.from_lane[others[0]] != lanes.from_lane[lane]
    return [int(other) for other in others[0][shared & elsewhere]]


def _add_segments(builder: MapBuilder, plan: TownPlan, network: RoadNetwork, ground_z_m: float) -> None:
    for index, road in enumerate(plan.roads):
        lanes = np.nonzero((network.lanes.road == index) & (network.lanes.kind == CAR_LANE))[0]
        away = [lane for lane in lanes if (network.lanes.node[lane], network.lanes.arm[lane]) == road.end]
        back = [lane for lane in lanes if lane not in away]
        names = [lane_id(int(lane), p) for lane in [*back[::-1], *away] for p in range(_num_pieces(network, int(lane)))]
        builder.add_segment(
            segment_id(index),
            _at_height(road.centre_m[_thinned(0, len(road.centre_m) - 1)], ground_z_m),
            lanes=names,
            speed_limit_mps=road.speed_limit_mps,
            backward_speed_limit_mps=road.speed_limit_mps,
            road_class="SECONDARY" if road.is_arterial else "RESIDENTIAL",
            travel_direction="TWO_WAY",
        )


def _add_junctions(builder: MapBuilder, plan: TownPlan, network: RoadNetwork) -> None:
    for node in range(len(plan.position_m)):
        members = np.nonzero((network.lanes.kind == CAR_CONNECTOR) & (network.lanes.node == node))[0]
        heads = np.nonzero(network.heads.node == node)[0]
        crosswalks = network.arm_crosswalk[node][network.arm_crosswalk[node] >= 0]
        controls = [light_id(int(head)) for head in heads] + [crosswalk_id(int(c)) for c in crosswalks]
        builder.add_junction(
            junction_id(node),
            lanes=[lane_id(int(lane), 0) for lane in members],
            traffic_controls=controls,
            is_non_trivial_intersection=plan.controls[node] != "none",
        )

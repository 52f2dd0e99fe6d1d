"""Semantic map of a synthetic town, and the ids of its elements, which scenes refer to."""

import numpy as np

from l5kit._types import Float64Array
from l5kit.data.map.builder import MapBuilder
from l5kit.synthetic.road_network import CAR_CONNECTOR, CAR_LANE, LEFT, RIGHT, RoadNetwork, offset_line
from l5kit.synthetic.town_plan import LANE_WIDTH_M, TownPlan, line_lengths

FACE_COLORS = ("red", "yellow", "green")
"""Colours of the faces of a signal head, in the order of the states RED, YELLOW and GREEN."""

MAP_NAME = "made town"
"""Name of all such maps, by which they are recognised."""

_PIECE_LENGTH_M = 35.0
_VERTEX_STEP = 3
_HEAD_HEIGHT_M = 5.5
_WIDENING_M = 15.0
"""Length over which a lane without predecessor widens, as at corners where the road gets a lane more."""

_LEAST_WIDTH_SHARE = 0.1
_TURN_TYPE = {LEFT: "LEFT", RIGHT: "RIGHT"}


def build_map(plan: TownPlan, network: RoadNetwork, *, world_to_ecef: Float64Array, ground_z_m: float) -> MapBuilder:
    """Build the semantic map of a town: lanes in pieces of up to 35 m, lights, crosswalks, roads, intersections."""
    builder = MapBuilder(world_to_ecef, name=MAP_NAME)
    # a light is above its head, and has a face of each colour
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
    # lanes of a road from left to right: from the leftmost backward lane to the rightmost forward lane
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
    return builder


def _at_height(points_m: Float64Array, z_m: float) -> Float64Array:
    return np.column_stack([points_m, np.full(len(points_m), z_m)])


def _num_pieces(network: RoadNetwork, lane: int) -> int:
    """Return the number of pieces of a lane; all lanes of a road are cut at the same points."""
    if network.lanes.kind[lane] != CAR_LANE:
        return 1
    num_points = int(network.lanes.end_point[lane] - network.lanes.first_point[lane])
    return max(1, round(num_points / _PIECE_LENGTH_M))


def _boundaries(points_m: Float64Array, z_m: float) -> tuple[Float64Array, Float64Array]:
    """Return the left and right boundary of a lane, (n, 3) each."""
    left, right = (offset_line(points_m, side * LANE_WIDTH_M / 2) for side in (1, -1))
    return _at_height(left, z_m), _at_height(right, z_m)


def _thinned(first: int, last: int) -> list[int]:
    """Return every third number from the first to the last, both inclusive."""
    return [*range(first, last, _VERTEX_STEP), last]


def _add_road_lane(builder: MapBuilder, plan: TownPlan, network: RoadNetwork, lane: int, ground_z_m: float) -> None:
    points_m, count = network.lane_points_m(lane), _num_pieces(network, lane)
    left_m, right_m = _boundaries(points_m, ground_z_m)
    record = network.lanes[lane]
    # A lane without predecessor, whose left neighbour has one, starts where the road widens, and is narrow there. If
    # neither has a predecessor, the town ends there.
    left = int(record.left_lane)
    entered = np.isin([lane, left], network.lanes.to_lane[network.lanes.kind == CAR_CONNECTOR])
    if left >= 0 and entered[1] and not entered[0]:
        shares = np.clip(line_lengths(points_m) / _WIDENING_M, _LEAST_WIDTH_SHARE, 1.0)
        right_m = left_m + shares[:, None] * (right_m - left_m)
    # lights that control leaving the lane, and the connectors beyond it, belong to its last piece
    heads = sorted({int(network.lanes.head[connector]) for connector in network.next_of(lane)} - {-1})
    controls = [name for h in heads for name in (light_id(h), *(face_id(h, color) for color in FACE_COLORS))]
    connectors = [lane_id(connector, 0) for connector in network.next_of(lane)]
    cuts = np.linspace(0, len(points_m) - 1, count + 1).round().astype(int)
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
            traffic_controls=controls if is_last else [],
            parent=segment_id(record.road),
            orientation="ONE_WAY_FORWARD" if forward else "ONE_WAY_BACKWARD",
        )


def _add_connector(builder: MapBuilder, network: RoadNetwork, lane: int, ground_z_m: float) -> None:
    record = network.lanes[lane]
    left_m, right_m = _boundaries(network.lane_points_m(lane), ground_z_m)
    rows = _thinned(0, len(left_m) - 1)
    # Connectors of the intersection with higher priority that share an area (otherwise the zone ends at -100 m) go
    # first, except those from the same lane.
    lanes, node = network.lanes, record.node
    others = np.nonzero((lanes.kind == CAR_CONNECTOR) & (lanes.node == node) & (lanes.priority > record.priority))[0]
    shared = network.zone_end_m[node, record.local_index, lanes.local_index[others]] > -50.0
    goes_first = others[shared & (lanes.from_lane[others] != record.from_lane)]
    builder.add_lane(
        lane_id(lane, 0),
        left_m[rows],
        right_m[rows],
        lanes_ahead=[lane_id(int(record.to_lane), 0)],
        yield_to_lanes=[lane_id(int(other), 0) for other in goes_first],
        parent=junction_id(int(record.node)),
        turn_type=_TURN_TYPE.get(int(record.turn), "THROUGH"),
    )


def light_id(head: int) -> str:
    """Return the id of a traffic light."""
    return f"tl{head:05d}"


def face_id(head: int, color: str) -> str:
    """Return the id of the face of one colour of a traffic light."""
    return f"{light_id(head)}-{color[0]}"


def crosswalk_id(crosswalk: int) -> str:
    """Return the id of a crosswalk."""
    return f"cw{crosswalk:05d}"


def lane_id(lane: int, piece: int) -> str:
    """Return the id of a piece of a lane."""
    return f"l{lane:05d}-{piece:02d}"


def segment_id(road: int) -> str:
    """Return the id of a road."""
    return f"sg{road:05d}"


def junction_id(node: int) -> str:
    """Return the id of an intersection."""
    return f"jn{node:05d}"

"""Lanes, turns, crosswalks and signal heads of a synthetic town, as plain arrays.

Traffic is right-hand. A road lane runs from the stop line of one intersection to that of the next; a connector crosses
an intersection from one road lane to another.
"""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.geometry.angle import angular_distance
from l5kit.synthetic.conflicts import conflict_zone_ends, crossing_ends
from l5kit.synthetic.signals import SignalHead, plan_signals
from l5kit.synthetic.town_plan import (
    BIKE_STRIP_WIDTH_M,
    LANE_WIDTH_M,
    NUM_ARMS,
    Road,
    TownPlan,
    line_lengths,
    sample_bezier,
    unit_along,
    unit_left,
)

CAR_LANE, CAR_CONNECTOR, BIKE_LANE, BIKE_CONNECTOR = 0, 1, 2, 3
THROUGH, LEFT, RIGHT = 0, 1, 2
_LATERAL_ACCELERATION_MPS2 = 2.0
_CROSSWALK_NEAR_M, _CROSSWALK_FAR_M = 4.0, 1.0
_KERB_MARGIN_M = 1.2
_PRIORITY = {THROUGH: 6, RIGHT: 5, LEFT: 4}
_MINOR_PRIORITY_DROP = 3

Records: TypeAlias = Any
"""A ``numpy.recarray``; its fields are attributes in Python and in kernels, which type checkers cannot follow."""

POINT_DTYPE = np.dtype([("xy_m", "f8", 2), ("yaw_rad", "f8"), ("s_m", "f8"), ("lane", "i8")], align=True)
"""Point of a centre line: world position, direction of travel (continuous along a lane), arc length from the start of
the lane, lane."""

LANE_DTYPE = np.dtype(
    [
        ("first_point", "i8"),
        ("end_point", "i8"),
        ("length_m", "f8"),
        ("kind", "i8"),
        ("road", "i8"),
        ("node", "i8"),
        ("arm", "i8"),
        ("exit_arm", "i8"),
        ("from_lane", "i8"),
        ("to_lane", "i8"),
        ("next_first", "i8"),
        ("next_end", "i8"),
        ("left_lane", "i8"),
        ("right_lane", "i8"),
        ("turn", "i8"),
        ("speed_limit_mps", "f8"),
        ("speed_cap_mps", "f8"),
        ("head", "i8"),
        ("priority", "i8"),
        ("must_slow", "i8"),
        ("local_index", "i8"),
        ("crosswalk", "i8", 2),
        ("clear_m", "f8", 2),
        ("across_m", "f8", (2, 2)),
    ],
    align=True,
)
"""A lane of any kind. Missing indices are -1.

first_point, end_point: its rows of ``points``; kind: CAR_LANE, CAR_CONNECTOR, BIKE_LANE or BIKE_CONNECTOR; road: its
road, -1 for connectors; node, arm: intersection that a road lane leads to or a connector crosses, and arm from which it
comes; exit_arm: arm by which a connector leaves; from_lane, to_lane: road lanes before and after a connector;
next_first, next_end: its part of ``next_lane``; left_lane, right_lane: targets of lane changes; turn: THROUGH, LEFT or
RIGHT; speed_cap_mps: the limit, lowered for comfort in curves; head: signal head that a connector obeys; priority:
right of way among the connectors of an intersection, higher goes first; must_slow: whether it is entered at walking
pace (yield and stop signs); local_index: index of a connector in its intersection; crosswalk: crosswalks that a
connector passes when entering and when leaving; clear_m: position of a vehicle's centre at which it has passed them;
across_m: interval of them, from their first end, that the vehicle sweeps.
"""

CROSSWALK_DTYPE = np.dtype([("ends_m", "f8", (2, 2)), ("corners_m", "f8", (4, 2)), ("head", "i8")], align=True)
"""A crosswalk: its ends (right, then left of the arm, seen from the intersection), its outline, and the signal head of
the through traffic of the arm, or -1."""

HEAD_DTYPE = np.dtype(
    [("timing_s", "f8", 4), ("position_m", "f8", 2), ("node", "i8"), ("arm", "i8"), ("is_left", "i8")], align=True
)
"""A signal head: cycle, start of green, end of green and offset; its position; its approach; 1 for left turns."""


class RoadNetwork(NamedTuple):
    """Lanes, turns, crosswalks and signal heads of a town, as arrays for kernels.

    Attributes:
        points: POINT_DTYPE, concatenated centre lines of all lanes.
        lanes: LANE_DTYPE.
        next_lane: Connectors after each road lane, and road lane after each connector.
        zone_end_m: Position of a vehicle's centre along local connector i at which it has left the area shared with
            local connector j, -100 if there is none; (intersections, M, M).
        crosswalks: CROSSWALK_DTYPE.
        arm_crosswalk: Crosswalk of each arm or -1, (intersections, 4).
        heads: HEAD_DTYPE.
    """

    points: Records
    lanes: Records
    next_lane: Int64Array
    zone_end_m: Float64Array
    crosswalks: Records
    arm_crosswalk: Int64Array
    heads: Records

    def lane_points_m(self, lane: int) -> Float64Array:
        """Return the centre line of a lane, (n, 2)."""
        # Field first: slicing a record array rebuilds its dtype, which is slow and may swallow Ctrl-C in NumPy.
        points_m: Float64Array = self.points["xy_m"]
        return points_m[self.lanes.first_point[lane] : self.lanes.end_point[lane]]

    def next_of(self, lane: int) -> list[int]:
        """Return the lanes that follow a lane without a lane change."""
        return [int(i) for i in self.next_lane[self.lanes.next_first[lane] : self.lanes.next_end[lane]]]


@dataclass
class _Lane:
    """A lane while the network is being built."""

    points_m: Float64Array
    kind: int
    node: int
    arm: int
    speed_limit_mps: float
    road: int = -1
    exit_arm: int = -1
    from_lane: int = -1
    to_lane: int = -1
    left_lane: int = -1
    right_lane: int = -1
    turn: int = THROUGH
    head: int = -1
    priority: int = 0
    must_slow: bool = False
    local_index: int = -1


@dataclass(frozen=True)
class _Approach:
    """Lanes at one arm of an intersection, inner lane first."""

    incoming: list[int]
    outgoing: list[int]
    bike_in: int
    bike_out: int


def build_road_network(plan: TownPlan, rng: np.random.Generator) -> RoadNetwork:
    """Build the lanes, connectors, crosswalks and signal heads of a planned town."""
    lanes: list[_Lane] = []
    approaches: dict[tuple[int, int], _Approach] = {}
    for index, road in enumerate(plan.roads):
        # each direction ends at one node and starts at the other: approaching lanes and leaving lanes
        forward = _add_direction(lanes, index, road, road.centre_m, road.end)
        backward = _add_direction(lanes, index, road, road.centre_m[::-1], road.start)
        approaches[road.end] = _Approach(forward[:-1], backward[:-1], forward[-1], backward[-1])
        approaches[road.start] = _Approach(backward[:-1], forward[:-1], backward[-1], forward[-1])
    heads = plan_signals(plan, rng)
    head_of = {(head.node, head.arm, head.is_left): i for i, head in enumerate(heads)}
    for node in range(len(plan.position_m)):
        _add_connectors(lanes, approaches, plan, node, head_of)
    # arms have a crosswalk at lights or an all-way stop, and minor arms also where they yield
    arm_crosswalk = np.full(plan.arm_road.shape, -1)
    num_crosswalks = 0
    for node, control in enumerate(plan.controls):
        for arm in plan.arms_of(node):
            on_arterial = plan.roads[plan.arm_road[node, arm]].is_arterial
            if control in ("signal", "all_way") or (control == "yield" and not on_arterial):
                arm_crosswalk[node, arm] = num_crosswalks
                num_crosswalks += 1
    return _as_arrays(lanes, plan, heads, head_of, arm_crosswalk)


def offset_line(points_m: Float64Array, offset_m: float) -> Float64Array:
    """Shift a line to its left (negative: right) by a distance in metres, point by point, (n, 2)."""
    return points_m + offset_m * unit_left(line_yaws(points_m))


def line_yaws(points_m: Float64Array) -> Float64Array:
    """Return the direction of a line at each of its points, continuous along the line, (n,)."""
    tangent = np.gradient(points_m, axis=0, edge_order=2 if len(points_m) > 2 else 1)
    return np.asarray(np.unwrap(np.arctan2(tangent[:, 1], tangent[:, 0])))


def _add_direction(
    lanes: list[_Lane], index: int, road: Road, centre_m: Float64Array, end: tuple[int, int]
) -> list[int]:
    """Add the car lanes, inner first, and the bike lane of one direction; return their indices."""
    first = len(lanes)
    for rank in range(road.num_lanes):
        points_m = offset_line(centre_m, -(rank + 0.5) * LANE_WIDTH_M)
        lane = _Lane(points_m, CAR_LANE, end[0], end[1], road.speed_limit_mps, road=index)
        lane.left_lane = first + rank - 1 if rank > 0 else -1
        lane.right_lane = first + rank + 1 if rank + 1 < road.num_lanes else -1
        lanes.append(lane)
    bike_m = offset_line(centre_m, -(road.half_width_m - BIKE_STRIP_WIDTH_M / 2))
    lanes.append(_Lane(bike_m, BIKE_LANE, end[0], end[1], road.speed_limit_mps, road=index))
    return list(range(first, len(lanes)))


def _turn_of(arm: int, exit_arm: int) -> int:
    return {1: RIGHT, 2: THROUGH, 3: LEFT}[(exit_arm - arm) % NUM_ARMS]


def _movements(plan: TownPlan, node: int, arm: int, num_lanes: int, num_out: dict[int, int]) -> list[tuple[int, int]]:
    """Return the allowed (lane rank, exit arm) pairs of one approach.

    The outer lane serves through and right, the inner lane left and, if the exit has several lanes and left turns have
    no phase of their own, through.
    """
    exits = {_turn_of(arm, other): other for other in plan.arms_of(node) if other != arm}
    inner, outer = 0, num_lanes - 1
    pairs = [(outer, exits[turn]) for turn in (THROUGH, RIGHT) if turn in exits]
    if LEFT in exits:
        pairs.append((inner, exits[LEFT]))
    wide = THROUGH in exits and num_out[exits[THROUGH]] > 1
    if num_lanes > 1 and wide and not (plan.has_protected_left[node] and LEFT in exits):
        pairs.append((inner, exits[THROUGH]))
    for rank in range(num_lanes):
        if all(pair[0] != rank for pair in pairs):
            pairs.append((rank, exits[min(exits, key=lambda turn: (turn == RIGHT) == (rank == inner))]))
    return pairs


def _add_connectors(
    lanes: list[_Lane],
    approaches: dict[tuple[int, int], _Approach],
    plan: TownPlan,
    node: int,
    head_of: dict[tuple[int, int, bool], int],
) -> None:
    first = len(lanes)
    arms = plan.arms_of(node)
    num_out = {arm: len(approaches[node, arm].outgoing) for arm in arms}
    for arm in arms:
        near = approaches[node, arm]
        for rank, exit_arm in _movements(plan, node, arm, len(near.incoming), num_out):
            far = approaches[node, exit_arm].outgoing
            turn = _turn_of(arm, exit_arm)
            # Left turns end in the inner lane, right turns in the outer lane, through traffic in the same lane. A lone
            # lane continues as the outer one, and at mere corners, lanes stay parallel.
            out_rank = {LEFT: 0, RIGHT: len(far) - 1, THROUGH: min(rank, len(far) - 1)}[turn]
            if turn == THROUGH and len(near.incoming) == 1:
                out_rank = len(far) - 1
            if turn != THROUGH and plan.controls[node] == "none":
                out_rank = min(rank, len(far) - 1)
            lanes.append(_connector(lanes, plan, (near.incoming[rank], far[out_rank]), exit_arm, head_of))
        for exit_arm in arms:
            if exit_arm != arm and (_turn_of(arm, exit_arm) != LEFT or len(arms) == 2):
                ends = (near.bike_in, approaches[node, exit_arm].bike_out)
                lanes.append(_connector(lanes, plan, ends, exit_arm, head_of))
    # a bike lane at a T-junction with neither a way straight on nor to the right gets a left turn
    for arm in arms:
        bike_in = approaches[node, arm].bike_in
        if all(lane.from_lane != bike_in for lane in lanes[first:]):
            exit_arm = next(other for other in arms if other != arm)
            ends = (bike_in, approaches[node, exit_arm].bike_out)
            lanes.append(_connector(lanes, plan, ends, exit_arm, head_of))
    for local_index, lane in enumerate(lanes[first:]):
        lane.local_index = local_index


def _connector(
    lanes: list[_Lane],
    plan: TownPlan,
    ends: tuple[int, int],
    exit_arm: int,
    head_of: dict[tuple[int, int, bool], int],
) -> _Lane:
    near, far = lanes[ends[0]], lanes[ends[1]]
    node, arm = near.node, near.arm
    turn = _turn_of(arm, exit_arm)
    is_bike = near.kind == BIKE_LANE
    head = head_of.get((node, arm, turn == LEFT and not is_bike), head_of.get((node, arm, False), -1))
    is_minor = plan.controls[node] == "yield" and not plan.roads[near.road].is_arterial
    equal = plan.controls[node] in ("all_way", "none")
    # A Bezier curve close to an arc of the angle a between the two directions: its handles are 4/3 tan(a/4) radii and
    # its chord is 2 sin(a/2) radii, so the handles are 2/3 tan(a/4) / sin(a/2) of the chord, or a third for a = 0.
    near_m, far_m = near.points_m, far.points_m
    start_yaw, end_yaw = line_yaws(near_m)[-1], line_yaws(far_m)[0]
    angle = abs(angular_distance(end_yaw, start_yaw))
    chord_m = float(np.hypot(*(far_m[0] - near_m[-1])))
    ratio = 1 / 3 if angle < 1e-3 else 2 / 3 * np.tan(angle / 4) / np.sin(angle / 2)
    handle_m = 1.08 * ratio * chord_m
    out_m, into_m = handle_m * unit_along(start_yaw), handle_m * unit_along(end_yaw)
    control = np.stack([near_m[-1], near_m[-1] + out_m, far_m[0] - into_m, far_m[0]])
    return _Lane(
        points_m=sample_bezier(control, spacing_m=0.5),
        kind=BIKE_CONNECTOR if is_bike else CAR_CONNECTOR,
        node=node,
        arm=arm,
        exit_arm=exit_arm,
        speed_limit_mps=min(near.speed_limit_mps, far.speed_limit_mps),
        from_lane=ends[0],
        to_lane=ends[1],
        turn=turn,
        head=head,
        priority=0 if equal else _PRIORITY[turn] + is_bike * 1 - is_minor * _MINOR_PRIORITY_DROP,
        must_slow=is_minor or plan.controls[node] == "all_way",
    )


def crosswalk_line(plan: TownPlan, node: int, arm: int, distance_m: float) -> Float64Array:
    """Return the kerb points right and left of an arm, seen from the centre of the intersection, (2, 2).

    They are ``distance_m`` from the stop line, measured towards the centre.
    """
    yaw = plan.arm_yaw_rad[node, arm]
    middle = plan.position_m[node] + (plan.setback_m[node] - distance_m) * unit_along(yaw)
    aside_m = plan.roads[plan.arm_road[node, arm]].half_width_m * unit_left(yaw)
    return np.stack([middle - aside_m, middle + aside_m])


def kerb_point(plan: TownPlan, node: int, arm: int, side: int, *, distance_m: float, beyond_m: float) -> Float64Array:
    """Return a point ``beyond_m`` beyond the right (-1) or left (1) end of :func:`crosswalk_line`, (2,)."""
    kerbs = crosswalk_line(plan, node, arm, distance_m)
    outward = (kerbs[1] - kerbs[0]) / np.hypot(*(kerbs[1] - kerbs[0]))
    return np.asarray(kerbs[(side + 1) // 2] + side * beyond_m * outward)


def _lane_records(lanes: list[_Lane], arm_crosswalk: Int64Array, ends_m: Float64Array) -> tuple[Records, Int64Array]:
    """Return the records of all lanes, and the array of following lanes that they refer to."""
    records = np.recarray(len(lanes), dtype=LANE_DTYPE)
    for name in {field.name for field in fields(_Lane)} & set(LANE_DTYPE.names or ()):
        records[name] = [getattr(lane, name) for lane in lanes]
    # a connector follows its origin lane, and is followed by its destination lane
    following: list[list[int]] = [[] for _ in lanes]
    for index, lane in enumerate(lanes):
        if lane.from_lane >= 0:
            following[lane.from_lane].append(index)
            following[index].append(lane.to_lane)
    next_lane = np.array([i for f in following for i in f], dtype=np.int64)
    bounds = np.concatenate([[0], np.cumsum([len(f) for f in following])])
    records.next_first, records.next_end = bounds[:-1], bounds[1:]
    lines = [lane.points_m for lane in lanes]
    bounds = np.concatenate([[0], np.cumsum([len(line) for line in lines])])
    records.first_point, records.end_point = bounds[:-1], bounds[1:]
    records.length_m = [line_lengths(line)[-1] for line in lines]
    # v^2 times the curvature is the lateral acceleration, which bounds the speed in the sharpest bend
    for index, lane in enumerate(lanes):
        yaw, s = line_yaws(lane.points_m), line_lengths(lane.points_m)
        curvature = np.abs(np.diff(yaw)) / np.maximum(np.diff(s), 1e-6)
        comfortable_mps = float(np.sqrt(_LATERAL_ACCELERATION_MPS2 / max(curvature.max(), 1e-4)))
        records.speed_cap_mps[index] = min(lane.speed_limit_mps, comfortable_mps)
    crosses = records.from_lane >= 0
    records.crosswalk[:, 0] = np.where(crosses, arm_crosswalk[records.node, records.arm], -1)
    records.crosswalk[:, 1] = np.where(crosses, arm_crosswalk[records.node, records.exit_arm], -1)
    records.clear_m, records.across_m = crossing_ends(lines, records.kind >= BIKE_LANE, records.crosswalk, ends_m)
    return records, next_lane


def _as_arrays(
    lanes: list[_Lane],
    plan: TownPlan,
    heads: list[SignalHead],
    head_of: dict[tuple[int, int, bool], int],
    arm_crosswalk: Int64Array,
) -> RoadNetwork:
    # crosswalks by index; pedestrians walk along the middle, from just outside one kerb to just outside the other
    arms = [(int(node), int(arm)) for node, arm in np.argwhere(arm_crosswalk >= 0)]
    crosswalks = np.recarray(len(arms), dtype=CROSSWALK_DTYPE)
    for index, (node, arm) in enumerate(arms):
        near = crosswalk_line(plan, node, arm, _CROSSWALK_NEAR_M)
        far = crosswalk_line(plan, node, arm, _CROSSWALK_FAR_M)
        middle = (near + far) / 2
        outward = (middle[1] - middle[0]) / np.hypot(*(middle[1] - middle[0]))
        crosswalks.corners_m[index] = np.concatenate([near, far[::-1]])
        crosswalks.ends_m[index] = middle[0] - _KERB_MARGIN_M * outward, middle[1] + _KERB_MARGIN_M * outward
        crosswalks.head[index] = head_of.get((node, arm, False), -1)
    head_records = np.recarray(len(heads), dtype=HEAD_DTYPE)
    for index, head in enumerate(heads):
        head_records[index] = (head.timing_s, head.position_m, head.node, head.arm, head.is_left)

    lines = [lane.points_m for lane in lanes]
    points = np.recarray(sum(len(line) for line in lines), dtype=POINT_DTYPE)
    points.xy_m = np.concatenate(lines)
    points.yaw_rad = np.concatenate([line_yaws(line) for line in lines])
    points.s_m = np.concatenate([line_lengths(line) for line in lines])
    points.lane = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
    records, next_lane = _lane_records(lanes, arm_crosswalk, np.array(crosswalks.ends_m))
    return RoadNetwork(
        points=points,
        lanes=records,
        next_lane=next_lane,
        zone_end_m=conflict_zone_ends(lines, records.kind >= BIKE_LANE, records.node, records.local_index),
        crosswalks=crosswalks,
        arm_crosswalk=arm_crosswalk,
        heads=head_records,
    )

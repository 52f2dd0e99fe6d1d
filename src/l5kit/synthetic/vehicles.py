"""State of the vehicles and bicycles of a scene, their poses, and car following."""

import numpy as np
from numba import njit

from l5kit.simulation.intelligent_driver import wanted_gap
from l5kit.synthetic.road_network import BIKE_CONNECTOR, CAR_CONNECTOR, THROUGH, Records, RoadNetwork

CAR, BIKE = 0, 1
AV_SLOT = 0
"""Slot of the AV in the state arrays."""

_MIN_GAP_M = 2.0
_STOP_GAP_M = 0.8
_COMFORT_BRAKE_MPS2 = 1.8
_HARDEST_BRAKE_MPS2 = 7.0
_MAX_JERK_STEP_MPS2 = 0.35
_MAX_BRAKE_STEP_MPS2 = 0.8
_CALM_HEADWAY_S, _CALM_BRAKE_MPS2 = 0.3, 1.4
_STOP_LINE_HEADWAY_S = 0.3
_AV_THROUGH_WEIGHT, _THROUGH_WEIGHT = 0.5, 2.0
_FAR_M = 1e6


VEHICLE_DTYPE = np.dtype(
    [
        ("active", "i8"),
        ("uid", "i8"),
        ("kind", "i8"),
        ("lane", "i8"),
        ("s_m", "f8"),
        ("speed_mps", "f8"),
        ("accel_mps2", "f8"),
        ("connector", "i8"),
        ("last_connector", "i8"),
        ("held", "i8"),
        ("old_lane", "i8"),
        ("old_s_m", "f8"),
        ("change_from_m", "f8"),
        ("change_done_m", "f8"),
        ("change_total_m", "f8"),
        ("cooldown_s", "f8"),
        ("waited_s", "f8"),
        ("pace", "f8"),
        ("top_speed_mps", "f8"),
        ("headway_s", "f8"),
        ("max_accel_mps2", "f8"),
        ("box", "f8", 5),
        ("height_m", "f8"),
    ],
    align=True,
)
"""State of a vehicle or bicycle. Slot 0 of an array of them is the AV; kernels change them in place.

active: 1 if the slot is in use; uid: number in the scene, never reused; kind: CAR or BIKE; lane, s_m: lane or connector
and position of the centre along it; accel_mps2: acceleration of the last step; connector: the next or current one;
last_connector: the previous one, -1 for none; held: 1 while it has the right of way on ``connector``; old_lane,
old_s_m: lane that a lane change leaves, else -1, and the position along it; change_from_m: lateral offset at the start
of the lane change, positive to the left; change_done_m, change_total_m: distance driven since then, and distance that
it takes; cooldown_s: time until the next change may start; waited_s: time spent standing at the stop line; pace: factor
on the speed limit; top_speed_mps: largest speed; headway_s: desired time gap; max_accel_mps2: desired acceleration from
standstill; box: x, y, yaw, length, width.
"""


@njit(nogil=True, cache=True)
def is_connector(net: RoadNetwork, lane: int) -> bool:
    """Return whether a lane is a connector across an intersection."""
    return bool(net.lanes.kind[lane] == CAR_CONNECTOR or net.lanes.kind[lane] == BIKE_CONNECTOR)


@njit(nogil=True, cache=True)
def find_point(net: RoadNetwork, lane: int, s_m: float) -> tuple[int, float]:
    """Return the point of a lane before an arc length, and the fraction of the distance to the next point."""
    low, high = net.lanes.first_point[lane], net.lanes.end_point[lane] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if net.points.s_m[middle] <= s_m:
            low = middle
        else:
            high = middle
    span = net.points.s_m[low + 1] - net.points.s_m[low]
    return low, (s_m - net.points.s_m[low]) / span


@njit(nogil=True, cache=True)
def neighbour_s(net: RoadNetwork, lane: int, s_m: float, other: int) -> float:
    """Return the position along a parallel lane of the same road next to a position on this one, metres."""
    point, fraction = find_point(net, lane, s_m)
    at = net.lanes.first_point[other] + point - net.lanes.first_point[lane]
    return float(net.points.s_m[at] + fraction * (net.points.s_m[at + 1] - net.points.s_m[at]))


@njit(nogil=True, cache=True)
def change_offset(veh: Records, i: int) -> tuple[float, float]:
    """Return the lateral offset from the lane centre during a lane change and its slope along the lane."""
    if veh.old_lane[i] < 0:
        return 0.0, 0.0
    # the quintic 10 p^3 - 15 p^4 + 6 p^5 rises from 0 to 1 with zero slope and curvature at both ends
    p = min(veh.change_done_m[i] / veh.change_total_m[i], 1.0)
    left_over = 1.0 - p * p * p * (10.0 - 15.0 * p + 6.0 * p * p)
    slope = -30.0 * p * p * (1.0 - p) ** 2 / veh.change_total_m[i]
    return veh.change_from_m[i] * left_over, veh.change_from_m[i] * slope


@njit(nogil=True, cache=True)
def update_box(net: RoadNetwork, veh: Records, i: int) -> None:
    """Update the pose in a vehicle's box from its lane, position and lateral offset."""
    point, fraction = find_point(net, veh.lane[i], veh.s_m[i])
    yaw = net.points.yaw_rad[point] + fraction * (net.points.yaw_rad[point + 1] - net.points.yaw_rad[point])
    offset_m, slope = change_offset(veh, i)
    for axis in range(2):
        veh.box[i, axis] = net.points.xy_m[point, axis] + fraction * (
            net.points.xy_m[point + 1, axis] - net.points.xy_m[point, axis]
        )
    veh.box[i, 0] -= offset_m * np.sin(yaw)
    veh.box[i, 1] += offset_m * np.cos(yaw)
    veh.box[i, 2] = yaw + np.arctan(slope)


@njit(nogil=True, cache=True)
def distance_ahead(net: RoadNetwork, lane: int, s_m: float, connector: int, other_lane: int, other_s_m: float) -> float:
    """Return the distance ahead of a position along the path (lane, connector, next lane); a large number if it is off.

    A position on another connector from the same lane counts until the two diverge.
    """
    if other_lane == lane:
        return other_s_m - s_m if other_s_m > s_m else _FAR_M
    if connector < 0:
        return _FAR_M
    to_connector_m = 0.0 if lane == connector else net.lanes.length_m[lane]
    if other_lane == connector:
        return float(to_connector_m - s_m + other_s_m)
    if other_lane == net.lanes.to_lane[connector]:
        return float(to_connector_m + net.lanes.length_m[connector] - s_m + other_s_m)
    if net.lanes.from_lane[other_lane] == net.lanes.from_lane[connector] and is_connector(net, other_lane):
        node = net.lanes.node[connector]
        parted_m = net.zone_end_m[node, net.lanes.local_index[other_lane], net.lanes.local_index[connector]]
        ahead_m = to_connector_m - s_m + other_s_m
        if other_s_m < parted_m and ahead_m > 0.0:
            return float(ahead_m)
    return _FAR_M


@njit(nogil=True, cache=True)
def find_leader(net: RoadNetwork, veh: Records, i: int, lane: int, s_m: float) -> tuple[float, int]:
    """Return the bumper-to-bumper gap to the next vehicle ahead, and its slot (-1 for none).

    Vehicles of a town know their lanes and positions, and count in both lanes during a lane change; for the boxes of
    logged vehicles see :func:`l5kit.simulation.lanes.leaders.find_leader`, which searches along paths.
    """
    connector = veh.connector[i]
    if not is_connector(net, lane) and (connector < 0 or net.lanes.from_lane[connector] != lane):
        connector = -1
    best_m, leader = _FAR_M, -1
    for j in range(veh.active.shape[0]):
        if j == i or veh.active[j] == 0:
            continue
        ahead_m = distance_ahead(net, lane, s_m, connector, veh.lane[j], veh.s_m[j])
        if veh.old_lane[j] >= 0:
            ahead_m = min(ahead_m, distance_ahead(net, lane, s_m, connector, veh.old_lane[j], veh.old_s_m[j]))
        if ahead_m < best_m:
            best_m, leader = ahead_m, j
    if leader < 0:
        return _FAR_M, -1
    return best_m - 0.5 * (veh.box[i, 3] + veh.box[leader, 3]), leader


@njit(nogil=True, cache=True)
def idm_brake(veh: Records, i: int, gap_m: float, lead_speed_mps: float, min_gap_m: float, headway_s: float) -> float:
    """Return the interaction term of the intelligent driver model, m/s^2, for gaps of at least 0.1 m."""
    most_mps2 = veh.max_accel_mps2[i]
    wanted_m = wanted_gap(veh.speed_mps[i], lead_speed_mps, min_gap_m, headway_s, most_mps2, _COMFORT_BRAKE_MPS2)
    return float(-most_mps2 * (wanted_m / max(gap_m, 0.1)) ** 2)


@njit(nogil=True, cache=True)
def follow_accel(net: RoadNetwork, veh: Records, i: int, lane: int, s_m: float, free_accel: float) -> float:
    """Return the free acceleration, reduced for the vehicle ahead in a lane, m/s^2.

    After a cut-in the driver falls back gently, not much harder than adapting to the leader's speed and braking
    requires, as in the improved model of Kesting, Treiber, Helbing (2010).
    """
    gap_m, leader = find_leader(net, veh, i, lane, s_m)
    if leader < 0:
        return free_accel
    speed, lead_speed = veh.speed_mps[i], veh.speed_mps[leader]
    accel = free_accel + idm_brake(veh, i, gap_m, lead_speed, _MIN_GAP_M, veh.headway_s[i])
    opens = lead_speed > speed + 0.5 and gap_m > _MIN_GAP_M
    # adapting takes (v - v_lead)^2 / (2 gap), plus the braking of the leader
    if opens or gap_m > _MIN_GAP_M + _CALM_HEADWAY_S * speed:
        needed = max(speed - lead_speed, 0.0) ** 2 / (2.0 * max(gap_m - _MIN_GAP_M, 0.1)) - min(
            veh.accel_mps2[leader], 0.0
        )
        accel = max(accel, -_CALM_BRAKE_MPS2 - needed)
    return float(accel)


@njit(nogil=True, cache=True)
def to_stop_line(net: RoadNetwork, veh: Records, i: int) -> float:
    """Return the distance from the front of a vehicle on a road lane to its stop line, metres."""
    return float(net.lanes.length_m[veh.lane[i]] - veh.s_m[i] - 0.5 * veh.box[i, 3])


@njit(nogil=True, cache=True)
def decision_distance(veh: Records, i: int) -> float:
    """Return the distance from the stop line at which a driver decides to proceed or starts to brake gently, metres."""
    return float(veh.speed_mps[i] ** 2 / 3.2 + 6.0)


@njit(nogil=True, cache=True)
def allowed_speed(net: RoadNetwork, veh: Records, i: int) -> float:
    """Return the speed that the limit, the curve and the next turn or yield sign allow, m/s."""
    lane, connector = veh.lane[i], veh.connector[i]
    speed = min(net.lanes.speed_limit_mps[lane] * veh.pace[i], net.lanes.speed_cap_mps[lane] * min(veh.pace[i], 1.0))
    # v^2 = v_end^2 + 2 a s: the largest speed that can be reduced to that of the turn, or of a yield line, in time
    if lane != connector:
        left_m = max(net.lanes.length_m[lane] - veh.s_m[i] - 1.0, 0.0)
        turn_speed = net.lanes.speed_cap_mps[connector] * min(veh.pace[i], 1.0)
        speed = min(speed, np.sqrt(turn_speed**2 + 2.0 * 1.4 * left_m))
        if net.lanes.must_slow[connector] == 1 and veh.held[i] == 0:
            speed = min(speed, np.sqrt(1.8**2 + 2.0 * 1.4 * max(to_stop_line(net, veh, i) - 3.0, 0.0)))
    return float(min(speed, veh.top_speed_mps[i]))


@njit(nogil=True, cache=True)
def driver_accel(net: RoadNetwork, veh: Records, i: int) -> float:
    """Return the acceleration of a driver, from the limit, the vehicle ahead and a closed intersection, m/s^2."""
    speed, free_speed = veh.speed_mps[i], allowed_speed(net, veh, i)
    if speed > free_speed:
        accel = -min(2.5, (speed - free_speed) / 0.8)
    else:
        accel = veh.max_accel_mps2[i] * (1.0 - (speed / max(free_speed, 0.1)) ** 4)
    wanted = follow_accel(net, veh, i, veh.lane[i], veh.s_m[i], accel)
    if veh.old_lane[i] >= 0:
        wanted = min(wanted, follow_accel(net, veh, i, veh.old_lane[i], veh.old_s_m[i], accel))
    # a closed stop line acts as a standing vehicle, with braking not much harder than stopping requires
    if veh.held[i] == 0 and veh.lane[i] != veh.connector[i]:
        stopping, line_m = accel, to_stop_line(net, veh, i)
        if line_m <= decision_distance(veh, i):
            needed = speed**2 / (2.0 * max(line_m - _STOP_GAP_M, 0.3))
            stopping = accel + idm_brake(veh, i, line_m - 0.3, 0.0, _STOP_GAP_M, _STOP_LINE_HEADWAY_S)
            stopping = max(stopping, -1.2 * needed - 0.4)
        wanted = min(wanted, stopping)

    # bound the acceleration and its change since the last step; emergency braking may start at once
    drop, last = _MAX_BRAKE_STEP_MPS2 if wanted > -4.0 else 3.0, veh.accel_mps2[i]
    if speed < 0.05:
        last = max(last, 0.0)
    bounded = min(max(wanted, last - drop), last + _MAX_JERK_STEP_MPS2 if wanted > last else wanted)
    return float(max(bounded, -_HARDEST_BRAKE_MPS2))


@njit(nogil=True, cache=True)
def through_weight(i: int) -> float:
    """Return the weight of going straight on relative to a turn; the AV turns more often than others."""
    return _AV_THROUGH_WEIGHT if i == AV_SLOT else _THROUGH_WEIGHT


@njit(nogil=True, cache=True)
def pick_connector(net: RoadNetwork, lane: int, through_weight: float, rng: np.random.Generator) -> int:
    """Choose a random connector after a road lane; going straight on has another weight than turning."""
    first, end = net.lanes.next_first[lane], net.lanes.next_end[lane]
    total = 0.0
    for k in range(first, end):
        total += through_weight if net.lanes.turn[net.next_lane[k]] == THROUGH else 1.0
    draw = rng.random() * total
    for k in range(first, end):
        draw -= through_weight if net.lanes.turn[net.next_lane[k]] == THROUGH else 1.0
        if draw < 0.0:
            return int(net.next_lane[k])
    return int(net.next_lane[end - 1])


@njit(nogil=True, cache=True)
def advance(net: RoadNetwork, veh: Records, i: int, rng: np.random.Generator) -> None:
    """Move a vehicle along its path for one step of 0.1 s, with the acceleration in its state."""
    before = veh.speed_mps[i]
    after = max(0.0, before + 0.1 * veh.accel_mps2[i])
    step_m = 0.05 * (before + after) * np.cos(np.arctan(change_offset(veh, i)[1]))
    veh.speed_mps[i] = after
    veh.accel_mps2[i] = (after - before) / 0.1
    veh.s_m[i] += step_m
    veh.cooldown_s[i] = max(0.0, veh.cooldown_s[i] - 0.1)
    veh.waited_s[i] = veh.waited_s[i] + 0.1 if after < 0.5 else 0.0
    if veh.old_lane[i] >= 0:
        veh.old_s_m[i] = neighbour_s(net, veh.lane[i], veh.s_m[i], veh.old_lane[i])
        veh.change_done_m[i] += step_m
        if veh.change_done_m[i] >= veh.change_total_m[i]:
            veh.old_lane[i] = -1
    # a road lane is followed by the connector chosen at its start, a connector by a road lane
    lane = veh.lane[i]
    if veh.s_m[i] >= net.lanes.length_m[lane]:
        veh.s_m[i] -= net.lanes.length_m[lane]
        if is_connector(net, lane):
            veh.last_connector[i] = lane
            veh.lane[i] = net.lanes.to_lane[lane]
            veh.connector[i] = pick_connector(net, veh.lane[i], through_weight(i), rng)
            veh.held[i] = 0
        else:
            veh.lane[i] = veh.connector[i]


@njit(nogil=True, cache=True)
def change_length(veh: Records, i: int) -> float:
    """Return the distance that a lane change takes at the current speed, metres."""
    return float(max(3.3 * veh.speed_mps[i], 18.0))

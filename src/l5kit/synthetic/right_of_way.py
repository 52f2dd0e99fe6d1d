"""Right of way at intersections, from signals, priorities, other traffic, crosswalks and room beyond."""

from numba import njit

from l5kit._types import Float64Array, Int64Array
from l5kit.synthetic.road_network import Records, RoadNetwork
from l5kit.synthetic.signals import GREEN, RED, YELLOW
from l5kit.synthetic.vehicles import decision_distance, is_connector, to_stop_line

_CLEARED_M = 6.0
_YIELD_SPEED_MPS = 2.6
_STOPPING_BRAKE_MPS2 = 3.0
_WAITED_AT_GREEN_S = 1.5
_WAITED_LONG_S = 7.0


@njit(nogil=True, cache=True)
def held_connector(net: RoadNetwork, veh: Records, j: int) -> int:
    """Return the connector that a vehicle is on, has right of way for, or has just left; -1 for none."""
    if veh.active[j] == 0:
        return -1
    if is_connector(net, veh.lane[j]) or veh.held[j] == 1:
        return int(veh.connector[j])
    last = veh.last_connector[j]
    if last >= 0 and net.lanes.to_lane[last] == veh.lane[j] and veh.s_m[j] < _CLEARED_M:
        return int(last)
    return -1


@njit(nogil=True, cache=True)
def position_along(net: RoadNetwork, veh: Records, j: int, connector: int) -> float:
    """Return the position of a vehicle's centre along a connector, negative before it, above its length beyond it."""
    if veh.lane[j] == connector:
        return float(veh.s_m[j])
    if veh.lane[j] == net.lanes.to_lane[connector] and veh.last_connector[j] == connector:
        return float(net.lanes.length_m[connector] + veh.s_m[j])
    return float(veh.s_m[j] - net.lanes.length_m[veh.lane[j]])


@njit(nogil=True, cache=True)
def crosswalk_has_vehicle(net: RoadNetwork, veh: Records, crosswalk: int) -> bool:
    """Return whether a vehicle with right of way has not yet passed a crosswalk."""
    for j in range(veh.active.shape[0]):
        connector = held_connector(net, veh, j)
        if connector < 0:
            continue
        for side in range(2):
            on_way = net.lanes.crosswalk[connector, side] == crosswalk
            if on_way and position_along(net, veh, j, connector) < net.lanes.clear_m[connector, side]:
                return True
    return False


@njit(nogil=True, cache=True)
def update_right_of_way(
    net: RoadNetwork,
    veh: Records,
    i: int,
    head_state: Int64Array,
    claims: Int64Array,
    walkers_m: Float64Array,
) -> None:
    """Grant the right of way to a vehicle that approaches an intersection, or revoke it at a red light."""
    connector = veh.connector[i]
    if is_connector(net, veh.lane[i]) or veh.old_lane[i] >= 0:
        return
    line_m, speed = to_stop_line(net, veh, i), veh.speed_mps[i]
    state = GREEN if net.lanes.head[connector] < 0 else head_state[net.lanes.head[connector]]
    # A light that is not green revokes the right of way of vehicles that can still stop. Vehicles that have waited at
    # the line may clear the intersection at yellow.
    may_clear = state == YELLOW and line_m < 4.0 and veh.waited_s[i] > _WAITED_AT_GREEN_S
    if state != GREEN and not may_clear:
        can_stop = line_m - 0.2 > speed * speed / (2.0 * _STOPPING_BRAKE_MPS2)
        if veh.held[i] == 1 and line_m > 0.3 and can_stop:
            veh.held[i] = 0
        return
    if veh.held[i] == 1 or line_m > decision_distance(veh, i):
        return
    # vehicles that have to yield or stop approach the line slowly
    if net.lanes.must_slow[connector] == 1 and (line_m > 8.0 or speed > _YIELD_SPEED_MPS):
        return
    if (
        _conflicts_are_clear(net, veh, i, connector)
        and _crosswalks_are_free(net, connector, claims, walkers_m)
        and (veh.waited_s[i] > _WAITED_LONG_S or may_clear or _yields_to_nobody(net, veh, i, connector, head_state))
        and not _somebody_waited_longer(net, veh, i, connector)
        and _has_room_behind(net, veh, i, connector)
    ):
        veh.held[i] = 1


@njit(nogil=True, cache=True)
def _conflicts_are_clear(net: RoadNetwork, veh: Records, i: int, connector: int) -> bool:
    node = net.lanes.node[connector]
    for j in range(veh.active.shape[0]):
        other = held_connector(net, veh, j)
        if j == i or other < 0 or other == connector or net.lanes.node[other] != node:
            continue
        if net.lanes.from_lane[other] == net.lanes.from_lane[connector]:
            continue
        end_m = net.zone_end_m[node, net.lanes.local_index[other], net.lanes.local_index[connector]]
        if position_along(net, veh, j, other) < end_m:
            return False
    return True


@njit(nogil=True, cache=True)
def _crosswalks_are_free(net: RoadNetwork, connector: int, claims: Int64Array, walkers_m: Float64Array) -> bool:
    for side in range(2):
        crosswalk = net.lanes.crosswalk[connector, side]
        if crosswalk < 0:
            continue
        if claims[crosswalk] == 1:
            return False
        across_m = net.lanes.across_m[connector, side]
        if walkers_m[crosswalk, 0] < across_m[1] and walkers_m[crosswalk, 1] > across_m[0]:
            return False
    return True


@njit(nogil=True, cache=True)
def _yields_to_nobody(net: RoadNetwork, veh: Records, i: int, connector: int, head_state: Int64Array) -> bool:
    """Return whether no vehicle with priority would reach a shared area before this vehicle has left it."""
    node, local = net.lanes.node[connector], net.lanes.local_index[connector]
    for j in range(veh.active.shape[0]):
        other = veh.connector[j]
        if j == i or veh.active[j] == 0 or is_connector(net, veh.lane[j]) or net.lanes.node[other] != node:
            continue
        if (
            net.lanes.priority[other] <= net.lanes.priority[connector]
            or net.lanes.from_lane[other] == net.lanes.from_lane[connector]
        ):
            continue
        if net.lanes.head[other] >= 0 and head_state[net.lanes.head[other]] == RED:
            continue
        end_m = net.zone_end_m[node, local, net.lanes.local_index[other]]
        if end_m < -50.0:
            continue
        # arrival of the other vehicle at its line; time for this one, accelerating to 6 m/s, to leave the shared area
        arrival_s = max(to_stop_line(net, veh, j), 0.0) / max(veh.speed_mps[j], 3.0)
        own_m = end_m + to_stop_line(net, veh, i)
        if arrival_s < own_m / max(0.5 * (veh.speed_mps[i] + 6.0), 3.5) + 1.0:
            return False
    return True


@njit(nogil=True, cache=True)
def _somebody_waited_longer(net: RoadNetwork, veh: Records, i: int, connector: int) -> bool:
    """Return whether a conflicting vehicle, without signals, has waited so long that others let it go first."""
    if net.lanes.head[connector] >= 0:
        return False
    node, local = net.lanes.node[connector], net.lanes.local_index[connector]
    for j in range(veh.active.shape[0]):
        other = veh.connector[j]
        if j == i or veh.active[j] == 0 or net.lanes.node[other] != node or is_connector(net, veh.lane[j]):
            continue
        if veh.held[j] == 1 or veh.waited_s[j] < _WAITED_LONG_S or veh.waited_s[j] < veh.waited_s[i] + 1.0:
            continue
        if to_stop_line(net, veh, j) < 4.0 and net.zone_end_m[node, local, net.lanes.local_index[other]] > -50.0:
            return True
    return False


@njit(nogil=True, cache=True)
def _has_room_behind(net: RoadNetwork, veh: Records, i: int, connector: int) -> bool:
    """Return whether the lane beyond the intersection has room for this vehicle and all others on their way into it."""
    exit_lane = net.lanes.to_lane[connector]
    # the last vehicle in that lane, or about to leave it, limits the room, unless it is driving
    room_m, last_speed = net.lanes.length_m[exit_lane], 99.0
    needed_m = veh.box[i, 3] + 3.0
    for j in range(veh.active.shape[0]):
        if j == i or veh.active[j] == 0:
            continue
        for lane, s_m in ((veh.lane[j], veh.s_m[j]), (veh.old_lane[j], veh.old_s_m[j])):
            if lane == exit_lane and s_m - 0.5 * veh.box[j, 3] < room_m:
                room_m, last_speed = s_m - 0.5 * veh.box[j, 3], veh.speed_mps[j]
        other = held_connector(net, veh, j)
        if other >= 0 and net.lanes.to_lane[other] == exit_lane and veh.lane[j] != exit_lane:
            needed_m += veh.box[j, 3] + 3.0
    return bool(room_m > needed_m or (last_speed > 5.0 and room_m > 0.0))

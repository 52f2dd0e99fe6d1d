"""Lane changes: when a vehicle changes to the adjacent lane."""

import numpy as np
from numba import njit

from l5kit.synthetic.road_network import Records, RoadNetwork
from l5kit.synthetic.town_plan import LANE_WIDTH_M
from l5kit.synthetic.vehicles import (
    AV_SLOT,
    CAR,
    change_length,
    find_leader,
    idm_brake,
    is_connector,
    neighbour_s,
    pick_connector,
    through_weight,
)

_URGE_PER_S = 0.12
_URGE_WHEN_EAGER_PER_S = 0.6
_URGE_TO_CUT_IN_PER_S = 4.0
_MIN_GAP_M = 4.0
_OWN_BRAKE_MPS2, _OTHERS_BRAKE_MPS2 = 2.0, 2.4
_ACCEPTED_HEADWAY_S = 0.35
_CLOSE_BEHIND_M = 22.0
_LANE_START_M, _LANE_END_M = 9.0, 6.0


@njit(nogil=True, cache=True)
def consider_change(net: RoadNetwork, veh: Records, i: int, rng: np.random.Generator) -> None:
    """Start a lane change if the driver wants to and the gap in the other lane is safe.

    Drivers are eager behind a slower car, and most eager if the change makes a cut-in before or by the AV, so that
    recordings contain cut-ins.
    The gap is safe if neither the driver nor the follower has to brake hard by the intelligent driver model, as in
    MOBIL (Kesting, Treiber, Helbing 2007).
    """
    # Only cars change lanes: on roads with an adjacent lane, not shortly after another change, without right of way
    # into the intersection, and with room to finish before the lane ends.
    lane = veh.lane[i]
    is_alone = net.lanes.left_lane[lane] < 0 and net.lanes.right_lane[lane] < 0
    if veh.kind[i] != CAR or is_connector(net, lane) or is_alone:
        return
    if veh.held[i] == 1 or veh.old_lane[i] >= 0 or veh.cooldown_s[i] > 0.0 or veh.speed_mps[i] < 3.0:
        return
    left_m = net.lanes.length_m[lane] - veh.s_m[i]
    if veh.s_m[i] <= _LANE_START_M or left_m <= change_length(veh, i) + _LANE_END_M:
        return
    gap_m, leader = find_leader(net, veh, i, veh.lane[i], veh.s_m[i])
    is_eager = leader >= 0 and gap_m < 35.0 and veh.speed_mps[leader] < veh.speed_mps[i] + 0.5
    target = net.lanes.left_lane[veh.lane[i]]
    if target < 0:
        target = net.lanes.right_lane[veh.lane[i]]
    urge_per_s = _URGE_WHEN_EAGER_PER_S if is_eager or i == AV_SLOT else _URGE_PER_S
    # a change that makes a cut-in before the AV or by the AV
    for j in range(veh.active.shape[0]):
        involves_av = (i == AV_SLOT) != (j == AV_SLOT)
        is_behind = veh.lane[j] == target and 0.0 < veh.s_m[i] - veh.s_m[j] < _CLOSE_BEHIND_M
        if involves_av and is_behind and veh.active[j] == 1:
            urge_per_s = _URGE_TO_CUT_IN_PER_S
            break
    if rng.random() > 0.1 * urge_per_s:
        return
    if not _gap_is_safe(net, veh, i, target):
        return

    # the vehicle belongs to the new lane immediately
    veh.change_from_m[i] = -LANE_WIDTH_M if target == net.lanes.left_lane[lane] else LANE_WIDTH_M
    veh.old_lane[i], veh.old_s_m[i] = lane, veh.s_m[i]
    veh.s_m[i] = neighbour_s(net, lane, veh.s_m[i], target)
    veh.lane[i] = target
    veh.change_done_m[i], veh.change_total_m[i] = 0.0, change_length(veh, i)
    veh.cooldown_s[i] = 10.0
    veh.connector[i] = pick_connector(net, target, through_weight(i), rng)


@njit(nogil=True, cache=True)
def _gap_is_safe(net: RoadNetwork, veh: Records, i: int, target: int) -> bool:
    own_s_m = neighbour_s(net, veh.lane[i], veh.s_m[i], target)
    for j in range(veh.active.shape[0]):
        if j == i or veh.active[j] == 0:
            continue
        for lane, s_m in ((veh.lane[j], veh.s_m[j]), (veh.old_lane[j], veh.old_s_m[j])):
            # positions along the target lane; vehicles on a connector into it are before its start
            if lane != target:
                ahead_m = (
                    s_m - net.lanes.length_m[lane] - own_s_m if lane >= 0 and net.lanes.to_lane[lane] == target else 1e6
                )
            else:
                ahead_m = s_m - own_s_m
            if abs(ahead_m) >= 1e5:
                continue
            gap_m = abs(ahead_m) - 0.5 * (veh.box[i, 3] + veh.box[j, 3])
            if gap_m < _MIN_GAP_M:
                return False
            # the follower has to brake
            if ahead_m > 0.0:
                if idm_brake(veh, i, gap_m, veh.speed_mps[j], 1.0, _ACCEPTED_HEADWAY_S) <= -_OWN_BRAKE_MPS2:
                    return False
            elif idm_brake(veh, j, gap_m, veh.speed_mps[i], 1.0, _ACCEPTED_HEADWAY_S) <= -_OTHERS_BRAKE_MPS2:
                return False
    return True

"""Simulation of the traffic around the AV at 10 Hz."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit

from l5kit._types import Float64Array, Int64Array
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.synthetic.lane_changes import consider_change
from l5kit.synthetic.params import MADE_FACTS
from l5kit.synthetic.pedestrians import Pedestrians, mark_claims, mark_walkers, walk_one_step
from l5kit.synthetic.right_of_way import update_right_of_way
from l5kit.synthetic.road_network import BIKE_LANE, CAR_LANE, Records, RoadNetwork
from l5kit.synthetic.signals import signal_state
from l5kit.synthetic.vehicles import (
    AV_SLOT,
    BIKE,
    CAR,
    advance,
    allowed_speed,
    driver_accel,
    is_connector,
    neighbour_s,
    pick_connector,
    through_weight,
    update_box,
)

STEP_S = 0.1
BUBBLE_M = 175.0
"""Radius around the AV in which vehicles exist."""
_OUT_OF_SIGHT_M = 95.0
_COMPANION_SPACE_M = 60.0
_AV_LENGTH_M, _AV_WIDTH_M, _AV_HEIGHT_M = MADE_FACTS.ego_extent_m

_KernelInt: TypeAlias = Any
"""A NumPy integer for an ``int`` argument of a kernel; numba compiles a kernel for each literal argument."""

_AV: _KernelInt = np.int64(AV_SLOT)
_A_CAR: _KernelInt = np.int64(CAR)
_NO_UID: _KernelInt = np.int64(0)
_FIRST_TRIES: _KernelInt = np.int64(6000)
_SPAWN_TRIES: _KernelInt = np.int64(30)


class Demand(NamedTuple):
    """Target numbers of cars and bicycles around the AV."""

    num_cars: int
    num_bikes: int


LOGGED_VEHICLE_DTYPE = np.dtype(
    [
        ("uid", "i8"),
        ("kind", "i8"),
        ("box", "f8", 5),
        ("height_m", "f8"),
        ("speed_mps", "f8"),
        ("accel_mps2", "f8"),
        ("lane", "i8"),
        ("s_m", "f8"),
        ("connector", "i8"),
        ("old_lane", "i8"),
    ],
    align=True,
)
"""A vehicle slot in a step: uid is -1 if the slot is empty; the other fields are those of VEHICLE_DTYPE."""

LOGGED_WALKER_DTYPE = np.dtype([("active", "i8"), ("box", "f8", 5), ("speed_mps", "f8")], align=True)
"""A pedestrian in a step."""


class TrafficLog(NamedTuple):
    """States of N vehicle slots, W pedestrians and S signal heads in T steps.

    Attributes:
        vehicles: LOGGED_VEHICLE_DTYPE, (T, N); slot 0 is the AV.
        walkers: LOGGED_WALKER_DTYPE, (T, W).
        head_state: RED, YELLOW or GREEN, (T, S).
    """

    vehicles: Records
    walkers: Records
    head_state: Int64Array


@njit(nogil=True, cache=True)
def start_av(net: RoadNetwork, veh: Records, point: int, rng: np.random.Generator) -> None:
    """Place the AV at a point of a road lane."""
    lane = net.points.lane[point]
    _put(net, veh, _AV, _A_CAR, lane, net.points.s_m[point], _NO_UID, rng)
    veh.box[AV_SLOT, 3] = _AV_LENGTH_M
    veh.box[AV_SLOT, 4] = _AV_WIDTH_M
    veh.height_m[AV_SLOT] = _AV_HEIGHT_M
    veh.pace[AV_SLOT] = 0.97
    veh.cooldown_s[AV_SLOT] = 3.0


@njit(nogil=True, cache=True)
def simulate_traffic(
    net: RoadNetwork,
    veh: Records,
    walk: Pedestrians,
    demand: Demand,
    log: TrafficLog,
    start_s: float,
    num_warmup: int,
    rng: np.random.Generator,
) -> int:
    """Simulate the traffic for a warm-up, which is not logged, and then for the steps of the log.

    ``veh`` has only the AV; other vehicles are added and removed out of its sight. ``veh``, ``walk`` and ``log`` are
    updated in place. Returns the number of road users that were removed because they would have overlapped another.
    """
    num_removed = 0
    next_uid = 1 + walk.state.active.shape[0]
    head_state = np.zeros(net.heads.node.shape[0], np.int64)
    claims = np.zeros(net.crosswalks.head.shape[0], np.int64)
    walkers_m = np.zeros((net.crosswalks.head.shape[0], 2))
    next_uid = _fill_up(net, veh, demand, (0.0, BUBBLE_M), _FIRST_TRIES, next_uid, rng)
    for step in range(num_warmup + log.head_state.shape[0]):
        time_s = start_s + STEP_S * step
        for head in range(head_state.shape[0]):
            head_state[head] = signal_state(net.heads.timing_s[head], time_s)
        if step == num_warmup and demand.num_cars > 0:
            next_uid = _add_companion(net, veh, next_uid, rng)
        if step >= num_warmup:
            _write_log(veh, walk, head_state, log, step - num_warmup)
        mark_claims(net, walk, claims, time_s)
        mark_walkers(walk, walkers_m)
        _drive(net, veh, head_state, claims, walkers_m, rng)
        for i in range(walk.state.active.shape[0]):
            if walk.state.active[i] == 1:
                walk_one_step(net, walk, veh, i, time_s)
        num_removed += _remove_overlapping(veh, walk)
        # vehicles outside the bubble leave, and new ones enter where the AV cannot see them appear
        for i in range(1, veh.active.shape[0]):
            dx, dy = veh.box[i, 0] - veh.box[AV_SLOT, 0], veh.box[i, 1] - veh.box[AV_SLOT, 1]
            if dx * dx + dy * dy > (BUBBLE_M + 10.0) ** 2:
                veh.active[i] = 0
        next_uid = _fill_up(net, veh, demand, (_OUT_OF_SIGHT_M, BUBBLE_M), _SPAWN_TRIES, next_uid, rng)
    return num_removed


@njit(nogil=True, cache=True)
def _drive(
    net: RoadNetwork,
    veh: Records,
    head_state: Int64Array,
    claims: Int64Array,
    walkers_m: Float64Array,
    rng: np.random.Generator,
) -> None:
    count = veh.active.shape[0]
    # all vehicles decide before any moves, so that accelerations do not depend on the order of slots
    for i in range(count):
        if veh.active[i] == 1:
            update_right_of_way(net, veh, i, head_state, claims, walkers_m)
    for i in range(count):
        if veh.active[i] == 1:
            consider_change(net, veh, i, rng)
    accel = np.zeros(count)
    for i in range(count):
        if veh.active[i] == 1:
            accel[i] = driver_accel(net, veh, i)
    for i in range(count):
        if veh.active[i] == 1:
            veh.accel_mps2[i] = accel[i]
            advance(net, veh, i, rng)
            update_box(net, veh, i)


@njit(nogil=True, cache=True)
def _write_log(veh: Records, walk: Pedestrians, head_state: Int64Array, log: TrafficLog, step: int) -> None:
    for i in range(veh.active.shape[0]):
        if veh.active[i] == 0:
            continue
        entry = log.vehicles[step, i]
        entry.uid = veh.uid[i]
        entry.kind = veh.kind[i]
        for k in range(5):  # element by element, since numba takes seconds to compile a slice copy
            entry.box[k] = veh.box[i, k]
        entry.height_m = veh.height_m[i]
        entry.speed_mps = veh.speed_mps[i]
        entry.accel_mps2 = veh.accel_mps2[i]
        entry.lane = veh.lane[i]
        entry.s_m = veh.s_m[i]
        entry.connector = veh.connector[i]
        entry.old_lane = veh.old_lane[i]
    for i in range(walk.state.active.shape[0]):
        log.walkers[step, i].active = walk.state.active[i]
        for k in range(5):
            log.walkers[step, i].box[k] = walk.state.box[i, k]
        log.walkers[step, i].speed_mps = walk.state.speed_mps[i]
    for head in range(head_state.shape[0]):
        log.head_state[step, head] = head_state[head]


@njit(nogil=True, cache=True)
def _remove_overlapping(veh: Records, walk: Pedestrians) -> int:
    """Remove road users that overlap one in a lower slot (never the AV); return their number."""
    removed = 0
    for i in range(1, veh.active.shape[0]):
        for j in range(i):
            if veh.active[i] == 1 and veh.active[j] == 1 and boxes_overlap(veh.box[i], veh.box[j]):
                veh.active[i] = 0
                removed += 1
    for i in range(walk.state.active.shape[0]):
        for j in range(veh.active.shape[0]):
            if walk.state.active[i] == 1 and veh.active[j] == 1 and boxes_overlap(walk.state.box[i], veh.box[j]):
                walk.state.active[i] = 0
                removed += 1
        for j in range(i):
            if (
                walk.state.active[i] == 1
                and walk.state.active[j] == 1
                and boxes_overlap(walk.state.box[i], walk.state.box[j])
            ):
                walk.state.active[i] = 0
                removed += 1
    return removed


@njit(nogil=True, cache=True)
def _fill_up(
    net: RoadNetwork,
    veh: Records,
    demand: Demand,
    ring_m: tuple[float, float],
    tries: int,
    next_uid: int,
    rng: np.random.Generator,
) -> int:
    """Add vehicles within a ring of distances from the AV, up to the demand; return the next free uid."""
    for _ in range(tries):
        # the kind with the larger relative deficit; the AV does not count towards the demand
        num_bikes, num_cars = 0, -1
        for i in range(veh.active.shape[0]):
            num_bikes += veh.active[i] == 1 and veh.kind[i] == BIKE
            num_cars += veh.active[i] == 1 and veh.kind[i] == CAR
        kind, wants_bike = -1, num_bikes < demand.num_bikes
        if wants_bike and num_cars * demand.num_bikes > num_bikes * demand.num_cars:
            kind = BIKE
        elif num_cars < demand.num_cars:
            kind = CAR
        elif wants_bike:
            kind = BIKE
        slot = _free_slot(veh)
        if kind < 0 or slot < 0:
            return next_uid
        point = int(rng.random() * net.points.shape[0])
        dx, dy = net.points.xy_m[point, 0] - veh.box[AV_SLOT, 0], net.points.xy_m[point, 1] - veh.box[AV_SLOT, 1]
        distance_m = np.sqrt(dx * dx + dy * dy)
        if distance_m < ring_m[0] or distance_m > ring_m[1]:
            continue
        lane = net.points.lane[point]
        is_of_kind = net.lanes.kind[lane] == (CAR_LANE if kind == CAR else BIKE_LANE)
        if is_of_kind and _has_room(net, veh, lane, net.points.s_m[point], (14.0, 1.6)):
            _put(net, veh, slot, kind, lane, net.points.s_m[point], next_uid, rng)
            next_uid += 1
    return next_uid


@njit(nogil=True, cache=True)
def _add_companion(net: RoadNetwork, veh: Records, next_uid: int, rng: np.random.Generator) -> int:
    """Place a car with the AV's speed in the adjacent lane, a little ahead or behind, if there is room.

    Without it, cut-ins are rare, since cars next to each other mostly wait at a light. Returns the next free uid.
    """
    lane, slot = veh.lane[AV_SLOT], _free_slot(veh)
    other = max(net.lanes.left_lane[lane], net.lanes.right_lane[lane])
    if other < 0 or slot < 0 or net.lanes.length_m[lane] - veh.s_m[AV_SLOT] < _COMPANION_SPACE_M:
        return next_uid
    apart_m = 9.0 + 5.0 * rng.random()
    if rng.random() < 0.5:
        apart_m = -apart_m
    beside_m = neighbour_s(net, lane, veh.s_m[AV_SLOT], other)
    room_m = 8.0 + 0.5 * veh.speed_mps[AV_SLOT]
    s_m = beside_m + apart_m
    if not _has_room(net, veh, other, s_m, (room_m, 0.0)):
        s_m = beside_m - apart_m
    if _has_room(net, veh, other, s_m, (room_m, 0.0)):
        _put(net, veh, slot, _A_CAR, other, s_m, next_uid, rng)
        veh.speed_mps[slot] = veh.speed_mps[AV_SLOT]
        veh.cooldown_s[slot] = 0.0
        next_uid += 1
    return next_uid


@njit(nogil=True, cache=True)
def _free_slot(veh: Records) -> int:
    for i in range(1, veh.active.shape[0]):
        if veh.active[i] == 0:
            return i
    return -1


@njit(nogil=True, cache=True)
def _has_room(net: RoadNetwork, veh: Records, lane: int, s_m: float, room: tuple[float, float]) -> bool:
    """Return whether a position in a lane is away from its ends and from other vehicles.

    ``room`` is a distance in metres and a time in seconds, which is multiplied by the speed of the other vehicle.
    """
    if s_m < 14.0 or s_m > net.lanes.length_m[lane] - 30.0:
        return False
    for j in range(veh.active.shape[0]):
        if veh.active[j] == 0:
            continue
        room_m = room[0] + room[1] * veh.speed_mps[j]
        if (veh.lane[j] == lane and abs(veh.s_m[j] - s_m) < room_m) or (
            veh.old_lane[j] == lane and abs(veh.old_s_m[j] - s_m) < room_m
        ):
            return False
        comes_here = is_connector(net, veh.lane[j]) and net.lanes.to_lane[veh.lane[j]] == lane
        if comes_here and net.lanes.length_m[veh.lane[j]] - veh.s_m[j] + s_m < room_m:
            return False
    return True


@njit(nogil=True, cache=True)
def _put(
    net: RoadNetwork, veh: Records, slot: int, kind: int, lane: int, s_m: float, uid: int, rng: np.random.Generator
) -> None:
    veh.active[slot] = 1
    veh.uid[slot] = uid
    veh.kind[slot] = kind
    veh.lane[slot] = lane
    veh.s_m[slot] = s_m
    veh.connector[slot] = pick_connector(net, lane, through_weight(slot), rng)
    veh.last_connector[slot] = -1
    veh.held[slot] = 0
    veh.old_lane[slot] = -1
    veh.accel_mps2[slot] = 0.0
    veh.cooldown_s[slot] = 3.0 * rng.random()
    veh.waited_s[slot] = 0.0
    # driving style, and size of the vehicle
    veh.headway_s[slot] = 0.9 + 0.6 * rng.random()
    veh.max_accel_mps2[slot] = 1.3 + 0.8 * rng.random()
    veh.pace[slot] = 0.85 + 0.25 * rng.random()
    if kind == CAR:
        veh.box[slot, 3] = 3.9 + 1.4 * rng.random()
        veh.box[slot, 4] = 1.72 + 0.33 * rng.random()
        veh.height_m[slot] = 1.4 + 0.5 * rng.random()
        veh.top_speed_mps[slot] = 30.0
    else:
        veh.box[slot, 3] = 1.6 + 0.3 * rng.random()
        veh.box[slot, 4] = 0.55 + 0.2 * rng.random()
        veh.height_m[slot] = 1.6 + 0.3 * rng.random()
        veh.top_speed_mps[slot] = 3.5 + 3.0 * rng.random()
        veh.max_accel_mps2[slot] = 0.9 + 0.4 * rng.random()
    # the initial speed allows stopping before the end of the lane at 1.2 m/s^2, and is not above that of vehicles ahead
    left_m = max(net.lanes.length_m[lane] - s_m - 10.0, 1.0)
    veh.speed_mps[slot] = min(0.85 * allowed_speed(net, veh, slot), np.sqrt(2.0 * 1.2 * left_m))
    for j in range(veh.active.shape[0]):
        if j != slot and veh.active[j] == 1 and veh.lane[j] == lane and 0.0 < veh.s_m[j] - s_m < 45.0:
            veh.speed_mps[slot] = min(veh.speed_mps[slot], veh.speed_mps[j])
    update_box(net, veh, slot)

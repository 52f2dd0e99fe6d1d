"""Summary of a simulated scene: turns, stops, lane changes, cut-ins, and the bounds of the motion."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.synthetic.params import FRAME_PERIOD_S
from l5kit.synthetic.road_network import CAR_CONNECTOR, LEFT, RIGHT, Records, RoadNetwork
from l5kit.synthetic.signals import GREEN
from l5kit.synthetic.traffic import TrafficLog
from l5kit.synthetic.vehicles import AV_SLOT, CAR

_STANDING_MPS = 0.2
_QUEUE_M = 40.0
_CUT_IN_GAP_M = 18.0
_AT_SPEED_MPS = 10.0


@dataclass(frozen=True)
class Manoeuvres:
    """How often some cars did what.

    Args:
        left_turns: intersections left to the left.
        right_turns: intersections left to the right.
        red_stops: stops within 40 m of a light that is not green, queues included.
        lane_changes: lane changes begun.
        cut_ins: lane changes less than 18 m ahead of another car.
        seconds_at_speed: time at 10 m/s or more.
    """

    left_turns: int
    right_turns: int
    red_stops: int
    lane_changes: int
    cut_ins: int
    seconds_at_speed: float


@dataclass(frozen=True)
class SceneSummary:
    """Events of the AV, and of all other cars together, in a scene."""

    av: Manoeuvres
    others: Manoeuvres
    cut_ins_ahead_of_av: int


def describe_scene(network: RoadNetwork, log: TrafficLog) -> SceneSummary:
    """Count what happens in a simulated scene."""
    slots = np.arange(log.vehicles.shape[1])
    is_av = slots == AV_SLOT
    begins = (log.vehicles.old_lane[1:] >= 0) & (log.vehicles.old_lane[:-1] < 0) & _same_car(log.vehicles)
    changes = [(int(step) + 1, int(slot)) for step, slot in np.argwhere(begins)]
    # a change cuts in on the car that is right behind in the new lane, if it is close; -1 where there is none
    followers = []
    for step, slot in changes:
        cars = log.vehicles[step]
        behind_m = cars.s_m[slot] - cars.s_m - (cars.box[:, 3] + cars.box[slot, 3]) / 2
        is_behind = (cars.uid >= 0) & (cars.lane == cars.lane[slot]) & (behind_m > 0.0) & (behind_m < _CUT_IN_GAP_M)
        followers.append(int(np.argmin(np.where(is_behind, behind_m, np.inf))) if is_behind.any() else -1)
    cut_ins = [change for change, follower in zip(changes, followers, strict=True) if follower >= 0]
    return SceneSummary(
        av=_count(network, log, is_av, changes, cut_ins),
        others=_count(network, log, ~is_av, changes, cut_ins),
        cut_ins_ahead_of_av=followers.count(AV_SLOT),
    )


def _count(
    network: RoadNetwork,
    log: TrafficLog,
    who: Int64Array,
    changes: list[tuple[int, int]],
    cut_ins: list[tuple[int, int]],
) -> Manoeuvres:
    cars = log.vehicles[:, who]
    is_car = (cars.uid >= 0) & (cars.kind == CAR)
    fast = is_car & (cars.speed_mps >= _AT_SPEED_MPS)
    # stops: cars that stop near the line of a connector with a light that is not green, or in the queue before it
    stops = (cars.speed_mps[1:] < _STANDING_MPS) & (cars.speed_mps[:-1] >= _STANDING_MPS) & _same_car(cars)
    step, slot = np.nonzero(stops & is_car[1:])
    lane, connector = cars.lane[1:][step, slot], cars.connector[1:][step, slot]
    head = network.lanes.head[connector]
    to_line_m = network.lanes.length_m[lane] - cars.s_m[1:][step, slot] - cars.box[1:][step, slot, 3] / 2
    waits = (lane != connector) & (head >= 0) & (to_line_m < _QUEUE_M)
    red_stops = int((log.head_state[1:][step[waits], head[waits]] != GREEN).sum())
    return Manoeuvres(
        left_turns=_turns(network, cars, is_car, LEFT),
        right_turns=_turns(network, cars, is_car, RIGHT),
        red_stops=red_stops,
        lane_changes=sum(bool(who[changing]) for _, changing in changes),
        cut_ins=sum(bool(who[changing]) for _, changing in cut_ins),
        seconds_at_speed=float(fast.sum() * FRAME_PERIOD_S),
    )


def _same_car(cars: Records) -> Float64Array:
    """Tell where a slot holds the same vehicle as in the step before, (T - 1, N)."""
    return np.asarray((cars.uid[1:] == cars.uid[:-1]) & (cars.uid[1:] >= 0))


def _turns(network: RoadNetwork, cars: Records, is_car: Int64Array, turn: int) -> int:
    """Count the connectors of a turn that are driven to their end."""
    before, after = cars.lane[:-1], cars.lane[1:]
    finished = (network.lanes.kind[before] == CAR_CONNECTOR) & (before != after) & (network.lanes.turn[before] == turn)
    return int((finished & _same_car(cars) & is_car[1:]).sum())

"""Intelligent driver on lanes: vehicles that follow the lanes of their log, leaders and red lights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.read_only_views import behind_view
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.lane_paths import UNKNOWN_LIMIT_MPS
from l5kit.simulation.drivers.lane_seat import LaneSeat
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.intelligent_driver import AGENT_DRIVER, AV_DRIVER, IntelligentDriverParams
from l5kit.simulation.lanes.lane_changing import LaneChangeParams
from l5kit.simulation.lanes.lane_following import Drivers, Styles, drive_vehicles
from l5kit.simulation.lanes.track_poses import find_lane_followers

_MEMORY = "intelligent driver"


@dataclass(frozen=True)
class IntelligentDriver:
    """Intelligent driver model (IDM) on the lanes of the map, for AVs or for agents.

    A vehicle follows its lanes in the log, then at each fork the lane with the least change of heading. Its leader is
    the nearest object ahead whose box overlaps this path, widened to the width of the vehicle; the first red line and
    the end of the path act as further leaders. AVs get a plan of some seconds, in which the leader keeps its speed;
    agents get the pose of the next step, which ``PlannedPoses`` uses directly. An AV off the lanes, or without a map,
    drives straight and stops within 50 m.

    Attributes:
        params: Parameters of the model; None for the published ones of agents or of the AV.
        limit_part: Desired speed as a share of the speed limit, above 0.
        unknown_limit_mps: Speed limit where the map has none, above 0.
        num_steps: Number of planned steps for AVs.
        max_lateral_mps2: Lateral acceleration in bends, above 0, for which a driver slows down with b in advance; None
            for the published rule, which ignores bends.
        gives_way: Whether agents give way to vehicles that cross their path or merge into it
            (:mod:`l5kit.simulation.lanes.giving_way`); the published rule knows leaders only.
        lane_changes: When agents change lanes; None for never, as published.

    Raises:
        InvalidArgumentError: A value is out of range.
    """

    params: IntelligentDriverParams | None = None
    limit_part: float = 1.0
    unknown_limit_mps: float = UNKNOWN_LIMIT_MPS
    num_steps: int = 40
    max_lateral_mps2: float | None = None
    gives_way: bool = False
    lane_changes: LaneChangeParams | None = None

    def __post_init__(self) -> None:
        for name in ("limit_part", "unknown_limit_mps", "num_steps", "max_lateral_mps2"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise InvalidArgumentError(f"IntelligentDriver: {name} is {value}; it must be above 0")

    def tracks(self, batch: SceneBatch) -> BoolArray:
        """Return the mask of tracks of a batch to drive, (T,): vehicles on lanes that do not stay parked.

        ``AgentControl.of_traffic(tracks=driver.tracks)`` selects these for driving; all others are replayed.
        """
        return find_lane_followers(batch)

    def drive(self, state: TrafficState) -> Actions:
        """Return the poses of the next step of agents, (K, 1, 3), or the plans of AVs, (R, T, 3).

        Raises:
            InvalidArgumentError: An agent is on no lane in the log, or there is no map; or AVs should give way or
                change lanes, which is for agents only.
        """
        if state.actors is None and (self.gives_way or self.lane_changes is not None):
            raise InvalidArgumentError(
                "IntelligentDriver: gives_way and lane_changes are for agents, but this one drives AVs; leave them out"
            )
        is_av = state.actors is None
        of_vehicles = np.zeros(len(state.batch) if is_av else len(state.batch.tracks), np.int64)
        return drive_by_style(state, (self,), of_vehicles, num_steps=self.num_steps if is_av else 1)


def drive_by_style(
    state: TrafficState, drivers: Sequence[IntelligentDriver], styles: Int64Array, *, num_steps: int = 1
) -> Actions:
    """Return the poses of the next steps of vehicles, (K, T, 3), each driven in the style of one of several drivers.

    Args:
        state: Traffic state; its memory must be used by one call per step.
        drivers: The drivers, the same in each step.
        styles: Row of ``drivers`` for each track of the batch, (T,), or each AV, (S,), the same in each step.
        num_steps: Number of planned steps.

    Raises:
        InvalidArgumentError: An agent is on no lane in the log, there is no map, or drivers differ in
            ``unknown_limit_mps``.
    """
    state = behind_view(state)
    seat = state.memory.get(_MEMORY)
    if seat is None:
        limits_mps = {driver.unknown_limit_mps for driver in drivers}
        if len(limits_mps) > 1:
            raise InvalidArgumentError(
                f"IntelligentDriver: unknown_limit_mps is {sorted(limits_mps)} for the drivers of one traffic; use one "
                "value"
            )
        if state.actors is None:
            seat = LaneSeat.of_avs(state.batch, limits_mps.pop())
        else:
            has_avs = any(driver.gives_way or driver.lane_changes is not None for driver in drivers)
            seat = LaneSeat.of_agents(state.batch, limits_mps.pop(), has_avs=has_avs)
        state.memory[_MEMORY] = seat
    vehicles = seat.locate(state)
    changes = [driver.lane_changes for driver in drivers]
    if any(each is not None for each in changes):
        seat.change_lanes(state, changes, _kernel_styles(seat, drivers, styles, state))
    kernel_styles = _kernel_styles(seat, drivers, styles, state)
    gives_way: BoolArray = np.array([driver.gives_way for driver in drivers], np.bool_)
    rows = np.full(len(state), -1) if state.actors is None else np.ascontiguousarray(state.actors)
    poses = np.empty((len(state), num_steps, 3))
    drive_vehicles(
        state.arrays,
        Drivers(state.actor_scenes, rows, vehicles, seat.routes[vehicles]),
        seat.arrays,
        seat.motions,
        kernel_styles,
        seat.give_way_gaps(state, kernel_styles, gives_way),
        poses,
    )
    return Actions(poses)


def _kernel_styles(
    seat: LaneSeat, drivers: Sequence[IntelligentDriver], of_vehicles: Int64Array, state: TrafficState
) -> Styles:
    """Return the styles of drivers for kernels, on the current paths; the seat caches them until paths are added."""
    if seat.styles is not None:
        return seat.styles
    params = [driver.params or (AV_DRIVER if state.actors is None else AGENT_DRIVER) for driver in drivers]
    bends = [
        seat.bends_of(driver.max_lateral_mps2, each.max_braking_mps2)
        for driver, each in zip(drivers, params, strict=True)
    ]
    bends_mps: Float64Array = np.full((len(drivers), max(map(len, bends))), np.inf)
    for style, speeds_mps in enumerate(bends):
        bends_mps[style, : len(speeds_mps)] = speeds_mps
    seat.styles = Styles(
        params=np.array([each.kernel_parameters for each in params]),
        limit_parts=np.array([driver.limit_part for driver in drivers], np.float64),
        bends_mps=bends_mps,
        of_vehicles=of_vehicles,
        step_s=float(state.step_time_s),
    )
    return seat.styles


def intelligent_traffic(driver: IntelligentDriver | None = None) -> AgentSeat:
    """Return the seat of reactive vehicles on lanes, moved by a driver; all others are replayed.

    Args:
        driver: The driver; None for the published parameters.
    """
    driver = IntelligentDriver() if driver is None else driver
    return AgentSeat(driver, control=AgentControl.of_traffic(tracks=driver.tracks))


_YIELDING: Final = IntelligentDriverParams(max_acceleration_mps2=2.0)
"""Published parameters except for a = 2.0 m/s2, so that vehicles start as briskly as people after stopping for others.
With the published 1.0 m/s2, a replayed AV, which does not react, runs into late starters ahead of it."""

_CAUTIOUS: Final = IntelligentDriverParams(
    standing_gap_m=2.0, headway_s=1.8, max_acceleration_mps2=0.8, max_braking_mps2=2.0
)
"""Standstill gap from Treiber and Kesting, Traffic Flow Dynamics (2013), table 11.2; 1.8 s is "half the
speedometer", the distance taught by German driving schools; a is 0.8 m/s2, below the 1.0 of the table."""

_ASSERTIVE: Final = IntelligentDriverParams(
    standing_gap_m=1.0, headway_s=0.9, max_acceleration_mps2=2.0, max_braking_mps2=3.0
)
"""0.9 s is half of that distance, below which German law imposes fines; a = 2.0 m/s2 and b = 3.0 m/s2 are near the
comfort bounds of the closed-loop score (2.40 and 4.05)."""

POPULATIONS: Final[dict[str, IntelligentDriver]] = {
    "idm": IntelligentDriver(),
    "yielding": IntelligentDriver(params=_YIELDING, gives_way=True),
    "cautious": IntelligentDriver(params=_CAUTIOUS, limit_part=0.9, max_lateral_mps2=1.5),
    "assertive": IntelligentDriver(params=_ASSERTIVE, limit_part=1.1, max_lateral_mps2=3.0),
    "changing": IntelligentDriver(params=_YIELDING, gives_way=True, lane_changes=LaneChangeParams()),
}
"""Drivers of the vehicles of each population.

``idm``: the published agents of nuPlan, which know leaders and red lights. ``yielding``: these also give way.
``cautious`` and ``assertive``: other distances, accelerations and speeds, 10 % below and above the limit, slower and
faster in bends. ``changing``: like ``yielding``, with lane changes.
"""

POPULATIONS_BY_PARAMETERS: Final = tuple(
    name for name, driver in POPULATIONS.items() if not driver.gives_way and driver.lane_changes is None
)
"""Populations that differ in parameters only; environments support these, too."""

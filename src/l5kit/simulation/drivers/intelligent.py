"""Intelligent driver on lanes: vehicles that follow the lanes of their log, their leaders and red lights."""

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
    """Drivers of the intelligent driver model (IDM) on the lanes of the map, for AVs or for agents.

    A vehicle follows the lanes that it has in the log, then at each fork the lane after which its heading has changed
    least. The nearest object ahead whose box meets this path, widened to the width of the vehicle, is its leader; the
    first red line and the end of the path stand as leaders beside it. AVs get a plan of some seconds, in which the
    leader keeps its speed; agents get the pose of the next step, which ``PlannedPoses`` takes as it is. An AV on no
    lane, or without a map, goes straight on and stops within 50 m.

    Attributes:
        params: Parameters of the model; None for the published ones, those of agents or those of the AV.
        limit_part: The part of the speed limit that a driver wants to drive, above 0.
        unknown_limit_mps: The limit where the map does not say one, above 0.
        num_steps: Steps that are planned for AVs.
        max_lateral_mps2: Acceleration across in bends, above 0, before which a driver slows down with b; None for the
            published rule, which knows no bends.
        gives_way: Whether agents let those pass who cross their path or merge into it
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
        """Return which tracks of a batch it drives, (T,): vehicles on lanes that do not stay parked.

        ``AgentControl.of_traffic(tracks=driver.tracks)`` lets it drive these; all others are replayed.
        """
        return find_lane_followers(batch)

    def drive(self, state: TrafficState) -> Actions:
        """Return the poses of the next step of agents, (K, 1, 3), or the plans of AVs, (R, T, 3).

        Raises:
            InvalidArgumentError: An agent is on no lane in the log, or there is no map; or AVs are to give way or to
                change lanes, which only agents do.
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
    """Return the poses of the next steps of vehicles, (K, T, 3), each of which drives as one of several drivers does.

    Args:
        state: What they see; its memory is that of one call for each step.
        drivers: How they drive, the same in each step.
        styles: Which of these each track of the batch drives as, (T,), or each AV, (S,), the same in each step.
        num_steps: How many steps are planned.

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
    """Return drivers as kernels take them, on the paths that there are now; the seat keeps them until more come."""
    if seat.styles is not None:
        return seat.styles
    params = [driver.params or (AV_DRIVER if state.actors is None else AGENT_DRIVER) for driver in drivers]
    bends = [
        seat.bends_of(driver.max_lateral_mps2, each.max_braking_mps2)
        for driver, each in zip(drivers, params, strict=True)
    ]
    bends_mps: Float64Array = np.full((len(drivers), max(map(len, bends))), np.inf)
    for style, of_style in enumerate(bends):
        bends_mps[style, : len(of_style)] = of_style
    seat.styles = Styles(
        params=np.array([each.kernel_parameters for each in params]),
        limit_parts=np.array([driver.limit_part for driver in drivers], np.float64),
        bends_mps=bends_mps,
        of_vehicles=of_vehicles,
        step_s=float(state.step_time_s),
    )
    return seat.styles


def intelligent_traffic(driver: IntelligentDriver | None = None) -> AgentSeat:
    """Return the seat of vehicles on lanes, which a driver drives and which react; all others are replayed.

    Args:
        driver: How they drive; None for the published parameters.
    """
    driver = IntelligentDriver() if driver is None else driver
    return AgentSeat(driver, control=AgentControl.of_traffic(tracks=driver.tracks))


_YIELDING: Final = IntelligentDriverParams(max_acceleration_mps2=2.0)
"""As published, but for a, which is 2.0 m/s2: who has stopped for others starts as briskly as people do. With the
published 1.0 m/s2 a logged AV, which reacts to nobody, runs into the ones ahead of it that start late."""

_CAUTIOUS: Final = IntelligentDriverParams(
    standing_gap_m=2.0, headway_s=1.8, max_acceleration_mps2=0.8, max_braking_mps2=2.0
)
"""Gap when standing as in Treiber and Kesting, Traffic Flow Dynamics (2013), table 11.2; 1.8 s is "half the
speedometer", the distance that German driving schools teach; a is 0.8 m/s2, below the table's 1.0."""

_ASSERTIVE: Final = IntelligentDriverParams(
    standing_gap_m=1.0, headway_s=0.9, max_acceleration_mps2=2.0, max_braking_mps2=3.0
)
"""0.9 s is half of that distance, below which German law fines; a is 2.0 m/s2 and b 3.0 m/s2, near the bounds of
comfort of the closed-loop score (2.40 and 4.05)."""

POPULATIONS: Final[dict[str, IntelligentDriver]] = {
    "idm": IntelligentDriver(),
    "yielding": IntelligentDriver(params=_YIELDING, gives_way=True),
    "cautious": IntelligentDriver(params=_CAUTIOUS, limit_part=0.9, max_lateral_mps2=1.5),
    "assertive": IntelligentDriver(params=_ASSERTIVE, limit_part=1.1, max_lateral_mps2=3.0),
    "changing": IntelligentDriver(params=_YIELDING, gives_way=True, lane_changes=LaneChangeParams()),
}
"""How the vehicles of each population drive.

``idm``: the published agents of nuPlan, who know leaders and red lights. ``yielding``: they give way, too.
``cautious`` and ``assertive``: other distances, accelerations and speeds, 10 % below and above the limit, slower and
faster in bends. ``changing``: as ``yielding``, with lane changes.
"""

POPULATIONS_BY_PARAMETERS: Final = tuple(
    name for name, driver in POPULATIONS.items() if not driver.gives_way and driver.lane_changes is None
)
"""Those that differ in parameters alone, which environments have, too."""

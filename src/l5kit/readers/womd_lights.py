"""Lights of a scenario of the Waymo Open Motion Dataset: what the signal of each lane shows in each step."""

from collections.abc import Mapping

import numpy as np

from l5kit._types import Float64Array
from l5kit.errors import CorruptedDataError
from l5kit.readers.source_bounds import FURTHEST_FROM_AV_M
from l5kit.readers.source_scene import LightState, SourceLights
from l5kit.readers.womd_scenario_pb2 import Scenario

_STATES = (
    LightState.UNKNOWN,
    LightState.RED,  # arrow stop
    LightState.YELLOW,  # arrow caution
    LightState.GREEN,  # arrow go
    LightState.RED,
    LightState.YELLOW,
    LightState.GREEN,
    LightState.RED,  # flashing stop
    LightState.YELLOW,  # flashing caution
)
"""What each number of ``state`` shows; greater ones are not known."""


def read_lights(scenario: Scenario, lane_starts_m: Mapping[str, Float64Array], around_m: Float64Array) -> SourceLights:
    """Return the lights of lanes that the map has, in the order of their ids.

    Args:
        scenario: The scenario.
        lane_starts_m: First point of each lane of its map, (3,), where the light is whose stop point is not known.
        around_m: x, y and z of the AV: stop points far away from it are damaged, (3,).

    Raises:
        CorruptedDataError: There is another number of states than of times.
    """
    num_steps = len(scenario.timestamps_seconds)
    steps = scenario.dynamic_map_states
    if len(steps) not in (0, num_steps):
        raise CorruptedDataError(f"there are {len(steps)} dynamic_map_states for {num_steps} times; allowed are 0, too")
    seen = [(step, signal) for step, states in enumerate(steps) for signal in states.lane_states]
    lanes = {signal.lane for _, signal in seen}
    lanes = {lane for lane in lanes if str(lane) in lane_starts_m}
    rows = {lane: row for row, lane in enumerate(sorted(lanes))}
    states = np.full((len(rows), num_steps), LightState.ABSENT, np.uint8)
    for step, signal in seen:
        if (row := rows.get(signal.lane)) is not None:
            states[row, step] = _STATES[signal.state] if 0 <= signal.state < len(_STATES) else LightState.UNKNOWN

    # A light stands at the last stop point that is told of its lane. Where that is not known, it stands where the lane
    # begins: signals hold who enters their lane, and in files that tell stop points these are there.
    positions_m = np.full((len(rows), 3), np.nan)
    points = {signal.lane: signal.stop_point for _, signal in seen if signal.HasField("stop_point")}
    for lane, point in points.items():
        if lane in rows:
            positions_m[rows[lane]] = point.x, point.y, point.z
    is_known = (np.abs(positions_m - around_m) <= FURTHEST_FROM_AV_M).all(axis=1)
    names = tuple(map(str, rows))
    for row in np.flatnonzero(~is_known).tolist():
        positions_m[row] = lane_starts_m[names[row]]
    return SourceLights(names, states, positions_m)

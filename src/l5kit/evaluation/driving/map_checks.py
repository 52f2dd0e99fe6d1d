"""Checks of maps: traffic lights that hold nobody, and junctions that the map does not name."""

import numpy as np

from l5kit.data.checks.finding import Finding
from l5kit.data.map.api import MapAPI
from l5kit.lanes.driving_map import build_driving_map


def check_map(map_api: MapAPI) -> list[Finding]:
    """Return warnings about what drivers, traffic and scores miss in a map that can be read.

    Args:
        map_api: The map, in its world: places are compared.
    """
    arrays, driving_map = map_api.arrays, build_driving_map(map_api)
    num_after = np.diff(driving_map.ahead_starts)
    num_before = np.bincount(driving_map.ahead_rows, minlength=driving_map.num_lanes)
    has_light = arrays.has_light.copy()
    has_light[arrays.lights.lane_rows] = True
    messages = []
    # A line is where one lane of a path goes over into the next one.
    is_passed = np.where(driving_map.has_line_at_start, num_before, num_after) > 0
    if len(without := np.flatnonzero(has_light & ~is_passed)):
        messages.append(
            (
                "stop lines",
                f"{len(without)} of {np.count_nonzero(has_light)} lanes with a traffic light have no stop line, "
                f"{arrays.lane_ids[int(without[0])]!r} for one: no lane comes before the one whose light stands at its "
                "start, or after the one whose light stands at its end, so that nobody stops at red there",
            )
        )
    num_forks = np.count_nonzero(num_after > 1) + np.count_nonzero(num_before > 1)
    if num_forks and not driving_map.is_in_junction.any():
        messages.append(
            (
                "junctions",
                f"no lane is part of a junction, though lanes part or merge at {num_forks} places: tags, times to "
                "collision and rewards take all lanes for open road; import the dataset again, or name junctions",
            )
        )
    return [Finding(severity="warning", check=f"map: {name}", message=message) for name, message in messages]

"""Checks of proposals against the road, by the kernels of the score: off the drivable surface, across lanes."""

from typing import NamedTuple

import numpy as np
from numba import njit

from l5kit._types import Float64Array
from l5kit.evaluation.driving.lane_positions import is_across_lanes, room_for_lanes
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.road_surface import RoadSurface, farthest_corner, no_surface, write_corners
from l5kit.simulation.drivers.proposal_rollout import YAW, X, Y


class RoadArrays(NamedTuple):
    """A DrivingMap, as kernels take it.

    Attributes:
        surface: Where one may drive.
        most_lanes: Room that is needed for the lanes of a box.
    """

    surface: RoadSurface
    most_lanes: int


_MOST_OFF_M = 0.25
"""How far a corner may be off the road, metres; a bit less than the score allows."""


def road_arrays(driving_map: DrivingMap | None) -> RoadArrays:
    """Return a map as kernels take it; without one there are no lanes."""
    surface = no_surface() if driving_map is None else driving_map.surface
    return RoadArrays(surface, room_for_lanes(driving_map, 1)[-1])


@njit(nogil=True, cache=True, error_model="numpy")
def first_step_off_road(states: Float64Array, body: tuple[float, float, float], road: RoadArrays) -> float:
    """Return the first of every other step of states (T + 1, 7) with a corner off the road, infinite for none."""
    box, corners_m, areas = np.empty(5), np.empty((4, 2)), np.full(4, -1)
    box[3], box[4] = body[0], body[1]
    for step in range(2, len(states), 2):
        box[0], box[1], box[2] = states[step, X], states[step, Y], states[step, YAW]
        write_corners(box, corners_m)
        if farthest_corner(road.surface, corners_m, areas) >= _MOST_OFF_M:
            return step
    return np.inf


@njit(nogil=True, cache=True, error_model="numpy")
def is_across(road: RoadArrays, box: Float64Array) -> bool:
    """Return whether the corners of a box lie neither in one lane nor in lanes that follow each other."""
    corners_m = np.empty((4, 2))
    write_corners(box, corners_m)
    return is_across_lanes(road.surface, corners_m, np.empty((5, road.most_lanes), np.int64))

"""Forecasts of the road users around an AV: each keeps its speed, and vehicles follow the lane that they are on."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from l5kit._types import Float64Array, Int64Array
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.simulation.lanes.lane_forecasts import Lanes, write_lane_forecast
from l5kit.simulation.lanes.leaders import OBJECT_FIELDS, write_object


class Others(NamedTuple):
    """The road users that may come near an AV.

    Attributes:
        boxes: World x, y, yaw, length and width now, (n, 5).
        poses: World poses from now on, (n, T + 1, 3).
        groups: What they are, (n,).
        objects: Rows of ``OBJECT_FIELDS`` now, (n, 9).
    """

    boxes: Float64Array
    poses: Float64Array
    groups: Int64Array
    objects: Float64Array


class Agents(NamedTuple):
    """The agents of a scene now: world x, y, yaw, length and width, velocities, and what they are."""

    boxes: Float64Array
    velocities_mps: Float64Array
    groups: Int64Array


RADIUS = 8
"""Column of objects with half their diagonal."""

_VEHICLE = int(RoadUserGroup.VEHICLE)


@njit(nogil=True, cache=True, error_model="numpy")
def forecast_others(
    ego: Float64Array,
    agents: Agents,
    reach: tuple[float, float],
    lanes: Lanes,
    num_steps: int,
    step_s: float,
) -> Others:
    """Return the road users that may come near an AV, and where they will be.

    Args:
        ego: The state of the AV, its position first.
        agents: The agents of the scene.
        reach: Who is farther away than so many metres and seconds at their own speed is left out.
        lanes: Lanes of the map.
        num_steps: T.
        step_s: Time of a step.
    """
    boxes, velocities_mps, groups = agents
    rows, count = np.empty(len(boxes), np.int64), 0
    for row in range(len(boxes)):
        if groups[row] >= 0:
            speed = math.sqrt(velocities_mps[row, 0] ** 2 + velocities_mps[row, 1] ** 2)
            far_m = math.sqrt((boxes[row, 0] - ego[0]) ** 2 + (boxes[row, 1] - ego[1]) ** 2)
            if far_m <= reach[0] + reach[1] * speed + 0.5 * (boxes[row, 3] + boxes[row, 4]):
                rows[count] = row
                count += 1
    poses, objects = np.empty((count, num_steps + 1, 3)), np.empty((count, OBJECT_FIELDS))
    for index in range(count):
        row = rows[index]
        write_object(objects, index, boxes[row], velocities_mps[row])
        is_on_lane = False
        if groups[row] == _VEHICLE:
            is_on_lane = write_lane_forecast(boxes[row], velocities_mps[row], lanes, step_s, poses[index])
        if not is_on_lane:
            for step in range(num_steps + 1):
                poses[index, step, 0] = boxes[row, 0] + step * step_s * velocities_mps[row, 0]
                poses[index, step, 1] = boxes[row, 1] + step * step_s * velocities_mps[row, 1]
                poses[index, step, 2] = boxes[row, 2]
    chosen = rows[:count]
    return Others(boxes[chosen], poses, groups[chosen], objects)

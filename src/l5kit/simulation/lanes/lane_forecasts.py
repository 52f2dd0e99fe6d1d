"""Forecasts of road users: all keep their speed, and vehicles follow their lane."""

import math
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.data.map.bounds_grid import GridArrays
from l5kit.evaluation.driving.road_users import STATIONARY_MPS, RoadUserGroup
from l5kit.geometry.polygon import edge_at
from l5kit.geometry.relative_pose import wrap_angle
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_choice import LaneArrays, arc_on_lane, choose_lane, lane_arrays, straightest_ahead
from l5kit.lanes.road_surface import no_surface
from l5kit.simulation.lanes.leaders import OBJECT_FIELDS, write_object


class Others(NamedTuple):
    """Road users that may come near an AV.

    Attributes:
        boxes: Current world x, y, yaw, length and width, (n, 5).
        poses: World poses from now on, (n, T + 1, 3).
        groups: ``RoadUserGroup`` of each, (n,).
        objects: Current rows of ``OBJECT_FIELDS``, (n, 9).
    """

    boxes: Float64Array
    poses: Float64Array
    groups: Int64Array
    objects: Float64Array


class Agents(NamedTuple):
    """Current agents of a scene: world x, y, yaw, length and width; velocities; and ``RoadUserGroup``."""

    boxes: Float64Array
    velocities_mps: Float64Array
    groups: Int64Array


RADIUS = 8
"""Column of objects that holds half the diagonal of the box."""

_VEHICLE = int(RoadUserGroup.VEHICLE)
_DRIFT_S = 3.0
"""Time for a vehicle turned against its lane to align with it."""


class Lanes(NamedTuple):
    """Lanes, and a grid to find lanes near points."""

    arrays: LaneArrays
    grid: GridArrays


def forecast_lanes(driving_map: DrivingMap | None) -> Lanes:
    """Return the lanes for forecasts; none without a map."""
    if driving_map is not None and driving_map.num_lanes:
        return Lanes(lane_arrays(driving_map), driving_map.lane_grid.arrays)
    points_m, rows, starts = np.zeros((0, 2)), np.zeros(0, np.int64), np.zeros(1, np.int64)
    arrays = LaneArrays(np.zeros((0, 2, 2)), np.zeros((0, 2)), starts, points_m, starts, rows)
    for array in arrays:
        array.setflags(write=False)
    return Lanes(arrays, no_surface().grid)


@kernel_jit
def write_lane_forecast(
    box: Float64Array, velocity_mps: Float64Array, lanes: Lanes, step_s: float, poses: Float64Array
) -> bool:
    """Write the forecast of a vehicle that keeps its speed and aligns with its lane, if it has one.

    At the end of a lane it continues on the straightest successor, and beyond the last lane straight.

    Args:
        box: World x, y, yaw, length and width, (5,).
        velocity_mps: World velocity, (2,).
        lanes: Lanes of the map.
        step_s: Time of a step.
        poses: Output world x, y and yaw from now on, (T + 1, 3).

    Returns:
        Whether it moves on a lane; if not, nothing is written.
    """
    speed = velocity_mps[0] * math.cos(box[2]) + velocity_mps[1] * math.sin(box[2])
    if speed < STATIONARY_MPS:
        return False
    lane = choose_lane(lanes.arrays, lanes.grid, -1, box[:2], box[2])
    if lane < 0:
        return False

    # offset from the lane, and the angle to it, which decreases over time
    arc_m = arc_on_lane(lanes.arrays, lane, box[:2])[0]
    x, y, along_x, along_y = _line_at(lanes.arrays, lane, arc_m)
    left_m = (box[1] - y) * along_x - (box[0] - x) * along_y
    turn = wrap_angle(box[2] - math.atan2(along_y, along_x))
    for step in range(len(poses)):
        length_m = lanes.arrays.arc_lengths_m[lane, -1]
        if arc_m > length_m:
            ahead = straightest_ahead(lanes.arrays, lane)
            if ahead >= 0:
                lane, arc_m = ahead, arc_m - length_m

        # the remaining angle moves it sideways, until it is aligned with the lane
        x, y, along_x, along_y = _line_at(lanes.arrays, lane, arc_m)
        poses[step, 0], poses[step, 1] = x - left_m * along_y, y + left_m * along_x
        aside = turn * max(1.0 - step * step_s / _DRIFT_S, 0.0)
        poses[step, 2] = math.atan2(along_y, along_x) + aside
        arc_m += speed * step_s * math.cos(aside)
        left_m += speed * step_s * math.sin(aside)
    return True


@kernel_jit
def _line_at(lanes: LaneArrays, lane: int, arc_m: float) -> tuple[float, float, float, float]:
    """Return world x and y of a centre line at an arc length, possibly beyond its end, and the unit tangent there."""
    line, lengths_m = lanes.centre_lines_m[lane], lanes.arc_lengths_m[lane]
    edge = edge_at(lengths_m, arc_m)
    step_m = max(lengths_m[edge + 1] - lengths_m[edge], 1e-9)
    along_x, along_y = (line[edge + 1, 0] - line[edge, 0]) / step_m, (line[edge + 1, 1] - line[edge, 1]) / step_m
    part_m = arc_m - lengths_m[edge]
    return line[edge, 0] + part_m * along_x, line[edge, 1] + part_m * along_y, along_x, along_y


@kernel_jit
def forecast_others(
    ego: Float64Array,
    agents: Agents,
    reach: tuple[float, float],
    lanes: Lanes,
    num_steps: int,
    step_s: float,
) -> Others:
    """Return the road users that may come near an AV, with their forecasts.

    Args:
        ego: State of the AV, starting with its position.
        agents: The agents of the scene.
        reach: Distance in metres, plus seconds at their own speed, beyond which road users are skipped.
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

"""AV kernels: start, motion by vehicle models, and checks; one item for each slot, -1 for none."""

import math

from l5kit._kernels import kernel_jit
from l5kit.device.backend import KernelArguments
from l5kit.environment.episode_roads import AvArrays, RoutePositions
from l5kit.environment.traffic.traffic_steps import SceneStarts, SlotFrames
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.geometry.relative_pose import wrap_angle
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.road_surface import farthest_corner, write_corners
from l5kit.simulation.lanes.route_tracking import track_route
from l5kit.simulation.vehicle_steps import BICYCLE, CURVATURE, step_vehicle

REPLAY, ROUTE = BICYCLE + 1, BICYCLE + 2
"""Movers besides models: the log, or an ``InvertibleBicycle`` along the route."""

NUM_COLUMNS = 7
"""Number of columns of an AV state: world x, y and yaw, then speed, acceleration, yaw rate and steering."""

_SPEED, _ACCELERATION, _YAW_RATE, _STEERING = range(4)
"""Columns of motions."""

_POSE = 3
"""Number of columns before these."""


@kernel_jit
def set_avs(item: int, arguments: KernelArguments) -> None:
    """Set the state of the AV of a slot, at its start or after a step.

    Arguments: slots (B,); states of their AVs, (B, ``NUM_COLUMNS``); whether episodes begin; outputs: all AVs, and a
    mask of those before their first step, (N,).
    """
    slots, states, begins, avs, is_new = arguments
    avs, slot = AvArrays(*avs), slots[item]
    if slot < 0:
        return
    # at the start of an episode both motions are the same
    motions, before, speed_mps, yaw = avs.motions[slot], avs.motions_before[slot], states[item, _POSE], states[item, 2]
    for column in range(_POSE):
        avs.boxes[slot, column] = states[item, column]
    for column in range(len(motions)):
        motion = states[item, _POSE + column]
        before[column] = motion if begins else motions[column]
        motions[column] = motion
    avs.velocities_mps[slot, 0], avs.velocities_mps[slot, 1] = speed_mps * math.cos(yaw), speed_mps * math.sin(yaw)
    is_new[slot] = begins


@kernel_jit
def move_avs(item: int, arguments: KernelArguments) -> None:
    """Write the next state of the AV of a slot by its controls; a state that is not finite becomes standing in place.

    Arguments: slots (B,), which have a next frame; all AVs; current frames of all slots, ``starts`` and ``ego`` of
    BankArrays; all paths, and positions of AVs on them; controls (B, 2); kind of the mover, parameters of the model,
    and seconds; outputs: states, (B, ``NUM_COLUMNS``), and a mask of invalid controls, (B,), which may hold marks
    already.
    """
    slots, avs, (current, scenes, log), (paths, routes), controls, (kind, params, step_s), states, is_bad = arguments
    avs, slot, moved = AvArrays(*avs), slots[item], states[item]
    if slot < 0:
        return
    if kind == REPLAY:
        (log_poses, log_motion, _), at = log, SlotFrames(*current)
        row = SceneStarts(*scenes).frames[at.bank_rows[slot]] + at.frames[slot] + 1
        for column in range(_POSE):
            moved[column] = log_poses[row, column]
        for column in range(NUM_COLUMNS - _POSE):
            moved[_POSE + column] = log_motion[row, column]
        return

    # an action along the route is only an acceleration; the curvature is chosen to follow the route
    box, motion, action = avs.boxes[slot], avs.motions[slot], (controls[item, 0], controls[item, 1])
    speed_mps, acceleration, steering = motion[_SPEED], motion[_ACCELERATION], motion[_STEERING]
    if kind == ROUTE:
        on_route, axles_m = RoutePositions(*routes), (params[2] * box[3], params[3] * box[3])
        position, now = on_route.positions[slot], (speed_mps, acceleration, steering)
        action = track_route(PathArrays(*paths), on_route.routes[slot], position, now, axles_m, action[0], step_s)
    model = CURVATURE if kind == ROUTE else kind
    state = (box[0], box[1], box[2], speed_mps, acceleration, steering, box[3])
    x, y, yaw, speed_mps, acceleration, steering = step_vehicle(model, state, action, params, step_s)

    # the sum is finite only if all of them are
    if not math.isfinite(x + y + yaw + speed_mps + acceleration + steering):
        is_bad[item] = True
        x, y, yaw, speed_mps, acceleration, steering = box[0], box[1], box[2], 0.0, 0.0, 0.0
    moved[0], moved[1], moved[2] = x, y, yaw
    moved[_POSE + _SPEED], moved[_POSE + _ACCELERATION] = speed_mps, acceleration
    moved[_POSE + _YAW_RATE], moved[_POSE + _STEERING] = wrap_angle(yaw - box[2]) / step_s, steering


@kernel_jit
def choose_going(item: int, arguments: KernelArguments) -> None:
    """Write the number of a slot if it continues, else -1.

    Arguments: states of slots, 0 if they may continue, mask of those before their first step, and whether these
    continue; output: the numbers, (N,).
    """
    states, is_new, begins, going = arguments
    going[item] = item if states[item] == 0 and (begins or not is_new[item]) else -1


@kernel_jit
def check_avs(item: int, arguments: KernelArguments) -> None:
    """Write whether the AV of a slot overlaps a road user, its distance off the road, and whether its scene is over.

    Arguments: current frames of all slots; ``starts`` of BankArrays; numbers of road users of slots, and the road
    users; the map; boxes of all AVs; corners (N, 4, 2) and the areas that held them, (N, 4); outputs, (N,) each.
    """
    current, scenes, sizes, rows, surface, boxes, corners_m, areas, (is_collided, off_road_m, is_over) = arguments
    current, scenes, (starts, groups, others, _) = SlotFrames(*current), SceneStarts(*scenes), rows
    if current.frames[item] < 0:
        return
    scene, box = current.bank_rows[item], boxes[item]
    is_over[item] = scenes.frames[scene] + current.frames[item] + 1 >= scenes.frames[scene + 1]
    is_collided[item] = False
    for row in range(starts[item], starts[item] + sizes[item]):
        if groups[row] >= 0 and boxes_overlap(box, others[row]):
            is_collided[item] = True
            break
    write_corners(box, corners_m[item])
    off_road_m[item] = farthest_corner(surface, corners_m[item], areas[item])

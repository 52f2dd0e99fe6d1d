"""Lane following: view of drivers along their paths, their accelerations, and their next poses."""

import math
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.lanes.lane_paths import PATH_STEP_M, PathArrays, piece_at
from l5kit.lanes.path_positions import find_on_path, points_around, pose_at
from l5kit.lanes.red_lights import LINE_SLACK_M, RED, YELLOW, ColorRows, rank_of_line
from l5kit.simulation.intelligent_driver import driver_acceleration
from l5kit.simulation.lanes.leaders import OBJECT_FIELDS, find_leader, write_object

ARC, ENTRY, OFFSET, SLOPE, SPEED, X, Y = range(7)
"""Columns of motions: arc length on the path, arc length of entry, offset and slope at entry, speed, x, y."""

NUM_COLUMNS = 7

DriverParameters = tuple[float, float, float, float, float]
"""The fields of :class:`l5kit.simulation.intelligent_driver.IntelligentDriverParams`, in order."""

Drive = tuple[DriverParameters, float, float, Float64Array]
"""Parameters of a driver, desired share of the speed limit, time step, and highest speed at each point of all paths
due to bends ahead, (P,), of length 0 if bends are ignored."""


class Styles(NamedTuple):
    """Driving styles for kernels.

    Attributes:
        params: Fields of ``IntelligentDriverParams`` of each style, in order, (N, 5).
        limit_parts: Desired shares of the speed limit, (N,).
        bends_mps: Highest speeds at each point of all paths due to bends ahead, infinite for styles that ignore bends,
            (N, P); (N, 0) if all ignore them.
        of_vehicles: Style of each vehicle, (V,).
        step_s: Time step.
    """

    params: Float64Array
    limit_parts: Float64Array
    bends_mps: Float64Array
    of_vehicles: Int64Array
    step_s: float


@kernel_jit
def params_of(styles: Styles, style: int) -> DriverParameters:
    """Return the parameters of a style."""
    row = styles.params[style]
    return row[0], row[1], row[2], row[3], row[4]


@kernel_jit
def drive_of(styles: Styles, style: int) -> Drive:
    """Return the driving parameters of a style."""
    return params_of(styles, style), styles.limit_parts[style], styles.step_s, styles.bends_mps[style]


_LOOK_PART = 1.5
_LEAST_LOOK_M = 20.0
_MOVED_M = 1e-4


@kernel_jit
def locate_vehicles(
    paths: PathArrays,
    routes: Int64Array,
    tracks: Int64Array,
    boxes: Float64Array,
    speeds_mps: Float64Array,
    is_new: BoolArray,
    motions: Float64Array,
) -> None:
    """Write the positions on their paths of vehicles that are not where their motions say.

    New vehicles are searched on the whole path; others near their last position, so that paths may cross themselves.

    Args:
        paths: All paths.
        routes: Paths of the K vehicles.
        tracks: Their rows of ``motions``.
        boxes: World x, y and yaw, and possibly more, (K, 3 or more).
        speeds_mps: Their speeds.
        is_new: Mask of new vehicles.
        motions: Motions of all tracks.
    """
    for vehicle in range(len(tracks)):
        track = tracks[vehicle]
        motion, x, y = motions[track], boxes[vehicle, 0], boxes[vehicle, 1]
        if not is_new[vehicle] and (x - motion[X]) ** 2 + (y - motion[Y]) ** 2 < _MOVED_M * _MOVED_M:
            continue
        route = routes[vehicle]
        points_m = paths.points_m[paths.starts[route] : paths.starts[route + 1]]
        first, stop = 0, len(points_m)
        if not is_new[vehicle]:
            first, stop = points_around(motion[ARC], stop)
        put_on_path(points_m, first, stop, (x, y, boxes[vehicle, 2]), speeds_mps[vehicle], motion)


@kernel_jit
def put_on_path(
    points_m: Float64Array,
    first: int,
    stop: int,
    pose: tuple[float, float, float],
    speed_mps: float,
    motion: Float64Array,
) -> None:
    """Write the motion of a vehicle that enters a path, except x and y; arguments as for :func:`find_on_path`."""
    position = find_on_path(points_m, first, stop, pose)
    motion[ARC] = motion[ENTRY] = position[0]
    motion[OFFSET], motion[SLOPE], motion[SPEED] = position[1], position[2], max(speed_mps, 0.0)


@kernel_jit
def limit_at(paths: PathArrays, track: int, arc_m: float) -> float:
    """Return the speed limit at a position on a path."""
    limit_mps: float = paths.piece_limits_mps[piece_at(paths, track, paths.piece_starts[track], arc_m)]
    return limit_mps


@kernel_jit
def gap_to_line(
    paths: PathArrays,
    track: int,
    front_m: float,
    reach_m: float,
    speed_mps: float,
    braking_mps2: float,
    ranks: Int64Array,
) -> float:
    """Return the gap to the first line where a driver must stop, or to the end of the path; at least 0.

    It is infinite beyond the reach.

    Yellow counts for drivers that can stop before the line with b, red until the front is half a metre beyond it.
    """
    for piece in range(paths.piece_starts[track], paths.piece_starts[track + 1]):
        gap_m = paths.piece_arcs_m[piece] - front_m
        if gap_m >= reach_m:
            return np.inf
        if not gap_m >= -LINE_SLACK_M:
            continue
        rank = rank_of_line(paths.line_lanes, piece, ranks)
        if rank >= RED or (rank >= YELLOW and speed_mps * speed_mps <= 2 * braking_mps2 * gap_m):
            line_gap_m: float = max(gap_m, 0.0)
            return line_gap_m
    end_m: float = max(paths.lengths_m[track] - front_m, 0.0)
    return end_m if end_m < reach_m else np.inf


@kernel_jit
def acceleration_behind(
    speed_mps: float,
    gap_m: float,
    leader_speed_mps: float,
    wanted_speed_mps: float,
    params: DriverParameters,
    step_s: float,
) -> float:
    """Return the acceleration of a driver behind a leader in a step.

    It is limited so that after the step braking with b still avoids a leader that brakes with b from now on. The model
    alone does not ensure that: it ignores gaps below s0, and that a leader driving away may brake.
    """
    acceleration = driver_acceleration(speed_mps, gap_m, leader_speed_mps, wanted_speed_mps, params)
    braking = params[3]
    leader_mps = max(leader_speed_mps, 0.0)
    # The distance v h + a h^2 / 2 of the step plus the stopping distance (v + a h)^2 / 2b must be at most
    # gap + v_lead^2 / 2b; the terms in h^2 add up to at most b h^2 for a up to b, and the rest is solved for a.
    spare_m = gap_m - braking * step_s * step_s + (leader_mps * leader_mps - speed_mps * speed_mps) / (2 * braking)
    if spare_m < 2 * speed_mps * step_s:
        highest = braking * (spare_m / max(speed_mps * step_s, 1e-9) - 1)
        acceleration = max(min(acceleration, highest), -braking)
    return acceleration


@kernel_jit
def drive_on(
    paths: PathArrays,
    track: int,
    motion: Float64Array,
    size: tuple[float, float],
    objects: Float64Array,
    own_row: int,
    ranks: Int64Array,
    drive: Drive,
    give_way_m: float,
    poses: Float64Array,
) -> None:
    """Move a vehicle on its path for some steps; its current leader keeps its speed.

    The vehicle follows the strictest of the leader, the first red line (or the end of the path) and the speed limit, so
    that a leader that runs a red light does not hide the line. Nothing beyond the reach for leaders counts.

    Args:
        paths: All paths.
        track: The path of the vehicle.
        motion: Its row of motions, updated to the state after the first step.
        size: Its half length and half width.
        objects: Rows of :data:`l5kit.simulation.lanes.leaders.OBJECT_FIELDS`.
        own_row: Its row of the objects, or -1.
        ranks: Light of each lane of the map, 0 for none.
        drive: Its driving parameters.
        give_way_m: Gap from its front to the position where it gives way, infinite without one.
        poses: Output world x, y and yaw after each step, (T, 3).
    """
    params, part, step_s, bends_mps = drive
    points_m = paths.points_m[paths.starts[track] : paths.starts[track + 1]]
    position = (motion[ARC], motion[ENTRY], motion[OFFSET], motion[SLOPE])
    speed = motion[SPEED]
    # s* for a standing leader, see the model; a leader beyond one and a half of it hardly matters
    wanted_gap_m = params[0] + speed * params[1] + speed * speed / (2 * math.sqrt(params[2] * params[3]))
    reach_m = max(_LOOK_PART * wanted_gap_m, _LEAST_LOOK_M)
    gap_m, leader_speed = find_leader(points_m, position, size, reach_m, objects, own_row)
    arc_m, last_m = motion[ARC], (len(points_m) - 1) * PATH_STEP_M
    for step in range(len(poses)):
        wanted = max(part * limit_at(paths, track, arc_m), 0.1)
        line_m = min(gap_to_line(paths, track, arc_m + size[0], reach_m, speed, params[3], ranks), give_way_m)
        acceleration = acceleration_behind(speed, line_m, 0.0, wanted, params, step_s)
        if gap_m < np.inf:
            acceleration = min(acceleration, acceleration_behind(speed, gap_m, leader_speed, wanted, params, step_s))
        if len(bends_mps) > 0:
            # the lower limit of the points before and after the position in one step
            first, stop = paths.starts[track], paths.starts[track + 1]
            point = first + min(max(int((arc_m + speed * step_s) / PATH_STEP_M), 0), stop - first - 2)
            slowest = min(bends_mps[point], bends_mps[point + 1])
            acceleration = min(acceleration, max((slowest - speed) / step_s, -params[3]))

        # a vehicle that stops within the step remains at rest; it does not drive beyond the end of its path
        after = max(speed + acceleration * step_s, 0.0)
        driven_s = step_s
        if after == 0.0 and acceleration < 0:
            driven_s = min(speed / -acceleration, step_s)
        driven_m = 0.5 * (speed + after) * driven_s
        arc_m, speed = min(arc_m + driven_m, max(last_m, arc_m)), after
        gap_m += max(leader_speed, 0.0) * step_s - driven_m
        give_way_m -= driven_m
        poses[step, 0], poses[step, 1], poses[step, 2] = pose_at(
            points_m, arc_m, motion[ENTRY], position[2], position[3]
        )
        if step == 0:
            motion[ARC], motion[SPEED], motion[X], motion[Y] = arc_m, speed, poses[0, 0], poses[0, 1]


class SceneRows(NamedTuple):
    """The agents of R scenes, one scene after the other.

    Attributes:
        starts: First row of each scene and the end of the last one, (R + 1,).
        groups: ``RoadUserGroup`` of each, (N,).
        boxes: World x, y, yaw, length and width, (N, 5).
        velocities_mps: World velocities, (N, 2).
    """

    starts: Int64Array
    groups: Int64Array
    boxes: Float64Array
    velocities_mps: Float64Array


EgoRows = tuple[Float64Array, Float64Array]
"""Boxes of the AVs, x, y, yaw, length and width, (R, 5), and their velocities, (R, 2)."""


class TrafficArrays(NamedTuple):
    """Current state of R scenes.

    Attributes:
        rows: The agents, N of them.
        tracks: Track of each, -1 for none, (N,).
        ego: The AVs.
        colors: The lights.
        num_lanes: Lanes of the map, at least 1.
    """

    rows: SceneRows
    tracks: Int64Array
    ego: EgoRows
    colors: ColorRows
    num_lanes: int


class Drivers(NamedTuple):
    """K driven vehicles, scene by scene.

    Attributes:
        scenes: Index of the scene, of R, of each vehicle, ascending, (K,).
        rows: Agent row, -1 for the AV of the scene, ascending, (K,).
        vehicles: Index among all V vehicles, (K,).
        routes: Path, (K,).
    """

    scenes: Int64Array
    rows: Int64Array
    vehicles: Int64Array
    routes: Int64Array


@kernel_jit
def write_objects(objects: Float64Array, scene: int, rows: SceneRows, object_rows: Int64Array) -> int:
    """Write the road users of a scene, and the object index of each of its rows, -1 for none; return their number."""
    starts, groups, boxes, velocities_mps = rows
    count = 0
    for row in range(starts[scene], starts[scene + 1]):
        object_rows[row] = -1
        if groups[row] >= 0:
            write_object(objects, count, boxes[row], velocities_mps[row])
            object_rows[row] = count
            count += 1
    return count


@kernel_jit
def mark_lights(colors: ColorRows, scene: int, is_on: bool, ranks: Int64Array) -> None:
    """Set the lights of the lanes of a scene, or clear them.

    Args:
        colors: Lights of R scenes.
        scene: One of them.
        is_on: Whether to set or clear them.
        ranks: Light of each lane of the map, 0 for none.
    """
    frame = colors.frames[scene]
    for slot in range(colors.starts[frame], colors.starts[frame + 1]):
        lane = colors.lanes[slot]
        ranks[lane] = max(ranks[lane], colors.ranks[slot]) if is_on else 0


@kernel_jit
def drive_vehicles(
    traffic: TrafficArrays,
    drivers: Drivers,
    paths: PathArrays,
    motions: Float64Array,
    styles: Styles,
    give_way_m: Float64Array,
    poses: Float64Array,
) -> None:
    """Move vehicles for some steps, each based on the current state.

    Args:
        traffic: R scenes.
        drivers: The vehicles.
        paths: All paths.
        motions: Motions of all vehicles, updated in place, (V, 7).
        styles: Driving styles.
        give_way_m: Gap to the position where each gives way, infinite without one, (K,).
        poses: Output world x, y and yaw after each step, (K, T, 3).
    """
    rows, (ego_boxes, ego_velocities_mps) = traffic.rows, traffic.ego
    objects, object_rows = np.empty((len(rows.groups) + 1, OBJECT_FIELDS)), np.empty(len(rows.groups), np.int64)
    ranks = np.zeros(traffic.num_lanes, np.int64)
    index = 0
    while index < len(drivers.scenes):
        scene = drivers.scenes[index]
        count = write_objects(objects, scene, rows, object_rows)
        write_object(objects, count, ego_boxes[scene], ego_velocities_mps[scene])
        mark_lights(traffic.colors, scene, True, ranks)
        while index < len(drivers.scenes) and drivers.scenes[index] == scene:
            # the AV is the object after the agents
            row, box, own_row = drivers.rows[index], ego_boxes[scene], count
            if row >= 0:
                box, own_row = rows.boxes[row], object_rows[row]
            vehicle = drivers.vehicles[index]
            drive_on(
                paths,
                drivers.routes[index],
                motions[vehicle],
                (0.5 * box[3], 0.5 * box[4]),
                objects[: count + 1],
                own_row,
                ranks,
                drive_of(styles, styles.of_vehicles[vehicle]),
                give_way_m[index],
                poses[index],
            )
            index += 1
        mark_lights(traffic.colors, scene, False, ranks)

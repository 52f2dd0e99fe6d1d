"""Courses of road users: where each gets if it keeps to its lanes, for drivers who look at more than their leader.

A vehicle with a path follows it, the AV that of its log; everybody else goes straight on. Nobody's future in the log is
looked at, but for the lanes that it takes, which is what an indicator or a navigation system would say.
"""

import math
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.lanes.lane_paths import PATH_STEP_M, PathArrays
from l5kit.lanes.path_positions import pose_at
from l5kit.simulation.lanes.lane_following import (
    ARC,
    ENTRY,
    NUM_COLUMNS,
    OFFSET,
    SLOPE,
    SPEED,
    Styles,
    TrafficArrays,
    gap_to_line,
    limit_at,
    put_on_path,
)
from l5kit.simulation.lanes.leaders import write_object

COURSE_POINTS = 41
"""Points of a course at most, 2 m apart, so that it is 80 m long."""

MOVES_MPS = 0.3
"""Who is slower stands, and is not expected to start."""

_HORIZON_S = 6.0
_LEAST_LOOK_M = 20.0
_FARTHEST_OFFSET_M = 2.5
_LINE_BRAKING_MPS2 = 2.0
"""Who could brake this hard before a yellow light is expected to stop; that of agents."""


class Courses(NamedTuple):
    """The road users of a scene, the AV last, and where each of them gets.

    Attributes:
        points_m: World x and y, 2 m apart, the first where the centre is now, (N, COURSE_POINTS, 2).
        counts: Points that are known, at least 1, (N,).
        reaches_m: How far each gets within 6 s, or up to a red line; drivers look at least as far as they need to
            stop, (N,).
        sizes_m: Half length and half width, (N, 2).
        speeds_mps: (N,).
        accelerations_mps2: Of the AV; 0 for all others, (N,).
        wanted_mps: How fast each wants to be, (N,).
        styles: The style of who is driven, -1 for others, who react to nobody, (N,).
        agent_rows: The agent row of each, -1 for the AV, (N,).
    """

    points_m: Float64Array
    counts: Int64Array
    reaches_m: Float64Array
    sizes_m: Float64Array
    speeds_mps: Float64Array
    accelerations_mps2: Float64Array
    wanted_mps: Float64Array
    styles: Int64Array
    agent_rows: Int64Array


class Routes(NamedTuple):
    """Paths of road users, and where those are on them who are driven.

    Attributes:
        paths: All paths.
        of_tracks: The path of each track, -1 for none, (T,).
        of_avs: The path of the AV of each of R scenes, -1 for none, (R,).
        motions: Motions of all tracks, right for those who are driven, (T, 7).
        av_accelerations_mps2: How hard the AVs speed up or brake, (R,).
    """

    paths: PathArrays
    of_tracks: Int64Array
    of_avs: Int64Array
    motions: Float64Array
    av_accelerations_mps2: Float64Array


@kernel_jit
def make_courses(size: int) -> Courses:
    """Return room for the courses of some road users."""
    return Courses(
        np.zeros((size, COURSE_POINTS, 2)),
        np.zeros(size, np.int64),
        np.zeros(size),
        np.zeros((size, 2)),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
    )


@kernel_jit
def write_courses(
    scene: int,
    traffic: TrafficArrays,
    is_driven: BoolArray,
    routes: Routes,
    ranks: Int64Array,
    styles: Styles,
    courses: Courses,
    objects: Float64Array,
) -> int:
    """Write the courses of the road users of a scene and the AV, and return how many they are.

    Args:
        scene: One of R scenes.
        traffic: All of them.
        is_driven: Which rows of agents are driven.
        routes: Who takes which path.
        ranks: Light of each lane of the map, 0 for none.
        styles: How drivers drive.
        courses: Takes the courses.
        objects: Takes rows of :data:`l5kit.simulation.lanes.leaders.OBJECT_FIELDS`, in the same order.
    """
    rows, elsewhere, count = traffic.rows, np.zeros(NUM_COLUMNS), 0
    for row in range(rows.starts[scene], rows.starts[scene + 1]):
        if rows.groups[row] < 0:
            continue
        track = traffic.tracks[row]
        route = routes.of_tracks[track] if track >= 0 else -1
        style = styles.of_vehicles[track] if is_driven[row] else -1
        motion = routes.motions[track] if style >= 0 else elsewhere
        box, velocity = rows.boxes[row], rows.velocities_mps[row]
        courses.styles[count], courses.agent_rows[count] = style, row
        _write_course(count, box, velocity, motion, route, routes.paths, ranks, styles, courses)
        write_object(objects, count, box, velocity)
        count += 1

    # the AV, who is driven by somebody else and reacts to nobody here
    courses.accelerations_mps2[:count] = 0.0
    courses.styles[count], courses.agent_rows[count] = -1, -1
    courses.accelerations_mps2[count] = routes.av_accelerations_mps2[scene]
    box, velocity = traffic.ego[0][scene], traffic.ego[1][scene]
    _write_course(count, box, velocity, elsewhere, routes.of_avs[scene], routes.paths, ranks, styles, courses)
    write_object(objects, count, box, velocity)
    return count + 1


@kernel_jit
def _write_course(
    index: int,
    box: Float64Array,
    velocity_mps: Float64Array,
    motion: Float64Array,
    route: int,
    paths: PathArrays,
    ranks: Int64Array,
    styles: Styles,
    courses: Courses,
) -> None:
    """Write one course; the motion of who is not driven is written, too, as nobody else keeps it."""
    style = courses.styles[index]
    speed = math.sqrt(velocity_mps[0] * velocity_mps[0] + velocity_mps[1] * velocity_mps[1])
    courses.sizes_m[index, 0], courses.sizes_m[index, 1] = 0.5 * box[3], 0.5 * box[4]

    # whoever is beside the path, or across it, does not follow it
    is_on_path = route >= 0
    if is_on_path and style < 0:
        points_m = paths.points_m[paths.starts[route] : paths.starts[route + 1]]
        put_on_path(points_m, 0, len(points_m), (box[0], box[1], box[2]), speed, motion)
        is_on_path = abs(motion[OFFSET]) <= _FARTHEST_OFFSET_M and abs(motion[SLOPE]) < 1.0

    # points of the path from where the vehicle is, as it comes onto it, up to the end of the path; else straight on
    points, count, line_m = courses.points_m[index], COURSE_POINTS, np.inf
    courses.wanted_mps[index] = max(speed, 0.1)
    if is_on_path:
        arc_m, count = motion[ARC], 0
        while count < COURSE_POINTS and (count == 0 or arc_m + count * PATH_STEP_M <= paths.lengths_m[route]):
            x, y, _ = pose_at(
                paths.points_m[paths.starts[route] : paths.starts[route + 1]],
                arc_m + count * PATH_STEP_M,
                motion[ENTRY],
                motion[OFFSET],
                motion[SLOPE],
            )
            points[count, 0], points[count, 1] = x, y
            count += 1

        # up to the first line that holds it, or the end of the path; who is not driven is taken to want the limit
        if style >= 0:
            speed = motion[SPEED]
        half_m, part = 0.5 * box[3], 1.0 if style < 0 else styles.limit_parts[style]
        reach_m = COURSE_POINTS * PATH_STEP_M
        line_m = half_m + gap_to_line(paths, route, arc_m + half_m, reach_m, speed, _LINE_BRAKING_MPS2, ranks)
        courses.wanted_mps[index] = max(part * limit_at(paths, route, arc_m), 0.1)
    else:
        # who moves goes on where its velocity points, who stands where it looks
        ahead_x, ahead_y = math.cos(box[2]), math.sin(box[2])
        if speed > MOVES_MPS:
            ahead_x, ahead_y = velocity_mps[0] / speed, velocity_mps[1] / speed
        for point in range(COURSE_POINTS):
            points[point, 0] = box[0] + point * PATH_STEP_M * ahead_x
            points[point, 1] = box[1] + point * PATH_STEP_M * ahead_y

    # a driver looks at least as far as it needs to stop, v^2 / 2 b
    reach_m = speed * _HORIZON_S
    if style >= 0:
        reach_m = max(reach_m, 0.5 * speed * speed / styles.params[style, 3] + _LEAST_LOOK_M)
    courses.counts[index], courses.speeds_mps[index] = count, speed
    courses.reaches_m[index] = min(reach_m, line_m)

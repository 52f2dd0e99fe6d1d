"""Courses of road users: predicted positions along their lanes, for drivers that consider more than their leader.

A vehicle with a path follows it, the AV the path of its log; all others go straight. The logged future is not used,
except for the choice of lanes, which indicators or a navigation system would reveal.
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
"""Largest number of points of a course, 2 m apart, for a length of 80 m."""

MOVES_MPS = 0.3
"""A slower road user counts as standing, and is not expected to start."""

_HORIZON_S = 6.0
_LEAST_LOOK_M = 20.0
_FARTHEST_OFFSET_M = 2.5
_LINE_BRAKING_MPS2 = 2.0
"""A road user that could brake this hard before a yellow light is expected to stop; the value of agents."""


class Courses(NamedTuple):
    """Courses of the road users of a scene, the AV last.

    Attributes:
        points_m: World x and y, 2 m apart, starting at the current centre, (N, COURSE_POINTS, 2).
        counts: Number of valid points, at least 1, (N,).
        reaches_m: Distance covered within 6 s, or up to a red line; for drivers at least their stopping distance plus
            20 m, (N,).
        sizes_m: Half length and half width, (N, 2).
        speeds_mps: Speeds, (N,).
        accelerations_mps2: Acceleration of the AV; 0 for all others, (N,).
        wanted_mps: Desired speeds, (N,).
        styles: Style of driven agents; -1 for others, which do not react, (N,).
        agent_rows: Agent row, -1 for the AV, (N,).
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
    """Paths of road users, and positions of driven ones on them.

    Attributes:
        paths: All paths.
        of_tracks: Path of each track, -1 for none, (T,).
        of_avs: Path of the AV of each of R scenes, -1 for none, (R,).
        motions: Motions of all tracks, valid for driven ones, (T, 7).
        av_accelerations_mps2: Accelerations of the AVs, (R,).
    """

    paths: PathArrays
    of_tracks: Int64Array
    of_avs: Int64Array
    motions: Float64Array
    av_accelerations_mps2: Float64Array


@kernel_jit
def make_courses(size: int) -> Courses:
    """Return empty courses for ``size`` road users."""
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
    """Write the courses of the road users of a scene and of the AV, and return their number.

    Args:
        scene: One of R scenes.
        traffic: The R scenes.
        is_driven: Mask of the driven rows of agents.
        routes: Paths of the road users.
        ranks: Light of each lane of the map, 0 for none.
        styles: Driving styles.
        courses: Output courses.
        objects: Output rows of :data:`l5kit.simulation.lanes.leaders.OBJECT_FIELDS`, in the same order.
    """
    rows, scratch, count = traffic.rows, np.zeros(NUM_COLUMNS), 0
    for row in range(rows.starts[scene], rows.starts[scene + 1]):
        if rows.groups[row] < 0:
            continue
        track = traffic.tracks[row]
        route = routes.of_tracks[track] if track >= 0 else -1
        style = styles.of_vehicles[track] if is_driven[row] else -1
        motion = routes.motions[track] if style >= 0 else scratch
        box, velocity = rows.boxes[row], rows.velocities_mps[row]
        courses.styles[count], courses.agent_rows[count] = style, row
        _write_course(count, box, velocity, motion, route, routes.paths, ranks, styles, courses)
        write_object(objects, count, box, velocity)
        count += 1

    # the AV, which has another driver and does not react here
    courses.accelerations_mps2[:count] = 0.0
    courses.styles[count], courses.agent_rows[count] = -1, -1
    courses.accelerations_mps2[count] = routes.av_accelerations_mps2[scene]
    box, velocity = traffic.ego[0][scene], traffic.ego[1][scene]
    _write_course(count, box, velocity, scratch, routes.of_avs[scene], routes.paths, ranks, styles, courses)
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
    """Write one course; ``motion`` is overwritten for road users that are not driven, as it is not kept for them."""
    style = courses.styles[index]
    speed = math.sqrt(velocity_mps[0] * velocity_mps[0] + velocity_mps[1] * velocity_mps[1])
    courses.sizes_m[index, 0], courses.sizes_m[index, 1] = 0.5 * box[3], 0.5 * box[4]

    # a road user that is beside its path, or across it, does not follow it
    is_on_path = route >= 0
    if is_on_path and style < 0:
        points_m = paths.points_m[paths.starts[route] : paths.starts[route + 1]]
        put_on_path(points_m, 0, len(points_m), (box[0], box[1], box[2]), speed, motion)
        is_on_path = abs(motion[OFFSET]) <= _FARTHEST_OFFSET_M and abs(motion[SLOPE]) < 1.0

    # points of the path from the vehicle on, including its transition onto the path, up to the end; otherwise straight
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

        # up to the first line that holds it, or the end of the path; others are assumed to drive at the limit
        if style >= 0:
            speed = motion[SPEED]
        half_m, part = 0.5 * box[3], 1.0 if style < 0 else styles.limit_parts[style]
        reach_m = COURSE_POINTS * PATH_STEP_M
        line_m = half_m + gap_to_line(paths, route, arc_m + half_m, reach_m, speed, _LINE_BRAKING_MPS2, ranks)
        courses.wanted_mps[index] = max(part * limit_at(paths, route, arc_m), 0.1)
    else:
        # moving road users go straight along their velocity; for standing ones the heading counts
        ahead_x, ahead_y = math.cos(box[2]), math.sin(box[2])
        if speed > MOVES_MPS:
            ahead_x, ahead_y = velocity_mps[0] / speed, velocity_mps[1] / speed
        for point in range(COURSE_POINTS):
            points[point, 0] = box[0] + point * PATH_STEP_M * ahead_x
            points[point, 1] = box[1] + point * PATH_STEP_M * ahead_y

    # a driver looks at least as far as its stopping distance, v^2 / 2 b, plus a margin
    reach_m = speed * _HORIZON_S
    if style >= 0:
        reach_m = max(reach_m, 0.5 * speed * speed / styles.params[style, 3] + _LEAST_LOOK_M)
    courses.counts[index], courses.speeds_mps[index] = count, speed
    courses.reaches_m[index] = min(reach_m, line_m)

"""Route tracking: acceleration and curvature of a vehicle that follows its route, given a desired acceleration."""

import math

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, FloatArray, Int64Array
from l5kit.data.array_shapes import as_kernel_array
from l5kit.geometry.relative_pose import wrap_angle
from l5kit.lanes.lane_paths import PATH_STEP_M, PathArrays, index_along, piece_at, speed_in_bend
from l5kit.lanes.path_positions import line_at

HARDEST_BRAKING_MPS2, MOST_ACCELERATION_MPS2 = 3.7, 2.2
"""Hardest braking and acceleration: the comfort bounds, 4.05 and 2.40 m/s2 (nuPlan), less the effect of smoothing."""

_FIRST_JERK_MPS3, _JERK_GROWTH_1PS, _MOST_JERK_MPS3 = 1.0, 1.5, 3.7
"""Largest jerk: the value at zero acceleration, its growth for each m/s2 of acceleration, and its upper limit.

The comfort bound is 4.13 m/s3 (nuPlan), but the score smooths accelerations with parabolas, which turn a steady
3.7 m/s3 into 5.8 at the ends of a drive, and into more if braking is released early. A growing jerk stays within the
bound there, and reaches full braking after 1.5 s instead of 1.0 s.
"""

EMERGENCY_BRAKING_MPS2 = 6.0
"""Hardest braking if more than comfortable braking is desired; also the emergency braking of the rule planner."""

_EMERGENCY_JERK_MPS3 = 12.0
"""Jerk of emergency braking, at its start and end: full braking within half a second."""

_BEGINNING_JERK_MPS3, _BEGINNING_S = 2.2, 1.0
"""Largest jerk at the start of a drive that continues a log: the parabolas turn it into 4 m/s3, see above."""

_BEND_MPS2, _BRAKING_MPS2 = 2.5, 2.0
"""Lateral acceleration in bends, and braking before bends and lower speed limits."""

_HOLD_S, _EARLY_S = 0.6, 1.2
"""Time to reach the highest speed, and how early that of positions ahead applies, as jerk is limited."""

_MOST_YAW_ACCELERATION_RADPS2 = 1.6
"""Largest yaw acceleration: below the comfort bound, 1.93 rad/s2 (nuPlan)."""

_MOST_LATERAL_JERK_MPS3 = 6.0
"""Largest lateral jerk: combined with the longitudinal one below 8.37 m/s3 (nuPlan)."""

_SLOWEST_MPS = 2.0
"""Lower bound of the speed in the limits of curvature changes."""

_LEAST_AHEAD_M, _AHEAD_S = 4.0, 0.8
"""Distance of the look-ahead point of the pure pursuit: at least these metres, and seconds at the current speed."""

_PREVIEW_S = 0.3
"""Look-ahead for the curvature of the route, as the wheels take time to turn."""

_STRAIGHT = np.array([[0.0, 0.0], [1.0, 0.0]])
"""Line of a vehicle without a route."""

_SPAN_M = 2.0
"""The curvature of the route is its turn from this far behind a position to this far ahead of it."""


@kernel_jit
def _highest_speed(paths: PathArrays, route: int, points_m: Float64Array, arc_m: float, speed_mps: float) -> float:
    """Return the highest speed of a vehicle on its route at which braking suffices for bends and limits ahead.

    Those reached within ``_EARLY_S`` apply immediately.
    """
    last, near_m = len(points_m) - 1, arc_m + _EARLY_S * speed_mps
    piece = piece_at(paths, route, paths.piece_starts[route], arc_m)
    highest_mps: float = paths.piece_limits_mps[piece]
    end_m = near_m + speed_mps * speed_mps / (2 * _BRAKING_MPS2)
    for point in range(index_along(arc_m, last), index_along(end_m, last) + 1):
        piece = piece_at(paths, route, piece, point * PATH_STEP_M)
        # the speed from which braking over the distance ends at the allowed speed: v^2 = v_there^2 + 2 b s
        there_mps = min(speed_in_bend(points_m, point, _BEND_MPS2), paths.piece_limits_mps[piece])
        ahead_m = max(point * PATH_STEP_M - near_m, 0.0)
        highest_mps = min(highest_mps, math.sqrt(there_mps * there_mps + 2 * _BRAKING_MPS2 * ahead_m))
    return highest_mps


@kernel_jit
def track_route(
    paths: PathArrays,
    route: int,
    route_position: Float64Array,
    motion: tuple[float, float, float],
    axles_m: tuple[float, float],
    wanted_mps2: float,
    step_s: float,
) -> tuple[float, float]:
    """Return the acceleration of a vehicle, m/s2, and the curvature of its rear axle, 1/m, in the next step.

    The acceleration approaches the desired one within the jerk limit, but never reverses the vehicle within the step,
    and respects the speed limits and 2.5 m/s2 of lateral acceleration in bends. Braking harder than 3.7 m/s2 is an
    emergency, in which comfort does not count. The steering is a pure pursuit (Coulter 1992) with feed-forward of the
    curvature of the route: with L the distance of a look-ahead point from the centre and e its offset to the left of
    the route, the curvature is that of the route minus 2 e / L^2. A centre that moves along a bend points out of it by
    asin(b k), with b the distance of the rear axle behind it and k the curvature of the bend, which is not an error.

    Args:
        paths: All paths.
        route: Route of the vehicle, -1 for none.
        route_position: Its position there, as written by :func:`l5kit.lanes.path_positions.follow_routes`, (3,).
        motion: Speed, acceleration and steering, m/s, m/s2 and rad.
        axles_m: Distance of the rear axle behind the centre, and wheel base.
        wanted_mps2: The desired acceleration.
        step_s: Seconds of the step.
    """
    speed_mps, acceleration, steering = motion
    arc_m, left_m, turn_rad = route_position[0], route_position[1], route_position[2]

    has_route = route >= 0 and paths.starts[route + 1] - paths.starts[route] >= 2
    points_m = paths.points_m[paths.starts[route] : paths.starts[route + 1]] if has_route else _STRAIGHT
    if has_route:
        highest_mps = _highest_speed(paths, route, points_m, arc_m, max(speed_mps, 0.0))
        wanted_mps2 = min(wanted_mps2, max((highest_mps - speed_mps) / _HOLD_S, -HARDEST_BRAKING_MPS2))
    is_emergency = wanted_mps2 < -HARDEST_BRAKING_MPS2
    wanted_mps2 = max(wanted_mps2, -EMERGENCY_BRAKING_MPS2)

    # within the comfortable jerk: braking that ends when the speed reaches 0, v = a^2 / 2 j, ends without a jolt
    most_jerk = _EMERGENCY_JERK_MPS3 if is_emergency else _MOST_JERK_MPS3
    growing_jerk = _FIRST_JERK_MPS3 + _JERK_GROWTH_1PS * abs(acceleration)
    change = (most_jerk if is_emergency else min(growing_jerk, most_jerk)) * step_s
    acceleration = min(max(wanted_mps2, acceleration - change), acceleration + change)
    remaining_mps = max(speed_mps, 0.0)
    acceleration = max(acceleration, -min(math.sqrt(2 * most_jerk * remaining_mps), remaining_mps / step_s))

    # curvature of the route shortly ahead: its change of direction over the distance between two positions
    pace_mps = max(speed_mps, _SLOWEST_MPS)
    preview_m = arc_m + _PREVIEW_S * max(speed_mps, 0.0)
    _, _, before_x, before_y = line_at(points_m, preview_m - _SPAN_M)
    _, _, after_x, after_y = line_at(points_m, preview_m + _SPAN_M)
    bend = math.atan2(before_x * after_y - before_y * after_x, before_x * after_x + before_y * after_y) / (2 * _SPAN_M)

    # pure pursuit: offset of the look-ahead point from the route if the vehicle went straight
    ahead_m = max(_LEAST_AHEAD_M, _AHEAD_S * speed_mps)
    outward_rad = math.asin(min(max(axles_m[0] * bend, -1.0), 1.0))
    error_m = left_m + ahead_m * math.sin(min(max(wrap_angle(turn_rad + outward_rad), -1.0), 1.0))
    wanted = bend - 2.0 * error_m / (ahead_m * ahead_m)

    # changes of the curvature are limited by yaw acceleration, v dk, and lateral jerk, v^2 dk
    now = math.tan(steering) / axles_m[1]
    most = min(_MOST_YAW_ACCELERATION_RADPS2 / pace_mps, _MOST_LATERAL_JERK_MPS3 / (pace_mps * pace_mps)) * step_s
    return acceleration, min(max(wanted, now - most), now + most)


@kernel_jit
def _track_all(
    paths: PathArrays,
    routes: Int64Array,
    route_positions: Float64Array,
    motions: Float64Array,
    axles_m: Float64Array,
    wanted_mps2: Float64Array,
    step_s: float,
    controls: Float64Array,
) -> None:
    """Write the results of :func:`track_routes`."""
    for row in range(len(routes)):
        axles, now = (axles_m[row, 0], axles_m[row, 1]), (motions[row, 0], motions[row, 1], motions[row, 2])
        controls[row] = track_route(paths, routes[row], route_positions[row], now, axles, wanted_mps2[row], step_s)


def track_routes(
    paths: PathArrays,
    routes: Int64Array,
    route_positions: Float64Array,
    *,
    motions: Float64Array,
    axles_m: Float64Array,
    wanted_mps2: Float64Array,
    step_s: float,
) -> Float64Array:
    """Return accelerations and curvatures of K vehicles, float64 (K, 2); see :func:`track_route`.

    Args:
        paths: All paths.
        routes: Route of each vehicle, -1 for none, which means straight ahead, int64 (K,).
        route_positions: Their positions there, zeros without a route, (K, 3).
        motions: Speeds, accelerations and steering, m/s, m/s2 and rad, (K, 3).
        axles_m: Distance of the rear axle behind the centre, and wheel base, (K, 2).
        wanted_mps2: The desired accelerations, (K,).
        step_s: Seconds of the step.
    """
    controls = np.empty((len(routes), 2))
    _track_all(
        PathArrays(*map(as_kernel_array, paths)),
        as_kernel_array(routes),
        as_kernel_array(route_positions),
        as_kernel_array(motions),
        as_kernel_array(axles_m),
        as_kernel_array(wanted_mps2),
        float(step_s),
        controls,
    )
    return controls


def begin_gently(
    accelerations_mps2: Float64Array, before_mps2: FloatArray, since_start_s: FloatArray, *, step_s: float
) -> Float64Array:
    """Return accelerations of drives (K,) whose magnitude grows by at most 2.2 m/s3 in the first second.

    An episode begins without acceleration, and jerk grows with it. A simulation continues a log whose AV may already be
    braking, where the smoothing of the score exaggerates a sudden jerk. Releasing the brakes is not limited, so that no
    vehicle rolls back.

    Args:
        accelerations_mps2: Result of :func:`track_routes`, (K,).
        before_mps2: Accelerations of the step before, (K,).
        since_start_s: Time since the start of the drives, seconds, (K,).
        step_s: Seconds of the step.
    """
    change = np.where(since_start_s < _BEGINNING_S, _BEGINNING_JERK_MPS3, np.inf) * step_s
    least, most = np.minimum(before_mps2, 0.0) - change, np.maximum(before_mps2, 0.0) + change
    gentle: Float64Array = np.clip(accelerations_mps2, least, most)
    return gentle

"""Route tracking: acceleration and curvature with which a vehicle follows its route, for a wanted acceleration."""

import math

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, FloatArray, Int64Array
from l5kit.data.array_shapes import as_kernel_array
from l5kit.geometry.relative_pose import wrap_angle
from l5kit.lanes.lane_paths import PATH_STEP_M, PathArrays, index_along, piece_at, speed_in_bend
from l5kit.lanes.path_positions import line_at

HARDEST_BRAKING_MPS2, MOST_ACCELERATION_MPS2 = 3.7, 2.2
"""Braking and acceleration at most: the bounds of comfort, 4.05 and 2.40 m/s2 (nuPlan), less what smoothing adds."""

_FIRST_JERK_MPS3, _JERK_GROWTH_1PS, _MOST_JERK_MPS3 = 1.0, 1.5, 3.7
"""How fast the acceleration changes at most: so fast from 0 on, more by so much for each m/s2 of it, so fast at last.

The bound of comfort is 4.13 m/s3 (nuPlan), but the score smooths accelerations with parabolas, which at the ends of a
drive take a steady 3.7 m/s3 for 5.8, and more where braking is released soon. A jerk that grows stays within the bound
there, and full braking comes after 1.5 s in place of 1.0 s.
"""

EMERGENCY_BRAKING_MPS2 = 6.0
"""Braking at most where more is wanted than is comfortable: that of emergencies of the planner by rules."""

_EMERGENCY_JERK_MPS3 = 12.0
"""How fast such braking comes on, and how abruptly it may end: all of it within half a second."""

_BEGINNING_JERK_MPS3, _BEGINNING_S = 2.2, 1.0
"""Jerk at most in the beginning of a drive that goes on from a log: the parabolas make 4 m/s3 of it, see above."""

_BEND_MPS2, _BRAKING_MPS2 = 2.5, 2.0
"""Acceleration across in bends, and how hard is braked before them and before lower limits."""

_HOLD_S, _EARLY_S = 0.6, 1.2
"""How soon the highest speed is to be met, and how early that of positions ahead counts: jerk takes time."""

_MOST_YAW_ACCELERATION_RADPS2 = 1.6
"""How fast the yaw rate changes at most: below the bound of comfort, 1.93 rad/s2 (nuPlan)."""

_MOST_LATERAL_JERK_MPS3 = 6.0
"""How fast the acceleration across changes at most: with the jerk along it stays below 8.37 m/s3 (nuPlan)."""

_SLOWEST_MPS = 2.0
"""Below this speed the curvature changes as it may at this speed."""

_LEAST_AHEAD_M, _AHEAD_S = 4.0, 0.8
"""The point ahead that is led onto the route: so many metres at least, and so many seconds."""

_PREVIEW_S = 0.3
"""How far ahead the curvature of the route is read, as the wheels take time to turn."""

_STRAIGHT = np.array([[0.0, 0.0], [1.0, 0.0]])
"""The line of a vehicle without a route."""

_SPAN_M = 2.0
"""The curvature of the route is how it turns from so far behind a position to so far ahead of it."""


@kernel_jit
def _highest_speed(paths: PathArrays, route: int, points_m: Float64Array, arc_m: float, speed_mps: float) -> float:
    """Return how fast a vehicle may be at a length of its route, so that bends and limits ahead are met by braking.

    Those that it reaches in a moment count as if it were there.
    """
    last, near_m = len(points_m) - 1, arc_m + _EARLY_S * speed_mps
    piece = piece_at(paths, route, paths.piece_starts[route], arc_m)
    highest_mps: float = paths.piece_limits_mps[piece]
    end_m = near_m + speed_mps * speed_mps / (2 * _BRAKING_MPS2)
    for point in range(index_along(arc_m, last), index_along(end_m, last) + 1):
        piece = piece_at(paths, route, piece, point * PATH_STEP_M)
        # the speed from which braking over the metres up to there leaves what is allowed there: v^2 = v_there^2 + 2 b s
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

    The acceleration goes to the wanted one as fast as the bound of jerk allows, never below what stops within the step,
    and never above what keeps to the speed limits and to 2.5 m/s2 across in bends. Where harder braking is wanted than
    3.7 m/s2 it is an emergency, in which comfort does not count. The steering is that of a pure
    pursuit (Coulter 1992) with the curvature of the route fed forward: with L the distance of a point ahead of the
    centre and e how far to the left of the route that is, the curvature is that of the route less 2 e / L^2. A centre
    that moves along a bend looks out of it by asin(b k), with b the distance of the rear axle behind it and k the
    curvature of the bend, which is no error.

    Args:
        paths: All paths.
        route: That of the vehicle, -1 for none.
        route_position: Where on it the vehicle is, as :func:`l5kit.lanes.path_positions.follow_routes` writes it, (3,).
        motion: Speed, acceleration and steering, m/s, m/s2 and rad.
        axles_m: How far the rear axle is behind the centre, and the wheel base.
        wanted_mps2: The wanted acceleration.
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

    # as much jerk as is comfortable: braking that ends with the last of the speed, v = a^2 / 2 j, ends without a jolt
    most_jerk = _EMERGENCY_JERK_MPS3 if is_emergency else _MOST_JERK_MPS3
    growing_jerk = _FIRST_JERK_MPS3 + _JERK_GROWTH_1PS * abs(acceleration)
    change = (most_jerk if is_emergency else min(growing_jerk, most_jerk)) * step_s
    acceleration = min(max(wanted_mps2, acceleration - change), acceleration + change)
    left_mps = max(speed_mps, 0.0)
    acceleration = max(acceleration, -min(math.sqrt(2 * most_jerk * left_mps), left_mps / step_s))

    # how the route bends a moment ahead: the turn of its direction over the length between two positions
    pace_mps = max(speed_mps, _SLOWEST_MPS)
    preview_m = arc_m + _PREVIEW_S * max(speed_mps, 0.0)
    _, _, before_x, before_y = line_at(points_m, preview_m - _SPAN_M)
    _, _, after_x, after_y = line_at(points_m, preview_m + _SPAN_M)
    bend = math.atan2(before_x * after_y - before_y * after_x, before_x * after_x + before_y * after_y) / (2 * _SPAN_M)

    # pure pursuit: how far the point ahead is beside the route, if the vehicle went straight on
    ahead_m = max(_LEAST_AHEAD_M, _AHEAD_S * speed_mps)
    outward_rad = math.asin(min(max(axles_m[0] * bend, -1.0), 1.0))
    error_m = left_m + ahead_m * math.sin(min(max(wrap_angle(turn_rad + outward_rad), -1.0), 1.0))
    wanted = bend - 2.0 * error_m / (ahead_m * ahead_m)

    # the curvature changes no faster than yaw acceleration, v dk, and lateral jerk, v^2 dk, may be
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
    """Write what :func:`track_routes` returns."""
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
        routes: The path of each, -1 for none, which goes straight on, int64 (K,).
        route_positions: Where on it each is, zeros without one, (K, 3).
        motions: Speeds, accelerations and steering, m/s, m/s2 and rad, (K, 3).
        axles_m: How far the rear axle of each is behind its centre, and its wheel base, (K, 2).
        wanted_mps2: The wanted accelerations, (K,).
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
    """Return accelerations of drives (K,) whose size grows by at most 2.2 m/s3 in the first second.

    An episode begins without acceleration, from where jerk grows with it. A simulation goes on from a log whose AV may
    be braking already, where the parabolas of the score make more of a jerk at once than it is. Brakes are released as
    fast as ever, so that nobody rolls back.

    Args:
        accelerations_mps2: Those that :func:`track_routes` returns, (K,).
        before_mps2: Those of the step before, (K,).
        since_start_s: How long the drives have lasted, seconds, (K,).
        step_s: Seconds of the step.
    """
    change = np.where(since_start_s < _BEGINNING_S, _BEGINNING_JERK_MPS3, np.inf) * step_s
    least, most = np.minimum(before_mps2, 0.0) - change, np.maximum(before_mps2, 0.0) + change
    gentle: Float64Array = np.clip(accelerations_mps2, least, most)
    return gentle

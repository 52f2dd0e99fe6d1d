"""Leaders on paths: the nearest object ahead whose box overlaps the path of a vehicle, widened to its width.

The search is limited to one and a half times the desired gap to a standing leader, at least 20 m: beyond, the effect of
a leader is below half of the highest acceleration. A box whose centre is not ahead of that of the vehicle is not a
leader, so that two vehicles that touch do not wait for each other.
"""

import math

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array
from l5kit.lanes.lane_paths import PATH_STEP_M, index_along
from l5kit.lanes.path_positions import FADE_M, line_at, offset_at

OBJECT_FIELDS = 9
"""Columns of objects: x, y, cosine and sine of the heading, half length, half width, velocity x and y, radius."""

_LAP_M = 0.2
"""Overlap of the straight pieces of a widened path, which closes the outer side of bends."""

_JUMP_FROM = 9.0
"""Least ratio of squared distance to squared contact distance of a box for which points are skipped."""

_ROUNDING_M = 1e-6
"""Margin of bounding circles and strips, so that rounding never excludes a box that touches."""


@kernel_jit
def write_object(objects: Float64Array, row: int, box: Float64Array, velocity: Float64Array) -> None:
    """Write a row of :data:`OBJECT_FIELDS` from x, y, yaw, length and width of a box, and its velocity."""
    objects[row, 0], objects[row, 1] = box[0], box[1]
    objects[row, 2], objects[row, 3] = math.cos(box[2]), math.sin(box[2])
    objects[row, 4], objects[row, 5] = 0.5 * box[3], 0.5 * box[4]
    objects[row, 6], objects[row, 7] = velocity[0], velocity[1]
    objects[row, 8] = 0.5 * math.sqrt(box[3] * box[3] + box[4] * box[4])


@kernel_jit
def find_leader(
    points_m: Float64Array,
    position: tuple[float, float, float, float],
    size: tuple[float, float],
    reach_m: float,
    objects: Float64Array,
    own_row: int,
) -> tuple[float, float]:
    """Return the gap to the leader, from bumper to bumper along the path, and its speed along the path.

    Args:
        points_m: The path, (p, 2).
        position: Arc length of the vehicle on the path, arc length where it entered it, and offset and slope there.
        size: Half length and half width of the vehicle.
        reach_m: Largest gap of the search.
        objects: Rows of :data:`OBJECT_FIELDS`.
        own_row: The row of the vehicle itself, or -1.

    Returns:
        Metres, negative for overlapping boxes, down to minus half a length, and metres per second; infinity and 0
        without a leader.
    """
    # Points between the centre and the end of the reach, and the largest lateral deviation from them: the offset fades,
    # and the slope adds at most p (1 - p)^2 of the fade length, with a maximum of 4 / 27 at p = 1 / 3.
    arc_m = position[0]
    first = index_along(arc_m, len(points_m) - 2)
    stop_m = arc_m + size[0] + reach_m
    last = index_along(stop_m, len(points_m) - 2) + 1
    left_m = abs(position[2]) + 4 / 27 * FADE_M * abs(position[3]) if arc_m - position[1] < FADE_M else 0.0
    wide_m = size[1] + left_m
    x, y, along_x, along_y = line_at(points_m, arc_m)
    frame = _frame_of(points_m, first, last)
    low_ahead, high_ahead, low_left, high_left, goes_ahead = _bounds_of(points_m, first, last, frame)
    # Centre and half size of the bounds of the path ahead and to the left: then each distance test is one comparison,
    # which a processor predicts better than one of several alternatives.
    middle_ahead, middle_left = 0.5 * (low_ahead + high_ahead), 0.5 * (low_left + high_left)
    half_ahead, half_left = 0.5 * (high_ahead - low_ahead) + wide_m, 0.5 * (high_left - low_left) + wide_m
    half_ahead, half_left = half_ahead + _LAP_M + _ROUNDING_M, half_left + _ROUNDING_M
    best_m, best_speed = stop_m, 0.0
    begin_m = first * PATH_STEP_M
    for row in range(len(objects)):
        # first compare circles around the boxes; one or two of thirty are near the path
        x_m, y_m = objects[row, 0] - frame[0], objects[row, 1] - frame[1]
        ahead_m, beside_m = x_m * frame[2] + y_m * frame[3], y_m * frame[2] - x_m * frame[3]
        outside_m = max(abs(ahead_m - middle_ahead) - half_ahead, abs(beside_m - middle_left) - half_left)
        if outside_m > objects[row, 8]:
            continue
        most_m = max(best_m - begin_m, 0.0) + objects[row, 8] + wide_m + _LAP_M
        if row == own_row or x_m * x_m + y_m * y_m > most_m * most_m:
            continue
        # then compare boxes, by their extent in the frame of the path
        along = abs(objects[row, 2] * frame[2] + objects[row, 3] * frame[3])
        across = abs(objects[row, 3] * frame[2] - objects[row, 2] * frame[3])
        near_m = along * objects[row, 4] + across * objects[row, 5] + wide_m + _LAP_M
        wide_near_m = across * objects[row, 4] + along * objects[row, 5] + wide_m
        is_far = (ahead_m < low_ahead - near_m) | (ahead_m > high_ahead + near_m)
        is_far |= (beside_m < low_left - wide_near_m) | (beside_m > high_left + wide_near_m)
        if is_far:
            continue
        # the path length is at least the distance ahead, so earlier pieces cannot touch the box
        start = first + max(int((ahead_m - near_m) / PATH_STEP_M) - 1, 0)
        leave_m = ahead_m + near_m if goes_ahead else np.inf
        contact_m, speed = first_contact(
            points_m, position, (size[1], wide_m), (start, best_m, leave_m), frame, objects[row]
        )
        # a box that touches the vehicle counts only if its centre is ahead of that of the vehicle
        is_beside = contact_m < arc_m + size[0]
        if is_beside and (objects[row, 0] - x) * along_x + (objects[row, 1] - y) * along_y <= 0:
            continue
        if contact_m < best_m:
            best_m, best_speed = contact_m, speed
    if best_m >= stop_m:
        return np.inf, 0.0
    return best_m - arc_m - size[0], best_speed


@kernel_jit
def _frame_of(points_m: Float64Array, first: int, last: int) -> tuple[float, float, float, float]:
    """Return a point of a path and the unit vector from there to another; any direction if they coincide."""
    x, y = points_m[last, 0] - points_m[first, 0], points_m[last, 1] - points_m[first, 1]
    length_m = math.sqrt(x * x + y * y)
    if length_m < 1e-9:
        return points_m[first, 0], points_m[first, 1], 1.0, 0.0
    return points_m[first, 0], points_m[first, 1], x / length_m, y / length_m


@kernel_jit
def _bounds_of(
    points_m: Float64Array, first: int, last: int, frame: tuple[float, float, float, float]
) -> tuple[float, float, float, float, bool]:
    """Return the bounds of a part of a path in a frame (back, front, right, left), and whether it only goes ahead."""
    low_ahead, high_ahead, low_left, high_left, goes_ahead, before_m = 0.0, 0.0, 0.0, 0.0, True, 0.0
    for point in range(first + 1, last + 1):
        x, y = points_m[point, 0] - frame[0], points_m[point, 1] - frame[1]
        ahead_m, left_m = x * frame[2] + y * frame[3], y * frame[2] - x * frame[3]
        goes_ahead = goes_ahead and ahead_m >= before_m
        before_m = ahead_m
        low_ahead, high_ahead = min(low_ahead, ahead_m), max(high_ahead, ahead_m)
        low_left, high_left = min(low_left, left_m), max(high_left, left_m)
    return low_ahead, high_ahead, low_left, high_left, goes_ahead


@kernel_jit
def first_contact(
    points_m: Float64Array,
    position: tuple[float, float, float, float],
    width: tuple[float, float],
    span: tuple[int, float, float],
    frame: tuple[float, float, float, float],
    item: Float64Array,
) -> tuple[float, float]:
    """Return where a widened path first touches a box, infinite without contact, and the speed of the box along it.

    ``width`` is half the width of the path and its largest lateral extent from the line, ``span`` the first point, and
    the arc length and the distance ahead in the frame at which the search ends. Points too far from the box are
    skipped.
    """
    arc_m, entry_m, offset_m, slope = position
    half_m, wide_m = width
    point, stop_m, leave_m = span
    near_m2 = (PATH_STEP_M + _LAP_M) ** 2 + wide_m * wide_m
    last = len(points_m) - 1
    while point < last and point * PATH_STEP_M < stop_m:
        if (points_m[point, 0] - frame[0]) * frame[2] + (points_m[point, 1] - frame[1]) * frame[3] > leave_m:
            break
        x, y = item[0] - points_m[point, 0], item[1] - points_m[point, 1]
        far_x = max(abs(x * item[2] + y * item[3]) - item[4], 0.0)
        far_y = max(abs(y * item[2] - x * item[3]) - item[5], 0.0)
        far_m2 = far_x * far_x + far_y * far_y
        if far_m2 > near_m2:
            # near the box, computing the jump takes longer than testing the next points
            jump = 1
            if far_m2 > _JUMP_FROM * near_m2:
                jump = max(index_along(math.sqrt(far_m2) - math.sqrt(near_m2), last), 1)
            point += jump
            continue

        # The box in the frame of the piece, whose lateral offset is that of its middle. Pieces overlap a bit, and the
        # first one starts at the vehicle.
        along_x = (points_m[point + 1, 0] - points_m[point, 0]) / PATH_STEP_M
        along_y = (points_m[point + 1, 1] - points_m[point, 1]) / PATH_STEP_M
        begin_m = point * PATH_STEP_M
        left_m = 0.0
        if begin_m - entry_m < FADE_M:
            left_m = offset_at(begin_m + 0.5 * PATH_STEP_M - entry_m, offset_m, slope)[0]
        ahead_m, beside_m = x * along_x + y * along_y, y * along_x - x * along_y - left_m
        cos, sin = item[2] * along_x + item[3] * along_y, item[3] * along_x - item[2] * along_y
        low_m = max(-_LAP_M, arc_m - begin_m)
        high_m = PATH_STEP_M + _LAP_M
        half = (item[4], item[5])
        met_m = _nearest_in_strip((ahead_m, beside_m), (cos, sin), half, half_m, low_m, high_m + _ROUNDING_M)
        if met_m <= high_m:
            return begin_m + met_m, item[6] * along_x + item[7] * along_y
        point += 1
    return np.inf, 0.0


@kernel_jit
def _nearest_in_strip(
    centre: tuple[float, float],
    direction: tuple[float, float],
    half: tuple[float, float],
    half_strip_m: float,
    low_m: float,
    high_m: float,
) -> float:
    """Return the smallest x, at least ``low_m``, of a box inside a strip around y = 0; infinite without overlap.

    The box is given by centre, cosine and sine of its heading, and half length and width; the strip by half its width.
    Overlap beyond ``high_m`` may be reported as none.
    """
    x, y = centre
    cos, sin = direction
    long_x, long_y = half[0] * cos, half[0] * sin
    wide_x, wide_y = -half[1] * sin, half[1] * cos
    reach_x, reach_y = abs(long_x) + abs(wide_x), abs(long_y) + abs(wide_y)
    if (x + reach_x <= low_m) | (x - reach_x > high_m) | (abs(y) - reach_y >= half_strip_m):
        return np.inf

    # corners in the strip, and crossings of sides with its edges, bound the overlap in x
    nearest_m, farthest_m = np.inf, -np.inf
    before_x, before_y = x + long_x - wide_x, y + long_y - wide_y
    for corner in range(4):
        sign_long = 1.0 if corner == 0 or corner == 3 else -1.0
        sign_wide = 1.0 if corner < 2 else -1.0
        corner_x = x + sign_long * long_x + sign_wide * wide_x
        corner_y = y + sign_long * long_y + sign_wide * wide_y
        if abs(corner_y) <= half_strip_m:
            nearest_m, farthest_m = min(nearest_m, corner_x), max(farthest_m, corner_x)
        step_y = corner_y - before_y
        for side in (-half_strip_m, half_strip_m):
            if (before_y < side) != (corner_y < side):
                cut_x = before_x + (side - before_y) / step_y * (corner_x - before_x)
                nearest_m, farthest_m = min(nearest_m, cut_x), max(farthest_m, cut_x)
        before_x, before_y = corner_x, corner_y
    return max(nearest_m, low_m) if farthest_m > low_m else np.inf

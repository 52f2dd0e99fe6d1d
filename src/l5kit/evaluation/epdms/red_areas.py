"""Lanes that are closed by red lights: where the AV's box meets the area of one on its route."""

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.evaluation.epdms.plan_windows import PlanWindows, WindowRoutes
from l5kit.geometry.box_polygon import box_meets_polygon
from l5kit.lanes.red_lights import RED

__all__ = ["find_red_areas"]


def find_red_areas(windows: PlanWindows, routes: WindowRoutes) -> BoolArray:
    """Return in which states the box of the AV meets a lane of its route that a red light closes, (W, T).

    Args:
        windows: The windows.
        routes: Map, routes and lights.
    """
    is_met = np.zeros(windows.states.is_there.shape, np.bool_)
    colors, driving_map = routes.colors, routes.driving_map
    if colors is None or len(colors.lanes) == 0:
        return is_met
    _mark_red(
        windows.states.boxes,
        (windows.scenes, colors.scene_starts[windows.scenes] + windows.frames),
        (colors.starts, colors.lanes, colors.ranks),
        routes.closed_by_red,
        routes.is_of_route,
        (driving_map.grid.bounds_m, driving_map.area_points_m, driving_map.area_starts),
        is_met,
    )
    return is_met


@njit(nogil=True, cache=True, error_model="numpy")
def _mark_red(
    boxes: Float64Array,
    places: tuple[Int64Array, Int64Array],
    colors: tuple[Int64Array, Int64Array, Int64Array],
    closed: tuple[Int64Array, Int64Array],
    is_of_route: BoolArray,
    areas: tuple[Float64Array, Float64Array, Int64Array],
    is_met: BoolArray,
) -> None:
    """Mark the states whose boxes meet closed lanes of their routes."""
    scenes, first_frames = places
    color_starts, color_lanes, ranks = colors
    closed_starts, closed_lanes = closed
    bounds_m, points_m, starts = areas
    for window in range(len(boxes)):
        on_route = is_of_route[scenes[window]]
        for step in range(boxes.shape[1]):
            box = boxes[window, step]
            reach_m = 0.5 * (box[3] + box[4])
            frame = first_frames[window] + step
            for row in range(color_starts[frame], color_starts[frame + 1]):
                if ranks[row] < RED or is_met[window, step]:
                    continue
                for slot in range(closed_starts[color_lanes[row]], closed_starts[color_lanes[row] + 1]):
                    lane = closed_lanes[slot]
                    is_far = not on_route[lane]
                    for axis in range(2):
                        is_far = is_far or box[axis] + reach_m < bounds_m[lane, 0, axis]
                        is_far = is_far or box[axis] - reach_m > bounds_m[lane, 1, axis]
                    if not is_far and box_meets_polygon(box, points_m[starts[lane] : starts[lane + 1]]):
                        is_met[window, step] = True

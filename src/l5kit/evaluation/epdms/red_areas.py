"""Lanes that are closed by red lights: where the AV's box meets the area of one on its route."""

from typing import NamedTuple

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.evaluation.epdms.plan_windows import PlanWindows, WindowRoutes
from l5kit.geometry.box_overlap import box_meets_polygon
from l5kit.lanes.red_lights import RED


class _Lights(NamedTuple):
    """The lanes that are yellow or red in frames, and which lanes each closes when it is red.

    Attributes:
        starts: First row of each frame and the end of the last one.
        lanes: Lane of each row.
        ranks: Its light.
        closed_starts: First of the closed lanes of each lane and the end of the last one.
        closed_lanes: These.
    """

    starts: Int64Array
    lanes: Int64Array
    ranks: Int64Array
    closed_starts: Int64Array
    closed_lanes: Int64Array


class _Areas(NamedTuple):
    """The areas of lanes.

    Attributes:
        bounds_m: Lowest and highest x and y of each, (L, 2, 2).
        points_m: Corners of all, (any, 2).
        starts: First corner of each and the end of the last one.
    """

    bounds_m: Float64Array
    points_m: Float64Array
    starts: Int64Array


def find_red_areas(windows: PlanWindows, routes: WindowRoutes) -> BoolArray:
    """Return in which states the box of the AV meets a lane of its route that a red light closes, (W, T).

    Args:
        windows: The windows.
        routes: Map, routes and lights.
    """
    is_on_red = np.zeros(windows.states.is_there.shape, np.bool_)
    colors, driving_map = routes.colors, routes.driving_map
    if colors is None:
        return is_on_red
    _mark_red(
        windows.states.boxes,
        colors.scene_starts[windows.scenes] + windows.frames,
        _Lights(colors.starts, colors.lanes, colors.ranks, *routes.closed_by_red),
        routes.is_of_route[windows.scenes],
        _Areas(driving_map.grid.bounds_m, driving_map.area_points_m, driving_map.area_starts),
        is_on_red,
    )
    return is_on_red


@njit(nogil=True, cache=True, error_model="numpy")
def _mark_red(
    boxes: Float64Array,
    first_frames: Int64Array,
    lights: _Lights,
    is_of_route: BoolArray,
    areas: _Areas,
    is_on_red: BoolArray,
) -> None:
    """Mark the states (W, T) whose boxes meet closed lanes of their routes, (W, L)."""
    for window in range(len(boxes)):
        for step in range(boxes.shape[1]):
            frame, box = first_frames[window] + step, boxes[window, step]
            for row in range(lights.starts[frame], lights.starts[frame + 1]):
                if lights.ranks[row] < RED:
                    continue
                lane = lights.lanes[row]
                for slot in range(lights.closed_starts[lane], lights.closed_starts[lane + 1]):
                    closed = lights.closed_lanes[slot]
                    if is_of_route[window, closed] and _is_on(box, closed, areas):
                        is_on_red[window, step] = True


@njit(nogil=True, cache=True, error_model="numpy")
def _is_on(box: Float64Array, lane: int, areas: _Areas) -> bool:
    """Return whether a box meets the area of a lane."""
    # half of length and width together is more than half the diagonal: most lanes are out of reach
    reach_m = 0.5 * (box[3] + box[4])
    for axis in range(2):
        if box[axis] + reach_m < areas.bounds_m[lane, 0, axis] or box[axis] - reach_m > areas.bounds_m[lane, 1, axis]:
            return False
    return box_meets_polygon(box, areas.points_m[areas.starts[lane] : areas.starts[lane + 1]])

"""Boxes of agents on a device: which of them are drawn in each channel, and where their corners are."""

from typing import Any, Final

import numpy as np
from numba import njit

from l5kit.data.device_log import DeviceLog, DeviceTargets, DeviceWindows
from l5kit.data.filter import kept_probability
from l5kit.device.backend import Backend, DeviceArray
from l5kit.rasterization.box_channels import BOX_COLORS, is_beside_picture, project_corner
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.rasterization.culling import touches_picture
from l5kit.rasterization.draw_list import FILLED
from l5kit.rasterization.row_painting import bound_rows, require_countable
from l5kit.rasterization.subpixel import subpixel_of

__all__ = ["DeviceBoxes", "bytes_of_boxes"]

_NUM_CORNERS: Final = 4
_BYTES_PER_BOX: Final = 64
"""Of a box: its corners, its contour, and its shape where each is one."""


def bytes_of_boxes(num_frames: int, most_agents: int) -> int:
    """Return how much memory the boxes of a window take.

    Args:
        num_frames: Frames that are drawn.
        most_agents: The most agents of a frame.
    """
    return num_frames * (most_agents + 1) * _BYTES_PER_BOX


class DeviceBoxes:
    """Lists the boxes of windows, as :func:`l5kit.rasterization.box_channels.list_boxes` does.

    Args:
        rasterizer: What is drawn.
        backend: The device.
    """

    def __init__(self, rasterizer: BoxRasterizer, backend: Backend) -> None:
        width, height = rasterizer.raster_size.tolist()
        self._backend = backend
        self.num_channels = rasterizer.num_channels()
        self._size = (self.num_channels, height, width)
        self._is_solid = rasterizer.solid_boxes
        self._threshold = np.float32(rasterizer.filter_agents_threshold)
        self._draws_past_of_av = rasterizer.render_ego_history
        self._colors = self._backend.upload_one(BOX_COLORS)

    def list(
        self,
        log: DeviceLog,
        windows: DeviceWindows,
        targets: DeviceTargets,
        raster_from_world: DeviceArray,
        planes_per_window: int,
    ) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray, DeviceArray]:
        """Return the boxes of B windows, as :func:`l5kit.rasterization.row_painting.paint_row` draws them.

        Args:
            log: The log of the windows.
            windows: What to draw.
            targets: The agents of interest.
            raster_from_world: Pixels from world metres for each window, float64 (B, 3, 3).
            planes_per_window: Planes of a window, of which the first are those of boxes.

        Returns:
            The arrays; group ``window * channels + channel`` holds the boxes of a channel.

        Raises:
            InvalidArgumentError: There are more boxes than can be counted.
        """
        num_windows, num_frames = int(windows.starts.shape[0]), self.num_channels // 2
        num_boxes, num_groups = num_windows * num_frames * (log.most_agents + 1), num_windows * self.num_channels
        require_countable(_NUM_CORNERS * num_boxes)
        empty = self._backend.empty
        points, contours = empty((_NUM_CORNERS * num_boxes, 2), np.int32), empty((num_boxes, 4), np.int32)
        shapes = empty((num_boxes if self._is_solid else num_groups, 4), np.int32)
        groups = empty((num_groups, 3), np.int32)
        self._backend.run(
            _list_boxes,
            num_windows * num_frames,
            log.agents,
            (windows.is_there, windows.starts, windows.stops, windows.av_positions_m, windows.av_headings),
            (raster_from_world, targets.track_ids, targets.has_tracks, *_as_floats(targets.extent_m)),
            (*self._size, log.most_agents + 1, planes_per_window, windows.num_history),
            (self._threshold, self._draws_past_of_av, self._is_solid),
            (points, contours, shapes, groups),
        )
        return points, contours, shapes, groups, self._colors


def _as_floats(extent_m: tuple[float, float]) -> tuple[float, float]:
    """Return length and width of the AV as exact as agents have theirs."""
    return float(np.float32(extent_m[0])), float(np.float32(extent_m[1]))


@njit(nogil=True, cache=True, error_model="numpy")
def _list_boxes(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the boxes of a frame of a window: agents from the first place on, agents of interest before the last one.

    Where the agent of interest is an agent, the AV comes behind the other agents.
    """
    agents, of_windows, of_targets, sizes, choice, drawn = arguments
    is_there, starts, stops, av_positions_m, av_headings = of_windows
    raster_from_world, track_ids, has_tracks, av_length_m, av_width_m = of_targets
    num_channels, height, width, capacity, planes_per_window, num_history = sizes
    threshold, draws_past, is_solid = choice
    points, contours, shapes, groups = drawn
    num_frames = num_channels // 2
    window, frame = item // num_frames, item % num_frames
    first, end = item * capacity, item * capacity
    last = first + capacity
    begin = last
    if frame < num_history and is_there[window, frame]:
        matrix = raster_from_world[window]
        pixels_per_metre = abs(matrix[0, 0]) + abs(matrix[0, 1])
        for row in range(starts[window, frame], stops[window, frame]):
            agent = agents[row]
            centroid_m = (agent.centroid[0], agent.centroid[1])
            extent_m = (np.float64(agent.extent[0]), np.float64(agent.extent[1]))
            is_target = has_tracks and agent.track_id == track_ids[window]
            if (
                is_beside_picture(matrix, centroid_m, extent_m, pixels_per_metre, (width, height))
                or not kept_probability(agent.label_probabilities) > threshold
                or (is_target and frame > 0 and not draws_past)
            ):
                continue
            heading = (np.float64(agent.cos), np.float64(agent.sin))
            place = begin - 1 if is_target else end
            if _put_box(matrix, centroid_m, extent_m, heading, (width, height), place, points, contours):
                begin, end = (begin - 1, end) if is_target else (begin, end + 1)
        _reverse(contours, begin, last)
        if has_tracks or frame == 0 or draws_past:
            centroid_m = (av_positions_m[window, frame, 0], av_positions_m[window, frame, 1])
            heading = (np.float64(av_headings[window, frame, 1]), np.float64(av_headings[window, frame, 2]))
            place = end if has_tracks else begin - 1
            av_extent_m = (av_length_m, av_width_m)
            if _put_box(matrix, centroid_m, av_extent_m, heading, (width, height), place, points, contours):
                begin, end = (begin, end + 1) if has_tracks else (begin - 1, end)
    _put_channel(shapes, groups, window, frame, (first, end), (num_channels, planes_per_window), is_solid)
    _put_channel(shapes, groups, window, num_frames + frame, (begin, last), (num_channels, planes_per_window), is_solid)


@njit(nogil=True, cache=True, error_model="numpy")
def _put_box(
    matrix: Any,
    centroid_m: tuple[float, float],
    extent_m: tuple[float, float],
    heading: tuple[float, float],
    raster_size: tuple[int, int],
    place: int,
    points: Any,
    contours: Any,
) -> bool:
    """Write a box to a place, and return whether it can touch the picture; what was there is overwritten anyway."""
    column_low = row_low = np.inf
    column_high = row_high = -np.inf
    for corner in range(_NUM_CORNERS):
        column, row = project_corner(matrix, centroid_m, extent_m, heading, corner)
        points[_NUM_CORNERS * place + corner, 0] = subpixel_of(column)
        points[_NUM_CORNERS * place + corner, 1] = subpixel_of(row)
        column_low, column_high = min(column_low, column), max(column_high, column)
        row_low, row_high = min(row_low, row), max(row_high, row)
    if not touches_picture(column_low, row_low, column_high, row_high, raster_size):
        return False
    bound_rows(points, _NUM_CORNERS * place, _NUM_CORNERS * (place + 1), raster_size[1], contours, place)
    return True


@njit(nogil=True, cache=True, error_model="numpy")
def _reverse(contours: Any, begin: int, end: int) -> None:
    """Turn the order of contours round."""
    for i in range((end - begin) // 2):
        for column in range(4):
            low, high = contours[begin + i, column], contours[end - 1 - i, column]
            contours[begin + i, column], contours[end - 1 - i, column] = high, low


@njit(nogil=True, cache=True, error_model="numpy")
def _put_channel(
    shapes: Any,
    groups: Any,
    window: int,
    channel: int,
    boxes: tuple[int, int],
    planes: tuple[int, int],
    is_solid: bool,
) -> None:
    """Write the group of a channel: a shape of all its boxes, or a shape for each."""
    first, end = boxes
    group = window * planes[0] + channel
    if is_solid:
        for box in range(first, end):
            shapes[box, 0], shapes[box, 1], shapes[box, 2], shapes[box, 3] = FILLED, box, box + 1, 0
        groups[group, 0], groups[group, 1] = first, end
    else:
        shapes[group, 0], shapes[group, 1], shapes[group, 2], shapes[group, 3] = FILLED, first, end, 0
        groups[group, 0], groups[group, 1] = group, group + 1
    groups[group, 2] = window * planes[1] + channel

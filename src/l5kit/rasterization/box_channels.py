"""The boxes of windows of a log, sorted into the channels that they are drawn in."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from l5kit._types import Float32Array, Float64Array, Int32Array, Int64Array, NumericArray
from l5kit.data.filter import kept_probability
from l5kit.data.window_rows import read_only_field
from l5kit.geometry.relative_pose import transform_xy
from l5kit.geometry.transform import rotations33_as_yaws
from l5kit.rasterization.antialiased import FILLED
from l5kit.rasterization.culling import CULLING_MARGIN_PX, touches_picture
from l5kit.rasterization.log_windows import LogWindows
from l5kit.rasterization.rasterizer import EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH
from l5kit.rasterization.subpixel import CV2_SHIFT_VALUE

_NOT_DRAWN = -1
"""Channel of a box that is in no channel."""

_MARGIN_PX = 4
"""Rows above and below the corners of a box that its outline may touch, and some to spare."""


@dataclass(frozen=True)
class ChannelBoxes:
    """Corners of the boxes of B windows in 512ths of a pixel, ordered by window and channel.

    Attributes:
        corners: Columns and rows, int32, shape (N, 4, 2).
        shapes: A shape for each channel of each window, as :func:`l5kit.rasterization.antialiased.draw_shapes` takes
            them, with the boxes of the channel as contours, shape (B * C, 5).
        rows: First row and end row of the picture that the boxes of each channel may touch, shape (B, C, 2).
    """

    corners: Int32Array
    shapes: Int64Array
    rows: Int64Array


@dataclass(frozen=True)
class _Boxes:
    """Boxes in the world, in the order in which a channel draws them.

    Attributes:
        channels: Channel, counted through the windows, (N,).
        centroids_m: (N, 2).
        extents_m: Length and width, (N, 2).
        yaws_rad: (N,) float32.
    """

    channels: Int64Array
    centroids_m: Float64Array
    extents_m: Float64Array
    yaws_rad: Float32Array

    @classmethod
    def empty(cls, size: int) -> "_Boxes":
        return cls(np.empty(size, np.int64), np.empty((size, 2)), np.empty((size, 2)), np.empty(size, np.float32))


def collect_channel_boxes(
    windows: LogWindows,
    raster_from_world: Float64Array,
    *,
    planes_shape: tuple[int, int, int],
    filter_agents_threshold: float,
    render_ego_history: bool,
) -> ChannelBoxes:
    """Return the boxes of windows that can touch the picture, by channel.

    Channel i of the first half holds the agents of frame i, channel i of the second half the agent of interest in
    frame i. With an agent of interest the AV is among the agents and the track of the agent of interest is not.

    Args:
        windows: What to draw, B windows.
        raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
        planes_shape: (channels, height, width) of each window.
        filter_agents_threshold: Agents are kept when the summed probability of the kept classes is above it.
        render_ego_history: Whether the agent of interest is drawn in the frames before the newest.
    """
    is_av_drawn = np.arange(windows.frames.shape[1]) < windows.num_frames[:, None]
    is_av_drawn[:, 1:] &= render_ego_history or windows.track_ids is not None
    av_windows, av_frames = np.nonzero(is_av_drawn)
    boxes = _Boxes.empty(int(windows.agents.counts.sum()) + len(av_windows))
    num_agents = _gather_agents(
        windows,
        raster_from_world,
        boxes,
        planes_shape=planes_shape,
        threshold=np.float32(filter_agents_threshold),
        render_ego_history=render_ego_history,
    )
    num_boxes = num_agents + len(av_windows)
    first_av_channel = planes_shape[0] // 2 if windows.track_ids is None else 0
    boxes.channels[num_agents:num_boxes] = av_windows * planes_shape[0] + first_av_channel + av_frames
    frames = windows.frames[av_windows, av_frames]
    boxes.centroids_m[num_agents:num_boxes] = frames["ego_translation"][:, :2]
    boxes.extents_m[num_agents:num_boxes] = np.array((EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH), np.float32)
    boxes.yaws_rad[num_agents:num_boxes] = rotations33_as_yaws(frames["ego_rotation"])
    yaws_rad = boxes.yaws_rad[:num_boxes]
    corners = np.empty((num_boxes, 4, 2), np.int32)
    shapes = np.empty((len(raster_from_world) * planes_shape[0], 5), np.int64)
    rows = np.empty((len(shapes), 2), np.int64)
    _project_boxes(
        boxes.channels[:num_boxes],
        boxes.centroids_m,
        boxes.extents_m,
        np.cos(yaws_rad),
        np.sin(yaws_rad),
        raster_from_world,
        planes_shape,
        np.empty((num_boxes, 4, 2)),
        np.zeros(len(shapes), np.int64),
        corners,
        shapes,
        rows,
    )
    num_drawn = shapes[-1, 2] if len(shapes) else 0
    return ChannelBoxes(corners[:num_drawn], shapes, rows.reshape(len(raster_from_world), planes_shape[0], 2))


def _gather_agents(
    windows: LogWindows,
    raster_from_world: Float64Array,
    boxes: _Boxes,
    *,
    planes_shape: tuple[int, int, int],
    threshold: np.float32,
    render_ego_history: bool,
) -> int:
    """Write the agents that are drawn and may touch the picture to the head of ``boxes``; return how many."""
    num_boxes = 0
    agents = windows.agents
    for rows, part in agents.parts():
        track_ids = read_only_field(rows, "track_id")
        targets = np.empty(0, track_ids.dtype) if windows.track_ids is None else windows.track_ids[part]
        num_boxes = _gather_rows(
            (read_only_field(rows, "centroid"), read_only_field(rows, "extent"), read_only_field(rows, "yaw")),
            track_ids,
            read_only_field(rows, "label_probabilities"),
            agents.starts[part],
            agents.stops[part],
            windows.num_frames[part],
            targets.astype(track_ids.dtype, copy=False),
            raster_from_world[part],
            (part.start, *planes_shape),
            threshold,
            render_ego_history,
            (boxes.channels, boxes.centroids_m, boxes.extents_m, boxes.yaws_rad),
            num_boxes,
        )
    return num_boxes


@njit(nogil=True, cache=True, error_model="numpy")
def _gather_rows(
    poses: tuple[Float64Array, Float32Array, Float32Array],
    track_ids: NumericArray,
    probabilities: Float32Array,
    starts: Int64Array,
    stops: Int64Array,
    num_frames: Int64Array,
    targets: NumericArray,
    raster_from_world: Float64Array,
    window_and_shape: tuple[int, int, int, int],
    threshold: np.float32,
    render_ego_history: bool,
    boxes: tuple[Int64Array, Float64Array, Float64Array, Float32Array],
    num_boxes: int,
) -> int:
    """Append agents of windows to the fields of :class:`_Boxes`, of which ``num_boxes`` are there; return their number.

    ``poses`` are centroids (N, 2), extents (N, 3) and yaws (N,); ``targets`` is empty when the AV is of interest.
    """
    centroids_m, extents_m, yaws_rad = poses
    first_window, num_channels, height, width = window_and_shape
    for window in range(len(starts)):
        matrix = raster_from_world[window]
        pixels_per_metre = abs(matrix[0, 0]) + abs(matrix[0, 1])  # an upper bound
        for frame in range(num_frames[window]):
            for row in range(starts[window, frame], stops[window, frame]):
                length, width_m = np.float64(extents_m[row, 0]), np.float64(extents_m[row, 1])
                column_px, row_px = transform_xy(matrix, centroids_m[row, 0], centroids_m[row, 1])
                reach_px = _find_reach(length, width_m, pixels_per_metre)
                if (
                    abs(column_px - 0.5 * width) > 0.5 * width + reach_px
                    or abs(row_px - 0.5 * height) > 0.5 * height + reach_px
                    or not kept_probability(probabilities[row]) > threshold
                ):
                    continue
                channel = frame
                if len(targets) > 0 and track_ids[row] == targets[window]:
                    if frame > 0 and not render_ego_history:
                        continue
                    channel += num_channels // 2
                boxes[0][num_boxes] = (first_window + window) * num_channels + channel
                boxes[1][num_boxes, 0], boxes[1][num_boxes, 1] = centroids_m[row, 0], centroids_m[row, 1]
                boxes[2][num_boxes, 0], boxes[2][num_boxes, 1] = length, width_m
                boxes[3][num_boxes] = yaws_rad[row]
                num_boxes += 1
    return num_boxes


@njit(nogil=True, cache=True, error_model="numpy")
def _find_reach(length_m: float, width_m: float, pixels_per_metre: float) -> float:
    """Return a distance in pixels that no corner of a box has from its centroid, whatever its heading.

    It holds the margin of the exact test and a pixel to spare. A box that is not a number is left to the exact test,
    as it is never farther away than a distance that is not a number.
    """
    half_diagonal_m = 0.5 * (abs(length_m) + abs(width_m))  # an upper bound
    return half_diagonal_m * pixels_per_metre + CULLING_MARGIN_PX + 1.0


@njit(nogil=True, cache=True, error_model="numpy")
def _project_boxes(
    channels: Int64Array,
    centroids_m: Float64Array,
    extents_m: Float64Array,
    cos: Float32Array,
    sin: Float32Array,
    raster_from_world: Float64Array,
    planes_shape: tuple[int, int, int],
    corners_px: Float64Array,
    slots: Int64Array,
    corners: Int32Array,
    shapes: Int64Array,
    rows: Int64Array,
) -> None:
    """Write the fields of :class:`ChannelBoxes`: the visible boxes, inside a channel in their order.

    Corners as :func:`l5kit.geometry.box.compute_box_corners`. ``channels``, ``corners_px`` (N, 4, 2) and ``slots``, one
    for each channel and 0 before, are overwritten.
    """
    num_channels, height, width = planes_shape
    for box in range(len(channels)):
        matrix = raster_from_world[channels[box] // num_channels]
        column_low = row_low = np.inf
        column_high = row_high = -np.inf
        for corner in range(4):
            along = extents_m[box, 0] * (-0.5 if corner < 2 else 0.5)
            across = extents_m[box, 1] * (0.5 if corner == 1 or corner == 2 else -0.5)
            x = np.float64(cos[box]) * along - np.float64(sin[box]) * across + centroids_m[box, 0]
            y = np.float64(sin[box]) * along + np.float64(cos[box]) * across + centroids_m[box, 1]
            column, row = transform_xy(matrix, x, y)
            corners_px[box, corner, 0], corners_px[box, corner, 1] = column, row
            column_low, column_high = min(column_low, column), max(column_high, column)
            row_low, row_high = min(row_low, row), max(row_high, row)
        if touches_picture(column_low, row_low, column_high, row_high, (width, height)):
            slots[channels[box]] += 1
        else:
            channels[box] = _NOT_DRAWN
    end = 0
    for shape in range(len(shapes)):
        begin, end = end, end + slots[shape]
        slots[shape] = begin
        shapes[shape, 0], shapes[shape, 1], shapes[shape, 2] = FILLED, begin, end
        shapes[shape, 3], shapes[shape, 4] = 0, shape % num_channels
        rows[shape, 0], rows[shape, 1] = height, 0
    for box in range(len(channels)):
        if channels[box] != _NOT_DRAWN:
            slot = slots[channels[box]]
            slots[channels[box]] += 1
            drawn = rows[channels[box]]
            for corner in range(4):
                for axis in range(2):
                    corners[slot, corner, axis] = np.int32(np.int64(corners_px[box, corner, axis] * CV2_SHIFT_VALUE))
                touched = np.int64(corners[slot, corner, 1]) // CV2_SHIFT_VALUE
                drawn[0] = min(drawn[0], max(touched - _MARGIN_PX, 0))
                drawn[1] = max(drawn[1], min(touched + _MARGIN_PX + 1, height))
    for shape in range(len(shapes)):
        if rows[shape, 0] >= rows[shape, 1]:
            rows[shape] = 0

"""The boxes of a window of a log, sorted into the channels that they are drawn in."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array, RecordArray
from l5kit.data.filter import kept_probability
from l5kit.geometry.transform import rotations33_as_yaws
from l5kit.rasterization.log_window import LogWindow
from l5kit.rasterization.rasterizer import EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH
from l5kit.rasterization.subpixel import CULLING_MARGIN_PX, CV2_SHIFT_VALUE

_NOT_DRAWN = -1
"""Channel of a box that is in no channel."""


@dataclass(frozen=True)
class ChannelBoxes:
    """Corners of boxes in 512ths of a pixel, ordered by channel.

    Attributes:
        corners: Columns and rows, int32, shape (N, 4, 2).
        starts: First box of each channel and the end of the last one, shape (C + 1,).
    """

    corners: Int32Array
    starts: Int64Array


def collect_channel_boxes(
    window: LogWindow,
    raster_from_world: Float64Array,
    *,
    planes_shape: tuple[int, int, int],
    filter_agents_threshold: float,
    render_ego_history: bool,
) -> ChannelBoxes:
    """Return the boxes of a window that can touch the picture, by channel.

    Channel i of the first half holds the agents of frame i, channel i of the second half the agent of interest in
    frame i. With an agent of interest the AV is among the agents and the track of the agent of interest is not.

    Args:
        window: What to draw.
        raster_from_world: Pixels from world metres, shape (3, 3).
        planes_shape: (channels, height, width).
        filter_agents_threshold: Agents are kept when the summed probability of the kept classes is above it.
        render_ego_history: Whether the agent of interest is drawn in the frames before the newest.
    """
    rows = _join_rows(window.agents)
    channels = _assign_channels(window, rows, planes_shape[0] // 2, filter_agents_threshold, render_ego_history)
    num_frames = len(window.frames)
    yaws_rad = np.concatenate([rows["yaw"], rotations33_as_yaws(window.frames["ego_rotation"])], dtype=np.float32)
    ego_extents = np.full((num_frames, 2), (EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH), np.float32)
    corners, starts = _project_boxes(
        np.concatenate([rows["centroid"], window.frames["ego_translation"][:, :2]]),
        np.concatenate([rows["extent"][:, :2], ego_extents]),
        np.cos(yaws_rad),
        np.sin(yaws_rad),
        channels,
        raster_from_world,
        planes_shape,
    )
    return ChannelBoxes(corners, starts)


def _join_rows(arrays: Sequence[RecordArray]) -> RecordArray:
    """Return arrays of records one after the other; of one type as plain bytes, which NumPy joins ten times faster."""
    dtype = arrays[0].dtype
    if any(array.dtype is not dtype for array in arrays):
        return np.concatenate(arrays)
    as_bytes = np.dtype((np.void, dtype.itemsize))
    return np.concatenate([array.view(as_bytes) for array in arrays]).view(dtype)


def _assign_channels(
    window: LogWindow, rows: RecordArray, num_steps: int, filter_agents_threshold: float, render_ego_history: bool
) -> Int64Array:
    """Return the channel of every agent row of the window and, behind them, of the AV in every frame."""
    frame_indices = np.arange(len(window.frames))
    ego_channels = num_steps + frame_indices
    if not render_ego_history:
        ego_channels[1:] = _NOT_DRAWN
    channels = np.empty(len(rows) + len(frame_indices), np.int64)
    channels[len(rows) :] = ego_channels if window.agent is None else frame_indices
    if len(rows):
        ends = np.cumsum([len(agents) for agents in window.agents])
        is_ego = np.zeros(len(rows), np.bool_)
        if window.agent is not None:
            np.equal(rows["track_id"], window.agent["track_id"], out=is_ego)
        threshold = np.float32(filter_agents_threshold)
        _assign_agents(ends, rows["label_probabilities"], threshold, is_ego, ego_channels, channels)
    return channels


@njit(nogil=True, cache=True)
def _assign_agents(
    ends: Int64Array,
    probabilities: Float32Array,
    threshold: np.float32,
    is_ego: BoolArray,
    ego_channels: Int64Array,
    channels: Int64Array,
) -> None:
    """Write the channels of the agents to the head of ``channels``; the rows of frame i end at ``ends[i]``."""
    row = 0
    for frame in range(len(ends)):
        while row < ends[frame]:
            if not kept_probability(probabilities[row]) > threshold:
                channels[row] = _NOT_DRAWN
            else:
                channels[row] = ego_channels[frame] if is_ego[row] else frame
            row += 1


@njit(nogil=True, cache=True, error_model="numpy")
def _project_boxes(
    centroids_m: Float64Array,
    extents_m: Float32Array,
    cos: Float32Array,
    sin: Float32Array,
    channels: Int64Array,
    raster_from_world: Float64Array,
    planes_shape: tuple[int, int, int],
) -> tuple[Int32Array, Int64Array]:
    """Return the corners (N, 4, 2) in 512ths of a pixel of the visible boxes, by channel and else in their order.

    Also returns the first box of each channel (C + 1,). Corners as :func:`l5kit.geometry.box.compute_box_corners`.
    """
    num_channels, height, width = planes_shape
    corners_px = np.empty((len(channels), 4, 2), np.float64)
    visible_channels = np.full(len(channels), _NOT_DRAWN, np.int64)
    for box in range(len(channels)):
        if channels[box] == _NOT_DRAWN:
            continue
        for corner in range(4):
            along = np.float64(extents_m[box, 0]) * (-0.5 if corner < 2 else 0.5)
            across = np.float64(extents_m[box, 1]) * (0.5 if corner in (1, 2) else -0.5)
            x = np.float64(cos[box]) * along - np.float64(sin[box]) * across + centroids_m[box, 0]
            y = np.float64(sin[box]) * along + np.float64(cos[box]) * across + centroids_m[box, 1]
            for axis in range(2):
                row = raster_from_world[axis]
                corners_px[box, corner, axis] = x * row[0] + y * row[1] + row[2]
        if _touches_picture(corners_px[box], width, height):
            visible_channels[box] = channels[box]
    return _sort_by_channel(corners_px, visible_channels, num_channels)


@njit(nogil=True, cache=True, error_model="numpy")
def _touches_picture(corners_px: Float64Array, width: int, height: int) -> bool:
    """Return whether a box (4, 2) comes near the picture; written out, as reductions cost more than the rest."""
    column_low = row_low = np.inf
    column_high = row_high = -np.inf
    for column, row in corners_px:
        column_low, column_high = min(column_low, column), max(column_high, column)
        row_low, row_high = min(row_low, row), max(row_high, row)
    return bool(
        column_high > -CULLING_MARGIN_PX
        and column_low < width + CULLING_MARGIN_PX
        and row_high > -CULLING_MARGIN_PX
        and row_low < height + CULLING_MARGIN_PX
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _sort_by_channel(
    corners_px: Float64Array, channels: Int64Array, num_channels: int
) -> tuple[Int32Array, Int64Array]:
    """Return boxes (N, 4, 2) that have a channel in 512ths of a pixel, by channel, and the first box of each."""
    starts = np.zeros(num_channels + 1, np.int64)
    for channel in channels:
        if channel != _NOT_DRAWN:
            starts[channel + 1] += 1
    starts = np.cumsum(starts)
    corners = np.empty((starts[num_channels], 4, 2), np.int32)
    next_slot = starts.copy()
    for box in range(len(channels)):
        if channels[box] != _NOT_DRAWN:
            slot = next_slot[channels[box]]
            next_slot[channels[box]] += 1
            for corner in range(4):
                for axis in range(2):
                    corners[slot, corner, axis] = np.int32(np.int64(corners_px[box, corner, axis] * CV2_SHIFT_VALUE))
    return corners, starts

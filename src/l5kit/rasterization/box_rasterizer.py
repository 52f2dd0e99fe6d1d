"""Box rasterizer: agents and the agent of interest as boxes, one pair of channels per frame."""

from typing import Any, Final, NamedTuple

import cv2
import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from l5kit._kernels import kernel_jit
from l5kit._types import Float32Array, Float64Array, Int32Array, Int64Array, NumericArray, RecordArray, UInt8Array
from l5kit.data.device_log import DeviceLog
from l5kit.data.filter import kept_probability
from l5kit.data.index.windows import TargetArrays, Targets, WindowArrays, Windows
from l5kit.data.log_facts import EGO_EXTENT_HEIGHT, EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH
from l5kit.data.records import AGENT_DTYPE
from l5kit.device.backend import DeviceArray
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.geometry.box import compute_box_corners
from l5kit.geometry.relative_pose import transform_xy
from l5kit.geometry.transform import rotation33_as_yaw, transform_points, yaw_of_x_axis
from l5kit.rasterization.draw_list import FILLED, PlanesShape, ShapeList
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.row_painting import ShapeArrays, bound_rows, require_countable
from l5kit.rasterization.subpixel import (
    CULLING_MARGIN_PX,
    CV2_SHIFT_VALUE,
    CV2_SUB_VALUES,
    cv2_subpixel,
    subpixel_of,
    touches_picture,
)

_NOT_DRAWN = -1
"""Channel of a box that is not drawn."""

_MARGIN_PX = 4
"""Rows above and below the corners of a box that its outline may touch, including a safety margin."""

_NUM_CORNERS: Final = 4

_BYTES_PER_BOX: Final = 64
"""Memory of a box on a device: corners, contours, and shapes if each box is a separate shape."""

BOX_COLORS: Final[UInt8Array] = np.array([[255]], np.uint8)


class _Boxes(NamedTuple):
    """Boxes in the world, in drawing order.

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


class _Drawn(NamedTuple):
    """Memory for the shapes of N boxes, as arrays of a ``ShapeList``; shapes of boxes, or of the channels of B windows.

    The arrays are passed to the kernel, which costs a third of returning them.
    """

    points: Int32Array
    contours: Int64Array
    shapes: Int64Array
    starts: Int64Array
    rows: Int64Array


class _Views(NamedTuple):
    """B windows and their transforms.

    Attributes:
        frames: FRAME_DTYPE, (B, F).
        counts: Numbers of available history frames and future frames, (2, B).
        starts: First agent row of each frame, (B, F).
        stops: End agent row of each frame, (B, F).
        track_ids: Tracks of the agents of interest, (B,); empty for the AV.
        raster_from_world: Pixels from world metres, (B, 3, 3).
    """

    frames: RecordArray
    counts: Int64Array
    starts: Int64Array
    stops: Int64Array
    track_ids: NumericArray
    raster_from_world: Float64Array


class BoxDrawing(NamedTuple):
    """Options for drawing boxes, for :func:`list_boxes`.

    Attributes:
        planes_shape: (channels, height, width) of each window.
        threshold: Agents are drawn if the summed probability of the kept classes is above it.
        render_ego_history: Whether the agent of interest is drawn in past frames.
        is_solid: Whether overlapping boxes are filled instead of cancelling.
    """

    planes_shape: PlanesShape
    threshold: float
    render_ego_history: bool
    is_solid: bool

    def bytes_per_window(self, most_agents: int) -> int:
        """Return the bytes for the boxes of a window on a device, given the largest number of agents in a frame."""
        return self.planes_shape[0] // 2 * (most_agents + 1) * _BYTES_PER_BOX


def list_boxes(
    windows: Windows,
    targets: Targets,
    raster_from_world: Float64Array,
    *,
    drawing: BoxDrawing,
) -> ShapeList:
    """Return the boxes of windows that can touch the raster, as filled shapes for each channel of each window.

    Channel i of the first half holds the agents of frame i, channel i of the second half the agent of interest in frame
    i. If the agent of interest is not the AV, the AV is among the agents and the agent of interest is not.

    Args:
        windows: The history of B windows.
        targets: The agents of interest, (B,).
        raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
        drawing: Drawing options.
    """
    agents, num_windows, num_channels = windows.agents, len(windows), drawing.planes_shape[0]
    num_frames = min(windows.num_history, num_channels // 2)
    most = _count_rows(windows.counts, agents.starts, agents.stops, num_frames)
    boxes = _Boxes(np.empty(most, np.int64), np.empty((most, 2)), np.empty((most, 2)), np.empty(most, np.float32))

    # gather the boxes that may touch the raster, one array of agents at a time
    size_m = (np.float32(windows.ego_extent_m[0]), np.float32(windows.ego_extent_m[1]))
    options = (np.float32(drawing.threshold), drawing.render_ego_history, size_m)
    held, num_boxes = agents.dtype["track_id"], 0
    track_ids = np.empty(0, held) if targets.track_ids is None else targets.track_ids.astype(held, copy=False)
    views = (windows.frames, windows.counts, agents.starts, agents.stops, track_ids, raster_from_world)
    for rows, part in agents.parts():
        of_part, room = (part.start, part.stop, num_frames), (*boxes, num_boxes)
        num_boxes = _gather_boxes(rows, views, of_part, drawing.planes_shape, options, room)

    # sines and cosines by NumPy, as kernels compute different bits in float32
    yaws_rad = boxes.yaws_rad[:num_boxes]
    headings = np.cos(yaws_rad), np.sin(yaws_rad)
    drawn = _Drawn(
        points=np.empty((_NUM_CORNERS * num_boxes, 2), np.int32),
        contours=np.empty((num_boxes, 2), np.int64),
        shapes=np.empty((num_boxes if drawing.is_solid else num_windows * num_channels, 5), np.int64),
        starts=np.empty(num_windows + 1, np.int64),
        rows=np.empty((num_windows, num_channels, 2), np.int64),
    )
    num_drawn, most_points = _project_boxes(
        tuple(boxes), headings, raster_from_world, drawing.planes_shape, drawing.is_solid, tuple(drawn)
    )
    return ShapeList(
        points=drawn.points[: _NUM_CORNERS * num_drawn],
        contours=drawn.contours[:num_drawn],
        shapes=drawn.shapes[:num_drawn] if drawing.is_solid else drawn.shapes,
        starts=drawn.starts,
        colors=BOX_COLORS,
        planes_shape=drawing.planes_shape,
        rows=drawn.rows,
        known_most_points=most_points,
    )


def list_boxes_on_device(
    log: DeviceLog,
    windows: WindowArrays,
    targets: TargetArrays,
    raster_from_world: DeviceArray,
    *,
    drawing: BoxDrawing,
    colors: DeviceArray,
    planes_per_window: int,
) -> ShapeArrays:
    """Return the boxes of B windows on a device, like :func:`list_boxes`.

    Args:
        log: The log of the windows.
        windows: The windows.
        targets: The agents of interest.
        raster_from_world: Pixels from world metres for each window, float64 (B, 3, 3).
        drawing: Drawing options.
        colors: :data:`BOX_COLORS` on the device.
        planes_per_window: Planes of a window, of which the first are those of boxes.

    Returns:
        The arrays; group ``window * channels + channel`` holds the boxes of a channel.

    Raises:
        InvalidArgumentError: There are more boxes than can be counted.
    """
    num_windows, num_channels = int(windows.starts.shape[0]), drawing.planes_shape[0]
    num_frames, capacity, num_groups = num_channels // 2, log.most_agents + 1, num_windows * num_channels
    num_boxes = num_windows * num_frames * capacity
    require_countable(_NUM_CORNERS * num_boxes)
    empty = log.backend.empty
    drawn = ShapeArrays(
        empty((_NUM_CORNERS * num_boxes, 2), np.int32),
        empty((num_boxes, 4), np.int32),
        empty((num_boxes if drawing.is_solid else num_groups, 4), np.int32),
        empty((num_groups, 3), np.int32),
        colors,
    )
    log.backend.run(
        _list_boxes_of_frame,
        num_windows * num_frames,
        log.agents,
        windows,
        targets,
        raster_from_world,
        (*drawing.planes_shape, capacity, planes_per_window),
        (np.float32(drawing.threshold), drawing.render_ego_history, drawing.is_solid),
        drawn,
    )
    return drawn


@kernel_jit
def _count_rows(counts: Int64Array, starts: Int64Array, stops: Int64Array, num_frames: int) -> int:
    """Return the total number of agents and AVs in the first frames of windows; rows of frames are (B, F)."""
    count: Any = np.int64(0)
    for window in range(len(starts)):
        for frame in range(min(counts[0, window], num_frames)):
            count += stops[window, frame] - starts[window, frame] + 1
    return int(count)


@kernel_jit
def _gather_boxes(
    agents: RecordArray,
    view_arrays: tuple[Any, ...],
    part: tuple[int, int, int],
    planes_shape: PlanesShape,
    options: tuple[np.float32, bool, tuple[np.float32, np.float32]],
    room: tuple[Any, ...],
) -> int:
    """Write agents and AVs of windows whose agents are in one array, and return the end of the written boxes.

    The arrays are those of :class:`_Views`; ``part`` holds first and end window, and the number of drawn frames;
    ``options`` the probability threshold of agents, whether agents of interest are drawn in past frames, and length and
    width of the AV; ``room`` the arrays of :class:`_Boxes` and the first free position in them.
    """
    views = _Views(*view_arrays)
    (num_channels, height, width), (threshold, draws_past, size_m) = planes_shape, options
    draws_av = len(views.track_ids) == 0
    channels, centroids_m, extents_m, yaws_rad, num_boxes = room
    boxes = _Boxes(channels, centroids_m, extents_m, yaws_rad)
    for window in range(part[0], part[1]):
        matrix = views.raster_from_world[window]
        pixels_per_metre = abs(matrix[0, 0]) + abs(matrix[0, 1])  # an upper bound
        for frame in range(min(views.counts[0, window], part[2])):
            for row in range(views.starts[window, frame], views.stops[window, frame]):
                agent = agents[row]
                length, width_m = np.float64(agent.extent[0]), np.float64(agent.extent[1])
                centroid_m = (agent.centroid[0], agent.centroid[1])
                if (
                    _is_outside_raster(matrix, centroid_m, (length, width_m), pixels_per_metre, (width, height))
                    or not kept_probability(agent.label_probabilities) > threshold
                ):
                    continue
                # channels of the agent of interest follow those of agents
                channel = frame
                if not draws_av and agent.track_id == views.track_ids[window]:
                    if frame > 0 and not draws_past:
                        continue
                    channel += num_channels // 2
                boxes.channels[num_boxes] = window * num_channels + channel
                boxes.centroids_m[num_boxes, 0], boxes.centroids_m[num_boxes, 1] = centroid_m
                boxes.extents_m[num_boxes, 0], boxes.extents_m[num_boxes, 1] = length, width_m
                boxes.yaws_rad[num_boxes] = agent.yaw
                num_boxes += 1

            # the AV is drawn in the channel of the agent of interest, or as the last of the agents
            if draws_av and frame > 0 and not draws_past:
                continue
            av = views.frames[window, frame]
            boxes.channels[num_boxes] = window * num_channels + frame + (num_channels // 2 if draws_av else 0)
            for axis in range(2):
                boxes.centroids_m[num_boxes, axis] = av.ego_translation[axis]
                boxes.extents_m[num_boxes, axis] = size_m[axis]
            boxes.yaws_rad[num_boxes] = yaw_of_x_axis(av.ego_rotation[0, 0], av.ego_rotation[1, 0])
            num_boxes += 1
    return int(num_boxes)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _is_outside_raster(
    matrix: Float64Array,
    centroid_m: tuple[float, float],
    extent_m: tuple[float, float],
    pixels_per_metre: float,
    raster_size: tuple[int, int],
) -> bool:
    """Return whether a box is so far from the raster that its corners need not be computed.

    Args:
        matrix: Pixels from world metres, (3, 3).
        centroid_m: World x and y.
        extent_m: Length and width.
        pixels_per_metre: An upper bound of the scale.
        raster_size: Width and height in pixels.
    """
    width, height = raster_size
    column_px, row_px = transform_xy(matrix, centroid_m[0], centroid_m[1])
    # An upper bound of the distance of corners from the centroid for any heading, with the margin of the exact test and
    # one more pixel. Comparisons with NaN are false, which leaves such a box to the exact test.
    half_diagonal_m = 0.5 * (abs(extent_m[0]) + abs(extent_m[1]))
    reach_px = half_diagonal_m * pixels_per_metre + CULLING_MARGIN_PX + 1.0
    return bool(
        abs(column_px - 0.5 * width) > 0.5 * width + reach_px or abs(row_px - 0.5 * height) > 0.5 * height + reach_px
    )


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _project_box(
    matrix: Float64Array,
    centroid_m: tuple[float, float],
    extent_m: tuple[float, float],
    heading: tuple[float, float],
    raster_size: tuple[int, int],
    points: Int32Array,
    first: int,
) -> bool:
    """Write the corners of a box to points from ``first`` on, and return whether it may touch the raster."""
    column_low = row_low = np.inf
    column_high = row_high = -np.inf
    cos, sin = heading
    for corner in range(_NUM_CORNERS):
        # rear right, rear left, front left, front right
        along = extent_m[0] * (-0.5 if corner < 2 else 0.5)
        across = extent_m[1] * (0.5 if corner == 1 or corner == 2 else -0.5)
        x = cos * along - sin * across + centroid_m[0]
        y = sin * along + cos * across + centroid_m[1]
        column, row = transform_xy(matrix, x, y)
        points[first + corner, 0], points[first + corner, 1] = subpixel_of(column), subpixel_of(row)
        column_low, column_high = min(column_low, column), max(column_high, column)
        row_low, row_high = min(row_low, row), max(row_high, row)
    return touches_picture(column_low, row_low, column_high, row_high, raster_size)


@kernel_jit
def _project_boxes(
    box_arrays: tuple[NumericArray, ...],
    headings: tuple[Float32Array, Float32Array],
    raster_from_world: Float64Array,
    planes_shape: PlanesShape,
    is_solid: bool,
    drawn_arrays: tuple[NumericArray, ...],
) -> tuple[int, int]:
    """Write the visible boxes, in order within a channel; return their number and the most points of a shape.

    The shape of a channel is all of its boxes; or, if they are solid, each box is a separate shape, so that boxes do
    not cancel where they overlap. Corners are those of :func:`l5kit.geometry.box.compute_box_corners`. The arrays are
    those of :class:`_Boxes` and :class:`_Drawn`. ``headings`` are the cosines and the sines of the yaws of all boxes;
    the channels of boxes that are not drawn are overwritten.
    """
    boxes, (cos, sin), (num_channels, height, width) = _Boxes(*box_arrays), headings, planes_shape
    corners, contours, shapes, starts, rows = drawn_arrays
    channels, num_boxes, num_windows = boxes.channels, len(cos), len(raster_from_world)
    points, num_drawn = np.empty((_NUM_CORNERS * num_boxes, 2), np.int32), np.int64(0)
    ends = np.zeros(num_windows * num_channels, np.int64)
    # corners in pixels, and the number of boxes of each channel that may touch the raster
    for box in range(num_boxes):
        matrix = raster_from_world[channels[box] // num_channels]
        centroid_m = (boxes.centroids_m[box, 0], boxes.centroids_m[box, 1])
        extent_m = (boxes.extents_m[box, 0], boxes.extents_m[box, 1])
        heading = (np.float64(cos[box]), np.float64(sin[box]))
        if _project_box(matrix, centroid_m, extent_m, heading, (width, height), points, _NUM_CORNERS * box):
            ends[channels[box]] += 1
            num_drawn += 1
        else:
            channels[box] = _NOT_DRAWN

    # the boxes of a channel are contiguous
    starts[0] = 0
    end = most_boxes = 0
    for channel in range(len(ends)):
        begin, end = end, end + ends[channel]
        most_boxes = max(most_boxes, ends[channel])
        ends[channel] = begin
        first_shape = begin if is_solid else channel
        end_shape = end if is_solid else channel + 1
        for shape in range(first_shape, end_shape):
            shapes[shape, 0], shapes[shape, 3], shapes[shape, 4] = FILLED, 0, channel % num_channels
            shapes[shape, 1] = shape if is_solid else begin
            shapes[shape, 2] = shape + 1 if is_solid else end
        starts[channel // num_channels + 1] = end_shape

    # append each box to its channel, and extend the rows that the channel touches
    rows[..., 0], rows[..., 1] = height, 0
    for box in range(num_boxes):
        if channels[box] != _NOT_DRAWN:
            position = ends[channels[box]]
            ends[channels[box]] += 1
            first = _NUM_CORNERS * position
            contours[position, 0], contours[position, 1] = first, first + _NUM_CORNERS
            touched = rows[channels[box] // num_channels, channels[box] % num_channels]
            for corner in range(_NUM_CORNERS):
                for axis in range(2):
                    corners[first + corner, axis] = points[_NUM_CORNERS * box + corner, axis]
                whole_row = np.int64(corners[first + corner, 1]) // CV2_SHIFT_VALUE
                touched[0] = min(touched[0], max(whole_row - _MARGIN_PX, 0))
                touched[1] = max(touched[1], min(whole_row + _MARGIN_PX + 1, height))
    for window in range(num_windows):
        for channel in range(num_channels):
            if rows[window, channel, 0] >= rows[window, channel, 1]:
                rows[window, channel] = 0
    most_boxes = min(most_boxes, 1) if is_solid else most_boxes
    return int(num_drawn), int(_NUM_CORNERS * most_boxes)


@kernel_jit
def _list_boxes_of_frame(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the boxes of a frame of a window: agents from the start, agents of interest from the end.

    If the agent of interest is an agent, the AV follows the other agents.
    """
    agents, of_windows, of_targets, raster_from_world, sizes, (threshold, draws_past, is_solid), arrays = arguments
    windows, targets, drawn = WindowArrays(*of_windows), TargetArrays(*of_targets), ShapeArrays(*arrays)
    num_channels, height, width, capacity, planes_per_window = sizes
    num_frames = num_channels // 2
    window, frame = item // num_frames, item % num_frames
    first, end = item * capacity, item * capacity
    last = first + capacity
    begin = last
    if frame < windows.num_history and windows.is_there[window, frame]:
        matrix = raster_from_world[window]
        pixels_per_metre = abs(matrix[0, 0]) + abs(matrix[0, 1])  # an upper bound
        for row in range(windows.starts[window, frame], windows.stops[window, frame]):
            agent = agents[row]
            centroid_m = (agent.centroid[0], agent.centroid[1])
            extent_m = (np.float64(agent.extent[0]), np.float64(agent.extent[1]))
            is_target = targets.has_tracks and agent.track_id == targets.track_ids[window]
            if (
                _is_outside_raster(matrix, centroid_m, extent_m, pixels_per_metre, (width, height))
                or not kept_probability(agent.label_probabilities) > threshold
                or (is_target and frame > 0 and not draws_past)
            ):
                continue
            heading = (np.float64(agent.cos), np.float64(agent.sin))
            position = begin - 1 if is_target else end
            if _put_box(matrix, centroid_m, extent_m, heading, (width, height), position, drawn):
                begin, end = (begin - 1, end) if is_target else (begin, end + 1)

        # reverse agents of interest, which were written from the end, into the order of the log
        for i in range((last - begin) // 2):
            for column in range(4):
                low, high = drawn.contours[begin + i, column], drawn.contours[last - 1 - i, column]
                drawn.contours[begin + i, column], drawn.contours[last - 1 - i, column] = high, low
        if targets.has_tracks or frame == 0 or draws_past:
            centroid_m = (windows.av_positions_m[window, frame, 0], windows.av_positions_m[window, frame, 1])
            headings = windows.av_headings[window, frame]
            heading = (np.float64(headings[1]), np.float64(headings[2]))
            position = end if targets.has_tracks else begin - 1
            if _put_box(matrix, centroid_m, windows.av_size_m, heading, (width, height), position, drawn):
                begin, end = (begin, end + 1) if targets.has_tracks else (begin - 1, end)
    planes = (num_channels, planes_per_window)
    _put_channel(drawn, window, frame, (first, end), planes, is_solid)
    _put_channel(drawn, window, num_frames + frame, (begin, last), planes, is_solid)


@kernel_jit
def _put_box(
    matrix: Float64Array,
    centroid_m: tuple[float, float],
    extent_m: tuple[float, float],
    heading: tuple[float, float],
    raster_size: tuple[int, int],
    position: int,
    drawn: ShapeArrays,
) -> bool:
    """Write a box to an index, and return whether it can touch the raster; a hidden box is overwritten later."""
    first = _NUM_CORNERS * position
    if not _project_box(matrix, centroid_m, extent_m, heading, raster_size, drawn.points, first):
        return False
    bound_rows(drawn.points, first, first + _NUM_CORNERS, raster_size[1], drawn.contours, position)
    return True


@kernel_jit
def _put_channel(
    drawn: ShapeArrays,
    window: int,
    channel: int,
    boxes: tuple[int, int],
    planes: tuple[int, int],
    is_solid: bool,
) -> None:
    """Write the group of a channel: a shape of all its boxes, or a shape for each."""
    shapes, groups = drawn.shapes, drawn.groups
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


_FADE_PER_FRAME = np.float32(0.85)
"""Factor on the brightness from one frame to the previous one in :meth:`BoxRasterizer.to_rgb`."""


def get_ego_as_agent(frame: np.void) -> RecordArray:
    """Return the AV of a frame as an agent: pose and extent set, everything else 0.

    Args:
        frame: One record of FRAME_DTYPE.

    Returns:
        Shape (1,), AGENT_DTYPE.
    """
    ego: RecordArray = np.zeros(1, dtype=AGENT_DTYPE)
    ego["centroid"] = frame["ego_translation"][:2]
    ego["yaw"] = rotation33_as_yaw(frame["ego_rotation"])
    ego["extent"] = (EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH, EGO_EXTENT_HEIGHT)
    return ego


def get_box_world_coords(agents: RecordArray) -> Float64Array:
    """Return the four corners of each agent's box in the world.

    Args:
        agents: AGENT_DTYPE, shape (N,).

    Returns:
        Rear right, rear left, front left, front right in metres, shape (N, 4, 2).
    """
    return compute_box_corners(agents["centroid"], agents["yaw"], agents["extent"])


def draw_boxes(
    raster_size: ArrayLike,
    raster_from_world: Float64Array,
    agents: RecordArray,
    color: int | tuple[int, int, int],
) -> UInt8Array:
    """Return a black image with the boxes of agents filled by one call of OpenCV.

    Overlapping boxes cancel (even-odd rule), as in L5Kit 1.5.

    Args:
        raster_size: Width and height in pixels, shape (2,).
        raster_from_world: Pixels from world metres, shape (3, 3).
        agents: AGENT_DTYPE, shape (N,).
        color: One value for a grey image, three for a coloured one.

    Returns:
        Shape (height, width), or (height, width, 3) for three values.
    """
    width, height = np.asarray(raster_size, dtype=np.int64).tolist()
    channels = (color,) if isinstance(color, int) else color
    picture: UInt8Array = np.zeros((height, width) if isinstance(color, int) else (height, width, 3), np.uint8)
    if len(agents):
        corners_px = transform_points(get_box_world_coords(agents).reshape(-1, 2), raster_from_world)
        corners = cv2_subpixel(corners_px).astype(np.int32).reshape(-1, 4, 2)
        cv2.fillPoly(picture, list(corners), channels, **CV2_SUB_VALUES)
    return picture


class BoxRasterizer(PlanarRasterizer):
    """Rasterizer of boxes: for each frame, one channel for the agents and one for the agent of interest.

    Channels 0 to h hold the agents, newest frame first; channels h + 1 to 2 h + 1 the agent of interest. If the agent
    of interest is not the AV, the AV is drawn among the agents. Channels of frames outside the scene are 0.

    Attributes:
        filter_agents_threshold: Agents are drawn if the summed probability of the kept classes is above it. The agent
            of interest passes the same filter, frame by frame.
        history_num_frames: Past frames h that have channels.
        render_ego_history: Whether the agent of interest is drawn in past frames.
        solid_boxes: Whether overlapping boxes are filled (L5Kit 1.5 leaves holes where two overlap).
    """

    def __init__(
        self,
        render_context: RenderContext,
        filter_agents_threshold: float,
        history_num_frames: int,
        render_ego_history: bool = True,
        *,
        solid_boxes: bool = False,
        image_dtype: str = "float32",
    ) -> None:
        super().__init__(render_context, image_dtype=image_dtype)
        if history_num_frames < 0:
            raise InvalidArgumentError(f"history_num_frames is {history_num_frames}; pass 0 or more")
        self.filter_agents_threshold = filter_agents_threshold
        self.history_num_frames = history_num_frames
        self.render_ego_history = render_ego_history
        self.solid_boxes = solid_boxes

    def prepare(self, windows: Windows, targets: Targets, raster_from_world: Float64Array) -> ShapeList:
        """Return the boxes of a batch of windows, filled with 255 on 0.

        Args:
            windows: The history of B windows.
            targets: The agents of interest, (B,).
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).

        Raises:
            IndexOutOfRangeError: A window has more frames than there are channels for.
        """
        num_frames = windows.num_history
        if num_frames > self.history_num_frames + 1:
            num_frames = int(windows.counts[0].max(initial=0))
        if num_frames > self.history_num_frames + 1:
            raise IndexOutOfRangeError(
                f"history_frames holds {num_frames} frames, but history_num_frames is {self.history_num_frames}; pass"
                f" at most {self.history_num_frames + 1}, including the current one"
            )
        return list_boxes(windows, targets, raster_from_world, drawing=self.drawing)

    @property
    def drawing(self) -> BoxDrawing:
        """Drawing options, from the current attributes."""
        return BoxDrawing(
            planes_shape=self.images_shape(1)[1:],
            threshold=self.filter_agents_threshold,
            render_ego_history=self.render_ego_history,
            is_solid=self.solid_boxes,
        )

    def to_rgb(self, in_im: NumericArray, **kwargs: Any) -> UInt8Array:
        """Return agents in blue and the agent of interest in green, fading from frame to frame into the past.

        Anti-aliased edges count as full.

        Args:
            in_im: A raster of this rasterizer, shape (height, width, channels), float32 or uint8.
            **kwargs: ``agent_color`` and ``ego_color``: red, green and blue from 0 to 1; unknown options are ignored.

        Returns:
            RGB, shape (height, width, 3).

        Raises:
            InvalidArgumentError: ``in_im`` has a different number of channels.
        """
        self._require_raster(in_im)
        num_steps = in_im.shape[-1] // 2
        picture = _fade_into_past(in_im[..., :num_steps], kwargs.get("agent_color", (0.0, 0.0, 1.0)))
        picture += _fade_into_past(in_im[..., num_steps:], kwargs.get("ego_color", (0.0, 1.0, 0.0)))
        return (picture.clip(0.0, 1.0) * 255).astype(np.uint8)

    def num_channels(self) -> int:
        """Return 2 (h + 1)."""
        return (self.history_num_frames + 1) * 2


def _fade_into_past(channels: NumericArray, color: ArrayLike) -> Float32Array:
    """Return channels (H, W, F), newest first, as a picture (H, W, 3) in which older frames are darker."""
    picture = np.zeros((*channels.shape[:2], 3), np.float32)
    for index in reversed(range(channels.shape[-1])):
        picture *= _FADE_PER_FRAME
        picture[channels[..., index] > 0] = color
    return picture

"""Box channels: the draw list of the boxes of agents, sorted into the channels that they are drawn in."""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

from l5kit._types import Float32Array, Float64Array, Int32Array, Int64Array, NumericArray, RecordArray, UInt8Array
from l5kit.data.filter import kept_probability
from l5kit.data.window_rows import read_only_field
from l5kit.data.windows import Targets, Windows
from l5kit.geometry.relative_pose import transform_xy
from l5kit.geometry.transform import yaw_of_x_axis
from l5kit.rasterization.culling import CULLING_MARGIN_PX, touches_picture
from l5kit.rasterization.draw_list import FILLED, PlanesShape, ShapeList
from l5kit.rasterization.subpixel import CV2_SHIFT_VALUE, subpixel_of

_NOT_DRAWN = -1
"""Channel of a box that is in no channel."""

_MARGIN_PX = 4
"""Rows above and below the corners of a box that its outline may touch, and some to spare."""

BOX_COLORS: Final[UInt8Array] = np.array([[255]], np.uint8)


class _Boxes(NamedTuple):
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

    def as_arrays(self) -> tuple[NumericArray, ...]:
        return self.channels, self.centroids_m, self.extents_m, self.yaws_rad

    def head(self, size: int) -> "_Boxes":
        return _Boxes(self.channels[:size], self.centroids_m[:size], self.extents_m[:size], self.yaws_rad[:size])


class _AgentRows(NamedTuple):
    """Fields of an array of N agents."""

    track_ids: NumericArray
    centroids_m: Float64Array
    extents_m: Float32Array
    yaws_rad: Float32Array
    probabilities: Float32Array


class _Views(NamedTuple):
    """Windows whose agents lie in one array.

    Attributes:
        first: How many windows come before them in the batch.
        starts: First row of each frame, (B, F).
        stops: End row of each frame, (B, F).
        num_frames: Frames that each has, (B,).
        track_ids: Their agents of interest, (B,); empty for the AV.
        raster_from_world: Pixels from world metres, (B, 3, 3).
    """

    first: int
    starts: Int64Array
    stops: Int64Array
    num_frames: Int64Array
    track_ids: NumericArray
    raster_from_world: Float64Array


class _Drawn(NamedTuple):
    """Arrays of a :class:`l5kit.rasterization.draw_list.ShapeList` of N boxes in S channels of all windows.

    Attributes:
        corners: The points of each box, (N, 4, 2).
        contours: (N, 2).
        shapes: (S, 5).
        rows: (S, 2).
    """

    corners: Int32Array
    contours: Int64Array
    shapes: Int64Array
    rows: Int64Array

    def as_arrays(self) -> tuple[NumericArray, ...]:
        return self.corners, self.contours, self.shapes, self.rows


def list_boxes(
    windows: Windows,
    targets: Targets,
    raster_from_world: Float64Array,
    *,
    planes_shape: PlanesShape,
    threshold: float,
    render_ego_history: bool,
) -> ShapeList:
    """Return the boxes of windows that can touch the picture, as one filled shape for each channel of each window.

    Channel i of the first half holds the agents of frame i, channel i of the second half the agent of interest in
    frame i. With an agent of interest the AV is among the agents and the track of the agent of interest is not.

    Args:
        windows: What to draw, the history of B windows.
        targets: The agents of interest, (B,).
        raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
        planes_shape: (channels, height, width) of each window.
        threshold: Agents are drawn when the summed probability of the kept classes is above it.
        render_ego_history: Whether the agent of interest is drawn in the frames before the newest.
    """
    num_windows, num_channels = len(raster_from_world), planes_shape[0]
    boxes = _collect_boxes(
        windows,
        targets,
        raster_from_world,
        planes_shape=planes_shape,
        threshold=np.float32(threshold),
        render_ego_history=render_ego_history,
    )
    num_boxes, num_shapes = len(boxes.channels), num_windows * num_channels
    drawn = _Drawn(
        corners=np.empty((num_boxes, 4, 2), np.int32),
        contours=np.empty((num_boxes, 2), np.int64),
        shapes=np.empty((num_shapes, 5), np.int64),
        rows=np.empty((num_shapes, 2), np.int64),
    )
    headings = np.cos(boxes.yaws_rad), np.sin(boxes.yaws_rad)
    most_points = _project_boxes(boxes.as_arrays(), headings, raster_from_world, planes_shape, drawn.as_arrays())
    num_drawn = drawn.shapes[-1, 2] if num_shapes else 0
    return ShapeList(
        points=drawn.corners[:num_drawn].reshape(-1, 2),
        contours=drawn.contours[:num_drawn],
        shapes=drawn.shapes,
        starts=np.arange(0, num_shapes + 1, num_channels),
        colors=BOX_COLORS,
        planes_shape=planes_shape,
        rows=drawn.rows.reshape(num_windows, num_channels, 2),
        known_most_points=most_points,
    )


def as_solid_boxes(boxes: ShapeList) -> ShapeList:
    """Return the boxes of :func:`list_boxes` as a shape each, so that they do not cancel where they overlap."""
    counts = boxes.shapes[:, 2] - boxes.shapes[:, 1]
    shapes = np.repeat(boxes.shapes, counts, axis=0)
    shapes[:, 1] = np.arange(len(shapes))
    shapes[:, 2] = shapes[:, 1] + 1
    starts = np.append(0, np.cumsum(counts))[boxes.starts]
    return ShapeList(
        points=boxes.points,
        contours=boxes.contours,
        shapes=shapes,
        starts=starts,
        colors=boxes.colors,
        planes_shape=boxes.planes_shape,
        rows=boxes.rows,
    )


def _collect_boxes(
    windows: Windows,
    targets: Targets,
    raster_from_world: Float64Array,
    *,
    planes_shape: PlanesShape,
    threshold: np.float32,
    render_ego_history: bool,
) -> _Boxes:
    """Return the boxes that are drawn, first the agents that may touch the picture, then all AVs."""
    counts, num_history = windows.counts[0], windows.num_history
    agent_counts = windows.agents.stops[:, :num_history] - windows.agents.starts[:, :num_history]
    boxes = _Boxes.empty(int(agent_counts.sum()) + len(counts) * num_history)
    num_agents = _gather_agents(
        windows,
        targets,
        raster_from_world,
        boxes,
        planes_shape=planes_shape,
        threshold=threshold,
        render_ego_history=render_ego_history,
    )
    num_boxes = _gather_avs(
        windows.frames,
        counts if render_ego_history or targets.track_ids is not None else np.minimum(counts, 1),
        (planes_shape[0], planes_shape[0] // 2 if targets.track_ids is None else 0),
        (np.float32(windows.ego_extent_m[0]), np.float32(windows.ego_extent_m[1])),
        boxes.as_arrays(),
        num_agents,
    )
    return boxes.head(num_boxes)


def _gather_agents(
    windows: Windows,
    targets: Targets,
    raster_from_world: Float64Array,
    boxes: _Boxes,
    *,
    planes_shape: PlanesShape,
    threshold: np.float32,
    render_ego_history: bool,
) -> int:
    """Write the agents that are drawn and may touch the picture to the head of ``boxes``; return how many."""
    num_boxes = 0
    agents = windows.agents
    for rows, part in agents.parts():
        agent_ids = read_only_field(rows, "track_id")
        agent_arrays = (
            agent_ids,
            read_only_field(rows, "centroid"),
            read_only_field(rows, "extent"),
            read_only_field(rows, "yaw"),
            read_only_field(rows, "label_probabilities"),
        )
        track_ids = np.empty(0, agent_ids.dtype) if targets.track_ids is None else targets.track_ids[part]
        view_arrays = (
            part.start,
            agents.starts[part],
            agents.stops[part],
            windows.counts[0, part],
            track_ids.astype(agent_ids.dtype, copy=False),
            raster_from_world[part],
        )
        num_boxes = _gather_rows(
            agent_arrays,
            view_arrays,
            planes_shape,
            threshold,
            render_ego_history,
            boxes.as_arrays(),
            num_boxes,
        )
    return num_boxes


@njit(nogil=True, cache=True, error_model="numpy")
def _gather_rows(
    agent_arrays: tuple[NumericArray, ...],
    view_arrays: tuple[Any, ...],
    planes_shape: PlanesShape,
    threshold: np.float32,
    render_ego_history: bool,
    box_arrays: tuple[NumericArray, ...],
    num_boxes: int,
) -> int:
    """Append agents of windows to boxes, of which ``num_boxes`` are there; return their number.

    The arrays are those of :class:`_AgentRows`, :class:`_Views` and :class:`_Boxes`.
    """
    agents, views, boxes = _AgentRows(*agent_arrays), _Views(*view_arrays), _Boxes(*box_arrays)
    num_channels, height, width = planes_shape
    for window in range(len(views.starts)):
        matrix = views.raster_from_world[window]
        pixels_per_metre = abs(matrix[0, 0]) + abs(matrix[0, 1])  # an upper bound
        for frame in range(views.num_frames[window]):
            for row in range(views.starts[window, frame], views.stops[window, frame]):
                length, width_m = np.float64(agents.extents_m[row, 0]), np.float64(agents.extents_m[row, 1])
                centroid_m = (agents.centroids_m[row, 0], agents.centroids_m[row, 1])
                if (
                    is_beside_picture(matrix, centroid_m, (length, width_m), pixels_per_metre, (width, height))
                    or not kept_probability(agents.probabilities[row]) > threshold
                ):
                    continue
                channel = frame
                if len(views.track_ids) > 0 and agents.track_ids[row] == views.track_ids[window]:
                    if frame > 0 and not render_ego_history:
                        continue
                    channel += num_channels // 2
                boxes.channels[num_boxes] = (views.first + window) * num_channels + channel
                boxes.centroids_m[num_boxes, 0] = agents.centroids_m[row, 0]
                boxes.centroids_m[num_boxes, 1] = agents.centroids_m[row, 1]
                boxes.extents_m[num_boxes, 0], boxes.extents_m[num_boxes, 1] = length, width_m
                boxes.yaws_rad[num_boxes] = agents.yaws_rad[row]
                num_boxes += 1
    return num_boxes


@njit(nogil=True, cache=True, error_model="numpy")
def _gather_avs(
    frames: RecordArray,
    counts: Int64Array,
    channels: tuple[int, int],
    size_m: tuple[np.float32, np.float32],
    box_arrays: tuple[NumericArray, ...],
    num_boxes: int,
) -> int:
    """Append the AV in the first ``counts`` (B,) of the frames (B, H); return the number of boxes.

    ``channels`` are the number of channels of a window and the one of the AV in the newest frame.
    """
    boxes = _Boxes(*box_arrays)
    for window in range(len(counts)):
        for frame in range(counts[window]):
            av = frames[window, frame]
            boxes.channels[num_boxes] = window * channels[0] + channels[1] + frame
            for axis in range(2):
                boxes.centroids_m[num_boxes, axis] = av.ego_translation[axis]
                boxes.extents_m[num_boxes, axis] = size_m[axis]
            boxes.yaws_rad[num_boxes] = yaw_of_x_axis(av.ego_rotation[0, 0], av.ego_rotation[1, 0])
            num_boxes += 1
    return num_boxes


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def is_beside_picture(
    matrix: Float64Array,
    centroid_m: tuple[float, float],
    extent_m: tuple[float, float],
    pixels_per_metre: float,
    raster_size: tuple[int, int],
) -> bool:
    """Return whether a box is so far away from the picture that nobody needs to look where its corners are.

    Args:
        matrix: Pixels from world metres, (3, 3).
        centroid_m: World x and y.
        extent_m: Length and width.
        pixels_per_metre: At least as many as there are.
        raster_size: Width and height in pixels.
    """
    width, height = raster_size
    column_px, row_px = transform_xy(matrix, centroid_m[0], centroid_m[1])
    reach_px = _find_reach(extent_m[0], extent_m[1], pixels_per_metre)
    return bool(
        abs(column_px - 0.5 * width) > 0.5 * width + reach_px or abs(row_px - 0.5 * height) > 0.5 * height + reach_px
    )


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def project_corner(
    matrix: Float64Array,
    centroid_m: tuple[float, float],
    extent_m: tuple[float, float],
    heading: tuple[float, float],
    corner: int,
) -> tuple[float, float]:
    """Return column and row of a corner of a box: rear right, rear left, front left or front right.

    Args:
        matrix: Pixels from world metres, (3, 3).
        centroid_m: World x and y.
        extent_m: Length and width.
        heading: Cosine and sine of the yaw.
        corner: 0 to 3.
    """
    cos, sin = heading
    along = extent_m[0] * (-0.5 if corner < 2 else 0.5)
    across = extent_m[1] * (0.5 if corner == 1 or corner == 2 else -0.5)
    x = cos * along - sin * across + centroid_m[0]
    y = sin * along + cos * across + centroid_m[1]
    return transform_xy(matrix, x, y)


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
    box_arrays: tuple[NumericArray, ...],
    headings: tuple[Float32Array, Float32Array],
    raster_from_world: Float64Array,
    planes_shape: PlanesShape,
    drawn_arrays: tuple[NumericArray, ...],
) -> int:
    """Write the visible boxes, inside a channel in their order; return the most points of a channel.

    Corners as :func:`l5kit.geometry.box.compute_box_corners`. ``headings`` are the cosines and the sines of the yaws;
    the channels of boxes that are not drawn are overwritten.
    """
    boxes, drawn = _Boxes(*box_arrays), _Drawn(*drawn_arrays)
    num_channels, height, width = planes_shape
    channels, corners, shapes, rows = boxes.channels, drawn.corners, drawn.shapes, drawn.rows
    cos, sin = headings
    corners_px = np.empty((len(channels), 4, 2))
    slots = np.zeros(len(shapes), np.int64)
    for box in range(len(channels)):
        matrix = raster_from_world[channels[box] // num_channels]
        column_low = row_low = np.inf
        column_high = row_high = -np.inf
        for corner in range(4):
            column, row = project_corner(
                matrix,
                (boxes.centroids_m[box, 0], boxes.centroids_m[box, 1]),
                (boxes.extents_m[box, 0], boxes.extents_m[box, 1]),
                (np.float64(cos[box]), np.float64(sin[box])),
                corner,
            )
            corners_px[box, corner, 0], corners_px[box, corner, 1] = column, row
            column_low, column_high = min(column_low, column), max(column_high, column)
            row_low, row_high = min(row_low, row), max(row_high, row)
        if touches_picture(column_low, row_low, column_high, row_high, (width, height)):
            slots[channels[box]] += 1
        else:
            channels[box] = _NOT_DRAWN
    end = most_boxes = 0
    for shape in range(len(shapes)):
        begin, end = end, end + slots[shape]
        most_boxes = max(most_boxes, slots[shape])
        slots[shape] = begin
        shapes[shape, 0], shapes[shape, 1], shapes[shape, 2] = FILLED, begin, end
        shapes[shape, 3], shapes[shape, 4] = 0, shape % num_channels
        rows[shape, 0], rows[shape, 1] = height, 0
    for box in range(len(channels)):
        if channels[box] != _NOT_DRAWN:
            slot = slots[channels[box]]
            slots[channels[box]] += 1
            drawn.contours[slot, 0], drawn.contours[slot, 1] = 4 * slot, 4 * slot + 4
            touched = rows[channels[box]]
            for corner in range(4):
                for axis in range(2):
                    corners[slot, corner, axis] = subpixel_of(corners_px[box, corner, axis])
                whole_row = np.int64(corners[slot, corner, 1]) // CV2_SHIFT_VALUE
                touched[0] = min(touched[0], max(whole_row - _MARGIN_PX, 0))
                touched[1] = max(touched[1], min(whole_row + _MARGIN_PX + 1, height))
    for shape in range(len(shapes)):
        if rows[shape, 0] >= rows[shape, 1]:
            rows[shape] = 0
    return 4 * most_boxes

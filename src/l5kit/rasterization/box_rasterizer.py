"""Box rasterizer: agents and the agent of interest as boxes, one pair of channels per frame."""

from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Float32Array, Float64Array, NumericArray, RecordArray, UInt8Array
from l5kit.data.log_facts import EGO_EXTENT_HEIGHT, EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH
from l5kit.data.records import AGENT_DTYPE
from l5kit.data.windows import Targets, Windows
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.geometry.box import compute_box_corners
from l5kit.geometry.transform import rotation33_as_yaw, transform_points
from l5kit.rasterization.box_channels import BoxDrawing, list_boxes
from l5kit.rasterization.draw_list import ShapeList
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.subpixel import CV2_SUB_VALUES, cv2_subpixel

_FADE_PER_FRAME = np.float32(0.85)
"""Brightness that :meth:`BoxRasterizer.to_rgb` keeps from one frame to the next."""


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
    """Return a black picture with the boxes of agents filled by one call of OpenCV.

    Where two boxes overlap the filling cancels (even-odd rule), as in L5Kit 1.5.

    Args:
        raster_size: Width and height in pixels, shape (2,).
        raster_from_world: Pixels from world metres, shape (3, 3).
        agents: AGENT_DTYPE, shape (N,).
        color: One value for a grey picture, three for a coloured one.

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
    """Draws the agents of each frame in one channel and the agent of interest of each frame in another.

    Channels 0 to h hold the agents, newest frame first; channels h + 1 to 2 h + 1 the agent of interest. With an agent
    of interest other than the AV, the AV is drawn among the agents. Frames that a scene does not have leave 0.

    Attributes:
        filter_agents_threshold: Agents are drawn when the summed probability of the kept classes is above it. The agent
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
            windows: What to draw, the history of B windows.
            targets: The agents of interest, (B,).
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).

        Raises:
            IndexOutOfRangeError: A window has more frames than there are channels for.
        """
        num_frames = int(windows.counts[0].max(initial=0))
        if num_frames > self.history_num_frames + 1:
            raise IndexOutOfRangeError(
                f"history_frames holds {num_frames} frames, but history_num_frames is {self.history_num_frames}; pass"
                f" at most {self.history_num_frames + 1}, the current one included"
            )
        return list_boxes(windows, targets, raster_from_world, drawing=self.drawing)

    @property
    def drawing(self) -> BoxDrawing:
        """How boxes are drawn, by the attributes as they are now."""
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
            InvalidArgumentError: ``in_im`` has another number of channels.
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

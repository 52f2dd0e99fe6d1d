"""Pictures of samples: the raster in colour, with the trajectories of the AV or agent."""

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np

from l5kit._types import Float64Array, NumericArray, UInt8Array
from l5kit.geometry.transform import transform_points
from l5kit.rasterization.rasterizer import one_picture
from l5kit.visualization.text import draw_text
from l5kit.visualization.utils import PREDICTED_POINTS_COLOR, TARGET_POINTS_COLOR, draw_trajectory

HISTORY_POINTS_COLOR: Final = (255, 140, 0)
"""RGB orange."""

_CAPTION_INK = (255, 255, 255)
_CAPTION_OUTLINE = (20, 24, 30)
_CAPTION_PLACE_PX = (8.0, 6.0)


class Colouring(Protocol):
    """Protocol of an object that turns rasters into colours, as every rasterizer does."""

    def to_rgb(self, in_im: NumericArray, **kwargs: object) -> UInt8Array:
        """Return a raster (H, W, C) as RGB ``[H, W, 3]``."""
        ...


def sample_picture(
    sample: Mapping[str, object],
    rasterizer: Colouring,
    *,
    with_trajectories: bool = True,
    radius_px: int = 2,
    zoom: int = 1,
    predicted_m: NumericArray | None = None,
) -> UInt8Array:
    """Return a picture of a sample of ``EgoDataset`` or ``AgentDataset``.

    Known past positions are orange dots; known future ones (the target) are magenta dots above them.

    Args:
        sample: A sample with ``image`` (C, H, W); for trajectories also ``raster_from_agent``, positions and
            availabilities.
        rasterizer: The rasterizer that drew the image, or an object that colours its channels likewise.
        with_trajectories: Whether the dots are drawn.
        radius_px: Radius of the dots.
        zoom: Pixels of the picture per pixel of the raster, along each side.
        predicted_m: Positions (..., 2) in the frame of the target, metres, drawn as cyan dots above all others.

    Returns:
        RGB ``[H, W, 3]``, a new array.
    """
    picture = np.array(rasterizer.to_rgb(np.asarray(one_picture(sample["image"])).transpose(1, 2, 0)))
    picture = picture.repeat(zoom, axis=0).repeat(zoom, axis=1)
    if with_trajectories:
        past_px = _known_points_px(sample, "history")
        future_px = _known_points_px(sample, "target")
        draw_trajectory(picture, past_px * zoom, HISTORY_POINTS_COLOR, radius=radius_px)
        draw_trajectory(picture, future_px * zoom, TARGET_POINTS_COLOR, radius=radius_px)
    if predicted_m is not None:
        points_m = np.asarray(predicted_m, dtype=np.float64).reshape(-1, 2)
        points_px = transform_points(points_m, np.asarray(sample["raster_from_agent"], dtype=np.float64))
        draw_trajectory(picture, points_px * zoom, PREDICTED_POINTS_COLOR, radius=radius_px)
    return picture


def captioned(
    picture: NumericArray,
    text: str,
    *,
    size_px: int = 14,
    ink_rgb: tuple[int, int, int] = _CAPTION_INK,
    outline_rgb: tuple[int, int, int] = _CAPTION_OUTLINE,
) -> UInt8Array:
    """Return a copy of a picture with a line of text in its upper left corner, legible on any background."""
    return draw_text(
        picture,
        [text],
        np.array([_CAPTION_PLACE_PX]),
        rgb_color=ink_rgb,
        size_px=size_px,
        outline_rgb=outline_rgb,
    )


def _known_points_px(sample: Mapping[str, object], which: str) -> Float64Array:
    """Return the available positions of the history or target as (column, row), ``[N, 2]``."""
    positions_m = np.asarray(sample[f"{which}_positions"], dtype=np.float64)
    is_known = np.asarray(sample[f"{which}_availabilities"]) > 0
    if not is_known.any():
        return np.zeros((0, 2))
    return transform_points(positions_m[is_known], np.asarray(sample["raster_from_agent"], dtype=np.float64))

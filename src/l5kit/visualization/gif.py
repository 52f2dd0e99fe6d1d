"""Animated GIF files."""

import os
from collections.abc import Iterable

import cv2
import numpy as np
from PIL import Image

from l5kit._files import replaced_when_complete
from l5kit._types import NumericArray
from l5kit.errors import InvalidArgumentError
from l5kit.visualization.images import checked_resolution, rgb_frames

__all__ = ["write_gif"]

_TICKS_PER_SECOND = 100
"""The format counts time in hundredths of a second."""


def frame_durations_ms(num_frames: int, fps: float) -> list[int]:
    """Return how long each frame stays, in whole hundredths of a second whose sum does not drift from the frame rate.

    Raises:
        InvalidArgumentError: ``fps`` is not in (0, 100].
    """
    if not 0 < fps <= _TICKS_PER_SECOND:
        raise InvalidArgumentError(
            f"fps is {fps}; a GIF shows more than 0 and at most {_TICKS_PER_SECOND} frames a second"
        )
    ends = np.rint(np.arange(num_frames + 1) * (_TICKS_PER_SECOND / fps)).astype(np.int64)
    return [int(ticks) * (1000 // _TICKS_PER_SECOND) for ticks in np.diff(ends)]


def write_gif(
    output_filepath: str | os.PathLike[str],
    images: Iterable[NumericArray],
    resolution: tuple[int, int],
    fps: float = 24.0,
    loop: int = 0,
    interpolation: int = cv2.INTER_CUBIC,
) -> None:
    """Write pictures as an animated GIF whose playing time is the number of pictures divided by ``fps``.

    Equal neighbours are stored once and stay longer. The file appears complete or not at all.

    Args:
        output_filepath: The file to write; an older one is replaced.
        images: uint8 pictures, RGB ``[H, W, 3]``, channel-first ``[3, H, W]`` or grayscale ``[H, W]``, of any sizes.
        resolution: ``(width, height)`` in pixels; pictures of another size are resized.
        fps: Frames per second, at most 100. Browsers slow down above 50.
        loop: How often it is repeated; 0 is without end.
        interpolation: OpenCV's interpolation flag for resizing.

    Raises:
        InvalidArgumentError: No picture, a picture that is not uint8 or of another shape, or a wrong resolution or
            rate.
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
    """
    frames = [Image.fromarray(frame) for frame in rgb_frames(images, checked_resolution(resolution), interpolation)]
    durations_ms = frame_durations_ms(len(frames), fps)
    with replaced_when_complete(output_filepath) as path:
        frames[0].save(path, format="GIF", save_all=True, append_images=frames[1:], duration=durations_ms, loop=loop)

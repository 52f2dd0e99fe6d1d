"""Animated GIF files."""

import os
from collections.abc import Iterable, Iterator

import cv2
import numpy as np
from PIL import Image

from l5kit._files import replaced_when_complete
from l5kit._types import NumericArray, UInt8Array
from l5kit.errors import InvalidArgumentError
from l5kit.visualization.images import checked_resolution, rgb_frames

__all__ = ["write_gif"]

_TICKS_PER_SECOND = 100
"""Resolution of time in a GIF."""
_SLOWEST_FPS = 0.01
"""A GIF shows a frame for at most 655 seconds."""


def write_gif(
    output_filepath: str | os.PathLike[str],
    images: Iterable[NumericArray],
    resolution: tuple[int, int],
    fps: float = 24.0,
    loop: int = 0,
    interpolation: int = cv2.INTER_CUBIC,
) -> None:
    """Write pictures as an animated GIF with a playing time of the number of pictures divided by ``fps``.

    Equal successive pictures are stored once with a longer duration. Pictures are consumed one at a time. The file
    appears complete or not at all. Equal pictures give equal files with the same version of Pillow.

    Args:
        output_filepath: The file to write; an older one is replaced.
        images: uint8 pictures, RGB ``[H, W, 3]``, channel-first ``[3, H, W]`` or grayscale ``[H, W]``, of any sizes.
        resolution: ``(width, height)`` in pixels; pictures of another size are resized.
        fps: Frames per second, 0.01 to 100. Browsers slow down above 50.
        loop: Number of repetitions; 0 repeats forever.
        interpolation: OpenCV's interpolation flag for resizing.

    Raises:
        InvalidArgumentError: There is no picture, a picture is not uint8 or of wrong shape, or resolution or rate are
            out of range.
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
        PermissionError: The folder is not writable.
    """
    if not _SLOWEST_FPS <= fps <= _TICKS_PER_SECOND:
        raise InvalidArgumentError(
            f"fps is {fps}; allowed in a GIF are {_SLOWEST_FPS} to {_TICKS_PER_SECOND} frames per second"
        )
    frames = timed_frames(rgb_frames(images, checked_resolution(resolution), interpolation), fps)
    with replaced_when_complete(output_filepath) as path:
        path.touch()  # fail on a read-only folder before drawing the pictures
        next(frames).save(path, format="GIF", save_all=True, append_images=frames, loop=loop, comment=b"l5kit")


def timed_frames(frames: Iterable[UInt8Array], fps: float) -> Iterator[Image.Image]:
    """Yield frames as pictures with their duration in milliseconds in ``info["duration"]``.

    Durations are whole hundredths of a second, and their sum does not drift from the frame rate.
    """
    for index, frame in enumerate(frames):
        start, end = np.rint(np.array([index, index + 1]) * (_TICKS_PER_SECOND / fps)).astype(np.int64).tolist()
        image = Image.fromarray(frame)
        image.info["duration"] = (end - start) * (1000 // _TICKS_PER_SECOND)
        yield image

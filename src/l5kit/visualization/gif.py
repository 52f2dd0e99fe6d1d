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
"""The format counts time in hundredths of a second."""
_SLOWEST_FPS = 0.01
"""The format holds at most 655 seconds a frame."""


def write_gif(
    output_filepath: str | os.PathLike[str],
    images: Iterable[NumericArray],
    resolution: tuple[int, int],
    fps: float = 24.0,
    loop: int = 0,
    interpolation: int = cv2.INTER_CUBIC,
) -> None:
    """Write pictures as an animated GIF whose playing time is the number of pictures divided by ``fps``.

    Equal neighbours are stored once and stay longer. Pictures are taken one at a time. The file appears complete or not
    at all, and equal pictures give equal files as long as Pillow is of one version.

    Args:
        output_filepath: The file to write; an older one is replaced.
        images: uint8 pictures, RGB ``[H, W, 3]``, channel-first ``[3, H, W]`` or grayscale ``[H, W]``, of any sizes.
        resolution: ``(width, height)`` in pixels; pictures of another size are resized.
        fps: Frames per second, 0.01 to 100. Browsers slow down above 50.
        loop: How often it is repeated; 0 is without end.
        interpolation: OpenCV's interpolation flag for resizing.

    Raises:
        InvalidArgumentError: No picture, a picture that is not uint8 or of another shape, or a wrong resolution or
            rate.
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
        PermissionError: That folder may not be written to.
    """
    if not _SLOWEST_FPS <= fps <= _TICKS_PER_SECOND:
        raise InvalidArgumentError(
            f"fps is {fps}; allowed in a GIF are {_SLOWEST_FPS} to {_TICKS_PER_SECOND} frames a second"
        )
    frames = timed_frames(rgb_frames(images, checked_resolution(resolution), interpolation), fps)
    with replaced_when_complete(output_filepath) as path:
        path.touch()  # a folder that may not be written to is found before pictures are drawn for nothing
        next(frames).save(path, format="GIF", save_all=True, append_images=frames, loop=loop, comment=b"l5kit")


def timed_frames(frames: Iterable[UInt8Array], fps: float) -> Iterator[Image.Image]:
    """Yield frames as pictures whose ``info["duration"]`` is how long they stay, milliseconds.

    These are whole hundredths of a second, and their sum does not drift from the frame rate.
    """
    for index, frame in enumerate(frames):
        start, end = np.rint(np.array([index, index + 1]) * (_TICKS_PER_SECOND / fps)).astype(np.int64).tolist()
        image = Image.fromarray(frame)
        image.info["duration"] = (end - start) * (1000 // _TICKS_PER_SECOND)
        yield image

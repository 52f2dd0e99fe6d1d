"""Conversion of pictures to the common form of all writers (RGB, channels last, uint8), and PNG files."""

import os
from collections.abc import Iterable, Iterator

import cv2
import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from l5kit._files import replaced_when_complete
from l5kit._types import NumericArray, UInt8Array
from l5kit.errors import InvalidArgumentError


def as_rgb(image: NumericArray, *, name: str = "image") -> UInt8Array:
    """Return a picture with three channels, channels last.

    The last axis is checked first, so that a colour picture of height 3 is not mistaken for a channel-first one.

    Args:
        image: uint8, RGB ``[H, W, 3]``, channel-first RGB ``[3, H, W]``, or grayscale ``[H, W]`` or ``[H, W, 1]``.
        name: Name of the picture in error texts.

    Returns:
        uint8 ``[H, W, 3]``, contiguous; the input itself if possible.

    Raises:
        InvalidArgumentError: The picture has another type or shape, or no pixels.
    """
    image = np.asarray(image)
    if image.dtype != np.uint8:
        raise InvalidArgumentError(
            f"{name} is of type {image.dtype}, but pictures are uint8 with values 0 to 255; "
            "convert a raster with values in [0, 1] by rasterizer.to_rgb(...)"
        )
    if image.size and image.ndim == 3 and image.shape[-1] == 3:
        return np.ascontiguousarray(image)
    if image.size and image.ndim == 3 and image.shape[0] == 3:
        return np.ascontiguousarray(image.transpose(1, 2, 0))
    if image.size and (image.ndim == 2 or (image.ndim == 3 and image.shape[-1] == 1)):
        return np.repeat(image.reshape(*image.shape[:2], 1), 3, axis=2)
    raise InvalidArgumentError(
        f"{name} has the shape {image.shape}; allowed are [H, W, 3], [3, H, W], [H, W] and [H, W, 1]"
    )


def checked_resolution(resolution: Iterable[int]) -> tuple[int, int]:
    """Return ``(width, height)`` in pixels as plain ints.

    Raises:
        InvalidArgumentError: Not two whole numbers of at least 1.
    """
    values = tuple(resolution)
    if len(values) != 2 or any(value != int(value) or value < 1 for value in values):
        raise InvalidArgumentError(
            f"resolution is {values}; allowed is (width, height) in whole pixels, each at least 1"
        )
    return int(values[0]), int(values[1])


def rgb_frames(images: Iterable[NumericArray], resolution: tuple[int, int], interpolation: int) -> Iterator[UInt8Array]:
    """Yield every picture as uint8 ``[height, width, 3]``, one at a time; unchanged if it has this form.

    Raises:
        InvalidArgumentError: A picture that :func:`as_rgb` refuses, or no picture at all.
    """
    index = -1
    for index, image in enumerate(images):
        frame = as_rgb(image, name=f"images[{index}]")
        if frame.shape[1::-1] != resolution:
            frame = np.asarray(cv2.resize(frame, resolution, interpolation=interpolation), dtype=np.uint8)
        yield frame
    if index < 0:
        raise InvalidArgumentError("images is empty; a film needs at least one picture")


def write_png(output_filepath: str | os.PathLike[str], image: NumericArray) -> None:
    """Write a picture as a PNG file, complete or not at all; equal pictures give equal files.

    Args:
        output_filepath: The file to write; an older one is replaced.
        image: uint8, RGB ``[H, W, 3]``, channel-first ``[3, H, W]`` or grayscale ``[H, W]``.

    Raises:
        InvalidArgumentError: The picture is not uint8, or of wrong shape.
        FileNotFoundError: The folder of ``output_filepath`` does not exist.
    """
    picture, mark = Image.fromarray(as_rgb(image)), PngInfo()
    mark.add_text("Software", "l5kit")
    with replaced_when_complete(output_filepath) as path:
        picture.save(path, format="PNG", compress_level=9, pnginfo=mark)

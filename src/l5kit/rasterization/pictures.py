"""RasterPictures of samples: one, or several by name where a rasterizer of one's own returns several."""

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

import numpy as np

from l5kit._types import Column, DeviceArray
from l5kit.errors import InvalidArgumentError

__all__ = ["RasterPictures", "channels_first", "channels_last", "one_picture"]

RasterPictures: TypeAlias = "Column | Mapping[str, Column]"
"""A picture, an array or a tensor of a device, or several by name."""

_Picture = TypeVar("_Picture")


def channels_last(image: RasterPictures) -> RasterPictures:
    """Return views of pictures (channels, height, width) as (height, width, channels)."""
    if isinstance(image, Mapping):
        return {name: _last(picture) for name, picture in image.items()}
    return _last(image)


def _last(image: Column) -> Column:
    return image.transpose(1, 2, 0) if isinstance(image, np.ndarray) else image.permute((1, 2, 0))


def channels_first(image: RasterPictures) -> RasterPictures:
    """Return pictures (height, width, channels) as (channels, height, width).

    Arrays are C-contiguous then; of what :func:`channels_last` made, both are the memory that it was made of.

    Raises:
        InvalidArgumentError: One of them has not three axes.
    """
    if isinstance(image, Mapping):
        return {name: _first(picture) for name, picture in image.items()}
    return _first(image)


def _first(image: Column) -> Column:
    if not hasattr(image, "shape") or len(image.shape) != 3:
        got = f"shape {tuple(image.shape)}" if hasattr(image, "shape") else f"{type(image).__name__} {image!r}"
        raise InvalidArgumentError(
            f"a rasterizer must return a picture (height, width, channels), or several in a dictionary, got {got}"
        )
    if isinstance(image, np.ndarray):
        return np.ascontiguousarray(image.transpose(2, 0, 1))
    tensor: DeviceArray = image.permute((2, 0, 1))
    return tensor


def one_picture(image: _Picture | Mapping[str, _Picture]) -> _Picture:
    """Return the picture of a sample or a batch, for whatever takes but one.

    Args:
        image: What a sample has under ``image``.

    Raises:
        InvalidArgumentError: There are several, as of a rasterizer that returns a dictionary.
    """
    if isinstance(image, Mapping):
        raise InvalidArgumentError(
            f"image holds the pictures {list(image)}, and one is needed here; choose it: "
            f"sample | {{'image': sample['image'][{next(iter(image), 'name')!r}]}}"
        )
    return image

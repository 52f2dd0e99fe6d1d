"""Rasterizer interface: base class for custom rasterizers, protocol of batch rasterizers, and images they return."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from l5kit._types import Column, DeviceArray, NumericArray, RecordArray, UInt8Array
from l5kit.data.index.windows import Targets, Windows
from l5kit.data.log_facts import EGO_EXTENT_HEIGHT, EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH
from l5kit.errors import InvalidArgumentError

__all__ = [
    "EGO_EXTENT_HEIGHT",
    "EGO_EXTENT_LENGTH",
    "EGO_EXTENT_WIDTH",
    "RasterPictures",
    "Rasterizer",
    "channels_first",
    "channels_last",
    "one_picture",
]

RasterPictures: TypeAlias = "Column | Mapping[str, Column]"
"""An image as an array or device tensor, or several by name."""

_Picture = TypeVar("_Picture")


def channels_last(image: RasterPictures) -> RasterPictures:
    """Return views of images (channels, height, width) as (height, width, channels)."""
    if isinstance(image, Mapping):
        return {name: _last(picture) for name, picture in image.items()}
    return _last(image)


def _last(image: Column) -> Column:
    return image.transpose(1, 2, 0) if isinstance(image, np.ndarray) else image.permute((1, 2, 0))


def channels_first(image: RasterPictures) -> RasterPictures:
    """Return images (height, width, channels) as (channels, height, width).

    Arrays are then C-contiguous; results of :func:`channels_last` are returned without a copy.

    Raises:
        InvalidArgumentError: One of them does not have three axes.
    """
    if isinstance(image, Mapping):
        return {name: _first(picture) for name, picture in image.items()}
    return _first(image)


def _first(image: Column) -> Column:
    if not hasattr(image, "shape") or len(image.shape) != 3:
        got = f"shape {tuple(image.shape)}" if hasattr(image, "shape") else f"{type(image).__name__} {image!r}"
        raise InvalidArgumentError(
            f"a rasterizer must return an image (height, width, channels), or several in a dictionary, got {got}"
        )
    if isinstance(image, np.ndarray):
        return np.ascontiguousarray(image.transpose(2, 0, 1))
    tensor: DeviceArray = image.permute((2, 0, 1))
    return tensor


def one_picture(image: _Picture | Mapping[str, _Picture]) -> _Picture:
    """Return the image of a sample or a batch, for consumers of a single image.

    Args:
        image: The ``image`` of a sample.

    Raises:
        InvalidArgumentError: There are several, as from a rasterizer that returns a dictionary.
    """
    if isinstance(image, Mapping):
        raise InvalidArgumentError(
            f"image holds several images, {list(image)}, but a single one is needed here; choose it: "
            f"sample | {{'image': sample['image'][{next(iter(image), 'name')!r}]}}"
        )
    return image


class Rasterizer(ABC):
    """Base class of rasterizers, which draw a window of a log as an image with one or more channels.

    A custom rasterizer derives from this class and defines the three abstract methods; datasets then accept it.
    """

    @abstractmethod
    def rasterize(
        self,
        history_frames: RecordArray,
        history_agents: Sequence[RecordArray],
        history_tl_faces: Sequence[RecordArray],
        agent: np.void | None = None,
    ) -> RasterPictures:
        """Return the raster of a window of a log, channels last.

        Args:
            history_frames: Frames, newest first, shape (F,) of FRAME_DTYPE.
            history_agents: The agents of each frame, AGENT_DTYPE.
            history_tl_faces: The traffic light faces of each frame, TL_FACE_DTYPE.
            agent: The agent of interest, a row of the newest frame's agents; None for the AV.

        Returns:
            Shape (height, width, channels), float32 from 0 to 1; or several such images by name, which samples then
            hold as a dictionary under ``image``.
        """

    @abstractmethod
    def to_rgb(self, in_im: NumericArray, **kwargs: object) -> UInt8Array:
        """Return a raster as an RGB image for display.

        Args:
            in_im: Result of :meth:`rasterize`, shape (height, width, channels).
            **kwargs: Options of the class; unknown ones are ignored.

        Returns:
            RGB, shape (height, width, 3).
        """

    @abstractmethod
    def num_channels(self) -> int:
        """Return the number of channels of the raster."""

    def rasterize_planar(
        self,
        history_frames: RecordArray,
        history_agents: Sequence[RecordArray],
        history_tl_faces: Sequence[RecordArray],
        agent: np.void | None = None,
    ) -> RasterPictures:
        """Return the raster of :meth:`rasterize` with channels first, as in samples.

        Arguments as in :meth:`rasterize`.

        Returns:
            C-contiguous, shape (channels, height, width), the dtype of :meth:`rasterize`; several by name, if it
            returns several.

        Raises:
            InvalidArgumentError: :meth:`rasterize` does not return images.
        """
        return channels_first(self.rasterize(history_frames, history_agents, history_tl_faces, agent))


@runtime_checkable
class WindowRasterizer(Protocol):
    """Protocol of a rasterizer that draws batches of windows, on the host or on a device.

    Samplers require this protocol, not a class: any object with these five members gets batches, and single samples as
    batches of one. It need not derive from a class of this package; viewers also need ``to_rgb``.
    """

    @property
    def draws_windows(self) -> bool:
        """Whether :meth:`rasterize_windows` can be used; otherwise ``rasterize_planar`` draws windows one by one."""

    @property
    def image_dtype(self) -> str:
        """``float32`` for values from 0 to 1, ``uint8`` for bytes."""

    @property
    def image_device(self) -> str:
        """``cpu`` if rasters are in host memory, usually NumPy arrays; otherwise the device of the tensors."""

    def images_shape(self, num_windows: int, /) -> tuple[int, int, int, int]:
        """Return the shape of the rasters of a batch of windows: (B, channels, height, width)."""

    def rasterize_windows(self, windows: Windows, targets: Targets, images: NumericArray | None = None, /) -> Column:
        """Return the rasters of a batch of windows.

        Args:
            windows: The history of B windows.
            targets: The agents of interest, (B,).
            images: Memory for the result, C-contiguous, of :meth:`images_shape` and ``image_dtype``, with any content;
                None for new memory, always if ``image_device`` is not ``cpu``.

        Returns:
            Shape (B, channels, height, width) of ``image_dtype``, on ``image_device``.
        """

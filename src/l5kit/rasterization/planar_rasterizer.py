"""Base of the rasterizers that draw each channel as a plane of bytes."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from l5kit._types import Float64Array, Int64Array, NumericArray, RecordArray, UInt8Array
from l5kit.configs.parameters import IMAGE_DTYPES
from l5kit.errors import InvalidArgumentError, UnsupportedValueError
from l5kit.rasterization.log_window import LogWindow
from l5kit.rasterization.log_windows import LogWindows
from l5kit.rasterization.picture_memory import recycled_memory
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.unit_range import STREAMED_NUM_BYTES, divide_by_255

PlanePainter = Callable[[int, UInt8Array], None]
"""Draws window i of a batch into C-contiguous planes (channels, height, width), whatever they held; for one thread."""


@dataclass(frozen=True)
class SparsePainter:
    """A :data:`PlanePainter` that leaves most of the planes 0, so that it is worth knowing where it does not.

    Attributes:
        draw: Draws window i into planes (channels, height, width) that are 0, in some rows of each.
        rows: First row and end row of these, shape (B, channels, 2).
    """

    draw: PlanePainter
    rows: Int64Array

    @classmethod
    def of(cls, paint: PlanePainter, num_windows: int, num_channels: int, height: int) -> "SparsePainter":
        """Return a painter that draws as any other: in all rows of planes of that height."""
        if isinstance(paint, SparsePainter):
            return paint
        rows = np.zeros((num_windows, num_channels, 2), np.int64)
        rows[..., 1] = height
        return cls(paint, rows)

    def __call__(self, index: int, planes: UInt8Array) -> None:
        """Draw window i into planes whatever they held."""
        planes.fill(0)
        self.draw(index, planes)


class PlanarRasterizer(Rasterizer):
    """A rasterizer that draws bytes channel first and divides them by 255 once, at the end.

    It draws batches of windows; a single window is a batch of one. Several threads may use it at once, as all that it
    writes to while drawing belongs to a call. A subclass that overrides :meth:`rasterize` is honoured:
    :meth:`rasterize_planar` then transposes what it returns.

    Attributes:
        render_context: Size, scale and orientation of the raster.
        raster_size: Width and height in pixels, shape (2,).
        pixel_size: Metres per pixel, shape (2,).
        ego_center: Place of the agent of interest as fractions of width and height, shape (2,).
        image_dtype: ``float32`` for values from 0 to 1, ``uint8`` for the same picture before the division by 255.
    """

    def __init__(self, render_context: RenderContext, *, image_dtype: str = "float32") -> None:
        super().__init__()
        if image_dtype not in IMAGE_DTYPES:
            raise UnsupportedValueError(f"image_dtype is {image_dtype!r}; use one of {IMAGE_DTYPES}")
        self.render_context = render_context
        self.raster_size = render_context.raster_size_px
        self.pixel_size = render_context.pixel_size_m
        self.ego_center = render_context.center_in_raster_ratio
        self.image_dtype = image_dtype

    def __repr__(self) -> str:
        """Return class, size and channels."""
        width, height = self.raster_size.tolist()
        return f"<{type(self).__name__}: {width} x {height} pixels, {self.num_channels()} channels, {self.image_dtype}>"

    @property
    def draws_planes(self) -> bool:
        """Whether :meth:`rasterize_windows` draws what :meth:`rasterize` and :meth:`rasterize_planar` return.

        It does unless a subclass overrides one of these two.
        """
        cls = type(self)
        return cls.rasterize is PlanarRasterizer.rasterize and cls.rasterize_planar is PlanarRasterizer.rasterize_planar

    def rasterize(
        self,
        history_frames: RecordArray,
        history_agents: Sequence[RecordArray],
        history_tl_faces: Sequence[RecordArray],
        agent: np.void | None = None,
    ) -> NumericArray:
        """Return the raster of a window of a log, channels last.

        Args:
            history_frames: Frames, newest first, shape (F,) of FRAME_DTYPE. All are drawn around the newest pose.
            history_agents: The agents of each frame, AGENT_DTYPE.
            history_tl_faces: The traffic light faces of each frame, TL_FACE_DTYPE.
            agent: The agent of interest, a row of the newest frame's agents; None for the AV.

        Returns:
            Shape (height, width, channels), a view of channel-first memory. Float32 from 0 to 1, or uint8 when
            ``image_dtype`` says so.
        """
        window = LogWindow(history_frames, history_agents, history_tl_faces, agent)
        return self._rasterize_window(window).transpose(1, 2, 0)

    def rasterize_planar(
        self,
        history_frames: RecordArray,
        history_agents: Sequence[RecordArray],
        history_tl_faces: Sequence[RecordArray],
        agent: np.void | None = None,
    ) -> NumericArray:
        """Return the raster of :meth:`rasterize` with channels first, without a copy.

        Arguments as in :meth:`rasterize`.

        Returns:
            C-contiguous, shape (channels, height, width), the dtype of :meth:`rasterize`.
        """
        if not self.draws_planes:
            return super().rasterize_planar(history_frames, history_agents, history_tl_faces, agent)
        return self._rasterize_window(LogWindow(history_frames, history_agents, history_tl_faces, agent))

    def rasterize_windows(self, windows: LogWindows, images: NumericArray | None = None) -> NumericArray:
        """Return the rasters of a batch of windows; only for rasterizers that say so by :attr:`draws_planes`.

        Args:
            windows: What to draw, B windows.
            images: Memory for the result, which is overwritten; None for new memory.

        Returns:
            C-contiguous, shape (B, channels, height, width) of ``image_dtype``.

        Raises:
            InvalidArgumentError: ``images`` has another shape, dtype or order.
        """
        if images is None:
            images = recycled_memory.empty(self.images_shape(len(windows)), self.image_dtype)
        self._require_images(len(windows), images)
        matrices = self.render_context.raster_from_world_many(windows.positions_m, windows.yaws_rad)
        paint = self.prepare(windows, matrices)
        if self.image_dtype == "uint8":
            for index, planes in enumerate(images):
                paint(index, planes)
            return images
        painter = SparsePainter.of(paint, *images.shape[:3])
        planes = recycled_memory.empty(images.shape[1:], np.uint8)  # of one window, so that it stays in the caches
        planes.fill(0)
        for index, image in enumerate(images):
            painter.draw(index, planes)
            divide_by_255(planes, image, painter.rows[index], images.nbytes >= STREAMED_NUM_BYTES)
        return images

    def images_shape(self, num_windows: int) -> tuple[int, int, int, int]:
        """Return the shape of the rasters of a batch of windows: (B, channels, height, width)."""
        width, height = self.raster_size.tolist()
        return num_windows, self.num_channels(), height, width

    @abstractmethod
    def prepare(self, windows: LogWindows, raster_from_world: Float64Array) -> PlanePainter:
        """Do what can be done for a batch of windows at once, and return what draws each of them.

        Args:
            windows: What to draw, B windows.
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
        """

    def _require_raster(self, in_im: NumericArray) -> None:
        """Refuse an array that is no raster of this rasterizer.

        Raises:
            InvalidArgumentError: The last axis is not one of :meth:`num_channels`.
        """
        if np.shape(in_im)[-1:] != (self.num_channels(),):
            raise InvalidArgumentError(
                f"in_im must be a raster of {self!r}, shape (height, width, {self.num_channels()}), got shape "
                f"{np.shape(in_im)}; images of samples have the channels first: pass image.transpose(1, 2, 0)"
            )

    def _require_images(self, num_windows: int, images: NumericArray) -> None:
        """Refuse an array that a batch of windows cannot be drawn into."""
        shape = self.images_shape(num_windows)
        if images.shape != shape or images.dtype != self.image_dtype or not images.flags.c_contiguous:
            raise InvalidArgumentError(
                f"images has shape {images.shape} and dtype {images.dtype}; {num_windows} windows of {self!r} need a"
                f" C-contiguous array of shape {shape} and dtype {self.image_dtype}"
            )

    def _rasterize_window(self, window: LogWindow) -> NumericArray:
        """Return the raster of one window, shape (channels, height, width)."""
        image: NumericArray = self.rasterize_windows(LogWindows.from_window(window))[0]
        return image


def write_planes(picture: UInt8Array, planes: UInt8Array) -> None:
    """Copy a picture (height, width, channels) into C-contiguous planes (channels, height, width)."""
    cv2.split(np.ascontiguousarray(picture), list(planes))


def to_uint8(image: NumericArray) -> UInt8Array:
    """Return the bytes that an image was made of: a copy of bytes, and float values from 0 to 1 times 255, cut off."""
    return image.copy() if image.dtype == np.uint8 else (image * 255).astype(np.uint8)

"""Planar rasterizers: a painter draws their shapes into one plane of bytes per channel; also for many maps."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from l5kit._types import Float64Array, NumericArray, RecordArray, UInt8Array
from l5kit.configs.parameters import IMAGE_DTYPES
from l5kit.data.index.windows import Targets, Windows
from l5kit.data.kept import Kept
from l5kit.data.log_facts import EGO_EXTENT_M
from l5kit.data.map.opened import SceneMaps
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError, UnsupportedValueError
from l5kit.geometry.transform import rotation33_as_yaw
from l5kit.rasterization.draw_list import DrawList
from l5kit.rasterization.painter import Painter, recycled_memory
from l5kit.rasterization.rasterizer import Rasterizer, RasterPictures
from l5kit.rasterization.render_context import RenderContext

_MOST_MAPS_KEPT = 32
"""Number of rasterizers, each with its map, that are cached."""


@dataclass(frozen=True)
class LogWindow:
    """Frames, newest first, with their agents and traffic light faces, and the agent of interest.

    Attributes:
        frames: FRAME_DTYPE, shape (F,), at least one.
        agents: The agents of each frame, AGENT_DTYPE.
        tl_faces: The traffic light faces of each frame, TL_FACE_DTYPE; may be empty.
        agent: The agent of interest, a row of AGENT_DTYPE; None for the AV.

    Raises:
        IndexOutOfRangeError: There is no frame, or one has no agents array.
    """

    frames: RecordArray
    agents: Sequence[RecordArray]
    tl_faces: Sequence[RecordArray]
    agent: np.void | None

    def __post_init__(self) -> None:
        if len(self.frames) == 0 or len(self.agents) != len(self.frames):
            raise IndexOutOfRangeError(
                f"history_frames holds {len(self.frames)} frames and history_agents {len(self.agents)} arrays;"
                " pass at least the current frame and one array of agents for each frame"
            )

    def as_batch(self) -> tuple[Windows, Targets]:
        """Return the window, and its target, as a batch of one."""
        windows, agent = Windows.of_frames(self.frames, self.agents, self.tl_faces), self.agent
        if agent is None:
            av = self.frames[0]
            return windows, Targets(
                track_ids=None,
                rows=None,
                centroids_m=np.array([av["ego_translation"][:2]]),
                yaws_rad=np.array([rotation33_as_yaw(av["ego_rotation"])]),
                extents_m=np.array([EGO_EXTENT_M]),
            )
        return windows, Targets(
            track_ids=np.array([agent["track_id"]]),
            rows=None,
            centroids_m=np.array([agent["centroid"]]),
            yaws_rad=np.array([agent["yaw"]]),
            extents_m=np.array([agent["extent"]]),
        )


class PlanarRasterizer(Rasterizer):
    """Base of rasterizers that list the shapes of a batch of windows for a painter, which draws channels first.

    A single window is a batch of one. Drawing keeps no state on the object, so several threads may share it. A subclass
    may override :meth:`rasterize`; :meth:`rasterize_planar` then transposes its result.

    Attributes:
        render_context: Size, scale and orientation of the raster.
        raster_size: Width and height in pixels, shape (2,).
        pixel_size: Metres per pixel, shape (2,).
        ego_center: Position of the agent of interest as fractions of width and height, shape (2,).
        image_dtype: ``float32`` for values from 0 to 1, ``uint8`` for the same raster before the division by 255.
        image_device: ``cpu``: rasters are NumPy arrays.
        painter: Draws the result of :meth:`draw_list`.
    """

    image_device: ClassVar[Literal["cpu"]] = "cpu"
    painter: Painter = Painter()

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
    def draws_windows(self) -> bool:
        """Whether :meth:`rasterize_windows` gives the results of :meth:`rasterize` and :meth:`rasterize_planar`.

        True unless a subclass overrides one of these two.
        """
        # the methods may also be replaced on the object
        own, kind = vars(self), type(self)
        return (
            kind.rasterize is PlanarRasterizer.rasterize
            and kind.rasterize_planar is PlanarRasterizer.rasterize_planar
            and "rasterize" not in own
            and "rasterize_planar" not in own
        )

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
            Shape (height, width, channels), a view of channel-first memory. Float32 from 0 to 1, or uint8 according to
            ``image_dtype``.
        """
        window = LogWindow(history_frames, history_agents, history_tl_faces, agent)
        return self._rasterize_window(window).transpose(1, 2, 0)

    def rasterize_planar(
        self,
        history_frames: RecordArray,
        history_agents: Sequence[RecordArray],
        history_tl_faces: Sequence[RecordArray],
        agent: np.void | None = None,
    ) -> RasterPictures:
        """Return the raster of :meth:`rasterize` with channels first, without a copy.

        Arguments as in :meth:`rasterize`.

        Returns:
            C-contiguous, shape (channels, height, width), the dtype of :meth:`rasterize`.
        """
        if not self.draws_windows:
            return super().rasterize_planar(history_frames, history_agents, history_tl_faces, agent)
        return self._rasterize_window(LogWindow(history_frames, history_agents, history_tl_faces, agent))

    def rasterize_windows(self, windows: Windows, targets: Targets, images: NumericArray | None = None) -> NumericArray:
        """Return the rasters of a batch of windows; only if :attr:`draws_windows` is true.

        Args:
            windows: The history of B windows.
            targets: The agents of interest, (B,).
            images: Memory for the result, which is overwritten; None for new memory.

        Returns:
            C-contiguous, shape (B, channels, height, width) of ``image_dtype``.

        Raises:
            InvalidArgumentError: ``images`` has the wrong shape, dtype or order.
        """
        if images is None:
            images = recycled_memory.empty(self.images_shape(len(windows)), self.image_dtype)
        else:
            self._require_images(len(windows), images)
        self.painter.paint_batch(self.draw_list(windows, targets), images)
        return images

    def draw_list(self, windows: Windows, targets: Targets) -> DrawList:
        """Return the draw list of a batch of windows, for a painter of any kind.

        Args:
            windows: The history of B windows.
            targets: The agents of interest, (B,).
        """
        return self.prepare(windows, targets, self.render_context.raster_from_local @ targets.drawn_frames)

    def images_shape(self, num_windows: int) -> tuple[int, int, int, int]:
        """Return the shape of the rasters of a batch of windows: (B, channels, height, width)."""
        width, height = self.raster_size.tolist()
        return num_windows, self.num_channels(), height, width

    @abstractmethod
    def prepare(self, windows: Windows, targets: Targets, raster_from_world: Float64Array) -> DrawList:
        """Return the draw list of a batch of windows.

        Args:
            windows: The history of B windows.
            targets: The agents of interest, (B,).
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
        """

    def _require_raster(self, in_im: NumericArray) -> None:
        """Refuse an array that is not a raster of this rasterizer.

        Raises:
            InvalidArgumentError: The last axis does not have :meth:`num_channels`.
        """
        if np.shape(in_im)[-1:] != (self.num_channels(),):
            raise InvalidArgumentError(
                f"in_im must be a raster of {self!r}, shape (height, width, {self.num_channels()}), got shape "
                f"{np.shape(in_im)}; images of samples have the channels first: pass image.transpose(1, 2, 0)"
            )

    def _require_images(self, num_windows: int, images: NumericArray) -> None:
        """Refuse an output array of wrong shape, dtype or order."""
        shape = self.images_shape(num_windows)
        if images.shape != shape or images.dtype != self.image_dtype or not images.flags.c_contiguous:
            raise InvalidArgumentError(
                f"images has shape {images.shape} and dtype {images.dtype}; {num_windows} windows of {self!r} need a"
                f" C-contiguous array of shape {shape} and dtype {self.image_dtype}"
            )

    def _rasterize_window(self, window: LogWindow) -> NumericArray:
        """Return the raster of one window, shape (channels, height, width)."""
        image: NumericArray = self.rasterize_windows(*window.as_batch())[0]
        return image


class ColorRasterizer(PlanarRasterizer):
    """A rasterizer whose three channels are red, green and blue."""

    def to_rgb(self, in_im: NumericArray, **kwargs: object) -> UInt8Array:  # noqa: ARG002
        """Return the RGB bytes of a raster of this rasterizer, float32 or uint8.

        Raises:
            InvalidArgumentError: ``in_im`` has a different number of channels.
        """
        self._require_raster(in_im)
        return to_uint8(in_im)

    def num_channels(self) -> int:
        """Return 3."""
        return 3


def to_uint8(image: NumericArray) -> UInt8Array:
    """Return the bytes of an image: a copy of bytes, or float values from 0 to 1 times 255, truncated."""
    return image.copy() if image.dtype == np.uint8 else (image * 255).astype(np.uint8)


class ManyMapsRasterizer(Rasterizer):
    """Rasterizer for many maps, which draws each window with the rasterizer of the map at its agent of interest.

    Windows of a batch on the same map are drawn together. Only the most recently used rasterizers are kept, so memory
    does not grow with the number of maps. Several threads may share it.

    Args:
        maps: The maps.
        build: Makes a rasterizer for the file of a map; all of them have the same channels.

    Attributes:
        maps: The maps.
        render_context: Size, scale and orientation of the raster.
        draws_windows: True, as rasterizers of maps draw batches.
        image_dtype: ``float32`` for values from 0 to 1, ``uint8`` for bytes.
        image_device: ``cpu``.
    """

    image_device: ClassVar[Literal["cpu"]] = "cpu"

    def __init__(self, maps: SceneMaps, build: Callable[[str], PlanarRasterizer]) -> None:
        self.maps = maps
        self._build = build
        self._kept: Kept[PlanarRasterizer] = Kept(_MOST_MAPS_KEPT)
        self._first = first = self.on_map(0)
        self.render_context, self.draws_windows = first.render_context, first.draws_windows
        self.image_dtype = first.image_dtype

    def __repr__(self) -> str:
        """Return the class of the rasterizers, and the number of maps."""
        return f"<{type(self).__name__}: {self._first!r} on each of {len(self.maps)} maps>"

    def on_map(self, row: int) -> PlanarRasterizer:
        """Return the rasterizer of a map.

        Raises:
            CorruptedDataError: The file of the map is missing, damaged or was changed.
        """
        return self._kept.get(row, lambda: self._build(self.maps.path_of(row)))

    def images_shape(self, num_windows: int, /) -> tuple[int, int, int, int]:
        """Return the shape of the rasters of a batch of windows: (B, channels, height, width)."""
        return self._first.images_shape(num_windows)

    def num_channels(self) -> int:
        """Return the number of channels of the raster."""
        return self._first.num_channels()

    def to_rgb(self, in_im: NumericArray, **kwargs: object) -> UInt8Array:
        """Return a raster as an RGB image, like the rasterizers of maps."""
        return self._first.to_rgb(in_im, **kwargs)

    def rasterize(
        self,
        history_frames: RecordArray,
        history_agents: Sequence[RecordArray],
        history_tl_faces: Sequence[RecordArray],
        agent: np.void | None = None,
    ) -> NumericArray:
        """Return the raster of a window of a log, channels last; see :meth:`Rasterizer.rasterize`."""
        window = LogWindow(history_frames, history_agents, history_tl_faces, agent)
        (row,) = self.maps.rows_at(window.as_batch()[1].centroids_m.astype(np.float64)).tolist()
        image: NumericArray = self.on_map(row).rasterize(history_frames, history_agents, history_tl_faces, agent)
        return image

    def rasterize_windows(
        self, windows: Windows, targets: Targets, images: NumericArray | None = None, /
    ) -> NumericArray:
        """Return the rasters of a batch of windows; see :class:`~l5kit.rasterization.rasterizer.WindowRasterizer`."""
        rows = self.maps.rows_at(targets.centroids_m)
        if images is None:
            images = np.empty(self.images_shape(len(windows)), self.image_dtype)
        for row in np.unique(rows).tolist():
            here = np.flatnonzero(rows == row)
            images[here] = self.on_map(row).rasterize_windows(windows.taken(here), targets.taken(here))
        return images

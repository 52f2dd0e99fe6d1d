"""Combined rasterizer: boxes over a picture of the surroundings."""

from abc import abstractmethod

import numpy as np

from l5kit._types import Float64Array, NumericArray, UInt8Array
from l5kit.data.windows import Targets, Windows
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.rasterization.draw_list import StackedList
from l5kit.rasterization.log_window import LogWindow
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer


class CombinedRasterizer(PlanarRasterizer):
    """Channels of a box rasterizer followed by the three of a background.

    Attributes:
        box_rast: Draws the boxes.
    """

    box_rast: BoxRasterizer

    @property
    @abstractmethod
    def background_rast(self) -> PlanarRasterizer:
        """The rasterizer of the last three channels."""

    @property
    def filter_agents_threshold(self) -> float:
        """Probability of its label above which an agent is drawn."""
        return self.box_rast.filter_agents_threshold

    @property
    def history_num_frames(self) -> int:
        """Past frames whose boxes are drawn."""
        return self.box_rast.history_num_frames

    @property
    def draws_windows(self) -> bool:
        """Whether neither this class nor a part has a ``rasterize`` of its own; else the parts' rasters are joined."""
        return super().draws_windows and self.box_rast.draws_windows and self.background_rast.draws_windows

    def prepare(self, windows: Windows, targets: Targets, raster_from_world: Float64Array) -> StackedList:
        """Return the boxes and, for the channels behind theirs, the background.

        Args:
            windows: What to draw, the history of B windows.
            targets: The agents of interest, (B,).
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
        """
        parts = (self.box_rast, self.background_rast)
        return StackedList(tuple(part.prepare(windows, targets, raster_from_world) for part in parts))

    def to_rgb(self, in_im: NumericArray, **kwargs: object) -> UInt8Array:
        """Return the background with the boxes over it.

        Args:
            in_im: A raster of this rasterizer, shape (height, width, channels), float32 or uint8.
            **kwargs: Options of the two rasterizers; unknown ones are ignored.

        Returns:
            RGB, shape (height, width, 3).

        Raises:
            InvalidArgumentError: ``in_im`` has another number of channels.
        """
        self._require_raster(in_im)
        boxes = self.box_rast.to_rgb(in_im[..., :-3], **kwargs)
        background = self.background_rast.to_rgb(in_im[..., -3:], **kwargs)
        return np.where((boxes > 0).any(axis=-1, keepdims=True), boxes, background)

    def num_channels(self) -> int:
        """Return the channels of the boxes plus three."""
        return self.box_rast.num_channels() + self.background_rast.num_channels()

    def _rasterize_window(self, window: LogWindow) -> NumericArray:
        """Draw in one go, or, when a part has a ``rasterize`` of its own, join what the parts return."""
        parts = (self.box_rast, self.background_rast)
        if all(part.draws_windows for part in parts):
            return super()._rasterize_window(window)
        arguments = (window.frames, window.agents, window.tl_faces, window.agent)
        return np.concatenate([part.rasterize_planar(*arguments) for part in parts])

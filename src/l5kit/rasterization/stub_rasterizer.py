"""A raster without content, for work that needs samples but no picture."""

from typing import Any

import numpy as np

from l5kit._types import Float64Array, NumericArray, UInt8Array
from l5kit.rasterization.log_window import LogWindow
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer


class StubRasterizer(PlanarRasterizer):
    """A rasterizer whose three channels are 0."""

    def draw(self, window: LogWindow, raster_from_world: Float64Array, planes: UInt8Array) -> None:
        """Leave the planes as they are."""

    def _paint(self, window: LogWindow) -> NumericArray:  # noqa: ARG002
        """Return zeros that the operating system hands out without writing them."""
        width, height = self.raster_size.tolist()
        return np.zeros((self.num_channels(), height, width), self.image_dtype)

    def to_rgb(self, in_im: NumericArray, **kwargs: Any) -> UInt8Array:  # noqa: ARG002
        """Return a black picture, shape (height, width, 3), for any raster of this rasterizer.

        Raises:
            InvalidArgumentError: ``in_im`` has another number of channels.
        """
        self._require_raster(in_im)
        width, height = self.raster_size.tolist()
        return np.zeros((height, width, 3), np.uint8)

    def num_channels(self) -> int:
        """Return 3."""
        return 3

"""A raster without content, for work that needs samples but no picture."""

from typing import Any

import numpy as np

from l5kit._types import Float64Array, NumericArray, UInt8Array
from l5kit.rasterization.log_window import LogWindow
from l5kit.rasterization.log_windows import LogWindows
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer, PlanePainter


class StubRasterizer(PlanarRasterizer):
    """A rasterizer whose three channels are 0."""

    def rasterize_windows(self, windows: LogWindows, images: NumericArray) -> None:
        """Write zeros; arguments as in :meth:`PlanarRasterizer.rasterize_windows`."""
        self._require_images(len(windows), images)
        images.fill(0)

    def prepare(self, windows: LogWindows, raster_from_world: Float64Array) -> PlanePainter:  # noqa: ARG002
        """Return what writes zeros."""
        return lambda _, planes: planes.fill(0)

    def _rasterize_window(self, window: LogWindow) -> NumericArray:  # noqa: ARG002
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

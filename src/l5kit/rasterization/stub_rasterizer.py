"""Stub rasterizer: empty rasters, for tasks that need samples but no image."""

import numpy as np

from l5kit._types import Float64Array, NumericArray, UInt8Array
from l5kit.data.index.windows import Targets, Windows
from l5kit.rasterization.draw_list import BlankList
from l5kit.rasterization.planar_rasterizer import ColorRasterizer


class StubRasterizer(ColorRasterizer):
    """A rasterizer whose three channels are 0."""

    def rasterize_windows(
        self,
        windows: Windows,
        targets: Targets,  # noqa: ARG002
        images: NumericArray | None = None,
    ) -> NumericArray:
        """Return zeros; arguments as in :meth:`PlanarRasterizer.rasterize_windows`.

        New memory is zeroed by the operating system, so it is not written here.
        """
        if images is None:
            return np.zeros(self.images_shape(len(windows)), self.image_dtype)
        self._require_images(len(windows), images)
        images.fill(0)
        return images

    def prepare(self, windows: Windows, targets: Targets, raster_from_world: Float64Array) -> BlankList:  # noqa: ARG002
        """Return black images."""
        return BlankList(len(windows), self.images_shape(1)[1:])

    def to_rgb(self, in_im: NumericArray, **kwargs: object) -> UInt8Array:  # noqa: ARG002
        """Return a black image, shape (height, width, 3), for any raster of this rasterizer.

        Raises:
            InvalidArgumentError: ``in_im`` has a different number of channels.
        """
        self._require_raster(in_im)
        width, height = self.raster_size.tolist()
        return np.zeros((height, width, 3), np.uint8)

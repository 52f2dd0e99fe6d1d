"""Satellite rasterizer: the aerial image around the agent of interest."""

import cv2
import numpy as np

from l5kit._types import Float64Array, UInt8Array
from l5kit.configs.parameters import OUT_OF_BOUNDS_MODES
from l5kit.data.index.windows import Targets, Windows
from l5kit.errors import UnsupportedValueError
from l5kit.geometry.transform import transform_points
from l5kit.rasterization.draw_list import CropList
from l5kit.rasterization.planar_rasterizer import ColorRasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.satellite_image import AerialImage, aerial_crop_size


class SatelliteRasterizer(ColorRasterizer):
    """Rasterizer of the part of an aerial image under the raster, rotated with the agent of interest.

    Attributes:
        world_to_aerial: Row and column of the aerial image from world metres, shape (4, 4).
        interpolation: OpenCV's name of the interpolation.
        map_pixel_scale: Metres per pixel of the aerial image.
        out_of_bounds: ``error``, or ``pad`` to draw black where the aerial image ends.
    """

    def __init__(
        self,
        render_context: RenderContext,
        map_im: UInt8Array | AerialImage,
        world_to_aerial: Float64Array,
        interpolation: int = cv2.INTER_LINEAR,
        *,
        image_dtype: str = "float32",
        out_of_bounds: str = "error",
    ) -> None:
        super().__init__(render_context, image_dtype=image_dtype)
        if out_of_bounds not in OUT_OF_BOUNDS_MODES:
            raise UnsupportedValueError(f"out_of_bounds is {out_of_bounds!r}; use one of {OUT_OF_BOUNDS_MODES}")
        self._aerial = map_im if isinstance(map_im, AerialImage) else AerialImage(map_im)
        self.world_to_aerial = world_to_aerial
        self.interpolation = interpolation
        self.map_pixel_scale = compute_pixel_scale(world_to_aerial)
        self.out_of_bounds = out_of_bounds

    @property
    def map_im(self) -> UInt8Array:
        """The aerial image, RGB, shape (rows, columns, 3)."""
        return self._aerial.pixels

    @map_im.setter
    def map_im(self, pixels: UInt8Array) -> None:
        self._aerial = AerialImage(pixels)

    def prepare(self, windows: Windows, targets: Targets, raster_from_world: Float64Array) -> CropList:
        """Return the crops of the aerial image around the centres of the rasters.

        Painting them raises IndexOutOfRangeError if the image ends inside a crop and ``out_of_bounds`` is ``error``.

        Args:
            windows: The history of B windows. Centres are at the height of the AV.
            targets: The agents of interest, (B,).
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
        """
        num_channels, height, width = self.images_shape(1)[1:]

        # The centre of each raster, at the height of the AV, in pixels of the aerial image. Each is a separate product.
        centers_px = np.full((len(windows), 1, 2), 0.5 * self.raster_size)
        centers_xy_m = transform_points(centers_px, np.linalg.inv(raster_from_world))
        centers_m = np.concatenate([centers_xy_m, windows.current_frames["ego_translation"][:, None, 2:]], axis=-1)
        world_to_aerial = np.broadcast_to(self.world_to_aerial, (len(windows), 4, 4))
        return CropList(
            picture=self._aerial,
            centers=transform_points(centers_m, world_to_aerial)[:, 0, :2],
            angles_rad=-targets.yaws_rad,
            num_aerial_pixels=aerial_crop_size(
                (width, height), self.map_im.shape, self.map_pixel_scale, self.pixel_size
            ),
            planes_shape=(num_channels, height, width),
            interpolation=self.interpolation,
            out_of_bounds=self.out_of_bounds,
            upside_down=not self.render_context.set_origin_to_bottom,
        )


def compute_pixel_scale(world_to_aerial: Float64Array) -> float:
    """Return the metres per pixel of an aerial image, the mean of both axes."""
    pixels_per_metre = np.linalg.norm(world_to_aerial[:2, :3], axis=1)
    with np.errstate(divide="ignore"):  # a zero matrix gives infinite pixels
        return float(np.mean(1.0 / pixels_per_metre))

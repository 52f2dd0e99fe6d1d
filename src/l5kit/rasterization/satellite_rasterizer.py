"""An aerial picture around the agent of interest."""

from typing import Any

import cv2
import numpy as np

from l5kit._types import Float64Array, NumericArray, UInt8Array
from l5kit.configs.parameters import OUT_OF_BOUNDS_MODES
from l5kit.errors import UnsupportedValueError
from l5kit.geometry.transform import transform_point
from l5kit.rasterization.aerial_image import AerialImage
from l5kit.rasterization.log_window import LogWindow
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer, to_uint8, write_planes
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.satellite_image import get_sat_image_crop_scaled


class SatelliteRasterizer(PlanarRasterizer):
    """Draws the part of an aerial picture that the raster covers, turned with the agent of interest.

    Attributes:
        world_to_aerial: Row and column of the aerial picture from world metres, shape (4, 4).
        interpolation: OpenCV's name of the method that changes the scale.
        map_pixel_scale: Metres per pixel of the aerial picture.
        out_of_bounds: ``error``, or ``pad`` to draw black where the aerial picture ends.
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
        self.map_pixel_scale = _compute_pixel_scale(world_to_aerial)
        self.out_of_bounds = out_of_bounds

    @property
    def map_im(self) -> UInt8Array:
        """The aerial picture, RGB, shape (rows, columns, 3)."""
        return self._aerial.pixels

    @map_im.setter
    def map_im(self, pixels: UInt8Array) -> None:
        self._aerial = AerialImage(pixels)

    def draw(self, window: LogWindow, raster_from_world: Float64Array, planes: UInt8Array) -> None:
        """Draw the aerial picture around the agent of interest of a window.

        Args:
            window: What to draw. The height of the centre is that of the AV.
            raster_from_world: Pixels from world metres, shape (3, 3).
            planes: Drawn into, shape (3, height, width).

        Raises:
            IndexOutOfRangeError: The picture ends inside the crop and ``out_of_bounds`` is ``error``.
        """
        center_xy_m = transform_point(0.5 * self.raster_size, np.linalg.inv(raster_from_world))
        center_m = np.append(center_xy_m, window.frames[0]["ego_translation"][2])
        crop = get_sat_image_crop_scaled(
            self.map_im,
            self.raster_size,
            transform_point(center_m, self.world_to_aerial),
            yaw=-window.yaw_rad,
            sat_pixel_scale=self.map_pixel_scale,
            pixel_size=self.pixel_size,
            interpolation=self.interpolation,
            out_of_bounds=self.out_of_bounds,
        )
        if not self.render_context.set_origin_to_bottom:
            crop = crop[::-1]
        write_planes(crop, planes)

    def to_rgb(self, in_im: NumericArray, **kwargs: Any) -> UInt8Array:  # noqa: ARG002
        """Return a raster of this rasterizer, float32 or uint8, as the RGB bytes it was made of.

        Raises:
            InvalidArgumentError: ``in_im`` has another number of channels.
        """
        self._require_raster(in_im)
        return to_uint8(in_im)

    def num_channels(self) -> int:
        """Return 3."""
        return 3


def _compute_pixel_scale(world_to_aerial: Float64Array) -> float:
    """Return the metres per aerial pixel, the mean along both axes."""
    pixels_per_metre = np.linalg.norm(world_to_aerial[:2, :3], axis=1)
    return float(np.mean(1.0 / pixels_per_metre))

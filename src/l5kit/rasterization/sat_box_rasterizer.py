"""Satellite and box rasterizer: boxes over an aerial picture."""

import cv2

from l5kit._types import Float64Array, UInt8Array
from l5kit.rasterization.aerial_image import AerialImage
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.rasterization.combined_rasterizer import CombinedRasterizer
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.satellite_rasterizer import SatelliteRasterizer


class SatBoxRasterizer(CombinedRasterizer):
    """Channels of :class:`BoxRasterizer` followed by the three of :class:`SatelliteRasterizer`.

    Attributes:
        box_rast: Draws the boxes.
        sat_rast: Draws the aerial picture.
    """

    def __init__(
        self,
        render_context: RenderContext,
        filter_agents_threshold: float,
        history_num_frames: int,
        map_im: UInt8Array | AerialImage,
        world_to_aerial: Float64Array,
        interpolation: int = cv2.INTER_LINEAR,
        render_ego_history: bool = True,
        *,
        solid_boxes: bool = False,
        image_dtype: str = "float32",
        out_of_bounds: str = "error",
    ) -> None:
        super().__init__(render_context, image_dtype=image_dtype)
        self.box_rast = BoxRasterizer(
            render_context,
            filter_agents_threshold,
            history_num_frames,
            render_ego_history,
            solid_boxes=solid_boxes,
            image_dtype=image_dtype,
        )
        self.sat_rast = SatelliteRasterizer(
            render_context,
            map_im,
            world_to_aerial,
            interpolation,
            image_dtype=image_dtype,
            out_of_bounds=out_of_bounds,
        )

    @property
    def background_rast(self) -> PlanarRasterizer:
        """The rasterizer of the aerial picture."""
        return self.sat_rast

    @property
    def map_im(self) -> UInt8Array:
        """The aerial picture, RGB, shape (rows, columns, 3)."""
        return self.sat_rast.map_im

    @property
    def world_to_aerial(self) -> Float64Array:
        """Row and column of the aerial picture from world metres, shape (4, 4)."""
        return self.sat_rast.world_to_aerial

    @property
    def interpolation(self) -> int:
        """OpenCV's name of the method that changes the scale."""
        return self.sat_rast.interpolation

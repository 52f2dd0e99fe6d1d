"""Combined rasterizers: boxes over the semantic map, or over an aerial image."""

from abc import abstractmethod

import cv2
import numpy as np

from l5kit._types import Float64Array, NumericArray, UInt8Array
from l5kit.data.index.windows import Targets, Windows
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.rasterization.draw_list import StackedList
from l5kit.rasterization.planar_rasterizer import LogWindow, PlanarRasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.satellite_image import AerialImage
from l5kit.rasterization.satellite_rasterizer import SatelliteRasterizer
from l5kit.rasterization.semantic_rasterizer import SemanticRasterizer


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
        """Agents are drawn if the summed probability of the kept classes is above this."""
        return self.box_rast.filter_agents_threshold

    @property
    def history_num_frames(self) -> int:
        """Past frames whose boxes are drawn."""
        return self.box_rast.history_num_frames

    @property
    def draws_windows(self) -> bool:
        """Whether no class involved overrides ``rasterize``; otherwise the rasters of the parts are joined."""
        return super().draws_windows and self.box_rast.draws_windows and self.background_rast.draws_windows

    def prepare(self, windows: Windows, targets: Targets, raster_from_world: Float64Array) -> StackedList:
        """Return the boxes, followed by the background in the last channels.

        Args:
            windows: The history of B windows.
            targets: The agents of interest, (B,).
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
        """
        boxes = self.box_rast.prepare(windows, targets, raster_from_world)
        return StackedList((boxes, self.background_rast.prepare(windows, targets, raster_from_world)))

    def to_rgb(self, in_im: NumericArray, **kwargs: object) -> UInt8Array:
        """Return the background with the boxes over it.

        Args:
            in_im: A raster of this rasterizer, shape (height, width, channels), float32 or uint8.
            **kwargs: Options of the two rasterizers; unknown ones are ignored.

        Returns:
            RGB, shape (height, width, 3).

        Raises:
            InvalidArgumentError: ``in_im`` has a different number of channels.
        """
        self._require_raster(in_im)
        boxes = self.box_rast.to_rgb(in_im[..., :-3], **kwargs)
        background = self.background_rast.to_rgb(in_im[..., -3:], **kwargs)
        return np.where((boxes > 0).any(axis=-1, keepdims=True), boxes, background)

    def num_channels(self) -> int:
        """Return the channels of the boxes plus three."""
        return self.box_rast.num_channels() + self.background_rast.num_channels()

    def _rasterize_window(self, window: LogWindow) -> NumericArray:
        """Draw in one go, or, if a part overrides ``rasterize``, join the results of the parts."""
        parts = (self.box_rast, self.background_rast)
        if all(part.draws_windows for part in parts):
            return super()._rasterize_window(window)
        arguments = (window.frames, window.agents, window.tl_faces, window.agent)
        return np.concatenate([part.rasterize_planar(*arguments) for part in parts])


class SemBoxRasterizer(CombinedRasterizer):
    """Channels of :class:`BoxRasterizer` followed by the three of :class:`SemanticRasterizer`.

    Attributes:
        box_rast: Draws the boxes.
        sem_rast: Draws the semantic map.
    """

    def __init__(
        self,
        render_context: RenderContext,
        filter_agents_threshold: float,
        history_num_frames: int,
        semantic_map_path: str,
        world_to_ecef: Float64Array,
        render_ego_history: bool = True,
        *,
        solid_boxes: bool = False,
        image_dtype: str = "float32",
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
        self.sem_rast = SemanticRasterizer(render_context, semantic_map_path, world_to_ecef, image_dtype=image_dtype)

    @property
    def background_rast(self) -> PlanarRasterizer:
        """The rasterizer of the semantic map."""
        return self.sem_rast


class SatBoxRasterizer(CombinedRasterizer):
    """Channels of :class:`BoxRasterizer` followed by the three of :class:`SatelliteRasterizer`.

    Attributes:
        box_rast: Draws the boxes.
        sat_rast: Draws the aerial image.
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
        """The rasterizer of the aerial image."""
        return self.sat_rast

    @property
    def map_im(self) -> UInt8Array:
        """The aerial image, RGB, shape (rows, columns, 3)."""
        return self.sat_rast.map_im

    @property
    def world_to_aerial(self) -> Float64Array:
        """Row and column of the aerial image from world metres, shape (4, 4)."""
        return self.sat_rast.world_to_aerial

    @property
    def interpolation(self) -> int:
        """OpenCV's name of the interpolation."""
        return self.sat_rast.interpolation

"""Semantic and box rasterizer: boxes over the semantic map."""

from l5kit._types import Float64Array
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.rasterization.combined_rasterizer import CombinedRasterizer
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.semantic_rasterizer import SemanticRasterizer


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

"""Dataset of rasters around the AV; the vector datasets are re-exported, as in L5Kit 1.x."""

from collections.abc import Callable

from l5kit._types import JsonObject, Sample
from l5kit._warning import warn_caller
from l5kit.configs.parameters import RasterGeometry, SamplingParams
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.base import BaseEgoDataset, require_method
from l5kit.dataset.ego_vectorized import EgoAgentDatasetVectorized, EgoDatasetVectorized
from l5kit.dataset.sample_indices import ego_extent_of
from l5kit.kinematic.perturbation import Perturbation
from l5kit.rasterization.rasterizer import Rasterizer, WindowRasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.sampling.samplers import AgentSampler


class EgoDataset(BaseEgoDataset):
    """Raster samples of the AV, one for each frame.

    Args:
        cfg: Configuration with ``raster_params`` and ``model_params``.
        zarr_dataset: An opened dataset.
        rasterizer: Draws the rasters; None for samples without one.
        perturbation: Moves the AV; None for the logged poses.

    The samples are those of :func:`l5kit.sampling.generate_agent_sample`, with ``image`` as (C, H, W).
    """

    _channels_first = True

    def __init__(
        self,
        cfg: JsonObject,
        zarr_dataset: ChunkedDataset,
        rasterizer: Rasterizer | WindowRasterizer | None,
        perturbation: Perturbation | None = None,
    ) -> None:
        if not isinstance(rasterizer, WindowRasterizer):
            require_method("rasterizer", rasterizer, "rasterize")
        require_method("perturbation", perturbation, "perturb")
        self.perturbation = perturbation
        self.rasterizer = rasterizer
        super().__init__(cfg, zarr_dataset)

    def _get_sample_function(self) -> Callable[..., Sample]:
        render_context = RenderContext.from_geometry(RasterGeometry.from_cfg(self.cfg))
        drawn = getattr(self.rasterizer, "render_context", render_context)
        if drawn != render_context:
            warn_caller(
                "the geometry of the rasterizer differs from raster_params; "
                "raster_from_world and raster_from_agent will not match the image"
            )
        return AgentSampler(
            SamplingParams.from_cfg(self.cfg),
            render_context,
            self.rasterizer,
            self.perturbation,
            ego_extent_of(self.dataset),
        )


__all__ = ["BaseEgoDataset", "EgoAgentDatasetVectorized", "EgoDataset", "EgoDatasetVectorized"]

"""Everything that stays the same from sample to sample, as one callable."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import DTypeLike

from l5kit._types import NumericArray
from l5kit.configs.parameters import SamplingParams
from l5kit.errors import UnsupportedValueError
from l5kit.kinematic.perturbation import Perturbation
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.sampling.agent_sampling import generate_agent_sample
from l5kit.sampling.context import Contexts, ContextSteps
from l5kit.sampling.sample_columns import (
    StepTimes,
    Targets,
    draw_images,
    find_agents,
    find_av,
    perturb_contexts,
    sample_columns,
)

NewImages = Callable[[tuple[int, ...], DTypeLike], NumericArray]


@dataclass(frozen=True)
class AgentSampler:
    """Makes samples with fixed parameters.

    Attributes:
        params: How a sample is cut out of a scene.
        render_context: Geometry of the raster.
        rasterizer: Draws the picture; None for samples without one.
        perturbation: Moves the AV's frames; None for the log as it is.
    """

    params: SamplingParams
    render_context: RenderContext
    rasterizer: Rasterizer | None
    perturbation: Perturbation | None

    def __call__(
        self, state_index: int, frames: Any, agents: Any, tl_faces: Any, selected_track_id: int | None = None
    ) -> dict[str, Any]:
        """Return a sample; see :func:`l5kit.sampling.agent_sampling.generate_agent_sample`."""
        return generate_agent_sample(
            state_index,
            frames,
            agents,
            tl_faces,
            selected_track_id,
            self.render_context,
            self.params.history_num_frames,
            self.params.future_num_frames,
            self.params.step_time_s,
            self.params.filter_agents_threshold,
            self.rasterizer,
            self.perturbation,
            self.params.history_step_size,
            self.params.future_step_size,
        )

    @property
    def makes_batches(self) -> bool:
        """Whether :meth:`make_columns` can be used: it cannot with a rasterizer that draws only single windows."""
        return self.rasterizer is None or (
            isinstance(self.rasterizer, PlanarRasterizer) and self.rasterizer.draws_planes
        )

    @property
    def steps(self) -> ContextSteps:
        """Which frames belong to a sample."""
        params = self.params
        return ContextSteps(
            params.history_num_frames, params.future_num_frames, params.history_step_size, params.future_step_size
        )

    def make_columns(
        self, contexts: Contexts, track_ids: NumericArray | None, new_images: NewImages
    ) -> dict[str, NumericArray]:
        """Return what :meth:`__call__` returns for each of B contexts, without ``frame_index``.

        Args:
            contexts: Cut with :attr:`steps`; the perturbation changes them.
            track_ids: The agents of interest, (B,), in the type of the agents' field; None for the AV.
            new_images: Gives memory for the pictures, of a shape and a type.

        Returns:
            One array (B, ...) for each key; the pictures with channels first.

        Raises:
            TrackNotFoundError: An agent is not in its current frame or does not pass the label filter.
        """
        perturb_contexts(contexts, self.perturbation)
        targets = self._find_targets(contexts, track_ids)
        images = {} if self.rasterizer is None else {"image": self._draw(contexts, targets, new_images)}
        times = StepTimes(
            self.params.step_time_s * self.params.history_step_size,
            self.params.step_time_s * self.params.future_step_size,
        )
        return images | sample_columns(contexts, targets, render_context=self.render_context, times=times)

    def _find_targets(self, contexts: Contexts, track_ids: NumericArray | None) -> Targets:
        if track_ids is None:
            return find_av(contexts)
        return find_agents(contexts, track_ids, self.params.filter_agents_threshold)

    def _draw(self, contexts: Contexts, targets: Targets, new_images: NewImages) -> NumericArray:
        rasterizer = self.rasterizer
        if not isinstance(rasterizer, PlanarRasterizer):
            raise UnsupportedValueError(f"{rasterizer!r} draws no batches; make the samples one by one")
        width, height = rasterizer.raster_size.tolist()
        images = new_images((len(contexts), rasterizer.num_channels(), height, width), rasterizer.image_dtype)
        draw_images(rasterizer, contexts, targets, images)
        return images

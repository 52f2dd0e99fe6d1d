"""Everything that stays the same from sample to sample, as one callable."""

from dataclasses import dataclass
from typing import Any

from l5kit.configs.parameters import SamplingParams
from l5kit.kinematic.perturbation import Perturbation
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.sampling.agent_sampling import generate_agent_sample


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

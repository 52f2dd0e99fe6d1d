"""Everything that stays the same from sample to sample, as one callable."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import NumericArray
from l5kit.configs.parameters import SamplingParams
from l5kit.errors import UnsupportedValueError
from l5kit.kinematic.perturbation import Perturbation
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer
from l5kit.rasterization.rasterizer import Rasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.sampling.context import Contexts, CurrentFrames
from l5kit.sampling.context_sampler import ContextSampler
from l5kit.sampling.sample_columns import (
    Targets,
    log_windows,
    sample_columns,
    sample_of,
)

NewImages = Callable[[tuple[int, ...], DTypeLike], NumericArray]


@dataclass(frozen=True)
class AgentSampler(ContextSampler):
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
        """Return one sample; arguments, result and errors as in :func:`l5kit.sampling.generate_agent_sample`."""
        current = CurrentFrames.of_scene(frames, state_index)
        contexts, track_ids = self._cut_single(current, agents, tl_faces, selected_track_id)
        if self.makes_batches:
            sample = sample_of(self.make_columns(contexts, track_ids), 0)
            if "image" in sample:
                sample["image"] = sample["image"].transpose(1, 2, 0)
        else:
            targets = self._perturb_and_find(contexts, track_ids)
            picture = {"image": self._draw_single(contexts, targets)}
            sample = picture | sample_of(self._columns(contexts, targets), 0)
        return {"frame_index": state_index} | sample

    @property
    def makes_batches(self) -> bool:
        """Whether :meth:`make_columns` can be used: it cannot with a rasterizer that draws only single windows."""
        return self.rasterizer is None or (
            isinstance(self.rasterizer, PlanarRasterizer) and self.rasterizer.draws_planes
        )

    def make_columns(
        self, contexts: Contexts, track_ids: NumericArray | None, new_images: NewImages | None = None
    ) -> dict[str, NumericArray]:
        """Return what :meth:`__call__` returns for each of B contexts, without ``frame_index``.

        Args:
            contexts: Cut with :attr:`steps`; the perturbation changes them.
            track_ids: The agents of interest, (B,), in the type of the agents' field; None for the AV.
            new_images: Gives memory for the pictures, of a shape and a type; None for new memory.

        Returns:
            One array (B, ...) for each key; the pictures with channels first.

        Raises:
            TrackNotFoundError: An agent is not in its current frame or does not pass the label filter.
        """
        targets = self._perturb_and_find(contexts, track_ids)
        images = {} if self.rasterizer is None else {"image": self._draw(contexts, targets, new_images)}
        return images | self._columns(contexts, targets)

    def _columns(self, contexts: Contexts, targets: Targets) -> dict[str, NumericArray]:
        return sample_columns(contexts, targets, render_context=self.render_context, times=self._times)

    def _draw(self, contexts: Contexts, targets: Targets, new_images: NewImages | None) -> NumericArray:
        """Return the pictures (B, C, H, W)."""
        rasterizer = self.rasterizer
        if not isinstance(rasterizer, PlanarRasterizer):
            raise UnsupportedValueError(f"{rasterizer!r} draws no batches; make the samples one by one")
        images = new_images and new_images(rasterizer.images_shape(len(contexts)), rasterizer.image_dtype)
        return rasterizer.rasterize_windows(log_windows(contexts, targets), images)

    def _draw_single(self, contexts: Contexts, targets: Targets) -> NumericArray:
        """Return the picture of one context by a rasterizer of any kind, channels last."""
        rasterizer: Any = self.rasterizer
        num_frames = int(contexts.num_history[0])
        window = (
            contexts.history_frames[0, :num_frames],
            contexts.agents.frames_of(0, num_frames),
            contexts.tl_faces.frames_of(0, num_frames),
            None if targets.rows is None else contexts.agents.take(targets.rows)[0],
        )
        if hasattr(rasterizer, "rasterize_planar"):
            picture: NumericArray = rasterizer.rasterize_planar(*window).transpose(1, 2, 0)
            return picture
        return np.asarray(rasterizer.rasterize(*window))  # a user's own, not derived from Rasterizer

"""What samplers have in common: which frames a sample needs, and whom it is about."""

from functools import cached_property
from typing import Any

import numpy as np

from l5kit._types import NumericArray
from l5kit.configs.parameters import SamplingParams, VectorSamplingParams
from l5kit.data.records import TL_FACE_DTYPE
from l5kit.kinematic.perturbation import Perturbation
from l5kit.sampling.context import Contexts, ContextSteps, CurrentFrames, cut_contexts
from l5kit.sampling.poses import StepTimes
from l5kit.sampling.sample_columns import Targets, find_targets, ids_of_one_track, perturb_contexts


class ContextSampler:
    """Base of the samplers, which are frozen dataclasses with its two attributes and more.

    Attributes:
        params: How a sample is cut out of a scene.
        perturbation: Moves the AV's frames; None for the log as it is.
    """

    params: SamplingParams | VectorSamplingParams
    perturbation: Perturbation | None

    @cached_property
    def steps(self) -> ContextSteps:
        """Which frames belong to a sample."""
        return ContextSteps.from_params(self.params)

    @cached_property
    def _times(self) -> StepTimes:
        return StepTimes.from_params(self.params)

    def _cut_single(
        self, current: CurrentFrames, agents: Any, tl_faces: Any, track_id: int | None
    ) -> tuple[Contexts, NumericArray | None]:
        """Return the context of one frame, and one track as an array (1,) or None for the AV."""
        tl_faces = np.empty(0, dtype=TL_FACE_DTYPE) if tl_faces is None else tl_faces
        contexts = cut_contexts(current, agents, tl_faces, self.steps)
        return contexts, ids_of_one_track(contexts, track_id, self.params.filter_agents_threshold)

    def _perturb_and_find(self, contexts: Contexts, track_ids: NumericArray | None) -> Targets:
        perturb_contexts(contexts, self.perturbation)
        return find_targets(contexts, track_ids, self.params.filter_agents_threshold)

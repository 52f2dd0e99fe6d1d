"""Everything that stays the same from vector sample to vector sample, as one callable."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from l5kit._types import Float32Array, Int64Array, NumericArray
from l5kit.configs.parameters import VectorSamplingParams
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.kinematic.perturbation import Perturbation
from l5kit.sampling.agent_sampler import NewImages
from l5kit.sampling.context import Contexts, CurrentFrames
from l5kit.sampling.context_sampler import ContextSampler
from l5kit.sampling.poses import Trajectories
from l5kit.sampling.sample_columns import (
    Targets,
    sample_of,
    trace_targets,
)
from l5kit.vectorization.vector_windows import VectorWindows
from l5kit.vectorization.vectorizer import Vectorizer

AV_TYPE = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]
"""Label of the AV in ``type`` of a sample."""


@dataclass(frozen=True)
class VectorSampler(ContextSampler):
    """Makes vector samples with fixed parameters.

    Attributes:
        params: How a sample is cut out of a scene.
        vectorizer: Gives what is around the target: a :class:`Vectorizer`, or anything with its ``vectorize``.
        perturbation: Moves the AV's frames; None for the log as it is.
    """

    params: VectorSamplingParams
    vectorizer: Any
    perturbation: Perturbation | None

    def __call__(
        self, state_index: int, frames: Any, agents: Any, tl_faces: Any, selected_track_id: int | None = None
    ) -> dict[str, Any]:
        """Return one sample; see :func:`l5kit.sampling.agent_sampling_vectorized.generate_agent_sample_vectorized`."""
        current = CurrentFrames.of_scene(frames, state_index)
        contexts, track_ids = self._cut_single(current, agents, tl_faces, selected_track_id)
        if self.makes_batches:
            sample = sample_of(self.make_columns(contexts, track_ids), 0)
        else:
            targets = self._perturb_and_find(contexts, track_ids)
            sample = sample_of(self._target_columns(contexts, targets), 0)
            sample |= self._vectorize_single(contexts, targets, sample)
        if selected_track_id is None:
            sample["type"] = int(sample["type"])
        return sample

    @property
    def makes_batches(self) -> bool:
        """Whether :meth:`make_columns` can be used: it cannot with a vectorizer that takes only single windows."""
        return isinstance(self.vectorizer, Vectorizer) and self.vectorizer.vectorizes_windows

    def make_columns(
        self,
        contexts: Contexts,
        track_ids: NumericArray | None,
        new_images: NewImages | None = None,  # noqa: ARG002
    ) -> dict[str, NumericArray]:
        """Return what :meth:`__call__` returns for each of B contexts.

        Args:
            contexts: Cut with :attr:`steps`; the perturbation changes them.
            track_ids: The agents of interest, (B,), in the type of the agents' field; None for the AV.
            new_images: Not used, as there are no pictures.

        Returns:
            One array (B, ...) for each key.

        Raises:
            TrackNotFoundError: An agent is not in its current frame or does not pass the label filter.
        """
        targets = self._perturb_and_find(contexts, track_ids)
        columns = self._target_columns(contexts, targets)
        surroundings: dict[str, NumericArray] = self.vectorizer.vectorize_windows(
            vector_windows(contexts, targets, columns)
        )
        return columns | surroundings

    def _target_columns(self, contexts: Contexts, targets: Targets) -> dict[str, NumericArray]:
        """Return who the targets are, where they were and will be."""
        found = trace_targets(contexts, targets, self._times)
        past, future = found.past, found.future
        end = self.params.history_num_frames_ego + 1
        for array in past.as_arrays():
            array[:, end:] = 0
        return {
            "extent": targets.extents_m,
            "type": _types(contexts, targets),
            "agent_from_world": targets.viewpoints.agent_from_world,
            "world_from_agent": targets.world_from_agent,
            "target_positions": future.positions_m,
            "target_yaws": future.yaws_rad,
            "target_extents": future.extents_m,
            "target_availabilities": future.availabilities.astype(np.bool_),
            "history_positions": past.positions_m,
            "history_yaws": past.yaws_rad,
            "history_extents": past.extents_m,
            "history_availabilities": past.availabilities.astype(np.bool_),
            "centroid": targets.centroids_m,
            "yaw": targets.yaws_rad,
            "speed": self._speeds(found),
        }

    def _speeds(self, found: Trajectories) -> Float32Array:
        """Return the speeds of the targets, (B,): of the next step, or of the last one, or 0 where there is none."""
        num_future = found.future_velocities_mps.shape[1]
        if num_future > 0 and not self.params.speed_from_history:
            x_mps, y_mps = found.future_velocities_mps[:, 0].T
            speeds_mps: Float32Array = np.sqrt(x_mps * x_mps + y_mps * y_mps)
            return speeds_mps
        if found.past_velocities_mps.shape[1] > 0:
            return found.speeds_mps
        return np.zeros_like(found.speeds_mps)

    def _vectorize_single(self, contexts: Contexts, targets: Targets, sample: dict[str, Any]) -> dict[str, Any]:
        """Return what a vectorizer of any kind gives for one context."""
        num_history, num_future = int(contexts.num_history[0]), int(contexts.num_future[0])
        first = contexts.history_frames.shape[1]
        surroundings: dict[str, Any] = self.vectorizer.vectorize(
            None if targets.track_ids is None else int(targets.track_ids[0]),
            sample["centroid"],
            sample["yaw"],
            sample["agent_from_world"],
            contexts.history_frames[0, :num_history],
            contexts.agents.frames_of(0, num_history),
            contexts.tl_faces.frames_of(0, num_history),
            sample["history_positions"],
            sample["history_yaws"],
            sample["history_availabilities"],
            contexts.future_frames[0, :num_future],
            contexts.agents.frames(first, first + num_future).frames_of(0, num_future),
        )
        return surroundings


def vector_windows(contexts: Contexts, targets: Targets, columns: dict[str, NumericArray]) -> VectorWindows:
    """Return what vector samples of the contexts show; ``columns`` hold the past of the targets."""
    return VectorWindows(
        agents=contexts.agents,
        num_history=contexts.history_frames.shape[1],
        tl_faces=contexts.tl_faces.head(1),
        track_ids=targets.track_ids,
        centroids_m=targets.centroids_m,
        yaws_rad=targets.yaws_rad,
        agent_from_world=targets.viewpoints.agent_from_world,
        history_positions_m=columns["history_positions"],
        history_yaws_rad=columns["history_yaws"],
        history_availabilities=columns["history_availabilities"],
    )


def _types(contexts: Contexts, targets: Targets) -> Int64Array:
    """Return the most likely label of each target, (B,)."""
    if targets.rows is None:
        return np.full(len(targets.yaws_rad), AV_TYPE, np.int64)
    rows = contexts.agents.take(targets.rows)
    labels: Int64Array = rows["label_probabilities"].argmax(axis=1).astype(np.int64)
    return labels

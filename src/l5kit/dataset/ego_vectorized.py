"""Datasets of vector samples, one for each frame of a log."""

import copy
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from l5kit._types import Column, Float64Array, Int64Array, JsonObject, NumericArray, Sample
from l5kit._warning import warn_caller
from l5kit.configs.parameters import VectorSamplingParams
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import FRAME_INTERVAL
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.base import BaseEgoDataset, checked_index, require_method
from l5kit.dataset.masked_agents import MaskedAgentsDataset
from l5kit.dataset.sample_indices import SampleIndices, ego_extent_of, take_rows
from l5kit.dataset.utils import AGENT_MIN_FRAME_FUTURE, AGENT_MIN_FRAME_HISTORY
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.kinematic.perturbation import Perturbation
from l5kit.sampling.sample_keys import ROWS_OF_AV
from l5kit.sampling.samplers import VectorSampler
from l5kit.vectorization.vectorizer import Vectorizer

EVAL_FRAME_INDEX = 99
"""The frame of each scene that L5Kit 1.5 evaluates: the last one of the competition's test scenes."""

MAX_VALID_AGENTS = 50
"""Length of ``all_valid_agents_track_ids``."""


class EgoDatasetVectorized(BaseEgoDataset):
    """Vector samples of the AV, one for each frame.

    Args:
        cfg: Configuration with ``raster_params`` and ``model_params``.
        zarr_dataset: An opened dataset.
        vectorizer: Vectorizes the surroundings of the AV.
        perturbation: Moves the AV; None for the logged poses.

    The samples are those of
    :func:`l5kit.sampling.agent_sampling_vectorized.generate_agent_sample_vectorized`.
    """

    def __init__(
        self,
        cfg: JsonObject,
        zarr_dataset: ChunkedDataset,
        vectorizer: Vectorizer,
        perturbation: Perturbation | None = None,
    ) -> None:
        if vectorizer is None:
            raise InvalidArgumentError("vectorizer must have a method vectorize(), got None; use build_vectorizer()")
        require_method("vectorizer", vectorizer, "vectorize")
        require_method("perturbation", perturbation, "perturb")
        self.perturbation = perturbation
        self.vectorizer = vectorizer
        super().__init__(cfg, zarr_dataset)

    def _get_sample_function(self) -> Callable[..., Sample]:
        params = VectorSamplingParams.from_cfg(self.cfg)
        return VectorSampler(params, self.vectorizer, self.perturbation, ego_extent_of(self.dataset))


class EgoAgentDatasetVectorized(MaskedAgentsDataset, EgoDatasetVectorized):
    """Vector samples of the AV and the agents around it, one for each frame, or one for each scene in evaluation mode.

    Samples are those of :class:`EgoDatasetVectorized`, whose ``all_other_agents_...`` and ``other_agents_polyline...``
    have the AV as their first row, in one of the configured ``other_agents_num`` rows. Its track id is -1.
    ``all_other_agents_future_availability`` is cleared for agents with 10 or fewer known steps of history, including
    the current one, or with 1 or fewer of the future. ``all_valid_agents_track_ids``, float64 (50,), is zero or, for
    evaluation, holds the first 50 tracks that the agents mask selects in the frame, padded with zeros.

    Args:
        cfg: Configuration with ``raster_params`` and ``model_params``.
        zarr_dataset: An opened dataset.
        vectorizer: Vectorizes the surroundings of the AV; the dataset uses a copy with one row fewer.
        perturbation: Moves the AV; None for the logged poses.
        agents_mask: Rows to select instead of those of the agents mask, bool or 0 and 1, (N,); gives a
            ``RuntimeWarning``. Rows that fail the label filter are dropped, as they are in no sample; another
            ``RuntimeWarning`` counts them.
        eval_mode: Whether there is one sample for each scene.
        eval_frame_index: The frame of each scene in this sample. A scene without it raises a ``SampleError``.
        strict_mask: Select all rows of ``agents_mask`` without reading their probabilities.

    Attributes:
        eval_mode: Whether there is one sample for each scene.
        eval_frame_index: The frame of each scene in this sample.
    """

    _resized_columns = ROWS_OF_AV

    def __init__(
        self,
        cfg: JsonObject,
        zarr_dataset: ChunkedDataset,
        vectorizer: Vectorizer,
        perturbation: Perturbation | None = None,
        agents_mask: NumericArray | None = None,
        eval_mode: bool = False,
        *,
        eval_frame_index: int = EVAL_FRAME_INDEX,
        strict_mask: bool = False,
    ) -> None:
        own_vectorizer = leave_row_for_av(vectorizer)
        self.eval_mode = eval_mode
        self.eval_frame_index = operator.index(eval_frame_index)
        if self.eval_frame_index < 0:
            raise InvalidArgumentError(f"eval_frame_index must be 0 or more, got {eval_frame_index}")
        super().__init__(cfg, zarr_dataset, own_vectorizer, perturbation)

        # futures of agents with a short history are cleared, possibly all of them
        history_num_frames = VectorSamplingParams.from_cfg(cfg).history_num_frames
        if history_num_frames < AGENT_MIN_FRAME_HISTORY:
            warn_caller(
                f"no agent has a future: it needs more than {AGENT_MIN_FRAME_HISTORY} known steps of history, samples"
                f" have {history_num_frames + 1}; set history_num_frames_ego and history_num_frames_agents to "
                f"{AGENT_MIN_FRAME_HISTORY} or more"
            )
        self._take_agents(
            agents_mask,
            min_frame_history=AGENT_MIN_FRAME_HISTORY,
            min_frame_future=AGENT_MIN_FRAME_FUTURE,
            strict_mask=strict_mask,
        )

    def __len__(self) -> int:
        return len(self.dataset.scenes) if self.eval_mode else len(self.dataset.frames)

    def __getitem__(self, index: int) -> Sample:
        """Return the sample of a frame, or of a scene for evaluation.

        Args:
            index: The frame or scene; negative counts from the end.

        Raises:
            IndexError: There is no such frame or scene.
            SampleError: The sample cannot be made, or the scene is too short; the cause is chained.
        """
        sample = super().__getitem__(index)
        single = {key: np.asarray(sample[key])[None] for key in {*ROWS_OF_AV, *ROWS_OF_AV.values()} & sample.keys()}
        with_av = {key: column[0] for key, column in with_av_as_agent(single, np).items()}
        indices = SampleIndices(np.array([sample["scene_index"]]), np.zeros(1, np.int64))
        return sample | with_av | {"all_valid_agents_track_ids": self.valid_track_ids(indices)[0]}

    def get_frame(self, scene_index: int, state_index: int, track_id: int | None = None) -> Sample:
        """Return the sample of :class:`EgoDatasetVectorized` of the AV or of an agent, without the AV as an agent.

        Arguments, result and errors are those of :meth:`EgoDatasetVectorized.get_frame`.
        """
        if self.eval_mode and state_index == self.eval_frame_index:
            start, stop = take_rows(self.dataset.scenes, np.array([scene_index]))[FRAME_INTERVAL][0].tolist()
            num_frames = stop - start
            if state_index >= num_frames:
                raise ShortSceneError(
                    f"scene {scene_index} has {num_frames} frames, but frame {state_index} is to be evaluated; "
                    "set eval_frame_index, or exclude the scene"
                )
        return super().get_frame(scene_index, state_index, track_id)

    def get_scene_indices(self, scene_idx: int) -> Int64Array:
        """Return the indices of this dataset that belong to a scene: its frames, or the scene itself for evaluation.

        L5Kit 1.5 returned positions among the selected agent rows instead; ``get_scene_agent_indices`` does so.

        Raises:
            InvalidArgumentError: There is no such scene.
        """
        if not self.eval_mode:
            return super().get_scene_indices(scene_idx)
        return np.array([checked_index("scene_idx", scene_idx, len(self.cumulative_sizes))], dtype=np.int64)

    def scene_starts(self) -> Int64Array | None:
        """Return the first index of each scene and the end of the last one, (S + 1,); None if the log is damaged."""
        return np.arange(len(self) + 1) if self.eval_mode else super().scene_starts()

    def get_frame_indices(self, frame_idx: int) -> Int64Array:
        """Return the indices of this dataset that belong to a frame; for evaluation, its scene or none.

        L5Kit 1.5 returned positions among the selected agent rows instead; ``get_frame_agent_indices`` does so.

        Raises:
            InvalidArgumentError: There is no such frame.
        """
        frames = super().get_frame_indices(frame_idx)
        if not self.eval_mode:
            return frames
        samples = self._log.locate(frames, self.cumulative_sizes)
        scenes: Int64Array = samples.scene_indices[samples.state_indices == self.eval_frame_index]
        return scenes.astype(np.int64, copy=False)

    def locate(self, positions: Int64Array) -> SampleIndices:
        """Return where the samples at indices (B,) of this dataset are in the log; see the base class."""
        if not self.eval_mode:
            return super().locate(positions)
        return SampleIndices(positions, np.full_like(positions, self.eval_frame_index))

    def _finish_columns(self, indices: SampleIndices, columns: dict[str, Column]) -> dict[str, Column]:
        track_ids = self.valid_track_ids(indices)
        arrays = {key: column for key, column in columns.items() if isinstance(column, np.ndarray)}
        return columns | with_av_as_agent(arrays, np) | {"all_valid_agents_track_ids": track_ids}

    def valid_track_ids(self, indices: SampleIndices) -> Float64Array:
        """Return ``all_valid_agents_track_ids`` of samples (B,), (B, 50)."""
        track_ids = np.zeros((len(indices), MAX_VALID_AGENTS))
        # for evaluation, the tracks that the agents mask selects in the evaluated frame of the scene
        for sample, scene_index in enumerate(indices.scene_indices.tolist() if self.eval_mode else ()):
            frame_index = self._log.frames_of(scene_index, self.cumulative_sizes)[0] + self.eval_frame_index
            first_row, end_row = self._rows_of_frames(frame_index, frame_index + 1)
            rows = rows_of(self.dataset.agents, slice(first_row, end_row), strict=True)
            valid = rows["track_id"][self.agents_mask[first_row:end_row]]
            different = list(dict.fromkeys(valid.tolist()))[:MAX_VALID_AGENTS]
            track_ids[sample, : len(different)] = different
        return track_ids


class ShortSceneError(IndexOutOfRangeError, ValueError):
    """A scene ends before the frame that is to be evaluated."""


def leave_row_for_av(vectorizer: Vectorizer) -> Vectorizer:
    """Return a copy of a vectorizer with one row fewer for other agents, which the AV takes.

    Raises:
        InvalidArgumentError: It has no row for other agents.
    """
    if getattr(vectorizer, "other_agents_num", 0) < 1:
        raise InvalidArgumentError(
            f"vectorizer must have other_agents_num of 1 or more, as the AV takes one row; got {vectorizer!r}"
        )
    own_vectorizer = copy.copy(vectorizer)
    own_vectorizer.other_agents_num = vectorizer.other_agents_num - 1
    return own_vectorizer


def with_av_as_agent(columns: Mapping[str, Any], arrays: Any) -> dict[str, Any]:
    """Return the columns of the agents of B samples with the AV as their first row, as new arrays or tensors.

    Args:
        columns: The columns of ``EgoDatasetVectorized``, of which those of agents, (B, M, ...), and their counterparts
            of the AV, (B, ...), are used; :data:`~l5kit.sampling.sample_keys.ROWS_OF_AV` names both.
        arrays: The module of these columns, ``numpy`` or ``torch``.

    Returns:
        The columns of agents, (B, M + 1, ...). The future of an agent is unavailable if 10 or fewer steps of its
        history are known, including the current one, or 1 or fewer of its future.
    """
    agents = {
        key: arrays.concatenate([columns[av_key][:, None], columns[key]], axis=1)
        for key, av_key in ROWS_OF_AV.items()
        if key in columns
    }
    num_past = agents["all_other_agents_history_availability"].sum(axis=-1)
    future = agents["all_other_agents_future_availability"]
    is_target = (num_past > AGENT_MIN_FRAME_HISTORY) & (future.sum(axis=-1) > AGENT_MIN_FRAME_FUTURE)
    agents["all_other_agents_future_availability"] = future & is_target[..., None]
    return agents

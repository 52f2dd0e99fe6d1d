"""Errors of single trajectories, and where in the log each is from."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.ego_vectorized import EgoAgentDatasetVectorized
from l5kit.dataset.sample_indices import take_rows
from l5kit.errors import InvalidArgumentError
from l5kit.kinematic.baselines import BASELINES
from l5kit.openloop.prediction import PredictedBatch
from l5kit.workflows.trajectories import Trajectories

_LABEL_OF_AV = -1


@dataclass(frozen=True)
class TrajectoryRows:
    """N predicted trajectories: where they are from, and how far off they are.

    Attributes:
        sample_index: Place of the sample in the dataset, (N,).
        agent_index: Place of the agent in its sample; 0 in samples of one agent, (N,).
        scene_index: The scene, (N,).
        frame_index: The frame, counted in the scene, (N,).
        timestamp_ns: Its time, (N,).
        track_id: The agent, -1 for the AV, (N,).
        label_index: Its class, for :func:`label_name`, (N,).
        ade_m: Mean error over the steps whose truth is known, (N,).
        fde_m: Error at the last step; NaN where its truth is not known, (N,).
        baseline_ade_m: The same of each of ``BASELINES``; NaN without a past, (N, baselines).
        baseline_fde_m: Likewise, (N, baselines).

    Raises:
        InvalidArgumentError: The columns differ in length.
    """

    sample_index: Int64Array
    agent_index: Int64Array
    scene_index: Int64Array
    frame_index: Int64Array
    timestamp_ns: Int64Array
    track_id: Int64Array
    label_index: Int64Array
    ade_m: Float64Array
    fde_m: Float64Array
    baseline_ade_m: Float64Array
    baseline_fde_m: Float64Array

    def __post_init__(self) -> None:
        shapes = {column.name: getattr(self, column.name).shape for column in fields(self)}
        of_baselines = (shapes.pop("baseline_ade_m"), shapes.pop("baseline_fde_m"))
        num_rows = len(self.sample_index)
        if set(shapes.values()) != {(num_rows,)} or set(of_baselines) != {(num_rows, len(BASELINES))}:
            raise InvalidArgumentError(
                f"the columns must all be of one shape (N,), those of baselines (N, {len(BASELINES)}); "
                f"got {shapes} and {of_baselines}"
            )

    def __len__(self) -> int:
        return len(self.sample_index)

    def taken(self, chosen: Int64Array | BoolArray | slice) -> Self:
        """Return some of the rows."""
        return type(self)(**{column.name: getattr(self, column.name)[chosen] for column in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several, one after the other."""
        return cls(
            **{column.name: np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)}
        )


def label_name(label_index: int) -> str:
    """Return the name of a class, such as ``CAR``, or ``AV``."""
    return "AV" if label_index == _LABEL_OF_AV else PERCEPTION_LABELS[label_index].removeprefix("PERCEPTION_LABEL_")


def rows_of_batch(samples: BaseEgoDataset, predicted: PredictedBatch) -> TrajectoryRows:
    """Return the rows of a batch of a dataset, without trajectories that no step is known of."""
    num_agents, trajectories = predicted.num_agents, predicted.trajectories
    located = samples.locate(predicted.indices)
    of_samples = {
        "sample_index": predicted.indices,
        "scene_index": located.scene_indices,
        "frame_index": located.state_indices,
        "timestamp_ns": predicted.batch["timestamp"].cpu().numpy(),
    }

    # Tracks and classes of the agents, (B * A,) each: samples of several have the AV first, those of one are of an
    # agent of the log or of the AV.
    if isinstance(samples, EgoAgentDatasetVectorized):
        track_ids = predicted.batch["all_other_agents_track_ids"].cpu().numpy().astype(np.int64).reshape(-1)
        labels = predicted.batch["all_other_agents_types"].cpu().numpy().astype(np.int64)
        labels[:, 0] = _LABEL_OF_AV
        labels = labels.reshape(-1)
    else:
        track_ids = predicted.batch["track_id"].cpu().numpy().astype(np.int64)
        labels = np.full_like(track_ids, _LABEL_OF_AV)
        if located.agent_rows is not None:
            agents = take_rows(samples.dataset.agents, located.agent_rows)
            labels = agents["label_probabilities"].argmax(axis=1)
    ade_m, fde_m = _errors(trajectories, trajectories.predicted_m)
    of_baselines = [_errors(trajectories, predicted.baselines_m.get(baseline)) for baseline in BASELINES]
    rows = TrajectoryRows(
        **{name: np.repeat(column, num_agents) for name, column in of_samples.items()},
        agent_index=np.tile(np.arange(num_agents), len(predicted.indices)),
        track_id=track_ids,
        label_index=labels,
        ade_m=ade_m,
        fde_m=fde_m,
        baseline_ade_m=np.stack([ade_m for ade_m, _ in of_baselines], axis=1),
        baseline_fde_m=np.stack([fde_m for _, fde_m in of_baselines], axis=1),
    )
    return rows.taken(trajectories.is_known.any(dim=1).cpu().numpy())


def _errors(trajectories: Trajectories, predicted_m: torch.Tensor | None) -> tuple[Float64Array, Float64Array]:
    """Return mean and last errors, (N,) each."""
    is_known = trajectories.is_known
    if predicted_m is None:
        nothing = np.full(len(is_known), np.nan)
        return nothing, nothing
    errors_m = torch.linalg.vector_norm(predicted_m.double() - trajectories.truth_m.double(), dim=-1)
    errors_m = torch.where(is_known, errors_m, 0.0)  # means are over the steps that are known
    ade_m = errors_m.sum(dim=1) / is_known.sum(dim=1)
    fde_m = torch.where(is_known[:, -1], errors_m[:, -1], torch.nan)
    return ade_m.cpu().numpy(), fde_m.cpu().numpy()

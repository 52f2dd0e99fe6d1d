"""Predictions of a network for the samples of a log, with their errors one by one and on average."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
from torch.utils.data import Subset

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.ego_vectorized import EgoAgentDatasetVectorized
from l5kit.dataset.loading import loader as make_loader
from l5kit.dataset.sample_indices import take_rows
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.metrics import (
    average_displacement_error_mean,
    average_displacement_error_oracle,
    final_displacement_error_mean,
    final_displacement_error_oracle,
    neg_multi_log_likelihood,
    prob_true_mode,
    rmse,
    time_displace,
)
from l5kit.kinematic.baselines import BASELINES, Baseline
from l5kit.openloop.setup import OpenLoopSetup
from l5kit.planning.network_inputs import network_inputs, tensors_on
from l5kit.workflows.trajectories import Modes, Trajectories, baseline_positions


@dataclass(frozen=True)
class PredictedBatch:
    """A batch of B samples of A agents each.

    Attributes:
        indices: Indices of the samples in the dataset, (B,).
        batch: The samples, with the truth.
        trajectories: Likeliest predictions, truth and past, (B * A, T, ...).
        modes: All predictions, (B * A, M, T, ...).
        baselines_m: Positions of the kinematic baselines, (B * A, T, 2) each; empty for samples without a past.
    """

    indices: Int64Array
    batch: dict[str, torch.Tensor]
    trajectories: Trajectories
    modes: Modes
    baselines_m: Mapping[Baseline, torch.Tensor]

    @property
    def num_agents(self) -> int:
        """Number of agents per sample."""
        return len(self.trajectories.truth_m) // len(self.indices)


def predicted_batches(setup: OpenLoopSetup, indices: Int64Array) -> Iterator[PredictedBatch]:
    """Yield the predictions of the network for some samples; the network gets only the past.

    Args:
        setup: The network and the dataset.
        indices: Indices of the samples in the dataset, (n,).

    Raises:
        InvalidArgumentError: A prediction is not finite, or a test set lacks the truth of one of its agents.
        SampleError: A sample cannot be made; the cause is chained.
    """
    size = setup.loader.batch_size
    batches = make_loader(
        Subset(setup.samples, indices.tolist()),
        size,
        threads=setup.loader.threads,
        pin_memory=setup.device.type == "cuda",
        rank=0,
        world_size=1,
    )
    for start, batch in zip(range(0, len(indices), size), batches, strict=True):
        yield _predict(setup, indices[start : start + size], tensors_on(setup.device, batch))


@torch.inference_mode()
def _predict(setup: OpenLoopSetup, indices: Int64Array, batch: dict[str, torch.Tensor]) -> PredictedBatch:
    # The truth of a test set is added after the forward pass, so that the network cannot see it. Agents without a
    # known future enter no score, so their predictions may be anything.
    outputs = setup.model(network_inputs(batch))
    if setup.chopped_set is not None:
        batch |= setup.chopped_set.truth_of(batch)
    trajectories = setup.config.workflow.trajectories_of(batch, outputs)

    # all modes in the same layout; a network with a single mode gets probability 1
    if "all_agent_positions" in outputs:
        logits = outputs["agent_traj_logits"].flatten(0, 1).float()
        modes = Modes(outputs["all_agent_positions"].flatten(0, 1).float(), logits.softmax(dim=-1))
    elif "positions_all" in outputs:
        modes = Modes(outputs["positions_all"].float(), outputs["mode_logits"].float().softmax(dim=-1))
    else:
        only_m = trajectories.predicted_m[:, None].float()
        modes = Modes(only_m, torch.ones_like(only_m[:, :, 0, 0]))
    is_scored = trajectories.is_known.any(dim=1)
    if not torch.isfinite(modes.predicted_m[is_scored]).all():
        raise InvalidArgumentError(
            f"the network of {setup.checkpoint} predicts positions that are not finite; its training has diverged"
        )
    params = setup.config.params
    baselines_m = baseline_positions(
        trajectories, step_time_s=params.step_time_s, past_step_time_s=params.past_step_time_s
    )
    return PredictedBatch(indices, batch, trajectories, modes, baselines_m)


_LABEL_OF_AV = -1


@dataclass(frozen=True)
class TrajectoryRows:
    """N predicted trajectories: their origin and their errors.

    Attributes:
        sample_index: Index of the sample in the dataset, (N,).
        agent_index: Index of the agent in its sample; 0 in samples of one agent, (N,).
        scene_index: Index of the scene, (N,).
        frame_index: Index of the frame in the scene, (N,).
        timestamp_ns: Time of the frame, (N,).
        track_id: Track id of the agent, -1 for the AV, (N,).
        label_index: Class of the agent, for :func:`label_name`, (N,).
        ade_m: Mean error over the steps with known truth, (N,).
        fde_m: Error at the last step; NaN if its truth is unknown, (N,).
        baseline_ade_m: The same for each of ``BASELINES``; NaN without a past, (N, baselines).
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
        """Return the concatenated rows of several batches."""
        return cls(
            **{column.name: np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)}
        )


def label_name(label_index: int) -> str:
    """Return the name of a class, such as ``CAR``, or ``AV``."""
    return "AV" if label_index == _LABEL_OF_AV else PERCEPTION_LABELS[label_index].removeprefix("PERCEPTION_LABEL_")


def rows_of_batch(samples: BaseEgoDataset, predicted: PredictedBatch) -> TrajectoryRows:
    """Return the rows of a batch, without trajectories that have no known step."""
    num_agents, trajectories = predicted.num_agents, predicted.trajectories
    located = samples.locate(predicted.indices)
    of_samples = {
        "sample_index": predicted.indices,
        "scene_index": located.scene_indices,
        "frame_index": located.state_indices,
        "timestamp_ns": predicted.batch["timestamp"].cpu().numpy(),
    }

    # Tracks and classes of the agents, (B * A,) each. Samples of several agents have the AV first; samples of one agent
    # are about the AV or an agent of the log.
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
    """Return mean and final errors, (N,) each."""
    is_known = trajectories.is_known
    if predicted_m is None:
        nothing = np.full(len(is_known), np.nan)
        return nothing, nothing
    errors_m = torch.linalg.vector_norm(predicted_m.double() - trajectories.truth_m.double(), dim=-1)
    errors_m = torch.where(is_known, errors_m, 0.0)  # means are over known steps
    ade_m = errors_m.sum(dim=1) / is_known.sum(dim=1)
    fde_m = torch.where(is_known[:, -1], errors_m[:, -1], torch.nan)
    return ade_m.cpu().numpy(), fde_m.cpu().numpy()


@dataclass(frozen=True)
class ModeScore:
    """Mean metrics up to one horizon, over the predictions with a known step; NaN without any.

    The metrics are those of :mod:`l5kit.evaluation.metrics` on the steps up to the horizon; averages and final steps
    use known steps only.

    Attributes:
        horizon_s: The horizon in seconds.
        nll: Negative log-likelihood, the score of the competition.
        rmse: Root mean square error in the sense of the competition: the root of twice the NLL per step.
        ade_oracle_m: ADE of the best trajectory.
        ade_mean_m: ADE averaged over the trajectories.
        fde_oracle_m: FDE of the best trajectory, over the predictions whose truth is known at the horizon.
        fde_mean_m: FDE averaged over the trajectories, likewise.
        time_displace_m: Distance at the horizon, weighted by the posterior of each mode given the truth; likewise.
        prob_true_mode: Posterior probability of each mode given the truth.
    """

    horizon_s: float
    nll: float
    rmse: float
    ade_oracle_m: float
    ade_mean_m: float
    fde_oracle_m: float
    fde_mean_m: float
    time_displace_m: float
    prob_true_mode: tuple[float, ...]


class ModeScores:
    """Accumulator of the metrics, batch by batch, in float64 on the CPU.

    Args:
        horizons_s: Horizons in seconds.
        num_modes: Trajectories per prediction.
        step_time_s: Seconds between two steps.
    """

    def __init__(self, horizons_s: Sequence[float], *, num_modes: int, step_time_s: float) -> None:
        self._horizons_s = tuple(horizons_s)
        self._num_steps = [round(horizon_s / step_time_s) for horizon_s in horizons_s]
        self._of_known = torch.zeros(len(self._num_steps), 4 + num_modes + 1, dtype=torch.float64)
        self._of_final = torch.zeros(len(self._num_steps), 3 + 1, dtype=torch.float64)

    def add(self, trajectories: Trajectories, modes: Modes) -> None:
        """Add the predictions of a batch."""
        for index, num_steps in enumerate(self._num_steps):
            is_known = trajectories.is_known[:, :num_steps]
            rows = is_known.any(dim=1)
            is_final = is_known[rows, -1]
            arguments = (
                trajectories.truth_m[rows, :num_steps].double(),
                modes.predicted_m[rows, :, :num_steps].double(),
                modes.probabilities[rows].double(),
                is_known[rows],
            )
            of_known = (
                neg_multi_log_likelihood(*arguments),
                rmse(*arguments),
                average_displacement_error_oracle(*arguments, only_available=True),
                average_displacement_error_mean(*arguments, only_available=True),
            )
            columns = torch.cat([torch.stack(of_known, dim=1), prob_true_mode(*arguments)], dim=1)  # (N, 4 + M)
            self._of_known[index] += _sum_with_count(columns)

            # Metrics of the final step are over the predictions whose truth is known there.
            finals = tuple(argument[is_final] for argument in arguments)
            of_final = (
                final_displacement_error_oracle(*finals),
                final_displacement_error_mean(*finals),
                time_displace(*finals)[:, -1],
            )
            self._of_final[index] += _sum_with_count(torch.stack(of_final, dim=1))

    def scores(self) -> tuple[ModeScore, ...]:
        """Return the means over all batches, for each horizon."""
        scores = []
        for horizon_s, *sums in zip(self._horizons_s, self._of_known, self._of_final, strict=True):
            known_means, final_means = ((each[:-1] / each[-1]).tolist() for each in sums)
            nll, root, ade_oracle_m, ade_mean_m, *probabilities = known_means
            fde_oracle_m, fde_mean_m, time_displace_m = final_means
            score = ModeScore(
                horizon_s=horizon_s,
                nll=nll,
                rmse=root,
                ade_oracle_m=ade_oracle_m,
                ade_mean_m=ade_mean_m,
                fde_oracle_m=fde_oracle_m,
                fde_mean_m=fde_mean_m,
                time_displace_m=time_displace_m,
                prob_true_mode=tuple(probabilities),
            )
            scores.append(score)
        return tuple(scores)


def _sum_with_count(columns: torch.Tensor) -> torch.Tensor:
    """Return the sums of columns (N, K), followed by N, (K + 1,), on the CPU."""
    return torch.cat([columns.sum(dim=0), columns.new_tensor([len(columns)])]).cpu()

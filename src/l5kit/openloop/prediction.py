"""Predictions of a network for the samples of a log, batch by batch, with what happened."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch.utils.data import Subset

from l5kit._types import Int64Array
from l5kit.dataset.loading import loader as make_loader
from l5kit.errors import InvalidArgumentError
from l5kit.kinematic.baselines import Baseline
from l5kit.openloop.setup import OpenLoopSetup
from l5kit.planning.network_inputs import network_inputs, tensors_on
from l5kit.workflows.trajectories import Modes, Trajectories, baseline_positions, modes_of


@dataclass(frozen=True)
class PredictedBatch:
    """A batch of B samples, of A agents each.

    Attributes:
        indices: Places of the samples in the dataset, (B,).
        batch: The samples, with the truth.
        trajectories: Likeliest predictions, truth and past, (B * A, T, ...).
        modes: All predictions, (B * A, M, T, ...).
        baselines_m: Where the kinematic baselines get to, (B * A, T, 2) each; nothing for samples without a past.
    """

    indices: Int64Array
    batch: dict[str, torch.Tensor]
    trajectories: Trajectories
    modes: Modes
    baselines_m: Mapping[Baseline, torch.Tensor]

    @property
    def num_agents(self) -> int:
        """Agents of a sample."""
        return len(self.trajectories.truth_m) // len(self.indices)


def predicted_batches(setup: OpenLoopSetup, indices: Int64Array) -> Iterator[PredictedBatch]:
    """Yield what the network makes of some samples, of which it sees the past only.

    Args:
        setup: The network and the dataset.
        indices: Places of the samples in the dataset, (n,).

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
    # The truth of a test set is put in only now, so that the network cannot see it. Agents of whom nothing is known
    # afterwards are in no score, and what is predicted of them may be anything.
    outputs = setup.model(network_inputs(batch))
    if setup.chopped_set is not None:
        batch |= setup.chopped_set.truth_of(batch)
    trajectories, modes = setup.config.workflow.trajectories_of(batch, outputs), modes_of(outputs)
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

"""Dropout of the past of the AV, so that planners drive by what is around them and not by what they did before."""

from typing import Final

import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.sampling.sample_keys import ROWS_OF_AV

_PAST_OF_AV: Final = (
    "history_positions",
    "history_yaws",
    "history_availabilities",
    "agent_trajectory_polyline",
    "agent_polyline_availability",
)
"""Keys that say where the AV was, the current step first."""

_FIRST_HIDDEN = 2
"""Steps before this one tell where the AV is and how fast: now, and one step ago."""


class PastDropout(nn.Module):
    """Hides the past of the AV from a planner, but for the last step, which tells how fast it is.

    New in 2.0. A planner that sees how the AV moved learns to go on like that, and in closed loop it goes on with its
    own errors. A sample with a hidden past looks like one of a scene that has just begun. In train mode it is drawn for
    each sample, from torch's global generator, whether its past is hidden; in eval mode no past is hidden, or all are
    with probability 1.

    Args:
        network: The planner, which takes a batch as a dictionary.
        probability: How often a past is hidden, from 0 to 1.
        is_in_first_row: Whether the AV is also the first of the other agents, as in ``EgoAgentDatasetVectorized``.

    Raises:
        InvalidArgumentError: The probability is none.
    """

    def __init__(self, network: nn.Module, probability: float, *, is_in_first_row: bool = False) -> None:
        super().__init__()
        if not 0.0 <= probability <= 1.0:
            raise InvalidArgumentError(f"probability is {probability!r}; give one from 0 to 1")
        self.network = network
        self.probability = float(probability)
        self.is_in_first_row = is_in_first_row

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return what the network gives; the batch is not changed.

        Args:
            data_batch: What the network takes.
        """
        batch = data_batch.copy()
        num_samples = len(batch["history_availabilities"])
        draws = torch.rand(num_samples) if self.training else torch.ones(num_samples)
        is_hidden = draws < self.probability if self.probability < 1.0 else torch.ones(num_samples, dtype=torch.bool)
        for key in _PAST_OF_AV:
            if key in batch:
                batch[key] = _without_past(batch[key], is_hidden)
        for key, own_key in ROWS_OF_AV.items():
            if self.is_in_first_row and own_key in _PAST_OF_AV and key in batch:
                first = _without_past(batch[key][:, 0], is_hidden)
                batch[key] = torch.cat((first.unsqueeze(1), batch[key][:, 1:]), dim=1)
        outputs: dict[str, torch.Tensor] = self.network(batch)
        return outputs


def _without_past(values: torch.Tensor, is_hidden: torch.Tensor) -> torch.Tensor:
    """Return values (B, h + 1, ...) with 0 in the earlier steps of the hidden samples, (B,)."""
    is_earlier = torch.arange(values.shape[1], device=values.device) >= _FIRST_HIDDEN
    gone = is_hidden.to(values.device).unsqueeze(1) & is_earlier
    return torch.where(gone.view(gone.shape + (1,) * (values.ndim - 2)), torch.zeros_like(values), values)

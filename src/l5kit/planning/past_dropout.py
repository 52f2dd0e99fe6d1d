"""Dropout of the past of the AV, so that planners react to their surroundings instead of their own past."""

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
"""Keys with the past of the AV, the current step first."""

_FIRST_HIDDEN = 2
"""Number of visible steps, which show position and speed: the current one, and the one before."""


class PastDropout(nn.Module):
    """Wrapper that hides the past of the AV from a planner, except for the last step, which shows its speed.

    New in 2.0. A planner that sees the past motion of the AV learns to continue it, and in closed loop continues its
    own errors. A sample with a hidden past looks like the start of a scene. In train mode, the past is hidden at random
    for each sample, by torch's global generator; in eval mode no past is hidden, unless the probability is 1.

    Args:
        network: The planner, which takes a batch as a dictionary.
        probability: Probability to hide a past, from 0 to 1.
        is_in_first_row: Whether the AV is also the first of the other agents, as in ``EgoAgentDatasetVectorized``.

    Raises:
        InvalidArgumentError: ``probability`` is not in [0, 1].
    """

    def __init__(self, network: nn.Module, probability: float, *, is_in_first_row: bool = False) -> None:
        super().__init__()
        if not 0.0 <= probability <= 1.0:
            raise InvalidArgumentError(f"probability is {probability!r}; give one from 0 to 1")
        self.network = network
        self.probability = float(probability)
        self.is_in_first_row = is_in_first_row

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the outputs of the network; the batch is not changed.

        Args:
            data_batch: Inputs of the network.
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
    """Return values (B, h + 1, ...) with zeros in the earlier steps of the hidden samples, (B,)."""
    is_earlier = torch.arange(values.shape[1], device=values.device) >= _FIRST_HIDDEN
    gone = is_hidden.to(values.device).unsqueeze(1) & is_earlier
    return torch.where(gone.view(gone.shape + (1,) * (values.ndim - 2)), torch.zeros_like(values), values)

"""Networks of policies: the small network with group normalisation, and what looks at compact observations."""

from collections.abc import Mapping

import torch
from torch import nn

from l5kit.environment.observations.compact_layout import MOST_NORMALISED
from l5kit.planning.rasterized.backbones import SimpleCNN_GN

__all__ = ["SimpleCNN_GN"]


class SetFeatures(nn.Module):
    """Features of rows in any order, (B, K, columns) to (B, features), of those that are there, (B, K, 1).

    Args:
        first: Layer that each row goes through.
        second: The one after it.
        mix: Mixes the largest value of each feature.
    """

    def __init__(self, first: nn.Linear, second: nn.Linear, mix: nn.Linear) -> None:
        super().__init__()
        self.each = nn.Sequential(first, nn.ReLU(), second, nn.ReLU())
        self.mix = mix

    def forward(self, rows: torch.Tensor, is_there: torch.Tensor) -> torch.Tensor:
        """Return their features."""
        mixed: torch.Tensor = self.mix((self.each(rows) * is_there).amax(dim=1))
        return mixed


def compact_features(
    seen: torch.Tensor,
    scales: tuple[torch.Tensor, torch.Tensor],
    *,
    own: nn.Linear,
    sets: nn.ModuleDict,
    parts: Mapping[str, tuple[slice, tuple[int, ...]]],
) -> torch.Tensor:
    """Return features (B, features) of compact observations (B, D), as ``CompactEncoder`` computes them without torch.

    Args:
        seen: The observations.
        scales: Means and standard deviations of the columns, (D,) each.
        own: The layer of the AV and its route.
        sets: Of each part that is a set, a :class:`SetFeatures`.
        parts: Columns and shapes of the parts, as the layout has them.
    """
    means, deviations = scales
    values = ((seen - means) / deviations).clamp(-MOST_NORMALISED, MOST_NORMALISED)
    mixed: torch.Tensor = own(values[:, : own.in_features])
    for name, layers in sets.items():
        columns, shape = parts[name]
        is_there = seen[:, columns].reshape(-1, *shape)[..., -1:]
        mixed = mixed + layers(values[:, columns].reshape(-1, *shape), is_there)
    return torch.tanh(mixed)

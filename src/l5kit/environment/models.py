"""Networks of policies: the small network with group normalisation, and an encoder of compact observations."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn

from l5kit.environment.observations.compact_layout import MOST_NORMALISED
from l5kit.planning.rasterized.backbones import SimpleCNN_GN

__all__ = ["SimpleCNN_GN"]


class SetFeatures(nn.Module):
    """Features of an unordered set of rows, (B, K, columns) to (B, features).

    Each row goes through the same two layers. Their outputs are pooled by the maximum of each feature, or by attention
    of the AV and its route to the rows (scaled dot-product attention, Vaswani et al., NeurIPS 2017), with several heads
    that share keys and values (multi-query attention, Shazeer 2019): the outputs themselves. As there is only one
    query, key and value matrices for each head would add nothing: they could be multiplied into ``query`` and ``mix``.

    Args:
        first: First layer of each row.
        second: Second layer of each row, with W outputs.
        mix: Layer of the pooled features, (B, W), or of the attention of all heads, (B, heads x W).
        query: Layer of the queries of all heads, (B, heads x W), from the AV and its route; None for maximum pooling.
    """

    def __init__(self, first: nn.Linear, second: nn.Linear, mix: nn.Linear, *, query: nn.Linear | None = None) -> None:
        super().__init__()
        self.each = nn.Sequential(first, nn.ReLU(), second, nn.ReLU())
        self.mix = mix
        self.query = query

    def forward(self, rows: torch.Tensor, is_there: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        """Return the features of the set, (B, features).

        Args:
            rows: The rows, (B, K, columns).
            is_there: 1 for used rows, 0 for padding, (B, K, 1).
            own: Values of the AV and its route, (B, C).
        """
        features = self.each(rows)
        if self.query is None:
            counting = (features * is_there).amax(dim=1)
        else:
            # An extra row of zeros is always visible: the result for an empty set, and a way to attend to nothing.
            keys = F.pad(features, (0, 0, 0, 1)).unsqueeze(1)
            is_seen = F.pad(is_there > 0, (0, 0, 0, 1), value=True).transpose(1, 2).unsqueeze(1)
            # heads are on the query axis, (B, 1, heads, W), as all of them share the keys
            queries = self.query(own).unflatten(1, (1, -1, keys.shape[3]))
            counting = F.scaled_dot_product_attention(queries, keys, keys, attn_mask=is_seen).flatten(1)
        mixed: torch.Tensor = self.mix(counting)
        return mixed


def compact_features(
    seen: torch.Tensor,
    scales: tuple[torch.Tensor, torch.Tensor],
    *,
    own: nn.Linear,
    sets: nn.ModuleDict,
    parts: Mapping[str, tuple[slice, tuple[int, ...]]],
) -> torch.Tensor:
    """Return features (B, features) of compact observations (B, D); ``CompactEncoder`` computes them without torch.

    Args:
        seen: The observations.
        scales: Means and standard deviations of the columns, (D,) each.
        own: Layer of the AV and its route.
        sets: The :class:`SetFeatures` of each part that is a set.
        parts: Columns and shapes of the parts, from the layout.
    """
    means, deviations = scales
    values = ((seen - means) / deviations).clamp(-MOST_NORMALISED, MOST_NORMALISED)
    own_values = values[:, : own.in_features]
    mixed: torch.Tensor = own(own_values)
    for name, layers in sets.items():
        columns, shape = parts[name]
        is_there = seen[:, columns].reshape(-1, *shape)[..., -1:]
        mixed = mixed + layers(values[:, columns].reshape(-1, *shape), is_there, own_values)
    return torch.tanh(mixed)

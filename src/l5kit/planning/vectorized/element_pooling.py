"""Pooling of the elements of a scene: from features of any number of them to one embedding."""

from typing import Final, Literal

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.planning.vectorized.global_graph import MLP

PoolingKind = Literal["max", "attention"]
"""``max`` for the largest value of each feature, ``attention`` for a mean whose weights depend on the target."""

NUM_POOLING_HEADS: Final = 4
"""Heads of the attention, which have to divide the features of an element."""


class ElementPooling(nn.Module):
    """Embeds elements one by one, and pools those that are there. Their order does not matter.

    Args:
        num_features: Features of an element that come in.
        dim: Features of the embedding.
        dim_target: Features of the target, by which attention chooses.
        kind: How elements are pooled.
    """

    def __init__(self, num_features: int, dim: int, *, dim_target: int, kind: PoolingKind) -> None:
        super().__init__()
        self.embed = MLP(num_features, max(dim // 2, 1), dim, num_layers=3)
        self.query: nn.Linear | None = None
        self.attention: nn.MultiheadAttention | None = None
        if kind == "attention":
            self.query = nn.Linear(dim_target, dim)
            # the added element of zeros is what is seen where nothing is there
            self.attention = nn.MultiheadAttention(dim, NUM_POOLING_HEADS, batch_first=True, add_zero_attn=True)

    def forward(self, features: torch.Tensor, is_there: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return embeddings (B, dim); those of a sample without elements do not depend on the features.

        Args:
            features: Of each element, (B, N, num_features).
            is_there: Elements that count, bool (B, N).
            target: Features of the target, (B, dim_target).
        """
        elements = F.relu(self.embed(features))
        if self.attention is None or self.query is None:
            if elements.shape[1] == 0:
                return elements.sum(dim=1)
            # embeddings are at least 0, which is what elements that are not there have
            return (elements * is_there.unsqueeze(-1)).max(dim=1).values
        query = self.query(target).unsqueeze(1)
        pooled, _ = self.attention(query, elements, elements, key_padding_mask=~is_there, need_weights=False)
        return F.relu(query + pooled).squeeze(1)

"""Attention of the query-centric model, which knows how each key looks from each query."""

import math

import torch
from torch import nn

from l5kit.errors import InvalidArgumentError


class RelativeAttention(nn.Module):
    """Lets queries look at keys, and adds what they saw; then a feed-forward network adds its own.

    What a pair of elements is to each other is added to the key and to the value, pair by pair. Queries that see
    nothing keep what they are before the feed-forward network.

    Args:
        dim: Features of an element.
        num_heads: Heads; a divisor of ``dim``.
        has_relations: Whether pairs have features.
        dropout: Probability with which values are dropped in training.

    Raises:
        InvalidArgumentError: ``num_heads`` does not divide ``dim``.
    """

    def __init__(self, dim: int, num_heads: int, *, has_relations: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        if dim % num_heads:
            raise InvalidArgumentError(f"num_heads is {num_heads}; it must divide dim, which is {dim}")
        self.num_heads, self.has_relations = num_heads, has_relations
        self.scale = 1 / math.sqrt(dim // num_heads)
        self.norm_queries, self.norm_keys, self.norm = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.queries, self.values = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.keys = nn.Linear(dim, dim, bias=False)  # a bias shared by all keys has no effect
        self.relations = nn.Linear(dim, 2 * dim, bias=False) if has_relations else nn.Identity()
        self.out = nn.Linear(dim, dim)
        self.feed_forward = nn.Sequential(
            nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * dim, dim)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, queries: torch.Tensor, keys: torch.Tensor, relations: torch.Tensor | None, is_seen: torch.Tensor
    ) -> torch.Tensor:
        """Return the queries with what they saw.

        Args:
            queries: Shape (N, Q, M, dim): M of them at each of Q positions.
            keys: Shape (N, K, dim).
            relations: How keys look from the positions, shape (N, Q, K, dim); None for a layer without relations.
            is_seen: Which keys count, bool, shape (N, Q, K) or (N, 1, K).

        Returns:
            Shape (N, Q, M, dim).
        """
        normed = self.norm_keys(keys)
        key, value = self.keys(normed).unsqueeze(1), self.values(normed).unsqueeze(1)
        if self.has_relations and relations is not None:
            of_keys, of_values = self.relations(relations).chunk(2, dim=-1)
            key, value = key + of_keys, value + of_values
        query = self.queries(self.norm_queries(queries)).unflatten(-1, (self.num_heads, -1))
        key, value = key.unflatten(-1, (self.num_heads, -1)), value.unflatten(-1, (self.num_heads, -1))
        key, value = key.expand(-1, queries.shape[1], -1, -1, -1), value.expand(-1, queries.shape[1], -1, -1, -1)
        seen = is_seen[:, :, None, None]
        # a large number below 0 and not infinity, so that a query that sees nothing gets zeros and no NaN
        scores = torch.einsum("nqmhd,nqkhd->nqmhk", query, key).float() * self.scale
        weights = scores.masked_fill(~seen, -1e9).softmax(dim=-1) * seen
        attended = torch.einsum("nqmhk,nqkhd->nqmhd", weights.to(value.dtype), value).flatten(-2)
        queries = queries + self.dropout(self.out(attended)) * is_seen.any(dim=-1)[:, :, None, None]
        added: torch.Tensor = self.feed_forward(self.norm(queries))
        result: torch.Tensor = queries + self.dropout(added)
        return result

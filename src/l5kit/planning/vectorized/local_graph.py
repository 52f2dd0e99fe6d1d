"""Local graph: one embedding of each polyline, from its points.

The layers are those of Gao et al., "VectorNet" (2020): a linear layer for each point, and the maximum over the points.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.errors import InvalidArgumentError


class SinusoidalPositionalEmbedding(nn.Module):
    """Sinusoidal codes of the indices of points, from Vaswani et al., "Attention is all you need" (2017).

    Args:
        d_model: Features of a code.
        max_len: Number of codes.
    """

    static_embedding: torch.Tensor

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        position = torch.arange(max_len, dtype=torch.float32).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float32) * (-math.log(10000.0) / d_model))
        embedding = torch.zeros(max_len, d_model)
        embedding[:, 0::2] = torch.sin(position * frequency)
        embedding[:, 1::2] = torch.cos(position * frequency[: d_model // 2])
        self.register_buffer("static_embedding", embedding.unsqueeze(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the codes of as many positions as ``x``, of shape (B, N, P, ...), has points: (P, 1, d_model)."""
        return self.static_embedding[: x.shape[2]]


class LocalMLP(nn.Module):
    """A linear layer, a layer norm and a ReLU.

    Args:
        dim_in: Input and output features.
        use_norm: Whether to use a layer norm; otherwise the linear layer has a bias.
    """

    def __init__(self, dim_in: int, use_norm: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(dim_in, dim_in, bias=not use_norm)
        self.norm = nn.LayerNorm(dim_in) if use_norm else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return features of the shape of ``x``, (..., dim_in)."""
        return F.relu(self.norm(self.linear(x)))


class LocalSubGraphLayer(nn.Module):
    """Layer that concatenates features of each point and the maximum over its polyline.

    Args:
        dim_in: Input features of a point.
        dim_out: Output features of a point.
    """

    def __init__(self, dim_in: int, dim_out: int) -> None:
        super().__init__()
        self.mlp = LocalMLP(dim_in)
        self.linear_remap = nn.Linear(dim_in * 2, dim_out)

    def forward(self, x: torch.Tensor, invalid_mask: torch.Tensor) -> torch.Tensor:
        """Return new features of the points.

        Args:
            x: Points of polylines, shape (Q, P, dim_in).
            invalid_mask: True for points that do not count, shape (Q, P); each polyline needs one that does.

        Returns:
            Shape (Q, P, dim_out).
        """
        points = self.mlp(x)
        # a layer of the concatenation, without repeating the maximum for each point
        dim_in = points.shape[-1]
        of_polyline = F.linear(
            max_over_points(points, invalid_mask), self.linear_remap.weight[:, dim_in:], self.linear_remap.bias
        )
        return F.linear(points, self.linear_remap.weight[:, :dim_in]) + of_polyline.unsqueeze(1)


class LocalSubGraph(nn.Module):
    """Embedding of each polyline on its own.

    Args:
        num_layers: Layers, at least 1.
        dim_in: Features of a point, and of the embedding.

    Raises:
        InvalidArgumentError: ``num_layers`` is below 1.
    """

    def __init__(self, num_layers: int, dim_in: int) -> None:
        super().__init__()
        if num_layers < 1:
            raise InvalidArgumentError(f"num_layers is {num_layers}; pass at least 1")
        self.layers = nn.ModuleList(LocalSubGraphLayer(dim_in, dim_in) for _ in range(num_layers))

    def forward(self, x: torch.Tensor, invalid_mask: torch.Tensor, pos_enc: torch.Tensor) -> torch.Tensor:
        """Return one embedding for each polyline.

        Args:
            x: Points of polylines, shape (B, N, P, D); it is not changed.
            invalid_mask: True for invalid points, shape (B, N, P).
            pos_enc: Codes of the point indices, of a shape that broadcasts with ``x``.

        Returns:
            Shape (B, N, D), zeros for polylines without a valid point.
        """
        num_items, num_polylines, num_points, dim = x.shape
        points = (x + pos_enc).reshape(num_items * num_polylines, num_points, dim)
        invalid = invalid_mask.reshape(num_items * num_polylines, num_points)
        if _packing_pays(x):
            # only the polylines that have a valid point are embedded
            used = torch.nonzero((~invalid).any(dim=1)).squeeze(1)
            embeddings = torch.zeros(points.shape[0], dim, dtype=points.dtype, device=points.device)
            if used.shape[0] > 0:
                embedded = self._embed(points[used], invalid[used])
                embeddings = embeddings.to(embedded.dtype).index_copy(0, used, embedded)
        else:
            # Embed all polylines, so that no shape depends on the data; empty ones as if their points were valid, since
            # the maximum over none would be infinite.
            unused = invalid.all(dim=1, keepdim=True)
            embeddings = self._embed(points, invalid & ~unused).masked_fill(unused, 0.0)
        return embeddings.view(num_items, num_polylines, dim)

    def _embed(self, points: torch.Tensor, invalid: torch.Tensor) -> torch.Tensor:
        """Return (Q, D) for polylines (Q, P, D) that have a valid point each."""
        for layer in self.layers:
            points = layer(points, invalid)
        return max_over_points(points, invalid)


def max_over_points(points: torch.Tensor, invalid: torch.Tensor) -> torch.Tensor:
    """Return the maximum of features (Q, P, D) over the points that are valid, shape (Q, D)."""
    return points.masked_fill(invalid.unsqueeze(-1), -torch.inf).amax(dim=1)


def _packing_pays(x: torch.Tensor) -> bool:
    """Return whether to skip empty polylines: not if that breaks a compiled graph or waits for the device."""
    if not torch.jit.is_scripting() and torch.compiler.is_compiling():  # type: ignore[attr-defined]
        return False
    return x.is_cpu

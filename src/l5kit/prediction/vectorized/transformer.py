"""Transformer with positional codes added at every layer, as in Carion et al., "DETR" (2020).

All tensors are sequence first, (N, B, d_model).
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.errors import InvalidArgumentError

_ACTIVATIONS = ("relu", "gelu")


class _TransformerLayer(nn.Module):
    """Parts of an encoder or decoder layer; a decoder layer also attends to a memory."""

    has_memory = False

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        normalize_before: bool = False,
    ) -> None:
        super().__init__()
        # weights are initialised, and stored in files, in this order
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        if self.has_memory:
            self.multihead_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.dropout = nn.Dropout(dropout)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        if self.has_memory:
            self.norm3 = nn.LayerNorm(d_model)
            self.dropout3 = nn.Dropout(dropout)
        self.dropout1 = nn.Dropout(dropout)
        self.dropout2 = nn.Dropout(dropout)
        if activation is None:
            raise InvalidArgumentError(f"activation is None; allowed are {' and '.join(_ACTIVATIONS)}")
        if activation not in _ACTIVATIONS:
            raise RuntimeError(f"activation is {activation!r}; allowed are {' and '.join(_ACTIVATIONS)}")
        self.gelu = activation == "gelu"
        self.normalize_before = normalize_before

    def with_pos_embed(self, tensor: torch.Tensor, pos: torch.Tensor | None) -> torch.Tensor:
        """Return ``tensor`` with the positional codes added, if there are any."""
        return tensor if pos is None else tensor + pos

    def _feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.linear1(x)
        fed: torch.Tensor = self.linear2(self.dropout(F.gelu(inner) if self.gelu else F.relu(inner)))
        return fed


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a feed-forward network, each with a residual connection and a layer norm.

    Args:
        d_model: Features of an element.
        nhead: Attention heads.
        dim_feedforward: Features inside the feed-forward network.
        dropout: Dropout probability in training.
        activation: ``relu`` or ``gelu``.
        normalize_before: Normalise the input of each part, instead of its output after the residual connection.

    Raises:
        RuntimeError: There is no such activation.
        InvalidArgumentError: ``activation`` is None.
    """

    def forward(
        self,
        src: torch.Tensor,
        src_mask: torch.Tensor | None = None,
        src_key_padding_mask: torch.Tensor | None = None,
        pos: torch.Tensor | None = None,
        need_attention: bool = True,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return updated elements and their attention.

        Args:
            src: Elements, shape (N, B, d_model).
            src_mask: Mask of forbidden attention from element to element (bool), or values added to it (float), (N, N).
            src_key_padding_mask: True for elements to ignore, shape (B, N).
            pos: Positional codes, of a shape that broadcasts with ``src``.
            need_attention: If False, the second result is None, which is faster.

        Returns:
            Shape (N, B, d_model), and the attention averaged over the heads, (B, N, N).
        """
        if self.normalize_before:
            return self.forward_pre(src, src_mask, src_key_padding_mask, pos, need_attention)
        return self.forward_post(src, src_mask, src_key_padding_mask, pos, need_attention)

    def forward_post(
        self,
        src: torch.Tensor,
        src_mask: torch.Tensor | None = None,
        src_key_padding_mask: torch.Tensor | None = None,
        pos: torch.Tensor | None = None,
        need_attention: bool = True,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the result of :meth:`forward` with the norm after each part."""
        attended, attention = self._attend(src, src_mask, src_key_padding_mask, pos, need_attention)
        src = self.norm1(src + self.dropout1(attended))
        return self.norm2(src + self.dropout2(self._feed_forward(src))), attention

    def forward_pre(
        self,
        src: torch.Tensor,
        src_mask: torch.Tensor | None = None,
        src_key_padding_mask: torch.Tensor | None = None,
        pos: torch.Tensor | None = None,
        need_attention: bool = True,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the result of :meth:`forward` with the norm before each part."""
        attended, attention = self._attend(self.norm1(src), src_mask, src_key_padding_mask, pos, need_attention)
        src = src + self.dropout1(attended)
        return src + self.dropout2(self._feed_forward(self.norm2(src))), attention

    def _attend(
        self,
        x: torch.Tensor,
        mask: torch.Tensor | None,
        key_padding_mask: torch.Tensor | None,
        pos: torch.Tensor | None,
        need_attention: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        coded = self.with_pos_embed(x, pos)
        attended: tuple[torch.Tensor, torch.Tensor | None] = self.self_attn(
            coded, coded, x, attn_mask=mask, key_padding_mask=key_padding_mask, need_weights=need_attention
        )
        return attended


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to a memory and a feed-forward network, each residual and with a layer norm.

    Args:
        d_model: Features of an element.
        nhead: Attention heads.
        dim_feedforward: Features inside the feed-forward network.
        dropout: Dropout probability in training.
        activation: ``relu`` or ``gelu``.
        normalize_before: Normalise the input of each part, instead of its output after the residual connection.

    Raises:
        RuntimeError: There is no such activation.
        InvalidArgumentError: ``activation`` is None.
    """

    has_memory = True

    def forward(
        self,
        tgt: torch.Tensor,
        memory: torch.Tensor,
        tgt_mask: torch.Tensor | None = None,
        memory_mask: torch.Tensor | None = None,
        tgt_key_padding_mask: torch.Tensor | None = None,
        memory_key_padding_mask: torch.Tensor | None = None,
        pos: torch.Tensor | None = None,
        query_pos: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return updated queries.

        Args:
            tgt: Queries, shape (Q, B, d_model).
            memory: Elements to attend to, shape (N, B, d_model).
            tgt_mask: Mask of forbidden attention from query to query (bool), or values added to it (float), (Q, Q).
            memory_mask: Attention from query to memory, likewise, shape (Q, N).
            tgt_key_padding_mask: True for queries to ignore, shape (B, Q).
            memory_key_padding_mask: True for elements of the memory to ignore, shape (B, N).
            pos: Positional codes of the memory.
            query_pos: Positional codes of the queries.

        Returns:
            Shape (Q, B, d_model).
        """
        if self.normalize_before:
            return self.forward_pre(
                tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, pos, query_pos
            )
        return self.forward_post(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, pos, query_pos
        )

    def forward_post(
        self,
        tgt: torch.Tensor,
        memory: torch.Tensor,
        tgt_mask: torch.Tensor | None = None,
        memory_mask: torch.Tensor | None = None,
        tgt_key_padding_mask: torch.Tensor | None = None,
        memory_key_padding_mask: torch.Tensor | None = None,
        pos: torch.Tensor | None = None,
        query_pos: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the result of :meth:`forward` with the norm after each part."""
        attended = self._attend(tgt, tgt_mask, tgt_key_padding_mask, query_pos)
        tgt = self.norm1(tgt + self.dropout1(attended))
        seen = self._look_up(tgt, memory, memory_mask, memory_key_padding_mask, pos, query_pos)
        tgt = self.norm2(tgt + self.dropout2(seen))
        queries: torch.Tensor = self.norm3(tgt + self.dropout3(self._feed_forward(tgt)))
        return queries

    def forward_pre(
        self,
        tgt: torch.Tensor,
        memory: torch.Tensor,
        tgt_mask: torch.Tensor | None = None,
        memory_mask: torch.Tensor | None = None,
        tgt_key_padding_mask: torch.Tensor | None = None,
        memory_key_padding_mask: torch.Tensor | None = None,
        pos: torch.Tensor | None = None,
        query_pos: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the result of :meth:`forward` with the norm before each part."""
        attended = self._attend(self.norm1(tgt), tgt_mask, tgt_key_padding_mask, query_pos)
        tgt = tgt + self.dropout1(attended)
        seen = self._look_up(self.norm2(tgt), memory, memory_mask, memory_key_padding_mask, pos, query_pos)
        tgt = tgt + self.dropout2(seen)
        queries: torch.Tensor = tgt + self.dropout3(self._feed_forward(self.norm3(tgt)))
        return queries

    def _attend(
        self,
        x: torch.Tensor,
        mask: torch.Tensor | None,
        key_padding_mask: torch.Tensor | None,
        query_pos: torch.Tensor | None,
    ) -> torch.Tensor:
        coded = self.with_pos_embed(x, query_pos)
        attended: torch.Tensor = self.self_attn(
            coded, coded, x, attn_mask=mask, key_padding_mask=key_padding_mask, need_weights=False
        )[0]
        return attended

    def _look_up(
        self,
        x: torch.Tensor,
        memory: torch.Tensor,
        mask: torch.Tensor | None,
        key_padding_mask: torch.Tensor | None,
        pos: torch.Tensor | None,
        query_pos: torch.Tensor | None,
    ) -> torch.Tensor:
        seen: torch.Tensor = self.multihead_attn(
            self.with_pos_embed(x, query_pos),
            self.with_pos_embed(memory, pos),
            memory,
            attn_mask=mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
        )[0]
        return seen


class TransformerEncoder(nn.Module):
    """Stack of encoder layers.

    Args:
        encoder_layer: The layer to copy.
        num_layers: Number of copies.
        norm: Norm of the output, if any.
    """

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def reset_parameters(self) -> None:
        """Initialise the weights: normal with standard deviation 0.02, Xavier for attention inputs, zero biases."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            elif isinstance(module, nn.MultiheadAttention):
                nn.init.xavier_uniform_(module.in_proj_weight)
                nn.init.zeros_(module.in_proj_bias)

    def forward(
        self,
        src: torch.Tensor,
        mask: torch.Tensor | None = None,
        src_key_padding_mask: torch.Tensor | None = None,
        pos: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return updated elements (N, B, d_model); arguments as in :meth:`TransformerEncoderLayer.forward`."""
        output = src
        for layer in self.layers:
            output, _ = layer(output, mask, src_key_padding_mask, pos, False)
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(nn.Module):
    """Stack of decoder layers.

    Args:
        decoder_layer: The layer to copy.
        num_layers: Number of copies.
        norm: Norm of the output, if any.
        return_intermediate: Return the normed output of every layer.
    """

    def __init__(
        self,
        decoder_layer: TransformerDecoderLayer,
        num_layers: int,
        norm: nn.Module | None = None,
        return_intermediate: bool = False,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm
        self.return_intermediate = return_intermediate

    def reset_parameters(self) -> None:
        """Initialise the weights: Xavier for all parameters with more than one axis."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(
        self,
        tgt: torch.Tensor,
        memory: torch.Tensor,
        tgt_mask: torch.Tensor | None = None,
        memory_mask: torch.Tensor | None = None,
        tgt_key_padding_mask: torch.Tensor | None = None,
        memory_key_padding_mask: torch.Tensor | None = None,
        pos: torch.Tensor | None = None,
        query_pos: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return updated queries; arguments as in :meth:`TransformerDecoderLayer.forward`.

        Returns:
            Shape (Q, B, d_model), or (layers, Q, B, d_model) with ``return_intermediate``.

        Raises:
            InvalidArgumentError: ``return_intermediate`` is set without a norm.
        """
        output = tgt
        intermediate: list[torch.Tensor] = []
        for layer in self.layers:
            output = layer(
                output, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, pos, query_pos
            )
            if self.return_intermediate:
                if self.norm is None:
                    raise InvalidArgumentError(
                        "norm is None; with return_intermediate=True give a norm for the outputs"
                    )
                intermediate.append(self.norm(output))
        if self.return_intermediate:
            return torch.stack(intermediate)
        return output if self.norm is None else self.norm(output)

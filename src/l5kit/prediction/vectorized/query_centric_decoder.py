"""Decoder of the query-centric model: mode queries propose trajectories, attend to the scene again, and refine them."""

from typing import NamedTuple

import torch
from torch import nn

from l5kit.prediction.vectorized.query_centric_encoder import Context, RelativeAttention

_NUM_VALUES = 5  # x, y, the logarithms of their scales, turn


class Motions(NamedTuple):
    """Predicted modes of agents, each in the frame and units of its agent."""

    proposed: torch.Tensor  # (B, A, K, T, 5): x, y, the logarithms of their scales, turn in radians
    refined: torch.Tensor  # (B, A, K, T, 5)
    logits: torch.Tensor  # (B, A, K); equal for all agents of a scene with joint modes


class ModeDecoder(nn.Module):
    """Decoder of K motions of each agent without anchors: proposals first, then refinements of these.

    Args:
        dim: Features of an element.
        num_heads: Heads of the attention.
        num_modes: Modes K.
        num_steps: Steps T.
        joint: Whether modes belong to whole scenes: agents then attend to each other within a mode, and a mode has one
            probability.
        dropout: Dropout probability in training.
        with_agents: Whether agents attend to each other within a mode.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        num_modes: int,
        *,
        num_steps: int,
        joint: bool,
        dropout: float = 0.0,
        with_agents: bool = True,
    ) -> None:
        super().__init__()
        self.num_steps, self.joint, self.with_agents = num_steps, joint, with_agents
        self.modes = nn.Parameter(torch.randn(num_modes, dim))
        self.propose = _Round(dim, num_heads, joint=joint, dropout=dropout)
        self.refine = _Round(dim, num_heads, joint=joint, dropout=dropout)
        self.proposals, self.additions = _head(dim, _NUM_VALUES * num_steps), _head(dim, _NUM_VALUES * num_steps)
        self.embed_proposals = nn.Sequential(nn.Linear(2 * num_steps, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.logits = _head(dim, 1, bias=False)  # a bias shared by all modes has no effect

    def forward(self, context: Context) -> Motions:
        """Return the motions of all agents."""
        pairs = torch.zeros_like(context.elements_seen[:, :, : context.agents.shape[1]])
        if self.with_agents:
            pairs = context.elements_seen[:, :, : context.agents.shape[1]]
        queries = self.propose(context.agents.unsqueeze(2) + self.modes, context, pairs)
        proposed = self.proposals(queries).unflatten(-1, (self.num_steps, _NUM_VALUES))
        # no gradient through proposals: the second round does not change what the first one learns
        queries = queries + self.embed_proposals(proposed[..., :2].detach().flatten(-2))
        queries = self.refine(queries, context, pairs)
        added = self.additions(queries).unflatten(-1, (self.num_steps, _NUM_VALUES))
        base = torch.cat((proposed[..., :2].detach(), torch.zeros_like(proposed[..., 2:])), dim=-1)
        if self.joint:
            # the logit of a scene mode comes from the mean of the features of its agents, (B, 1, K, D)
            weights = context.agents_there[:, :, None, None].to(queries.dtype)
            queries = (queries * weights).sum(dim=1, keepdim=True) / weights.sum(dim=1, keepdim=True).clamp(min=1)
        logits = self.logits(queries).squeeze(-1)
        return Motions(proposed.float(), (base + added).float(), logits.float().expand(proposed.shape[:3]))


class _Round(nn.Module):
    """Attention of modes to the scene, then to the other modes of the agent, or to other agents in the same mode."""

    def __init__(self, dim: int, num_heads: int, *, joint: bool, dropout: float) -> None:
        super().__init__()
        self.joint = joint
        self.to_scene = RelativeAttention(dim, num_heads, dropout=dropout)
        self.together = RelativeAttention(dim, num_heads, has_relations=joint, dropout=dropout)

    def forward(self, queries: torch.Tensor, context: Context, pairs: torch.Tensor) -> torch.Tensor:
        queries = self.to_scene(queries, context.elements, context.relations, context.elements_seen)
        num_scenes, num_agents, num_modes, dim = queries.shape
        if self.joint:
            within = queries.transpose(1, 2).reshape(num_scenes * num_modes, num_agents, dim)
            relations = context.relations[:, :, :num_agents].repeat_interleave(num_modes, dim=0)
            seen = pairs.repeat_interleave(num_modes, dim=0)
            scene_attended: torch.Tensor = self.together(within.unsqueeze(2), within, relations, seen)
            return scene_attended.reshape(num_scenes, num_modes, num_agents, dim).transpose(1, 2)
        modes = queries.flatten(0, 1)
        all_modes = torch.ones((1, 1, num_modes), dtype=torch.bool, device=queries.device)
        mode_attended: torch.Tensor = self.together(
            modes.unsqueeze(2), modes, None, all_modes.expand(modes.shape[0], -1, -1)
        )
        return mode_attended.reshape(queries.shape)


def _head(dim: int, num_values: int, *, bias: bool = True) -> nn.Sequential:
    """Return the layers from features to values, initialised for small values."""
    last = nn.Linear(dim, num_values, bias=bias)
    nn.init.normal_(last.weight, std=0.01)
    if bias:
        nn.init.zeros_(last.bias)
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ReLU(), last)

"""Parts of SafePathNet.

See Pini et al., "Safe Real-World Autonomous Driving by Learning to Predict and Plan with a Mixture of Experts" (2022).
"""

import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.planning.vectorized.global_graph import MLP
from l5kit.prediction.vectorized.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)


class TrajectoryMatcher(nn.Module):
    """Selection of the trajectory that is both near the target and predicted as likely.

    Args:
        cost_prob_coeff: Weight of a probability, in units of the cost.
    """

    def __init__(self, cost_prob_coeff: float = 1) -> None:
        super().__init__()
        self.cost_prob_coeff = float(cost_prob_coeff)

    def forward(self, trajectory_costs: torch.Tensor, trajectory_logits: torch.Tensor) -> torch.Tensor:
        """Return the index of the best trajectory, without gradient.

        Args:
            trajectory_costs: Cost of each trajectory, shape (..., K).
            trajectory_logits: Logits of the probabilities, shape (..., K).

        Returns:
            int64, shape (...).
        """
        probabilities = trajectory_logits.detach().softmax(dim=-1)
        return (trajectory_costs.detach() - self.cost_prob_coeff * probabilities).argmin(dim=-1)


class TransformerGlobalGraph(nn.Module):
    """Transformer in which queries attend to all elements of a scene.

    Args:
        dim_in: Features of an element.
        projection_dim: Features inside the transformer, and of the result.
        nhead: Attention heads.
        dim_feedforward: Features inside the feed-forward networks.
        num_layers: Layers of the encoder.
        num_decode_layers: Layers of the decoder.
        dropout: Dropout probability in training.
    """

    def __init__(
        self,
        dim_in: int = 128,
        projection_dim: int = 256,
        nhead: int = 8,
        dim_feedforward: int = 1024,
        num_layers: int = 3,
        num_decode_layers: int = 3,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.dim_in = dim_in
        self.projection_dim = projection_dim
        self.encoder_projection_layer = nn.Linear(dim_in, projection_dim, bias=False)
        self.tdecoder_projection_layer = nn.Linear(dim_in, projection_dim, bias=False)
        encoder_layer = TransformerEncoderLayer(projection_dim, nhead, dim_feedforward, dropout)
        decoder_layer = TransformerDecoderLayer(projection_dim, nhead, dim_feedforward, dropout)
        self.encoder = TransformerEncoder(encoder_layer, num_layers)
        self.tdecoder = TransformerDecoder(decoder_layer, num_decode_layers)
        self.encoder.reset_parameters()
        self.tdecoder.reset_parameters()

    def forward(
        self,
        polys_embed: torch.Tensor,
        polys_embed_decoder: torch.Tensor,
        invalid_mask: torch.Tensor,
        tgt_invalid_mask: torch.Tensor | None,
        types: torch.Tensor,
    ) -> torch.Tensor:
        """Return the attended features of each query.

        Args:
            polys_embed: Elements, shape (B, N, dim_in).
            polys_embed_decoder: Queries, shape (B, Q, dim_in).
            invalid_mask: True for elements to ignore, bool, shape (B, N).
            tgt_invalid_mask: True for queries that other queries ignore, bool, shape (B, Q). Samples in which all are
                masked are treated as unmasked, so that the result is finite.
            types: Type embedding of each element, shape (B, N, projection_dim).

        Returns:
            Shape (B, Q, projection_dim).

        Raises:
            InvalidArgumentError: A shape or dtype is wrong.
        """
        shape = polys_embed.shape
        if shape[-1] != self.dim_in or polys_embed_decoder.shape[-1] != self.dim_in:
            raise InvalidArgumentError(
                f"polys_embed has shape {shape} and polys_embed_decoder {polys_embed_decoder.shape}; the last axis of"
                f" both must be {self.dim_in}"
            )
        if invalid_mask.shape != shape[:2] or invalid_mask.dtype != torch.bool:
            raise InvalidArgumentError(
                f"invalid_mask has shape {invalid_mask.shape} and dtype {invalid_mask.dtype}; pass bools of {shape[:2]}"
            )
        if types.shape[:2] != shape[:2] or types.shape[-1] != self.projection_dim:
            raise InvalidArgumentError(
                f"types has shape {types.shape}; pass {shape[:2]} followed by {self.projection_dim}"
            )
        elements = (self.encoder_projection_layer(polys_embed) + types).transpose(0, 1)
        memory = self.encoder(elements, None, invalid_mask)
        if tgt_invalid_mask is not None:
            tgt_invalid_mask = tgt_invalid_mask & ~tgt_invalid_mask.all(dim=1, keepdim=True)
        queries = self.tdecoder_projection_layer(polys_embed_decoder).transpose(0, 1)
        seen: torch.Tensor = self.tdecoder(queries, memory, None, None, tgt_invalid_mask, invalid_mask)
        return seen.transpose(0, 1)


class MultimodalTransformerGlobalGraph(nn.Module):
    """Transformer with one query for each agent and trajectory.

    Args:
        transformer_global_graph: The transformer.
        num_trajectories: Rows of ``egos_embedding``, which is unused and only matches weights of L5Kit 1.5.
        agent_num_trajectories: Trajectories K of each agent.
        max_num_agents: Largest number of agents that get trajectories.
    """

    def __init__(
        self,
        transformer_global_graph: TransformerGlobalGraph,
        num_trajectories: int,
        agent_num_trajectories: int = 1,
        max_num_agents: int = 0,
    ) -> None:
        super().__init__()
        self.transformer_global_graph = transformer_global_graph
        self.num_trajectories = num_trajectories
        self.agent_num_trajectories = agent_num_trajectories
        self.max_num_agents = max_num_agents
        self.egos_embedding = nn.Parameter(torch.randn(num_trajectories, transformer_global_graph.dim_in))
        self.agents_embedding = nn.Parameter(torch.randn(agent_num_trajectories, transformer_global_graph.dim_in))

    def repeat_features(self, features: torch.Tensor, num_repeats: int) -> torch.Tensor:
        """Return (B, N * num_repeats, F) with each of the N features of (B, N, F) repeated in a row."""
        return features.repeat_interleave(num_repeats, dim=1)

    def repeat_ego_features(self, features: torch.Tensor) -> torch.Tensor:
        """Return features (B, N, F) repeated for each trajectory of the ego."""
        return self.repeat_features(features, self.num_trajectories)

    def repeat_agent_features(self, features: torch.Tensor) -> torch.Tensor:
        """Return features (B, N, F) repeated for each trajectory of an agent."""
        return self.repeat_features(features, self.agent_num_trajectories)

    def forward(
        self,
        polys_embed: torch.Tensor,
        invalid_mask: torch.Tensor,
        types: torch.Tensor,
        query_invalid_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the attended features of the agent queries.

        Args:
            polys_embed: Elements, shape (B, N, dim_in); the agents are those after the first, A at most.
            invalid_mask: True for elements to ignore, bool, shape (B, N).
            types: Type embedding of each element, shape (B, N, projection_dim).
            query_invalid_mask: Elements whose queries other queries ignore, bool, shape (B, N); by default
                ``invalid_mask``.

        Returns:
            Shape (B, A * K, projection_dim), trajectories of one agent in a row.
        """
        agents = polys_embed[:, 1 : self.max_num_agents + 1]
        mask = invalid_mask if query_invalid_mask is None else query_invalid_mask
        mask = mask[:, 1 : self.max_num_agents + 1].repeat_interleave(self.agent_num_trajectories, dim=1)
        queries = self.repeat_agent_features(agents) + self.agents_embedding.repeat(agents.shape[1], 1)
        seen: torch.Tensor = self.transformer_global_graph(polys_embed, queries, invalid_mask, mask, types)
        return seen


class MultimodalDecoder(nn.Module):
    """Decoder that predicts several trajectories of each agent, with their logits.

    Args:
        dim_in: Features of an element.
        projection_dim: Features inside the transformer.
        nhead: Attention heads.
        dim_feedforward: Features inside the feed-forward networks.
        num_layers: Layers of the encoder.
        num_decode_layers: Layers of the decoder.
        dropout: Dropout probability in training.
        future_num_frames: Steps of the ego that L5Kit 1.5 would predict; unused.
        agent_future_num_frames: Steps T of each agent.
        num_outputs: Values per step.
        num_mlp_layers: Layers from the features of a query to its trajectory.
        num_trajectories: Trajectories of the ego that L5Kit 1.5 would predict; only sizes an unused weight.
        agent_num_trajectories: Trajectories K of each agent.
        max_num_agents: Largest number of agents that get trajectories.
    """

    def __init__(
        self,
        dim_in: int = 128,
        projection_dim: int = 256,
        nhead: int = 8,
        dim_feedforward: int = 1024,
        num_layers: int = 3,
        num_decode_layers: int = 3,
        dropout: float = 0.1,
        future_num_frames: int = 45,
        agent_future_num_frames: int = 30,
        num_outputs: int = 3,
        num_mlp_layers: int = 3,
        num_trajectories: int = 10,
        agent_num_trajectories: int = 5,
        max_num_agents: int = 30,
    ) -> None:
        super().__init__()
        if agent_num_trajectories < 1 or agent_future_num_frames < 1 or max_num_agents < 1:
            raise InvalidArgumentError(
                f"agent_num_trajectories is {agent_num_trajectories}, agent_future_num_frames"
                f" {agent_future_num_frames} and max_num_agents {max_num_agents}; give at least 1 of each"
            )
        self.num_timesteps = future_num_frames
        self.num_trajectories = num_trajectories
        self.num_outputs = num_outputs
        self.agent_num_timesteps = agent_future_num_frames
        self.agent_num_trajectories = agent_num_trajectories
        self.multimodal_predictions = num_trajectories > 1
        self.agent_multimodal_predictions = agent_num_trajectories > 1
        graph = TransformerGlobalGraph(
            dim_in, projection_dim, nhead, dim_feedforward, num_layers, num_decode_layers, dropout
        )
        self.transformer = MultimodalTransformerGlobalGraph(
            graph, num_trajectories, agent_num_trajectories, max_num_agents
        )
        num_values = agent_future_num_frames * num_outputs + int(self.agent_multimodal_predictions)
        self.agent_prediction_model = MLP(projection_dim, projection_dim * 2, num_values, num_mlp_layers)

    def forward(
        self,
        polys_embed: torch.Tensor,
        types: torch.Tensor,
        invalid_mask: torch.Tensor,
        query_invalid_mask: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return trajectories and their logits; see :meth:`MultimodalTransformerGlobalGraph.forward`.

        Returns:
            Trajectories (B, A, K, T, num_outputs) and logits (B, A, K), which are ones if K is 1.
        """
        seen = self.transformer(polys_embed, invalid_mask, types, query_invalid_mask)
        num_agents = seen.shape[1] // self.agent_num_trajectories
        values = self.agent_prediction_model(seen).unflatten(1, (num_agents, self.agent_num_trajectories))
        num_values = self.agent_num_timesteps * self.num_outputs
        trajectories = values[..., :num_values].unflatten(-1, (self.agent_num_timesteps, self.num_outputs))
        logits = values[..., num_values] if self.agent_multimodal_predictions else torch.ones_like(values[..., 0])
        return trajectories, logits

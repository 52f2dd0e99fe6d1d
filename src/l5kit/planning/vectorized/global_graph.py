"""Global graph: types of the elements of a scene, and attention of the agent of interest to all of them."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F

from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.errors import InvalidArgumentError

_CAR = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]
_CYCLIST = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CYCLIST"]
_PEDESTRIAN = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_PEDESTRIAN"]

_POLYLINE_TYPES = {
    "AGENT_OF_INTEREST": 0,
    "AGENT_NO": 1,
    "AGENT_CAR": 2,
    "AGENT_BIKE": 3,
    "AGENT_PEDESTRIAN": 4,
    "TL_UNKNOWN": 5,
    "TL_RED": 6,
    "TL_YELLOW": 7,
    "TL_GREEN": 8,
    "TL_NONE": 9,
    "CROSSWALK": 10,
    "LANE_BDRY_LEFT": 11,
    "LANE_BDRY_RIGHT": 12,
}


class VectorizedEmbedding(nn.Module):
    """Embedding of the type of each element of a scene.

    The row of a lane is 5 plus its traffic light feature, and the data has 1 for green and 3 for red, so the row named
    ``TL_RED`` is that of green lights and ``TL_GREEN`` that of red ones. The names are those of L5Kit 1.5, the rows
    those of its weights.

    Args:
        embedding_dim: Features of the embedding.
        use_agent_labels: Embed cars, cyclists and pedestrians separately. L5Kit 1.5 embeds all other agents as
            ``AGENT_NO``, so that its weights hold nothing for the labels.
    """

    def __init__(self, embedding_dim: int, *, use_agent_labels: bool = False) -> None:
        super().__init__()
        self.polyline_types = dict(_POLYLINE_TYPES)
        self.PERCEPTION_LABEL_CAR = _CAR
        self.PERCEPTION_LABEL_PEDESTRIAN = _PEDESTRIAN
        self.PERCEPTION_LABEL_CYCLIST = _CYCLIST
        self.use_agent_labels = use_agent_labels
        self.embedding = nn.Embedding(len(_POLYLINE_TYPES), embedding_dim)

    def forward(self, data_batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the embeddings of the agent of interest, other agents, lanes, crosswalks and lane boundaries.

        Args:
            data_batch: ``type`` (B,), ``all_other_agents_types`` (B, A), ``lanes_mid`` (B, L, P, 3) whose last feature
                is that of the traffic light, ``crosswalks`` (B, X, ...) and ``lanes`` (B, Lb, ...), which alternates
                between left and right boundaries. Of the last two only the shapes matter.

        Returns:
            Shape (B, 1 + A + L + X + Lb, embedding_dim).
        """
        agent_types = data_batch["all_other_agents_types"]
        num_items, device = data_batch["type"].shape[0], data_batch["type"].device
        # rows of the embedding: 0 the agent of interest, 1 other agents or 2 to 4 by their labels, 5 to 9 lanes by the
        # state of their light, 10 crosswalks, 11 and 12 left and right boundaries
        of_interest = torch.zeros(num_items, 1, dtype=torch.long, device=device)
        of_agents = torch.ones_like(agent_types, dtype=torch.long)
        if self.use_agent_labels:
            of_agents = torch.where(agent_types == self.PERCEPTION_LABEL_CAR, 2, of_agents)
            of_agents = torch.where(agent_types == self.PERCEPTION_LABEL_CYCLIST, 3, of_agents)
            of_agents = torch.where(agent_types == self.PERCEPTION_LABEL_PEDESTRIAN, 4, of_agents)
        lanes = 5 + data_batch["lanes_mid"][:, :, 0, -1].long()
        crosswalks = torch.full((num_items, data_batch["crosswalks"].shape[1]), 10, dtype=torch.long, device=device)
        boundaries = 11 + torch.arange(data_batch["lanes"].shape[1], device=device) % 2
        rows = (of_interest, of_agents, lanes, crosswalks, boundaries.expand(num_items, -1))
        embeddings: torch.Tensor = self.embedding(torch.cat(rows, dim=1))
        return embeddings


class MLP(nn.Module):
    """Linear layers with ReLUs between them.

    Args:
        input_dim: Input features.
        hidden_dim: Features of hidden layers.
        output_dim: Output features.
        num_layers: Linear layers, at least 2.

    Raises:
        InvalidArgumentError: ``num_layers`` is below 2.
    """

    def __init__(self, input_dim: int, hidden_dim: int, output_dim: int, num_layers: int) -> None:
        super().__init__()
        if num_layers < 2:
            raise InvalidArgumentError(f"num_layers is {num_layers}; pass at least 2, one to and one from hidden_dim")
        dims = [input_dim, *[hidden_dim] * (num_layers - 1), output_dim]
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(dims))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, and set the biases to 0."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.kaiming_normal_(parameter, nonlinearity="relu")
            else:
                nn.init.zeros_(parameter)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return shape (..., output_dim) for shape (..., input_dim)."""
        for index, layer in enumerate(self.layers):
            if index > 0:
                x = F.relu(x)
            x = layer(x)
        return x


class MultiheadAttentionGlobalHead(nn.Module):
    """Attention of the agent of interest to all elements of the scene, which predicts its trajectory.

    Args:
        d_model: Features of an element.
        num_timesteps: Steps T to predict.
        num_outputs: Values O per step.
        nhead: Attention heads.
        dropout: Probability with which an attention weight is dropped in training.
    """

    def __init__(
        self, d_model: int, num_timesteps: int, num_outputs: int, nhead: int = 8, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.num_timesteps = num_timesteps
        self.num_outputs = num_outputs
        self.encoder = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.output_embed = MLP(d_model, d_model * 4, num_timesteps * num_outputs, num_layers=3)

    def forward(
        self,
        inputs: torch.Tensor,
        type_embedding: torch.Tensor,
        mask: torch.Tensor,
        own: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the prediction and the attention.

        Args:
            inputs: Elements, the agent of interest first, shape (N, B, d_model).
            type_embedding: Type of each element, shape (N, B, d_model).
            mask: True for elements to ignore, bool, shape (B, N).
            own: Added to the attention output, shape (B, d_model).

        Returns:
            The outputs (B, T, O) and the attention, averaged over the heads, (B, 1, N).
        """
        attended, attention = self.encoder(inputs[:1], inputs + type_embedding, inputs, key_padding_mask=mask)
        assert attention is not None  # for TorchScript, in which it is optional
        seen = attended[0] if own is None else attended[0] + own
        outputs = self.output_embed(seen).view(-1, self.num_timesteps, self.num_outputs)
        return outputs, attention

"""PyTorch datasets over logs."""

from l5kit.dataset.agent import AgentDataset
from l5kit.dataset.ego import BaseEgoDataset, EgoDataset
from l5kit.dataset.select_agents.selection import select_agents

__all__ = ["AgentDataset", "BaseEgoDataset", "EgoDataset", "select_agents"]

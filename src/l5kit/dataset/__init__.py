"""PyTorch datasets over logs."""

from l5kit.dataset.agent import AgentDataset
from l5kit.dataset.agent_vectorized import AgentDatasetVectorized
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.ego import EgoDataset
from l5kit.dataset.ego_vectorized import EgoAgentDatasetVectorized, EgoDatasetVectorized
from l5kit.dataset.loading import loader
from l5kit.dataset.rank_sampler import RankSampler, rank_generator
from l5kit.dataset.sample_batch import collate
from l5kit.dataset.select_agents.selection import select_agents
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask

__all__ = [
    "AgentDataset",
    "AgentDatasetVectorized",
    "BaseEgoDataset",
    "EgoAgentDatasetVectorized",
    "EgoDataset",
    "EgoDatasetVectorized",
    "MaskThresholds",
    "RankSampler",
    "collate",
    "compute_agents_mask",
    "loader",
    "rank_generator",
    "select_agents",
]

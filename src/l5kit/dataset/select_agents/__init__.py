"""The agents mask: selection of the agents that a model can be trained on."""

from l5kit.dataset.select_agents.selection import select_agents
from l5kit.dataset.select_agents.thresholds import (
    TH_DISTANCE_AV,
    TH_EXTENT_RATIO,
    TH_YAW_DEGREE,
    in_angular_distance,
    in_av_distance,
    in_consecutive_frame,
    in_extent_ratio,
    update_mask,
)
from l5kit.dataset.select_agents.valid_agents import get_valid_agents

__all__ = [
    "TH_DISTANCE_AV",
    "TH_EXTENT_RATIO",
    "TH_YAW_DEGREE",
    "get_valid_agents",
    "in_angular_distance",
    "in_av_distance",
    "in_consecutive_frame",
    "in_extent_ratio",
    "select_agents",
    "update_mask",
]

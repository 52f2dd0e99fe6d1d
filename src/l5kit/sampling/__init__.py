"""Samplers: training samples of windows of a log, one by one or in batches."""

from l5kit.sampling.agent_sampling import (
    compute_agent_velocity,
    generate_agent_sample,
    get_agent_context,
    get_relative_poses,
)
from l5kit.sampling.sample_columns import SampleColumns
from l5kit.sampling.sample_keys import KEYS_BY_DATASET, SampleKey
from l5kit.sampling.samplers import AgentSampler, VectorSampler
from l5kit.sampling.slicing import get_future_slice, get_history_slice

__all__ = [
    "KEYS_BY_DATASET",
    "AgentSampler",
    "SampleColumns",
    "SampleKey",
    "VectorSampler",
    "compute_agent_velocity",
    "generate_agent_sample",
    "get_agent_context",
    "get_future_slice",
    "get_history_slice",
    "get_relative_poses",
]

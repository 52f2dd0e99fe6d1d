"""From one frame of a log to one training sample."""

from l5kit.sampling.agent_sampling import (
    compute_agent_velocity,
    generate_agent_sample,
    get_agent_context,
    get_relative_poses,
)
from l5kit.sampling.slicing import get_future_slice, get_history_slice

__all__ = [
    "compute_agent_velocity",
    "generate_agent_sample",
    "get_agent_context",
    "get_future_slice",
    "get_history_slice",
    "get_relative_poses",
]

"""Columns of vector samples on a device: the AV among the agents, as ``EgoAgentDatasetVectorized`` has it."""

from collections.abc import Mapping

import torch

from l5kit.dataset.utils import AGENT_MIN_FRAME_FUTURE, AGENT_MIN_FRAME_HISTORY
from l5kit.sampling.sample_keys import ROWS_OF_AV

__all__ = ["with_av_as_agent"]


def with_av_as_agent(columns: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the columns of the agents of B samples with the AV as their first row, new tensors on the same device.

    Args:
        columns: The columns of ``EgoDatasetVectorized``; looked at are those of agents, (B, M, ...), and those with
            the same of the AV, (B, ...), which :data:`~l5kit.sampling.sample_keys.ROWS_OF_AV` names.

    Returns:
        The columns of agents, (B, M + 1, ...). The future of an agent is not available where 10 or fewer steps of its
        history are known, the current one included, or 1 or fewer of its future.
    """
    agents = {
        key: torch.cat([columns[av_key][:, None], columns[key]], dim=1)
        for key, av_key in ROWS_OF_AV.items()
        if key in columns
    }
    num_past = agents["all_other_agents_history_availability"].sum(dim=-1)
    future = agents["all_other_agents_future_availability"]
    is_target = (num_past > AGENT_MIN_FRAME_HISTORY) & (future.sum(dim=-1) > AGENT_MIN_FRAME_FUTURE)
    agents["all_other_agents_future_availability"] = future & is_target[..., None]
    return agents

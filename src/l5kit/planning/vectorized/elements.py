"""Scene elements: the inputs of the vector models, selected from a batch of samples."""

from typing import NamedTuple

import torch
from torch.nn import functional as F

from l5kit.planning.vectorized.common import pad_avail, pad_points


class SceneElements(NamedTuple):
    """Polylines of a batch of scenes: x, y and yaw of agents, newest point first; x, y and 0 of the map.

    It is a named tuple because TorchScript does not support dataclasses.
    """

    agents: torch.Tensor  # (B, 1 + A, Hn, 3): the agent of interest, then the others
    agents_available: torch.Tensor  # bool, (B, 1 + A, Hn)
    static: torch.Tensor  # (B, S, P, 3): lanes, crosswalks and optionally lane boundaries
    static_available: torch.Tensor  # bool, (B, S, P)


def collect_elements(data_batch: dict[str, torch.Tensor], with_boundaries: bool) -> SceneElements:
    """Return the elements of a batch of samples of the vectorised datasets.

    The third feature of lanes, the state of traffic lights, is replaced by 0: models get it from the type embedding.

    Args:
        data_batch: ``agent_trajectory_polyline``, ``other_agents_polyline``, ``lanes_mid``, ``crosswalks`` and, with
            boundaries, ``lanes``, and the availabilities of each.
        with_boundaries: Whether the elements include lane boundaries.
    """
    agents = torch.cat(
        (data_batch["agent_trajectory_polyline"].unsqueeze(1), data_batch["other_agents_polyline"]), dim=1
    )
    agents_available = torch.cat(
        (
            data_batch["agent_polyline_availability"].unsqueeze(1),
            data_batch["other_agents_polyline_availability"],
        ),
        dim=1,
    )
    static = [data_batch["lanes_mid"], data_batch["crosswalks"]]
    available = [data_batch["lanes_mid_availabilities"], data_batch["crosswalks_availabilities"]]
    if with_boundaries:
        static.append(data_batch["lanes"])
        available.append(data_batch["lanes_availabilities"])
    num_points = max([polylines.shape[2] for polylines in static])
    xy = torch.cat([pad_points(polylines[..., :2], num_points) for polylines in static], dim=1)
    static_available = torch.cat([pad_avail(part.to(torch.bool), num_points) for part in available], dim=1)
    return SceneElements(agents, agents_available.to(torch.bool), F.pad(xy, [0, 1]), static_available)

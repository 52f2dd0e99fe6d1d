"""Numbers, weights and batches that every implementation of the models makes alike."""

import math

import numpy as np
import pytest
import torch

_MASK = 0xFFFFFFFF


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Compute in one thread: the models are small, and threads that wait for each other are slow on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def noise(count, key):
    """``count`` values in [-1, 1) from a hash of their index and ``key``."""
    h = (np.arange(count, dtype=np.uint64) + 1000003 * key + 1) & _MASK
    h = (h * 2654435761) & _MASK
    h ^= h >> np.uint64(15)
    h = (h * 2246822519) & _MASK
    h ^= h >> np.uint64(13)
    h = (h * 3266489917) & _MASK
    h ^= h >> np.uint64(16)
    return h.astype(np.float64) / 2**31 - 1


def signal(shape, key, scale=1.0):
    """A float32 tensor of noise."""
    return torch.from_numpy(noise(math.prod(shape), key) * scale).float().reshape(shape)


def set_weights(model):
    """Give each parameter noise of a size that keeps activations near 1; returns the model."""
    with torch.no_grad():
        for key, (name, parameter) in enumerate(sorted(model.named_parameters())):
            scale = math.sqrt(3 * parameter.shape[0] / parameter.numel()) if parameter.dim() > 1 else 0.1
            value = signal(tuple(parameter.shape), key, scale)
            if parameter.dim() == 1 and name.endswith(".weight"):
                value += 1
            parameter.copy_(value)
    return model


def no_dropout(model):
    """Set all dropout probabilities to 0; returns the model."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(module, torch.nn.MultiheadAttention):
            module.dropout = 0.0
    return model


def vector_batch():
    """Two samples of a vectorised dataset: 4 points of history, 3 other agents, 2 lanes, 2 crosswalks, 4 steps."""
    agents = signal((2, 3, 4, 3), 1, 20)
    agents[..., 2] *= 0.02
    agents_available = torch.ones(2, 3, 4, dtype=torch.bool)
    agents_available[0, 2] = False
    agents_available[1, 1, 2:] = False
    lanes_mid = signal((2, 2, 5, 3), 2, 20)
    lanes_mid[:, 0, :, 2], lanes_mid[:, 1, :, 2] = 4, 1
    crosswalks = signal((2, 2, 5, 3), 3, 20)
    crosswalks[..., 2] = 0
    crosswalks_available = torch.ones(2, 2, 5, dtype=torch.bool)
    crosswalks_available[:, 1] = False
    lanes = signal((2, 4, 5, 3), 4, 20)
    lanes[..., 2] = 0
    target_available = torch.ones(2, 4, dtype=torch.bool)
    target_available[1, 3] = False
    future_available = torch.ones(2, 3, 4, dtype=torch.bool)
    future_available[0, 2] = False
    future_available[1, 0, 2:] = False
    return {
        "agent_trajectory_polyline": signal((2, 4, 3), 0),
        "agent_polyline_availability": torch.ones(2, 4, dtype=torch.bool),
        "other_agents_polyline": agents,
        "other_agents_polyline_availability": agents_available,
        "lanes_mid": lanes_mid,
        "lanes_mid_availabilities": torch.ones(2, 2, 5, dtype=torch.bool),
        "crosswalks": crosswalks,
        "crosswalks_availabilities": crosswalks_available,
        "lanes": lanes,
        "lanes_availabilities": torch.ones(2, 4, 5, dtype=torch.bool),
        "target_positions": signal((2, 4, 2), 5, 2),
        "target_yaws": signal((2, 4, 1), 6, 0.2),
        "target_availabilities": target_available,
        "all_other_agents_future_positions": signal((2, 3, 4, 2), 7, 20),
        "all_other_agents_future_yaws": signal((2, 3, 4, 1), 8, 0.5),
        "all_other_agents_future_availability": future_available,
        "all_other_agents_history_positions": agents[..., :2].clone(),
        "all_other_agents_history_yaws": agents[..., 2:].clone(),
        "all_other_agents_history_availability": agents_available.clone(),
        "all_other_agents_types": torch.tensor([[3, 14, 0], [12, 3, 10]]),
        "type": torch.tensor([3, 3]),
    }


def routed_batch():
    """The samples of ``vector_batch`` with routes: a bend to the left, of 40 m and of 20 m."""
    batch = vector_batch()
    arc_m = 2.0 * torch.arange(21).float()
    poses = torch.stack((25 * torch.sin(arc_m / 25), 25 - 25 * torch.cos(arc_m / 25), arc_m / 25), dim=-1)
    known = torch.ones(2, 21, dtype=torch.bool)
    known[1, 11:] = False
    whether = known.float()
    has_place = batch["all_other_agents_history_availability"][:, :, 0].clone()
    has_place[1, 2] = False
    return batch | {
        "extent": torch.tensor([4.9, 1.9, 1.5], dtype=torch.float64).expand(2, 3).clone(),
        "all_other_agents_history_extents": 2 + signal((2, 3, 4, 2), 9),
        "route_polyline": poses * whether.unsqueeze(-1),
        "route_availability": known,
        "route_limits": (10 + signal((2, 21), 10)) * whether,
        "route_bend_speeds": (8 + signal((2, 21), 11)) * whether,
        "route_lights": torch.where(known, torch.arange(21) % 5, 0),
        "route_in_junction": known & (torch.arange(21) > 8),
        "route_widths": (1.75 + 0.2 * signal((2, 21, 2), 12)) * whether.unsqueeze(-1),
        "goal_position": signal((2, 2), 13, 40),
        "goal_availability": torch.ones(2, dtype=torch.bool),
        "agent_route_place": signal((2, 6), 14) * torch.tensor([0.0, 1, 5, 1, 0.2, 0]),
        "agent_route_availability": torch.ones(2, dtype=torch.bool),
        "all_other_agents_route_places": signal((2, 3, 6), 15, 5) * has_place.unsqueeze(-1),
        "all_other_agents_route_availability": has_place,
    }


def raster_batch():
    """Two samples of a raster dataset: 5 channels of 112 x 112 pixels, 4 steps."""
    available = torch.ones(2, 4)
    available[1, 3] = 0
    return {
        "image": 0.5 + signal((2, 5, 112, 112), 0, 0.5),
        "target_positions": signal((2, 4, 2), 5, 2),
        "target_yaws": signal((2, 4, 1), 6, 0.2),
        "target_availabilities": available,
    }


def copied(batch):
    return {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in batch.items()}


def rows(batch, selection):
    """The samples of a batch that ``selection`` (an index, a slice or a list) names."""
    return {key: value[selection] for key, value in batch.items()}


def with_lanes_reversed(batch):
    """The same batch with its lanes in the opposite order; left and right boundary of each stay in turn."""
    other = copied(batch)
    for key in ("lanes_mid", "lanes_mid_availabilities"):
        other[key] = batch[key].flip(1)
    for key in ("lanes", "lanes_availabilities"):
        pairs = batch[key].unflatten(1, (-1, 2))
        other[key] = pairs.flip(1).flatten(1, 2)
    return other

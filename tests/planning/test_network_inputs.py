"""Inputs of networks in evaluations."""

import torch

from l5kit.planning.network_inputs import network_inputs, tensors_on


def test_a_network_sees_nothing_of_the_future():
    past = ("curr_speed", "history_positions", "image", "targets_known")
    future = ("target_positions", "all_other_agents_future_positions", "future_extents", "speed")
    seen = network_inputs({key: torch.zeros(1) for key in (*future, *past)})
    assert sorted(seen) == list(past)


def test_only_tensors_go_to_a_device_and_keep_their_type():
    batch = {"yaw": torch.ones(2, dtype=torch.float64), "host": ["a", "b"]}
    moved = tensors_on(torch.device("cpu"), batch)
    assert list(moved) == ["yaw"]
    assert moved["yaw"].dtype == torch.float64

"""Inputs of networks in evaluations."""

import torch

from l5kit.workflows.network_inputs import network_inputs, tensors_on


def test_a_network_sees_nothing_of_the_future():
    keys = ("image", "history_positions", "target_positions", "all_other_agents_future_positions", "targets_known")
    seen = network_inputs({key: torch.zeros(1) for key in keys})
    assert sorted(seen) == ["history_positions", "image", "targets_known"]


def test_only_tensors_go_to_a_device_and_keep_their_type():
    batch = {"yaw": torch.ones(2, dtype=torch.float64), "host": ["a", "b"]}
    moved = tensors_on(torch.device("cpu"), batch)
    assert list(moved) == ["yaw"]
    assert moved["yaw"].dtype == torch.float64

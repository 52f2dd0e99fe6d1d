"""``benchmarks/past_only.py``: a network that sees the past alone, from wherever the past is seen."""

import pytest
import torch

pytest.importorskip("lightning")


@pytest.fixture
def script(import_script):
    return import_script("past_only")


def test_who_is_seen_from_elsewhere_goes_the_same_way(script):
    torch.manual_seed(0)
    network = script.PastOnly("safepathnet", future_num_frames=3, history_num_frames_ego=2).eval()
    batch = {
        "all_other_agents_history_positions": torch.randn(4, 5, 3, 2),
        "all_other_agents_history_yaws": torch.randn(4, 5, 3, 1),
        "all_other_agents_history_availability": torch.rand(4, 5, 3) > 0.3,
        "all_other_agents_history_extents": torch.rand(4, 5, 3, 2),
    }
    turn = script.rotations(torch.tensor(0.7))
    positions = batch["all_other_agents_history_positions"] @ turn + 9.0
    turned = {"all_other_agents_history_positions": positions}
    turned["all_other_agents_history_yaws"] = batch["all_other_agents_history_yaws"] + 0.7
    found, expected = network(batch | turned)["agent_positions"], network(batch)["agent_positions"] @ turn + 9.0
    assert (found - positions[:, :, :1]).abs().max() > 0.01
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-5)


def test_the_loss_is_the_error_over_known_steps(script):
    network = script.PastOnly("vector_planner", future_num_frames=2, history_num_frames_ego=1).eval()
    batch = {
        "history_positions": torch.zeros(1, 2, 2),
        "history_yaws": torch.zeros(1, 2, 1),
        "history_availabilities": torch.ones(1, 2, dtype=torch.bool),
        "extent": torch.ones(1, 3, dtype=torch.float64),
    }
    predicted = network(batch)["positions"]
    known = torch.tensor([[True, False]])
    truth = {"target_positions": predicted.detach() + torch.tensor([3.0, 1.0]), "target_availabilities": known}
    assert network.train()(batch | truth)["loss"].item() == pytest.approx(2.0, abs=1e-5)

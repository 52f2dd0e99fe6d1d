"""Dropout of the past of the AV: its extent, its readers, and its rate."""

import pytest
import torch
from torch import nn

from l5kit.errors import InvalidArgumentError
from l5kit.planning.past_dropout import PastDropout

SHAPES = {
    "history_positions": (4, 2),
    "history_yaws": (4, 1),
    "history_availabilities": (4,),
    "agent_trajectory_polyline": (4, 3),
    "agent_polyline_availability": (4,),
    "all_other_agents_history_positions": (3, 4, 2),
    "all_other_agents_history_availability": (3, 4),
    "other_agents_polyline": (3, 4, 3),
    "all_other_agents_history_extents": (3, 4, 2),
    "lanes_mid": (5, 4, 3),
}
OF_AV = tuple(SHAPES)[:5]
FIRST_ROWS = ("all_other_agents_history_positions", "all_other_agents_history_availability", "other_agents_polyline")


class Gives(nn.Module):
    """Gives what it gets."""

    def forward(self, batch):
        return batch


def make_batch(num_samples=6):
    return {key: torch.ones(num_samples, *shape) for key, shape in SHAPES.items()}


@pytest.mark.parametrize("is_in_first_row", [False, True])
@pytest.mark.parametrize("is_training", [False, True])
def test_all_but_the_last_step_of_the_av_is_hidden(is_in_first_row, is_training):
    batch = make_batch()
    seen = PastDropout(Gives(), 1.0, is_in_first_row=is_in_first_row).train(is_training)(batch)
    for key, value in batch.items():
        assert value.all()  # the batch itself is as it was
        expected = value.clone()
        if key in OF_AV:
            expected[:, 2:] = 0
        if is_in_first_row and key in FIRST_ROWS:
            expected[:, 0, 2:] = 0
        assert torch.equal(seen[key], expected), key


def test_whole_samples_are_hidden_as_often_as_it_is_said_in_training_only():
    torch.manual_seed(0)
    dropout, batch = PastDropout(Gives(), 0.25), make_batch(2000)
    seen = dropout.train()(batch)
    is_hidden = seen["history_availabilities"][:, 2] == 0
    assert 0.2 < is_hidden.float().mean() < 0.3
    for key in OF_AV:
        assert torch.equal((seen[key].flatten(1) == 0).any(dim=1), is_hidden)
    other = dropout(batch)["history_availabilities"][:, 2] == 0
    assert not torch.equal(is_hidden, other)
    assert all(value.all() for value in dropout.eval()(batch).values())


def test_samples_without_that_much_past_stay_as_they_are():
    batch = {"history_positions": torch.ones(3, 1, 2), "history_availabilities": torch.ones(3, 1)}
    assert all(value.all() for value in PastDropout(Gives(), 1.0)(batch).values())


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(probability):
    with pytest.raises(InvalidArgumentError, match="from 0 to 1"):
        PastDropout(Gives(), probability)

"""Scores of trajectories compared with those of the kinematic baselines."""

import pytest
import torch

from l5kit.kinematic.baselines import BASELINES
from l5kit.workflows.trajectories import Trajectories, TrajectoryScores, agent_trajectories, means_of

STEP_TIME_S = 0.5


def trajectories(num_past=1):
    """Two agents at 2 m/s along x; the second stops, and its last step is not known."""
    truth = torch.tensor([[[1.0, 0.0], [2.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    past = torch.tensor([[[0.0, 0.0], [-2.0, 0.0]], [[0.0, 0.0], [-2.0, 0.0]]])[:, : num_past + 1]
    return Trajectories(
        predicted_m=truth + torch.tensor([0.0, 3.0]),
        truth_m=truth,
        is_known=torch.tensor([[True, True], [True, False]]),
        past_m=past,
        past_yaws_rad=torch.zeros(past.shape[:2]),
        past_is_known=torch.ones(past.shape[:2], dtype=torch.bool),
    )


def scores(*added):
    gathered = TrajectoryScores([1.0], step_time_s=STEP_TIME_S, past_step_time_s=1.0)
    for batch in added:
        gathered.add(batch)
    return gathered.sums()


def test_means_of_a_model_and_of_the_baselines():
    model, *baselines = scores(trajectories())
    assert means_of(model, [1.0], "val") == {"val/ade_m/1s": 3.0, "val/fde_m/1s": 3.0, "val/miss_rate/1s": 1.0}
    # all go on at 2 m/s: the first as in truth, the second is 1 m off after half a second
    assert len(baselines) == len(BASELINES)
    for name, baseline in zip(BASELINES, baselines, strict=True):
        assert means_of(baseline, [1.0], name) == {
            f"{name}/ade_m/1s": 0.5,
            f"{name}/fde_m/1s": 0.0,
            f"{name}/miss_rate/1s": 0.0,
        }


def test_sums_of_processes_add_up_to_those_of_one():
    torch.testing.assert_close(scores(trajectories()) + scores(trajectories()), scores(trajectories(), trajectories()))


def test_without_a_past_there_is_no_baseline():
    model, *baselines = scores(trajectories(num_past=0))
    assert all(means_of(baseline, [1.0], "baseline") == {} for baseline in baselines)
    assert means_of(model, [1.0], "val")["val/ade_m/1s"] == 3.0


def test_nothing_known_gives_nothing():
    assert means_of(scores()[0], [1.0], "val") == {}


def test_agents_of_all_samples_stand_in_one_row():
    batch = {
        "all_other_agents_future_positions": torch.rand(2, 3, 4, 2),
        "all_other_agents_future_availability": torch.ones(2, 3, 4),
        "all_other_agents_history_positions": torch.rand(2, 3, 5, 2),
        "all_other_agents_history_yaws": torch.rand(2, 3, 5, 1),
        "all_other_agents_history_availability": torch.ones(2, 3, 5),
    }
    flat = agent_trajectories(batch, {"agent_positions": torch.zeros(2, 3, 4, 2)})
    assert flat.truth_m.shape == flat.predicted_m.shape == (6, 4, 2)
    assert flat.past_m.shape == (6, 5, 2)
    assert flat.past_yaws_rad.shape == (6, 5)
    assert torch.equal(flat.truth_m[4], batch["all_other_agents_future_positions"][1, 1])
    assert flat.is_known.dtype == torch.bool
    with pytest.raises(AttributeError):
        flat.truth_m = None

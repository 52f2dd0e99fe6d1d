"""The metrics of the csv files have names that say what they count."""

import numpy as np
import pytest
import torch

from l5kit.evaluation import write_gt_csv, write_pred_csv
from l5kit.evaluation.horizon_scores import HorizonScores
from l5kit.evaluation.metrics import average_displacement_error_oracle
from l5kit.openloop.chopped_set import competition_metrics
from l5kit.openloop.prediction import ModeScores, _errors
from l5kit.workflows.trajectories import Modes, Trajectories, TrajectoryScores, means_of

KNOWN = np.array([[1.0, 1.0, 0.0, 0.0]])


def test_errors_that_count_unknown_steps_as_zero_are_not_called_ade(tmp_path):
    """Two modes are 1 m and 3 m off at all four steps, two of them known: 2/4 and (2 + 6)/2/4, and 0 at the end."""
    truth, predicted = np.zeros((1, 4, 2)), np.zeros((1, 2, 4, 2))
    predicted[0, :, :, 0] = [[1.0], [3.0]]
    keys = np.array([7]), np.array([1])
    write_gt_csv(tmp_path / "gt.csv", *keys, truth, KNOWN)
    write_pred_csv(tmp_path / "pred.csv", *keys, predicted, np.array([[0.5, 0.5]]), max_modes=2)
    metrics = competition_metrics(tmp_path / "gt.csv", tmp_path / "pred.csv", num_modes=2)
    assert {name: value for name, value in metrics.items() if name.startswith(("ade", "fde"))} == {
        "ade_oracle_unknown_as_zero_m": pytest.approx(0.5),
        "ade_mean_unknown_as_zero_m": pytest.approx(1.0),
        "fde_oracle_unknown_as_zero_m": pytest.approx(0.0),
        "fde_mean_unknown_as_zero_m": pytest.approx(0.0),
    }
    assert not [name for name in metrics if "displacement_error" in name]


def test_ade_is_over_known_steps():
    """The mode that is 1 m off has ADE 1 m, and no FDE where the end is not known."""
    scores = HorizonScores((0.4,), step_time_s=0.1)
    scores.add(torch.zeros(1, 4, 2), torch.tensor([[[1.0, 0.0]] * 4]), torch.from_numpy(KNOWN))
    (score,) = scores.scores()
    assert score.ade_m == pytest.approx(1.0)
    assert np.isnan(score.fde_m)


def test_ade_is_the_same_wherever_it_is_told():
    """Errors of 1, 100, 3 and 5 m, the second not known: 3 m in trainings, evaluations, their rows and mode tables."""
    errors_m, known = torch.tensor([[1.0, 100.0, 3.0, 5.0]]), torch.tensor([[True, False, True, True]])
    predicted = torch.stack([errors_m, torch.zeros_like(errors_m)], dim=-1)
    nothing = torch.zeros(1, 2, 2)
    trajectories = Trajectories(predicted, torch.zeros(1, 4, 2), known, nothing, nothing[..., 0], known[:, :2])
    of_training = TrajectoryScores([0.4], step_time_s=0.1, past_step_time_s=0.1)
    of_training.add(trajectories)
    of_evaluation = HorizonScores((0.4,), step_time_s=0.1)
    of_evaluation.add(trajectories.truth_m, predicted, known)
    of_modes = ModeScores((0.4,), num_modes=1, step_time_s=0.1)
    of_modes.add(trajectories, Modes(predicted[:, None], torch.ones(1, 1)))
    found = {
        "training": means_of(of_training.sums()[0], [0.4], "val")["val/ade_m/0.4s"],
        "evaluation": of_evaluation.scores()[0].ade_m,
        "best of modes": of_modes.scores()[0].ade_oracle_m,
        "mean of modes": of_modes.scores()[0].ade_mean_m,
        "rows": _errors(trajectories, predicted)[0].item(),
    }
    assert found == dict.fromkeys(found, 3.0)
    of_1_5 = average_displacement_error_oracle(trajectories.truth_m, predicted[:, None], torch.ones(1, 1), known)
    assert of_1_5.item() == pytest.approx(9 / 4)

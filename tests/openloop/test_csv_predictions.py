"""The metrics of the csv files have names that say what they count."""

import numpy as np
import pytest
import torch

from l5kit.evaluation import write_gt_csv, write_pred_csv
from l5kit.evaluation.horizon_scores import HorizonScores
from l5kit.openloop.csv_predictions import competition_metrics

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

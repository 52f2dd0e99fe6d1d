"""Kinematic baselines of samples, and their errors."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.horizon_scores import baseline_positions, constant_velocity_positions, score_baselines
from l5kit.kinematic.baselines import BASELINES
from support.logs import make_log
from support.samples import make_cfg
from support.tolerances import NETWORK

STEP_S = 0.1


def turning_log(*, acceleration_mps2):
    """One agent on a circle of 20 m, initially at 5 m/s; the AV is stationary next to it."""
    frames = []
    for time_s in STEP_S * np.arange(40):
        angle = (5 * time_s + acceleration_mps2 * time_s**2 / 2) / 20
        place = (20 * np.sin(angle), 20 - 20 * np.cos(angle))
        frames.append([{"track_id": 1, "centroid": place, "yaw": angle}])
    return make_log([frames])


def scores_of(log):
    dataset = AgentDataset(make_cfg(history_num_frames=5, future_num_frames=10), log, None)
    # the last of the frames, so that turn rates are of a history that is whole and ten steps are ahead
    (frame,) = DataLoader([dataset[len(dataset) - 10]])
    return score_baselines([frame], horizons_s=[1.0], step_time_s=STEP_S)


def test_who_turns_and_speeds_up_is_gone_on_with_by_the_baseline_that_fits():
    steady = {name: score.fde_m for name, (score,) in scores_of(turning_log(acceleration_mps2=0.0)).items()}
    assert list(steady) == list(BASELINES)
    assert steady["constant_velocity"] == pytest.approx(20 * 0.25**2 / 2, rel=0.15)  # off the circle by r angle^2 / 2
    assert steady["ctrv"] == pytest.approx(0, abs=0.01)
    assert steady["ctra"] == pytest.approx(0, abs=0.01)
    faster = {name: score.fde_m for name, (score,) in scores_of(turning_log(acceleration_mps2=1.0)).items()}
    assert faster["ctra"] < 0.2 < 0.5 < faster["ctrv"]


def test_constant_velocity_is_one_of_them():
    batch = {
        "history_positions": torch.tensor([[[0.0, 0.0], [-1.0, 0.0]]]),
        "history_availabilities": torch.ones(1, 2),
    }
    expected = constant_velocity_positions(batch, num_steps=2, step_time_s=STEP_S)
    positions = baseline_positions(batch, "constant_velocity", num_steps=2, step_time_s=STEP_S)
    np.testing.assert_allclose(positions, expected)
    np.testing.assert_allclose(positions, [[[1.0, 0.0], [2.0, 0.0]]], atol=NETWORK)
    half = baseline_positions(batch, "constant_velocity", num_steps=2, step_time_s=STEP_S, past_step_time_s=2 * STEP_S)
    np.testing.assert_allclose(half, expected / 2)
    with pytest.raises(InvalidArgumentError, match="batch has no 'history_yaws'"):
        baseline_positions(batch, "ctra", num_steps=2, step_time_s=STEP_S)


def test_another_name_is_refused():
    log = make_log([[[] for _ in range(3)]])
    (batch,) = DataLoader([EgoDataset(make_cfg(history_num_frames=1, future_num_frames=1), log, None)[1]])
    with pytest.raises(InvalidArgumentError, match="baseline is 'linear'; allowed are 'constant_velocity'"):
        baseline_positions(batch, "linear", num_steps=1, step_time_s=STEP_S)

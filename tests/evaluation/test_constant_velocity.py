"""The constant-velocity baseline and errors at several horizons."""

import math

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from l5kit.dataset import EgoDataset
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.horizon_scores import (
    HorizonScore,
    HorizonScores,
    constant_velocities,
    constant_velocity_positions,
    score_baselines,
)
from support.logs import make_log
from support.samples import make_agent_dataset, make_cfg
from support.tolerances import FLOAT32, FLOAT32_LONG, FLOAT64, NETWORK

STEP_S = 0.1


def score_constant_velocity(batches, horizons_s):
    named = ("constant_velocity",)
    return score_baselines(batches, horizons_s=horizons_s, step_time_s=STEP_S, baselines=named)["constant_velocity"]


def make_batch(*histories):
    """A batch from histories of x positions, None where not known."""
    known = [[value is not None for value in history] for history in histories]
    positions = [[[0.0 if value is None else value, 0.0] for value in history] for history in histories]
    return {"history_positions": torch.tensor(positions), "history_availabilities": torch.tensor(known).float()}


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param([0.0, -1.0, -5.0], 10.0, id="the step before counts"),
        pytest.param([0.0, None, -5.0], 25.0, id="the nearest one that is known"),
        pytest.param([0.0, None, None], 0.0, id="nothing known"),
        pytest.param([1.0, 2.0, 0.0], -10.0, id="backwards"),
        pytest.param([None, -1.0, -2.0], 0.0, id="current one not known"),
    ],
)
def test_velocities_by_hand(history, expected):
    velocities = constant_velocities(make_batch(history), step_time_s=STEP_S)
    np.testing.assert_allclose(velocities, [[expected, 0.0]], atol=FLOAT32_LONG)


def test_positions_go_on_from_the_current_one():
    batch = make_batch([0.5, 0.0], [0.0, None])
    positions = constant_velocity_positions(batch, num_steps=3, step_time_s=STEP_S)
    np.testing.assert_allclose(positions, [[[1.0, 0], [1.5, 0], [2.0, 0]], [[0, 0]] * 3], atol=FLOAT32)


@pytest.mark.parametrize("key", ["history_positions", "history_availabilities"])
def test_a_missing_key_is_named(key):
    batch = make_batch([0.0, 0.0])
    del batch[key]
    with pytest.raises(InvalidArgumentError, match=f"batch has no '{key}'"):
        constant_velocities(batch, step_time_s=STEP_S)


def test_samples_without_history_are_an_error():
    with pytest.raises(InvalidArgumentError, match="history_num_frames of at least 1"):
        constant_velocities(make_batch([0.0]), step_time_s=STEP_S)


@pytest.mark.parametrize("yaw", [0.0, 2.0])
def test_an_agent_that_keeps_its_velocity_is_predicted_exactly(yaw):
    frames = [[{"track_id": 1, "centroid": (0.4 * k, -0.3 * k), "yaw": yaw}] for k in range(40)]
    dataset = make_agent_dataset(make_cfg(history_num_frames=2, future_num_frames=20), make_log([frames]))
    scores = score_constant_velocity(DataLoader(dataset, batch_size=7), (0.5, 2.0))
    for score in scores:
        assert score.ade_m == pytest.approx(0, abs=NETWORK)
        assert score.fde_m == pytest.approx(0, abs=NETWORK)
        assert score.miss_rate == 0
    # of the 29 agents with 10 past and 1 future frames, those of the first 9 frames have 20 steps ahead of them
    assert [(score.num_trajectories, score.num_final) for score in scores] == [(29, 25), (29, 10)]


def test_an_av_that_speeds_up_leaves_the_baseline_behind():
    log = make_log([[[] for _ in range(30)]])
    times_s = STEP_S * np.arange(30)
    log.frames["ego_translation"][:, 0] = times_s**2  # 2 m/s^2
    dataset = EgoDataset(make_cfg(history_num_frames=1, future_num_frames=10), log, None)
    batch = next(iter(DataLoader([dataset[5]], batch_size=1)))
    (score,) = score_constant_velocity([batch], [1.0])
    # after t seconds it is t^2 + 0.1 t ahead of the velocity between the last two frames
    assert score.fde_m == pytest.approx(1.1, abs=NETWORK)
    assert score.ade_m == pytest.approx(np.mean([t * t + 0.1 * t for t in STEP_S * np.arange(1, 11)]), abs=NETWORK)


def test_vector_samples_with_bool_availabilities_are_taken():
    batch = make_batch([0.0, -1.0])
    batch |= {
        "target_positions": torch.tensor([[[1.0, 0.0], [2.0, 3.0]]]),
        "target_availabilities": torch.ones(1, 2) > 0,
    }
    batch["history_availabilities"] = batch["history_availabilities"] > 0
    (score,) = score_constant_velocity([batch], [0.2])
    assert score == HorizonScore(0.2, pytest.approx(1.5), pytest.approx(3.0), 1.0, 1, 1)


TRUTH = torch.zeros(3, 4, 2)
PRED = torch.tensor([1.0, 2.0, 3.0, 4.0])[None, :, None] * torch.tensor([1.0, 0.0]).expand(3, 1, 2)
KNOWN = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])


def test_horizons_by_hand():
    scores = HorizonScores((0.1, 0.2, 0.4), step_time_s=STEP_S)
    scores.add(TRUTH, PRED, KNOWN)
    assert scores.scores() == (
        HorizonScore(0.1, 1.0, 1.0, 0.0, 2, 2),
        HorizonScore(0.2, 1.5, 2.0, 0.0, 2, 2),
        HorizonScore(0.4, (2.5 + 1.5) / 2, 4.0, 1.0, 2, 1),
    )


def test_batches_do_not_change_the_result():
    rng = np.random.default_rng(0)
    truth, pred = (torch.from_numpy(rng.normal(size=(20, 5, 2)) * 2) for _ in range(2))
    known = torch.from_numpy(rng.integers(0, 2, (20, 5)))
    found = []
    for size in (1, 7, 20):
        scores = HorizonScores((0.2, 0.5), step_time_s=STEP_S)
        for start in range(0, 20, size):
            scores.add(truth[start : start + size], pred[start : start + size], known[start : start + size])
        found.append([[score.ade_m, score.fde_m, score.miss_rate, score.num_final] for score in scores.scores()])
    np.testing.assert_allclose(found[1:], found[:1] * 2, rtol=FLOAT64)


def test_the_best_of_several_modes_counts_at_each_horizon():
    modes = torch.stack([PRED, torch.full((3, 4, 2), 2.5) * torch.tensor([1.0, 0.0])], dim=1)
    scores = HorizonScores((0.1, 0.4), step_time_s=STEP_S)
    scores.add(TRUTH[:1], modes[:1], KNOWN[:1])
    first, last = scores.scores()
    assert (first.ade_m, first.fde_m) == (1.0, 1.0)
    assert (last.ade_m, last.fde_m) == (2.5, 2.5)


def test_a_prediction_that_is_no_number_is_a_miss_where_the_truth_is_known():
    scores = HorizonScores((0.1, 0.4), step_time_s=STEP_S)
    scores.add(TRUTH, torch.full_like(PRED, math.nan), KNOWN)
    first, last = scores.scores()
    assert (first.miss_rate, first.num_final, last.miss_rate, last.num_final) == (1.0, 2, 1.0, 1)
    assert math.isnan(first.ade_m)
    assert math.isnan(last.fde_m)


def test_nothing_known_gives_nan_and_counts_of_zero():
    scores = HorizonScores((0.1,), step_time_s=STEP_S)
    for _ in range(2):
        (score,) = scores.scores()
        assert math.isnan(score.ade_m)
        assert math.isnan(score.fde_m)
        assert math.isnan(score.miss_rate)
        assert (score.num_trajectories, score.num_final) == (0, 0)
        scores.add(TRUTH, PRED, torch.zeros(3, 4))


@pytest.mark.parametrize("horizons", [(), (0.0,), (-0.1,), (0.25,)])
def test_horizons_must_be_multiples_of_the_step(horizons):
    with pytest.raises(InvalidArgumentError, match="horizons_s"):
        HorizonScores(horizons, step_time_s=STEP_S)


@pytest.mark.parametrize(
    ("truth", "pred", "avails", "message"),
    [
        pytest.param((3, 4, 2), (3, 5, 2), (3, 4), "they must be", id="another number of steps"),
        pytest.param((3, 4, 2), (2, 4, 2), (3, 4), "they must be", id="another batch"),
        pytest.param((3, 4, 2), (3, 4, 2), (3, 4, 1), "they must be", id="availabilities with an axis more"),
        pytest.param((3, 3, 2), (3, 3, 2), (3, 3), "needs 4", id="fewer steps than the horizon"),
    ],
)
def test_shapes_that_do_not_fit_are_named(truth, pred, avails, message):
    with pytest.raises(InvalidArgumentError, match=message):
        HorizonScores((0.4,), step_time_s=STEP_S).add(torch.zeros(truth), torch.zeros(pred), torch.zeros(avails))

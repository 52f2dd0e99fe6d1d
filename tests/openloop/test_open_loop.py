"""Scores of trained networks: those of networks whose errors are known, of all workflows, and of test sets."""

import csv
import functools
import json
import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
from PIL import Image

from l5kit.configs.runs import WORKFLOWS
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation import create_chopped_dataset, read_pred_csv
from l5kit.openloop.run import evaluate
from l5kit.openloop.setup import OpenLoopOptions
from l5kit.training import train
from support.networks import KeepsVelocity, KnowsTheFuture, open_log, save_network, score_stub
from support.tolerances import FLOAT32, FLOAT32_LONG, NETWORK
from support.workflows import VECTOR_WORKFLOWS, small_config

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")

LIKE_TEST_SETS = {"min_frame_history": 0, "min_frame_future": 10}


@pytest.fixture
def motion(city, tmp_path):
    """A file with an untrained network that predicts one trajectory of an agent, 1.2 s long."""
    return save_network("agent_motion", city, tmp_path)


@pytest.fixture
def test_set(city, tmp_path):
    """The first 60 frames of each scene, and where agents go in the next 1.2 s."""
    folder = tmp_path / "set"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        create_chopped_dataset(city / "scenes" / "sample.zarr", 0.5, 60, 12, 10, output_folder=folder)
    return folder


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("workflow", ["agent_motion", "vector_planner", "safepathnet"])
def test_who_keeps_velocity_scores_like_the_baseline(workflow, city, tmp_path):
    file = save_network(workflow, city, tmp_path)
    result = score_stub(KeepsVelocity, file, city, max_samples=60)
    for network, baseline in zip(result.network, result.baselines["constant_velocity"], strict=True):
        assert (network.num_trajectories, network.num_final) == (baseline.num_trajectories, baseline.num_final)
        assert network.num_final > 30
        assert network.miss_rate == baseline.miss_rate
        assert network.ade_m == pytest.approx(baseline.ade_m, abs=FLOAT32_LONG)
        assert network.fde_m == pytest.approx(baseline.fde_m, abs=FLOAT32_LONG)
    np.testing.assert_allclose(result.rows.fde_m, result.rows.baseline_fde_m[:, 0], atol=NETWORK)
    assert np.nanmax(result.rows.fde_m) > 0.1


@pytest.mark.parametrize("beside_m", [0.0, 3.0], ids=["perfect", "3 m beside"])
def test_who_knows_the_future_errs_by_as_much_as_it_is_told_to(beside_m, motion, city):
    stub = functools.partial(KnowsTheFuture, offsets_m=[(0.0, beside_m)])
    result = score_stub(stub, motion, city, max_samples=40, horizons_s=(0.5, 1.2))
    assert [score.horizon_s for score in result.network] == [0.5, 1.2]
    for score in result.network:
        assert (score.ade_m, score.fde_m) == pytest.approx((beside_m, beside_m), abs=FLOAT32)
        assert score.miss_rate == float(beside_m > 2)
    assert result.modes is None
    np.testing.assert_allclose(result.rows.ade_m, beside_m, atol=FLOAT32)


def test_metrics_of_several_modes_are_those_by_hand(motion, city):
    """Two modes: the truth with probability 1/4, and a path at an offset of 3 m with 3/4."""
    stub = functools.partial(KnowsTheFuture, offsets_m=[(0.0, 0.0), (3.0, 0.0)], logits=[0.0, math.log(3)])
    result = score_stub(stub, motion, city, max_samples=40, horizons_s=(0.1,))
    (network,), (modes,) = result.network, result.modes
    assert (network.ade_m, network.miss_rate) == (pytest.approx(3.0), 1.0)
    assert (modes.ade_oracle_m, modes.ade_mean_m) == pytest.approx((0.0, 1.5), abs=FLOAT32)
    assert (modes.fde_oracle_m, modes.fde_mean_m) == pytest.approx((0.0, 1.5), abs=FLOAT32)
    likelihood = 0.25 + 0.75 * math.exp(-4.5)
    assert modes.nll == pytest.approx(-math.log(likelihood), rel=FLOAT32_LONG)
    assert modes.rmse == pytest.approx(math.sqrt(-2 * math.log(likelihood)), rel=FLOAT32_LONG)
    assert modes.prob_true_mode == pytest.approx((0.25 / likelihood, 1 - 0.25 / likelihood), rel=FLOAT32_LONG)
    assert modes.time_displace_m == pytest.approx(3 * (1 - 0.25 / likelihood), rel=FLOAT32_LONG)


def test_steps_that_are_not_known_do_not_count(motion, city):
    """Agents are 3 m off as long as they are known; those that vanish are not near the truth at the end."""
    stub = functools.partial(KnowsTheFuture, offsets_m=[(3.0, 0.0), (3.0, 0.0)], logits=[0.0, 0.0])
    result = score_stub(stub, motion, city, max_samples=300)
    (modes, _), (first, last) = result.modes, result.network
    assert first.num_final > last.num_final > 0
    assert last.num_trajectories > last.num_final
    assert (modes.ade_mean_m, modes.fde_oracle_m, modes.time_displace_m) == pytest.approx(
        (3.0, 3.0, 3.0), rel=FLOAT32_LONG
    )
    assert np.count_nonzero(~np.isnan(result.rows.fde_m)) == last.num_final


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_every_workflow_is_scored_and_drawn(workflow, city, tmp_path):
    file = save_network(workflow, city, tmp_path)
    options = OpenLoopOptions(max_samples=12, batch_size=5, num_worst=2)
    result = evaluate(file, tmp_path / "out", data_folder=city, options=options)
    end, end_s = result.network[-1], 0.4 if workflow in VECTOR_WORKFLOWS else 1.2
    assert end.horizon_s == pytest.approx(end_s)
    assert result.num_samples == 12
    several = ("agent_motion_multimodal", "safepathnet", "motion_tokens", "query_centric", "route_planner")
    assert (result.modes is not None) == (workflow in several)

    scores = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert scores["scores"][0]["ade_m"] == result.network[0].ade_m
    rows = read_rows(tmp_path / "out" / "samples.csv")
    assert np.mean([float(row["ade_m"]) for row in rows]) == pytest.approx(end.ade_m, abs=NETWORK)
    known = [row for row in rows if row["fde_m"]]
    assert len(known) == end.num_final
    assert np.mean([float(row["fde_m"]) for row in known]) == pytest.approx(end.fde_m, abs=NETWORK)
    assert np.mean([int(row["miss"]) for row in known]) == pytest.approx(end.miss_rate)
    assert {row["label"] == "AV" for row in rows} <= {row["track_id"] == "-1" for row in rows}

    pictures = sorted((tmp_path / "out" / "worst").iterdir())
    largest = max(float(row["fde_m"]) for row in known)
    worst = [
        row for row in known if float(row["fde_m"]) == largest
    ]  # several, where a token leads several the same way
    assert any(f"scene{row['scene_index']}_frame{row['frame_index']}_" in pictures[0].name for row in worst)
    assert min(Image.open(pictures[0]).size) >= 448


def test_rows_say_which_agent_of_which_frame_they_are_of(motion, city):
    result = score_stub(KeepsVelocity, motion, city, max_samples=30)
    log, rows = open_log(city), result.rows
    for scene, frame, track, label, timestamp in zip(
        rows.scene_index, rows.frame_index, rows.track_id, rows.label_index, rows.timestamp_ns, strict=True
    ):
        row = log.frames[int(log.scenes[int(scene)]["frame_index_interval"][0] + frame)]
        assert row["timestamp"] == timestamp
        agents = log.agents[slice(*row["agent_index_interval"].tolist())]
        (agent,) = agents[agents["track_id"] == track]
        assert agent["label_probabilities"].argmax() == label
    assert len(set(rows.scene_index.tolist())) == 3  # spread over the log


def test_scores_are_those_of_the_evaluation_in_a_training(city, tmp_path):
    cfg = small_config("vector_planner", train_params={"max_num_steps": 1, "accelerator": "cpu"})
    del cfg["val_data_loader"]["max_num_batches"]
    trained = train(cfg, tmp_path / "training", data_folder=city, tell=lambda _: None)
    options = OpenLoopOptions(num_worst=0)
    result = evaluate(tmp_path / "training", tmp_path / "out", data_folder=city, options=options)
    (network,), (baseline,) = result.network, result.baselines["ctra"]
    assert network.ade_m == pytest.approx(trained.scores["val/ade_m/0.4s"], rel=FLOAT32_LONG)
    assert baseline.fde_m == pytest.approx(trained.scores["ctra/fde_m/0.4s"], rel=FLOAT32_LONG)
    assert not (tmp_path / "out" / "worst").exists()


@pytest.mark.filterwarnings("ignore:the agents of the test set")
def test_a_test_set_is_scored_against_its_file(motion, city, test_set):
    """Predictions use the log that the test set was cut from, and the truth is gt.csv."""
    stub = functools.partial(KnowsTheFuture, offsets_m=[(0.0, 3.0)], log=open_log(city))
    result = score_stub(stub, motion, city, key=str(test_set))
    mask = np.load(test_set / "mask.npz")["arr_0"]
    assert result.is_test_set
    assert result.num_samples == len(result.rows) == mask.sum()
    assert set(result.rows.frame_index.tolist()) == {59}
    np.testing.assert_allclose(result.rows.ade_m, 3.0, atol=1e-3)
    assert result.baselines["constant_velocity"][-1].fde_m < 2


@pytest.mark.filterwarnings("ignore:the agents of the test set")
def test_predictions_of_a_test_set_are_written_as_in_the_competition(city, test_set, tmp_path):
    file = save_network("agent_motion_multimodal", city, tmp_path)
    options = OpenLoopOptions(key=str(test_set), num_worst=1)
    result = evaluate(file, tmp_path / "out", data_folder=city, options=options)
    rows = list(read_pred_csv(tmp_path / "out" / "predictions.csv"))
    assert [int(row["track_id"]) for row in rows] == result.rows.track_id.tolist()
    assert sum(rows[0]["conf"]) == pytest.approx(1)
    end = result.modes[-1]
    # the same from the files, where unknown steps count as errors of 0 in averages, but not in the likelihood
    assert result.competition["neg_multi_log_likelihood"] == pytest.approx(end.nll, rel=NETWORK)
    assert result.competition["prob_true_mode"] == pytest.approx(end.prob_true_mode, rel=1e-3, abs=FLOAT32)
    for name in ("ade_oracle", "ade_mean", "fde_oracle", "fde_mean"):
        assert f"{name}_unknown_as_zero_m" in result.competition
    assert not [name for name in result.competition if "displacement_error" in name]
    assert 0 < result.competition["ade_oracle_unknown_as_zero_m"] <= end.ade_oracle_m * (1 + 1e-4)


def test_a_training_on_other_agents_is_told_of(city, test_set, tmp_path):
    usual = save_network("agent_motion", city, tmp_path)
    with pytest.warns(RuntimeWarning, match="min_frame_history=0.*min_frame_future=10"):
        result = score_stub(KeepsVelocity, usual, city, key=str(test_set))
    assert len(result.selection.differences) == 2

    alike = {"train_data_loader": {**small_config("agent_motion")["train_data_loader"], **LIKE_TEST_SETS}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the agents mask of")
        result = score_stub(
            KeepsVelocity, save_network("agent_motion", city, tmp_path, **alike), city, key=str(test_set)
        )
        assert result.selection.differences == ()


@pytest.mark.filterwarnings("ignore:min_frame_history is 0")
def test_a_log_of_other_agents_than_those_of_the_training_is_told_of(city, tmp_path):
    loader = small_config("agent_motion")["val_data_loader"]
    file = save_network("agent_motion", city, tmp_path, val_data_loader={**loader, "min_frame_history": 0})
    with pytest.warns(RuntimeWarning, match=r"have fewer than 10 past frames.* min_frame_history=0"):
        score_stub(KeepsVelocity, file, city, max_samples=10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"horizons_s": (1.0, 2.0)}, "up to the 1.2 s that the network predicts", id="too far ahead"),
        pytest.param({"horizons_s": (0.25,)}, "multiples of 0.1 s", id="between steps"),
        pytest.param({"horizons_s": (math.nan,)}, "seconds above 0", id="no number"),
        pytest.param({"horizons_s": (0.01,)}, "multiples of 0.1 s", id="before the first step"),
        pytest.param({"horizons_s": (0.5, 0.5)}, "different", id="one twice"),
        pytest.param({"max_samples": 0}, "max_samples must be at least 1", id="no samples"),
        pytest.param({"worst_by": "nll"}, "allowed are fde, ade", id="another error"),
        pytest.param({"device": "gpu"}, "allowed are auto, cpu, cuda", id="another device"),
    ],
)
def test_wrong_options_say_what_is_allowed(options, message, motion, city):
    with pytest.raises(InvalidArgumentError, match=message):
        score_stub(KeepsVelocity, motion, city, **options)


def test_horizons_are_whole_seconds_and_the_end(motion, city):
    result = score_stub(KeepsVelocity, motion, city, max_samples=4)
    assert [score.horizon_s for score in result.network] == [1.0, 1.2]
    last = result.network[-1]
    assert f"ADE {last.ade_m:.3f} m and FDE {last.fde_m:.3f} m in 1.2 s>" in repr(result)


def test_predictions_that_are_not_finite_are_refused(motion, city):
    stub = functools.partial(KnowsTheFuture, offsets_m=[(math.nan, 0.0)])
    with pytest.raises(InvalidArgumentError, match="not finite"):
        score_stub(stub, motion, city, max_samples=4)


@pytest.mark.process
def test_evaluation_does_without_lightning():
    source = (
        "import sys\n"
        "sys.modules['lightning'] = None\n"
        "import l5kit.openloop.run\n"
        "assert not [name for name in sys.modules if name.startswith('lightning.')]\n"
        "try:\n    from l5kit.training import train\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert (done.returncode, "[train]" in done.stdout) == (0, True), done.stderr

"""Whether training and test take the same kind of agents."""

import warnings

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.unpack_limits import UnpackLimits
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError
from l5kit.evaluation import (
    Selection,
    check_selection_parity,
    compute_metrics_csv,
    create_chopped_dataset,
    read_gt_csv,
    write_pred_csv,
)
from l5kit.evaluation.metrics import rmse
from l5kit.evaluation.selection_parity import compare_selections
from support.logs import make_log
from support.samples import make_agent_dataset, make_cfg

SAME = Selection(min_frame_history=0, min_frame_future=3)


def make_scene():
    """30 frames of track 1, and of track 2 from frame 8 to frame 14."""
    return [
        [{"track_id": 1, "centroid": (0.5 * k, 3.0)}] + [{"track_id": 2, "centroid": (5.0, 1.0)}] * (8 <= k <= 14)
        for k in range(30)
    ]


@pytest.fixture
def test_set(tmp_path):
    """Test agents of frame 9: track 1 with 9 past and 20 future frames, track 2 with 1 past and 5 future ones."""
    make_log([make_scene()]).save(tmp_path / "x.zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return tmp_path / "x.zarr", create_chopped_dataset(tmp_path / "x.zarr", 0.5, 10, 8, 3)


def make_training(zarr, **options):
    return make_agent_dataset(make_cfg(), ChunkedDataset(str(zarr)).open(), **options)


@pytest.mark.parametrize(
    ("training", "short_history", "short_future", "words"),
    [
        pytest.param(SAME, 0, 0, (), id="the same"),
        pytest.param(
            Selection(2, 3), 1, 0, ("1 of 2 test agents (50 %) have fewer than 2 past frames", "min_frame_history=0"),
            id="more past asked for in training",
        ),
        pytest.param(
            Selection(10, 1), 2, 0, ("2 of 2", "fewer than 10 past", "only 1 future frames", "min_frame_future=3"),
            id="the usual selection",
        ),
        pytest.param(
            Selection(0, 6), 0, 1, ("1 of 2 test agents (50 %) have fewer than 6 future frames", "min_frame_future=3"),
            id="more future asked for in training",
        ),
        pytest.param(Selection(0, 20), 0, 1, ("fewer than 20 future",), id="futures that go on beyond the steps"),
    ],
)  # fmt: skip
def test_differences_are_counted_and_warned_about(test_set, training, short_history, short_future, words):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        parity = check_selection_parity(test_set[1], training)
    assert (parity.num_test_agents, parity.num_short_history, parity.num_short_future) == (
        2,
        short_history,
        short_future,
    )
    assert (parity.test, parity.training) == (SAME, training)
    assert len(told) == bool(words) == bool(parity.differences)
    assert all(word in str(told[0].message) for word in words)


def test_a_dataset_tells_how_its_agents_were_selected(test_set):
    training = make_training(test_set[0], min_frame_history=4, min_frame_future=2)
    assert Selection.of_dataset(training) == Selection(4, 2)
    with pytest.warns(RuntimeWarning, match="fewer than 4 past frames"):
        assert check_selection_parity(test_set[1], training).num_short_history == 1
    same = make_training(test_set[0], min_frame_history=0, min_frame_future=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_selection_parity(test_set[1], same).differences == ()


def test_a_dataset_with_a_mask_of_its_own_tells_what_its_agents_have(test_set):
    log = ChunkedDataset(str(test_set[0])).open()
    mask = np.zeros(len(log.agents), bool)
    mask[[12, 20]] = True
    training = make_agent_dataset(make_cfg(), log, agents_mask=mask)
    counts = training.load_agents_mask()[[12, 20]]
    assert Selection.of_dataset(training) == Selection(*counts.min(axis=0).tolist())
    with pytest.raises(InvalidArgumentError, match="has no agents"):
        Selection.of_dataset(make_agent_dataset(make_cfg(), log, agents_mask=np.zeros(len(log.agents), bool)))


def test_sets_of_1_5_are_judged_by_what_their_agents_have(test_set):
    """Their mask file holds the mask alone."""
    mask = np.load(f"{test_set[1]}/mask.npz")["arr_0"]
    np.savez(f"{test_set[1]}/mask.npz", mask)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert check_selection_parity(test_set[1], Selection()).test == Selection(1, 5)


def test_scores_of_files_check_the_selection_when_they_know_the_training(test_set, tmp_path):
    rows = list(read_gt_csv(f"{test_set[1]}/gt.csv"))
    pred = tmp_path / "pred.csv"
    write_pred_csv(
        pred,
        [row["timestamp"] for row in rows],
        [row["track_id"] for row in rows],
        np.stack([row["coord"] for row in rows]),
    )
    with pytest.warns(RuntimeWarning, match="selected differently from those of the training"):
        assert compute_metrics_csv(f"{test_set[1]}/gt.csv", pred, [rmse], trained_on=Selection()) == {"rmse": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compute_metrics_csv(f"{test_set[1]}/gt.csv", pred, [rmse], trained_on=SAME)
        compute_metrics_csv(f"{test_set[1]}/gt.csv", pred, [rmse])


def test_counts_are_compared_without_files():
    counts = np.array([[0, 12], [10, 30], [40, 10]], np.uint32)
    parity = compare_selections(counts, Selection(10, 11))
    assert parity.test == Selection(0, 10)
    assert (parity.num_short_history, parity.num_short_future) == (1, 1)
    assert len(parity.differences) == 2


@pytest.mark.parametrize("counts", [np.zeros((0, 2)), np.zeros(3), np.zeros((3, 3))])
def test_counts_of_another_shape_are_named(counts):
    with pytest.raises(InvalidArgumentError, match="test_counts has shape"):
        compare_selections(counts, Selection())


def test_a_folder_that_is_no_test_set_says_what_is_missing(test_set, tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"has 1 \.zarr and lacks mask\.npz and gt\.csv"):
        check_selection_parity(tmp_path, Selection())


@pytest.mark.parametrize(
    ("write", "message"),
    [
        pytest.param(lambda path: path.write_bytes(b"no zip"), "cannot be read as a mask", id="damaged"),
        pytest.param(lambda path: path.write_bytes(b""), "cannot be read as a mask", id="empty"),
        pytest.param(lambda path: np.savez(path, other=np.ones(3, bool)), "cannot be read as a mask", id="no mask"),
        pytest.param(lambda path: np.savez(path, np.ones(3, bool)), r"mask of shape \(3,\)", id="another length"),
        pytest.param(lambda path: np.savez(path, np.ones(3)), "float64 of shape", id="numbers"),
    ],
)
def test_a_mask_that_cannot_be_read_is_named(test_set, tmp_path, write, message):
    write(tmp_path / "x_chopped_10" / "mask.npz")
    with pytest.raises(InvalidArgumentError, match=message):
        check_selection_parity(test_set[1], Selection())


def test_a_mask_that_would_be_many_times_its_size_is_refused(test_set, tmp_path, monkeypatch):
    monkeypatch.setattr("l5kit.evaluation.selection_parity._MASK_LIMITS", UnpackLimits(free_bytes=1 << 16))
    np.savez_compressed(tmp_path / "x_chopped_10" / "mask.npz", np.zeros(1 << 17, bool))
    with pytest.raises(InvalidArgumentError, match=r"cannot be read as a mask .*at most 65,536 are read"):
        check_selection_parity(test_set[1], Selection())


def test_truth_of_another_set_is_found_out(test_set, tmp_path):
    path = tmp_path / "x_chopped_10" / "gt.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:2]))
    with pytest.raises(InvalidArgumentError, match=r"selects 2 agents, but gt\.csv has 1 rows"):
        check_selection_parity(test_set[1], Selection())

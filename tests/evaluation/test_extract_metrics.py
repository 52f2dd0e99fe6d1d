"""Metrics of files."""

import functools

import numpy as np
import pytest

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation import Selection, compute_metrics_csv, write_gt_csv, write_pred_csv
from l5kit.evaluation.csv_rows import MAX_LISTED
from l5kit.evaluation.extract_metrics import validate_dicts
from l5kit.evaluation.metrics import (
    average_displacement_error_mean,
    average_displacement_error_oracle,
    final_displacement_error_oracle,
    miss_rate,
    neg_multi_log_likelihood,
    prob_true_mode,
    rmse,
    time_displace,
)
from support.tolerances import FLOAT64_LONG

SIZE, STEPS = 6, 4
TIMES = np.repeat([100, 200], 3)
TRACKS = np.tile([1, 2, 3], 2)


@pytest.fixture
def truth():
    return np.random.default_rng(0).normal(size=(SIZE, STEPS, 2)).round(3)


@pytest.fixture
def files(tmp_path, truth):
    paths = tmp_path / "gt.csv", tmp_path / "pred.csv"
    write_gt_csv(paths[0], TIMES, TRACKS, truth, np.ones((SIZE, STEPS)))
    write_pred_csv(paths[1], TIMES, TRACKS, truth)
    return paths


def test_a_perfect_prediction_has_likelihood_0_and_no_distances(files):
    found = compute_metrics_csv(*files, [neg_multi_log_likelihood, rmse, time_displace, miss_rate])
    assert list(found) == ["neg_multi_log_likelihood", "rmse", "time_displace", "miss_rate"]
    assert found["neg_multi_log_likelihood"] == found["rmse"] == found["miss_rate"] == 0
    np.testing.assert_array_equal(found["time_displace"], np.zeros(STEPS))


def test_metrics_are_means_over_rows_in_any_order(files, truth):
    shifts_m = np.arange(SIZE)
    order = np.random.default_rng(1).permutation(SIZE)
    moved = truth.copy()
    moved[:, -1, 0] += shifts_m
    write_pred_csv(files[1], TIMES[order], TRACKS[order], moved[order], max_modes=1)
    found = compute_metrics_csv(*files, [final_displacement_error_oracle, time_displace, miss_rate], 1)
    assert found["final_displacement_error_oracle"] == pytest.approx(2.5)
    np.testing.assert_allclose(found["time_displace"], [0, 0, 0, 2.5], atol=FLOAT64_LONG)
    assert found["miss_rate"] == pytest.approx(3 / 6)  # 3, 4 and 5 m


def test_many_modes_need_max_modes(files, truth):
    pred = np.repeat(truth[:, None], 5, axis=1)
    pred[:, :4] += 10
    write_pred_csv(files[1], TIMES, TRACKS, pred, np.full((SIZE, 5), 0.2), max_modes=5)
    assert compute_metrics_csv(*files, [average_displacement_error_oracle], 5) == {
        "average_displacement_error_oracle": 0.0
    }
    with pytest.raises(ValueError, match="max_modes"):
        compute_metrics_csv(*files, [average_displacement_error_oracle])


def test_options_of_metrics_are_part_of_their_name(files):
    available = functools.partial(average_displacement_error_mean, only_available=True)
    found = compute_metrics_csv(*files, [available, average_displacement_error_mean])
    assert list(found) == [
        "average_displacement_error_mean(only_available=True)",
        "average_displacement_error_mean",
    ]


def test_a_metric_of_the_users_own_gets_the_four_arrays(files):
    def shapes(ground_truth, pred, confidences, avails):
        return np.array([*ground_truth.shape, *pred.shape, *confidences.shape, *avails.shape])

    assert compute_metrics_csv(*files, [shapes])["shapes"].tolist() == [STEPS, 2, 3, STEPS, 2, 3, STEPS]


def test_e3_track_and_time_do_not_run_into_each_other(tmp_path):
    """1.5 joined "1" + "12" and "11" + "2" to the same key, so that one row took the place of the other."""
    truth, pred = tmp_path / "gt.csv", tmp_path / "pred.csv"
    coords = np.array([[[0.0, 0.0]], [[5.0, 0.0]]])
    write_gt_csv(truth, [12, 2], [1, 11], coords, np.ones((2, 1)))
    write_pred_csv(pred, [12, 2], [1, 11], coords)
    assert compute_metrics_csv(truth, pred, [average_displacement_error_mean, neg_multi_log_likelihood]) == {
        "average_displacement_error_mean": pytest.approx(5 / 3),  # two modes of zeros against 5 m
        "neg_multi_log_likelihood": 0.0,
    }


@pytest.mark.parametrize("place", [0, 1], ids=["truth", "prediction"])
def test_e3_a_second_row_of_a_track_and_time_is_an_error(files, place):
    lines = files[place].read_text().splitlines()
    files[place].write_text("\n".join([*lines, lines[1], lines[2]]))
    with pytest.raises(InvalidArgumentError, match=r"has 2 rows .*: track 1 at 100; track 2 at 100") as raised:
        compute_metrics_csv(*files, [rmse])
    assert str(files[place]) in str(raised.value)


def drop_rows(path, *rows):
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for number, line in enumerate(lines) if number not in rows))


def test_e8_missing_predictions_are_listed_in_the_error_and_not_printed(files, capsys):
    drop_rows(files[1], 2, 6)
    with pytest.raises(ValueError, match=r"mask\.npz") as raised:
        compute_metrics_csv(*files, [rmse])
    assert "6 rows of truth, 4 predicted. 2 missing in the predictions: track 2 at 100; track 3 at 200" in str(
        raised.value
    )
    assert capsys.readouterr().out == ""


def test_e8_unknown_predictions_are_listed_up_to_a_limit(files, tmp_path):
    size = SIZE + MAX_LISTED + 3
    write_pred_csv(files[1], np.arange(size), np.full(size, 9), np.zeros((size, STEPS, 2)))
    with pytest.raises(ValueError, match=r"6 missing .*19 predicted but unknown: track 9 at 0; .*; and 9 more"):
        compute_metrics_csv(*files, [rmse])


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        pytest.param({"a": 1, "b": 2}, True, id="the same keys"),
        pytest.param({"b": 0, "a": 0}, True, id="another order"),
        pytest.param({"a": 1}, False, id="one missing"),
        pytest.param({"a": 1, "b": 2, "c": 3}, False, id="one unknown"),
        pytest.param({"a": 1, "c": 3}, False, id="as many but others"),
    ],
)
def test_validate_dicts_compares_keys_and_prints_how_they_differ(predicted, expected, capsys):
    assert validate_dicts({"a": 1, "b": 2}, predicted) is expected
    printed = capsys.readouterr().out
    assert (printed == "") is expected
    assert ("missing in the predictions: b" in printed) is ("b" not in predicted)
    assert ("unknown: c" in printed) is ("c" in predicted)


def test_rows_that_a_metric_does_not_take_are_listed(files):
    text = files[1].read_text().splitlines()
    for number in (1, 4):
        fields = text[number].split(",")
        fields[5] = "nan"
        text[number] = ",".join(fields)
    files[1].write_text("\n".join(text))
    with pytest.raises(
        InvalidArgumentError, match=r"rmse cannot .* 2 rows: track 1 at 100: pred holds NaN.*; track 1 at 200"
    ):
        compute_metrics_csv(*files, [rmse])


def test_rows_without_a_value_are_named_in_a_warning(files, truth):
    avails = np.ones((SIZE, STEPS))
    avails[2] = 0
    write_gt_csv(files[0], TIMES, TRACKS, truth, avails)
    with pytest.warns(RuntimeWarning, match="miss_rate is not finite in 1 rows, and so is its mean: track 3 at 100"):
        assert np.isnan(compute_metrics_csv(*files, [miss_rate])["miss_rate"])


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        pytest.param([], "metrics is empty", id="none"),
        pytest.param([rmse, rmse], "metrics has rmse more than once", id="one twice"),
    ],
)
def test_a_wrong_list_of_metrics_is_an_assertion_error(files, metrics, message):
    with pytest.raises(AssertionError, match=message):
        compute_metrics_csv(*files, metrics)


def test_files_without_rows_have_no_mean(files):
    for path in files:
        path.write_text(path.read_text().splitlines()[0])
    with pytest.raises(InvalidArgumentError, match="has no rows"):
        compute_metrics_csv(*files, [rmse])


def test_selection_cannot_be_checked_without_a_mask_beside_the_truth(files):
    with pytest.warns(RuntimeWarning, match=r"cannot be checked: there is no mask\.npz"):
        compute_metrics_csv(*files, [rmse], trained_on=Selection())


@pytest.mark.parametrize("options", [{}, {"only_available": True}])
def test_all_rows_at_once_have_the_values_of_each(files, truth, options):
    rng = np.random.default_rng(2)
    write_gt_csv(files[0], TIMES, TRACKS, truth, rng.random((SIZE, STEPS)) < 0.7)
    write_pred_csv(
        files[1], TIMES, TRACKS, truth[:, None] + rng.normal(size=(SIZE, 3, STEPS, 2)), np.full((SIZE, 3), 1 / 3)
    )
    of_options = (average_displacement_error_mean, final_displacement_error_oracle)
    metrics = of_options if options else (neg_multi_log_likelihood, rmse, prob_true_mode, time_displace, *of_options)
    for metric in metrics:
        together = functools.partial(metric, **options) if options else metric

        def alone(*arrays, metric=together):
            return metric(*arrays)

        (found,) = compute_metrics_csv(*files, [together]).values()
        (expected,) = compute_metrics_csv(*files, [alone]).values()
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert np.any(found != 0)


def test_predictions_of_other_steps_are_listed(files, truth):
    write_pred_csv(files[1], TIMES, TRACKS, truth[:, :3])
    with pytest.raises(InvalidArgumentError, match=r"rmse cannot be computed for 6 rows: track 1 at 100: ground_truth"):
        compute_metrics_csv(*files, [rmse])


def test_arguments_of_a_metric_by_place_are_not_left_out(files, truth):
    with pytest.raises(TypeError, match="rmse"):
        compute_metrics_csv(*files, [functools.partial(rmse, truth[0])])

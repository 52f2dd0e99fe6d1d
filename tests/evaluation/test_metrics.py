"""Open-loop metrics of one prediction: known answers and cases that can be worked out by hand."""

import math

import numpy as np
import pytest
import torch

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation import metrics
from l5kit.evaluation.metrics import (
    average_displacement_error_mean,
    average_displacement_error_oracle,
    distance_to_reference_trajectory,
    final_displacement_error_mean,
    final_displacement_error_oracle,
    miss_rate,
    neg_multi_log_likelihood,
    prob_true_mode,
    rmse,
    time_displace,
)
from support.tolerances import FLOAT32, NETWORK

ALL = (1.0, 1.0, 1.0)
TRUTH = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
MODES = np.array([[[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]]])
CONFIDENCES = np.array([0.25, 0.75])
METRICS = (
    neg_multi_log_likelihood,
    rmse,
    prob_true_mode,
    time_displace,
    average_displacement_error_oracle,
    average_displacement_error_mean,
    final_displacement_error_oracle,
    final_displacement_error_mean,
    miss_rate,
)


def constant_modes(*values):
    """Modes that stay at one value, in one coordinate."""
    return np.array([[[float(value)]] * 3 for value in values])


@pytest.mark.parametrize(
    ("truth", "confidences", "expected"),
    [
        pytest.param((0, 0, 0), (1, 0), 0.0, id="the certain mode is right"),
        pytest.param((0, 0, 0), (0.5, 0.5), 0.69314, id="half certain and right"),
        pytest.param((5, 5, 5), (1, 0), 37.5, id="between the modes, one certain"),
        pytest.param((5, 5, 5), (0.5, 0.5), 37.5, id="between the modes, both likely"),
        pytest.param((0, 10, 0), (1, 0), 50.0, id="changes modes, one certain"),
        pytest.param((0, 10, 0), (0.5, 0.5), 50.6931, id="changes modes, both likely"),
    ],
)
def test_known_likelihoods_of_two_constant_modes(truth, confidences, expected):
    arguments = np.array(truth, float)[:, None], constant_modes(0, 10), np.array(confidences, float), np.ones(3)
    assert neg_multi_log_likelihood(*arguments) == pytest.approx(expected, abs=NETWORK)
    assert rmse(*arguments) == pytest.approx(math.sqrt(2 * expected / 3), abs=NETWORK)


def test_known_answers_of_probabilities_and_time_displacement():
    truth = np.array([[50.0, 0.0]] * 3)
    modes = np.array([[[52.0, 0.0]] * 3, [[49.0, 0.0], [51.0, 0.0], [50.0, 2.0]]])
    arguments = truth, modes, np.array([0.1, 0.9]), np.ones(3)
    np.testing.assert_allclose(prob_true_mode(*arguments), [0.0055, 0.9944], atol=NETWORK)
    np.testing.assert_allclose(time_displace(*arguments), [1.0055, 1.0055, 2.0], atol=NETWORK)


@pytest.mark.parametrize(
    ("metric", "avails", "expected"),
    [
        (neg_multi_log_likelihood, ALL, 0.7435582443527456),
        (rmse, ALL, 0.7040635597978095),
        (prob_true_mode, ALL, (0.04316453, 0.95683547)),
        (time_displace, ALL, (0.0, 0.04316453, 1.04316453)),
        (average_displacement_error_oracle, ALL, 1 / 3),
        (average_displacement_error_mean, ALL, 2 / 3),
        (final_displacement_error_oracle, ALL, 1.0),
        (final_displacement_error_mean, ALL, 1.5),
        (neg_multi_log_likelihood, (1, 1, 0), 0.10354808695704948),
        (average_displacement_error_oracle, (1, 1, 0), 0.0),
        (average_displacement_error_mean, (1, 1, 0), 1 / 6),
        (final_displacement_error_oracle, (1, 1, 0), 0.0),
        (final_displacement_error_mean, (1, 1, 0), 0.0),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_known_answers_measured_on_1_5(metric, avails, expected):
    actual = metric(TRUTH, MODES, CONFIDENCES, np.array(avails, float))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-8)
    assert np.shape(actual) == np.shape(expected)


def test_one_prediction_may_be_tensors():
    arrays = (np.zeros((2, 2)), np.ones((1, 2, 2)), np.ones(1), np.ones(2))
    tensors = [torch.from_numpy(each) for each in arrays]
    assert neg_multi_log_likelihood(*tensors) == neg_multi_log_likelihood(*arrays)


def test_large_errors_give_finite_results():
    arguments = TRUTH + 1e5, MODES, CONFIDENCES, np.ones(3)
    for metric in METRICS:
        assert np.isfinite(metric(*arguments)).all(), metric.__name__
    # both modes are about as far away, so that the better one takes it all
    assert neg_multi_log_likelihood(*arguments) == pytest.approx(0.5 * 6e10, rel=NETWORK)


def test_errors_beyond_float64_are_infinite_and_not_nan():
    arguments = TRUTH + 1e200, MODES, CONFIDENCES, np.ones(3)
    assert neg_multi_log_likelihood(*arguments) == np.inf
    np.testing.assert_array_equal(prob_true_mode(*arguments), [0.5, 0.5])


def test_a_mode_of_confidence_zero_says_nothing_aloud(recwarn):
    arguments = TRUTH, MODES, np.array([0.0, 1.0]), np.ones(3)
    assert neg_multi_log_likelihood(*arguments) == pytest.approx(0.5)
    np.testing.assert_array_equal(prob_true_mode(*arguments), [0.0, 1.0])
    assert len(recwarn) == 0


def test_e4_unavailable_steps_count_as_zero_unless_they_are_left_out():
    avails = np.array([1.0, 1.0, 0.0])
    arguments = TRUTH, MODES[:1], np.ones(1), avails
    # distances of the only mode: 0 and 1, and 2 where the truth is not known
    assert average_displacement_error_mean(*arguments) == pytest.approx(1 / 3)
    assert average_displacement_error_mean(*arguments, only_available=True) == pytest.approx(1 / 2)
    assert final_displacement_error_mean(*arguments) == 0.0
    assert final_displacement_error_mean(*arguments, only_available=True) == 1.0


@pytest.mark.parametrize(
    "metric",
    [
        average_displacement_error_oracle,
        average_displacement_error_mean,
        final_displacement_error_oracle,
        final_displacement_error_mean,
    ],
)
def test_e4_without_any_available_step_there_is_no_error_to_average(metric):
    arguments = TRUTH, MODES, CONFIDENCES, np.zeros(3)
    assert metric(*arguments) == 0.0
    assert np.isnan(metric(*arguments, only_available=True))


def test_e5_rmse_of_a_likelihood_rounded_below_zero_is_zero():
    # three confidences of 1/3 that sum to a little more than 1, as rounding makes them
    confidences = np.full(3, 1 / 3, np.float32) * np.float32(1.000005)
    arguments = TRUTH, np.stack([TRUTH] * 3), confidences, np.ones(3)
    assert neg_multi_log_likelihood(*arguments) < 0
    assert rmse(*arguments) == 0.0


@pytest.mark.parametrize(
    ("distance_m", "expected"),
    [pytest.param(1.9, 0.0, id="below"), pytest.param(2.0, 0.0, id="at 2 m"), pytest.param(2.1, 1.0, id="beyond")],
)
def test_a_miss_is_further_than_2_m_at_the_end(distance_m, expected):
    pred = (TRUTH + np.array([[9.0, 9.0], [9.0, 9.0], [distance_m, 0.0]]))[None]
    assert miss_rate(TRUTH, pred, np.ones(1), np.ones(3)) == expected


def test_a_miss_needs_all_modes_and_looks_at_the_last_available_step():
    far = TRUTH + 10
    both = np.stack([far, TRUTH])
    assert miss_rate(TRUTH, both, np.array([0.9, 0.1]), np.ones(3)) == 0.0
    assert miss_rate(TRUTH, both, np.array([1.0, 0.0]), np.ones(3)) == 1.0  # a mode of confidence 0 only fills a file
    late = np.where(np.arange(3)[:, None] == 2, far, TRUTH)[None]
    assert miss_rate(TRUTH, late, np.ones(1), np.ones(3)) == 1.0
    assert miss_rate(TRUTH, late, np.ones(1), np.array([1.0, 1.0, 0.0])) == 0.0
    assert miss_rate(TRUTH, late, np.ones(1), np.ones(3), threshold_m=20.0) == 0.0
    assert np.isnan(miss_rate(TRUTH, late, np.ones(1), np.zeros(3)))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("dtype", "avails", "expected"),
    [
        pytest.param(np.float32, np.ones(3, np.float32), np.float32, id="float32"),
        pytest.param(np.float32, np.ones(3, np.bool_), np.float32, id="float32 with bools"),
        pytest.param(np.float64, np.ones(3, np.float64), np.float64, id="float64"),
        pytest.param(np.float32, np.ones(3, np.float64), np.float64, id="float64 among float32"),
        pytest.param(np.float32, np.ones(3, np.int64), np.float64, id="integers among float32"),
    ],
)
def test_results_have_the_dtype_of_the_arrays_as_in_1_5(metric, dtype, avails, expected):
    result = metric(TRUTH.astype(dtype), MODES.astype(dtype), CONFIDENCES.astype(dtype), avails)
    assert result.dtype == expected
    assert isinstance(result, (expected, np.ndarray))
    np.testing.assert_allclose(result, metric(TRUTH, MODES, CONFIDENCES, np.ones(3)), rtol=FLOAT32)


@pytest.mark.parametrize("metric", METRICS)
def test_float32_results_without_any_available_step(metric):
    arguments = TRUTH.astype(np.float32), MODES.astype(np.float32), CONFIDENCES.astype(np.float32)
    assert metric(*arguments, np.zeros(3, np.float32)).dtype == np.float32


def test_confidences_do_not_widen_displacements_which_do_not_use_them():
    result = average_displacement_error_mean(
        *(a.astype(np.float32) for a in (TRUTH, MODES)), CONFIDENCES, np.ones(3, bool)
    )
    assert result.dtype == np.float32


def test_integers_and_booleans_are_taken_and_nothing_is_changed():
    arguments = TRUTH.astype(int), MODES.astype(int), np.array([0, 1]), np.array([True, True, False])
    copies = [array.copy() for array in arguments]
    for array in arguments:
        array.setflags(write=False)
    for metric in METRICS:
        metric(*arguments)
    for array, copy in zip(arguments, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert average_displacement_error_oracle(*arguments) == 0.0


BAD = {
    "pred without modes": ({"pred": MODES[0]}, "pred has shape"),
    "other number of steps": ({"ground_truth": TRUTH[:2]}, "ground_truth has shape"),
    "other number of coordinates": ({"ground_truth": TRUTH[:, :1]}, "ground_truth has shape"),
    "other number of confidences": ({"confidences": np.ones(1)}, "confidences has shape"),
    "other number of availabilities": ({"avails": np.ones(2)}, "avails has shape"),
    "confidences that do not sum to 1": ({"confidences": np.array([0.5, 0.4])}, "sum to 0.9"),
    "a negative confidence": ({"confidences": np.array([1.5, -0.5])}, "at least 0"),
    "NaN in the truth": ({"ground_truth": TRUTH * np.nan}, "ground_truth holds NaN"),
    "infinity in the prediction": ({"pred": MODES + np.inf}, "pred holds NaN"),
    "NaN in the availabilities": ({"avails": np.full(3, np.nan)}, "avails holds NaN"),
    "no modes": ({"pred": MODES[:0], "confidences": np.ones(0)}, "at least one mode"),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_what_does_not_fit_is_an_assertion_error_that_names_it(metric, changes, message):
    arguments = {"ground_truth": TRUTH, "pred": MODES, "confidences": CONFIDENCES, "avails": np.ones(3)} | changes
    with pytest.raises(AssertionError, match=message) as raised:
        metric(*arguments.values())
    assert isinstance(raised.value, InvalidArgumentError)


@pytest.mark.parametrize("function", [metrics._average_displacement_error, metrics._final_displacement_error])
def test_modes_are_reduced_by_oracle_or_mean(function):
    arguments = TRUTH, MODES, CONFIDENCES, np.ones(3)
    assert function(*arguments, "oracle") < function(*arguments, "mean")
    with pytest.raises(ValueError, match="'oracle' or 'mean', got 'median'"):
        function(*arguments, "median")


def test_distance_to_a_reference_is_that_to_its_nearest_point():
    positions = torch.tensor([[0.0, 0.0], [3.0, 4.0], [10.0, 1.0]])
    reference = torch.tensor([[[0.0, 0.0], [10.0, 0.0]]])
    np.testing.assert_allclose(distance_to_reference_trajectory(positions, reference), [0, 5, 1])
    each = reference.repeat(3, 1, 1) + torch.tensor([[[0.0, 1.0]], [[0.0, 0.0]], [[0.0, -1.0]]])
    np.testing.assert_allclose(distance_to_reference_trajectory(positions, each), [1, 5, 2])


@pytest.mark.parametrize(
    ("positions", "reference"),
    [
        pytest.param((2,), (1, 5, 2), id="one position without batch"),
        pytest.param((4, 3), (1, 5, 2), id="three coordinates"),
        pytest.param((4, 2), (5, 2), id="trajectory without batch"),
        pytest.param((4, 2), (3, 5, 2), id="another batch"),
        pytest.param((4, 2), (1, 0, 2), id="no points"),
    ],
)
def test_wrong_shapes_of_a_reference_are_assertion_errors(positions, reference):
    with pytest.raises(AssertionError, match="has shape"):
        distance_to_reference_trajectory(torch.zeros(positions), torch.zeros(reference))

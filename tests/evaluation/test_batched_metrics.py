"""Metrics of batches of tensors equal those of one prediction."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation import metrics
from support.tolerances import FLOAT32

TOLERANCE = FLOAT32
NAMES = (
    "neg_multi_log_likelihood",
    "rmse",
    "prob_true_mode",
    "time_displace",
    "average_displacement_error_oracle",
    "average_displacement_error_mean",
    "final_displacement_error_oracle",
    "final_displacement_error_mean",
    "miss_rate",
)
WITH_OPTION = [name for name in NAMES if "displacement_error" in name]
DIFFERENTIABLE = [name for name in NAMES if name != "miss_rate"]


def make_batch(seed, size=5, num_modes=3, num_steps=6, scale=3.0):
    """A batch as NumPy arrays in which confidences may be 0, predictions exact and steps not available."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(scale=scale, size=(size, num_steps, 2))
    pred = truth[:, None] + rng.normal(scale=scale, size=(size, num_modes, num_steps, 2)) * rng.integers(
        0, 2, (size, num_modes, num_steps, 1)
    )
    confidences = rng.random((size, num_modes)) * rng.integers(0, 2, (size, num_modes))
    confidences[:, 0] += 0.1
    return truth, pred, confidences / confidences.sum(1, keepdims=True), rng.integers(0, 2, (size, num_steps)) * 1.0


def tensors(arrays):
    return [torch.from_numpy(array) for array in arrays]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 6),
    num_modes=st.integers(1, 4),
    num_steps=st.integers(1, 8),
    scale=st.sampled_from([0.0, 0.1, 5.0, 1e3]),
)
def test_a_batch_equals_one_by_one(name, seed, size, num_modes, num_steps, scale):
    batch = make_batch(seed, size, num_modes, num_steps, scale)
    expected = [getattr(metrics, name)(*row) for row in zip(*batch, strict=True)]
    actual = getattr(metrics, name)(*tensors(batch))
    np.testing.assert_allclose(actual.numpy(), np.array(expected), rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", WITH_OPTION)
@pytest.mark.parametrize("seed", range(5))
def test_the_option_of_available_steps_equals_one_by_one(name, seed):
    batch = make_batch(seed)
    batch[3][0] = 0.0  # nothing available: NaN
    expected = [getattr(metrics, name)(*row, only_available=True) for row in zip(*batch, strict=True)]
    actual = getattr(metrics, name)(*tensors(batch), only_available=True).numpy()
    assert np.isnan(actual[0])
    np.testing.assert_allclose(actual, np.array(expected), rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_finite_where_distances_and_confidences_are_zero(name, seed):
    truth, pred, confidences, avails = tensors(make_batch(seed))
    pred[0] = truth[0, None]  # exact
    pred.requires_grad_()
    confidences.requires_grad_()
    getattr(metrics, name)(truth, pred, confidences, avails).sum().backward()
    assert torch.isfinite(pred.grad).all()
    assert confidences.grad is None or torch.isfinite(confidences.grad).all()


def test_the_likelihood_has_the_gradient_that_its_formula_has():
    truth, pred, confidences, avails = tensors(make_batch(1, scale=0.5))
    confidences = confidences.abs() + 0.1
    confidences = (confidences / confidences.sum(1, keepdim=True)).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda p, c: metrics.neg_multi_log_likelihood(truth, p, c, avails), (pred.requires_grad_(), confidences)
    )


def test_steps_that_are_not_available_have_no_gradient():
    truth, pred, confidences, avails = tensors(make_batch(2))
    pred.requires_grad_()
    metrics.neg_multi_log_likelihood(truth, pred, confidences, avails).sum().backward()
    assert (pred.grad.abs().sum(-1)[~(avails > 0)[:, None].expand(-1, 3, -1)] == 0).all()
    assert pred.grad.abs().sum() > 0


def test_availabilities_may_be_bool_and_dtypes_stay():
    truth, pred, confidences, avails = (tensor.float() for tensor in tensors(make_batch(3)))
    for name in NAMES:
        function = getattr(metrics, name)
        as_float, as_bool = (function(truth, pred, confidences, values) for values in (avails, avails > 0))
        torch.testing.assert_close(as_float, as_bool, equal_nan=True)
        assert as_float.dtype == torch.float32, name


def test_nan_in_gives_nan_out():
    truth, pred, confidences, avails = tensors(make_batch(4))
    pred[1, 0, 0] = torch.nan
    avails[:, 0] = 1
    for name in ("neg_multi_log_likelihood", "rmse", "average_displacement_error_mean"):
        values = getattr(metrics, name)(truth, pred, confidences, avails)
        assert values.isnan().tolist() == [False, True, False, False, False], name


def test_modes_share_the_probability_where_squares_are_beyond_the_dtype():
    truth, pred, confidences, avails = (tensor.float() for tensor in tensors(make_batch(5)))
    pred[2], avails[2] = 1e30, 1
    probabilities = metrics.prob_true_mode(truth, pred, confidences, avails)
    np.testing.assert_allclose(probabilities[2], [1 / 3] * 3, rtol=TOLERANCE)
    assert (metrics.neg_multi_log_likelihood(truth, pred, confidences, avails) == torch.inf).tolist()[2]
    assert not probabilities.isnan().any()


def test_an_empty_batch_gives_no_values():
    batch = [torch.zeros(shape) for shape in ((0, 4, 2), (0, 3, 4, 2), (0, 3), (0, 4))]
    for name in NAMES:
        assert len(getattr(metrics, name)(*batch)) == 0, name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("place", "argument"), [*enumerate(("ground_truth", "pred", "confidences", "avails"))])
def test_wrong_shapes_are_named(name, place, argument):
    batch = tensors(make_batch(0))
    batch[place] = batch[place][:, 0] if argument == "pred" else batch[place][:, :1]
    with pytest.raises(InvalidArgumentError, match=f"{argument} has shape"):
        getattr(metrics, name)(*batch)

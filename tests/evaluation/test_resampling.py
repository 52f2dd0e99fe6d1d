"""Estimates and their intervals."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.resampling import Estimate, Resampling, estimate_of


def test_draws_are_those_of_the_seed_and_of_as_many_scenes():
    weights = Resampling(num_draws=50, seed=3).weights(7)
    assert weights.shape == (51, 7)
    assert_array_equal(weights[0], 1)
    assert_array_equal(weights.sum(axis=1), 7)
    assert_array_equal(weights, Resampling(num_draws=50, seed=3).weights(7))
    assert (weights != Resampling(num_draws=50, seed=4).weights(7)).any()


def test_an_interval_is_that_of_the_draws_around_the_value():
    """Draws 0 to 100 have their mean at 50: they are moved back by 10, and 10 % lie below 0."""
    values = np.concatenate([[40.0], np.arange(101.0)])
    estimates = [estimate_of(values, Resampling(level=level), num_scenes=9) for level in (0.8, 0.9)]
    assert_allclose([dataclasses.astuple(estimate) for estimate in estimates], [(40, 0, 80), (40, -5, 85)], atol=1e-12)
    assert estimate_of(values, Resampling(level=0.9), num_scenes=9, lowest=0.0, highest=84.0) == Estimate(
        40.0, 0.0, 84.0
    )


def test_the_interval_of_a_mean_is_that_of_its_standard_error():
    samples = np.random.default_rng(0).normal(5.0, 2.0, 400)
    weights = Resampling(num_draws=4000).weights(400)
    estimate = estimate_of(weights @ samples / 400, Resampling(num_draws=4000), num_scenes=400)
    assert_allclose([estimate.low, estimate.high], samples.mean() + np.array([-1, 1]) * 1.96 * 0.1, atol=0.02)


@pytest.mark.parametrize(
    ("values", "num_scenes", "expected"),
    [
        pytest.param([0.3, 0.3, 0.3], 1, (0.3, np.nan, np.nan), id="one scene"),
        pytest.param([np.nan, np.nan, np.nan], 5, (np.nan, np.nan, np.nan), id="nothing known"),
        pytest.param([0.1, 0.1, 0.1], 5, (0.1, 0.1, 0.1), id="no spread, to the bit"),
        pytest.param([0.0, np.nan, 0.0], 5, (0.0, 0.0, 0.0), id="some draws not known"),
        pytest.param([0.5, 9.0, 9.0, 0.5], 5, (0.5, 0.5, np.inf), id="the value is held"),
    ],
)
def test_estimates_at_the_edge(values, num_scenes, expected):
    estimate = estimate_of(np.array(values), Resampling(), num_scenes=num_scenes)
    if np.isinf(expected[2]):
        assert estimate.low <= estimate.value <= estimate.high
        return
    assert_array_equal([estimate.value, estimate.low, estimate.high], expected)


@pytest.mark.parametrize("options", [{"num_draws": 0}, {"level": 1.0}, {"level": 0.0}])
def test_draws_that_are_refused(options):
    with pytest.raises(InvalidArgumentError, match="num_draws must be at least 1 and level between 0 and 1"):
        Resampling(**options)

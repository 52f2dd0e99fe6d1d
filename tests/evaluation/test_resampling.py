"""Estimates and their intervals."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.resampling import Estimate, Resampling, adjust_by_holm, chance_of, estimate_of


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


def test_sums_are_those_of_the_weights():
    columns = np.random.default_rng(0).normal(size=(7, 3))
    resampling = Resampling(num_draws=2500)
    assert_allclose(resampling.sums(columns), resampling.weights(7) @ columns, atol=1e-12)


@pytest.mark.parametrize(
    ("draws", "num_different", "expected"),
    [
        pytest.param(np.arange(1.0, 100.0), 50, 0.02, id="all on one side: the value itself is a draw"),
        pytest.param(np.arange(-4.0, 95.0), 50, 0.12, id="five of 99 at or below 0"),
        pytest.param(np.arange(1.0, 100.0), 4, 0.125, id="four scenes are 2 / 2^4"),
        pytest.param(np.zeros(99), 0, 1.0, id="no difference"),
        pytest.param(np.full(99, np.nan), 3, np.nan, id="nothing known"),
    ],
)
def test_chances_of_differences(draws, num_different, expected):
    """The value is the mean of the draws, so that they stay where they are."""
    value = np.nan if np.isnan(draws).all() else draws.mean()
    found = [
        chance_of(np.concatenate([[sign * value], sign * draws]), num_different=num_different) for sign in (1.0, -1.0)
    ]
    assert_allclose(found, expected)


def test_draws_that_are_0_count_on_both_sides_whatever_the_seed():
    """Eight scenes are won and one is lost: one draw in fifty is a tie, which random rounding must not decide."""
    gains = np.repeat([1.0, -1.0, 0.0], [8, 1, 31])
    chances = [chance_of(Resampling(10_000, seed).weights(40) @ gains / 40, num_different=9) for seed in range(20)]
    assert min(chances) > 0.01
    assert max(chances) < 0.02


def test_chances_are_even_where_there_is_no_difference():
    """Of many samples without a difference about one in twenty has a p-value below 0.05."""
    generator, resampling = np.random.default_rng(0), Resampling(num_draws=400)
    weights = resampling.weights(40) / 40
    chances = np.array([chance_of(weights @ generator.normal(size=40), num_different=40) for _ in range(400)])
    assert 0.02 < (chances < 0.05).mean() < 0.09
    assert 0.42 < (chances < 0.5).mean() < 0.58


@pytest.mark.parametrize(
    ("chances", "expected"),
    [
        pytest.param([0.01, 0.04, 0.03], [0.03, 0.06, 0.06], id="none becomes less than one before it"),
        pytest.param([0.5, np.nan, 0.01], [0.5, np.nan, 0.02], id="what is not known is no question"),
        pytest.param([0.6, 0.7], [1.0, 1.0], id="1 at most"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_chances_are_adjusted_by_holm(chances, expected):
    assert_allclose(adjust_by_holm(np.array(chances)), expected)

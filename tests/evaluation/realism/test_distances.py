"""Jensen-Shannon and Wasserstein distances: known pairs, properties, and other implementations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.spatial.distance import jensenshannon

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.realism.report import jensen_shannon_distance, wasserstein_distance
from l5kit.evaluation.realism.traffic_counts import CELLS_PER_BIN, FEATURES, Feature

HALF_SHARED = np.sqrt(1.5 - 0.75 * np.log2(3))
"""Shares (1, 0) and (1/2, 1/2): m = (3/4, 1/4), KL(p, m) = log2(4/3), KL(q, m) = log2(2/3) / 2 + 1/2."""


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        pytest.param([1, 2, 1], [1, 2, 1], 0.0, id="equal"),
        pytest.param([1, 2, 1], [5, 10, 5], 0.0, id="equal shares"),
        pytest.param([3, 0], [0, 1], 1.0, id="nothing shared"),
        pytest.param([2, 0], [1, 1], HALF_SHARED, id="half shared"),
        pytest.param([0, 0], [1, 1], np.nan, id="no counts"),
    ],
)
def test_known_jensen_shannon_distances(first, second, distance):
    first, second = np.array(first), np.array(second)
    assert_allclose(jensen_shannon_distance(first, second), distance, atol=1e-12)
    assert_allclose(jensen_shannon_distance(second, first), distance, atol=1e-12)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        pytest.param([1, 2, 1], [2, 4, 2], 0.0, id="equal shares"),
        pytest.param([1, 0, 0], [0, 0, 1], 1.0, id="two cells on"),
        pytest.param([1, 1, 0], [0, 1, 1], 0.5, id="each one cell on"),
        pytest.param([4, 0, 0], [1, 1, 2], 0.5 * (0.25 * 1 + 0.5 * 2), id="spread"),
        pytest.param([0, 0, 0], [1, 1, 1], np.nan, id="no counts"),
    ],
)
def test_known_wasserstein_distances_of_cells_half_a_unit_wide(first, second, distance):
    first, second = np.array(first), np.array(second)
    assert_allclose(wasserstein_distance(first, second, cell_width=0.5), distance)
    assert_allclose(wasserstein_distance(second, first, cell_width=0.5), distance)


counts = hnp.arrays(np.int64, 12, elements=st.integers(0, 50)).filter(lambda values: values.sum() > 0)


@settings(max_examples=100, deadline=None)
@given(counts, counts)
def test_distances_are_those_of_scipy_and_symmetric(first, second):
    distance = jensen_shannon_distance(first, second)
    assert_allclose(distance, jensenshannon(first, second, base=2), atol=1e-7)
    assert distance == jensen_shannon_distance(second, first)
    middles = 0.25 * (np.arange(12) + 0.5)
    moved = wasserstein_distance(first, second, cell_width=0.25)
    assert_allclose(moved, stats.wasserstein_distance(middles, middles, first, second), atol=1e-12)
    assert moved == wasserstein_distance(second, first, cell_width=0.25)


@settings(max_examples=50, deadline=None)
@given(counts, st.integers(0, 20))
def test_a_shift_is_the_wasserstein_distance(values, cells):
    before, after = np.pad(values, (0, 20)), np.pad(values, (cells, 20 - cells))
    assert_allclose(wasserstein_distance(before, after, cell_width=0.1), 0.1 * cells, atol=1e-12)


def test_many_at_once_are_as_each_alone():
    first, second = np.random.default_rng(1).integers(0, 9, (2, 5, 7))
    for function in (jensen_shannon_distance, lambda p, q: wasserstein_distance(p, q, cell_width=2.0)):
        assert_array_equal(function(first, second), [function(p, q) for p, q in zip(first, second, strict=True)])


def test_counts_of_other_shapes_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"the same shape"):
        jensen_shannon_distance(np.ones(3), np.ones(4))


@pytest.mark.parametrize(
    ("value", "cell"), [(-9.0, 0), (0.0, 0), (0.09, 0), (0.11, 1), (1.99, 19), (2.01, 20), (4.0, 39), (np.inf, 39)]
)
def test_cells_of_a_range_from_0_to_4_in_two_bins(value, cell):
    assert Feature("speeds_mps", "m/s", 0.0, 4.0, 2).cells_of(np.array([value])) == cell


def test_wasserstein_distances_of_cells_are_those_of_values_to_a_cell():
    rng = np.random.default_rng(3)
    for feature in FEATURES:
        middle, span = 0.5 * (feature.lowest + feature.highest), feature.highest - feature.lowest
        values = middle + span * rng.normal([0.0, 0.05], [0.1, 0.07], (300, 2)).T
        cells = [np.bincount(feature.cells_of(part), minlength=feature.num_cells) for part in values]
        found = wasserstein_distance(*cells, cell_width=feature.cell_width)
        inside = np.clip(values, feature.lowest, feature.highest)
        assert abs(found - stats.wasserstein_distance(*inside)) <= feature.cell_width
        assert feature.num_cells == CELLS_PER_BIN * feature.num_bins


@pytest.mark.parametrize(("lowest", "highest", "num_bins"), [(1.0, 1.0, 3), (2.0, 1.0, 3), (0.0, 1.0, 0)])
def test_ranges_that_are_refused(lowest, highest, num_bins):
    with pytest.raises(InvalidArgumentError, match="lowest must be below highest"):
        Feature("speeds_mps", "m/s", lowest, highest, num_bins)

"""Samples that evaluations take."""

import pytest

from l5kit.workflows.samples import spread_indices


@pytest.mark.parametrize(
    ("num_samples", "most", "expected"),
    [
        pytest.param(4, None, [0, 1, 2, 3], id="all"),
        pytest.param(4, 9, [0, 1, 2, 3], id="no more than there are"),
        pytest.param(12, 3, [2, 6, 10], id="the middles of thirds"),
        pytest.param(5, 2, [1, 3], id="parts of different sizes"),
        pytest.param(5, 1, [2], id="one"),
        pytest.param(0, 3, [], id="none"),
    ],
)
def test_samples_are_spread_evenly(num_samples, most, expected):
    assert spread_indices(num_samples, most).tolist() == expected

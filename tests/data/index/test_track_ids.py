"""Track ids: numbers of tracks, as sorting gives them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.data.index.track_ids import number_tracks
from l5kit.errors import InvalidArgumentError


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param([], id="none"),
        pytest.param([7], id="one"),
        pytest.param([9, 2, 9, 2**64 - 1, 0, 2], id="any order, highest and lowest"),
        pytest.param(np.random.default_rng(0).integers(0, 2**63, 5000), id="more than there is room for at first"),
        pytest.param(np.random.default_rng(1).integers(0, 90, 5000) * 2**40, id="equal lower bits"),
    ],
)
def test_tracks_are_numbered_by_their_ids(ids):
    ids = np.array(ids, np.uint64)
    found, numbers = number_tracks(ids)
    expected, expected_numbers = np.unique(ids, return_inverse=True)
    assert_array_equal(found, expected)
    assert_array_equal(numbers, expected_numbers)
    assert (found.dtype, numbers.dtype) == (np.uint64, np.int64)


def test_columns_of_records_are_numbered_too():
    records = np.zeros(4, [("a", "u1"), ("track_id", "u8")])
    records["track_id"] = 5, 3, 5, 4
    assert number_tracks(records["track_id"])[1].tolist() == [2, 0, 2, 1]


@pytest.mark.parametrize("ids", [np.zeros(3, np.int64), np.zeros((2, 2), np.uint64)], ids=["type", "shape"])
def test_other_ids_are_refused(ids):
    with pytest.raises(InvalidArgumentError, match="uint64"):
        number_tracks(ids)

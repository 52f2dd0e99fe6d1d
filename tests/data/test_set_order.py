"""Track ids come in the order of a Python set, which L5Kit 1.5 kept them in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.data.filter import get_other_agents_ids
from l5kit.data.set_order import set_table_size, sort_as_set

SMALL_IDS = st.lists(st.integers(0, 400), unique=True, max_size=120)
ANY_IDS = st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=60)
MULTIPLES = st.lists(st.integers(0, 60).map(lambda k: 1024 * k), unique=True, max_size=60)


def ordered(ids: list[int]) -> list[int]:
    array = np.array(ids, dtype=np.uint64)
    rows = np.arange(len(array))
    sort_as_set(array, rows, np.empty(2 * set_table_size(len(array)), np.int64))
    return [int(track_id) for track_id in array[rows]]


@pytest.mark.parametrize(
    ("inserted", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([7], [7], id="one"),
        pytest.param([5, 300, 2, 77, 1000, 33], [33, 2, 5, 1000, 300, 77], id="the example of 1.5"),
    ],
)
def test_known_orders(inserted: list[int], expected: list[int]) -> None:
    assert ordered(inserted) == expected


@given(st.one_of(SMALL_IDS, ANY_IDS, MULTIPLES))
def test_the_order_is_that_of_this_python(ids: list[int]) -> None:
    in_set = get_other_agents_ids([np.uint64(track_id) for track_id in ids], [], None, len(ids))
    assert ordered(ids) == [int(track_id) for track_id in in_set]


def test_large_sets_grow_as_python_has_them() -> None:
    ids = np.random.default_rng(3).permutation(200_000)[:60_000].tolist()
    in_set: set[np.uint64] = set()
    for track_id in ids:
        in_set.add(np.uint64(track_id))
    assert ordered(ids) == [int(track_id) for track_id in in_set]

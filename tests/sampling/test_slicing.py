"""Slices of the past and of the future of a frame."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.errors import L5KitError
from l5kit.sampling import get_future_slice, get_history_slice

TABLE = [
    ((10, 2, 3), (7, 3, -3), (10, 3, -3), (13, 17, 3)),
    ((10, 5, 3), (7, 0, -3), (10, 0, -3), (13, 26, 3)),
    ((9, 5, 3), (6, None, -3), (9, None, -3), (12, 25, 3)),
    ((3, 2, 3), (0, None, -3), (3, None, -3), (6, 10, 3)),
    ((0, 2, 1), (0, 0, -1), (0, None, -1), (1, 3, 1)),
    ((2, 2, 3), (0, 0, -3), (2, 0, -3), (5, 9, 3)),
]


@pytest.mark.parametrize(
    ("arguments", "history", "history_with_current", "future"), TABLE, ids=[str(row[0]) for row in TABLE]
)
def test_slices_of_the_table(arguments: Any, history: Any, history_with_current: Any, future: Any) -> None:
    assert get_history_slice(*arguments) == slice(*history)
    assert get_history_slice(*arguments, include_current_state=True) == slice(*history_with_current)
    assert get_future_slice(*arguments) == slice(*future)


@given(
    length=st.integers(1, 60),
    data=st.data(),
    num_states=st.integers(0, 20),
    step=st.integers(1, 7),
    with_current=st.booleans(),
)
def test_slices_pick_what_counting_picks(
    length: int, data: st.DataObject, num_states: int, step: int, with_current: bool
) -> None:
    index = data.draw(st.integers(0, length - 1))
    frames = np.arange(length)
    past = [index - k * step for k in range(0 if with_current else 1, num_states + 1)]
    future = [index + k * step for k in range(1, num_states + 1)]
    assert frames[get_history_slice(index, num_states, step, with_current)].tolist() == [i for i in past if i >= 0]
    assert frames[get_future_slice(index, num_states, step)].tolist() == [i for i in future if i < length]


@pytest.mark.parametrize("step", [0, -1])
@pytest.mark.parametrize("get_slice", [get_history_slice, get_future_slice])
def test_a_step_that_is_not_positive_is_refused(get_slice: Any, step: int) -> None:
    with pytest.raises(IndexError, match=f"step_size must be 1 or more, got {step}") as raised:
        get_slice(10, 2, step)
    assert isinstance(raised.value, L5KitError)

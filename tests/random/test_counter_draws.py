"""Numbers that depend on their keys only."""

import numpy as np
import pytest

from l5kit.errors import InvalidArgumentError
from l5kit.random.counter_draws import counter_uniforms


def test_a_number_is_the_same_whatever_is_drawn_beside_it():
    together = counter_uniforms(3, np.arange(4)[:, None], np.arange(-2, 5))
    assert together.shape == (4, 7)
    assert counter_uniforms(3, 2, 4) == together[2, 6]
    assert counter_uniforms(3, np.array([2]), np.array([-1]))[0] == together[2, 1]


def test_seed_keys_and_their_order_count():
    numbers = [counter_uniforms(*keys) for keys in ((0, 1, 2), (1, 1, 2), (0, 2, 1), (0, 1), (0, 1, -2), (0, 2**40, 2))]
    assert len({float(number) for number in numbers}) == len(numbers)


def test_numbers_are_spread_evenly():
    numbers = counter_uniforms(0, np.arange(100)[:, None], np.arange(1000)).ravel()
    assert ((numbers >= 0) & (numbers < 1)).all()
    counts = np.bincount((numbers * 20).astype(int), minlength=20)
    assert abs(counts - 5000).max() < 5 * np.sqrt(5000)
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.02


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(InvalidArgumentError, match=f"seed is {seed}"):
        counter_uniforms(seed, 1)

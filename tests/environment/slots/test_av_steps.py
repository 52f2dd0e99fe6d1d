"""Kernels of AVs do one item: a slot with the number -1 stays as it is, and going slots are chosen one by one."""

import numpy as np
import pytest

pytest.importorskip("gymnasium")
from l5kit.environment.episode_roads import AvArrays
from l5kit.environment.slots.av_steps import NUM_COLUMNS, choose_going, set_avs

CHOOSE, SET = choose_going.py_func, set_avs.py_func  # in Python, as a loop over items shows what each of them does


def three_avs():
    """AVs of three slots, at 1, 2 and 3 m with motions 10, 20 and 30."""
    boxes = np.zeros((3, 5))
    boxes[:, 0] = [1.0, 2.0, 3.0]
    motions = np.repeat([[10.0], [20.0], [30.0]], 4, axis=1)
    return AvArrays(boxes, np.zeros((3, 2)), motions, np.zeros((3, 4)))


@pytest.mark.parametrize("begins", [True, False])
def test_a_slot_of_minus_one_keeps_its_av(begins):
    avs, is_new = three_avs(), np.array([False, True, True])
    states = np.zeros((3, NUM_COLUMNS))
    states[:, 0], states[:, 3:] = [7.0, 8.0, 9.0], [[70.0], [80.0], [90.0]]
    for item in range(3):
        SET(item, (np.array([1, -1, 0]), states, begins, tuple(avs), is_new))
    assert avs.boxes[:, 0].tolist() == [9.0, 7.0, 3.0]
    assert avs.motions[:, 0].tolist() == [90.0, 70.0, 30.0]
    # where an episode begins nothing was before; else it is the motion of the last frame
    assert avs.motions_before[:, 0].tolist() == ([90.0, 70.0, 0.0] if begins else [10.0, 20.0, 0.0])
    assert is_new.tolist() == [begins, begins, True]


@pytest.mark.parametrize(("begins", "going"), [(True, [0, 1, -1, -1]), (False, [0, -1, -1, -1])])
def test_slots_go_on_that_stand_at_zero_and_new_ones_if_they_may(begins, going):
    states, is_new, found = np.array([0, 0, 1, -1]), np.array([False, True, False, True]), np.full(4, 9)
    for item in range(4):
        CHOOSE(item, (states, is_new, begins, found))
    assert found.tolist() == going

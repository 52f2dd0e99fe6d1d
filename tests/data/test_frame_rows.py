"""Rows of frames, and what is looked up among them."""

import numpy as np
import pytest

from l5kit.data.frame_rows import expand_ranges, find_pairs, parts_of_rows


@pytest.mark.parametrize(("starts", "parts"), [([0, 2, 2, 5], [0, 0, 2, 2, 2]), ([3, 4], [0]), ([0], [])])
def test_each_row_has_the_part_that_it_is_in(starts, parts):
    assert parts_of_rows(np.array(starts)).tolist() == parts


def test_ranges_are_counted_out_one_after_the_other():
    assert expand_ranges(np.array([5, 2, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]


def test_pairs_have_the_row_of_both():
    frames_of_rows, ids_of_rows = np.array([0, 0, 1, 2, 2]), np.array([7, 3, 7, 9, 3])
    every = np.array([(frame, each) for frame in range(3) for each in (0, 3, 7, 8, 9, 10)])
    rows = find_pairs(every[:, 0], every[:, 1], frames_of_rows, ids_of_rows)
    known = {pair: row for row, pair in enumerate(zip(frames_of_rows.tolist(), ids_of_rows.tolist(), strict=True))}
    assert rows.tolist() == [known.get((frame, each), -1) for frame, each in every.tolist()]


def test_no_pair_is_found_among_no_rows():
    none = np.empty(0, np.int64)
    assert find_pairs(np.array([0, 4]), np.array([1, 2]), none, none).tolist() == [-1, -1]
    assert find_pairs(none, none, np.array([0]), np.array([1])).tolist() == []

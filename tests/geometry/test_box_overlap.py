"""The exact test whether two boxes overlap."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.geometry.box_overlap import boxes_overlap, overlapping

UNIT = np.array([0.0, 0.0, 0.0, 4.0, 2.0])


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ([3.9, 0, 0, 4, 2], True),
        ([4.1, 0, 0, 4, 2], False),
        ([0, 1.9, 0, 4, 2], True),
        ([0, 2.1, 0, 4, 2], False),
        ([0, 2.9, np.pi / 2, 4, 2], True),
        ([0, 3.1, np.pi / 2, 4, 2], False),
        ([0.1, 0.1, 0.7, 0.2, 0.2], True),
        ([2.3, 1.3, np.pi / 4, 1.0, 1.0], True),
        ([2.4, 1.4, np.pi / 4, 1.0, 1.0], False),
    ],
    ids=["end", "past the end", "side", "past the side", "across", "past across", "inside", "corner", "past corner"],
)
def test_known_pairs(other: list[float], expected: bool) -> None:
    assert boxes_overlap(UNIT, np.array(other, float)) is expected
    assert boxes_overlap(np.array(other, float), UNIT) is expected


numbers = st.floats(-4.0, 4.0)
sizes = st.floats(0.3, 6.0)
boxes = st.tuples(numbers, numbers, numbers, sizes, sizes).map(np.array)


def _area_shared(a: np.ndarray, b: np.ndarray) -> float:
    corners = []
    for x, y, yaw, length, width in (a, b):
        local = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * [length / 2, width / 2]
        turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
        corners.append((local @ turn + [x, y]).astype(np.float32))
    return float(cv2.intersectConvexConvex(*corners)[0])


@settings(max_examples=150, deadline=None)
@given(boxes, boxes)
def test_agrees_with_the_area_of_the_intersection(a: np.ndarray, b: np.ndarray) -> None:
    area = _area_shared(a, b)
    if area > 1e-2:
        assert boxes_overlap(a, b)
    grown = a + [0, 0, 0, 0.02, 0.02]
    if not boxes_overlap(grown, b):
        assert area < 1e-2


def test_marks_both_of_a_pair_and_nobody_else() -> None:
    three = np.stack([UNIT, UNIT + [3, 0, 0, 0, 0], UNIT + [30, 0, 0, 0, 0]])
    assert overlapping(three).tolist() == [True, True, False]
    assert overlapping(np.zeros((0, 5))).shape == (0,)

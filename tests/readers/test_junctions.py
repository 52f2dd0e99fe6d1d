"""Lanes in junctions of sources without this fact: lanes that part, merge or cross."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.readers.lane_groups import with_junctions
from l5kit.readers.source_map import SourceLane


def lane(name, *points_m, **fields):
    line_m = np.array([(*point, 0.0)[:3] for point in points_m], float)
    return SourceLane(name, line_m, **fields)


def found(lanes):
    """The lanes in junctions of a map; lanes list their successors."""
    lanes = {each.lane_id: each for each in lanes}
    inside = with_junctions(lanes, {name: list(each.successors) for name, each in lanes.items()})
    assert list(inside) == list(lanes)
    return {name for name, each in inside.items() if each.is_in_junction}


WEST, EAST = lane("w", (-20, 0), (0, 0), successors=("a", "b")), lane("e", (20, 0), (40, 0))
ACROSS = lane("x", (10, -10), (10, 10))


@pytest.mark.parametrize(
    ("lanes", "expected"),
    [
        pytest.param([WEST, lane("a", (0, 0), (20, 0)), lane("b", (0, 0), (9, 9))], {"a", "b"}, id="part"),
        pytest.param(
            [WEST, lane("a", (0, 0), (20, 0), left_neighbour="b"), lane("b", (0, 0), (5, 3), (20, 3))],
            set(),
            id="widens",
        ),
        pytest.param(
            [lane("a", (0, 0), (20, 0), successors=("e",)), lane("b", (9, 9), (20, 0), successors=("e",)), EAST],
            {"a", "b"},
            id="merge",
        ),
        pytest.param(
            [
                lane("a", (0, 0), (20, 0), successors=("e",)),
                lane("b", (0, 3), (20, 0), successors=("e",), right_neighbour="a"),
                EAST,
            ],
            set(),
            id="narrows",
        ),
        pytest.param([lane("a", (0, 0), (20, 0)), ACROSS], {"a", "x"}, id="cross"),
        pytest.param([lane("a", (0, 0), (10, 0), (20, 0)), ACROSS], {"a", "x"}, id="cross at a point of the line"),
        pytest.param([lane("a", (0, 0, 5), (20, 0, 5)), ACROSS], set(), id="a bridge"),
        pytest.param([lane("a", (0, 0), (9, 0)), ACROSS], set(), id="ends before"),
        pytest.param([lane("a", (0, 0), (10.1, 0), successors=("x",)), ACROSS], set(), id="overlaps with the next"),
        pytest.param([lane("a", (0, 0), (20, 0), is_in_junction=False), ACROSS], {"x"}, id="told to be in none"),
        pytest.param(
            [lane("a", (0, 0), (20, 0)), ACROSS, lane("c", (0, 50), (9, 50), is_in_junction=True)], {"c"}, id="one told"
        ),
        pytest.param([lane("a", (0, 0), (20, 0))], set(), id="one lane"),
        pytest.param([], set(), id="none"),
    ],
)
def test_lanes_in_junctions(lanes, expected):
    assert found(lanes) == expected


PLACES = st.tuples(st.integers(0, 60), st.integers(0, 60))


@given(st.lists(st.lists(PLACES, min_size=2, max_size=4, unique=True), min_size=2, max_size=6))
@settings(max_examples=60, deadline=None)
def test_lanes_that_cross_are_found_wherever_they_lie(lines):
    """Beside a plain loop over all pairs of edges, in whole numbers; ends that touch are left out of both."""
    lines = [np.array(line, int) for line in lines]

    def side(start, end, point):
        (x, y), (u, v) = end - start, point - start
        return np.sign(x * v - y * u)

    expected, touches = set(), False
    for first in range(len(lines)):
        for second in range(first):
            for a, b in zip(lines[first], lines[first][1:], strict=False):
                for c, d in zip(lines[second], lines[second][1:], strict=False):
                    sides = side(a, b, c), side(a, b, d), side(c, d, a), side(c, d, b)
                    touches |= 0 in sides
                    if sides[0] * sides[1] < 0 and sides[2] * sides[3] < 0:
                        expected |= {str(first), str(second)}
    inside = found([lane(str(number), *line.tolist()) for number, line in enumerate(lines)])
    assert expected <= inside
    assert touches or inside == expected

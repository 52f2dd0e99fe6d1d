"""Boxes that meet polygons: cases by hand, and what shapely says."""

import numpy as np
import pytest
from shapely import Polygon, affinity, box

from l5kit.geometry.box_overlap import box_meets_polygon

SQUARE = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]])

CASES = {
    "within": ((5, 5, 0.3, 4, 2), True),
    "around it": ((5, 5, 0.3, 40, 30), True),
    "across an edge": ((0, 5, 0, 4, 2), True),
    "across all of it": ((5, 5, 0, 30, 2), True),
    "a corner of the box": ((-1.9, 5, 0, 4, 2), True),
    "a corner of the polygon": ((-1, -1, np.pi / 4, 4, 4), True),
    "touches an edge": ((-2, 5, 0, 4, 2), False),
    "beside it": ((-2.001, 5, 0, 4, 2), False),
    "beside a corner": ((-1.5, -1.5, np.pi / 4, 4, 4), False),
    "far away": ((100, 5, 0, 4, 2), False),
}


@pytest.mark.parametrize(("row", "meets"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("turned", [False, True], ids=["anticlockwise", "clockwise"])
def test_a_box_and_a_square(row, meets, turned):
    polygon = SQUARE[::-1].copy() if turned else SQUARE
    assert box_meets_polygon(np.array(row, float), polygon) == meets


def test_what_shapely_says():
    """Star-shaped polygons, of which boxes meet about half."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(500):
        turns = np.sort(rng.uniform(0, 2 * np.pi, 9))
        polygon = rng.uniform(3, 10, (9, 1)) * np.stack([np.cos(turns), np.sin(turns)], axis=-1)
        row = np.array([*rng.uniform(-10, 10, 2), rng.uniform(-4, 4), *rng.uniform(0.5, 6, 2)])
        shape = box(-row[3] / 2, -row[4] / 2, row[3] / 2, row[4] / 2)
        shape = affinity.translate(affinity.rotate(shape, row[2], origin=(0, 0), use_radians=True), row[0], row[1])
        area_m2 = shape.intersection(Polygon(polygon).buffer(0)).area
        found.append(box_meets_polygon(row, polygon))
        assert found[-1] == (area_m2 > 1e-9)
    assert 100 < sum(found) < 400

"""Outlines of the map: selection, order and colour."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.data.map.lane_lights import LaneLights
from l5kit.errors import InvalidArgumentError
from l5kit.rasterization.draw_list import CLOSED_LINE, FILLED, OPEN_LINE, ShapeList
from l5kit.rasterization.semantic_rasterizer import (
    CROSSWALK_COLOR,
    ROAD_COLOR,
    ActiveFaces,
    MapOutlines,
    NearElements,
)

SIZE = (8, 6)
DARK, GREEN, YELLOW, RED = range(4)


def make_lane(left: float, right: float) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the boundaries of a lane along x at two values of y."""
    return [(1.0, left), (7.0, left)], [(1.0, right), (7.0, right)]


def make_outlines(*lanes: tuple[float, float], crosswalks: tuple[np.ndarray, ...] = ()) -> MapOutlines:
    lines = np.array([make_lane(*lane) for lane in lanes]).reshape(-1, 2, 2, 2)
    return MapOutlines.stack(lines[:, 0], lines[:, 1], crosswalks)


def make_lights(*lanes_of_faces: list[int], ranks: tuple[int, ...]) -> LaneLights:
    """Return faces with the given ranks (1 green, 2 yellow, 3 red) and the lanes that each controls."""
    starts = np.cumsum([0, *(len(lanes) for lanes in lanes_of_faces)])
    rows = np.array([lane for lanes in lanes_of_faces for lane in lanes], dtype=np.int64)
    return LaneLights(np.arange(len(ranks), dtype=np.uint32)[:, None], np.array(ranks), starts, rows)


def list_shapes(
    outlines: MapOutlines,
    rows: list[list[int]],
    lights: LaneLights | None = None,
    active: list[list[int]] | None = None,
) -> ShapeList:
    active = active or [[] for _ in rows]
    elements = np.array([row for window in rows for row in window], dtype=np.int64)
    num_points = np.diff(outlines.line_starts[outlines.element_starts])[elements].sum()
    return outlines.list_shapes(
        NearElements(elements, np.cumsum([0, *(len(window) for window in rows)]), int(num_points)),
        np.stack([np.eye(3)] * len(rows)),
        SIZE,
        lights=lights or make_lights(ranks=()),
        active=ActiveFaces(
            np.array([face for window in active for face in window], dtype=np.int64),
            np.cumsum([0, *(len(window) for window in active)]),
        ),
        colors=np.zeros((6, 3), np.uint8),
    )


def describe(shapes: ShapeList, window: int = 0) -> list[tuple[int, int, list[float]]]:
    """Return kind, colour and rows of the points of each shape."""
    return [
        (int(kind), int(color), (shapes.points[slice(*shapes.contours[contour]), 1] / 512).tolist())
        for kind, contour, _, color, _ in shapes.shapes[shapes.starts[window] : shapes.starts[window + 1]]
    ]


def test_lanes_are_filled_before_lines_and_crosswalks_come_last() -> None:
    crosswalk = np.array([(1.0, 0.5, 9.0), (2.0, 0.5, 9.0), (2.0, 5.0, 9.0)])
    shapes = list_shapes(make_outlines((1, 2), (3, 4), crosswalks=(crosswalk,)), [[0, 1, 2]])
    assert describe(shapes) == [
        (FILLED, ROAD_COLOR, [1, 1, 2, 2]),
        (FILLED, ROAD_COLOR, [3, 3, 4, 4]),
        (OPEN_LINE, DARK, [1, 1]),
        (OPEN_LINE, DARK, [2, 2]),
        (OPEN_LINE, DARK, [3, 3]),
        (OPEN_LINE, DARK, [4, 4]),
        (CLOSED_LINE, CROSSWALK_COLOR, [0.5, 0.5, 5.0]),
    ]
    assert_array_equal(shapes.points[:4], np.array([(1, 1), (7, 1), (7, 2), (1, 2)]) * 512)  # around the first lane


def test_colors_come_in_the_order_of_the_lanes_in_range_even_of_lanes_out_of_the_picture() -> None:
    outlines = make_outlines((100, 101), (1, 2), (3, 4), (5, 5.5))
    lights = make_lights([0, 3], [2], ranks=(RED, GREEN))
    shapes = list_shapes(outlines, [[0, 1, 2, 3], [1, 2, 3]], lights, [[0, 1], [0, 1]])
    lines = [[shape[1:] for shape in describe(shapes, window) if shape[0] == OPEN_LINE] for window in (0, 1)]
    red, dark, green = [
        [(color, [row, row]) for row in rows] for color, rows in ((RED, [5, 5.5]), (DARK, [1, 2]), (GREEN, [3, 4]))
    ]
    assert lines == [red + dark + green, dark + green + red]


def test_of_several_active_faces_the_highest_rank_counts_in_its_window_only() -> None:
    outlines, lights = make_outlines((1, 2)), make_lights([0], [0], [0], ranks=(GREEN, RED, YELLOW))
    active = [[0], [1, 0], [2, 0, 2], [], [0, 1, 2]]
    shapes = list_shapes(outlines, [[0]] * 5, lights, active)
    assert [describe(shapes, window)[1][1] for window in range(5)] == [GREEN, RED, YELLOW, DARK, RED]


@pytest.mark.parametrize(
    ("line", "is_drawn"),
    [
        ([(-0.5, 1), (-0.5, 5)], True),
        ([(8.2, 1), (8.2, 5)], True),
        ([(1, -0.5), (7, -0.5)], True),
        ([(1, 6), (7, 6)], True),
        ([(-3, 1), (-3, 5)], False),
        ([(11, 1), (11, 5)], False),
        ([(1, -3), (7, -3)], False),
        ([(1, 9), (7, 9)], False),
    ],
)
def test_outlines_half_a_pixel_outside_the_picture_are_drawn_and_three_pixels_outside_not(
    line: list[tuple[float, float]], is_drawn: bool
) -> None:
    assert len(list_shapes(make_outlines(crosswalks=(np.array(line, dtype=float),)), [[0]]).shapes) == is_drawn
    points = np.array([line], dtype=float)
    lane = MapOutlines.stack(points, points, ())
    assert len(list_shapes(lane, [[0]]).shapes) == 3 * is_drawn


def test_a_lane_around_the_picture_is_filled_without_its_lines() -> None:
    assert describe(list_shapes(make_outlines((-10, 20)), [[0]])) == [(FILLED, ROAD_COLOR, [-10, -10, 20, 20])]


def test_windows_without_elements_have_no_shapes() -> None:
    shapes = list_shapes(make_outlines((1, 2)), [[], [0], []])
    assert shapes.starts.tolist() == [0, 0, 3, 3]


def test_outlines_are_read_only_and_check_their_shapes() -> None:
    outlines = make_outlines((1, 2))
    for array in (outlines.vertices_m, outlines.line_starts, outlines.element_starts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    line_starts, element_starts = np.array([0, 2, 4]), np.array([0, 2])
    for vertices_m, lines, elements in (
        (np.zeros((3, 2)), line_starts, element_starts),
        (np.zeros((4, 2)), line_starts, np.array([0, 1])),
    ):
        with pytest.raises(InvalidArgumentError, match="do not fit"):
            MapOutlines(vertices_m, lines, elements, 1)

"""Boxes, lines and maps from above, in pictures small enough to count pixels."""

import numpy as np
import pytest

from l5kit.visualization.birdseye.canvas import Canvas, Stroke, View
from l5kit.visualization.birdseye.painting import (
    Boxes,
    MapPainter,
    paint_boxes,
    paint_ghosts,
    paint_plan,
    round_outlines,
)
from l5kit.visualization.birdseye.tones import EGO_RGB, LIGHT_RGB, tones_of
from l5kit.visualization.map_shapes import MapShapes, Outlines

TONES = tones_of("light")
CAR_RGB = (31, 119, 180)
VIEW = View.north_up(np.zeros(2), 10.0, (300, 200))  # 30 m x 20 m around the origin


def count(picture, color):
    return int((picture == color).all(axis=-1).sum())


def outlines_of(*shapes):
    points = np.concatenate([np.asarray(shape, np.float64) for shape in shapes]) if shapes else np.zeros((0, 2))
    starts = np.cumsum([0, *map(len, shapes)])
    bounds = [[np.min(shape, axis=0), np.max(shape, axis=0)] for shape in shapes]
    return Outlines(starts, points, np.array(bounds, np.float64).reshape(-1, 2, 2))


def test_a_view_has_north_up_and_its_middle_where_it_should_be():
    assert VIEW.px_per_m == pytest.approx(10)
    np.testing.assert_allclose(VIEW.center_m, 0, atol=1e-12)
    np.testing.assert_allclose(VIEW.points_px(np.array([[1.0, 2.0]])) / 16, [[159.5, 79.5]])
    assert VIEW.points_px(np.zeros((0, 2))).shape == (0, 2)
    assert np.abs(VIEW.points_px(np.array([[np.nan, 1e30]]))).max() <= 20_000 * 16


@pytest.mark.parametrize("yaw", [0.0, 1.0, -2.5])
def test_outlines_are_as_long_and_wide_as_boxes_and_turned_with_them(yaw):
    (outline,) = round_outlines(np.array([[3.0, 4.0, yaw, 4.0, 2.0]]), px_per_m=10)
    turned = (outline - [3, 4]) @ np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    np.testing.assert_allclose(np.abs(turned).max(axis=0), [2, 1], atol=1e-9)
    assert np.linalg.norm(turned, axis=1).max() < np.hypot(2, 1) - 0.1  # corners are round
    (square,) = round_outlines(np.array([[3.0, 4.0, yaw, 4.0, 2.0]]), px_per_m=2)
    assert square.shape == (4, 2)


def boxes_with_car_at(x_m, y_m):
    return Boxes.with_ego([0, 0, 0, 4.5, 2.0], [[x_m, y_m, np.pi / 2, 4.5, 2.0]], [CAR_RGB])


def test_boxes_apart_are_opaque_and_the_av_has_a_rim():
    canvas = Canvas(VIEW, TONES.ground)
    paint_boxes(canvas, boxes_with_car_at(8, 0), TONES)
    assert count(canvas.picture, EGO_RGB) > 400
    assert count(canvas.picture, CAR_RGB) > 400
    assert tuple(canvas.picture[98, 138]) == EGO_RGB
    assert tuple(canvas.picture[87, 150]) == TONES.mark
    assert tuple(canvas.picture[98, 230 + 12]) == TONES.ground  # next to the car


def test_of_boxes_that_overlap_both_are_seen():
    """The car is across the front of the AV: where they overlap, the picture has neither colour."""
    canvas = Canvas(VIEW, TONES.ground)
    paint_boxes(canvas, boxes_with_car_at(2, 0), TONES)
    common = canvas.picture[94:106, 160:171].reshape(-1, 3).astype(int)
    assert np.abs(common - EGO_RGB).max(axis=1).min() > 10
    assert np.abs(common - CAR_RGB).max(axis=1).min() > 10
    edge = canvas.picture[92:108, 159:161].astype(int)
    is_blue = (edge[..., 2] > edge[..., 0] + 10).any(axis=1)
    assert is_blue.mean() > 0.5  # the edge of the car continues over the AV, except at its mark

    covered = Canvas(VIEW, TONES.ground)
    paint_boxes(covered, boxes_with_car_at(2, 0), TONES, shows_overlaps=False)
    assert tuple(covered.picture[98, 138]) == EGO_RGB


def test_what_is_not_finite_is_left_out():
    boxes = Boxes.with_ego([np.nan, 0, 0, 4, 2], [[0, 0, np.nan, 4, 2], [1, 1, 0, 4, 2]], [CAR_RGB, CAR_RGB])
    assert len(boxes.boxes) == 1
    assert not boxes.has_ego
    canvas = Canvas(VIEW, TONES.ground)
    paint_boxes(canvas, Boxes(np.zeros((0, 5)), np.zeros((0, 3), np.uint8)), TONES)
    assert count(canvas.picture, TONES.ground) == 300 * 200


def test_the_map_has_lanes_the_colour_of_their_lights_and_striped_crosswalks():
    lanes = [[(-15, 1), (15, 1), (15, -3), (-15, -3)], [(-15, 5), (15, 5), (15, 1), (-15, 1)]]
    crosswalk = [(8, -3), (8, 5), (11, 5), (11, -3)]
    shapes = MapShapes(outlines_of(*lanes), np.array([2, 2], np.int32), outlines_of(crosswalk))
    canvas = Canvas(VIEW, TONES.ground)
    MapPainter(shapes).paint(canvas, TONES, lit={1: 2})
    red = np.rint(np.array(TONES.lane) * (1 - TONES.light_tint) + np.array(LIGHT_RGB[2]) * TONES.light_tint)
    assert np.abs(canvas.picture[70, 50].astype(int) - red).max() <= 1
    assert tuple(canvas.picture[110, 50]) == TONES.lane
    assert tuple(canvas.picture[170, 50]) == TONES.ground
    column = canvas.picture[55:125, 245]
    is_stripe = (column == TONES.crosswalk).all(axis=-1)
    assert 6 <= np.count_nonzero(np.diff(is_stripe.astype(int)) == 1) <= 8  # one a metre
    is_border = np.abs(canvas.picture.astype(int) - TONES.border).max(axis=-1) < 35
    assert 600 < is_border.sum() < 3000


def test_a_map_far_away_is_not_drawn():
    lane = [(100, 1), (130, 1), (130, -3), (100, -3)]
    shapes = MapShapes(outlines_of(lane), np.array([2], np.int32), outlines_of())
    canvas = Canvas(VIEW, TONES.ground)
    MapPainter(shapes).paint(canvas, TONES, lit={0: 1})
    assert count(canvas.picture, TONES.ground) == 300 * 200


def test_lines_one_sees_through_fade_and_do_not_add_up():
    canvas = Canvas(VIEW, TONES.ground)
    line = np.column_stack([np.linspace(-10, 10, 41), np.zeros(41)])
    stroke = Stroke((0, 0, 0), width_m=1.0, opacity=0.2, end_opacity=0.8)
    canvas.lines([line], stroke)
    canvas.lines([line], stroke)
    canvas.settle()
    shades = canvas.picture[100, 55:245].astype(float).mean(axis=-1)
    assert (np.diff(shades) <= 0.5).all()
    ground = np.mean(TONES.ground)
    assert shades[0] == pytest.approx(0.8 * ground, abs=12)
    assert shades[-1] == pytest.approx(0.2 * ground, abs=12)


def test_a_plan_is_seen_over_a_car_and_none_draws_nothing():
    canvas = Canvas(VIEW, TONES.ground)
    paint_boxes(canvas, boxes_with_car_at(8, 0), TONES)
    paint_plan(canvas, np.zeros((0, 2)), TONES)
    assert count(canvas.picture, TONES.plan) == 0
    paint_plan(canvas, np.array([[2.0, 0.0], [12.0, 0.0]]), TONES)
    assert tuple(canvas.picture[99, 230]) == TONES.plan


def test_a_car_has_no_rim_where_the_av_is_out_of_sight():
    near = Boxes.with_ego([500, 0, 0, 4.5, 2.0], [[0, 0, 0, 4.5, 2.0]], [CAR_RGB]).near(VIEW)
    assert (len(near.boxes), near.has_ego) == (1, False)


def test_a_ghost_is_an_outline_with_a_line_to_its_front():
    canvas = Canvas(VIEW, TONES.ground)
    paint_ghosts(canvas, np.array([[0.0, 0.0, 0.0, 4.0, 2.0]]), TONES.ghost)
    is_ghost = (canvas.picture == TONES.ghost).all(axis=-1)
    assert is_ghost[98:102, 160].any(), "ahead of the centre"
    assert not is_ghost[98:102, 140].any(), "behind it"
    assert is_ghost[98:102, 127:133].any(), "its rear"

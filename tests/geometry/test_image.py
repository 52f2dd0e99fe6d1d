"""Rectangles cut out of pictures."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.errors import InvalidArgumentError
from l5kit.geometry import compute_box_corners, crop_rectangle_from_image
from l5kit.geometry import image as image_module
from support.tolerances import FLOAT32_LONG

CENTER = (60.0, 45.0)  # x, y


def draw_rectangle(shape, center_xy, yaw, size):
    """Return a picture that is 1 in a rectangle, and the rectangle's corners as (row, column)."""
    corners_xy = compute_box_corners(center_xy, yaw, size)
    picture = np.zeros(shape, dtype=np.float32)
    cv2.fillPoly(picture, [np.rint(corners_xy).astype(np.int32)], 1.0)
    return picture, corners_xy[:, ::-1]


def draw_ramp(num_rows, num_columns):
    """Return a picture whose value is row + 1000 * column + 1."""
    rows, columns = np.mgrid[:num_rows, :num_columns]
    return (rows + 1000 * columns + 1).astype(np.float32)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.0, 3.1), st.floats(-5.0, 5.0))
def test_crop_is_filled_by_the_rectangle_it_follows(yaw, shift):
    picture, corners = draw_rectangle((90, 140), (CENTER[0] + shift, CENTER[1]), yaw, (40, 16))
    crop = crop_rectangle_from_image(picture, corners)
    assert sorted(crop.shape) in ([15, 39], [15, 40], [16, 39], [16, 40])
    assert crop[2:-2, 2:-2].min() > 0.999
    assert crop.mean() > 0.9


def test_crop_keeps_the_marked_corner_and_the_filled_half():
    """A rectangle half of which is ones, with a marked corner, keeps both when it is turned upright."""
    picture, corners = draw_rectangle((90, 140), CENTER, 0.5, (40, 16))
    half_corners = compute_box_corners((CENTER[0] + 10 * np.cos(0.5), CENTER[1] + 10 * np.sin(0.5)), 0.5, (20, 16))
    picture[:] = 0
    cv2.fillPoly(picture, [np.rint(half_corners).astype(np.int32)], 1.0)
    crop = crop_rectangle_from_image(picture, corners)
    assert 0.4 < crop.mean() < 0.6
    in_corners = [crop[:3, :3].mean(), crop[:3, -3:].mean(), crop[-3:, :3].mean(), crop[-3:, -3:].mean()]
    assert sum(value > 0.5 for value in in_corners) == 2


def test_upright_rectangle_comes_out_turned_by_a_quarter():
    """Angles lie in (0, 90], so the x axis of the crop is the direction of growing rows."""
    picture = draw_ramp(50, 80)
    crop = crop_rectangle_from_image(picture, np.array([[10, 20], [10, 60], [30, 60], [30, 20]]))
    assert crop.shape == (40, 20)
    np.testing.assert_allclose(np.diff(crop[5:-5, 5:-5], axis=1), 1.0, atol=0.1)
    np.testing.assert_allclose(np.diff(crop[5:-5, 5:-5], axis=0), -1000.0, atol=1.0)


@pytest.mark.parametrize("quarter_turns", [-2, -1, 1])
@pytest.mark.parametrize("yaw", [0.0, 0.4, 1.2])
def test_j4_crop_does_not_depend_on_the_angle_convention(monkeypatch, quarter_turns, yaw):
    picture, corners = draw_rectangle((90, 140), CENTER, yaw, (40, 16))
    picture += draw_ramp(90, 140) * 1e-6
    expected = crop_rectangle_from_image(picture, corners)
    original = cv2.minAreaRect

    def in_other_convention(points):
        center, (width, height), angle = original(points)
        size = (height, width) if quarter_turns % 2 else (width, height)
        return center, size, angle + 90.0 * quarter_turns

    monkeypatch.setattr(image_module.cv2, "minAreaRect", in_other_convention)
    np.testing.assert_allclose(crop_rectangle_from_image(picture, corners), expected, atol=FLOAT32_LONG)


@pytest.mark.parametrize(
    ("shape", "rectangle"),
    [
        pytest.param((20, 200), (2, 150, 18, 190), id="wide picture, right end"),
        pytest.param((20, 200), (2, 5, 18, 195), id="wide picture, long rectangle"),
        pytest.param((200, 20), (150, 2, 190, 18), id="tall picture, lower end"),
        pytest.param((200, 20), (5, 2, 195, 18), id="tall picture, long rectangle"),
    ],
)
def test_j4_nothing_is_lost_on_wide_and_tall_pictures(shape, rectangle):
    top, left, bottom, right = rectangle
    picture = draw_ramp(*shape)
    crop = crop_rectangle_from_image(picture, np.array([[top, left], [top, right], [bottom, right], [bottom, left]]))
    assert crop.shape == (right - left, bottom - top)
    upright = np.rot90(crop, k=-1)  # back from the quarter turn: rows down, columns to the right
    inner = upright[1:-1, 1:-1]
    expected = picture[top : bottom + 1, left : right + 1]
    assert inner.min() >= expected.min()
    assert inner.max() <= expected.max()
    np.testing.assert_allclose(np.diff(inner, axis=0), 1.0, atol=0.1)
    np.testing.assert_allclose(np.diff(inner, axis=1), 1000.0, atol=1.0)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_crop_of_colours_equals_crop_of_each_channel(dtype):
    picture = np.random.default_rng(0).integers(0, 255, (60, 90, 3)).astype(dtype)
    before = picture.copy()
    corners = compute_box_corners((45, 30), 0.3, (30, 12))[:, ::-1]
    crop = crop_rectangle_from_image(picture, corners)
    assert crop.dtype == dtype
    np.testing.assert_array_equal(picture, before)
    for channel in range(3):
        alone = crop_rectangle_from_image(np.ascontiguousarray(picture[..., channel]), corners)
        np.testing.assert_allclose(crop[..., channel].astype(float), alone.astype(float), atol=1.0)


@pytest.mark.parametrize("size", [(1, 1), (1, 3), (3, 1)], ids=str)
def test_a_rectangle_of_one_pixel_is_the_least(size):
    picture = np.arange(81, dtype=np.float32).reshape(9, 9)
    unit = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    assert sorted(crop_rectangle_from_image(picture, 4 + unit * size).shape) == sorted(size)
    thin = 4 + unit * (0.99, size[1])
    with pytest.raises(InvalidArgumentError, match="they must span at least 1 x 1"):
        crop_rectangle_from_image(picture, thin)


@pytest.mark.parametrize(
    ("picture", "corners", "message"),
    [
        pytest.param(np.zeros((9, 9), np.uint8), np.zeros((3, 2)), r"corners has shape \(3, 2\)", id="three corners"),
        pytest.param(np.zeros((9, 9), np.uint8), np.ones((4, 2)), "corners span 0 x 0 pixels", id="no area"),
        pytest.param(np.zeros(9, np.uint8), np.zeros((4, 2)), r"image has shape \(9,\)", id="no picture"),
        pytest.param(np.zeros((9, 9)), np.zeros((4, 2)), "image has dtype float64", id="float64"),
    ],
)
def test_bad_arguments_are_named(picture, corners, message):
    with pytest.raises(InvalidArgumentError, match=message):
        crop_rectangle_from_image(picture, corners)

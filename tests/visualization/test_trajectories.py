"""Trajectories drawn into rasters."""

import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.errors import InvalidArgumentError
from l5kit.visualization import utils
from l5kit.visualization.utils import (
    PREDICTED_POINTS_COLOR,
    REFERENCE_TRAJ_COLOR,
    TARGET_POINTS_COLOR,
    draw_arrowed_line,
    draw_reference_trajectory,
    draw_trajectory,
)

COLOR = (255, 128, 7)


def black(height=50, width=80):
    return np.zeros((height, width, 3), dtype=np.uint8)


def colored_pixels(image, color=COLOR):
    """The (column, row) of every pixel of the colour; any other pixel must be black."""
    is_color = np.all(image == color, axis=2)
    assert not image[~is_color].any()
    rows, columns = np.nonzero(is_color)
    return set(zip(columns.tolist(), rows.tolist(), strict=True))


def test_colors_are_those_of_1_5():
    assert PREDICTED_POINTS_COLOR == (0, 255, 255)
    assert TARGET_POINTS_COLOR == (255, 0, 255)
    assert REFERENCE_TRAJ_COLOR == (255, 255, 0)


def test_points_stand_at_column_and_row():
    image = black()
    draw_trajectory(image, np.array([[0, 0], [0, 10], [0, 20]]), COLOR, radius=0)
    assert colored_pixels(image) == {(0, 0), (0, 10), (0, 20)}


@pytest.mark.parametrize(
    ("radius", "expected"),
    [
        pytest.param(0, {(70, 10)}, id="one pixel"),
        pytest.param(1, {(70, 10), (69, 10), (71, 10), (70, 9), (70, 11)}, id="four neighbours"),
    ],
)
def test_radius_on_a_non_square_picture(radius, expected):
    image = black()
    draw_trajectory(image, np.array([[70.9, 10.9]]), COLOR, radius=radius)
    assert colored_pixels(image) == expected


def test_no_points_change_nothing():
    image = black()
    draw_trajectory(image, np.zeros((0, 2)), COLOR)
    draw_trajectory(image, np.zeros((0, 2)), COLOR, yaws=np.zeros((0, 1)))
    assert not image.any()


def test_points_outside_are_left_out_however_far():
    image = black()
    draw_trajectory(image, np.array([[-5, 3], [200, 10], [1e30, -1e30]]), COLOR)
    draw_trajectory(image, np.array([[1e30, -1e30]]), COLOR, yaws=np.zeros((1, 1)))
    assert not image.any()


def test_arrow_to_the_right_covers_start_and_tip():
    image = black()
    draw_arrowed_line(image, np.array([10.7, 20.2]), 0.0, COLOR)
    # shaft (10, 20) to (12, 20); strokes of 3.6 pixels back from the tip at 45 degrees: 2.55 pixels each way, rounded
    assert colored_pixels(image) == {
        (10, 20),
        (11, 20),
        (12, 20),
        (11, 19),
        (11, 21),
        (10, 18),
        (10, 22),
        (9, 17),
        (9, 23),
    }


def test_yaws_draw_one_arrow_per_point():
    together, one_by_one = black(), black()
    positions, yaws = np.array([[10.0, 10], [40, 30], [70, 40]]), np.array([[0.3], [-2.0], [1.5]])
    draw_trajectory(together, positions, COLOR, yaws=yaws)
    for position, yaw in zip(positions, yaws, strict=True):
        draw_arrowed_line(one_by_one, position, yaw, COLOR)
    np.testing.assert_array_equal(together, one_by_one)
    assert {(10, 10), (40, 30), (70, 40)} <= colored_pixels(together)


@pytest.mark.parametrize("yaw_deg", range(0, 360, 15))
def test_arrow_is_the_one_opencv_draws_where_it_still_does(yaw_deg, monkeypatch):
    monkeypatch.setattr(utils, "ARROW_TIP_LENGTH_IN_PIXELS", 0.6)
    monkeypatch.setattr(utils, "ARROW_LENGTH_IN_PIXELS", 14)
    ours, theirs = black(), black()
    draw_arrowed_line(ours, np.array([40, 25]), math.radians(yaw_deg), COLOR)
    tip = (int(40 + 14 * math.cos(math.radians(yaw_deg))), int(25 + 14 * math.sin(math.radians(yaw_deg))))
    cv2.arrowedLine(theirs, (40, 25), tip, COLOR, 1, tipLength=0.6)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("row_sign", "expected_row"),
    [pytest.param(-1, 18, id="origin at the bottom"), pytest.param(1, 22, id="origin at the top")],
)
def test_v8_arrows_follow_the_raster_when_its_matrix_is_given(row_sign, expected_row):
    raster_from_agent = np.array([[4.0, 0, 40], [0, row_sign * 4.0, 25], [0, 0, 1]])
    image = black()
    draw_trajectory(
        image, np.array([[30, 20]]), COLOR, yaws=np.array([[math.pi / 2]]), raster_from_agent=raster_from_agent
    )
    pixels = colored_pixels(image)
    assert (30, expected_row) in pixels
    assert (30, 40 - expected_row) not in pixels


def test_v8_without_a_matrix_a_positive_yaw_points_down_as_in_1_5():
    image = black()
    draw_trajectory(image, np.array([[30, 20]]), COLOR, yaws=np.array([[math.pi / 2]]))
    assert (30, 22) in colored_pixels(image)


def test_reference_trajectory_at_the_known_pixels():
    image = black(224, 224)
    raster_from_world = np.array([[10.0, 0, 112], [0, 10, 112], [0, 0, 1]])
    draw_reference_trajectory(image, raster_from_world, np.array([[0.0, 0], [1, 1], [2, 2]]))
    assert {(112, 112), (122, 122), (132, 132)} <= colored_pixels(image, REFERENCE_TRAJ_COLOR)
    assert len(colored_pixels(image, REFERENCE_TRAJ_COLOR)) == 15


@pytest.mark.parametrize(("height", "width"), [(40, 100), (100, 40)])
def test_v7_reference_points_are_kept_up_to_the_far_edge_of_a_non_square_picture(height, width):
    image = black(height, width)
    draw_reference_trajectory(
        image, np.eye(3), np.array([[width - 5.0, height - 5.0], [width, 5], [5, height], [0, 5]])
    )
    pixels = colored_pixels(image, REFERENCE_TRAJ_COLOR)
    assert (width - 5, height - 5) in pixels
    assert len(pixels) == 5


def test_v9_numpy_scalars_are_taken_for_positions_colours_and_radius():
    image, expected = black(), black()
    color = tuple(np.array(COLOR, dtype=np.int64))
    draw_trajectory(image, np.array([[np.int32(5), np.int32(6)]], dtype=np.int32), color, radius=np.int64(1))
    draw_trajectory(expected, np.array([[5.0, 6.0]]), COLOR)
    np.testing.assert_array_equal(image, expected)


def test_a_view_that_opencv_cannot_draw_into_is_drawn_into():
    planes = np.zeros((3, 50, 80), dtype=np.uint8)
    expected = black()
    draw_trajectory(planes.transpose(1, 2, 0), np.array([[20, 30]]), COLOR)
    draw_trajectory(expected, np.array([[20, 30]]), COLOR)
    np.testing.assert_array_equal(planes.transpose(1, 2, 0), expected)


def test_positions_are_not_changed():
    positions, yaws = np.array([[20.5, 30.5]]), np.array([[0.1]])
    draw_trajectory(black(), positions, COLOR, yaws=yaws)
    draw_reference_trajectory(black(), np.eye(3), positions)
    assert positions.tolist() == [[20.5, 30.5]]
    assert yaws.tolist() == [[0.1]]


@given(
    x=st.floats(-1e9, 1e9),
    y=st.floats(-1e9, 1e9),
    yaw=st.one_of(st.none(), st.floats(-10, 10)),
)
def test_any_finite_point_is_drawn_or_left_out(x, y, yaw):
    image = black(20, 30)
    draw_trajectory(image, np.array([[x, y]]), COLOR, yaws=None if yaw is None else np.array([[yaw]]))
    if 0 <= x < 30 and 0 <= y < 20:
        assert image[int(y), int(x)].tolist() == list(COLOR)


@pytest.mark.parametrize(
    ("positions", "kwargs", "message"),
    [
        pytest.param([[1.0, 2.0]], {"yaws": np.zeros((2, 1))}, "one per position", id="unequal lengths"),
        pytest.param([1.0, 2.0], {}, "positions has the shape", id="one point without its axis"),
        pytest.param([[math.nan, 2.0]], {}, "not finite", id="not a number"),
        pytest.param([[1.0, 2.0]], {"yaws": np.array([math.inf])}, "not finite", id="infinite yaw"),
        pytest.param(
            [[1.0, 2.0]], {"yaws": [0.0], "raster_from_agent": np.zeros((3, 3))}, "invertible", id="flat matrix"
        ),
    ],
)
def test_bad_points_are_refused(positions, kwargs, message):
    with pytest.raises(InvalidArgumentError, match=message):
        draw_trajectory(black(), np.array(positions), COLOR, **kwargs)


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(np.zeros((5, 5, 3), np.float32), id="floats"),
        pytest.param(np.zeros((5, 5), np.uint8), id="grayscale"),
        pytest.param([[0]], id="a list"),
    ],
)
def test_bad_pictures_are_refused(image):
    with pytest.raises(InvalidArgumentError, match="on_image"):
        draw_trajectory(image, np.zeros((1, 2)), COLOR)


def test_a_read_only_picture_is_refused():
    image = black()
    image.setflags(write=False)
    with pytest.raises(InvalidArgumentError, match="read-only"):
        draw_reference_trajectory(image, np.eye(3), np.ones((1, 2)))

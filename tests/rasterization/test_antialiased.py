import zlib

import cv2
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.rasterization.draw_list import CLOSED_LINE, FILLED, OPEN_LINE
from l5kit.rasterization.painter import draw_shapes, mix_paint, scratch_size
from l5kit.rasterization.subpixel import CV2_SUB_VALUES
from support.shapes import HEIGHT, MAKERS, WIDTH, Shape, make_boxes, make_lane, to_units

COLORS = {1: (255,), 2: (40, 200), 3: (17, 17, 31)}
NUM_SHAPES = 400


def join(contours: Shape) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(contours), np.cumsum([0, *map(len, contours)])


def to_picture(planes: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(planes.transpose(1, 2, 0))


def fill_polygons(planes: np.ndarray, points: np.ndarray, starts: np.ndarray, color: np.ndarray) -> None:
    """Draw contours as one shape."""
    draw_shape(planes, points, starts, FILLED, color)


def draw_polyline(planes: np.ndarray, points: np.ndarray, closed: bool, color: np.ndarray) -> None:
    """Draw one line."""
    draw_shape(planes, points, np.array([0, len(points)]), CLOSED_LINE if closed else OPEN_LINE, color)


def draw_shape(planes: np.ndarray, points: np.ndarray, starts: np.ndarray, kind: int, color: np.ndarray) -> None:
    """Draw contours from ``starts[c]`` to ``starts[c + 1]`` in a colour."""
    shapes = np.array([[kind, 0, max(len(starts) - 1, 0), 0, 0]])
    scratch = np.empty(scratch_size(len(points), planes.shape[1]), np.int64)
    paints = mix_paint(color)[None]
    paints.setflags(write=False)
    draw_shapes(planes, np.array(points, np.int32), to_contours(starts), shapes, 0, 1, paints, scratch)


def to_contours(starts: np.ndarray) -> np.ndarray:
    """Return first and end point of contours from ``starts[c]`` to ``starts[c + 1]``."""
    return np.stack([starts[:-1], starts[1:]], axis=-1).astype(np.int64)


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("name", MAKERS)
def test_polygons_and_lines_drawn_one_over_another_have_the_bits_of_opencv(name: str, channels: int) -> None:
    rng = np.random.default_rng(zlib.crc32(name.encode()) + channels)
    planes = rng.integers(0, 256, (channels, HEIGHT, WIDTH), np.uint8)
    for number in range(NUM_SHAPES):
        if number % 50 == 0:
            planes[:] = 0 if number % 100 else 255
        color = np.array(COLORS[channels] if number % 2 else rng.integers(0, 256, channels), np.uint8)
        contours = MAKERS[name](rng)
        picture, before = to_picture(planes), planes.copy()
        if number % 3:
            fill_polygons(planes, *join(contours), color)
            # OpenCV knows anti-aliasing for one, three and four channels only
            for channel in range(channels):
                plane = np.ascontiguousarray(picture[..., channel])
                cv2.fillPoly(plane, contours, (int(color[channel]),), **CV2_SUB_VALUES)
                picture[..., channel] = plane
        else:
            is_closed = bool(rng.integers(2))
            draw_polyline(planes, contours[0], is_closed, color)
            for channel in range(channels):
                plane = np.ascontiguousarray(picture[..., channel])
                cv2.polylines(plane, contours[:1], is_closed, (int(color[channel]),), **CV2_SUB_VALUES)
                picture[..., channel] = plane
        assert_array_equal(planes.transpose(1, 2, 0), picture, err_msg=f"{number}: {contours} on {before[:, 0, 0]}")


@pytest.mark.parametrize("name", ["boxes", "lanes"])
def test_three_channels_have_the_bits_of_one_call_of_opencv(name: str) -> None:
    rng = np.random.default_rng(5)
    planes = np.full((3, HEIGHT, WIDTH), 255, np.uint8)
    picture = to_picture(planes)
    for _ in range(NUM_SHAPES):
        color, contours = rng.integers(0, 256, 3, np.uint8), MAKERS[name](rng)
        fill_polygons(planes, *join(contours), color)
        cv2.fillPoly(picture, contours, color.tolist(), **CV2_SUB_VALUES)
        draw_polyline(planes, contours[0], True, color)
        cv2.polylines(picture, contours[:1], True, color.tolist(), **CV2_SUB_VALUES)
        assert_array_equal(planes, picture.transpose(2, 0, 1))


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (2, 3), (3, 200)], ids=str)
def test_pictures_of_few_rows_or_columns(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(9)
    for _ in range(NUM_SHAPES):
        plane = np.zeros((1, *shape), np.uint8)
        expected = plane[0].copy()
        points = to_units(rng.uniform(-5, 45, (4, 2)))
        fill_polygons(plane, *join([points]), np.array([255], np.uint8))
        cv2.fillPoly(expected, [points], (255,), **CV2_SUB_VALUES)
        draw_polyline(plane, points[::-1], False, np.array([90], np.uint8))
        cv2.polylines(expected, [points[::-1]], False, (90,), **CV2_SUB_VALUES)
        assert_array_equal(plane[0], expected)


def test_a_level_line_spreads_over_three_rows() -> None:
    plane = np.zeros((1, 7, 9), np.uint8)
    draw_polyline(plane, np.array([(1, 3), (7, 3)], np.int32) * 512, False, np.array([255], np.uint8))
    # weights 181 * 40, 181 * 254 and 181 * 45 over 256 are 28, 179 and 31; the mean with 255 is taken twice
    twice = [((255 * a + 127 >> 8) * (256 - a) + 255 * a + 127) >> 8 for a in (28, 179, 31)]
    assert_array_equal(plane[0, 2:5, 4], twice)
    assert twice == [53, 232, 58]
    assert not plane[0, :2].any()
    assert not plane[0, 5:].any()


def test_two_overlapping_squares_cancel() -> None:
    square = np.array([(-10, -10), (10, -10), (10, 10), (-10, 10)])
    plane = np.zeros((1, 100, 100), np.uint8)
    points, starts = join([((square + 50) * 512).astype(np.int32), ((square + 60) * 512).astype(np.int32)])
    fill_polygons(plane, points, starts, np.array([255], np.uint8))
    assert [plane[0, i, i] for i in (45, 55, 65, 30, 80)] == [255, 0, 255, 0, 0]


def test_recorded_picture() -> None:
    """The bits of OpenCV 4.14 and 5.0, so that a later OpenCV does not change ours unseen."""
    steps = np.arange(40)
    planes = np.full((3, 48, 64), 255, np.uint8)
    for number, color in enumerate([(17, 17, 31), (255, 217, 82), (0, 255, 0)]):
        columns = (steps * 7919 * (number + 3)) % 40961 - 4000
        rows = (steps * 104729 * (number + 5)) % 32771 - 4000
        points = np.stack([columns, rows], -1).astype(np.int32)
        fill_polygons(planes, points[:9], np.array([0, 4, 9]), np.array(color, np.uint8))
        draw_polyline(planes, points[9:15], number == 1, np.array(color[::-1], np.uint8))
    assert zlib.crc32(planes.tobytes()) == 0x6EC0A8E5


def test_ready_paint_and_used_scratch_change_nothing() -> None:
    rng = np.random.default_rng(1)
    color = np.array(COLORS[3], np.uint8)
    paints = np.stack([mix_paint(np.array(COLORS[3][::-1], np.uint8)), mix_paint(color)])
    paints.setflags(write=False)
    lanes = [make_lane(rng)[0] for _ in range(30)]
    points, starts = join(lanes)
    scratch = rng.integers(-(2**62), 2**62, scratch_size(40, HEIGHT))
    planes, expected = rng.integers(0, 256, (2, 5, HEIGHT, WIDTH), np.uint8)
    expected[:] = 255
    shapes = [(kind, lane, lane + 1, 1, 2) for lane in range(30) for kind in (FILLED, OPEN_LINE)]
    planes[:] = 255
    for first, end in ((0, 31), (31, len(shapes))):
        draw_shapes(planes, points, to_contours(starts), np.array(shapes), first, end, paints, scratch)
    for lane in lanes:
        fill_polygons(expected[2:], lane, np.array([0, 40]), color)
        draw_polyline(expected[2:], lane, False, color)
    assert (expected != 255).any()
    assert_array_equal(planes, expected)


def test_paint_ends_in_the_colour_and_begins_in_the_value_before() -> None:
    every = np.arange(256, dtype=np.uint8)
    paint = mix_paint(every)
    assert_array_equal(paint[:, :, 0], np.broadcast_to(every, (256, 256)))
    assert_array_equal(paint[:, 0, 255], every)
    assert_array_equal(paint[every, every], np.broadcast_to(every[:, None], (256, 256)))


@pytest.mark.parametrize("scale_px", [1e3, 1e5, 2.0**21])
def test_points_far_outside_change_nothing_around_the_picture(scale_px: float) -> None:
    rng = np.random.default_rng(3)
    memory = np.full((5, HEIGHT, WIDTH), 77, np.uint8)
    color = np.array(COLORS[3], np.uint8)
    for _ in range(200):
        points = to_units(rng.uniform(-scale_px, scale_px, (6, 2)))
        fill_polygons(memory[1:4], points, np.array([0, 3, 6]), color)
        draw_polyline(memory[1:4], points, True, color)
    assert (memory[[0, 4]] == 77).all()
    assert (memory[1:4] != 77).any()


@pytest.mark.parametrize("shape", [(1, 0, 5), (3, 5, 0), (1, 4, 6)], ids=str)
def test_nothing_to_draw_or_nothing_to_draw_on(shape: tuple[int, int, int]) -> None:
    planes = np.full(shape, 9, np.uint8)
    color = np.zeros(shape[0], np.uint8)
    no_points = np.empty((0, 2), np.int32)
    for starts in ([], [0], [0, 0, 0]):
        fill_polygons(planes, no_points, np.array(starts, np.int64), color)
    draw_polyline(planes, no_points, True, color)
    draw_polyline(planes, np.array([(900, 900)], np.int32), False, color)
    assert (planes == 9).all()
    fill_polygons(planes, np.array([(-9, -9), (4000, 0), (900, 4000)], np.int32), np.array([0, 3]), color)
    assert planes.size == 0 or (planes != 9).any()


def test_arguments_are_not_changed() -> None:
    points, starts = join(make_boxes(np.random.default_rng(2)))
    color = np.array([255], np.uint8)
    for array in (points, starts, color):
        array.setflags(write=False)
    planes = np.zeros((1, HEIGHT, WIDTH), np.uint8)
    fill_polygons(planes, points, starts, color)
    draw_polyline(planes, points, True, color)
    assert planes.any()

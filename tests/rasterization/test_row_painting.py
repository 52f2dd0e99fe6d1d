"""Rows that are painted one by one have the bits of pictures that are painted at once."""

import zlib

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.device.processor import ProcessorBackend
from l5kit.errors import InvalidArgumentError
from l5kit.rasterization.draw_list import CLOSED_LINE, FILLED, OPEN_LINE, ShapeList
from l5kit.rasterization.painter import Painter
from l5kit.rasterization.row_painting import MARGIN_PX, Canvas, ShapeArrays, bound_rows, paint, require_countable
from l5kit.rasterization.subpixel import subpixel_of
from support.shapes import HEIGHT, MAKERS, WIDTH, Shape


def make_list(windows: list[list[tuple[int, Shape, int]]], colors: np.ndarray, size: tuple[int, int]) -> ShapeList:
    """Return shapes of windows: kind, contours and colour of each."""
    contours = [contour for window in windows for _, shape, _ in window for contour in shape]
    ends = np.cumsum([0, *map(len, contours)])
    shapes, first = [], 0
    for kind, shape, color in (each for window in windows for each in window):
        shapes.append((kind, first, first + len(shape), color, 0))
        first += len(shape)
    return ShapeList(
        points=np.concatenate(contours).astype(np.int32),
        contours=np.stack([ends[:-1], ends[1:]], axis=1),
        shapes=np.array(shapes, np.int64),
        starts=np.cumsum([0, *map(len, windows)]),
        colors=colors,
        planes_shape=(colors.shape[1], *size),
        background=200,
    )


def paint_rows(shapes: ShapeList) -> np.ndarray:
    """Paint all rows of all windows, each by itself."""
    channels, height, width = shapes.planes_shape
    contours = np.zeros((len(shapes.contours), 4), np.int32)
    for number, (first, end) in enumerate(shapes.contours.tolist()):
        bound_rows(shapes.points, first, end, height, contours, number)
    planes = channels * np.arange(len(shapes))
    groups = np.stack([shapes.starts[:-1], shapes.starts[1:], planes], axis=1).astype(np.int32)
    of_shapes, colors = shapes.shapes[:, :4].astype(np.int32), np.array(shapes.colors)
    drawn = ShapeArrays(np.array(shapes.points), contours, of_shapes, groups, colors)
    num_pixels = len(shapes) * channels * height * width
    pixels = np.full(-(-num_pixels // 8) * 8, shapes.background, np.uint8)
    paint(ProcessorBackend(), Canvas(pixels, pixels.view(np.uint64), height, width), len(shapes), drawn)
    return pixels[:num_pixels].reshape(len(shapes), channels, height, width)


def make_windows(rng: np.random.Generator, name: str, num_windows: int) -> list[list[tuple[int, Shape, int]]]:
    kinds = (FILLED, FILLED, OPEN_LINE, CLOSED_LINE)
    return [
        [(int(kinds[rng.integers(4)]), MAKERS[name](rng), int(rng.integers(3))) for _ in range(rng.integers(1, 9))]
        for _ in range(num_windows)
    ]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", MAKERS)
def test_rows_have_the_bits_of_pictures(name: str, channels: int) -> None:
    rng = np.random.default_rng(zlib.crc32(name.encode()) + channels)
    colors = rng.integers(0, 256, (3, channels), np.uint8)
    shapes = make_list(make_windows(rng, name, 40), colors, (HEIGHT, WIDTH))
    expected = np.empty((len(shapes), *shapes.planes_shape), np.uint8)
    Painter().paint_batch(shapes, expected)
    assert_array_equal(paint_rows(shapes), expected)
    assert len(np.unique(expected)) > 3


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (2, 3)], ids=str)
def test_pictures_of_few_rows_or_columns(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    colors = rng.integers(0, 256, (3, 1), np.uint8)
    windows = [window for name in ("small", "large", "whole pixels") for window in make_windows(rng, name, 40)]
    shapes = make_list(windows, colors, size)
    expected = np.empty((len(shapes), *shapes.planes_shape), np.uint8)
    Painter().paint_batch(shapes, expected)
    assert_array_equal(paint_rows(shapes), expected)


def test_rows_of_a_contour_are_those_of_its_points_and_a_margin() -> None:
    points, contours = np.array([(0, 10 * 512), (0, 12 * 512)], np.int32), np.zeros((2, 4), np.int32)
    bound_rows(points, 0, 2, 100, contours, 1)
    assert contours[1].tolist() == [0, 2, 10 - MARGIN_PX, 12 + MARGIN_PX + 1]
    bound_rows(points, 0, 2, 11, contours, 0)
    assert contours[0].tolist() == [0, 2, 10 - MARGIN_PX, 11]


@pytest.mark.parametrize(
    ("place_px", "units"),
    [(1.5, 768), (-0.3, -153), (8.2e6, 8.2e6 * 512 - 2**32), (1e300, 0), (-1e300, 0), (np.inf, 0), (np.nan, 0)],
)
def test_places_beyond_all_integers_are_the_same_on_every_device(place_px: float, units: int) -> None:
    assert subpixel_of(place_px) == units


def test_more_points_than_can_be_counted_are_refused() -> None:
    require_countable(2**31 - 1)
    with pytest.raises(InvalidArgumentError, match="smaller batches"):
        require_countable(2**31)

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.rasterization.unit_range import divide_by_255

STREAMS = pytest.mark.parametrize("streams", [False, True], ids=["cached", "streamed"])


@STREAMS
def test_every_byte_is_divided_in_float32_and_cleared(streams: bool) -> None:
    pixels = np.arange(256, dtype=np.int64).astype(np.uint8).reshape(1, 16, 16)
    expected = pixels.astype(np.float32) / np.float32(255)
    values = np.full(pixels.shape, np.nan, np.float32)
    divide_by_255(pixels, values, np.array([[0, 16]]), streams)
    assert_array_equal(values, expected)
    assert not pixels.any()


@STREAMS
@pytest.mark.parametrize("width", [0, 1, 15, 16, 17, 100, 203])
def test_values_may_begin_anywhere_and_nothing_around_them_is_written(streams: bool, width: int) -> None:
    rng = np.random.default_rng(width)
    shape = (3, 4, width)
    for begin in range(33):
        pixels = rng.integers(0, 256, shape, np.uint8)
        rows = np.sort(rng.integers(0, 5, (3, 2)), axis=1)
        for plane, (first, end) in enumerate(rows):
            pixels[plane, :first] = pixels[plane, end:] = 0
        expected = pixels.astype(np.float32) / np.float32(255)
        memory = np.full(pixels.size + 70, -1.0, np.float32)
        divide_by_255(pixels, memory[begin : begin + pixels.size].reshape(shape), rows, streams)
        assert_array_equal(memory[begin : begin + pixels.size].reshape(shape), expected)
        assert (memory[:begin] == -1).all()
        assert (memory[begin + pixels.size :] == -1).all()
        assert not pixels.any()

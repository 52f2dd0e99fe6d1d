import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.rasterization.unit_range import divide_by_255, stream_divided_by_255

DIVISIONS = pytest.mark.parametrize("divide", [divide_by_255, stream_divided_by_255])


@DIVISIONS
def test_every_byte_is_divided_in_float32(divide: object) -> None:
    pixels = np.arange(256, dtype=np.int64).astype(np.uint8)
    values = np.full(256, np.nan, np.float32)
    divide(pixels, values)  # type: ignore[operator]
    assert_array_equal(values, pixels.astype(np.float32) / np.float32(255))


@DIVISIONS
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 100, 1003])
def test_values_may_begin_anywhere_and_nothing_around_them_is_written(divide: object, size: int) -> None:
    rng = np.random.default_rng(size)
    for begin in range(33):
        pixels = rng.integers(0, 256, size + 7, np.uint8)[begin % 7 :][:size]
        memory = np.full(size + 70, -1.0, np.float32)
        divide(pixels, memory[begin : begin + size])  # type: ignore[operator]
        assert_array_equal(memory[begin : begin + size], pixels.astype(np.float32) / np.float32(255))
        assert (memory[:begin] == -1).all()
        assert (memory[begin + size :] == -1).all()

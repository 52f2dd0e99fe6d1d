"""Points counted in grids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.geometry import normalize_intensity, points_within_bounds, voxel_coords_to_intensity_grid

SHAPE = (2, 3, 4)


def test_points_within_bounds_excludes_the_upper_end():
    coords = np.array([[0, 0, 0], [1, 2, 3], [2, 0, 0], [0, 3, 0], [0, 0, -1], [1.9, 2.9, 3.9]])
    np.testing.assert_array_equal(points_within_bounds(coords, SHAPE), [True, True, False, False, False, True])


def test_points_are_counted_and_those_outside_dropped():
    coords = np.array([[0, 0, 0], [0, 0, 0], [1, 0, 0], [5, 0, 0], [0, -1, 0]])
    grid = voxel_coords_to_intensity_grid(coords, SHAPE)
    assert grid.shape == SHAPE
    assert grid.dtype == np.float32
    assert grid[0, 0, 0] == 2
    assert grid[1, 0, 0] == 1
    assert grid.sum() == 3


@given(arrays(np.int64, st.tuples(st.integers(0, 20), st.just(3)), elements=st.integers(-2, 5)))
def test_grid_equals_a_count_in_a_loop(coords):
    expected = np.zeros(SHAPE, dtype=np.uint8)
    for x, y, z in coords:
        if 0 <= x < 2 and 0 <= y < 3 and 0 <= z < 4:
            expected[x, y, z] += 1
    grid = voxel_coords_to_intensity_grid(coords, SHAPE, dtype=np.uint8)
    assert grid.dtype == np.uint8
    np.testing.assert_array_equal(grid, expected)


def test_j6_negative_coordinates_wrap_when_nothing_is_dropped():
    grid = voxel_coords_to_intensity_grid(np.array([[-1, -3, 0]]), SHAPE, drop_out_of_bounds=False)
    assert grid[1, 0, 0] == 1
    assert grid.sum() == 1


@pytest.mark.parametrize("outside", [[2, 0, 0], [0, 0, -5]])
def test_points_outside_are_an_error_when_nothing_is_dropped(outside):
    with pytest.raises(IndexOutOfRangeError, match=r"voxel_coords\[1\] is .*drop_out_of_bounds=True"):
        voxel_coords_to_intensity_grid(np.array([[0, 0, 0], outside]), SHAPE, drop_out_of_bounds=False)
    with pytest.raises(IndexError):  # what scripts for 1.x catch
        voxel_coords_to_intensity_grid(np.array([outside]), SHAPE, drop_out_of_bounds=False)


@pytest.mark.parametrize("drop", [True, False])
def test_no_points_give_an_empty_grid(drop):
    grid = voxel_coords_to_intensity_grid(np.zeros((0, 3)), SHAPE, drop_out_of_bounds=drop)
    np.testing.assert_array_equal(grid, np.zeros(SHAPE))


def test_coordinates_that_are_no_cells_are_refused():
    with pytest.raises(InvalidArgumentError, match="voxel_coords has dtype float64"):
        voxel_coords_to_intensity_grid(np.array([[0.5, 0, 0]]), SHAPE)
    with pytest.raises(InvalidArgumentError, match="coords has shape"):
        points_within_bounds(np.zeros((3, 2)), SHAPE)


def test_intensity_is_divided_and_clipped():
    intensity = normalize_intensity(np.array([-1, 0, 5, 10, 20], dtype=np.float32), 10.0)
    np.testing.assert_array_equal(intensity, np.array([0, 0, 0.5, 1, 1], dtype=np.float32))
    assert intensity.dtype == np.float32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from l5kit.data.map.bounds_grid import BoundsGrid
from l5kit.rasterization.semantic_rasterizer import indices_in_bounds


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_bounds=st.sampled_from([0, 1, 7, 200]),
    spread_m=st.sampled_from([10.0, 1000.0, 1e6]),
    radius_m=st.sampled_from([0.5, 70.0]),
)
def test_near_bounds_are_those_of_a_scan_over_all(seed: int, num_bounds: int, spread_m: float, radius_m: float) -> None:
    rng = np.random.default_rng(seed)
    lows = rng.uniform(-spread_m, spread_m, (num_bounds, 2)).round(rng.integers(0, 3))
    bounds_m = np.stack([lows, lows + rng.uniform(0, 80, (num_bounds, 2)).round()], axis=1)
    points_m = np.concatenate(
        [
            rng.uniform(-1.2 * spread_m, 1.2 * spread_m, (20, 2)),
            bounds_m[:20, 0] - radius_m,  # exactly as far away as is too far
            np.nextafter(bounds_m[:20, 1] + radius_m, -np.inf),
        ]
    )
    rows, starts = BoundsGrid.build(bounds_m, radius_m).find_near(points_m)
    assert len(starts) == len(points_m) + 1
    for point_m, first, end in zip(points_m, starts, starts[1:], strict=False):
        assert_array_equal(rows[first:end], indices_in_bounds(point_m, bounds_m, radius_m))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("side", [-1, 1])
def test_bounds_exactly_the_radius_away_are_too_far(axis: int, side: int) -> None:
    grid = BoundsGrid.build(np.array([[[-1.0, -1.0], [1.0, 1.0]]]), 2.0)
    for distance_m, expected in ((3.0, []), (2.999, [0])):
        point_m = np.zeros((1, 2))
        point_m[0, axis] = side * distance_m
        assert grid.find_near(point_m)[0].tolist() == expected


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_near_nothing(wrong: float) -> None:
    bounds_m = np.array([[[-1.0, -1.0], [1.0, 1.0]], [[-1.0, wrong], [1.0, 1.0]]])
    grid = BoundsGrid.build(bounds_m, 2.0)
    rows, starts = grid.find_near(np.array([[0.0, 0.0], [0.0, wrong], [wrong, 0.0]]))
    assert rows.tolist() == [0]
    assert starts.tolist() == [0, 1, 1, 1]


def test_a_map_with_something_far_away_has_a_small_grid() -> None:
    bounds_m = np.array([[[0.0, 0.0], [1.0, 1.0]], [[1e9, 1e9], [1e9 + 1, 1e9 + 1]]])
    grid = BoundsGrid.build(bounds_m, 2.0)
    assert len(grid.cell_starts) < 100_000
    assert grid.find_near(np.array([[1.5, 1.5], [1e9, 1e9], [5e8, 5e8]]))[0].tolist() == [0, 1]


def test_arrays_are_read_only() -> None:
    bounds_m = np.zeros((1, 2, 2))
    grid = BoundsGrid.build(bounds_m, 2.0)
    for array in (grid.bounds_m, grid.origin_m, grid.cell_m, grid.cell_starts, grid.cell_rows):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert bounds_m.flags.writeable


def test_bounds_that_lie_on_each_other_take_little_memory_and_are_found_all() -> None:
    """As a map with thousands of copies of a road along all of it has them."""
    bounds_m = np.array([[[0.0, 0.0], [1000.0, 800.0]]]) + np.arange(5000.0)[:, None, None] * 1e-3
    grid = BoundsGrid.build(bounds_m, 0.5)
    assert len(grid.cell_rows) <= 1_000_000
    rows, starts = grid.find_near(np.array([[500.0, 400.0], [-0.25, 3.0], [1004.0, 400.0], [-0.6, 3.0]]))
    assert np.diff(starts).tolist() == [5000, 250, 1500 - 1, 0]
    assert (np.diff(rows[:5000]) == 1).all()


def test_ordinary_bounds_are_in_small_cells() -> None:
    """Cells are made larger only where bounds are in many of them on average."""
    corners_m = np.random.default_rng(2).uniform(0, 2000, (5000, 2))
    grid = BoundsGrid.build(np.stack([corners_m, corners_m + 60.0], axis=1), 0.5)
    assert grid.num_cells[0] >= 255

"""Boxes seen from above."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.errors import InvalidArgumentError
from l5kit.geometry import compute_box_corners, compute_box_outline, within_range
from support.tolerances import FLOAT32_LONG, FLOAT64, FLOAT64_LONG

metres = st.floats(-1e3, 1e3)
lengths = st.floats(0.1, 20.0)
yaws = st.floats(-math.pi, math.pi)


def make_boxes(num_boxes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return centroids, yaws and extents with the dtypes of agent records."""
    rng = np.random.default_rng(num_boxes)
    centroids = rng.uniform(-2000, 2000, (num_boxes, 2))
    return (
        centroids,
        rng.uniform(-3, 3, num_boxes).astype(np.float32),
        rng.uniform(0.5, 6, (num_boxes, 3)).astype(np.float32),
    )


@pytest.mark.parametrize(
    ("yaw", "expected"),
    [
        pytest.param(0.0, [(8, 19), (8, 21), (12, 21), (12, 19)], id="along x"),
        pytest.param(math.pi / 2, [(11, 18), (9, 18), (9, 22), (11, 22)], id="along y"),
    ],
)
def test_corners_by_hand(yaw, expected):
    np.testing.assert_allclose(compute_box_corners((10, 20), yaw, (4, 2, 1)), expected, atol=FLOAT64)


@given(metres, metres, yaws, lengths, lengths)
def test_corners_surround_the_centroid(x, y, yaw, length, width):
    corners = compute_box_corners([x, y], yaw, [length, width])
    np.testing.assert_allclose(corners.mean(axis=0), [x, y], atol=FLOAT64_LONG)
    edges = np.roll(corners, -1, axis=0) - corners
    np.testing.assert_allclose(np.linalg.norm(edges, axis=1), [width, length, width, length], atol=FLOAT64_LONG)
    heading = (math.cos(yaw), math.sin(yaw))
    np.testing.assert_allclose((corners - [x, y]) @ heading, np.array([-1, -1, 1, 1]) * length / 2, atol=FLOAT64_LONG)


@pytest.mark.parametrize("num_boxes", [0, 1, 6])
def test_outlines_are_the_corners_clockwise(num_boxes):
    centroids, yaws_rad, extents = make_boxes(num_boxes)
    outlines = compute_box_outline(centroids, yaws_rad, extents)
    assert outlines.shape == (num_boxes, 4, 2)
    assert outlines.dtype == np.float64
    corners = compute_box_corners(centroids, yaws_rad, extents)
    np.testing.assert_allclose(outlines, corners[:, [2, 3, 0, 1]], atol=FLOAT32_LONG)  # float32 against float64
    for index in range(num_boxes):
        alone = compute_box_outline(centroids[index], yaws_rad[index], extents[index])
        np.testing.assert_array_equal(outlines[index], alone)


def test_outlines_are_computed_in_the_dtypes_of_the_arguments():
    """A record of an agent, float32, as NumPy computes with its numbers one by one."""
    yaw, extent = np.float32(0.7), np.array([4.3, 1.9], np.float32)
    half_length, half_width = extent / 2
    expected = [
        100.1 + half_length * np.cos(yaw) - half_width * np.sin(yaw),
        200.2 + half_length * np.sin(yaw) + half_width * np.cos(yaw),
    ]
    assert compute_box_outline([100.1, 200.2], yaw, extent)[0].tolist() == expected


@pytest.mark.parametrize("num_boxes", [0, 1, 6])
def test_batched_corners_equal_looped(num_boxes):
    centroids, yaws_rad, extents = make_boxes(num_boxes)
    corners = compute_box_corners(centroids, yaws_rad, extents)
    assert corners.shape == (num_boxes, 4, 2)
    assert corners.dtype == np.float64
    for index in range(num_boxes):
        np.testing.assert_array_equal(
            corners[index], compute_box_corners(centroids[index], yaws_rad[index], extents[index])
        )
    if num_boxes:
        grid = compute_box_corners(
            centroids.reshape(num_boxes, 1, 2), yaws_rad.reshape(num_boxes, 1), extents.reshape(num_boxes, 1, 3)
        )
        np.testing.assert_array_equal(grid[:, 0], corners)


def test_only_sine_and_cosine_are_taken_in_float32():
    centroids, yaws_rad, extents = make_boxes(5)
    cos, sin = np.cos(yaws_rad).astype(np.float64), np.sin(yaws_rad).astype(np.float64)
    length, width = extents[:, 0].astype(np.float64), extents[:, 1].astype(np.float64)
    front_left = centroids + 0.5 * np.column_stack([cos * length - sin * width, sin * length + cos * width])
    corners = compute_box_corners(centroids, yaws_rad, extents)
    np.testing.assert_allclose(corners[:, 2], front_left, rtol=1e-15)
    wide = compute_box_corners(centroids, yaws_rad.astype(np.float64), extents)
    assert 0 < np.abs(corners - wide).max() < 1e-6


@pytest.mark.parametrize(
    ("distance", "expected"), [(4.99, True), (5.0, False), (5.01, False)], ids=["near", "at the bound", "far"]
)
def test_range_is_half_the_sum_of_the_diagonals_and_strict(distance, expected):
    agents = np.array([[distance, 0.0], [0.0, -distance]])
    np.testing.assert_array_equal(within_range([0, 0], [3, 4, 9], agents, [[4, 3, 1], [3, 4, 9]]), [expected] * 2)


def test_range_of_no_agents_is_empty():
    in_range = within_range([0, 0], [4, 2], np.zeros((0, 2)), np.zeros((0, 3), dtype=np.float32))
    assert in_range.shape == (0,)
    assert in_range.dtype == np.bool_


def test_p13_range_uses_length_and_width_of_an_ego_for_each_agent():
    # of the first two rows instead of columns the diagonals would be 0.1 * sqrt(2) and 10 * sqrt(2)
    centroids, extents = np.zeros((3, 2)), np.array([[0.1, 10.0, 2.0]] * 3)
    agents = np.array([[9.9, 0.0], [10.1, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(within_range(centroids, extents, agents, extents), [True, False, True])
    np.testing.assert_array_equal(
        within_range(centroids, extents, agents, extents), within_range(centroids[0], extents[0], agents, extents)
    )
    np.testing.assert_array_equal(within_range(centroids, extents, centroids + 1000.0, extents), [False] * 3)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        pytest.param(
            lambda: compute_box_corners(np.zeros((2, 2)), 0.0, [4, 2]), "centroids_m", id="batch of centroids"
        ),
        pytest.param(lambda: compute_box_corners(np.zeros(3), 0.0, [4, 2]), "centroids_m", id="centroid in space"),
        pytest.param(lambda: compute_box_corners(np.zeros(2), 0.0, [4]), "extents_m", id="no width"),
        pytest.param(lambda: compute_box_corners(np.zeros(2), 0.0, 4), "extents_m", id="scalar extent"),
        pytest.param(lambda: within_range([0, 0], [4, 2], [0, 0], [4, 2]), "agent_centroids_m", id="one agent"),
        pytest.param(lambda: within_range([0, 0], [4, 2], [[0, 0]], [4, 2]), "agent_extents_m", id="one extent"),
        pytest.param(lambda: within_range([0, 0, 0], [4, 2], [[0, 0]], [[4, 2]]), "ego_centroid_m", id="ego in space"),
        pytest.param(lambda: within_range([0, 0], [4], [[0, 0]], [[4, 2]]), "ego_extent_m", id="ego without width"),
    ],
)
def test_shape_errors_name_the_argument(call, name):
    with pytest.raises(InvalidArgumentError, match=rf"^{name} has shape \("):
        call()

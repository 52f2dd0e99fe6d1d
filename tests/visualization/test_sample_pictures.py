"""Samples as pictures."""

import numpy as np
import pytest

from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.stub_rasterizer import StubRasterizer
from l5kit.visualization import TARGET_POINTS_COLOR
from l5kit.visualization.sample_pictures import HISTORY_POINTS_COLOR, captioned, sample_picture


@pytest.fixture
def rasterizer():
    """Black rasters of 40 x 20 pixels, half a metre each, the agent at (10, 10), its left up."""
    return StubRasterizer(RenderContext(np.array([40, 20]), np.array([0.5, 0.5]), np.array([0.25, 0.5]), True))


@pytest.fixture
def sample(rasterizer):
    return {
        "image": np.zeros((3, 20, 40), dtype=np.float32),
        "raster_from_agent": rasterizer.render_context.raster_from_local,
        "history_positions": np.array([[0.0, 0.0], [-2.0, 0.0], [99.0, 99.0]], dtype=np.float32),
        "history_availabilities": np.array([1.0, 1.0, 0.0], dtype=np.float32),
        "target_positions": np.array([[5.0, 2.0], [-1.0, -1.0]], dtype=np.float32),
        "target_availabilities": np.array([1.0, 0.0], dtype=np.float32),
    }


def places(picture, color):
    rows, columns = np.nonzero((picture == color).all(axis=-1))
    return set(zip(columns.tolist(), rows.tolist(), strict=True))


def test_known_positions_are_where_the_raster_shows_them(sample, rasterizer):
    picture = sample_picture(sample, rasterizer, radius_px=0)
    assert picture.shape == (20, 40, 3)
    assert places(picture, HISTORY_POINTS_COLOR) == {(10, 10), (6, 10)}
    assert places(picture, TARGET_POINTS_COLOR) == {(20, 6)}


def test_trajectories_can_be_left_out_and_are_not_needed_then(sample, rasterizer):
    picture = sample_picture({"image": sample["image"]}, rasterizer, with_trajectories=False)
    assert picture.shape == (20, 40, 3)
    assert not picture.any()


def test_a_sample_without_any_known_position_is_drawn(sample, rasterizer):
    for name in ("history", "target"):
        sample[f"{name}_availabilities"][:] = 0
    assert not sample_picture(sample, rasterizer).any()


def test_the_sample_stays_as_it_was(sample, rasterizer):
    before = {name: np.array(value) for name, value in sample.items()}
    sample_picture(sample, rasterizer)
    for name, value in sample.items():
        np.testing.assert_array_equal(value, before[name])


def test_a_caption_changes_a_copy_near_the_upper_left_corner():
    picture = np.full((100, 300, 3), 90, dtype=np.uint8)
    drawn = captioned(picture, "scene 0")
    assert (picture == 90).all()
    rows, columns = np.nonzero((drawn != 90).any(axis=-1))
    assert len(rows) > 50
    assert rows.max() < 30
    assert columns.max() < 100

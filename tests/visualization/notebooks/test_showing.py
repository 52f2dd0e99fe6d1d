"""Scenes and samples as pictures and tables."""

import re

import cv2
import numpy as np
import pytest

from l5kit.configs.overrides import load_training_config
from l5kit.data import ChunkedDataset, LocalDataManager, MapAPI
from l5kit.data.dataset_files import find_dataset_files
from l5kit.dataset import EgoDataset, EgoDatasetVectorized, collate
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError, UnsupportedValueError
from l5kit.geometry import transform_points
from l5kit.rasterization import build_rasterizer
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from l5kit.visualization import PREDICTED_POINTS_COLOR, describe, show
from l5kit.visualization.sample_pictures import sample_picture
from l5kit.visualization.scene_pictures import ScenePainter

KEYS = {"raster_params": {"semantic_map_key": "semantic_map/semantic_map.pb", "dataset_meta_key": "meta.json"}}


@pytest.fixture(scope="module")
def log(city):
    return ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()


@pytest.fixture(scope="module", params=["py_semantic", "box_debug"])
def rasters(request, city, log):
    cfg = load_training_config("raster_planner")
    cfg["raster_params"]["map_type"] = request.param
    return EgoDataset(cfg, log, build_rasterizer(cfg, LocalDataManager(city)))


@pytest.fixture(scope="module")
def vectors(city, log):
    cfg = load_training_config("vector_planner")
    return EgoDatasetVectorized(cfg, log, build_vectorizer(cfg, LocalDataManager(city)))


def test_a_frame_is_what_l5kit_render_draws(city, log):
    painter = ScenePainter(find_dataset_files(city), log, map_kind="semantic")
    expected = painter.picture(1, 30)
    np.testing.assert_array_equal(np.asarray(show(log, 1, 30)), expected)
    np.testing.assert_array_equal(show(city, 1, 30).image, expected)


def test_a_log_in_memory_has_the_map_that_is_named(city, log):
    scene = log.get_scene_dataset(1)
    with_map, without = show(scene, 0, 30, data_folder=city).image, show(scene, 0, 30).image
    np.testing.assert_array_equal(with_map[60:], show(log, 1, 30).image[60:])  # except for the caption
    assert (with_map != without).any()


def test_a_raster_sample_has_the_colours_of_its_rasterizer(rasters):
    sample = rasters[40]
    expected = sample_picture(sample, rasters.rasterizer)
    for shown in (show(sample), show(sample, rasterizer=rasters.rasterizer), show(rasters, 0, 40)):
        np.testing.assert_array_equal(shown.image, expected)


def test_a_sample_of_a_batch_is_shown_as_the_sample(rasters):
    pytest.importorskip("torch")
    batch = collate([rasters[40], rasters[41]])
    np.testing.assert_array_equal(show({key: value[1] for key, value in batch.items()}).image, show(rasters[41]).image)
    with pytest.raises(InvalidArgumentError, match="take one from a batch"):
        show(batch)


def test_a_vector_sample_is_a_drawing(vectors, tmp_path):
    drawing = show(vectors[40])
    assert drawing._repr_png_() is None
    assert drawing._repr_svg_().startswith("<svg ")
    assert show(vectors, 0, 40) == drawing
    drawing.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes() == drawing.content
    with pytest.raises(UnsupportedValueError, match="has no pixels"):
        drawing.image  # noqa: B018


def test_a_picture_is_saved_as_it_is(log, tmp_path):
    picture = show(log, size_px=(120, 90))
    assert picture.image.shape == (90, 120, 3)
    assert picture._repr_svg_() is None
    picture.save(tmp_path / "a.png")
    np.testing.assert_array_equal(cv2.imread(str(tmp_path / "a.png"))[:, :, ::-1], picture.image)
    np.testing.assert_array_equal(show(picture.image).image, picture.image)


def test_a_map_is_shown(city):
    assert show(MapAPI.from_cfg(LocalDataManager(city), KEYS)).image.std() > 5


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        pytest.param((0, 100), IndexOutOfRangeError, "frame 100 is out of range", id="frame"),
        pytest.param((3, 0), IndexOutOfRangeError, "scene 3 is out of range", id="scene"),
    ],
)
def test_what_is_not_there_is_an_error(log, arguments, error, told):
    with pytest.raises(error, match=told):
        show(log, *arguments)


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        pytest.param(3, "dataset is a int", id="number"),
        pytest.param({"speed": 1.0}, "neither an image nor polylines", id="sample without a picture"),
    ],
)
def test_what_cannot_be_shown_is_an_error(subject, told):
    with pytest.raises(InvalidArgumentError, match=told):
        show(subject)


def test_a_log_that_was_not_opened_is_an_error(log):
    with pytest.raises(InvalidArgumentError, match="was not opened"):
        show(ChunkedDataset(log.path))


def test_samples_and_configurations_are_described(vectors):
    table = describe(vectors[40])
    row = next(line for line in str(table).splitlines() if line.startswith("target_positions "))
    assert re.split(r"\s{2,}", row)[1:5] == ["(30, 2)", "float32", "target", "m"]
    assert "target_positions" in table._repr_html_()
    assert "model_params.step_time " in str(describe(load_training_config("vector_planner")))
    with pytest.raises(InvalidArgumentError, match="pass a sample"):
        describe(vectors)


def test_predictions_are_drawn_over_a_sample(rasters, vectors):
    sample = rasters[40]
    shown = show(sample, predicted=sample["target_positions"][None] + (0.0, 4.0), zoom=2, trajectories=False).image
    assert shown.shape == (224, 224, 3)
    plain = show(sample, trajectories=False).image.repeat(2, axis=0).repeat(2, axis=1)
    changed = (shown != plain).any(axis=-1)
    assert (shown[changed] == PREDICTED_POINTS_COLOR).all()
    columns = np.nonzero(changed)[1]
    points_px = 2 * transform_points(sample["target_positions"] + (0.0, 4.0), sample["raster_from_agent"])
    assert abs(columns.min() - points_px[:, 0].min()) <= 3
    assert abs(columns.max() - points_px[:, 0].max()) <= 3
    drawing = show(vectors[40], predicted=np.array([[3.0, 1.5]]))._repr_svg_()
    assert 'cx="3.00" cy="-1.50"' in drawing
    with pytest.raises(InvalidArgumentError, match="zoom is 0"):
        show(sample, zoom=0)


def test_scores_are_described():
    assert str(describe({"ade": 0.123456, "by": {"scene": 3}}, title="scores")).splitlines() == [
        "key       value",
        "ade       0.1235",
        "by.scene  3",
    ]

"""Model input of a frame, as PNG and SVG."""

import threading
from dataclasses import replace
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest

from l5kit.data.local_data_manager import LocalDataManager
from l5kit.dataset import EgoDatasetVectorized
from l5kit.errors import IndexOutOfRangeError, TrackNotFoundError, UnsupportedValueError
from l5kit.rasterization.semantic_rasterizer import COLORS
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from l5kit.visualization import TARGET_POINTS_COLOR
from l5kit.visualization.sample_config import SampleForm, sample_config
from l5kit.visualization.sample_pictures import HISTORY_POINTS_COLOR
from l5kit.visualization.scene_pictures import ScenePainter
from l5kit.visualization.viewer import sample_pictures
from l5kit.visualization.viewer.sample_pictures import SamplePictures

FRAME = 40


@pytest.fixture(scope="module")
def pictures(city_files, city_log):
    return SamplePictures(city_files, city_log)


@pytest.fixture(scope="module")
def some_track(city_log):
    """An agent of frame 40 of scene 1 that passes the label filter."""
    scene = city_log.get_scene_dataset(1)
    agents = scene.agents[slice(*scene.frames[FRAME]["agent_index_interval"])]
    return int(agents["track_id"][agents["label_probabilities"][:, 3:].max(axis=1) > 0.5][0])


def decoded(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]


@pytest.mark.parametrize("map_kind", ["semantic", "satellite", "box"])
@pytest.mark.parametrize("has_track", [False, True], ids=["AV", "agent"])
def test_rasters_are_the_samples_of_training(city_files, city_log, pictures, some_track, map_kind, has_track):
    track_id = some_track if has_track else None
    pixels = decoded(pictures.raster_png(1, FRAME, track_id, map_kind=map_kind))
    painter = ScenePainter(city_files, city_log, map_kind=map_kind, form=SampleForm(), style="channels")
    assert pixels.shape == (224, 224, 3)
    np.testing.assert_array_equal(pixels, painter.picture(1, FRAME, track_id, with_caption=False))


def test_a_raster_has_road_and_target(pictures):
    pixels = decoded(pictures.raster_png(1, FRAME, None, map_kind="semantic"))
    assert np.count_nonzero((pixels == COLORS["ROAD"]).all(axis=-1)) > 1000
    for color in ((0, 255, 0), TARGET_POINTS_COLOR, HISTORY_POINTS_COLOR):
        assert np.count_nonzero((pixels == color).all(axis=-1)) > 5, color


@pytest.mark.parametrize("has_track", [False, True], ids=["AV", "agent"])
def test_drawings_show_the_vector_sample(city_files, city_log, pictures, some_track, has_track):
    track_id = some_track if has_track else None
    root = ElementTree.fromstring(pictures.vector_svg(1, FRAME, track_id))
    cfg = sample_config(city_files, map_kind="semantic", form=SampleForm(), step_time_s=0.1)
    cfg["model_params"] |= {"history_num_frames_ego": 10, "history_num_frames_agents": 10}
    cfg["data_generation_params"] = sample_pictures._VECTOR_SIZES
    samples = EgoDatasetVectorized(cfg, city_log, build_vectorizer(cfg, LocalDataManager("")))
    sample = samples.get_frame(1, FRAME, track_id)
    counts = {}
    for element in root:
        counts[element.get("class")] = counts.get(element.get("class"), 0) + 1
    assert counts["lane"] == np.count_nonzero(sample["lanes_mid_availabilities"].any(axis=-1)) > 5
    assert counts["boundary"] == np.count_nonzero(sample["lanes_availabilities"].any(axis=-1)) > 10
    assert counts["agent"] == np.count_nonzero(sample["other_agents_polyline_availability"][:, 0]) > 2
    assert counts["target"] == 1


MISSING = {
    "no such kind": (UnsupportedValueError, "'street'; allowed are", {"map_kind": "street"}, (0, 0, None)),
    "no such scene": (IndexOutOfRangeError, "scene 3 is out of range", {}, (3, 0, None)),
    "a negative scene": (IndexOutOfRangeError, "scene -1 is out of range", {}, (-1, 0, None)),
    "no such frame": (IndexOutOfRangeError, "frame 100 is out of range; scene 0 has", {}, (0, 100, None)),
    "a negative frame": (IndexOutOfRangeError, "frame -1 is out of range", {}, (0, -1, None)),
    "no such track": (TrackNotFoundError, "track 99999 is not", {}, (0, 0, 99999)),
    "a track beyond 64 bits": (TrackNotFoundError, "99999999999999999999 is not", {}, (0, 0, 99999999999999999999)),
}


@pytest.mark.parametrize(("error", "said", "options", "place"), MISSING.values(), ids=MISSING.keys())
def test_what_is_not_there_is_an_error(pictures, error, said, options, place):
    with pytest.raises(error, match=said):
        pictures.raster_png(*place, **{"map_kind": "box"} | options)
    if not options:
        with pytest.raises(error, match=said):
            pictures.vector_svg(*place)


def test_files_that_a_kind_needs_are_named(city_files, city_log):
    bare = SamplePictures(replace(city_files, semantic_map=None, aerial=None, meta=None), city_log)
    assert decoded(bare.raster_png(0, 0, None, map_kind="box")).any()
    with pytest.raises(FileNotFoundError, match="need a semantic map and a meta"):
        bare.raster_png(0, 0, None, map_kind="semantic")
    with pytest.raises(FileNotFoundError, match="need a semantic map and a meta"):
        bare.vector_svg(0, 0, None)


def test_threads_get_the_same_pictures_from_one_painter(city_files, city_log, monkeypatch):
    made = []

    class CountedPainter(ScenePainter):
        def __init__(self, *arguments, **options):
            made.append(options["map_kind"])
            super().__init__(*arguments, **options)

    monkeypatch.setattr(sample_pictures, "ScenePainter", CountedPainter)
    shared, drawn = SamplePictures(city_files, city_log), {}

    def draw(thread):
        frames = range(0, 60, 10)
        drawn[thread] = [
            (shared.raster_png(1, frame, None, map_kind="semantic"), shared.vector_svg(1, frame, None))
            for frame in frames
        ]

    threads = [threading.Thread(target=draw, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 4
    assert all(pictures == drawn[0] for pictures in drawn.values())
    assert len(set(drawn[0])) == 6
    assert sorted(made) == ["box", "semantic"]

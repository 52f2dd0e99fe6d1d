"""Imports are datasets like any other, for pictures, vectors, the mask and simulations."""

import numpy as np
import pytest

from l5kit.configs.overrides import load_training_config
from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.readers.importing import import_dataset
from support.source_scenes import NUM_STEPS, made_source


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A town with a light, once where it is in the source and once a kilometre on."""
    folder = tmp_path_factory.mktemp("imported")
    source = made_source(folder / "source", {"val-0": "far", "val-1": "far b"})
    return import_dataset(source, folder / "out")


@pytest.fixture(scope="module")
def log(imported):
    return ChunkedDataset(str(imported.scenes["val"])).open()


def config(kind):
    cfg = load_training_config(kind)
    cfg["raster_params"]["dataset_meta_key"] = "meta.json"
    cfg["raster_params"]["semantic_map_key"] = "semantic_map/semantic_map.pb"
    return cfg


@pytest.mark.slow
def test_pictures_show_the_same_for_each_of_several_maps(imported, log):
    from l5kit.dataset import EgoDataset
    from l5kit.rasterization import build_rasterizer

    cfg = config("raster_planner")
    rasterizer = build_rasterizer(cfg, LocalDataManager(str(imported.folder)))
    samples = EgoDataset(cfg, log, rasterizer)
    assert len(samples) == 2 * NUM_STEPS
    for frame in (2, 7):
        first, second = (samples[scene * NUM_STEPS + frame]["image"] for scene in (0, 1))
        assert first[-3:].any()
        assert np.abs(first.astype(float) - second).mean() < 0.002  # places differ by parts of a pixel
    green, red = (samples[frame]["image"][-3:] for frame in (2, 7))
    assert (green != red).any()  # the light before the AV


def test_vectors_show_lanes_and_the_light_before_the_av(imported, log):
    from l5kit.dataset import EgoDatasetVectorized
    from l5kit.vectorization.vectorizer_builder import build_vectorizer

    cfg = config("vector_planner")
    vectorizer = build_vectorizer(cfg, LocalDataManager(str(imported.folder)))
    samples = EgoDatasetVectorized(cfg, log, vectorizer)
    sample = samples[7]
    assert sample["lanes_mid"].any()
    assert sample["all_other_agents_history_positions"].any()
    later = samples[NUM_STEPS + 7]
    assert np.allclose(sample["lanes_mid"], later["lanes_mid"], atol=0.02)
    assert np.allclose(
        sample["all_other_agents_history_positions"], later["all_other_agents_history_positions"], atol=1e-3
    )


def test_the_mask_takes_all_road_users(imported, log):
    from l5kit.dataset import AgentDataset
    from l5kit.rasterization import build_rasterizer

    cfg = config("raster_planner")
    rasterizer = build_rasterizer(cfg, LocalDataManager(str(imported.folder)))
    assert len(AgentDataset(cfg, log, rasterizer, min_frame_history=0, min_frame_future=0)) == len(log.agents) == 42


@pytest.mark.slow
def test_scenes_are_simulated_and_scored(imported, tmp_path):
    from l5kit.closedloop import simulate

    result = simulate(imported.scenes["val"], tmp_path / "drives", planner="idm")
    assert (result.num_scenes, result.failed) == (2, ())
    assert result.metrics["drivable_area_compliance"] == 1.0
    assert result.scores["files"]["map"] is not None

"""The AV size in the facts of a log is used in samples and pictures, one by one and in batches."""

import warnings
from typing import Any

import numpy as np
import pytest

from l5kit.data.log_facts import EGO_EXTENT_M, LogFacts
from l5kit.data.map.api import MapAPI
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import EgoDataset, EgoDatasetVectorized
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.vectorization.vectorizer import Vectorizer
from support.logs import make_several_scenes_log
from support.maps import WORLD_TO_ECEF, save_street_map
from support.samples import make_cfg, make_stub
from support.vectors import make_vector_cfg

BUS_M = (12.0, 2.5, 3.2)
KINDS = ["raster", "vector"]


def make_log(extent_m: tuple[float, float, float] | None) -> ChunkedDataset:
    log = make_several_scenes_log()
    facts = None if extent_m is None else LogFacts(ego_extent_m=extent_m)
    arrays = {name: getattr(log, name) for name in ("scenes", "frames", "agents", "tl_faces")}
    return ChunkedDataset.in_memory(**arrays, facts=facts)


@pytest.fixture
def make_dataset(tmp_path) -> Any:
    street = MapAPI(save_street_map(tmp_path), WORLD_TO_ECEF)

    def make(kind: str, extent_m: tuple[float, float, float] | None) -> Any:
        if kind == "vector":
            cfg = make_vector_cfg()
            return EgoDatasetVectorized(cfg, make_log(extent_m), Vectorizer(cfg, street))
        cfg = make_cfg()
        return EgoDataset(cfg, make_log(extent_m), BoxRasterizer(make_stub(cfg).render_context, 0.5, 3))

    return make


@pytest.mark.parametrize(("extent_m", "expected_m"), [(None, EGO_EXTENT_M), (BUS_M, BUS_M)], ids=["1.5", "told"])
@pytest.mark.parametrize("kind", KINDS)
def test_extents_of_the_av_are_those_of_the_log(make_dataset, kind, extent_m, expected_m):
    dataset = make_dataset(kind, extent_m)
    single, columns = dataset[10], dataset.make_columns([10, 12])
    for sample in (single, columns.sample(0)):
        assert sample["extent"].tolist() == list(expected_m)
        for steps in sample["history_extents"], sample["future_extents" if kind == "raster" else "target_extents"]:
            there = steps.any(axis=1)
            assert there.any()
            np.testing.assert_array_equal(steps[there], np.tile(np.float32(expected_m[:2]), (there.sum(), 1)))


def test_a_longer_av_is_drawn_longer(make_dataset):
    of_bus, of_car = (make_dataset("raster", extent_m) for extent_m in (BUS_M, None))
    pixels = [np.count_nonzero(dataset[10]["image"][4] > 0.5) for dataset in (of_bus, of_car)]
    area_ratio = BUS_M[0] * BUS_M[1] / (EGO_EXTENT_M[0] * EGO_EXTENT_M[1])
    assert 0.8 * area_ratio < pixels[0] / pixels[1] < area_ratio  # edges are drawn a part of a pixel wider
    np.testing.assert_array_equal(of_bus.make_columns([10])["image"][0], of_bus[10]["image"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_that_takes_the_place_of_another_brings_its_facts(make_dataset, kind):
    dataset = make_dataset(kind, None)
    dataset.dataset = make_log(BUS_M)
    assert dataset[10]["extent"].tolist() == dataset.make_columns([10])["extent"][0].tolist() == list(BUS_M)
    assert dataset.dataset.facts.ego_extent_m == BUS_M


def test_a_step_time_other_than_that_of_the_log_is_told() -> None:
    log = make_several_scenes_log()
    arrays = {name: getattr(log, name) for name in ("scenes", "frames", "agents", "tl_faces")}
    slow = ChunkedDataset.in_memory(**arrays, facts=LogFacts(step_time_s=0.5))
    cfg = make_cfg()
    with pytest.warns(RuntimeWarning, match=r"step_time is 0\.1, but .* says that 0\.5 s lie between") as caught:
        EgoDataset(cfg, slow, make_stub(cfg))
    assert {warning.filename for warning in caught} == {__file__}
    cfg["model_params"]["step_time"] = 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EgoDataset(cfg, slow, make_stub(cfg))

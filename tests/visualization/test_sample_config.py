"""Configurations that fit the files of a dataset."""

from dataclasses import replace

import pytest

from l5kit.configs.parameters import SamplingParams
from l5kit.data.dataset_files import DatasetFiles
from l5kit.errors import UnsupportedValueError
from l5kit.rasterization.rasterizer_builder import MAP_TYPES
from l5kit.visualization.sample_config import SampleForm, available_map_kinds, sample_config


@pytest.fixture
def files(tmp_path):
    return DatasetFiles(tmp_path / "a.zarr", tmp_path / "map.pb", tmp_path / "meta.json", tmp_path / "aerial.png", ())


@pytest.mark.parametrize(
    ("missing", "kinds"),
    [
        ((), ("semantic", "satellite")),
        (("aerial",), ("semantic",)),
        (("semantic_map",), ("satellite",)),
        (("meta",), ("box",)),
        (("semantic_map", "aerial"), ("box",)),
    ],
    ids=str,
)
def test_kinds_of_map_are_those_whose_files_are_there(files, missing, kinds):
    assert available_map_kinds(replace(files, **dict.fromkeys(missing))) == kinds


@pytest.mark.parametrize("kind", ["semantic", "satellite", "box"])
def test_a_configuration_is_one_that_datasets_and_rasterizers_read(files, kind):
    form = SampleForm(raster_size_px=(80, 40), pixel_size_m=0.25, future_num_frames=12, history_num_frames=3)
    cfg = sample_config(files, map_kind=kind, form=form, step_time_s=0.1)
    map_type = MAP_TYPES[cfg["raster_params"]["map_type"]]
    rasterizer, sampling = map_type.from_cfg(cfg), SamplingParams.from_cfg(cfg)
    assert rasterizer.geometry.raster_size_px == (80, 40)
    assert rasterizer.geometry.pixel_size_m == (0.25, 0.25)
    assert cfg["raster_params"]["satellite_out_of_bounds"] == "pad"
    assert kind != "satellite" or rasterizer.satellite_out_of_bounds == "pad"
    assert (sampling.history_num_frames, sampling.future_num_frames, sampling.step_time_s) == (3, 12, 0.1)
    slow = sample_config(files, map_kind=kind, form=form, step_time_s=0.5)
    assert SamplingParams.from_cfg(slow).step_time_s == 0.5


def test_a_missing_file_is_named(files):
    with pytest.raises(FileNotFoundError, match="need an aerial picture and a meta"):
        sample_config(replace(files, aerial=None, meta=None), map_kind="satellite", form=SampleForm(), step_time_s=0.1)


def test_an_unknown_kind_is_refused(files):
    with pytest.raises(UnsupportedValueError, match="'street'; allowed are semantic, satellite, box"):
        sample_config(files, map_kind="street", form=SampleForm(), step_time_s=0.1)

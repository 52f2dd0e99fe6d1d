"""The vectorizer that a configuration describes."""

import json
from pathlib import Path
from typing import Any

import pytest

from l5kit.data.local_data_manager import LocalDataManager
from l5kit.errors import ConfigError
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF
from support.vectors import make_vector_cfg


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "semantic_map.pb").write_bytes(FIXTURE_S_MAP)
    (tmp_path / "meta.json").write_text(json.dumps({"world_to_ecef": WORLD_TO_ECEF.tolist()}))
    return tmp_path


def test_the_map_of_the_configuration_is_read(folder: Path) -> None:
    vectorizer = build_vectorizer(make_vector_cfg(), LocalDataManager(str(folder)))
    assert len(vectorizer.mapAPI) == 7
    assert vectorizer.other_agents_num == 4


@pytest.mark.parametrize("name", ["semantic_map.pb", "meta.json"])
def test_a_missing_file_is_named(name: str, folder: Path) -> None:
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        build_vectorizer(make_vector_cfg(), LocalDataManager(str(folder)))


def test_a_folder_is_no_data_manager(folder: Path) -> None:
    manager: Any = str(folder)
    with pytest.raises(TypeError, match="LocalDataManager"):
        build_vectorizer(make_vector_cfg(), manager)


def without(path: tuple[str, ...]) -> dict[str, Any]:
    cfg = make_vector_cfg()
    section = cfg
    for name in path[:-1]:
        section = section[name]
    del section[path[-1]]
    return cfg


NEEDED = [
    ("raster_params", "semantic_map_key"),
    ("raster_params", "dataset_meta_key"),
    ("model_params", "history_num_frames_ego"),
    ("model_params", "history_num_frames_agents"),
    ("model_params", "future_num_frames"),
    ("data_generation_params", "other_agents_num"),
    ("data_generation_params", "max_agents_distance"),
    ("data_generation_params", "lane_params"),
    ("data_generation_params", "lane_params", "max_num_lanes"),
    ("data_generation_params", "lane_params", "max_points_per_lane"),
    ("data_generation_params", "lane_params", "max_points_per_crosswalk"),
    ("data_generation_params", "lane_params", "max_retrieval_distance_m"),
    ("data_generation_params", "lane_params", "max_num_crosswalks"),
]


@pytest.mark.parametrize("path", NEEDED, ids=".".join)
def test_a_missing_key_is_named(path: tuple[str, ...], folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.".join(path)):
        build_vectorizer(without(path), LocalDataManager(str(folder)))

"""The table of keys against real samples, and the document that is printed from it."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from l5kit.data.map.api import MapAPI
from l5kit.rasterization.box_rasterizer import BoxRasterizer
from l5kit.sampling.sample_keys import ALIASES, KEYS_BY_DATASET, PYTHON_SCALARS, ROWS_OF_AV
from l5kit.vectorization.vectorizer import Vectorizer
from support.logs import make_several_scenes_log
from support.maps import WORLD_TO_ECEF, save_street_map
from support.samples import make_agent_dataset, make_cfg, make_stub
from support.vectors import make_vector_cfg

DOCS = Path(__file__).resolve().parents[2] / "docs"
OF_AGENTS = ("AgentDataset", "AgentDatasetVectorized")
RASTER_SIZES = {"F": 5, "h": 3, "C": 8, "H": 112, "W": 224}
VECTOR_SIZES = {"F": 6, "h": 2, "M": 7, "L": 3, "P": 20, "X": 2, "Q": 5, "R": 26}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory) -> dict[str, Any]:
    pytest.importorskip("torch")
    from l5kit.dataset import AgentDatasetVectorized, EgoAgentDatasetVectorized, EgoDataset, EgoDatasetVectorized

    log, cfg = make_several_scenes_log(), make_cfg()
    boxes = BoxRasterizer(make_stub(cfg).render_context, 0.5, 3)
    street = MapAPI(save_street_map(tmp_path_factory.mktemp("street")), WORLD_TO_ECEF)
    vector_cfg = make_vector_cfg(
        future_num_frames=6, history_num_frames_ego=1, history_num_frames_agents=2, other_agents_num=7, route=True
    )
    vectorizer = Vectorizer(vector_cfg, street)
    with pytest.warns(RuntimeWarning):
        of_agents = EgoAgentDatasetVectorized(vector_cfg, log, vectorizer)
    with pytest.warns(RuntimeWarning):
        around_agents = AgentDatasetVectorized(vector_cfg, log, vectorizer, min_frame_history=0, min_frame_future=0)
    return {
        "EgoDataset": EgoDataset(cfg, log, boxes),
        "AgentDataset": make_agent_dataset(cfg, log, boxes, min_frame_history=0, min_frame_future=0),
        "EgoDatasetVectorized": EgoDatasetVectorized(vector_cfg, log, vectorizer),
        "AgentDatasetVectorized": around_agents,
        "EgoAgentDatasetVectorized": of_agents,
    }


def sizes_of(name: str) -> dict[str, int]:
    return VECTOR_SIZES if "Vectorized" in name else RASTER_SIZES


@pytest.mark.parametrize("name", KEYS_BY_DATASET)
def test_samples_are_as_the_table_says(datasets, name):
    sample = datasets[name][25]
    table = KEYS_BY_DATASET[name]
    assert {key.name for key in table} == set(sample)
    for key in table:
        value = sample[key.name]
        dtype = key.agent_dtype if key.agent_dtype and name in OF_AGENTS else key.dtype
        assert np.shape(value) == key.sizes(sizes_of(name)), key.name
        if key.python_type is not None:
            assert type(value) is key.python_type, key.name
        else:
            assert np.asarray(value).dtype == dtype, key.name  # frame_index is an int in the first scene
    for alias, key in ALIASES.items():
        assert alias not in sample or sample[alias] is sample[key]


@pytest.mark.parametrize("name", KEYS_BY_DATASET)
def test_columns_are_as_the_table_says(datasets, name):
    columns = datasets[name].make_columns([25, 3, 7])
    table = KEYS_BY_DATASET[name]
    assert [key.name for key in table] == list(columns)
    for key in table:
        dtype = key.agent_dtype if key.agent_dtype and name in OF_AGENTS else key.dtype
        assert columns[key.name].dtype == dtype, key.name
        assert columns[key.name].shape == (3, *key.sizes(sizes_of(name))), key.name


@pytest.mark.parametrize("name", KEYS_BY_DATASET)
def test_columns_of_datasets_are_written_into_memory_of_the_caller(datasets, name):
    expected = datasets[name].make_columns([25, 3, 7])
    memory = {key: np.zeros((4, *column.shape[1:]), column.dtype) for key, column in expected.items()}
    columns = datasets[name].make_columns([25, 3, 7], out=memory)
    for key, column in expected.items():
        assert np.shares_memory(columns[key], memory[key]), key
        np.testing.assert_array_equal(memory[key][:3], column, err_msg=key)


@pytest.mark.parametrize("name", KEYS_BY_DATASET)
def test_no_index_gives_empty_columns(datasets, name):
    columns = datasets[name].make_columns([])
    assert [key.name for key in KEYS_BY_DATASET[name]] == list(columns)
    for key in KEYS_BY_DATASET[name]:
        assert columns[key.name].shape == (0, *key.sizes(sizes_of(name))), key.name


def test_a_key_with_past_steps_only_is_missing_without_them(datasets):
    from l5kit.dataset import EgoDataset

    sample = EgoDataset(make_cfg(history_num_frames=0), make_several_scenes_log(), None)[5]
    table = KEYS_BY_DATASET["EgoDataset"]
    assert {key.name for key in table if key.needs_history} == {"curr_speed"}
    assert {key.name for key in table} - set(sample) == {"curr_speed", "image"}


def test_samples_without_routes_lack_their_keys(datasets):
    from l5kit.dataset import EgoDatasetVectorized

    with_routes = datasets["EgoDatasetVectorized"]
    without = EgoDatasetVectorized(
        make_vector_cfg(), make_several_scenes_log(), Vectorizer(make_vector_cfg(), with_routes.vectorizer.mapAPI)
    )
    of_routes = {key.name for key in KEYS_BY_DATASET["EgoDatasetVectorized"] if key.needs_route}
    assert set(with_routes[25]) - set(without[25]) == of_routes


def test_datasets_that_make_samples_one_by_one_have_no_columns(datasets):
    from l5kit.dataset import EgoDataset
    from l5kit.errors import UnsupportedValueError

    class Own(EgoDataset):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return super().__getitem__(index)

    with pytest.raises(UnsupportedValueError, match="one by one"):
        Own(make_cfg(), make_several_scenes_log(), None).make_columns([1])


def test_what_follows_from_the_table():
    assert dict(ALIASES) == {"world_to_image": "raster_from_world"}
    assert {"scene_index", "type", "yaw"} == PYTHON_SCALARS
    assert ROWS_OF_AV["all_other_agents_future_yaws"] == "target_yaws"
    assert len(ROWS_OF_AV) == 14


@pytest.mark.parametrize("name", ["samples.md", "closed_loop_scores.md", "reference/epdms.md"])
def test_documents_are_printed_from_the_tables(name):
    pages = runpy.run_path(str(DOCS / "write_tables.py"))["PAGES"]
    assert (DOCS / name).read_text("utf-8") == pages[name](), "run python docs/write_tables.py"

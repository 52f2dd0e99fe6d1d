import copy
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from l5kit.configs.parameters import (
    RASTERIZERS,
    LaneParams,
    MapKeys,
    RasterGeometry,
    RouteParams,
    SamplingParams,
    VectorizerParams,
    VectorSamplingParams,
    read_disable_traffic_light_faces,
    read_filter_agents_threshold,
)
from l5kit.configs.reading import read_variant
from l5kit.errors import ConfigError, UnsupportedConfigError, UnsupportedValueError

MAP_TYPES = {params.map_type_name(): params for params in RASTERIZERS}


def rasterizer_params(cfg):
    """Read what the map type of a configuration needs."""
    return read_variant(cfg, "raster_params.map_type", MAP_TYPES).from_cfg(cfg)


@pytest.fixture
def cfg():
    return {
        "format_version": 4,
        "model_params": {
            "model_architecture": "resnet50",
            "history_num_frames": 5,
            "future_num_frames": 50,
            "step_time": 0.1,
            "render_ego_history": True,
        },
        "raster_params": {
            "raster_size": [224, 112],
            "pixel_size": [0.5, 0.25],
            "ego_center": [0.25, 0.5],
            "set_origin_to_bottom": True,
            "map_type": "py_semantic",
            "semantic_map_key": "semantic_map/semantic_map.pb",
            "satellite_map_key": "aerial_map/aerial_map.png",
            "dataset_meta_key": "meta.json",
            "filter_agents_threshold": 0.5,
            "disable_traffic_light_faces": False,
        },
    }


def test_geometry(cfg):
    assert RasterGeometry.from_cfg(cfg) == RasterGeometry((224, 112), (0.5, 0.25), (0.25, 0.5), True)


def test_numpy_arrays_and_tuples_are_pairs(cfg):
    expected = RasterGeometry.from_cfg(cfg)
    cfg["raster_params"]["raster_size"] = np.array([224, 112])
    cfg["raster_params"]["pixel_size"] = np.array([0.5, 0.25], dtype=np.float32)
    cfg["raster_params"]["ego_center"] = (0.25, 0.5)
    assert RasterGeometry.from_cfg(cfg) == expected


def test_sampling(cfg):
    assert SamplingParams.from_cfg(cfg) == SamplingParams(5, 50, 0.1, 1, 1, 0.5)
    cfg["model_params"] |= {"history_step_size": 2, "future_step_size": 5}
    params = SamplingParams.from_cfg(cfg)
    assert (params.history_step_size, params.future_step_size) == (2, 5)


def test_rasterizer_defaults_and_options(cfg):
    cfg["raster_params"]["map_type"] = "py_satellite"
    params = rasterizer_params(cfg)
    assert (params.solid_boxes, params.image_dtype, params.satellite_out_of_bounds) == (False, "float32", "error")
    cfg["raster_params"] |= {"solid_boxes": True, "image_dtype": "uint8", "satellite_out_of_bounds": "pad"}
    params = rasterizer_params(cfg)
    assert (params.solid_boxes, params.image_dtype, params.satellite_out_of_bounds) == (True, "uint8", "pad")


NEEDED = {
    "py_semantic": ("semantic_map_key", "dataset_meta_key", "filter_agents_threshold"),
    "semantic_debug": ("semantic_map_key", "dataset_meta_key"),
    "py_satellite": ("satellite_map_key", "dataset_meta_key", "filter_agents_threshold"),
    "satellite_debug": ("satellite_map_key", "dataset_meta_key"),
    "box_debug": ("filter_agents_threshold",),
    "stub_debug": (),
}
OPTIONAL = ("semantic_map_key", "satellite_map_key", "dataset_meta_key", "filter_agents_threshold")


@pytest.mark.parametrize("map_type", MAP_TYPES)
def test_each_map_type_needs_its_keys_only(cfg, map_type):
    cfg["raster_params"]["map_type"] = map_type
    for key in OPTIONAL:
        without = copy.deepcopy(cfg)
        del without["raster_params"][key]
        if key in NEEDED[map_type]:
            with pytest.raises(ConfigError, match=rf"raster_params\.{key}"):
                rasterizer_params(without)
        else:
            assert not hasattr(rasterizer_params(without), key)


@pytest.mark.parametrize("map_type", ["py_lidar", "", None, 3, True, ["py_semantic"], {"py_semantic": 1}], ids=repr)
@pytest.mark.parametrize("caught_as", [NotImplementedError, ConfigError, UnsupportedValueError, KeyError, ValueError])
def test_an_unknown_map_type_is_also_a_not_implemented_error(cfg, map_type, caught_as):
    """L5Kit 1.5 compared with None, whatever the type: an empty value in YAML is None."""
    cfg["raster_params"]["map_type"] = map_type
    with pytest.raises(caught_as) as error:
        rasterizer_params(cfg)
    assert type(error.value) is UnsupportedConfigError
    message = str(error.value)
    assert message.startswith("raster_params.map_type: expected 'py_semantic' or ")
    assert message.endswith(f"got {map_type!r}")


def test_a_missing_map_type_is_a_missing_key(cfg):
    del cfg["raster_params"]["map_type"]
    with pytest.raises(KeyError, match=r"raster_params\.map_type: this key is missing") as error:
        rasterizer_params(cfg)
    assert not isinstance(error.value, NotImplementedError)


KEYS = [
    (
        "raster_params",
        "raster_size",
        [None, 224, [224], [224, 0], [224, 16_385], [10**30, 2], [224, 112.5], "ab", [True, 1], [1, 2, 3]],
    ),
    ("raster_params", "pixel_size", [[0.5, 0], [0.5, -1.0], [0.5, float("nan")], [0.5, "x"]]),
    ("raster_params", "ego_center", [[0.5, float("inf")], {}]),
    ("raster_params", "set_origin_to_bottom", ["yes", 2, None]),
    ("model_params", "history_num_frames", [-1, 1.5, "3", None, 100_001, 10**12]),
    ("model_params", "render_ego_history", ["no"]),
    ("raster_params", "filter_agents_threshold", ["0.5", None, float("nan"), True]),
]


@pytest.mark.parametrize(("section", "key", "values"), KEYS, ids=[key for _, key, _ in KEYS])
def test_j8_missing_and_ill_typed_keys_name_the_path_and_what_is_expected(cfg, section, key, values):
    for value in values:
        wrong = copy.deepcopy(cfg)
        wrong[section][key] = value
        with pytest.raises(ConfigError, match=rf"{section}\.{key}: expected .*got"):
            rasterizer_params(wrong)
    del cfg[section][key]
    for builtin in (KeyError, ValueError, ConfigError):
        with pytest.raises(builtin) as error:
            rasterizer_params(cfg)
        assert str(error.value).startswith(f"{section}.{key}: this key is missing; expected ")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("future_num_frames", -1),
        ("step_time", 0),
        ("step_time", -0.1),
        ("history_step_size", 0),
        ("future_num_frames", 10**6),
    ],
)
def test_j8_sampling_values_out_of_range(cfg, key, value):
    cfg["model_params"][key] = value
    with pytest.raises(ConfigError, match=rf"model_params\.{key}"):
        SamplingParams.from_cfg(cfg)


@pytest.mark.parametrize("bad", [None, [], "cfg", {}, {"raster_params": 3}, {"raster_params": None}])
def test_j8_missing_sections(bad):
    with pytest.raises(ConfigError, match=r"raster_params|mapping of sections"):
        RasterGeometry.from_cfg(bad)


def test_unknown_keys_are_ignored(cfg):
    expected = rasterizer_params(cfg)
    cfg["raster_params"]["my_own_key"] = object()
    cfg["train_params"] = {"max_num_steps": 5}
    assert rasterizer_params(cfg) == expected


@pytest.mark.parametrize("value", [0, 0.0, 1, 0.5, -1, np.float32(0.5)])
def test_the_threshold_keeps_its_type(cfg, value):
    cfg["raster_params"]["filter_agents_threshold"] = value
    found = read_filter_agents_threshold(cfg)
    assert str(found) == str(value.item() if isinstance(value, np.generic) else value)


@pytest.mark.parametrize(("value", "found"), [(True, True), (False, False), (0, False), (1, True), (np.True_, True)])
def test_disable_traffic_light_faces(cfg, value, found):
    cfg["raster_params"]["disable_traffic_light_faces"] = value
    assert read_disable_traffic_light_faces(cfg) is found


def test_disable_traffic_light_faces_is_needed(cfg):
    cfg["raster_params"]["disable_traffic_light_faces"] = "maybe"
    with pytest.raises(ConfigError, match="maybe"):
        read_disable_traffic_light_faces(cfg)
    del cfg["raster_params"]["disable_traffic_light_faces"]
    with pytest.raises(KeyError):
        read_disable_traffic_light_faces(cfg)


def test_map_keys(cfg):
    assert MapKeys.from_cfg(cfg) == MapKeys("semantic_map/semantic_map.pb", "meta.json")


def test_sections_change_nothing(cfg):
    before = copy.deepcopy(cfg)
    rasterizer_params(cfg)
    SamplingParams.from_cfg(cfg)
    assert cfg == before


@pytest.mark.parametrize("key", ["semantic_map_key", "dataset_meta_key"])
@pytest.mark.parametrize("value", ["", "  ", 3, None, b"map.pb"], ids=repr)
def test_a_key_that_is_empty_or_no_path_is_named(cfg, key, value):
    cfg["raster_params"][key] = value
    for read in (MapKeys.from_cfg, rasterizer_params):
        with pytest.raises(ConfigError, match=rf"raster_params\.{key}: expected a non-empty path, got"):
            read(cfg)


def test_a_path_object_is_a_key(cfg):
    cfg["raster_params"]["semantic_map_key"] = Path("maps") / "semantic_map.pb"
    assert MapKeys.from_cfg(cfg).semantic_map_key == os.path.join("maps", "semantic_map.pb")
    assert rasterizer_params(cfg).semantic_map_key == os.path.join("maps", "semantic_map.pb")


@pytest.fixture
def vector_cfg(cfg):
    cfg["model_params"] |= {"history_num_frames_ego": 1, "history_num_frames_agents": 3}
    lanes = {"max_num_lanes": 30, "max_points_per_lane": 20, "max_points_per_crosswalk": 25, "max_num_crosswalks": 0}
    cfg["data_generation_params"] = {
        "other_agents_num": 29,
        "max_agents_distance": 35,
        "lane_params": lanes | {"max_retrieval_distance_m": 40.5},
    }
    return cfg


def test_vector_parameters(vector_cfg):
    lanes = LaneParams(30, 20, 25, 40.5, 0)
    assert VectorizerParams.from_cfg(vector_cfg) == VectorizerParams(1, 3, 50, 29, 35, False, 0.5, lanes, False)
    assert VectorSamplingParams.from_cfg(vector_cfg) == VectorSamplingParams(1, 3, 50, 0.1, 1, 1, 0.5, False)


def test_all_arrays_of_a_vector_sample_have_the_longer_history(vector_cfg):
    assert VectorizerParams.from_cfg(vector_cfg).history_num_frames == 3
    vector_cfg["model_params"]["history_num_frames_ego"] = 7
    assert VectorizerParams.from_cfg(vector_cfg).history_num_frames == 7
    assert VectorSamplingParams.from_cfg(vector_cfg).history_num_frames == 7


def test_new_keys_of_vector_samples(vector_cfg):
    vector_cfg["model_params"] |= {"history_step_size": 2, "future_step_size": 3, "speed_from_history": True}
    vector_cfg["data_generation_params"] |= {"order_agents_by_distance": True, "route_params": {"reach_m": 60}}
    vector_cfg["model_params"]["route"] = True
    assert VectorizerParams.from_cfg(vector_cfg).has_route
    assert VectorizerParams.from_cfg(vector_cfg).route == RouteParams(reach_m=60.0)
    assert VectorizerParams.from_cfg(vector_cfg).order_agents_by_distance
    assert VectorSamplingParams.from_cfg(vector_cfg) == VectorSamplingParams(1, 3, 50, 0.1, 2, 3, 0.5, True)


@pytest.mark.parametrize(
    ("route", "told"),
    [
        ({"reach_m": 19.9}, r"reach_m: 19\.9 metres, but near_m is 20 metres"),
        ({"near_m": 81}, r"reach_m: 80 metres, but near_m is 81 metres"),
        ({"reach_m": 1e9}, "gives 250,000,005 points, more than 10,000"),
        ({"near_step_m": 1e-300, "near_m": 1e200, "reach_m": 1e200}, "gives inf points"),
    ],
)
def test_points_of_a_route_are_within_its_reach_and_not_too_many(vector_cfg, route, told):
    vector_cfg["data_generation_params"]["route_params"] = route
    with pytest.raises(ConfigError, match=told):
        VectorizerParams.from_cfg(vector_cfg)


VECTOR_KEYS = [
    ("model_params", "history_num_frames_ego", -1),
    ("model_params", "history_num_frames_agents", 1.5),
    ("model_params", "future_num_frames", -1),
    ("data_generation_params", "other_agents_num", -1),
    ("data_generation_params", "max_agents_distance", "far"),
    ("data_generation_params", "order_agents_by_distance", "yes"),
    ("data_generation_params", "lane_params", 5),
    ("data_generation_params.lane_params", "max_num_lanes", None),
    ("data_generation_params.lane_params", "max_points_per_lane", 1),
    ("data_generation_params.lane_params", "max_points_per_crosswalk", -1),
    ("data_generation_params.lane_params", "max_retrieval_distance_m", 0),
    ("data_generation_params.lane_params", "max_num_crosswalks", "all"),
]


@pytest.mark.parametrize(("section", "key", "value"), VECTOR_KEYS, ids=[key for _, key, _ in VECTOR_KEYS])
def test_j8_ill_typed_keys_of_vector_samples_name_the_path(vector_cfg, section, key, value):
    values = vector_cfg
    for name in section.split("."):
        values = values[name]
    values[key] = value
    with pytest.raises(ConfigError, match=rf"^{section}\.{key}: expected .*got {value!r}"):
        VectorizerParams.from_cfg(vector_cfg)


def test_all_wrong_keys_of_a_read_are_named_at_once(vector_cfg):
    vector_cfg["model_params"]["future_num_frames"] = -1
    del vector_cfg["data_generation_params"]["other_agents_num"]
    vector_cfg["data_generation_params"]["lane_params"]["max_retrieval_distance_m"] = 0
    with pytest.raises(ConfigError) as caught:
        VectorizerParams.from_cfg(vector_cfg)
    assert str(caught.value).split("; ") == [
        "model_params.future_num_frames: expected a whole number from 0 to 100000, got -1",
        "data_generation_params.other_agents_num: this key is missing",
        "expected a whole number from 0 to 10000",
        "data_generation_params.lane_params.max_retrieval_distance_m: expected a finite number greater than 0 "
        "(metres), got 0",
    ]


def test_a_missing_section_within_a_section_is_named(vector_cfg):
    del vector_cfg["data_generation_params"]["lane_params"]
    with pytest.raises(ConfigError, match=r"^data_generation_params\.lane_params: this section is missing .*found \["):
        VectorizerParams.from_cfg(vector_cfg)


def test_the_threshold_of_a_vectorizer_may_be_missing_with_its_section(vector_cfg):
    del vector_cfg["raster_params"]
    assert VectorizerParams.from_cfg(vector_cfg).filter_agents_threshold == 0.5
    vector_cfg["raster_params"] = None
    with pytest.raises(ConfigError, match="raster_params: expected a mapping of keys, got None"):
        VectorizerParams.from_cfg(vector_cfg)


@pytest.mark.parametrize("value", [np.array(0.1), np.float64(0.1), np.float32(0.5), np.int8(1), 1, 3.6e3], ids=repr)
def test_numbers_of_any_type_are_numbers(cfg, value):
    cfg["model_params"]["step_time"] = value
    found = SamplingParams.from_cfg(cfg).step_time_s
    assert found == value
    assert type(found) in (int, float)


@pytest.mark.parametrize("value", [np.array([0.1]), 10**400, b"1", np.bool_(True), 1j, {1}, object()], ids=type)
def test_what_is_no_number_is_refused(cfg, value):
    cfg["model_params"]["step_time"] = value
    with pytest.raises(
        ConfigError, match=r"model_params\.step_time: expected a finite number from 1e-06 to 3600 \(sec"
    ):
        SamplingParams.from_cfg(cfg)


@pytest.mark.parametrize("value", [{1, 2}, {1: 2}, np.array(3), np.zeros((2, 2)), "12", range(2)], ids=repr)
def test_what_is_no_pair_is_refused(cfg, value):
    cfg["raster_params"]["raster_size"] = value
    with pytest.raises(ConfigError, match=r"raster_params\.raster_size: expected two whole numbers from 1 to 16384"):
        RasterGeometry.from_cfg(cfg)


def test_parameters_pickle_and_compare(vector_cfg):
    params = VectorizerParams.from_cfg(vector_cfg)
    assert pickle.loads(pickle.dumps(params)) == params
    assert hash(params) == hash(VectorizerParams.from_cfg(vector_cfg))
    with pytest.raises(AttributeError):
        params.future_num_frames = 3

"""Whatever the configuration, there are samples or an error that is documented, nothing else."""

import copy
import json
import math
import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from l5kit.data.local_data_manager import LocalDataManager
from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.errors import ConfigError, SampleError, UnsupportedValueError
from l5kit.rasterization import build_rasterizer
from support.logs import make_several_scenes_log
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF
from support.samples import make_cfg

GOOD: dict[str, st.SearchStrategy[Any]] = {
    "history_num_frames": st.integers(0, 8),
    "future_num_frames": st.integers(0, 8),
    "step_time": st.sampled_from([0.1, 0.05, 1]),
    "history_step_size": st.integers(1, 4),
    "future_step_size": st.integers(1, 4),
    "render_ego_history": st.booleans(),
    "raster_size": st.tuples(st.integers(8, 70), st.integers(8, 70)) | st.just(np.array([40, 30])),
    "pixel_size": st.sampled_from([[0.25, 0.25], (1, 1), np.array([0.5, 0.5])]),
    "ego_center": st.sampled_from([[0.25, 0.5], [0.0, 1.0], [-2.0, 7.0], np.array([0.5, 0.5])]),
    "set_origin_to_bottom": st.booleans(),
    "map_type": st.sampled_from(
        ["py_semantic", "semantic_debug", "py_satellite", "satellite_debug", "box_debug", "stub_debug"]
    ),
    "filter_agents_threshold": st.sampled_from([0.5, 0, 0.0, 1, -1.0]),
    "disable_traffic_light_faces": st.booleans(),
    "image_dtype": st.sampled_from(["float32", "uint8"]),
    "solid_boxes": st.booleans(),
    "satellite_out_of_bounds": st.sampled_from(["error", "pad"]),
}
BAD: dict[str, list[Any]] = {
    "history_num_frames": [-1, 1.5, "3", None, True],
    "future_num_frames": [-1, [5]],
    "step_time": [0, -0.1, math.nan, math.inf, "0.1"],
    "history_step_size": [0, -1, 0.5],
    "future_step_size": [0, "1"],
    "render_ego_history": ["yes", 2],
    "raster_size": [224, [224], [0, 5], [1.5, 2], [1, 2, 3], "ab"],
    "pixel_size": [[0.25, 0.5], [0, 0], 0.25, [math.inf, math.inf]],
    "ego_center": [None, [0.5], ["a", "b"]],
    "set_origin_to_bottom": [None, "no"],
    "map_type": ["py_sematic", None, 3],
    "filter_agents_threshold": ["0.5", None, math.nan],
    "disable_traffic_light_faces": ["no", 7],
    "image_dtype": ["float64", 8],
    "solid_boxes": ["solid"],
    "satellite_out_of_bounds": ["wrap"],
}
OPTIONAL = {"history_step_size", "future_step_size", "image_dtype", "solid_boxes", "satellite_out_of_bounds"}
DELETED = object()


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a map, and an aerial image centred at the origin, where the AV is."""
    folder: Path = tmp_path_factory.mktemp("data")
    (folder / "semantic_map.pb").write_bytes(FIXTURE_S_MAP)
    cv2.imwrite(str(folder / "aerial_map.png"), np.full((200, 200, 3), 90, np.uint8))
    aerial_from_world = np.array([[1, 0, 0, 100], [0, 1, 0, 100], [0, 0, 0, 0], [0, 0, 0, 1]])
    meta = {
        "world_to_ecef": WORLD_TO_ECEF.tolist(),
        "ecef_to_aerial": (aerial_from_world @ np.linalg.inv(WORLD_TO_ECEF)).tolist(),
    }
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def set_key(cfg: dict[str, Any], key: str, value: Any) -> None:
    section = cfg["model_params" if key in cfg["model_params"] or key.endswith("step_size") else "raster_params"]
    if value is DELETED:
        section.pop(key, None)
    else:
        section[key] = value


def make_good_cfg(chosen: dict[str, Any]) -> dict[str, Any]:
    paths = {"satellite_map_key": "aerial_map.png", "dataset_meta_key": "meta.json"}
    return make_cfg(**chosen, **paths, semantic_map_key="semantic_map.pb")


def make_samples(cls: Any, cfg: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        rasterizer = build_rasterizer(cfg, LocalDataManager(str(folder)))
        options = {"min_frame_history": 2} if cls is AgentDataset else {}
        dataset = cls(cfg, make_several_scenes_log(), rasterizer, **options)
        return [dataset[index] for index in range(0, len(dataset), 6)]


def try_samples(cls: Any, cfg: dict[str, Any], folder: Path) -> list[dict[str, Any]] | Exception:
    """Return samples, or the error if it is one of those that are documented."""
    try:
        return make_samples(cls, cfg, folder)
    except (ConfigError, UnsupportedValueError, SampleError) as error:
        return error


def check_sample(sample: dict[str, Any], cfg: dict[str, Any]) -> None:
    model, raster = cfg["model_params"], cfg["raster_params"]
    width, height = raster["raster_size"]
    assert sample["image"].shape[1:] == (height, width)
    assert sample["image"].dtype == raster.get("image_dtype", "float32")
    assert sample["target_positions"].shape == (model["future_num_frames"], 2)
    assert sample["history_positions"].shape == (model["history_num_frames"] + 1, 2)
    for key, value in sample.items():
        assert np.isfinite(value).all(), key


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cls=st.sampled_from([EgoDataset, AgentDataset]), chosen=st.fixed_dictionaries({}, optional=GOOD))
def test_good_configurations_give_samples(cls: Any, chosen: dict[str, Any], data_folder: Path) -> None:
    cfg = make_good_cfg(chosen)
    before = copy.deepcopy(cfg)
    samples = try_samples(cls, cfg, data_folder)
    if isinstance(samples, Exception):
        # the only good configurations without samples: crops that leave the aerial picture
        event("crop outside")
        assert isinstance(samples, SampleError)
        assert isinstance(samples.__cause__, IndexError)
        assert "satellite" in cfg["raster_params"]["map_type"]
        assert cfg["raster_params"].get("satellite_out_of_bounds", "error") == "error"
        return
    assert samples or chosen.get("filter_agents_threshold") == 1
    for sample in samples:
        check_sample(sample, cfg)
    assert str(cfg) == str(before)


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cls=st.sampled_from([EgoDataset, AgentDataset]),
    map_type=GOOD["map_type"],
    data=st.data(),
    bad_keys=st.lists(st.sampled_from(sorted(BAD)), min_size=1, max_size=2, unique=True),
)
def test_bad_configurations_give_documented_errors(
    cls: Any, map_type: str, data: st.DataObject, bad_keys: list[str], data_folder: Path
) -> None:
    cfg = make_good_cfg({"map_type": map_type})
    for key in bad_keys:
        set_key(cfg, key, data.draw(st.sampled_from([*BAD[key], DELETED]), label=key))
    samples = try_samples(cls, cfg, data_folder)
    event(type(samples).__name__)
    if isinstance(samples, SampleError):
        # the switch is read again for every sample, so that no constructor can find it
        assert "disable_traffic_light_faces" in bad_keys
        assert isinstance(samples.__cause__, ConfigError)
    elif isinstance(samples, Exception):
        assert any(key in str(samples) for key in bad_keys)
    else:
        # keys that this map type does not read, and optional ones that were left out
        assert set(bad_keys) <= OPTIONAL | {"render_ego_history"}
        for sample in samples:
            check_sample(sample, cfg)


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in BAD for value in BAD[key]], ids=str)
def test_every_bad_value_is_refused_and_named(key: str, value: Any, data_folder: Path) -> None:
    map_type = "py_satellite" if key == "satellite_out_of_bounds" else "py_semantic"
    cfg = make_good_cfg({"map_type": map_type})
    set_key(cfg, key, value)
    with pytest.raises((ConfigError, UnsupportedValueError, SampleError), match=key):
        make_samples(EgoDataset, cfg, data_folder)


@pytest.mark.parametrize("key", sorted(set(BAD) - OPTIONAL))
def test_every_missing_key_is_named(key: str, data_folder: Path) -> None:
    cfg = make_good_cfg({"map_type": "py_semantic"})
    set_key(cfg, key, DELETED)
    with pytest.raises((ConfigError, SampleError), match=key):
        make_samples(EgoDataset, cfg, data_folder)


@pytest.mark.parametrize("section", ["model_params", "raster_params"])
@pytest.mark.parametrize("value", [DELETED, None, [], 3], ids=["missing", "none", "list", "number"])
def test_a_section_that_is_missing_or_no_mapping_is_named(section: str, value: Any, data_folder: Path) -> None:
    cfg = make_good_cfg({"map_type": "py_semantic"})
    cfg[section] = value
    if value is DELETED:
        del cfg[section]
    with pytest.raises(ConfigError, match=f"^{section}:"):
        make_samples(EgoDataset, cfg, data_folder)


def test_unknown_keys_are_ignored(data_folder: Path) -> None:
    cfg = make_good_cfg({"map_type": "box_debug"})
    plain = make_samples(EgoDataset, cfg, data_folder)
    cfg["raster_params"]["flicker"] = cfg["model_params"]["model_architecture"] = cfg["gym_params"] = "resnet50"
    for found, expected in zip(make_samples(EgoDataset, cfg, data_folder), plain, strict=True):
        np.testing.assert_array_equal(found["image"], expected["image"])

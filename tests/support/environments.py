"""Environments over a small synthetic city."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from l5kit.data.local_data_manager import LocalDataManager

SIDE_PX = (48, 40)
NUM_FRAMES = 12
VECTOR_PARAMS = {
    "other_agents_num": 12,
    "max_agents_distance": 50,
    "lane_params": {
        "max_num_lanes": 15,
        "max_points_per_lane": 20,
        "max_points_per_crosswalk": 20,
        "max_retrieval_distance_m": 35,
        "max_num_crosswalks": 10,
    },
}


def write_config(
    out: Path,
    *,
    side_px: tuple[int, int] = SIDE_PX,
    image_dtype: str = "float32",
    data_generation_params: dict[str, Any] | None = None,
    route: bool = False,
    **gym_params: Any,
) -> str:
    """Write the configuration of an environment over a synthetic city, and return its path."""
    cfg = {
        "model_params": {
            "history_num_frames": 1,
            "history_num_frames_ego": 1,
            "history_num_frames_agents": 1,
            "future_num_frames": 1,
            "step_time": 0.1,
            "render_ego_history": True,
            "route": route,
        },
        "raster_params": {
            "raster_size": list(side_px),
            "pixel_size": [1.0, 1.0],
            "ego_center": [0.25, 0.5],
            "map_type": "py_semantic",
            "semantic_map_key": "semantic_map/semantic_map.pb",
            "dataset_meta_key": "meta.json",
            "filter_agents_threshold": 0.5,
            "disable_traffic_light_faces": False,
            "set_origin_to_bottom": True,
            "image_dtype": image_dtype,
        },
        "train_data_loader": {"key": "scenes/sample.zarr"},
        "val_data_loader": {"key": "scenes/sample.zarr"},
        "data_generation_params": VECTOR_PARAMS,
        "gym_params": gym_params,
    }
    if data_generation_params is not None:
        cfg["data_generation_params"] = data_generation_params
        cfg["model_params"] |= {"history_num_frames_ego": 1, "history_num_frames_agents": 3}
    path = out / "gym.yaml"
    path.write_text(json.dumps(cfg))
    return str(path)


def data_of(city: Path) -> LocalDataManager:
    """Return what finds the files of a city."""
    return LocalDataManager(str(city))


def assert_same(found: Any, expected: Any) -> None:
    """Compare what environments return, to the bit and to the type."""
    assert type(found) is type(expected) or (np.isscalar(found) and np.isscalar(expected))
    if isinstance(expected, dict):
        assert set(found) == set(expected)
        for key, value in expected.items():
            assert_same(found[key], value)
    elif isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif np.ndim(expected) and expected.dtype == object:
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif expected is not None:
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_array_equal(found, expected)

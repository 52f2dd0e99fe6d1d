"""Environments over a small made city, for tests."""

import json
from pathlib import Path
from typing import Any

from l5kit.data.local_data_manager import LocalDataManager

SIDE_PX = (48, 40)
NUM_FRAMES = 12


def write_config(
    out: Path,
    *,
    side_px: tuple[int, int] = SIDE_PX,
    image_dtype: str = "float32",
    data_generation_params: dict[str, Any] | None = None,
    **gym_params: Any,
) -> str:
    """Write the configuration of an environment over a made city, and return its path."""
    cfg = {
        "model_params": {
            "history_num_frames": 1,
            "future_num_frames": 1,
            "step_time": 0.1,
            "render_ego_history": True,
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

"""Scripts written for L5Kit 1.5 run unchanged."""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from support.cities import small_city

FIRST_LOOK = """
import os
import numpy as np
from l5kit.configs import load_config_data
from l5kit.data import ChunkedDataset, LocalDataManager, PERCEPTION_LABELS
from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.geometry import transform_points
from l5kit.rasterization import build_rasterizer
from l5kit.visualization import TARGET_POINTS_COLOR, draw_trajectory

cfg = load_config_data("config.yaml")
dm = LocalDataManager()
dataset_path = dm.require(cfg["val_data_loader"]["key"])
zarr_dataset = ChunkedDataset(dataset_path)
zarr_dataset.open()
table = str(zarr_dataset)

route = np.array([zarr_dataset.frames[i]["ego_translation"][:2] for i in range(len(zarr_dataset.frames))])
probabilities = zarr_dataset.agents["label_probabilities"]
label_counts = np.bincount(np.argmax(probabilities, axis=1), minlength=len(PERCEPTION_LABELS))

rast = build_rasterizer(cfg, dm)
dataset = EgoDataset(cfg, zarr_dataset, rast)
data = dataset[len(dataset) // 2]
im = dataset.rasterizer.to_rgb(data["image"].transpose(1, 2, 0))
before = im.copy()
positions_px = transform_points(data["target_positions"], data["raster_from_agent"])
draw_trajectory(im, positions_px, TARGET_POINTS_COLOR, yaws=data["target_yaws"])

agent_dataset = AgentDataset(cfg, zarr_dataset, rast)
scene_indices = dataset.get_scene_indices(0)
agent_image = agent_dataset[0]["image"]
"""

TRAIN = """
import numpy as np
from torch.utils.data import DataLoader
from l5kit.configs import load_config_data
from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.dataset import EgoDataset
from l5kit.kinematic import AckermanPerturbation
from l5kit.random import GaussianRandomGenerator
from l5kit.rasterization import build_rasterizer

cfg = load_config_data("config.yaml")
dm = LocalDataManager(None)
perturbation = AckermanPerturbation(
    random_offset_generator=GaussianRandomGenerator(mean=np.array([0.0, 0.0, 0.0]), std=np.array([1.0, 0.5, 0.2])),
    perturb_prob=0.6,
)
train_zarr = ChunkedDataset(dm.require(cfg["val_data_loader"]["key"])).open()
train_dataset = EgoDataset(cfg, train_zarr, build_rasterizer(cfg, dm), perturbation)
loader = DataLoader(train_dataset, shuffle=True, batch_size=4, num_workers=cfg["val_data_loader"]["num_workers"])
batch = next(iter(loader))
"""

SOME_AGENTS = """
import numpy as np
from l5kit.configs import load_config_data
from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.dataset import AgentDataset
from l5kit.rasterization import build_rasterizer

cfg = load_config_data("config.yaml")
dm = LocalDataManager()
zarr_dataset = ChunkedDataset(dm.require(cfg["val_data_loader"]["key"])).open()

# only every 100th agent row
agents_mask = np.zeros(len(zarr_dataset.agents), dtype=bool)
agents_mask[::100] = True
dataset = AgentDataset(cfg, zarr_dataset, build_rasterizer(cfg, dm), agents_mask=agents_mask)

# iterate over valid agents
seen = []
for data in dataset:
    seen.append((data["scene_index"], data["frame_index"], data["track_id"]))
"""

CONFIG: dict[str, Any] = {
    "format_version": 4,
    "model_params": {
        "model_architecture": "resnet50",
        "history_num_frames": 3,
        "history_delta_time": 0.1,
        "future_num_frames": 12,
        "future_delta_time": 0.1,
        "step_time": 0.1,
        "render_ego_history": True,
    },
    "raster_params": {
        "raster_size": [112, 80],
        "pixel_size": [0.5, 0.5],
        "ego_center": [0.25, 0.5],
        "map_type": "py_semantic",
        "satellite_map_key": "aerial_map/aerial_map.png",
        "semantic_map_key": "semantic_map/semantic_map.pb",
        "dataset_meta_key": "meta.json",
        "filter_agents_threshold": 0.5,
        "disable_traffic_light_faces": False,
        "set_origin_to_bottom": True,
    },
    "val_data_loader": {"key": "scenes/sample.zarr", "batch_size": 4, "shuffle": False, "num_workers": 0},
}


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compat") / "city"
    small_city(folder)
    return folder


@pytest.fixture
def workplace(city: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration, and the environment variable that 1.5 wants."""
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("L5KIT_DATA_FOLDER", str(city))
    return tmp_path


def run(script: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        exec(compile(script, "<script of 1.5>", "exec"), names)
    return names


def test_first_look_at_the_data(workplace: Path) -> None:
    names = run(FIRST_LOOK)
    assert "Num Scenes" in names["table"]
    assert names["route"].shape == (len(names["zarr_dataset"].frames), 2)
    assert names["label_counts"].sum() == len(names["zarr_dataset"].agents)
    assert names["im"].shape == (80, 112, 3)
    assert (names["im"] != names["before"]).any()
    np.testing.assert_array_equal(names["scene_indices"], np.arange(len(names["scene_indices"])))
    assert names["agent_image"].shape == (11, 80, 112)
    assert os.listdir(workplace) == ["config.yaml"]


def test_a_loop_over_some_agents_ends_behind_the_last_one(workplace: Path) -> None:
    """The dataset's own document shows it; in 1.5 it ended silently at the first agent below the label threshold."""
    names = run(SOME_AGENTS)
    rows = names["zarr_dataset"].agents[::100]
    is_kept = rows["label_probabilities"][:, 3:16].sum(axis=1) > CONFIG["raster_params"]["filter_agents_threshold"]
    assert 0 < is_kept.sum() < len(rows)
    assert [track_id for _, _, track_id in names["seen"]] == rows["track_id"][is_kept].tolist()
    assert len(names["dataset"]) == len(names["seen"])


@pytest.mark.process
def test_training_batches(workplace: Path) -> None:
    batch = run(TRAIN)["batch"]
    assert batch["image"].shape == (4, 11, 80, 112)
    assert batch["image"].dtype == torch.float32
    assert batch["target_positions"].shape == (4, 12, 2)
    assert batch["yaw"].dtype == torch.float64
    assert batch["track_id"].tolist() == [-1] * 4

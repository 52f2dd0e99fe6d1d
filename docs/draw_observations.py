#!/usr/bin/env python3
"""Drawing of ``images/observations.png``: one moment of an environment as raster, vectors and compact state.

Usage: python docs/draw_observations.py CITY SCENE FRAME, with a folder of ``l5kit synth``; needs matplotlib. The
picture shows scene 16, frame 60 of ``l5kit synth city --seed 9107 --scenes 24``.
"""

import sys
import tempfile
from pathlib import Path

import gymnasium
import matplotlib as mpl
import numpy as np
import yaml

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.patches import Polygon

import l5kit.environment  # noqa: F401 - it registers the environment
from l5kit.configs import load_training_config
from l5kit.data import LocalDataManager
from l5kit.environment import CompactLayout, SimulationConfigGym, as_samples
from l5kit.geometry.box import compute_box_corners

AV, CAR, VULNERABLE, ROUTE, LANE = "#d8392f", "#1f77b4", "#7cc4ee", "#00838f", "#a6b0bc"
GROUND, LABEL = "#f1f3f4", "#1f2933"
SHOWN_M = ((-28.0, 52.0), (-40.0, 40.0))
REACH_M, SIZE_SCALE_M = 50.0, 10.0


def observed(city, cfg, kind, *, scene, frame):
    """Return the environment and its observation at the start of an episode."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gym.yaml"
        path.write_text(yaml.safe_dump(cfg), "utf-8")
        env = gymnasium.make(
            "L5-CLE-v0",
            env_config_path=str(path),
            dmg=LocalDataManager(city),
            sim_cfg=SimulationConfigGym(num_simulation_steps=10),
            observation=kind,
            actions="poses" if kind == "raster" else "curvature",
            render_mode="rgb_array" if kind == "raster" else None,
        )
    observation, _ = env.reset(options={"scene_id": scene, "start_frame_index": frame})
    return env, observation


def config():
    """Return the configuration of an environment with 80 m x 80 m rasters and many polylines."""
    cfg = load_training_config("vector_planner")
    cfg["model_params"] |= {
        "history_num_frames": 5,
        "render_ego_history": True,
        "future_num_frames": 1,
        "future_step_size": 1,
    }
    cfg["data_generation_params"] |= {"max_agents_distance": 60, "other_agents_num": 40}
    cfg["data_generation_params"]["lane_params"] |= {"max_num_lanes": 80, "max_retrieval_distance_m": 60}
    raster = load_training_config("raster_planner")["raster_params"]
    raster |= {"raster_size": [320, 320], "pixel_size": [0.25, 0.25], "ego_center": [0.35, 0.5]}
    cfg["raster_params"] = raster
    logs = {name: {"key": "scenes/sample.zarr"} for name in ("train_data_loader", "val_data_loader")}
    return cfg | logs | {"gym_params": {"overfit": False}}


def add_box(axes, center_m, yaw_rad, size_m, color):
    """Draw a box."""
    corners = compute_box_corners(np.asarray(center_m)[None], np.array([yaw_rad]), np.asarray(size_m)[None])[0]
    axes.add_patch(Polygon(corners, facecolor=color, edgecolor="white", linewidth=0.6, zorder=5))


def draw_vectors(axes, sample):
    """Draw the polylines of a vector observation: lanes, and past positions of agents."""
    for line, is_there in zip(sample["lanes"], sample["lanes_availabilities"], strict=True):
        axes.plot(*line[is_there, :2].T, color=LANE, linewidth=0.9, zorder=1)
    for row in np.flatnonzero(sample["all_other_agents_history_availability"][:, 0]):
        there = sample["all_other_agents_history_availability"][row] > 0
        position = sample["all_other_agents_history_positions"][row]
        axes.plot(*position[there].T, color=CAR, linewidth=1.4, zorder=4)
        yaw = sample["all_other_agents_history_yaws"][row, 0, 0]
        add_box(axes, position[0], yaw, sample["all_other_agents_history_extents"][row, 0, :2], CAR)
    add_box(axes, (0.0, 0.0), 0.0, sample["extent"][:2], AV)


def draw_compact(axes, row):
    """Draw a compact state: points of the route and of lanes, and the nearest road users."""
    sections = CompactLayout().split(row)
    lanes = sections["lanes"][sections["lanes"][:, -1] > 0]
    axes.quiver(*(REACH_M * lanes[:, :2].T), *lanes[:, 2:4].T, color=LANE, scale=28, width=0.006, zorder=2)
    axes.plot(*(REACH_M * sections["route"][:, :2].T), "o-", color=ROUTE, markersize=4, linewidth=1.4, zorder=3)
    for agent in sections["agents"][sections["agents"][:, -1] > 0]:
        color = VULNERABLE if agent[9] else CAR
        yaw = np.arctan2(agent[3], agent[2])
        add_box(axes, REACH_M * agent[:2], yaw, np.maximum(SIZE_SCALE_M * agent[6:8], 0.6), color)
    add_box(axes, (0.0, 0.0), 0.0, SIZE_SCALE_M * sections["ego"][3:5], AV)
    axes.add_patch(plt.Circle((0, 0), REACH_M, fill=False, linestyle=":", color=LANE))


def main(city, scene, frame):
    """Write the picture."""
    cfg = config()
    env, _ = observed(city, cfg, "raster", scene=scene, frame=frame)
    _, polylines = observed(city, cfg, "vectors", scene=scene, frame=frame)
    _, compact = observed(city, cfg, "compact", scene=scene, frame=frame)

    figure, panels = plt.subplots(1, 3, figsize=(12, 4.3), layout="constrained")
    panels[0].imshow(env.render())
    draw_vectors(panels[1], as_samples(polylines))
    draw_compact(panels[2], compact)
    for axes, title in zip(panels, ("raster", "vectors", "compact"), strict=True):
        axes.set_title(title, fontsize=13, color=LABEL)
        axes.set(xticks=[], yticks=[], facecolor=GROUND)
        for spine in axes.spines.values():
            spine.set_visible(False)
    for axes in panels[1:]:
        axes.set(aspect="equal", xlim=SHOWN_M[0], ylim=SHOWN_M[1])
    figure.savefig(Path(__file__).parent / "images" / "observations.png", dpi=85, metadata={"Software": None})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

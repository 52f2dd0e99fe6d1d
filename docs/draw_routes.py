#!/usr/bin/env python3
"""Drawing of ``images/routes.png``: the route in a vector sample and in a raster.

Usage: python docs/draw_routes.py CITY SCENE FRAME, with a folder of ``l5kit synth``; needs matplotlib. The picture
shows scene 16, frame 60 of ``l5kit synth city --seed 9107 --scenes 24``.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.patches import Polygon

from l5kit.configs.overrides import load_training_config
from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.dataset import EgoDataset, EgoDatasetVectorized
from l5kit.geometry.box import compute_box_corners
from l5kit.rasterization import build_rasterizer
from l5kit.vectorization.vectorizer_builder import build_vectorizer

LIGHTS = ("grey", "tab:green", "gold", "tab:red")
BEHIND_TEXT = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1}
SHOWN_M = ((-25.0, 75.0), (-45.0, 45.0))


def draw_vectors(axes, sample):
    """Draw lanes, route, agents and goal of a vector sample in the frame of the AV."""
    for line, is_there in zip(sample["lanes"], sample["lanes_availabilities"], strict=True):
        axes.plot(*line[is_there, :2].T, color="#a6b0bc", linewidth=0.8, zorder=1)
    is_there = sample["route_availability"]
    points, widths = sample["route_polyline"][is_there], sample["route_widths"][is_there]
    to_left = np.stack([-np.sin(points[:, 2]), np.cos(points[:, 2])], axis=-1)
    left, right = points[:, :2] + widths[:, :1] * to_left, points[:, :2] - widths[:, 1:] * to_left
    axes.add_patch(Polygon(np.concatenate([left, right[::-1]]), color="lightgreen", alpha=0.6, linewidth=0, zorder=2))
    axes.plot(points[:, 0], points[:, 1], ".-", color="darkgreen", markersize=5, linewidth=0.8, zorder=4)
    for index, light in enumerate(sample["route_lights"][is_there]):
        if light < len(LIGHTS):
            axes.plot(*np.stack([left[index], right[index]]).T, color=LIGHTS[light], linewidth=4, zorder=5)
    own = compute_box_corners(np.zeros((1, 2)), np.zeros(1), sample["extent"][None])[0]
    axes.add_patch(Polygon(own, color="#d8392f", zorder=6))
    rows = np.flatnonzero(sample["all_other_agents_route_availability"])
    corners = compute_box_corners(
        sample["all_other_agents_history_positions"][rows, 0],
        sample["all_other_agents_history_yaws"][rows, 0, 0],
        sample["all_other_agents_history_extents"][rows, 0],
    )
    for box, place in zip(corners, sample["all_other_agents_route_places"][rows], strict=True):
        axes.add_patch(Polygon(box, color="tab:orange" if place[5] else "#1f77b4", zorder=6))
        if 0 < place[0] < 50 and (place[5] or 5 < place[1] < 12):  # more texts would overlap
            text = f"{place[0]:.0f} m, {place[1]:+.0f} m"
            axes.annotate(
                text, box.mean(axis=0), (8, 8), textcoords="offset points", fontsize=7, zorder=7, bbox=BEHIND_TEXT
            )
    if sample["goal_availability"]:
        axes.plot(*sample["goal_position"], "*", color="purple", markersize=14, zorder=7)
    axes.set_facecolor("#f1f3f4")
    axes.spines[:].set_visible(False)
    axes.set(aspect="equal", xlim=SHOWN_M[0], ylim=SHOWN_M[1], xlabel="metres ahead", ylabel="metres to the left")


def main(city, scene, frame):
    """Write the picture."""
    log, manager = ChunkedDataset(f"{city}/scenes/sample.zarr").open(), LocalDataManager(city)
    cfg = load_training_config("vector_planner")
    cfg["model_params"]["route"] = True
    cfg["data_generation_params"] |= {
        "max_agents_distance": 80,
        "other_agents_num": 60,
        "route_params": {"goal_distance_m": 60.0},
    }
    cfg["data_generation_params"]["lane_params"] |= {"max_num_lanes": 200, "max_retrieval_distance_m": 90}
    vectors = EgoDatasetVectorized(cfg, log, build_vectorizer(cfg, manager)).get_frame(scene, frame)
    cfg = load_training_config("raster_planner")
    cfg["model_params"]["route"] = True
    cfg["raster_params"] |= {"raster_size": [400, 360], "pixel_size": [0.25, 0.25], "ego_center": [0.25, 0.5]}
    rasterizer = build_rasterizer(cfg, manager)
    picture = EgoDataset(cfg, log, rasterizer).get_frame(scene, frame)["image"]

    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 5), layout="constrained")
    draw_vectors(left, vectors)
    left.set_title("vector sample with its route")
    right.imshow(rasterizer.to_rgb(picture.transpose(1, 2, 0)))
    right.set_title("raster with its route, the last channel, as a green tint")
    right.axis("off")
    figure.savefig(Path(__file__).parent / "images" / "routes.png", dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

#!/usr/bin/env python3
"""Drawing of ``images/recovery.png``: perturbed states of one frame of a log, and how the AV drives back from them.

Usage: python docs/draw_recovery.py CITY SCENE FRAME, with a folder of ``l5kit synth``; needs matplotlib. The picture
shows scene 19, frame 60 of ``l5kit synth city --seed 9107 --scenes 24``.
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
from l5kit.dataset import EgoDatasetVectorized
from l5kit.geometry import transform_points
from l5kit.geometry.box import compute_box_corners
from l5kit.kinematic import RecoveryPerturbation
from l5kit.vectorization.vectorizer_builder import build_vectorizer

NUM_STATES = 6
STEP_S = 0.1
SHOWN_M = ((-10.0, 22.0), (-6.5, 4.5))


def path_of(sample, agent_from_world):
    """Return the positions of a sample in the frame of the logged AV, oldest first, and the row of the current step."""
    from_sample = agent_from_world @ sample["world_from_agent"]
    past = sample["history_positions"][sample["history_availabilities"] > 0]
    return transform_points(np.concatenate([past[::-1], sample["target_positions"]]), from_sample), len(past) - 1


def draw(path, now, left, right, **style):
    """Draw past and future positions of the AV, and its speed."""
    left.plot(*path[now:].T, linewidth=1.3, **style)
    left.plot(*path[: now + 1].T, **{**style, "linestyle": style.get("linestyle", ":"), "label": None})
    speeds = np.linalg.norm(np.diff(path, axis=0), axis=1) / STEP_S
    right.plot((np.arange(len(speeds)) - now + 0.5) * STEP_S, speeds, linewidth=1.3, **style)


def main(city, scene, frame):
    """Write the picture."""
    log, manager = ChunkedDataset(f"{city}/scenes/sample.zarr").open(), LocalDataManager(city)
    cfg = load_training_config("vector_planner")
    cfg["model_params"] |= {"history_num_frames_ego": 15, "future_num_frames": 50, "future_step_size": 1}
    vectorizer = build_vectorizer(cfg, manager)
    in_log = EgoDatasetVectorized(cfg, log, vectorizer).get_frame(scene, frame)
    perturbed = EgoDatasetVectorized(cfg, log, vectorizer, RecoveryPerturbation(1.0, seed=1))

    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 3.8), width_ratios=[5, 2], layout="constrained")
    for line, is_there in zip(in_log["lanes"], in_log["lanes_availabilities"], strict=True):
        left.plot(*line[is_there, :2].T, color="#a6b0bc", linewidth=0.9, zorder=1)
    rows = np.flatnonzero(in_log["all_other_agents_history_availability"][:, 0])
    for box in compute_box_corners(
        in_log["all_other_agents_history_positions"][rows, 0],
        in_log["all_other_agents_history_yaws"][rows, 0, 0],
        in_log["all_other_agents_history_extents"][rows, 0],
    ):
        left.add_patch(Polygon(box, facecolor="0.8", edgecolor="0.6", linewidth=0.6, zorder=2))
    for index in range(NUM_STATES):
        sample, color = perturbed.get_frame(scene, frame), f"C{index}"
        draw(*path_of(sample, in_log["agent_from_world"]), left, right, color=color)
        own = compute_box_corners(np.zeros((1, 2)), np.zeros(1), sample["extent"][None])[0]
        own = transform_points(own, in_log["agent_from_world"] @ sample["world_from_agent"])
        left.add_patch(Polygon(own, fill=False, edgecolor=color, linewidth=1.4, zorder=5))
    draw(*path_of(in_log, in_log["agent_from_world"]), left, right, color="black", linestyle="--", label="log")
    print(perturbed.perturbation.counts)
    left.set(aspect="equal", xlim=SHOWN_M[0], ylim=SHOWN_M[1], xlabel="metres ahead of the log's AV")
    left.set(ylabel="metres to the left")
    left.legend(loc="lower left", frameon=False)
    left.set_facecolor("#f1f3f4")
    left.spines[:].set_visible(False)
    right.spines[["top", "right"]].set_visible(False)
    right.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    right.set(xlabel="seconds from now", ylabel="speed in m/s")
    figure.savefig(Path(__file__).parent / "images" / "recovery.png", dpi=95, metadata={"Software": None})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

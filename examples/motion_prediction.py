"""Train multi-modal motion prediction, and score it like the competition on this dataset.

Run ``python examples/motion_prediction.py`` with a synthetic city, which takes a few minutes, or with ``--data FOLDER``
for your own data and a full-size network. Each run trains a new network in a new folder (``training-1``, ...), and
replaces the test set, the csv files and ``motion-prediction.png``.
"""

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch

from l5kit.data import ChunkedDataset
from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.evaluation import (
    Selection,
    compute_metrics_csv,
    create_chopped_dataset,
    read_gt_csv,
    world_displacements,
    write_pred_csv,
)
from l5kit.evaluation.horizon_scores import baseline_positions
from l5kit.evaluation.metrics import (
    average_displacement_error_oracle,
    final_displacement_error_oracle,
    miss_rate,
    neg_multi_log_likelihood,
)
from l5kit.kinematic.baselines import BASELINE_TITLES, BASELINES
from l5kit.training import train
from l5kit.visualization import contact_sheet, write_png

NUM_STEPS = 400
NUM_FRAMES = 100
SELECTION = Selection(min_frame_history=0, min_frame_future=10)
METRICS = (neg_multi_log_likelihood, average_displacement_error_oracle, final_displacement_error_oracle, miss_rate)


def main() -> None:
    """Train, predict a test set, and score the predictions."""
    # The mask of the test set and its selection of agents are used on purpose, so silence the warnings about them.
    warnings.filterwarnings("ignore", message="a custom agents_mask is used|min_frame_|the agents of the test set")
    options = common.make_parser("Train motion prediction and score it.", out="motion-prediction-out").parse_args()
    cfg, data_folder = common.set_up("agent_motion_multimodal", options, num_steps=NUM_STEPS)
    for loader in ("train_data_loader", "val_data_loader"):
        cfg[loader] |= dataclasses.asdict(SELECTION)
    result = train(cfg, common.new_folder(options.out), data_folder=data_folder)
    network, samples = common.load_trained(cfg, result.weights, data_folder)

    test_set = chop(data_folder / cfg["val_data_loader"]["key"], options.out / "test-set", cfg)
    log = ChunkedDataset(str(test_set / Path(cfg["val_data_loader"]["key"]).name)).open()
    mask = np.load(test_set / "mask.npz")["arr_0"]
    predicted = predict_agents(network, AgentDataset(cfg, log, samples.rasterizer, agents_mask=mask), cfg)
    print_metrics(predicted, test_set, options.out)

    pictures = common.open_pictures(log, cfg, data_folder)
    write_png(options.out / "motion-prediction.png", draw_scenes(predicted, test_set, pictures))
    print(f"weights in {result.weights}, pictures in {options.out / 'motion-prediction.png'}")


def chop(log: Path, test_set: Path, cfg: dict[str, Any]) -> Path:
    """Write a test set of the validation scenes as in the competition, without the future of agents."""
    threshold, num_steps = cfg["raster_params"]["filter_agents_threshold"], cfg["model_params"]["future_num_frames"]
    create_chopped_dataset(
        log, threshold, NUM_FRAMES, num_steps, SELECTION.min_frame_future, output_folder=test_set, overwrite=True
    )
    return test_set


def predict_agents(network: torch.nn.Module, agents: AgentDataset, cfg: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the predictions for N agents.

    Returns:
        ``timestamp``, ``track_id`` and ``scene_index`` (N,); ``centroid`` (N, 2), world metres; ``modes`` (N, M, T, 2)
        with ``confidences`` (N, M), and each baseline by name (N, T, 2), as offsets from the centroid in world axes.
    """
    columns: dict[str, list[np.ndarray]] = {}
    step_time_s = common.step_time_of(cfg)
    for batch, outputs in common.predict(network, agents):
        modes = outputs["positions_all"]
        frames = batch["world_from_agent"].numpy(), batch["centroid"].numpy()
        part = {key: batch[key].numpy() for key in ("timestamp", "track_id", "scene_index", "centroid")}
        part["modes"] = world_displacements(modes.numpy(), *frames)
        part["confidences"] = outputs["mode_logits"].double().softmax(dim=1).numpy()
        for name in BASELINES:
            path = baseline_positions(batch, name, num_steps=modes.shape[2], step_time_s=step_time_s)
            part[name] = world_displacements(path.numpy(), *frames)
        for key, values in part.items():
            columns.setdefault(key, []).append(values)
    return {key: np.concatenate(parts) for key, parts in columns.items()}


def print_metrics(predicted: dict[str, np.ndarray], test_set: Path, out: Path) -> None:
    """Write the csv files of network and baselines, and print their metrics."""
    rows, num_modes = (predicted["timestamp"], predicted["track_id"]), predicted["modes"].shape[1]
    write_pred_csv(out / "pred.csv", *rows, predicted["modes"], predicted["confidences"], max_modes=num_modes)
    for name in BASELINES:
        write_pred_csv(out / f"{name}.csv", *rows, predicted[name], max_modes=1)
    gt = test_set / "gt.csv"
    metrics = compute_metrics_csv(gt, out / "pred.csv", METRICS, max_modes=num_modes, trained_on=SELECTION)
    baselines = [compute_metrics_csv(gt, out / f"{name}.csv", METRICS, max_modes=1) for name in BASELINES]
    titles = ("predicted", *BASELINE_TITLES.values())
    print(f"{f'{len(rows[0])} agents':<36}" + "".join(f"{title:>19}" for title in titles))
    for name, value in metrics.items():
        print(f"{name:<36}" + "".join(f"{number:>19.3f}" for number in (value, *(row[name] for row in baselines))))


def draw_scenes(predicted: dict[str, np.ndarray], test_set: Path, pictures: EgoDataset, *, most: int = 8) -> np.ndarray:
    """Return pictures of the last frame of scenes, with the true and predicted trajectories of test agents."""
    truth = {(row["track_id"], row["timestamp"]): row for row in read_gt_csv(test_set / "gt.csv")}
    images, titles = [], []
    for scene in np.unique(predicted["scene_index"])[:most].tolist():
        rows = np.flatnonzero(predicted["scene_index"] == scene)
        true_paths = []
        for row in rows:
            path = truth[str(predicted["track_id"][row]), str(predicted["timestamp"][row])]
            true_paths.append(predicted["centroid"][row] + path["coord"][path["avail"] > 0])
        modes = predicted["centroid"][rows, None, None] + predicted["modes"][rows]
        confidences = predicted["confidences"][rows]
        shown = {
            common.TRUTH: np.concatenate(true_paths),
            common.LESS_LIKELY: modes[confidences > common.MIN_PROBABILITY],
            common.PREDICTED: modes[np.arange(len(rows)), confidences.argmax(axis=1)],
        }
        sample = pictures.get_frame(scene, NUM_FRAMES - 1)
        images.append(common.draw(pictures, sample, shown, raster_from_paths=sample["raster_from_world"]))
        titles.append(f"scene {scene}: {len(rows)} agents")
    return contact_sheet(images, titles=titles, columns=2, title_size_px=13)


if __name__ == "__main__":
    main()

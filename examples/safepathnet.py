"""Train SafePathNet, which predicts several trajectories for the AV and all agents around it at once.

Run ``python examples/safepathnet.py`` with a synthetic city, which takes a few minutes, or with ``--data FOLDER`` for
your own data and a full-size network. Each run trains a new network in a new folder (``training-1``, ...) and replaces
``safepathnet.png``.
"""

from typing import Any

import common
import numpy as np
import torch
from torch.utils.data import Subset

from l5kit.dataset import BaseEgoDataset, EgoDataset
from l5kit.evaluation.horizon_scores import HorizonScores, baseline_positions
from l5kit.kinematic.baselines import BASELINE_TITLES, BASELINES
from l5kit.training import train
from l5kit.visualization import contact_sheet, write_png

NUM_STEPS = 1500
GROUPS = {"the AV and all agents": slice(None), "the AV": slice(1)}
"""Groups of agents to score, by their rows among the agents of a sample."""


def main() -> None:
    """Train SafePathNet and score it."""
    options = common.make_parser("Train SafePathNet and score it.", out="safepathnet-out").parse_args()
    cfg, data_folder = common.set_up("safepathnet", options, num_steps=NUM_STEPS)
    result = train(cfg, common.new_folder(options.out), data_folder=data_folder)
    network, samples = common.load_trained(cfg, result.weights, data_folder)

    frames = common.evenly_spread(len(samples), cfg)
    most_moving = print_errors(network, Subset(samples, frames), cfg)
    pictures = common.open_pictures(samples.dataset, cfg, data_folder)
    sheet = draw_agents(network, samples, pictures, [frames[index] for index in most_moving])
    write_png(options.out / "safepathnet.png", sheet)
    print(f"\nweights in {result.weights}, pictures in {options.out / 'safepathnet.png'}")


def print_errors(network: torch.nn.Module, samples: Subset[Any], cfg: dict[str, Any]) -> list[int]:
    """Print the errors of network and baselines; return the sample of each scene with the most motion."""
    step_time_s, num_modes = common.step_time_of(cfg), cfg["model_params"]["agent_num_trajectories"]
    kinds = (*BASELINE_TITLES.values(), "predicted, likeliest", f"predicted, best of {num_modes}")
    scores = {
        group: {kind: HorizonScores(common.horizons_of(cfg), step_time_s=step_time_s) for kind in kinds}
        for group in GROUPS
    }
    scenes, moved_m = [], []
    for batch, outputs in common.predict(network, samples):
        for group, rows in GROUPS.items():
            past = {
                "history_positions": batch["all_other_agents_history_positions"][:, rows].flatten(0, 1),
                "history_yaws": batch["all_other_agents_history_yaws"][:, rows].flatten(0, 1),
                "history_availabilities": batch["all_other_agents_history_availability"][:, rows].flatten(0, 1),
            }
            truth = batch["all_other_agents_future_positions"][:, rows].flatten(0, 1)
            is_known = batch["all_other_agents_future_availability"][:, rows].flatten(0, 1)
            paths = (
                *(
                    baseline_positions(past, name, num_steps=truth.shape[1], step_time_s=step_time_s)
                    for name in BASELINES
                ),
                outputs["agent_positions"][:, rows].flatten(0, 1),
                outputs["all_agent_positions"][:, rows].flatten(0, 1),
            )
            for kind, path in zip(kinds, paths, strict=True):
                scores[group][kind].add(truth, path, is_known)
        scenes.append(batch["scene_index"])
        moved_m.append(distances_moved(batch).sum(dim=1))
    for group, of_kinds in scores.items():
        print(f"\n{group}")
        common.print_scores({kind: gathered.scores() for kind, gathered in of_kinds.items()})
    return common.largest_of_each_scene(torch.cat(scenes), torch.cat(moved_m))


def distances_moved(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the largest distance of each agent from its current position in the future, metres, (B, A)."""
    offsets_m = batch["all_other_agents_future_positions"] - batch["all_other_agents_history_positions"][:, :, :1]
    is_known = batch["all_other_agents_future_availability"] > 0
    return (offsets_m.norm(dim=-1) * is_known).amax(dim=-1)


def draw_agents(
    network: torch.nn.Module, samples: BaseEgoDataset, pictures: EgoDataset, frames: list[int]
) -> np.ndarray:
    """Return pictures of frames with the trajectories of all agents: true, likeliest and less likely."""
    batch, outputs = next(common.predict(network, Subset(samples, frames)))
    is_known = batch["all_other_agents_future_availability"] > 0
    probabilities = outputs["agent_traj_logits"].softmax(dim=-1)
    images, titles = [], []
    for row, frame in enumerate(frames):
        sample, has_truth = pictures[frame], is_known[row].any(dim=-1)
        is_likely = probabilities[row] > common.MIN_PROBABILITY
        shown = {
            common.TRUTH: batch["all_other_agents_future_positions"][row][is_known[row]],
            common.LESS_LIKELY: outputs["all_agent_positions"][row][is_likely & has_truth[:, None]],
            common.PREDICTED: outputs["agent_positions"][row][has_truth],
        }
        images.append(common.draw(pictures, sample, shown, raster_from_paths=sample["raster_from_agent"]))
        titles.append(f"scene {sample['scene_index']}, frame {sample['frame_index']}: {has_truth.sum()} predicted")
    return contact_sheet(images, titles=titles, columns=2, title_size_px=13)


if __name__ == "__main__":
    main()

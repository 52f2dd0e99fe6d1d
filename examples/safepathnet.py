"""Train SafePathNet, which predicts the AV and all agents around it at once, each with several trajectories.

Run ``python examples/safepathnet.py`` for a made city, which takes some minutes, and with ``--data FOLDER`` for data of
your own and a network of full size. Each run trains anew, in a folder of its own (``training-1``, ...);
``safepathnet.png`` is that of the last one.
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
WHO = {"the AV and all agents": slice(None), "the AV": slice(1)}
"""Whose scores are printed, and in which rows of the agents of a sample they are."""


def main() -> None:
    """Train and test."""
    options = common.make_parser("Train SafePathNet and score it.", out="safepathnet-out").parse_args()
    cfg, data_folder = common.set_up("safepathnet", options, num_steps=NUM_STEPS)
    result = train(cfg, common.new_folder(options.out), data_folder=data_folder)
    network, samples = common.load_trained(cfg, result.weights, data_folder)

    frames = common.evenly_spread(len(samples), cfg)
    most_moving = print_errors(network, Subset(samples, frames), cfg)
    pictures = common.open_pictures(samples.dataset, cfg, data_folder)
    sheet = draw_agents(network, samples, pictures, [frames[place] for place in most_moving])
    write_png(options.out / "safepathnet.png", sheet)
    print(f"\nweights in {result.weights}, pictures in {options.out / 'safepathnet.png'}")


def print_errors(network: torch.nn.Module, samples: Subset[Any], cfg: dict[str, Any]) -> list[int]:
    """Print the errors of network and baselines; return the sample of each scene that moves most."""
    step_time_s, num_modes = common.step_time_of(cfg), cfg["model_params"]["agent_num_trajectories"]
    kinds = (*BASELINE_TITLES.values(), "predicted, likeliest", f"predicted, best of {num_modes}")
    scores = {
        who: {kind: HorizonScores(common.horizons_of(cfg), step_time_s=step_time_s) for kind in kinds} for who in WHO
    }
    scenes, moved_m = [], []
    for batch, outputs in common.predict(network, samples):
        for who, rows in WHO.items():
            past = {
                "history_positions": batch["all_other_agents_history_positions"][:, rows].flatten(0, 1),
                "history_yaws": batch["all_other_agents_history_yaws"][:, rows].flatten(0, 1),
                "history_availabilities": batch["all_other_agents_history_availability"][:, rows].flatten(0, 1),
            }
            truth = batch["all_other_agents_future_positions"][:, rows].flatten(0, 1)
            is_known = batch["all_other_agents_future_availability"][:, rows].flatten(0, 1)
            ways = (
                *(
                    baseline_positions(past, name, num_steps=truth.shape[1], step_time_s=step_time_s)
                    for name in BASELINES
                ),
                outputs["agent_positions"][:, rows].flatten(0, 1),
                outputs["all_agent_positions"][:, rows].flatten(0, 1),
            )
            for kind, way in zip(kinds, ways, strict=True):
                scores[who][kind].add(truth, way, is_known)
        scenes.append(batch["scene_index"])
        moved_m.append(way_lengths(batch).sum(dim=1))
    for who, of_kinds in scores.items():
        print(f"\n{who}")
        common.print_scores({kind: gathered.scores() for kind, gathered in of_kinds.items()})
    return common.largest_of_each_scene(torch.cat(scenes), torch.cat(moved_m))


def way_lengths(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return how far each agent of each sample gets, in metres, (B, A)."""
    ways = batch["all_other_agents_future_positions"] - batch["all_other_agents_history_positions"][:, :, :1]
    is_known = batch["all_other_agents_future_availability"] > 0
    return (ways.norm(dim=-1) * is_known).amax(dim=-1)


def draw_agents(
    network: torch.nn.Module, samples: BaseEgoDataset, pictures: EgoDataset, frames: list[int]
) -> np.ndarray:
    """Return pictures of frames with the ways of all agents: true, likeliest and less likely ones."""
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
        images.append(common.draw(pictures, sample, shown, raster_from_ways=sample["raster_from_agent"]))
        titles.append(f"scene {sample['scene_index']}, frame {sample['frame_index']}: {has_truth.sum()} predicted")
    return contact_sheet(images, titles=titles, columns=2, title_size_px=13)


if __name__ == "__main__":
    main()

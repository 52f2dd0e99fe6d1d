"""Open-loop test of a planner: its plans in frames of a log, compared with what the AV did.

The planner never drives: in each frame it sees the logged past. Shared by ``planning.py``, ``urban_driver.py`` and
``own_model.py``.
"""

from pathlib import Path
from typing import Any

import common
import numpy as np
import torch
from torch.utils.data import Subset

from l5kit.dataset import BaseEgoDataset, EgoDataset, loader
from l5kit.evaluation.horizon_scores import HorizonScores, baseline_positions
from l5kit.evaluation.metrics import displacements
from l5kit.kinematic.baselines import BASELINE_TITLES, BASELINES
from l5kit.visualization import contact_sheet


def test_open_loop(
    planner: torch.nn.Module, samples: BaseEgoDataset, cfg: dict[str, Any], data_folder: Path
) -> np.ndarray:
    """Print the errors of a planner and of the baselines, and return pictures of the planner and the best baseline.

    Each picture is the frame of a scene with the largest error of that baseline, where the AV begins to brake or turn.
    """
    pictures = common.open_pictures(samples.dataset, cfg, data_folder)
    poses = EgoDataset(pictures.cfg, samples.dataset, None)  # with a past, which samples of planners may lack
    frames = common.evenly_spread(len(samples), cfg)
    truth = next(iter(loader(Subset(poses, frames), len(frames))))
    positions, is_known = truth["target_positions"], truth["target_availabilities"]
    step_time_s = common.step_time_of(cfg)
    all_paths = {
        BASELINE_TITLES[name]: baseline_positions(truth, name, num_steps=positions.shape[1], step_time_s=step_time_s)
        for name in BASELINES
    }
    all_paths[common.PREDICTED.name] = torch.cat(
        [out["positions"] for _, out in common.predict(planner, Subset(samples, frames))]
    )
    scores = {name: HorizonScores(common.horizons_of(cfg), step_time_s=step_time_s) for name in all_paths}
    for name, path in all_paths.items():
        scores[name].add(positions, path, is_known)
    common.print_scores({name: gathered.scores() for name, gathered in scores.items()})
    paths = {style: all_paths[style.name] for style in (common.BASELINE, common.PREDICTED)}

    errors_m = {style: displacements(positions, path[:, None], is_known)[:, 0, -1] for style, path in paths.items()}
    has_past = truth["history_availabilities"][:, 1] > 0
    hardest = common.largest_of_each_scene(truth["scene_index"], errors_m[common.BASELINE] * has_past)
    images, titles = [], []
    for index in hardest:
        sample = pictures[frames[index]]
        shown = {common.TRUTH: positions[index][is_known[index] > 0]}
        shown |= {style: path[index] for style, path in paths.items()}
        images.append(common.draw(pictures, sample, shown, raster_from_paths=sample["raster_from_agent"]))
        errors = ", ".join(f"{style.name} {error_m[index]:.1f} m" for style, error_m in errors_m.items())
        titles.append(f"scene {sample['scene_index']}, frame {sample['frame_index']}: final error: {errors}")
    return contact_sheet(images, titles=titles, columns=2, title_size_px=13)

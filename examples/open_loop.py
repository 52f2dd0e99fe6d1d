"""The open-loop test of a planner: where it would go from frames of a log, beside where the AV went.

The planner never drives: at each frame it gets the past as it was. ``planning.py`` and ``urban_driver.py``
use this.
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
    """Print the errors of a planner beside those of the baselines, and return pictures of it and the best baseline.

    The pictures are of the frame of each scene in which that baseline errs most: where the AV begins to brake or turn.
    """
    pictures = common.open_pictures(samples.dataset, cfg, data_folder)
    poses = EgoDataset(pictures.cfg, samples.dataset, None)  # with a past, which the samples of a planner may lack
    frames = common.evenly_spread(len(samples), cfg)
    truth = next(iter(loader(Subset(poses, frames), len(frames))))
    positions, is_known = truth["target_positions"], truth["target_availabilities"]
    step_time_s = common.step_time_of(cfg)
    all_ways = {
        BASELINE_TITLES[name]: baseline_positions(truth, name, num_steps=positions.shape[1], step_time_s=step_time_s)
        for name in BASELINES
    }
    all_ways[common.PREDICTED.name] = torch.cat(
        [out["positions"] for _, out in common.predict(planner, Subset(samples, frames))]
    )
    scores = {name: HorizonScores(common.horizons_of(cfg), step_time_s=step_time_s) for name in all_ways}
    for name, way in all_ways.items():
        scores[name].add(positions, way, is_known)
    common.print_scores({name: gathered.scores() for name, gathered in scores.items()})
    ways = {style: all_ways[style.name] for style in (common.BASELINE, common.PREDICTED)}

    errors_m = {style: displacements(positions, way[:, None], is_known)[:, 0, -1] for style, way in ways.items()}
    has_past = truth["history_availabilities"][:, 1] > 0
    hardest = common.largest_of_each_scene(truth["scene_index"], errors_m[common.BASELINE] * has_past)
    images, titles = [], []
    for place in hardest:
        sample = pictures[frames[place]]
        shown = {common.TRUTH: positions[place][is_known[place] > 0]}
        shown |= {style: way[place] for style, way in ways.items()}
        images.append(common.draw(pictures, sample, shown, raster_from_ways=sample["raster_from_agent"]))
        errors = ", ".join(f"{style.name} {error_m[place]:.1f} m" for style, error_m in errors_m.items())
        titles.append(f"scene {sample['scene_index']}, frame {sample['frame_index']}: off at the end by {errors}")
    return contact_sheet(images, titles=titles, columns=2, title_size_px=13)

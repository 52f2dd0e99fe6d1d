"""Helpers of the training examples: options, a synthetic city, predictions, scores and pictures."""

import argparse
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.utils.data import Dataset

from l5kit.configs import load_config_data
from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.configs.training import TrainingParams
from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.dataset import BaseEgoDataset, EgoDataset, loader
from l5kit.evaluation.horizon_scores import HorizonScore
from l5kit.geometry import transform_points
from l5kit.kinematic.baselines import BASELINE_TITLES
from l5kit.planning.network_inputs import network_inputs, tensors_on
from l5kit.rasterization import build_rasterizer
from l5kit.synthetic import make_city
from l5kit.visualization import PREDICTED_POINTS_COLOR, TARGET_POINTS_COLOR, draw_trajectory
from l5kit.visualization.text import draw_text, text_size_px
from l5kit.workflows import TrainingConfig, load_network, open_samples
from l5kit.workflows.samples import spread_indices

HERE = Path(__file__).parent
HORIZONS_S = (0.5, 1.0, 2.0, 3.0, 5.0)

Batch = dict[str, torch.Tensor]


class Style(NamedTuple):
    """Name of a trajectory in the legend, and how it is drawn."""

    name: str
    rgb: tuple[int, int, int]
    radius_px: int


TRUTH = Style("truth", TARGET_POINTS_COLOR, 4)
PREDICTED = Style("predicted", PREDICTED_POINTS_COLOR, 2)
LESS_LIKELY = Style("predicted, less likely", (0, 140, 170), 1)
MIN_PROBABILITY = 0.1  # less likely trajectories are not drawn
BASELINE = Style(BASELINE_TITLES["ctra"], (255, 140, 0), 1)  # the best baseline
GROUND_RGB = (20, 24, 30)


def make_parser(description: str, *, out: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all training examples share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, help="data folder; default: generate a city in --out")
    parser.add_argument("--out", type=Path, default=Path(out), help=f"output folder; default {out}")
    parser.add_argument("--steps", type=int, help="number of training steps")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of the configuration"
    )
    return parser


def set_up(workflow: str, options: argparse.Namespace, *, num_steps: int) -> tuple[dict[str, Any], Path]:
    """Create the output folder, and return the configuration of a workflow and the data folder.

    With ``--data``, this is the full-size configuration next to this file. Without it, it is the small configuration
    that ships with l5kit, trained for ``num_steps`` on a synthetic city, which later runs reuse.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    data_folder, steps = options.data, options.steps
    if data_folder is None:
        data_folder, steps = options.out / "city", steps or num_steps
        if not data_folder.exists():
            print(f"generating a city in {data_folder}")
        make_city(data_folder, num_train_scenes=40, num_scenes=8, reuse=True)
    cfg = load_training_config(workflow if options.data is None else str(HERE / f"{workflow}_config.yaml"))
    if steps is not None:
        cfg["train_params"].pop("num_epochs", None)
        cfg["train_params"]["max_num_steps"] = steps
    return with_overrides(cfg, options.set), data_folder


def new_folder(out: Path) -> Path:
    """Return the first unused folder of ``training-1``, ``training-2``, ..., so no training is overwritten."""
    return next(path for number in itertools.count(1) if not (path := out / f"training-{number}").exists())


def evenly_spread(num_samples: int, cfg: Mapping[str, Any]) -> list[int]:
    """Return the indices of the samples to score: as many as ``val_data_loader`` allows, spread over all scenes."""
    val = cfg["val_data_loader"]
    most = min(num_samples, val.get("max_num_batches", num_samples) * val["batch_size"])
    return spread_indices(num_samples, most).tolist()


def load_trained(cfg: dict[str, Any], weights: Path, data_folder: Path) -> tuple[torch.nn.Module, BaseEgoDataset]:
    """Return a trained network and its validation samples."""
    config = TrainingConfig.from_cfg(cfg)
    samples = open_samples(config, config.params.val_loader, LocalDataManager(data_folder), perturbed=False)
    return load_network(weights, config, samples, allow_pickle=False), samples


@torch.inference_mode()
def predict(network: torch.nn.Module, samples: Dataset[Any], *, batch_size: int = 32) -> Iterator[tuple[Batch, Batch]]:
    """Yield batches and the outputs of the network for them, on the CPU. The network does not see the targets."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network.to(device).eval()
    for batch in loader(samples, batch_size, threads=2):
        outputs = network(network_inputs(tensors_on(device, batch)))
        yield batch, {key: value.cpu() for key, value in outputs.items()}


def horizons_of(cfg: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the horizons to score, in seconds; the last one is the end of the prediction."""
    step_time_s = step_time_of(cfg)
    num_steps = cfg["model_params"]["future_num_frames"]
    chosen = {round(horizon_s / step_time_s) for horizon_s in HORIZONS_S}
    steps = sorted({step for step in chosen if step < num_steps} | {num_steps})
    return tuple(step * step_time_s for step in steps)


def step_time_of(cfg: Mapping[str, Any]) -> float:
    """Return the time between two predicted steps, in seconds."""
    return TrainingParams.from_cfg(cfg).step_time_s


def print_scores(scores: Mapping[str, Sequence[HorizonScore]]) -> None:
    """Print mean errors by horizon, one line for each predictor."""
    print(f"{'ahead':<8}{'':<28}{'ADE':>9}{'FDE':>9}{'misses':>9}{'scored':>9}")
    for at_horizon in zip(*scores.values(), strict=True):
        for name, score in zip(scores, at_horizon, strict=True):
            errors = f"{score.ade_m:>7.2f} m{score.fde_m:>7.2f} m{score.miss_rate:>9.0%}{score.num_final:>9,}"
            print(f"{f'{score.horizon_s:.1f} s':<8}{name:<28}{errors}")


def largest_of_each_scene(scene_indices: ArrayLike, values: ArrayLike, *, most: int = 8) -> list[int]:
    """Return the index of the largest value in each of the first ``most`` scenes; values are at least 0."""
    scene_of = np.asarray(scene_indices)
    return [int(np.argmax(np.where(scene_of == scene, values, -1.0))) for scene in np.unique(scene_of)[:most]]


def open_pictures(log: ChunkedDataset, cfg: Mapping[str, Any], data_folder: Path) -> EgoDataset:
    """Return samples of the AV with the targets of ``cfg``, on larger and finer rasters than those of networks."""
    fine = load_config_data(str(HERE / "visualisation_config.yaml"))
    model = cfg["model_params"]
    stride = model.get("future_step_size", 1)
    steps = {"history_step_size": stride, "future_step_size": stride, "step_time": model["step_time"]}
    fine["model_params"] |= {"history_num_frames": 1, "future_num_frames": model["future_num_frames"], **steps}
    fine["raster_params"] |= {"raster_size": [480, 320], "pixel_size": [0.15, 0.15]}
    return EgoDataset(fine, log, build_rasterizer(fine, LocalDataManager(data_folder)))


def draw(
    pictures: EgoDataset, sample: Mapping[str, Any], paths: Mapping[Style, ArrayLike], *, raster_from_paths: np.ndarray
) -> np.ndarray:
    """Return the raster of a sample with paths (..., 2) drawn as dots, the last on top, below a legend."""
    picture = np.array(pictures.rasterizer.to_rgb(sample["image"].transpose(1, 2, 0)))
    legend, column = np.full((24, picture.shape[1], 3), GROUND_RGB, np.uint8), 8
    for style, path in paths.items():
        points_px = transform_points(np.reshape(path, (-1, 2)), raster_from_paths)
        draw_trajectory(picture, points_px, GROUND_RGB, radius=style.radius_px + 1)
        draw_trajectory(picture, points_px, style.rgb, radius=style.radius_px)
        legend = draw_text(legend, [style.name], np.array([[column, 3]]), rgb_color=style.rgb, size_px=14)
        column += text_size_px(style.name, size_px=14)[0] + 20
    return np.concatenate([legend, picture])

"""What the examples that train a network share: options, a made city, predictions, scores and pictures."""

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
    """How a trajectory looks, and its name in the legend."""

    name: str
    rgb: tuple[int, int, int]
    radius_px: int


TRUTH = Style("truth", TARGET_POINTS_COLOR, 4)
PREDICTED = Style("predicted", PREDICTED_POINTS_COLOR, 2)
LESS_LIKELY = Style("predicted, less likely", (0, 140, 170), 1)
MIN_PROBABILITY = 0.1  # of trajectories that are drawn
BASELINE = Style(BASELINE_TITLES["ctra"], (255, 140, 0), 1)  # the best one
GROUND_RGB = (20, 24, 30)


def make_parser(description: str, *, out: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all trainings."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, help="data folder; by default a city is made below --out")
    parser.add_argument("--out", type=Path, default=Path(out), help=f"folder for what is written; default {out}")
    parser.add_argument("--steps", type=int, help="steps of the training")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another value for a key")
    return parser


def set_up(workflow: str, options: argparse.Namespace, *, num_steps: int) -> tuple[dict[str, Any], Path]:
    """Return the configuration of a workflow and the data folder; the folder for what is written is made.

    With ``--data`` the configuration is the one of full size beside this file. Without, it is the small one that ships
    with l5kit, trained for ``num_steps`` on a city that is made unless it is there from the last run.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    data_folder, steps = options.data, options.steps
    if data_folder is None:
        data_folder, steps = options.out / "city", steps or num_steps
        if not data_folder.exists():
            print(f"making a city in {data_folder}")
        make_city(data_folder, num_train_scenes=40, num_scenes=8, reuse=True)
    cfg = load_training_config(workflow if options.data is None else str(HERE / f"{workflow}_config.yaml"))
    if steps is not None:
        cfg["train_params"].pop("num_epochs", None)
        cfg["train_params"]["max_num_steps"] = steps
    return with_overrides(cfg, options.set), data_folder


def new_folder(out: Path) -> Path:
    """Return the first of ``training-1``, ``training-2``, ... that is free, so that no training is overwritten."""
    return next(path for number in itertools.count(1) if not (path := out / f"training-{number}").exists())


def evenly_spread(num_samples: int, cfg: Mapping[str, Any]) -> list[int]:
    """Return the samples to score: as many as ``val_data_loader`` allows, spread over all scenes."""
    val = cfg["val_data_loader"]
    most = min(num_samples, val.get("max_num_batches", num_samples) * val["batch_size"])
    return spread_indices(num_samples, most).tolist()


def load_trained(cfg: dict[str, Any], weights: Path, data_folder: Path) -> tuple[torch.nn.Module, BaseEgoDataset]:
    """Return a trained network, and the samples it has not seen."""
    config = TrainingConfig.from_cfg(cfg)
    samples = open_samples(config, config.params.val_loader, LocalDataManager(data_folder), perturbed=False)
    return load_network(weights, config, samples, allow_pickle=False), samples


@torch.inference_mode()
def predict(network: torch.nn.Module, samples: Dataset[Any], *, batch_size: int = 32) -> Iterator[tuple[Batch, Batch]]:
    """Yield batches and what the network makes of them, on the CPU; the network sees nothing of the future."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network.to(device).eval()
    for batch in loader(samples, batch_size, threads=2):
        outputs = network(network_inputs(tensors_on(device, batch)))
        yield batch, {key: value.cpu() for key, value in outputs.items()}


def horizons_of(cfg: Mapping[str, Any]) -> tuple[float, ...]:
    """Return times ahead to score at, in seconds; the last is the end of what is predicted."""
    step_time_s = step_time_of(cfg)
    num_steps = cfg["model_params"]["future_num_frames"]
    chosen = {round(horizon_s / step_time_s) for horizon_s in HORIZONS_S}
    places = sorted({place for place in chosen if place < num_steps} | {num_steps})
    return tuple(place * step_time_s for place in places)


def step_time_of(cfg: Mapping[str, Any]) -> float:
    """Return the seconds between two steps that are predicted."""
    return TrainingParams.from_cfg(cfg).step_time_s


def print_scores(scores: Mapping[str, Sequence[HorizonScore]]) -> None:
    """Print mean errors at each time ahead, a line for each of those compared."""
    print(f"{'ahead':<8}{'':<28}{'ADE':>9}{'FDE':>9}{'misses':>9}{'scored':>9}")
    for at_horizon in zip(*scores.values(), strict=True):
        for who, score in zip(scores, at_horizon, strict=True):
            errors = f"{score.ade_m:>7.2f} m{score.fde_m:>7.2f} m{score.miss_rate:>9.0%}{score.num_final:>9,}"
            print(f"{f'{score.horizon_s:.1f} s':<8}{who:<28}{errors}")


def largest_of_each_scene(scene_indices: ArrayLike, values: ArrayLike, *, most: int = 8) -> list[int]:
    """Return the place of the largest value, at least 0, in each of the first scenes."""
    scene_of = np.asarray(scene_indices)
    return [int(np.argmax(np.where(scene_of == scene, values, -1.0))) for scene in np.unique(scene_of)[:most]]


def open_pictures(log: ChunkedDataset, cfg: Mapping[str, Any], data_folder: Path) -> EgoDataset:
    """Return samples of the AV with the future of ``cfg``, on rasters larger and finer than those networks see."""
    fine = load_config_data(str(HERE / "visualisation_config.yaml"))
    model = cfg["model_params"]
    stride = model.get("future_step_size", 1)
    steps = {"history_step_size": stride, "future_step_size": stride, "step_time": model["step_time"]}
    fine["model_params"] |= {"history_num_frames": 1, "future_num_frames": model["future_num_frames"], **steps}
    fine["raster_params"] |= {"raster_size": [480, 320], "pixel_size": [0.15, 0.15]}
    return EgoDataset(fine, log, build_rasterizer(fine, LocalDataManager(data_folder)))


def draw(
    pictures: EgoDataset, sample: Mapping[str, Any], ways: Mapping[Style, ArrayLike], *, raster_from_ways: np.ndarray
) -> np.ndarray:
    """Return the raster of a sample with ways (..., 2) in it as dots, the last one on top, and a legend above it."""
    picture = np.array(pictures.rasterizer.to_rgb(sample["image"].transpose(1, 2, 0)))
    legend, column = np.full((24, picture.shape[1], 3), GROUND_RGB, np.uint8), 8
    for style, way in ways.items():
        points_px = transform_points(np.reshape(way, (-1, 2)), raster_from_ways)
        draw_trajectory(picture, points_px, GROUND_RGB, radius=style.radius_px + 1)
        draw_trajectory(picture, points_px, style.rgb, radius=style.radius_px)
        legend = draw_text(legend, [style.name], np.array([[column, 3]]), rgb_color=style.rgb, size_px=14)
        column += text_size_px(style.name, size_px=14)[0] + 20
    return np.concatenate([legend, picture])

"""Benchmark of the samples of a dataset: samples per second by class and kind of map, as a table."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.agent import AgentDataset
from l5kit.dataset.ego import EgoDataset
from l5kit.rasterization.rasterizer_builder import build_rasterizer
from l5kit.visualization.sample_config import SampleForm, available_map_kinds, sample_config

_WARM_UP_SAMPLES = 5
"""Not timed: they compile kernels and read the first chunks."""

SPEED_COLUMNS: Final = ("Dataset", "Map", "Samples in it", "Image", "Made", "Samples per second")


@dataclass(frozen=True)
class SamplingSpeed:
    """Sampling speed of one kind of dataset in this process.

    Attributes:
        dataset: Name of the class.
        map_kind: Kind of map below the boxes.
        num_available: Samples of the dataset.
        num_samples: Samples that were timed, in random order.
        seconds: Their total time.
        image_shape: (C, H, W) of the image of a sample; empty without samples.
    """

    dataset: str
    map_kind: str
    num_available: int
    num_samples: int
    seconds: float
    image_shape: tuple[int, ...]

    @property
    def samples_per_s(self) -> float:
        """Samples per second; 0 without samples."""
        return self.num_samples / self.seconds if self.seconds > 0 else 0.0


def measure_sampling(
    files: DatasetFiles,
    dataset: ChunkedDataset,
    *,
    form: SampleForm | None = None,
    num_samples: int = 300,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[SamplingSpeed]:
    """Make samples of ``EgoDataset`` and ``AgentDataset`` over every available kind of map, and time them.

    Args:
        files: Paths of the map, the aerial picture and meta.json.
        dataset: The opened dataset.
        form: Size of the raster and length of the trajectories; None for the defaults.
        num_samples: Largest number of samples per class and kind; the same samples in every run with the same ``seed``.
        seed: Seed of the selection and order of the samples.
        progress: Called after each class and kind with the numbers of finished and of all samples.

    Returns:
        One entry per class and kind.

    Raises:
        SampleError: A sample cannot be made.
    """
    kinds = available_map_kinds(files)
    total = len(kinds) * 2 * num_samples
    speeds: list[SamplingSpeed] = []
    for kind in kinds:
        cfg = sample_config(files, map_kind=kind, form=form or SampleForm(), step_time_s=dataset.facts.step_time_s)
        rasterizer = build_rasterizer(cfg, LocalDataManager(""))
        for dataset_class in (EgoDataset, AgentDataset):
            samples = dataset_class(cfg, dataset, rasterizer)
            order = np.random.default_rng(seed).permutation(len(samples))[:num_samples]
            image_shape: tuple[int, ...] = ()
            for index in order[:_WARM_UP_SAMPLES].tolist():
                image_shape = samples[index]["image"].shape
            start_s = time.perf_counter()
            for index in order.tolist():
                samples[index]
            seconds, name = time.perf_counter() - start_s, dataset_class.__name__
            speeds.append(SamplingSpeed(name, kind, len(samples), len(order), seconds, image_shape))
            if progress is not None:
                progress(len(speeds) * num_samples, total)
    return speeds


def speed_rows(speeds: Sequence[SamplingSpeed]) -> list[list[str]]:
    """Return a row of cells for each class and kind of map."""
    return [
        [
            speed.dataset,
            speed.map_kind,
            f"{speed.num_available:,}",
            " x ".join(map(str, speed.image_shape)) or "-",
            f"{speed.num_samples:,}",
            f"{speed.samples_per_s:,.0f}",
        ]
        for speed in speeds
    ]

"""Workplace of a benchmark: the dataset and its maps, a scratch folder, and the amounts of work."""

import json
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from l5kit.data.dataset_files import DatasetFiles, find_dataset_files
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import SampleError
from l5kit.warmup.workloads import RowLeftOutError, VectorWorkload, Workload, config_with_files, make_samples

if TYPE_CHECKING:
    from l5kit.dataset.base import BaseEgoDataset


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """How much one pass of each row does.

    Attributes:
        num_samples: Samples drawn, at most.
        batch_size: Samples of a batch.
        num_loaded_batches: Batches that a loader makes, at least; filling and emptying its threads must not count.
        num_frames: Frames read at random.
        num_mask_repeats: Times that the agents mask is computed.
        num_copies: Copies of the dataset that are joined to a large one, at most.
        num_joined_rows: Agent rows of the large one, at most.
        num_made_scenes: Scenes of the city that is made.
        num_simulated_scenes: Scenes whose states are driven at once.
        num_metric_repeats: Times that a scene is evaluated.
        num_episodes: Episodes of an environment that is alone.
        num_environments: Environments that step at once, at most.
        num_steps_at_once: Steps of all of these.
        num_resets: Starts of an episode.
        num_trained_steps: Steps of the training of a driver.
        is_for_figures: Whether this is enough work for rates that mean something.
    """

    num_samples: int = 200
    batch_size: int = 32
    num_loaded_batches: int = 96
    num_frames: int = 500
    num_mask_repeats: int = 10
    num_copies: int = 200
    num_joined_rows: int = 5_000_000
    num_made_scenes: int = 12
    num_simulated_scenes: int = 256
    num_metric_repeats: int = 20
    num_episodes: int = 20
    num_environments: int = 1024
    num_steps_at_once: int = 128
    num_resets: int = 200
    num_trained_steps: int = 131_072
    is_for_figures: bool = True


QUICK = Amounts(
    num_samples=8,
    batch_size=4,
    num_loaded_batches=4,
    num_frames=20,
    num_mask_repeats=1,
    num_copies=3,
    num_made_scenes=1,
    num_simulated_scenes=1,
    num_metric_repeats=1,
    num_episodes=2,
    num_environments=4,
    num_steps_at_once=3,
    num_resets=2,
    num_trained_steps=64,
    is_for_figures=False,
)
"""Little work, to check that everything runs."""


class Workplace:
    """The dataset that rows are measured on, with a folder of its own; use it in a ``with`` statement.

    Args:
        files: Where the dataset and its maps lie.
        amounts: How much the rows do.

    Attributes:
        files: Where the dataset and its maps lie.
        amounts: How much the rows do.
        scratch: A folder for what rows write, which is removed at the end.
        at_end: What is to be closed at the end.
    """

    def __init__(self, files: DatasetFiles, amounts: Amounts) -> None:
        self.files = files
        self.amounts = amounts
        self.at_end = ExitStack()
        self.scratch = Path(tempfile.mkdtemp(prefix="l5kit-bench-"))
        self.at_end.callback(shutil.rmtree, self.scratch, ignore_errors=True)
        self._datasets: dict[str, BaseEgoDataset] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.at_end.close()

    @cached_property
    def dataset(self) -> ChunkedDataset:
        """The log, read from decoded chunks."""
        return ChunkedDataset(str(self.files.dataset)).open()

    def samples_of(self, workload: Workload | VectorWorkload, **raster_params: object) -> "BaseEgoDataset":
        """Return the dataset of a workload; each is built once.

        Args:
            workload: What to draw.
            raster_params: Further values of that section of the configuration.

        Raises:
            RowLeftOutError: A map that it needs is missing.
        """
        cfg = config_with_files(workload, self.files)
        cfg["raster_params"].update(raster_params)
        key = json.dumps([workload.dataset, cfg])
        if key not in self._datasets:
            self._datasets[key] = make_samples(workload, cfg, self.dataset)
        return self._datasets[key]

    def indices_of(self, samples: "BaseEgoDataset") -> list[int]:
        """Return the indices that a pass draws, in their order; see :func:`drawn_indices`."""
        return drawn_indices(samples, self.amounts.num_samples)


def find_bench_files(path: Path, **given: Path | None) -> DatasetFiles:
    """Return a dataset and its maps.

    The files that the reference was recorded on count first if they lie beside the dataset; else maps are looked for
    by :func:`l5kit.data.dataset_files.find_dataset_files`.

    Args:
        path: Dataset folder, or a dataset in it.
        given: ``map_path``, ``aerial_path`` and ``meta_path``, in place of looking for them.
    """
    raster_params = Workload("AgentDataset", "py_semantic").config()["raster_params"]
    keys = {"map_path": raster_params["semantic_map_key"], "aerial_path": raster_params["satellite_map_key"]}
    for argument, name in keys.items():
        places = [folder / name for folder in (path, path.parent) if (folder / name).is_file()]
        if given.get(argument) is None and places:
            given[argument] = places[0]
    return find_dataset_files(path, **given)


def drawn_indices(samples: "BaseEgoDataset", count: int) -> list[int]:
    """Return the first indices in shuffled order, without those of impossible samples.

    Raises:
        RowLeftOutError: No sample can be made.
    """
    shuffled = np.random.RandomState(0).permutation(len(samples))[:count].tolist()
    indices = [index for index in shuffled if _can_be_made(samples, index)]
    if not indices:
        raise RowLeftOutError(f"none of {len(shuffled)} samples of {samples.dataset.path} can be made")
    return indices


def _can_be_made(samples: "BaseEgoDataset", index: int) -> bool:
    """Return whether a sample can be made: some crops leave the aerial image."""
    try:
        samples[index]
    except SampleError:
        return False
    return True

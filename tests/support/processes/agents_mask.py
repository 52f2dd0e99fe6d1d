"""Processes that build one agents mask at the same time; a module, so that spawned ones can import it."""

import time
import warnings
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np

from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.mask_cache import load_or_compute_mask
from l5kit.dataset.select_agents.thresholds import MaskThresholds


def stop_in_the_middle(path: str, is_computing: Event) -> None:
    """Begin to compute the mask, and never go on after the first scene."""

    def stop(done: int, total: int) -> None:
        assert 0 < done < total
        is_computing.set()
        time.sleep(3600)

    load_mask(path, stop)


def compute_slowly(path: str, is_ready: Event, result: str) -> None:
    """Load or compute the mask, a while for each scene, and write it and the number of computed scenes to a file."""
    computed_scenes = 0

    def count(done: int, total: int) -> None:
        nonlocal computed_scenes
        computed_scenes = done
        time.sleep(0.05)

    is_ready.set()
    mask = load_mask(path, count)
    part = Path(f"{result}.part.npz")
    np.savez(part, mask=mask, computed_scenes=computed_scenes)
    part.rename(result)


def load_mask(path: str, progress: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return load_or_compute_mask(ChunkedDataset(path).open(), MaskThresholds(0.5), progress=progress)

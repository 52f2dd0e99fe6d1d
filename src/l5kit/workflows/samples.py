"""Samples of a workflow: the datasets and rasterizers of L5Kit 1.x, which take a configuration as a mapping."""

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Config, Int64Array, JsonObject
from l5kit.configs.runs import LoaderParams
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.loader_folders import folders_of
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.agent import AgentDataset
from l5kit.dataset.ego import EgoDataset
from l5kit.dataset.ego_vectorized import EgoAgentDatasetVectorized, EgoDatasetVectorized
from l5kit.kinematic.perturbation import Perturbation
from l5kit.rasterization.rasterizer_builder import build_rasterizer
from l5kit.vectorization.vectorizer_builder import build_vectorizer

_FILE_KEYS: Final = {"semantic_map_key": "semantic_map", "dataset_meta_key": "meta", "satellite_map_key": "aerial"}
"""Keys of ``raster_params``, and what they name in :class:`~l5kit.data.dataset_files.DatasetFiles`."""


@dataclass(frozen=True)
class SampleSource:
    """A log, and all that a workflow makes samples of it with.

    Attributes:
        mapping: The configuration, as datasets take it.
        log: The opened log.
        loader: Which agents are taken.
        data_manager: Finds the map.
        perturbation: Moves the AV, or None.
    """

    mapping: JsonObject
    log: ChunkedDataset
    loader: LoaderParams
    data_manager: LocalDataManager
    perturbation: Perturbation | None = None


def ego_rasters(source: SampleSource) -> EgoDataset:
    """Return rasters around the AV."""
    rasterizer = build_rasterizer(source.mapping, source.data_manager)
    return EgoDataset(source.mapping, source.log, rasterizer, source.perturbation)


def agent_rasters(source: SampleSource) -> AgentDataset:
    """Return rasters around the agents that have as much past and future as the loader says."""
    rasterizer = build_rasterizer(source.mapping, source.data_manager)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "min_frame_.*the usual value")  # the configuration says what it wants
        return AgentDataset(
            source.mapping,
            source.log,
            rasterizer,
            min_frame_history=source.loader.min_frame_history,
            min_frame_future=source.loader.min_frame_future,
        )


def ego_vectors(source: SampleSource) -> EgoDatasetVectorized:
    """Return vector samples of the AV."""
    vectorizer = build_vectorizer(source.mapping, source.data_manager)
    return EgoDatasetVectorized(source.mapping, source.log, vectorizer, source.perturbation)


def ego_agent_vectors(source: SampleSource) -> EgoAgentDatasetVectorized:
    """Return vector samples of the AV together with the agents around it."""
    vectorizer = build_vectorizer(source.mapping, source.data_manager)
    return EgoAgentDatasetVectorized(source.mapping, source.log, vectorizer, source.perturbation)


def rasters_of_test_agents(
    mapping: JsonObject, log: Path, agents_mask: BoolArray, data_manager: LocalDataManager
) -> AgentDataset:
    """Return rasters around the agents of a test set.

    Args:
        mapping: The configuration.
        log: Path of the chopped log.
        agents_mask: Its test agents, (N,).
        data_manager: Finds the map.
    """
    rasterizer = build_rasterizer(mapping, data_manager)
    opened = ChunkedDataset(str(log)).open(cached="mmap")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning)  # that a mask is used, which is what a test set is
        return AgentDataset(mapping, opened, rasterizer, agents_mask=agents_mask, strict_mask=True)


def data_managers_of(loader: LoaderParams, data_manager: LocalDataManager) -> list[LocalDataManager]:
    """Return what finds the log and the map of each of the folders of a loader; without folders, of the data folder."""
    folders = folders_of(loader, data_manager)
    if folders is None:
        return [data_manager]
    return [LocalDataManager(data_manager.root_folder / folder) for folder in folders]


def spread_indices(num_samples: int, most: int | None) -> Int64Array:
    """Return the indices of at most so many samples, evenly spread over all; None for all of them.

    Each is from the middle of its part of the log, so that first frames, which have no past, are not taken too often.
    """
    # part i of n is [i, i + 1) * num_samples / n, its middle (2 i + 1) / (2 n): in whole numbers, which do not round
    num_taken = num_samples if most is None else min(most, num_samples)
    return (2 * np.arange(num_taken) + 1) * num_samples // (2 * max(num_taken, 1))


def file_keys_of(files: DatasetFiles) -> dict[str, str]:
    """Return the files that are there as whole paths, by their keys in ``raster_params``."""
    paths = {key: getattr(files, name) for key, name in _FILE_KEYS.items()}
    return {key: os.path.abspath(path) for key, path in paths.items() if path is not None}


def with_files_of(cfg: Config, files: DatasetFiles) -> JsonObject:
    """Return a configuration whose map is that of a log, where both have one."""
    params = cfg.get("raster_params", {})
    own = {key: path for key, path in file_keys_of(files).items() if key in params}
    return {**cfg, "raster_params": {**params, **own}} if "raster_params" in cfg else dict(cfg)

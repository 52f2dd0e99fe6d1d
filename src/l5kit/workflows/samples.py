"""Samples of a workflow: datasets and rasterizers of L5Kit 1.x, which take a configuration as a mapping."""

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
"""Keys of ``raster_params``, and the fields of :class:`~l5kit.data.dataset_files.DatasetFiles` that they name."""


@dataclass(frozen=True)
class SampleSource:
    """A log, and everything that a workflow needs to make samples of it.

    Attributes:
        mapping: The configuration, in the form of datasets.
        log: The opened log.
        loader: Selection of agents.
        data_manager: Data manager of the map.
        perturbation: Perturbation of the AV, or None.
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
    """Return rasters around the agents with the past and future that the loader requires."""
    rasterizer = build_rasterizer(source.mapping, source.data_manager)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "min_frame_.*the usual value"
        )  # suppress warnings about values that the configuration chose
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
        data_manager: Data manager of the map.
    """
    rasterizer = build_rasterizer(mapping, data_manager)
    opened = ChunkedDataset(str(log)).open(cached="mmap")
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", category=RuntimeWarning
        )  # suppress the warning about the mask, which is the purpose of a test set
        return AgentDataset(mapping, opened, rasterizer, agents_mask=agents_mask, strict_mask=True)


def data_managers_of(loader: LoaderParams, data_manager: LocalDataManager) -> list[LocalDataManager]:
    """Return data managers of the folders of a loader, or of the data folder."""
    folders = folders_of(loader, data_manager)
    if folders is None:
        return [data_manager]
    return [LocalDataManager(data_manager.root_folder / folder) for folder in folders]


def spread_indices(num_samples: int, most: int | None) -> Int64Array:
    """Return the indices of at most some number of samples, evenly spread over all; None for all of them.

    Each is from the middle of its part of the log, so that first frames, which have no past, are not overrepresented.
    """
    # part i of n is [i, i + 1) * num_samples / n, its middle (2 i + 1) / (2 n): exact in whole numbers
    num_taken = num_samples if most is None else min(most, num_samples)
    return (2 * np.arange(num_taken) + 1) * num_samples // (2 * max(num_taken, 1))


def file_keys_of(files: DatasetFiles) -> dict[str, str]:
    """Return the existing files as absolute paths, by their keys in ``raster_params``."""
    paths = {key: getattr(files, name) for key, name in _FILE_KEYS.items()}
    return {key: os.path.abspath(path) for key, path in paths.items() if path is not None}


def with_files_of(cfg: Config, files: DatasetFiles) -> JsonObject:
    """Return a configuration with the map of a log, if both have one."""
    params = cfg.get("raster_params", {})
    own = {key: path for key, path in file_keys_of(files).items() if key in params}
    return {**cfg, "raster_params": {**params, **own}} if "raster_params" in cfg else dict(cfg)

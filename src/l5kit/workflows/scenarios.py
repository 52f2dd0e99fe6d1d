"""Scenarios of a training: selection and weights of scenes by their tags."""

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Config, Float64Array
from l5kit._warning import warn_caller
from l5kit.configs.parameters import MapKeys
from l5kit.configs.runs import LoaderParams
from l5kit.configs.texts import did_you_mean
from l5kit.data.loader_folders import folders_of
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.map.opened import SceneMaps, maps_of_cfg
from l5kit.data.stores.npy_files import keep_npy, kept_npy
from l5kit.data.user_cache import cache_folder, hold_lock
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.rank_sampler import SceneChoice, choose_scenes
from l5kit.errors import ConfigError
from l5kit.evaluation.scene_tags import TAG_KINDS, TagThresholds, tag_scenes
from l5kit.workflows.samples import data_managers_of

OTHERS: Final = "others"
"""Key of weights for scenes without any of the tags."""

_KEY: Final = "train_data_loader.scenario_weights"
_VERSION: Final = 1
_NAMES: Final = tuple(kind.name for kind in TAG_KINDS)


def check_tags(weights: Mapping[str, float]) -> None:
    """Refuse weights of unknown tags.

    Raises:
        ConfigError: There is no such tag; the message names the nearest one and all that exist.
    """
    for name in weights:
        if name not in (*_NAMES, OTHERS):
            raise ConfigError(
                f"{_KEY}: there is no tag {name!r}{did_you_mean(name, (*_NAMES, OTHERS))}; "
                f"there are {', '.join(_NAMES)}, and "
                f"{OTHERS} for scenes without any of the named tags"
            )


def choice_of(loader: LoaderParams, *, weights: Float64Array | None = None) -> SceneChoice:
    """Return the choice of scenes of a log.

    Args:
        loader: Shuffle, and share of the scenes.
        weights: Weights of the scenes, (S,).
    """
    return SceneChoice(
        shuffle_by=loader.shuffle_by, fraction=loader.fraction, subset_seed=loader.subset_seed, weights=weights
    )


def open_choice(loader: LoaderParams, cfg: Config, data_manager: LocalDataManager) -> SceneChoice:
    """Return the choice of scenes of the logs of a loader; scenes are tagged if it gives weights to tags.

    Tags are cached in the user's cache folder, by log, map and version of the tags. One process computes them while
    others wait.

    Args:
        loader: Logs, scenes and weights.
        cfg: Names the map, which is only read if a weighted tag needs it.
        data_manager: Data manager of log and map.

    Raises:
        ConfigError: There is no such tag, no scene has a weight above 0, or the configuration names no map.
        FileNotFoundError: There is no such log or map.
    """
    weights = loader.scenario_weights
    if weights is None:
        return choice_of(loader)
    check_tags(weights)
    # refuse weights that are all 0 before reading any log
    folders = folders_of(loader, data_manager)
    where = f"{loader.key} in {', '.join(folders)}" if folders else loader.key
    _require_any(np.array([weights.get(OTHERS, 1.0), *weights.values()]), weights, f"scene of {where}")
    managers = data_managers_of(loader, data_manager)
    of_scenes = np.concatenate([_weights_of_log(loader, weights, cfg, manager) for manager in managers])
    _require_any(of_scenes, weights, f"scene of {where}")
    if loader.fraction < 1:
        chosen = choose_scenes(len(of_scenes), loader.fraction, seed=loader.subset_seed)
        part = f"train_data_loader.fraction {loader.fraction} and subset_seed {loader.subset_seed} take"
        _require_any(of_scenes[chosen], weights, f"one of the {len(chosen)} scenes that {part}")
    return choice_of(loader, weights=of_scenes)


def _require_any(of_scenes: Float64Array, weights: Mapping[str, float], scenes: str) -> None:
    """Refuse weights of scenes (S,) that are all 0."""
    if not (of_scenes > 0).any():
        raise ConfigError(
            f"{_KEY}: {dict(weights)} leave no {scenes} a weight above 0; give {OTHERS} or another tag one"
        )


def _weights_of_log(
    loader: LoaderParams, weights: Mapping[str, float], cfg: Config, data_manager: LocalDataManager
) -> Float64Array:
    """Return the weights of the scenes of one log, (S,)."""
    log = ChunkedDataset(data_manager.require(loader.key)).open(cached="mmap")
    num_scenes = min(loader.max_scene_id or len(log.scenes), len(log.scenes))
    needs_map = any(kind.needs_map and kind.name in weights for kind in TAG_KINDS)
    maps = maps_of_cfg(data_manager, cfg) if needs_map else None
    map_files = None
    if needs_map:
        # key of the cache: content and position of the map
        of_map = MapKeys.from_cfg(cfg)
        statuses = [os.stat(data_manager.require(key)) for key in (of_map.semantic_map_key, of_map.dataset_meta_key)]
        map_files = [(status.st_size, status.st_mtime_ns) for status in statuses]
    return weights_of_scenes(_kept_tags(log, num_scenes, maps, map_files), weights)


def weights_of_scenes(has_tag: BoolArray, weights: Mapping[str, float]) -> Float64Array:
    """Return the weight of each scene: the largest of those of its tags, or that of the other scenes, 1 by default.

    Args:
        has_tag: Tags of :data:`~l5kit.evaluation.scene_tags.TAG_KINDS` of each scene, (S, T).
        weights: By names of tags, at least 0.
    """
    largest = np.full(len(has_tag), -1.0)
    for name, weight in weights.items():
        if name != OTHERS:
            largest = np.where(has_tag[:, _NAMES.index(name)], np.maximum(largest, weight), largest)
    return np.where(largest < 0, float(weights.get(OTHERS, 1.0)), largest)


def _kept_tags(log: ChunkedDataset, num_scenes: int, maps: SceneMaps | None, map_files: object) -> BoolArray:
    """Return the tags of the first scenes, (S, T), from the cache if possible."""
    fingerprint = log.fingerprint()
    if fingerprint is None:
        return _find_tags(log, num_scenes, maps)
    parts = (_VERSION, _NAMES, fingerprint, num_scenes, map_files, TagThresholds())
    file = cache_folder() / "scene_tags" / f"{sha256(repr(parts).encode()).hexdigest()}.npy"
    shape = (num_scenes, len(_NAMES))
    kept = kept_npy(file, dtype="|b1", shape=shape)
    if kept is not None:
        return kept
    # one process computes the tags; those that waited for it find the file
    with hold_lock(file.with_suffix(".lock")) as problem:
        kept = None if problem else kept_npy(file, dtype="|b1", shape=shape)
        if kept is not None:
            return kept
        fate = f"cannot be kept in {file.parent} ({problem})" if problem else f"is kept in {file.parent}"
        warn_caller(
            f"computing the tags of {num_scenes} scenes of {log.path!r}, which takes a while; the result {fate}"
        )
        has_tag = _find_tags(log, num_scenes, maps)
        if not problem:
            try:
                keep_npy(file, has_tag)
            except OSError as error:  # without disk space nothing is cached
                warn_caller(f"the tags of scenes cannot be kept in {file}: {error}")
    return has_tag


def _find_tags(log: ChunkedDataset, num_scenes: int, maps: SceneMaps | None) -> BoolArray:
    """Return the tags of the first scenes, (S, T)."""
    has_tag: BoolArray = tag_scenes(log, maps, scenes=range(num_scenes), workers=os.cpu_count() or 1).counts > 0
    return has_tag

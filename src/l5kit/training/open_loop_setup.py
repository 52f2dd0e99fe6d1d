"""What an open-loop evaluation needs: the trained network, and the samples that it predicts."""

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from l5kit.configs.known_keys import check_known_keys
from l5kit.configs.training import LoaderParams, TrainingParams
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.agent import AgentDataset
from l5kit.dataset.base import BaseEgoDataset
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.rasterization.rasterizer_builder import build_rasterizer
from l5kit.training.chopped_set import ChoppedSet, is_chopped_set
from l5kit.training.trained_network import load_network, weights_of
from l5kit.training.workflows import open_samples

__all__ = ["DEVICES", "ERRORS", "OpenLoopOptions", "OpenLoopSetup", "set_up"]

DEVICES: Final = ("auto", "cpu", "cuda")
"""What networks can be evaluated on; ``auto`` is CUDA where it is there."""

ERRORS: Final = ("fde", "ade")
"""What the worst cases can be chosen by."""

_AGENT_WORKFLOWS: Final = ("agent_motion", "agent_motion_multimodal", "simnet")
"""Those that predict any agent from a sample of its own, as test sets need it."""

_OF_TRAININGS: Final = ("max_num_batches", "num_workers", "shuffle")
"""Keys of ``val_data_loader`` that are for evaluations during a training."""


@dataclass(frozen=True)
class OpenLoopOptions:
    """How a network is evaluated.

    Attributes:
        key: Path of the log relative to the data folder, or a folder of ``l5kit chop`` there or anywhere; None for
            ``val_data_loader.key`` of the configuration.
        horizons_s: Times ahead of the scores in seconds; empty for every whole second and the end.
        max_samples: Samples that are taken, evenly spread over the log; None for all.
        batch_size: Samples of a batch; None for that of the configuration.
        threads: Threads that make batches; None for those of the configuration.
        device: One of :data:`DEVICES`.
        num_worst: Pictures of the worst cases.
        worst_by: Which error makes them the worst, one of :data:`ERRORS`.
        overwrite: Whether the files of an evaluation that is there are replaced.
        allow_pickle: Also read checkpoints that are whole pickled modules, which can run any code that is in them.
        show_bar: Whether a bar is shown, if standard error is a terminal.

    Raises:
        InvalidArgumentError: A value is out of its range.
    """

    key: str | None = None
    horizons_s: tuple[float, ...] = ()
    max_samples: int | None = None
    batch_size: int | None = None
    threads: int | None = None
    device: str = "auto"
    num_worst: int = 6
    worst_by: str = "fde"
    overwrite: bool = False
    allow_pickle: bool = False
    show_bar: bool = True

    def __post_init__(self) -> None:
        for name, least in (("max_samples", 1), ("batch_size", 1), ("threads", 0), ("num_worst", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidArgumentError(f"{name} must be at least {least}, got {value}")
        if not all(0 < horizon_s < math.inf for horizon_s in self.horizons_s):
            raise InvalidArgumentError(f"horizons_s must be seconds above 0, got {self.horizons_s}")
        for name, allowed in (("device", DEVICES), ("worst_by", ERRORS)):
            if getattr(self, name) not in allowed:
                raise InvalidArgumentError(f"{name} is {getattr(self, name)!r}; allowed are {', '.join(allowed)}")


@dataclass(frozen=True)
class OpenLoopSetup:
    """A network, and the samples that it is to predict.

    Attributes:
        checkpoint: File that its weights are from.
        cfg: The configuration, with the log that is evaluated as ``val_data_loader``.
        params: The same, checked.
        loader: How samples are loaded.
        data_manager: Finds the map.
        log: Where the samples are from.
        samples: As the network takes them, never perturbed.
        chopped_set: The test set that the log is of, or None.
        model: The network in eval mode, on its device.
        device: The device.
    """

    checkpoint: Path
    cfg: dict[str, Any] = field(repr=False)
    params: TrainingParams = field(repr=False)
    loader: LoaderParams = field(repr=False)
    data_manager: LocalDataManager
    log: Path
    samples: BaseEgoDataset
    chopped_set: ChoppedSet | None
    model: nn.Module = field(repr=False)
    device: torch.device


def set_up(
    checkpoint: str | os.PathLike[str],
    cfg: Mapping[str, Any],
    *,
    data_folder: str | os.PathLike[str] | None,
    options: OpenLoopOptions,
) -> OpenLoopSetup:
    """Return the network and the samples; nothing is predicted yet.

    Args:
        checkpoint: A file of weights, or the folder of a training.
        cfg: The configuration of the training.
        data_folder: Folder that keys are relative to; None for the environment's ``L5KIT_DATA_FOLDER``.
        options: How it is evaluated.

    Raises:
        ConfigError: A key is unknown, missing, of the wrong type or out of range.
        FileNotFoundError: The checkpoint, the log or the map is missing.
        InvalidArgumentError: The network cannot predict the test set, or there is no CUDA.
        CheckpointError: The file is no checkpoint or broken, or needs ``allow_pickle``.
        CheckpointMismatchError: The weights are those of another network; the message lists what does not fit.
    """
    file = weights_of(checkpoint)
    device = _device_of(options.device)
    data_manager = LocalDataManager(data_folder)
    own_cfg = _with_evaluation(cfg, options)
    params, loader = TrainingParams.from_cfg(own_cfg), LoaderParams.from_cfg(own_cfg, "val_data_loader")
    log = _find_log(data_manager, loader.key)
    chopped_set = ChoppedSet.read(log) if is_chopped_set(log) else None
    if chopped_set is None:
        samples = open_samples(own_cfg, params, loader, data_manager, perturbed=False)
    else:
        _require_fit(params, own_cfg, chopped_set)
        samples = _test_agents(own_cfg, chopped_set, data_manager)
    if len(samples) == 0:
        raise InvalidArgumentError(f"{log} has no samples for {params.workflow}: no frames, or no agents that qualify")
    return OpenLoopSetup(
        checkpoint=file,
        cfg=own_cfg,
        params=params,
        loader=loader,
        data_manager=data_manager,
        log=chopped_set.log if chopped_set else log,
        samples=samples,
        chopped_set=chopped_set,
        model=load_network(file, own_cfg, params, samples, allow_pickle=options.allow_pickle).to(device),
        device=device,
    )


def _device_of(name: str) -> torch.device:
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise InvalidArgumentError("device is 'cuda', and torch finds none here; take 'auto' or 'cpu'")
    return torch.device("cuda" if has_cuda and name != "cpu" else "cpu")


def _with_evaluation(cfg: Mapping[str, Any], options: OpenLoopOptions) -> dict[str, Any]:
    """Return a configuration whose ``val_data_loader`` is what is evaluated."""
    check_known_keys(cfg)
    given = cfg.get("val_data_loader", {})
    key = options.key or given.get("key")
    if key is None:
        raise ConfigError("val_data_loader.key: the configuration names no log to evaluate on; name one with --key")
    loader = {"batch_size": cfg.get("train_data_loader", {}).get("batch_size", 1), **given, "key": key}
    left_out = _OF_TRAININGS if key == given.get("key") else (*_OF_TRAININGS, "max_scene_id")
    loader = {name: value for name, value in loader.items() if name not in left_out}
    for name, value in (("batch_size", options.batch_size), ("threads", options.threads)):
        if value is not None:
            loader[name] = value
    return {**cfg, "val_data_loader": loader}


def _find_log(data_manager: LocalDataManager, key: str) -> Path:
    """Return the path of a log, or of the folder of a test set."""
    if is_chopped_set(data_manager.root_folder):
        raise InvalidArgumentError(
            f"the data folder {data_manager.root_folder} is a test set, which has no map; name the folder of the data "
            "it was made of, and the test set as the key of the log (--data CITY --key TEST-SET)"
        )
    elsewhere = Path(key)
    if not (data_manager.root_folder / key).exists() and is_chopped_set(elsewhere):
        return elsewhere
    return Path(data_manager.require(key))


def _require_fit(params: TrainingParams, cfg: Mapping[str, Any], chopped_set: ChoppedSet) -> None:
    """Refuse a test set that the network cannot predict."""
    if params.workflow not in _AGENT_WORKFLOWS:
        raise InvalidArgumentError(
            f"{chopped_set.folder} is a test set of agents, which a network of {params.workflow} does not predict one "
            f"by one; those of {', '.join(_AGENT_WORKFLOWS)} do. Evaluate it on a log"
        )
    if params.future_num_frames != chopped_set.num_steps or params.step_time_s != cfg["model_params"]["step_time"]:
        raise InvalidArgumentError(
            f"the network predicts {params.future_num_frames} steps of {params.step_time_s:g} s, {chopped_set.folder} "
            f"has the truth of {chopped_set.num_steps} frames; make a test set with l5kit chop --future "
            f"{params.future_num_frames}, for a network that predicts every frame"
        )


def _test_agents(cfg: dict[str, Any], chopped_set: ChoppedSet, data_manager: LocalDataManager) -> AgentDataset:
    rasterizer = build_rasterizer(cfg, data_manager)
    log = ChunkedDataset(str(chopped_set.log)).open(cached="mmap")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning)  # that a mask is used, which is what a test set is
        return AgentDataset(cfg, log, rasterizer, agents_mask=chopped_set.mask, strict_mask=True)

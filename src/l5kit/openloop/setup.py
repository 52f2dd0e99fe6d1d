"""Setup of an open-loop evaluation: its options, the trained network, and the samples to predict."""

import math
import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import torch
from torch import nn

from l5kit._types import Config, JsonObject
from l5kit.configs.known_keys import check_known_keys
from l5kit.configs.parameters import SamplingParams
from l5kit.configs.runs import LoaderParams
from l5kit.configs.texts import did_you_mean
from l5kit.data.jobs.data_record import DataRecord
from l5kit.data.jobs.scene_jobs import KeptWorkers
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.progress import show_progress
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.base import BaseEgoDataset
from l5kit.errors import ConfigError, EngineError, InvalidArgumentError
from l5kit.evaluation.selection_parity import find_evaluated_log, is_chopped_set
from l5kit.openloop.chopped_set import ChoppedSet
from l5kit.planning.weights_file import network_of
from l5kit.workflows.samples import rasters_of_test_agents
from l5kit.workflows.trained_network import load_network
from l5kit.workflows.workflow import TrainingConfig, open_log_samples

DEVICES: Final = ("auto", "cpu", "cuda")
"""Devices of an evaluation; ``auto`` is CUDA where available."""

ERRORS: Final = ("fde", "ade")
"""Errors that can rank the worst cases."""


@dataclass(frozen=True)
class OpenLoopOptions:
    """The options of an evaluation.

    Attributes:
        key: Path of the log relative to the data folder, or a folder of ``l5kit chop`` there or anywhere; None for
            ``val_data_loader.key`` of the configuration.
        horizons_s: Times ahead of the scores in seconds; empty for every whole second and the end.
        max_samples: Number of samples, evenly spread over the log; None for all.
        batch_size: Samples per batch; None for that of the configuration.
        threads: Threads that load batches; None for those of the configuration.
        workers: An executor of processes or of a cluster that loads and predicts batches, each worker with its own copy
            of the network, optionally with a folder for the parts; 1 to predict in this process.
        device: One of :data:`DEVICES`.
        num_worst: Number of pictures of the worst cases.
        worst_by: Error that ranks the worst cases, one of :data:`ERRORS`.
        overwrite: Whether to replace an existing evaluation in the folder.
        allow_pickle: Also read checkpoints that are whole pickled modules, which can execute arbitrary code.
        show_bar: Whether to show a progress bar, if standard error is a terminal.

    Raises:
        InvalidArgumentError: A value is out of its range.
    """

    key: str | None = None
    horizons_s: tuple[float, ...] = ()
    max_samples: int | None = None
    batch_size: int | None = None
    threads: int | None = None
    workers: Executor | KeptWorkers | Literal[1] = 1
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
        if self.workers != 1 and not isinstance(self.workers, Executor | KeptWorkers):
            raise InvalidArgumentError(
                f"workers must be an executor of concurrent.futures or 1, got {self.workers!r}; threads are for threads"
            )
        for name, allowed in (("device", DEVICES), ("worst_by", ERRORS)):
            if getattr(self, name) not in allowed:
                raise InvalidArgumentError(
                    f"{name} is {getattr(self, name)!r}{did_you_mean(getattr(self, name), allowed)}; "
                    f"allowed are {', '.join(allowed)}"
                )


_AGENT_WORKFLOWS: Final = ("agent_motion", "agent_motion_multimodal", "simnet")
"""Workflows that predict any agent from its own sample, as test sets require."""

_OF_TRAININGS: Final = ("folders", "max_num_batches", "num_workers", "on_device", "shuffle")
"""Keys of ``val_data_loader`` that only concern validation during a training."""


@dataclass(frozen=True)
class OpenLoopSetup:
    """A network and the samples to predict.

    Attributes:
        checkpoint: File of the weights.
        config: The configuration, with the evaluated log as ``val_data_loader``.
        loader: Options of the loader.
        data_manager: Locates the map.
        log: Log of the samples.
        data: Record of the log, or of the folder of the test set.
        samples: Dataset in the format of the network, never perturbed.
        chopped_set: The test set of the log, or None.
        model: The network in eval mode, on its device.
        device: The device.
        request: Arguments from which a pickled setup is rebuilt.
    """

    checkpoint: Path
    config: TrainingConfig = field(repr=False)
    loader: LoaderParams = field(repr=False)
    data_manager: LocalDataManager
    log: Path
    data: DataRecord
    samples: BaseEgoDataset
    chopped_set: ChoppedSet | None
    model: nn.Module = field(repr=False)
    device: torch.device
    request: "Request"

    def __reduce__(self) -> tuple[Callable[..., "OpenLoopSetup"], tuple[object, ...]]:
        """Pickle only the request; another process reads network and samples from their files."""
        return _set_up_elsewhere, (self.request, self.data, len(self.samples), torch.get_num_threads())


@dataclass(frozen=True)
class Request:
    """The arguments of :func:`set_up`, with absolute paths.

    Attributes:
        checkpoint: A file of weights.
        cfg: The configuration of the training.
        data_folder: Folder that keys are relative to.
        options: Options of the evaluation.
    """

    checkpoint: Path
    cfg: Config = field(repr=False)
    data_folder: Path
    options: OpenLoopOptions


def _set_up_elsewhere(request: Request, data: DataRecord, num_samples: int, num_threads: int) -> OpenLoopSetup:
    """Rebuild a pickled setup, with the same number of torch threads, because the last digits depend on it.

    Raises:
        EngineError: The number of samples differs in this process.
    """
    torch.set_num_threads(num_threads)
    setup = set_up(request.checkpoint, request.cfg, data_folder=request.data_folder, options=request.options, data=data)
    if len(setup.samples) != num_samples:
        raise EngineError(
            f"{setup.log} has {len(setup.samples)} samples for a worker, and {num_samples} for the one that asks; all "
            "machines must see the same files under the same paths"
        )
    return setup


def set_up(
    checkpoint: str | os.PathLike[str],
    cfg: Config,
    *,
    data_folder: str | os.PathLike[str] | None,
    options: OpenLoopOptions,
    data: DataRecord | None = None,
) -> OpenLoopSetup:
    """Return the network and the samples, without predicting.

    Args:
        checkpoint: A file of weights, or the folder of a training.
        cfg: The configuration of the training.
        data_folder: Folder that keys are relative to; None for the environment's ``L5KIT_DATA_FOLDER``.
        options: Options of the evaluation.
        data: Record of the log if known; None to compute it.

    Raises:
        ConfigError: A key is unknown, missing, of the wrong type or out of range.
        FileNotFoundError: The checkpoint, the log or the map is missing.
        InvalidArgumentError: The network cannot predict the test set, or there is no CUDA.
        CheckpointError: The file is no checkpoint or broken, or needs ``allow_pickle``.
        CheckpointMismatchError: The weights are those of another network; the message lists the differences.
    """
    file = network_of(checkpoint)
    has_cuda = torch.cuda.is_available()
    if options.device == "cuda" and not has_cuda:
        raise InvalidArgumentError("device is 'cuda', but torch finds no CUDA device; use 'auto' or 'cpu'")
    device = torch.device("cuda" if has_cuda and options.device != "cpu" else "cpu")
    data_manager = LocalDataManager(data_folder)
    config = TrainingConfig.from_cfg(_with_evaluation(cfg, options))
    loader = LoaderParams.from_cfg(config.mapping, "val_data_loader")
    log = find_evaluated_log(data_manager, loader.key)
    chopped_set = ChoppedSet.read(log) if is_chopped_set(log) else None
    if chopped_set is None:
        samples = open_log_samples(config, loader, data_manager, perturbed=False)
    else:
        _require_fit(config, chopped_set)
        samples = rasters_of_test_agents(config.mapping, chopped_set.log, chopped_set.mask, data_manager)
    if len(samples) == 0:
        raise InvalidArgumentError(
            f"{log} has no samples for {config.params.workflow}: no frames, or no agents that qualify"
        )
    model = load_network(file, config, samples, allow_pickle=options.allow_pickle, has_loss=False).to(device)
    if data is None:
        with show_progress("Reading", visible=options.show_bar) as progress:
            num_scenes = len(ChunkedDataset(chopped_set.log if chopped_set else log).open().scenes)
            data = DataRecord.of(log, num_scenes=num_scenes, progress=progress)

    # Workers rebuild the setup from absolute paths, as their working directory may differ, and show no bar.
    root = data_manager.root_folder
    request = Request(file.absolute(), cfg, root.absolute(), replace(options, workers=1, show_bar=False))
    return OpenLoopSetup(
        checkpoint=file,
        config=config,
        loader=loader,
        data_manager=data_manager,
        log=chopped_set.log if chopped_set else log,
        data=data,
        samples=samples,
        chopped_set=chopped_set,
        model=model,
        device=device,
        request=request,
    )


def _with_evaluation(cfg: Config, options: OpenLoopOptions) -> JsonObject:
    """Return a configuration whose ``val_data_loader`` is the evaluated log."""
    check_known_keys(cfg)
    given = cfg.get("val_data_loader", {})
    key = options.key or given.get("key")
    if key is None:
        raise ConfigError("val_data_loader.key: the configuration names no log to evaluate on; name one with --key")
    loader = {"batch_size": cfg.get("train_data_loader", {}).get("batch_size", 1), **given, "key": key}
    # If the log is not that of the configuration, use all of its scenes.
    left_out = _OF_TRAININGS if key == given.get("key") else (*_OF_TRAININGS, "max_scene_id")
    loader = {name: value for name, value in loader.items() if name not in left_out}
    for name, value in (("batch_size", options.batch_size), ("threads", options.threads)):
        if value is not None:
            loader[name] = value
    return {**cfg, "val_data_loader": loader}


def _require_fit(config: TrainingConfig, chopped_set: ChoppedSet) -> None:
    """Refuse a test set that the network cannot predict."""
    params = config.params
    if params.workflow not in _AGENT_WORKFLOWS:
        raise InvalidArgumentError(
            f"{chopped_set.folder} is a test set of agents, which networks of {params.workflow} do not predict one "
            f"by one; those of {', '.join(_AGENT_WORKFLOWS)} do. Evaluate this network on a log"
        )
    step_size = SamplingParams.from_cfg(config.mapping).future_step_size
    if params.future_num_frames != chopped_set.num_steps or step_size != 1:
        raise InvalidArgumentError(
            f"the network predicts {params.future_num_frames} steps of {params.step_time_s:g} s, {chopped_set.folder} "
            f"has the truth of {chopped_set.num_steps} frames; make a test set with l5kit chop --future "
            f"{params.future_num_frames}, for a network that predicts every frame"
        )

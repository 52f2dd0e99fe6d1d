"""Checkpoints and networks as planners and traffic, on the map of the simulated log."""

import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from l5kit._types import Config
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.log_facts import LogFacts
from l5kit.errors import InvalidArgumentError
from l5kit.planning.weights_file import weights_of
from l5kit.simulation.engine.traffic_state import Driver

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class NetworkContext:
    """Inputs of a network in a simulation: log, map, configuration and device.

    Attributes:
        files: Log and map that it sees, in place of those of its training.
        facts: Facts of the log.
        cfg: Configuration of its training; None to read it from the checkpoint.
        device: ``auto`` for CUDA if available, or a torch device.
        allow_pickle: Also read whole pickled modules, which can run any code in the file.
    """

    files: DatasetFiles
    facts: LogFacts
    cfg: Config | None = field(default=None, repr=False)
    device: str = "auto"
    allow_pickle: bool = False


def open_checkpoint(
    checkpoint: str | os.PathLike[str], *, whom: Literal["ego", "agents"], context: NetworkContext
) -> tuple[Driver, str]:
    """Return a trained network as a driver, and the digest of its weights and configuration.

    Args:
        checkpoint: A file of weights, a training folder, or the name of a network that ships with l5kit.
        whom: Whether it drives the AVs or the agents.
        context: Log, map and device of the simulation.

    Raises:
        ConfigError: The configuration is missing or invalid.
        CheckpointError: The file is not a checkpoint, is broken, or needs ``allow_pickle``.
        CheckpointMismatchError: The weights do not fit the configuration; the message lists the mismatches.
        FileNotFoundError: The folder has no weights, or the map is missing.
        InvalidArgumentError: The network cannot drive ``whom``.
    """
    from l5kit.workflows.drivers import DriverCheckpoint
    from l5kit.workflows.samples import with_files_of
    from l5kit.workflows.trained_network import configuration_of

    file = weights_of(checkpoint)
    cfg = context.cfg or configuration_of(file, allow_pickle=context.allow_pickle)
    folder = context.files.dataset.parent
    of_training, here = (
        DriverCheckpoint(
            file,
            whom,
            cfg=dict(each),
            data_folder=folder,
            device=context.device,
            allow_pickle=context.allow_pickle,
        )
        for each in (cfg, with_files_of(cfg, context.files))
    )
    return here.load(context.facts), of_training.digest


def open_network(
    network: "nn.Module", *, whom: Literal["ego", "agents"], context: NetworkContext
) -> tuple[Driver, str]:
    """Return a torch network as a driver with the samples of a configuration, and the digest of both.

    The network is put into eval mode and moved to the device.

    Args:
        network: Takes a batch of samples and returns ``positions`` and ``yaws`` as networks of the workflow do. A
            result of :func:`l5kit.load_model` brings its own configuration.
        whom: Whether it drives the AVs or the agents.
        context: Log, map and device of the simulation, and the configuration that defines the samples.

    Raises:
        ConfigError: The configuration is invalid.
        InvalidArgumentError: There is no configuration, or networks of its workflow cannot drive ``whom``.
        FileNotFoundError: The map is missing.
    """
    from safetensors.torch import save

    from l5kit.workflows.drivers import network_driver, require_whom, samples_to_drive
    from l5kit.workflows.samples import with_files_of
    from l5kit.workflows.trained_model import TrainedModel
    from l5kit.workflows.trained_network import WITHOUT_TRAINING
    from l5kit.workflows.workflow import TrainingConfig

    name = type(network).__name__
    cfg = network.config.mapping if context.cfg is None and isinstance(network, TrainedModel) else context.cfg
    if cfg is None:
        argument = "planner_cfg" if whom == "ego" else "agents_cfg"
        raise InvalidArgumentError(
            f"{argument} is None, but the network {name} needs the configuration that defines its samples; pass the "
            "configuration of its training, such as load_training_config('vector_planner'), or --config vector_planner"
        )
    config = TrainingConfig.from_cfg({**WITHOUT_TRAINING, **with_files_of(cfg, context.files)})
    require_whom(config, whom, name=name)
    samples = samples_to_drive(config, LocalDataManager(context.files.dataset.parent), context.facts)
    driver = network_driver(network.eval(), config, samples, device=context.device)

    # digest of layers (names and sizes), weights and configuration, but not of the location of the map
    sha256 = hashlib.sha256(f"{type(network).__module__}.{network!r}".encode())
    sha256.update(save({name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}))
    sha256.update(json.dumps(dict(cfg), sort_keys=True, default=str).encode())
    return driver, sha256.hexdigest()

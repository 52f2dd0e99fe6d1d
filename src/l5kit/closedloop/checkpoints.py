"""Checkpoints and networks as planners and as traffic, on the map of the log that they drive."""

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
    """Where a network drives, and on what it runs.

    Attributes:
        files: Log and map that it sees, in place of those of its training.
        facts: Facts of the log.
        cfg: The configuration of its training; None for that in its file.
        device: ``auto``, for CUDA where it is there, or a device of torch.
        allow_pickle: Also read whole pickled modules, which can run any code that is in the file.
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
        checkpoint: A file of weights, the folder of a training, or the name of a network that ships with l5kit.
        whom: Whom it is to drive.
        context: Where it drives.

    Raises:
        ConfigError: There is no configuration, or something in it is wrong.
        CheckpointError: The file is no checkpoint or broken, or needs ``allow_pickle``.
        CheckpointMismatchError: The weights do not fit the configuration; the message lists what does not.
        FileNotFoundError: There are no weights in the folder, or the map is missing.
        InvalidArgumentError: The network drives others than those.
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
    """Return a network of torch as a driver with the samples of a configuration, and the digest of both.

    It is put into eval mode, and moved to the device.

    Args:
        network: Takes a batch of samples, and gives ``positions`` and ``yaws`` as networks of the workflow do. One that
            :func:`l5kit.load_model` returns has its configuration with it.
        whom: Whom it is to drive.
        context: Where it drives, with the configuration that says what its samples are.

    Raises:
        ConfigError: Something in the configuration is wrong.
        InvalidArgumentError: There is no configuration, or networks of its workflow drive others than those.
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
            f"{argument} is None, but {name} is a network, and nothing says which samples it takes; pass the "
            "configuration of its training, such as load_training_config('vector_planner'), or --config vector_planner"
        )
    config = TrainingConfig.from_cfg({**WITHOUT_TRAINING, **with_files_of(cfg, context.files)})
    require_whom(config, whom, name=name)
    samples = samples_to_drive(config, LocalDataManager(context.files.dataset.parent), context.facts)
    driver = network_driver(network.eval(), config, samples, device=context.device)

    # what it computes: its layers by their names and sizes, its weights, and what it sees, wherever the map lies
    sha256 = hashlib.sha256(f"{type(network).__module__}.{network!r}".encode())
    sha256.update(save({name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}))
    sha256.update(json.dumps(dict(cfg), sort_keys=True, default=str).encode())
    return driver, sha256.hexdigest()

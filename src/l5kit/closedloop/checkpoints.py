"""Checkpoints as planners and as traffic: trained networks, on the map of the log that they drive."""

import os
from dataclasses import dataclass, field
from typing import Literal

from l5kit._types import Config
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.log_facts import LogFacts
from l5kit.planning.weights_file import weights_of
from l5kit.simulation.engine.traffic_state import Driver

__all__ = ["NetworkPlace", "open_checkpoint"]


@dataclass(frozen=True)
class NetworkPlace:
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
    checkpoint: str | os.PathLike[str], *, whom: Literal["ego", "agents"], place: NetworkPlace
) -> tuple[Driver, str]:
    """Return a trained network as a driver, and the digest of its weights and configuration.

    Args:
        checkpoint: A file of weights, the folder of a training, or the name of a network that ships with l5kit.
        whom: Whom it is to drive.
        place: Where it drives.

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
    cfg = place.cfg or configuration_of(file, allow_pickle=place.allow_pickle)
    folder = place.files.dataset.parent
    of_training, here = (
        DriverCheckpoint(
            file,
            whom,
            cfg=dict(each),
            data_folder=folder,
            device=place.device,
            allow_pickle=place.allow_pickle,
        )
        for each in (cfg, with_files_of(cfg, place.files))
    )
    return here.load(place.facts), of_training.digest

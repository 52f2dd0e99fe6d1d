"""Drivers of checkpoints: trained networks that drive the AV or the agents of a simulation."""

import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from torch import nn

from l5kit._types import Config
from l5kit.configs.runs import LoaderParams
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.log_facts import LogFacts
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.base import BaseEgoDataset
from l5kit.errors import InvalidArgumentError
from l5kit.planning.network_inputs import find_device
from l5kit.planning.weights_file import weights_of
from l5kit.simulation.drivers.network import NetworkDriver
from l5kit.simulation.drivers.token_traffic import TokenTraffic
from l5kit.workflows.samples import SampleSource, ego_rasters
from l5kit.workflows.trained_network import WITHOUT_TRAINING, configuration_of, load_network
from l5kit.workflows.vector_recipes import MotionTokenRecipe
from l5kit.workflows.workflow import TrainingConfig

Whom = Literal["ego", "agents"]
"""Vehicles that a network drives."""

_OPTION_OF: Final[dict[Whom, str]] = {"ego": "--planner", "agents": "--agents"}
_NAME_OF: Final[dict[Whom, str]] = {"ego": "the AV", "agents": "agents"}

_WHOLE_SCENE: Final = {"other_agents_num": 200, "max_agents_distance": 250, "order_agents_by_distance": True}
_WHOLE_MAP: Final = {"max_num_lanes": 200, "max_num_crosswalks": 40, "max_retrieval_distance_m": 150}
"""Samples of token traffic: all driven agents, and the map around them."""


def load_driver(
    checkpoint: str | os.PathLike[str],
    *,
    whom: Whom,
    data_folder: str | os.PathLike[str] | None = None,
    cfg: Config | None = None,
    facts: LogFacts | None = None,
    device: str = "auto",
    max_batch: int = 128,
    allow_pickle: bool = False,
) -> NetworkDriver | TokenTraffic:
    """Return a trained network as a driver.

    Arguments and errors are those of :class:`DriverCheckpoint` and its :meth:`~DriverCheckpoint.load`.
    """
    described = DriverCheckpoint(
        weights_of(checkpoint), whom, data_folder, cfg, device=device, max_batch=max_batch, allow_pickle=allow_pickle
    )
    return described.load(facts)


@dataclass(frozen=True)
class DriverCheckpoint:
    """A trained network as a driver: small enough to send to other processes, where :meth:`load` makes the driver.

    Planners (``raster_planner``, ``vector_planner``, ``urban_driver``, ``safepathnet``, ``query_centric``,
    ``route_planner``) drive the AV; ``simnet``, ``agent_motion`` and ``agent_motion_multimodal`` drive agents, the
    latter two with headings along their paths. ``motion_tokens`` drives either: the AV by its likeliest path, agents by
    jointly sampled tokens.

    Attributes:
        checkpoint: A file of weights that :func:`l5kit.planning.checkpoint.load_checkpoint` reads, the folder of a
            training, for its final weights, or the name of a network that ships with l5kit, such as ``route_planner``.
        whom: Whether it drives the AV or the agents.
        data_folder: Folder that the keys of the map are relative to; None for the environment's ``L5KIT_DATA_FOLDER``.
        cfg: The configuration of the training, with ``workflow``; None for that in the file, or in ``config.yaml`` next
            to it.
        device: ``auto`` for CUDA if available, or a torch device.
        max_batch: Batch size; see :class:`NetworkDriver`. Token traffic uses one scene per batch, so that a scene is
            driven the same way in any batch.
        allow_pickle: Also read whole pickled modules, which can run any code in the file.

    Raises:
        ConfigError: There is no configuration, or a key is unknown, missing, of the wrong type or out of range.
        FileNotFoundError: There is no such checkpoint.
        CheckpointError: The file is not a checkpoint, is broken, or needs ``allow_pickle``.
        InvalidArgumentError: The network cannot drive ``whom``, or there is no such device.
    """

    checkpoint: str | os.PathLike[str]
    whom: Whom
    data_folder: str | os.PathLike[str] | None = None
    cfg: Config | None = field(default=None, repr=False)
    device: str = "auto"
    max_batch: int = 128
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        if self.whom not in _OPTION_OF:
            raise InvalidArgumentError(f"whom is {self.whom!r}; it must be 'ego' or 'agents'")
        if not self._is_token_traffic:
            require_whom(self.config, self.whom, name=str(self.file))
        find_device(self.device)

    @property
    def file(self) -> Path:
        """The file of the weights."""
        return weights_of(self.checkpoint)

    @property
    def digest(self) -> str:
        """SHA-256 of the weights and the configuration."""
        with self.file.open("rb") as weights:
            sha256 = hashlib.file_digest(weights, "sha256")
        sha256.update(json.dumps(self.config.mapping, sort_keys=True, default=str).encode())
        return sha256.hexdigest()

    @cached_property
    def config(self) -> TrainingConfig:
        """The checked configuration; missing training sections, as in simulations of 1.x, are added."""
        given = configuration_of(self.file, allow_pickle=self.allow_pickle) if self.cfg is None else self.cfg
        return TrainingConfig.from_cfg({**WITHOUT_TRAINING, **given})

    def load(self, facts: LogFacts | None = None) -> NetworkDriver | TokenTraffic:
        """Return the driver.

        Args:
            facts: Facts of the simulated log; default those of L5Kit 1.5.

        Raises:
            FileNotFoundError: The map is missing.
            CheckpointError: The file is not a checkpoint, is broken, or needs ``allow_pickle``.
            CheckpointMismatchError: The weights are those of another network; the message lists the mismatches.
            UnsupportedValueError: The configuration does not support batches of samples.
        """
        samples = samples_to_drive(
            self.config, LocalDataManager(self.data_folder), facts, has_whole_scenes=self._is_token_traffic
        )
        network = load_network(self.file, self.config, samples, allow_pickle=self.allow_pickle, has_loss=False)
        if not self._is_token_traffic:
            return network_driver(network, self.config, samples, device=self.device, max_batch=self.max_batch)
        recipe = self.config.network
        assert isinstance(recipe, MotionTokenRecipe)
        return TokenTraffic(
            network,
            samples,
            num_steps=recipe.times.num_steps,
            step_time_s=self.config.params.step_time_s,
            device=find_device(self.device),
            reach_m=recipe.sizes.max_agents_distance_m,
        )

    @property
    def _is_token_traffic(self) -> bool:
        return self.whom == "agents" and isinstance(self.config.network, MotionTokenRecipe)


def require_whom(config: TrainingConfig, whom: Whom, *, name: str) -> None:
    """Refuse a network of a workflow that cannot drive the requested vehicles.

    Raises:
        InvalidArgumentError: It cannot; the message says how to pass it instead.
    """
    drives: Whom = "agents" if config.params.is_of_agents else "ego"
    if drives != whom:
        raise InvalidArgumentError(
            f"{name} is a network of {config.params.workflow}, which drives {_NAME_OF[drives]}, not {_NAME_OF[whom]}; "
            f"pass it with {_OPTION_OF[drives]} (in Python: whom={drives!r})"
        )


def network_driver(
    network: nn.Module, config: TrainingConfig, samples: BaseEgoDataset, *, device: str = "auto", max_batch: int = 128
) -> NetworkDriver:
    """Return a network as a driver.

    Args:
        network: Takes a batch of the samples, and returns the outputs of networks of the workflow.
        config: The configuration of its training.
        samples: Dataset that makes them; see :func:`samples_to_drive`.
        device: ``auto`` for CUDA if available, or a torch device.
        max_batch: Batch size; see :class:`NetworkDriver`.

    Raises:
        InvalidArgumentError: There is no such device.
        UnsupportedValueError: The configuration does not support batches of samples.
    """
    return NetworkDriver(
        network,
        samples,
        device=find_device(device),
        headings="path" if config.params.workflow.startswith("agent_motion") else "network",
        max_batch=max_batch,
    )


def samples_to_drive(
    config: TrainingConfig,
    data_manager: LocalDataManager,
    facts: LogFacts | None = None,
    *,
    has_whole_scenes: bool = False,
) -> BaseEgoDataset:
    """Return the dataset that makes the samples of a network while driving: of an empty log, without the future.

    Args:
        config: The configuration of its training.
        data_manager: Data manager of the map.
        facts: Facts of the simulated log; default those of L5Kit 1.5.
        has_whole_scenes: Whether samples contain all agents near the AV, for token traffic.
    """
    # there is no future while driving
    mapping = {**config.mapping, "model_params": {**config.mapping["model_params"], "future_num_frames": 0}}
    if has_whole_scenes:
        given = mapping["data_generation_params"]
        lanes = {**given["lane_params"], **_WHOLE_MAP}
        mapping["data_generation_params"] = {**given, **_WHOLE_SCENE, "lane_params": lanes}
    source = SampleSource(
        mapping,
        ChunkedDataset.in_memory(facts=facts),
        LoaderParams.from_cfg(config.mapping, "train_data_loader"),
        data_manager,
    )
    return ego_rasters(source) if config.params.is_of_agents else config.workflow.make_samples(source)

"""Workflows: the typed configuration of a training, and its samples and network."""

import copy
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self

import numpy as np
from torch import nn

from l5kit._types import Config, JsonObject
from l5kit.configs.runs import LoaderParams
from l5kit.configs.training import TrainingParams
from l5kit.data.display import html_table
from l5kit.data.loader_folders import folders_of
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.views import view_of_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.joined import JoinedDataset
from l5kit.kinematic.ackerman_perturbation import AckermanPerturbation
from l5kit.kinematic.perturbation import Perturbation
from l5kit.kinematic.recovery import RecoveryPerturbation
from l5kit.planning.kinematic_residual import KinematicResidual
from l5kit.planning.past_dropout import PastDropout
from l5kit.random.random_generator import GaussianRandomGenerator
from l5kit.rasterization.rasterizer_builder import count_channels
from l5kit.workflows.networks import (
    MotionRecipe,
    NetworkRecipe,
    RasterPlannerRecipe,
    RasterRecipe,
    SafePathNetRecipe,
    UrbanDriverRecipe,
    VectorPlannerRecipe,
)
from l5kit.workflows.own_models import OwnModelRecipe
from l5kit.workflows.samples import (
    SampleSource,
    agent_rasters,
    data_managers_of,
    ego_agent_vectors,
    ego_rasters,
    ego_vectors,
)
from l5kit.workflows.scenarios import check_tags
from l5kit.workflows.trajectories import TrajectoriesOf, agent_trajectories, ego_trajectories
from l5kit.workflows.vector_recipes import MotionTokenRecipe, QueryCentricRecipe, RoutePlannerRecipe

Samples = BaseEgoDataset | JoinedDataset
"""Samples of one or several logs."""


@dataclass(frozen=True)
class Workflow:
    """Definition of a workflow, a row of the table of workflows.

    Attributes:
        make_samples: Makes the dataset of a log.
        recipe: Class of the recipe of its network.
        trajectories_of: Selects the scored trajectories.
        takes_perturbation: Whether the samples are of the AV, which can be perturbed.
        schedule: Default schedule of the learning rate.
        has_idle_weights: Whether the network has weights that no loss depends on.
        is_unrolled: Whether the network predicts step by step.
        has_own_residual: Whether the network itself learns differences to a kinematic baseline.
    """

    make_samples: Callable[[SampleSource], BaseEgoDataset]
    recipe: type[NetworkRecipe]
    trajectories_of: TrajectoriesOf = ego_trajectories
    takes_perturbation: bool = False
    schedule: str = "constant"
    has_idle_weights: bool = False
    is_unrolled: bool = False
    has_own_residual: bool = False


_WORKFLOWS: Final[Mapping[str, Workflow]] = MappingProxyType(
    {
        "raster_planner": Workflow(ego_rasters, RasterPlannerRecipe, takes_perturbation=True),
        "simnet": Workflow(agent_rasters, RasterPlannerRecipe),
        "agent_motion": Workflow(agent_rasters, MotionRecipe),
        "agent_motion_multimodal": Workflow(agent_rasters, MotionRecipe),
        "vector_planner": Workflow(ego_vectors, VectorPlannerRecipe, takes_perturbation=True),
        "urban_driver": Workflow(ego_vectors, UrbanDriverRecipe, takes_perturbation=True, is_unrolled=True),
        "safepathnet": Workflow(
            ego_agent_vectors,
            SafePathNetRecipe,
            agent_trajectories,
            takes_perturbation=True,
            schedule="cosine",
            has_idle_weights=True,
        ),
        "motion_tokens": Workflow(
            ego_agent_vectors, MotionTokenRecipe, agent_trajectories, schedule="cosine", has_own_residual=True
        ),
        "query_centric": Workflow(
            ego_agent_vectors,
            QueryCentricRecipe,
            agent_trajectories,
            takes_perturbation=True,
            schedule="cosine",
            has_own_residual=True,
        ),
        "route_planner": Workflow(
            ego_vectors, RoutePlannerRecipe, takes_perturbation=True, schedule="cosine", has_own_residual=True
        ),
    }
)
"""All workflows, by the names of :data:`l5kit.configs.training.WORKFLOWS`."""


@dataclass(frozen=True)
class TrainingConfig:
    """Checked and typed configuration of a training, with the mapping that it was read from.

    Attributes:
        mapping: A copy of the given configuration. It is passed to datasets and rasterizers of L5Kit 1.x, stored in
            files, and compared when a training is resumed; everything else uses the other attributes.
        params: Parameters of the training.
        workflow: The workflow.
        network: Recipe of its network.
    """

    mapping: JsonObject = field(repr=False)
    params: TrainingParams
    workflow: Workflow = field(repr=False)
    network: NetworkRecipe = field(repr=False)

    @classmethod
    def from_cfg(cls, cfg: Config) -> Self:
        """Read and check a configuration.

        Raises:
            ConfigError: A key is missing, unknown, of the wrong type or out of range, or two keys exclude each other.
        """
        params = TrainingParams.from_cfg(cfg)
        check_tags(params.train_loader.scenario_weights or {})
        workflow = _WORKFLOWS[params.workflow]
        if params.own.model is not None:
            workflow = dataclasses.replace(workflow, recipe=OwnModelRecipe, has_idle_weights=True)
        return cls(copy.deepcopy(dict(cfg)), params, workflow, workflow.recipe.from_cfg(cfg, params))

    def _repr_html_(self) -> str:
        """Return a table of the given keys for notebooks."""
        keys = [(section, value) for section, value in self.mapping.items() if not isinstance(value, Mapping)]
        for section, values in self.mapping.items():
            if isinstance(values, Mapping):
                keys += [(f"{section}.{key}", value) for key, value in values.items()]
        return html_table(f"{type(self).__name__} of {self.params.workflow}", ("key", "value"), keys)

    def with_resolved_folders(self, data_manager: LocalDataManager) -> Self:
        """Return the configuration with the patterns of its loaders replaced by the matching folders.

        Files of a training then name the folders, and resuming it is refused if folders were added or removed.

        Raises:
            ConfigError: A pattern matches no folder.
        """
        params, mapping = self.params, dict(self.mapping)
        for section, loader in (("train_data_loader", params.train_loader), ("val_data_loader", params.val_loader)):
            if loader is not None and loader.folders is not None:
                mapping[section] = {**mapping[section], "folders": folders_of(loader, data_manager)}
        return type(self).from_cfg(mapping)

    def from_scratch(self) -> Self:
        """Return the configuration with a network that starts without pretrained weights."""
        return dataclasses.replace(self, network=self.network.from_scratch())

    def without_own_loss(self) -> Self:
        """Return the configuration without the loss and criterion of a user, which predictions do not need."""
        own = dataclasses.replace(self.params.own, loss_value=None)
        criterion = None if self.params.own_criterion else self.params.criterion
        params = dataclasses.replace(self.params, own=own, criterion=criterion)
        return dataclasses.replace(self, params=params, network=dataclasses.replace(self.network, params=params))


def open_samples(
    config: TrainingConfig, loader: LoaderParams, data_manager: LocalDataManager, *, perturbed: bool
) -> Samples:
    """Return the samples of a log, or of the logs of several folders, each with the map of its folder.

    Logs are read from decoded, memory-mapped files, which are created in the user's cache folder first.

    Args:
        config: The configuration.
        loader: Selection of logs, scenes and agents.
        data_manager: Data manager of logs and maps.
        perturbed: Whether configured perturbations are applied.

    Raises:
        FileNotFoundError: There is no such log or map.
        ConfigError: A key that datasets or rasterizers need is missing or of the wrong type.
    """
    managers = data_managers_of(loader, data_manager)
    logs = [open_log_samples(config, loader, manager, perturbed=perturbed) for manager in managers]
    return logs[0] if loader.folders is None else JoinedDataset(logs)


def open_log_samples(
    config: TrainingConfig, loader: LoaderParams, data_manager: LocalDataManager, *, perturbed: bool
) -> BaseEgoDataset:
    """Return the samples of the log ``loader.key`` of one data folder; see :func:`open_samples`."""
    log = ChunkedDataset(data_manager.require(loader.key)).open(cached="mmap")
    if loader.max_scene_id is not None:
        log = view_of_scenes(log, np.arange(min(loader.max_scene_id, len(log.scenes))))
    # seeded by the training, and only if configured; evaluations use the logged poses
    perturbation: Perturbation | None = None
    is_perturbed = perturbed and config.workflow.takes_perturbation and loader.perturb_probability > 0
    if is_perturbed and loader.perturb_kind == "recovery":
        perturbation = RecoveryPerturbation(
            loader.perturb_probability,
            std=loader.recovery_std,
            clip=loader.recovery_clip,
            seed=config.params.run.seed,
        )
    elif is_perturbed:
        offsets = GaussianRandomGenerator(np.zeros(3), np.array(loader.perturb_std), random_seed=config.params.run.seed)
        min_displacement_m = config.params.perturbation_min_displacement_m
        perturbation = AckermanPerturbation(offsets, loader.perturb_probability, min_displacement_m)
    return config.workflow.make_samples(SampleSource(config.mapping, log, loader, data_manager, perturbation))


def make_model(config: TrainingConfig, samples: Samples | None = None) -> nn.Module:
    """Return the network of a workflow, with weights drawn from torch's global generator.

    Args:
        config: The configuration.
        samples: Samples of the training or prediction; None for those of the configuration.

    Raises:
        ConfigError: A class that the configuration names cannot be imported or created.
        FileNotFoundError: ``model_params.pretrained`` is true, and there are no ImageNet weights.
    """
    params, workflow = config.params, config.workflow
    samples = samples.parts[0] if isinstance(samples, JoinedDataset) else samples
    if samples is None and isinstance(config.network, RasterRecipe):
        network = config.network.build_for(count_channels(config.mapping))
    else:
        network = config.network.build(samples)
    if params.residual_to is not None and not (workflow.is_unrolled or workflow.has_own_residual):
        network = KinematicResidual(
            network,
            params.future_num_frames,
            baseline=params.residual_to,
            step_time_s=params.step_time_s,
            past_step_time_s=params.past_step_time_s,
            of_all_agents=workflow.trajectories_of is agent_trajectories,
            unit_m=params.residual_unit_m,
        )
    # wrap the residual, too, as its baseline depends on the hidden past
    if not params.past_dropout_or_usual or not config.network.sees_past:
        return network
    is_in_first_row = workflow.make_samples is ego_agent_vectors
    return PastDropout(network, params.past_dropout_or_usual, is_in_first_row=is_in_first_row)

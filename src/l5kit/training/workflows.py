"""What can be trained: the samples, the network and the trajectories of each workflow."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from l5kit.configs.parameters import VectorizerParams
from l5kit.configs.training import (
    BackboneParams,
    LoaderParams,
    SafePathNetParams,
    TrainingParams,
    UnrollParams,
    VectorModelParams,
)
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.scene_view import view_of_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.agent import AgentDataset
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.ego import EgoDataset
from l5kit.dataset.ego_vectorized import EgoAgentDatasetVectorized, EgoDatasetVectorized
from l5kit.kinematic.ackerman_perturbation import AckermanPerturbation
from l5kit.planning.rasterized.model import RasterizedPlanningModel
from l5kit.planning.vectorized.closed_loop_model import VectorizedUnrollModel
from l5kit.planning.vectorized.open_loop_model import VectorizedModel
from l5kit.planning.velocity_residual import VelocityResidual
from l5kit.prediction.rasterized.motion_model import RasterizedMotionModel
from l5kit.prediction.vectorized.safepathnet_model import SafePathNetModel
from l5kit.random.random_generator import GaussianRandomGenerator
from l5kit.rasterization.rasterizer_builder import build_rasterizer
from l5kit.training.scores import TrajectoriesOf, agent_trajectories, ego_trajectories
from l5kit.vectorization.vectorizer_builder import build_vectorizer

__all__ = ["Workflow", "make_model", "open_samples", "workflow_of"]


@dataclass(frozen=True)
class Workflow:
    """What makes one workflow differ from the others.

    Attributes:
        make_samples: Makes the dataset of a log.
        make_model: Makes the network for such a dataset.
        trajectories_of: Picks what is scored.
        takes_perturbation: Whether the samples are of the AV, which can be perturbed.
        schedule: Course of the learning rate, unless it is configured.
        has_idle_weights: Whether the network has weights that no loss depends on.
        is_unrolled: Whether the network predicts step by step.
    """

    make_samples: Callable[["LogSource", LoaderParams], BaseEgoDataset]
    make_model: Callable[[dict[str, Any], TrainingParams, BaseEgoDataset], nn.Module]
    trajectories_of: TrajectoriesOf = ego_trajectories
    takes_perturbation: bool = False
    schedule: str = "constant"
    has_idle_weights: bool = False
    is_unrolled: bool = False


@dataclass(frozen=True)
class LogSource:
    """A log that samples are made of.

    Attributes:
        cfg: The configuration.
        log: The opened log.
        data_manager: Finds the map.
        perturbation: Moves the AV, or None.
    """

    cfg: dict[str, Any]
    log: ChunkedDataset
    data_manager: LocalDataManager
    perturbation: AckermanPerturbation | None


def workflow_of(params: TrainingParams) -> Workflow:
    """Return the workflow that a configuration is for."""
    return {
        "raster_planner": Workflow(_ego_rasters, _raster_planner, takes_perturbation=True),
        "simnet": Workflow(_agent_rasters, _raster_planner),
        "agent_motion": Workflow(_agent_rasters, _motion_model),
        "agent_motion_multimodal": Workflow(_agent_rasters, _motion_model),
        "vector_planner": Workflow(_ego_vectors, _vector_planner, takes_perturbation=True),
        "urban_driver": Workflow(_ego_vectors, _urban_driver, takes_perturbation=True, is_unrolled=True),
        "safepathnet": Workflow(
            _ego_agent_vectors,
            _safepathnet,
            agent_trajectories,
            takes_perturbation=True,
            schedule="cosine",
            has_idle_weights=True,
        ),
    }[params.workflow]


def open_samples(
    cfg: dict[str, Any],
    params: TrainingParams,
    loader: LoaderParams,
    data_manager: LocalDataManager,
    *,
    perturbed: bool,
) -> BaseEgoDataset:
    """Return the samples of a log.

    The log is read from decoded files that are mapped into memory; they are made in the user's cache folder first.

    Args:
        cfg: The configuration.
        params: The same, checked.
        loader: Which log, scenes and agents.
        data_manager: Finds the log and the map.
        perturbed: Whether perturbations that are configured are made.

    Raises:
        FileNotFoundError: There is no such log or map.
        ConfigError: A key is missing or of the wrong type.
    """
    workflow = workflow_of(params)
    log = ChunkedDataset(data_manager.require(loader.key)).open(cached="mmap")
    if loader.max_scene_id is not None:
        log = view_of_scenes(log, np.arange(min(loader.max_scene_id, len(log.scenes))))
    perturbation = None
    if perturbed and workflow.takes_perturbation and loader.perturb_probability > 0:
        offsets = GaussianRandomGenerator(np.zeros(3), np.array(loader.perturb_std), random_seed=params.run.seed)
        perturbation = AckermanPerturbation(offsets, loader.perturb_probability, params.perturbation_min_displacement_m)
    return workflow.make_samples(LogSource(cfg, log, data_manager, perturbation), loader)


def make_model(cfg: dict[str, Any], params: TrainingParams, samples: BaseEgoDataset) -> nn.Module:
    """Return the network of a workflow, with weights drawn from torch's global generator.

    Raises:
        ConfigError: A key is missing or of the wrong type.
        FileNotFoundError: ``model_params.pretrained`` is true, and there are no ImageNet weights.
    """
    workflow = workflow_of(params)
    network = workflow.make_model(cfg, params, samples)
    if not params.velocity_residual or workflow.is_unrolled:
        return network
    return VelocityResidual(
        network,
        params.future_num_frames,
        step_time_s=params.step_time_s,
        past_step_time_s=params.past_step_time_s,
        of_all_agents=workflow.trajectories_of is agent_trajectories,
    )


def _ego_rasters(source: LogSource, _: LoaderParams) -> BaseEgoDataset:
    rasterizer = build_rasterizer(source.cfg, source.data_manager)
    return EgoDataset(source.cfg, source.log, rasterizer, source.perturbation)


def _agent_rasters(source: LogSource, loader: LoaderParams) -> BaseEgoDataset:
    rasterizer = build_rasterizer(source.cfg, source.data_manager)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "min_frame_.*the usual value")  # the configuration says what it wants
        return AgentDataset(
            source.cfg,
            source.log,
            rasterizer,
            min_frame_history=loader.min_frame_history,
            min_frame_future=loader.min_frame_future,
        )


def _ego_vectors(source: LogSource, _: LoaderParams) -> BaseEgoDataset:
    vectorizer = build_vectorizer(source.cfg, source.data_manager)
    return EgoDatasetVectorized(source.cfg, source.log, vectorizer, source.perturbation)


def _ego_agent_vectors(source: LogSource, _: LoaderParams) -> BaseEgoDataset:
    vectorizer = build_vectorizer(source.cfg, source.data_manager)
    return EgoAgentDatasetVectorized(source.cfg, source.log, vectorizer, source.perturbation)


def _raster_planner(cfg: dict[str, Any], params: TrainingParams, samples: BaseEgoDataset) -> nn.Module:
    backbone = BackboneParams.from_cfg(cfg)

    def build(pretrained: bool) -> nn.Module:
        return RasterizedPlanningModel(
            backbone.model_architecture,
            _num_channels(samples),
            3 * params.future_num_frames,
            list(backbone.weights_scaling),
            _criterion(params, "mse"),
            pretrained,
            weights_file=backbone.weights_file,
            average_available_only=backbone.average_available_only,
        )

    return _with_weights_if_any(build, backbone)


def _motion_model(cfg: dict[str, Any], params: TrainingParams, samples: BaseEgoDataset) -> nn.Module:
    backbone = BackboneParams.from_cfg(cfg)

    def build(pretrained: bool) -> nn.Module:
        return RasterizedMotionModel(
            backbone.model_architecture,
            _num_channels(samples),
            params.future_num_frames,
            num_modes=backbone.num_modes if params.workflow == "agent_motion_multimodal" else 1,
            pretrained=pretrained,
            weights_file=backbone.weights_file,
            criterion=None if params.criterion is None else _criterion(params, params.criterion),
        )

    return _with_weights_if_any(build, backbone)


def _with_weights_if_any(build: Callable[[bool], nn.Module], backbone: BackboneParams) -> nn.Module:
    """Return a model with ImageNet weights if the configuration wants them, or says nothing and their file is there."""
    if backbone.pretrained is not None or backbone.model_architecture == "simple_cnn":
        return build(bool(backbone.pretrained))
    try:
        return build(True)
    except FileNotFoundError as error:
        warnings.warn(
            f"the training starts from random weights: {error}. Set model_params.pretrained to tell what you want",
            UserWarning,
            stacklevel=2,
        )
        return build(False)


def _num_channels(samples: BaseEgoDataset) -> int:
    """Return the channels of the rasters of a dataset."""
    if not isinstance(samples, EgoDataset) or samples.rasterizer is None:
        raise TypeError(f"{samples!r} makes no rasters")
    return samples.rasterizer.num_channels()


def _criterion(params: TrainingParams, usual: str) -> nn.Module:
    """Return the error of a value in the loss; that of a workflow is that of L5Kit 1.5, unless it is configured."""
    criteria: dict[str, type[nn.Module]] = {"l1": nn.L1Loss, "mse": nn.MSELoss, "smooth_l1": nn.SmoothL1Loss}
    return criteria[params.criterion or usual](reduction="none")


def _vector_options(params: TrainingParams, sizes: VectorizerParams, model: VectorModelParams) -> dict[str, Any]:
    """Return the arguments that all vector models have in common."""
    return {
        "history_num_frames_ego": sizes.history_num_frames_ego,
        "history_num_frames_agents": sizes.history_num_frames_agents,
        "weights_scaling": list(model.weights_scaling),
        "criterion": _criterion(params, "l1"),
        "disable_other_agents": model.disable_other_agents,
        "disable_map": model.disable_map,
        "disable_lane_boundaries": model.disable_lane_boundaries,
        "use_agent_labels": model.use_agent_labels,
        "agents_in_own_frame": model.agents_in_own_frame,
    }


def _vector_planner(cfg: dict[str, Any], params: TrainingParams, _: BaseEgoDataset) -> nn.Module:
    sizes, model = VectorizerParams.from_cfg(cfg), VectorModelParams.from_cfg(cfg)
    return VectorizedModel(
        **_vector_options(params, sizes, model),
        num_targets=3 * params.future_num_frames,
        global_head_dropout=model.global_head_dropout,
        average_available_only=model.average_available_only,
        normalize_targets=not params.velocity_residual,  # which has units of its own
    )


def _urban_driver(cfg: dict[str, Any], params: TrainingParams, _: BaseEgoDataset) -> nn.Module:
    """Return Urban Driver, which in evaluations drives without the futures of other agents."""
    sizes, model, unroll = VectorizerParams.from_cfg(cfg), VectorModelParams.from_cfg(cfg), UnrollParams.from_cfg(cfg)
    return VectorizedUnrollModel(
        **_vector_options(params, sizes, model),
        num_targets=3,
        global_head_dropout=model.global_head_dropout,
        detach_unroll=unroll.detach_unroll,
        warmup_num_frames=unroll.warmup_num_frames,
        discount_factor=unroll.discount_factor,
        average_available_only=model.average_available_only,
        velocity_residual=params.velocity_residual,
        num_unroll_steps=params.future_num_frames,
    )


def _safepathnet(cfg: dict[str, Any], params: TrainingParams, _: BaseEgoDataset) -> nn.Module:
    sizes, model, net = VectorizerParams.from_cfg(cfg), VectorModelParams.from_cfg(cfg), SafePathNetParams.from_cfg(cfg)
    options: dict[str, Any] = dict(net.options)
    return SafePathNetModel(
        **_vector_options(params, sizes, model),
        num_timesteps=params.future_num_frames,
        agent_num_trajectories=net.agent_num_trajectories,
        max_num_agents=sizes.other_agents_num,
        cost_prob_coeff=net.cost_prob_coeff,
        **options,
    )

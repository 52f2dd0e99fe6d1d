"""Parameters of a whole training, read and checked together."""

from dataclasses import dataclass
from typing import Final, Literal, Self

from l5kit._types import Config
from l5kit.configs.known_keys import check_known_keys
from l5kit.configs.networks import MotionFeatures, VectorModelParams
from l5kit.configs.parameters import Route, SamplingParams, VectorizerParams, VectorSamplingParams
from l5kit.configs.reading import Params, read_params
from l5kit.configs.runs import WORKFLOWS, TrainingKeys
from l5kit.configs.texts import did_you_mean
from l5kit.errors import ConfigError

_SAME_SAMPLES: Final = {
    "urban_driver": "vector_planner",
    "motion_tokens": "safepathnet",
    "query_centric": "safepathnet",
    "route_planner": "vector_planner",
}
"""Workflows with their own network only, and the workflow with the same samples for other networks."""

OF_AGENTS: Final = ("simnet", "agent_motion", "agent_motion_multimodal")
"""Workflows with samples of agents, whose networks drive other agents in simulations."""

_PLANNERS: Final = ("raster_planner", "vector_planner", "urban_driver", "safepathnet", "route_planner")
"""Workflows of planners; they can drop the past of the AV and use its route."""

_NUM_HEADS: Final = 8
"""Heads of the attention of vector planners."""


@dataclass(frozen=True, kw_only=True)
class TrainingParams(TrainingKeys):
    """Parameters of a whole training, checked for consistency."""

    @property
    def is_of_agents(self) -> bool:
        """Whether each sample is centred on an agent instead of the AV."""
        return self.workflow in OF_AGENTS

    @classmethod
    def from_cfg(cls, cfg: Config) -> Self:
        """Read and check a configuration.

        Raises:
            ConfigError: A key is missing, unknown, of the wrong type or out of range, or two contradict each other.
        """
        check_known_keys(cfg)
        read_workflow(cfg)
        params = read_params(cls, cfg)
        params._check_together()
        if params.velocity_residual or params.kinematic_residual:
            _require_past(cfg, params.workflow, "residual")
        if params.workflow in ("vector_planner", "urban_driver"):
            # the heads of the attention share the features equally
            dim_features = VectorModelParams.from_cfg(cfg).dim_features
            if dim_features % _NUM_HEADS:
                raise ConfigError(f"model_params.dim_features: expected a multiple of {_NUM_HEADS}, got {dim_features}")
        if _MotionFeatures.from_cfg(cfg).motion_features:
            if params.workflow == "motion_tokens":
                raise ConfigError("model_params.motion_features: not supported by motion_tokens; remove it")
            if params.workflow == "route_planner":
                raise ConfigError("model_params.motion_features: route_planner always reads the speed; remove it")
            _require_past(cfg, params.workflow, "motion_features")
        if params.workflow == "route_planner":
            _require_past(cfg, params.workflow, "route_planner")
        if params.workflow == "urban_driver" and VectorizerParams.from_cfg(cfg).has_route:
            _require_past(cfg, params.workflow, "route")
        if params.workflow not in _PLANNERS and _RouteKey.from_cfg(cfg).has_route:
            raise ConfigError(
                f"model_params.route: {params.workflow} predicts agents and does not use the route of the AV; remove "
                f"it, or train a planner, one of {', '.join(_PLANNERS)}"
            )
        # the past cannot be removed from rasters that show it
        has_pictures = params.workflow == "raster_planner"
        if params.past_dropout and has_pictures and cfg["model_params"].get("render_ego_history"):
            raise ConfigError(
                "model_params.past_dropout: the rasters show the past of the AV, which cannot be dropped from them; "
                "set render_ego_history to false"
            )
        return params

    @property
    def step_time_s(self) -> float:
        """Seconds between two predicted steps."""
        return self.frame_time_s * self.future_step_size

    @property
    def past_step_time_s(self) -> float:
        """Seconds between two past steps."""
        return self.frame_time_s * self.history_step_size

    @property
    def residual_to(self) -> Literal["constant_velocity", "ctrv", "ctra"] | None:
        """Baseline of the learned differences, if any; Urban Driver learns differences from its last step."""
        return self.kinematic_residual or ("constant_velocity" if self.velocity_residual else None)

    @property
    def past_dropout_or_usual(self) -> float:
        """Share of samples without the past of the AV; the default depends on the workflow."""
        usual = 1.0 if self.workflow == "route_planner" else 0.0
        return usual if self.past_dropout is None else self.past_dropout

    @property
    def horizons_s(self) -> tuple[float, ...]:
        """Horizons at which evaluations report errors, the longest last."""
        return tuple(sorted(self.run.horizons_s)) or (self.future_num_frames * self.step_time_s,)

    def _check_together(self) -> None:
        if self.future_num_frames < 1:
            raise ConfigError("model_params.future_num_frames: expected a whole number of at least 1, got 0")
        # contradictory keys of the network
        has_no_unit = self.residual_to is None or self.workflow in ("urban_driver", "motion_tokens")
        if self.residual_unit_m is not None and has_no_unit:
            raise ConfigError(
                "model_params.residual_unit_m: it is the unit of differences from a baseline; remove it, or set "
                "kinematic_residual (for a workflow other than urban_driver and motion_tokens)"
            )
        if self.residual_to is not None and self.workflow == "route_planner":
            raise ConfigError(
                "model_params.kinematic_residual: route_planner always starts from its current speed; remove this key "
                "and velocity_residual"
            )
        if self.past_dropout and self.workflow not in _PLANNERS:
            raise ConfigError(
                f"model_params.past_dropout: {self.workflow} predicts agents from their past; remove it, or train a "
                f"planner, one of {', '.join(_PLANNERS)}"
            )
        if self.kinematic_residual == "constant_velocity" and self.workflow == "urban_driver":
            raise ConfigError(
                "model_params.kinematic_residual: urban_driver predicts step by step; set ctrv or ctra, or remove it "
                "and set velocity_residual for differences from the last step"
            )

        # classes of users, and keys of the training
        self._check_own_classes()
        self.run.check()
        self.scaling.check(self.run.precision)
        if self.scaling.save_top_k and self.val_loader is None:
            raise ConfigError("train_params.save_top_k: it needs evaluations; add a val_data_loader, or remove it")
        if self.run.max_num_steps is None and self.run.num_epochs is None:
            raise ConfigError("train_params: give max_num_steps or num_epochs, so that the training ends")
        if self.run.early_stopping_patience is not None and self.val_loader is None:
            raise ConfigError("train_params.early_stopping_patience: it needs evaluations; add a val_data_loader")
        self._check_driving()

        # horizons must be predicted steps
        longest_s = self.future_num_frames * self.step_time_s
        for horizon_s in self.horizons_s:
            if abs(horizon_s / self.step_time_s - round(horizon_s / self.step_time_s)) > 1e-6:
                raise ConfigError(
                    f"train_params.horizons_s: {horizon_s} s is not a multiple of the {self.step_time_s:g} s of a step"
                )
        if self.horizons_s[-1] > longest_s + 1e-6:
            raise ConfigError(
                f"train_params.horizons_s: {self.horizons_s[-1]} s is beyond the predicted {longest_s:g} s"
            )
        self.train_loader.check()

    def _check_driving(self) -> None:
        """Refuse driven scenes that cannot be driven, and a choice of weights that needs missing ones."""
        if self.val_driving is None:
            if self.run.best_by == "closed_loop":
                raise ConfigError(
                    "train_params.best_by: closed_loop needs driven scenes; add a section val_driving with a key, or "
                    "use open_loop"
                )
            return
        if self.val_loader is None:
            raise ConfigError("val_driving: scenes are driven at evaluations; add a val_data_loader, or remove it")
        if self.scaling.strategy == "fsdp":
            raise ConfigError(
                "val_driving: not supported with train_params.strategy 'fsdp', which shards the network over devices; "
                "remove one of them, or use 'ddp'"
            )
        if self.val_driving.num_frames == 1:
            raise ConfigError("val_driving.num_frames: 1 frame is not driven; give 2 or more, or null for all")

    def _check_own_classes(self) -> None:
        """Refuse malformed class paths, and keys that contradict them; nothing is imported."""
        if self.own.loss is not None and self.own.model is None:
            raise ConfigError(
                "model_params.loss: it is the loss of a model of your own; set model_params.model too, or set "
                "model_params.criterion, the error of a value in the losses of l5kit"
            )
        if self.own.model is not None and self.workflow in _SAME_SAMPLES:
            raise ConfigError(
                f"model_params.model: {self.workflow} trains its own network only; use workflow "
                f"{_SAME_SAMPLES[self.workflow]}, which has the same samples"
            )
        if self.optimizer.own_schedule is not None and self.optimizer.warmup_num_steps:
            raise ConfigError(
                "train_params.warmup_num_steps: a schedule class has its own warmup; remove one of them, or set this "
                "key to null"
            )
        self.own_classes()


@dataclass(frozen=True)
class _MotionFeatures(Params):
    motion_features: MotionFeatures


@dataclass(frozen=True)
class _RouteKey(Params):
    has_route: Route


def _require_past(cfg: Config, workflow: str, wanted: str) -> None:
    """Refuse samples without the past that velocities are computed from."""
    if workflow in ("safepathnet", "motion_tokens", "query_centric"):
        key, num_frames = "history_num_frames_agents", VectorSamplingParams.from_cfg(cfg).history_num_frames_agents
    elif workflow in ("vector_planner", "urban_driver", "route_planner"):
        key, num_frames = "history_num_frames_ego", VectorSamplingParams.from_cfg(cfg).history_num_frames_ego
    else:
        key, num_frames = "history_num_frames", SamplingParams.from_cfg(cfg).history_num_frames
    if num_frames == 0:
        raise ConfigError(f"model_params.{key}: velocities need past frames; give at least 1, or remove {wanted}")


def read_workflow(cfg: Config) -> str:
    """Return the workflow of a configuration.

    Raises:
        ConfigError: There is no such key, or no such workflow.
    """
    workflow = cfg.get("workflow")
    if workflow is None:
        raise ConfigError(
            f"workflow: this key is missing, as in configurations of L5Kit 1.x; set it at the top of the file, "
            f"or pass --workflow, one of {', '.join(WORKFLOWS)}"
        )
    if workflow not in WORKFLOWS:
        raise ConfigError(
            f"workflow: expected one of {', '.join(WORKFLOWS)}, got {workflow!r}{did_you_mean(workflow, WORKFLOWS)}"
        )
    return str(workflow)

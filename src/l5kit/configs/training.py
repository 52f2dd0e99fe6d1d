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
"""Workflows that are their networks, and those with the same samples."""

OF_AGENTS: Final = ("simnet", "agent_motion", "agent_motion_multimodal")
"""Workflows whose samples are of agents, and whose networks drive other agents in simulations."""

_PLANNERS: Final = ("raster_planner", "vector_planner", "urban_driver", "safepathnet", "route_planner")
"""Workflows of planners, whose past of the AV can be dropped, and which see its route."""

_NUM_HEADS: Final = 8
"""Heads of the attention of planners on vectors."""


@dataclass(frozen=True, kw_only=True)
class TrainingParams(TrainingKeys):
    """A whole training, whose parts go together."""

    @property
    def is_of_agents(self) -> bool:
        """Whether the samples are of agents, each around one of them, instead of the AV."""
        return self.workflow in OF_AGENTS

    @classmethod
    def from_cfg(cls, cfg: Config) -> Self:
        """Read and check a configuration.

        Raises:
            ConfigError: A key is missing, unknown, of the wrong type or out of range, or two do not go together.
        """
        check_known_keys(cfg)
        read_workflow(cfg)
        params = read_params(cls, cfg)
        params._check_together()
        if params.velocity_residual or params.kinematic_residual:
            _require_past(cfg, params.workflow, "residual")
        if params.workflow in ("vector_planner", "urban_driver"):
            # refuse numbers of features that the heads of the attention cannot share
            dim_features = VectorModelParams.from_cfg(cfg).dim_features
            if dim_features % _NUM_HEADS:
                raise ConfigError(f"model_params.dim_features: expected a multiple of {_NUM_HEADS}, got {dim_features}")
        if _MotionFeatures.from_cfg(cfg).motion_features:
            if params.workflow == "motion_tokens":
                raise ConfigError("model_params.motion_features: motion_tokens sees motions as they are; leave it out")
            if params.workflow == "route_planner":
                raise ConfigError("model_params.motion_features: route_planner always gets its speed; leave it out")
            _require_past(cfg, params.workflow, "motion_features")
        if params.workflow == "route_planner":
            _require_past(cfg, params.workflow, "route_planner")
        if params.workflow == "urban_driver" and VectorizerParams.from_cfg(cfg).has_route:
            _require_past(cfg, params.workflow, "route")
        if params.workflow not in _PLANNERS and _RouteKey.from_cfg(cfg).has_route:
            raise ConfigError(
                f"model_params.route: {params.workflow} predicts agents, and sees no route of the AV; leave it out, or "
                f"train a planner, one of {', '.join(_PLANNERS)}"
            )
        # what a picture shows cannot be taken out of it
        has_pictures = params.workflow == "raster_planner"
        if params.past_dropout and has_pictures and cfg["model_params"].get("render_ego_history"):
            raise ConfigError(
                "model_params.past_dropout: the pictures show the past of the AV, which cannot be dropped from them; "
                "set render_ego_history to false"
            )
        return params

    @property
    def step_time_s(self) -> float:
        """Seconds between two steps that are predicted."""
        return self.frame_time_s * self.future_step_size

    @property
    def past_step_time_s(self) -> float:
        """Seconds between two past steps."""
        return self.frame_time_s * self.history_step_size

    @property
    def residual_to(self) -> Literal["constant_velocity", "ctrv", "ctra"] | None:
        """Baseline that the network learns differences to, if any; Urban Driver learns those to its last step."""
        return self.kinematic_residual or ("constant_velocity" if self.velocity_residual else None)

    @property
    def past_dropout_or_usual(self) -> float:
        """How often the past of the AV is not shown, by default as the workflow has it."""
        usual = 1.0 if self.workflow == "route_planner" else 0.0
        return usual if self.past_dropout is None else self.past_dropout

    @property
    def horizons_s(self) -> tuple[float, ...]:
        """Times ahead at which evaluations give errors, the longest last."""
        return tuple(sorted(self.run.horizons_s)) or (self.future_num_frames * self.step_time_s,)

    def _check_together(self) -> None:
        if self.future_num_frames < 1:
            raise ConfigError("model_params.future_num_frames: expected a whole number of at least 1, got 0")
        # keys of the network that do not go together
        has_no_unit = self.residual_to is None or self.workflow in ("urban_driver", "motion_tokens")
        if self.residual_unit_m is not None and has_no_unit:
            raise ConfigError(
                "model_params.residual_unit_m: it is the unit of differences to a baseline; leave it out, or set "
                "kinematic_residual, with which neither urban_driver nor motion_tokens has such a unit"
            )
        if self.residual_to is not None and self.workflow == "route_planner":
            raise ConfigError(
                "model_params.kinematic_residual: route_planner starts from its current speed as it is; leave this key "
                "and velocity_residual out"
            )
        if self.past_dropout and self.workflow not in _PLANNERS:
            raise ConfigError(
                f"model_params.past_dropout: {self.workflow} predicts agents by their past; leave it out, or train a "
                f"planner, one of {', '.join(_PLANNERS)}"
            )
        if self.kinematic_residual == "constant_velocity" and self.workflow == "urban_driver":
            raise ConfigError(
                "model_params.kinematic_residual: urban_driver predicts step by step; set ctrv or ctra, or leave it "
                "out and set velocity_residual for differences to the last step"
            )

        # classes of users, and keys of the training
        self._check_own_classes()
        self.run.check()
        self.scaling.check(self.run.precision)
        if self.scaling.save_top_k and self.val_loader is None:
            raise ConfigError("train_params.save_top_k: it needs evaluations; add a val_data_loader, or leave it out")
        if self.run.max_num_steps is None and self.run.num_epochs is None:
            raise ConfigError("train_params: give max_num_steps or num_epochs, so that the training ends")
        if self.run.early_stopping_patience is not None and self.val_loader is None:
            raise ConfigError("train_params.early_stopping_patience: it needs evaluations; add a val_data_loader")
        self._check_driving()

        # errors are given at steps that are predicted
        longest_s = self.future_num_frames * self.step_time_s
        for horizon_s in self.horizons_s:
            if abs(horizon_s / self.step_time_s - round(horizon_s / self.step_time_s)) > 1e-6:
                raise ConfigError(
                    f"train_params.horizons_s: {horizon_s} s is not a multiple of the {self.step_time_s:g} s of a step"
                )
        if self.horizons_s[-1] > longest_s + 1e-6:
            raise ConfigError(
                f"train_params.horizons_s: {self.horizons_s[-1]} s lies beyond the {longest_s:g} s that are predicted"
            )
        self.train_loader.check()

    def _check_driving(self) -> None:
        """Refuse scenes that nobody drives, or by which weights cannot be chosen."""
        if self.val_driving is None:
            if self.run.best_by == "closed_loop":
                raise ConfigError(
                    "train_params.best_by: closed_loop needs scenes that are driven; add a section val_driving with "
                    "key, or take open_loop"
                )
            return
        if self.val_loader is None:
            raise ConfigError("val_driving: scenes are driven at evaluations; add a val_data_loader, or leave it out")
        if self.scaling.strategy == "fsdp":
            raise ConfigError(
                "val_driving: it does not go with train_params.strategy 'fsdp', whose devices have parts of the "
                "network; leave one of them out, or take 'ddp'"
            )
        if self.val_driving.num_frames == 1:
            raise ConfigError("val_driving.num_frames: 1 frame is not driven; take 2 or more, or null for all")

    def _check_own_classes(self) -> None:
        """Refuse class paths that are none, and what does not go with them; nothing is imported."""
        if self.own.loss is not None and self.own.model is None:
            raise ConfigError(
                "model_params.loss: it is the loss of a model of your own; name that under model_params.model, or "
                "set model_params.criterion, which is the error of a value in the losses of l5kit"
            )
        if self.own.model is not None and self.workflow in _SAME_SAMPLES:
            raise ConfigError(
                f"model_params.model: {self.workflow} trains its own network only; take workflow "
                f"{_SAME_SAMPLES[self.workflow]}, which has the same samples"
            )
        if self.optimizer.own_schedule is not None and self.optimizer.warmup_num_steps:
            raise ConfigError(
                "train_params.warmup_num_steps: a schedule of a class has its own warmup; leave one of them out, "
                "or set this key to null"
            )
        self.own_classes()


@dataclass(frozen=True)
class _MotionFeatures(Params):
    motion_features: MotionFeatures


@dataclass(frozen=True)
class _RouteKey(Params):
    has_route: Route


def _require_past(cfg: Config, workflow: str, wanted: str) -> None:
    """Refuse samples that do not tell how fast anybody is."""
    if workflow in ("safepathnet", "motion_tokens", "query_centric"):
        key, num_frames = "history_num_frames_agents", VectorSamplingParams.from_cfg(cfg).history_num_frames_agents
    elif workflow in ("vector_planner", "urban_driver", "route_planner"):
        key, num_frames = "history_num_frames_ego", VectorSamplingParams.from_cfg(cfg).history_num_frames_ego
    else:
        key, num_frames = "history_num_frames", SamplingParams.from_cfg(cfg).history_num_frames
    if num_frames == 0:
        raise ConfigError(f"model_params.{key}: 0 past frames tell no velocity; give at least 1, or no {wanted}")


def read_workflow(cfg: Config) -> str:
    """Return which workflow a configuration is for.

    Raises:
        ConfigError: It does not say, or there is no such workflow.
    """
    workflow = cfg.get("workflow")
    if workflow is None:
        raise ConfigError(
            f"workflow: the configuration does not say what to train, as those of L5Kit 1.x do not; set it at the top, "
            f"or pass --workflow, one of {', '.join(WORKFLOWS)}"
        )
    if workflow not in WORKFLOWS:
        raise ConfigError(
            f"workflow: expected one of {', '.join(WORKFLOWS)}, got {workflow!r}{did_you_mean(workflow, WORKFLOWS)}"
        )
    return str(workflow)

"""Frozen parameters of a training, made once from a configuration dict."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from l5kit.configs.known_keys import check_known_keys
from l5kit.configs.reading import Section
from l5kit.errors import ConfigError

__all__ = [
    "LOGGERS",
    "PRECISIONS",
    "WORKFLOWS",
    "BackboneParams",
    "LoaderParams",
    "OptimizerParams",
    "SafePathNetParams",
    "TrainingParams",
    "TrainingRun",
    "UnrollParams",
    "VectorModelParams",
    "read_workflow",
]

WORKFLOWS: Final = (
    "raster_planner",
    "vector_planner",
    "urban_driver",
    "agent_motion",
    "agent_motion_multimodal",
    "safepathnet",
    "simnet",
)
"""What can be trained."""

LOGGERS: Final = ("csv", "tensorboard", "wandb", "mlflow")
"""Where curves can be written."""

PRECISIONS: Final = ("32-true", "16-mixed", "bf16-mixed", "64-true")
"""Number formats of a training, by Lightning's names."""

_SCHEDULES: Final = ("constant", "cosine")
_CRITERIA: Final = ("l1", "mse", "smooth_l1")
_DEVICE_KINDS: Final = ("auto", "cpu", "gpu", "cuda", "mps")
_PERTURB_STD: Final = (0.5, 1.5, 0.5235987755982988)
"""Lateral and longitudinal metres, and pi/6 radians, as in the examples of L5Kit 1.5."""


@dataclass(frozen=True)
class LoaderParams:
    """Which samples are taken, and how they are loaded.

    Attributes:
        key: Path of the dataset relative to the data folder.
        batch_size: Samples in a batch of each device.
        shuffle: Whether every epoch has another order.
        num_workers: Processes that make batches; 0 for threads.
        threads: Threads that make batches; 0 to make each when it is asked for.
        max_scene_id: How many scenes are taken, from the first on; None for all.
        min_frame_history: Least number of valid past frames of an agent.
        min_frame_future: Least number of valid future frames of an agent.
        perturb_probability: How likely a sample of the AV is perturbed.
        perturb_std: Standard deviations of a perturbation: lateral m, longitudinal m, yaw rad.
        max_num_batches: Batches that an evaluation takes on each device, at most; None for all.
    """

    key: str
    batch_size: int
    shuffle: bool
    num_workers: int
    threads: int
    max_scene_id: int | None
    min_frame_history: int
    min_frame_future: int
    perturb_probability: float
    perturb_std: tuple[float, float, float]
    max_num_batches: int | None

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any], name: str) -> "LoaderParams":
        """Read ``train_data_loader`` or ``val_data_loader``."""
        section = Section.of(cfg, name)
        num_workers = section.integer("num_workers", minimum=0, default=0)
        probability = section.number("perturb_probability", default=0.0)
        if not 0 <= probability <= 1:
            raise ConfigError(f"{name}.perturb_probability: expected a number from 0 to 1, got {probability!r}")
        return cls(
            key=section.path("key"),
            batch_size=section.integer("batch_size", minimum=1),
            shuffle=section.boolean("shuffle", default=name == "train_data_loader"),
            num_workers=num_workers,
            threads=section.integer("threads", minimum=0, default=0 if num_workers else 1),
            max_scene_id=_optional_integer(section, "max_scene_id", minimum=1),
            min_frame_history=section.integer("min_frame_history", minimum=0, default=10),
            min_frame_future=section.integer("min_frame_future", minimum=0, default=1),
            perturb_probability=float(probability),
            perturb_std=_three_numbers(section, "perturb_std", _PERTURB_STD),
            max_num_batches=_optional_integer(section, "max_num_batches", minimum=1),
        )


@dataclass(frozen=True)
class BackboneParams:
    """The network of a workflow with rasters.

    Attributes:
        model_architecture: ``resnet18``, ``resnet34``, ``resnet50`` or ``simple_cnn``.
        pretrained: Whether it starts from ImageNet weights; None: where their file is in torch hub's cache folder.
        weights_file: File with ImageNet weights.
        num_modes: Trajectories of ``agent_motion_multimodal``.
        weights_scaling: Weights of the errors of x, y and yaw.
        average_available_only: Whether planners average their loss over available steps only.
    """

    model_architecture: str
    pretrained: bool | None
    weights_file: str | None
    num_modes: int
    weights_scaling: tuple[float, float, float]
    average_available_only: bool

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "BackboneParams":
        """Read ``model_params``."""
        section = Section.of(cfg, "model_params")
        return cls(
            model_architecture=section.text("model_architecture"),
            pretrained=section.boolean("pretrained") if "pretrained" in section.values else None,
            weights_file=section.path("weights_file") if "weights_file" in section.values else None,
            num_modes=section.integer("num_modes", minimum=1, default=3),
            weights_scaling=_three_numbers(section, "weights_scaling", (1.0, 1.0, 1.0)),
            average_available_only=section.boolean("average_available_only", default=False),
        )


@dataclass(frozen=True)
class VectorModelParams:
    """What the networks with vectors have in common.

    Attributes:
        weights_scaling: Weights of the errors of x, y and yaw.
        disable_other_agents: Whether other agents are left out.
        disable_map: Whether lanes, crosswalks and boundaries are left out.
        disable_lane_boundaries: Whether boundaries are left out.
        global_head_dropout: Dropout of the attention of planners.
        use_agent_labels: Whether cars, cyclists and pedestrians are embedded apart.
        agents_in_own_frame: Whether the past of other agents is embedded as seen from their own poses too.
        average_available_only: Whether planners average their loss over available steps only.
    """

    weights_scaling: tuple[float, float, float]
    disable_other_agents: bool
    disable_map: bool
    disable_lane_boundaries: bool
    global_head_dropout: float
    use_agent_labels: bool
    agents_in_own_frame: bool
    average_available_only: bool

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "VectorModelParams":
        """Read ``model_params``."""
        section = Section.of(cfg, "model_params")
        return cls(
            weights_scaling=_three_numbers(section, "weights_scaling", (1.0, 1.0, 1.0)),
            disable_other_agents=section.boolean("disable_other_agents", default=False),
            disable_map=section.boolean("disable_map", default=False),
            disable_lane_boundaries=section.boolean("disable_lane_boundaries", default=False),
            global_head_dropout=section.number("global_head_dropout", default=0.0),
            use_agent_labels=section.boolean("use_agent_labels", default=False),
            agents_in_own_frame=section.boolean("agents_in_own_frame", default=False),
            average_available_only=section.boolean("average_available_only", default=False),
        )


@dataclass(frozen=True)
class UnrollParams:
    """How Urban Driver is unrolled in training.

    Attributes:
        detach_unroll: Whether gradients are cut after each step.
        warmup_num_frames: First steps, which are driven without a loss.
        discount_factor: Weight of each step after these relative to the one before it.
    """

    detach_unroll: bool
    warmup_num_frames: int
    discount_factor: float

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "UnrollParams":
        """Read ``model_params``."""
        section = Section.of(cfg, "model_params")
        return cls(
            detach_unroll=section.boolean("detach_unroll", default=True),
            warmup_num_frames=section.integer("warmup_num_frames", minimum=0, default=0),
            discount_factor=section.number("discount_factor", above=0.0, default=0.8),
        )


@dataclass(frozen=True)
class SafePathNetParams:
    """The network of SafePathNet.

    Attributes:
        agent_num_trajectories: Trajectories of each agent.
        cost_prob_coeff: Weight of the probabilities in the loss.
        options: Arguments of the model that are configured; those that are not keep its defaults.
    """

    agent_num_trajectories: int
    cost_prob_coeff: float
    options: Mapping[str, bool | float | str]

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "SafePathNetParams":
        """Read ``model_params``."""
        section = Section.of(cfg, "model_params")
        options: dict[str, bool | float | str] = {}
        for key in ("apply_weights_scaling", "normalize_targets"):
            if key in section.values:
                options[key] = section.boolean(key)
        for key in ("dim_local", "dim_global", "dim_feedforward", "nhead"):
            if key in section.values:
                options[key] = section.integer(key, minimum=1)
        for key in ("num_local_layers", "num_encoder_layers", "num_decoder_layers"):
            if key in section.values:
                options[key] = section.integer(key, minimum=1)
        if "yaw_residual" in section.values:
            options["yaw_residual"] = section.text("yaw_residual", allowed=("doubled", "single"))
        if "position_scale_m" in section.values:
            options["position_scale_m"] = section.number("position_scale_m", above=0.0)
        if "dropout" in section.values:
            options["dropout"] = section.number("dropout")
        return cls(
            agent_num_trajectories=section.integer("agent_num_trajectories", minimum=1),
            cost_prob_coeff=section.number("cost_prob_coeff", default=0.01),
            options=options,
        )


@dataclass(frozen=True)
class OptimizerParams:
    """How weights are changed.

    Attributes:
        learning_rate: Of Adam, at its peak.
        weight_decay: Decoupled decay (AdamW) where above 0.
        schedule: ``constant``, or ``cosine`` for half a cosine down to 0; None for that of the workflow.
        warmup_num_steps: Steps in which the rate rises linearly; None for those of the workflow.
        gradient_clip_norm: Largest norm of the gradient; None for no limit.
    """

    learning_rate: float
    weight_decay: float
    schedule: str | None
    warmup_num_steps: int | None
    gradient_clip_norm: float | None

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "OptimizerParams":
        """Read ``train_params``."""
        section = Section.of(cfg, "train_params")
        return cls(
            learning_rate=section.number("learning_rate", above=0.0, default=1e-3),
            weight_decay=section.number("weight_decay", default=0.0),
            schedule=section.text("schedule", allowed=_SCHEDULES) if "schedule" in section.values else None,
            warmup_num_steps=_optional_integer(section, "warmup_num_steps", minimum=0),
            gradient_clip_norm=_optional_number(section, "gradient_clip_norm"),
        )


@dataclass(frozen=True)
class TrainingRun:
    """How long is trained, on what, and what is written.

    Attributes:
        max_num_steps: Steps of the training, or of each epoch where ``num_epochs`` is given as well; None for no limit.
        num_epochs: Epochs; None to go by ``max_num_steps`` alone.
        checkpoint_every_n_steps: Steps between two checkpoints; None to go by the next one.
        checkpoint_every_n_epochs: Epochs between two checkpoints; None for a checkpoint at the end only.
        eval_every_n_steps: Steps between two evaluations; None to go by the next one.
        eval_every_n_epochs: Epochs between two evaluations; None for an evaluation at the end only.
        output_name: Name of the weights that are written.
        seed: Decides the first weights, the order of the samples, perturbations and dropout.
        accelerator: Kind of device, by Lightning's names.
        devices: How many devices; 0 for all there are.
        precision: One of :data:`PRECISIONS`.
        logger: One of :data:`LOGGERS`.
        log_every_n_steps: Steps between two points of the curves.
        early_stopping_patience: Evaluations without a better one after which the training ends; None for never.
        horizons_s: Times ahead in seconds at which evaluations give errors; empty for the whole future.
    """

    max_num_steps: int | None
    num_epochs: int | None
    checkpoint_every_n_steps: int | None
    checkpoint_every_n_epochs: int | None
    eval_every_n_steps: int | None
    eval_every_n_epochs: int | None
    output_name: str
    seed: int
    accelerator: str
    devices: int
    precision: str
    logger: str
    log_every_n_steps: int
    early_stopping_patience: int | None
    horizons_s: tuple[float, ...]

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any], *, output_name: str) -> "TrainingRun":
        """Read ``train_params``; ``output_name`` is the default of the key of that name."""
        section = Section.of(cfg, "train_params")
        run = cls(
            max_num_steps=_optional_integer(section, "max_num_steps", minimum=1),
            num_epochs=_optional_integer(section, "num_epochs", minimum=1),
            checkpoint_every_n_steps=_optional_integer(section, "checkpoint_every_n_steps", minimum=1),
            checkpoint_every_n_epochs=_optional_integer(section, "checkpoint_every_n_epochs", minimum=1),
            eval_every_n_steps=_optional_integer(section, "eval_every_n_steps", minimum=1),
            eval_every_n_epochs=_optional_integer(section, "eval_every_n_epochs", minimum=1),
            output_name=section.text("output_name", default=output_name),
            seed=section.integer("seed", minimum=0, default=0),
            accelerator=section.text("accelerator", allowed=_DEVICE_KINDS, default="auto"),
            devices=section.integer("devices", minimum=0, default=1),
            precision=section.text("precision", allowed=PRECISIONS, default="32-true"),
            logger=section.text("logger", allowed=LOGGERS, default="csv"),
            log_every_n_steps=section.integer("log_every_n_steps", minimum=1, default=10),
            early_stopping_patience=_optional_integer(section, "early_stopping_patience", minimum=1),
            horizons_s=_horizons(section),
        )
        if run.max_num_steps is None and run.num_epochs is None:
            raise ConfigError("train_params: give max_num_steps or num_epochs, so that the training ends")
        return run


@dataclass(frozen=True)
class TrainingParams:
    """A whole training.

    Attributes:
        workflow: One of :data:`WORKFLOWS`.
        future_num_frames: Steps ahead that are predicted.
        step_time_s: Seconds between two of them.
        past_step_time_s: Seconds between two past ones.
        velocity_residual: Whether networks predict the difference to going on with constant velocity.
        criterion: Error of a value in the loss, ``l1``, ``mse`` or ``smooth_l1``; None for that of the workflow.
        perturbation_min_displacement_m: Length of the future below which samples are only moved along it.
        train_loader: Samples that are trained on.
        val_loader: Samples that evaluations take; None for no evaluation.
        optimizer: How weights are changed.
        run: How long, on what, and what is written.
    """

    workflow: str
    future_num_frames: int
    step_time_s: float
    past_step_time_s: float
    velocity_residual: bool
    criterion: str | None
    perturbation_min_displacement_m: float
    train_loader: LoaderParams
    val_loader: LoaderParams | None
    optimizer: OptimizerParams
    run: TrainingRun

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "TrainingParams":
        """Read and check a configuration.

        Raises:
            ConfigError: A key is missing, unknown, of the wrong type or out of range, or two do not go together.
        """
        check_known_keys(cfg)
        workflow = read_workflow(cfg)
        model = Section.of(cfg, "model_params")
        frame_time_s = model.number("step_time", above=0.0)
        params = cls(
            workflow=workflow,
            future_num_frames=model.integer("future_num_frames", minimum=1),
            step_time_s=frame_time_s * model.integer("future_step_size", minimum=1, default=1),
            past_step_time_s=frame_time_s * model.integer("history_step_size", minimum=1, default=1),
            velocity_residual=model.boolean("velocity_residual", default=False),
            criterion=model.text("criterion", allowed=_CRITERIA) if "criterion" in model.values else None,
            perturbation_min_displacement_m=model.number("perturbation_min_displacement_m", default=0.0),
            train_loader=LoaderParams.from_cfg(cfg, "train_data_loader"),
            val_loader=LoaderParams.from_cfg(cfg, "val_data_loader") if "val_data_loader" in cfg else None,
            optimizer=OptimizerParams.from_cfg(cfg),
            run=TrainingRun.from_cfg(cfg, output_name=workflow),
        )
        params._check_together()
        if params.velocity_residual:
            _require_past(model, workflow)
        return params

    @property
    def horizons_s(self) -> tuple[float, ...]:
        """Times ahead at which evaluations give errors, the longest last."""
        return self.run.horizons_s or (self.future_num_frames * self.step_time_s,)

    def _check_together(self) -> None:
        if self.run.early_stopping_patience is not None and self.val_loader is None:
            raise ConfigError("train_params.early_stopping_patience: it needs evaluations; add a val_data_loader")
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
        if self.train_loader.num_workers and self.train_loader.threads > 1:
            raise ConfigError("train_data_loader: give num_workers or threads, not both")


def _require_past(model: Section, workflow: str) -> None:
    """Refuse samples that do not tell how fast anybody is."""
    of_vectors = {"safepathnet": "history_num_frames_agents"} | dict.fromkeys(
        ("vector_planner", "urban_driver"), "history_num_frames_ego"
    )
    key = of_vectors.get(workflow, "history_num_frames")
    if model.integer(key, minimum=0) == 0:
        raise ConfigError(
            f"model_params.{key}: 0 past frames tell no velocity; give at least 1, or no velocity_residual"
        )


def read_workflow(cfg: Mapping[str, Any]) -> str:
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
        raise ConfigError(f"workflow: expected one of {', '.join(WORKFLOWS)}, got {workflow!r}")
    return str(workflow)


def _optional_integer(section: Section, key: str, *, minimum: int) -> int | None:
    """Return a whole number, or None where the key is missing or null."""
    return None if section.values.get(key) is None else section.integer(key, minimum=minimum)


def _optional_number(section: Section, key: str) -> float | None:
    """Return a number above 0, or None where the key is missing or null."""
    return None if section.values.get(key) is None else section.number(key, above=0.0)


def _three_numbers(section: Section, key: str, default: tuple[float, float, float]) -> tuple[float, float, float]:
    if section.values.get(key) is None:
        return default
    numbers = _numbers(section, key)
    if len(numbers) != 3 or min(numbers) < 0:
        raise ConfigError(f"{section.name}.{key}: expected three numbers of at least 0, got {section.values[key]!r}")
    return (numbers[0], numbers[1], numbers[2])


def _horizons(section: Section) -> tuple[float, ...]:
    if section.values.get("horizons_s") is None:
        return ()
    horizons = tuple(sorted(_numbers(section, "horizons_s")))
    if not horizons or horizons[0] <= 0:
        raise ConfigError(f"{section.name}.horizons_s: expected seconds above 0, got {section.values['horizons_s']!r}")
    return horizons


def _numbers(section: Section, key: str) -> tuple[float, ...]:
    value = section.values[key]
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{section.name}.{key}: expected a list of numbers, got {value!r}")
    items = Section(f"{section.name}.{key}", {str(place): item for place, item in enumerate(value)})
    return tuple(float(items.number(place)) for place in items.values)

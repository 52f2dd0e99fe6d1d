"""Parameters of the parts of a training, and of sample loaders, read from a configuration dict."""

import math
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self, get_args

from l5kit._types import Config
from l5kit.configs.class_path import ClassMapping, ClassPath, OwnClasses
from l5kit.configs.kinds import (
    BatchSize,
    Count,
    EpochCount,
    FileName,
    FilePath,
    Flag,
    FolderNames,
    FourNumbers,
    Fraction,
    Key,
    LearningRate,
    Number,
    NumberFromZero,
    PositiveCount,
    PositiveList,
    PositiveNumber,
    Probability,
    Seed,
    StepCount,
    TagWeights,
    ThreeNumbers,
    WorkerCount,
)
from l5kit.configs.parameters import FutureNumFrames, FutureStepSize, HistoryStepSize, StepTime
from l5kit.configs.reading import Params, read_params
from l5kit.configs.scaling import LoggerParams, ScalingParams
from l5kit.errors import ConfigError

_Workflow = Literal[
    "raster_planner",
    "vector_planner",
    "urban_driver",
    "agent_motion",
    "agent_motion_multimodal",
    "safepathnet",
    "simnet",
    "motion_tokens",
    "query_centric",
    "route_planner",
]
_Precision = Literal["32-true", "16-mixed", "bf16-mixed", "64-true"]

WORKFLOWS: Final[tuple[str, ...]] = get_args(_Workflow)
"""Names of the trainable workflows."""

_TRAINED, _EVALUATED = "train_data_loader", "val_data_loader"
_PERTURB_STD: Final = (0.5, 1.5, math.pi / 6)
"""Standard deviations in metres (lateral, longitudinal) and radians, as in the examples of L5Kit 1.5."""

RECOVERY_STD: Final = (0.7, 1.5, 0.10, 1.2)
"""Standard deviations of perturbations with recovery: metres to the left and ahead, radians, m/s."""

RECOVERY_CLIP: Final = (2.0, 4.0, 0.35, 3.5)
"""Largest deviations of perturbations with recovery from the log: metres to the left and ahead, radians, m/s."""


@dataclass(frozen=True, kw_only=True)
class LoaderParams(Params, section=_TRAINED):
    """Selection of samples, and how they are loaded."""

    key: Annotated[FilePath, Key("the log, relative to the data folder, or to each of `folders`")]
    folders: Annotated[
        FolderNames | None,
        Key(
            "folders in the data folder, such as `[town-1, town-2]`, or a pattern of their names, such as `town_*`, "
            "whose samples are combined; each has its own log under `key`, and its own map under the keys of "
            "`raster_params`",
            otherwise="the data folder itself",
        ),
    ] = None
    batch_size: Annotated[BatchSize, Key("samples per batch, on each device")]
    shuffle: Annotated[
        Flag,
        Key(
            "whether the order changes in every epoch",
            derived=lambda _, section, __: section == _TRAINED,
            otherwise="true for trainings, false for evaluations",
        ),
    ]
    shuffle_by: Annotated[
        Literal["samples", "scenes"] | None,
        Key(
            "unit of shuffling: single samples, or scenes, with bounded memory and consecutive reads",
            only_in=_TRAINED,
            otherwise="`samples` up to 2^23 samples, `scenes` beyond",
        ),
    ] = None
    num_workers: Annotated[WorkerCount, Key("processes that make batches")] = 0
    threads: Annotated[
        WorkerCount,
        Key(
            "threads that make batches; 0 makes each batch on request",
            derived=lambda _, __, given: 0 if given["num_workers"] else 1,
            otherwise="1, or 0 with `num_workers`",
        ),
    ]
    on_device: Annotated[
        Flag,
        Key(
            "whether the training GPU [makes the batches itself](gpu.md), if it supports these samples; batches are "
            "the same, and without a GPU the CPU makes them"
        ),
    ] = False
    max_scene_id: Annotated[
        PositiveCount | None, Key("number of scenes used from each log, from the first on", otherwise="all")
    ] = None
    fraction: Annotated[
        Fraction, Key("random share of these scenes to train on", only_in=_TRAINED, null_is_missing=True)
    ] = 1.0
    subset_seed: Annotated[
        Seed,
        Key(
            "seed of this choice; a larger `fraction` includes the scenes of a smaller one",
            only_in=_TRAINED,
            null_is_missing=True,
        ),
    ] = 0
    scenario_weights: Annotated[
        TagWeights | None,
        Key(
            "sampling weights of scenes by [tag](scene_tags.md); `others` is the weight of scenes without any of these "
            "tags, 1 by default; a scene with several tags has the largest weight",
            only_in=_TRAINED,
            otherwise="every sample once per epoch",
        ),
    ] = None
    min_frame_history: Annotated[
        Count,
        Key("least number of valid past frames of an agent; 0 as in the [test sets](test_sets.md) of the competition"),
    ] = 10
    min_frame_future: Annotated[
        Count, Key("least number of valid future frames of an agent; 10 as in these test sets")
    ] = 1
    perturb_probability: Annotated[Probability, Key("share of samples in which the AV is perturbed")] = 0.0
    perturb_std: Annotated[
        ThreeNumbers,
        Key(
            "standard deviations of the perturbation: to the left in metres, ahead in metres, in radians",
            only_in=_TRAINED,
            null_is_missing=True,
        ),
    ] = _PERTURB_STD
    perturb_kind: Annotated[
        Literal["ackerman", "recovery"],
        Key(
            "kind of perturbation of the AV: `ackerman` as in 1.5, which keeps its past and speed, or [`recovery`]"
            "(explanation/recovery.md), which adapts them and returns to the log as a car can",
            only_in=_TRAINED,
        ),
    ] = "ackerman"
    recovery_std: Annotated[
        FourNumbers,
        Key(
            "standard deviations of `recovery`: to the left in metres, ahead in metres, in radians, in m/s",
            only_in=_TRAINED,
        ),
    ] = RECOVERY_STD
    recovery_clip: Annotated[
        FourNumbers,
        Key(
            "largest deviations of `recovery` from the log, to which draws are clipped: to the left in metres, ahead "
            "in metres, in radians, in m/s",
            only_in=_TRAINED,
        ),
    ] = RECOVERY_CLIP
    max_num_batches: Annotated[
        PositiveCount | None,
        Key(
            "largest number of batches per evaluation and device; their samples are spread evenly over the log",
            only_in=_EVALUATED,
            otherwise="all",
        ),
    ] = None

    @classmethod
    def from_cfg(cls, cfg: Config, name: str = _TRAINED) -> Self:
        """Read ``train_data_loader`` or ``val_data_loader``."""
        return read_params(cls, cfg, section=name)

    def check(self) -> None:
        """Refuse options that contradict each other."""
        if self.num_workers and self.threads > 1:
            raise ConfigError("train_data_loader: give num_workers or threads, not both")
        if self.num_workers and self.on_device:
            raise ConfigError(
                "train_data_loader: num_workers are not needed if batches are made on_device; remove one of them"
            )
        if self.shuffle_by is not None and not self.shuffle:
            raise ConfigError("train_data_loader.shuffle_by: shuffle is false; set it to true, or remove this key")
        if self.scenario_weights is not None and not self.shuffle:
            raise ConfigError("train_data_loader.scenario_weights: they need shuffling; set shuffle, or remove them")
        if self.scenario_weights is not None and self.shuffle_by == "samples":
            raise ConfigError(
                "train_data_loader.scenario_weights: they need shuffling by scenes; remove one of the two keys"
            )


@dataclass(frozen=True, kw_only=True)
class OptimizerParams(Params, section="train_params"):
    """Parameters of the optimiser and of the learning rate."""

    learning_rate: Annotated[LearningRate, Key("peak learning rate of Adam")] = 1e-3
    weight_decay: Annotated[NumberFromZero, Key("decoupled weight decay (AdamW) if above 0")] = 0.0
    schedule: Annotated[
        Literal["constant", "cosine"] | ClassMapping | None,
        Key(
            "schedule of the learning rate; `cosine` is half a cosine down to 0. A mapping names a class, or just its "
            "name in `torch.optim.lr_scheduler`; its code is run",
            otherwise="`constant`; `cosine` for `safepathnet`",
        ),
    ] = None
    warmup_num_steps: Annotated[
        Count | None,
        Key(
            "steps in which the learning rate rises linearly", otherwise="none; a fifth of the epochs for `safepathnet`"
        ),
    ] = None
    gradient_clip_norm: Annotated[PositiveNumber | None, Key("largest norm of the gradient", otherwise="no limit")] = (
        None
    )

    @property
    def own_schedule(self) -> ClassPath | None:
        """The class of the learning rate schedule; None for a schedule of l5kit."""
        if not isinstance(self.schedule, dict):
            return None
        return ClassPath.read(self.schedule, key="train_params.schedule", package="torch.optim.lr_scheduler")


@dataclass(frozen=True, kw_only=True)
class DrivingParams(Params, section="val_driving"):
    """Scenes that the network drives at each evaluation of a training."""

    key: Annotated[FilePath, Key("the log of these scenes, relative to `folder`; not a training log")]
    folder: Annotated[
        FilePath | None,
        Key("folder in the data folder with this log and its map", otherwise="the data folder itself"),
    ] = None
    num_scenes: Annotated[PositiveCount, Key("largest number of scenes, evenly spread over the log")] = 24
    start_frame: Annotated[Count, Key("first driven frame of a scene; earlier frames are its past")] = 10
    num_frames: Annotated[
        PositiveCount | None,
        Key("largest number of driven frames, including the first", otherwise="100; null for all"),
    ] = 100
    agents: Annotated[
        Literal["replay", "idm", "yielding", "cautious", "assertive", "changing"],
        Key("drivers of other agents: the log, the Intelligent Driver Model, or another traffic population"),
    ] = "replay"


@dataclass(frozen=True, kw_only=True)
class WeightsName(Params, section="train_params"):
    """File names of weights."""

    output_name: Annotated[
        FileName,
        Key("file name of the written weights", otherwise="the workflow", derived=lambda cfg, *_: cfg["workflow"]),
    ]


@dataclass(frozen=True, kw_only=True)
class TrainingRun(WeightsName, LoggerParams):
    """Length, device and outputs of a training."""

    max_num_steps: Annotated[
        StepCount | None,
        Key("steps of the training, or of each epoch if `num_epochs` is given as well", otherwise="no limit"),
    ] = None
    num_epochs: Annotated[
        EpochCount | None, Key("number of epochs; this or `max_num_steps` is needed", otherwise="by `max_num_steps`")
    ] = None
    checkpoint_every_n_steps: Annotated[
        PositiveCount | None, Key("steps between two checkpoints", otherwise="by `checkpoint_every_n_epochs`")
    ] = None
    checkpoint_every_n_epochs: Annotated[
        PositiveCount | None, Key("epochs between two checkpoints", otherwise="at the end only")
    ] = None
    eval_every_n_steps: Annotated[
        PositiveCount | None, Key("steps between two evaluations", otherwise="by `eval_every_n_epochs`")
    ] = None
    eval_every_n_epochs: Annotated[
        PositiveCount | None, Key("epochs between two evaluations", otherwise="at the end only")
    ] = None
    seed: Annotated[Seed, Key("seed of the initial weights, the order of the samples, perturbations and dropout")] = 0
    accelerator: Annotated[
        Literal["auto", "cpu", "gpu", "cuda", "mps"], Key("kind of device, as named by Lightning")
    ] = "auto"
    devices: Annotated[Count, Key("number of devices, 0 for all; each has its own process and samples")] = 1
    precision: Annotated[_Precision, Key("number formats, as named by Lightning")] = "32-true"
    log_every_n_steps: Annotated[PositiveCount, Key("steps between two points of the curves")] = 10
    early_stopping_patience: Annotated[
        PositiveCount | None,
        Key("evaluations without a better score (see `best_by`) after which the training ends", otherwise="never"),
    ] = None
    best_by: Annotated[
        Literal["open_loop", "closed_loop"],
        Key(
            "criterion for the best weights: the smallest ADE at the longest horizon, or the largest score in the "
            "scenes of `val_driving`"
        ),
    ] = "open_loop"
    horizons_s: Annotated[
        PositiveList,
        Key(
            "horizons at which evaluations report errors",
            unit="seconds",
            otherwise="the whole future",
            null_is_missing=True,
        ),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class TrainingKeys(Params, section="model_params"):
    """All parameters of a training except samples and network.

    Attributes:
        train_loader: Training samples.
        val_loader: Evaluation samples; None for no evaluation.
        val_driving: Scenes driven at evaluations; None for none.
        optimizer: Optimiser and learning rate.
        run: Length, device and outputs.
        scaling: Distribution over processes and steps, and the weights to keep.
        own: Classes of users.
    """

    workflow: Annotated[_Workflow, Key("what is trained", at="workflow")]
    future_num_frames: FutureNumFrames
    frame_time_s: StepTime
    future_step_size: FutureStepSize
    history_step_size: HistoryStepSize
    velocity_residual: Annotated[
        Flag,
        Key("whether networks learn differences from constant velocity, Urban Driver from the last step"),
    ] = False
    kinematic_residual: Annotated[
        Literal["constant_velocity", "ctrv", "ctra"] | None,
        Key(
            "baseline from which the network learns differences; `urban_driver` supports `ctrv` and `ctra`",
            otherwise="constant velocity with `velocity_residual`, else none",
        ),
    ] = None
    residual_unit_m: Annotated[
        PositiveNumber | None,
        Key(
            "unit of the learned differences from the baseline at the last step; smaller at earlier steps",
            unit="metres",
            otherwise="half a metre plus a tenth of the distance of the baseline",
        ),
    ] = None
    criterion: Annotated[
        Literal["l1", "mse", "smooth_l1"] | ClassMapping | None,
        Key(
            "error of a value in the loss; for `agent_motion_multimodal` the negative log-likelihood of a value, from "
            "which that of the modes is computed. A mapping names a class, or just its name in `torch.nn`; its code is "
            "run",
            otherwise="as in 1.5: `l1` for vectors, `mse` for rasters, half of it for several modes; for "
            "`route_planner` smooth L1 that is linear from 0.1 on",
        ),
    ] = None
    past_dropout: Annotated[
        Probability | None,
        Key(
            "share of samples in which planners do not see the past of the AV except its last step, which gives the "
            "speed; 1: all samples, also in simulation. Raster planners need `render_ego_history: false`",
            otherwise="0; 1 for `route_planner`",
        ),
    ] = None
    perturbation_min_displacement_m: Annotated[
        Number, Key("length of the future trajectory below which samples are only perturbed along it", unit="metres")
    ] = 0.0
    train_loader: LoaderParams
    val_loader: Annotated[LoaderParams | None, Key("", at=_EVALUATED)] = None
    val_driving: DrivingParams | None = None
    optimizer: OptimizerParams
    run: TrainingRun
    scaling: ScalingParams
    own: OwnClasses

    @property
    def own_criterion(self) -> ClassPath | None:
        """The class of the error of a value; None for an error of l5kit."""
        if not isinstance(self.criterion, dict):
            return None
        return ClassPath.read(self.criterion, key="model_params.criterion", package="torch.nn")

    def own_classes(self) -> tuple[ClassPath, ...]:
        """Return all classes that the configuration names; nothing is imported.

        Raises:
            ConfigError: A class path is malformed.
        """
        others = (self.own_criterion, self.optimizer.own_schedule)
        return (*self.own.all(), *(each for each in others if each is not None))

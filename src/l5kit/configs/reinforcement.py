"""Parameters of reinforcement learning: the algorithm, its duration, evaluations and checkpoints."""

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from msgspec import Meta

from l5kit._types import Config
from l5kit.configs.kinds import (
    FilePath,
    Flag,
    FolderNames,
    Key,
    Number,
    NumberFromZero,
    PositiveCount,
    PositiveNumber,
    Probability,
)
from l5kit.configs.reading import Params, read_params
from l5kit.errors import ConfigError

_Width = Annotated[int, Meta(ge=1, le=65_536)]
_Threads = Annotated[int, Meta(ge=0, le=1024)]
_Seed = Annotated[int, Meta(ge=0, le=2**32 - 1)]


@dataclass(frozen=True)
class LogKeys(Params):
    """Logs to train and evaluate in."""

    trained: Annotated[FilePath, Key("the log to train in", at="train_data_loader.key")]
    evaluated: Annotated[FilePath, Key("the log to evaluate in", at="val_data_loader.key")]
    folders: Annotated[
        FolderNames | None,
        Key(
            "folders in the data folder, such as `[town-1, town-2]`, or a pattern of their names, such as `town_*`; "
            "the environments are distributed over them, and each has its own log and map",
            at="train_data_loader.folders",
            otherwise="the data folder itself",
        ),
    ] = None

    @property
    def key(self) -> str:
        """The log to train in, relative to each folder."""
        return self.trained


@dataclass(frozen=True, kw_only=True)
class ReinforcementParams(Params, section="rl_params"):
    """Parameters of proximal policy optimisation (PPO), with the names of stable-baselines3."""

    total_steps: Annotated[
        PositiveCount | None, Key("total steps of all environments after which training ends", otherwise="no limit")
    ] = None
    minutes: Annotated[
        PositiveNumber | None, Key("time after which training ends", unit="minutes", otherwise="no limit")
    ] = None
    init: Annotated[
        FilePath | None,
        Key(
            "initial policy with the same observations, actions and network: a `.zip`, the folder of a training or the "
            "name of an included policy; or `rules` to imitate the rule-based planner first",
            otherwise="new weights",
        ),
    ] = None
    num_envs: Annotated[PositiveCount, Key("environments that are stepped in parallel")] = 64
    n_steps: Annotated[PositiveCount, Key("steps of each environment between two updates")] = 32
    batch_size: Annotated[PositiveCount, Key("steps per minibatch of an update")] = 512
    n_epochs: Annotated[PositiveCount, Key("passes of an update over its steps")] = 4
    learning_rate: Annotated[PositiveNumber, Key("learning rate of Adam")] = 3e-4
    anneals: Annotated[Flag, Key("whether the learning rate decays linearly to a fiftieth at the end")] = False
    gamma: Annotated[Probability, Key("discount factor per step")] = 0.98
    gae_lambda: Annotated[Probability, Key("trade-off of bias and variance in advantages")] = 0.95
    ent_coef: Annotated[NumberFromZero, Key("weight of the entropy in the loss")] = 0.0
    near_start: Annotated[
        NumberFromZero,
        Key("weight of the divergence from the initial policy; decays linearly to 0 at the end"),
    ] = 0.0
    clip_range: Annotated[PositiveNumber, Key("how far an update may change the probability of an action")] = 0.2
    network: Annotated[
        Literal["layers", "agents", "attention"],
        Key(
            "network of policy and value: plain layers over all values, or, for compact observations with normalised "
            "values, an embedding of each road user, independent of their order, pooled by the maximum of each "
            "feature (`agents`) or by attention of the AV and its route (`attention`)"
        ),
    ] = "layers"
    features: Annotated[_Width, Key("features computed by the networks `agents` and `attention`")] = 128
    agent_width: Annotated[_Width, Key("width of their layers for road users")] = 64
    net_arch: Annotated[tuple[PositiveCount, ...], Key("widths of the hidden layers of policy and value")] = (128, 128)
    log_std_init: Annotated[
        Number, Key("initial logarithm of the standard deviation of actions, for continuous actions")
    ] = -1.0
    normalize_rewards: Annotated[
        Flag, Key("whether rewards are divided by the standard deviation of returns so far, in updates only")
    ] = True
    seed: Annotated[_Seed, Key("seed of weights, actions and episodes")] = 0
    eval_every_steps: Annotated[PositiveCount, Key("steps between two evaluations")] = 200_000
    eval_scenes: Annotated[PositiveCount, Key("largest number of evaluation scenes, from the first on")] = 24
    checkpoint_every_steps: Annotated[PositiveCount, Key("steps between two checkpoints")] = 200_000
    keep_checkpoints: Annotated[PositiveCount, Key("number of latest checkpoints to keep")] = 3
    environment_threads: Annotated[_Threads, Key("threads that step environments; 0 for one per core")] = 0
    num_threads: Annotated[
        PositiveCount,
        Key("threads of torch; more are faster for minibatches of thousands. The number affects rounding of sums"),
    ] = 1

    @classmethod
    def from_cfg(cls, cfg: Config) -> Self:
        """Read and check a configuration.

        Raises:
            ConfigError: A key is of the wrong type or out of range, nothing ends the training, or keys contradict
                each other.
        """
        params = read_params(cls, cfg)
        if params.total_steps is None and params.minutes is None:
            raise ConfigError("rl_params: give total_steps or minutes, so that the training ends")
        if not 1 < params.batch_size <= params.steps_per_update:
            raise ConfigError(
                f"rl_params.batch_size: expected 2 to {params.steps_per_update}, the num_envs x n_steps of an update, "
                f"got {params.batch_size}"
            )
        return params

    @property
    def steps_per_update(self) -> int:
        """Steps of all environments between two updates."""
        return self.num_envs * self.n_steps

"""Parameters of how a training is spread over processes and steps, and of the weights that it keeps."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from msgspec import Meta

from l5kit.configs.kinds import BatchSize, Count, Flag, Key, PositiveCount, Text
from l5kit.configs.reading import Params
from l5kit.errors import ConfigError

_Logger = Literal["csv", "tensorboard", "wandb", "mlflow"]

LOGGERS: Final[tuple[str, ...]] = get_args(_Logger)
"""Where curves can be written."""

_SHARDED_PRECISIONS: Final = ("32-true", "bf16-mixed")
_Decay = Annotated[float, Meta(gt=0, lt=1)]
_Loggers = Annotated[tuple[_Logger, ...], Meta(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class LoggerParams(Params, section="train_params"):
    """Where the curves of a training are written."""

    logger: Annotated[
        _Logger | _Loggers,
        Key(
            "where curves are written, or a list of these. W&B and MLflow need their libraries and use their own "
            "settings; without any, MLflow writes to `mlflow.db` in the folder"
        ),
    ] = "csv"

    @property
    def loggers(self) -> tuple[str, ...]:
        """All that curves are written to, in the order in which they were given."""
        return (self.logger,) if isinstance(self.logger, str) else self.logger

    def check(self) -> None:
        """Refuse a logger that is given twice.

        Raises:
            ConfigError: There is one.
        """
        if len(set(self.loggers)) < len(self.loggers):
            raise ConfigError(f"train_params.logger: {list(self.loggers)} has one of them twice; name each once")


@dataclass(frozen=True, kw_only=True)
class ScalingParams(Params, section="train_params"):
    """How a training is spread over processes and steps, and which weights it keeps."""

    accumulate_grad_batches: Annotated[
        BatchSize,
        Key("batches of a step, on each device: their gradients are averaged. Steps, intervals and rates count steps"),
    ] = 1
    num_nodes: Annotated[
        PositiveCount, Key("number of machines, each with this number of devices; start the same command on each")
    ] = 1
    strategy: Annotated[
        Literal["auto", "ddp", "fsdp"],
        Key(
            "how devices share a training: `ddp` gives all weights to each, `fsdp` a part of them; `auto` is `ddp` if "
            "there are several devices"
        ),
    ] = "auto"
    compile: Annotated[Flag, Key("whether the network is compiled by `torch.compile`")] = False
    compile_backend: Annotated[Text, Key("backend of `torch.compile`")] = "inductor"
    ema_decay: Annotated[
        _Decay | None,
        Key(
            "share of the averaged weights that is kept in each step; these are evaluated and saved instead of the "
            "last ones",
            otherwise="no averaging",
        ),
    ] = None
    save_top_k: Annotated[
        Count, Key("number of best evaluated weights kept in files of their own, in addition to the best")
    ] = 0

    def check(self, precision: str) -> None:
        """Refuse what does not go together.

        Args:
            precision: Formats of numbers of the training.

        Raises:
            ConfigError: What does not go with devices that each have a part of the weights.
        """
        if self.strategy != "fsdp":
            return
        if precision not in _SHARDED_PRECISIONS:
            raise ConfigError(
                f"train_params.precision: strategy 'fsdp' has {' and '.join(_SHARDED_PRECISIONS)}, got {precision!r}"
            )
        for key, is_given in (("ema_decay", self.ema_decay is not None), ("compile", self.compile)):
            if is_given:
                raise ConfigError(
                    f"train_params.{key}: it does not go with strategy 'fsdp'; leave one of them out, or take 'ddp'"
                )

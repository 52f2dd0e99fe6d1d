"""Parameters for distributing a training over processes and steps, its loggers, and the weights that it keeps."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from msgspec import Meta

from l5kit.configs.kinds import BatchSize, Count, Flag, Key, PositiveCount, Text
from l5kit.configs.reading import Params
from l5kit.errors import ConfigError

_Logger = Literal["csv", "tensorboard", "wandb", "mlflow"]

LOGGERS: Final[tuple[str, ...]] = get_args(_Logger)
"""Names of the supported loggers."""

_SHARDED_PRECISIONS: Final = ("32-true", "bf16-mixed")
_Decay = Annotated[float, Meta(gt=0, lt=1)]
_Loggers = Annotated[tuple[_Logger, ...], Meta(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class LoggerParams(Params, section="train_params"):
    """Loggers of the curves of a training."""

    logger: Annotated[
        _Logger | _Loggers,
        Key(
            "logger of the curves, or a list of loggers. W&B and MLflow need their libraries and use their own "
            "settings; without any, MLflow writes to `mlflow.db` in the folder"
        ),
    ] = "csv"

    @property
    def loggers(self) -> tuple[str, ...]:
        """All loggers, in the given order."""
        return (self.logger,) if isinstance(self.logger, str) else self.logger

    def check(self) -> None:
        """Refuse a logger that is given twice.

        Raises:
            ConfigError: A logger is given twice.
        """
        if len(set(self.loggers)) < len(self.loggers):
            raise ConfigError(f"train_params.logger: {list(self.loggers)} repeats a logger; name each once")


@dataclass(frozen=True, kw_only=True)
class ScalingParams(Params, section="train_params"):
    """How a training is distributed over processes and steps, and which weights it keeps."""

    accumulate_grad_batches: Annotated[
        BatchSize,
        Key("batches per step and device, whose gradients are averaged. All step counts refer to optimiser steps"),
    ] = 1
    num_nodes: Annotated[
        PositiveCount, Key("number of machines, each with `devices` devices; start the same command on each")
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
            "decay of the exponential moving average of the weights, which is evaluated and saved instead of the last "
            "weights",
            otherwise="no averaging",
        ),
    ] = None
    save_top_k: Annotated[
        Count, Key("number of best weights to keep in separate files, in addition to the best ones")
    ] = 0

    def check(self, precision: str) -> None:
        """Refuse options that contradict each other.

        Args:
            precision: Number formats of the training.

        Raises:
            ConfigError: An option is not supported with weights that are sharded over devices.
        """
        if self.strategy != "fsdp":
            return
        if precision not in _SHARDED_PRECISIONS:
            raise ConfigError(
                f"train_params.precision: expected {' or '.join(_SHARDED_PRECISIONS)} with strategy 'fsdp', "
                f"got {precision!r}"
            )
        for key, is_given in (("ema_decay", self.ema_decay is not None), ("compile", self.compile)):
            if is_given:
                raise ConfigError(
                    f"train_params.{key}: not supported with strategy 'fsdp'; remove one of them, or use 'ddp'"
                )

"""Optimisers and learning rate schedules of trainings: those of l5kit, or classes named in the configuration."""

import inspect
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, OneCycleLR, ReduceLROnPlateau

from l5kit.configs.training import TrainingParams
from l5kit.errors import ConfigError
from l5kit.training.lightning_parts import Checkpoint, EarlyStopping, pl

_LENGTHS: Final = ("total_steps", "T_max")
"""Arguments of schedules for the number of training steps, unless the configuration sets them."""

_KEYS_INSTEAD: Final[dict[type[pl.Callback], str]] = {
    Checkpoint: "train_params.checkpoint_every_n_steps and save_top_k",
    EarlyStopping: "train_params.early_stopping_patience",
}
"""Lightning callbacks that l5kit replaces, and the keys to use instead."""


@dataclass(frozen=True)
class TrainingSchedule:
    """Schedule of a training in steps.

    Attributes:
        num_steps: Steps of the whole training.
        steps_per_epoch: Steps of an epoch.
        checkpoint_every: Steps between two checkpoints.
        eval_every: Steps between two evaluations.
        warmup_num_steps: Steps in which the learning rate rises.
        is_cosine: Whether it falls along half a cosine after that.
    """

    num_steps: int
    steps_per_epoch: int
    checkpoint_every: int
    eval_every: int
    warmup_num_steps: int
    is_cosine: bool

    @classmethod
    def of(cls, params: TrainingParams, *, num_batches: int, schedule: str) -> "TrainingSchedule":
        """Return the schedule of a training for a number of batches in an epoch.

        Args:
            params: The training.
            num_batches: Batches of an epoch on each device; those whose gradients are averaged count as one.
            schedule: Default of the workflow, if the configuration names none.
        """
        run, optimizer = params.run, params.optimizer
        if run.num_epochs is None:
            steps_per_epoch, num_steps = num_batches, run.max_num_steps or num_batches
        else:
            steps_per_epoch = min(num_batches, run.max_num_steps or num_batches)
            num_steps = run.num_epochs * steps_per_epoch
        warmup = optimizer.warmup_num_steps
        if warmup is None:  # a fifth of the epochs for SafePathNet, as in L5Kit 1.5
            is_workflows = optimizer.schedule is None and schedule == "cosine"
            warmup = (run.num_epochs or 0) // 5 * steps_per_epoch if is_workflows else 0
        return cls(
            num_steps=num_steps,
            steps_per_epoch=steps_per_epoch,
            checkpoint_every=_interval(
                run.checkpoint_every_n_steps, run.checkpoint_every_n_epochs, steps_per_epoch, num_steps
            ),
            eval_every=_interval(run.eval_every_n_steps, run.eval_every_n_epochs, steps_per_epoch, num_steps),
            warmup_num_steps=warmup,
            is_cosine=(optimizer.schedule or schedule) == "cosine",
        )


def learning_rate_factor(step: int, schedule: TrainingSchedule) -> float:
    """Return the learning rate of a step, counted from 0, relative to its peak."""
    if step < schedule.warmup_num_steps:
        return (step + 1) / schedule.warmup_num_steps
    if not schedule.is_cosine:
        return 1.0
    num_falling = max(schedule.num_steps - schedule.warmup_num_steps, 1)
    # half a cosine, from the peak at the end of the warmup to 0 one step after the last
    passed = min((step - schedule.warmup_num_steps) / num_falling, 1.0)
    return 0.5 * (1.0 + math.cos(math.pi * passed))


def _interval(num_steps: int | None, num_epochs: int | None, steps_per_epoch: int, end: int) -> int:
    """Return an interval in steps, at most the whole training."""
    if num_steps is None:
        num_steps = end if num_epochs is None else num_epochs * steps_per_epoch
    return min(num_steps, end)


def make_optimizer(params: TrainingParams, weights: Iterable[nn.Parameter]) -> Optimizer:
    """Return the optimiser of a training: Adam, AdamW with a weight decay, or the named class.

    A class gets the weights first. It can take ``lr``, set to ``learning_rate``, and ``weight_decay``.

    Args:
        params: The training.
        weights: Weights to optimise.

    Raises:
        ConfigError: The class cannot be imported or constructed, is not an optimiser, or does not support the given
            ``weight_decay``.
    """
    rate, decay, named = params.optimizer.learning_rate, params.optimizer.weight_decay, params.own.optimizer
    if named is None:
        return AdamW(weights, rate, weight_decay=decay) if decay else Adam(weights, rate)
    made = named.make(Optimizer, {"lr": rate, "weight_decay": decay}, list(weights))
    if decay and not any("weight_decay" in group for group in made.param_groups):
        raise ConfigError(f"train_params.weight_decay: {named.class_path} takes none; leave it out")
    return made


def make_course(params: TrainingParams, optimizer: Optimizer, schedule: TrainingSchedule) -> LRScheduler:
    """Return the learning rate schedule, updated after each step: one of l5kit, or the named class.

    A class gets the optimiser first. It can take ``max_lr``, set to ``learning_rate``, and ``total_steps`` or
    ``T_max``, set to the number of training steps.

    Raises:
        ConfigError: The class cannot be imported or constructed, is not a schedule by steps, or ends before the
            training.
    """
    named = params.optimizer.own_schedule
    if named is None:
        return LambdaLR(optimizer, lambda step: learning_rate_factor(step, schedule))
    loaded = named.load(LRScheduler)
    if issubclass(loaded, ReduceLROnPlateau):
        raise ConfigError(f"{named.key}: {named.class_path} depends on scores; use a schedule by steps")
    # a cycle that is too short raises in the middle of the training, which then cannot be resumed
    steps = schedule.num_steps
    context = {"max_lr": params.optimizer.learning_rate, **dict.fromkeys(_LENGTHS, steps)}
    made = named.make(LRScheduler, context, optimizer)
    if isinstance(made, OneCycleLR) and made.total_steps < steps:
        raise ConfigError(
            f"{named.key}.init_args: the cycle of {named.class_path} ends after {made.total_steps} steps, and the "
            f"training has {steps}; leave total_steps out, or give at least {steps}"
        )
    return made


def length_of_course(params: TrainingParams) -> str | None:
    """Return the argument of the named schedule that is set to the number of training steps, which is then fixed.

    Raises:
        ConfigError: The class cannot be imported.
    """
    named = params.optimizer.own_schedule
    if named is None:
        return None
    taken = inspect.signature(named.load(LRScheduler)).parameters
    return next((name for name in _LENGTHS if name in taken and name not in named.init_args), None)


def make_callbacks(params: TrainingParams) -> list[pl.Callback]:
    """Return the callbacks named in a configuration.

    Raises:
        ConfigError: One cannot be imported or constructed, is not a callback, or is replaced by l5kit.
    """
    made = []
    for named in params.own.callbacks:
        loaded = named.load(pl.Callback)
        for base, keys in _KEYS_INSTEAD.items():
            if issubclass(loaded, base):
                raise ConfigError(f"{named.key}: l5kit already does the work of {named.class_path}; set {keys}")
        made.append(named.make(pl.Callback, {}))
    return made

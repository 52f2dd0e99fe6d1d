"""Optimisers and courses of the learning rate: Adam and those of l5kit, or classes that a configuration names."""

import inspect
from collections.abc import Iterable
from typing import Final

from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, OneCycleLR, ReduceLROnPlateau

from l5kit.configs.training import TrainingParams
from l5kit.errors import ConfigError
from l5kit.training.lightning_parts import Checkpoint, EarlyStopping, pl
from l5kit.training.schedule import TrainingSchedule, learning_rate_factor

_LENGTHS: Final = ("total_steps", "T_max")
"""Arguments of schedules that are the steps of the training, unless the configuration gives them."""

_KEYS_INSTEAD: Final[dict[type[pl.Callback], str]] = {
    Checkpoint: "train_params.checkpoint_every_n_steps and save_top_k",
    EarlyStopping: "train_params.early_stopping_patience",
}
"""Callbacks whose work l5kit does itself, and the keys for it."""


def make_optimizer(params: TrainingParams, weights: Iterable[nn.Parameter]) -> Optimizer:
    """Return the optimiser of a training: Adam, AdamW with a weight decay, or the class that is named.

    A class gets the weights first. It may ask for ``lr``, which is ``learning_rate``, and for ``weight_decay``.

    Args:
        params: The training.
        weights: What it changes.

    Raises:
        ConfigError: The class cannot be imported or made, is no optimiser, or knows no ``weight_decay`` that is given.
    """
    rate, decay, named = params.optimizer.learning_rate, params.optimizer.weight_decay, params.own.optimizer
    if named is None:
        return AdamW(weights, rate, weight_decay=decay) if decay else Adam(weights, rate)
    made = named.make(Optimizer, {"lr": rate, "weight_decay": decay}, list(weights))
    if decay and not any("weight_decay" in group for group in made.param_groups):
        raise ConfigError(f"train_params.weight_decay: {named.class_path} takes none; leave it out")
    return made


def make_course(params: TrainingParams, optimizer: Optimizer, schedule: TrainingSchedule) -> LRScheduler:
    """Return what sets the learning rate after each step: a course of l5kit, or the class that is named.

    A class gets the optimiser first. It may ask for ``max_lr``, which is ``learning_rate``, and for ``total_steps`` or
    ``T_max``, which are the steps of the training.

    Raises:
        ConfigError: The class cannot be imported or made, is no schedule that goes by steps, or ends before the
            training.
    """
    named = params.optimizer.own_schedule
    if named is None:
        return LambdaLR(optimizer, lambda step: learning_rate_factor(step, schedule))
    loaded = named.load(LRScheduler)
    if issubclass(loaded, ReduceLROnPlateau):
        raise ConfigError(f"{named.key}: {named.class_path} goes by scores; take a schedule that goes by steps")
    # a cycle that ends early raises in the middle of the training, whose steps nobody could go on from
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
    """Return the argument of the named schedule that is the steps of the training, so that they cannot be changed.

    Raises:
        ConfigError: The class cannot be imported.
    """
    named = params.optimizer.own_schedule
    if named is None:
        return None
    taken = inspect.signature(named.load(LRScheduler)).parameters
    return next((name for name in _LENGTHS if name in taken and name not in named.init_args), None)


def make_callbacks(params: TrainingParams) -> list[pl.Callback]:
    """Return the callbacks that a configuration names.

    Raises:
        ConfigError: One cannot be imported or made, is no callback, or does what l5kit does itself.
    """
    made = []
    for named in params.own.callbacks:
        loaded = named.load(pl.Callback)
        for base, keys in _KEYS_INSTEAD.items():
            if issubclass(loaded, base):
                raise ConfigError(f"{named.key}: l5kit does itself what {named.class_path} does; set {keys}")
        made.append(named.make(pl.Callback, {}))
    return made

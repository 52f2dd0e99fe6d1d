"""Parts of networks that a configuration names by class path: models, losses, and errors of a value."""

import torch
from torch import nn

from l5kit.configs.class_path import describe_error
from l5kit.configs.training import TrainingParams
from l5kit.errors import ConfigError


def make_criterion(params: TrainingParams) -> nn.Module:
    """Return the error of a value in a loss, whose class ``model_params.criterion`` names; its code is run.

    It may ask for ``reduction``, which is ``"none"``.

    Raises:
        ConfigError: The class cannot be imported or made, is no module, or gives no error of each value.
    """
    named = params.own_criterion
    if named is None:
        raise ConfigError("model_params.criterion: it names no class")
    criterion = named.make(nn.Module, {"reduction": "none"})

    # tried once, as one that takes a mean itself would give a loss in which steps that are not there count
    values = torch.linspace(-1.0, 1.0, 6).reshape(2, 3)
    try:
        with torch.no_grad():
            errors = criterion(values, values.flip(0))
    except (Exception, SystemExit) as error:  # whatever a class of a user raises, the key that named it is reported
        raise ConfigError(
            f"{named.key}: {named.class_path} fails for two tensors (2, 3): {describe_error(error)}"
        ) from error
    if not isinstance(errors, torch.Tensor) or errors.shape != values.shape:
        got = tuple(errors.shape) if isinstance(errors, torch.Tensor) else type(errors).__name__
        raise ConfigError(
            f"{named.key}: {named.class_path} gives {got} for two tensors (2, 3); it must give the error of each "
            "value, as with reduction='none'"
        )
    return criterion

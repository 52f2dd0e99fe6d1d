"""User networks in trainings: a model, optionally with a loss, whose first outputs are checked."""

from collections.abc import Mapping
from typing import Final

import torch
from torch import nn

from l5kit.configs.class_path import describe_error
from l5kit.errors import ConfigError

_KEY: Final = "model_params.model"
_KEY_OF_LOSS: Final = "model_params.loss"
_NUMBERS: Final = {"1": 1, "2": 2}
_PAST_OF_ALL: Final = "all_other_agents_history_positions"


class OwnNetwork(nn.Module):
    """Wrapper of a user model.

    In train mode the model gets a whole batch. Without a loss it returns losses by name, scalars, of which ``loss`` is
    minimised; with one it returns predictions as in eval mode, and the loss, called with these and the batch, returns
    the losses, or ``loss`` alone. In eval mode the model gets the batch without the future, and returns predictions.
    The first outputs of each mode are checked, and errors of the first call of each mode are reported with its key.

    Args:
        model: The user model.
        loss: Its loss, or None.
        outputs: Axes of each key of its predictions, as letters of sizes: B samples, T steps, A agents of a sample, M
            any.
        optional: Keys of ``outputs`` that may be missing.
        num_steps: T.
        class_path: Module and name of the class of the model.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: nn.Module | None,
        *,
        outputs: Mapping[str, str],
        optional: tuple[str, ...] = (),
        num_steps: int,
        class_path: str,
    ) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.class_path = class_path
        self._outputs = dict(outputs)
        self._optional = optional
        self._num_steps = num_steps
        self._is_checked = {True: False, False: False}

    def forward(self, data_batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return losses in train mode, predictions in eval mode; see the class.

        Raises:
            ConfigError: The first call of a mode raises an exception, or its outputs have wrong keys, shapes or dtypes.
        """
        is_first = not self._is_checked[self.training]
        given = self._given_by(self.model, dict(data_batch), is_first=is_first)
        if is_first and not (self.training and self.loss is None):
            self._require_predictions(given, data_batch)
        if self.training and self.loss is not None:
            given = self._given_by(self.loss, given, dict(data_batch), is_first=is_first)
            given = {"loss": given} if isinstance(given, torch.Tensor) else given
        # check the first losses of the model or its loss, which must be differentiable scalars
        if is_first and self.training:
            where = self._where if self.loss is None else f"{_KEY_OF_LOSS}: {type(self.loss).__qualname__}.forward"
            if not isinstance(given, dict) or "loss" not in given:
                got = sorted(map(str, given)) if isinstance(given, dict) else type(given).__name__
                raise ConfigError(f"{where}: expected a dict of losses with 'loss', got {got}")
            for name, value in given.items():
                if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.is_floating_point():
                    raise ConfigError(
                        f"{where}: {name!r} must be a floating-point tensor of one value, got {_described(value)}"
                    )
            if not given["loss"].requires_grad:
                raise ConfigError(
                    f"{where}: 'loss' does not depend on weights that are trained, so nothing can be learned"
                )
        self._is_checked[self.training] = True
        if not isinstance(given, dict):
            raise ConfigError(f"{self._where}: expected a dict of tensors, got {type(given).__name__}")
        return given

    def _given_by(self, module: nn.Module, *inputs: object, is_first: bool) -> object:
        """Return the outputs of a user module; errors of its first call are reported with its key."""
        if not is_first:
            return module(*inputs)
        try:
            return module(*inputs)
        except (Exception, SystemExit) as error:  # any error of a user class
            key = _KEY if module is self.model else _KEY_OF_LOSS
            mode, hint = ("train", "") if self.training else ("eval", "; it gets nothing of the future there")
            raise ConfigError(f"{key}: forward fails in {mode} mode: {describe_error(error)}{hint}") from error

    @property
    def _where(self) -> str:
        mode = "train" if self.training else "eval"
        return f"{_KEY}: {self.class_path}.forward in {mode} mode"

    def _require_predictions(self, given: object, batch: Mapping[str, torch.Tensor]) -> None:
        if not isinstance(given, dict):
            raise ConfigError(f"{self._where}: expected a dict of tensors, got {type(given).__name__}")
        missing = [name for name in self._outputs if name not in given and name not in self._optional]
        if missing:
            raise ConfigError(f"{self._where}: lacks {', '.join(missing)}; it gives {', '.join(map(str, given))}")
        # Sizes by the letter of their axis. Free ones, such as the number of modes, are set by the first output and
        # must then agree.
        sizes = {**_NUMBERS, "B": len(batch["history_positions"]), "T": self._num_steps}
        if _PAST_OF_ALL in batch:
            sizes["A"] = batch[_PAST_OF_ALL].shape[1]
        for name, axes in self._outputs.items():
            if name not in given:
                continue
            value = given[name]
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                raise ConfigError(f"{self._where}: {name!r} must be a floating-point tensor, got {_described(value)}")
            if value.ndim == len(axes):
                sizes |= {axis: size for axis, size in zip(axes, value.shape, strict=True) if axis not in sizes}
            wanted = tuple(sizes.get(axis, axis) for axis in axes)
            if tuple(value.shape) != wanted:
                raise ConfigError(
                    f"{self._where}: {name!r} must be ({', '.join(axes)}), here {wanted}, got {tuple(value.shape)}"
                )


def own_network_in(model: nn.Module) -> OwnNetwork | None:
    """Return the user network that a network is or contains; None for those of l5kit."""
    return next((module for module in model.modules() if isinstance(module, OwnNetwork)), None)


def _described(value: object) -> str:
    return f"{value.dtype} of {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__

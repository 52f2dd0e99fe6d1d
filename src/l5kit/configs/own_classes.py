"""Classes of users in a training: their model, loss, optimiser and callbacks, by class path in the configuration."""

from dataclasses import dataclass
from typing import Annotated, Any

from l5kit.configs.class_path import ClassPath
from l5kit.configs.kinds import Key
from l5kit.configs.reading import Params

ClassMapping = dict[str, Any]
"""``class_path`` and ``init_args``, as :class:`ClassPath` reads them."""

ClassValue = str | ClassMapping
"""A class path alone, or with arguments."""

_MODEL, _LOSS = "model_params.model", "model_params.loss"
_OPTIMIZER, _CALLBACKS = "train_params.optimizer", "train_params.callbacks"


@dataclass(frozen=True, kw_only=True)
class OwnClasses(Params):
    """Classes of users, as the configuration names them; nothing is imported."""

    model_value: Annotated[
        ClassValue | None,
        Key(
            "class of a [model of your own](own_model.md), a `torch.nn.Module`; code that is run",
            at=_MODEL,
            otherwise="that of the workflow",
        ),
    ] = None
    loss_value: Annotated[
        ClassValue | None,
        Key(
            "class of the loss of your own model, a `torch.nn.Module` of its outputs and the batch; code that is run",
            at=_LOSS,
            otherwise="the model gives its losses itself",
        ),
    ] = None
    optimizer_value: Annotated[
        ClassValue | None,
        Key(
            "class of the optimiser, also by its name in `torch.optim`; code that is run",
            at=_OPTIMIZER,
            otherwise="`Adam`, `AdamW` where `weight_decay` is above 0",
        ),
    ] = None
    callback_values: Annotated[
        tuple[ClassValue, ...],
        Key(
            "classes of callbacks of Lightning, also by their names in `lightning.pytorch.callbacks`; code that is run",
            at=_CALLBACKS,
            otherwise="none",
        ),
    ] = ()

    def all(self) -> tuple[ClassPath, ...]:
        """Return all of them.

        Raises:
            ConfigError: One has another form than a class path.
        """
        return tuple(each for each in (self.model, self.loss, self.optimizer, *self.callbacks) if each is not None)

    @property
    def model(self) -> ClassPath | None:
        """The model; None for that of the workflow."""
        return None if self.model_value is None else ClassPath.read(self.model_value, key=_MODEL)

    @property
    def loss(self) -> ClassPath | None:
        """The loss of that model; None for one that gives its losses itself."""
        return None if self.loss_value is None else ClassPath.read(self.loss_value, key=_LOSS)

    @property
    def optimizer(self) -> ClassPath | None:
        """The optimiser; None for Adam or AdamW."""
        if self.optimizer_value is None:
            return None
        return ClassPath.read(self.optimizer_value, key=_OPTIMIZER, package="torch.optim")

    @property
    def callbacks(self) -> tuple[ClassPath, ...]:
        """Callbacks in their order."""
        package = "lightning.pytorch.callbacks"
        return tuple(
            ClassPath.read(value, key=f"{_CALLBACKS}[{number}]", package=package)
            for number, value in enumerate(self.callback_values)
        )

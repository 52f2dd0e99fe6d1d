"""Where the curves of a training are written."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger, WandbLogger

from l5kit.errors import MissingDependencyError

__all__ = ["make_logger"]

_CURVES = "curves"

_MODULES = {"tensorboard": ("tensorboard",), "wandb": ("wandb",), "mlflow": ("mlflow",)}


def make_logger(kind: str, folder: Path, *, name: str) -> Logger:
    """Return what writes curves; those of a training that is taken up again go beside the first ones.

    Args:
        kind: One of :data:`l5kit.configs.training.LOGGERS`.
        folder: Of the training.
        name: Of the training, for services that show several.

    Raises:
        MissingDependencyError: The library for this kind is not there.
    """
    for module in _MODULES.get(kind, ()):
        if find_spec(module) is None:
            raise MissingDependencyError(
                f"train_params.logger is {kind!r}, and {module} is not installed: pip install {module}, or take 'csv'"
            )
    options: dict[str, Any] = {
        "csv": lambda: CSVLogger(folder, name=_CURVES),
        "tensorboard": lambda: TensorBoardLogger(folder, name=_CURVES),
        "wandb": lambda: WandbLogger(name=name, project="l5kit", save_dir=folder),
        "mlflow": lambda: MLFlowLogger("l5kit", run_name=name, save_dir=str(folder / _CURVES)),
    }
    logger: Logger = options[kind]()
    return logger

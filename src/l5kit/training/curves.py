"""Curves of a training: the table, or the service, that they are written to."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from l5kit.errors import MissingDependencyError
from l5kit.training.curve_table import CurveTable
from l5kit.training.lightning_parts import Logger, MLFlowLogger, TensorBoardLogger, WandbLogger
from l5kit.training.state_file import ResumePoint

__all__ = ["close_logger", "make_logger"]

_CURVES = "curves"
_TABLE = "metrics.csv"

_MODULES = {"tensorboard": ("tensorboard",), "wandb": ("wandb",), "mlflow": ("mlflow",)}


def make_logger(kind: str, folder: Path, *, name: str, resumed: ResumePoint | None = None) -> Logger:
    """Return what writes curves; those of a training that is taken up again go on where it goes on.

    Args:
        kind: One of :data:`l5kit.configs.training.LOGGERS`.
        folder: Of the training.
        name: Of the training, for services that show several.
        resumed: Where a training goes on; None for a new one. Services begin curves of their own there.

    Raises:
        MissingDependencyError: The library for this kind is not there.
    """
    for module in _MODULES.get(kind, ()):
        if find_spec(module) is None:
            raise MissingDependencyError(
                f"train_params.logger is {kind!r}, and {module} is not installed: pip install {module}, or take 'csv'"
            )
    options: dict[str, Callable[[], Logger]] = {
        "csv": lambda: CurveTable(_folder_of_curves(folder) / _TABLE, resumed=resumed),
        "tensorboard": lambda: TensorBoardLogger(
            folder, name=_CURVES, version=_folder_of_curves(folder).name, purge_step=resumed.step if resumed else None
        ),
        "wandb": lambda: WandbLogger(name=name, project="l5kit", save_dir=folder),
        "mlflow": lambda: MLFlowLogger("l5kit", run_name=name, tracking_uri=_mlflow_uri(folder)),
    }
    return options[kind]()


def _folder_of_curves(folder: Path) -> Path:
    """Return the folder of the curves of a training; earlier versions of l5kit made one more at each resume."""
    texts = [path.name.removeprefix("version_") for path in (folder / _CURVES).glob("version_*")]
    return folder / _CURVES / f"version_{max((int(text) for text in texts if text.isdecimal()), default=0)}"


def _mlflow_uri(folder: Path) -> str:
    """Return where MLflow keeps its runs: what its own variable names, or a database in the folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.absolute() / 'mlflow.db'}"


def close_logger(logger: Logger) -> None:
    """End the run of a service, so that the next training of this process starts one of its own."""
    if isinstance(logger, WandbLogger):
        logger.experiment.finish()

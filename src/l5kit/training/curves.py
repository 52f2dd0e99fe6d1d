"""Curves of a training: the table, or the service, that they are written to."""

import json
import os
import uuid
from importlib.util import find_spec
from pathlib import Path

from l5kit._files import replaced_when_complete
from l5kit.configs.texts import parse_json, read_text
from l5kit.data.folder_lock import is_main_process
from l5kit.errors import MissingDependencyError
from l5kit.training.curve_table import CurveTable
from l5kit.training.folder import CURVES
from l5kit.training.lightning_parts import Logger, TensorBoardLogger, WandbLogger
from l5kit.training.state_file import ResumePoint
from l5kit.training.uploading import OnceMLFlowLogger, OnceWandbLogger, SentPoints

_TABLE = "metrics.csv"
_RUNS = "runs.json"

_MODULES = {"tensorboard": ("tensorboard",), "wandb": ("wandb",), "mlflow": ("mlflow",)}


def make_logger(kind: str, folder: Path, *, name: str, resumed: ResumePoint | None = None) -> Logger:
    """Return what writes curves; those of a training that is taken up again go on where it goes on.

    Args:
        kind: One of :data:`l5kit.configs.scaling.LOGGERS`.
        folder: Of the training.
        name: Of the training, for services that show several.
        resumed: Where a training goes on; None for a new one. Services go on with the run that the folder names, and
            get no point again that they were told after the last checkpoint.

    Raises:
        MissingDependencyError: The library for this kind is not there.
    """
    for module in _MODULES.get(kind, ()):
        if find_spec(module) is None:
            raise MissingDependencyError(
                f"train_params.logger is {kind!r}, and {module} is not installed: pip install {module}, or take 'csv'"
            )
    service = os.environ.get("MLFLOW_TRACKING_URI")
    if kind == "mlflow" and not service and find_spec("sqlalchemy") is None:
        raise MissingDependencyError(
            "train_params.logger is 'mlflow', which keeps its runs in a database in the folder of the training, and "
            "sqlalchemy is not installed, which mlflow-skinny leaves out: pip install mlflow, or name a service by "
            "MLFLOW_TRACKING_URI"
        )
    if kind == "csv":
        return CurveTable(_folder_of_curves(folder) / _TABLE, resumed=resumed)
    if kind == "tensorboard":
        version = _folder_of_curves(folder).name
        return TensorBoardLogger(folder, name=CURVES, version=version, purge_step=resumed.step if resumed else None)

    # services go on with the run that the folder names: Weights & Biases takes a name of ours for it, MLflow gives one
    # as soon as it is asked, and keeps runs in a database in the folder where no variable of its own names a service
    runs, sent = _Runs(folder), SentPoints(folder / CURVES / f"{kind}.json")
    known = runs.of(kind)
    if kind == "wandb":
        run = known or runs.note(kind, uuid.uuid4().hex[:12])
        return OnceWandbLogger(sent=sent, name=name, project="l5kit", save_dir=folder, id=run, resume="allow")
    uri = service or f"sqlite:///{folder.absolute() / 'mlflow.db'}"
    logger = OnceMLFlowLogger(sent=sent, experiment_name="l5kit", run_name=name, tracking_uri=uri, run_id=known)
    if is_main_process() and known is None and logger.run_id is not None:
        runs.note(kind, logger.run_id)
    return logger


class _Runs:
    """The runs of services that show the curves of a training, by name of the service; a file in its folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CURVES / _RUNS
        self._runs: dict[str, str] = {}
        if self._path.is_file():
            stored = parse_json(read_text(self._path, called=_RUNS), called=str(self._path))
            if isinstance(stored, dict):
                self._runs = {str(kind): str(run) for kind, run in stored.items()}

    def of(self, kind: str) -> str | None:
        """Return the run that goes on, if there is one."""
        return self._runs.get(kind)

    def note(self, kind: str, run: str) -> str:
        """Remember a run."""
        self._runs[kind] = run
        if is_main_process():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with replaced_when_complete(self._path, argument="folder") as temporary:
                temporary.write_text(json.dumps(self._runs) + "\n", encoding="utf-8")
        return run


def _folder_of_curves(folder: Path) -> Path:
    """Return the folder of the curves of a training; earlier versions of l5kit made one more at each resume."""
    texts = [path.name.removeprefix("version_") for path in (folder / CURVES).glob("version_*")]
    return folder / CURVES / f"version_{max((int(text) for text in texts if text.isdecimal()), default=0)}"


def close_logger(logger: Logger) -> None:
    """End the run of a service, so that the next training of this process starts one of its own."""
    if isinstance(logger, WandbLogger):
        logger.experiment.finish()

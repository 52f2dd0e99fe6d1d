"""Curves of a training: the csv table, or the loggers of services, that they are written to."""

import csv
import io
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from l5kit._files import replaced_when_complete
from l5kit.configs.texts import parse_json, read_text
from l5kit.data.jobs.folder_lock import is_main_process
from l5kit.errors import CorruptedDataError, MissingDependencyError
from l5kit.training.folder import CURVES
from l5kit.training.lightning_parts import Logger, MLFlowLogger, TensorBoardLogger, WandbLogger, rank_zero_only
from l5kit.training.state_file import ResumePoint

_STEP = "step"
_SCORES = "val/"

_Row: TypeAlias = dict[str, str | float]
"""Row of the table by column: numbers, or their texts in the file."""

_TABLE = "metrics.csv"

_RUNS = "runs.json"

_MODULES = {"tensorboard": ("tensorboard",), "wandb": ("wandb",), "mlflow": ("mlflow",)}


class CurveTable(Logger):
    """Logger that appends each point of the curves as a row of a csv file, with columns sorted by name.

    Args:
        path: The file.
        resumed: Point at which a training resumes; later rows are dropped, as they will be computed again. None for a
            new training.

    Raises:
        CorruptedDataError: The file of a resumed training is not such a table.
    """

    def __init__(self, path: Path, *, resumed: ResumePoint | None) -> None:
        super().__init__()
        self._path = path
        self._columns: list[str] = []
        if resumed is not None:
            self._take_up(resumed)

    @property
    def name(self) -> str:
        """Name of the parent folder of all curves."""
        return self._path.parent.parent.name

    @property
    def version(self) -> str:
        """Name of the folder of the table."""
        return self._path.parent.name

    @property
    def log_dir(self) -> str:
        """Folder of the table."""
        return str(self._path.parent)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Append a row."""
        row: _Row = {**{name: float(value) for name, value in metrics.items()}, _STEP: step or 0}
        # a new curve adds a column, for which the whole table is written again
        if not row.keys() <= set(self._columns):
            self._write([*self._rows(), row], sorted({*self._columns, *row}))
            return
        with self._path.open("a", encoding="utf-8", newline="") as file:
            file.write(_as_lines([row], self._columns))

    def log_hyperparams(self, params: object, *_: object, **__: object) -> None:
        """Do nothing: the configuration is next to the table."""

    @rank_zero_only
    def _take_up(self, resumed: ResumePoint) -> None:
        if self._path.is_file():
            self._columns = next(iter(self._cells_of(self._whole_lines())), [])
            if self._columns and _STEP not in self._columns:
                raise self._damaged(f"it has no column {_STEP!r}")
        rows = self._rows()
        try:
            steps = [int(row[_STEP]) for row in rows]
        except ValueError as error:
            raise self._damaged(f"a step is not a whole number ({error})") from error

        # Keep rows before the resume point; steps in rows count from 0. A step is evaluated after its checkpoint, so a
        # state may include the step but not its scores: these will be computed again.
        kept = []
        for row, step in zip(rows, steps, strict=True):
            is_evaluation = any(name.startswith(_SCORES) and value for name, value in row.items())
            is_last = is_evaluation and step + 1 == resumed.step
            if resumed.evaluated_step == resumed.step if is_last else step < resumed.step:
                kept.append(row)
        self._write(kept, self._columns)

    def _rows(self) -> list[_Row]:
        """Return all complete rows."""
        if not self._path.is_file():
            return []
        lines = self._cells_of(self._whole_lines())
        columns = next(lines, [])
        rows: list[_Row] = []
        for cells in lines:
            if len(cells) > len(columns):
                raise self._damaged(f"a line has {len(cells)} cells, and there are {len(columns)} columns")
            rows.append(dict(zip(columns, cells, strict=False)))
        return [row for row in rows if row.get(_STEP)]

    def _whole_lines(self) -> str:
        """Return the complete lines; a killed process may leave a truncated last line."""
        try:
            text = self._path.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise self._damaged("it is not UTF-8 text") from error
        return text[: text.rfind("\n") + 1]

    def _cells_of(self, text: str) -> Iterator[list[str]]:
        """Yield the cells of each line."""
        try:
            yield from csv.reader(io.StringIO(text))
        except csv.Error as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, why: str) -> CorruptedDataError:
        return CorruptedDataError(
            f"{self._path} is not a table of curves: {why}; put another copy in its place, or remove it to begin a new "
            "one"
        )

    def _write(self, rows: list[_Row], columns: list[str]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._columns = columns
        head = _as_lines([dict(zip(columns, columns, strict=True))], columns) if columns else ""
        with replaced_when_complete(self._path, argument="folder") as temporary:
            temporary.write_text(head + _as_lines(rows, columns), encoding="utf-8", newline="")


def _as_lines(rows: list[_Row], columns: list[str]) -> str:
    text = io.StringIO()
    csv.DictWriter(text, columns, lineterminator="\n").writerows(rows)
    return text.getvalue()


class SentPoints:
    """Record of the points sent to a service, in a file: the last step of each curve.

    Services cannot drop points after the last checkpoint. A resumed training computes the same points again, and these
    are not sent twice.

    Args:
        path: The file; its content on opening is from earlier processes.

    Attributes:
        before: Last step of each curve sent by earlier processes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        stored = parse_json(read_text(path, called=path.name), called=str(path)) if path.is_file() else None
        self.before = {str(name): int(at) for name, at in stored.items()} if isinstance(stored, dict) else {}
        self._steps = dict(self.before)

    def note(self, metrics: Mapping[str, float], step: int) -> None:
        """Record values that were sent for a step."""
        self._steps |= {name: max(step, self._steps.get(name, -1)) for name in metrics}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_when_complete(self._path, argument="folder") as temporary:
            temporary.write_text(json.dumps(self._steps) + "\n", encoding="utf-8")


class _SendsOnce(Logger):
    """Base of service loggers that send each point only once."""

    def __init__(self, *, sent: SentPoints, **options: Any) -> None:
        super().__init__(**options)
        self._sent = sent

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Send the new values of a step."""
        before = self._sent.before
        new = {name: value for name, value in metrics.items() if (step or 0) > before.get(name, -1)}
        if new:
            super().log_metrics(new, step)  # type: ignore[safe-super]
            self._sent.note(new, step or 0)


class OnceWandbLogger(_SendsOnce, WandbLogger):
    """Weights & Biases logger that sends each point only once.

    Args:
        sent: Record of sent points.
        **options: Options of Lightning's logger.
    """


class OnceMLFlowLogger(_SendsOnce, MLFlowLogger):
    """MLflow logger that sends each point only once.

    Args:
        sent: Record of sent points.
        **options: Options of Lightning's logger.
    """


def make_logger(kind: str, folder: Path, *, name: str, resumed: ResumePoint | None = None) -> Logger:
    """Return the logger for curves; a resumed training continues its curves.

    Args:
        kind: One of :data:`l5kit.configs.scaling.LOGGERS`.
        folder: Folder of the training.
        name: Name of the training, for services that show several.
        resumed: Point at which a training resumes; None for a new one. Services continue the run recorded in the
            folder, and do not get points again that were sent after the last checkpoint.

    Raises:
        MissingDependencyError: The library for this kind is not installed.
    """
    for module in _MODULES.get(kind, ()):
        if find_spec(module) is None:
            raise MissingDependencyError(
                f"train_params.logger is {kind!r}, but {module} is not installed: pip install {module}, or use 'csv'"
            )
    service = os.environ.get("MLFLOW_TRACKING_URI")
    if kind == "mlflow" and not service and find_spec("sqlalchemy") is None:
        raise MissingDependencyError(
            "train_params.logger is 'mlflow', which keeps its runs in a database in the folder of the training, but "
            "sqlalchemy, which is not part of mlflow-skinny, is not installed: pip install mlflow, or set "
            "MLFLOW_TRACKING_URI to a service"
        )
    if kind == "csv":
        return CurveTable(_folder_of_curves(folder) / _TABLE, resumed=resumed)
    if kind == "tensorboard":
        version = _folder_of_curves(folder).name
        return TensorBoardLogger(folder, name=CURVES, version=version, purge_step=resumed.step if resumed else None)

    # Services continue the run recorded in the folder. For Weights & Biases the run id is chosen here; MLflow assigns
    # one on first use, and stores runs in a database in the folder unless its environment variable names a service.
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
    """Run ids of services that show the curves of a training, by service, in a file in its folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CURVES / _RUNS
        self._runs: dict[str, str] = {}
        if self._path.is_file():
            stored = parse_json(read_text(self._path, called=_RUNS), called=str(self._path))
            if isinstance(stored, dict):
                self._runs = {str(kind): str(run) for kind, run in stored.items()}

    def of(self, kind: str) -> str | None:
        """Return the run to continue; None if there is none."""
        return self._runs.get(kind)

    def note(self, kind: str, run: str) -> str:
        """Record a run."""
        self._runs[kind] = run
        if is_main_process():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with replaced_when_complete(self._path, argument="folder") as temporary:
                temporary.write_text(json.dumps(self._runs) + "\n", encoding="utf-8")
        return run


def _folder_of_curves(folder: Path) -> Path:
    """Return the folder of the curves of a training; earlier versions of l5kit added one for each resume."""
    texts = [path.name.removeprefix("version_") for path in (folder / CURVES).glob("version_*")]
    return folder / CURVES / f"version_{max((int(text) for text in texts if text.isdecimal()), default=0)}"

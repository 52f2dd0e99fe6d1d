"""Sweeps: trainings that differ in a few keys, one after the other, with a common table of results."""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from l5kit._files import clear_leftovers_in, replaced_when_complete
from l5kit._types import JsonObject
from l5kit.configs.config import save_config_data
from l5kit.configs.known_keys import check_known_keys
from l5kit.configs.sweeps import SEED, SweepRun, plan_sweep, seeds_from
from l5kit.configs.texts import parse_json, read_text
from l5kit.configs.training import TrainingParams
from l5kit.data.jobs.folder_lock import hold_folder, require_unused
from l5kit.errors import ConfigError, InvalidArgumentError, L5KitError, is_termination
from l5kit.training.folder import CONFIG_FILE, RESULT_FILE
from l5kit.training.run import train

TABLE_FILE: Final = "table.csv"

_FACTS = ("num_steps", "minutes", "best_step", "best_score", "best_by")
"""Keys of ``result.json`` that are columns, in addition to the scores."""

SWEEP_FILE: Final = "sweep.json"
"""File of the definition of a sweep: the common configuration, and the values of each training."""

_GIVEN = ".given.yaml"


@dataclass(frozen=True)
class SweepRow:
    """Training of a sweep and its result.

    Attributes:
        run: Name of its folder.
        status: Whether it is done, failed or waiting.
        values: Values of the swept keys, by path.
        result: Content of ``result.json``; empty if missing.
        error: Reason of a failure; empty without one.
    """

    run: str
    status: Literal["done", "failed", "waiting"]
    values: Mapping[str, object]
    result: Mapping[str, object] = field(default_factory=dict, repr=False)
    error: str = ""

    def as_dict(self) -> dict[str, object]:
        """Return the cells of the row by column."""
        scores = self.result.get("scores")
        return {
            "run": self.run,
            "status": self.status,
            **self.values,
            **{name: self.result.get(name) for name in _FACTS},
            **(scores if isinstance(scores, Mapping) else {}),
            "error": self.error,
        }


def write_table(rows: Sequence[SweepRow], path: Path) -> None:
    """Write the rows as a csv file, atomically; missing cells are empty, lists are JSON."""
    # columns in order of first appearance; rows may lack some scores
    columns = dict.fromkeys(name for row in rows for name in row.as_dict() if name != "error")
    text = io.StringIO()
    writer = csv.DictWriter(text, [*columns, "error"], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = row.as_dict().items()
        writer.writerow({name: json.dumps(x) if isinstance(x, (list, dict, bool)) else x for name, x in cells})
    with replaced_when_complete(path, argument="folder") as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8", newline="")


@dataclass(frozen=True)
class SweepResult:
    """Result of a sweep.

    Attributes:
        folder: Parent folder of the trainings, one subfolder each.
        table: The csv file with all rows.
        rows: Result of each training.
    """

    folder: Path
    table: Path
    rows: tuple[SweepRow, ...]

    @property
    def num_failed(self) -> int:
        """Number of trainings that ended with an error."""
        return sum(row.status == "failed" for row in self.rows)


def sweep(
    cfg: JsonObject,
    folder: str | os.PathLike[str],
    values: Mapping[str, Sequence[object]],
    *,
    num_seeds: int | None = None,
    data_folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    tell: Callable[[str], None] = print,
    show_bar: bool = True,
) -> SweepResult:
    """Train a network for each combination of values.

    An error of one training is reported in its row, and the others continue. Trainings on several devices run in a
    separate process of ``l5kit train``.

    Args:
        cfg: The common configuration.
        folder: Output folder; new or empty, unless ``resume``. Each training gets a subfolder, as written by
            :func:`train`, and a row in ``table.csv``.
        values: Values of keys by path, such as ``{"train_params.learning_rate": [1e-3, 1e-4]}``.
        num_seeds: Trainings of each combination, with ``train_params.seed`` from the configured one on; None for one.
        data_folder: As in :func:`train`.
        resume: Continue the sweep in the folder: finished trainings are not repeated, killed or failed ones are
            resumed.
        tell: Function called with each human-readable line of progress.
        show_bar: Whether a bar is shown, if standard error is a terminal.

    Raises:
        ConfigError: Keys are unknown, or have no values; the folder has another sweep, or this process is one of
            several.
        FileNotFoundError: There is nothing to resume.
        InvalidArgumentError: The folder holds files, or another process writes to it.
        KeyboardInterrupt: Ctrl-C; the table has all finished trainings.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("a sweep starts its trainings itself, one after the other; call it once, without torchrun")
    target = Path(os.path.abspath(folder))  # user code may change the working directory
    if num_seeds is not None:
        if SEED in values:
            raise ConfigError(f"{SEED}: it is swept, and a number of seeds is given; leave one of them out")
        if num_seeds < 1:
            raise InvalidArgumentError(f"num_seeds is {num_seeds}; it must be at least 1")
        values = {**values, SEED: seeds_from(cfg, num_seeds)}
    runs = plan_sweep(cfg, values)
    check_known_keys(runs[0].cfg)
    with hold_folder(target, may_make=not resume):
        # a new folder gets the definition of the sweep; an existing one must have the same
        file = target / SWEEP_FILE
        planned = {"config": cfg, "runs": {run.name: run.values for run in runs}}
        text = json.dumps(planned, indent=2, default=str)
        if not resume:
            require_unused(target)
            target.mkdir(parents=True, exist_ok=True)
            with replaced_when_complete(file, argument="folder") as temporary:
                temporary.write_text(text + "\n", encoding="utf-8")
        elif not file.is_file():
            raise FileNotFoundError(f"there is no {file} to resume from; start without resume")
        else:
            clear_leftovers_in(target)
            if parse_json(read_text(file, called=SWEEP_FILE), called=str(file)) != json.loads(text):
                raise ConfigError(
                    f"the sweep in {target} has another configuration or other values than the one to resume, see "
                    f"{file}; start a new one in another folder"
                )
        # the table has all rows after the first training, and is written after each, however the sweep ends
        rows = [SweepRow(run.name, "waiting", run.values, _result_of(target / run.name)) for run in runs]
        for number, run in enumerate(runs):
            if not rows[number].result:
                tell(f"training {number + 1} of {len(runs)}: {run.name}")
            rows[number] = _done(run, target / run.name, data_folder, tell=tell, show_bar=show_bar)
            if rows[number].error:
                tell(f"{run.name} failed: {rows[number].error}")
            write_table(rows, target / TABLE_FILE)
    return SweepResult(target, target / TABLE_FILE, tuple(rows))


def _done(
    run: SweepRun,
    folder: Path,
    data_folder: str | os.PathLike[str] | None,
    *,
    tell: Callable[[str], None],
    show_bar: bool,
) -> SweepRow:
    """Return the row of a training, after running it unless it is finished."""
    result = _result_of(folder)
    if not result:
        try:
            # a training on several devices would start copies of this process, which would all run the sweep
            params = TrainingParams.from_cfg(run.cfg)
            if params.scaling.num_nodes > 1:
                raise ConfigError(
                    "train_params.num_nodes: sweeps are trained on one machine; start the trainings one by one"
                )
            if params.run.devices != 1:
                _train_apart(run.cfg, folder, data_folder, tell=tell)
            else:
                resume = (folder / CONFIG_FILE).is_file()
                train(run.cfg, folder, data_folder=data_folder, resume=resume, tell=tell, show_bar=show_bar)
        except (Exception, SystemExit) as error:  # errors of one training must not stop the others
            if is_termination(error):
                raise
            lines = str(error).strip().splitlines() or ["no message"]
            return SweepRow(run.name, "failed", run.values, error=f"{type(error).__name__}: {lines[0]}")
        result = _result_of(folder)
    return SweepRow(run.name, "done", run.values, result)


def _result_of(folder: Path) -> JsonObject:
    """Return the result of a training; empty if it is not finished."""
    file = folder / RESULT_FILE
    if not file.is_file():
        return {}
    stored = parse_json(read_text(file, called=RESULT_FILE), called=str(file))
    return stored if isinstance(stored, dict) else {}


def _train_apart(
    cfg: JsonObject, folder: Path, data_folder: str | os.PathLike[str] | None, *, tell: Callable[[str], None]
) -> None:
    """Train in a separate process."""
    given = folder.with_name(f"{folder.name}{_GIVEN}")
    save_config_data(cfg, str(given))
    call = [sys.executable, "-m", "l5kit.cli", "train", str(given), "--out", str(folder), "--json"]
    call += [] if data_folder is None else ["--data", os.fspath(data_folder)]
    call += ["--resume"] if (folder / CONFIG_FILE).is_file() else []
    # its last line is the error, which goes into the row
    last = ""
    try:
        with subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr or ():
                last = line.rstrip() or last
                tell(line.rstrip())
        if process.returncode != 0:
            raise L5KitError(f"{last or 'the training'} (exit status {process.returncode})")
    finally:
        given.unlink(missing_ok=True)

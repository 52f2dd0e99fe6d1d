"""Run folder of a driver training: checkpoints, evaluations, and the check whether the training can be resumed.

Each file is either complete or missing, whenever a process ends. A checkpoint is a zip file of stable-baselines3 with
the network, its optimiser and all other state of the training, so that all of it belongs to the same step.
"""

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import load_from_zip_file

from l5kit._files import clear_leftovers_in, replaced_when_complete, write_json
from l5kit._types import Config, JsonObject
from l5kit.configs.config import load_config_data, save_config_data
from l5kit.data.jobs.folder_lock import hold_folder, require_unused
from l5kit.data.jobs.receipts import RECEIPT_FILE, finish_output
from l5kit.data.unpack_limits import USUAL_LIMITS
from l5kit.errors import ConfigError, InvalidArgumentError

_FREE_KEYS: Final = (
    *("total_steps", "minutes", "eval_every_steps", "checkpoint_every_steps", "keep_checkpoints", "num_threads"),
    "environment_threads",
)
"""Keys of ``rl_params`` that may change when a training is resumed."""

_LARGE: Final = ("_last_obs", "_last_original_obs")
"""Last observations, which are computed again when a training is resumed."""

_ENTRIES: Final = ("data", "policy.pth", "policy.optimizer.pth")
"""Members that the file of an algorithm must have."""

_CHECKPOINT: Final = re.compile(r"step_(\d+)\.zip")


class RunFolder:
    """Files of a training in its folder.

    Args:
        path: The folder.

    Attributes:
        path: The folder.
        config: The given configuration.
        driver: The policy at the end.
        first: The policy before the first step.
        best: The policy with the best evaluation.
        curves: Folder of the TensorBoard events.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.config, self.curves = path, path / "config.yaml", path / "curves"
        self.driver, self.first, self.best = (path / f"{name}.zip" for name in ("driver", "first", "best"))
        self._checkpoints, self._evaluations = path / "checkpoints", path / "evaluations.csv"

    def prepare(self, cfg: Config, *, resume: bool) -> None:
        """Check that a training can start or resume in this folder, and remove leftovers of killed processes.

        Raises:
            InvalidArgumentError: A new training is to be written to a folder that holds files.
            FileNotFoundError: There is nothing to resume.
            ConfigError: The folder has another training.
        """
        if self.path.is_dir():
            for folder in (self.path, self._checkpoints):
                clear_leftovers_in(folder)
        if resume:
            if not self.config.is_file():
                raise FileNotFoundError(f"there is no {self.config}, thus no training to resume; leave out resume")
            _require_same_training(cfg, load_config_data(str(self.config)))
        else:
            require_unused(self.path)

    def write_config(self, cfg: JsonObject) -> None:
        """Write the configuration into the claimed folder, and remove the receipt of a finished training."""
        (self.path / RECEIPT_FILE).unlink(missing_ok=True)
        save_config_data(cfg, str(self.config))

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Create the folder, and keep other processes from training into it.

        Raises:
            InvalidArgumentError: Another process does so.
        """
        self._checkpoints.mkdir(parents=True, exist_ok=True)
        try:
            with hold_folder(self.path, may_make=True):
                yield
        finally:
            self._remove_if_empty()

    @contextmanager
    def unmade_by_errors(self) -> Iterator[None]:
        """Undo :meth:`write_config` after an error, so that the folder can be used again."""
        try:
            yield
        except BaseException:
            self.config.unlink(missing_ok=True)
            self._remove_if_empty()
            raise

    def _remove_if_empty(self) -> None:
        for folder in (self._checkpoints, self.path):
            with suppress(OSError):  # not empty
                folder.rmdir()

    def checkpoints(self) -> dict[int, Path]:
        """Return the checkpoints by step, ascending."""
        files = self._checkpoints.glob("*.zip")
        by_step = {int(match[1]): path for path in files if (match := _CHECKPOINT.fullmatch(path.name))}
        return dict(sorted(by_step.items()))

    def read_last(self, attribute: str) -> JsonObject:
        """Return an attribute in the last checkpoint; empty if there is none.

        Raises:
            InvalidArgumentError: The checkpoint is broken.
        """
        checkpoints = list(self.checkpoints().values())
        if not checkpoints:
            return {}
        data, _, _ = load_from_zip_file(require_whole(checkpoints[-1]))
        held: JsonObject = (data or {}).get(attribute, {})
        return held

    def save_checkpoint(self, model: BaseAlgorithm, *, keep: int) -> None:
        """Write a checkpoint, and remove all but the last ``keep`` ones."""
        save_model(model, self._checkpoints / f"step_{model.num_timesteps:012d}.zip")
        for path in list(self.checkpoints().values())[:-keep]:
            path.unlink(missing_ok=True)

    def read_evaluations(self, *, until_step: int) -> list[dict[str, float]]:
        """Return the evaluations up to a step, each with its ``step``."""
        if not self._evaluations.is_file():
            return []
        rows = csv.DictReader(io.StringIO(self._evaluations.read_text("utf-8")))
        parsed = [{name: float(text) for name, text in row.items() if text} for row in rows]
        return [{**row, "step": int(row["step"])} for row in parsed if row["step"] <= until_step]

    def write_evaluations(self, rows: list[dict[str, float]]) -> None:
        """Write all evaluations."""
        text = io.StringIO()
        columns = dict.fromkeys(name for row in rows for name in row)
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        with replaced_when_complete(self._evaluations, argument="folder") as temporary:
            temporary.write_text(text.getvalue(), encoding="utf-8", newline="")

    def write_result(self, facts: Mapping[str, object]) -> None:
        """Write ``result.json``, then the receipt, which marks the training as finished."""
        write_json(self.path / "result.json", facts)
        finish_output(self.path, "train-rl", (self.config.name, self.driver.name, "result.json"))


def save_model(model: BaseAlgorithm, path: Path) -> None:
    """Write an algorithm of stable-baselines3 to a zip file, atomically."""
    with replaced_when_complete(path, argument="folder") as temporary:
        model.save(temporary, exclude=_LARGE)


def require_whole(path: Path) -> Path:
    """Return the path of the zip file of an algorithm after checking that it is complete.

    A truncated file can pass for a complete one, as the zip file of its weights is stored inside of it.

    Raises:
        InvalidArgumentError: It is broken.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            USUAL_LIMITS.require_readable(archive)
            missing = [name for name in _ENTRIES if name not in archive.namelist()]
            broken = f"it has no {missing[0]}" if missing else archive.testzip()
    except (zipfile.BadZipFile, OSError) as error:
        broken = str(error)
    if broken:
        raise InvalidArgumentError(f"{path} is broken ({broken}); remove it to resume from the previous checkpoint")
    return path


def _require_same_training(given: Config, stored: Config) -> None:
    """Raise if environment, network or algorithm differ from those of the stored training."""
    for section in dict.fromkeys([*stored, *given]):
        now, before = (
            {name: value for name, value in cfg.get(section, {}).items() if name not in _FREE_KEYS}
            if section == "rl_params"
            else cfg.get(section)
            for cfg in (given, stored)
        )
        if now != before:
            raise ConfigError(
                f"{section}: {now!r} differs from {before!r} of the training to resume; start a new one in "
                "another folder"
            )

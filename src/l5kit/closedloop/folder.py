"""Folder of a simulation: ownership, description of the run, resuming, and result."""

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from l5kit._files import clear_leftovers, remove_whole, write_json
from l5kit._types import JsonObject
from l5kit.closedloop.options import with_option
from l5kit.closedloop.parts import PART_PATHS, PARTS_FOLDER
from l5kit.closedloop.scenes import FailedScene
from l5kit.closedloop.tables import scene_columns_of
from l5kit.data.jobs.folder_lock import held_alone
from l5kit.data.jobs.owned_outputs import LOG_FILES, OutputKind, holds_keys, require_own_folder
from l5kit.data.jobs.receipts import RECEIPT_FILE, digest_of_json, find_loss
from l5kit.data.texts import as_unicode
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.driving.scene_score import read_facts
from l5kit.simulation.folder.simulation_folder import (
    DRIVEN_LOG,
    FRAMES_TABLE,
    PLANS_FILE,
    RUN_FILE,
    SCENES_TABLE,
    SCORES_FILE,
    read_object,
)

_LOCK: Final = "owner.lock"
FINISHED: Final = (
    *(SCORES_FILE, SCENES_TABLE, FRAMES_TABLE, "scenes.parquet", "frames.parquet", DRIVEN_LOG, PLANS_FILE),
)
"""Files of a complete simulation; the receipt covers these."""

_FILES: Final = (RECEIPT_FILE, *FINISHED, RUN_FILE)
"""Files that a simulation writes, in the order of their removal."""

_COMPARED: Final = ("l5kit", "planner", "fallback", "agents", "scored_by", "options", "digests")
_NOT_COMPARED: Final = "configuration"
"""A digest that summarizes others, so it is not compared."""


def _is_marked(folder: Path) -> bool:
    """Return whether a folder describes its simulation, or was left by a run killed before it could."""
    if holds_keys(folder / RUN_FILE, {"l5kit", "planner", "agents", "options"}):
        return True
    left = {entry.name for entry in folder.iterdir() if not entry.name.startswith(f".{RUN_FILE}.")}
    parts = folder / PARTS_FOLDER
    return left <= {PARTS_FOLDER} and (not parts.is_dir() or all(each.name == _LOCK for each in parts.iterdir()))


_SIMULATION: Final = OutputKind(
    "a simulation",
    _is_marked,
    rf"{'|'.join(re.escape(name) for name in _FILES)}|{re.escape(DRIVEN_LOG)}/{LOG_FILES}"
    rf"|{PARTS_FOLDER}/(?:{re.escape(_LOCK)}|{PART_PATHS})",
)


def require_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that is not for simulations.

    Raises:
        InvalidArgumentError: It is a file or a dataset, or holds files but no simulation. With ``overwrite``, foreign
            files anywhere in a simulation are refused, too; without, only those in the folder of parts, which is
            removed at the end.
    """
    if as_unicode(str(folder)) != str(folder):
        raise InvalidArgumentError(f"folder is {str(folder)!r}, whose name is not valid text; choose another folder")
    # refuse a dataset of `l5kit synth`, a zarr group, and any folder in a zarr group
    path = folder.resolve()
    is_in_group = any((each / mark).is_file() for each in (path, *path.parents) for mark in (".zgroup", "zarr.json"))
    if is_in_group or ((path / "meta.json").is_file() and (path / "scenes").is_dir()):
        raise InvalidArgumentError(f"folder is {str(folder)!r}, a dataset or part of one; choose another folder")
    if overwrite or not folder.is_dir() or not _is_marked(folder):
        require_own_folder(folder.resolve(), _SIMULATION, argument="folder")
        return
    foreign = next(_SIMULATION.foreign_in(folder, within=PARTS_FOLDER), None)
    if foreign is not None:
        raise InvalidArgumentError(
            f"folder is {str(folder)!r}, whose subfolder {PARTS_FOLDER} is removed when a simulation completes, but it "
            f"holds {foreign!r}; move that away, or choose another folder"
        )


def is_complete(folder: Path) -> bool:
    """Return whether a simulation has its receipt and all its files are unchanged."""
    return find_loss(folder) is None and holds_scores(read_object(folder / SCORES_FILE))


def holds_scores(scores: JsonObject) -> bool:
    """Return whether the content of ``scores.json`` is from a simulation."""
    files = scores.get("files")
    has_files = isinstance(files, dict) and {"log", "map", "meta"} <= files.keys()
    wanted = {"score", "scenes", "metrics", "totals", "scenes_failing", "failed", "agents", "planner"}
    return has_files and wanted <= scores.keys()


@contextmanager
def claimed(
    folder: Path, run: Mapping[str, object], *, inputs: Iterable[Path | None], overwrite: bool
) -> Iterator[Path]:
    """Lock a simulation folder and yield its folder of parts, which is removed at the end unless an error occurs.

    Args:
        folder: Folder of the simulation, created if missing.
        run: Description of the run.
        inputs: Files and folders that the run reads.
        overwrite: Whether to remove another simulation in the folder.

    Raises:
        InvalidArgumentError: Another process is simulating into the folder; it holds another simulation (the message
            lists the differences); or an input is an output of the simulation, or lies in one.
    """
    # never remove or overwrite an input
    written = [(folder / name).resolve() for name in (*_FILES, PARTS_FOLDER)]
    for path in inputs:
        if path is not None and any(path.resolve().is_relative_to(target) for target in written):
            raise InvalidArgumentError(
                f"folder is {str(folder)!r}, but writing there would overwrite the input {str(path)!r}; choose another "
                "folder"
            )
    require_folder(folder, overwrite=overwrite)
    parts = folder / PARTS_FOLDER
    was_there = parts.is_dir()
    parts.mkdir(parents=True, exist_ok=True)
    busy = f"folder is {str(folder)!r}, which another process is writing; wait for it, or choose another folder"
    # Remove the parts if the run completes, or if it is refused and they are new. Keep them if another process holds
    # the lock, or if the run is interrupted, to resume from them.
    is_kept = True
    try:
        with held_alone(parts / _LOCK, busy):
            is_kept = was_there
            _take_over(folder, run, overwrite=overwrite)
            is_kept = True
            yield parts
            is_kept = False
    finally:
        if not is_kept:
            remove_whole(parts)


def _take_over(folder: Path, run: Mapping[str, object], *, overwrite: bool) -> None:
    """Make sure that the contents of the folder belong to this run, and write its description."""
    for name in (*_FILES, PARTS_FOLDER):
        clear_leftovers(folder / name)
    if overwrite:
        # remove only files of simulations; the lock, which is held, stays in the folder of parts
        for entry in (folder / PARTS_FOLDER).glob("[0-9]*"):
            remove_whole(entry)
        for name in _FILES:
            path = folder / name
            if path.is_dir():
                remove_whole(path)
            else:
                path.unlink(missing_ok=True)
    elif (folder / RUN_FILE).is_file():
        before = read_object(folder / RUN_FILE)
        differences = _differences(before, json.loads(json.dumps(run)))
        if differences:
            raise InvalidArgumentError(
                f"folder is {str(folder)!r}, which holds another simulation: {'; '.join(differences)}; choose another "
                "folder, or replace it (--overwrite)"
            )
    write_json(folder / RUN_FILE, run, allow_nan=False)


def _differences(before: JsonObject, now: JsonObject) -> list[str]:
    """Return descriptions of the differences between two runs."""
    differences = []
    for name in _COMPARED:
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            keys = [key for key in {**old, **new} if old.get(key) != new.get(key) and key != _NOT_COMPARED]
            titles = [f"the digest of the {key}" if name == "digests" else with_option(key) for key in keys]
            differences += [
                f"{title} was {_short(old.get(key))} and is {_short(new.get(key))}"
                for key, title in zip(keys, titles, strict=True)
            ]
        elif old != new:
            differences.append(f"{with_option(name)} was {_short(old)} and is {_short(new)}")
    return differences


def digest_of_run(run: Mapping[str, object]) -> str:
    """Return the digest of everything that distinguishes runs."""
    compared = json.loads(json.dumps({name: run[name] for name in _COMPARED if name in run}))
    compared["digests"].pop(_NOT_COMPARED, None)
    return digest_of_json(compared)


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."


_TYPES = {"int": int, "id": int, "float": float, "bool": int, "text": str}


@dataclass(frozen=True)
class ClosedLoopResult:
    """The result of a simulation.

    Attributes:
        folder: Folder of its files.
        scores: Content of ``scores.json``.
        scenes_per_s: Scenes simulated and scored per second; None if all were finished before.
    """

    folder: Path
    scores: JsonObject = field(repr=False)
    scenes_per_s: float | None = None

    def __repr__(self) -> str:
        score = "no score" if self.score is None else f"score {self.score:.3f}"
        return f"<ClosedLoopResult {str(self.folder)!r}: {score}, {self.num_scenes} scenes, {len(self.failed)} failed>"

    @property
    def score(self) -> float | None:
        """Mean score of the scenes, 0 to 1; None if none was scored."""
        score: float | None = self.scores["score"]
        return score

    @property
    def num_scenes(self) -> int:
        """Number of scored scenes."""
        return int(self.scores["scenes"])

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Means of the metrics by name; None for a metric that applies to no scene."""
        metrics: Mapping[str, float | None] = self.scores["metrics"]
        return metrics

    @property
    def about_metrics(self) -> tuple[MetricFacts, ...]:
        """The measured metrics, in the order of the tables."""
        return read_facts(self.scores)

    @property
    def failed(self) -> tuple[FailedScene, ...]:
        """Scenes that could not be simulated or scored, with the reasons."""
        return tuple(FailedScene(**each) for each in self.scores["failed"])

    @property
    def unscored(self) -> Mapping[int, str]:
        """Reasons of scenes without a score: the AV moves neither here nor in the log, or there are too few frames."""
        return {each["scene"]: each["message"] for each in self.scores.get("unscored", [])}

    @property
    def fallback_share(self) -> float | None:
        """Share of all steps that the fallback drove, 0 to 1; None without a fallback."""
        steps = self.scores.get("driven_by")
        return None if steps is None else float(steps["fallback"] / (steps["planner"] + steps["fallback"]))

    @property
    def is_without_map(self) -> bool:
        """Whether the scores lack the metrics that need a map."""
        return bool(self.scores.get("without_map", False))

    @property
    def driven_log(self) -> Path:
        """Path of the driven scenes, a dataset."""
        return self.folder / DRIVEN_LOG

    @property
    def frames_table(self) -> Path:
        """Path of the frames table, CSV."""
        return self.folder / FRAMES_TABLE

    @property
    def plans(self) -> Path:
        """Path of the plans, an archive of ``times_s`` (T,) and, for each scene, ``scene_N`` (F, T, 3)."""
        return self.folder / PLANS_FILE

    def scenes(self) -> Iterator[JsonObject]:
        """Yield the rows of the scenes table with typed values, None for unknown ones."""
        columns = scene_columns_of(self.about_metrics)
        with (self.folder / SCENES_TABLE).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                yield {name: _TYPES[columns[name].kind](text) if text else None for name, text in row.items()}


def read_result(folder: str | os.PathLike[str], *, reads_all: bool = False) -> ClosedLoopResult:
    """Return the result of an earlier simulation.

    Args:
        folder: Folder of the simulation.
        reads_all: Compare the content of all files with the receipt, not only their sizes and the small files.

    Raises:
        InvalidArgumentError: The folder holds no complete simulation.
        CorruptedDataError: A file is missing or was changed; the message names it.
    """
    path = Path(folder)
    if not (path / SCORES_FILE).is_file():
        raise InvalidArgumentError(
            f"folder is {str(folder)!r}, which holds no complete simulation: there is no {SCORES_FILE}"
        )
    # simulations of older versions have no receipt and are judged by their scores alone
    loss = find_loss(path, reads_all=reads_all, needs_receipt=False)
    if loss is not None:
        raise CorruptedDataError(
            f"the simulation in {str(folder)!r} is damaged: {loss}; run it again to restore what is missing, or use "
            "another copy"
        )
    scores = read_object(path / SCORES_FILE)
    if not holds_scores(scores):
        raise InvalidArgumentError(f"folder is {str(folder)!r}, whose {SCORES_FILE} is not from a simulation")
    return ClosedLoopResult(path, scores)

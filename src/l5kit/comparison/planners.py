"""Planners that are compared: their names, and the runs of each."""

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np

from l5kit._types import Float64Array
from l5kit.comparison.scored_run import SceneKey, ScoredRun, read_run
from l5kit.errors import InvalidArgumentError

RunFolders: TypeAlias = (
    Sequence[str | os.PathLike[str]] | Mapping[str, str | os.PathLike[str] | Sequence[str | os.PathLike[str]]]
)
"""Folders of runs, or ``NAME=FOLDER,FOLDER`` for several seeds of a planner; or the folders of planners by name."""


@dataclass(frozen=True, eq=False)
class ComparedPlanner:
    """A planner and its runs, which differ by their seeds.

    Attributes:
        name: What it is called.
        runs: One or more.
    """

    name: str
    runs: tuple[ScoredRun, ...]

    def run_name(self, run: ScoredRun) -> str:
        """Return what one of the runs is called: the planner, and of several the folder, too."""
        return self.name if len(self.runs) == 1 else f"{self.name} ({run.path.name})"

    def failures(self, scene: SceneKey) -> str:
        """Return what fails in a scene, in any of the runs, in few words; empty where all is well."""
        parts = (part for run in self.runs for part in run.failures.get(scene, "").split(", "))
        return ", ".join(part for part in dict.fromkeys(parts) if part)

    @cached_property
    def rows_of_scenes(self) -> tuple[dict[SceneKey, int], ...]:
        """For each run the rows of its scenes."""
        return tuple({scene: row for row, scene in enumerate(run.scenes)} for run in self.runs)

    def seed_values(self, scenes: Sequence[SceneKey], metrics: Sequence[str]) -> Float64Array:
        """Return what each run has in scenes that all of them have, by metric, (runs, S, M)."""
        values = []
        for run, row_of in zip(self.runs, self.rows_of_scenes, strict=True):
            names = [metric.name for metric in run.metrics]
            columns = [names.index(name) for name in metrics]
            values.append(run.values[np.ix_([row_of[scene] for scene in scenes], columns)])
        return np.stack(values)


def read_planners(runs: RunFolders) -> tuple[ComparedPlanner, ...]:
    """Return planners with the scores of their runs.

    Folders without a name are called by their own, and by as many of those around it as tell them apart.

    Raises:
        InvalidArgumentError: There are fewer than two, a name or folder comes twice, or a folder holds no run.
        CorruptedDataError: A file of a run is missing or damaged.
    """
    folders: dict[str, list[Path]] = {}
    if isinstance(runs, Mapping):
        for name, given in runs.items():
            folders[name] = [Path(given)] if isinstance(given, (str, os.PathLike)) else [Path(each) for each in given]
    else:
        unnamed = [Path(os.path.abspath(each)) for each in runs if not _is_named(each)]

        # A folder without a name is called by its last parts, as many as tell it from the others.
        names = {}
        for path in unnamed:
            others = [other for other in unnamed if other != path]
            lengths = range(1, len(path.parts) + 1)
            fitting = (n for n in lengths if all(other.parts[-n:] != path.parts[-n:] for other in others))
            names[path] = "/".join(path.parts[-next(fitting, len(path.parts)) :])
        for each in runs:
            name, of_name = _split(str(each)) if _is_named(each) else (names[Path(os.path.abspath(each))], [Path(each)])
            if name in folders:
                raise InvalidArgumentError(f"runs has {name!r} twice; name each planner once, with all of its runs")
            folders[name] = of_name
    if len(folders) < 2:
        raise InvalidArgumentError(f"runs has {', '.join(folders) or 'nothing'}; name two planners or more to compare")

    # A folder that comes twice, also by another path, would count as two seeds, or be compared with itself.
    whose: dict[str, str] = {}
    for name, paths in folders.items():
        if not paths:
            raise InvalidArgumentError(f"runs has {name!r} without a folder; name one or more")
        for path in paths:
            real = os.path.realpath(path)
            if real in whose:
                raise InvalidArgumentError(
                    f"runs has the folder {str(path)!r} twice, of {whose[real]!r} and of {name!r}; a run is compared "
                    "with others, and counts as one seed"
                )
            whose[real] = name
    return tuple(ComparedPlanner(name, tuple(map(read_run, paths))) for name, paths in folders.items())


def _is_named(text: str | os.PathLike[str]) -> bool:
    return isinstance(text, str) and "=" in text and not os.path.isdir(text)


def _split(text: str) -> tuple[str, list[Path]]:
    """Return name and folders of ``NAME=FOLDER,FOLDER``; a pattern stands for the folders that it fits."""
    name, _, rest = text.partition("=")
    paths: list[Path] = []
    for part in filter(None, rest.split(",")):
        matches = sorted(glob.glob(part)) if glob.has_magic(part) and not os.path.exists(part) else [part]
        if not matches:
            raise InvalidArgumentError(f"runs has {text!r}, and no folder fits {part!r}; check it for spelling")
        paths += map(Path, matches)
    if not name or not paths:
        raise InvalidArgumentError(f"runs has {text!r}; write NAME=FOLDER,FOLDER, such as mine=runs/seed0,runs/seed1")
    return name, paths

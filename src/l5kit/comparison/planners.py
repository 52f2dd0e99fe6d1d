"""Planners to compare: their runs, the scenes and metrics common to all of them, and groups of scenes by tag."""

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.comparison.scored_run import SceneKey, ScoredRun, read_run
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.opened import open_maps
from l5kit.data.progress import show_progress
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.scene_tags.tag_scenes import tag_scenes
from l5kit.evaluation.scene_tags.tag_table import TAG_KINDS
from l5kit.visualization.viewer.log_tags import LogTags

RunFolders: TypeAlias = (
    Sequence[str | os.PathLike[str]] | Mapping[str, str | os.PathLike[str] | Sequence[str | os.PathLike[str]]]
)
"""Folders of runs, or ``NAME=FOLDER,FOLDER`` for several seeds of a planner; or the folders of planners by name."""

_MOST_LISTED: Final = 5


@dataclass(frozen=True, eq=False)
class ComparedPlanner:
    """A planner and its runs, which differ by their seeds.

    Attributes:
        name: Name of the planner.
        runs: One or more runs.
    """

    name: str
    runs: tuple[ScoredRun, ...]

    def failures(self, scene: SceneKey) -> str:
        """Return the failures of a scene over all runs, in a few words; empty if nothing failed."""
        parts = (part for run in self.runs for part in run.failures.get(scene, "").split(", "))
        return ", ".join(part for part in dict.fromkeys(parts) if part)

    def seed_values(self, scenes: Sequence[SceneKey], metrics: Sequence[str]) -> Float64Array:
        """Return the values of each run in scenes that all runs have, by metric, (runs, S, M)."""
        return np.stack([run.values[run.cells(scenes, metrics)] for run in self.runs])


def read_planners(runs: RunFolders) -> tuple[ComparedPlanner, ...]:
    """Return planners with the scores of their runs.

    Unnamed folders are called by their own name, preceded by parent folders as needed to be unique.

    Raises:
        InvalidArgumentError: There are fewer than two, a name or folder is repeated, or a folder holds no run.
        CorruptedDataError: A file of a run is missing or damaged.
    """
    folders: dict[str, list[Path]] = {}
    if isinstance(runs, Mapping):
        for name, given in runs.items():
            folders[name] = [Path(given)] if isinstance(given, (str, os.PathLike)) else [Path(each) for each in given]
    else:
        unnamed = [Path(os.path.abspath(each)) for each in runs if not _is_named(each)]

        # An unnamed folder is called by the shortest end of its path that is unique.
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

    # A repeated folder, even by another path, would count as two seeds or be compared with itself.
    planner_of: dict[str, str] = {}
    for name, paths in folders.items():
        if not paths:
            raise InvalidArgumentError(f"runs has {name!r} without a folder; name one or more")
        for path in paths:
            real = os.path.realpath(path)
            if real in planner_of:
                raise InvalidArgumentError(
                    f"runs has the folder {str(path)!r} twice, of {planner_of[real]!r} and of {name!r}; a run is "
                    "compared with others, and counts as one seed"
                )
            planner_of[real] = name
    return tuple(ComparedPlanner(name, tuple(map(read_run, paths))) for name, paths in folders.items())


def _is_named(text: str | os.PathLike[str]) -> bool:
    return isinstance(text, str) and "=" in text and not os.path.isdir(text)


def _split(text: str) -> tuple[str, list[Path]]:
    """Return name and folders of ``NAME=FOLDER,FOLDER``; a pattern is replaced by the folders that match."""
    name, _, rest = text.partition("=")
    paths: list[Path] = []
    for part in filter(None, rest.split(",")):
        matches = sorted(glob.glob(part)) if glob.has_magic(part) and not os.path.exists(part) else [part]
        if not matches:
            raise InvalidArgumentError(f"runs has {text!r}, and no folder fits {part!r}; check the spelling")
        paths += map(Path, matches)
    if not name or not paths:
        raise InvalidArgumentError(f"runs has {text!r}; write NAME=FOLDER,FOLDER, such as mine=runs/seed0,runs/seed1")
    return name, paths


class IncomparableError(InvalidArgumentError):
    """Error for runs with other data, another score or other scenes; the message names the difference."""


@dataclass(frozen=True)
class CommonScenes:
    """The scenes that all runs have.

    Attributes:
        scenes: The common scenes, ordered.
        num_left_out: Number of scenes that only some runs have.
        why: For each run that lacks scenes, how many and why, in words.
        differences: Properties that differ between runs and may matter, in words.
    """

    scenes: tuple[SceneKey, ...]
    num_left_out: int
    why: tuple[str, ...]
    differences: tuple[str, ...]


def find_common(planners: Sequence[ComparedPlanner]) -> CommonScenes:
    """Return the scenes that all runs of all planners have.

    Raises:
        IncomparableError: There is none, or runs differ in data, frames, score, or samples of a scene.
    """
    runs = [run for planner in planners for run in planner.runs]
    _require_same(runs)
    common = set(runs[0].scenes).intersection(*(run.scenes for run in runs[1:]))
    if not common:
        held = []
        for run in runs:
            indices, logs = [scene for _, scene in run.scenes], sorted({log for log, _ in run.scenes})
            bounds = f"{min(indices)} to {max(indices)}" if indices else "none with a score"
            held.append(f"{run.path} has {_count(len(indices))} of {', '.join(logs)}, {bounds}")
        raise IncomparableError(
            f"the runs have no scene in common: {'; '.join(held)}; compare runs over the same scenes"
        )
    scenes = tuple(sorted(common))

    # Runs with other samples in a scene, such as other agents, have means that are not comparable.
    counts = [run.counts[run.cells(scenes, [run.metrics[0].name])][:, 0] for run in runs]
    for run, of_run in zip(runs, counts, strict=True):
        differing = np.flatnonzero(of_run != counts[0])
        if len(differing):
            index = differing[0]
            raise IncomparableError(
                f"the runs are of other samples: scene {scenes[index][1]} has {counts[0][index]:.0f} of them in "
                f"{runs[0].path}, and {of_run[index]:.0f} in {run.path}; evaluate the same agents and frames"
            )
    everywhere = set().union(*(run.scenes for run in runs), *(run.failed for run in runs))
    why = []
    # a run is named after its planner, and if there are several also by its folder; no paths, as pages are shared
    named = [
        (planner.name if len(planner.runs) == 1 else f"{planner.name} ({run.path.name})", run)
        for planner in planners
        for run in planner.runs
    ]
    for name, run in named:
        lacking = sorted(everywhere - set(run.scenes))
        failed = [scene for scene in lacking if scene in run.failed]
        if len(lacking) > len(failed):
            why.append(f"{name} does not have {_count(len(lacking) - len(failed))}")
        if failed:
            log, scene = failed[0]
            first = f"scene {scene} of {log}: {' '.join(run.failed[failed[0]].split())}"
            why.append(f"{name} has no score of {_count(len(failed))}, first {first}")
    names = dict.fromkeys(name for run in runs for name in run.facts)
    differences = [
        f"not the same in all runs: {name} ({', '.join(sorted({run.facts.get(name, 'none') for run in runs}))})"
        for name in names
        if len({run.facts.get(name) for run in runs}) > 1
    ]
    return CommonScenes(scenes, len(everywhere) - len(scenes), tuple(why), tuple(differences))


def find_common_metrics(planners: Sequence[ComparedPlanner]) -> tuple[tuple[MetricFacts, ...], tuple[str, ...]]:
    """Return the metrics that all runs have, in the order of the first, and the names of those that some lack.

    Raises:
        IncomparableError: A metric that enters the score differs, or has another weight.
    """
    runs = [run for planner in planners for run in planner.runs]
    by_run = [{metric.name: metric for metric in run.metrics} for run in runs]
    # metrics that enter the score, and their weights, must agree; other metrics may be missing
    for name, metric in by_run[0].items():
        for run, of_run in zip(runs, by_run, strict=True):
            other = of_run.get(name)
            if metric.role is not None and (
                other is None or (other.role, other.of_score) != (metric.role, metric.of_score)
            ):
                role = "no part of it" if other is None or other.role is None else f"with {other.role}"
                raise IncomparableError(
                    f"the runs have other scores: {name} is in {runs[0].path} with {metric.role}, and in {run.path} "
                    f"{role}; score both in the same way"
                )
    everywhere = dict.fromkeys(name for of_run in by_run for name in of_run)
    common = [name for name in everywhere if len({of_run.get(name) for of_run in by_run}) == 1]
    return tuple(by_run[0][name] for name in common), tuple(name for name in everywhere if name not in common)


def _require_same(runs: Sequence[ScoredRun]) -> None:
    """Refuse runs of different kinds, and runs that differ in data, frames or score."""
    first, mismatches = runs[0], []
    for run in runs[1:]:
        if run.kind != first.kind:
            mismatches.append(f"{first.path} is {first.kind}, {run.path} is {run.kind}")
            continue
        mismatches += [
            f"{name}: {first.path} has {value}{_of_log(first, name)}, "
            f"{run.path} has {run.same[name]}{_of_log(run, name)}"
            for name, value in first.same.items()
            if run.same[name] != value
        ]
    if mismatches:
        more = f"; and {len(mismatches) - _MOST_LISTED} more" if len(mismatches) > _MOST_LISTED else ""
        raise IncomparableError(
            f"the runs cannot be compared: {'; '.join(mismatches[:_MOST_LISTED])}{more}; compare runs over the same "
            "data that are scored in the same way"
        )


def _of_log(run: ScoredRun, name: str) -> str:
    """Return the path of a run's log, to be shown after its digest."""
    return f" ({run.log})" if name == "data" and run.log is not None else ""


def _count(number: int) -> str:
    return f"{number:,} scene{'' if number == 1 else 's'}"


def find_groups(run: ScoredRun, scenes: Sequence[SceneKey], *, show_bar: bool) -> Mapping[str, BoolArray]:
    """Return which scenes have each tag, (S,) by the label of the tag, without tags that no scene has.

    Tags of a whole log are kept in the user's cache, shared with the viewer.

    Args:
        run: One of the runs, which knows the log.
        scenes: Scenes of the run.
        show_bar: Whether to show a progress bar, if standard error is a terminal.

    Raises:
        InvalidArgumentError: The log has been moved or deleted.
    """
    if run.log is None or not run.log.exists():
        raise InvalidArgumentError(
            f"tags need the log of {run.path}, but {str(run.log)!r} does not exist; put it back, or "
            "compare without tags"
        )
    map_path, meta_path = (path if path is not None and path.is_file() else None for path in run.map_files)
    files = find_dataset_files(run.log, map_path=map_path, meta_path=meta_path)
    log, maps = ChunkedDataset(files.dataset).open(), open_maps(files)

    # tags of the whole log are cached, which pays off from half of its scenes on
    indices = [scene for _, scene in scenes]
    if 2 * len(indices) >= len(log.scenes):
        tags = LogTags(log, maps, lambda: None)
        tags.find()
        known = tags.since(0)
        if known["error"]:
            raise InvalidArgumentError(f"tags of {run.log} cannot be found: {known['error']}; compare without tags")
        has = {
            kind.name: np.array([kind.name in known["scenes"].get(str(scene), {}) for scene in indices])
            for kind in TAG_KINDS
        }
    else:
        with show_progress("Tagging", visible=show_bar) as progress:
            table = tag_scenes(log, maps, scenes=indices, progress=progress)
        has = {kind.name: table.has(kind.name) for kind in TAG_KINDS}
    return {kind.label: has[kind.name] for kind in TAG_KINDS if has[kind.name].any()}

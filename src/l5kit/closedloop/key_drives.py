"""Drives of a person: files saved by the page of ``l5kit drive``, driven again and scored as simulations."""

import json
import math
import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from l5kit._types import Float64Array
from l5kit.closedloop.folder import ClosedLoopResult
from l5kit.closedloop.options import ClosedLoopOptions
from l5kit.closedloop.run import simulate
from l5kit.data.jobs.data_record import DataRecord
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.simulation.drivers.key_driver import KeyDriver
from l5kit.simulation.folder.simulation_folder import find_scene_files

_FORMAT: Final = "l5kit drive"
_VERSION: Final = 1
_SAME: Final = 1e-6
"""Tolerance between numbers of the page and of the simulation."""


@dataclass(frozen=True)
class KeyDrive:
    """A drive of a person on the page.

    Attributes:
        log: Name of the log.
        digest: Digest of the log; None if unknown.
        scene: Scene index in the log.
        keys: Keys held in each step, sums of :class:`~l5kit.simulation.drivers.key_driver.DrivingKeys`.
        states: World x and y, yaw and speed of the AV in each frame, float64 (F, 4).
        score: Score computed by the page; None where it does not apply.
        metrics: Metrics computed by the page; None where they do not apply.
    """

    log: str
    digest: str | None
    scene: int
    keys: tuple[int, ...]
    states: Float64Array
    score: float | None
    metrics: Mapping[str, float | None]


@dataclass(frozen=True)
class ScoredKeyDrive:
    """A drive of a person, repeated and scored by the simulation.

    Attributes:
        result: Result of the simulation.
        page_scores: Score and metrics computed by the page.
        scores: Score and metrics computed by the simulation.
        most_apart_m: Largest distance between the AVs of page and simulation, metres.
    """

    result: ClosedLoopResult
    page_scores: Mapping[str, float | None]
    scores: Mapping[str, float | None]
    most_apart_m: float

    @property
    def different(self) -> tuple[str, ...]:
        """Names of the scores that differ, and ``states`` if the drives differ."""
        names = []
        for name, value in self.page_scores.items():
            other = self.scores.get(name)
            if value is None or other is None:  # does not apply
                is_same = value is other
            else:
                is_same = math.isclose(value, other, rel_tol=0.0, abs_tol=_SAME)
            if not is_same:
                names.append(name)
        return (*names, *(["states"] if not self.most_apart_m <= _SAME else []))


def read_key_drive(path: str | os.PathLike[str]) -> KeyDrive:
    """Read a drive that was saved on the page.

    Raises:
        FileNotFoundError: The file does not exist.
        CorruptedDataError: The file is not a saved drive, or is damaged.
        InvalidArgumentError: The file has another version.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"drive (--score) is {str(file)!r}, but there is no such file; check the spelling")
    try:
        content = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CorruptedDataError(f"{file} is not JSON: {error}; save the drive again") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise CorruptedDataError(
            f"{file} is not a drive saved by the page of l5kit drive; pass a file that the page has downloaded"
        )
    if content.get("version") != _VERSION:
        raise InvalidArgumentError(
            f"drive (--score) is {str(path)!r}, a file of version {content.get('version')}; this l5kit reads version "
            f"{_VERSION}, so save the drive on a page written by this l5kit"
        )
    try:
        drive = KeyDrive(
            log=str(content["log"]),
            digest=content["digest"],
            scene=operator.index(content["scene"]),
            keys=tuple(map(operator.index, content["keys"])),
            states=np.array(content["states"], np.float64).reshape(-1, 4),
            score=_number_of(content["score"]),
            metrics={name: _number_of(value) for name, value in dict(content["metrics"]).items()},
        )
        KeyDriver(drive.keys)  # raises for invalid keys
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptedDataError(f"{path} is a damaged drive: {error}; save it again") from error
    if drive.scene < 0 or not np.isfinite(drive.states).all():
        raise CorruptedDataError(
            f"{path} is a damaged drive: its scene is {drive.scene}, which must be at least 0, and its states must be "
            "finite; save it again"
        )
    # the page saves the state before the first step and after each step
    if len(drive.states) != len(drive.keys) + 1:
        raise CorruptedDataError(
            f"{path} is a damaged drive: {len(drive.keys)} steps need {len(drive.keys) + 1} states, it has "
            f"{len(drive.states)}; save it again"
        )
    return drive


def score_key_drive(
    drive: KeyDrive,
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str] = "simulation",
    *,
    map_path: str | os.PathLike[str] | None = None,
    meta_path: str | os.PathLike[str] | None = None,
    options: ClosedLoopOptions | None = None,
) -> ScoredKeyDrive:
    """Repeat a drive of a person in the simulation, among the same traffic, and score it.

    Args:
        drive: The drive.
        path: The dataset it was driven in.
        folder: Folder of the simulation to write; see :func:`l5kit.closedloop.simulate`.
        map_path: The semantic map; None to look for it.
        meta_path: ``meta.json``; None to look for it.
        options: Options of the simulation; the scene is that of the drive.

    Raises:
        InvalidArgumentError: The drive is from another log, or stops before the end of the scene.
        FailedSceneError: The scene cannot be driven.
    """
    options = replace(options or ClosedLoopOptions(), scenes=[drive.scene], strict=True)
    files, _ = find_scene_files(path, map_path=map_path, meta_path=meta_path)
    digest = DataRecord.of_log(files.dataset).digest
    if drive.digest is not None and digest is not None and drive.digest != digest:
        raise InvalidArgumentError(
            f"path is {str(path)!r}, whose log has the digest {digest}, but the drive was made in {drive.log!r} with "
            f"the digest {drive.digest}; pass the dataset that the page was written from"
        )
    seat = KeyDriver(drive.keys).seat
    result = simulate(path, folder, planner=seat, agents="idm", map_path=map_path, meta_path=meta_path, options=options)
    positions_m = ChunkedDataset(result.driven_log).open().frames["ego_translation"][:, :2]
    if len(positions_m) != len(drive.states):
        raise InvalidArgumentError(
            f"drive (--score) has {len(drive.states)} frames, but scene {drive.scene} has {len(positions_m)}; drive to "
            "the end of the scene before saving"
        )
    apart_m = np.linalg.norm(np.asarray(positions_m) - drive.states[:, :2], axis=1)
    page_scores = {"score": drive.score, **drive.metrics}
    scores = {"score": result.score, **{name: result.metrics.get(name) for name in drive.metrics}}
    return ScoredKeyDrive(result, page_scores, scores, float(apart_m.max()))


def _number_of(value: float | None) -> float | None:
    """Return a number of the page as float, None as None."""
    return None if value is None else float(value)

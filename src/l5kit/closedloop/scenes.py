"""Scenes read for a simulation: records and true boxes, checked before the drive, and failures with reasons."""

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from l5kit._types import Int64Array, JsonObject
from l5kit.data.dataset_files import find_dataset
from l5kit.data.jobs.data_record import DataRecord
from l5kit.data.records import FRAME_INTERVAL
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.data.texts import as_unicode
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.record_faults import find_record_fault
from l5kit.simulation.engine.driven_scenes import SceneFault


@dataclass(frozen=True)
class FailedScene:
    """A scene that could not be driven to its end or scored, with the reason.

    Attributes:
        scene: Index of the scene in its log.
        frame: Current frame at the failure, counted in the scene of the log; None if it concerns no frame.
        track: Agent that it concerns; None for the AV, or for none.
        message: The reason, encodable as UTF-8.
    """

    scene: int
    frame: int | None
    track: int | None
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", as_unicode(self.message))

    @classmethod
    def of_fault(cls, fault: SceneFault) -> "FailedScene":
        """Return the failure reported by the engine as a fault."""
        return cls(fault.scene_index, fault.frame_index, fault.track_id, fault.message)

    @classmethod
    def of_row(cls, row: JsonObject) -> "FailedScene | None":
        """Return the failure in a row of the scenes table; None for a scene that did not fail."""
        if row["message"] is None:
            return None
        return cls(row["scene"], row["failed_frame"], row["failed_track"], row["message"])

    def as_json(self) -> JsonObject:
        """Return the fields as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        location = {"scene": self.scene, "frame": self.frame, "track": self.track}
        where = ", ".join(f"{name} {number}" for name, number in location.items() if number is not None)
        return f"{where}: {self.message}"


def read_scene(log: ChunkedDataset, scene: int, *, start: int) -> SceneRecords | FailedScene:
    """Return a scene of a log, or why it cannot be read or driven; ``start`` is the first simulated frame."""
    try:
        recorded = SceneRecords.read(log, scene)
        # find problems before the drive rather than in the middle of it
        num_frames = len(recorded.frames)
        if num_frames <= start:
            return FailedScene(scene, None, None, f"the scene has {num_frames} frames, so there is no frame {start}")
        fault = find_record_fault(recorded)
    except Exception as error:  # a broken file must not end the other scenes
        return FailedScene(scene, None, None, f"the scene cannot be read: {error or type(error).__name__}")
    return recorded if fault is None else FailedScene(scene, fault.frame, fault.track_id, fault.message)


_CLOSE_M = 1e-6
"""Tolerance between poses of the AV: positions in metres, and entries of rotations."""


@dataclass(frozen=True)
class TrueLog:
    """A log with the true boxes of the simulated log.

    Attributes:
        path: Path of the log.
        log: The log.
        data: Data record of the log.
    """

    path: Path
    log: ChunkedDataset = field(repr=False)
    data: DataRecord

    def read(self, scene: int, seen: SceneRecords, *, start: int, num_frames: int | None) -> SceneArrays | FailedScene:
        """Return the simulated frames of a scene with true boxes, or the reason why they do not match.

        Args:
            scene: The scene.
            seen: The scene as planners see it, all frames.
            start: First simulated frame.
            num_frames: Maximum number of simulated frames; None for all.
        """
        records = read_scene(self.log, scene, start=start)
        if isinstance(records, FailedScene):
            return FailedScene(scene, records.frame, records.track, f"in the true log: {records.message}")
        # frames, times and poses of the AV must be the same; the first difference is reported
        problem = "the true log does not match"
        if len(seen.frames) != len(records.frames):
            counts = f"it has {len(records.frames)} frames instead of {len(seen.frames)}"
            return FailedScene(scene, None, None, f"{problem}: {counts}")
        for name, what, tolerance in (
            ("timestamp", "time", 0.0),
            ("ego_translation", "AV position", _CLOSE_M),
            ("ego_rotation", "AV rotation", _CLOSE_M),
        ):
            apart = np.abs(seen.frames[name] - records.frames[name]).reshape(len(seen.frames), -1).max(axis=1)
            if (apart > tolerance).any():
                frame = int(np.argmax(apart > tolerance))
                return FailedScene(scene, frame, None, f"{problem}: {what} differs")
        # cut to the simulated frames, so that rows of boxes and drives correspond
        length = len(records.frames)
        stop = length if num_frames is None else min(length, start + num_frames)
        return SceneArrays.of_records(records.cut(start, stop))


def open_truth(path: str | os.PathLike[str], log: ChunkedDataset, scenes: Int64Array) -> TrueLog:
    """Open the log with the true boxes of another log.

    Args:
        path: A ``.zarr``, or a dataset folder with one.
        log: The log that planners see.
        scenes: The simulated scenes, (S,).

    Raises:
        DatasetNotFoundError: There is no dataset.
        InvalidArgumentError: The number of scenes, or the frames or times of one of them, differ.
    """
    dataset_path = find_dataset(path)
    truth = ChunkedDataset(dataset_path).open()
    problem = f"truth (--truth) is {str(path)!r}, which does not match the simulated log"
    hint = "pass the true log that was made with it"
    if len(truth.scenes) != len(log.scenes):
        raise InvalidArgumentError(f"{problem}: it has {len(truth.scenes)} scenes instead of {len(log.scenes)}; {hint}")
    # comparing frames and times of scenes is fast; poses of the AV are compared later, as scenes are read
    own, others = truth.scenes[scenes], log.scenes[scenes]
    for name, what in ((FRAME_INTERVAL, "frames"), ("start_time", "start time"), ("end_time", "end time")):
        differs = (own[name] != others[name]).reshape(len(scenes), -1).any(axis=1)
        if differs.any():
            row = int(np.argmax(differs))
            raise InvalidArgumentError(
                f"{problem}: scene {int(scenes[row])} has {what} {own[name][row].tolist()}, but the log has "
                f"{others[name][row].tolist()}; {hint}"
            )
    return TrueLog(dataset_path, truth, DataRecord.of(dataset_path, num_scenes=len(truth.scenes)))

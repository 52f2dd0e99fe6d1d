"""Resampling of logs to another frame rate: states are interpolated between frames, gaps remain gaps."""

import os
import shutil
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from l5kit._files import clear_leftovers, placed_when_complete
from l5kit._types import BoolArray, Float64Array, FloatArray, Int64Array
from l5kit.data.frame_rows import expand_ranges
from l5kit.data.jobs.scene_jobs import Workers, map_scenes
from l5kit.data.layout import is_group, logs_in
from l5kit.data.log_writer import write_log
from l5kit.data.map.map_folder import MAPS_FOLDER
from l5kit.data.progress import Progress
from l5kit.data.scene_arrays import AgentRows, FaceRows, SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError
from l5kit.geometry.angle import angular_distance
from l5kit.geometry.transform import yaws_of_rotations

_SCENES_FOLDER = "scenes"
_COPIED = ("meta.json", "import.json", "semantic_map", MAPS_FOLDER, "aerial_map", "sources")
"""Files and folders next to the scenes that do not depend on the rate."""

_NEAR = 1e-3
"""Fraction of a step by which a frame may miss a new time and still be used for it."""

_LONGEST_BRACKET = 1.9
"""Maximum gap in median steps over which road users are interpolated; beyond it they are unknown."""


def resample_scene(scene: SceneArrays, step_time_s: float) -> SceneArrays:
    """Return a scene at the times ``start + k * step_time_s`` up to its last frame.

    Positions, sizes and velocities are interpolated linearly, headings the shorter way round, the rotation of the AV
    along the shortest turn. A track exists between two frames if it is in both of them. If frames are missing, so that
    two are further apart than 1.9 median steps, only the AV exists in between. Classes and lights are those of the
    frame before.

    Args:
        scene: A scene.
        step_time_s: Time between two frames of the result, seconds.

    Raises:
        InvalidArgumentError: Times do not ascend, or the step is not above 0.
    """
    if not 0 < step_time_s < np.inf:
        raise InvalidArgumentError(f"step_time_s must be above 0, got {step_time_s}")
    pairs = _FramePairs.of(scene.timestamps_ns, round(step_time_s * 1e9))

    # The rotation of the AV takes the shortest turn; the last time may be slightly after the last frame.
    start_ns = scene.timestamps_ns[0]
    if len(scene.timestamps_ns) == 1:
        rotations = np.repeat(scene.ego_rotations, len(pairs.times_ns), axis=0)
    else:
        known_s = (scene.timestamps_ns - start_ns) / 1e9
        turns = Slerp(known_s, Rotation.from_matrix(scene.ego_rotations))
        rotations = turns(np.clip((pairs.times_ns - start_ns) / 1e9, 0.0, known_s[-1])).as_matrix()

    # lights keep the state of the frame before
    faces, firsts = scene.tl_faces, scene.tl_faces.starts.astype(np.int64)
    counts = np.diff(firsts)[pairs.before]
    taken, starts = expand_ranges(firsts[pairs.before], counts), np.cumsum([0, *counts], dtype=np.int32)
    return SceneArrays(
        host=scene.host,
        timestamps_ns=pairs.times_ns,
        ego_positions_m=_between(scene.ego_positions_m, pairs.before, pairs.after, pairs.parts),
        ego_rotations=rotations,
        agents=_agents_at(scene.agents, pairs),
        tl_faces=FaceRows(starts, faces.face_ids[taken], faces.light_ids[taken], faces.statuses[taken]),
    )


def resample_dataset(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    step_time_s: float = 0.1,
    workers: Workers = 1,
    progress: Progress | None = None,
) -> dict[str, tuple[int, int]]:
    """Write a dataset at another rate, which appears when it is complete; see :func:`resample_scene`.

    Args:
        path: A dataset folder, whose map, aerial image, ``meta.json`` and sources are copied; or a single log.
        out: The folder or log to write; it must not exist.
        step_time_s: Time between two frames, seconds.
        workers: Number of worker threads, or an executor.
        progress: Called with the number of scenes of a log that are done, and their total.

    Returns:
        Frames before and after of each log, by its name.

    Raises:
        DatasetNotFoundError: There is no dataset.
        FileExistsError: ``out`` exists.
        InvalidArgumentError: The step is not above 0, or a scene cannot be resampled.
        CorruptedDataError: A file of a log is damaged.
    """
    source, target = Path(path), Path(out).absolute()
    if not source.exists():
        raise DatasetNotFoundError(f"no dataset at {str(source)!r}: this path does not exist; check the spelling")
    clear_leftovers(target)
    if os.path.lexists(target):
        raise FileExistsError(f"out is {str(target)!r}, which exists; name another")
    if source.is_file() or source.suffix == ".zarr" or is_group(source):
        return {source.name: _resample_log(source, target, step_time_s, workers, progress)}
    logs = logs_in([source, source / _SCENES_FOLDER])
    if not logs:
        raise DatasetNotFoundError(f"no dataset in {str(source)!r}: there is no *.zarr in it or in {_SCENES_FOLDER}/")
    frames = {}
    with placed_when_complete(target) as complete:
        complete.mkdir()
        for entry in (source / name for name in _COPIED):
            if entry.is_dir():
                shutil.copytree(entry, complete / entry.name)
            elif entry.is_file():
                shutil.copyfile(entry, complete / entry.name)
        for log in logs:
            resampled = complete / log.relative_to(source)
            frames[log.name] = _resample_log(log, resampled, step_time_s, workers, progress)
    return frames


@dataclass(frozen=True, eq=False)
class _FramePairs:
    """Positions of the K new times among the old frames.

    Attributes:
        times_ns: The new times, (K,).
        before: Frame at or before each time, (K,).
        after: Frame after it, or the same one if the time is that of a frame, (K,).
        parts: Fraction of the interval between both that has passed, 0 to 1, (K,).
        is_known: Whether road users are known at the time, (K,).
    """

    times_ns: Int64Array
    before: Int64Array
    after: Int64Array
    parts: Float64Array
    is_known: BoolArray

    @classmethod
    def of(cls, frame_times_ns: Int64Array, step_ns: int) -> "_FramePairs":
        gaps_ns = np.diff(frame_times_ns)
        if (gaps_ns <= 0).any():
            frame = int(np.argmax(gaps_ns <= 0)) + 1
            raise InvalidArgumentError(
                f"times of the scene must ascend, but those of frames {frame - 1} and {frame} do not"
            )

        # A frame close to a new time is used for it, without interpolation.
        near_ns = round(_NEAR * step_ns)
        times_ns = np.arange(frame_times_ns[0], frame_times_ns[-1] + near_ns + 1, step_ns, dtype=np.int64)
        before = np.clip(np.searchsorted(frame_times_ns, times_ns + near_ns, side="right") - 1, 0, None)
        late_ns = times_ns - frame_times_ns[before]
        is_frame = np.abs(late_ns) <= near_ns
        after = np.where(is_frame, before, np.minimum(before + 1, len(frame_times_ns) - 1))
        length_ns = frame_times_ns[after] - frame_times_ns[before]
        usual_ns = float(np.median(gaps_ns)) if len(gaps_ns) else 1.0
        return cls(
            times_ns=times_ns,
            before=before,
            after=after,
            parts=np.where(is_frame, 0.0, late_ns / np.maximum(length_ns, 1)),
            is_known=length_ns <= _LONGEST_BRACKET * usual_ns,
        )


def _between(values: FloatArray, before: Int64Array, after: Int64Array, parts: Float64Array) -> Float64Array:
    """Interpolate linearly between pairs of rows."""
    shares = parts.reshape(-1, *[1] * (values.ndim - 1))
    mixed: Float64Array = values[before] + shares * (values[after].astype(np.float64) - values[before])
    return mixed


def _agents_at(agents: AgentRows, pairs: _FramePairs) -> AgentRows:
    """Return the rows of road users at the new times, in the order of the frame before."""
    starts = np.zeros(len(pairs.times_ns) + 1, np.int64)
    before_rows, after_rows, parts = [], [], []
    for number in range(len(pairs.times_ns)):
        # Rows of the tracks that are in both frames, in the order of the frame before; no road user is known in a gap.
        before_frame, after_frame = int(pairs.before[number]), int(pairs.after[number])
        first = second = np.arange(agents.starts[before_frame], agents.starts[before_frame + 1])
        if before_frame != after_frame:
            second = np.arange(agents.starts[after_frame], agents.starts[after_frame + 1])
            _, in_first, in_second = np.intersect1d(
                agents.track_ids[first], agents.track_ids[second], return_indices=True
            )
            order = np.argsort(in_first)
            first, second = first[in_first[order]], second[in_second[order]]
        if not pairs.is_known[number]:
            first, second = first[:0], second[:0]
        before_rows.append(first)
        after_rows.append(second)
        parts.append(np.full(len(first), pairs.parts[number]))
        starts[number + 1] = starts[number] + len(first)
    before, after, share = np.concatenate(before_rows), np.concatenate(after_rows), np.concatenate(parts)

    # Headings turn the shorter way round; those at frames themselves stay bit-identical.
    yaws_rad = agents.yaws_rad.astype(np.float64)
    turns_rad = angular_distance(yaws_rad[after], yaws_rad[before])
    mixed_rad = yaws_rad[before] + share * turns_rad
    is_kept = before == after
    return AgentRows(
        starts=starts.astype(np.int32),
        track_ids=agents.track_ids[before],
        centroids_m=_between(agents.centroids_m, before, after, share),
        yaws_rad=np.where(is_kept, yaws_rad[before], yaws_of_rotations(mixed_rad)).astype(np.float32),
        extents_m=_between(agents.extents_m, before, after, share).astype(np.float32),
        velocities_mps=_between(agents.velocities_mps, before, after, share).astype(np.float32),
        label_probabilities=agents.label_probabilities[before],
    )


@dataclass(frozen=True)
class _ResampleScenes:
    """Job that resamples scenes of a log."""

    dataset: ChunkedDataset
    step_time_s: float

    def __call__(self, scenes: Int64Array) -> list[SceneRecords]:
        resampled = []
        for scene in scenes.tolist():
            arrays = SceneArrays.of_records(SceneRecords.read(self.dataset, scene))
            if not len(arrays.timestamps_ns):
                raise InvalidArgumentError(f"scene {scene} has no frames")
            resampled.append(resample_scene(arrays, self.step_time_s).to_records())
        return resampled


def _resample_log(
    path: Path, out: Path, step_time_s: float, workers: Workers, progress: Progress | None
) -> tuple[int, int]:
    """Write one log at another rate, and return its frames before and after."""
    dataset = ChunkedDataset(str(path)).open()
    facts = replace(dataset.facts, step_time_s=step_time_s)
    num_frames = 0
    job = _ResampleScenes(dataset, step_time_s)
    with (
        write_log(out, facts=facts) as writer,
        closing(map_scenes(job, range(len(dataset.scenes)), workers, progress=progress)) as results,
    ):
        for scene in (scene for scenes in results for scene in scenes):
            num_frames += len(scene.frames)
            writer.append(scene)
    return len(dataset.frames), num_frames

"""Sample indices: positions of samples in a log, checks of damaged logs, and the records of samples."""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from l5kit._types import Int64Array, NumericArray, RecordArray, Records, UInt8Array
from l5kit._warning import warn_caller
from l5kit.data.array_shapes import refuse_shapes
from l5kit.data.index.log_index import LogIndex, check_scenes
from l5kit.data.index.track_ids import EGO_TRACK_ID, as_sample_track_ids
from l5kit.data.index.windows import CurrentFrames, Windows, WindowSteps, cut_windows
from l5kit.data.log_facts import EGO_EXTENT_M, LogFacts
from l5kit.data.record_bytes import join_records
from l5kit.data.record_sequence import rows_of, whole_array
from l5kit.data.records import FRAME_INTERVAL, TL_FACE_DTYPE
from l5kit.data.stores.chunked_array import RowRanges, read_ahead
from l5kit.data.texts import decoded_text
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.kept_index import kept_end_rows
from l5kit.dataset.utils import encode_fixed_length, kMaxStrLength
from l5kit.errors import CorruptedDataError
from l5kit.lanes.routes import RouteSource


@dataclass(frozen=True)
class SampleIndices:
    """Positions of B samples in a log.

    Attributes:
        scene_indices: Their scenes, (B,).
        state_indices: Their frames, counted in the scenes, (B,).
        agent_rows: Their agents, rows of the log's agents, (B,); None for the AV.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    scene_indices: Int64Array
    state_indices: Int64Array
    agent_rows: Int64Array | None = None

    def __post_init__(self) -> None:
        shape = self.scene_indices.shape
        if len(shape) != 1 or self.state_indices.shape != shape:
            refuse_shapes(self, scene_indices=(len(self),), state_indices=(len(self),))
        if self.agent_rows is not None and self.agent_rows.shape != shape:
            refuse_shapes(self, agent_rows=shape)

    def __len__(self) -> int:
        return len(self.scene_indices)


@dataclass(frozen=True)
class CheckedLog:
    """A log whose intervals were checked once: positions of its scenes, and its damage.

    Attributes:
        dataset: The log.
        damage: Index of the log if it is damaged, or if its scenes are not contiguous runs of frames; otherwise None.
    """

    dataset: ChunkedDataset
    damage: LogIndex | None

    @classmethod
    def check(cls, dataset: ChunkedDataset, *, has_tl_faces: bool) -> tuple["CheckedLog", Int64Array]:
        """Return a log, with warnings about its damage, and a copy of the end frame of each scene, (S,).

        The end is -1 for an unreadable scene.
        """
        # a cache file proves that a large log is sound
        if kept_end_rows(dataset) is not None:
            return cls(dataset, None), end_frames_of(dataset)
        whole = index = LogIndex.of(dataset)
        if not has_tl_faces:
            index = index.without_faces()
        path = dataset.path or "a log in memory"
        if not index.is_sound:
            warn_caller(
                f"{path!r} is damaged, samples that need damaged parts are errors: {index.summary()}; l5kit validate "
                "lists all damage"
            )
        if index.num_lost_faces:
            warn_caller(
                f"{path!r} has no traffic light faces, although its frames name {index.num_lost_faces} of them: "
                "it is read as a log without traffic lights; l5kit validate lists all damage"
            )
        return cls(dataset, None if whole.is_plain else whole), whole.scenes.bounds[:, 1].copy()

    def locate(
        self, frame_rows: Int64Array, end_frames: Int64Array, agent_rows: Int64Array | None = None
    ) -> SampleIndices:
        """Return the positions of frames (B,) of the log, whose scenes end at ``end_frames`` (S,).

        Raises:
            CorruptedDataError: A frame belongs to no scene, as the log is damaged.
        """
        if self.damage is not None:
            scene_indices = self.damage.find_scenes(frame_rows)
            return SampleIndices(scene_indices, frame_rows - self.damage.scenes.bounds[scene_indices, 0], agent_rows)
        return SampleIndices(*within_runs(end_frames, frame_rows), agent_rows)

    def frames_of(self, scene_index: int, end_frames: Int64Array) -> tuple[int, int]:
        """Return first frame and end frame of a scene, not negative.

        Raises:
            CorruptedDataError: The scene is damaged.
        """
        if self.damage is None:
            start = int(end_frames[scene_index - 1]) if scene_index > 0 else 0
            return start, int(end_frames[scene_index])
        self.damage.require_scenes(np.array([scene_index]))
        start, stop = self.damage.scenes.bounds[scene_index].tolist()
        return start, stop

    def require_readable(
        self, scenes: Int64Array, state_indices: Int64Array, steps: WindowSteps | None, *, has_tl_faces: bool
    ) -> None:
        """Refuse samples (B,) that need damaged scenes or frames.

        Args:
            scenes: Their scenes, (B,).
            state_indices: Their frames, counted in the scenes, (B,).
            steps: Frames that a sample needs; None for all frames of its scene.
            has_tl_faces: Whether it needs traffic light faces.

        Raises:
            CorruptedDataError: There is such a sample.
        """
        damage = self.damage
        if damage is None:
            return
        damage.require_scenes(scenes)
        # a sample needs the frames of its window that are in its scene
        starts, stops = damage.scenes.bounds[scenes].T
        if steps is not None:
            current = starts + state_indices
            starts = np.maximum(starts, current - steps.history_num_frames * steps.history_step_size)
            stops = np.minimum(stops, current + steps.future_num_frames * steps.future_step_size + 1)
        of_kind = damage if has_tl_faces else damage.without_faces()
        of_kind.require_frames(starts, np.maximum(starts, stops))


def end_frames_of(dataset: ChunkedDataset) -> Int64Array:
    """Return a copy of the end frame of each scene, (S,); -1 for unreadable ones."""
    return check_scenes(dataset).bounds[:, 1].copy()


@dataclass(frozen=True)
class LogArrays:
    """The arrays of a log that samples need."""

    scenes: Records
    frames: Records
    agents: Records
    tl_faces: Records
    ego_extent_m: tuple[float, float, float] = EGO_EXTENT_M
    routes: RouteSource | None = None
    """Routes of the AVs, for samples with routes."""

    @classmethod
    def of(cls, dataset: ChunkedDataset, *, has_tl_faces: bool) -> "LogArrays":
        """Return the arrays of a dataset, optionally without traffic light faces."""
        tl_faces = dataset.tl_faces if has_tl_faces else np.empty(0, dtype=TL_FACE_DTYPE)
        return cls(dataset.scenes, dataset.frames, dataset.agents, tl_faces, ego_extent_of(dataset))


def ego_extent_of(dataset: ChunkedDataset) -> tuple[float, float, float]:
    """Return length, width and height of the AV of a log; defaults for a custom log class without facts."""
    facts: LogFacts | None = getattr(dataset, "facts", None)
    return EGO_EXTENT_M if facts is None else facts.ego_extent_m


class CutSamples(NamedTuple):
    """Inputs of B samples: scenes, windows, and target tracks, None for the AV."""

    scenes: RecordArray
    windows: Windows
    track_ids: NumericArray | None


def cut_samples(log: LogArrays, indices: SampleIndices, steps: WindowSteps) -> CutSamples:
    """Return scenes, windows and targets of samples; agents and faces of in-memory logs are not copied.

    Args:
        log: The log of the samples.
        indices: Their positions in it.
        steps: Frames of a sample.

    Raises:
        CorruptedDataError: An interval of a scene or a frame exceeds its array.
    """
    scenes = take_rows(log.scenes, indices.scene_indices)
    bounds = scenes[FRAME_INTERVAL]
    starts, stops = bounds[:, 0].copy(), bounds[:, 1].copy()
    rows = starts + indices.state_indices
    if not ((starts >= 0) & (starts <= rows) & (rows < stops) & (stops <= len(log.frames))).all():
        raise CorruptedDataError("frame_index_interval of a scene does not fit its frames; run l5kit validate")

    # all frames as one array if that needs no copy, otherwise concatenated copies of the scenes
    frames = whole_array(log.frames, (starts, stops), strict=True)
    if frames is None:
        read_ahead([RowRanges(log.frames, starts, stops)])
        intervals = zip(starts.tolist(), stops.tolist(), strict=True)
        frames = join_records([rows_of(log.frames, slice(*each), strict=True) for each in intervals])
        ends = np.cumsum(stops - starts)
        shift = ends - stops
        rows, starts, stops = rows + shift, starts + shift, ends
    current = CurrentFrames(frames, rows, starts, stops)
    windows = cut_windows(current, log.agents, log.tl_faces, steps, ego_extent_m=log.ego_extent_m)

    # only AVs have routes; agents are given by the tracks of their rows
    if indices.agent_rows is not None:
        return CutSamples(scenes, windows, np.ascontiguousarray(take_rows(log.agents, indices.agent_rows)["track_id"]))
    if log.routes is not None:
        windows = log.routes.of_log(windows, indices.scene_indices, indices.state_indices)
    return CutSamples(scenes, windows, None)


def frames_of_scene(scenes: Records, frames: Records, scene: int) -> RecordArray:
    """Return the frames of a scene.

    Raises:
        CorruptedDataError: The interval of the scene exceeds the frames, or a file is missing.
    """
    bounds = take_rows(scenes, np.array([scene]))[FRAME_INTERVAL][0].tolist()
    return rows_of(frames, slice(*bounds), strict=True)


def describe_origin(indices: SampleIndices, cut: CutSamples) -> dict[str, NumericArray]:
    """Return the columns that a dataset adds to samples: scene, host, time and track."""
    track_ids = cut.track_ids
    tracks = np.full(len(indices), EGO_TRACK_ID, np.int64) if track_ids is None else as_sample_track_ids(track_ids)
    return {
        "scene_index": indices.scene_indices,
        "host_id": encoded_hosts(cut.scenes),
        "timestamp": cut.windows.current_frames["timestamp"].astype(np.int64),
        "track_id": tracks,
    }


def take_rows(array: Records, rows: Int64Array) -> RecordArray:
    """Return copies of rows (B,) of an array of a dataset.

    Raises:
        CorruptedDataError: A file is missing.
    """
    whole = whole_array(array, (rows, rows + 1), strict=True)
    if whole is not None:
        return whole[rows]
    return np.concatenate([rows_of(array, slice(row, row + 1), strict=True) for row in rows.tolist()])


def encoded_hosts(scenes: RecordArray) -> UInt8Array:
    """Return the hosts of scenes (B,) in the form of samples, (B, 70).

    Raises:
        CorruptedDataError: One is not text.
    """
    content, num_scenes, size = scenes["host"].tobytes(), len(scenes), scenes.dtype["host"].itemsize
    encoded = b"".join([_encoded_host(content[size * scene : size * (scene + 1)]) for scene in range(num_scenes)])
    return np.frombuffer(encoded, np.uint8).reshape(num_scenes, kMaxStrLength).copy()


@functools.lru_cache(maxsize=1024)
def _encoded_host(content: bytes) -> bytes:
    """Return a host in the form of samples, from its bytes in a record."""
    host = decoded_text(content)
    if host is None:
        raise CorruptedDataError(
            "the host of the scene is not text; run l5kit validate on the dataset and restore it from its source"
        )
    return encode_fixed_length(host).tobytes()


def within_runs(ends: Int64Array, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the index of the run that contains each position (B,), and the offset from the start of the run.

    Args:
        ends: End of each run, (R,); the first one begins at 0.
        positions: From 0 to below the last end.
    """
    # a run begins at the end of the previous one; for the first run, index -1 reads the last end, which is masked out
    runs = ends.searchsorted(positions, side="right")
    return runs, positions - ends[runs - 1] * (runs > 0)

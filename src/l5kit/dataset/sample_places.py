"""Places of samples in a log, and the records that a batch of samples is made of."""

import functools
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from l5kit._types import Int64Array, NumericArray, RecordArray, Records, UInt8Array
from l5kit.data.array_shapes import require_shapes
from l5kit.data.log_facts import EGO_EXTENT_M, LogFacts
from l5kit.data.record_bytes import join_records
from l5kit.data.record_sequence import rows_of, whole_array_with
from l5kit.data.records import FRAME_INTERVAL, TL_FACE_DTYPE
from l5kit.data.stores.read_ahead import RowRanges, read_ahead
from l5kit.data.texts import decoded_text
from l5kit.data.track_ids import EGO_TRACK_ID, as_sample_track_ids
from l5kit.data.window_cutting import CurrentFrames, WindowSteps, cut_windows
from l5kit.data.windows import Windows
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.utils import encode_fixed_length, kMaxStrLength
from l5kit.errors import CorruptedDataError
from l5kit.lanes.routes import RouteSource
from l5kit.sampling.sample_columns import ColumnMemory, SampleColumns


@runtime_checkable
class BatchSampler(Protocol):
    """A sample function that also makes batches."""

    @property
    def makes_batches(self) -> bool:
        """Whether it does with its present parameters."""

    @property
    def steps(self) -> WindowSteps:
        """Which frames belong to a sample."""

    def make_columns(
        self,
        windows: Windows,
        track_ids: NumericArray | None = None,
        *,
        out: ColumnMemory | None = None,
        missing: Literal["error", "mask"] = "error",
    ) -> SampleColumns:
        """Return the samples of windows; see :class:`l5kit.sampling.window_sampler.WindowSampler`."""


@dataclass(frozen=True)
class SamplePlaces:
    """The places of B samples in a log.

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
        shape = (len(self),)
        require_shapes(self, scene_indices=shape, state_indices=shape)
        if self.agent_rows is not None:
            require_shapes(self, agent_rows=shape)

    def __len__(self) -> int:
        return len(self.scene_indices)

    @classmethod
    def of_frames(
        cls, frame_rows: Int64Array, end_frames: Int64Array, agent_rows: Int64Array | None = None
    ) -> "SamplePlaces":
        """Return the places of frames (B,) of a log whose scenes end at ``end_frames`` (S,)."""
        scene_indices = np.searchsorted(end_frames, frame_rows, side="right")
        first_frames = np.where(scene_indices > 0, end_frames[scene_indices - 1], 0)
        return cls(scene_indices, frame_rows - first_frames, agent_rows)


@dataclass(frozen=True)
class LogArrays:
    """The arrays of a log that samples are made of."""

    scenes: Records
    frames: Records
    agents: Records
    tl_faces: Records
    ego_extent_m: tuple[float, float, float] = EGO_EXTENT_M
    routes: RouteSource | None = None
    """Knows the routes of the AVs, where samples tell of them."""

    @classmethod
    def of(cls, dataset: ChunkedDataset, *, has_tl_faces: bool) -> "LogArrays":
        """Return the arrays of a dataset, on demand without traffic light faces."""
        tl_faces = dataset.tl_faces if has_tl_faces else np.empty(0, dtype=TL_FACE_DTYPE)
        return cls(dataset.scenes, dataset.frames, dataset.agents, tl_faces, ego_extent_of(dataset))


def ego_extent_of(dataset: ChunkedDataset) -> tuple[float, float, float]:
    """Return length, width and height of the AV of a log; a user's own kind of log need not tell them."""
    facts: LogFacts | None = getattr(dataset, "facts", None)
    return EGO_EXTENT_M if facts is None else facts.ego_extent_m


def cut_places(log: LogArrays, places: SamplePlaces, scenes: RecordArray, steps: WindowSteps) -> Windows:
    """Return the windows of samples, without a copy of agents and faces where whole arrays lie in memory.

    Args:
        log: What the samples are made of.
        places: Where they lie in it.
        scenes: The scene of each sample, (B,).
        steps: Which frames belong to a sample.

    Raises:
        CorruptedDataError: An interval of a scene or a frame reaches beyond its array.
    """
    bounds = scenes[FRAME_INTERVAL]
    starts, stops = np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])
    rows = starts + places.state_indices
    if (starts < 0).any() or (rows < starts).any() or (rows >= stops).any() or (stops > len(log.frames)).any():
        raise CorruptedDataError("frame_index_interval of a scene does not fit its frames; run l5kit validate")
    frames = whole_array_with(log.frames, starts, stops, strict=True)
    current = (
        CurrentFrames(frames, rows, starts, stops) if frames is not None else _copy_scenes(log, rows, starts, stops)
    )
    windows = cut_windows(current, log.agents, log.tl_faces, steps, ego_extent_m=log.ego_extent_m)
    if log.routes is None or places.agent_rows is not None:
        return windows
    return log.routes.of_log(windows, places.scene_indices, places.state_indices)


class CutSamples(NamedTuple):
    """What B samples are made of: their scenes, their windows, and the tracks they are about, None for the AV."""

    scenes: RecordArray
    windows: Windows
    track_ids: NumericArray | None


def cut_samples(log: LogArrays, places: SamplePlaces, steps: WindowSteps) -> CutSamples:
    """Return the windows of samples, and whom they are about.

    Args:
        log: What the samples are made of.
        places: Where they lie in it.
        steps: Which frames belong to a sample.

    Raises:
        CorruptedDataError: An interval of a scene or a frame reaches beyond its array.
    """
    scenes = take_rows(log.scenes, places.scene_indices)
    windows = cut_places(log, places, scenes, steps)
    if places.agent_rows is None:
        return CutSamples(scenes, windows, None)
    return CutSamples(scenes, windows, np.ascontiguousarray(take_rows(log.agents, places.agent_rows)["track_id"]))


def frames_of_scene(scenes: Records, frames: Records, scene: int) -> RecordArray:
    """Return the frames of a scene.

    Raises:
        CorruptedDataError: The interval of the scene reaches beyond the frames, or a file is missing.
    """
    bounds = take_rows(scenes, np.array([scene]))[FRAME_INTERVAL][0].tolist()
    return rows_of(frames, slice(*bounds), strict=True)


def _copy_scenes(log: LogArrays, rows: Int64Array, starts: Int64Array, stops: Int64Array) -> CurrentFrames:
    """Return the current frames ``rows`` among copies of their scenes."""
    read_ahead([RowRanges(log.frames, starts, stops)])
    scenes = [
        rows_of(log.frames, slice(*bounds), strict=True) for bounds in zip(starts.tolist(), stops.tolist(), strict=True)
    ]
    ends = np.cumsum(stops - starts)
    shift = ends - stops
    return CurrentFrames(join_records(scenes), rows + shift, starts + shift, ends)


def describe_origin(places: SamplePlaces, cut: CutSamples) -> dict[str, NumericArray]:
    """Return what a dataset adds to samples: scene, host, time and track, one array for each key."""
    track_ids = cut.track_ids
    tracks = np.full(len(places), EGO_TRACK_ID, np.int64) if track_ids is None else as_sample_track_ids(track_ids)
    return {
        "scene_index": places.scene_indices,
        "host_id": encoded_hosts(cut.scenes),
        "timestamp": cut.windows.current_frames["timestamp"].astype(np.int64),
        "track_id": tracks,
    }


def take_rows(array: Records, rows: Int64Array) -> RecordArray:
    """Return copies of rows (B,) of an array of a dataset.

    Raises:
        CorruptedDataError: A file is missing.
    """
    whole = whole_array_with(array, rows, rows + 1, strict=True)
    if whole is not None:
        return whole[rows]
    return np.concatenate([rows_of(array, slice(row, row + 1), strict=True) for row in rows.tolist()])


def encoded_hosts(scenes: RecordArray) -> UInt8Array:
    """Return the hosts of scenes (B,) as they stand in samples, (B, 70).

    Raises:
        CorruptedDataError: One is no text.
    """
    content, num_scenes, size = scenes["host"].tobytes(), len(scenes), scenes.dtype["host"].itemsize
    encoded = b"".join([_encoded_host(content[size * scene : size * (scene + 1)]) for scene in range(num_scenes)])
    return np.frombuffer(encoded, np.uint8).reshape(num_scenes, kMaxStrLength).copy()


@functools.lru_cache(maxsize=1024)
def _encoded_host(content: bytes) -> bytes:
    """Return a host as it stands in samples, of its bytes in a record."""
    host = decoded_text(content)
    if host is None:
        raise CorruptedDataError(
            "the host of the scene is no text; run l5kit validate on the dataset and restore it from its source"
        )
    return encode_fixed_length(host).tobytes()

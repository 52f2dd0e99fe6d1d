"""From indices of a dataset to the contexts that a batch of samples is made of."""

import functools
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from l5kit._types import Int64Array, NumericArray, RecordArray, UInt8Array
from l5kit.data.record_sequence import rows_of, whole_array_with
from l5kit.data.records import TL_FACE_DTYPE
from l5kit.data.texts import decoded_text
from l5kit.data.track_ids import as_sample_track_ids
from l5kit.data.window_rows import join_rows
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.utils import encode_fixed_length
from l5kit.errors import CorruptedDataError
from l5kit.sampling.agent_sampler import NewImages
from l5kit.sampling.context import Contexts, ContextSteps, CurrentFrames, cut_contexts

EGO_TRACK_ID = -1
"""Stands for the AV in ``track_id`` of a sample."""

_OWN_PACKAGE = __name__.rpartition(".")[0]

_MAKERS = (
    "__getitem__",
    "get_frame",
    "_make_item",
    "_in_dataset_layout",
    "_locate_item",
    "_place_of",
    "_locate_frame",
    "_track_of_row",
    "_scene",
)
"""Methods that decide what a sample is."""


@runtime_checkable
class BatchSampler(Protocol):
    """A sample function that also makes batches."""

    @property
    def makes_batches(self) -> bool:
        """Whether it does with its present parameters."""

    @property
    def steps(self) -> ContextSteps:
        """Which frames belong to a sample."""

    def make_columns(
        self, contexts: Contexts, track_ids: NumericArray | None, new_images: NewImages
    ) -> dict[str, NumericArray]:
        """Return samples as one array for each key; see :meth:`l5kit.sampling.agent_sampler.AgentSampler`."""


@dataclass(frozen=True)
class SamplePlaces:
    """Where B samples lie in a log.

    Attributes:
        scene_indices: Their scenes, (B,).
        state_indices: Their frames, counted in the scenes, (B,).
        agent_rows: Their agents, rows of the log's agents, (B,); None for the AV.
    """

    scene_indices: Int64Array
    state_indices: Int64Array
    agent_rows: Int64Array | None = None

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

    scenes: Any
    frames: Any
    agents: Any
    tl_faces: Any

    @classmethod
    def of(cls, dataset: ChunkedDataset, *, has_tl_faces: bool) -> "LogArrays":
        """Return the arrays of a dataset, on demand without traffic light faces."""
        tl_faces = dataset.tl_faces if has_tl_faces else np.empty(0, dtype=TL_FACE_DTYPE)
        return cls(dataset.scenes, dataset.frames, dataset.agents, tl_faces)


def makes_its_samples_as_inherited(dataset: object) -> bool:
    """Return whether all methods that make samples are those of this package: no subclass or instance has its own."""
    dataset_class: Any = type(dataset)
    return not any(name in vars(dataset) or not _is_own(dataset_class, name) for name in _MAKERS)


@functools.cache
def _is_own(dataset_class: type[Any], method: str) -> bool:
    owner = next(base for base in dataset_class.__mro__ if method in vars(base))
    return owner.__module__.startswith(_OWN_PACKAGE)


def cut_places(log: LogArrays, places: SamplePlaces, scenes: RecordArray, steps: ContextSteps) -> Contexts:
    """Return the contexts of samples, without a copy of agents and faces where whole arrays lie in memory.

    Args:
        log: What the samples are made of.
        places: Where they lie in it.
        scenes: The scene of each sample, (B,).
        steps: Which frames belong to a sample.

    Raises:
        CorruptedDataError: An interval of a scene or a frame reaches beyond its array.
    """
    bounds = scenes["frame_index_interval"]
    starts, stops = np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])
    rows = starts + places.state_indices
    if (starts < 0).any() or (rows < starts).any() or (rows >= stops).any() or (stops > len(log.frames)).any():
        raise CorruptedDataError("frame_index_interval of a scene does not fit its frames; run l5kit validate")
    frames = whole_array_with(log.frames, starts, stops, strict=True)
    current = (
        CurrentFrames(frames, rows, starts, stops) if frames is not None else _copy_scenes(log, rows, starts, stops)
    )
    return cut_contexts(current, log.agents, log.tl_faces, steps)


def _copy_scenes(log: LogArrays, rows: Int64Array, starts: Int64Array, stops: Int64Array) -> CurrentFrames:
    """Return the current frames ``rows`` among copies of their scenes."""
    scenes = [
        rows_of(log.frames, slice(*bounds), strict=True) for bounds in zip(starts.tolist(), stops.tolist(), strict=True)
    ]
    ends = np.cumsum(stops - starts)
    shift = ends - stops
    return CurrentFrames(join_rows(scenes), rows + shift, starts + shift, ends)


def describe_origin(
    places: SamplePlaces, scenes: RecordArray, contexts: Contexts, track_ids: NumericArray | None
) -> dict[str, NumericArray]:
    """Return what a dataset adds to samples: scene, host, time and track, one array for each key."""
    if track_ids is None:
        tracks = np.full(len(places.scene_indices), EGO_TRACK_ID, np.int64)
    else:
        tracks = as_sample_track_ids(track_ids)
    return {
        "scene_index": places.scene_indices,
        "host_id": encoded_hosts(scenes),
        "timestamp": contexts.history_frames["timestamp"][:, 0].astype(np.int64),
        "track_id": tracks,
    }


def take_rows(array: Any, rows: Int64Array) -> RecordArray:
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
    content, num_scenes = scenes["host"].tobytes(), len(scenes)
    size = len(content) // num_scenes
    encoded = b"".join([_encoded_host(content[size * scene : size * (scene + 1)]) for scene in range(num_scenes)])
    return np.frombuffer(encoded, np.uint8).reshape(num_scenes, -1).copy()


@functools.lru_cache(maxsize=1024)
def _encoded_host(content: bytes) -> bytes:
    """Return a host as it stands in samples, of its bytes in a record."""
    host = decoded_text(content)
    if host is None:
        raise CorruptedDataError(
            "the host of the scene is no text; run l5kit validate on the dataset and restore it from its source"
        )
    return encode_fixed_length(host).tobytes()

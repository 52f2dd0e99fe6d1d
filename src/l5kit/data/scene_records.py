"""Records of scenes in memory, checked and in the types of the format, and their concatenation."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import Int64Array, RecordArray
from l5kit.data.log_facts import LogFacts
from l5kit.data.record_bytes import as_record_type, join_records
from l5kit.data.records import (
    AGENT_DTYPE,
    AGENT_INTERVAL,
    FACE_INTERVAL,
    FRAME_DTYPE,
    FRAME_INTERVAL,
    SCENE_DTYPE,
    TL_FACE_DTYPE,
)
from l5kit.data.texts import shown_texts
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError

_LONGEST_HOST = 16
_MAX_INT64 = 2**63 - 1
_TYPES: dict[str, DTypeLike] = {"frames": FRAME_DTYPE, "agents": AGENT_DTYPE, "tl_faces": TL_FACE_DTYPE}


@dataclass(frozen=True)
class SceneRecords:
    """One scene in the record types of the format, with successive intervals that count from 0.

    Attributes:
        frames: Frames, ``FRAME_DTYPE``, (F,).
        agents: Agents of all frames, ``AGENT_DTYPE``, (N,).
        tl_faces: Traffic light faces of all frames, ``TL_FACE_DTYPE``, (M,).
        host: Name of the recording car, at most 16 characters.
        time_span_ns: Start and end of the scene; None for the times of the first and the last frame, or 0 and 0 without
            frames.

    Raises:
        InvalidArgumentError: An array is of another type, the intervals of the frames do not cover each row once, or
            host or times do not fit a record.
    """

    frames: RecordArray
    agents: RecordArray
    tl_faces: RecordArray
    host: str = ""
    time_span_ns: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        # a record has room for a short text, and two 64-bit integers
        host = self.host
        allowed = f"host must be text of at most {_LONGEST_HOST} characters, for which the format has room"
        if not isinstance(host, str):
            raise InvalidArgumentError(f"{allowed}, got {host!r}; pass '' where it is not known")
        try:
            host.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(f"{allowed}, got {host!r}, in which half of a character is missing") from error
        if len(host) > _LONGEST_HOST:
            raise InvalidArgumentError(f"{allowed}, got {host!r} of {len(host)}; shorten it")
        if self.time_span_ns is not None:
            try:
                start_ns, end_ns = map(operator.index, self.time_span_ns)
            except (TypeError, ValueError):
                start_ns = end_ns = _MAX_INT64 + 1
            if not all(-_MAX_INT64 - 1 <= time_ns <= _MAX_INT64 for time_ns in (start_ns, end_ns)):
                raise InvalidArgumentError(
                    "time_span_ns must be start and end of the scene, two whole numbers of nanoseconds that int64 can "
                    f"hold, got {self.time_span_ns!r}; pass None for the times of the first and the last frame"
                )
            object.__setattr__(self, "time_span_ns", (start_ns, end_ns))
        for name, dtype in _TYPES.items():
            array: object = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype != np.dtype(dtype) or array.ndim != 1:
                got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else repr(type(array))
                raise InvalidArgumentError(
                    f"{name} must be records of {name.upper()[:-1]}_DTYPE along one axis, got {got}"
                )
        _require_consecutive(self.frames[AGENT_INTERVAL], len(self.agents), AGENT_INTERVAL)
        _require_consecutive(self.frames[FACE_INTERVAL], len(self.tl_faces), FACE_INTERVAL)

    @classmethod
    def read(cls, dataset: ChunkedDataset, scene_index: int) -> "SceneRecords":
        """Return one scene of a log, including logs of an older layout.

        Args:
            dataset: An opened dataset.
            scene_index: The scene; negative counts from the end.

        Raises:
            InvalidArgumentError: There is no such scene.
            CorruptedDataError: A file of the scene is damaged or missing, or its intervals are wrong.
        """
        return cls.of_scene_dataset(dataset.get_scene_dataset(scene_index))

    @classmethod
    def of_scene_dataset(cls, dataset: ChunkedDataset) -> "SceneRecords":
        """Return the scene of a dataset from :meth:`ChunkedDataset.get_scene_dataset`."""
        arrays = {name: as_record_type(np.asarray(getattr(dataset, name)), dtype) for name, dtype in _TYPES.items()}
        if len(arrays["tl_faces"]) == 0 and arrays["frames"][FACE_INTERVAL].any():
            arrays["frames"] = arrays["frames"].copy()
            arrays["frames"][FACE_INTERVAL] = 0
        scene = dataset.scenes[0]
        times_ns = int(scene["start_time"]), int(scene["end_time"])
        return cls(**arrays, host=shown_texts(dataset.scenes["host"])[0], time_span_ns=times_ns)

    def cut(self, start: int, stop: int) -> "SceneRecords":
        """Return the frames from ``start`` to ``stop`` (not included) as a separate scene, with copies of its rows.

        Raises:
            InvalidArgumentError: There are no such frames.
        """
        if not 0 <= start < stop <= len(self.frames):
            raise InvalidArgumentError(
                f"start and stop must be frames of the scene with 0 <= start < stop <= {len(self.frames)}, got "
                f"{start} and {stop}"
            )
        frames, rows = self.frames[start:stop].copy(), {}
        for name, field in (("agents", AGENT_INTERVAL), ("tl_faces", FACE_INTERVAL)):
            first = int(frames[field][0, 0])
            rows[name] = getattr(self, name)[first : int(frames[field][-1, 1])].copy()
            frames[field] -= first
        return replace(self, frames=frames, **rows, time_span_ns=None)

    @property
    def times_ns(self) -> tuple[int, int]:
        """Start and end of the scene; 0 and 0 for one without frames and times."""
        if self.time_span_ns is not None:
            return self.time_span_ns
        if len(self.frames) == 0:
            return 0, 0
        return int(self.frames["timestamp"][0]), int(self.frames["timestamp"][-1])


@dataclass(frozen=True)
class LogRecords:
    """The four arrays of a log in memory, in the record types of the format.

    Attributes:
        scenes: ``SCENE_DTYPE``, (S,).
        frames: ``FRAME_DTYPE``, (F,).
        agents: ``AGENT_DTYPE``, (N,).
        tl_faces: ``TL_FACE_DTYPE``, (M,).
    """

    scenes: RecordArray
    frames: RecordArray
    agents: RecordArray
    tl_faces: RecordArray

    def as_dataset(self, facts: LogFacts | None = None) -> ChunkedDataset:
        """Return a dataset in memory of these arrays, without copying them, with the facts of the log."""
        return ChunkedDataset.in_memory(**vars(self), facts=facts)


def join_scenes(
    scenes: Sequence[SceneRecords], starts: Sequence[int] = (0, 0, 0), *, spare_agents: int = 0
) -> LogRecords:
    """Return concatenated scenes, with intervals that count from the start of a log.

    Args:
        scenes: The scenes, at least one.
        starts: Numbers of earlier frames, agents and traffic light faces of the log.
        spare_agents: Unused rows after the agents.
    """
    # rows before each scene, including all earlier ones of the log
    sizes = [(len(scene.frames), len(scene.agents), len(scene.tl_faces)) for scene in scenes]
    ends = np.cumsum(np.array([starts, *sizes], np.int64), axis=0)
    frames = join_records([scene.frames for scene in scenes])
    of_frame = np.repeat(np.arange(len(scenes)), [size[0] for size in sizes])
    frames[AGENT_INTERVAL] += ends[of_frame, 1, None]
    frames[FACE_INTERVAL] += ends[of_frame, 2, None]
    records = np.zeros(len(scenes), SCENE_DTYPE)
    records[FRAME_INTERVAL] = np.stack([ends[:-1, 0], ends[1:, 0]], axis=1)
    records["host"] = [scene.host for scene in scenes]
    records["start_time"], records["end_time"] = np.array([scene.times_ns for scene in scenes], np.int64).T
    agents = join_records([scene.agents for scene in scenes], num_spare=spare_agents)
    return LogRecords(records, frames, agents, join_records([scene.tl_faces for scene in scenes]))


def intervals_of_counts(counts: Int64Array) -> Int64Array:
    """Return successive intervals [start, end) of some sizes (N,) from 0 on, (N, 2)."""
    ends = np.cumsum(counts, dtype=np.int64)
    return np.stack([ends - counts, ends], axis=1)


def _require_consecutive(intervals: Int64Array, num_rows: int, field: str) -> None:
    starts, stops = intervals[:, 0], intervals[:, 1]
    wanted = np.concatenate([[0], stops[:-1]]) if len(stops) else stops
    wrong = np.flatnonzero((starts != wanted) | (stops < starts))
    if len(wrong):
        frame = int(wrong[0])
        raise InvalidArgumentError(
            f"{field} of frame {frame} is {intervals[frame].tolist()}; it must start at {int(wanted[frame])}, where "
            "the previous one ends, and not end before it starts"
        )
    end = int(stops[-1]) if len(stops) else 0
    if end != num_rows:
        raise InvalidArgumentError(f"{field} of the frames must name all {num_rows} rows, but they end at {end}")

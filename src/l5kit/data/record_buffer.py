"""Record buffer: scenes of a log in memory that can be changed in place, all scenes at once."""

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from l5kit._types import Float64Array, Int64Array, NumericArray, RecordArray
from l5kit.data.array_shapes import as_sealed
from l5kit.data.frame_rows import FrameRows, expand_ranges
from l5kit.data.index.track_ids import as_record_track_ids
from l5kit.data.index.windows import CurrentFrames, Windows, WindowSteps, cut_windows
from l5kit.data.log_facts import LogFacts, require_facts
from l5kit.data.records import (
    AGENT_DTYPE,
    AGENT_INTERVAL,
    FACE_INTERVAL,
    FRAME_DTYPE,
    FRAME_INTERVAL,
    SCENE_DTYPE,
    TL_FACE_DTYPE,
)
from l5kit.data.scene_records import LogRecords, SceneRecords, intervals_of_counts, join_scenes
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError, InvalidArgumentError, TrackNotFoundError
from l5kit.geometry.transform import yaws_as_rotations33


class RecordBuffer:
    """Scenes of a batch in four arrays with spare room for frames and rows.

    Windows are cut from it as from a dataset: ``frames``, ``agents`` and ``tl_faces`` are NumPy arrays over all scenes,
    the intervals of the frames refer to rows of the other two, and the frames of a scene are contiguous. Rows without a
    frame may lie between others, and the rows of a frame may lie after those of a later frame. Values may also be
    written directly into the arrays, except the intervals of the frames, which only the methods may change. A full
    array is replaced by a larger one, so fetch it from the buffer again after each change of the number of rows.

    Frames are identified by their rows in ``frames``, from :meth:`frame_rows`; appending frames changes these rows.

    Args:
        scenes: Scenes to copy; a scene may occur several times.
        facts: Facts of their log, such as the size of the AV; None for those of L5Kit 1.5.
        spare_frames: Initial number of spare frames per scene.
        spare_agents: Initial number of spare agent rows for all scenes together. A frame that outgrows its rows moves
            and needs room for 1.5 times its new number of agents.

    Attributes:
        facts: Facts of the log.
        frames: Frames of all scenes, including unused ones, ``FRAME_DTYPE``, (F,).
        scene_starts: First frame of each scene, int64, (S,).
        scene_stops: End frame of each scene, exclusive, int64, (S,).

    Raises:
        InvalidArgumentError: There is no scene, a number is negative, or ``facts`` is not a :class:`LogFacts`.
    """

    def __init__(
        self,
        scenes: Sequence[SceneRecords],
        *,
        facts: LogFacts | None = None,
        spare_frames: int = 0,
        spare_agents: int = 0,
    ) -> None:
        if len(scenes) == 0:
            raise InvalidArgumentError("scenes must hold at least one scene, got none")
        for name, value in (("spare_frames", spare_frames), ("spare_agents", spare_agents)):
            if value < 0:
                raise InvalidArgumentError(f"{name} must be at least 0, got {value}")
        require_facts(facts)
        self.facts = facts or LogFacts()
        joined = join_scenes(scenes, spare_agents=spare_agents)
        self._hosts = [scene.host for scene in scenes]
        self._time_spans_ns = [scene.time_span_ns for scene in scenes]
        self.frames = joined.frames
        self.scene_starts, self.scene_stops = joined.scenes[FRAME_INTERVAL].T.copy()
        self._slot_ends: Int64Array = self.scene_stops.copy()
        self._agents = FrameRows(joined.agents, self.frames[AGENT_INTERVAL][:, 1].copy(), spare_agents)
        self._tl_faces = FrameRows(joined.tl_faces, self.frames[FACE_INTERVAL][:, 1].copy())
        if spare_frames:
            self._spread(self._num_frames + spare_frames)

    @property
    def num_scenes(self) -> int:
        """Number of scenes, S."""
        return len(self.scene_starts)

    @property
    def agents(self) -> RecordArray:
        """Agents of all frames, including unused rows, ``AGENT_DTYPE``, (N,)."""
        return self._agents.array

    @property
    def tl_faces(self) -> RecordArray:
        """Traffic light faces of all frames, including unused rows, ``TL_FACE_DTYPE``, (M,)."""
        return self._tl_faces.array

    @property
    def scenes(self) -> RecordArray:
        """Frame interval and host of each scene, without times, ``SCENE_DTYPE``, (S,)."""
        scenes = np.zeros(self.num_scenes, SCENE_DTYPE)
        scenes[FRAME_INTERVAL] = np.stack([self.scene_starts, self.scene_stops], axis=1)
        scenes["host"] = self._hosts
        return scenes

    @property
    def _num_frames(self) -> Int64Array:
        counts: Int64Array = self.scene_stops - self.scene_starts
        return counts

    def frame_rows(self, scenes: ArrayLike, frame_indices: ArrayLike) -> Int64Array:
        """Return the rows in ``frames`` for frame indices of scenes, (N,).

        Args:
            scenes: Scene indices, (N,).
            frame_indices: Frame indices within the scenes, (N,) or one for all.

        Raises:
            IndexOutOfRangeError: A scene or frame does not exist.
        """
        scenes, frame_indices = np.broadcast_arrays(np.asarray(scenes, np.int64), np.asarray(frame_indices, np.int64))
        self._require_scenes(scenes)
        is_wrong = (frame_indices < 0) | (frame_indices >= self._num_frames[scenes])
        if is_wrong.any():
            scene, frame = int(scenes[is_wrong][0]), int(frame_indices[is_wrong][0])
            raise IndexOutOfRangeError(
                f"frame_indices has {frame} for scene {scene}, which has {int(self._num_frames[scene])} frames"
            )
        rows: Int64Array = self.scene_starts[scenes] + frame_indices
        return rows

    def scenes_of(self, frame_rows: ArrayLike) -> Int64Array:
        """Return the scenes of frames (N,).

        Raises:
            IndexOutOfRangeError: A row is not of a frame in use.
        """
        rows = np.asarray(frame_rows, np.int64)
        scenes = np.searchsorted(self.scene_starts, rows, side="right") - 1
        is_wrong = (rows < 0) | (rows >= self.scene_stops[scenes])
        if is_wrong.any():
            raise IndexOutOfRangeError(
                f"frame_rows has {int(rows[is_wrong][0])}, which is no frame of a scene; frame_rows() gives the rows"
            )
        return scenes

    def only(self, scene: int) -> "RecordBuffer":
        """Return a read-only view of one scene; its frames and rows keep their positions."""
        view, part = copy(self), slice(scene, scene + 1)
        view.scene_starts, view.scene_stops = self.scene_starts[part], self.scene_stops[part]
        view._slot_ends, view._hosts = self._slot_ends[part], self._hosts[part]
        view._time_spans_ns = self._time_spans_ns[part]
        return view

    def as_read_only(self) -> "RecordBuffer":
        """Return a read-only view; methods that change the buffer raise."""
        view = copy(self)
        view.scene_starts, view.scene_stops = as_sealed(self.scene_starts), as_sealed(self.scene_stops)
        view.frames, view._slot_ends = as_sealed(self.frames), as_sealed(self._slot_ends)
        view._agents, view._tl_faces = self._agents.as_read_only(), self._tl_faces.as_read_only()
        return view

    def windows(self, frame_rows: ArrayLike, steps: WindowSteps) -> Windows:
        """Return the windows around frames (N,), as for a dataset; rows are not copied.

        Windows reflect the current content of the buffer, so use them before the next change.

        Raises:
            IndexOutOfRangeError: A row is not of a frame in use.
        """
        rows = np.asarray(frame_rows, np.int64)
        scenes = self.scenes_of(rows)
        current = CurrentFrames(self.frames, rows, self.scene_starts[scenes], self.scene_stops[scenes])
        return cut_windows(current, self.agents, self.tl_faces, steps, ego_extent_m=self.facts.ego_extent_m)

    def append_frames(
        self,
        scenes: ArrayLike,
        frames: RecordArray,
        *,
        agents: RecordArray | None = None,
        agent_counts: ArrayLike | None = None,
        tl_faces: RecordArray | None = None,
        face_counts: ArrayLike | None = None,
    ) -> Int64Array:
        """Append one frame to each of the given scenes and return the new rows in ``frames``, (K,).

        Args:
            scenes: Scene indices, (K,), without duplicates.
            frames: Time and AV pose of each new frame, ``FRAME_DTYPE``, (K,); their intervals are ignored.
            agents: Agents of these frames, frame by frame; None for none.
            agent_counts: Number of agents of each frame, (K,).
            tl_faces: Traffic light faces, likewise.
            face_counts: Number of faces of each frame, (K,).

        Raises:
            IndexOutOfRangeError: A scene does not exist.
            InvalidArgumentError: A scene is given twice, or the arrays do not match.
        """
        scenes = np.asarray(scenes, np.int64)
        self._require_scenes(scenes)
        _require_once("scenes", scenes)
        frames = _as_records("frames", frames, FRAME_DTYPE, len(scenes))
        agents, agent_counts = _as_counted("agents", agents, AGENT_DTYPE, agent_counts, len(scenes))
        tl_faces, face_counts = _as_counted("tl_faces", tl_faces, TL_FACE_DTYPE, face_counts, len(scenes))
        is_full = self.scene_stops[scenes] == self._slot_ends[scenes]
        if is_full.any():
            # grow full scenes by half, at least by eight frames, so that they rarely move
            rooms = self._slot_ends - self.scene_starts
            full = scenes[is_full]
            rooms[full] = self._num_frames[full] + np.maximum(self._num_frames[full] >> 1, 8)
            self._spread(rooms)
        rows: Int64Array = self.scene_stops[scenes]
        self.frames[rows] = frames
        self.scene_stops[scenes] += 1
        self._agents.open_slots(self.frames[AGENT_INTERVAL], rows)
        self._tl_faces.open_slots(self.frames[FACE_INTERVAL], rows)
        self._agents.replace(self.frames[AGENT_INTERVAL], rows, agent_counts, agents)
        self._tl_faces.replace(self.frames[FACE_INTERVAL], rows, face_counts, tl_faces)
        return rows

    def set_ego(self, frame_rows: ArrayLike, positions_m: Float64Array, yaws_rad: Float64Array) -> None:
        """Overwrite the pose of the AV in frames.

        Args:
            frame_rows: The frames, (N,).
            positions_m: World x and y, (N, 2), which keeps z; or x, y and z, (N, 3).
            yaws_rad: World heading, (N,); the rotation becomes one about the z axis.

        Raises:
            IndexOutOfRangeError: A row is not of a frame in use.
            InvalidArgumentError: An array has another shape.
        """
        rows = np.asarray(frame_rows, np.int64)
        self.scenes_of(rows)
        positions_m, yaws_rad = np.asarray(positions_m), np.asarray(yaws_rad)
        if positions_m.shape not in ((len(rows), 2), (len(rows), 3)) or yaws_rad.shape != rows.shape:
            raise InvalidArgumentError(
                f"positions_m must have shape ({len(rows)}, 2) or ({len(rows)}, 3) and yaws_rad ({len(rows)},) for "
                f"{len(rows)} frames, got {positions_m.shape} and {yaws_rad.shape}"
            )
        self.frames["ego_translation"][rows, : positions_m.shape[1]] = positions_m
        self.frames["ego_rotation"][rows] = yaws_as_rotations33(yaws_rad)

    def find_agents(self, frame_rows: ArrayLike, track_ids: ArrayLike) -> Int64Array:
        """Return the row in ``agents`` of each track (N,) in a frame (N,), or -1 if the frame lacks the track.

        Raises:
            CorruptedDataError: An interval overwritten by the caller lies outside the agents.
            IndexOutOfRangeError: A row is not of a frame in use.
            InvalidArgumentError: A frame has a track more than once, or a track id is not a whole number from 0 on.
        """
        frames, tracks = _as_pairs(frame_rows, track_ids)
        self.scenes_of(frames)
        rows = self._agents.find(self.frames[AGENT_INTERVAL], frames, "track_id", tracks)
        if (rows < -1).any():
            index = int(np.argmin(rows))
            where, interval = self._where(frames[index], tracks[index]), self.frames[AGENT_INTERVAL][frames[index]]
            if rows[index] == -2:
                raise InvalidArgumentError(f"{where} is there more than once")
            raise CorruptedDataError(
                f"{where} cannot be looked for: its {AGENT_INTERVAL} {interval.tolist()} does not lie within the "
                f"{len(self.agents)} rows of agents; change it with put_agents(), remove_agents() or replace_agents() "
                "only"
            )
        return rows

    def put_agents(self, frame_rows: ArrayLike, agents: RecordArray) -> None:
        """Write agents (N,) into frames (N,): existing tracks are overwritten, new ones appended to the frame.

        Args:
            frame_rows: Frame of each agent, (N,); may repeat.
            agents: ``AGENT_DTYPE``, (N,).

        Raises:
            CorruptedDataError: An interval overwritten by the caller lies outside the agents.
            IndexOutOfRangeError: A row is not of a frame in use.
            InvalidArgumentError: A track is given twice for a frame, or a frame has it more than once.
        """
        frames = np.asarray(frame_rows, np.int64)
        agents = _as_records("agents", agents, AGENT_DTYPE, len(frames))
        frames, tracks = _as_pairs(frames, agents["track_id"])
        rows = self.find_agents(frames, tracks)
        self._require_pairs_once(frames, tracks, rows)
        self._agents.put(self.frames[AGENT_INTERVAL], frames, rows, agents)

    def remove_agents(self, frame_rows: ArrayLike, track_ids: ArrayLike) -> None:
        """Remove tracks (N,) from frames (N,); later agents of a frame move up.

        Raises:
            CorruptedDataError: An interval overwritten by the caller lies outside the agents.
            IndexOutOfRangeError: A row is not of a frame in use.
            InvalidArgumentError: A track is given twice for a frame, or a frame has it more than once.
            TrackNotFoundError: A frame does not have the track.
        """
        frames, tracks = _as_pairs(frame_rows, track_ids)
        rows = self.find_agents(frames, tracks)
        self._require_pairs_once(frames, tracks, rows)
        if (rows < 0).any():
            index = int(np.argmax(rows < 0))
            raise TrackNotFoundError(f"{self._where(frames[index], tracks[index])} is not there")
        if len(rows):
            self._agents.remove(self.frames[AGENT_INTERVAL], frames, rows)

    def replace_agents(self, frame_rows: ArrayLike, agents: RecordArray, counts: ArrayLike) -> None:
        """Replace all agents of frames.

        Args:
            frame_rows: Frames, (K,), without duplicates.
            agents: Agents of these frames, frame by frame, ``AGENT_DTYPE``.
            counts: Number of agents of each frame, (K,).

        Raises:
            IndexOutOfRangeError: A row is not of a frame in use.
            InvalidArgumentError: A frame is given twice, or the arrays do not match.
        """
        rows = self._frames_once(frame_rows)
        agents, counts = _as_counted("agents", agents, AGENT_DTYPE, counts, len(rows))
        self._agents.replace(self.frames[AGENT_INTERVAL], rows, counts, agents)

    def replace_tl_faces(self, frame_rows: ArrayLike, tl_faces: RecordArray, counts: ArrayLike) -> None:
        """Replace all traffic light faces of frames; arguments and errors as in :meth:`replace_agents`."""
        rows = self._frames_once(frame_rows)
        tl_faces, counts = _as_counted("tl_faces", tl_faces, TL_FACE_DTYPE, counts, len(rows))
        self._tl_faces.replace(self.frames[FACE_INTERVAL], rows, counts, tl_faces)

    def host_of(self, scene: int) -> str:
        """Return the name of the car that recorded a scene."""
        return self._hosts[scene]

    def scene(self, scene: int) -> SceneRecords:
        """Return a copy of the current state of one scene.

        Raises:
            IndexOutOfRangeError: The scene does not exist.
        """
        self._require_scenes(np.array([scene]))
        frames, agents, tl_faces = self._packed(np.arange(self.scene_starts[scene], self.scene_stops[scene]))
        return SceneRecords(frames, agents, tl_faces, host=self._hosts[scene], time_span_ns=self._time_spans_ns[scene])

    def to_log(self) -> LogRecords:
        """Return a copy of the current state of all scenes, in the order of the format, ready for writing."""
        frames, agents, tl_faces = self._packed(expand_ranges(self.scene_starts, self._num_frames))
        scenes = np.zeros(self.num_scenes, SCENE_DTYPE)
        intervals = scenes[FRAME_INTERVAL] = intervals_of_counts(self._num_frames)
        scenes["host"] = self._hosts
        is_filled = intervals[:, 1] > intervals[:, 0]
        times_ns = np.zeros_like(intervals)
        times_ns[is_filled] = frames["timestamp"][intervals[is_filled] - [0, 1]]
        for scene, span_ns in enumerate(self._time_spans_ns):
            times_ns[scene] = times_ns[scene] if span_ns is None else span_ns
        scenes["start_time"], scenes["end_time"] = times_ns.T
        return LogRecords(scenes, frames, agents, tl_faces)

    def _packed(self, rows: Int64Array) -> tuple[RecordArray, RecordArray, RecordArray]:
        """Return copies of frames, with consecutive intervals from 0, and of their rows."""
        frames = self.frames[rows]
        agents = self._agents.packed(frames[AGENT_INTERVAL])
        tl_faces = self._tl_faces.packed(frames[FACE_INTERVAL])
        for field in (AGENT_INTERVAL, FACE_INTERVAL):
            frames[field] = intervals_of_counts(np.diff(frames[field], axis=1)[:, 0])
        return frames, agents, tl_faces

    def _spread(self, rooms: Int64Array) -> None:
        """Rearrange the frames of all scenes, with the given room (S,) for frames in each."""
        slots = intervals_of_counts(rooms)
        frames = np.zeros(int(rooms.sum()), FRAME_DTYPE)
        source = expand_ranges(self.scene_starts, self._num_frames)
        target = expand_ranges(slots[:, 0], self._num_frames)
        frames[target] = self.frames[source]
        for rows in (self._agents, self._tl_faces):
            rows.take_frames(source, target, len(frames))
        self.scene_stops = slots[:, 0] + self._num_frames
        self.frames, self.scene_starts, self._slot_ends = frames, slots[:, 0].copy(), slots[:, 1].copy()

    def _frames_once(self, frame_rows: ArrayLike) -> Int64Array:
        rows = np.asarray(frame_rows, np.int64).reshape(-1)
        self.scenes_of(rows)
        _require_once("frame_rows", rows)
        return rows

    def _require_scenes(self, scenes: Int64Array) -> None:
        is_wrong = (scenes < 0) | (scenes >= self.num_scenes)
        if is_wrong.any():
            raise IndexOutOfRangeError(
                f"scenes has {int(scenes[is_wrong][0])}, but the buffer has scenes 0 to {self.num_scenes - 1}"
            )

    def _require_pairs_once(self, frames: Int64Array, tracks: NumericArray, rows: Int64Array) -> None:
        """Refuse duplicate pairs of frames (N,) and tracks (N,); ``rows`` (N,) is the result of :meth:`find_agents`."""
        known_rows, new = np.sort(rows[rows >= 0]), np.flatnonzero(rows < 0)
        order = new[np.lexsort((tracks[new], frames[new]))]
        is_same = (np.diff(frames[order]) == 0) & (tracks[order][1:] == tracks[order][:-1])
        if (known_rows[1:] == known_rows[:-1]).any():
            index = int(np.flatnonzero(rows == known_rows[:-1][known_rows[1:] == known_rows[:-1]][0])[0])
        elif is_same.any():
            index = int(order[int(np.argmax(is_same))])
        else:
            return
        raise InvalidArgumentError(f"{self._where(frames[index], tracks[index])} is given twice; give each once")

    def _where(self, row: np.int64, track: np.uint64) -> str:
        """Return a description of a track of a frame for messages."""
        scene = int(self.scenes_of(np.array([row]))[0])
        return f"track {int(track)} of frame {int(row - self.scene_starts[scene])} of scene {scene}"


def _require_once(name: str, rows: Int64Array) -> None:
    values, counts = np.unique(rows, return_counts=True)
    if (counts > 1).any():
        raise InvalidArgumentError(f"{name} has {int(values[counts > 1][0])} more than once; give each once")


def _as_pairs(frame_rows: ArrayLike, track_ids: ArrayLike) -> tuple[Int64Array, NumericArray]:
    frames, tracks = np.asarray(frame_rows, np.int64), as_record_track_ids("track_ids", track_ids)
    if frames.ndim != 1 or frames.shape != tracks.shape:
        raise InvalidArgumentError(
            f"frame_rows and track_ids must be of one shape (N,), got {frames.shape} and {tracks.shape}"
        )
    return frames, tracks


def _as_records(name: str, records: ArrayLike, dtype: DTypeLike, length: int) -> RecordArray:
    array: RecordArray = np.ascontiguousarray(records)
    if array.dtype != np.dtype(dtype) or array.shape != (length,):
        raise InvalidArgumentError(
            f"{name} must be {length} records of type {np.dtype(dtype)}, got {array.dtype} of shape {array.shape}"
        )
    return array


def _as_counted(
    name: str, records: RecordArray | None, dtype: DTypeLike, counts: ArrayLike | None, length: int
) -> tuple[RecordArray, Int64Array]:
    """Return checked records of frames, and their number per frame (K,)."""
    if records is None:
        if counts is not None and np.any(counts):
            raise InvalidArgumentError(f"{name} is None, but their counts are {counts}; pass both or none")
        records, counts = np.zeros(0, np.dtype(dtype)), np.zeros(length, np.int64)
    if counts is None:
        raise InvalidArgumentError(f"the counts of {name} must be {length} numbers from 0 on, got None; pass both")
    num_records = np.asarray(counts, np.int64)
    if num_records.shape != (length,) or (num_records < 0).any():
        raise InvalidArgumentError(f"the counts of {name} must be {length} numbers from 0 on, got {counts}")
    return _as_records(name, records, dtype, int(num_records.sum())), num_records

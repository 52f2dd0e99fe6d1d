"""Where tracks are in the frames of a batch of contexts, in the world."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float32Array, Float64Array, FloatArray, Int64Array, NumericArray, RecordArray
from l5kit.data.filter import kept_probability
from l5kit.data.window_rows import WindowRows
from l5kit.geometry.transform import GIMBAL_LOCK_COSINE
from l5kit.rasterization.rasterizer import EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH


@dataclass(frozen=True)
class TrackStates:
    """One track of each of B contexts in F frames, in the world; frames without it hold anything.

    Attributes:
        is_there: Whether the track is in the frame, (B, F).
        positions_m: (B, F, 2) float64.
        yaws_rad: (B, F) float32.
        extents_m: Length and width, (B, F, 2) float32.
    """

    is_there: BoolArray
    positions_m: Float64Array
    yaws_rad: Float32Array
    extents_m: Float32Array

    @classmethod
    def empty(cls, num_contexts: int, num_frames: int) -> "TrackStates":
        """Return states of tracks that are in no frame."""
        shape = num_contexts, num_frames
        return cls(
            np.zeros(shape, np.bool_),
            np.empty((*shape, 2)),
            np.empty(shape, np.float32),
            np.empty((*shape, 2), np.float32),
        )

    def as_arrays(self) -> tuple[BoolArray, Float64Array, Float32Array, Float32Array]:
        """Return the four arrays."""
        return self.is_there, self.positions_m, self.yaws_rad, self.extents_m


def as_track_ids(agents_dtype: np.dtype[Any], track_id: int) -> NumericArray | None:
    """Return one track as an array (1,) of the type of the agents' field; None if no row can hold it."""
    if "track_id" not in (agents_dtype.names or ()):
        return None
    try:
        return np.array([int(track_id)], dtype=agents_dtype["track_id"])
    except OverflowError:
        return None


def trace_tracks(agents: WindowRows, track_ids: NumericArray, states: TrackStates) -> None:
    """Write where tracks are to states; of several rows of a track in one frame the first counts.

    Args:
        agents: Agents of the frames of B contexts.
        track_ids: One track for each context, (B,), in the type of the agents' field.
        states: Empty ones, of at least as many frames.
    """
    for rows, windows in agents.parts():
        _trace_tracks(rows, windows.start, windows.stop, agents.starts, agents.stops, track_ids, *states.as_arrays())


def trace_av(history_frames: RecordArray, num_history: Int64Array, states: TrackStates, first_frame: int = 0) -> None:
    """Write where the AV is in the first ``num_history`` (B,) of frames (B, F) to states, from ``first_frame`` on."""
    _trace_av(history_frames, num_history, first_frame, *states.as_arrays())


@dataclass(frozen=True)
class FoundAgents:
    """Agents of B frames.

    Attributes:
        rows: Their rows, each in the array of its window, (B,); -1 for a track that is not in its frame, -2 for one of
            which no row passes the label filter.
        centroids_m: (B, 2) float64; anything where there is no row.
        yaws_rad: (B,) float64, likewise.
        extents_m: (B, 3) in the type of the field, likewise.
    """

    rows: Int64Array
    centroids_m: Float64Array
    yaws_rad: Float64Array
    extents_m: FloatArray


def find_current(agents: WindowRows, track_ids: NumericArray, filter_agents_threshold: float) -> FoundAgents:
    """Return each track's first row of the first frame of its window that passes the label filter."""
    num_windows, threshold = len(track_ids), np.float32(filter_agents_threshold)
    found = FoundAgents(
        np.empty(num_windows, np.int64),
        np.empty((num_windows, 2)),
        np.empty(num_windows),
        np.empty((num_windows, 3), agents.dtype["extent"].base),
    )
    states = found.rows, found.centroids_m, found.yaws_rad, found.extents_m
    for rows, windows in agents.parts():
        _find_current(rows, windows.start, windows.stop, agents.starts, agents.stops, track_ids, threshold, *states)
    return found


def av_yaws(frames: RecordArray) -> Float64Array:
    """Return the heading of the AV in frames (N,), to the bit as :func:`l5kit.geometry.rotation33_as_yaw`."""
    yaws_rad = np.empty(len(frames))
    _write_yaws(np.ascontiguousarray(frames["ego_rotation"]), yaws_rad)
    return yaws_rad


@njit(nogil=True, cache=True, error_model="numpy")
def _trace_tracks(
    rows: RecordArray,
    first_context: int,
    end_context: int,
    starts: Int64Array,
    stops: Int64Array,
    track_ids: NumericArray,
    is_there: BoolArray,
    positions_m: Float64Array,
    yaws_rad: Float32Array,
    extents_m: Float32Array,
) -> None:
    """Write the states of the tracks of some contexts, whose agents are ``rows``."""
    for context in range(first_context, end_context):
        for frame in range(starts.shape[1]):
            for row in range(starts[context, frame], stops[context, frame]):
                if rows[row].track_id == track_ids[context]:
                    agent = rows[row]
                    is_there[context, frame] = True
                    positions_m[context, frame, 0] = agent.centroid[0]
                    positions_m[context, frame, 1] = agent.centroid[1]
                    yaws_rad[context, frame] = agent.yaw
                    extents_m[context, frame, 0] = agent.extent[0]
                    extents_m[context, frame, 1] = agent.extent[1]
                    break


@njit(nogil=True, cache=True, error_model="numpy")
def _find_current(
    agents: RecordArray,
    first_context: int,
    end_context: int,
    starts: Int64Array,
    stops: Int64Array,
    track_ids: NumericArray,
    threshold: np.float32,
    rows: Int64Array,
    centroids_m: Float64Array,
    yaws_rad: Float64Array,
    extents_m: FloatArray,
) -> None:
    """Write the fields of :class:`FoundAgents` of some contexts, whose agents these are."""
    for context in range(first_context, end_context):
        rows[context] = -1
        for row in range(starts[context, 0], stops[context, 0]):
            if agents[row].track_id == track_ids[context]:
                if kept_probability(agents[row].label_probabilities) > threshold:
                    rows[context] = row
                    centroids_m[context, 0], centroids_m[context, 1] = agents[row].centroid[0], agents[row].centroid[1]
                    yaws_rad[context] = agents[row].yaw
                    for axis in range(3):
                        extents_m[context, axis] = agents[row].extent[axis]
                    break
                rows[context] = -2


@njit(nogil=True, cache=True, error_model="numpy")
def _trace_av(
    frames: RecordArray,
    num_frames: Int64Array,
    first_frame: int,
    is_there: BoolArray,
    positions_m: Float64Array,
    yaws_rad: Float32Array,
    extents_m: Float32Array,
) -> None:
    """Write the states of the AV in frames (B, F) to the columns from ``first_frame`` on."""
    for context in range(len(num_frames)):
        for frame in range(num_frames[context]):
            column = first_frame + frame
            is_there[context, column] = True
            av = frames[context, frame]
            positions_m[context, column, 0] = av.ego_translation[0]
            positions_m[context, column, 1] = av.ego_translation[1]
            yaws_rad[context, column] = _yaw(av.ego_rotation[0, 0], av.ego_rotation[1, 0])
            extents_m[context, column, 0] = EGO_EXTENT_LENGTH
            extents_m[context, column, 1] = EGO_EXTENT_WIDTH


@njit(nogil=True, cache=True, error_model="numpy")
def _write_yaws(rotations: Float64Array, yaws_rad: Float64Array) -> None:
    for i in range(len(rotations)):
        yaws_rad[i] = _yaw(rotations[i, 0, 0], rotations[i, 1, 0])


@njit(nogil=True, cache=True, error_model="numpy")
def _yaw(cos: float, sin: float) -> Any:
    """Return the heading of a rotation by the first two entries of its first column, 0 where its x axis is vertical."""
    return math.atan2(sin, cos) if math.sqrt(cos * cos + sin * sin) > GIMBAL_LOCK_COSINE else 0.0

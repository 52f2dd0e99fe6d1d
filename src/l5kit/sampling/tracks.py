"""Tracks in windows: where an agent, or the AV, is in each of their frames, in the world."""

import reprlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, DType, Float32Array, Float64Array, Int64Array, NumericArray, RecordArray
from l5kit.data.array_shapes import refuse_shapes
from l5kit.data.filter import kept_probability
from l5kit.data.log_facts import EGO_EXTENT_M
from l5kit.data.window_rows import WindowRows
from l5kit.data.windows import Targets, Windows
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import yaw_of_x_axis


class StateArrays(NamedTuple):
    """The arrays of :class:`TrackStates` inside kernels, which take a plain tuple: it is cheapest to hand over."""

    is_there: BoolArray
    positions_m: Float64Array
    yaws_rad: Float32Array
    extents_m: Float32Array


@dataclass(frozen=True)
class TrackStates:
    """One track of each of B windows in N frames, in the world; what stands at frames without it means nothing.

    Attributes:
        is_there: Whether the track is in the frame, (B, N).
        positions_m: (B, N, 2) float64.
        yaws_rad: (B, N) float32.
        extents_m: Length and width, (B, N, 2) float32.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    is_there: BoolArray
    positions_m: Float64Array
    yaws_rad: Float32Array
    extents_m: Float32Array

    def __post_init__(self) -> None:
        shape = self.is_there.shape
        twos = (*shape, 2)
        if self.positions_m.shape != twos or self.yaws_rad.shape != shape or self.extents_m.shape != twos:
            refuse_shapes(self, positions_m=twos, yaws_rad=shape, extents_m=twos)

    @classmethod
    def empty(cls, num_windows: int, num_frames: int) -> "TrackStates":
        """Return states of tracks that are in no frame."""
        shape = num_windows, num_frames
        return cls(
            np.zeros(shape, np.bool_),
            np.empty((*shape, 2)),
            np.empty(shape, np.float32),
            np.empty((*shape, 2), np.float32),
        )

    def as_arrays(self) -> tuple[NumericArray, ...]:
        """Return the four arrays, in the order of :class:`StateArrays`."""
        return self.is_there, self.positions_m, self.yaws_rad, self.extents_m


def as_track_ids(agents_dtype: DType, track_id: int) -> NumericArray | None:
    """Return one track as an array (1,) of the type of the agents' field; None if no row can hold it."""
    if "track_id" not in (agents_dtype.names or ()):
        return None
    try:
        return np.array([int(track_id)], dtype=agents_dtype["track_id"])
    except OverflowError:
        return None


def hold_track_ids(windows: Windows, track_ids: ArrayLike) -> tuple[NumericArray, BoolArray | None]:
    """Return tracks in the type of the agents' field, and which of them that type can hold.

    Args:
        windows: B windows.
        track_ids: One track for each, (B,): integers of any type, or a list of them.

    Returns:
        The tracks, (B,), with 0 for those that no row can hold; and which can be held, (B,), None for all.

    Raises:
        InvalidArgumentError: There is another number of tracks, or they are no whole numbers.
    """
    held = windows.agents.dtype["track_id"]
    if isinstance(track_ids, np.ndarray) and track_ids.dtype == held:
        require_one_each(track_ids.shape, len(windows))
        return track_ids, None
    ids, bounds = _as_whole_numbers(track_ids), np.iinfo(held)
    require_one_each(ids.shape, len(windows))
    fits = ((ids >= bounds.min) & (ids <= bounds.max)).astype(np.bool_)
    return np.where(fits, ids, 0).astype(held), None if fits.all() else fits


def require_one_each(shape: tuple[int, ...], num_windows: int) -> None:
    """Refuse track ids of another shape than (B,).

    Raises:
        InvalidArgumentError: They have another shape.
    """
    if shape != (num_windows,):
        raise InvalidArgumentError(
            f"track_ids has shape {shape}; pass one track for each of the {num_windows} windows, shape {(num_windows,)}"
        )


def _as_whole_numbers(track_ids: ArrayLike) -> NumericArray:
    """Return integers as an array of integers, or of Python's where no type holds them all."""
    try:
        ids = np.asarray(track_ids)
        objects = ids if ids.dtype.kind in "iu" else np.array(track_ids, dtype=object)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"track_ids is {reprlib.repr(track_ids)}; pass an array (B,) of whole numbers"
        ) from error
    if objects.dtype.kind not in "iu":
        for track_id in objects.flat:
            if not isinstance(track_id, int | np.integer) or isinstance(track_id, bool):
                raise InvalidArgumentError(
                    f"track_ids holds {track_id!r} of type {type(track_id).__name__}; tracks are whole numbers: pass "
                    "an array (B,) of integers, best of the type of the agents' field"
                )
    return objects


def trace_tracks(agents: WindowRows, track_ids: NumericArray, states: TrackStates) -> None:
    """Write where tracks are to states; of several rows of a track in one frame the first counts.

    Args:
        agents: Agents of the frames of B windows.
        track_ids: One track for each window, (B,), in the type of the agents' field.
        states: Empty ones, of at least as many frames.

    Raises:
        InvalidArgumentError: There is another number of tracks, or the states are of other windows or too few frames.
    """
    num_windows, num_frames = agents.starts.shape
    require_one_each(track_ids.shape, num_windows)
    num_states, num_steps = states.is_there.shape
    if num_states != num_windows or num_steps < num_frames:
        raise InvalidArgumentError(
            f"states are of shape {(num_states, num_steps)}; pass those of {num_windows} windows and at least "
            f"{num_frames} frames, as many as there are agents of"
        )
    for rows, part in agents.parts():
        _trace_tracks(rows, (part.start, part.stop), agents.starts, agents.stops, track_ids, states.as_arrays())


def trace_av(
    frames: RecordArray,
    counts: Int64Array,
    states: TrackStates,
    *,
    num_history: int,
    extent_m: tuple[float, float, float] = EGO_EXTENT_M,
) -> None:
    """Write where the AV is to states.

    Args:
        frames: FRAME_DTYPE, (B, H + F), as in :class:`l5kit.data.windows.Windows`.
        counts: How many of the history frames and of the future frames are there, (2, B).
        states: Empty ones, of at least as many frames.
        num_history: H.
        extent_m: Length, width and height of the AV.
    """
    _trace_av(frames, counts, num_history, (extent_m[0], extent_m[1]), states.as_arrays())


def find_targets(windows: Windows, track_ids: NumericArray, filter_agents_threshold: float) -> Targets:
    """Return each track's first row of the current frame that passes the label filter.

    Args:
        windows: B windows.
        track_ids: One track for each, (B,), in the type of the agents' field.
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes.

    Returns:
        Targets whose ``rows`` are -1 for a track that is not in its frame, and -2 for one of which no row passes the
        filter; anything stands in their other fields.

    Raises:
        InvalidArgumentError: There is another number of tracks.
    """
    num_windows, agents, threshold = len(windows), windows.agents, np.float32(filter_agents_threshold)
    require_one_each(track_ids.shape, num_windows)
    found_rows, fields = np.empty(num_windows, np.int64), agents.dtype
    found = Targets(
        track_ids=track_ids,
        rows=found_rows,
        centroids_m=np.empty((num_windows, 2)),
        yaws_rad=np.empty(num_windows, fields["yaw"]),
        extents_m=np.empty((num_windows, 3), fields["extent"].base),
    )
    fields_of_found = found_rows, found.centroids_m, found.yaws_rad, found.extents_m
    for rows, part in agents.parts():
        current = (part.start, part.stop), agents.starts, agents.stops
        _find_targets(rows, *current, track_ids, threshold, fields_of_found)
    return found


def av_yaws(frames: RecordArray) -> Float64Array:
    """Return the heading of the AV in frames (N,), to the bit as :func:`l5kit.geometry.rotation33_as_yaw`."""
    yaws_rad = np.empty(len(frames))
    _write_yaws(np.ascontiguousarray(frames["ego_rotation"]), yaws_rad)
    return yaws_rad


@njit(nogil=True, cache=True, error_model="numpy")
def _trace_tracks(
    rows: RecordArray,
    part: tuple[int, int],
    starts: Int64Array,
    stops: Int64Array,
    track_ids: NumericArray,
    state_arrays: tuple[NumericArray, ...],
) -> None:
    """Write the states of the tracks of the windows ``part``, first and end, whose agents are ``rows``."""
    states = StateArrays(*state_arrays)
    for window in range(part[0], part[1]):
        for frame in range(starts.shape[1]):
            bounds = (starts[window, frame], stops[window, frame])
            write_agent_state(rows, bounds, track_ids[window], states, (window, frame))


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def write_agent_state(
    rows: RecordArray, bounds: tuple[int, int], track_id: int, states: StateArrays, place: tuple[int, int]
) -> None:
    """Write the first row of a track among those of a frame, first and end row, to a place of states, if it is there.

    For use inside kernels.
    """
    for row in range(bounds[0], bounds[1]):
        if rows[row].track_id == track_id:
            agent = rows[row]
            states.is_there[place] = True
            states.yaws_rad[place] = agent.yaw
            for axis in range(2):
                states.positions_m[place[0], place[1], axis] = agent.centroid[axis]
                states.extents_m[place[0], place[1], axis] = agent.extent[axis]
            break


@njit(nogil=True, cache=True, error_model="numpy")
def _find_targets(
    agents: RecordArray,
    part: tuple[int, int],
    starts: Int64Array,
    stops: Int64Array,
    track_ids: NumericArray,
    threshold: np.float32,
    found: tuple[NumericArray, ...],
) -> None:
    """Write rows, centroids, headings and extents of the targets of the windows ``part``, whose agents these are."""
    rows, centroids_m, yaws_rad, extents_m = found
    for window in range(part[0], part[1]):
        rows[window] = -1
        for row in range(starts[window, 0], stops[window, 0]):
            if agents[row].track_id == track_ids[window]:
                if kept_probability(agents[row].label_probabilities) > threshold:
                    rows[window] = row
                    centroids_m[window, 0], centroids_m[window, 1] = agents[row].centroid[0], agents[row].centroid[1]
                    yaws_rad[window] = agents[row].yaw
                    for axis in range(3):
                        extents_m[window, axis] = agents[row].extent[axis]
                    break
                rows[window] = -2


@njit(nogil=True, cache=True, error_model="numpy")
def _trace_av(
    frames: RecordArray,
    counts: Int64Array,
    num_history: int,
    size_m: tuple[float, float],
    state_arrays: tuple[NumericArray, ...],
) -> None:
    """Write the states of the AV in the frames (B, H + F) that are there."""
    states = StateArrays(*state_arrays)
    for window in range(len(frames)):
        for column in range(frames.shape[1]):
            if column >= counts[0, window] if column < num_history else column - num_history >= counts[1, window]:
                continue
            av = frames[window, column]
            states.is_there[window, column] = True
            states.positions_m[window, column, 0] = av.ego_translation[0]
            states.positions_m[window, column, 1] = av.ego_translation[1]
            states.yaws_rad[window, column] = yaw_of_x_axis(av.ego_rotation[0, 0], av.ego_rotation[1, 0])
            states.extents_m[window, column, 0] = size_m[0]
            states.extents_m[window, column, 1] = size_m[1]


@njit(nogil=True, cache=True, error_model="numpy")
def _write_yaws(rotations: Float64Array, yaws_rad: Float64Array) -> None:
    for i in range(len(rotations)):
        yaws_rad[i] = yaw_of_x_axis(rotations[i, 0, 0], rotations[i, 1, 0])

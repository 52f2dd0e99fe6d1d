"""Tracks in windows: targets of samples, and their poses in each frame, in the world and in their own frames."""

import math
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, DType, Float32Array, Float64Array, FloatArray, Int64Array, NumericArray, RecordArray
from l5kit.configs.parameters import SamplingParams, VectorSamplingParams
from l5kit.data.array_shapes import refuse_shapes
from l5kit.data.device_log import DeviceLog
from l5kit.data.filter import kept_probability
from l5kit.data.index.windows import (
    NewArray,
    PoseArrays,
    RelativePoses,
    TargetArrays,
    Targets,
    WindowArrays,
    WindowRows,
    Windows,
)
from l5kit.errors import InvalidArgumentError, TrackNotFoundError
from l5kit.geometry.relative_pose import angular_distance_float32, transform_xy
from l5kit.geometry.transform import yaw_of_x_axis
from l5kit.kinematic.perturbation import Perturbation
from l5kit.kinematic.recovery import AgentBoxes, RecoveryPerturbation


class StateArrays(NamedTuple):
    """The arrays of :class:`TrackStates` in kernels, which receive them as a plain tuple, the cheapest to pass."""

    is_there: BoolArray
    positions_m: Float64Array
    yaws_rad: Float32Array
    extents_m: Float32Array


@dataclass(frozen=True)
class TrackStates:
    """World states of one track per window, of B windows, in N frames; states of absent tracks are meaningless.

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
        """Return states of tracks that are absent in all frames."""
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
    """Return one track as an array (1,) of the dtype of the agents' field; None if it does not fit."""
    if "track_id" not in (agents_dtype.names or ()):
        return None
    try:
        return np.array([int(track_id)], dtype=agents_dtype["track_id"])
    except OverflowError:
        return None


def hold_track_ids(windows: Windows, track_ids: ArrayLike) -> tuple[NumericArray, BoolArray | None]:
    """Return tracks in the dtype of the agents' field, and a mask of those that fit it.

    Args:
        windows: B windows.
        track_ids: One track for each, (B,): integers of any dtype, or a list of them.

    Returns:
        The tracks, (B,), with 0 for those that do not fit; and a mask of those that do, (B,), None for all.

    Raises:
        InvalidArgumentError: The number of tracks is wrong, or they are not whole numbers.
    """
    held = windows.agents.dtype["track_id"]
    if isinstance(track_ids, np.ndarray) and track_ids.dtype == held:
        require_one_each(track_ids.shape, len(windows))
        return track_ids, None
    # integers of any dtype, or Python integers if no dtype holds them all
    try:
        ids = np.asarray(track_ids)
        ids = ids if ids.dtype.kind in "iu" else np.array(track_ids, dtype=object)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"track_ids is {reprlib.repr(track_ids)}; pass an array (B,) of whole numbers"
        ) from error
    for track_id in () if ids.dtype.kind in "iu" else ids.flat:
        if not isinstance(track_id, int | np.integer) or isinstance(track_id, bool):
            raise InvalidArgumentError(
                f"track_ids holds {track_id!r} of type {type(track_id).__name__}; tracks are whole numbers: pass "
                "an array (B,) of integers, ideally in the dtype of the agents' field"
            )
    bounds = np.iinfo(held)
    require_one_each(ids.shape, len(windows))
    fits = ((ids >= bounds.min) & (ids <= bounds.max)).astype(np.bool_)
    return np.where(fits, ids, 0).astype(held), None if fits.all() else fits


def require_one_each(shape: tuple[int, ...], num_windows: int) -> None:
    """Refuse track ids whose shape is not (B,).

    Raises:
        InvalidArgumentError: The shape differs.
    """
    if shape != (num_windows,):
        raise InvalidArgumentError(
            f"track_ids has shape {shape}; pass one track for each of the {num_windows} windows, shape {(num_windows,)}"
        )


def trace_tracks(agents: WindowRows, track_ids: NumericArray, states: TrackStates) -> None:
    """Fill ``states`` with the poses of tracks; the first row of a track in a frame is used.

    Args:
        agents: Agents of the frames of B windows.
        track_ids: One track for each window, (B,), in the dtype of the agents' field.
        states: Empty states of at least as many frames.

    Raises:
        InvalidArgumentError: The number of tracks is wrong, or the states have a different number of windows or too few
            frames.
    """
    num_windows, num_frames = agents.starts.shape
    require_one_each(track_ids.shape, num_windows)
    num_states, num_steps = states.is_there.shape
    if num_states != num_windows or num_steps < num_frames:
        raise InvalidArgumentError(
            f"states have shape {(num_states, num_steps)}; pass states of {num_windows} windows and at least "
            f"{num_frames} frames, like the agents"
        )
    for rows, part in agents.parts():
        _trace_tracks(rows, (part.start, part.stop), agents.starts, agents.stops, track_ids, states.as_arrays())


def find_targets(windows: Windows, track_ids: NumericArray, filter_agents_threshold: float) -> Targets:
    """Return the first row of each track in the current frame that passes the label filter.

    Args:
        windows: B windows.
        track_ids: One track for each, (B,), in the dtype of the agents' field.
        filter_agents_threshold: Strict lower bound of the summed probability of the kept classes.

    Returns:
        Targets whose ``rows`` are -1 for a track that is not in its frame, and -2 for a track without a row that passes
        the filter; other fields of these are undefined.

    Raises:
        InvalidArgumentError: The number of tracks is wrong.
    """
    num_windows, agents, threshold = len(windows), windows.agents, np.float32(filter_agents_threshold)
    require_one_each(track_ids.shape, num_windows)
    target_rows, fields = np.empty(num_windows, np.int64), agents.dtype
    result = Targets(
        track_ids=track_ids,
        rows=target_rows,
        centroids_m=np.empty((num_windows, 2)),
        yaws_rad=np.empty(num_windows, fields["yaw"]),
        extents_m=np.empty((num_windows, 3), fields["extent"].base),
    )
    fields_of_targets = target_rows, result.centroids_m, result.yaws_rad, result.extents_m
    for rows, part in agents.parts():
        current = (part.start, part.stop), agents.starts, agents.stops
        _find_targets(rows, *current, track_ids, threshold, fields_of_targets)
    return result


@kernel_jit
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
    rows: RecordArray, bounds: tuple[int, int], track_id: int, states: StateArrays, at: tuple[int, int]
) -> None:
    """Write the first row of a track among the rows ``bounds`` of a frame to the states at ``at``, if present.

    For use inside kernels.
    """
    for row in range(bounds[0], bounds[1]):
        if rows[row].track_id == track_id:
            agent = rows[row]
            states.is_there[at] = True
            states.yaws_rad[at] = agent.yaw
            for axis in range(2):
                states.positions_m[at[0], at[1], axis] = agent.centroid[axis]
                states.extents_m[at[0], at[1], axis] = agent.extent[axis]
            break


@kernel_jit
def _find_targets(
    agents: RecordArray,
    part: tuple[int, int],
    starts: Int64Array,
    stops: Int64Array,
    track_ids: NumericArray,
    threshold: np.float32,
    result: tuple[NumericArray, ...],
) -> None:
    """Write rows, centroids, headings and extents of the targets of the windows ``part``, with rows ``agents``."""
    rows, centroids_m, yaws_rad, extents_m = result
    # the first row that passes the filter; -2 if there are only others
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


@kernel_jit
def trace_av(
    frames: RecordArray,
    counts: Int64Array,
    num_history: int,
    extent_m: tuple[float, float, float],
    state_arrays: tuple[NumericArray, ...],
) -> None:
    """Write the states of the AV in the available frames.

    Args:
        frames: FRAME_DTYPE, (B, H + F), as in :class:`l5kit.data.index.windows.Windows`.
        counts: Numbers of available history frames and future frames, (2, B).
        num_history: H.
        extent_m: Length, width and height of the AV.
        state_arrays: Arrays of empty :class:`TrackStates` of at least as many frames.
    """
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
            states.extents_m[window, column, 0] = extent_m[0]
            states.extents_m[window, column, 1] = extent_m[1]


@kernel_jit
def _find_av(frames: RecordArray, extent_m: tuple[float, float, float], result: tuple[Float64Array, ...]) -> None:
    """Write world x and y, heading and size of the AV in the first of the frames (B, F) of windows."""
    centroids_m, yaws_rad, extents_m = result
    for window in range(len(frames)):
        av = frames[window, 0]
        centroids_m[window, 0], centroids_m[window, 1] = av.ego_translation[0], av.ego_translation[1]
        # bit for bit like geometry.rotation33_as_yaw
        yaws_rad[window] = yaw_of_x_axis(av.ego_rotation[0, 0], av.ego_rotation[1, 0])
        for axis in range(3):
            extents_m[window, axis] = extent_m[axis]


def perturb_windows(windows: Windows, perturbation: Perturbation | None) -> None:
    """Perturb the AV in the frames of windows with a complete future.

    Raises:
        InvalidArgumentError: The perturbation returned a different number of frames.
    """
    if perturbation is None or windows.num_future == 0:
        return

    # one kernel moves the AVs of all windows, and avoids the boxes around them
    if isinstance(perturbation, RecoveryPerturbation):
        boxes = [
            AgentBoxes(part, rows, windows.agents.starts[part], windows.agents.stops[part])
            for rows, part in windows.agents.parts()
        ]
        size_m = windows.ego_extent_m[:2]
        perturbation.move_frames(
            windows.frames, windows.counts, num_history=windows.num_history, size_m=size_m, agents=boxes
        )
        return

    # perturbations of L5Kit 1.5 and custom ones move one window at a time
    for window in np.flatnonzero(windows.counts[1] == windows.num_future).tolist():
        history, future = windows.history(window), windows.future(window)
        moved_history, moved_future = perturbation.perturb(history, future)
        if len(moved_history) != len(history) or len(moved_future) != len(future):
            raise InvalidArgumentError(
                f"perturbation {perturbation!r} returned {len(moved_history)} history and {len(moved_future)} future "
                f"frames; it must return as many as it gets, {len(history)} and {len(future)}"
            )
        history[:], future[:] = moved_history, moved_future


def find_av(windows: Windows) -> Targets:
    """Return the AV as the target of all windows."""
    (length_m, width_m, height_m), size = windows.ego_extent_m, len(windows.frames)
    centroids_m, yaws_rad, extents_m = np.empty((size, 2)), np.empty(size), np.empty((size, 3))
    _find_av(windows.frames, (length_m, width_m, height_m), (centroids_m, yaws_rad, extents_m))
    return Targets(track_ids=None, rows=None, centroids_m=centroids_m, yaws_rad=yaws_rad, extents_m=extents_m)


def trace_targets(windows: Windows, targets: Targets) -> TrackStates:
    """Return world states of the targets in the frames of their windows."""
    states = TrackStates.empty(*windows.frames.shape)
    if targets.track_ids is None:
        trace_av(windows.frames, windows.counts, windows.num_history, windows.ego_extent_m, states.as_arrays())
    else:
        trace_tracks(windows.agents, targets.track_ids, states)
    return states


def track_missing(track_id: int, row: int, filter_agents_threshold: float) -> TrackNotFoundError:
    """Return the error for a track with a negative ``row``."""
    if row == -1:
        return TrackNotFoundError(f"track {track_id} is not among the agents of the current frame")
    return TrackNotFoundError(
        f"track {track_id} does not pass the label filter in the current frame: the summed probability of its "
        f"road user classes is not above filter_agents_threshold = {filter_agents_threshold}"
    )


_FIRST: Final[Any] = np.int64(0)
"""Used instead of a literal, for which numba would compile callees again."""


@dataclass(frozen=True)
class StepTimes:
    """Seconds between two past steps, and between two future ones."""

    past_s: float
    future_s: float

    @classmethod
    def from_params(cls, params: SamplingParams | VectorSamplingParams) -> "StepTimes":
        """Return the times between the steps of samples with the given parameters."""
        return cls(params.step_time_s * params.history_step_size, params.step_time_s * params.future_step_size)


@dataclass(frozen=True)
class Trajectories:
    """Past and future of B tracks.

    Attributes:
        past: Newest frame first, (B, H).
        future: Nearest frame first, (B, F).
        past_velocities_mps: Differences of successive past positions over time, (B, H - 1, 2) float32.
        future_velocities_mps: Differences of successive future positions over time, starting at the current one, (B, F,
            2) float32.
        speeds_mps: Lengths of the first past velocities, (B,) float32; 0 if there are none.
        next_speeds_mps: Lengths of the first future velocities, (B,) float32; 0 if there are none.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    past: RelativePoses
    future: RelativePoses
    past_velocities_mps: Float32Array
    future_velocities_mps: Float32Array
    speeds_mps: Float32Array
    next_speeds_mps: Float32Array

    def __post_init__(self) -> None:
        (num_tracks, num_past), num_future = self.past.availabilities.shape, self.future.availabilities.shape[1]
        past, future = (num_tracks, num_past - 1, 2), (num_tracks, num_future, 2)
        if self.past_velocities_mps.shape != past or self.future_velocities_mps.shape != future:
            refuse_shapes(self, past_velocities_mps=past, future_velocities_mps=future)

    @classmethod
    def new(cls, make: NewArray, num_tracks: int, num_history: int, num_future: int) -> "Trajectories":
        """Return uninitialized trajectories, in arrays from ``make``."""
        return cls(
            RelativePoses.new(make, num_tracks, num_history, availabilities=np.float32),
            RelativePoses.new(make, num_tracks, num_future, availabilities=np.float32),
            make((num_tracks, num_history - 1, 2), np.float32),
            make((num_tracks, num_future, 2), np.float32),
            make((num_tracks,), np.float32),
            make((num_tracks,), np.float32),
        )

    def mapped(self, view: Callable[[Any], Any]) -> "Trajectories":
        """Return the trajectories with a function applied to each array, such as conversion to a tensor."""
        return Trajectories(self.past.mapped(view), self.future.mapped(view), *map(view, self.velocities()))

    def velocities(self) -> tuple[Float32Array, ...]:
        """Return the last four arrays, in the order of :class:`Velocities`."""
        return self.past_velocities_mps, self.future_velocities_mps, self.speeds_mps, self.next_speeds_mps


class Velocities(NamedTuple):
    """The last four fields of :class:`Trajectories` inside kernels."""

    past_mps: Float32Array
    future_mps: Float32Array
    speeds_mps: Float32Array
    next_speeds_mps: Float32Array


def relative_poses(states: TrackStates, agent_from_world: Float64Array, yaws_rad: FloatArray) -> RelativePoses:
    """Return the poses of tracks (B,) in all frames of their states (B, N), each relative to a given pose.

    Args:
        states: World states of the tracks.
        agent_from_world: The poses, (B, 3, 3); positions are transformed in float64.
        yaws_rad: Their world headings, (B,); they are subtracted in float32.
    """
    poses = RelativePoses.new(np.empty, *states.is_there.shape, availabilities=np.float32)
    _write_poses(states.as_arrays(), 0, agent_from_world, yaws_rad.astype(np.float32), poses.as_arrays())
    return poses


def trajectories(states: TrackStates, targets: Targets, times: StepTimes, *, num_history: int) -> Trajectories:
    """Return past and future of targets in their current frames.

    Args:
        states: World states in ``num_history`` frames, newest first, followed by those in future frames.
        targets: Their current poses.
        times: Times between the frames.
        num_history: Number of past frames, including the current one.
    """
    num_tracks, num_frames = states.is_there.shape
    result = Trajectories.new(np.empty, num_tracks, num_history, num_frames - num_history)
    _make_trajectories(
        states.as_arrays(),
        targets.agent_from_world,
        targets.yaws_rad.astype(np.float32),
        (np.float32(times.past_s), np.float32(times.future_s)),
        (result.past.as_arrays(), result.future.as_arrays(), result.velocities()),
    )
    return result


def trajectories_on_device(
    log: DeviceLog, windows: WindowArrays, targets: TargetArrays, times: StepTimes
) -> Trajectories:
    """Return past and future of targets of windows on a device, in their current frames.

    Args:
        log: The log of the windows.
        windows: The windows.
        targets: Their targets.
        times: Times between the frames.
    """
    backend, (num_windows, num_columns) = log.backend, map(int, windows.starts.shape)
    num_history, shape = windows.num_history, (num_windows, num_columns)
    states = StateArrays(
        backend.empty(shape, np.bool_),
        backend.empty((*shape, 2), np.float64),
        backend.empty(shape, np.float32),
        backend.empty((*shape, 2), np.float32),
    )
    result = Trajectories.new(backend.empty, num_windows, num_history, num_columns - num_history)
    poses = (result.past.as_arrays(), result.future.as_arrays())
    backend.run(_trace, num_windows * num_columns, log.agents, windows, targets, states, poses)

    # velocities need the positions of two frames, so their kernel runs after all positions are written
    steps_s = (np.float32(times.past_s), np.float32(times.future_s))
    positions_m = (result.past.positions_m, result.future.positions_m)
    backend.run(_write_velocities, num_windows, positions_m, steps_s, result.velocities())
    return result


@kernel_jit
def _write_poses(
    state_arrays: tuple[NumericArray, ...],
    first_frame: int,
    agent_from_world: Float64Array,
    yaws_rad: Float32Array,
    pose_arrays: tuple[NumericArray, ...],
) -> None:
    """Write states (B, F) from ``first_frame`` on, relative to (B, 3, 3) with headings (B,), to poses (B, N)."""
    states, poses = StateArrays(*state_arrays), PoseArrays(*pose_arrays)
    num_tracks, num_frames = poses.availabilities.shape
    for i in range(num_tracks):
        for j in range(num_frames):
            write_pose(states, i, first_frame + j, agent_from_world, yaws_rad, poses, j)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def write_pose(
    states: StateArrays,
    i: int,
    frame: int,
    agent_from_world: Float64Array,
    yaws_rad: Float32Array,
    poses: PoseArrays,
    j: int,
) -> None:
    """Write the state of track i in a frame, relative to its pose, to column j of poses; for use inside kernels.

    Args:
        states: World states of the tracks, (B, F).
        i: The track.
        frame: The frame.
        agent_from_world: Transforms to their frames, (B, 3, 3).
        yaws_rad: Headings of their frames, (B,).
        poses: The output, (B, N).
        j: The column.
    """
    # zeros for frames without the track, whose states are meaningless
    if not states.is_there[i, frame]:
        for axis in range(2):
            poses.positions_m[i, j, axis] = poses.extents_m[i, j, axis] = np.float32(0.0)
        poses.yaws_rad[i, j, 0] = poses.availabilities[i, j] = np.float32(0.0)
        return
    x, y = transform_xy(agent_from_world[i], states.positions_m[i, frame, 0], states.positions_m[i, frame, 1])
    poses.positions_m[i, j, 0], poses.positions_m[i, j, 1] = x, y
    for axis in range(2):
        poses.extents_m[i, j, axis] = states.extents_m[i, frame, axis]
    poses.yaws_rad[i, j, 0] = angular_distance_float32(states.yaws_rad[i, frame], yaws_rad[i])
    poses.availabilities[i, j] = np.float32(1.0)


@kernel_jit
def _make_trajectories(
    state_arrays: tuple[NumericArray, ...],
    agent_from_world: Float64Array,
    yaws_rad: Float32Array,
    steps_s: tuple[np.float32, np.float32],
    result: tuple[tuple[NumericArray, ...], ...],
) -> None:
    """Write the arrays of :class:`Trajectories`: those of the past, those of the future, and velocities."""
    of_past, of_future, of_velocities = result
    past, future = PoseArrays(*of_past), PoseArrays(*of_future)
    num_tracks, num_history = past.availabilities.shape
    _write_poses(state_arrays, _FIRST, agent_from_world, yaws_rad, of_past)
    _write_poses(state_arrays, num_history, agent_from_world, yaws_rad, of_future)
    for i in range(num_tracks):
        write_velocities(i, past.positions_m, future.positions_m, steps_s, Velocities(*of_velocities))


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def write_velocities(
    i: int,
    past_positions_m: Float32Array,
    future_positions_m: Float32Array,
    steps_s: tuple[np.float32, np.float32],
    velocities: Velocities,
) -> None:
    """Write velocities and speed of track i from its positions; for use inside kernels.

    Args:
        i: The track.
        past_positions_m: Newest first, (B, H, 2).
        future_positions_m: Nearest first, (B, F, 2).
        steps_s: Times between steps of the past and of the future.
        velocities: The output.
    """
    # past, newest first: from each older position to the next newer one
    past_velocities_mps, future_velocities_mps = velocities.past_mps, velocities.future_mps
    for j in range(past_velocities_mps.shape[1]):
        for axis in range(2):
            step_m = past_positions_m[i, j, axis] - past_positions_m[i, j + 1, axis]
            past_velocities_mps[i, j, axis] = step_m / steps_s[0]

    # future: the first step begins at the current position, which is 0
    for j in range(future_velocities_mps.shape[1]):
        for axis in range(2):
            before_m = future_positions_m[i, j - 1, axis] if j else np.float32(0.0)
            future_velocities_mps[i, j, axis] = (future_positions_m[i, j, axis] - before_m) / steps_s[1]
    velocities.speeds_mps[i] = _speed_of_first(past_velocities_mps, i)
    velocities.next_speeds_mps[i] = _speed_of_first(future_velocities_mps, i)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _speed_of_first(velocities_mps: Float32Array, i: int) -> Any:
    """Return the length of the first velocity of track i, 0 without one."""
    if velocities_mps.shape[1] == 0:
        return np.float32(0.0)
    x, y = velocities_mps[i, 0, 0], velocities_mps[i, 0, 1]
    return math.sqrt(x * x + y * y)


@kernel_jit
def _trace(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the state of the target of a window in one of its frames."""
    agents, of_windows, of_targets, of_states, poses = arguments
    windows, targets, states = WindowArrays(*of_windows), TargetArrays(*of_targets), StateArrays(*of_states)
    num_columns = windows.starts.shape[1]
    window, column = item // num_columns, item % num_columns
    states.is_there[window, column] = False
    if targets.has_tracks:
        bounds = (windows.starts[window, column], windows.stops[window, column])
        write_agent_state(agents, bounds, targets.track_ids[window], states, (window, column))
    elif windows.is_there[window, column]:
        states.is_there[window, column] = True
        states.yaws_rad[window, column] = windows.av_headings[window, column, 0]
        for axis in range(2):
            states.positions_m[window, column, axis] = windows.av_positions_m[window, column, axis]
            states.extents_m[window, column, axis] = windows.av_size_m[axis]

    # a past or future frame, relative to the target
    is_past = column < windows.num_history
    part, at = (poses[0], column) if is_past else (poses[1], column - windows.num_history)
    write_pose(states, window, column, targets.agent_from_world, targets.yaws_rad, PoseArrays(*part), at)


@kernel_jit
def _write_velocities(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the velocities of one track."""
    (past_positions_m, future_positions_m), steps_s, velocities = arguments
    write_velocities(item, past_positions_m, future_positions_m, steps_s, Velocities(*velocities))

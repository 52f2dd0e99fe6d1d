"""Positions, headings and extents of tracks over several frames, relative to poses."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

from l5kit._types import Float32Array, Float64Array, FloatArray, NumericArray
from l5kit.configs.parameters import SamplingParams, VectorSamplingParams
from l5kit.data.array_shapes import refuse_shapes
from l5kit.data.device_log import DeviceLog
from l5kit.data.relative_poses import NewArray, PoseArrays, RelativePoses
from l5kit.data.windows import TargetArrays, Targets, WindowArrays
from l5kit.geometry.relative_pose import angular_distance_float32, transform_xy
from l5kit.sampling.tracks import StateArrays, TrackStates, write_agent_state

_FIRST: Final[Any] = np.int64(0)
"""In place of the literal, for which numba would compile what is called with it once more."""


@dataclass(frozen=True)
class StepTimes:
    """Seconds between two steps of the past, and of the future."""

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
        future_velocities_mps: Of the future, the first one from where the track is now, (B, F, 2) float32.
        speeds_mps: Lengths of the first past velocities, (B,) float32; 0 where there is none.
        next_speeds_mps: Lengths of the first future velocities, likewise.

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
        """Return trajectories to be written, in arrays that ``make`` makes."""
        return cls(
            RelativePoses.new(make, num_tracks, num_history, availabilities=np.float32),
            RelativePoses.new(make, num_tracks, num_future, availabilities=np.float32),
            make((num_tracks, num_history - 1, 2), np.float32),
            make((num_tracks, num_future, 2), np.float32),
            make((num_tracks,), np.float32),
            make((num_tracks,), np.float32),
        )

    def mapped(self, view: Callable[[Any], Any]) -> "Trajectories":
        """Return the same with what a function makes of each array, such as the tensor of an array of a device."""
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
    """Return tracks (B,) in all frames of their states (B, N), as seen from a pose each.

    Args:
        states: Where the tracks are.
        agent_from_world: The poses, (B, 3, 3); positions are transformed in float64.
        yaws_rad: Their world headings, (B,); they are subtracted in float32.
    """
    poses = RelativePoses.new(np.empty, *states.is_there.shape, availabilities=np.float32)
    _write_relative_poses(states.as_arrays(), agent_from_world, yaws_rad.astype(np.float32), poses.as_arrays())
    return poses


def trajectories(states: TrackStates, targets: Targets, times: StepTimes, *, num_history: int) -> Trajectories:
    """Return past and future of targets, as seen from where they are.

    Args:
        states: Where they are in ``num_history`` frames, newest first, and behind them in the future ones.
        targets: From where they are seen.
        times: Times between the frames.
        num_history: Frames of the past, the current one included.
    """
    num_tracks, num_frames = states.is_there.shape
    found = Trajectories.new(np.empty, num_tracks, num_history, num_frames - num_history)
    _write_trajectories(
        states.as_arrays(),
        num_history,
        targets.agent_from_world,
        targets.yaws_rad.astype(np.float32),
        (np.float32(times.past_s), np.float32(times.future_s)),
        found.past.as_arrays(),
        found.future.as_arrays(),
        found.velocities(),
    )
    return found


def trajectories_on_device(
    log: DeviceLog, windows: WindowArrays, targets: TargetArrays, times: StepTimes
) -> Trajectories:
    """Return past and future of targets of windows on a device, as seen from where they are.

    Args:
        log: The log of the windows.
        windows: The windows.
        targets: Whom they are about.
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
    found = Trajectories.new(backend.empty, num_windows, num_history, num_columns - num_history)
    poses = (found.past.as_arrays(), found.future.as_arrays())
    backend.run(_trace, num_windows * num_columns, log.agents, windows, targets, states, poses)
    steps_s = (np.float32(times.past_s), np.float32(times.future_s))
    positions_m = (found.past.positions_m, found.future.positions_m)
    backend.run(_write_velocities, num_windows, positions_m, steps_s, found.velocities())
    return found


@njit(nogil=True, cache=True, error_model="numpy")
def _write_relative_poses(
    state_arrays: tuple[NumericArray, ...],
    agent_from_world: Float64Array,
    yaws_rad: Float32Array,
    pose_arrays: tuple[NumericArray, ...],
) -> None:
    """Write all states (B, F), as seen from (B, 3, 3) with headings (B,), to poses (B, F)."""
    _write_poses(StateArrays(*state_arrays), _FIRST, agent_from_world, yaws_rad, PoseArrays(*pose_arrays))


@njit(nogil=True, cache=True, error_model="numpy")
def _write_poses(
    states: StateArrays,
    first_frame: int,
    agent_from_world: Float64Array,
    yaws_rad: Float32Array,
    poses: PoseArrays,
) -> None:
    """Write the states (B, F) from ``first_frame`` on, as seen from (B, 3, 3) with headings (B,), to poses (B, N)."""
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
    """Write where track i is in a frame, as seen from its pose, to column j of poses; for use inside kernels.

    Args:
        states: The tracks in the world, (B, F).
        i: The track.
        frame: The frame.
        agent_from_world: The poses that they are seen from, (B, 3, 3).
        yaws_rad: Their headings, (B,).
        poses: What is written, (B, N).
        j: The column.
    """
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


@njit(nogil=True, cache=True, error_model="numpy")
def _write_trajectories(
    state_arrays: tuple[NumericArray, ...],
    num_history: int,
    agent_from_world: Float64Array,
    yaws_rad: Float32Array,
    steps_s: tuple[np.float32, np.float32],
    past_arrays: tuple[NumericArray, ...],
    future_arrays: tuple[NumericArray, ...],
    velocity_arrays: tuple[Float32Array, ...],
) -> None:
    """Write the fields of :class:`Trajectories`."""
    states, velocities = StateArrays(*state_arrays), Velocities(*velocity_arrays)
    past, future = PoseArrays(*past_arrays), PoseArrays(*future_arrays)
    _write_poses(states, _FIRST, agent_from_world, yaws_rad, past)
    _write_poses(states, num_history, agent_from_world, yaws_rad, future)
    for i in range(len(velocities.speeds_mps)):
        write_velocities(i, past.positions_m, future.positions_m, steps_s, velocities)


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
        velocities: What is written.
    """
    past_velocities_mps, future_velocities_mps = velocities.past_mps, velocities.future_mps
    for j in range(past_velocities_mps.shape[1]):
        for axis in range(2):
            step_m = past_positions_m[i, j, axis] - past_positions_m[i, j + 1, axis]
            past_velocities_mps[i, j, axis] = step_m / steps_s[0]
    for j in range(future_velocities_mps.shape[1]):
        for axis in range(2):
            before_m = future_positions_m[i, j - 1, axis] if j else np.float32(0.0)
            future_velocities_mps[i, j, axis] = (future_positions_m[i, j, axis] - before_m) / steps_s[1]
    velocities.speeds_mps[i] = _speed_of_first(past_velocities_mps, i)
    velocities.next_speeds_mps[i] = _speed_of_first(future_velocities_mps, i)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _speed_of_first(velocities_mps: Float32Array, i: int) -> Any:
    """Return the length of the first velocity of track i, 0 where it has none."""
    if velocities_mps.shape[1] == 0:
        return np.float32(0.0)
    x, y = velocities_mps[i, 0, 0], velocities_mps[i, 0, 1]
    return math.sqrt(x * x + y * y)


@njit(nogil=True, cache=True, error_model="numpy")
def _trace(item: int, arguments: tuple[Any, ...]) -> None:
    """Write where the target of a window is in one of its frames."""
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
    is_past = column < windows.num_history
    part, place = (poses[0], column) if is_past else (poses[1], column - windows.num_history)
    write_pose(states, window, column, targets.agent_from_world, targets.yaws_rad, PoseArrays(*part), place)


@njit(nogil=True, cache=True, error_model="numpy")
def _write_velocities(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the velocities of one track."""
    (past_positions_m, future_positions_m), steps_s, velocities = arguments
    write_velocities(item, past_positions_m, future_positions_m, steps_s, Velocities(*velocities))

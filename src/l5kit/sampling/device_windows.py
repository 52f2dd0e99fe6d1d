"""Windows on a device: cut out of a log that lies there, and where targets are in them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from l5kit._types import Float32Array, Float64Array, NumericArray
from l5kit.data.device_log import DeviceLog, DeviceTargets, DeviceWindows
from l5kit.data.relative_poses import PoseArrays
from l5kit.data.window_cutting import WindowSteps
from l5kit.device.backend import Backend, DeviceArray
from l5kit.sampling.poses import StepTimes, Velocities, write_pose, write_velocities
from l5kit.sampling.tracks import StateArrays

__all__ = ["DevicePoses", "DeviceTrajectories", "MovedAvs", "cut_on_device", "trace_on_device"]


@dataclass(frozen=True, eq=False)
class MovedAvs:
    """The AVs of B windows that something has moved, in all C frames of each.

    Attributes:
        positions_m: World x and y, float64 (B, C, 2).
        headings: Yaw, cosine and sine, float32 (B, C, 3).
    """

    positions_m: Float64Array
    headings: Float32Array


@dataclass(frozen=True, eq=False)
class DevicePoses:
    """Where B tracks are in N frames, as seen from a pose each; the fields of ``RelativePoses``, on a device."""

    positions_m: DeviceArray
    yaws_rad: DeviceArray
    extents_m: DeviceArray
    availabilities: DeviceArray

    @classmethod
    def empty(cls, backend: Backend, num_tracks: int, num_frames: int) -> "DevicePoses":
        """Return poses to be written."""
        shape = num_tracks, num_frames
        return cls(
            backend.empty((*shape, 2), np.float32),
            backend.empty((*shape, 1), np.float32),
            backend.empty((*shape, 2), np.float32),
            backend.empty(shape, np.float32),
        )

    def as_arrays(self) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]:
        """Return the four arrays."""
        return self.positions_m, self.yaws_rad, self.extents_m, self.availabilities


@dataclass(frozen=True, eq=False)
class DeviceTrajectories:
    """Past and future of B tracks on a device; the fields of ``Trajectories``."""

    past: DevicePoses
    future: DevicePoses
    past_velocities_mps: DeviceArray
    future_velocities_mps: DeviceArray
    speeds_mps: DeviceArray


def cut_on_device(
    log: DeviceLog,
    places: NumericArray,
    steps: WindowSteps,
    moved: MovedAvs | None = None,
) -> DeviceWindows:
    """Return the windows around frames of a log.

    Args:
        log: The log.
        places: The current frame of each window, first frame and end frame of its scene, int64 (3, B).
        steps: Which frames belong to a window.
        moved: Where the AVs are; None for where the log has them.
    """
    backend, num_windows, num_history = log.backend, places.shape[1], steps.history_num_frames + 1
    shape = (num_windows, num_history + steps.future_num_frames)
    arrays = (
        backend.empty(shape, np.bool_),
        backend.empty(shape, np.int64),
        backend.empty(shape, np.int64),
        backend.empty((num_windows, 2), np.int64),
    )
    if moved is None:
        sent = backend.upload_one(places)
        avs = [backend.empty((*shape, 2), np.float64), backend.empty((*shape, 3), np.float32)]
    else:
        sent, *avs = backend.upload([places, moved.positions_m, moved.headings])
    backend.run(
        _cut,
        num_windows * shape[1],
        (log.agent_bounds, log.face_bounds, log.av_positions_m, log.av_headings),
        sent,
        (num_history, shape[1], steps.history_step_size, steps.future_step_size, moved is None),
        (*arrays, *avs),
    )
    return DeviceWindows(num_history, *arrays, *avs)


def trace_on_device(
    log: DeviceLog, windows: DeviceWindows, targets: DeviceTargets, times: StepTimes
) -> DeviceTrajectories:
    """Return past and future of targets, as seen from where they are.

    Args:
        log: The log.
        windows: Its windows.
        targets: Whom they are about.
        times: Times between the frames.
    """
    backend, (num_windows, num_columns) = log.backend, map(int, windows.starts.shape)
    num_history = windows.num_history
    num_future, shape = num_columns - num_history, (num_windows, num_columns)
    states = (
        backend.empty(shape, np.bool_),
        backend.empty((*shape, 2), np.float64),
        backend.empty(shape, np.float32),
        backend.empty((*shape, 2), np.float32),
    )
    found = DeviceTrajectories(
        DevicePoses.empty(backend, num_windows, num_history),
        DevicePoses.empty(backend, num_windows, num_future),
        backend.empty((num_windows, num_history - 1, 2), np.float32),
        backend.empty((num_windows, num_future, 2), np.float32),
        backend.zeros(num_windows, np.float32),
    )
    backend.run(
        _trace,
        num_windows * num_columns,
        log.agents,
        (windows.is_there, windows.starts, windows.stops, windows.av_positions_m, windows.av_headings),
        (targets.has_tracks, targets.track_ids, targets.agent_from_world, targets.yaws_rad),
        (num_history, num_columns, np.float32(targets.extent_m[0]), np.float32(targets.extent_m[1])),
        states,
        (found.past.as_arrays(), found.future.as_arrays()),
    )
    backend.run(
        _write_velocities,
        num_windows,
        (found.past.positions_m, found.future.positions_m),
        (np.float32(times.past_s), np.float32(times.future_s)),
        (found.past_velocities_mps, found.future_velocities_mps, found.speeds_mps),
    )
    return found


@njit(nogil=True, cache=True, error_model="numpy")
def _cut(item: int, arguments: tuple[Any, ...]) -> None:
    """Write one frame of a window; frames that a scene does not have are empty."""
    log, places, steps, cut = arguments
    agent_bounds, face_bounds, log_positions_m, log_headings = log
    num_history, num_columns, past_step, future_step, is_logged = steps
    is_there, starts, stops, newest_faces, positions_m, headings = cut
    window, column = item // num_columns, item % num_columns
    current, first, end = places[0, window], places[1, window], places[2, window]
    row = current - column * past_step if column < num_history else current + (column - num_history + 1) * future_step
    is_there[window, column] = first <= row < end
    starts[window, column] = stops[window, column] = 0
    if first <= row < end:
        starts[window, column], stops[window, column] = agent_bounds[row, 0], agent_bounds[row, 1]
    if is_logged and first <= row < end:
        for axis in range(2):
            positions_m[window, column, axis] = log_positions_m[row, axis]
        for axis in range(3):
            headings[window, column, axis] = log_headings[row, axis]
    if column == 0:
        newest_faces[window, 0], newest_faces[window, 1] = face_bounds[row, 0], face_bounds[row, 1]


@njit(nogil=True, cache=True, error_model="numpy")
def _trace(item: int, arguments: tuple[Any, ...]) -> None:
    """Write where the target of a window is in one of its frames; of several rows of a track the first counts."""
    agents, of_windows, of_targets, sizes, states, poses = arguments
    in_window, starts, stops, av_positions_m, av_headings = of_windows
    has_tracks, track_ids, agent_from_world, target_yaws_rad = of_targets
    num_history, num_columns, av_length_m, av_width_m = sizes
    is_there, positions_m, yaws_rad, extents_m = states
    window, column = item // num_columns, item % num_columns
    is_there[window, column] = False
    if has_tracks:
        for row in range(starts[window, column], stops[window, column]):
            if agents[row].track_id == track_ids[window]:
                agent = agents[row]
                is_there[window, column] = True
                positions_m[window, column, 0], positions_m[window, column, 1] = agent.centroid[0], agent.centroid[1]
                yaws_rad[window, column] = agent.yaw
                extents_m[window, column, 0], extents_m[window, column, 1] = agent.extent[0], agent.extent[1]
                break
    elif in_window[window, column]:
        is_there[window, column] = True
        for axis in range(2):
            positions_m[window, column, axis] = av_positions_m[window, column, axis]
        yaws_rad[window, column] = av_headings[window, column, 0]
        extents_m[window, column, 0], extents_m[window, column, 1] = av_length_m, av_width_m
    part, place = (poses[0], column) if column < num_history else (poses[1], column - num_history)
    states, part = StateArrays(*states), PoseArrays(*part)
    write_pose(states, window, column, agent_from_world, target_yaws_rad, part, place)


@njit(nogil=True, cache=True, error_model="numpy")
def _write_velocities(item: int, arguments: tuple[Any, ...]) -> None:
    """Write the velocities of one track."""
    positions_m, steps_s, speeds = arguments
    write_velocities(item, positions_m[0], positions_m[1], steps_s, Velocities(*speeds))

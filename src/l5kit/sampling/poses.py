"""Positions, headings and extents of tracks over several frames, relative to poses."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float32Array, Float64Array
from l5kit.configs.parameters import SamplingParams, VectorSamplingParams
from l5kit.geometry.relative_pose import angular_distance_float32, transform_xy
from l5kit.sampling.tracks import TrackStates

_FIRST: Final[Any] = np.int64(0)
"""In place of the literal, for which numba would compile what is called with it once more."""


@dataclass(frozen=True)
class RelativePoses:
    """Where B tracks are in each of N frames, as seen from a pose each; frames without the track hold zeros.

    Attributes:
        positions_m: (B, N, 2) float32, x forward, y left.
        yaws_rad: (B, N, 1) float32, in [-pi, pi).
        extents_m: (B, N, 2) float32, length and width.
        availabilities: (B, N) float32, 1 where the track is in the frame, else 0.
    """

    positions_m: Float32Array
    yaws_rad: Float32Array
    extents_m: Float32Array
    availabilities: Float32Array

    @classmethod
    def empty(cls, num_contexts: int, num_frames: int) -> "RelativePoses":
        """Return poses to be written."""
        shape = num_contexts, num_frames
        return cls(
            np.empty((*shape, 2), np.float32),
            np.empty((*shape, 1), np.float32),
            np.empty((*shape, 2), np.float32),
            np.empty(shape, np.float32),
        )

    def as_arrays(self) -> tuple[Float32Array, Float32Array, Float32Array, Float32Array]:
        """Return the four arrays."""
        return self.positions_m, self.yaws_rad, self.extents_m, self.availabilities


@dataclass(frozen=True)
class Viewpoints:
    """Poses that others are relative to.

    Attributes:
        agent_from_world: (B, 3, 3) float64; positions are transformed in float64.
        yaws_rad: World headings, (B,); they are subtracted in float32.
    """

    agent_from_world: Float64Array
    yaws_rad: Float64Array


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
        past: Newest frame first.
        future: Nearest frame first.
        past_velocities_mps: Differences of successive past positions over time, (B, H - 1, 2) float32.
        future_velocities_mps: Of the future, the first one from the viewpoint itself, (B, F, 2) float32.
        speeds_mps: Lengths of the first past velocities, (B,) float32; anything where there is none.
    """

    past: RelativePoses
    future: RelativePoses
    past_velocities_mps: Float32Array
    future_velocities_mps: Float32Array
    speeds_mps: Float32Array


def relative_poses(states: TrackStates, viewpoints: Viewpoints) -> RelativePoses:
    """Return tracks in all frames of their states."""
    poses = RelativePoses.empty(*states.is_there.shape)
    yaws_rad = viewpoints.yaws_rad.astype(np.float32)
    _write_poses(*states.as_arrays(), 0, viewpoints.agent_from_world, yaws_rad, *poses.as_arrays())
    return poses


def trajectories(states: TrackStates, num_history: int, viewpoints: Viewpoints, times: StepTimes) -> Trajectories:
    """Return past and future of tracks.

    Args:
        states: Where they are in ``num_history`` frames, newest first, and behind them in the future ones.
        num_history: Frames of the past, the current one included.
        viewpoints: From where they are seen.
        times: Times between the frames.
    """
    num_contexts, num_frames = states.is_there.shape
    num_future = num_frames - num_history
    found = Trajectories(
        RelativePoses.empty(num_contexts, num_history),
        RelativePoses.empty(num_contexts, num_future),
        np.empty((num_contexts, num_history - 1, 2), np.float32),
        np.empty((num_contexts, num_future, 2), np.float32),
        np.empty(num_contexts, np.float32),
    )
    _write_trajectories(
        *states.as_arrays(),
        viewpoints.agent_from_world,
        viewpoints.yaws_rad.astype(np.float32),
        (np.float32(times.past_s), np.float32(times.future_s)),
        *found.past.as_arrays(),
        *found.future.as_arrays(),
        found.past_velocities_mps,
        found.future_velocities_mps,
        found.speeds_mps,
    )
    return found


@njit(nogil=True, cache=True, error_model="numpy")
def _write_poses(
    is_there: BoolArray,
    world_m: Float64Array,
    world_yaws_rad: Float32Array,
    world_extents_m: Float32Array,
    first_frame: int,
    agent_from_world: Float64Array,
    pose_yaws_rad: Float32Array,
    positions_m: Float32Array,
    yaws_rad: Float32Array,
    extents_m: Float32Array,
    availabilities: Float32Array,
) -> None:
    """Write the states (B, F) from ``first_frame`` on, seen from poses (B, 3, 3), to arrays (B, N)."""
    for i in range(positions_m.shape[0]):
        for j in range(positions_m.shape[1]):
            frame = first_frame + j
            if not is_there[i, frame]:
                for axis in range(2):
                    positions_m[i, j, axis] = extents_m[i, j, axis] = np.float32(0.0)
                yaws_rad[i, j, 0] = availabilities[i, j] = np.float32(0.0)
                continue
            x, y = transform_xy(agent_from_world[i], world_m[i, frame, 0], world_m[i, frame, 1])
            positions_m[i, j, 0], positions_m[i, j, 1] = x, y
            for axis in range(2):
                extents_m[i, j, axis] = world_extents_m[i, frame, axis]
            yaws_rad[i, j, 0] = angular_distance_float32(world_yaws_rad[i, frame], pose_yaws_rad[i])
            availabilities[i, j] = np.float32(1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def _write_trajectories(
    is_there: BoolArray,
    world_m: Float64Array,
    world_yaws_rad: Float32Array,
    world_extents_m: Float32Array,
    agent_from_world: Float64Array,
    pose_yaws_rad: Float32Array,
    steps_s: tuple[np.float32, np.float32],
    past_positions_m: Float32Array,
    past_yaws_rad: Float32Array,
    past_extents_m: Float32Array,
    past_availabilities: Float32Array,
    future_positions_m: Float32Array,
    future_yaws_rad: Float32Array,
    future_extents_m: Float32Array,
    future_availabilities: Float32Array,
    past_velocities_mps: Float32Array,
    future_velocities_mps: Float32Array,
    speeds_mps: Float32Array,
) -> None:
    """Write the fields of :class:`Trajectories`."""
    _write_poses(
        is_there,
        world_m,
        world_yaws_rad,
        world_extents_m,
        _FIRST,
        agent_from_world,
        pose_yaws_rad,
        past_positions_m,
        past_yaws_rad,
        past_extents_m,
        past_availabilities,
    )
    _write_poses(
        is_there,
        world_m,
        world_yaws_rad,
        world_extents_m,
        past_positions_m.shape[1],
        agent_from_world,
        pose_yaws_rad,
        future_positions_m,
        future_yaws_rad,
        future_extents_m,
        future_availabilities,
    )
    for i in range(len(speeds_mps)):
        for j in range(past_velocities_mps.shape[1]):
            for axis in range(2):
                step_m = past_positions_m[i, j, axis] - past_positions_m[i, j + 1, axis]
                past_velocities_mps[i, j, axis] = step_m / steps_s[0]
        for j in range(future_velocities_mps.shape[1]):
            for axis in range(2):
                before_m = future_positions_m[i, j - 1, axis] if j else np.float32(0.0)
                future_velocities_mps[i, j, axis] = (future_positions_m[i, j, axis] - before_m) / steps_s[1]
        if past_velocities_mps.shape[1]:
            x, y = past_velocities_mps[i, 0, 0], past_velocities_mps[i, 0, 1]
            speeds_mps[i] = np.sqrt(x * x + y * y)

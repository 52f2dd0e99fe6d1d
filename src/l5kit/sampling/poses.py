"""Positions, headings and extents of tracks over several frames, relative to poses."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float32Array, Float64Array
from l5kit.sampling.tracks import TrackStates

_PI = np.float32(np.pi)
_TWO_PI = np.float32(2 * np.pi)


@dataclass(frozen=True)
class RelativePoses:
    """Where B tracks are in each of N frames, as seen from a pose each; frames without the track hold zeros.

    Attributes:
        positions_m: (B, N, 2) float32, x forward, y left.
        yaws_rad: (B, N, 1) float32, in [-pi, pi).
        extents_m: (B, N, 2) float32, length and width.
        availabilities: (B, N) float32, 1 where the track is in the frame, else 0.
        velocities_mps: Differences of successive positions over time, float32. Of the past (B, N - 1, 2); of the future
            (B, N, 2), the first from the pose itself.
    """

    positions_m: Float32Array
    yaws_rad: Float32Array
    extents_m: Float32Array
    availabilities: Float32Array
    velocities_mps: Float32Array


@dataclass(frozen=True)
class Viewpoints:
    """Poses that others are relative to.

    Attributes:
        agent_from_world: (B, 3, 3) float64; positions are transformed in float64.
        yaws_rad: World headings, (B,); they are subtracted in float32.
    """

    agent_from_world: Float64Array
    yaws_rad: Float64Array


def past_poses(states: TrackStates, num_frames: int, viewpoints: Viewpoints, step_s: float) -> RelativePoses:
    """Return the first ``num_frames`` frames of tracks, newest first, ``step_s`` seconds apart."""
    return _relative_poses(states, (0, num_frames), viewpoints, step_s, is_past=True)


def future_poses(states: TrackStates, first_frame: int, viewpoints: Viewpoints, step_s: float) -> RelativePoses:
    """Return the frames of tracks from ``first_frame`` on, nearest first, ``step_s`` seconds apart."""
    return _relative_poses(states, (first_frame, states.is_there.shape[1]), viewpoints, step_s, is_past=False)


def _relative_poses(
    states: TrackStates, frames: tuple[int, int], viewpoints: Viewpoints, step_s: float, *, is_past: bool
) -> RelativePoses:
    shape = len(states.is_there), frames[1] - frames[0]
    poses = RelativePoses(
        np.empty((*shape, 2), np.float32),
        np.empty((*shape, 1), np.float32),
        np.empty((*shape, 2), np.float32),
        np.empty(shape, np.float32),
        np.empty((shape[0], shape[1] - is_past, 2), np.float32),
    )
    yaws_rad = viewpoints.yaws_rad.astype(np.float32)
    arrays = poses.positions_m, poses.yaws_rad, poses.extents_m, poses.availabilities
    _write_poses(*states.as_arrays(), frames[0], viewpoints.agent_from_world, yaws_rad, *arrays)
    _write_velocities(poses.positions_m, np.float32(step_s), is_past, poses.velocities_mps)
    return poses


@njit(nogil=True, cache=True)
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
                positions_m[i, j] = extents_m[i, j] = yaws_rad[i, j] = availabilities[i, j] = np.float32(0.0)
                continue
            for axis in range(2):
                row = agent_from_world[i, axis]
                positions_m[i, j, axis] = world_m[i, frame, 0] * row[0] + world_m[i, frame, 1] * row[1] + row[2]
                extents_m[i, j, axis] = world_extents_m[i, frame, axis]
            yaws_rad[i, j, 0] = _angular_distance(world_yaws_rad[i, frame], pose_yaws_rad[i])
            availabilities[i, j] = np.float32(1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def _write_velocities(
    positions_m: Float32Array, step_s: np.float32, is_past: bool, velocities_mps: Float32Array
) -> None:
    """Write differences of positions (B, N, 2), of the past newest first, over the time of a step."""
    for i in range(velocities_mps.shape[0]):
        for j in range(velocities_mps.shape[1]):
            for axis in range(2):
                if is_past:
                    step_m = positions_m[i, j, axis] - positions_m[i, j + 1, axis]
                else:
                    step_m = positions_m[i, j, axis] - (positions_m[i, j - 1, axis] if j else np.float32(0.0))
                velocities_mps[i, j, axis] = step_m / step_s


@njit(nogil=True, cache=True)
def _angular_distance(a: np.float32, b: np.float32) -> Any:
    """Return :func:`l5kit.geometry.angle.angular_distance` of two float32 angles, computed in float32."""
    return (a - b + _PI) % _TWO_PI - _PI

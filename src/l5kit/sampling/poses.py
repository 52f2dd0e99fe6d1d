"""Positions, headings and extents of one track over several frames, relative to a pose."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from l5kit._types import Float32Array, Float64Array, Int64Array, NumericArray, RecordArray
from l5kit.errors import IndexOutOfRangeError
from l5kit.geometry.transform import GIMBAL_LOCK_COSINE
from l5kit.rasterization.rasterizer import EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH
from l5kit.sampling.context import FrameRows

_PI = np.float32(np.pi)
_TWO_PI = np.float32(2 * np.pi)


@dataclass(frozen=True)
class RelativePoses:
    """Where a track is in each of N frames, as seen from a pose; frames without it hold zeros.

    Attributes:
        positions_m: (N, 2) float32, x forward, y left.
        yaws_rad: (N, 1) float32, in [-pi, pi).
        extents_m: (N, 2) float32, length and width.
        availabilities: (N,) float32, 1 where the track is in the frame, else 0.
    """

    positions_m: Float32Array
    yaws_rad: Float32Array
    extents_m: Float32Array
    availabilities: Float32Array

    @classmethod
    def unavailable(cls, num_frames: int) -> "RelativePoses":
        """Return the poses of a track that is in none of ``num_frames`` frames."""
        return cls(
            np.zeros((num_frames, 2), dtype=np.float32),
            np.zeros((num_frames, 1), dtype=np.float32),
            np.zeros((num_frames, 2), dtype=np.float32),
            np.zeros(num_frames, dtype=np.float32),
        )

    def as_arrays(self) -> tuple[Float32Array, Float32Array, Float32Array, Float32Array]:
        """Return positions, yaws, extents and availabilities."""
        return self.positions_m, self.yaws_rad, self.extents_m, self.availabilities


@dataclass(frozen=True)
class TrackSeenFrom:
    """A track, and the pose that its own poses are relative to.

    Attributes:
        track_id: The track; None for the AV.
        agent_from_world: The pose, (3, 3) float64.
        yaw_rad: World heading of the pose.
    """

    track_id: int | None
    agent_from_world: Float64Array
    yaw_rad: float

    @property
    def transform(self) -> tuple[Float64Array, np.float32]:
        """The pose as the kernels take it: positions are transformed in float64, yaws subtracted in float32."""
        return self.agent_from_world, np.float32(self.yaw_rad)


def relative_poses(num_frames: int, frames: RecordArray, agents: FrameRows, track: TrackSeenFrom) -> RelativePoses:
    """Return where a track is in each frame.

    Args:
        num_frames: Length of the result; missing frames at its end hold zeros.
        frames: At most ``num_frames`` frames.
        agents: Agents of these frames.
        track: The track, and where it is seen from.

    Raises:
        IndexOutOfRangeError: There are more frames than ``num_frames``.
    """
    if len(frames) > num_frames:
        raise IndexOutOfRangeError(f"frames holds {len(frames)} frames, at most num_frames = {num_frames} are allowed")
    poses = RelativePoses.unavailable(num_frames)
    if track.track_id is None:
        _write_ego_poses(frames["ego_translation"], frames["ego_rotation"], *track.transform, *poses.as_arrays())
    elif len(agents.rows):
        _write_track_poses(
            first_rows_of_track(agents, track.track_id),
            agents.rows["centroid"],
            agents.rows["yaw"],
            agents.rows["extent"],
            *track.transform,
            *poses.as_arrays(),
        )
    return poses


def first_rows_of_track(agents: FrameRows, track_id: int) -> Int64Array:
    """Return, for each frame, the first row of ``agents.rows`` with a track; -1 in frames without it."""
    track_ids = agents.rows["track_id"]
    try:
        value = track_ids.dtype.type(int(track_id))
    except OverflowError:  # no row can hold it
        return np.full(len(agents.starts), -1, dtype=np.int64)
    return _first_rows_with(track_ids, value, agents.starts, agents.stops)


@njit(nogil=True, cache=True)
def _first_rows_with(values: NumericArray, value: Any, starts: Int64Array, stops: Int64Array) -> Int64Array:
    """Return the first index in each [start, stop) at which ``values`` is ``value``, or -1."""
    rows = np.full(len(starts), -1, dtype=np.int64)
    for i in range(len(starts)):
        for row in range(starts[i], stops[i]):
            if values[row] == value:
                rows[i] = row
                break
    return rows


@njit(nogil=True, cache=True)
def _write_ego_poses(
    translations_m: Float64Array,
    rotations: Float64Array,
    agent_from_world: Float64Array,
    yaw_rad: np.float32,
    positions_m: Float32Array,
    yaws_rad: Float32Array,
    extents_m: Float32Array,
    availabilities: Float32Array,
) -> None:
    """Write the AV's poses in F frames to the heads of the last four arrays."""
    for i in range(len(translations_m)):
        cos, sin = rotations[i, 0, 0], rotations[i, 1, 0]
        world_yaw_rad = math.atan2(sin, cos) if math.sqrt(cos * cos + sin * sin) > GIMBAL_LOCK_COSINE else 0.0
        _write_position(translations_m[i], agent_from_world, positions_m[i])
        yaws_rad[i, 0] = _angular_distance(np.float32(world_yaw_rad), yaw_rad)
        extents_m[i, 0], extents_m[i, 1] = EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH
        availabilities[i] = 1.0


@njit(nogil=True, cache=True)
def _write_track_poses(
    rows: Int64Array,
    centroids_m: Float64Array,
    world_yaws_rad: Float32Array,
    world_extents_m: Float32Array,
    agent_from_world: Float64Array,
    yaw_rad: np.float32,
    positions_m: Float32Array,
    yaws_rad: Float32Array,
    extents_m: Float32Array,
    availabilities: Float32Array,
) -> None:
    """Write a track's poses, which are ``rows`` (F,) of the agents or -1, to the heads of the last four arrays."""
    for i in range(len(rows)):
        row = rows[i]
        if row < 0:
            continue
        _write_position(centroids_m[row], agent_from_world, positions_m[i])
        yaws_rad[i, 0] = _angular_distance(world_yaws_rad[row], yaw_rad)
        extents_m[i, 0], extents_m[i, 1] = world_extents_m[row, 0], world_extents_m[row, 1]
        availabilities[i] = 1.0


@njit(nogil=True, cache=True)
def _write_position(world_m: Float64Array, agent_from_world: Float64Array, position_m: Float32Array) -> None:
    for axis in range(2):
        row = agent_from_world[axis]
        position_m[axis] = world_m[0] * row[0] + world_m[1] * row[1] + row[2]


@njit(nogil=True, cache=True)
def _angular_distance(a: np.float32, b: np.float32) -> Any:
    """Return :func:`l5kit.geometry.angle.angular_distance` of two float32 angles, computed in float32."""
    return (a - b + _PI) % _TWO_PI - _PI

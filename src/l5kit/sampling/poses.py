"""Positions, headings and extents of one track over several frames, relative to a pose."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float32Array, Float64Array, Int64Array, NumericArray, RecordArray
from l5kit.errors import IndexOutOfRangeError
from l5kit.geometry.angle import angular_distance
from l5kit.geometry.transform import rotations33_as_yaws, transform_points
from l5kit.rasterization.rasterizer import EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH
from l5kit.sampling.context import FrameRows


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
    positions_m = np.zeros((num_frames, 2), dtype=np.float32)
    yaws_rad = np.zeros((num_frames, 1), dtype=np.float32)
    extents_m = np.zeros((num_frames, 2), dtype=np.float32)
    availabilities = np.zeros(num_frames, dtype=np.float32)
    world = _ego_states(frames) if track.track_id is None else _track_states(agents, track.track_id)
    found = np.flatnonzero(world.found)
    if len(found):
        positions_m[found] = transform_points(world.positions_m[found], track.agent_from_world)
        yaws_rad[found, 0] = angular_distance(world.yaws_rad[found], track.yaw_rad)
        extents_m[found] = world.extents_m[found]
        availabilities[found] = 1
    return RelativePoses(positions_m, yaws_rad, extents_m, availabilities)


@dataclass(frozen=True)
class _WorldStates:
    """States of a track in the world: (F, 2) float64, (F,) float32, (F, 2) float32, (F,) bool."""

    positions_m: Float64Array
    yaws_rad: Float32Array
    extents_m: Float32Array
    found: BoolArray


def _ego_states(frames: RecordArray) -> _WorldStates:
    num_frames = len(frames)
    return _WorldStates(
        frames["ego_translation"][:, :2],
        rotations33_as_yaws(frames["ego_rotation"]).astype(np.float32),
        np.full((num_frames, 2), (EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH), dtype=np.float32),
        np.ones(num_frames, dtype=np.bool_),
    )


def _track_states(agents: FrameRows, track_id: int) -> _WorldStates:
    rows = first_rows_of_track(agents, track_id)
    states = agents.rows[np.maximum(rows, 0)] if len(agents.rows) else np.zeros(len(rows), dtype=agents.rows.dtype)
    return _WorldStates(states["centroid"], states["yaw"], states["extent"][:, :2], rows >= 0)


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

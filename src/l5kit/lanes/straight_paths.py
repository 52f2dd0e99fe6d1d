"""Straight paths for vehicles on no lane, and how they take the place of those that are missing."""

import numpy as np

from l5kit._types import NumericArray
from l5kit.data.frame_rows import expand_ranges
from l5kit.lanes.lane_paths import PATH_STEP_M, UNKNOWN_LIMIT_MPS, LanePaths, TrackPoses

__all__ = ["filled_paths", "straight_paths"]

_STRAIGHT_M = 50.0


def straight_paths(tracks: TrackPoses, *, limit_mps: float = UNKNOWN_LIMIT_MPS) -> LanePaths:
    """Return paths straight ahead of the first rows of tracks, 50 m long, for vehicles on no lane.

    Args:
        tracks: N tracks, each with at least one row.
        limit_mps: Their speed limit, above 0.
    """
    size, num_points = len(tracks.durations_s), round(_STRAIGHT_M / PATH_STEP_M) + 2
    firsts = tracks.starts[:-1]
    headings = np.stack([np.cos(tracks.yaws_rad[firsts]), np.sin(tracks.yaws_rad[firsts])], axis=-1)
    ahead_m = PATH_STEP_M * np.arange(num_points)
    points_m = tracks.positions_m[firsts, None] + ahead_m[:, None] * headings[:, None]
    return LanePaths(
        starts=num_points * np.arange(size + 1),
        points_m=points_m.reshape(-1, 2),
        lengths_m=np.full(size, _STRAIGHT_M),
        piece_starts=np.arange(size + 1),
        piece_arcs_m=np.zeros(size),
        piece_lanes=np.zeros(size, np.int64),
        line_lanes=np.full((size, 2), -1),
        piece_limits_mps=np.full(size, float(limit_mps)),
    )


def filled_paths(paths: LanePaths, others: LanePaths) -> LanePaths:
    """Return paths of N tracks with those of ``others`` (N paths) for the tracks that have none."""
    is_own = paths.has_path
    parts, names = (paths, others), ("points_m", "piece_arcs_m", "piece_lanes", "line_lanes", "piece_limits_mps")
    arrays: dict[str, NumericArray] = {"lengths_m": np.where(is_own, paths.lengths_m, others.lengths_m)}
    for name, starts_name in zip(names, ("starts", *["piece_starts"] * 4), strict=True):
        counts = [np.diff(getattr(part, starts_name)) for part in parts]
        chosen = np.where(is_own, *counts)
        firsts = np.where(is_own, *(getattr(part, starts_name)[:-1] for part in parts))
        rows = expand_ranges(firsts, chosen)
        is_own_row = np.repeat(is_own, chosen)
        own, other = (getattr(part, name) for part in parts)
        joined = np.empty((len(rows), *own.shape[1:]), own.dtype)
        joined[is_own_row], joined[~is_own_row] = own[rows[is_own_row]], other[rows[~is_own_row]]
        arrays[name] = joined
        arrays[starts_name] = np.concatenate([[0], np.cumsum(chosen)]).astype(np.int64)
    return LanePaths(**arrays)

"""Lanes of a route: those that paths take, those beside them, and those that lead from one to another in junctions."""

import numpy as np

from l5kit._types import BoolArray, Int64Array
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_paths import LanePaths

__all__ = ["lanes_closed_by_red", "mark_route_lanes"]


def mark_route_lanes(paths: LanePaths, driving_map: DrivingMap) -> BoolArray:
    """Return which lanes belong to the route of each of N paths, (N, L).

    They are the lanes of the path; those of the same road segments in the same direction, however many beside each
    other; and in junctions those through which one gets from such a lane to such a lane.

    Args:
        paths: Paths along lanes of the map; one without lanes has no route.
        driving_map: The map.
    """
    is_of_route = np.zeros((len(paths), driving_map.num_lanes), np.bool_)
    before, after = _pairs(driving_map)
    for path in np.flatnonzero(paths.has_path).tolist():
        # segments first, then what leads through junctions from one of them to another, and all of the path at last
        is_of_route[path] = _beside(np.unique(paths.lanes_of(path)), driving_map)
        is_between = driving_map.is_in_junction & _reached(is_of_route[path], before, after, driving_map)
        is_between &= _reached(is_of_route[path], after, before, driving_map)
        is_of_route[path] |= is_between
        is_of_route[path, paths.lanes_of(path)] = True
    return is_of_route


def lanes_closed_by_red(driving_map: DrivingMap) -> tuple[Int64Array, Int64Array]:
    """Return the lanes that nobody may enter while the light of a lane is red.

    It is the lane itself where its line is at its start, and else those that follow it.

    Returns:
        First of the closed lanes of each lane and the end of the last one, (L + 1,), and these.
    """
    # a row for each lane with its own number, or with those of the lanes ahead
    counts = np.where(driving_map.has_line_at_start, 1, np.diff(driving_map.ahead_starts))
    starts = np.concatenate([[0], np.cumsum(counts)])
    is_own = np.repeat(driving_map.has_line_at_start, counts)
    own = np.repeat(np.arange(driving_map.num_lanes), counts)
    slots = driving_map.ahead_starts[own] + np.arange(len(own)) - starts[own]
    closed = own.copy()
    closed[~is_own] = driving_map.ahead_rows[slots[~is_own]]
    return starts, closed


def _beside(own: Int64Array, driving_map: DrivingMap) -> BoolArray:
    """Return which lanes outside of junctions lie beside some lanes, of one segment and in one direction, (L,)."""
    lines_m = driving_map.centre_lines_m
    own = own[~driving_map.is_in_junction[own]]
    is_beside = np.zeros(driving_map.num_lanes, np.bool_)
    candidates = np.flatnonzero(np.isin(driving_map.parents, driving_map.parents[own]) & ~driving_map.is_in_junction)
    if len(own) == 0:
        return is_beside
    # a segment has lanes of both directions: the nearest of the path's own says which is that of the route
    middles_m, chords_m = lines_m[:, lines_m.shape[1] // 2], lines_m[:, -1] - lines_m[:, 0]
    far_m = np.linalg.norm(middles_m[candidates, None] - middles_m[own], axis=-1)
    far_m[driving_map.parents[candidates, None] != driving_map.parents[own]] = np.inf
    nearest = own[far_m.argmin(axis=1)]
    is_beside[candidates] = (chords_m[candidates] * chords_m[nearest]).sum(axis=-1) > 0
    return is_beside


def _pairs(driving_map: DrivingMap) -> tuple[Int64Array, Int64Array]:
    """Return all pairs of a lane and one that follows it, (M,) each."""
    return np.repeat(np.arange(driving_map.num_lanes), np.diff(driving_map.ahead_starts)), driving_map.ahead_rows


def _reached(is_begin: BoolArray, before: Int64Array, after: Int64Array, driving_map: DrivingMap) -> BoolArray:
    """Return which lanes of junctions are reached from some lanes through none but lanes of junctions, (L,)."""
    is_reached, is_new = np.zeros(len(is_begin), np.bool_), is_begin & ~driving_map.is_in_junction
    while is_new.any():
        found = after[is_new[before]]
        is_new = np.zeros(len(is_begin), np.bool_)
        is_new[found] = True
        is_new &= driving_map.is_in_junction & ~is_reached
        is_reached |= is_new
    return is_reached

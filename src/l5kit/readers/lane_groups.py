"""Grouping of lanes into roads and junctions, for sources that only have lanes.

If no lane is marked as part of a junction, lanes that diverge, merge or cross are.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.map.bounds_grid import BoundsGrid
from l5kit.readers.source_map import SourceLane

_SAME_HEIGHT_M = 3.0
"""Maximum height difference of crossing lanes; beyond it one passes over the other, which is no junction."""

_CELL_M = 10.0


def with_junctions(lanes: Mapping[str, SourceLane], followers: Mapping[str, Sequence[str]]) -> dict[str, SourceLane]:
    """Return lanes with ``is_in_junction`` set, unless some lane is already marked as part of a junction.

    Lanes of unknown status are marked if they diverge from or merge with another lane, except for adjacent lanes where
    a road widens or narrows, or if they cross another lane at about the same height, except for lanes before, after and
    beside them.

    Args:
        lanes: The lanes of a map by their ids.
        followers: The successors of each lane, all of which must be among the lanes.
    """
    if len(lanes) < 2 or any(lane.is_in_junction for lane in lanes.values()):
        return dict(lanes)

    leaders = defaultdict(list)
    for name, after in followers.items():
        for other in after:
            leaders[other].append(name)
    neighbours = {name: {lane.left_neighbour or "", lane.right_neighbour or ""} for name, lane in lanes.items()}

    # Lanes that share a follower or a leader diverge or merge, unless a lane is adjacent to all others of the group.
    branching: set[str] = set()
    for group in map(set, (*followers.values(), *leaders.values())):
        beside = {name: {name} for name in group}
        for name in group:
            for other in neighbours[name] & group:
                beside[name].add(other)
                beside[other].add(name)
        branching |= {name for name in group if len(beside[name]) < len(group)}

    # the ends of consecutive lanes may overlap a little, which is no crossing
    row_of = {name: row for row, name in enumerate(lanes)}
    related = [
        min(row_of[name], row_of[other]) * len(lanes) + max(row_of[name], row_of[other])
        for name in lanes
        for other in (*followers[name], *neighbours[name])
        if other in row_of
    ]
    # Edges are short, so few share a grid cell, and the time grows linearly with their number.
    edges_m = np.concatenate([np.stack([lane.centre_m[:-1], lane.centre_m[1:]], 1) for lane in lanes.values()])
    lane_of_edge = np.repeat(np.arange(len(lanes)), [len(lane.centre_m) - 1 for lane in lanes.values()])
    grid = BoundsGrid.build(np.stack([edges_m[..., :2].min(1), edges_m[..., :2].max(1)], 1), _CELL_M)
    cross = np.zeros(len(lanes), np.bool_)
    _mark_crossings(
        edges_m, lane_of_edge, grid.cell_starts, grid.cell_rows, np.unique(np.array(related, np.int64)), cross
    )
    return {
        name: replace(lane, is_in_junction=True)
        if (name in branching or cross[row_of[name]]) and lane.is_in_junction is None
        else lane
        for name, lane in lanes.items()
    }


@kernel_jit
def _mark_crossings(
    edges_m: Float64Array,
    lane_of_edge: Int64Array,
    cell_starts: Int64Array,
    cell_rows: Int64Array,
    related: Int64Array,
    cross: BoolArray,
) -> None:
    """Mark the lanes with edges that cross those of other lanes; ``related`` are sorted codes of pairs to ignore."""
    num_lanes = len(cross)
    for cell in range(len(cell_starts) - 1):
        for index in range(cell_starts[cell], cell_starts[cell + 1]):
            first = cell_rows[index]
            for other in range(index + 1, cell_starts[cell + 1]):
                second = cell_rows[other]
                lane, crossed = lane_of_edge[first], lane_of_edge[second]
                if (cross[lane] and cross[crossed]) or not _cross(edges_m[first], edges_m[second]):
                    continue
                # ignore edges of the same lane, and pairs of related lanes
                pair = min(lane, crossed) * num_lanes + max(lane, crossed)
                slot = np.searchsorted(related, pair)
                if lane != crossed and (slot == len(related) or related[slot] != pair):
                    cross[lane] = cross[crossed] = True


@kernel_jit
def _cross(first: Float64Array, second: Float64Array) -> bool:
    """Return whether two edges (2, 3), without their end points, cross in plan view at about the same height."""
    # each edge is a start plus a fraction of a step; the fractions at the intersection follow from Cramer's rule
    (x, y), (u, v) = (first[1] - first[0])[:2], (second[1] - second[0])[:2]
    turn = x * v - y * u
    if turn == 0.0:  # parallel
        return False
    start_x, start_y = second[0, 0] - first[0, 0], second[0, 1] - first[0, 1]
    along, along_second = (start_x * v - start_y * u) / turn, (start_x * y - start_y * x) / turn
    if not (0.0 <= along < 1.0 and 0.0 <= along_second < 1.0):  # half-open, so that a vertex counts once
        return False
    below_m = first[0, 2] + along * (first[1, 2] - first[0, 2])
    return bool(abs(below_m - second[0, 2] - along_second * (second[1, 2] - second[0, 2])) <= _SAME_HEIGHT_M)


@dataclass(frozen=True)
class LaneGroup:
    """Lanes that become one road segment or one junction.

    Attributes:
        lanes: Their ids, from left to right for a road.
        is_junction: Whether it is a junction.
    """

    lanes: tuple[str, ...]
    is_junction: bool


def group_lanes(lanes: Mapping[str, SourceLane], followers: Mapping[str, Sequence[str]]) -> list[LaneGroup]:
    """Return the roads and junctions of lanes; each lane is in exactly one.

    Lanes of a road are adjacent and have the same speed limit. Lanes of a junction are adjacent, follow each other, or
    share a predecessor or successor.

    Args:
        lanes: Lanes by their ids.
        followers: The successors of each lane.
    """
    # Candidate pairs: neighbours, and in junctions also lanes that follow each other or share a predecessor or
    # successor.
    pairs: list[tuple[str, str]] = []
    sources = defaultdict(list)
    for name, lane in lanes.items():
        neighbours = (lane.left_neighbour, lane.right_neighbour)
        pairs += [(name, other) for other in neighbours if other is not None and other in lanes]
        inside = [other for other in followers[name] if lanes[other].is_in_junction]
        pairs += pairwise(inside)
        if lane.is_in_junction:
            pairs += [(name, other) for other in inside]
            for other in followers[name]:
                sources[other].append(name)
    for names in sources.values():
        pairs += pairwise(names)

    # lanes of a junction and of a road are never in one group
    row_of = {name: row for row, name in enumerate(lanes)}
    edges = []
    for first, second in pairs:
        is_inside, is_other_inside = bool(lanes[first].is_in_junction), bool(lanes[second].is_in_junction)
        has_same_limit = lanes[first].speed_limit_mps == lanes[second].speed_limit_mps
        if is_inside == is_other_inside and (is_inside or has_same_limit):
            edges.append((row_of[first], row_of[second]))
    rows = np.array(edges, np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(len(edges), np.bool_), (rows[0], rows[1])), shape=(len(lanes), len(lanes)))
    members = defaultdict(list)
    for name, group in zip(lanes, connected_components(graph, directed=False)[1].tolist(), strict=True):
        members[group].append(name)

    # Order the lanes of a road from left to right: start at a lane without a left neighbour among the remaining ones
    # (either lane of a pair may name the other), or at any lane if they form a cycle.
    groups = []
    for names in members.values():
        if lanes[names[0]].is_in_junction:
            groups.append(LaneGroup(tuple(names), True))
            continue
        ordered: list[str] = []
        waiting = dict.fromkeys(names)
        while waiting:
            right = {lanes[each].right_neighbour for each in waiting}
            leftmost = (each for each in waiting if lanes[each].left_neighbour not in waiting and each not in right)
            name = next(leftmost, next(iter(waiting)))
            while name in waiting:
                del waiting[name]
                ordered.append(name)
                name = lanes[name].right_neighbour or ""
        groups.append(LaneGroup(tuple(ordered), False))
    return groups

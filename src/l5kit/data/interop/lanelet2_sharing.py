"""Boundaries and corners shared by lanes, by which Lanelet2 represents successors and neighbours."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from l5kit._types import Float64Array, Int64Array
from l5kit.data.interop.exchanged_map import ExchangedLane, lane_changes
from l5kit.geometry.polygon import furthest_from_line

LEFT, RIGHT = 0, 1

SHARED_M: Final = 0.03
"""Corners of consecutive lanes and boundaries of neighbouring lanes are merged up to this distance."""

_SAME_M: Final = 0.001


@dataclass(frozen=True, eq=False)
class SharedLines:
    """The boundaries of lanes without duplicates, and the positions of their points.

    Attributes:
        lines: The nodes of each line, int64 (n,).
        line_of: Line of a boundary, and whether it runs against the lane, by lane id and side.
        nodes_m: World coordinates of the nodes, float64 (N, 3).
        largest_shift_m: Largest displacement of a point by merging.
    """

    lines: list[Int64Array]
    line_of: dict[tuple[str, int], tuple[int, bool]]
    nodes_m: Float64Array
    largest_shift_m: float

    @classmethod
    def of_lanes(cls, lanes: Mapping[str, ExchangedLane]) -> "SharedLines":
        """Return the boundaries of lanes; boundaries and corners that belong together are merged within 3 cm."""
        lines_m = {}
        for name, lane in lanes.items():
            lines_m[name, LEFT], lines_m[name, RIGHT] = lane.left_m, lane.right_m
        line_of, written, furthest_m = _line_of_sides(lanes, lines_m)
        starts = np.cumsum([0, *(len(lines_m[key]) for key in written)], dtype=np.int64)
        points_m = np.concatenate([lines_m[key] for key in written])

        # Corners of consecutive lanes (those at the end of a lane and at the start of the lanes ahead) are merged into
        # one node at their mean.
        def corner(name: str, side: int, *, is_end: bool) -> int:
            line, is_reversed = line_of[name, side]
            return int(starts[line + 1] - 1 if is_end != is_reversed else starts[line])

        together = [
            (corner(name, side, is_end=True), corner(ahead, side, is_end=False))
            for name, lane in lanes.items()
            for ahead in lane.ahead
            if ahead in lanes
            for side in (LEFT, RIGHT)
        ]
        pairs = np.array(together, np.int64).reshape(-1, 2)
        pairs = pairs[np.linalg.norm(points_m[pairs[:, 0]] - points_m[pairs[:, 1]], axis=1) <= SHARED_M]
        graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(points_m), len(points_m)))
        # corners to be merged, directly or transitively, form a connected component of the graph of pairs
        num_nodes, labels = connected_components(graph, directed=False)
        node_of_point = labels.astype(np.int64)
        counts = np.bincount(node_of_point, minlength=num_nodes)
        sums = [np.bincount(node_of_point, points_m[:, axis], num_nodes) for axis in range(3)]
        nodes_m = np.stack(sums, axis=1) / counts[:, None]
        moved_m = float(np.linalg.norm(nodes_m[node_of_point] - points_m, axis=1).max())
        return cls(np.split(node_of_point, starts[1:-1]), line_of, nodes_m, furthest_m + moved_m)

    def nodes_of(self, lane_id: str, side: int) -> Int64Array:
        """Return the nodes of a boundary in the direction of its lane."""
        line, is_reversed = self.line_of[lane_id, side]
        return self.lines[line][::-1] if is_reversed else self.lines[line]

    def followers(self) -> dict[str, set[str]]:
        """Return the lanes that start where each lane ends, as readers of the file will find them."""
        starting: dict[tuple[int, ...], set[str]] = {}
        names = [name for name, side in self.line_of if side == LEFT]
        for name in names:
            starting.setdefault(self._corner_of(name, 0), set()).add(name)
        return {name: starting.get(self._corner_of(name, -1), set()) for name in names}

    def are_beside(self, left: str, right: str) -> bool:
        """Return whether the right boundary of one lane is the left one of another, in the same direction."""
        return self.line_of.get((left, RIGHT), (-1, False)) == self.line_of.get((right, LEFT), (-2, False))

    def _corner_of(self, lane_id: str, end: int) -> tuple[int, ...]:
        return tuple(int(self.nodes_of(lane_id, side)[end]) for side in (LEFT, RIGHT))


def _line_of_sides(
    lanes: Mapping[str, ExchangedLane], lines_m: Mapping[tuple[str, int], Float64Array]
) -> tuple[dict[tuple[str, int], tuple[int, bool]], list[tuple[str, int]], float]:
    """Return line and direction of each side, the sides that have their own line, and the largest displacement."""
    # Lanes connected by a lane change, in at least one direction, share the line of the lane on the left.
    line_on: dict[tuple[str, int], tuple[str, int]] = {}
    furthest_m = 0.0
    for left, right in dict.fromkeys(lane_changes(lanes)):
        distance_m = distance_between(lines_m[right, LEFT], lines_m[left, RIGHT])
        if distance_m <= SHARED_M:
            line_on[right, LEFT] = (left, RIGHT)
            furthest_m = max(furthest_m, distance_m)

    # Lanes of opposite directions share a line if it is identical up to a millimetre.
    number_of: dict[tuple[str, int], int] = {}
    opposite_of: dict[tuple[str, int], int] = {}
    known: dict[bytes, int] = {}
    for key, line_m in lines_m.items():
        if key in line_on:
            continue
        rounded = np.rint(line_m / _SAME_M).astype(np.int64)
        opposite = known.get(rounded[::-1].tobytes())
        if opposite is not None:
            opposite_of[key] = opposite
        else:
            number_of[key] = known[rounded.tobytes()] = len(number_of)
    line_of = {}
    for key in lines_m:
        root = line_on.get(key, key)
        line_of[key] = (opposite_of[root], True) if root in opposite_of else (number_of[root], False)
    return line_of, list(number_of), furthest_m


def distance_between(first_m: Float64Array, second_m: Float64Array) -> float:
    """Return the largest distance between two lines: of vertices to the other line, and of ends to each other."""
    ends_m = np.linalg.norm(first_m[[0, -1]] - second_m[[0, -1]], axis=1).max()
    if first_m.shape == second_m.shape or ends_m > SHARED_M:
        gaps_m = np.linalg.norm(first_m - second_m, axis=1).max() if first_m.shape == second_m.shape else ends_m
        if gaps_m <= SHARED_M or ends_m > SHARED_M:
            return float(gaps_m)
    return max(float(ends_m), furthest_apart(first_m, second_m))


def furthest_apart(first_m: Float64Array, second_m: Float64Array) -> float:
    """Return the largest distance of vertices of two lines to the other line, in both directions, in the xy plane."""
    first, second = np.ascontiguousarray(first_m[:, :2]), np.ascontiguousarray(second_m[:, :2])
    return float(max(furthest_from_line(second, first), furthest_from_line(first, second)))

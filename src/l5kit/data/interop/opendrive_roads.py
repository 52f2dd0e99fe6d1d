"""Roads of OpenDRIVE: grouping of lanes into roads, reference lines, boundaries, and links between roads.

A road has a smooth reference line; the boundaries of its lanes are given as offsets from it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array
from l5kit.data.interop.exchanged_map import ExchangedLane, lane_changes
from l5kit.data.interop.lanelet2_sharing import SHARED_M, distance_between, furthest_apart
from l5kit.data.map.geometry import resample_line

LARGEST_ERROR_M: Final = 0.05
"""Parallel lanes form one road if boundaries stay this accurate; less accurate roads are reported."""

_STRAIGHT_STEP_M: Final = 6.0
_CURVED_STEPS_M: Final = (6.0, 2.0)
_NEAR_M: Final = 0.01
_CURVED_RAD: Final = 0.1
_SAMPLE_M: Final = 0.25
_MOST_SKEW: Final = 0.5
"""Road ends are cut along the line between the boundary ends above this cosine; otherwise across the course."""

_TOLERANCE_M: Final = 0.004


@dataclass(frozen=True, eq=False)
class RoadCourse:
    """The geometry of a road: pieces of cubic curves, and offsets of boundaries along them.

    Attributes:
        starts: Start of each piece, x, y and heading, float64 (P, 3).
        lengths_m: Length of each piece, (P,).
        coefficients: Polynomials of u and v, ahead and to the left of the start, in 1, p, p^2 and p^3, p from 0 to 1,
            (P, 2, 4).
        arcs_m: Arc lengths along the road at which the boundaries are known, ascending, (S,).
        offsets_m: Offset of each of the B boundaries to the left of the reference line there, (B, S).
        heights_m: Height of the middle of the road there, (S,).
        error_m: Largest distance between the boundaries and their reconstruction from this.
        tilt_m: Largest height difference between a boundary and the middle of the road.
    """

    starts: Float64Array
    lengths_m: Float64Array
    coefficients: Float64Array
    arcs_m: Float64Array
    offsets_m: Float64Array
    heights_m: Float64Array
    error_m: float
    tilt_m: float


@dataclass(frozen=True, eq=False)
class Road:
    """A road: parallel lanes in one direction, from left to right, so that lane i has the id -(i + 1)."""

    lanes: tuple[str, ...]
    course: RoadCourse
    junction: str = ""


@dataclass
class RoadNet:
    """Links between roads, given by their indices.

    Attributes:
        roads: The roads.
        ahead: Pairs of connected lanes, as indices in their roads, by road and following road.
        junction_of: Junction of each road; roads that diverge outside of one get an artificial one.
        made_up: Artificial junctions, which the map does not have.
        successor: Successor of each road: the index of a road or the name of a junction.
        predecessor: Predecessor of each road, likewise.
        connections: Pairs of incoming and connecting road, by junction.
    """

    roads: list[Road]
    ahead: dict[tuple[int, int], list[tuple[int, int]]]
    junction_of: dict[int, str] = field(default_factory=dict)
    made_up: set[str] = field(default_factory=set)
    successor: dict[int, int | str] = field(default_factory=dict)
    predecessor: dict[int, int | str] = field(default_factory=dict)
    connections: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of_roads(cls, roads: list[Road], lanes: Mapping[str, ExchangedLane]) -> "RoadNet":
        """Return the net of some roads: a road leads to one road, or through a junction to several."""
        index_of = {name: (row, index) for row, road in enumerate(roads) for index, name in enumerate(road.lanes)}
        ahead: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for name, (row, index) in index_of.items():
            for following in lanes[name].ahead:
                if following in index_of:
                    ahead[row, index_of[following][0]].append((index, index_of[following][1]))
        net = cls(roads, ahead, {row: road.junction for row, road in enumerate(roads) if road.junction})
        after: dict[int, list[int]] = defaultdict(list)
        before: dict[int, list[int]] = defaultdict(list)
        for row, other in ahead:
            after[row].append(other)
            before[other].append(row)

        # If roads diverge outside of a junction, the following roads are put into an artificial junction.
        for others in after.values():
            if len(others) > 1 and not any(other in net.junction_of for other in others):
                junction = f"made up {len(net.made_up)}"
                net.made_up.add(junction)
                net.junction_of |= dict.fromkeys(others, junction)
        for row, others in after.items():
            inside = [net.junction_of[other] for other in others if other in net.junction_of]
            if not inside:
                net.successor[row] = others[0]
                continue
            net.successor[row] = inside[0]
            net.connections[inside[0]] += [(row, other) for other in others]
        for row, others in before.items():
            through = {net.junction_of[other] for other in others if other in net.junction_of}
            if row not in net.junction_of and len(through) == 1 and len(others) > 1:
                net.predecessor[row] = through.pop()
            elif row in net.junction_of or len(others) == 1:
                net.predecessor[row] = others[0]
        return net


def make_roads(lanes: Mapping[str, ExchangedLane]) -> list[Road]:
    """Return roads that cover the lanes: lanes connected by lane changes that share boundaries form one road."""
    # lanes connected by a lane change, in either direction; the first statement counts
    right_of: dict[str, str] = {}
    for left, right in lane_changes(lanes):
        right_of.setdefault(left, right)
    left_ones = {right: left for left, right in right_of.items()}
    roads, seen = [], set()
    for name in lanes:
        # go to the leftmost neighbour, and from there through all lanes to the right; rings end where they began
        first = name
        while left_ones.get(first) is not None and left_ones[first] != name:
            first = left_ones[first]
        chain = []
        while first not in seen and first not in chain:
            chain.append(first)
            first = right_of.get(first, "")
            if first not in lanes or left_ones.get(first) != chain[-1]:
                break
        seen.update(chain)

        # lanes of a road are in the same junction, if any, and adjacent lanes share a boundary
        groups: list[list[ExchangedLane]] = []
        for lane in (lanes[each] for each in chain):
            last = groups[-1][-1] if groups else None
            if (
                last is not None
                and (last.is_in_junction, last.parent) == (lane.is_in_junction, lane.parent)
                and distance_between(lane.left_m, last.right_m) <= SHARED_M
            ):
                groups[-1].append(lane)
            else:
                groups.append([lane])

        # lanes that do not fit one reference line become separate roads
        for group in groups:
            course = fit_course(_boundaries(group))
            if len(group) > 1 and course.error_m > LARGEST_ERROR_M:
                roads += [_road([lane], fit_course(_boundaries([lane]))) for lane in group]
            else:
                roads.append(_road(group, course))
    return roads


def _road(lanes: Sequence[ExchangedLane], course: RoadCourse) -> Road:
    first = lanes[0]
    junction = (first.parent or f"of {first.lane_id}") if first.is_in_junction else ""
    return Road(tuple(lane.lane_id for lane in lanes), course, junction)


def _boundaries(lanes: Sequence[ExchangedLane]) -> list[Float64Array]:
    return [lanes[0].left_m, *(lane.right_m for lane in lanes)]


def fit_course(boundaries_m: Sequence[Float64Array]) -> RoadCourse:
    """Return the geometry of a road between its boundaries, with as few curves as needed for 1 cm if possible.

    Args:
        boundaries_m: The boundaries from left to right, world coordinates, (n, 3) each, at least two.
    """
    course = _fit(boundaries_m, _CURVED_STEPS_M[0])
    for step_m in _CURVED_STEPS_M[1:]:
        if course.error_m > _NEAR_M:
            course = min(course, _fit(boundaries_m, step_m), key=lambda each: each.error_m)
    return course


def _fit(boundaries_m: Sequence[Float64Array], curved_step_m: float) -> RoadCourse:
    """Return the geometry of a road between its boundaries.

    The reference line is a chain of cubic Hermite curves midway between the outer boundaries. Its tangents are
    continuous and, at both ends, perpendicular to the line between the boundary ends, so that the normals there pass
    through these ends; elsewhere each boundary is given by its intersection with the normal.

    Args:
        boundaries_m: See :func:`fit_course`.
        curved_step_m: Distance between the ends of curves on roads that turn.
    """
    left_m, right_m = boundaries_m[0], boundaries_m[-1]
    length_m = 0.5 * sum(
        float(np.linalg.norm(np.diff(line[:, :2], axis=0), axis=1).sum()) for line in (left_m, right_m)
    )
    # the middle at half metres; its total turn determines the distance between the ends of curves
    fine = max(3, int(length_m / 0.5) + 2)
    middle_m = 0.5 * (resample_line(left_m, fine) + resample_line(right_m, fine))[:, :2]
    steps_m = np.diff(middle_m, axis=0)
    turned_rad = np.abs(np.diff(np.unwrap(np.arctan2(steps_m[:, 1], steps_m[:, 0])))).sum()
    step_m = curved_step_m if turned_rad > _CURVED_RAD else _STRAIGHT_STEP_M
    knots_m = resample_line(middle_m, max(2, int(np.ceil(length_m / step_m)) + 1))

    # Tangents: parallel to the chord between neighbouring knots, and perpendicular to the road ends at both ends.
    chords_m = np.diff(knots_m, axis=0)
    along = np.concatenate([chords_m[:1], knots_m[2:] - knots_m[:-2], chords_m[-1:]])
    along /= np.maximum(np.linalg.norm(along, axis=1), 1e-9)[:, None]
    for end in (0, -1):
        across = (left_m[end] - right_m[end])[:2]
        width_m = float(np.hypot(*across))
        if width_m > 1e-3:
            tangent = np.array([across[1], -across[0]]) / width_m
            if tangent @ along[end] > _MOST_SKEW:
                along[end] = tangent

    # Cubic curves in the frame of their starts. Their speed is about the length of an arc with the same tangents: a
    # chord c of an arc that turns by a has length 2 r sin(a / 2), the arc r a, thus c (a / 2) / sin(a / 2).
    headings_rad = np.arctan2(along[:, 1], along[:, 0])
    turns_rad = np.abs((np.diff(headings_rad) + np.pi) % (2 * np.pi) - np.pi)
    spans_m = np.linalg.norm(chords_m, axis=1) * np.where(
        turns_rad > 1e-6, 0.5 * turns_rad / np.sin(np.maximum(0.5 * turns_rad, 1e-9)), 1.0
    )

    # Hermite: from 0 with tangent t to e with tangent s is t p + (3 e - 2 t - s) p^2 + (t + s - 2 e) p^3.
    axes = np.stack([along[:-1], np.stack([-along[:-1, 1], along[:-1, 0]], axis=1)], axis=1)
    ends = np.einsum("pij,pj->pi", axes, chords_m)
    first = np.stack([spans_m, np.zeros_like(spans_m)], axis=1)
    last = np.einsum("pij,pj->pi", axes, along[1:]) * spans_m[:, None]
    coefficients = np.stack([np.zeros_like(first), first, 3 * ends - 2 * first - last, first + last - 2 * ends], axis=2)

    # Lengths by Gauss-Legendre quadrature: the speed of a cubic is the root of a polynomial of degree 4, for which
    # eight nodes are accurate to far below a millimetre.
    nodes, weights = np.polynomial.legendre.leggauss(8)
    parts = 0.5 * (nodes + 1.0)
    slopes = np.stack([np.zeros_like(parts), np.ones_like(parts), 2 * parts, 3 * parts**2])
    lengths_m: Float64Array = 0.5 * np.linalg.norm(coefficients @ slopes, axis=1) @ weights
    starts = np.column_stack([knots_m[:-1], headings_rad[:-1]])

    # Intersections of the normals with the boundaries: piece and p of about equally spaced points along the road,
    # both ends included.
    counts = np.maximum(1, np.ceil(lengths_m / _SAMPLE_M).astype(np.int64))
    piece = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
    piece, part = np.append(piece, len(counts) - 1), np.append(within / counts[piece], 1.0)
    points_m, normals = curve_points(starts[piece], coefficients[piece], part)
    starts_m = np.concatenate([[0.0], np.cumsum(lengths_m)])
    arcs_m = starts_m[piece] + part * lengths_m[piece]
    offsets_m, heights_m = np.empty((len(boundaries_m), len(arcs_m))), np.empty((len(boundaries_m), len(arcs_m)))
    for row, line_m in enumerate(boundaries_m):
        _meet_normals(points_m, normals, np.ascontiguousarray(line_m), offsets_m[row], heights_m[row])
    # compare the boundaries with their reconstruction by a reader, whose points lie on the normals
    rebuilt_m = points_m + offsets_m[..., None] * normals
    error_m = max(furthest_apart(line_m, again_m) for line_m, again_m in zip(boundaries_m, rebuilt_m, strict=True))
    middle_height_m = heights_m[[0, -1]].mean(axis=0)
    tilt_m = float(np.abs(heights_m - middle_height_m).max())
    return RoadCourse(starts, lengths_m, coefficients, arcs_m, offsets_m, middle_height_m, error_m, tilt_m)


def curve_points(
    starts: Float64Array, coefficients: Float64Array, parts: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return points of curves and the directions to their left, (S, 2) each.

    Args:
        starts: x, y and heading of the start of the curve of each point, (S, 3).
        coefficients: Coefficients of the curve of each point, as in :class:`RoadCourse`, (S, 2, 4).
        parts: p of each point, (S,).
    """
    # values and slopes of the polynomials, rotated by the start heading; left is a quarter turn from the slope
    powers = np.stack([np.ones_like(parts), parts, parts**2, parts**3], axis=1)
    slopes = np.stack([np.zeros_like(parts), np.ones_like(parts), 2 * parts, 3 * parts**2], axis=1)
    local, along = np.einsum("sij,sj->si", coefficients, powers), np.einsum("sij,sj->si", coefficients, slopes)
    cos, sin = np.cos(starts[:, 2]), np.sin(starts[:, 2])
    along /= np.maximum(np.linalg.norm(along, axis=1), 1e-12)[:, None]
    points = starts[:, :2] + np.stack([cos * local[:, 0] - sin * local[:, 1], sin * local[:, 0] + cos * local[:, 1]], 1)
    left = np.stack([-sin * along[:, 0] - cos * along[:, 1], cos * along[:, 0] - sin * along[:, 1]], axis=1)
    return points, left


def simplified_rows(arcs_m: Float64Array, values: Float64Array, tolerance: float = _TOLERANCE_M) -> BoolArray:
    """Return which points of a function to keep so that a linear interpolation is close to all others.

    Args:
        arcs_m: Positions of the values, ascending, (S,).
        values: One or several functions, (S,) or (S, k).
        tolerance: Largest distance of a value to the interpolation.
    """
    kept = np.zeros(len(arcs_m), np.bool_)
    _keep_corners(np.ascontiguousarray(arcs_m), np.ascontiguousarray(values.reshape(len(arcs_m), -1)), tolerance, kept)
    return kept


@kernel_jit
def _meet_normals(
    points: Float64Array, normals: Float64Array, line: Float64Array, offsets: Float64Array, heights: Float64Array
) -> None:
    """Write the offset at which each normal (S, 2) intersects a line (n, 3), and the height of the line there.

    The first and last normal use the ends of the line; without an intersection, the previous offset is kept.
    """
    last = len(points) - 1
    for row in range(len(points)):
        if row == 0 or row == last:
            end = 0 if row == 0 else len(line) - 1
            x, y = line[end, 0] - points[row, 0], line[end, 1] - points[row, 1]
            offsets[row], heights[row] = x * normals[row, 0] + y * normals[row, 1], line[end, 2]
            continue
        best, height = np.inf, 0.0
        for edge in range(len(line) - 1):
            edge_x, edge_y = line[edge + 1, 0] - line[edge, 0], line[edge + 1, 1] - line[edge, 1]
            x, y = line[edge, 0] - points[row, 0], line[edge, 1] - points[row, 1]
            # intersection of normal and edge by Cramer's rule; 0 means parallel
            turn = normals[row, 0] * edge_y - normals[row, 1] * edge_x
            if turn == 0.0:
                continue
            along = (x * normals[row, 1] - y * normals[row, 0]) / turn
            if -1e-9 <= along <= 1.0 + 1e-9:
                offset = (x * edge_y - y * edge_x) / turn
                # of several intersections take the one nearest to the previous offset: a boundary that turns back
                # intersects more than once
                if abs(offset - offsets[row - 1]) < abs(best - offsets[row - 1]):
                    best, height = offset, line[edge, 2] + along * (line[edge + 1, 2] - line[edge, 2])
        if best == np.inf:
            offsets[row], heights[row] = offsets[row - 1], heights[row - 1]
        else:
            offsets[row], heights[row] = best, height


@kernel_jit
def _keep_corners(arcs: Float64Array, values: Float64Array, tolerance: float, kept: BoolArray) -> None:
    """Mark points by splitting at the furthest one (Douglas-Peucker), with differences of values as distances."""
    last = len(arcs) - 1
    kept[0] = kept[last] = True
    stack = [(0, last)]
    while len(stack) > 0:
        start, end = stack.pop()
        furthest, split = tolerance, -1
        for row in range(start + 1, end):
            part = (arcs[row] - arcs[start]) / (arcs[end] - arcs[start])
            for column in range(values.shape[1]):
                line = values[start, column] + part * (values[end, column] - values[start, column])
                distance = abs(values[row, column] - line)
                if distance > furthest:
                    furthest, split = distance, row
        if split >= 0:
            kept[split] = True
            stack.append((start, split))
            stack.append((split, end))

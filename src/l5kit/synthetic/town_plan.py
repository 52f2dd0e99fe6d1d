"""Layout of the intersections and roads of a synthetic town, without lanes."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from l5kit._types import Float64Array, Int64Array

LANE_WIDTH_M = 3.5
BIKE_STRIP_WIDTH_M = 1.8
NUM_ARMS = 4
_BLOCK_M = 165.0
_SETBACK_M = 6.5
_ARTERIAL_LIMIT_MPS = 15.6
_LOCAL_LIMIT_MPS = 11.2
_MAX_ROTATION_RAD = 0.2
_MAX_ARM_ROTATION_RAD = 0.05
_REMOVED_ROADS = 0.15

Control = Literal["signal", "yield", "all_way", "none"]


@dataclass(frozen=True)
class Road:
    """A two-way road between two intersections.

    ``start`` and ``end`` are (intersection, arm) pairs; arms are numbered counter-clockwise from the town's east.
    """

    start: tuple[int, int]
    end: tuple[int, int]
    num_lanes: int
    speed_limit_mps: float
    centre_m: Float64Array
    """Centre line from stop line to stop line, with points at about 1 m, (n, 2)."""

    @property
    def half_width_m(self) -> float:
        """Distance from the centre line to the outer edge of the bike strip, metres."""
        return self.num_lanes * LANE_WIDTH_M + BIKE_STRIP_WIDTH_M

    @property
    def is_arterial(self) -> bool:
        """Whether the road has several lanes per direction."""
        return self.num_lanes > 1


@dataclass(frozen=True)
class TownPlan:
    """Intersections and roads of a town, all in world coordinates.

    Attributes:
        position_m: Centres of the intersections, (N, 2).
        arm_yaw_rad: Direction of each arm seen from the centre, (N, 4).
        setback_m: Distance from the centre to the stop lines, (N,).
        arm_road: Index of the road at each arm or -1, (N, 4).
        roads: All roads.
        controls: Control of the right of way at each intersection.
        has_protected_left: Whether left turns have their own signal phase, per intersection.
    """

    position_m: Float64Array
    arm_yaw_rad: Float64Array
    setback_m: Float64Array
    arm_road: Int64Array
    roads: tuple[Road, ...]
    controls: tuple[Control, ...]
    has_protected_left: tuple[bool, ...]

    def arms_of(self, node: int) -> list[int]:
        """Return the arms of an intersection that have a road, counter-clockwise."""
        return [arm for arm in range(NUM_ARMS) if self.arm_road[node, arm] >= 0]


@dataclass(frozen=True)
class _Edge:
    start: tuple[int, int]
    end: tuple[int, int]
    is_arterial: bool


def plan_town(town_size_m: float, rng: np.random.Generator) -> TownPlan:
    """Plan a town around the world origin: a distorted grid of arterial and local roads, with some of them removed.

    The outermost intersections keep their roads, so that the network stays strongly connected.
    """
    count = max(3, round(town_size_m / _BLOCK_M) + 1)
    block_m = town_size_m / (count - 1)
    edges = _grid_edges(count, rng)
    # a grid with slightly displaced and rotated intersections, whose arms are rotated individually as well
    grid = (np.arange(count) - (count - 1) / 2) * block_m
    columns, rows = np.meshgrid(grid, grid)
    jitter_m = rng.uniform(-0.12, 0.12, size=(count * count, 2)) * block_m
    position_m = np.stack([columns.ravel(), rows.ravel()], axis=1) + jitter_m
    rotation = rng.uniform(-_MAX_ROTATION_RAD, _MAX_ROTATION_RAD, size=(count * count, 1))
    jitter = rng.uniform(-_MAX_ARM_ROTATION_RAD, _MAX_ARM_ROTATION_RAD, size=(count * count, NUM_ARMS))
    arm_yaw_rad = rotation + jitter + np.arange(NUM_ARMS) * np.pi / 2

    # stop lines are a little beyond the width of the widest road at the intersection
    arm_edge = np.full((count * count, NUM_ARMS), -1)
    for index, edge in enumerate(edges):
        arm_edge[edge.start] = arm_edge[edge.end] = index
    half_width_m = np.array([(2 if e.is_arterial else 1) * LANE_WIDTH_M + BIKE_STRIP_WIDTH_M for e in edges])
    setback_m = np.array([half_width_m[row[row >= 0]].max() for row in arm_edge]) + _SETBACK_M
    # a road leaves both of its intersections along their arms, and connects their stop lines
    roads = []
    for edge in edges:
        ends = []
        for node, arm in (edge.start, edge.end):
            direction = unit_along(arm_yaw_rad[node, arm])
            ends.append((position_m[node] + setback_m[node] * direction, direction))
        (start_m, out_of_start), (end_m, out_of_end) = ends
        handle_m = 0.4 * float(np.hypot(*(end_m - start_m)))
        control = np.stack([start_m, start_m + handle_m * out_of_start, end_m + handle_m * out_of_end, end_m])
        num_lanes, limit_mps = (2, _ARTERIAL_LIMIT_MPS) if edge.is_arterial else (1, _LOCAL_LIMIT_MPS)
        roads.append(Road(edge.start, edge.end, num_lanes, limit_mps, sample_bezier(control, spacing_m=1.0)))
    controls = tuple(_control(row, edges, rng) for row in arm_edge)
    protected = tuple(
        kind == "signal" and all(edges[e].is_arterial for e in row if e >= 0) and bool(rng.random() < 0.4)
        for kind, row in zip(controls, arm_edge, strict=True)
    )
    return TownPlan(position_m, arm_yaw_rad, setback_m, arm_edge, tuple(roads), controls, protected)


def _grid_edges(count: int, rng: np.random.Generator) -> list[_Edge]:
    """Connect each intersection to its eastern (arm 0) and northern (arm 1) neighbour, then remove some local roads."""
    # every second row and column is an arterial road
    first = rng.integers(0, 2, size=2)
    edges = []
    for row in range(count):
        for column in range(count):
            node = row * count + column
            if column + 1 < count:
                edges.append(_Edge((node, 0), (node + 1, 2), row % 2 == first[0]))
            if row + 1 < count:
                edges.append(_Edge((node, 1), (node + count, 3), column % 2 == first[1]))
    # intersections keep at least three roads; corners keep both of theirs
    degree = np.zeros(count * count, int)
    for edge in edges:
        degree[[edge.start[0], edge.end[0]]] += 1
    kept = []
    for edge in edges:
        ends = [edge.start[0], edge.end[0]]
        if not edge.is_arterial and rng.random() < _REMOVED_ROADS and degree[ends].min() > 3:
            degree[ends] -= 1
        else:
            kept.append(edge)
    return kept


def unit_along(yaw_rad: Float64Array | float) -> Float64Array:
    """Return the unit vector along each heading, (..., 2)."""
    return np.stack([np.cos(yaw_rad), np.sin(yaw_rad)], axis=-1)


def unit_left(yaw_rad: Float64Array | float) -> Float64Array:
    """Return the unit vector to the left of each heading, (..., 2)."""
    return np.stack([-np.sin(yaw_rad), np.cos(yaw_rad)], axis=-1)


def line_lengths(points_m: Float64Array) -> Float64Array:
    """Return the arc length from the first point to each point of a line, (n,)."""
    return np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points_m, axis=0).T))])


def interpolated(at_m: Float64Array, lengths_m: Float64Array, *columns: Float64Array) -> Float64Array:
    """Interpolate values at the points of a line, such as x and y, at other arc lengths, (n, columns)."""
    return np.stack([np.interp(at_m, lengths_m, column) for column in columns], axis=1)


def sample_bezier(control_m: Float64Array, *, spacing_m: float) -> Float64Array:
    """Sample a cubic Bezier curve at equal arc lengths close to the spacing, including both ends, (n, 2)."""
    t = np.linspace(0.0, 1.0, 500)[:, None]
    weights = np.concatenate([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3], axis=1)
    dense_m = weights @ control_m
    length_m = line_lengths(dense_m)
    wanted_m = np.linspace(0.0, length_m[-1], max(3, round(length_m[-1] / spacing_m) + 1))
    return interpolated(wanted_m, length_m, *dense_m.T)


def _control(arm_edge: Int64Array, edges: list[_Edge], rng: np.random.Generator) -> Control:
    arterial = [edges[e].is_arterial for e in arm_edge if e >= 0]
    if len(arterial) < 3:
        return "none"
    if all(arterial):
        return "signal"
    if any(arterial):
        return "signal" if rng.random() < 0.65 else "yield"
    return "signal" if rng.random() < 0.2 else "all_way"

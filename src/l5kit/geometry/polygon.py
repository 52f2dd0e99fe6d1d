"""Lines and polygons in the plane: nearest points, distances and containment, for use inside kernels."""

import math

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array


@kernel_jit
def project_on_line(line: Float64Array, point: Float64Array) -> tuple[int, float]:
    """Return the edge of a line (P, 2) nearest to a point, and the nearest position as a fraction of that edge."""
    best, best_edge, best_part = np.inf, 0, 0.0
    for edge in range(len(line) - 1):
        edge_x, edge_y = line[edge + 1, 0] - line[edge, 0], line[edge + 1, 1] - line[edge, 1]
        x, y = point[0] - line[edge, 0], point[1] - line[edge, 1]
        squared_length = edge_x * edge_x + edge_y * edge_y
        part = 0.0
        if squared_length > 0:
            part = min(max((x * edge_x + y * edge_y) / squared_length, 0.0), 1.0)
        squared = (x - part * edge_x) ** 2 + (y - part * edge_y) ** 2
        if squared < best:
            best, best_edge, best_part = squared, edge, part
    return best_edge, best_part


@kernel_jit
def arc_on_line(line: Float64Array, lengths_m: Float64Array, point_m: Float64Array) -> tuple[float, float]:
    """Return the arc length of the position on a line nearest to a point, and the heading of the line there.

    Args:
        line: Points of the line, (P, 2).
        lengths_m: Arc length at each point, (P,).
        point_m: World x and y.
    """
    edge, part = project_on_line(line, point_m)
    heading = math.atan2(line[edge + 1, 1] - line[edge, 1], line[edge + 1, 0] - line[edge, 0])
    return lengths_m[edge] + part * (lengths_m[edge + 1] - lengths_m[edge]), heading


@kernel_jit
def edge_at(lengths_m: Float64Array, arc_m: float) -> int:
    """Return the edge of a line at an arc length; the first or last edge for arc lengths beyond the line.

    Args:
        lengths_m: Arc length at each point, (P,), ascending.
        arc_m: Arc length.
    """
    # bisection by hand, as np.searchsorted is not available in GPU kernels
    first, stop = 0, len(lengths_m)
    while first < stop:
        middle = (first + stop) // 2
        if lengths_m[middle] < arc_m:
            first = middle + 1
        else:
            stop = middle
    return min(max(first - 1, 0), len(lengths_m) - 2)


@kernel_jit
def point_on_line(line: Float64Array, lengths_m: Float64Array, arc_m: float) -> tuple[float, float]:
    """Return world x and y at an arc length of a line; beyond the ends the line continues straight.

    Args:
        line: Points of the line, (P, 2).
        lengths_m: Arc length at each point, (P,).
        arc_m: Arc length.
    """
    edge = edge_at(lengths_m, arc_m)
    part = (arc_m - lengths_m[edge]) / max(lengths_m[edge + 1] - lengths_m[edge], 1e-9)
    x = line[edge, 0] + part * (line[edge + 1, 0] - line[edge, 0])
    y = line[edge, 1] + part * (line[edge + 1, 1] - line[edge, 1])
    return x, y


@kernel_jit
def distance_to_edge(start: Float64Array, end: Float64Array, point: Float64Array) -> float:
    """Return the distance in the xy plane from a point to the edge between two others."""
    edge_x, edge_y = end[0] - start[0], end[1] - start[1]
    x, y = point[0] - start[0], point[1] - start[1]
    squared_length = edge_x * edge_x + edge_y * edge_y
    along = 0.0
    if squared_length > 0:
        along = min(max((x * edge_x + y * edge_y) / squared_length, 0.0), 1.0)
    distance: float = math.hypot(x - along * edge_x, y - along * edge_y)
    return distance


@kernel_jit
def distance_to_line(line: Float64Array, point: Float64Array) -> float:
    """Return the distance in the xy plane from a point to a line of at least one vertex."""
    distance = distance_to_edge(line[0], line[0], point)
    for i in range(1, len(line)):
        distance = min(distance, distance_to_edge(line[i - 1], line[i], point))
    return distance


@kernel_jit
def furthest_from_line(line: Float64Array, points: Float64Array) -> float:
    """Return the largest distance in the xy plane from points (N, >= 2) to a line of at least one vertex."""
    furthest = 0.0
    for row in range(len(points)):
        furthest = max(furthest, distance_to_line(line, points[row]))
    return furthest


@kernel_jit
def crosses_edge(start: Float64Array, end: Float64Array, point: Float64Array) -> bool:
    """Return whether the ray from a point towards +x crosses the edge."""
    if (start[1] > point[1]) == (end[1] > point[1]):
        return False
    crossing_x = start[0] + (point[1] - start[1]) / (end[1] - start[1]) * (end[0] - start[0])
    is_before: bool = point[0] < crossing_x
    return is_before


@kernel_jit
def is_inside_polygon(polygon: Float64Array, point: Float64Array) -> bool:
    """Return whether a point is inside a polygon, (n, >= 2), by the even-odd rule; the polygon is closed implicitly."""
    is_inside = crosses_edge(polygon[-1], polygon[0], point)
    for i in range(1, len(polygon)):
        is_inside = is_inside != crosses_edge(polygon[i - 1], polygon[i], point)
    return is_inside


@kernel_jit
def distance_to_polygon(polygon: Float64Array, point: Float64Array) -> float:
    """Return the distance from a point to a polygon, (n, >= 2), 0 inside; the polygon is closed implicitly."""
    if is_inside_polygon(polygon, point):
        return 0.0
    return min(distance_to_edge(polygon[-1], polygon[0], point), distance_to_line(polygon, point))

"""Points beside lines and polygons seen from above: distances, and what lies inside, for use inside kernels."""

import math

from numba import njit

from l5kit._types import Float64Array


@njit(nogil=True, cache=True, error_model="numpy")
def distance_to_edge(start: Float64Array, end: Float64Array, point: Float64Array) -> float:
    """Return the distance in the xy plane from a point to the straight edge between two others."""
    edge_x, edge_y = end[0] - start[0], end[1] - start[1]
    x, y = point[0] - start[0], point[1] - start[1]
    squared_length = edge_x * edge_x + edge_y * edge_y
    along = 0.0
    if squared_length > 0:
        along = min(max((x * edge_x + y * edge_y) / squared_length, 0.0), 1.0)
    distance: float = math.hypot(x - along * edge_x, y - along * edge_y)
    return distance


@njit(nogil=True, cache=True, error_model="numpy")
def distance_to_line(line: Float64Array, point: Float64Array) -> float:
    """Return the distance in the xy plane from a point to a line of at least one vertex."""
    distance = distance_to_edge(line[0], line[0], point)
    for i in range(1, len(line)):
        distance = min(distance, distance_to_edge(line[i - 1], line[i], point))
    return distance


@njit(nogil=True, cache=True, error_model="numpy")
def crosses_edge(start: Float64Array, end: Float64Array, point: Float64Array) -> bool:
    """Return whether the ray from a point towards +x crosses the edge."""
    if (start[1] > point[1]) == (end[1] > point[1]):
        return False
    crossing_x = start[0] + (point[1] - start[1]) / (end[1] - start[1]) * (end[0] - start[0])
    is_before: bool = point[0] < crossing_x
    return is_before


@njit(nogil=True, cache=True, error_model="numpy")
def is_inside_polygon(polygon: Float64Array, point: Float64Array) -> bool:
    """Return whether a point lies inside a polygon, (n, >= 2), by the even-odd rule; it is closed by itself."""
    is_inside = crosses_edge(polygon[-1], polygon[0], point)
    for i in range(1, len(polygon)):
        is_inside = is_inside != crosses_edge(polygon[i - 1], polygon[i], point)
    return is_inside


@njit(nogil=True, cache=True, error_model="numpy")
def distance_to_polygon(polygon: Float64Array, point: Float64Array) -> float:
    """Return the distance from a point to a polygon, (n, >= 2), 0 inside; it is closed by itself."""
    if is_inside_polygon(polygon, point):
        return 0.0
    return min(distance_to_edge(polygon[-1], polygon[0], point), distance_to_line(polygon, point))

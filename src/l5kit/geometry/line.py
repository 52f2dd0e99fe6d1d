"""Places along lines seen from above, for use inside kernels: the one nearest to a point, and the one at a length."""

import math

import numpy as np
from numba import njit

from l5kit._types import Float64Array


@njit(nogil=True, cache=True, error_model="numpy")
def project_on_line(line: Float64Array, point: Float64Array) -> tuple[int, float]:
    """Return the edge of a line (P, 2) that is nearest to a point, and how much of it lies before the nearest place."""
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


@njit(nogil=True, cache=True, error_model="numpy")
def place_on_line(line: Float64Array, lengths_m: Float64Array, point_m: Float64Array) -> tuple[float, float]:
    """Return the length of a line up to the place nearest to a point, and the heading of the line there.

    Args:
        line: Its points, (P, 2).
        lengths_m: The length up to each point, (P,).
        point_m: World x and y.
    """
    edge, part = project_on_line(line, point_m)
    heading = math.atan2(line[edge + 1, 1] - line[edge, 1], line[edge + 1, 0] - line[edge, 0])
    return lengths_m[edge] + part * (lengths_m[edge + 1] - lengths_m[edge]), heading


@njit(nogil=True, cache=True, error_model="numpy")
def point_on_line(line: Float64Array, lengths_m: Float64Array, arc_m: float) -> tuple[float, float]:
    """Return world x and y of the place on a line at a length, which may lie a little outside of the line.

    Args:
        line: Its points, (P, 2).
        lengths_m: The length up to each point, (P,).
        arc_m: The length.
    """
    edge = min(max(int(np.searchsorted(lengths_m, arc_m)) - 1, 0), len(lengths_m) - 2)
    part = (arc_m - lengths_m[edge]) / max(lengths_m[edge + 1] - lengths_m[edge], 1e-9)
    x = line[edge, 0] + part * (line[edge + 1, 0] - line[edge, 0])
    y = line[edge, 1] + part * (line[edge + 1, 1] - line[edge, 1])
    return x, y

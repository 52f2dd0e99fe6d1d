"""Trapezoids of polygons with holes: small convex pieces for fast point location."""

from collections.abc import Sequence

import numpy as np

from l5kit._types import Float64Array


def cut_into_trapezoids(rings: Sequence[Float64Array]) -> list[Float64Array]:
    """Return the area inside an odd number of rings as trapezoids with horizontal upper and lower sides.

    A sweep line moves up over the corners. Between two corners the edges that it crosses bound the inside in pairs from
    the left; a trapezoid continues while its two edges do and no edge comes between them. For n corners there are O(n)
    trapezoids. Rings may touch; if they cross, the result is wrong only between the two corner heights around the
    crossing.

    Args:
        rings: Outlines and holes, x and y of the corners of each, closed implicitly, float64 (n, 2).

    Returns:
        Three or four corners of each trapezoid, counter-clockwise from the lower left, float64 (3 or 4, 2).
    """
    # edges that are not horizontal, each from lower to upper end, sorted by lower end, (E, 2, 2)
    edges = np.concatenate([np.zeros((0, 2, 2)), *(np.stack([ring, np.roll(ring, -1, axis=0)], 1) for ring in rings)])
    edges = edges[edges[:, 0, 1] != edges[:, 1, 1]]
    is_down = edges[:, 0, 1] > edges[:, 1, 1]
    edges[is_down] = edges[is_down, ::-1]
    edges = edges[np.argsort(edges[:, 0, 1], kind="stable")]

    # sweep from one corner height to the next
    starts_y, ends_y = edges[:, 0, 1], edges[:, 1, 1]
    slopes = (edges[:, 1, 0] - edges[:, 0, 0]) / (ends_y - starts_y)
    heights = np.unique(edges[..., 1])
    num_started = np.searchsorted(starts_y, heights, side="right")
    crossed = np.zeros(0, np.int64)
    begun: dict[tuple[int, int], float] = {}
    trapezoids = []
    for step, (low, high) in enumerate(zip(heights[:-1].tolist(), heights[1:].tolist(), strict=True)):
        # edges of this step, from left to right at its middle
        new = np.arange(num_started[step - 1] if step else 0, num_started[step])
        crossed = np.concatenate([crossed[ends_y[crossed] > low], new])
        middle = 0.5 * (low + high)
        middles_x = edges[crossed, 0, 0] + (middle - starts_y[crossed]) * slopes[crossed]
        ordered = crossed[np.argsort(middles_x, kind="stable")].tolist()
        pairs = set(zip(ordered[::2], ordered[1::2], strict=False))
        # trapezoids that do not continue end here
        trapezoids += [(*pair, begun.pop(pair), low) for pair in list(begun) if pair not in pairs]
        begun |= {pair: low for pair in pairs if pair not in begun}
    trapezoids += [(*pair, low, float(heights[-1])) for pair, low in begun.items()]

    def corner_at(edge: int, height: float) -> tuple[float, float]:
        return float(edges[edge, 0, 0] + (height - starts_y[edge]) * slopes[edge]), height

    cut = []
    for left, right, low, high in trapezoids:
        corners = [corner_at(left, low), corner_at(right, low), corner_at(right, high), corner_at(left, high)]
        cut.append(np.array(list(dict.fromkeys(corners))))
    return [corners for corners in cut if len(corners) > 2]

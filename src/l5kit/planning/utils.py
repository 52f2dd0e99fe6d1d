"""Boxes as polygons, under the names of L5Kit 1.5."""

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from l5kit._types import BoolArray, FloatArray
from l5kit.errors import MissingDependencyError, install_command
from l5kit.geometry import box

if TYPE_CHECKING:
    from shapely import LineString, Polygon

__all__ = ["within_range"]


def _get_bounding_box(centroid: FloatArray, yaw: float, extent: FloatArray) -> "Polygon":
    """Return a box as a polygon: front left, front right, rear right, rear left.

    Args:
        centroid: Its centre in metres, shape (2,).
        yaw: Its heading in radians.
        extent: Its length and width in metres, shape (>= 2,); further values are ignored.

    Raises:
        MissingDependencyError: Shapely is not installed.
    """
    polygon, _ = _shapely()
    return polygon(box.compute_box_outline(centroid, yaw, extent))


def _get_sides(bbox: "Polygon") -> "tuple[LineString, LineString, LineString, LineString]":
    """Return the front, rear, left and right side of a box of :func:`_get_bounding_box`.

    The front runs from left to right, the rear from right to left, left and right from front to rear.
    """
    _, line = _shapely()
    corners = list(bbox.exterior.coords)
    return tuple(line([corners[start], corners[end]]) for start, end in ((0, 1), (2, 3), (0, 3), (1, 2)))


def _shapely() -> "tuple[type[Polygon], type[LineString]]":
    try:
        from shapely import LineString, Polygon
    except ImportError as error:
        raise MissingDependencyError(
            f"boxes as polygons need Shapely, which the extra collision brings: {install_command('collision')}"
        ) from error
    return Polygon, LineString


def within_range(
    ego_centroid: ArrayLike, ego_extent: ArrayLike, agent_centroid: ArrayLike, agent_extent: ArrayLike
) -> BoolArray:
    """Return which agents are so near that they may touch the ego; see :func:`l5kit.geometry.box.within_range`.

    Args:
        ego_centroid: Position of the ego in metres, shape (2,), or one for each agent, shape (N, 2).
        ego_extent: Length and width of the ego in metres, shape (>= 2,) or (N, >= 2).
        agent_centroid: Positions of the agents in metres, shape (N, 2).
        agent_extent: Lengths and widths of the agents in metres, shape (N, >= 2).

    Returns:
        Shape (N,).
    """
    return box.within_range(ego_centroid, ego_extent, agent_centroid, agent_extent)

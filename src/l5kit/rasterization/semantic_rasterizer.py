"""Lanes, crosswalks and traffic lights of the semantic map."""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import cv2
import numpy as np

from l5kit._types import Float64Array, FloatArray, Int32Array, Int64Array, NumericArray, RecordArray, UInt8Array
from l5kit.data.filter import filter_tl_faces_by_status
from l5kit.data.map_api import MapAPI
from l5kit.geometry.transform import transform_points
from l5kit.rasterization.log_windows import LogWindows
from l5kit.rasterization.map_outlines import MapOutlines, ProjectedOutlines
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer, PlanePainter, to_uint8, write_planes
from l5kit.rasterization.render_context import RenderContext
from l5kit.rasterization.subpixel import CV2_SHIFT_VALUE, CV2_SUB_VALUES, cv2_subpixel


class RasterEls(IntEnum):
    """Kinds of elements that are drawn."""

    LANE_NOTL = 0
    ROAD = 1
    CROSSWALK = 2


COLORS = {
    "GREEN": (0, 255, 0),
    "RED": (255, 0, 0),
    "YELLOW": (255, 255, 0),
    RasterEls.CROSSWALK.name: (255, 117, 69),
    RasterEls.LANE_NOTL.name: (255, 217, 82),
    RasterEls.ROAD.name: (17, 17, 31),
}
"""Red, green and blue of each kind of element and of each state of the traffic light of a lane."""

INTERPOLATION_POINTS = 20
"""Points that a lane boundary is drawn with."""

_LANE_COLORS = (RasterEls.LANE_NOTL.name, "GREEN", "YELLOW", "RED")
"""Names of the colours of lane boundaries; of several active faces the one furthest back wins."""

_BACKGROUND = 255


def indices_in_bounds(center: FloatArray, bounds: Float64Array, half_extent: float) -> Int64Array:
    """Return which bounds are closer than ``half_extent`` to a point along both axes.

    Args:
        center: World x and y, shape (>= 2,).
        bounds: Lowest and highest x and y, shape (N, 2, 2).
        half_extent: Distance in metres; being exactly as far away is too far.

    Returns:
        Ascending, shape (M,).
    """
    above_low = bounds[:, 0] - half_extent < center[:2]
    below_high = center[:2] < bounds[:, 1] + half_extent
    return np.flatnonzero((above_low & below_high).all(axis=1))


class SemanticRasterizer(PlanarRasterizer):
    """Draws the semantic map around the agent of interest: lanes, their lights and crosswalks on white.

    Attributes:
        mapAPI: The map.
        world_to_ecef: ECEF from world metres, shape (4, 4).
    """

    def __init__(
        self,
        render_context: RenderContext,
        semantic_map_path: str,
        world_to_ecef: Float64Array,
        *,
        image_dtype: str = "float32",
    ) -> None:
        super().__init__(render_context, image_dtype=image_dtype)
        self.world_to_ecef = world_to_ecef
        self.mapAPI = MapAPI(semantic_map_path, world_to_ecef)
        self._stack_outlines()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the outlines out, which the receiving process can stack again from the map."""
        return {name: value for name, value in vars(self).items() if name not in ("_lanes", "_crosswalks")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._stack_outlines()

    def prepare(self, windows: LogWindows, raster_from_world: Float64Array) -> PlanePainter:
        """Return what draws the map around the middle of the raster with the lights of the newest frame.

        Args:
            windows: What to draw, B windows; without any frame of faces the lights are off.
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
        """
        centers_px = np.broadcast_to(0.5 * self.raster_size, (len(windows), 1, 2))
        centers_m = transform_points(centers_px, np.linalg.inv(raster_from_world))[:, 0]

        def paint(index: int, planes: UInt8Array) -> None:
            faces = windows.tl_faces.rows_of_frame(index, 0) if windows.tl_faces.starts.shape[1] else None
            picture = self.render_semantic_map(centers_m[index], raster_from_world[index], faces)
            write_planes(picture, planes)

        return paint

    def render_semantic_map(
        self, center_in_world: FloatArray, raster_from_world: Float64Array, tl_faces: RecordArray | None = None
    ) -> UInt8Array:
        """Return the map around a point as an RGB picture.

        Lanes are filled first, then come the boundaries of all lanes and the outlines of crosswalks.

        Args:
            center_in_world: World x and y of the middle of the picture, shape (2,).
            raster_from_world: Pixels from world metres, shape (3, 3).
            tl_faces: Faces of one frame, TL_FACE_DTYPE. The boundaries of a lane have the colour of its active face;
                of several, red comes before yellow before green. None for no faces.

        Returns:
            Shape (height, width, 3).
        """
        width, height = self.raster_size.tolist()
        picture = np.full((height, width, 3), _BACKGROUND, np.uint8)
        radius_m = 0.5 * float(np.linalg.norm(self.raster_size * self.pixel_size))
        lanes = self._lanes.project(center_in_world, radius_m, raster_from_world, (width, height))
        _fill_lanes(picture, lanes)
        for color, lines in self._group_lane_lines(lanes, tl_faces):
            cv2.polylines(picture, lines, False, COLORS[color], **CV2_SUB_VALUES)
        crosswalks = self._crosswalks.project(center_in_world, radius_m, raster_from_world, (width, height))
        cv2.polylines(picture, crosswalks.visible_lines(), True, COLORS[RasterEls.CROSSWALK.name], **CV2_SUB_VALUES)
        return picture

    def to_rgb(self, in_im: NumericArray, **kwargs: Any) -> UInt8Array:  # noqa: ARG002
        """Return a raster of this rasterizer, float32 or uint8, as the RGB bytes it was made of.

        Raises:
            InvalidArgumentError: ``in_im`` has another number of channels.
        """
        self._require_raster(in_im)
        return to_uint8(in_im)

    def num_channels(self) -> int:
        """Return 3."""
        return 3

    def _stack_outlines(self) -> None:
        lines, bounds = self.mapAPI.lane_lines(INTERPOLATION_POINTS), self.mapAPI.bounds_info
        self._lanes = MapOutlines.from_lane_lines(lines.xyz_left, lines.xyz_right, bounds["lanes"]["bounds"])
        self._crosswalks = MapOutlines.from_polygons(self.mapAPI.crosswalk_polygons, bounds["crosswalks"]["bounds"])

    def _group_lane_lines(
        self, lanes: ProjectedOutlines, tl_faces: RecordArray | None
    ) -> Iterator[tuple[str, list[Int32Array]]]:
        """Yield the lines that may touch the picture by colour, the colours in the order of the lanes."""
        lines = lanes.points.reshape(-1, INTERPOLATION_POINTS, 2)
        colors = self._rank_lane_colors(tl_faces)[lanes.rows]
        for color in dict.fromkeys(colors.tolist()):
            is_drawn = lanes.is_line_visible & np.repeat(colors == color, 2)
            yield _LANE_COLORS[color], list(lines[is_drawn])

    def _rank_lane_colors(self, tl_faces: RecordArray | None) -> Int64Array:
        """Return for every lane of the map which of :data:`_LANE_COLORS` its boundaries have."""
        ranks = np.zeros(len(self._lanes.bounds_m), np.int64)
        if tl_faces is None or len(tl_faces) == 0:
            return ranks
        for face_id in filter_tl_faces_by_status(tl_faces, "ACTIVE")["face_id"].tolist():
            color, rows = self.mapAPI.get_face_color_or_none(face_id), self.mapAPI.lanes_by_control.get(face_id)
            if color is not None and rows is not None:
                ranks[rows] = np.maximum(ranks[rows], _LANE_COLORS.index(color))
        return ranks


def _fill_lanes(picture: UInt8Array, lanes: ProjectedOutlines) -> None:
    """Fill each lane by a call of its own, since one call for all would leave holes where lanes overlap."""
    polygons, color = lanes.points.reshape(-1, 2 * INTERPOLATION_POINTS, 2), COLORS[RasterEls.ROAD.name]
    for polygon in polygons[lanes.is_visible]:
        cv2.fillPoly(picture, [polygon], color, **CV2_SUB_VALUES)


__all__ = [
    "COLORS",
    "CV2_SHIFT_VALUE",
    "CV2_SUB_VALUES",
    "INTERPOLATION_POINTS",
    "RasterEls",
    "SemanticRasterizer",
    "cv2_subpixel",
    "indices_in_bounds",
]

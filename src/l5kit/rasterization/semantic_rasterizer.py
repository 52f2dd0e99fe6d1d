"""Semantic rasterizer: lanes, crosswalks and traffic lights of the map."""

from enum import IntEnum
from typing import Final

import numpy as np

from l5kit._overriding import overrides
from l5kit._types import Float64Array, FloatArray, Int64Array, NumericArray, RecordArray, UInt8Array
from l5kit.data.map.api import MapAPI
from l5kit.data.map.bounds_grid import BoundsGrid
from l5kit.data.map.lane_lights import LIGHT_COLORS, LaneLights
from l5kit.data.records import TL_FACE_DTYPE
from l5kit.data.window_rows import WindowRows
from l5kit.data.windows import Targets, Windows
from l5kit.geometry.transform import transform_points
from l5kit.rasterization.draw_list import PictureList, ShapeList
from l5kit.rasterization.map_outlines import ActiveFaces, MapOutlines, NearElements
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer, to_uint8, write_planes
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

COLOR_TABLE: Final[UInt8Array] = np.array(
    [COLORS[name] for name in (RasterEls.LANE_NOTL.name, *LIGHT_COLORS, RasterEls.ROAD.name, RasterEls.CROSSWALK.name)],
    np.uint8,
)
"""The colours of the map, (colours, 3), numbered as in :mod:`.map_outlines`."""


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

    def __getstate__(self) -> dict[str, object]:
        """Leave the outlines out, which the receiving process can stack again from the map."""
        return {name: value for name, value in vars(self).items() if name not in ("_grid", "_outlines", "_lights")}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._stack_outlines()

    def prepare(
        self,
        windows: Windows,
        targets: Targets,  # noqa: ARG002
        raster_from_world: Float64Array,
    ) -> ShapeList | PictureList:
        """Return the map around the middle of the raster with the lights of the newest frame.

        A :meth:`render_semantic_map` of a subclass is used; it makes pictures of its own.

        Args:
            windows: What to draw, the history of B windows; without any frame of faces the lights are off.
            targets: The agents of interest, (B,).
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
        """
        centers_px = np.full((len(windows), 1, 2), 0.5 * self.raster_size)
        centers_m = transform_points(centers_px, np.linalg.inv(raster_from_world))[:, 0]
        if not overrides(self, "render_semantic_map", base=SemanticRasterizer):
            return self._list_map(centers_m, raster_from_world, windows.tl_faces)
        pictures = np.empty(self.images_shape(len(windows)), np.uint8)
        for index, planes in enumerate(pictures):
            faces = windows.tl_faces.rows_of_frame(index, 0) if windows.tl_faces.num_frames else None
            write_planes(self.render_semantic_map(centers_m[index], raster_from_world[index], faces), planes)
        return PictureList(pictures)

    def render_semantic_map(
        self, center_in_world: FloatArray, raster_from_world: Float64Array, tl_faces: RecordArray | None = None
    ) -> UInt8Array:
        """Return the map around a point as an RGB picture.

        Lanes are filled first, then come the boundaries of all lanes and the outlines of crosswalks.

        Args:
            center_in_world: World x and y of the middle of the picture, shape (>= 2,).
            raster_from_world: Pixels from world metres, shape (3, 3).
            tl_faces: Faces of one frame, TL_FACE_DTYPE. The boundaries of a lane have the colour of its active face;
                of several, red comes before yellow before green. None for no faces.

        Returns:
            Shape (height, width, 3).
        """
        width, height = self.raster_size.tolist()
        planes = np.empty((3, height, width), np.uint8)
        centers_m = np.array(center_in_world, dtype=np.float64)[None, :2]
        matrices = np.array(raster_from_world, dtype=np.float64)[None]
        faces = WindowRows.from_frames([] if tl_faces is None else [tl_faces], np.dtype(TL_FACE_DTYPE))
        self.painter.paint(self._list_map(centers_m, matrices, faces), 0, planes)
        return np.ascontiguousarray(planes.transpose(1, 2, 0))

    def to_rgb(self, in_im: NumericArray, **kwargs: object) -> UInt8Array:  # noqa: ARG002
        """Return a raster of this rasterizer, float32 or uint8, as the RGB bytes it was made of.

        Raises:
            InvalidArgumentError: ``in_im`` has another number of channels.
        """
        self._require_raster(in_im)
        return to_uint8(in_im)

    def num_channels(self) -> int:
        """Return 3."""
        return 3

    @property
    def outlines(self) -> MapOutlines:
        """Outlines of the lanes and crosswalks of the map."""
        return self._outlines

    @property
    def grid(self) -> BoundsGrid:
        """Finds what of the map may be in a picture."""
        return self._grid

    @property
    def lights(self) -> LaneLights:
        """The faces that colour lanes."""
        return self._lights

    def _stack_outlines(self) -> None:
        arrays = self.mapAPI.arrays
        self._grid = arrays.grid(0.5 * float(np.linalg.norm(self.raster_size * self.pixel_size)))
        self._outlines = MapOutlines.of_map(arrays, INTERPOLATION_POINTS)
        self._lights = arrays.lights

    def _list_map(self, centers_m: Float64Array, raster_from_world: Float64Array, tl_faces: WindowRows) -> ShapeList:
        """Return the map around world positions (B, 2) with the lights of the newest frames."""
        width, height = self.raster_size.tolist()
        return self._outlines.list_shapes(
            NearElements(*self._grid.find_near(centers_m)),
            raster_from_world,
            (width, height),
            lights=self._lights,
            active=ActiveFaces(*self._lights.find_active(tl_faces)),
            colors=COLOR_TABLE,
        )


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

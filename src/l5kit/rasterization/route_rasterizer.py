"""Route rasterizer: an additional channel with the lanes of the AV's route, after those of another rasterizer."""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int32Array, Int64Array, NumericArray, UInt8Array
from l5kit.configs.parameters import RouteParams
from l5kit.data.index.windows import Targets, Windows
from l5kit.data.map.api import MapAPI
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.relative_pose import transform_xy
from l5kit.lanes.lane_paths import PATH_STEP_M, index_along
from l5kit.lanes.path_positions import line_at
from l5kit.lanes.route_map import RouteMap, build_route_map
from l5kit.lanes.routes import RouteArrays, RoutedWindows, WindowRoutes, find_on_route
from l5kit.rasterization.draw_list import FILLED, BlankList, ShapeList, StackedList
from l5kit.rasterization.planar_rasterizer import PlanarRasterizer
from l5kit.rasterization.subpixel import subpixel_of, touches_picture

_ROUTE_COLORS = np.full((1, 1), 255, np.uint8)
_TINT, _TINT_PART = np.array([144.0, 238.0, 144.0]), 0.4
_CORNERS = 4


class _Views(NamedTuple):
    """Geometry of B rasters for drawing routes.

    Attributes:
        poses: World x, y and yaw of the AVs, (B, 3).
        raster_from_world: Pixels from world metres, (B, 3, 3).
        raster_size: Width and height in pixels.
        reach_m: Distance ahead of the AVs up to which lanes are drawn.
    """

    poses: Float64Array
    raster_from_world: Float64Array
    raster_size: tuple[int, int]
    reach_m: float


class RouteRasterizer(PlanarRasterizer):
    """Rasterizer with an additional last channel: the lanes ahead along the route of the AV, filled on black.

    It shows the area between the left and the right edge of the lanes of the route, from the AV on. It is black if no
    route is known: for agents of interest other than the AV, for windows that are not
    :class:`~l5kit.lanes.routes.RoutedWindows` (which :meth:`rasterize` draws), and more than 30 m from the route.

    Args:
        base: Draws the other channels, in batches of windows.
        map_api: The map with the lanes.
        reach_m: Distance ahead up to which lanes are drawn.

    Raises:
        InvalidArgumentError: ``base`` only draws single windows, or ``reach_m`` is not positive.

    Attributes:
        base: Draws the other channels, in batches of windows.
        mapAPI: The map.
        reach_m: Distance ahead up to which lanes are drawn.
    """

    def __init__(self, base: PlanarRasterizer, map_api: MapAPI, *, reach_m: float = RouteParams.reach_m) -> None:
        if not base.draws_windows:
            raise InvalidArgumentError(
                f"base is {base!r}, which overrides rasterize() or rasterize_planar() and draws single windows, which "
                "have no route; define prepare() instead"
            )
        if not 0 < reach_m < np.inf:
            raise InvalidArgumentError(f"reach_m is {reach_m}; pass a finite number of metres greater than 0")
        super().__init__(base.render_context, image_dtype=base.image_dtype)
        self.base = base
        self.mapAPI = map_api
        self.reach_m = reach_m

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the lanes, which the receiving process can rebuild from the map."""
        return {name: value for name, value in vars(self).items() if name != "route_map"}

    @cached_property
    def route_map(self) -> RouteMap:
        """The lanes of routes."""
        return build_route_map(self.mapAPI)

    def num_channels(self) -> int:
        """Return the channels of the other rasterizer and one more."""
        return self.base.num_channels() + 1

    def prepare(self, windows: Windows, targets: Targets, raster_from_world: Float64Array) -> StackedList:
        """Return the draw list of the other rasterizer and, for the last channel, the lanes of the routes.

        Args:
            windows: The history of B windows.
            targets: The agents of interest, (B,).
            raster_from_world: Pixels from world metres for each window, shape (B, 3, 3).
        """
        below = self.base.prepare(windows, targets, raster_from_world)
        if not isinstance(windows, RoutedWindows) or targets.track_ids is not None:
            return StackedList((below, BlankList(len(windows), (1, *below.planes_shape[1:]))))

        # a quadrilateral for each step of a route, as a single contour would leave holes where a route crosses itself
        width, height = self.raster_size.tolist()
        most_shapes = len(windows) * (int(self.reach_m / PATH_STEP_M) + 2)
        points = np.empty((_CORNERS * most_shapes, 2), np.int32)
        poses = np.column_stack([targets.centroids_m, targets.yaws_rad]).astype(np.float64, copy=False)
        views = _Views(poses, raster_from_world, (width, height), float(self.reach_m))
        starts = _write_lanes(points, windows.routes, views)

        # each shape is one contour of four corners
        steps = np.arange(starts[-1])
        shapes = np.zeros((len(steps), 5), np.int64)
        shapes[:, 0], shapes[:, 1], shapes[:, 2] = FILLED, steps, steps + 1
        lanes = ShapeList(
            points=points[: _CORNERS * len(steps)],
            contours=_CORNERS * shapes[:, 1:3],
            shapes=shapes,
            starts=starts,
            colors=_ROUTE_COLORS,
            planes_shape=(1, height, width),
            known_most_points=_CORNERS,
        )
        return StackedList((below, lanes))

    def to_rgb(self, in_im: NumericArray, **kwargs: object) -> UInt8Array:
        """Return the image of the other rasterizer with the lanes of the route tinted green.

        Args:
            in_im: A raster of this rasterizer, shape (height, width, channels), float32 or uint8.
            **kwargs: Options of the other rasterizer; unknown ones are ignored.

        Returns:
            RGB, shape (height, width, 3).

        Raises:
            InvalidArgumentError: ``in_im`` has a different number of channels.
        """
        self._require_raster(in_im)
        picture = self.base.to_rgb(in_im[..., :-1], **kwargs)
        covered = in_im[..., -1:] / (255.0 if in_im.dtype == np.uint8 else 1.0)
        tinted = picture + _TINT_PART * covered * (_TINT - picture)
        return np.where(covered > 0, np.rint(tinted), picture).astype(np.uint8)


@kernel_jit
def _write_lanes(points: Int32Array, routes: WindowRoutes, views: _Views) -> Int64Array:
    """Write the corners of the steps of routes that may touch the rasters.

    Args:
        points: Receives columns and rows in 512ths of a pixel, four for a step, (P, 2).
        routes: The routes of the windows.
        views: Views of the rasters.

    Returns:
        The first step of each window and the end of the last one, (B + 1,).
    """
    starts, step = np.zeros(len(routes.rows) + 1, np.int64), 0
    for window in range(len(routes.rows)):
        route, matrix = routes.rows[window], views.raster_from_world[window]
        is_there, position = find_on_route(routes, window, views.poses[window])
        if is_there:
            here_m, end_m = position.arc_m, min(position.arc_m + views.reach_m, routes.arrays.lengths_m[route])
            before = _edges_at(routes.arrays, route, here_m, matrix)
            while here_m < end_m:
                # steps end at the points of the route, the only places where edges bend
                here_m = min((math.floor(here_m / PATH_STEP_M) + 1) * PATH_STEP_M, end_m)
                after = _edges_at(routes.arrays, route, here_m, matrix)
                column_low = row_low = np.inf
                column_high = row_high = -np.inf
                for corner, (column, row) in enumerate((before[0], after[0], after[1], before[1])):
                    points[_CORNERS * step + corner, 0] = subpixel_of(column)
                    points[_CORNERS * step + corner, 1] = subpixel_of(row)
                    column_low, column_high = min(column_low, column), max(column_high, column)
                    row_low, row_high = min(row_low, row), max(row_high, row)
                if touches_picture(column_low, row_low, column_high, row_high, views.raster_size):
                    step += 1
                before = after
        starts[window + 1] = step
    return starts


@kernel_jit
def _edges_at(
    routes: RouteArrays, route: int, arc_m: float, raster_from_world: Float64Array
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return column and row of the left and of the right edge of the lane at an arc length of a route."""
    first, stop = routes.starts[route], routes.starts[route + 1]
    x, y, along_x, along_y = line_at(routes.points_m[first:stop], arc_m)
    widths_m = routes.widths_m[first + index_along(arc_m + 0.5 * PATH_STEP_M, stop - first - 1)]
    left = transform_xy(raster_from_world, x - widths_m[0] * along_y, y + widths_m[0] * along_x)
    right = transform_xy(raster_from_world, x + widths_m[1] * along_y, y - widths_m[1] * along_x)
    return left, right

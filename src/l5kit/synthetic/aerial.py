"""Aerial picture of a synthetic town."""

from dataclasses import dataclass

import cv2
import numpy as np
from scipy.spatial import cKDTree

from l5kit._types import Float64Array, UInt8Array
from l5kit.synthetic.road_network import RoadNetwork, kerb_point, line_yaws, offset_line
from l5kit.synthetic.town_plan import (
    BIKE_STRIP_WIDTH_M,
    LANE_WIDTH_M,
    TownPlan,
    line_lengths,
    sample_bezier,
    unit_along,
    unit_left,
)
from l5kit.synthetic.walkways import PARKING_WIDTH_M, SIDEWALK_WIDTH_M

MARGIN_M = 150.0
"""Ground shown beyond the outermost road point, enough for a 112 m raster of any heading and its rotated crop."""

ASPHALT_BGR = (78, 76, 74)
_SIDEWALK_BGR, _WHITE_BGR, _YELLOW_BGR = (150, 156, 158), (225, 225, 225), (90, 190, 215)
_GRASS_BGR, _TREE_BGR, _ROOFS_BGR = (70, 104, 84), (48, 80, 58), ((92, 98, 140), (120, 122, 128), (104, 112, 120))
_SUBPIXEL_BITS = 4


@dataclass(frozen=True)
class Canvas:
    """A picture of the ground; row 0 is the north edge, column 0 the west edge."""

    image: UInt8Array
    north_m: float
    west_m: float
    resolution_m: float

    @property
    def aerial_from_world(self) -> Float64Array:
        """Matrix (4, 4) from world coordinates to (row, column, 0); the height has no effect."""
        scale = 1.0 / self.resolution_m
        matrix = np.zeros((4, 4))
        matrix[0, 1], matrix[0, 3] = -scale, self.north_m * scale
        matrix[1, 0], matrix[1, 3] = scale, -self.west_m * scale
        matrix[3, 3] = 1.0
        return matrix

    def fill(self, polygon_m: Float64Array, color_bgr: tuple[int, int, int]) -> None:
        """Fill a polygon in world coordinates, (n, 2), with smooth edges."""
        column_row = np.stack([polygon_m[:, 0] - self.west_m, self.north_m - polygon_m[:, 1]], axis=1)
        points = np.rint(column_row / self.resolution_m * 2**_SUBPIXEL_BITS).astype(np.int32)
        cv2.fillPoly(self.image, [points], color_bgr, cv2.LINE_AA, _SUBPIXEL_BITS)

    def strip(self, line_m: Float64Array, edges_m: tuple[float, float], color_bgr: tuple[int, int, int]) -> None:
        """Fill the strip between two lateral offsets, positive to the left of a line."""
        polygon = np.concatenate([offset_line(line_m, edges_m[0]), offset_line(line_m, edges_m[1])[::-1]])
        self.fill(polygon, color_bgr)


def draw_aerial(plan: TownPlan, network: RoadNetwork, *, resolution_m: float, rng: np.random.Generator) -> Canvas:
    """Draw a town from above in BGR: ground, buildings, trees, sidewalks, roads, markings and crosswalks."""
    # ground: grass with coarse and fine noise, clipped to bytes after each
    points = np.concatenate([road.centre_m for road in plan.roads])
    low, high = points.min(axis=0) - MARGIN_M, points.max(axis=0) + MARGIN_M
    columns, rows = np.ceil((high - low) / resolution_m).astype(int)
    image = np.empty((rows, columns, 3), np.uint8)
    image[:] = _GRASS_BGR
    for cell_m, strength in ((24.0, 9.0), (4.0, 5.0)):
        coarse = (int(np.ceil(rows * resolution_m / cell_m)), int(np.ceil(columns * resolution_m / cell_m)))
        noise = cv2.resize(rng.normal(0.0, strength, coarse), (columns, rows), interpolation=cv2.INTER_LINEAR)
        image = np.clip(image + noise[..., None], 0, 255).astype(np.uint8)
    canvas = Canvas(image, float(high[1]), float(low[0]), resolution_m)
    _draw_blocks(canvas, plan, rng)
    # sidewalks of all roads and intersections first, since the asphalt of one road covers sidewalks of another
    for road in plan.roads:
        reach_m = road.half_width_m + PARKING_WIDTH_M + SIDEWALK_WIDTH_M
        canvas.strip(road.centre_m, (-reach_m, reach_m), _SIDEWALK_BGR)
    for node in range(len(plan.position_m)):
        canvas.fill(_intersection(plan, node, PARKING_WIDTH_M + SIDEWALK_WIDTH_M), _SIDEWALK_BGR)
    for road in plan.roads:
        canvas.strip(road.centre_m, (-road.half_width_m, road.half_width_m), ASPHALT_BGR)
        # parking strips along both sides of a road, but not near its ends
        line = road.centre_m[11:-11]
        for side in (-1, 1):
            edges_m = (side * road.half_width_m, side * (road.half_width_m + PARKING_WIDTH_M))
            canvas.strip(line, edges_m, _shaded(ASPHALT_BGR, 1.2))
    for node in range(len(plan.position_m)):
        canvas.fill(_intersection(plan, node, 0.0), ASPHALT_BGR)
    # yellow centre lines, dashes between lanes, edges of the bike strips, and stop lines at both ends
    for road in plan.roads:
        lanes_m = road.num_lanes * LANE_WIDTH_M
        for offset_m in (-0.25, 0.25):
            canvas.strip(road.centre_m, (offset_m - 0.08, offset_m + 0.08), _YELLOW_BGR)
        for side in (-1, 1):
            canvas.strip(road.centre_m, (side * lanes_m - 0.08, side * lanes_m + 0.08), _WHITE_BGR)
            for rank in range(1, road.num_lanes):
                edge_m = side * rank * LANE_WIDTH_M
                for first in range(2, len(road.centre_m) - 4, 9):
                    canvas.strip(road.centre_m[first : first + 4], (edge_m - 0.08, edge_m + 0.08), _WHITE_BGR)
        reach_m = lanes_m + BIKE_STRIP_WIDTH_M
        canvas.strip(road.centre_m[-2:], (-reach_m, 0.0), _WHITE_BGR)
        canvas.strip(road.centre_m[:2], (0.0, reach_m), _WHITE_BGR)
    for corners_m in network.crosswalks.corners_m:
        # bars of a crosswalk, parallel to the path of vehicles; OpenCV widens them by half a pixel
        length_m = float(line_lengths(corners_m[:2])[-1])
        for start_m in np.arange(0.5, length_m - 0.5, 1.8):
            low, high = start_m / length_m, (start_m + 0.5) / length_m
            near = corners_m[0] + np.array([[low], [high]]) * (corners_m[1] - corners_m[0])
            far = corners_m[3] + np.array([[high], [low]]) * (corners_m[2] - corners_m[3])
            canvas.fill(np.concatenate([near, far]), _WHITE_BGR)
    return canvas


def _draw_blocks(canvas: Canvas, plan: TownPlan, rng: np.random.Generator) -> None:
    """Draw houses, aligned with the nearest road, and trees, both at a distance from roads and sidewalks."""
    points = np.concatenate([road.centre_m for road in plan.roads])
    yaws = np.concatenate([line_yaws(road.centre_m) for road in plan.roads])
    tree = cKDTree(points)
    low, high = points.min(axis=0) - MARGIN_M, points.max(axis=0) + MARGIN_M
    # one spot per 450 m^2; trees first, so that houses, which are farther from the roads, cover them
    count = int(np.prod(high - low) / 450.0)
    positions_m = rng.uniform(low, high, (count, 2))
    apart_m, nearest = tree.query(positions_m)
    for i in np.nonzero(apart_m > 17.5)[0]:
        around = np.linspace(0.0, 2 * np.pi, 12, endpoint=False)
        radius_m = rng.uniform(1.5, 3.5) * rng.uniform(0.85, 1.15, 12)
        outline = positions_m[i] + radius_m[:, None] * unit_along(around)
        shade = float(rng.uniform(0.8, 1.25))
        canvas.fill(outline, _shaded(_TREE_BGR, shade))
    for i in np.nonzero(apart_m > 34.0)[0]:
        if rng.random() < 0.4 and apart_m[i] < 75.0:
            # a house is parallel to its road: two halves of a roof, one of them in the shade
            center_m = positions_m[i]
            yaw_rad = yaws[nearest[i]]
            length_m, width_m = rng.uniform(9.0, 24.0), rng.uniform(8.0, 14.0)
            along, across = unit_along(yaw_rad), unit_left(yaw_rad)
            color = _ROOFS_BGR[int(rng.integers(len(_ROOFS_BGR)))]
            for side, factor in ((1, 1.15), (-1, 0.85)):
                edge = side * across * width_m / 2
                half = along * length_m / 2
                canvas.fill(center_m + np.stack([-half, half, half + edge, edge - half]), _shaded(color, factor))


def _shaded(color_bgr: tuple[int, int, int], factor: float) -> tuple[int, int, int]:
    blue, green, red = (int(min(255, value * factor)) for value in color_bgr)
    return blue, green, red


def _intersection(plan: TownPlan, node: int, extra_m: float) -> Float64Array:
    """Return the outline of an intersection, widened by ``extra_m``, (n, 2)."""
    pieces = []
    arms = plan.arms_of(node)
    for arm, other in zip(arms, [*arms[1:], arms[0]], strict=True):
        # from the left kerb of an arm to the right kerb of the next, one metre outside their stop lines
        start = kerb_point(plan, node, arm, 1, distance_m=-1.0, beyond_m=extra_m)
        end = kerb_point(plan, node, other, -1, distance_m=-1.0, beyond_m=extra_m)
        start_yaw, end_yaw = plan.arm_yaw_rad[node, arm], plan.arm_yaw_rad[node, other]
        handle_m = 0.45 * np.hypot(*(end - start))
        inward = start - handle_m * unit_along(start_yaw)
        back = end - handle_m * unit_along(end_yaw)
        pieces.append(sample_bezier(np.stack([start, inward, back, end]), spacing_m=1.0))
    return np.concatenate(pieces)

"""What stands still beside the roads: parking bays and the clutter that a perception system calls unknown."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from l5kit._types import Float64Array
from l5kit.synthetic.road_network import line_yaws, offset_line
from l5kit.synthetic.town_plan import Road, TownPlan, line_lengths
from l5kit.synthetic.walkways import PARKING_WIDTH_M, SIDEWALK_WIDTH_M

_BAY_LENGTH_M = 6.4
_BAY_END_M = 14.0
_CLUTTER_PER_M = 0.34
_CLUTTER_DEPTH_M = 12.0
_ROADS_WITH_PARKING = 0.75


@dataclass(frozen=True)
class StreetObjects:
    """Things beside the roads of a town.

    Args:
        bays: x, y, yaw of parking bays, (B, 3).
        clutter: x, y, yaw, length, width of clutter, no two overlapping, (K, 5).
        clutter_height_m: heights, (K,).
    """

    bays: Float64Array
    clutter: Float64Array
    clutter_height_m: Float64Array


def lay_out_street_objects(plan: TownPlan, rng: np.random.Generator) -> StreetObjects:
    """Lay out parking bays along most roads, and clutter behind the sidewalks."""
    # bays along both sides of a road, in which cars face the way that the traffic goes there
    bays = [np.zeros((0, 3))]
    for road in plan.roads:
        if rng.random() >= _ROADS_WITH_PARKING:
            continue
        for side in (-1, 1):
            line = offset_line(road.centre_m, side * (road.half_width_m + PARKING_WIDTH_M / 2))
            s, yaw = line_lengths(line), line_yaws(line) + (np.pi if side > 0 else 0.0)
            at = np.arange(_BAY_END_M, s[-1] - _BAY_END_M, _BAY_LENGTH_M)
            bays.append(np.stack([np.interp(at, s, values) for values in (line[:, 0], line[:, 1], yaw)], axis=1))

    # poles, bins, bushes and hedges behind the sidewalks: fewer farther away, of log-normal sizes, some of them long;
    # each lies as far out as half its diagonal needs
    pieces = []
    for road, side in ((road, side) for road in plan.roads for side in (-1, 1)):
        count = int(_CLUTTER_PER_M * len(road.centre_m))
        index = rng.integers(0, len(road.centre_m), count)
        yaw = line_yaws(road.centre_m)[index]
        depth_m = _edge_m(road) + 0.6 + _CLUTTER_DEPTH_M * rng.random(count) ** 1.5
        size = np.exp(rng.normal(-0.25, 0.55, (count, 2))).clip(0.25, 4.0)
        size[:, 0] *= np.where(rng.random(count) < 0.15, 2.5, 1.0)
        depth_m = depth_m + np.hypot(size[:, 0], size[:, 1]) / 2
        normal = np.stack([-np.sin(yaw), np.cos(yaw)], axis=1)
        positions_m = road.centre_m[index] + side * depth_m[:, None] * normal
        pieces.append(np.concatenate([positions_m, (yaw + rng.normal(0, 0.3, count))[:, None], size], axis=1))
    clutter = np.concatenate(pieces)

    # clutter stays that touches neither a road, a sidewalk nor an intersection; all roads of a kind are equally wide
    radius_m = np.hypot(clutter[:, 3], clutter[:, 4]) / 2
    free = np.ones(len(clutter), bool)
    for is_arterial in (False, True):
        roads = [road for road in plan.roads if road.is_arterial == is_arterial]
        if roads:
            tree = cKDTree(np.concatenate([road.centre_m for road in roads]))
            free &= tree.query(clutter[:, :2])[0] > _edge_m(roads[0]) + 0.3 + radius_m
    distance_m, node = cKDTree(plan.position_m).query(clutter[:, :2])
    clutter = clutter[free & (distance_m > plan.setback_m[node] + 5.0 + radius_m)]
    clutter = clutter[_without_overlaps(clutter)]
    return StreetObjects(np.concatenate(bays), clutter, rng.uniform(0.5, 2.5, len(clutter)))


def parked_cars(bays: Float64Array, *, share: float, rng: np.random.Generator) -> tuple[Float64Array, Float64Array]:
    """Fill a share of the bays with cars: boxes (x, y, yaw, length, width), (n, 5), and heights, (n,)."""
    chosen = bays[rng.random(len(bays)) < share]
    size = np.stack([rng.uniform(3.9, 5.2, len(chosen)), rng.uniform(1.72, 2.02, len(chosen))], axis=1)
    chosen = chosen + np.stack(
        [rng.normal(0, 0.1, len(chosen)), rng.normal(0, 0.1, len(chosen)), rng.normal(0, 0.015, len(chosen))], axis=1
    ).clip(-0.2, 0.2)
    return np.concatenate([chosen, size], axis=1), rng.uniform(1.4, 1.9, len(chosen))


def _edge_m(road: Road) -> float:
    """Return the distance from the centre line of a road to the outer edge of its sidewalk, metres."""
    return road.half_width_m + PARKING_WIDTH_M + SIDEWALK_WIDTH_M


def _without_overlaps(boxes: Float64Array) -> list[int]:
    """Return the boxes that keep clear of all kept earlier ones."""
    radius_m = np.hypot(boxes[:, 3], boxes[:, 4]) / 2
    pairs = cKDTree(boxes[:, :2]).query_pairs(2 * float(radius_m.max(initial=0.0)) + 0.1, output_type="ndarray")
    apart_m = np.hypot(*(boxes[pairs[:, 0], :2] - boxes[pairs[:, 1], :2]).T)
    close = pairs[apart_m < radius_m[pairs].sum(axis=1) + 0.05]
    dropped: set[int] = set()
    for first, second in sorted((int(i), int(j)) for i, j in np.sort(close, axis=1)):
        if first not in dropped:
            dropped.add(second)
    return [i for i in range(len(boxes)) if i not in dropped]

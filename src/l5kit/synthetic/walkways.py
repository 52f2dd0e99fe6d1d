"""Roadsides: sidewalks, paths of pedestrians, parking bays, and clutter of unknown class."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from l5kit._types import Float64Array
from l5kit.synthetic.pedestrians import MAX_CROSSINGS, PATH_SPACING_M, PEDESTRIAN_DTYPE, Pedestrians
from l5kit.synthetic.road_network import RoadNetwork, kerb_point, line_yaws, offset_line
from l5kit.synthetic.town_plan import NUM_ARMS, Road, TownPlan, interpolated, line_lengths, unit_left

PARKING_WIDTH_M = 2.5
SIDEWALK_WIDTH_M = 3.0
_KERB_MARGIN_M = 1.2
_CROSSWALK_MIDDLE_M = 2.5
_PATH_LENGTH_M = 100.0
_PATH_POINTS = int(_PATH_LENGTH_M / PATH_SPACING_M) + 1
_MIN_START_M = 14.0
_SIDES = (-1, 1)
_REACH_M = 240.0
_APART_M = 1.2
_PASS_M = 1.7
_BAY_LENGTH_M = 6.4
_BAY_END_M = 14.0
_CLUTTER_PER_M = 0.34
_CLUTTER_DEPTH_M = 12.0
_ROADS_WITH_PARKING = 0.75

_Corner = tuple[int, int, int]
"""Intersection, arm and side of the arm: -1 right, 1 left, seen from the intersection."""


class _Crossing(NamedTuple):
    """A crosswalk on a path: start and end kerb, its index, and whether it is walked from its first end."""

    here_m: Float64Array
    there_m: Float64Array
    crosswalk: int
    is_forward: bool


@dataclass(frozen=True)
class WalkingPath:
    """A path of a pedestrian.

    Args:
        path_m: Points at 0.5 m, (n, 2).
        crossings: Start and end along the path, metres, the crosswalk, and whether it is walked from its first end.
    """

    path_m: Float64Array
    crossings: tuple[tuple[float, float, int, bool], ...]


def make_walking_paths(plan: TownPlan, net: RoadNetwork, *, count: int, rng: np.random.Generator) -> list[WalkingPath]:
    """Generate random paths that start on a sidewalk and continue around corners and over crosswalks."""
    # centre lines of the sidewalks, right and left of each road in turn, (n, 2) each
    sidewalks = []
    for road in plan.roads:
        reach_m = road.half_width_m + PARKING_WIDTH_M + SIDEWALK_WIDTH_M / 2
        sidewalks += [offset_line(road.centre_m, side * reach_m) for side in _SIDES]
    paths: list[WalkingPath] = []
    while len(paths) < count:
        path = _random_path(plan, net, sidewalks, rng)
        if path is not None:
            paths.append(path)
    return paths


def _corner_point(plan: TownPlan, corner: _Corner) -> Float64Array:
    node, arm, side = corner
    return kerb_point(plan, node, arm, side, distance_m=_CROSSWALK_MIDDLE_M, beyond_m=_KERB_MARGIN_M)


def _sidewalk_from(plan: TownPlan, sidewalks: list[Float64Array], corner: _Corner) -> tuple[Float64Array, _Corner]:
    """Return the sidewalk that starts at a corner, and the corner at its other end."""
    node, arm, side = corner
    index = int(plan.arm_road[node, arm])
    road = plan.roads[index]
    starts_here = road.start == (node, arm)
    line = sidewalks[2 * index + (0 if (side < 0) == starts_here else 1)]
    if starts_here:
        return line, (*road.end, -side)
    return line[::-1], (*road.start, -side)


def _random_path(
    plan: TownPlan, net: RoadNetwork, sidewalks: list[Float64Array], rng: np.random.Generator
) -> WalkingPath | None:
    arms = np.argwhere(plan.arm_road >= 0)
    node, arm = arms[rng.integers(len(arms))]
    line, corner = _sidewalk_from(plan, sidewalks, (int(node), int(arm), int(rng.choice(_SIDES))))
    first = len(line) - 6 - int(rng.uniform(_MIN_START_M, len(line) - 15))
    pieces = [line[max(first, 4) : -5]]
    crossed: list[_Crossing] = []
    # At each corner, cross the road, leave along the sidewalk, or go around the corner without crossing. Never cross
    # twice in a row, or return along the same sidewalk.
    may_cross, may_leave = True, False
    while sum(line_lengths(piece)[-1] for piece in pieces if len(piece) > 1) < 1.3 * _PATH_LENGTH_M:
        here = _corner_point(plan, corner)
        crosswalk = int(net.arm_crosswalk[corner[0], corner[1]])
        # the next corner without crossing a road; None if the roads leave too wide an angle
        node, arm, side = corner
        others = [(arm + side * steps) % NUM_ARMS for steps in range(1, 3)]
        around = next(((node, other, -side) for other in others if plan.arm_road[node, other] >= 0), None)
        if may_cross and crosswalk >= 0 and len(crossed) < MAX_CROSSINGS - 1 and rng.random() < 0.6:
            corner = (corner[0], corner[1], -corner[2])
            there = _corner_point(plan, corner)
            crossed.append(_Crossing(here, there, crosswalk, corner[2] > 0))
            pieces += [here[None], there[None]]
            may_cross, may_leave = False, True
        elif may_leave and (around is None or rng.random() < 0.5):
            line, corner = _sidewalk_from(plan, sidewalks, corner)
            pieces += [here[None], line[5:-5]]
            may_cross, may_leave = True, False
        elif around is not None:
            pieces += [here[None], _corner_point(plan, around)[None]]
            corner, may_cross, may_leave = around, True, True
        else:
            return None
    return _finish_path(np.concatenate(pieces), crossed, rng.uniform(0.35, 0.9))


def _resample(line_m: Float64Array) -> Float64Array:
    s = line_lengths(line_m)
    wanted = np.arange(0.0, s[-1], PATH_SPACING_M)
    return interpolated(wanted, s, *line_m.T)


def _finish_path(corners_m: Float64Array, crossed: list[_Crossing], offset_m: float) -> WalkingPath:
    """Round the corners, keep to the right, and find the crossings on the finished path."""
    # a moving average over five points, 2 m, rounds the corners; repeating the ends keeps them in place
    path = _resample(corners_m)
    window = np.ones(5) / 5
    padded = np.concatenate([path[:1], path[:1], path, path[-1:], path[-1:]])
    smooth = np.stack([np.convolve(padded[:, axis], window, mode="valid") for axis in (0, 1)], axis=1)
    path = _resample(offset_line(smooth, -offset_m))[:_PATH_POINTS]
    # The path has moved and may be cut: a crossing counts if the path passes both kerbs in order. A path that would end
    # on a crosswalk is cut before it.
    crossings: list[tuple[float, float, int, bool]] = []
    after = 0
    for here, there, crosswalk, forward in crossed:
        first = _first_pass(path, after, here)
        if first is None:
            break
        last = _first_pass(path, first, there)
        if last is None:
            path = path[: max(first - 2, after + 2)]
            break
        crossings.append((first * PATH_SPACING_M, last * PATH_SPACING_M, crosswalk, forward))
        after = last
    return WalkingPath(path, tuple(crossings))


def _first_pass(path_m: Float64Array, after: int, point_m: Float64Array) -> int | None:
    """Return the index at which a path, from ``after`` on, first comes closest to a point; None if it stays away."""
    apart_m = np.hypot(*(path_m[after:] - point_m).T)
    near = np.nonzero(apart_m < _PASS_M)[0]
    if not len(near):
        return None
    gaps = np.nonzero(np.diff(near) > 1)[0]
    run = near[: gaps[0] + 1] if len(gaps) else near
    return after + int(run[np.argmin(apart_m[run])])


def choose_pedestrians(
    paths: list[WalkingPath], *, around_m: Float64Array, share: float, first_uid: int, rng: np.random.Generator
) -> Pedestrians:
    """Place pedestrians at the starts of a share of the paths near a point, never two at the same spot."""
    starts = np.array([path.path_m[0] for path in paths])
    near = np.nonzero(np.hypot(*(starts - around_m).T) < _REACH_M)[0]
    # of starts close to each other, keep the first
    chosen: list[int] = []
    for index in near[rng.random(len(near)) < share].tolist():
        if not chosen or np.hypot(*(starts[chosen] - starts[index]).T).min() > _APART_M:
            chosen.append(index)
    state = np.zeros(len(chosen), PEDESTRIAN_DTYPE).view(np.recarray)
    state.active = 1
    state.crossing_crosswalk[:] = -1
    path_m = np.zeros((len(chosen), _PATH_POINTS, 2))
    for i, path in enumerate(paths[index] for index in chosen):
        path_m[i, : len(path.path_m)] = path.path_m
        state.path_length_m[i] = (len(path.path_m) - 1) * PATH_SPACING_M
        state.box[i, :2] = path.path_m[0]
        for k, (start_m, end_m, crosswalk, forward) in enumerate(path.crossings):
            state.crossing_s_m[i, k] = start_m, end_m
            state.crossing_crosswalk[i, k] = crosswalk
            state.crossing_forward[i, k] = forward
    state.uid = first_uid + np.arange(len(chosen))
    state.pace_mps = rng.uniform(1.0, 1.6, len(chosen))
    state.speed_mps = state.pace_mps
    state.box[:, 3:] = rng.uniform(0.45, 0.7, (len(chosen), 2))
    state.height_m = rng.uniform(1.55, 1.9, len(chosen))
    return Pedestrians(state, path_m)


@dataclass(frozen=True)
class StreetObjects:
    """Objects beside the roads of a town.

    Args:
        bays: x, y, yaw of parking bays, (B, 3).
        clutter: x, y, yaw, length, width of clutter, without overlaps, (K, 5).
        clutter_height_m: Heights, (K,).
    """

    bays: Float64Array
    clutter: Float64Array
    clutter_height_m: Float64Array


def lay_out_street_objects(plan: TownPlan, rng: np.random.Generator) -> StreetObjects:
    """Place parking bays along most roads, and clutter beyond the sidewalks."""
    # bays along both sides of a road, with cars in the direction of the traffic
    bays = [np.zeros((0, 3))]
    for road in plan.roads:
        if rng.random() >= _ROADS_WITH_PARKING:
            continue
        for side in (-1, 1):
            line = offset_line(road.centre_m, side * (road.half_width_m + PARKING_WIDTH_M / 2))
            s, yaw = line_lengths(line), line_yaws(line) + (np.pi if side > 0 else 0.0)
            at = np.arange(_BAY_END_M, s[-1] - _BAY_END_M, _BAY_LENGTH_M)
            bays.append(interpolated(at, s, *line.T, yaw))

    # Poles, bins, bushes and hedges beyond the sidewalks: fewer with distance, of log-normal sizes, some of them long.
    # Half the diagonal is added to the distance.
    pieces = []
    for road, side in ((road, side) for road in plan.roads for side in (-1, 1)):
        count = int(_CLUTTER_PER_M * len(road.centre_m))
        index = rng.integers(0, len(road.centre_m), count)
        yaw = line_yaws(road.centre_m)[index]
        depth_m = _edge_m(road) + 0.6 + _CLUTTER_DEPTH_M * rng.random(count) ** 1.5
        size = np.exp(rng.normal(-0.25, 0.55, (count, 2))).clip(0.25, 4.0)
        size[:, 0] *= np.where(rng.random(count) < 0.15, 2.5, 1.0)
        depth_m = depth_m + np.hypot(size[:, 0], size[:, 1]) / 2
        positions_m = road.centre_m[index] + side * depth_m[:, None] * unit_left(yaw)
        pieces.append(np.concatenate([positions_m, (yaw + rng.normal(0, 0.3, count))[:, None], size], axis=1))
    clutter = np.concatenate(pieces)

    # keep clutter that touches neither a road, a sidewalk nor an intersection; roads of a kind have the same width
    radius_m = np.hypot(clutter[:, 3], clutter[:, 4]) / 2
    free = np.ones(len(clutter), bool)
    for is_arterial in (False, True):
        roads = [road for road in plan.roads if road.is_arterial == is_arterial]
        if roads:
            tree = cKDTree(np.concatenate([road.centre_m for road in roads]))
            free &= tree.query(clutter[:, :2])[0] > _edge_m(roads[0]) + 0.3 + radius_m
    distance_m, node = cKDTree(plan.position_m).query(clutter[:, :2])
    is_kept = free & (distance_m > plan.setback_m[node] + 5.0 + radius_m)
    clutter, radius_m = clutter[is_kept], radius_m[is_kept]

    # then keep pieces that do not touch an earlier kept one
    pairs = cKDTree(clutter[:, :2]).query_pairs(2 * float(radius_m.max(initial=0.0)) + 0.1, output_type="ndarray")
    apart_m = np.hypot(*(clutter[pairs[:, 0], :2] - clutter[pairs[:, 1], :2]).T)
    close = pairs[apart_m < radius_m[pairs].sum(axis=1) + 0.05]
    dropped: set[int] = set()
    for first, second in sorted((int(i), int(j)) for i, j in np.sort(close, axis=1)):
        if first not in dropped:
            dropped.add(second)
    clutter = clutter[[i for i in range(len(clutter)) if i not in dropped]]
    return StreetObjects(np.concatenate(bays), clutter, rng.uniform(0.5, 2.5, len(clutter)))


def _edge_m(road: Road) -> float:
    """Return the distance from the centre line of a road to the outer edge of its sidewalk, metres."""
    return road.half_width_m + PARKING_WIDTH_M + SIDEWALK_WIDTH_M

"""Compact observations of vehicles: their route, road users and lanes as one row of numbers each."""

import math
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float32Array, Float64Array, Int64Array, NumericArray
from l5kit.data.array_shapes import as_kernel_tuple
from l5kit.data.map.bounds_grid import GridArrays
from l5kit.device.backend import Backend, DeviceArray, KernelArguments
from l5kit.device.opening import open_backend
from l5kit.environment.observations.compact_layout import (
    ACCELERATION_SCALE_MPS2,
    AGENT_COLUMNS,
    BOUND,
    EGO_COLUMNS,
    LANE_COLUMNS,
    OFFSET_SCALE_M,
    ROUTE_COLUMNS,
    ROUTE_FRAME_AGENT_COLUMNS,
    SIZE_SCALE_M,
    SPEED_SCALE_MPS,
    CompactLayout,
)
from l5kit.environment.observations.lane_points import LanePoints, find_nearest_points, insert_nearest
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_choice import LaneArrays
from l5kit.lanes.lane_paths import PATH_STEP_M, PathArrays, index_along, piece_at, speed_in_bend
from l5kit.lanes.path_positions import find_on_path, line_at
from l5kit.lanes.red_lights import (
    LINE_SLACK_M,
    RED,
    YELLOW,
    LightRows,
    SceneLights,
    rank_of_line,
    rank_of_lit_lane,
)
from l5kit.simulation.lanes.lane_following import SceneRows
from l5kit.simulation.lanes.lane_forecasts import Lanes, forecast_lanes, write_lane_forecast

SeenRows = tuple[SceneRows, LightRows]
"""Road users and lights of B slots."""


class Sizes(NamedTuple):
    """Fields of a :class:`CompactLayout` as scalars for kernels.

    Attributes:
        num_agents: Largest number of road users.
        num_route_points: Number of points of the route.
        num_lane_points: Largest number of points of lanes.
        route_step_m: Metres between points of the route.
        reach_m: Reach of observations, metres.
        is_along: Whether the frame is that of the route.
        follows_lanes: Whether forecasts of vehicles follow their lanes.
    """

    num_agents: int
    num_route_points: int
    num_lane_points: int
    route_step_m: float
    reach_m: float
    is_along: bool
    follows_lanes: bool


_Frame = tuple[float, float, float, float]

_EGO, _ROUTE, _AGENT, _LANE = len(EGO_COLUMNS), len(ROUTE_COLUMNS), len(AGENT_COLUMNS), len(LANE_COLUMNS)
_NUM_GROUPS = 3
_GROUP = AGENT_COLUMNS.index("is_vehicle")
_VELOCITY_ALONG, _VELOCITY_ACROSS = map(ROUTE_FRAME_AGENT_COLUMNS.index, ("velocity_along", "velocity_across"))
_TIME_TO_ROUTE, _ALONG_THEN = map(ROUTE_FRAME_AGENT_COLUMNS.index, ("time_to_route", "along_then"))

_BEND_MPS2 = 2.0
"""Comfortable lateral acceleration in bends."""

_LONGEST_S = 5.0
"""Upper bound of the times until road users reach the route."""

_FORECAST_STEPS = 10
_FORECAST_STEP_S = _LONGEST_S / _FORECAST_STEPS
_VEHICLE = int(RoadUserGroup.VEHICLE)

_BACK_M = 30.0
"""Length of the route behind the vehicle along which road users are described."""


class _Stretch(NamedTuple):
    """Section of the route of a vehicle.

    Attributes:
        points_m: Points of the whole route, (p, 2).
        first: First point of the section.
        stop: End of its points; 0 for a vehicle without a route, which uses a straight one.
        arc_m: Arc length of the vehicle along the route.
        width_m: Width of the vehicle.
        is_frame: Whether road users are described in the frame of the route.
    """

    points_m: Float64Array
    first: int
    stop: int
    arc_m: float
    width_m: float
    is_frame: bool


class VehicleRows(NamedTuple):
    """K observing vehicles.

    Attributes:
        boxes: World x, y, yaw, length and width, float64 (K, 5).
        motions: Speed, acceleration and steering, m/s, m/s2 and rad, float64 (K, 3).
        slots: Slot of each, which holds all road users that it sees, int64 (K,).
    """

    boxes: Float64Array
    motions: Float64Array
    slots: Int64Array


class RouteRows(NamedTuple):
    """Routes of K vehicles.

    Attributes:
        paths: All paths; their stop lines refer to lights of their scenes.
        routes: The path of each, -1 for none, int64 (K,).
        positions: Positions on these, as :func:`l5kit.lanes.path_positions.follow_routes` writes them, float64 (K, 3).
    """

    paths: PathArrays
    routes: Int64Array
    positions: Float64Array


class SeenMap(NamedTuple):
    """Parts of a map that are observed.

    Attributes:
        points: Points of centre lines.
        lanes: Lanes for forecasts of vehicles.
    """

    points: LanePoints
    lanes: Lanes

    @classmethod
    def of_map(cls, driving_map: DrivingMap | None) -> "SeenMap":
        """Return the observed parts of a map; empty ones for None."""
        return cls(LanePoints.of_map(driving_map), forecast_lanes(driving_map))


class LookRoom(NamedTuple):
    """Work buffers of R vehicles that are observed at the same time; item n uses row n modulo R.

    Attributes:
        near: Indices of road users or points, int64 (R, any).
        far_m2: Their squared distances, float64 (R, any).
        point_ranks: Lights of points, int64 (R, any).
        forecasts: Forecast poses of a vehicle, float64 (R, 11, 3).
    """

    near: DeviceArray
    far_m2: DeviceArray
    point_ranks: DeviceArray
    forecasts: DeviceArray

    @classmethod
    def make(cls, backend: Backend, size: int, layout: CompactLayout) -> "LookRoom":
        """Return buffers on a device, one for each vehicle that is observed at the same time."""
        rows = backend.rows_at_once(size)
        shape = (rows, max(layout.num_agents, layout.num_lane_points, 1))
        return cls(
            near=backend.empty(shape, np.int64),
            far_m2=backend.empty(shape),
            point_ranks=backend.empty(shape, np.int64),
            forecasts=backend.empty((rows, _FORECAST_STEPS + 1, 3)),
        )


def write_compact_states(
    layout: CompactLayout,
    seen_map: SeenMap,
    vehicles: VehicleRows,
    *,
    seen: SeenRows,
    routes: RouteRows,
    out: Float32Array,
) -> None:
    """Write the compact observations of K vehicles in B slots.

    A row depends only on its vehicle and its slot, and is bit-identical whatever else is observed. Values that are not
    finite become 0. Lanes of points and lights are rows of one map, ``line_lanes`` of paths are lights of the scene of
    the slot.

    Args:
        layout: Layout of the observations.
        seen_map: The lanes; empty without a map, which also means no lights.
        vehicles: Observing vehicles.
        seen: Road users (see ``SceneRows``) and lights (``LightRows``) of the slots.
        routes: Routes of the vehicles.
        out: Receives the observations, float32 (K, ``layout.size``).

    Raises:
        InvalidArgumentError: The shapes do not fit, or ``out`` is not a contiguous float32 array.
    """
    _check(layout, vehicles, seen, routes, out)
    boxes, motions, slots = vehicles
    rows, (frames, scenes, lights) = seen
    paths, of_vehicles, positions = routes
    backend, size = open_backend("cpu"), len(boxes)
    seen_by = as_kernel_tuple((slots, (boxes, motions), rows, paths, (of_vehicles, positions)))
    of_lights = as_kernel_tuple((frames[slots], scenes[slots], lights))
    of_layout, room = (sizes_of(layout), seen_map), LookRoom.make(backend, size, layout)
    backend.run(write_state, size, np.arange(size), *seen_by, of_lights, of_layout, room, out)


def sizes_of(layout: CompactLayout) -> Sizes:
    """Return the fields of a layout for kernels."""
    counts = layout.num_agents, layout.num_route_points, layout.num_lane_points
    kinds = layout.frame == "route", layout.forecast == "lanes"
    return Sizes(*counts, float(layout.route_step_m), float(layout.reach_m), *kinds)


def _check(layout: CompactLayout, vehicles: VehicleRows, seen: SeenRows, routes: RouteRows, out: Float32Array) -> None:
    """Raise if shapes of arrays do not fit together."""
    boxes, motions, slots = vehicles
    (starts, groups, users, velocities_mps), lights = seen
    _, of_vehicles, positions = routes
    size, num_slots = len(boxes), len(starts) - 1
    shapes = {
        "boxes": (boxes.shape, (size, 5)),
        "motions": (motions.shape, (size, 3)),
        "slots": (slots.shape, (size,)),
        "groups": (groups.shape, (len(users),)),
        "boxes of road users": (users.shape, (len(users), 5)),
        "velocities of road users": (velocities_mps.shape, (len(users), 2)),
        "frames of lights": (lights.frames.shape, (num_slots,)),
        "scenes of lights": (lights.scenes.shape, (num_slots,)),
        "routes": (of_vehicles.shape, (size,)),
        "positions": (positions.shape, (size, 3)),
        "out": (out.shape, (size, layout.size)),
    }
    for name, (shape, expected) in shapes.items():
        if shape != expected:
            raise InvalidArgumentError(f"compact states: {name} must have shape {expected}, got {shape}")
    if out.dtype != np.float32 or not out.flags.c_contiguous:
        raise InvalidArgumentError(
            f"out must be a contiguous float32 array, got {out.dtype} with strides {out.strides}"
        )


@kernel_jit
def write_state(item: int, arguments: KernelArguments) -> None:
    """Write the observation of one of K vehicles; zeros if its frame is below 0, which means no episode.

    Arguments: indices of the vehicles among all N, (K,), and the slots of their road users, (K,); boxes (N, 5) and
    motions (N, 3 or more), steering in the last column; road users of slots; paths, whose stop lines refer to lights of
    their scenes; the path of each vehicle, -1 for none, (N,), and its position on the path, (N, 3); frame and scene of
    each, counted in the lights, and the lights; layout and map; LookRoom; output: observations (N, D).
    """
    indices, slots, vehicles, rows, paths, (routes, positions), of_lights, (sizes, seen_map), room, out = arguments
    (boxes, motions), (frames, scenes, lights) = vehicles, of_lights
    index = indices[item]
    row, box, frame, scene = out[index], boxes[index], frames[index], scenes[index]
    if frame < 0:
        row[:] = 0.0
        return
    lights, room, sizes = SceneLights(*lights), LookRoom(*room), Sizes(*sizes)
    points, (lane_arrays, grid) = LanePoints(*seen_map[0]), seen_map[1]
    lanes = Lanes(LaneArrays(*lane_arrays), GridArrays(*grid))
    # one buffer for each vehicle on a device, for each thread on the processor
    own = item % len(room.near)
    near, far_m2, point_ranks = room.near[own], room.far_m2[own], room.point_ranks[own]
    ranks = lights.ranks[lights.starts[frame] : lights.starts[frame + 1]]
    _write_surroundings(
        row,
        sizes,
        (box, motions[index]),
        slots[item],
        SceneRows(*rows),
        PathArrays(*paths),
        routes[index],
        positions[index],
        ranks,
        (near, far_m2),
        (lanes, room.forecasts[own]),
    )

    # lanes come last, as they reuse the buffers of the road users
    count = find_nearest_points(points, (box[0], box[1], sizes.reach_m), near, far_m2, sizes.num_lane_points)
    lit_lanes = lights.lanes[lights.lane_starts[scene] : lights.lane_starts[scene + 1]]
    for point in range(count):
        point_ranks[point] = rank_of_lit_lane(lit_lanes, ranks, points.lanes[near[point]])
    write_lanes(row, sizes, box, points, point_ranks, near, count)


@kernel_jit
def _write_surroundings(
    row: Float32Array,
    sizes: Sizes,
    vehicle: tuple[Float64Array, Float64Array],
    slot: int,
    rows: SceneRows,
    paths: PathArrays,
    route: int,
    position: Float64Array,
    ranks: NumericArray,
    scratch: tuple[Int64Array, Float64Array],
    forecast: tuple[Lanes, Float64Array],
) -> None:
    """Write all parts of the observation of a vehicle except ``lanes``, whose columns are set to 0.

    Args:
        row: The observation, (D,).
        sizes: The layout.
        vehicle: Box of the vehicle, (5,), and its speed, acceleration and, in the last column, steering, (3 or more,).
        slot: Slot of the vehicle.
        rows: Road users of all slots.
        paths: All paths.
        route: The path of the vehicle, -1 for none.
        position: Its position on the path, (3,).
        ranks: Ranks of lights, by the light numbers of the paths.
        scratch: Buffers for indices and distances of ``num_agents``.
        forecast: Lanes that vehicles follow, and a buffer for forecast poses, (11, 3).
    """
    box, motion = vehicle
    for column in range(len(row)):
        row[column] = 0.0
    reach_m, length_m, speed_mps = sizes.reach_m, box[3], motion[0]
    frame = (box[0], box[1], math.cos(box[2]), math.sin(box[2]))
    row[0], row[1] = _clip(speed_mps / SPEED_SCALE_MPS), _clip(motion[1] / ACCELERATION_SCALE_MPS2)
    row[2] = _clip(motion[len(motion) - 1])
    row[3], row[4] = _clip(length_m / SIZE_SCALE_M), _clip(box[4] / SIZE_SCALE_M)

    # without a route its columns stay 0
    has_route = route >= 0 and paths.starts[route + 1] - paths.starts[route] >= 2
    if has_route:
        _write_route_columns(row, reach_m, paths, route, (position[0], position[1], position[2]), 0.5 * length_m, ranks)
        _write_route(row, _EGO, sizes, frame, paths, route, position[0])

    # in the frame of the route, road users are described along the section from 30 m behind up to the reach
    near, far_m2 = scratch
    first = paths.starts[route] if has_route else 0
    points_m = paths.points_m[first : paths.starts[route + 1] if has_route else 0]
    stretch = _Stretch(points_m, 0, 0, 0.0, box[4], sizes.is_along)
    if sizes.is_along and has_route:
        last = len(points_m) - 1
        behind, ahead = index_along(position[0] - _BACK_M, last), index_along(position[0] + reach_m, last) + 1
        stretch = _Stretch(points_m, behind, ahead, position[0], box[4], True)
    count = _find_agents(sizes, frame, slot, rows, stretch, near, far_m2)
    column = _EGO + sizes.num_route_points * _ROUTE
    for index in range(count):
        user = near[index]
        own = rows.boxes[user], rows.velocities_mps[user]
        _write_agent(row, column, reach_m, frame, speed_mps, own, stretch)
        row[column + _GROUP + min(rows.groups[user], _NUM_GROUPS - 1)] = 1.0
        row[column + _AGENT - 1] = 1.0
        # a forecast overwrites the time to the route and the position at that time
        if sizes.follows_lanes and stretch.stop > stretch.first and rows.groups[user] == _VEHICLE:
            _forecast_agent(row, column, reach_m, speed_mps, own, stretch, forecast)
        column += _AGENT


@kernel_jit
def _clip(value: float) -> float:
    """Return a value clipped to the bound, 0 for NaN."""
    if value >= -BOUND:
        return min(value, BOUND)
    return -BOUND if value < -BOUND else 0.0


@kernel_jit
def _write_route_columns(
    row: Float32Array,
    reach_m: float,
    paths: PathArrays,
    route: int,
    position: tuple[float, float, float],
    half_m: float,
    ranks: NumericArray,
) -> None:
    """Write the columns of ``ego`` that describe the route."""
    arc_m, left_m, turn_rad = position
    begins_m, line_lanes = paths.piece_arcs_m, paths.line_lanes
    first, stop = paths.piece_starts[route], paths.piece_starts[route + 1]

    # the piece that the vehicle is on, and the first red or yellow stop line ahead of its front
    here, line_m, rank = first, reach_m, 0
    for piece in range(first, stop):
        begin_m = begins_m[piece]
        if begin_m <= arc_m:
            here = piece
        gap_m = begin_m - arc_m - half_m
        if gap_m > reach_m:
            break
        has_line = line_lanes[piece, 0] >= 0 or line_lanes[piece, 1] >= 0
        if has_line and rank == 0 and gap_m >= -LINE_SLACK_M and len(ranks) > 0:
            rank = rank_of_line(line_lanes, piece, ranks)
            rank = rank if rank >= YELLOW else 0
            if rank > 0:
                line_m = gap_m
    row[5] = 1.0
    row[6], row[7], row[8] = _clip(left_m / OFFSET_SCALE_M), _clip(math.cos(turn_rad)), _clip(math.sin(turn_rad))
    row[9] = _clip(paths.piece_limits_mps[here] / SPEED_SCALE_MPS) if stop > first else 0.0
    row[10] = _clip(line_m / reach_m)
    row[11], row[12] = 1.0 if rank >= RED else 0.0, 1.0 if 0 < rank < RED else 0.0
    row[13] = _clip(min((paths.lengths_m[route] - arc_m) / reach_m, 1.0))


@kernel_jit
def _write_route(
    row: Float32Array, column: int, sizes: Sizes, frame: _Frame, paths: PathArrays, route: int, arc_m: float
) -> None:
    """Write the part ``route``."""
    line = paths.points_m[paths.starts[route] : paths.starts[route + 1]]
    x, y, cos, sin = frame
    piece = paths.piece_starts[route]
    for point in range(sizes.num_route_points):
        ahead_m = min(arc_m + (point + 1) * sizes.route_step_m, paths.lengths_m[route])
        line_x, line_y, along_x, along_y = line_at(line, ahead_m)
        _write_pose(row, column + point * _ROUTE, (line_x - x, line_y - y, along_x, along_y), (cos, sin), sizes.reach_m)
        if sizes.is_along:
            # the position of a point follows from its arc length, so the columns hold speeds there instead
            piece = piece_at(paths, route, piece, ahead_m)
            bend_mps = speed_in_bend(line, index_along(ahead_m, len(line) - 1), _BEND_MPS2)
            row[column + point * _ROUTE] = min(bend_mps / SPEED_SCALE_MPS, 1.0)
            row[column + point * _ROUTE + 1] = _clip(paths.piece_limits_mps[piece] / SPEED_SCALE_MPS)


@kernel_jit
def _write_pose(
    row: Float32Array,
    column: int,
    pose: tuple[float, float, float, float],
    heading: tuple[float, float],
    reach_m: float,
) -> None:
    """Write x, y, cosine and sine of an offset and a direction in the world, rotated into the frame of the vehicle."""
    x_m, y_m, along_x, along_y = pose
    cos, sin = heading
    row[column] = _clip((x_m * cos + y_m * sin) / reach_m)
    row[column + 1] = _clip((y_m * cos - x_m * sin) / reach_m)
    row[column + 2] = _clip(along_x * cos + along_y * sin)
    row[column + 3] = _clip(along_y * cos - along_x * sin)


@kernel_jit
def _remoteness_m2(stretch: _Stretch, x: float, y: float) -> float:
    """Return the squared distance of a point along the route, where metres across and behind the vehicle count twice.

    Checking every second point of the route is accurate enough for sorting road users.
    """
    points_m, nearest, nearest_m2 = stretch.points_m, stretch.first, np.inf
    for point in range(stretch.first, stretch.stop, 2):
        x_m, y_m = points_m[point, 0] - x, points_m[point, 1] - y
        far_m2 = x_m * x_m + y_m * y_m
        if far_m2 < nearest_m2:
            nearest, nearest_m2 = point, far_m2
    # along the route ahead, doubled behind, and doubled across: (2 d)^2 = 4 d^2
    ahead_m = nearest * PATH_STEP_M - stretch.arc_m
    if ahead_m < 0:
        ahead_m *= 2.0
    return ahead_m * ahead_m + 4.0 * nearest_m2


@kernel_jit
def _find_agents(
    sizes: Sizes,
    frame: _Frame,
    slot: int,
    rows: SceneRows,
    stretch: _Stretch,
    near: Int64Array,
    far_m2: Float64Array,
) -> int:
    """Write the nearest road users in the slot of a vehicle, and return their number.

    Nearest means by distance to the vehicle, or by :func:`_remoteness_m2` with a section of a route.
    """
    starts, groups, boxes, _ = rows
    x, y, reach_m2, count = frame[0], frame[1], sizes.reach_m * sizes.reach_m, 0
    for user in range(starts[slot], starts[slot + 1]):
        if groups[user] < 0:
            continue
        x_m, y_m = boxes[user, 0] - x, boxes[user, 1] - y
        squared_m2 = x_m * x_m + y_m * y_m
        if squared_m2 <= reach_m2:
            if stretch.stop > stretch.first:
                squared_m2 = _remoteness_m2(stretch, x + x_m, y + y_m)
            count = insert_nearest(near, far_m2, sizes.num_agents, count, user, squared_m2)
    return count


@kernel_jit
def _extent_of(box: Float64Array, heading: tuple[float, float], along: tuple[float, float]) -> tuple[float, float]:
    """Return the extents of a box (5,) with a heading along a direction and across it; both are unit vectors."""
    turned_cos = abs(heading[0] * along[0] + heading[1] * along[1])
    turned_sin = abs(heading[1] * along[0] - heading[0] * along[1])
    return turned_cos * box[3] + turned_sin * box[4], turned_sin * box[3] + turned_cos * box[4]


@kernel_jit
def _write_agent(
    row: Float32Array,
    column: int,
    reach_m: float,
    frame: _Frame,
    speed_mps: float,
    own: tuple[Float64Array, Float64Array],
    stretch: _Stretch,
) -> None:
    """Write the columns of a road user, given by box and velocity, except those of its type."""
    (x, y, cos, sin), (box, velocity_mps) = frame, own
    x_m, y_m, yaw = box[0] - x, box[1] - y, box[2]
    heading_x, heading_y = math.cos(yaw), math.sin(yaw)
    if not stretch.is_frame:
        pose = (x_m, y_m, heading_x, heading_y)
        _write_pose(row, column, pose, (cos, sin), reach_m)
        row[column + 4] = _clip((velocity_mps[0] * cos + velocity_mps[1] * sin - speed_mps) / SPEED_SCALE_MPS)
        row[column + 5] = _clip((velocity_mps[1] * cos - velocity_mps[0] * sin) / SPEED_SCALE_MPS)
        row[column + 6], row[column + 7] = _clip(box[3] / SIZE_SCALE_M), _clip(box[4] / SIZE_SCALE_M)
        return
    along_m, left_m = x_m * cos + y_m * sin, y_m * cos - x_m * sin
    if stretch.stop > stretch.first:
        # position in the frame of the route
        arc_m, left_m, _ = find_on_path(stretch.points_m, stretch.first, stretch.stop, (box[0], box[1], yaw))
        along_m = arc_m - stretch.arc_m
        _, _, cos, sin = line_at(stretch.points_m, arc_m)

    # relative velocity and extents in the direction of the route at that position
    along_mps = velocity_mps[0] * cos + velocity_mps[1] * sin - speed_mps
    left_mps = velocity_mps[1] * cos - velocity_mps[0] * sin
    length_along_m, length_across_m = _extent_of(box, (heading_x, heading_y), (cos, sin))
    # time until the near side of the box enters the corridor of the vehicle: 0 inside, the bound without approach
    gap_m = abs(left_m) - 0.5 * (length_across_m + stretch.width_m)
    nearing_mps = -left_mps if left_m > 0 else left_mps
    time_s = 0.0
    if gap_m > 0:
        time_s = gap_m / nearing_mps if nearing_mps * _LONGEST_S > gap_m else _LONGEST_S
    row[column], row[column + 1] = _clip(along_m / reach_m), _clip(left_m / OFFSET_SCALE_M)
    row[column + 2], row[column + 3] = _clip(along_mps / SPEED_SCALE_MPS), _clip(left_mps / SPEED_SCALE_MPS)
    row[column + 4], row[column + 5] = _clip(length_along_m / SIZE_SCALE_M), _clip(length_across_m / SIZE_SCALE_M)
    row[column + _TIME_TO_ROUTE] = time_s / _LONGEST_S
    row[column + _ALONG_THEN] = _clip((along_m + along_mps * time_s) / reach_m)


@kernel_jit
def _gap_to_route(stretch: _Stretch, box: Float64Array, pose: Float64Array) -> tuple[float, float]:
    """Return the gap from a box (5,) at a pose (3,) to the corridor of the vehicle, and its arc length on the route."""
    arc_m, left_m, _ = find_on_path(stretch.points_m, stretch.first, stretch.stop, (pose[0], pose[1], pose[2]))
    _, _, cos, sin = line_at(stretch.points_m, arc_m)
    _, length_across_m = _extent_of(box, (math.cos(pose[2]), math.sin(pose[2])), (cos, sin))
    return abs(left_m) - 0.5 * (length_across_m + stretch.width_m), arc_m


@kernel_jit
def _forecast_agent(
    row: Float32Array,
    column: int,
    reach_m: float,
    speed_mps: float,
    own: tuple[Float64Array, Float64Array],
    stretch: _Stretch,
    forecast: tuple[Lanes, Float64Array],
) -> None:
    """Write time, position and velocity of a vehicle at its entry into the corridor along its lane, unless inside."""
    (box, velocity_mps), (lanes, poses) = own, forecast
    if row[column + _TIME_TO_ROUTE] == 0.0 or not write_lane_forecast(
        box, velocity_mps, lanes, _FORECAST_STEP_S, poses
    ):
        return
    # first step inside the corridor, and the interpolated time of entry before it
    gap_m, arc_m = _gap_to_route(stretch, box, poses[0])
    time_s, step = _LONGEST_S, 0
    for step in range(1, _FORECAST_STEPS + 1):
        before_m, from_m = gap_m, arc_m
        gap_m, arc_m = _gap_to_route(stretch, box, poses[step])
        if gap_m <= 0.0:
            share = before_m / (before_m - gap_m) if before_m > 0.0 else 0.0
            time_s, arc_m = (step - 1 + share) * _FORECAST_STEP_S, from_m + share * (arc_m - from_m)
            break
    row[column + _TIME_TO_ROUTE] = time_s / _LONGEST_S
    row[column + _ALONG_THEN] = _clip((arc_m - stretch.arc_m - speed_mps * time_s) / reach_m)
    if gap_m > 0.0:
        return

    # for vehicles that enter: the velocity there, with the current speed in the direction of the lane
    _, _, cos, sin = line_at(stretch.points_m, arc_m)
    own_mps, turn = math.hypot(velocity_mps[0], velocity_mps[1]), poses[step, 2]
    heading_x, heading_y = math.cos(turn), math.sin(turn)
    row[column + _VELOCITY_ALONG] = _clip((own_mps * (heading_x * cos + heading_y * sin) - speed_mps) / SPEED_SCALE_MPS)
    row[column + _VELOCITY_ACROSS] = _clip(own_mps * (heading_y * cos - heading_x * sin) / SPEED_SCALE_MPS)


@kernel_jit
def write_lanes(
    row: Float32Array,
    sizes: Sizes,
    box: Float64Array,
    points: LanePoints,
    point_ranks: Int64Array,
    near: Int64Array,
    count: int,
) -> None:
    """Write the part ``lanes`` of the observation of a vehicle, whose columns are 0 before.

    Args:
        row: The observation, (D,).
        sizes: The layout.
        box: Box of the vehicle, (5,).
        points: Points of lanes.
        point_ranks: Light of each of the nearest points.
        near: The nearest points.
        count: Number of these.
    """
    positions_m, directions, limits_mps = points.positions_m, points.directions, points.limits_mps
    x, y, cos, sin = box[0], box[1], math.cos(box[2]), math.sin(box[2])
    column, reach_m = _EGO + sizes.num_route_points * _ROUTE + sizes.num_agents * _AGENT, sizes.reach_m
    for index in range(count):
        point, rank = near[index], point_ranks[index]
        pose = (positions_m[point, 0] - x, positions_m[point, 1] - y, directions[point, 0], directions[point, 1])
        _write_pose(row, column, pose, (cos, sin), reach_m)
        row[column + 4] = _clip(limits_mps[point] / SPEED_SCALE_MPS)
        row[column + 5], row[column + 6] = 1.0 if rank >= RED else 0.0, 1.0 if YELLOW <= rank < RED else 0.0
        row[column + 7] = 1.0
        column += _LANE

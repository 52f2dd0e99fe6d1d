"""Rule-based planner: proposals along the lanes of the log, rolled out and scored, the best of which is driven."""

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.read_only_views import behind_view
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.highest_speeds import write_highest_speeds
from l5kit.lanes.lane_paths import PATH_STEP_M, LanePaths, PathArrays, index_along, make_lane_paths
from l5kit.lanes.path_places import find_place
from l5kit.lanes.red_lights import LaneColors, read_lane_colors
from l5kit.simulation.drivers.proposal_choice import Driving, plan_scene
from l5kit.simulation.drivers.proposal_comfort import ComfortFilters, comfort_filters
from l5kit.simulation.drivers.proposal_forecasts import Lanes, forecast_lanes
from l5kit.simulation.drivers.proposal_places import RoadArrays, road_arrays
from l5kit.simulation.drivers.proposal_rollout import Tracking
from l5kit.simulation.drivers.proposal_ways import Way, fade_length_m, write_stop_lines
from l5kit.simulation.drivers.vanished_agents import rows_with_vanished
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.intelligent_driver import IntelligentDriverParams
from l5kit.simulation.lanes.lane_following import ColorRows, SceneRows
from l5kit.simulation.lanes.track_poses import poses_of_avs
from l5kit.simulation.trajectory_tracker import TrajectoryTracker, speed_fit_matrix

__all__ = ["RulePlanner"]

_MEMORY = "rule planner"
_STEP_S = 0.1
_NUM_STEPS = 40
_NUM_PLANNED = 50
_BACK_M, _ON_M = 10.0, 40.0
_MOST_LINES = 16
_STRAIGHT_POINTS = 100
_CURVE_MPS2 = 3.0
_EASY_BRAKING_MPS2 = 1.5


@dataclass(frozen=True)
class RulePlanner:
    """Planner of AVs by rules: the best of some proposals, by the metrics of the score, over the next four seconds.

    A proposal drives along the path of the AV, which has the lanes that it drives in the log and then the straightest
    ones, or along a line beside it, as fast as an intelligent driver who wants a part of the speed that is allowed. He
    sees leaders, those who cross, red lights, bends and slower limits ahead. Each proposal is rolled out with tracker
    and bicycle and scored against forecasts of the others, in which vehicles keep their speed and follow their lanes
    and all others keep their velocity: (product of collisions at fault and drivable surface) times (mean of progress,
    time to collision and comfort, weights 5, 5 and 2). If even the best one collides within 2 s, the AV brakes with
    6 m/s2. An idea of PDM-Closed (Dauner et al., arXiv 2306.07962), with the metrics and models of l5kit.

    Somebody who stood still and is not seen any more is reckoned to stand there for another second.

    Without a path, off the lanes or without a map, the AV goes straight on, not faster than it was at first.

    Attributes:
        params: Parameters of the drivers of the proposals.
        offsets_m: Lines beside the path, metres to the left; the first ones win where scores are equal.
        speed_parts: Parts of the allowed speed that are wanted, above 0.
        unknown_limit_mps: The limit where the map does not say one, above 0.
        tracker: Follows proposals in the roll-outs; give the simulation the same one.

    Raises:
        InvalidArgumentError: A value is out of range.
    """

    params: IntelligentDriverParams = field(
        default_factory=lambda: IntelligentDriverParams(max_acceleration_mps2=1.5, max_braking_mps2=3.0)
    )
    offsets_m: tuple[float, ...] = (0.0, -1.0, 1.0)
    speed_parts: tuple[float, ...] = (1.0, 0.8, 0.6, 0.4, 0.2)
    unknown_limit_mps: float = 15.0
    tracker: TrajectoryTracker = field(default_factory=TrajectoryTracker)

    def __post_init__(self) -> None:
        if not self.offsets_m or not np.isfinite(self.offsets_m).all():
            raise InvalidArgumentError(f"RulePlanner: offsets_m are {self.offsets_m}; give at least one, in metres")
        if not self.speed_parts or not all(0 < part < np.inf for part in self.speed_parts):
            raise InvalidArgumentError(f"RulePlanner: speed_parts are {self.speed_parts}; give at least one above 0")
        if not 0 < self.unknown_limit_mps < np.inf:
            raise InvalidArgumentError(
                f"RulePlanner: unknown_limit_mps is {self.unknown_limit_mps}; it must be above 0"
            )
        if self.tracker.params.step_time_s != _STEP_S:
            raise InvalidArgumentError(
                f"RulePlanner: tracker reads plans in steps of {self.tracker.params.step_time_s} s; proposals are "
                f"rolled out in steps of {_STEP_S} s"
            )

    def drive(self, state: TrafficState) -> Actions:
        """Return the best plan of each AV: world poses in steps of 0.1 s from 0.1 to 4 s ahead, (R, 40, 3).

        Raises:
            InvalidArgumentError: It is asked to drive agents.
        """
        state = behind_view(state)
        if state.actors is not None:
            raise InvalidArgumentError("RulePlanner drives AVs only; agents can have an IntelligentDriver")
        memory = state.memory.get(_MEMORY)
        if memory is None:
            memory = state.memory[_MEMORY] = _Memory(state.batch, self.unknown_limit_mps)
        plans, chosen = np.empty((len(state), _NUM_STEPS, 3)), np.empty(len(state), np.int64)
        is_new = memory.begin(state)
        _plan_scenes(
            (memory.arrays, memory.speeds_mps, memory.first_speeds_mps),
            state.scenes,
            (memory.places, is_new),
            _ego_rows(state),
            rows_with_vanished(state),
            (memory.colors_of(state), memory.num_lanes),
            memory.road,
            self._driving,
            (self._tracking, comfort_filters(_NUM_STEPS + 1)),
            (plans, chosen),
        )
        memory.chosen[state.scenes] = chosen
        return Actions(plans, _STEP_S * np.arange(1.0, _NUM_STEPS + 1))

    @property
    def _driving(self) -> Driving:
        offsets_m, parts = np.array(self.offsets_m, np.float64), np.array(self.speed_parts, np.float64)
        return self.params.numbers, offsets_m, parts, _STEP_S

    @property
    def _tracking(self) -> Tracking:
        params = self.tracker.params
        fit = speed_fit_matrix(_NUM_PLANNED, _STEP_S, params.jerk_weight)
        return fit, int(params.num_steps), *self.tracker.numbers, self.tracker.bicycle.numbers(_STEP_S)


class _Memory:
    """What a planner remembers of a batch: the paths, the lights, where AVs were last and which line they drove."""

    def __init__(self, batch: SceneBatch, unknown_limit_mps: float) -> None:
        driving_map = batch.driving_map
        if batch.road is None or driving_map is None or driving_map.num_lanes == 0:
            paths, lights, self.num_lanes = _no_paths(len(batch)), None, 0
        else:
            paths = make_lane_paths(poses_of_avs(batch), driving_map, unknown_limit_mps=unknown_limit_mps)
            lights, self.num_lanes = batch.road.api.arrays.lights, driving_map.num_lanes
        self.arrays = paths.arrays
        self.speeds_mps: Float64Array = np.empty(len(paths.points_m))
        write_highest_speeds(self.arrays, _CURVE_MPS2, _EASY_BRAKING_MPS2, True, self.speeds_mps)
        self.road: tuple[RoadArrays, Lanes] = (road_arrays(driving_map), forecast_lanes(driving_map))
        self.first_speeds_mps: Float64Array = batch.logged_motion.speeds_mps[np.arange(len(batch)), batch.starts]
        self.places: Float64Array = np.zeros((len(batch), 2))  # length of the path, offset
        self.chosen: Int64Array = np.zeros(len(batch), np.int64)
        self._before: Float64Array = self.places.copy()
        self._is_before_new: BoolArray = np.zeros(len(batch), np.bool_)
        self._frames: Int64Array = np.full(len(batch), -2, np.int64)
        self._colors: LaneColors = read_lane_colors(batch.recorded, lights)

    def __deepcopy__(self, memo: dict[int, object]) -> "_Memory":
        """Return itself: asked again in a frame, it starts from what it knew before."""
        return self

    def begin(self, state: TrafficState) -> BoolArray:
        """Return which AVs were not planned in the frame before.

        A planner that is asked twice in one frame, as after an error in another scene, starts from the same places.
        """
        scenes, frames = state.scenes, state.frame_indices
        is_again = self._frames[scenes] == frames
        is_new: BoolArray = np.where(is_again, self._is_before_new[scenes], self._frames[scenes] != frames - 1)
        self.places[scenes[is_again]] = self._before[scenes[is_again]]
        self._before[scenes] = self.places[scenes]
        self._is_before_new[scenes], self._frames[scenes] = is_new, frames
        return is_new

    def colors_of(self, state: TrafficState) -> ColorRows:
        """Return the lights of the current frames, as kernels take them."""
        frames = self._colors.scene_starts[state.scenes] + state.frame_indices
        return frames, self._colors.starts, self._colors.lanes, self._colors.ranks


def _no_paths(size: int) -> LanePaths:
    starts, rows = np.zeros(size + 1, np.int64), np.zeros(0, np.int64)
    return LanePaths(
        starts, np.zeros((0, 2)), np.zeros(size), starts, np.zeros(0), rows, np.zeros((0, 2), np.int64), np.zeros(0)
    )


def _ego_rows(state: TrafficState) -> Float64Array:
    """Return x, y, yaw, speed, acceleration, steering, length and width of AVs, (R, 8)."""
    ego = state.ego
    motion = (ego.yaws_rad, ego.speeds_mps, ego.accelerations_mps2, ego.steering_rad)
    sizes = np.broadcast_to(np.array(state.batch.facts.ego_extent_m[:2], np.float64), (len(ego), 2))
    return np.ascontiguousarray(np.column_stack([ego.positions_m, *motion, sizes]))


@njit(nogil=True, cache=True, error_model="numpy")
def _plan_scenes(
    known: tuple[PathArrays, Float64Array, Float64Array],
    scenes: Int64Array,
    memory: tuple[Float64Array, BoolArray],
    egos: Float64Array,
    rows: SceneRows,
    colors: tuple[ColorRows, int],
    road: tuple[RoadArrays, Lanes],
    driving: Driving,
    following: tuple[Tracking, ComfortFilters],
    results: tuple[Float64Array, Int64Array],
) -> None:
    """Write plans (R, T, 3) and chosen proposals (R,) of scenes, one after the other."""
    paths = known[0]
    (places, is_new), (starts, groups, boxes, velocities_mps) = memory, rows
    ranks, lines = np.zeros(colors[1], np.int64), np.empty((_MOST_LINES, 2))
    for place in range(len(scenes)):
        scene, ego = scenes[place], egos[place]
        agents = slice(starts[place], starts[place + 1])
        has_path = paths[0][scene + 1] > paths[0][scene]
        count, end_m = 0, np.inf
        if has_path:
            way = _way_on_path(known, scene, ego, is_new[place], places[scene])
            front_m = way[2] + 0.5 * ego[6]
            end_m = paths[2][scene] - front_m
            count = _write_held_lines(paths, scene, front_m, (colors[0], place), ranks, lines)
        else:
            way = _way_ahead(ego, known[2][scene])
        chosen, _ = plan_scene(
            way,
            ego,
            end_m,
            lines[:count],
            (boxes[agents], velocities_mps[agents], groups[agents]),
            road,
            driving,
            following,
            places[scene, 1],
            results[0][place],
        )
        results[1][place] = chosen
        if chosen >= 0:
            places[scene, 1] = driving[1][chosen // len(driving[2])]


@njit(nogil=True, cache=True, error_model="numpy")
def _way_on_path(
    known: tuple[PathArrays, Float64Array, Float64Array],
    scene: int,
    ego: Float64Array,
    is_new: bool,
    place: Float64Array,
) -> Way:
    """Return the way of an AV along its path, and note where on it it is."""
    part = slice(known[0][0][scene], known[0][0][scene + 1])
    points_m = known[0][1][part]
    first, stop = 0, len(points_m)
    if not is_new:
        first = index_along(place[0] - _BACK_M, stop - 1)
        stop = index_along(place[0] + _ON_M, stop - 1) + 1
    arc_m, offset_m, slope = find_place(points_m, first, stop, (ego[0], ego[1], ego[2]))
    place[0] = arc_m
    return points_m, known[1][part], arc_m, offset_m, slope, fade_length_m(ego[3])


@njit(nogil=True, cache=True, error_model="numpy")
def _way_ahead(ego: Float64Array, speed_mps: float) -> Way:
    """Return the way straight ahead of an AV."""
    points_m = np.empty((_STRAIGHT_POINTS, 2))
    for point in range(_STRAIGHT_POINTS):
        points_m[point, 0] = ego[0] + point * PATH_STEP_M * np.cos(ego[2])
        points_m[point, 1] = ego[1] + point * PATH_STEP_M * np.sin(ego[2])
    return points_m, np.full(_STRAIGHT_POINTS, speed_mps), 0.0, 0.0, 0.0, fade_length_m(ego[3])


@njit(nogil=True, cache=True, error_model="numpy")
def _write_held_lines(
    paths: PathArrays,
    scene: int,
    front_m: float,
    lit: tuple[ColorRows, int],
    ranks: Int64Array,
    lines: Float64Array,
) -> int:
    """Write the yellow and red lines ahead of an AV, and return their number; ``ranks`` are 0 before and after."""
    (frames, starts, lanes, values), place = lit
    slots = range(starts[frames[place]], starts[frames[place] + 1])
    for slot in slots:
        ranks[lanes[slot]] = max(ranks[lanes[slot]], values[slot])
    count = write_stop_lines(paths, scene, front_m, ranks, lines)
    for slot in slots:
        ranks[lanes[slot]] = 0
    return count

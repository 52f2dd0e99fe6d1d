"""Rule-based planner: proposals along the lanes of the log are rolled out and scored, and the best one is driven."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.read_only_views import behind_view
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.comfort import ComfortBounds, comfort_filters
from l5kit.evaluation.driving.road_users import STATIONARY_MPS
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.lanes.lane_paths import PATH_STEP_M, LanePaths, PathArrays, make_lane_paths, write_highest_speeds
from l5kit.lanes.path_positions import find_on_path, points_around
from l5kit.lanes.red_lights import ColorRows
from l5kit.simulation.drivers.lane_seat import KeptStates
from l5kit.simulation.drivers.proposal_choice import GIVEN, Driving, Scoring, keep_or_plan, plan_scene, see
from l5kit.simulation.drivers.proposal_paths import Way, write_stop_lines
from l5kit.simulation.drivers.proposal_scores import road_arrays, tracking_of
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.engine.agent_rows import read_agents
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.intelligent_driver import IntelligentDriverParams
from l5kit.simulation.lanes.lane_following import SceneRows, mark_lights
from l5kit.simulation.lanes.lane_forecasts import Agents, forecast_lanes
from l5kit.simulation.lanes.track_poses import poses_of_avs
from l5kit.simulation.trajectory_tracker import TrajectoryTracker

_MEMORY = "rule planner"
_STEP_S = 0.1
_NUM_STEPS = 40
_NUM_PLANNED = 50
_MOST_LINES = 16
_STRAIGHT_POINTS = 100
_LENGTH, _SHIFT, _WAITS = range(3)
"""Columns of path states: arc length of an AV on its path, offset of its line, and number of frames it waits."""

_FADE_S = 2.5
_SHORTEST_FADE_M = 8.0
_CURVE_MPS2 = 3.0
_EASY_BRAKING_MPS2 = 1.5


@dataclass(frozen=True)
class RulePlanner:
    """Rule-based planner of AVs: the best of several proposals, by the metrics of the score, over four seconds.

    A proposal drives along the path of the AV, which consists of its lanes in the log and then the straightest ones, or
    along a line beside it, like an intelligent driver with a share of the allowed speed as desired speed. This driver
    reacts to leaders, crossing road users, red lights, bends and slower limits ahead. Each proposal is rolled out with
    tracker and bicycle and scored against forecasts of the others, in which vehicles keep their speed and follow their
    lanes and all others keep their velocity: (product of collisions at fault and drivable surface) times (mean of
    progress, time to collision and comfort, weights 5, 5 and 2). If even the best one collides within 2 s, the AV
    brakes with 6 m/s2. The idea is from PDM-Closed (Dauner et al., arXiv 2306.07962), with the metrics and models of
    l5kit.

    A stationary road user that disappears is assumed to stay for another second.

    Without a path, off the lanes or without a map, the AV drives straight, at most as fast as at the start.

    Attributes:
        params: Parameters of the drivers of the proposals.
        offsets_m: Offsets of lines beside the path, metres to the left; earlier ones win ties.
        speed_parts: Desired shares of the allowed speed, above 0.
        unknown_limit_mps: Speed limit where the map has none, above 0.
        tracker: Follows proposals in the roll-outs; use the same one in the simulation.

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
                f"RulePlanner: tracker reads plans in steps of {self.tracker.params.step_time_s} s, but proposals are "
                f"rolled out in steps of {_STEP_S} s"
            )

    def drive(self, state: TrafficState) -> Actions:
        """Return the best plan of each AV: world poses in steps of 0.1 s from 0.1 to 4 s ahead, (R, 40, 3).

        Raises:
            InvalidArgumentError: The driver is used for agents.
        """
        state = behind_view(state)
        if state.actors is not None:
            raise InvalidArgumentError("RulePlanner drives AVs only; agents can have an IntelligentDriver")
        plans, _ = self._plan(state, np.empty((0, 0, 3)))
        return Actions(plans, self.times_s[1 : _NUM_STEPS + 1])

    def plan_anew(self, state: TrafficState) -> Float64Array:
        """Return the plans of :meth:`drive`, (R, 40, 3), as if the AVs were seen for the first time.

        The plans do not depend on earlier frames, as needed for windows of scenes. Cached paths of the batch are
        reused.

        Args:
            state: Current state of the AVs.
        """
        self._memory_of(state).forget(state.scenes)
        return self._plan(behind_view(state), np.empty((0, 0, 3)))[0]

    @property
    def times_s(self) -> Float64Array:
        """Times of the poses of given plans, seconds from now: 0 to 5 s in steps of 0.1 s, (51,)."""
        return _STEP_S * np.arange(_NUM_PLANNED + 1.0)

    def overrule(self, state: TrafficState, plans: Float64Array) -> tuple[Float64Array, BoolArray]:
        """Return given plans of AVs, (R, 40, 3), replaced by rule-based ones if not acceptable, and the mask of those.

        A plan is acceptable if its roll-out over 4 s has no collision at fault, stays on the road, has no road user
        ahead within the time to collision, and passes no red line; others must keep 0.3 m from the sides of the AV. If
        an AV hardly moves for 1 s, its plans cover less than half the distance of the rule-based ones, and these have
        no fault, the rules start it, and drive on until its plans go farther.

        Args:
            state: Current state of the AVs.
            plans: World poses at ``times_s``, finite, (R, 51, 3).
        """
        planned, chosen = self._plan(behind_view(state), np.ascontiguousarray(plans))
        return planned, chosen != GIVEN

    def _plan(self, state: TrafficState, given: Float64Array) -> tuple[Float64Array, Int64Array]:
        """Return plans of AVs, and their proposal indices; ``given`` has R plans to keep if acceptable, or none."""
        memory = self._memory_of(state)
        tracking = tracking_of(self.tracker, _NUM_PLANNED)
        filters, bounds = comfort_filters(_NUM_STEPS + 1), ComfortBounds()
        scoring = Scoring(*memory.road, tracking, filters, bounds, _NUM_STEPS, _STEP_S)
        offsets_m, parts = np.array(self.offsets_m, np.float64), np.array(self.speed_parts, np.float64)
        driving = Driving(self.params.kernel_parameters, offsets_m, parts)

        ego = state.ego
        sizes_m = np.broadcast_to(np.array(state.batch.facts.ego_extent_m[:2], np.float64), (len(ego), 2))
        egos = np.ascontiguousarray(np.column_stack([ego.positions_m, *ego.motions, sizes_m]))
        is_new = memory.kept.begin(state.scenes, state.frame_indices)

        # Agents of each scene, plus those that stood there a second ago and have disappeared. A road user has not
        # disappeared if its track continues, or another road user is at its position. A track whose class is unknown
        # now does not continue, as planners would ignore it: trackers lose the class of cars for some frames.
        scenes, buffer, tracks = state.scenes, state.buffer, state.agents.tracks
        num_back = max(round(_BACK_S / state.step_time_s), 1)
        frames = buffer.scene_starts[scenes] + np.maximum(state.buffer_frames - num_back, 0)
        past = read_agents(buffer.agents, buffer.frames[frames], tracks, scenes, state.batch.threshold)
        is_seen = np.zeros(len(tracks) + 1, np.bool_)  # the last entry is for agents without a track
        is_seen[state.agents.track_rows[state.agents.groups >= 0]] = True
        is_seen[-1] = True
        rows = _join(state.agents.scene_rows, past.scene_rows, past.track_rows, is_seen)
        now = _Now(scenes, is_new, egos, rows, state.colors)
        plans, chosen = np.empty((len(state), _NUM_STEPS, 3)), np.empty(len(state), np.int64)
        _plan_scenes(memory.known, now, given, scoring, driving, memory.path_states, plans, chosen)
        return plans, chosen

    def _memory_of(self, state: TrafficState) -> "_Memory":
        """Return the memory of the batch, which the first call creates."""
        memory: _Memory | None = state.memory.get(_MEMORY)
        if memory is None:
            memory = state.memory[_MEMORY] = _Memory(state.batch, self.unknown_limit_mps)
        return memory


class _Known(NamedTuple):
    """Data that is constant over frames: paths, highest speeds on them and at the start, number of lanes of the map."""

    paths: PathArrays
    speeds_mps: Float64Array
    first_speeds_mps: Float64Array
    num_lanes: int


class _Now(NamedTuple):
    """Current state of R scenes: which AVs are new, the AVs, (R, 8), the agents, and the lights.

    Columns of AVs are x, y, yaw, speed, acceleration, steering, length and width.
    """

    scenes: Int64Array
    is_new: BoolArray
    egos: Float64Array
    rows: SceneRows
    colors: ColorRows


class _Memory:
    """Memory of a planner for a batch: the paths, last positions of AVs on them and their offsets."""

    def __init__(self, batch: SceneBatch, unknown_limit_mps: float) -> None:
        driving_map = batch.driving_map
        if batch.road is None or driving_map is None or driving_map.num_lanes == 0:
            starts, none = np.zeros(len(batch) + 1, np.int64), np.zeros(0)
            lanes, lines = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
            paths = LanePaths(starts, np.zeros((0, 2)), np.zeros(len(batch)), starts, none, lanes, lines, none)
            num_lanes = 0
        else:
            paths = make_lane_paths(poses_of_avs(batch), driving_map, unknown_limit_mps=unknown_limit_mps)
            num_lanes = driving_map.num_lanes
        speeds_mps: Float64Array = np.empty(len(paths.points_m))
        write_highest_speeds(paths.arrays, _CURVE_MPS2, _EASY_BRAKING_MPS2, True, speeds_mps)
        first_mps: Float64Array = batch.logged_motion.speeds_mps[np.arange(len(batch)), batch.starts]
        self.known = _Known(paths.arrays, speeds_mps, first_mps, num_lanes)
        self.road = (road_arrays(driving_map), forecast_lanes(driving_map))
        self.path_states: Float64Array = np.zeros((len(batch), 3))
        self.kept = KeptStates(self.path_states)

    def __deepcopy__(self, memo: dict[int, object]) -> "_Memory":
        """Return itself: if called again in a frame, it restores its state from before that frame."""
        return self

    def forget(self, scenes: Int64Array) -> None:
        """Forget positions and offsets of the AVs of scenes."""
        self.path_states[scenes] = 0.0
        self.kept.forget(scenes)


@kernel_jit
def _plan_scenes(
    known: _Known,
    now: _Now,
    given: Float64Array,
    scoring: Scoring,
    driving: Driving,
    path_states: Float64Array,
    plans: Float64Array,
    proposals: Int64Array,
) -> None:
    """Write plans (R, T, 3) and the chosen proposals (R,) of scenes, one by one."""
    path_starts, path_ends_m = known.paths.starts, known.paths.lengths_m
    starts, groups, boxes, velocities_mps = now.rows
    ranks, lines = np.zeros(known.num_lanes, np.int64), np.empty((_MOST_LINES, 2))
    for row in range(len(now.scenes)):
        scene, ego = now.scenes[row], now.egos[row]
        agents = slice(starts[row], starts[row + 1])
        # the way along the path, with its end and lights, or straight ahead
        path_state, count, end_m = path_states[scene], 0, np.inf
        if path_starts[scene + 1] > path_starts[scene]:
            part = slice(path_starts[scene], path_starts[scene + 1])
            points_m, speeds_mps = known.paths.points_m[part], known.speeds_mps[part]
            # AVs that were planned in the frame before are searched near their last position, as paths may cross
            # themselves
            first, stop = 0, len(points_m)
            if not now.is_new[row]:
                first, stop = points_around(path_state[_LENGTH], stop)
            arc_m, offset_m, slope = find_on_path(points_m, first, stop, (ego[0], ego[1], ego[2]))
            path_state[_LENGTH] = arc_m
            front_m = arc_m + 0.5 * ego[6]
            end_m = path_ends_m[scene] - front_m
            mark_lights(now.colors, row, True, ranks)
            count = write_stop_lines(known.paths, scene, front_m, ranks, lines)
            mark_lights(now.colors, row, False, ranks)
        else:
            points_m = np.empty((_STRAIGHT_POINTS, 2))
            for point in range(_STRAIGHT_POINTS):
                points_m[point, 0] = ego[0] + point * PATH_STEP_M * np.cos(ego[2])
                points_m[point, 1] = ego[1] + point * PATH_STEP_M * np.sin(ego[2])
            speeds_mps = np.full(len(points_m), known.first_speeds_mps[scene])
            arc_m, offset_m, slope = 0.0, 0.0, 0.0
        # length over which the AV moves onto a line beside it
        fade_m = max(_FADE_S * ego[3], _SHORTEST_FADE_M)
        way = Way(points_m, speeds_mps, arc_m, offset_m, slope, fade_m)
        # the best proposal, or the given plan
        seen = Agents(boxes[agents], velocities_mps[agents], groups[agents])
        situation = see(way, ego, end_m, lines[:count], seen, scoring)
        if len(given) == 0:
            chosen, _ = plan_scene(situation, scoring, driving, path_state[_SHIFT], plans[row])
        else:
            last, own = (path_state[_SHIFT], path_state[_WAITS]), given[row : row + 1]
            chosen, path_state[_WAITS] = keep_or_plan(own, situation, scoring, driving, last, plans[row])
        proposals[row] = chosen
        if chosen >= 0:
            path_state[_SHIFT] = driving.shifts_m[chosen // len(driving.parts)]


_BACK_S = 1.0


@kernel_jit
def _join(now: SceneRows, past: SceneRows, past_tracks: Int64Array, is_seen: BoolArray) -> SceneRows:
    """Return the current rows with those of the past that have disappeared."""
    size = len(now.groups) + len(past.groups)
    starts, groups = np.zeros(len(now.starts), np.int64), np.empty(size, np.int64)
    boxes, velocities_mps = np.empty((size, 5)), np.empty((size, 2))
    count = 0
    for scene in range(len(starts) - 1):
        own = slice(now.starts[scene], now.starts[scene + 1])
        end = count + own.stop - own.start
        groups[count:end], boxes[count:end], velocities_mps[count:end] = (
            now.groups[own],
            now.boxes[own],
            now.velocities_mps[own],
        )
        count = end
        for row in range(past.starts[scene], past.starts[scene + 1]):
            velocity = past.velocities_mps[row]
            stood = velocity[0] * velocity[0] + velocity[1] * velocity[1] < STATIONARY_MPS * STATIONARY_MPS
            is_gone = past.groups[row] >= 0 and stood and not is_seen[past_tracks[row]]
            # nor is another road user there now
            for other in range(own.start, own.stop):
                is_gone = is_gone and not (now.groups[other] >= 0 and boxes_overlap(past.boxes[row], now.boxes[other]))
            if is_gone:
                groups[count], boxes[count], velocities_mps[count] = past.groups[row], past.boxes[row], 0.0
                count += 1
        starts[scene + 1] = count
    return SceneRows(starts, groups[:count], boxes[:count], velocities_mps[:count])

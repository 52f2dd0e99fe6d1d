"""Score of a drive: the table of metrics, their values in scenes and windows, and one score for each scene."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.evaluation.driving.collisions import Collisions, count_at_fault, find_collisions, no_at_fault_collisions
from l5kit.evaluation.driving.comfort import comfort_of_frames, find_comfort_signals, is_comfortable
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.lane_positions import find_lane_positions
from l5kit.evaluation.driving.map_scores import (
    MOST_OFF_ROAD_M,
    TOLERATED_BACKWARD_M,
    drivable_area_compliance,
    driving_direction_compliance,
    find_distances_off_road,
    find_progress_along_lanes,
    find_speed_excess,
    limits_of_lanes,
    speed_limit_compliance,
    sum_over_last_second,
)
from l5kit.evaluation.driving.metric import MULTIPLIER, Fault, Metric, MetricFacts, combine
from l5kit.evaluation.driving.road_users import RoadUsers
from l5kit.evaluation.driving.route_progress import (
    expert_progress_ratio,
    find_progress,
    find_routes,
    making_progress,
)
from l5kit.evaluation.driving.time_to_collision import LookAhead, find_times_to_collision, time_to_collision
from l5kit.geometry.box_overlap import box_gap
from l5kit.lanes.driving_map import DrivingMap


@dataclass(frozen=True, eq=False)
class WindowScores(ReadOnlyArrays):
    """Scores of W windows of scenes.

    Attributes:
        scenes: Scene of each window, (W,).
        frames: First frame of each window, counted in the scored frames of its scene, (W,).
        planned: Planned share of a window: 1 for a plan of the whole window, less for a shorter plan, which continues
            with the speed and yaw rate of its end, 0 for what was driven, (W,).
        scores: Scores, 0 to 1, (W,).
        terms: Terms of the scores by name, 0 to 1, NaN where a term does not apply, (W,) each.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    scenes: Int64Array
    frames: Int64Array
    planned: Float64Array
    scores: Float64Array
    terms: Mapping[str, Float64Array]

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.scenes.shape
        require_shapes(self, frames=shape, planned=shape, scores=shape)


@dataclass(frozen=True, eq=False)
class SceneScores(ReadOnlyArrays):
    """The metrics of S scenes, 0 to 1, NaN where a metric does not apply, float64 (S,).

    Attributes:
        no_at_fault_collisions: 0, 0.5 or 1.
        drivable_area_compliance: 0 or 1.
        making_progress: 0 or 1.
        driving_direction_compliance: 0, 0.5 or 1.
        progress: 0 to 1.
        time_to_collision: 0 or 1.
        speed_limit_compliance: 0 to 1.
        comfort: 0 or 1.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    no_at_fault_collisions: Float64Array
    drivable_area_compliance: Float64Array
    making_progress: Float64Array
    driving_direction_compliance: Float64Array
    progress: Float64Array
    time_to_collision: Float64Array
    speed_limit_compliance: Float64Array
    comfort: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.no_at_fault_collisions.shape[:1]
        require_shapes(self, **{field.name: shape for field in fields(self)})

    @property
    def score(self) -> Float64Array:
        """The score of each scene by the roles of :data:`METRICS`, 0 to 1, (S,); see :func:`combine`."""
        return combine({field.name: getattr(self, field.name) for field in fields(self)}, METRICS)


@dataclass(frozen=True, eq=False)
class SceneDetails(ReadOnlyArrays):
    """S scenes of up to F frames, and the frame values that their metrics are computed from.

    It is the argument of the functions of a :class:`~l5kit.evaluation.driving.metric.Metric`. Values that need a map
    are NaN without one.

    Attributes:
        states: The drive of the AV.
        road_users: The road users in the same frames.
        expert: The drive of the log in the same scenes, of any number of frames.
        driving_map: The map; None without one.
        collisions: Collisions with each row of the road users.
        counts_at_fault: Numbers of vehicles, vulnerable road users and other objects with which the AV collides at
            fault, int64 (S, F, 3).
        times_to_collision_s: Times to collision, infinite for none, float64 (S, F).
        is_comfortable: Whether all signals of comfort are within their bounds, bool (S, F).
        distances_off_road_m: Distance of the farthest corner from the drivable surface, infinite from half a metre on,
            (S, F).
        distances_along_lanes_m: Progress along the lanes in the last second, negative against them, (S, F).
        speed_limits_mps: Speed limit of the lane of the AV, NaN for none, (S, F).
        speed_excess_mps: Excess over the speed limit, (S, F).
        progress_m: Progress along the route of the expert since the previous frame, (S, F).
        expert_progress_m: Progress of the expert in its own frames, (S, any).
        windows: Windows of the scenes, scored by EPDMS; None if not requested.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    states: EgoStates
    road_users: RoadUsers
    expert: EgoStates
    driving_map: DrivingMap | None
    collisions: Collisions
    counts_at_fault: Int64Array
    times_to_collision_s: Float64Array
    is_comfortable: BoolArray
    distances_off_road_m: Float64Array
    distances_along_lanes_m: Float64Array
    speed_limits_mps: Float64Array
    speed_excess_mps: Float64Array
    progress_m: Float64Array
    expert_progress_m: Float64Array
    windows: WindowScores | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.is_comfortable.shape
        require_shapes(self, counts_at_fault=(*shape, self.counts_at_fault.shape[-1]))
        require_shapes(self, **dict.fromkeys(("times_to_collision_s", *_OF_MAP), shape))

    @cached_property
    def scores(self) -> SceneScores:
        """The metrics of :data:`METRICS`."""
        frames = np.full(self.states.is_there.shape, np.nan)  # their rules ignore the values of frames
        return SceneScores(**{metric.name: metric.fold(self, frames) for metric in METRICS})

    @property
    def progress_ratios(self) -> Float64Array:
        """Distance of the AV along the route as a share of that of the log, 0 to 1, (S,)."""
        return expert_progress_ratio(self.progress_m, self.expert_progress_m)

    @property
    def failures(self) -> dict[str, BoolArray]:
        """The failing frames of each metric, (S, F); metrics without frame values, such as progress, have none."""
        return {metric.name: metric.judge(self)[2] for metric in METRICS if metric.fault is not None}

    @property
    def gaps_m(self) -> Float64Array:
        """Distance in metres between the boxes of the AV and of each road user, 0 if they overlap, (N,)."""
        egos = self.states.boxes.reshape(-1, 5)[self.road_users.frames_of_rows]
        gaps_m = np.empty(len(egos))
        _write_gaps(egos, self.road_users.boxes, gaps_m)
        return gaps_m

    def least_of_rows(self, values: Float64Array) -> Float64Array:
        """Return the minimum over the road users of each frame of values (N,), infinite without any, (S, F)."""
        least = np.full(self.states.is_there.size, np.inf)
        np.minimum.at(least, self.road_users.frames_of_rows, values)
        return least.reshape(self.states.is_there.shape)


@kernel_jit
def _write_gaps(egos: Float64Array, others: Float64Array, gaps_m: Float64Array) -> None:
    """Write the gap between each pair of boxes, (N, 5)."""
    for row in range(len(gaps_m)):
        gaps_m[row] = box_gap(egos[row], others[row])


FARTHEST_OFF_ROAD_M = 0.5
"""Upper limit of distances from the road."""

_OF_MAP = ("distances_off_road_m", "distances_along_lanes_m", "speed_limits_mps", "speed_excess_mps", "progress_m")


def score_scenes(
    states: EgoStates, road_users: RoadUsers, driving_map: DrivingMap | None, *, expert: EgoStates
) -> SceneScores:
    """Return the metrics of scenes, with one ``score`` for each; see :func:`detail_scenes`."""
    return detail_scenes(states, road_users, driving_map, expert=expert).scores


def detail_scenes(
    states: EgoStates, road_users: RoadUsers, driving_map: DrivingMap | None, *, expert: EgoStates
) -> SceneDetails:
    """Return the metrics of scenes, with the frame values that they are computed from.

    Args:
        states: The drive of the AV in S scenes.
        road_users: The road users in the same frames.
        driving_map: The map; without one, drivable area, driving direction, progress and speed limit do not apply, and
            a lateral collision is never at fault.
        expert: The drive of the log in the same scenes, of any number of frames.

    Raises:
        InvalidArgumentError: The road users have another number of frames, or the expert another number of scenes.
    """
    if expert.num_scenes != states.num_scenes:
        raise InvalidArgumentError(
            f"expert must have {states.num_scenes} scenes like states, got {expert.num_scenes}; pass the log of each"
        )
    lane_positions = find_lane_positions(states, driving_map)
    collisions = find_collisions(states, road_users, lane_positions)
    counts = count_at_fault(states, road_users, collisions)
    times_s = find_times_to_collision(states, road_users, lane_positions, collisions)
    is_fine = is_comfortable(find_comfort_signals(states))

    # unknown without a map
    of_map = dict.fromkeys(_OF_MAP, np.full(states.is_there.shape, np.nan))
    of_map["expert_progress_m"] = np.full(expert.is_there.shape, np.nan)
    if driving_map is not None:
        expert_lane_positions = find_lane_positions(expert, driving_map)
        routes = find_routes(expert_lane_positions, driving_map, expert=expert)
        limits_mps = limits_of_lanes(driving_map, lane_positions.lanes)
        along_m = find_progress_along_lanes(states, driving_map, lane_positions)
        of_map = {
            "distances_off_road_m": find_distances_off_road(states, driving_map),
            "distances_along_lanes_m": sum_over_last_second(along_m, states),
            "speed_limits_mps": limits_mps,
            "speed_excess_mps": find_speed_excess(states, limits_mps),
            "progress_m": find_progress(states, lane_positions, routes=routes, driving_map=driving_map),
            "expert_progress_m": find_progress(expert, expert_lane_positions, routes=routes, driving_map=driving_map),
        }
    return SceneDetails(
        states, road_users, expert, driving_map, collisions, counts, times_s, is_fine, windows=None, **of_map
    )


METRICS = (
    Metric(
        name="no_at_fault_collisions",
        label="No collision at fault",
        sentence="1 without a collision at fault; 0.5 with a single one, with an object that is no road user; else 0",
        role=MULTIPLIER,
        of_frames=lambda details: details.counts_at_fault.sum(axis=-1).astype(np.float64),
        of_scenes=lambda details, _: no_at_fault_collisions(details.counts_at_fault),
        column="collision_at_fault",
        fault=Fault(">", 0.0, "collision_at_fault", "Collision, at fault"),
        passes_from=1.0,
        failure="collision",
    ),
    Metric(
        name="drivable_area_compliance",
        label="Stays on the road",
        sentence="1 if no corner of the AV is 0.3 m or more off the drivable surface, else 0",
        role=MULTIPLIER,
        needs_map=True,
        of_frames=lambda details: np.minimum(details.distances_off_road_m, FARTHEST_OFF_ROAD_M),
        of_scenes=lambda details, _: drivable_area_compliance(details.distances_off_road_m),
        column="distance_off_road_m",
        fault=Fault(">=", MOST_OFF_ROAD_M, "off_road", "Off road"),
        counted_as="frames_off_road",
        passes_from=1.0,
        failure="off road",
    ),
    Metric(
        name="making_progress",
        label="Makes progress",
        sentence="1 if the AV gets at least a fifth as far along the route as the log, else 0",
        role=MULTIPLIER,
        needs_map=True,
        of_scenes=lambda details, _: making_progress(details.progress_ratios),
        passes_from=1.0,
        failure="no progress",
    ),
    Metric(
        name="driving_direction_compliance",
        label="Drives in direction",
        sentence="1 if the AV drives less than 2 m against its lane within a second, 0.5 below 6 m, else 0",
        role=MULTIPLIER,
        needs_map=True,
        of_frames=lambda details: details.distances_along_lanes_m,
        of_scenes=lambda details, _: driving_direction_compliance(details.distances_along_lanes_m),
        column="way_along_lanes_m",
        fault=Fault("<=", -TOLERATED_BACKWARD_M[0], "wrong_direction", "Wrong direction"),
        counted_as="frames_wrong_way",
        passes_from=1.0,
        failure="wrong way",
    ),
    Metric(
        name="progress",
        label="Progress",
        sentence="distance of the AV along the route of the log, as a share of that of the log, at most 1",
        role=5.0,
        needs_map=True,
        of_scenes=lambda details, _: details.progress_ratios,
    ),
    Metric(
        name="time_to_collision",
        label="Time to collision",
        sentence="1 if the time to collision at constant velocities is always above 0.95 s, else 0",
        role=5.0,
        of_frames=lambda details: details.times_to_collision_s,
        of_scenes=lambda details, _: time_to_collision(details.times_to_collision_s),
        column="time_to_collision_s",
        fault=Fault("<=", LookAhead().least_s, "time_to_collision", "Too close (time to collision)"),
        counted_as="frames_near_collision",
        passes_from=1.0,
        failure="too close",
    ),
    Metric(
        name="speed_limit_compliance",
        label="Speed limit",
        sentence="1 minus the mean excess over the speed limit divided by 2.23 m/s, at least 0",
        role=4.0,
        needs_map=True,
        of_frames=lambda details: details.speed_excess_mps,
        of_scenes=lambda details, _: speed_limit_compliance(details.speed_excess_mps, details.states),
        column="speed_excess_mps",
        fault=Fault(">", 1e-6, "speeding", "Too fast"),  # tolerate rounding
        counted_as="frames_too_fast",
        passes_from=0.995,  # shown with two digits as less than 1
        failure="too fast",
    ),
    Metric(
        name="comfort",
        label="Comfort",
        sentence="1 if accelerations, jerks and yaw rates stay within their bounds, else 0",
        role=2.0,
        of_frames=lambda details: details.is_comfortable.astype(np.float64),
        of_scenes=lambda details, _: comfort_of_frames(details.is_comfortable, details.states),
        column="is_comfortable",
        fault=Fault("<", 1.0, "comfort", "Uncomfortable"),
        counted_as="frames_uncomfortable",
        passes_from=1.0,
        failure="uncomfortable",
    ),
)
"""The metrics of the published nuPlan score, in the order of tables."""


def read_facts(scores: Mapping[str, Any]) -> tuple[MetricFacts, ...]:
    """Return the metrics described in ``scores.json``, or :data:`METRICS` if an earlier l5kit wrote it.

    Raises:
        CorruptedDataError: The descriptions are not those of :meth:`MetricFacts.as_json`.
    """
    facts = scores.get("about_metrics")
    if facts is None:
        return METRICS
    try:
        return tuple(MetricFacts.of_json(each) for each in facts)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptedDataError(f"about_metrics of scores.json cannot be read: {error}") from error

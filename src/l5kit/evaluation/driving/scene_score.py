"""Score of a drive: all metrics of scenes, and one number for each."""

from dataclasses import dataclass, fields

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.collisions import Collisions, count_at_fault, find_collisions, no_at_fault_collisions
from l5kit.evaluation.driving.comfort import comfort_of_frames, find_comfort_signals, is_comfortable
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.lane_places import LanePlaces, find_lane_places
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
from l5kit.evaluation.driving.road_users import RoadUsers
from l5kit.evaluation.driving.route_progress import (
    expert_progress_ratio,
    find_progress,
    find_routes,
    making_progress,
)
from l5kit.evaluation.driving.time_to_collision import LookAhead, find_times_to_collision, time_to_collision
from l5kit.lanes.driving_map import DrivingMap

__all__ = [
    "MAP_METRICS",
    "METRICS",
    "METRIC_WEIGHTS",
    "MULTIPLIERS",
    "SceneDetails",
    "SceneScores",
    "detail_scenes",
    "score_scenes",
]

MULTIPLIERS = (
    "no_at_fault_collisions",
    "drivable_area_compliance",
    "making_progress",
    "driving_direction_compliance",
)
"""The metrics that multiply the score of a scene."""

METRIC_WEIGHTS = {
    "expert_progress_ratio": 5.0,
    "time_to_collision": 5.0,
    "speed_limit_compliance": 4.0,
    "comfort": 2.0,
}
"""The metrics whose weighted mean is multiplied, and their weights."""

MAP_METRICS = (
    *("drivable_area_compliance", "driving_direction_compliance", "speed_limit_compliance"),
    *("expert_progress_ratio", "making_progress"),
)
"""The metrics that need a map."""

METRICS = {
    "no_at_fault_collisions": "no_at_fault_collisions",
    "drivable_area_compliance": "drivable_area_compliance",
    "making_progress": "making_progress",
    "driving_direction_compliance": "driving_direction_compliance",
    "progress": "expert_progress_ratio",
    "time_to_collision": "time_to_collision",
    "speed_limit_compliance": "speed_limit_compliance",
    "comfort": "comfort",
}
"""The metrics by their names in files, and what they are called in :class:`SceneScores`."""


@dataclass(frozen=True, eq=False)
class SceneScores(ReadOnlyArrays):
    """The metrics of S scenes, each from 0 to 1, NaN where it does not apply, float64 (S,).

    Attributes:
        no_at_fault_collisions: 0, 0.5 or 1.
        drivable_area_compliance: 0 or 1.
        making_progress: 0 or 1.
        driving_direction_compliance: 0, 0.5 or 1.
        expert_progress_ratio: 0 to 1.
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
    expert_progress_ratio: Float64Array
    time_to_collision: Float64Array
    speed_limit_compliance: Float64Array
    comfort: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.no_at_fault_collisions.shape[:1]
        require_shapes(self, **{field.name: shape for field in fields(self)})

    @property
    def score(self) -> Float64Array:
        """The product of the multipliers times the weighted mean of the others, 0 to 1, (S,).

        A multiplier that does not apply counts as 1, the weight of a metric that does not is left out.
        """
        product = np.stack([getattr(self, name) for name in MULTIPLIERS])
        metrics = np.stack([getattr(self, name) for name in METRIC_WEIGHTS])
        weights = np.array(list(METRIC_WEIGHTS.values()))[:, None] * ~np.isnan(metrics)
        total = weights.sum(axis=0)
        means = np.divide(
            (weights * np.nan_to_num(metrics)).sum(axis=0), total, out=np.full(len(total), np.nan), where=total > 0
        )
        scores: Float64Array = np.where(np.isnan(product), 1.0, product).prod(axis=0) * means
        return scores


@dataclass(frozen=True, eq=False)
class SceneDetails(ReadOnlyArrays):
    """The metrics of S scenes, and the values of their F frames that they come from; what needs a map is NaN without.

    Attributes:
        scores: The metrics.
        collisions: What became of each row of the road users.
        counts_at_fault: With how many vehicles, vulnerable road users and other objects the AV collides at fault, int64
            (S, F, 3).
        times_to_collision_s: Infinite where nobody is met, float64 (S, F).
        is_comfortable: Whether all signals are within their bounds, bool (S, F).
        distances_off_road_m: Of the farthest corner from the drivable surface, infinite from half a metre on, (S, F).
        ways_along_lanes_m: Progress along the lanes in the last second, negative against them, (S, F).
        speed_limits_mps: Of the lane that the AV is on, NaN where there is none, (S, F).
        speed_excess_mps: How much faster than that it is, (S, F).
        progress_m: Along the route of the expert since the frame before, (S, F).
        expert_progress_m: The same of the expert in its own frames, (S, any).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    scores: SceneScores
    collisions: Collisions
    counts_at_fault: Int64Array
    times_to_collision_s: Float64Array
    is_comfortable: BoolArray
    distances_off_road_m: Float64Array
    ways_along_lanes_m: Float64Array
    speed_limits_mps: Float64Array
    speed_excess_mps: Float64Array
    progress_m: Float64Array
    expert_progress_m: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.is_comfortable.shape
        require_shapes(self, counts_at_fault=(*shape, self.counts_at_fault.shape[-1]))
        require_shapes(self, **dict.fromkeys(("times_to_collision_s", *_OF_MAP), shape))

    @property
    def failures(self) -> dict[str, BoolArray]:
        """By metric, the frames that lower it, (S, F) each; progress is not lost in single frames."""
        return {
            "no_at_fault_collisions": self.counts_at_fault.sum(axis=-1) > 0,
            "drivable_area_compliance": self.distances_off_road_m >= MOST_OFF_ROAD_M,
            "driving_direction_compliance": self.ways_along_lanes_m <= -TOLERATED_BACKWARD_M[0],
            "time_to_collision": self.times_to_collision_s <= LookAhead().least_s,
            "speed_limit_compliance": self.speed_excess_mps > _ROUNDING_MPS,
            "comfort": ~self.is_comfortable & ~np.isnan(self.scores.comfort)[:, None],
        }


_ROUNDING_MPS = 1e-6
"""An excess of rounding only is none that a frame is told of."""

_OF_MAP = ("distances_off_road_m", "ways_along_lanes_m", "speed_limits_mps", "speed_excess_mps", "progress_m")


def score_scenes(
    states: EgoStates, road_users: RoadUsers, driving_map: DrivingMap | None, *, expert: EgoStates
) -> SceneScores:
    """Return the metrics of scenes and, as ``score``, one number for each; see :func:`detail_scenes`."""
    return detail_scenes(states, road_users, driving_map, expert=expert).scores


def detail_scenes(
    states: EgoStates, road_users: RoadUsers, driving_map: DrivingMap | None, *, expert: EgoStates
) -> SceneDetails:
    """Return the metrics of scenes, with the values of the frames that they come from.

    Args:
        states: How the AV drove in S scenes.
        road_users: The others in the same frames.
        driving_map: The map; without one drivable area, driving direction, progress and speed limit do not apply, and
            a lateral collision is never at fault.
        expert: How the log drove in the same scenes, of any number of frames.

    Raises:
        InvalidArgumentError: The road users are those of another number of frames, or the expert of other scenes.
    """
    if expert.num_scenes != states.num_scenes:
        raise InvalidArgumentError(
            f"expert must have {states.num_scenes} scenes like states, got {expert.num_scenes}; pass the log of each"
        )
    places = find_lane_places(states, driving_map)
    collisions = find_collisions(states, road_users, places)
    counts = count_at_fault(states, road_users, collisions)
    times_s = find_times_to_collision(states, road_users, places, collisions)
    is_fine = is_comfortable(find_comfort_signals(states))
    of_map = _values_of_map(states, places, driving_map, expert=expert)
    scores = SceneScores(
        no_at_fault_collisions=no_at_fault_collisions(counts),
        time_to_collision=time_to_collision(times_s),
        comfort=comfort_of_frames(is_fine, states),
        **_scores_of_map(of_map, states, has_map=driving_map is not None),
    )
    return SceneDetails(scores, collisions, counts, times_s, is_fine, **of_map)


def _values_of_map(
    states: EgoStates, places: LanePlaces, driving_map: DrivingMap | None, *, expert: EgoStates
) -> dict[str, Float64Array]:
    """Return the values of frames that need a map, NaN without one."""
    if driving_map is None:
        unknown = np.full(states.is_there.shape, np.nan)
        return dict.fromkeys(_OF_MAP, unknown) | {"expert_progress_m": np.full(expert.is_there.shape, np.nan)}
    expert_places = find_lane_places(expert, driving_map)
    routes = find_routes(expert_places, driving_map, expert=expert)
    limits_mps = limits_of_lanes(driving_map, places.lanes)
    return {
        "distances_off_road_m": find_distances_off_road(states, driving_map),
        "ways_along_lanes_m": sum_over_last_second(find_progress_along_lanes(states, driving_map, places), states),
        "speed_limits_mps": limits_mps,
        "speed_excess_mps": find_speed_excess(states, limits_mps),
        "progress_m": find_progress(states, places, routes=routes, driving_map=driving_map),
        "expert_progress_m": find_progress(expert, expert_places, routes=routes, driving_map=driving_map),
    }


def _scores_of_map(values: dict[str, Float64Array], states: EgoStates, *, has_map: bool) -> dict[str, Float64Array]:
    """Return the metrics that need a map, NaN without one."""
    if not has_map:
        return dict.fromkeys(MAP_METRICS, np.full(states.num_scenes, np.nan))
    ratios = expert_progress_ratio(values["progress_m"], values["expert_progress_m"])
    return {
        "drivable_area_compliance": drivable_area_compliance(values["distances_off_road_m"]),
        "driving_direction_compliance": driving_direction_compliance(values["ways_along_lanes_m"]),
        "speed_limit_compliance": speed_limit_compliance(values["speed_excess_mps"], states),
        "expert_progress_ratio": ratios,
        "making_progress": making_progress(ratios),
    }

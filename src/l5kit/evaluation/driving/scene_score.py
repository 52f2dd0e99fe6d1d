"""Score of a drive: all metrics of scenes, and one number for each."""

from dataclasses import dataclass, fields

import numpy as np

from l5kit._types import Float64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.collisions import count_at_fault, find_collisions, no_at_fault_collisions
from l5kit.evaluation.driving.comfort import comfort
from l5kit.evaluation.driving.driving_map import DrivingMap
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.lane_places import LanePlaces, find_lane_places
from l5kit.evaluation.driving.map_scores import (
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
from l5kit.evaluation.driving.time_to_collision import find_times_to_collision, time_to_collision

__all__ = ["METRIC_WEIGHTS", "MULTIPLIERS", "SceneScores", "score_scenes"]

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


def score_scenes(
    states: EgoStates, road_users: RoadUsers, driving_map: DrivingMap | None, *, expert: EgoStates
) -> SceneScores:
    """Return the metrics of scenes and, as ``score``, one number for each.

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
    times_s = find_times_to_collision(states, road_users, places, collisions)
    return SceneScores(
        no_at_fault_collisions=no_at_fault_collisions(count_at_fault(states, road_users, collisions)),
        time_to_collision=time_to_collision(times_s),
        comfort=comfort(states),
        **_map_scores(states, places, driving_map, expert=expert),
    )


def _map_scores(
    states: EgoStates, places: LanePlaces, driving_map: DrivingMap | None, *, expert: EgoStates
) -> dict[str, Float64Array]:
    """Return the metrics that need a map, NaN without one."""
    if driving_map is None:
        names = ("drivable_area_compliance", "driving_direction_compliance", "speed_limit_compliance")
        return dict.fromkeys((*names, "expert_progress_ratio", "making_progress"), np.full(states.num_scenes, np.nan))
    expert_places = find_lane_places(expert, driving_map)
    routes = find_routes(expert_places, driving_map)
    ratios = expert_progress_ratio(
        find_progress(states, places, routes=routes, driving_map=driving_map),
        find_progress(expert, expert_places, routes=routes, driving_map=driving_map),
    )
    backward_m = sum_over_last_second(find_progress_along_lanes(states, driving_map, places), states)
    excess_mps = find_speed_excess(states, limits_of_lanes(driving_map, places.lanes))
    return {
        "drivable_area_compliance": drivable_area_compliance(find_distances_off_road(states, driving_map)),
        "driving_direction_compliance": driving_direction_compliance(backward_m),
        "speed_limit_compliance": speed_limit_compliance(excess_mps, states),
        "expert_progress_ratio": ratios,
        "making_progress": making_progress(ratios),
    }

"""Metric sets of the environment: closed-loop driving, and the two errors of the displacement reward."""

from l5kit.cle.composite_metrics import (
    DrivenMilesCompositeMetric,
    PassedDrivenMilesCompositeMetric,
    SupportsCompositeMetricCompute,
)
from l5kit.cle.metric_set import L5MetricSet
from l5kit.cle.metrics import (
    CollisionFrontMetric,
    CollisionRearMetric,
    CollisionSideMetric,
    DisplacementErrorL2Metric,
    DistanceToRefTrajectoryMetric,
    ReplayDrivenMilesMetric,
    SimulatedDrivenMilesMetric,
    SimulatedVsRecordedEgoSpeedMetric,
    SupportsMetricCompute,
    YawErrorCAMetric,
)
from l5kit.cle.validators import DurationMode, RangeValidator, SupportsMetricValidate

__all__ = ["CLEMetricSet", "L2DisplacementYawMetricSet"]

_COLLISIONS = ("collision_front", "collision_side", "collision_rear")

_LIMITS: dict[str, tuple[type[SupportsMetricCompute], float]] = {
    "displacement_error_l2": (DisplacementErrorL2Metric, 30),
    "distance_ref_trajectory": (DistanceToRefTrajectoryMetric, 4),
    "collision_front": (CollisionFrontMetric, 0),
    "collision_rear": (CollisionRearMetric, 0),
    "collision_side": (CollisionSideMetric, 0),
}
"""Metric and upper limit by name of the validator; metres, or a number of collisions."""


class L2DisplacementYawMetricSet(L5MetricSet):
    """Metric set of the errors of position and heading.

    Args:
        metric_prefix: Name of the set in logs.
    """

    def __init__(self, metric_prefix: str = "L2DisplacementYaw") -> None:
        super().__init__(metric_prefix)

    def build_metrics(self) -> list[SupportsMetricCompute]:
        """Return the metrics ``displacement_error_l2`` and ``yaw_error_closest_angle``."""
        return [DisplacementErrorL2Metric(), YawErrorCAMetric()]


class CLEMetricSet(L5MetricSet):
    """Metric set of closed-loop driving: distances, collisions, speed and miles.

    A collision or a large displacement ends the miles that count as passed. A large distance from the recorded
    trajectory is an intervention, too, but does not end them: it only makes all other validators pass, as in L5Kit 1.5.

    Args:
        metric_prefix: Name of the set in logs.
    """

    def __init__(self, metric_prefix: str = "CLE") -> None:
        super().__init__(metric_prefix)

    def build_metrics(self) -> list[SupportsMetricCompute]:
        """Return the eight metrics."""
        return [
            DisplacementErrorL2Metric(),
            DistanceToRefTrajectoryMetric(),
            CollisionFrontMetric(),
            CollisionRearMetric(),
            CollisionSideMetric(),
            SimulatedVsRecordedEgoSpeedMetric(),
            SimulatedDrivenMilesMetric(),
            ReplayDrivenMilesMetric(),
        ]

    def build_validators(self) -> list[SupportsMetricValidate]:
        """Return the validators of distances in metres, of collisions, and of speed in metres per second."""
        return [
            *(RangeValidator(name, metric, max_value=limit) for name, (metric, limit) in _LIMITS.items()),
            _speed_validator("passive_ego", min_value=-5.0),
            _speed_validator("aggressive_ego", max_value=5.0),
        ]

    def get_validator_interventions(self) -> list[str]:
        """Return the names of the validators of distances and collisions."""
        return list(_LIMITS)

    def build_composite_metrics(self) -> list[SupportsCompositeMetricCompute]:
        """Return the miles passed and in total, of the simulated AV and of the recorded one."""
        ends = [*_COLLISIONS, "displacement_error_l2"]
        simulated, replay = SimulatedDrivenMilesMetric, ReplayDrivenMilesMetric
        return [
            PassedDrivenMilesCompositeMetric("passed_driven_miles_simulated", ends, simulated),
            PassedDrivenMilesCompositeMetric("passed_driven_miles_replay", ends, replay),
            DrivenMilesCompositeMetric("total_driven_miles_simulated", simulated),
            DrivenMilesCompositeMetric("total_driven_miles_replay", replay),
        ]


def _speed_validator(name: str, *, min_value: float | None = None, max_value: float | None = None) -> RangeValidator:
    return RangeValidator(
        name,
        SimulatedVsRecordedEgoSpeedMetric,
        min_value=min_value,
        max_value=max_value,
        violation_duration_s=2.3,
        duration_mode=DurationMode.CONTINUOUS,
    )

"""Metric sets of the environment: closed-loop driving as a whole, and the two errors that its reward is made of."""

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

    The miles that count as passed end with a collision or a large displacement. Far from the recorded trajectory is an
    intervention as well and ends them only in that no other validator fails then, as in L5Kit 1.5.

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
            RangeValidator("displacement_error_l2", DisplacementErrorL2Metric, max_value=30),
            RangeValidator("distance_ref_trajectory", DistanceToRefTrajectoryMetric, max_value=4),
            RangeValidator("collision_front", CollisionFrontMetric, max_value=0),
            RangeValidator("collision_rear", CollisionRearMetric, max_value=0),
            RangeValidator("collision_side", CollisionSideMetric, max_value=0),
            _speed_validator("passive_ego", min_value=-5.0),
            _speed_validator("aggressive_ego", max_value=5.0),
        ]

    def get_validator_interventions(self) -> list[str]:
        """Return the names of the validators of distances and collisions."""
        return [
            "displacement_error_l2",
            "distance_ref_trajectory",
            "collision_front",
            "collision_rear",
            "collision_side",
        ]

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

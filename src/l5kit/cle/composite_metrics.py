"""Composite metrics: one number for each simulated scene, from metrics and validators, and their sums over scenes."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Protocol

import torch

from l5kit.cle.metrics import SimulatedDrivenMilesMetric, SupportsMetricCompute
from l5kit.cle.scored_scene import SimulatedSceneLike
from l5kit.cle.validators import ValidatorOutput
from l5kit.errors import InvalidArgumentError

__all__ = [
    "CompositeMetricAggregator",
    "DrivenMilesCompositeMetric",
    "PassedDrivenMilesCompositeMetric",
    "ReduceMode",
    "SupportsCompositeMetricAggregation",
    "SupportsCompositeMetricCompute",
]

SceneComposites = Mapping[int, Mapping[str, float]]
"""Values of composite metrics by scene id and name."""


class SupportsCompositeMetricCompute(Protocol):
    """A composite metric; users write subclasses of this, or any class with the same members.

    Attributes:
        composite_metric_name: Name of its values in results.
        requires_metric: Names of the metrics whose values it receives.
        requires_validator: Names of the validators whose outputs it receives.
    """

    composite_metric_name: str
    requires_metric: list[str]
    requires_validator: list[str]

    def compute(
        self,
        metric_results: dict[str, torch.Tensor],
        validation_results: dict[str, ValidatorOutput],
        simulation_output: SimulatedSceneLike,
    ) -> float:
        """Return the value of a scene.

        Args:
            metric_results: Values of the required metrics by name.
            validation_results: Outputs of the required validators by name.
            simulation_output: Output of the simulation of the scene.
        """


class PassedDrivenMilesCompositeMetric(SupportsCompositeMetricCompute):
    """Miles driven before the first frame that fails any of some validators; the whole scene if none fails.

    Args:
        composite_metric_name: Name of its values in results.
        intervention_validators: Names of the validators; repeated names count once.
        driven_miles_metric: Class of the metric of miles per frame, or an object of it.
        ignore_entire_scene: Whether a scene with a failed frame counts 0.
    """

    def __init__(
        self,
        composite_metric_name: str,
        intervention_validators: list[str],
        driven_miles_metric: type[SupportsMetricCompute] | SupportsMetricCompute = SimulatedDrivenMilesMetric,
        ignore_entire_scene: bool = False,
    ) -> None:
        self.composite_metric_name = composite_metric_name
        self.intervention_validators = intervention_validators
        self.driven_miles_metric_name = driven_miles_metric.metric_name
        self.requires_metric = [self.driven_miles_metric_name]
        self.requires_validator = list(dict.fromkeys(intervention_validators))
        self.ignore_entire_scene = ignore_entire_scene

    def compute(
        self,
        metric_results: dict[str, torch.Tensor],
        validation_results: dict[str, ValidatorOutput],
        simulation_output: SimulatedSceneLike,  # noqa: ARG002 - others need it
    ) -> float:
        """Return the miles of a scene; arguments as in :class:`SupportsCompositeMetricCompute`."""
        miles = metric_results[self.driven_miles_metric_name]
        failed = [frame for name in self.requires_validator for frame in validation_results[name].failed_frames]
        if not failed:
            return float(miles.sum())
        # the miles of a frame are driven before it, so those of the first failed frame do not count
        return 0.0 if self.ignore_entire_scene else float(miles[: min(failed)].sum())


class DrivenMilesCompositeMetric(SupportsCompositeMetricCompute):
    """Miles driven in a scene.

    Args:
        composite_metric_name: Name of its values in results.
        driven_miles_metric: Class of the metric of miles per frame, or an object of it.
    """

    def __init__(
        self,
        composite_metric_name: str,
        driven_miles_metric: type[SupportsMetricCompute] | SupportsMetricCompute = SimulatedDrivenMilesMetric,
    ) -> None:
        self.composite_metric_name = composite_metric_name
        self.driven_miles_metric_name = driven_miles_metric.metric_name
        self.requires_metric = [self.driven_miles_metric_name]
        self.requires_validator: list[str] = []

    def compute(
        self,
        metric_results: dict[str, torch.Tensor],
        validation_results: dict[str, ValidatorOutput],  # noqa: ARG002 - others need it
        simulation_output: SimulatedSceneLike,  # noqa: ARG002 - others need it
    ) -> float:
        """Return the miles of a scene; arguments as in :class:`SupportsCompositeMetricCompute`."""
        return float(metric_results[self.driven_miles_metric_name].sum())


class SupportsCompositeMetricAggregation(Protocol):
    """Aggregates the values of each composite metric over scenes into one result."""

    def aggregate(self, scene_composite_metric_results: SceneComposites) -> dict[str, Any]:
        """Return the results by name of the composite metric."""


class ReduceMode(IntEnum):
    """How values of scenes are reduced to one."""

    SUM = 0


class CompositeMetricAggregator(SupportsCompositeMetricAggregation):
    """Sums of composite metrics over scenes.

    Args:
        reduce_mode: How values are reduced; only ``ReduceMode.SUM`` exists.

    Raises:
        InvalidArgumentError: Another mode is given.
    """

    def __init__(self, reduce_mode: ReduceMode = ReduceMode.SUM) -> None:
        if reduce_mode != ReduceMode.SUM:
            raise InvalidArgumentError(f"reduce_mode is {reduce_mode!r}; pass ReduceMode.SUM")
        self.reduce_mode = reduce_mode

    def aggregate_scenes(self, scene_composite_metric_results: SceneComposites) -> dict[str, torch.Tensor]:
        """Return the sums, float32 tensors of shape (), of all composite metrics with values."""
        sums: dict[str, float] = {}
        for values in scene_composite_metric_results.values():
            for name, value in values.items():
                sums[name] = sums.get(name, 0.0) + float(value)
        return {name: torch.tensor(value, dtype=torch.float32) for name, value in sums.items()}

    def aggregate(self, scene_composite_metric_results: SceneComposites) -> dict[str, torch.Tensor]:
        """Return :meth:`aggregate_scenes`."""
        return self.aggregate_scenes(scene_composite_metric_results)

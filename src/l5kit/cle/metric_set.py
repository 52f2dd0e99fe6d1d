"""Metric sets: metrics, validators and composite metrics that belong together, with the evaluator that runs them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch

from l5kit.cle.closed_loop_evaluator import ClosedLoopEvaluator, EvaluationPlan
from l5kit.cle.composite_metrics import CompositeMetricAggregator, SupportsCompositeMetricCompute
from l5kit.cle.metrics import SupportsMetricCompute
from l5kit.cle.scored_scene import SimulatedSceneLike
from l5kit.cle.validators import (
    SupportsMetricValidate,
    ValidationCountingAggregator,
    ValidationFailedFramesAggregator,
)

__all__ = ["BaseMetricSet", "L5MetricSet"]


class BaseMetricSet(ABC):
    """Evaluates simulated scenes and aggregates the results.

    Attributes:
        metric_prefix: Name of the set in logs.
        evaluator: Stores the results of scenes.
    """

    metric_prefix: str
    evaluator: ClosedLoopEvaluator

    @abstractmethod
    def evaluate(self, sim_outputs: Iterable[SimulatedSceneLike]) -> None:
        """Evaluate simulated scenes and store the results."""

    @abstractmethod
    def get_results(self) -> Any:
        """Return the results aggregated over the scenes evaluated so far."""


class L5MetricSet(BaseMetricSet):
    """Metric set built by methods: a subclass defines ``build_metrics``, and other methods as needed.

    Args:
        metric_prefix: Name of the set in logs.

    Attributes:
        evaluation_plan: The plan built by the methods.

    Raises:
        EvaluationPlanError: The plan is inconsistent.
    """

    def __init__(self, metric_prefix: str = "L5") -> None:
        self.metric_prefix = metric_prefix
        self.evaluation_plan = EvaluationPlan(
            metrics=self.build_metrics(),
            validators=self.build_validators(),
            composite_metrics=self.build_composite_metrics(),
            intervention_validators=self.get_validator_interventions(),
        )
        self.evaluator = ClosedLoopEvaluator(self.evaluation_plan)

    @abstractmethod
    def build_metrics(self) -> list[SupportsMetricCompute]:
        """Return the metrics."""

    def build_validators(self) -> list[SupportsMetricValidate]:
        """Return the validators; none by default."""
        return []

    def get_validator_interventions(self) -> list[str]:
        """Return the names of the validators that end a scene; none by default."""
        return []

    def build_composite_metrics(self) -> list[SupportsCompositeMetricCompute]:
        """Return the composite metrics; none by default."""
        return []

    def evaluate(self, sim_outputs: Iterable[SimulatedSceneLike]) -> None:
        """Evaluate simulated scenes and store the results by scene id."""
        self.evaluator.evaluate(sim_outputs)

    def reset(self) -> None:
        """Discard all results."""
        self.evaluator.reset()

    def get_results(self) -> dict[str, torch.Tensor]:
        """Return the results of all scenes, aggregated.

        Returns:
            Tensors of shape (): under ``metrics/NAME`` the mean over scenes of a metric's mean in a scene, float64,
            NaN if a scene has no value; under ``validators/NAME`` the number of scenes that fail a validator, int64;
            under ``composites/NAME`` the sum of a composite metric, float32. Empty before the first scene.
        """
        evaluator = self.evaluator
        # every scene has the same weight, however many frames it has
        of_scenes: dict[str, list[torch.Tensor]] = {}
        for metrics in evaluator.metric_results().values():
            for name, values in metrics.items():
                of_scenes.setdefault(name, []).append(values.double().mean())
        scores = {f"metrics/{name}": torch.stack(means).mean() for name, means in of_scenes.items()}
        failed = ValidationCountingAggregator().aggregate(evaluator.validation_results())
        scores.update({f"validators/{name}": count for name, count in failed.items()})
        sums = CompositeMetricAggregator().aggregate(evaluator.composite_metric_results())
        scores.update({f"composites/{name}": value for name, value in sums.items()})
        return scores

    def aggregate_failed_frames(self) -> dict[str, torch.Tensor]:
        """Return scene id and index of the failed frames, int64 (n, 2), of all validators with any."""
        return ValidationFailedFramesAggregator().aggregate(self.evaluator.validation_results())

"""Closed-loop evaluation plans, and the evaluator that runs a plan on simulated scenes and stores the results."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import torch

from l5kit.cle.composite_metrics import SupportsCompositeMetricCompute
from l5kit.cle.metrics import SupportsMetricCompute, compute_metric
from l5kit.cle.scored_scene import ScoredScene, SimulatedSceneLike
from l5kit.cle.validators import SupportsMetricValidate, ValidatorOutput
from l5kit.errors import EvaluationPlanError

__all__ = ["ClosedLoopEvaluator", "EvaluationPlan"]


class EvaluationPlan:
    """Metrics, validators of their values, and composite metrics of both.

    Args:
        metrics: The metrics, with unique names.
        validators: The validators, with unique names.
        composite_metrics: The composite metrics, with unique names.
        intervention_validators: Names of validators that end a scene: the first of them to fail is the only validator
            that the scene fails.

    Raises:
        EvaluationPlanError: A name is repeated, or a required metric or validator is not in the plan.
    """

    def __init__(
        self,
        metrics: Iterable[SupportsMetricCompute],
        validators: Iterable[SupportsMetricValidate] | None = None,
        composite_metrics: Iterable[SupportsCompositeMetricCompute] | None = None,
        intervention_validators: Iterable[str] | None = None,
    ) -> None:
        self.metrics = list(metrics)
        self.validators = list(validators or ())
        self.composite_metrics = list(composite_metrics or ())
        self.intervention_validators = list(intervention_validators or ())
        _require_unique("metric", [each.metric_name for each in self.metrics])
        _require_unique("validator", [each.validator_name for each in self.validators])
        _require_unique("composite metric", [each.composite_metric_name for each in self.composite_metrics])

        # everything that is required must be in the plan
        metric_names, validator_names = self.metrics_dict().keys(), self.validators_dict().keys()
        for name in self.intervention_validators:
            if name not in validator_names:
                known = ", ".join(validator_names) or "none"
                raise EvaluationPlanError(f"intervention validator {name!r} not found in validators list: {known}")
        for validator in self.validators:
            user = f"validator {validator.validator_name!r}"
            _require_known("metric", validator.requires_metric, metric_names, user=user)
        for composite in self.composite_metrics:
            user = f"composite metric {composite.composite_metric_name!r}"
            _require_known("metric", composite.requires_metric, metric_names, user=user)
            _require_known("validator", composite.requires_validator, validator_names, user=user)

    def metrics_dict(self) -> dict[str, SupportsMetricCompute]:
        """Return the metrics by name."""
        return {metric.metric_name: metric for metric in self.metrics}

    def validators_dict(self) -> dict[str, SupportsMetricValidate]:
        """Return the validators by name."""
        return {validator.validator_name: validator for validator in self.validators}

    def composite_metrics_dict(self) -> dict[str, SupportsCompositeMetricCompute]:
        """Return the composite metrics by name."""
        return {composite.composite_metric_name: composite for composite in self.composite_metrics}

    def evaluate(self, simulation_output: SimulatedSceneLike) -> dict[str, torch.Tensor]:
        """Return the values of all metrics of a scene by name."""
        scene = ScoredScene(simulation_output)
        return {name: compute_metric(metric, scene) for name, metric in self.metrics_dict().items()}

    def validate(
        self, scene_metrics: Mapping[str, torch.Tensor], simulation_output: SimulatedSceneLike
    ) -> dict[str, ValidatorOutput]:
        """Return the outputs of all validators by name, after interventions.

        Args:
            scene_metrics: The values of the metrics by name.
            simulation_output: Output of the simulation of the scene.
        """
        results = {}
        for name, validator in self.validators_dict().items():
            required = {metric: scene_metrics[metric] for metric in validator.requires_metric}
            results[name] = validator.validate(required, simulation_output)
        return self.process_interventions(results) if self.intervention_validators else results

    def process_interventions(self, results: Mapping[str, ValidatorOutput]) -> dict[str, ValidatorOutput]:
        """Return the outputs of validators, given that the first intervention ends the scene.

        Only the output of the intervention that fails the earliest frame stays; ties go to the first in the plan. All
        others become valid, even if they failed before, and also validators that are not interventions.

        Args:
            results: The outputs of the validators by name.
        """
        # on a tie `min` takes the first in the order of the plan
        failed = [name for name in self.intervention_validators if results[name].failed_frames]
        if not failed:
            return dict(results)
        first = min(failed, key=lambda name: min(results[name].failed_frames))
        return {name: result if name == first else ValidatorOutput(True, []) for name, result in results.items()}

    def evaluate_composite(
        self,
        simulation_output: SimulatedSceneLike,
        scene_metrics: Mapping[str, torch.Tensor],
        scene_validation: Mapping[str, ValidatorOutput],
    ) -> dict[str, float]:
        """Return the values of all composite metrics of a scene by name.

        Args:
            simulation_output: Output of the simulation of the scene.
            scene_metrics: The values of the metrics by name.
            scene_validation: The outputs of the validators by name.
        """
        results = {}
        for name, composite in self.composite_metrics_dict().items():
            metrics = {metric: scene_metrics[metric] for metric in composite.requires_metric}
            validations = {validator: scene_validation[validator] for validator in composite.requires_validator}
            results[name] = composite.compute(metrics, validations, simulation_output)
        return results


def _require_unique(kind: str, names: list[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise EvaluationPlanError(f"You cannot have repeated {kind} names. Repeated: {', '.join(map(str, repeated))}")


def _require_known(kind: str, names: Iterable[str], known: Collection[str], *, user: str) -> None:
    for name in names:
        if name not in known:
            raise EvaluationPlanError(
                f"{kind} {name!r} is required by {user}, but not in the plan; add it to the {kind}s"
            )


class ClosedLoopEvaluator:
    """Evaluator that runs a plan on simulated scenes and stores the results by scene id.

    Evaluating a scene id again replaces its results.

    Args:
        evaluation_plan: The plan.

    Attributes:
        scene_metric_results: Values of metrics by scene id and name.
        scene_validation_results: Outputs of validators by scene id and name.
        scene_composite_metric_results: Values of composite metrics by scene id and name.
    """

    def __init__(self, evaluation_plan: EvaluationPlan) -> None:
        self.evaluation_plan = evaluation_plan
        self.scene_metric_results: dict[int, dict[str, torch.Tensor]] = {}
        self.scene_validation_results: dict[int, dict[str, ValidatorOutput]] = {}
        self.scene_composite_metric_results: dict[int, dict[str, float]] = {}

    def evaluate(self, simulation_outputs: Iterable[SimulatedSceneLike]) -> None:
        """Run the plan on simulated scenes and store the results."""
        plan = self.evaluation_plan
        for output in simulation_outputs:
            # if an evaluation fails, the scene keeps its previous results, or none
            metrics = plan.evaluate(output)
            validation = plan.validate(metrics, output)
            composites = plan.evaluate_composite(output, metrics, validation)
            scene_id = output.get_scene_id()
            self.scene_metric_results[scene_id] = metrics
            self.scene_validation_results[scene_id] = validation
            self.scene_composite_metric_results[scene_id] = composites

    def metric_results(self) -> dict[int, dict[str, torch.Tensor]]:
        """Return the values of metrics by scene id and name."""
        return self.scene_metric_results

    def validation_results(self) -> dict[int, dict[str, ValidatorOutput]]:
        """Return the outputs of validators by scene id and name."""
        return self.scene_validation_results

    def composite_metric_results(self) -> dict[int, dict[str, float]]:
        """Return the values of composite metrics by scene id and name."""
        return self.scene_composite_metric_results

    def reset(self) -> None:
        """Discard all results."""
        self.scene_metric_results = {}
        self.scene_validation_results = {}
        self.scene_composite_metric_results = {}

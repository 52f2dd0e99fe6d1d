"""Metric sets."""

import numpy as np
import pytest
import torch

from l5kit.cle.composite_metrics import DrivenMilesCompositeMetric
from l5kit.cle.metric_set import BaseMetricSet, L5MetricSet
from l5kit.cle.metrics import DisplacementErrorL2Metric, SimulatedDrivenMilesMetric
from l5kit.cle.validators import RangeValidator
from support.scored_scenes import SceneStandIn

SCENES = [SceneStandIn.along_x([0, 1, 2], [0, 0, 0], scene_id=0), SceneStandIn.along_x([3, 3], [0, 0], scene_id=5)]


class Small(L5MetricSet):
    def build_metrics(self):
        return [DisplacementErrorL2Metric(), SimulatedDrivenMilesMetric()]


class Full(Small):
    def build_validators(self):
        return [
            RangeValidator(name, DisplacementErrorL2Metric, max_value=limit) for name, limit in (("a", 1), ("b", 2))
        ]

    def get_validator_interventions(self):
        return ["b"]

    def build_composite_metrics(self):
        return [DrivenMilesCompositeMetric("total")]


@pytest.mark.parametrize("abstract", [BaseMetricSet, L5MetricSet])
def test_a_set_says_what_its_metrics_are(abstract):
    with pytest.raises(TypeError, match="abstract"):
        abstract()


def test_a_set_is_built_from_its_methods():
    metric_set = Full("mine")
    assert metric_set.metric_prefix == "mine"
    assert Small().metric_prefix == "L5"
    plan = metric_set.evaluation_plan
    assert metric_set.evaluator.evaluation_plan is plan
    assert list(plan.validators_dict()) == ["a", "b"]
    assert list(plan.composite_metrics_dict()) == ["total"]
    assert plan.intervention_validators == ["b"]


def test_failed_frames_of_all_scenes_are_listed_until_reset():
    metric_set = Full()
    metric_set.evaluate(SCENES)
    failed = {name: frames.tolist() for name, frames in metric_set.aggregate_failed_frames().items()}
    assert failed == {"a": [[0, 2]], "b": [[5, 0], [5, 1]]}
    metric_set.reset()
    assert metric_set.aggregate_failed_frames() == {}


def test_a_set_without_validators_has_no_failed_frames():
    metric_set = Small()
    metric_set.evaluate(SCENES)
    assert metric_set.aggregate_failed_frames() == {}


def test_c10_results_are_summed_up():
    metric_set = Full()
    metric_set.evaluate(SCENES)
    results = metric_set.get_results()
    assert all(value.shape == () for value in results.values())
    assert {name: value.item() for name, value in results.items()} == pytest.approx(
        {
            "metrics/displacement_error_l2": 2.0,
            "metrics/simulated_driven_miles": 0.000621371 / 3,
            "validators/a": 1,
            "validators/b": 1,
            "composites/total": 2 * 0.000621371,
        }
    )


def test_c10_there_are_no_results_before_the_first_scene():
    assert Full().get_results() == {}


def test_a_mean_over_a_scene_without_values_is_nan():
    metric_set = Small()
    metric_set.evaluate([SceneStandIn.along_x(np.zeros(0))])
    assert torch.isnan(metric_set.get_results()["metrics/displacement_error_l2"])

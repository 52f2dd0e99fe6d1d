"""Composite metrics and their sums."""

import pytest
import torch

from l5kit.cle.composite_metrics import (
    CompositeMetricAggregator,
    DrivenMilesCompositeMetric,
    PassedDrivenMilesCompositeMetric,
    ReduceMode,
)
from l5kit.cle.metrics import ReplayDrivenMilesMetric
from l5kit.cle.validators import ValidatorOutput
from support.scored_scenes import SceneStandIn

SCENE = SceneStandIn.along_x([0.0])
MILES = {"simulated_driven_miles": torch.ones(20)}


def outputs(*failed):
    return {name: ValidatorOutput(not frames, frames) for name, frames in zip("abc", failed, strict=False)}


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        pytest.param([[], []], 20.0, id="none fails"),
        pytest.param([[15], []], 15.0, id="one fails"),
        pytest.param([[15, 16], [10, 19]], 10.0, id="the earliest of several"),
        pytest.param([[], [*range(20)]], 0.0, id="all frames fail"),
    ],
)
def test_miles_before_the_first_failed_frame(failed, expected):
    metric = PassedDrivenMilesCompositeMetric("passed", ["a", "b"])
    miles = metric.compute(MILES, outputs(*failed), SCENE)
    assert type(miles) is float
    assert miles == expected


@pytest.mark.parametrize(("frames", "expected"), [([19], 0.0), ([], 20.0)])
def test_a_scene_that_fails_may_count_nothing(frames, expected):
    metric = PassedDrivenMilesCompositeMetric("passed", ["a"], ignore_entire_scene=True)
    assert metric.compute(MILES, outputs(frames), SCENE) == expected


def test_c18_validators_are_required_once_in_their_order():
    metric = PassedDrivenMilesCompositeMetric("passed", ["b", "c", "b", "a"], ReplayDrivenMilesMetric)
    assert metric.requires_validator == ["b", "c", "a"]
    assert metric.requires_metric == ["replay_driven_miles"]


def test_miles_of_the_whole_scene():
    metric = DrivenMilesCompositeMetric("total")
    assert metric.driven_miles_metric_name == "simulated_driven_miles"
    assert metric.requires_metric == ["simulated_driven_miles"]
    assert metric.requires_validator == []
    assert metric.compute(MILES, {}, SCENE) == 20.0


def test_values_are_summed_over_scenes():
    results = {0: {"a": 1.5, "b": 1.0}, 7: {"a": 2.0, "b": -1.0}}
    aggregator = CompositeMetricAggregator()
    for sums in (aggregator.aggregate(results), aggregator.aggregate_scenes(results)):
        assert {name: value.item() for name, value in sums.items()} == {"a": 3.5, "b": 0.0}
        assert all(value.dtype == torch.float32 and value.shape == () for value in sums.values())
    assert aggregator.aggregate({}) == {}


@pytest.mark.parametrize("mode", [1, "sum", None])
def test_only_sums_are_known(mode):
    assert CompositeMetricAggregator(ReduceMode.SUM).reduce_mode == 0
    with pytest.raises(ValueError, match=r"pass ReduceMode\.SUM"):
        CompositeMetricAggregator(mode)

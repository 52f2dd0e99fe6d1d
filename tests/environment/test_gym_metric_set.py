"""Metric sets of the environment."""

import subprocess
import sys

import numpy as np
import pytest

from l5kit.cle.composite_metrics import PassedDrivenMilesCompositeMetric
from l5kit.cle.validators import DurationMode
from l5kit.environment.gym_metric_set import CLEMetricSet, L2DisplacementYawMetricSet
from support.scored_scenes import SceneStandIn

LIMITS = {
    "displacement_error_l2": ("displacement_error_l2", None, 30),
    "distance_ref_trajectory": ("distance_to_reference_trajectory", None, 4),
    "collision_front": ("collision_front", None, 0),
    "collision_rear": ("collision_rear", None, 0),
    "collision_side": ("collision_side", None, 0),
    "passive_ego": ("simulated_minus_recorded_ego_speed", -5, None),
    "aggressive_ego": ("simulated_minus_recorded_ego_speed", None, 5),
}


def test_the_set_of_errors():
    metric_set = L2DisplacementYawMetricSet()
    assert metric_set.metric_prefix == "L2DisplacementYaw"
    assert list(metric_set.evaluation_plan.metrics_dict()) == ["displacement_error_l2", "yaw_error_closest_angle"]
    assert metric_set.evaluation_plan.validators == metric_set.evaluation_plan.composite_metrics == []


def test_metrics_validators_and_interventions_of_driving():
    plan = CLEMetricSet().evaluation_plan
    assert len(plan.metrics) == 8
    found = {v.validator_name: (v.metric_name, v.min_value, v.max_value) for v in plan.validators}
    assert found == LIMITS
    assert plan.intervention_validators == list(LIMITS)[:5]
    for validator in plan.validators:
        is_of_speed = validator.validator_name.endswith("_ego")
        assert validator.violation_duration_s == (2.3 if is_of_speed else 0)
        assert validator.duration_mode == (DurationMode.CONTINUOUS if is_of_speed else DurationMode.TOTAL)


def test_c13_composites_of_driving():
    plan = CLEMetricSet().evaluation_plan
    assert list(plan.composite_metrics_dict()) == [
        "passed_driven_miles_simulated",
        "passed_driven_miles_replay",
        "total_driven_miles_simulated",
        "total_driven_miles_replay",
    ]
    for composite in plan.composite_metrics:
        if isinstance(composite, PassedDrivenMilesCompositeMetric):
            assert not composite.ignore_entire_scene
            assert set(composite.requires_validator) == set(plan.intervention_validators) - {"distance_ref_trajectory"}


def failed_validators(scene):
    metric_set = CLEMetricSet()
    metric_set.evaluate([scene])
    return {name for name, output in metric_set.evaluator.validation_results()[0].items() if not output.is_valid_scene}


FRAMES = np.arange(50)


@pytest.mark.parametrize(
    ("simulated", "agents", "expected"),
    [
        pytest.param(FRAMES, None, set(), id="as recorded"),
        pytest.param(0 * FRAMES, None, {"displacement_error_l2"}, id="standing"),
        pytest.param(0.45 * FRAMES, None, {"passive_ego"}, id="slow"),
        pytest.param(np.minimum(1.55 * FRAMES, 49), None, {"aggressive_ego"}, id="fast to where the log ends"),
        pytest.param(FRAMES, (10, 0), {"collision_front"}, id="an agent ahead"),
    ],
)
def test_what_scenes_fail(simulated, agents, expected):
    of_frames = None if agents is None else [[{"centroid": agents}]] * len(FRAMES)
    assert failed_validators(SceneStandIn.along_x(simulated, FRAMES, of_frames)) == expected


@pytest.mark.process
def test_no_gymnasium_is_needed():
    source = (
        "import sys; sys.modules['gymnasium'] = sys.modules['gym'] = sys.modules['shapely'] = None\n"
        "import l5kit.environment\n"
        "from l5kit.environment.gym_metric_set import CLEMetricSet\n"
        "CLEMetricSet()"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

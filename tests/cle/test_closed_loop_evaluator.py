"""Plans of closed-loop evaluation, and the evaluator."""

from types import SimpleNamespace

import numpy as np
import pytest

from l5kit.cle import scored_scene
from l5kit.cle.closed_loop_evaluator import ClosedLoopEvaluator, EvaluationPlan
from l5kit.cle.composite_metrics import PassedDrivenMilesCompositeMetric, SupportsCompositeMetricCompute
from l5kit.cle.metrics import (
    CollisionFrontMetric,
    CollisionRearMetric,
    CollisionSideMetric,
    DisplacementErrorL2Metric,
    SimulatedDrivenMilesMetric,
    YawErrorCAMetric,
)
from l5kit.cle.validators import RangeValidator, SupportsMetricValidate, ValidatorOutput
from l5kit.errors import EvaluationPlanError
from support.scored_scenes import SceneStandIn

ONE = SimpleNamespace(metric_name="one")
TWO = SimpleNamespace(metric_name="two")


def validator_of(name, *metrics):
    return SimpleNamespace(validator_name=name, requires_metric=list(metrics))


def composite_of(name, metrics=(), validators=()):
    return SimpleNamespace(
        composite_metric_name=name, requires_metric=list(metrics), requires_validator=list(validators)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"metrics": [ONE, ONE]}, r"You cannot have repeated metric names\.", id="metric twice"),
        pytest.param(
            {"validators": [SimpleNamespace(validator_name="v")] * 2},
            r"You cannot have repeated validator names\.",
            id="validator twice",
        ),
        pytest.param(
            {"composite_metrics": [SimpleNamespace(composite_metric_name="c")] * 2},
            r"You cannot have repeated composite metric names\.",
            id="composite twice",
        ),
        pytest.param({"intervention_validators": ["v"]}, "'v' not found in validators list", id="intervention"),
        pytest.param(
            {"validators": [validator_of("v", "three")]}, "'three' is required by validator 'v'", id="validator"
        ),
        pytest.param(
            {"composite_metrics": [composite_of("c", ["three"])]}, "required by composite metric 'c'", id="composite"
        ),
        pytest.param(
            {"composite_metrics": [composite_of("c", ["one"], ["v"])]},
            "validator 'v' is required by composite metric 'c'",
            id="composite of a validator",
        ),
    ],
)
def test_plans_that_do_not_fit_together_are_refused(arguments, message):
    with pytest.raises(RuntimeError, match=message) as caught:
        EvaluationPlan(**{"metrics": [ONE, TWO]} | arguments)
    assert isinstance(caught.value, EvaluationPlanError)


def test_a_plan_has_what_it_was_given_by_name():
    validator, composite = validator_of("v", "one"), composite_of("c", ["one"], ["v"])
    plan = EvaluationPlan([ONE, TWO], [validator], [composite], ["v"])
    assert (plan.metrics, plan.validators) == ([ONE, TWO], [validator])
    assert (plan.composite_metrics, plan.intervention_validators) == ([composite], ["v"])
    assert plan.metrics_dict() == {"one": ONE, "two": TWO}
    assert plan.validators_dict() == {"v": validator}
    assert plan.composite_metrics_dict() == {"c": composite}
    alone = EvaluationPlan([ONE])
    assert (alone.validators, alone.composite_metrics, alone.intervention_validators) == ([], [], [])


def test_c9_generators_are_read_once():
    scene = SceneStandIn.along_x([0, 1])
    plan = EvaluationPlan(
        (metric() for metric in (DisplacementErrorL2Metric, YawErrorCAMetric)),
        (RangeValidator(name, DisplacementErrorL2Metric, max_value=1) for name in "ab"),
        intervention_validators=iter("ab"),
    )
    for _ in range(2):
        values = plan.evaluate(scene)
        assert list(values) == ["displacement_error_l2", "yaw_error_closest_angle"]
        assert list(plan.validate(values, scene)) == ["a", "b"]
    assert plan.intervention_validators == ["a", "b"]


VALID = ValidatorOutput(True, [])


def failing(*frames):
    return ValidatorOutput(False, list(frames))


@pytest.mark.parametrize(
    ("results", "kept"),
    [
        pytest.param({"a": VALID, "b": VALID, "other": failing(0)}, "other", id="no intervention"),
        pytest.param(
            {"a": failing(5), "b": VALID, "other": failing(0)}, "a", id="others become valid, also earlier ones"
        ),
        pytest.param({"a": failing(5), "b": failing(3), "other": VALID}, "b", id="the earliest frame"),
        pytest.param({"a": failing(3, 9), "b": failing(3), "other": VALID}, "b", id="the first of the plan"),
        pytest.param({"a": failing(9, 2), "b": failing(3), "other": VALID}, "a", id="frames in any order"),
    ],
)
def test_only_the_first_intervention_stays(results, kept):
    plan = EvaluationPlan([ONE], [validator_of(name) for name in ("a", "b", "other")], None, ["b", "a"])
    expected = {name: output if name == kept else VALID for name, output in results.items()}
    assert plan.process_interventions(results) == expected


class Seen(SupportsMetricValidate, SupportsCompositeMetricCompute):
    """A validator and composite metric that records its inputs."""

    validator_name = composite_metric_name = "seen"
    requires_metric = ["displacement_error_l2"]  # noqa: RUF012
    requires_validator = ["seen"]  # noqa: RUF012

    def validate(self, metric_results, simulation_output):
        self.validated = list(metric_results), simulation_output
        return failing(1)

    def compute(self, metric_results, validation_results, simulation_output):
        self.computed = list(metric_results), list(validation_results), simulation_output
        return 3.0


def test_validators_and_composites_see_what_they_require():
    seen, scene = Seen(), SceneStandIn.along_x([0, 1])
    other = RangeValidator("other", YawErrorCAMetric, max_value=1)
    evaluator = ClosedLoopEvaluator(
        EvaluationPlan([YawErrorCAMetric(), DisplacementErrorL2Metric()], [other, seen], [seen])
    )
    evaluator.evaluate([scene])
    assert seen.validated == (["displacement_error_l2"], scene)
    assert seen.computed == (["displacement_error_l2"], ["seen"], scene)
    assert evaluator.composite_metric_results() == {0: {"seen": 3.0}}


def test_composites_are_computed_after_interventions():
    """The AV is 3 m off in frame 3 and ends there; what fails before that does not count any more."""
    scene = SceneStandIn.along_x([0, 1, 2, 6], [0, 1, 2, 3])
    early = RangeValidator("early", SimulatedDrivenMilesMetric, max_value=0)
    off = RangeValidator("off", DisplacementErrorL2Metric, max_value=2)
    passed = PassedDrivenMilesCompositeMetric("passed", ["early"])
    metrics = [DisplacementErrorL2Metric(), SimulatedDrivenMilesMetric()]
    for interventions, miles_m in (([], 0.0), (["off"], 6.0)):
        evaluator = ClosedLoopEvaluator(EvaluationPlan(metrics, [early, off], [passed], interventions))
        evaluator.evaluate([scene])
        assert evaluator.composite_metric_results()[0]["passed"] == pytest.approx(miles_m * 0.000621371)
        assert evaluator.validation_results()[0]["off"] == failing(3)


def test_results_are_kept_by_scene_id_until_reset():
    evaluator = ClosedLoopEvaluator(EvaluationPlan([DisplacementErrorL2Metric()]))
    evaluator.evaluate(SceneStandIn.along_x([0, 1], [0, 0], scene_id=scene_id) for scene_id in (4, 2))
    evaluator.evaluate([SceneStandIn.along_x([0, 7], [0, 0], scene_id=4)])
    assert list(evaluator.metric_results()) == [4, 2]
    assert evaluator.metric_results()[4]["displacement_error_l2"].tolist() == [0, 7]
    assert evaluator.validation_results() == evaluator.composite_metric_results() == {4: {}, 2: {}}
    evaluator.reset()
    assert evaluator.metric_results() == evaluator.scene_metric_results == {}
    assert evaluator.validation_results() == evaluator.scene_validation_results == {}
    assert evaluator.composite_metric_results() == evaluator.scene_composite_metric_results == {}


def test_a_scene_that_fails_leaves_no_half_of_its_results():
    """Its metrics would count without its validators, or with those of the scene before that had its number."""

    def refuse(*_):
        raise ValueError("no miles")

    composite = composite_of("c", ["displacement_error_l2"])
    composite.compute = lambda metrics, *_: float(metrics["displacement_error_l2"].sum())
    evaluator = ClosedLoopEvaluator(EvaluationPlan([DisplacementErrorL2Metric()], composite_metrics=[composite]))
    evaluator.evaluate([SceneStandIn.along_x([0], [5], scene_id=1)])
    composite.compute = refuse
    for scene_id in (1, 2):
        with pytest.raises(ValueError, match="no miles"):
            evaluator.evaluate([SceneStandIn.along_x([0], [0], scene_id=scene_id)])
    assert evaluator.metric_results()[1]["displacement_error_l2"].tolist() == [5.0]
    assert evaluator.composite_metric_results() == {1: {"c": 5.0}}
    assert list(evaluator.metric_results()) == list(evaluator.validation_results()) == [1]


def test_collisions_of_a_scene_are_looked_for_once(monkeypatch):
    searched = []
    find = scored_scene.detect_scene_collisions

    def counted(*poses, is_left_out, **agents):
        searched.append(is_left_out)
        return find(*poses, is_left_out=is_left_out, **agents)

    monkeypatch.setattr(scored_scene, "detect_scene_collisions", counted)
    plan = EvaluationPlan([CollisionFrontMetric(), CollisionRearMetric(), CollisionSideMetric()])
    scene = SceneStandIn.along_x(np.zeros(2), agents=[[{"centroid": (4, 0)}], []])
    assert plan.evaluate(scene)["collision_front"].tolist() == [1, 0]
    assert searched == [None]
    scene.simulated_agents["centroid"] = 100
    assert plan.evaluate(scene)["collision_front"].tolist() == [0, 0]

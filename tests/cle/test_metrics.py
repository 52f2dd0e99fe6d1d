"""Closed-loop metrics."""

from dataclasses import replace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch

from l5kit.cle.closed_loop_evaluator import EvaluationPlan
from l5kit.cle.metrics import (
    CollisionFrontMetric,
    CollisionMetricBase,
    CollisionRearMetric,
    CollisionSideMetric,
    DisplacementErrorL2Metric,
    DisplacementErrorMetric,
    DistanceToRefTrajectoryMetric,
    ReplayDrivenMilesMetric,
    SceneMetric,
    SimulatedDrivenMilesMetric,
    SimulatedVsRecordedEgoSpeedMetric,
    SupportsMetricCompute,
    YawErrorCAMetric,
    YawErrorMetric,
)
from l5kit.data.log_facts import LogFacts
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.metrics import CollisionType
from support.logs import make_agents
from support.scored_scenes import SceneStandIn
from support.tolerances import FLOAT32, FLOAT32_LONG

MILES = 0.000621371
FRAMES = np.arange(20)
COLLISIONS = [CollisionFrontMetric, CollisionRearMetric, CollisionSideMetric]


@pytest.fixture
def slow() -> SceneStandIn:
    """20 frames along x, simulated with 2 m/s, recorded with 10 m/s."""
    return SceneStandIn.along_x(0.2 * FRAMES, 1.0 * FRAMES)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        pytest.param(DisplacementErrorL2Metric(), 0.8 * FRAMES, id="distance"),
        pytest.param(DisplacementErrorMetric(lambda s, r: (r - s).sum(-1)), 0.8 * FRAMES, id="an error of one's own"),
        pytest.param(SimulatedVsRecordedEgoSpeedMetric(), np.full(19, -8.0), id="speed"),
        pytest.param(SimulatedVsRecordedEgoSpeedMetric(step_time_s=0.2), np.full(19, -4.0), id="speed at 5 Hz"),
        pytest.param(SimulatedDrivenMilesMetric(), np.r_[0, np.full(19, 0.2 * MILES)], id="miles"),
        pytest.param(ReplayDrivenMilesMetric(), np.r_[0, np.full(19, MILES)], id="recorded miles"),
        pytest.param(YawErrorCAMetric(), np.zeros((20, 1)), id="heading"),
        *(pytest.param(metric(), np.zeros(20), id=f"no {metric.metric_name}") for metric in COLLISIONS),
    ],
)
def test_known_values(metric, expected, slow):
    values = metric.compute(slow)
    assert values.dtype == (torch.float64 if "miles" in metric.metric_name else torch.float32)
    np.testing.assert_allclose(values, expected, rtol=FLOAT32_LONG, atol=FLOAT32_LONG)


def test_distance_to_the_reference_is_that_of_the_first_frames_to_the_nearest_recorded_one(slow):
    values = DistanceToRefTrajectoryMetric().compute(slow)
    x_m = 0.2 * FRAMES[:16]
    np.testing.assert_allclose(values, np.abs(x_m - np.round(x_m)), atol=FLOAT32)


@pytest.mark.parametrize(("fraction", "count"), [(0.0, 0), (0.8, 16), (0.99, 19), (1.0, 20)])
def test_distance_to_the_reference_has_a_value_for_a_fraction_of_the_frames(fraction, count, slow):
    assert DistanceToRefTrajectoryMetric(fraction).compute(slow).shape == (count,)


@pytest.mark.parametrize("fraction", [-0.001, 1.001, float("nan")])
def test_fractions_outside_0_to_1_are_refused(fraction):
    with pytest.raises(ValueError, match="scene_fraction is"):
        DistanceToRefTrajectoryMetric(fraction)


def test_headings_are_compared_the_short_way_round():
    scene = SceneStandIn.make([[0, 0, 0.0], [0, 0, 0.1]], [[0, 0, 4.0], [0, 0, 0.4]])
    expected = [[2 * np.pi - 4], [0.3]]
    np.testing.assert_allclose(YawErrorCAMetric().compute(scene), expected, atol=FLOAT32)
    np.testing.assert_allclose(YawErrorMetric().compute(scene), expected, atol=FLOAT32)
    np.testing.assert_allclose(YawErrorMetric(torch.sub).compute(scene), [[-4], [-0.3]], atol=FLOAT32)


RECORDED_NEEDED = [DisplacementErrorL2Metric(), DistanceToRefTrajectoryMetric(), YawErrorCAMetric(), YawErrorMetric()]


@pytest.mark.parametrize("metric", RECORDED_NEEDED, ids=lambda metric: metric.metric_name)
def test_more_recorded_frames_are_allowed_fewer_are_not(metric):
    metric.compute(SceneStandIn.along_x(np.zeros(3), np.zeros(4)))
    with pytest.raises(ValueError, match="More simulated timesteps than observed"):
        metric.compute(SceneStandIn.along_x(np.zeros(3), np.zeros(2)))


def test_recorded_frames_behind_the_simulated_ones_count_for_the_reference_only():
    scene = SceneStandIn.along_x([0, 3, 6, 9, 12], [0, 1, 2, 3, 4, 5, 6])
    np.testing.assert_allclose(DisplacementErrorL2Metric().compute(scene), [0, 2, 4, 6, 8])
    np.testing.assert_allclose(DistanceToRefTrajectoryMetric().compute(scene), [0, 0, 0, 3])


@pytest.mark.parametrize("lengths", [(3, 2), (2, 3)])
def test_c17_speeds_of_different_lengths_are_named(lengths):
    scene = SceneStandIn.along_x(np.zeros(lengths[0]), np.zeros(lengths[1]))
    for kind in (RuntimeError, ValueError):
        with pytest.raises(kind, match="simulated_ego_states has {} rows, recorded_ego_states {}".format(*lengths)):
            SimulatedVsRecordedEgoSpeedMetric().compute(scene)


def test_outputs_of_other_programs_have_ten_frames_a_second_and_the_usual_box(slow):
    """Mocks have any attribute, including ``facts``, and their own times."""
    stand_in = MagicMock()
    for name in ("simulated_ego_states", "recorded_ego_states", "simulated_agents", "simulated_ego"):
        setattr(stand_in, name, getattr(slow, name))
    stand_in.simulated_ego_states[:, 6] = torch.arange(20)
    assert SimulatedVsRecordedEgoSpeedMetric().compute(stand_in).tolist() == pytest.approx([-8.0] * 19, abs=1e-4)
    assert CollisionFrontMetric().compute(stand_in).tolist() == [0.0] * 20
    # frames of a log have its rate
    stand_in.facts = replace(LogFacts(), step_time_s=1.0)
    assert SimulatedVsRecordedEgoSpeedMetric().compute(stand_in).tolist() == pytest.approx([-0.8] * 19, abs=1e-5)


def test_a_step_time_is_above_0():
    with pytest.raises(InvalidArgumentError, match="step_time_s is 0"):
        SimulatedVsRecordedEgoSpeedMetric(step_time_s=0)


ALL = [
    *RECORDED_NEEDED,
    *(metric() for metric in COLLISIONS),
    SimulatedDrivenMilesMetric(),
    ReplayDrivenMilesMetric(),
    SimulatedVsRecordedEgoSpeedMetric(),
]


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.metric_name)
@pytest.mark.parametrize("num_frames", [0, 1, 2])
def test_scenes_of_few_frames_have_as_many_values(metric, num_frames):
    values = metric.compute(SceneStandIn.along_x(np.zeros(num_frames)))
    if isinstance(metric, SimulatedVsRecordedEgoSpeedMetric):
        assert len(values) == max(num_frames - 1, 0)
    elif isinstance(metric, DistanceToRefTrajectoryMetric):
        assert len(values) == int(num_frames * 0.8)
    else:
        assert len(values) == num_frames
    assert (values == 0).all()


AROUND = {0: (4.3, 0), 1: (-4.3, 0), 2: (0, 1.8)}


@pytest.mark.parametrize("metric", COLLISIONS)
def test_collisions_are_counted_by_their_type(metric):
    agents = [[], *([{"centroid": centroid, "extent": (4, 1.8, 1)}] for centroid in AROUND.values()), []]
    values = metric().compute(SceneStandIn.along_x(np.zeros(5), agents=agents))
    assert values.tolist() == [0.0, *(float(kind == metric().collision_type) for kind in AROUND), 0.0]


def test_c1_a_scene_may_have_fewer_agents_than_frames_but_not_fewer_frames_than_states():
    scene = SceneStandIn.along_x(np.zeros(3), agents=[[], [{"centroid": (4, 0)}], []])
    assert CollisionFrontMetric().compute(scene).tolist() == [0, 1, 0]
    scene.simulated_ego = scene.simulated_ego[:2]
    with pytest.raises(ValueError, match="simulated_ego has 2 frames, but simulated_ego_states 3 rows"):
        CollisionFrontMetric().compute(scene)


def test_m4_hidden_agents_do_not_collide():
    agents = make_agents({})
    agents["extent"], agents["label_probabilities"] = 0, -1
    assert CollisionFrontMetric().compute(SceneStandIn.along_x([0.0], agents=[agents])).tolist() == [0]


def test_c6_agents_of_all_classes_collide_unless_a_threshold_is_given():
    agents = [[{"centroid": (4, 0), "probability": 0.5}]]
    scene = SceneStandIn.along_x([0.0], agents=agents)
    values = [CollisionFrontMetric(filter_agents_threshold=limit).compute(scene).item() for limit in (None, 0.49, 0.5)]
    assert values == [1, 1, 0]


class Touched(CollisionFrontMetric):
    """Any collision, by a method for single frames as for 1.5."""

    def _compute_frame(self, simulated_agent_frame, simulated_frame_ego_state):
        assert simulated_frame_ego_state.shape == (7,)
        return float(
            sum(
                CollisionMetricBase(kind)._compute_frame(simulated_agent_frame, simulated_frame_ego_state)
                for kind in CollisionType
            )
        )


def test_a_method_for_single_frames_that_is_overridden_is_asked():
    agents = [[{"centroid": (4, 0)}], [{"centroid": (-4, 0)}], []]
    scene = SceneStandIn.along_x(np.zeros(3), agents=agents)
    assert Touched().compute(scene).tolist() == [1, 1, 0]
    assert EvaluationPlan([Touched()]).evaluate(scene)["collision_front"].tolist() == [1, 1, 0]
    mine = CollisionFrontMetric()
    mine._compute_frame = lambda agents, state: float(len(agents))
    assert mine.compute(scene).tolist() == [1, 1, 0]


def test_frames_one_by_one_give_what_all_at_once_give():
    rng = np.random.default_rng(1)
    agents = [[{"centroid": rng.normal(0, 4, 2), "yaw": rng.normal()} for _ in range(3)] for _ in range(100)]
    scene = SceneStandIn.make(rng.normal(0, 1, (100, 3)), agents=agents)
    for kind in CollisionType:
        metric = CollisionMetricBase(kind)
        values = metric.compute(scene)
        assert 0 < values.sum() < 100
        metric._compute_frame = metric._compute_frame  # as a user metric, called frame by frame
        assert torch.equal(values, metric.compute(scene))


def test_constructors_of_1_5_that_call_no_other_one_still_do(slow):
    class OwnSpeed(SimulatedVsRecordedEgoSpeedMetric):
        def __init__(self, name):
            self.metric_name = name

    class OwnCollision(CollisionMetricBase):
        metric_name = "mine"

        def __init__(self):
            self.collision_type = CollisionType.FRONT

    values = EvaluationPlan([OwnSpeed("speed"), OwnCollision()]).evaluate(slow)
    np.testing.assert_allclose(values["speed"], np.full(19, -8.0), rtol=FLOAT32_LONG)
    assert values["mine"].tolist() == [0] * 20


class Doubled(DisplacementErrorL2Metric):
    def compute(self, simulation_output):
        return 2 * super().compute(simulation_output)


class Plain(SupportsMetricCompute):
    metric_name = "plain"

    def compute(self, simulation_output):
        return torch.full((len(simulation_output.simulated_ego_states),), 7.0)


def test_compute_that_is_overridden_is_asked_by_plans(slow):
    values = EvaluationPlan([Doubled(), Plain()]).evaluate(slow)
    np.testing.assert_allclose(values["displacement_error_l2"], 1.6 * FRAMES, atol=FLOAT32_LONG)
    assert values["plain"].tolist() == [7.0] * 20


def test_a_metric_may_read_what_others_share(slow):
    class Far(SceneMetric):
        metric_name = "far"

        def compute_scene(self, scene):
            return scene.recorded_steps_m.cumsum(0)

    np.testing.assert_allclose(EvaluationPlan([Far()]).evaluate(slow)["far"], FRAMES[1:], rtol=FLOAT32)
    np.testing.assert_allclose(Far().compute(slow), FRAMES[1:], rtol=FLOAT32)


def test_metrics_do_not_change_the_scene(slow):
    before = slow.simulated_ego_states.clone(), slow.recorded_ego_states.clone()
    for metric in ALL:
        metric.compute(slow)
    assert torch.equal(slow.simulated_ego_states, before[0])
    assert torch.equal(slow.recorded_ego_states, before[1])


def test_an_output_that_changes_is_read_anew(slow):
    metric = DisplacementErrorL2Metric()
    assert metric.compute(slow)[-1] > 15
    slow.simulated_ego_states = slow.recorded_ego_states
    assert metric.compute(slow)[-1] == 0

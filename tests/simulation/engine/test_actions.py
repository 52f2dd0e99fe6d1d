"""Actions: what is accepted, how plans and controls become poses, and plans brought to other times."""

import numpy as np
import pytest

from l5kit.errors import InvalidArgumentError
from l5kit.simulation.engine.actions import Actions, Controls, PlannedPoses, TrackedPlans, join_times, plans_at
from l5kit.simulation.vehicle_models import PoseChange, Unicycle, VehicleStates

STEP_S = 0.1
NAN = np.nan


def car(x_m=0.0, yaw_rad=0.0, speed_mps=10.0):
    one = np.ones(1)
    return VehicleStates(np.array([[x_m, 0.0]]), yaw_rad * one, speed_mps * one, 0 * one, 0 * one, 4.87 * one)


def plan(*poses, times_s=None):
    return Actions(np.array([poses], np.float64), None if times_s is None else np.array(times_s))


@pytest.mark.parametrize(
    ("poses", "times_s", "expected"),
    [
        ([(1, 2, 0.3), (5, 5, 0)], None, (1, 2, 0.3)),
        ([(9, 9, 0), (1, 2, 0.3)], [0.0, 0.1], (1, 2, 0.3)),
        ([(2, 4, 1.0)], [0.2], (1, 2, 0.5)),
        ([(1, 0, 3.1), (3, 0, -3.1)], [0.05, 0.15], (2, 0, np.pi)),
    ],
)
def test_the_pose_of_the_next_step(poses, times_s, expected):
    moved = PlannedPoses().move(car(), plan(*poses, times_s=times_s), STEP_S)
    np.testing.assert_allclose(moved.positions_m[0], expected[:2], atol=1e-12)
    np.testing.assert_allclose(np.cos(moved.yaws_rad[0] - expected[2]), 1.0, atol=1e-12)


def test_a_plan_that_ends_before_the_next_step_is_an_error():
    with pytest.raises(InvalidArgumentError, match=r"times_s of plans end at 0.05 s; they must reach"):
        PlannedPoses().move(car(), plan((1, 0, 0), times_s=[0.05]), STEP_S)


def test_a_tracked_plan_brakes_as_a_car_can():
    stop = plan(*[(0.0, 0.0, 0.0)] * 20)
    states = car()
    for _ in range(10):
        states = TrackedPlans().move(states, Actions(stop.values + [[[states.positions_m[0, 0], 0, 0]]]), STEP_S)
    assert 2.0 < states.speeds_mps[0] < 8.0
    assert 5.0 < states.positions_m[0, 0] < 10.0


def test_controls_are_those_of_the_model():
    moved = Controls(PoseChange(), has_motion=False).move(
        car(yaw_rad=np.pi / 2), Actions(np.array([[1.0, 0.5, 0.1]])), 0.1
    )
    np.testing.assert_allclose(moved.positions_m[0], [-0.5, 1.0], atol=1e-12)
    faster = Controls(Unicycle()).move(car(), Actions(np.array([[1.0, 0.0]])), STEP_S)
    np.testing.assert_allclose(faster.speeds_mps, 10.1)


@pytest.mark.parametrize(
    ("model", "actions", "message"),
    [
        (Controls(Unicycle()), plan((1, 0, 0)), r"planned poses \(1, 1, 3\), but Unicycle takes controls"),
        (PlannedPoses(), Actions(np.zeros((1, 2))), r"controls \(1, 2\), but PlannedPoses takes planned poses"),
        (TrackedPlans(), Actions(np.zeros((1, 2))), r"controls \(1, 2\), but TrackedPlans takes planned poses"),
    ],
)
def test_actions_of_another_kind_are_an_error(model, actions, message):
    with pytest.raises(InvalidArgumentError, match=message):
        model.move(car(), actions, STEP_S)


@pytest.mark.parametrize(
    ("values", "times_s"),
    [
        (np.zeros((1, 2), np.float32), None),
        (np.zeros(3), None),
        (np.zeros((1, 0, 3)), None),
        (np.zeros((1, 5, 2)), None),
        (np.zeros((1, 5, 3)), np.zeros(4)),
        (np.zeros((1, 2)), np.zeros(2)),
        ([[0.0, 1.0]], None),
    ],
)
def test_actions_of_a_wrong_shape_or_type_are_an_error(values, times_s):
    with pytest.raises(InvalidArgumentError, match=r"values|times_s"):
        Actions(values, times_s)


@pytest.mark.parametrize("times_s", [[0.1, 0.1, 0.2], [0.2, 0.1, 0.3], [0.1, np.nan, 0.3], [0.1, 0.2, np.inf]])
def test_times_rise(times_s):
    with pytest.raises(InvalidArgumentError, match="must be finite and rise"):
        Actions(np.zeros((1, 3, 3)), np.array(times_s))


def test_masked_values_are_no_actions():
    with pytest.raises(InvalidArgumentError, match="got a masked one"):
        Actions(np.ma.masked_array(np.zeros((1, 2)), mask=[[True, False]]))
    with pytest.raises(InvalidArgumentError, match="got a masked one"):
        Actions(np.zeros((1, 2, 3)), np.ma.masked_array([0.1, 0.2], mask=[False, True]))


@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        ([], []),
        ([[], [0.1, 0.2]], [0.1, 0.2]),
        ([[0.1, 0.2], [0.1, 0.2, 0.3], [0.1]], [0.1, 0.2, 0.3]),
        ([[0.1, 0.2, 0.3], [0.15, 0.3 + 1e-12]], [0.1, 0.15, 0.2, 0.3]),
    ],
    ids=["none", "one without", "lengths", "steps"],
)
def test_times_are_joined(parts, joined):
    np.testing.assert_allclose(join_times([np.array(part) for part in parts]), joined, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("times_s", "x_m", "yaws_rad"),
    [
        pytest.param([0.1, 0.2, 0.4, 0.5], [NAN, 1, 3, NAN], [NAN, 3, -3, NAN], id="longer"),
        pytest.param([0.2, 0.4, 0.6], [1, 3, NAN], [3, -3, NAN], id="more behind"),
        pytest.param([0.1, 0.2, 0.3, 0.35], [NAN, 1, 2, 2.5], [NAN, 3, np.pi, np.pi + 0.0708], id="between"),
    ],
)
def test_plans_at_other_times(times_s, x_m, yaws_rad):
    """A plan of two poses, whose heading goes from 3 to -3 the short way, over pi."""
    plan = np.array([[[1, 0, 3], [3, 0, -3]]], np.float32)
    found = plans_at(np.array(times_s), plan, np.array([0.2, 0.4]))
    np.testing.assert_allclose(found[0], np.column_stack([x_m, np.where(np.isnan(x_m), NAN, 0), yaws_rad]), atol=1e-4)


def test_a_pose_beside_none_stays():
    plan = np.array([[[NAN, NAN, NAN], [2, 0, 0.5], [3, 0, 0.5]]], np.float32)
    found = plans_at(np.array([0.1, 0.15, 0.2, 0.25, 0.3]), plan, np.array([0.1, 0.2, 0.3]))
    np.testing.assert_allclose(found[0, :, 0], [NAN, NAN, 2, 2.5, 3])

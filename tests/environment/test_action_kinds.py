"""Kinds of actions: spaces, meaning of the values, and refusals."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from gymnasium import spaces

from l5kit.environment.action_kinds import KinematicModelActions, PoseActions, UnicycleActions
from l5kit.environment.kinematic_model import UnicycleModel
from l5kit.environment.model_actions import MODEL_ACTIONS, EgosNow, ModelActions, RouteActions, model_actions
from l5kit.environment.observations.compact_state import RouteRows
from l5kit.environment.utils import NonKinematicActionRescaleParams
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.lane_paths import PathArrays
from l5kit.simulation.vehicle_models import PoseChange, VehicleStates

STEP_S = 0.1


def egos_at(*poses, speed_mps=0.0):
    """AVs of 5 m at x, y and yaw."""
    poses = np.array(poses, np.float64)
    size = len(poses)
    states = VehicleStates(
        poses[:, :2], poses[:, 2], np.full(size, speed_mps), np.zeros(size), np.zeros(size), np.full(size, 5.0)
    )
    matrices = np.tile(np.eye(3), (size, 1, 1))
    cos, sin = np.cos(poses[:, 2]), np.sin(poses[:, 2])
    matrices[:, :2, :2] = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], axis=1)
    matrices[:, :2, 2] = poses[:, :2]
    return EgosNow(states, matrices, poses[:, 2])


def test_poses_are_seen_from_the_av():
    moved = PoseActions().move(np.arange(2), egos_at((1, 2, np.pi / 2), (0, 0, 0)), np.array([[3, 1, 0.5]] * 2), STEP_S)
    np.testing.assert_allclose(moved.positions_m, [[0, 5], [3, 1]], atol=1e-12)
    np.testing.assert_allclose(moved.yaws_rad, [np.pi / 2 + 0.5, 0.5])


def test_scales_of_poses_are_a_mean_and_a_way():
    kind = PoseActions(NonKinematicActionRescaleParams(1.0, 2.0, 0.0, 0.5, 0.1, 0.2))
    kind.move(np.arange(1), egos_at((0, 0, 0)), np.array([[0.5, -1.0, 1.0]]), STEP_S)
    np.testing.assert_allclose(kind.said["positions"], [[[2.0, -0.5]]])
    np.testing.assert_allclose(kind.said["yaws"], [[[0.3]]])


def test_a_unicycle_goes_on_with_its_speed():
    kind = UnicycleActions(3, UnicycleModel(), None)
    slots = np.array([2, 0])
    kind.begin(slots, np.array([10.0, 20.0]))
    egos, coast = egos_at((0, 0, 0), (0, 0, 0)), np.array([[0.0, 0.25, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(kind.move(slots, egos, coast, STEP_S).positions_m[:, 0], [1.25, 2.0])
    np.testing.assert_allclose(kind.move(slots, egos, 0 * coast, STEP_S).positions_m[:, 0], [1.25, 2.0])
    kind.begin(slots[:1], np.array([5.0]))
    np.testing.assert_allclose(kind.move(slots, egos, 0 * coast, STEP_S).positions_m[:, 0], [0.5, 2.0])


def test_a_model_of_1_5_is_as_before_after_a_refused_action():
    model = UnicycleModel(min_acc=-np.inf, max_acc=np.inf)
    kind = KinematicModelActions(model, STEP_S)
    kind.begin(np.arange(1), np.array([10.0]))
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="finite"):
            kind.move(np.arange(1), egos_at((0, 0, 0)), np.array([[0.0, np.inf, 0.0]]), STEP_S)
        assert model.old_v == pytest.approx(1.0)
    moved = kind.move(np.arange(1), egos_at((0, 0, 0)), np.zeros((1, 3)), STEP_S)
    np.testing.assert_allclose(moved.positions_m, [[1.0, 0.0]])


def test_a_model_of_1_5_is_given_all_three_values():
    given = []

    class Listening(UnicycleModel):
        def update(self, input_action):
            given.append(np.asarray(input_action).tolist())
            return super().update(input_action)

    kind = KinematicModelActions(Listening(), STEP_S)
    kind.begin(np.arange(1), np.array([10.0]))
    kind.move(np.arange(1), egos_at((0, 0, 0)), np.array([[0.0, 0.5, 0.25]]), STEP_S)
    assert given == [[0.0, 0.5, 0.25]]


def test_actions_of_models_stand_for_parts_of_their_limits():
    kind = ModelActions(PoseChange(), (-1.0, -0.5, -0.1), (2.0, 0.5, 0.1))
    actions = np.array([[1, 0, 0], [-1, 1, 0.5], [0.5, -3, 9]], np.float32)
    expected = [[2, 0, 0], [-1, 0.5, 0.05], [1, -0.5, 0.1]]
    np.testing.assert_allclose(kind.controls(actions), expected)
    assert kind.space == spaces.Box(-1, 1, (3,), np.float32)


def test_numbers_of_a_grid_are_combinations_with_the_last_one_first():
    kind = model_actions("grid")
    assert kind.space == spaces.Discrete(63)
    controls = kind.controls(np.arange(63))
    np.testing.assert_allclose(controls[[0, 8, 31, 62]], [[-4, -0.2], [-4, 0.2], [0, 0], [4, 0.2]], atol=1e-12)
    assert len(np.unique(controls.round(9), axis=0)) == 63


@pytest.mark.parametrize("name", MODEL_ACTIONS)
def test_an_action_of_nothing_goes_straight_on(name):
    kind = model_actions(name)
    action = np.array([31]) if name == "grid" else np.zeros((1, *kind.space.shape), np.float32)
    egos = replace(
        egos_at((3, 0, 0), speed_mps=10.0), routes=RouteRows(ROAD, np.zeros(1, np.int64), np.array([[3.0, 0, 0]]))
    )
    moved = kind.move(np.arange(1), egos, action, STEP_S)
    way_m = 0.0 if name == "pose_change" else 1.0
    np.testing.assert_allclose(moved.positions_m, [[3 + way_m, 0]], atol=1e-12)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (((), ()), "need one for each control"),
        (((-1.0,), (1.0, 2.0)), "need one for each control"),
        (((0.0,), (1.0,)), "limits are 0.0 and 1.0; pass one below 0 and one above"),
        (((-1.0,), (np.inf,)), "limits are -1.0 and inf"),
        (((np.nan,), (1.0,)), "limits are nan and 1.0"),
        (((-1.0,), (1.0,), (1,)), "pass two values or more for each of 1 controls"),
        (((-1.0,), (1.0,), (3, 3)), "pass two values or more for each of 1 controls"),
    ],
)
def test_limits_that_are_none_are_refused(args, message):
    with pytest.raises(InvalidArgumentError, match=message):
        ModelActions(PoseChange(), *args)


def test_an_unknown_kind_is_refused():
    with pytest.raises(
        InvalidArgumentError, match="actions is 'fly'; it must be one of bicycle, curvature, pose_change, grid, route"
    ):
        model_actions("fly")


@pytest.mark.parametrize("actions", [[0, 63], [0, -1], [0.0, 1.0], ["0", "1"], [0], [[0], [1]], [0, None]])
def test_numbers_that_are_no_actions_of_a_grid_are_refused(actions):
    kind = model_actions("grid")
    with pytest.raises(InvalidArgumentError, match="action"):
        kind.checked(actions, np.ones(2, np.bool_))


def test_actions_that_do_not_count_may_be_anything():
    is_driven = np.array([True, False])
    assert model_actions("grid").checked([5, 900], is_driven).tolist() == [5, 0]
    values = PoseActions().checked([[0, 0, 1], [np.nan, 0, 0]], is_driven)
    assert values[0].tolist() == [0, 0, 1]
    assert values.dtype == np.float64


ROAD = PathArrays(
    starts=np.array([0, 60]),
    points_m=np.column_stack([2.0 * np.arange(60), np.zeros(60)]),
    lengths_m=np.array([118.0]),
    piece_starts=np.array([0, 1]),
    piece_arcs_m=np.zeros(1),
    piece_lanes=np.zeros(1, np.int64),
    line_lanes=np.full((1, 2), -1),
    piece_limits_mps=np.array([14.0]),
)
"""A straight route along x with points 2 m apart."""


def test_an_acceleration_along_the_route_is_steered_for():
    kind = model_actions("route")
    assert isinstance(kind, RouteActions)
    assert kind.space == spaces.Box(-1, 1, (1,), np.float32)
    egos = egos_at((10, 0, 0), (10, 1, 0), (10, 1, 0), speed_mps=8.0)
    places = np.array([[10.0, 0, 0], [10.0, 1, 0], [0.0, 0, 0]])
    routes = RouteRows(ROAD, np.array([0, 0, -1]), places)
    moved = kind.move(np.arange(3), replace(egos, routes=routes), np.array([[1.0], [0.0], [-1.0]]), STEP_S)
    np.testing.assert_allclose(moved.accelerations_mps2, [0.1, 0.0, -0.1])
    assert moved.steering_rad[0] == pytest.approx(0.0)
    assert moved.steering_rad[1] < 0
    assert moved.steering_rad[2] == pytest.approx(0.0)


def test_limits_of_actions_along_the_route_are_the_bounds_of_comfort():
    kind = model_actions("route")
    assert kind.controls(np.array([[-1.0], [0.5], [1.0]])).ravel().tolist() == pytest.approx([-3.7, 1.1, 2.2])

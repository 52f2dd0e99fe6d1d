"""Seat of actors: rows with controls are driven by the model, rows with a pose go there."""

import numpy as np
import pytest

from l5kit.environment.actors.action_seat import ControlsOrPoses
from l5kit.simulation.engine.actions import Actions
from l5kit.simulation.vehicle_models import InvertibleBicycle, PoseModel, VehicleStates

CONTROLS = np.array([[2.0, 0.01], [-1.0, 0.0], [1.0, 0.02]])
POSES = np.array([[0.3, 0.1, 0.2], [5.0, 6.0, 0.7], [9.0, 1.0, -0.3]])


@pytest.mark.parametrize("is_driven", [[1, 0, 1], [1, 1, 1], [0, 0, 0]], ids=["both", "controls", "poses"])
def test_each_vehicle_does_what_its_row_says(is_driven):
    speeds_mps = np.array([3.0, 4.0, 5.0])
    states = VehicleStates(np.zeros((3, 2)), np.zeros(3), speeds_mps, np.zeros(3), np.zeros(3), np.full(3, 4.5))
    values = np.column_stack([np.array(is_driven, np.float64), CONTROLS, POSES])
    moved = ControlsOrPoses(InvertibleBicycle()).move(states, Actions(values), 0.1)
    for row, is_controlled in enumerate(is_driven):
        one = states.taken(slice(row, row + 1))
        if is_controlled:
            expected = InvertibleBicycle().step(one, CONTROLS[row : row + 1], 0.1)
        else:
            expected = PoseModel().step(one, POSES[row : row + 1], 0.1)
        for name in ("positions_m", "yaws_rad", "speeds_mps", "accelerations_mps2", "steering_rad", "lengths_m"):
            np.testing.assert_array_equal(getattr(moved, name)[row], getattr(expected, name)[0])
    np.testing.assert_array_equal(states.positions_m, 0.0)

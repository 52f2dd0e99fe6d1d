"""Logged start: speeds, yaw rates and steering of AVs from two poses."""

import math

import numpy as np
import pytest

from l5kit.environment.slots.av_slots import states_at_start
from l5kit.simulation.vehicle_models import VehicleGeometry


@pytest.mark.parametrize(
    ("after", "speed_mps", "yaw_rate"),
    [
        ((1.0, 0.0, 0.1), 10.0, 1.0),
        ((-0.5, 0.0, 0.0), -5.0, 0.0),
        ((0.05, 0.0, 0.2), 0.5, 2.0),
        ((0.0, 0.0, 0.0), 0.0, 0.0),
    ],
    ids=["turning", "backwards", "too slow to steer", "standing"],
)
def test_motion_is_that_of_the_step_before(after, speed_mps, yaw_rate):
    states, yaw_rates = states_at_start(np.zeros((1, 3)), np.array([after]), length_m=4.0, step_time_s=0.1)
    wheel_base_m = 4.0 * VehicleGeometry().wheel_base_share
    steering_rad = math.atan(wheel_base_m * yaw_rate / speed_mps) if abs(speed_mps) >= 0.6 else 0.0
    assert states.positions_m.tolist() == [list(after[:2])]
    assert states.speeds_mps[0] == pytest.approx(speed_mps)
    assert yaw_rates[0] == pytest.approx(yaw_rate)
    assert states.steering_rad[0] == pytest.approx(steering_rad)
    assert states.accelerations_mps2[0] == 0

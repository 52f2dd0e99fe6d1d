"""Keys and what a vehicle does with them: hand-computable cases."""

import itertools
import math

import pytest

from l5kit.errors import InvalidArgumentError
from l5kit.simulation.drivers.key_driver import DrivingKeys, KeyDriver, KeyResponse, action_of_keys
from l5kit.simulation.vehicle_models import KinematicBicycle
from l5kit.simulation.vehicle_steps import BICYCLE, step_vehicle

STEP_S = 0.1
LENGTH_M = 5.0
MODEL = KinematicBicycle()


def drive(keys, *, speed=0.0, steering=0.0, num_steps=1):
    """States (x, y, yaw, speed, acceleration, steering) after steps with the same keys, the first one included."""
    states = [(0.0, 0.0, 0.0, speed, 0.0, steering)]
    for _ in range(num_steps):
        *pose, speed, acceleration, steering = states[-1]
        vehicle = (speed, acceleration, steering, LENGTH_M)
        action = action_of_keys(keys, vehicle, step_s=STEP_S, bicycle=MODEL, response=KeyResponse())
        now = (*pose, speed, acceleration, steering, LENGTH_M)
        states.append(step_vehicle(BICYCLE, now, action, MODEL.parameters(STEP_S), STEP_S))
    return states


@pytest.mark.parametrize("keys", [0, DrivingKeys.BRAKE, DrivingKeys.HARD_BRAKE], ids=["coasting", "brake", "hard"])
def test_brakes_stop_the_vehicle_and_do_not_reverse_it(keys):
    speeds = [state[3] for state in drive(keys, speed=2.0, num_steps=200)]
    assert min(speeds) >= -1e-12
    assert speeds[-1] == pytest.approx(0.0, abs=1e-12)
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(speeds))


def test_a_hard_brake_stops_in_less_than_the_brake():
    ways = [drive(keys, speed=10.0, num_steps=100)[-1][0] for keys in (DrivingKeys.HARD_BRAKE, DrivingKeys.BRAKE)]
    assert ways[0] < ways[1] < 10.0**2 / (2 * KeyResponse().braking_mps2) + 5.0


def test_forward_gets_to_the_top_speed_and_no_faster():
    speeds = [state[3] for state in drive(DrivingKeys.FORWARD, num_steps=1200)]
    assert speeds[10] == pytest.approx(2.2 * 0.8, abs=0.2)  # a second less the lag
    assert max(speeds) <= KeyResponse().top_speed_mps
    assert speeds[-1] == pytest.approx(KeyResponse().top_speed_mps, abs=0.1)


@pytest.mark.parametrize(("keys", "sign"), [(DrivingKeys.LEFT, 1), (DrivingKeys.RIGHT, -1)], ids=["left", "right"])
def test_wheels_turn_to_the_bend_of_the_lateral_acceleration(keys, sign):
    # tan(steering) / wheel base = lateral / speed^2, here at a speed that is kept
    action = (
        0.0,
        action_of_keys(keys, (10.0, 0.0, 0.0, LENGTH_M), step_s=STEP_S, bicycle=MODEL, response=KeyResponse())[1],
    )
    assert math.copysign(1.0, action[1]) == sign
    steering = sign * math.atan(3.0 * 3.5 / 100.0)
    vehicle = (10.0, 0.0, steering, LENGTH_M)
    assert action_of_keys(keys, vehicle, step_s=STEP_S, bicycle=MODEL, response=KeyResponse())[1] == pytest.approx(0.0)


def test_without_keys_wheels_turn_back_and_stay():
    steering = [state[5] for state in drive(0, speed=5.0, steering=0.2, num_steps=20)]
    assert steering[0] > steering[1] > steering[-1]
    assert steering[-1] == pytest.approx(0.0, abs=1e-12)


def test_both_sides_at_once_are_none():
    both = DrivingKeys.LEFT | DrivingKeys.RIGHT
    assert drive(both, speed=5.0, num_steps=5) == drive(0, speed=5.0, num_steps=5)


@pytest.mark.parametrize("keys", [-1, 32])
def test_what_are_no_keys_is_refused(keys):
    with pytest.raises(
        InvalidArgumentError, match=rf"keys of step 1 are {keys}; they must be a sum of DrivingKeys, 0 to 31"
    ):
        KeyDriver((0, keys))


@pytest.mark.parametrize(
    "values", [{"braking_mps2": 0.0}, {"max_steering_rad": 1.6}, {"top_speed_mps": math.nan}], ids=str
)
def test_a_response_out_of_range_is_refused(values):
    with pytest.raises(InvalidArgumentError, match=f"KeyResponse: {next(iter(values))} is"):
        KeyResponse(**values)

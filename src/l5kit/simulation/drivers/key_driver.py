"""Key driver: the keys that a person holds in each step, and their effect on a kinematic bicycle.

The page of ``l5kit drive`` implements the same rule in JavaScript (``visualization/drive/page/vehicle.js``); the
parameters are defined here and passed to the page.
"""

import math
from dataclasses import dataclass, field
from enum import IntFlag

import numpy as np

from l5kit.errors import InvalidArgumentError
from l5kit.simulation.engine.actions import Actions, Controls
from l5kit.simulation.engine.scene_simulation import EgoSeat
from l5kit.simulation.engine.traffic_state import TrafficState
from l5kit.simulation.vehicle_models import KinematicBicycle


class DrivingKeys(IntFlag):
    """Keys of a drive, one bit each; the keys of a step are combined as a sum."""

    FORWARD = 1
    BRAKE = 2
    LEFT = 4
    RIGHT = 8
    HARD_BRAKE = 16


_ALL_KEYS = int(sum(DrivingKeys))


@dataclass(frozen=True)
class KeyResponse:
    """Response of a vehicle to keys; the defaults are comfortable except for hard braking.

    Attributes:
        acceleration_mps2: Acceleration of the forward key at standstill, above 0; it falls to 0 at the top speed.
        top_speed_mps: Speed at which the forward key stops accelerating, above 0.
        coasting_mps2: Deceleration without a key, above 0.
        braking_mps2: Deceleration of the brake, above 0.
        hard_braking_mps2: Deceleration of the hard brake, above 0.
        max_steering_rad: Steering of the left and right keys at low speed, above 0 and below pi / 2.
        lateral_mps2: Lateral acceleration of these keys at higher speed, above 0.
        steering_rate_radps: Steering rate at standstill, above 0.
        halving_speed_mps: Speed at which the steering rate is halved, above 0.

    Raises:
        InvalidArgumentError: A value is out of range.
    """

    acceleration_mps2: float = 2.2
    top_speed_mps: float = 30.0
    coasting_mps2: float = 0.3
    braking_mps2: float = 3.5
    hard_braking_mps2: float = 7.0
    max_steering_rad: float = 0.6
    lateral_mps2: float = 3.5
    steering_rate_radps: float = 0.9
    halving_speed_mps: float = 6.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            most = math.pi / 2 if name == "max_steering_rad" else math.inf
            if not 0 < value < most:
                raise InvalidArgumentError(f"KeyResponse: {name} is {value}; it must be above 0 and below {most}")


def action_of_keys(
    keys: int,
    vehicle: tuple[float, float, float, float],
    *,
    step_s: float,
    bicycle: KinematicBicycle,
    response: KeyResponse,
) -> tuple[float, float]:
    """Return the action of keys for a kinematic bicycle: acceleration, m/s2, and steering rate, rad/s.

    Brakes stop the vehicle and never reverse it. Left and right turn the front wheels towards an angle; without these
    keys the wheels turn back.

    Args:
        keys: A sum of :class:`DrivingKeys`.
        vehicle: Speed, m/s, acceleration, m/s2, steering, rad, and length, m.
        step_s: Length of the step in seconds.
        bicycle: Vehicle model, whose lags the action compensates.
        response: Response to keys.
    """
    speed, acceleration, steering, length_m = vehicle
    _, acceleration_gain, steering_gain, _, wheel_base_share = bicycle.parameters(step_s)

    # requested acceleration, limited so that braking at most stops the vehicle at the end of the step
    wanted = -response.coasting_mps2
    if keys & DrivingKeys.FORWARD:
        wanted = response.acceleration_mps2 * (1.0 - speed / response.top_speed_mps)
    if keys & DrivingKeys.BRAKE:
        wanted = -response.braking_mps2
    if keys & DrivingKeys.HARD_BRAKE:
        wanted = -response.hard_braking_mps2
    stopping = acceleration + (-speed / step_s - acceleration) / acceleration_gain
    wanted = max(wanted, stopping)

    # steering angle with the lateral acceleration, and the rate to reach it
    side = float(bool(keys & DrivingKeys.LEFT)) - float(bool(keys & DrivingKeys.RIGHT))
    in_bend_rad = math.atan(wheel_base_share * length_m * response.lateral_mps2 / max(speed * speed, 1.0))
    target_rad = side * min(response.max_steering_rad, in_bend_rad)
    most = response.steering_rate_radps / (1.0 + abs(speed) / response.halving_speed_mps)
    rate = (target_rad - steering) / (steering_gain * step_s)
    return wanted, min(max(rate, -most), most)


@dataclass(frozen=True)
class KeyDriver:
    """Driver of AVs that replays recorded keys from the start of a scene; see :attr:`seat`.

    Attributes:
        keys: Keys of each step, sums of :class:`DrivingKeys`; no keys after the last one.
        response: Response to keys.
        bicycle: The vehicle model.

    Raises:
        InvalidArgumentError: A number is not a sum of keys.
    """

    keys: tuple[int, ...]
    response: KeyResponse = KeyResponse()
    bicycle: KinematicBicycle = field(default_factory=KinematicBicycle)

    def __post_init__(self) -> None:
        for step, keys in enumerate(self.keys):
            if not 0 <= keys <= _ALL_KEYS:
                raise InvalidArgumentError(
                    f"KeyDriver: keys of step {step} are {keys}; they must be a sum of DrivingKeys, 0 to {_ALL_KEYS}"
                )

    @property
    def seat(self) -> EgoSeat:
        """The driver with the vehicle model for its actions."""
        return EgoSeat(self, Controls(self.bicycle))

    def drive(self, state: TrafficState) -> Actions:
        """Return accelerations and steering rates of the AVs, (R, 2)."""
        egos, actions = state.actor_states, np.empty((len(state), 2))
        steps = state.frame_indices - state.batch.starts[state.scenes]
        motions = egos.motions[1:].T
        for row, step in enumerate(steps.tolist()):
            speed, acceleration, steering = motions[row].tolist()
            actions[row] = action_of_keys(
                self.keys[step] if step < len(self.keys) else 0,
                (speed, acceleration, steering, float(egos.lengths_m[row])),
                step_s=state.step_time_s,
                bicycle=self.bicycle,
                response=self.response,
            )
        return Actions(actions)

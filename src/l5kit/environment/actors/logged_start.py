"""Logged start of AVs: their states where an episode begins, from where the log has them in its first two frames."""

import numpy as np

from l5kit._types import Float64Array
from l5kit.geometry.angle import angular_distance
from l5kit.simulation.vehicle_models import VehicleGeometry, VehicleStates


def states_at_start(
    before: Float64Array, after: Float64Array, *, length_m: float, step_time_s: float
) -> tuple[VehicleStates, Float64Array]:
    """Return the states of AVs in the second frames of episodes, and their yaw rates, rad/s, (B,).

    Speeds and yaw rates are those of the step before, as all environments have them; accelerations are 0. The steering
    is that of the yaw rate, 0 below 0.6 m/s.

    Args:
        before: World x, y and yaw in the first frames, metres and radians, (B, 3).
        after: The same in the second frames.
        length_m: Length of the AV.
        step_time_s: Seconds between them.
    """
    steps_m = after[:, :2] - before[:, :2]
    # below 0 where the AV has gone against its heading
    ahead_m = steps_m[:, 0] * np.cos(after[:, 2]) + steps_m[:, 1] * np.sin(after[:, 2])
    speeds_mps = np.copysign(np.sqrt(steps_m[:, 0] ** 2 + steps_m[:, 1] ** 2), ahead_m) / step_time_s
    yaw_rates = angular_distance(after[:, 2], before[:, 2]) / step_time_s
    steering_rad = VehicleGeometry().steering_of(yaw_rates, speeds_mps, length_m=length_m)
    size = len(after)
    lengths_m = np.full(size, length_m)
    states = VehicleStates(after[:, :2].copy(), after[:, 2].copy(), speeds_mps, np.zeros(size), steering_rad, lengths_m)
    return states, yaw_rates

"""Vehicles for tests of how they move."""

import numpy as np

from l5kit.simulation.vehicle_models import VehicleStates

AV_LENGTH_M = 4.87


def states_of(x=0.0, y=0.0, *, yaw=0.0, speed=0.0, acceleration=0.0, steering=0.0, length=AV_LENGTH_M):
    """States of vehicles from numbers or lists, broadcast against each other."""
    values = np.broadcast_arrays(x, y, yaw, speed, acceleration, steering, length)
    x, y, *rest = (np.atleast_1d(np.array(value, dtype=np.float64)) for value in values)
    return VehicleStates(np.stack([x, y], axis=-1), *rest)


def random_states(num_vehicles, seed=0):
    rng = np.random.default_rng(seed)
    return VehicleStates(
        positions_m=rng.uniform(-2000, 2000, (num_vehicles, 2)),
        yaws_rad=rng.uniform(-7, 7, num_vehicles),
        speeds_mps=rng.uniform(0, 20, num_vehicles),
        accelerations_mps2=rng.uniform(-3, 3, num_vehicles),
        steering_rad=rng.uniform(-0.5, 0.5, num_vehicles),
        lengths_m=rng.uniform(3, 12, num_vehicles),
    )


def bytes_of(states):
    """The arrays of states as bytes, to be compared to the bit."""
    return [array.tobytes() for array in vars(states).values()]

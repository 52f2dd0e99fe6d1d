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


def log_states(poses, times_s, lengths_m):
    """States of N vehicles at each of T times of a log, of poses (N, T, 3) and lengths (N,), without steering.

    Speeds are differences of the centres over the times around, negative where a centre moves against its heading, and
    accelerations the same differences of the speeds.
    """
    velocities_mps = _differences(poses[..., :2].swapaxes(1, 2), times_s).swapaxes(1, 2)
    ahead_mps = velocities_mps[..., 0] * np.cos(poses[..., 2]) + velocities_mps[..., 1] * np.sin(poses[..., 2])
    speeds_mps = np.copysign(np.sqrt((velocities_mps**2).sum(axis=-1)), ahead_mps)
    accelerations_mps2 = _differences(speeds_mps, times_s)
    none = np.zeros(len(poses))
    return tuple(
        VehicleStates(poses[:, i, :2], poses[:, i, 2], speeds_mps[:, i], accelerations_mps2[:, i], none, lengths_m)
        for i in range(len(times_s))
    )


def _differences(values, times_s):
    """Central differences along the last axis, one-sided at its ends."""
    before = np.maximum(np.arange(len(times_s)) - 1, 0)
    after = np.minimum(np.arange(len(times_s)) + 1, len(times_s) - 1)
    return (values[..., after] - values[..., before]) / (times_s[after] - times_s[before])


def bytes_of(states):
    """The arrays of states as bytes, to be compared to the bit."""
    return [array.tobytes() for array in vars(states).values()]

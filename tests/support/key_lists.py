"""Lists of keys that a person might hold while driving a scene."""

import numpy as np

from l5kit.simulation.drivers.key_driver import DrivingKeys

UP, DOWN, LEFT, RIGHT, HARD = (int(key) for key in DrivingKeys)


def held_keys(seed, num_steps, among):
    """Keys of a person who changes them about once a second."""
    rng = np.random.default_rng(seed)
    keys, now = [], 0
    for _ in range(num_steps):
        if rng.random() < 0.1:
            now = int(rng.choice(among))
        keys.append(now)
    return keys


def key_lists(num_steps):
    """Recorded lists of keys: nothing, full throttle, careful driving, weaving, and stop and go."""
    return [
        [0] * num_steps,
        [UP] * num_steps,
        held_keys(1, num_steps, [0, UP, DOWN, UP | LEFT, UP | RIGHT]),
        held_keys(2, num_steps, [UP, UP | LEFT, UP | RIGHT, LEFT, RIGHT]),
        held_keys(3, num_steps, [HARD, DOWN, UP, DOWN | LEFT, UP | HARD]),
    ]

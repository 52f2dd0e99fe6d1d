"""Environments over the small made city, for tests of environments."""

import pytest


@pytest.fixture
def make_env(city, tmp_path):
    """Function that makes environments of 12 frames, from keys of ``gym_params`` and arguments."""
    pytest.importorskip("gymnasium")
    from l5kit.environment.envs.l5_env import L5Env, SimulationConfigGym
    from support.environments import NUM_FRAMES, data_of, write_config

    def make(gym_params=(), num_frames=NUM_FRAMES, **args):
        args.setdefault("sim_cfg", SimulationConfigGym(num_simulation_steps=num_frames))
        return L5Env(write_config(tmp_path, **dict(gym_params)), data_of(city), **args)

    return make

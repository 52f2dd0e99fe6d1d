"""Parts that tests of environments share: a small made city and environments over it."""

import pytest

from support.cities import small_city


@pytest.fixture(scope="session")
def city(tmp_path_factory):
    """Folder of a small made city, never written to."""
    return small_city(tmp_path_factory.mktemp("environments") / "city").path


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

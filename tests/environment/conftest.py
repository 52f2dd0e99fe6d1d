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


@pytest.fixture(params=["cpu", "cuda"])
def backend(request):
    """Each device that this machine has."""
    torch = pytest.importorskip("torch")
    from l5kit.device.opening import open_backend

    if request.param == "cuda":
        pytest.importorskip("numba.cuda")
        if not torch.cuda.is_available():
            pytest.skip("there is no GPU")
    return open_backend(request.param)

"""Environments over the small synthetic city."""

import numpy as np
import pytest

from l5kit.device.processor import ProcessorBackend


@pytest.fixture(scope="session")
def city_log(city):
    """The log of the city."""
    from l5kit.data import ChunkedDataset, find_dataset_files

    return ChunkedDataset(str(find_dataset_files(city).dataset)).open()


@pytest.fixture(scope="session")
def road(city):
    """The map of the city."""
    from l5kit.data import find_dataset_files
    from l5kit.data.map.opened import open_map
    from l5kit.simulation.engine.scene_batch import RoadMap

    return RoadMap(open_map(find_dataset_files(city)))


@pytest.fixture(scope="module")
def bank(city_log, road):
    """Its scenes 2, 0 and 1, whose agents may be driven."""
    from l5kit.environment.traffic.scene_bank import SceneBank

    bank = SceneBank(city_log, road=road, drives_agents=True)
    bank.prepare(np.array([2, 0, 1]))
    return bank


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


class ItemsApart(ProcessorBackend):
    """Runs kernels on the processor as a GPU does."""

    is_serial = False

    def rows_at_once(self, num_items):
        return num_items


@pytest.fixture(params=["cpu", "items", "cuda"])
def backend(request):
    """Each device that this machine has, and the processor with items that know nothing of each other, as on a GPU."""
    torch = pytest.importorskip("torch")
    from l5kit.device.opening import open_backend

    if request.param == "items":
        return ItemsApart()
    if request.param == "cuda":
        pytest.importorskip("numba.cuda")
        if not torch.cuda.is_available():
            pytest.skip("there is no GPU")
    return open_backend(request.param)

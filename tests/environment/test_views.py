"""Views of environments: spaces, and memory that all samples are written to."""

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from l5kit.environment.envs.l5_env import SimulationConfigGym
from l5kit.environment.envs.vector_env import L5VectorEnv
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.observations.views import VECTOR_KEYS, as_samples
from l5kit.environment.setup import EnvironmentOptions, EnvironmentParts
from support.environments import SIDE_PX, VECTOR_PARAMS, assert_same, data_of, write_config


@pytest.fixture
def make(city, tmp_path):
    """Function that makes two environments."""
    sim_cfg = SimulationConfigGym(num_simulation_steps=6)

    def make(observation, **params):
        config = write_config(tmp_path, **params)
        return L5VectorEnv(2, config, data_of(city), sim_cfg, actions="bicycle", observation=observation, copy=False)

    return make


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_rasters_have_the_type_of_the_configuration(make, dtype):
    env = make("raster", image_dtype=np.dtype(dtype).name)
    space = env.single_observation_space["image"]
    assert (space.dtype, space.shape[1:], space.high.max()) == (dtype, SIDE_PX[::-1], 1 if dtype == np.float32 else 255)


def test_pictures_show_the_route_from_where_the_av_is_driven(make):
    env = make("raster", route=True)
    num_channels = make("raster").single_observation_space["image"].shape[0] + 1
    assert env.single_observation_space["image"].shape[0] == num_channels
    observation, _ = env.reset(seed=1)
    begin = observation["image"][:, -1].copy()
    assert begin.any(axis=(1, 2)).all()
    for _ in range(4):
        observation, *_ = env.step(np.tile(np.float32([0.0, 1.0]), (2, 1)))  # to the left, off the route
    assert (observation["image"][:, -1] != begin).any(axis=(1, 2)).all()
    samples = env.episodes.parts.log.look(np.arange(2), env.frame_indices)
    np.testing.assert_array_equal(observation["image"], samples["image"])


def test_what_is_not_looked_at_shows_no_route(city, tmp_path):
    options = EnvironmentOptions(observation="compact")
    parts = EnvironmentParts.open(write_config(tmp_path, route=True), data_of(city), train=True, options=options)
    assert parts.rasterizer.num_channels() == 3


def test_vectors_have_the_keys_of_the_past(make):
    env = make("vectors")
    assert set(env.single_observation_space) == {*VECTOR_KEYS, "ego_type"} - {"type"}
    assert not [key for key in VECTOR_KEYS if "target" in key or "future" in key]
    observation, _ = env.reset(seed=1)
    for key, space in env.observation_space.items():
        assert observation[key].dtype == space.dtype
        assert observation[key] in space


@pytest.mark.parametrize("observation", ["raster", "vectors"])
def test_keys_and_shapes_are_those_that_policies_can_have(make, observation):
    nn = pytest.importorskip("torch").nn
    space, taken = make(observation).single_observation_space, {*dir(nn.Module()), *dir(nn.ModuleDict())}
    assert "type" in taken, "the test knows what is taken"
    assert not taken & set(space), "an nn.ModuleDict cannot have the key"
    assert all(key.isidentifier() for key in space)
    assert {key for key, box in space.items() if box.shape == ()} == set()


@pytest.mark.parametrize("num_others", [0, 3])
def test_networks_on_samples_take_vectors_as_samples(make, num_others):
    params = VECTOR_PARAMS | {"other_agents_num": num_others}
    env = make("vectors", data_generation_params=params)
    observation, _ = env.reset(seed=1)
    samples = as_samples(observation)
    expected = env.episodes.parts.log.look(np.arange(2), env.frame_indices)
    assert_same(samples, {key: np.asarray(expected[key]) for key in VECTOR_KEYS})


@pytest.mark.parametrize("observation", ["raster", "vectors", "compact"])
def test_some_environments_are_seen_like_all(make, observation):
    env = make(observation)
    env.reset(seed=1)
    view = env.episodes.parts.view
    arrays = view.memory if isinstance(view.memory, dict) else {"all": view.memory}
    expected = {key: array.copy() for key, array in arrays.items()}
    for array in arrays.values():
        array[...] = 0
    for slot in (1, 0):
        env.episodes.look(np.array([slot]))
    for key, array in arrays.items():
        np.testing.assert_array_equal(array, expected[key])
    again = env.episodes.parts.view.memory
    assert again is view.memory, "memory stays where it is"


def test_a_layout_can_be_copied():
    import copy
    import pickle

    layout = CompactLayout(num_agents=3, reach_m=40.0)
    _ = layout.parts
    for copied in (copy.deepcopy(layout), pickle.loads(pickle.dumps(layout))):
        assert copied == layout
        assert copied.size == layout.size

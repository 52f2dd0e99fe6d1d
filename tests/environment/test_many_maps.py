"""Environments over scenes that have a map each: they see and earn what they do on one map with all of them."""

import json

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from l5kit.environment import L5Env, SimulationConfigGym
from l5kit.errors import InvalidArgumentError
from support.environments import assert_same, data_of, write_config
from support.many_maps import NUM_SCENES, import_both


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same scenes with one map and with many."""
    return import_both(tmp_path_factory.mktemp("maps"))


def make_env(folder, out, *, is_apart, **params):
    """An environment over the scenes of a folder."""
    out.mkdir(exist_ok=True)
    path = write_config(out, **params)
    cfg = json.loads((out / "gym.yaml").read_text())
    cfg["train_data_loader"] = cfg["val_data_loader"] = {"key": "scenes/val.zarr"}
    cfg["raster_params"]["semantic_map_key"] = "maps/index.json" if is_apart else "semantic_map/semantic_map.pb"
    (out / "gym.yaml").write_text(json.dumps(cfg))
    return L5Env(path, data_of(folder), SimulationConfigGym(num_simulation_steps=5))


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, id="pictures"),
        pytest.param({"observation": "compact", "reward": "driving", "others": "idm"}, id="lanes and traffic"),
    ],
)
def test_episodes_on_many_maps_are_those_on_one(folders, tmp_path, params):
    envs = [make_env(folders[maps], tmp_path / maps, is_apart=maps == "apart", **params) for maps in ("one", "apart")]
    for seed in range(3):
        seen = [env.reset(seed=seed)[0] for env in envs]
        assert_same(seen[1], seen[0])
        for _ in range(3):
            steps = [env.step(np.zeros(env.action_space.shape, np.float32)) for env in envs]
            assert_same(steps[1][0], steps[0][0])
            assert steps[0][1:4] == steps[1][1:4]


def test_more_maps_than_are_taken_at_once_are_refused_by_name(folders, tmp_path, monkeypatch):
    monkeypatch.setattr("l5kit.data.map.opened.MOST_MAPS_AT_ONCE", NUM_SCENES - 1)
    with pytest.raises(InvalidArgumentError, match=f"{NUM_SCENES} maps are needed at once, allowed are 1 to 4"):
        make_env(folders["apart"], tmp_path / "env", is_apart=True, observation="compact", reward="driving").reset()

"""Environments of several towns as one: each town gets its share, and gives what it gives alone."""

import json
import shutil

import numpy as np
import pytest

from l5kit.configs.reinforcement import LogKeys
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.reinforcement.environments import join_towns, make_environments, towns_of
from support.driver_trainings import compact_config


@pytest.fixture
def towns(city, tmp_path):
    """A folder of two towns, and a configuration that names them."""
    for name in ("town_a", "town_b"):
        shutil.copytree(city, tmp_path / "towns" / name)
    cfg = compact_config(tmp_path)
    cfg["train_data_loader"]["folders"] = "town_*"
    (tmp_path / "gym.yaml").write_text(json.dumps(cfg))
    return cfg, tmp_path / "gym.yaml", LocalDataManager(str(tmp_path / "towns"))


@pytest.mark.parametrize("num_threads", [1, 2])
def test_towns_step_as_they_do_alone(towns, num_threads):
    cfg, config, data = towns
    found = towns_of(LogKeys.from_cfg(cfg), data)
    joined = join_towns(cfg, config, found, num_envs=5, num_threads=num_threads)
    assert [town.num_envs for town in joined.towns] == [3, 2]
    alone = [
        make_environments(cfg, config, town, num_envs=size, train=True)
        for town, size in zip(found, (3, 2), strict=True)
    ]
    joined.seed(7)
    alone[0].seed(7)
    alone[1].seed(10)
    np.testing.assert_array_equal(joined.reset(), np.concatenate([town.reset() for town in alone]))
    rng = np.random.default_rng(0)
    num_ends = 0
    for _ in range(12):
        actions = rng.uniform(-1, 1, (5, 2)).astype(np.float32)
        stepped = joined.step(actions)
        expected = [town.step(part) for town, part in zip(alone, (actions[:3], actions[3:]), strict=True)]
        for found_one, *of_towns in zip(stepped[:3], *(town[:3] for town in expected), strict=True):
            np.testing.assert_array_equal(found_one, np.concatenate(of_towns))
        ends = [info["episode"]["l"] if info else None for info in stepped[3]]
        assert ends == [info["episode"]["l"] if info else None for town in expected for info in town[3]]
        num_ends += sum(end is not None for end in ends)
    assert num_ends >= 5
    assert joined.stepped_s > 0
    assert joined.get_attr("num_envs") == [3, 3, 3, 2, 2]
    joined.close()


def test_options_are_those_of_all_towns_until_the_next_start(towns):
    cfg, config, data = towns
    joined = join_towns(cfg, config, towns_of(LogKeys.from_cfg(cfg), data), num_envs=5, num_threads=1)
    joined.set_options({"scene_id": 1})
    joined.seed(0)
    joined.reset()
    assert joined.get_attr("scene_indices") == [1] * 5
    joined.reset()
    assert set(joined.get_attr("scene_indices")) != {1}
    joined.close()


def test_attributes_and_methods_are_those_of_all_environments(towns):
    cfg, config, data = towns
    joined = join_towns(cfg, config, towns_of(LogKeys.from_cfg(cfg), data), num_envs=5, num_threads=1)
    joined.set_attr("spare", 4, indices=range(5))
    assert joined.get_attr("spare", indices=[1, 4]) == [4, 4]
    joined.set_attr("double", lambda value: 2 * value)
    assert joined.env_method("double", 4) == [8] * 5
    for call in (lambda: joined.set_attr("spare", 5, [0, 1]), lambda: joined.env_method("double", 4, indices=[0, 1])):
        with pytest.raises(InvalidArgumentError, match=r"for environments \[0, 1\], but all 5 are one object"):
            call()
    assert joined.get_attr("spare") == [4] * 5
    joined.close()


@pytest.mark.parametrize(("num_threads", "num_cores", "at_once"), [(0, 2, 2), (0, 9, 2), (0, 1, None), (9, 1, 2)])
def test_as_many_towns_step_at_once_as_are_asked_for_or_as_there_are_cores(
    towns, monkeypatch, num_threads, num_cores, at_once
):
    monkeypatch.setattr("l5kit.data.jobs.scene_jobs._num_cores", lambda: num_cores)
    cfg, config, data = towns
    joined = join_towns(cfg, config, towns_of(LogKeys.from_cfg(cfg), data), num_envs=2, num_threads=num_threads)
    assert getattr(joined._threads, "_max_workers", None) == at_once
    joined.close()


@pytest.mark.parametrize(("num_towns", "num_threads", "of_each"), [(1, 3, 3), (2, 5, 2), (2, 2, 1), (2, 1, 1)])
def test_threads_that_are_more_than_towns_are_theirs(towns, num_towns, num_threads, of_each):
    cfg, config, data = towns
    found = towns_of(LogKeys.from_cfg(cfg), data)[:num_towns]
    joined = join_towns(cfg, config, found, num_envs=2, num_threads=num_threads)
    parts = [town.env.episodes.parts for town in joined.towns]
    assert [part.roads.backend.num_threads for part in parts] == [of_each] * num_towns
    joined.close()


def test_more_towns_than_environments_are_refused(towns):
    cfg, config, data = towns
    with pytest.raises(ConfigError, match=r"rl_params\.num_envs: 1 for 2 towns"):
        join_towns(cfg, config, towns_of(LogKeys.from_cfg(cfg), data), num_envs=1)


def test_a_pattern_without_towns_is_refused(towns):
    cfg, _, data = towns
    cfg["train_data_loader"]["folders"] = "village_*"
    with pytest.raises(ConfigError, match=r"no folder in .* is called 'village_"):
        towns_of(LogKeys.from_cfg(cfg), data)

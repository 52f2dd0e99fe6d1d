"""Rows of environments in a synthetic city, with small amounts of work."""

import shutil

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from l5kit.data import ChunkedDataset
from l5kit.errors import InvalidArgumentError
from l5kit.synthetic import make_city
from l5kit_bench import environment_rows
from l5kit_bench.row import choose_rows
from l5kit_bench.run import all_rows, prepare_rows
from l5kit_bench.workplace import QUICK, Workplace, find_bench_files


@pytest.fixture
def place(city):
    with Workplace(find_bench_files(city), QUICK) as place:
        yield place


@pytest.fixture(scope="module")
def long_city(tmp_path_factory):
    """Folder of a city whose scene is as long as the episodes of a training need it."""
    return make_city(tmp_path_factory.mktemp("long") / "city", num_scenes=1, num_frames=110, town_size=300.0).path


@pytest.fixture
def made():
    """Folders of the cities that were made."""
    return []


@pytest.fixture
def make_rows(long_city, made):
    """Return rows by their keys; a city that is there already is made for them."""

    def copy_city(folder, num_scenes):
        made.append((folder, num_scenes))
        shutil.copytree(long_city, folder)

    def make(*keys, train=lambda *_: (1, 0.0)):
        return choose_rows(all_rows(make_crowded_city=copy_city, train=train), keys)

    return make


def test_a_crowd_counts_its_steps_and_the_agents_that_are_driven(place, long_city, made, make_rows):
    prepared, left_out = prepare_rows(make_rows("environment-1024", "environment-1024-agents"), place)
    assert left_out == {}
    assert made == [(place.scratch / "crowded", QUICK.num_made_scenes)]
    (_, steps), (_, agents) = prepared
    frames = ChunkedDataset(str(find_bench_files(long_city).dataset)).open().frames[:]
    num_agents = np.diff(frames["agent_index_interval"]).max()
    assert 18 <= steps.work() <= 36  # an action holds three frames; those of episodes that begin do not count
    assert 12 <= agents.work() <= 36 * num_agents
    (fact,) = steps.facts()
    assert (fact.unit, fact.limit) == ("agents", None)
    assert 1 <= fact.value <= num_agents


def test_steps_that_begin_an_episode_do_not_count(place, make_rows):
    ((_, ready),), _ = prepare_rows(make_rows("environment-64"), place)
    counts = [ready.work() for _ in range(11)]
    assert sum(counts) == 4 * 32  # 33 calls, one of which begins the second episodes


def test_a_driver_is_trained_in_new_folders_by_a_configuration_that_ends(place, made, make_rows):
    asked = []

    def train(cfg, folder, data):
        asked.append((folder, data, cfg["rl_params"]))
        return 64, 0.25

    ((_, ready),), left_out = prepare_rows(make_rows("train-rl", train=train), place)
    assert left_out == {}
    assert [ready.work(), ready.work()] == [64, 64]
    assert [folder.name for folder, _, _ in asked] == ["driver-0", "driver-1"]
    assert {data for _, data, _ in asked} == {made[0][0]}
    params = asked[0][2]
    assert (params["total_steps"], params["minutes"]) == (64, None)
    assert params["num_envs"] * params["n_steps"] == params["batch_size"] == 64
    (fact,) = ready.facts()
    assert (fact.value, fact.limit, fact.unit) == (25, 30, "percent")


@pytest.mark.process  # stable-baselines3 asks one for the kind of processor
def test_the_driver_of_the_command_is_trained(place, make_rows):
    pytest.importorskip("stable_baselines3")
    from l5kit_bench.command import _train_driver

    ((_, ready),), left_out = prepare_rows(make_rows("train-rl", train=_train_driver), place)
    assert left_out == {}
    assert ready.work() == 64
    (fact,) = ready.facts()
    assert 0 < fact.value < 100


@pytest.mark.parametrize(
    ("missing", "keys", "message"),
    [
        pytest.param("gymnasium", ("environment", "environment-64-vectors"), "l5kit[gym]", id="gymnasium"),
        pytest.param("gymnasium", ("environment-1024",), "l5kit[gym]", id="a crowd without gymnasium"),
        pytest.param("stable_baselines3", ("train-rl",), "l5kit[rl]", id="stable-baselines3"),
    ],
)
def test_rows_without_their_packages_are_left_out(place, made, make_rows, monkeypatch, missing, keys, message):
    monkeypatch.setattr(environment_rows, "find_spec", lambda name: None if name == missing else name)
    prepared, left_out = prepare_rows(make_rows(*keys), place)
    assert (prepared, made) == ([], [])
    assert len(left_out) == len(keys)
    for reason in left_out.values():
        assert f"{missing} is not installed" in reason
        assert message in reason


def test_rows_without_a_map_are_left_out(city, tmp_path, make_rows):
    shutil.copytree(city / "scenes", tmp_path / "alone" / "scenes")
    with Workplace(find_bench_files(tmp_path / "alone"), QUICK) as place:
        prepared, left_out = prepare_rows(make_rows("environment", "environment-reset"), place)
    assert prepared == []
    assert all("no semantic map and no meta.json near" in reason for reason in left_out.values())


def test_rows_of_a_crowd_are_there_only_where_it_is_told_how_its_city_is_made():
    with pytest.raises(InvalidArgumentError, match="no row 'environment-1024'"):
        choose_rows(all_rows(), ["environment-1024"])

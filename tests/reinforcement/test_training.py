"""Training of a driver: its files, and resuming."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.save_util import load_from_zip_file

from l5kit.data.jobs.data_record import DataRecord
from l5kit.data.jobs.receipts import RECEIPT_FILE, find_loss
from l5kit.editing import FewerAgents, edit_dataset
from l5kit.environment.policy_driver import PolicyDriver
from l5kit.environment.policy_file import find_policy_file
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.reinforcement import train_driver
from l5kit.reinforcement.course import CourseState, TrainingCourse
from l5kit.reinforcement.folder import RunFolder
from support.driver_trainings import compact_config, driver_config

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def train(city, tmp_path):
    """Function that trains in a folder and returns the result with the printed lines."""

    def run(folder="out", *, resume=False, **rl_params):
        told = []
        cfg = driver_config(tmp_path, **rl_params)
        done = train_driver(cfg, tmp_path / folder, data_folder=city, resume=resume, tell=told.append)
        return done, told

    return run


def steps_of(folder):
    return list(RunFolder(folder).checkpoints())


def rows_of(folder):
    with (folder / "evaluations.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_driver_is_trained(train, city):
    done, told = train()
    assert done.num_steps == 64
    assert steps_of(done.folder) == [32, 64]
    assert [row["step"] for row in rows_of(done.folder)] == ["0", "32", "64"]
    assert [line.partition(":")[0] for line in told] == ["step 0", "step 32", "step 64"]
    assert (done.before["steps"], done.before["share_to_the_end"]) == (5.0, 1.0)
    assert done.before["reward"] == float(rows_of(done.folder)[0]["reward"]) != done.after["reward"]
    assert 0 < done.environment_share < 1
    written = json.loads((done.folder / "result.json").read_text())
    assert written["num_steps"] == 64
    assert list((done.folder / "curves").glob("events.out.tfevents.*"))
    assert not [path.name for path in done.folder.rglob(".*")]
    driver = PPO.load(done.driver)
    assert driver.num_timesteps == 64
    told = driver.l5kit_training
    key = told["configuration"]["train_data_loader"]["key"]
    assert told["data"] == written["data"] == DataRecord.of_log(city / key, key=key).as_dict()
    assert (told["l5kit"], told["eval_data"]) == (written["l5kit"], written["eval_data"])
    action, _ = driver.predict({"image": np.zeros((7, 16, 16), np.float32)}, deterministic=True)
    assert action.shape == (3,)


def test_a_driver_is_trained_on_vectors(city, tmp_path):
    cfg = driver_config(tmp_path, eval_every_steps=64)
    cfg["gym_params"]["observation"] = "vectors"
    assert train_driver(cfg, tmp_path / "out", data_folder=city).num_steps == 64


def test_the_best_driver_is_kept(train):
    done, _ = train()
    rewards = {int(row["step"]): float(row["reward"]) for row in rows_of(done.folder)}
    kept = done.folder / "best.zip"
    assert CourseState.in_file(kept).best_reward == max(rewards.values())
    assert rewards[PPO.load(kept).num_timesteps] == max(rewards.values())


def test_it_goes_on_with_its_steps_optimiser_and_normalised_rewards(train):
    first, _ = train()
    optimiser = load_from_zip_file(first.driver)[1]["policy.optimizer"]["state"][0]["step"]
    counted = CourseState.in_file(first.driver).returns[2]
    done, told = train(resume=True, total_steps=128)
    assert (done.num_steps, told[0]) == (128, "resuming at step 64")
    assert [row["step"] for row in rows_of(done.folder)] == ["0", "32", "64", "96", "128"]
    assert load_from_zip_file(done.driver)[1]["policy.optimizer"]["state"][0]["step"] == 2 * optimiser
    assert CourseState.in_file(done.driver).returns[2] == pytest.approx(2 * counted, abs=1)
    assert done.minutes > first.minutes
    assert done.before == first.before


def test_a_finished_folder_has_a_receipt_and_drives_only_as_it_was_left(train, monkeypatch):
    done, _ = train()
    assert find_loss(done.folder) is None
    assert find_policy_file(done.folder) == done.driver
    (done.folder / "notes.txt").write_text("mine")
    whole = done.driver.read_bytes()
    done.driver.write_bytes(whole[:-1] + b"x")
    with pytest.raises(InvalidArgumentError, match=r"not as its training left it: driver\.zip is not what was written"):
        find_policy_file(done.folder)
    assert find_policy_file(done.driver) == done.driver
    done.driver.write_bytes(whole)

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(TrainingCourse, "end", killed)
        with pytest.raises(KeyboardInterrupt):
            train(resume=True, total_steps=128)
    assert not (done.folder / RECEIPT_FILE).exists()
    train(resume=True, total_steps=128)
    assert find_loss(done.folder) is None


def test_a_seed_gives_the_same_driver(train):
    first, second, other = (train(folder, seed=seed)[0] for folder, seed in (("a", 1), ("b", 1), ("c", 2)))
    assert first.after == second.after != other.after


def test_the_last_checkpoints_are_kept(train):
    done, _ = train(total_steps=128, keep_checkpoints=2, eval_every_steps=1000)
    assert steps_of(done.folder) == [96, 128]
    assert [row["step"] for row in rows_of(done.folder)] == ["0", "128"]


def test_time_ends_a_training(train):
    done, _ = train(total_steps=None, minutes=1e-9, normalize_rewards=False)
    assert done.num_steps == 32
    assert CourseState.in_file(done.driver).returns is None


def test_a_training_that_had_no_checkpoint_begins_anew(train, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Logger, "dump", fail)
        with pytest.raises(KeyboardInterrupt):
            train()
    done, told = train(resume=True)
    assert told[0].endswith("the training starts at step 0")
    assert done.num_steps == 64


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        pytest.param({"gama": 0.9}, ConfigError, "unknown key; did you mean rl_params.gamma", id="wrong key"),
        pytest.param({"gamma": 2}, ConfigError, "rl_params.gamma: expected a finite number from 0 to 1", id="range"),
        pytest.param({"batch_size": 33}, ConfigError, "expected 2 to 32, the num_envs x n_steps", id="batch"),
        pytest.param({"total_steps": None}, ConfigError, "give total_steps or minutes", id="no end"),
    ],
)
def test_wrong_configurations_are_refused_before_anything_is_written(train, tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        train(**changes)
    assert not (tmp_path / "out").exists()


def test_missing_logs_are_told_before_anything_is_written(city, tmp_path):
    cfg = driver_config(tmp_path)
    cfg["train_data_loader"]["key"] = "scenes/none.zarr"
    with pytest.raises(FileNotFoundError, match=r"scenes/none\.zarr"):
        train_driver(cfg, tmp_path / "out", data_folder=city)
    del cfg["val_data_loader"]
    with pytest.raises(ConfigError, match="val_data_loader"):
        train_driver(cfg, tmp_path / "out", data_folder=city)
    assert not (tmp_path / "out").exists()


def test_a_folder_takes_one_training_at_a_time(train, tmp_path):
    done, _ = train(total_steps=32)
    with (
        RunFolder(tmp_path / "out").claimed(),
        pytest.raises(InvalidArgumentError, match="to which another process is writing a training"),
    ):
        train(resume=True, total_steps=64)
    longer, _ = train(resume=True, total_steps=64)
    assert longer.num_steps > done.num_steps


def test_a_training_does_not_go_on_with_other_data(train, city, tmp_path):
    """Its policy would be of both, and be said to be of the second alone."""
    done, _ = train(total_steps=32)
    other = edit_dataset(city, tmp_path / "other", FewerAgents(share=0.5)).path
    cfg = driver_config(tmp_path, total_steps=64)
    for folders in ({"data_folder": other}, {"data_folder": city, "eval_data_folder": other}):
        with pytest.raises(InvalidArgumentError, match=r"data has the digest \w+, but the training to be resumed"):
            train_driver(cfg, done.folder, **folders, resume=True)
    assert (done.folder / "receipt.json").is_file()
    assert train(resume=True, total_steps=64)[0].num_steps == 64


def test_folders_that_do_not_fit_are_refused(train, tmp_path):
    with pytest.raises(FileNotFoundError, match="no training to resume"):
        train(resume=True)
    train()
    with pytest.raises(InvalidArgumentError, match="which holds files"):
        train()
    with pytest.raises(ConfigError, match=r"rl_params: .* differs from"):
        train(resume=True, gamma=0.5)
    last = tmp_path / "out" / "checkpoints" / "step_000000000064.zip"
    whole = last.read_bytes()
    for size in (2, len(whole) // 2, len(whole) - 1):  # a half has the weights in it, which are a zip file themselves
        last.write_bytes(whole[:size])
        with pytest.raises(InvalidArgumentError, match=r"is broken .* resume from the previous checkpoint"):
            train(resume=True, total_steps=128)
    last.unlink()
    done, told = train(resume=True, total_steps=96)
    assert (done.num_steps, told[0]) == (96, "resuming at step 32")


KILLED = """
import json, os, signal, sys
from l5kit.reinforcement import train_driver

cfg, folder, city, name, place = json.load(sys.stdin)
replace, count = os.replace, 0

def replace_or_die(source, target):
    global count
    if os.path.basename(target).startswith(name):
        count += 1
        if count == place:
            os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = replace_or_die
train_driver(cfg, folder, data_folder=city)
"""


@pytest.mark.long
@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize(
    ("name", "place", "resumed_at"),
    [
        pytest.param("step_", 1, 0, id="in the first checkpoint"),
        pytest.param("step_", 2, 32, id="in the second one"),
    ],
)
def test_a_kill_leaves_whole_files(name, place, resumed_at, train, city, tmp_path):
    job = json.dumps([driver_config(tmp_path), str(tmp_path / "out"), str(city), name, place])
    paths = os.pathsep.join([str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-c", KILLED],
        input=job,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    for path in (tmp_path / "out").rglob("*.zip"):
        if ".part" not in str(path):
            assert zipfile.ZipFile(path).testzip() is None
    assert steps_of(tmp_path / "out") == [step for step in (32, 64) if step <= resumed_at]
    done, told = train(resume=True)
    assert f"at step {resumed_at}" in told[0]
    assert [row["step"] for row in rows_of(done.folder)] == ["0", "32", "64"]
    assert not [path.name for path in done.folder.rglob(".*")]


@pytest.mark.parametrize("network", ["agents", "attention"])
def test_a_driver_is_trained_in_several_towns_along_routes(city, tmp_path, network):
    """Towns, a network on sets of road users, and a decreasing learning rate; the training resumes like any other."""
    for name in ("town_a", "town_b"):
        shutil.copytree(city, tmp_path / "towns" / name)
    compact = {"frame": "route", "num_lane_points": 0, "num_agents": 4}
    cfg = compact_config(tmp_path, actions="route", compact=compact, frames_per_action=2, num_simulation_steps=12)
    cfg["rl_params"] |= {"network": network, "features": 8, "agent_width": 8, "anneals": True}
    cfg["train_data_loader"]["folders"] = ["town_a", "town_b"]
    folders = {"data_folder": tmp_path / "towns", "eval_data_folder": tmp_path / "towns" / "town_b"}
    done = train_driver(cfg, tmp_path / "out", tell=lambda _: None, **folders)
    assert done.num_steps == 64
    facts = json.loads((done.folder / "result.json").read_text())
    assert len(facts["data"]) == 2
    assert facts["data"][0] == facts["eval_data"]
    rates = [PPO.load(path).learning_rate for path in RunFolder(done.folder).checkpoints().values()]
    assert rates == pytest.approx([3e-4, 3e-4 * 0.5])
    driver = PolicyDriver.load(done.driver)
    assert driver.options.layout.frame == "route"
    assert set(driver.network.encoder.sets) == {"agents"}
    cfg["rl_params"]["total_steps"] = 96
    more = train_driver(cfg, tmp_path / "out", resume=True, tell=lambda _: None, **folders)
    assert more.num_steps == 96
    scales = [PolicyDriver.load(path).network.encoder.scales for path in RunFolder(done.folder).checkpoints().values()]
    np.testing.assert_array_equal(scales[0], scales[-1])


@pytest.mark.parametrize("network", ["agents", "attention"])
def test_a_network_of_road_users_needs_compact_observations(city, tmp_path, network):
    cfg = driver_config(tmp_path, network=network)
    with pytest.raises(ConfigError, match=rf"rl_params\.network: {network!r} needs compact observ"):
        train_driver(cfg, tmp_path / "out", data_folder=city)


def test_a_training_begins_with_a_policy(train, city, tmp_path):
    before, _ = train()
    told = []
    cfg = driver_config(tmp_path, init=str(before.folder), total_steps=32)
    done = train_driver(cfg, tmp_path / "more", data_folder=city, tell=told.append)
    assert told[0] == f"starting from the policy {before.folder}"
    first, last = (PPO.load(path).policy.state_dict() for path in (done.folder / "first.zip", before.driver))
    assert set(first) == set(last)
    for name, value in last.items():
        np.testing.assert_array_equal(first[name], value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"net_arch": [4]}, "has another network"),
        ({"init": "nowhere.zip"}, "there is no 'nowhere.zip'"),
    ],
)
def test_policies_that_do_not_fit_are_refused(train, city, tmp_path, changes, message):
    before, _ = train()
    cfg = driver_config(tmp_path, **{"init": str(before.folder), **changes})
    with pytest.raises((InvalidArgumentError, FileNotFoundError), match=message):
        train_driver(cfg, tmp_path / "more", data_folder=city)
    cfg = driver_config(tmp_path, init=str(before.folder))
    cfg["gym_params"]["actions"] = "bicycle"
    with pytest.raises(InvalidArgumentError, match="was trained with actions 'kinematic'; the training has actions 'b"):
        train_driver(cfg, tmp_path / "others", data_folder=city)


def test_the_same_seed_measures_the_same_scales(city, tmp_path):
    cfg = compact_config(tmp_path, actions="route", compact={"frame": "route", "num_lane_points": 0})
    cfg["rl_params"] |= {"network": "agents", "features": 8, "agent_width": 8, "total_steps": 32}
    first = [
        train_driver(cfg, tmp_path / name, data_folder=city, tell=lambda _: None).folder / "first.zip"
        for name in ("one", "other")
    ]
    one, other = (PPO.load(path).policy.state_dict() for path in first)
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.mark.parametrize("change", ["nothing", "no eyes", "no numbers"])
def test_a_training_begins_with_whole_policies_only(city, tmp_path, change):
    cfg = compact_config(tmp_path, compact={"num_lane_points": 0})
    cfg["rl_params"] |= {"network": "agents", "features": 8, "agent_width": 8, "total_steps": 32}
    done = train_driver(cfg, tmp_path / "out", data_folder=city, tell=lambda _: None)
    with zipfile.ZipFile(done.driver) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    weights = torch.load(io.BytesIO(entries["policy.pth"]), weights_only=True)
    kept = {
        "nothing": {},
        "no eyes": {name: value for name, value in weights.items() if not name.startswith("features_extractor")},
        "no numbers": {name: value * np.nan for name, value in weights.items()},
    }[change]
    stored = io.BytesIO()
    torch.save(kept, stored)
    with zipfile.ZipFile(tmp_path / "part.zip", "w") as archive:
        for name, value in entries.items():
            archive.writestr(name, stored.getvalue() if name == "policy.pth" else value)
    cfg["rl_params"]["init"] = str(tmp_path / "part.zip")
    with pytest.raises(InvalidArgumentError, match=r"has another network|is broken"):
        train_driver(cfg, tmp_path / "more", data_folder=city, tell=lambda _: None)

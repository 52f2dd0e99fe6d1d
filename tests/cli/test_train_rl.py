"""``l5kit train-rl``."""

import json
import platform
import shlex
import sys

import pytest

from l5kit.errors import install_command

pytest.importorskip("stable_baselines3")

from l5kit.configs.config import save_config_data
from l5kit.configs.environment import EnvironmentParams
from l5kit.configs.known_keys import check_known_keys
from l5kit.configs.overrides import load_driver_config
from l5kit.configs.reinforcement import ReinforcementParams
from l5kit.simulation.folder.simulation_folder import SimulationFolder
from support.driver_trainings import compact_config, driver_config


@pytest.fixture(autouse=True, scope="module")
def _processor_is_known():
    """Let the library query the processor in another process before tests begin."""
    platform.processor()


@pytest.fixture
def config(tmp_path):
    save_config_data(driver_config(tmp_path), str(tmp_path / "config.yaml"))
    return tmp_path / "config.yaml"


def test_a_driver_is_trained_and_goes_on(l5kit, config, city, tmp_path):
    call = ("train-rl", config, "--data", city, "--out", tmp_path / "out", "--set", "rl_params.n_epochs=2")
    done = l5kit(*call, "--steps", 32, "--seed", 4, "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["steps"], facts["driver"]) == (32, str(tmp_path / "out" / "driver.zip"))
    assert facts["after"].keys() == facts["before"].keys() > {"reward", "steps"}
    assert "step 32: reward" in done.stderr
    assert (
        "note: l5kit simulate will refuse this driver: the policy was trained with observation 'raster'" in done.stderr
    )

    refused = l5kit(*call, "--seed", 4)
    assert refused.exit_code == 1
    assert "holds files" in refused.stderr
    other = l5kit(*call, "--seed", 5, "--resume")
    assert other.exit_code == 1
    assert "differs from" in other.stderr
    longer = l5kit(*call, "--steps", 64, "--seed", 4, "--resume")
    assert longer.exit_code == 0, longer.stderr
    assert "resuming at step 32" in longer.stderr
    for told in ("before", "after", "Trained a driver", "tensorboard --logdir", "--resume --minutes N"):
        assert told in longer.stdout


def test_the_line_at_the_end_goes_on_with_the_training(l5kit, config, city, tmp_path):
    out = tmp_path / "a folder"
    done = l5kit("train-rl", config, "--data", city, "--out", out, "--steps", 32, "--set", "rl_params.n_epochs=2")
    assert done.exit_code == 0, done.stderr
    told = next(line for line in done.stdout.splitlines() if line.startswith("more: l5kit "))
    *call, minutes, number = shlex.split(told.removeprefix("more: l5kit "))
    assert (minutes, number) == ("--minutes", "N")
    again = l5kit(*call, "--minutes", "1e-9")
    assert again.exit_code == 0, again.stderr
    assert "resuming at step 32" in again.stderr
    assert "already reached its total_steps or minutes; increase them" in again.stderr


def test_a_call_that_cannot_start_leaves_no_folder(l5kit, config, city, tmp_path):
    call = ("train-rl", config, "--data", city, "--out", tmp_path / "out", "--steps", 32)
    for _ in range(2):
        refused = l5kit(*call, "--set", "gym_params.ends_at=[collision]", "--set", "gym_params.reward=displacement")
        assert refused.exit_code == 1
        assert "only the reward 'driving' ends episodes early" in refused.stderr
        assert not (tmp_path / "out").exists()


def test_an_end_that_is_given_takes_the_place_of_the_other(l5kit, config, city, tmp_path):
    done = l5kit("train-rl", config, "--data", city, "--out", tmp_path / "out", "--minutes", "1e-9", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 32


def test_without_arguments_it_learns_in_a_made_city_and_drives_in_another(l5kit, city, tmp_path, monkeypatch):
    made = []

    def make(folder, *, seed, num_scenes, progress):
        made.append(seed)
        folder.symlink_to(city, target_is_directory=True)

    monkeypatch.setattr("l5kit.synthetic.city.make_city", make)
    tiny = ("raster_params.raster_size=[16, 16]", "rl_params.num_envs=2", "rl_params.n_steps=8")
    tiny = (*tiny, "rl_params.batch_size=8", "gym_params.num_simulation_steps=5", "rl_params.eval_scenes=1")
    changes = [word for change in tiny for word in ("--set", change)]
    for folder in ("a", "b"):
        done = l5kit("train-rl", "--out", tmp_path / folder, "--steps", 16, *changes)
        assert done.exit_code == 0, done.stderr
        assert "l5kit simulate will refuse" not in done.stderr
    assert made == [1, 2]


def test_the_configuration_that_ships_fits():
    cfg = load_driver_config(None)
    check_known_keys(cfg)
    params = ReinforcementParams.from_cfg(cfg)
    assert (params.minutes, params.init) == (30, "rules")
    assert EnvironmentParams.from_cfg(cfg).observation == "compact"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        pytest.param(("--set", "rl_params.gama=1"), 1, "rl_params.gamma", id="a wrong key"),
        pytest.param(
            ("--set", "gym_params.others=nobody"), 1, "'log' or 'idm' or 'cautious' or 'assertive'", id="a wrong choice"
        ),
        pytest.param(("--steps", "0"), 2, "--steps", id="no steps"),
        pytest.param(("--resume",), 1, "no training to resume", id="nothing to go on with"),
    ],
)
def test_wrong_calls_end_with_a_line(l5kit, config, city, tmp_path, arguments, status, message):
    done = l5kit("train-rl", config, "--data", city, "--out", tmp_path / "out", *arguments)
    assert done.exit_code == status
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_library_is_told_with_its_extra(l5kit, config, city, monkeypatch):
    for module in [name for name in sys.modules if name.startswith(("l5kit.reinforcement", "l5kit.environment"))]:
        monkeypatch.delitem(sys.modules, module)  # so that it is imported anew
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    done = l5kit("train-rl", config, "--data", city)
    assert done.exit_code == 1
    assert install_command("rl") in done.stderr


@pytest.fixture
def trained(l5kit, city, tmp_path):
    """Folder of a training with compact observations."""
    save_config_data(compact_config(tmp_path), str(tmp_path / "compact.yaml"))
    done = l5kit("train-rl", tmp_path / "compact.yaml", "--data", city, "--out", tmp_path / "out", "--steps", 32)
    assert done.exit_code == 0, done.stderr
    return tmp_path / "out"


@pytest.mark.parametrize("name", ["", "best.zip"], ids=["folder", "file"])
def test_the_driver_drives_and_is_scored(l5kit, trained, city, tmp_path, name):
    asked, driven = trained / name, tmp_path / "driven"
    call = ("simulate", city, "--planner", asked, "--out", driven, "--frames", 8)
    done = l5kit(*call, "--json")
    assert done.exit_code == 0, done.stderr
    scores = json.loads(done.stdout)
    assert (scores["planner"], scores["scenes"], scores["failed"]) == (str(asked), 3, [])
    shown = SimulationFolder(driven)
    assert [each.scene for each in shown.scenes] == [0, 1, 2]
    assert shown.plans(0) is None  # controls are no plan
    assert l5kit(*call).exit_code == 0  # it is known to be the same
    other = l5kit(*call[:3], trained / "first.zip", *call[4:])
    assert other.exit_code == 1
    assert "planner (--planner) was" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--planner", "{out}", "--moves", "tracked"), "control the vehicle model", id="moves"),
        pytest.param(("--planner", "{out}", "--config", "{cfg}"), "drop the given configuration", id="configuration"),
        pytest.param(("--planner", "{out}/broken.zip"), "is broken", id="broken"),
        pytest.param(("--planner", "{out}/none.zip"), "not an existing file or folder", id="missing"),
    ],
)
def test_what_a_policy_cannot_do_is_told(l5kit, trained, city, tmp_path, arguments, message):
    (trained / "broken.zip").write_bytes(b"PK")
    words = [word.format(out=trained, cfg=tmp_path / "compact.yaml") for word in arguments]
    done = l5kit("simulate", city, "--out", tmp_path / "driven", *words)
    assert done.exit_code == 1
    assert message in done.stderr
    assert not (tmp_path / "driven").exists()


def test_a_policy_drives_without_what_trained_it(l5kit, trained, city, tmp_path, monkeypatch):
    for module in [name for name in sys.modules if name.startswith(("l5kit.environment", "gymnasium"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    done = l5kit("simulate", city, "--planner", trained, "--frames", 8, "--out", tmp_path / "driven")
    assert done.exit_code == 0, done.stderr


def test_none_takes_away_the_imitation_of_the_default(l5kit, config, city, tmp_path):
    changes = ("--set", "rl_params.init=rules")
    call = ("train-rl", config, "--data", city, "--out", tmp_path / "out", "--steps", 32)
    done = l5kit(*call, "--init", "none", "--set", "rl_params.n_epochs=1")
    assert done.exit_code == 0, done.stderr
    kept = (tmp_path / "out" / "config.yaml").read_text("utf-8")
    assert "init: null" in kept
    assert "near_start: 0" in kept
    refused = l5kit(*call[:-4], "--out", tmp_path / "other", *changes)
    assert refused.exit_code == 1
    assert "or start from new weights (null; --init none)" in refused.stderr


@pytest.mark.parametrize("policy", ["nowhere.zip", "bogus"])
def test_a_beginning_that_is_not_there_is_named_before_anything_is_written(l5kit, config, city, tmp_path, policy):
    done = l5kit("train-rl", config, "--data", city, "--out", tmp_path / "out", "--steps", 32, "--init", policy)
    assert done.exit_code == 1
    assert f"--init): there is no '{policy}'" in done.stderr
    assert "a shipped policy (route_policy), rules, or none" in done.stderr
    assert not (tmp_path / "out").exists()

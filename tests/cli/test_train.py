"""``l5kit train``."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest
import yaml

from l5kit.errors import install_command

pytest.importorskip("torch")

from l5kit.configs.config import save_config_data
from l5kit.planning.checkpoint import read_checkpoint
from l5kit.training.state_file import read_resume_point
from support.workflows import small_config

FEW = ("--set", "train_params.max_num_steps=2", "--set", "train_params.accelerator=cpu")

PATIENCE_S = 240
"""Far more than a command takes to start."""


@pytest.fixture
def config(tmp_path):
    """A configuration of the old kind, which does not say what to train."""
    cfg = small_config("vector_planner")
    del cfg["workflow"]
    save_config_data(cfg, str(tmp_path / "config.yaml"))
    return tmp_path / "config.yaml"


def test_a_network_is_trained_and_goes_on(l5kit, config, city, tmp_path):
    call = ("train", config, "--data", city, "--out", tmp_path / "out", "--workflow", "vector_planner", *FEW)
    done = l5kit(*call, "--json")
    assert done.exit_code == 0
    facts = json.loads(done.stdout)
    assert facts["steps"] == 2
    assert facts["val/ade_m/0.4s"] > 0
    assert "step 2: val/ade_m/0.4s" in done.stderr
    assert read_checkpoint(facts["weights"]).config["train_params"]["max_num_steps"] == 2
    assert yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())["workflow"] == "vector_planner"

    refused = l5kit(*call)
    assert refused.exit_code == 1
    assert "holds files" in refused.stderr
    longer = l5kit(*call, "--set", "train_params.max_num_steps=3", "--resume")
    assert longer.exit_code == 0
    assert "Trained vector_planner" in longer.stdout
    assert [line.split()[:5] for line in longer.stdout.splitlines() if line.startswith("next: ")] == [
        ["next:", "l5kit", "evaluate", str(tmp_path / "out"), "--data"],
        ["next:", "l5kit", "simulate", str(city), "--planner"],
    ]
    assert "CTRA FDE" in longer.stdout
    assert "step 3" in longer.stderr


def test_towns_of_a_pattern_are_trained_on_and_driven_in(l5kit, config, city, tmp_path):
    towns = tmp_path / "towns"
    for name in ("town_0", "town_1"):
        shutil.copytree(city, towns / name)
    changes = {
        "train_data_loader.folders": "town_*",
        "val_data_loader.folders": "town_1",
        "val_driving.folder": "town_1",
        "val_driving.key": "scenes/sample.zarr",
        "val_driving.num_scenes": 1,
        "val_driving.num_frames": 3,
        "train_params.best_by": "closed_loop",
    }
    options = [text for key, value in changes.items() for text in ("--set", f"{key}={value}")]
    call = ("train", config, "--data", towns, "--workflow", "vector_planner", *FEW, *options, "--out", tmp_path / "out")
    done = l5kit(*call)
    assert done.exit_code == 0
    assert "driving/score" in done.stderr
    assert "which drive best" in done.stdout.replace("\n", " ")
    assert f"--data {towns / 'town_1'}" in done.stdout
    log, best = towns / "town_1/scenes/sample.zarr", tmp_path / "out/vector_planner_best.safetensors"
    assert f"next: l5kit simulate {log} --planner {best}" in done.stdout.replace("\n", "")
    told = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [data["path"] for data in told["data"]] == [f"town_{number}/scenes/sample.zarr" for number in (0, 1)]
    refused = l5kit(*call, "--set", "train_data_loader.folders=city_*")
    assert refused.exit_code == 1
    assert "is called 'city_*'; there are town_0, town_1" in refused.stderr


def test_a_training_that_fails_before_its_first_step_leaves_its_folder_free(l5kit, config, city, tmp_path, monkeypatch):
    call = ("train", config, "--data", city, "--out", tmp_path / "out", "--workflow", "vector_planner", *FEW)

    def fail(*_, **__):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patched:
        patched.setattr("lightning.pytorch.Trainer.fit", fail)
        failed = l5kit(*call)
    assert (failed.exit_code, "out of memory" in failed.stderr) == (1, True)
    assert list((tmp_path / "out").iterdir()) == []
    assert l5kit(*call).exit_code == 0


def test_several_values_make_trainings_with_one_table(l5kit, config, city, tmp_path):
    call = ("train", config, "--data", city, "--out", tmp_path / "out", "--workflow", "vector_planner", *FEW)
    some = (*call, "--sweep", "train_params.learning_rate=[1e-3, -1]", "--seeds", 1)
    done = l5kit(*some)
    assert done.exit_code == 1
    assert "Trained 2 times" in done.stdout
    assert "CTRA ADE 0.4s" in done.stdout
    told = "failed: ConfigError: train_params.learning_rate: expected a finite number above 0 and at most 1e+06, got -1"
    assert told in done.stderr
    again = l5kit(*some, "--resume", "--json")
    assert again.exit_code == 1
    first, second = json.loads(again.stdout)["runs"]
    folder = tmp_path / "out" / "0001-learning_rate_0.001-seed_0"
    result = json.loads((folder / "result.json").read_text())
    assert (first["status"], first["val/ade_m/0.4s"]) == ("done", result["scores"]["val/ade_m/0.4s"])
    assert (second["status"], second["train_params.learning_rate"]) == ("failed", -1)
    assert "step 2" not in again.stderr
    linked = l5kit(*some, "--artifact", "wandb:a/b/c:d")
    assert (linked.exit_code, "drop it for a sweep" in linked.stderr) == (2, True)


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no such signals")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long)]
)
def test_a_command_that_is_ended_by_a_signal_has_its_status_and_can_go_on(
    number, status, l5kit, config, city, tmp_path
):
    call = ["train", config, "--data", city, "--out", tmp_path / "out", "--workflow", "vector_planner", *FEW]
    checkpoints = ("--set", "train_params.checkpoint_every_n_steps=5")
    endless = (*checkpoints, "--set", "train_params.max_num_steps=1000000")
    process = subprocess.Popen(
        [sys.executable, "-m", "l5kit.cli", *map(str, (*call, *endless))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + PATIENCE_S
        while not (tmp_path / "out" / "last.ckpt").exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(number)
        told, complaints = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == status, complaints
    assert (told, "Traceback" in complaints) == ("", False)
    assert complaints.splitlines()[-1] == {130: "interrupted", 143: "terminated"}[status]
    step = read_resume_point(tmp_path / "out" / "last.ckpt").step
    assert step >= 5

    longer = l5kit(*call, *checkpoints, "--set", f"train_params.max_num_steps={step + 1}", "--resume", "--json")
    assert longer.exit_code == 0, longer.stderr
    assert json.loads(longer.stdout)["steps"] == step + 1


def test_a_configuration_that_ships_is_found_by_its_name(l5kit, city, tmp_path):
    few = (*FEW, "--set", "train_data_loader.key=scenes/sample.zarr", "--set", "train_data_loader.batch_size=2")
    few = (*few, "--set", "val_data_loader.batch_size=2", "--set", "val_data_loader.max_num_batches=1")
    done = l5kit("train", "vector_planner", "--data", city, "--out", tmp_path / "out", *few)
    assert done.exit_code == 0
    assert (tmp_path / "out" / "vector_planner.safetensors").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--set", "train_params.learning=1"), "train_params.learning_rate", id="a wrong key"),
        pytest.param(("--workflow", "driving"), "expected one of raster_planner", id="a wrong workflow"),
        pytest.param((), "--workflow", id="no workflow"),
        pytest.param(("--resume", "--workflow", "vector_planner"), "last.ckpt", id="nothing to go on with"),
    ],
)
def test_wrong_calls_end_with_a_line(l5kit, config, city, tmp_path, arguments, message):
    done = l5kit("train", config, "--data", city, "--out", tmp_path / "out", *arguments)
    assert done.exit_code == 1
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_lightning_is_told_with_its_extra(l5kit, config, city, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("l5kit.training")]:
        monkeypatch.delitem(sys.modules, module)  # so that it is imported anew
    monkeypatch.setitem(sys.modules, "lightning", None)
    done = l5kit("train", config, "--data", city, "--workflow", "vector_planner")
    assert done.exit_code == 1
    assert install_command("train") in done.stderr

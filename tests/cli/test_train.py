"""``l5kit train``."""

import json
import sys

import pytest
import yaml

from l5kit.configs.config import save_config_data
from l5kit.planning.checkpoint import read_checkpoint
from training_cases import small_config

FEW = ("--set", "train_params.max_num_steps=2", "--set", "train_params.accelerator=cpu")


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
    assert "step 3" in longer.stderr


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
    monkeypatch.delitem(sys.modules, "l5kit.training.run", raising=False)  # so that it is imported anew
    monkeypatch.setitem(sys.modules, "lightning", None)
    done = l5kit("train", config, "--data", city)
    assert done.exit_code == 1
    assert "pip install 'l5kit2[train]'" in done.stderr

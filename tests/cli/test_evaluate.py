"""``l5kit evaluate``."""

import json
import os

import pytest

pytest.importorskip("torch")

import torch

from l5kit.configs.config import save_config_data
from l5kit.planning.checkpoint import read_checkpoint
from support.models import one_thread
from support.networks import save_network

__all__ = ["one_thread"]

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")

FEW = ("--max-samples", 4, "--worst", 1)


@pytest.fixture
def network(city, tmp_path_factory):
    """A file with an untrained network of three trajectories, 1.2 s long."""
    return save_network("agent_motion_multimodal", city, tmp_path_factory.mktemp("network"))


def test_a_network_of_another_workflow_is_said(l5kit, network, city, tmp_path):
    done = l5kit("evaluate", network, "--data", city, "--workflow", "vector_planner", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "is a network of 'agent_motion_multimodal'; drop --workflow" in done.stderr
    assert not (tmp_path / "out").exists()


def test_people_get_tables_and_a_folder(l5kit, network, city, tmp_path):
    done = l5kit("evaluate", network, "--data", city, "--out", tmp_path / "out", *FEW)
    assert done.exit_code == 0, done.stderr
    for text in (
        str(network),
        "sample.zarr",
        "4 of ",
        "constant velocity",
        "CTRV",
        "CTRA",
        "1.2 s",
        "NLL",
        "time displacement",
        "samples/s",
    ):
        assert text in done.stdout
    assert sorted(os.listdir(tmp_path / "out")) == ["receipt.json", "samples.csv", "scores.csv", "scores.json", "worst"]


def test_machines_get_what_the_folder_holds(l5kit, network, city, tmp_path):
    options = (
        "--horizons",
        "0.5,1",
        "--set",
        "val_data_loader.batch_size=3",
        "--workers",
        0,
        "--device",
        "cpu",
        "--json",
    )
    done = l5kit("evaluate", network, "--data", city, "--out", tmp_path / "out", *FEW, *options)
    assert done.exit_code == 0, done.stderr
    scores = json.loads(done.stdout)
    assert scores.pop("folder") == str(tmp_path / "out")
    assert scores == json.loads((tmp_path / "out" / "scores.json").read_text())
    assert [(row["who"], row["horizon_s"]) for row in scores["scores"]] == [
        *(("network", 0.5), ("network", 1.0)),
        *((name, horizon_s) for name in ("constant_velocity", "ctrv", "ctra") for horizon_s in (0.5, 1.0)),
    ]
    lines = (tmp_path / "out" / "scores.csv").read_text().splitlines()
    assert len(lines) == 9
    assert lines[0].startswith("who,horizon_s,ade_m,fde_m,miss_rate,")
    assert lines[0].endswith("prob_true_mode_0,prob_true_mode_1,prob_true_mode_2")


def test_a_test_set_is_scored_as_in_the_competition_with_a_warning(l5kit, network, city, tmp_path):
    sizes = ("--frames", 60, "--future", 12, "--out", tmp_path / "set")
    assert l5kit("chop", city, *sizes).exit_code == 0
    done = l5kit(
        "evaluate", network, "--data", city, "--key", tmp_path / "set", "--out", tmp_path / "out", "--worst", 0
    )
    assert done.exit_code == 0, done.stderr
    assert "as in the competition" in done.stdout
    assert "neg_multi_log_likelihood" in done.stdout
    assert "ade_oracle_unknown_as_zero_m" in done.stdout
    assert "average_displacement_error" not in done.stdout
    assert done.stderr.count("\n") == done.stderr.count("warning: ") == 1
    assert "those of the training" in done.stderr
    assert "predictions.csv" in os.listdir(tmp_path / "out")


def test_an_old_file_comes_with_its_configuration(l5kit, network, city, tmp_path):
    checkpoint = read_checkpoint(network)
    torch.save(dict(checkpoint.state_dict), tmp_path / "old.pth")
    cfg = {key: value for key, value in checkpoint.config.items() if key != "workflow"}
    (tmp_path / "kept").mkdir()
    save_config_data(cfg, str(tmp_path / "kept" / "config.yaml"))
    call = ("evaluate", tmp_path / "old.pth", "--data", city, "--out", tmp_path / "out", *FEW)
    without = l5kit(*call)
    assert (without.exit_code, without.stdout) == (1, "")
    assert "--config FILE" in without.stderr
    done = l5kit(*call, "--config", tmp_path / "kept" / "config.yaml", "--workflow", "agent_motion_multimodal")
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        pytest.param(("--horizons", "1,two"), 2, "is not a list of seconds", id="horizons that are no numbers"),
        pytest.param(("--horizons", "9"), 1, "up to the 1.2 s", id="horizons too far ahead"),
        pytest.param(("--key", "scenes/other.zarr"), 1, "scenes/other.zarr", id="no such log"),
        pytest.param(("--set", "model_params.num_modes=2"), 1, "does not fit", id="another network"),
        pytest.param(("--device", "gpu"), 1, "auto, cpu, cuda", id="no such device"),
    ],
)
def test_wrong_calls_end_with_a_line(l5kit, network, city, tmp_path, options, code, message):
    done = l5kit("evaluate", network, "--data", city, "--out", tmp_path / "out", *options)
    assert (done.exit_code, done.stdout) == (code, "")
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_is_there_is_not_written_over(l5kit, network, city, tmp_path):
    (tmp_path / "mine").write_text("mine")
    call = ("evaluate", network, "--data", city, "--out", tmp_path, *FEW)
    refused = l5kit(*call)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "which holds 'mine', but no evaluation" in refused.stderr
    assert l5kit(*call, "--overwrite").exit_code == 1
    assert os.listdir(tmp_path) == ["mine"]
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_folder_of_a_simulation_is_told_from_one_of_a_training(l5kit, drives, city, tmp_path):
    done = l5kit("evaluate", drives, "--data", city, "--out", tmp_path / "out")
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"checkpoint {str(drives)!r} is a folder of l5kit simulate" in done.stderr
    assert f"l5kit view {drives} shows them" in done.stderr
    other = l5kit("evaluate", city, "--data", city, "--out", tmp_path / "out")
    assert "is a dataset, which l5kit info" in other.stderr

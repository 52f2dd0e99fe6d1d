"""``l5kit checkpoint``: what files of weights are, and their conversion."""

import json
import shutil
import zipfile

import pytest

pytest.importorskip("torch")

import torch

import l5kit as package
from l5kit.configs.config import save_config_data
from l5kit.planning.checkpoint import read_checkpoint, save_checkpoint
from l5kit.planning.rasterized.model import RasterizedPlanningModel
from support import networks_of_1_5 as of_1_5
from support.models import one_thread, raster_batch, set_weights
from support.workflows import small_config

__all__ = ["one_thread"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A planner of 1.5 in files of several kinds, and its configuration, which has no workflow; never written to."""
    folder = tmp_path_factory.mktemp("of-1-5")
    network = set_weights(of_1_5.RasterizedPlanningModel("simple_cnn", 9, 36))
    for name, writer in of_1_5.WRITERS.items():
        writer(network, folder / f"{name.replace(' ', '-')}.pt")
    cfg = small_config("raster_planner")
    save_config_data(
        {key: cfg[key] for key in ("format_version", "model_params", "raster_params")}, folder / "old.yaml"
    )
    return folder


PLANNER = ("--workflow", "raster_planner")


@pytest.mark.parametrize("name", ["script", "state-dict", "training", "module", "legacy-module"])
def test_info_tells_the_network_and_the_keys_of_its_configuration(l5kit, folder, name):
    done = l5kit("checkpoint", "info", folder / f"{name}.pt")
    assert done.exit_code == 0, done.stderr
    for told in ("RasterizedPlanningModel", "raster_planner or simnet", "185,252", "simple_cnn", "num_channels"):
        assert told in done.stdout
    assert ("--allow-pickle" in done.stdout) == ("module" in name)


def test_info_as_json_with_a_configuration_that_fits(l5kit, folder):
    done = l5kit("checkpoint", "info", folder / "script.pt", "--config", folder / "old.yaml", *PLANNER, "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["file"] == str(folder / "script.pt")
    assert told["given_config"] == {"fits": True, "missing": [], "unexpected": [], "reshaped": []}
    assert told["architecture"]["settings"] == {
        "model_params.model_architecture": "simple_cnn",
        "num_channels": 9,
        "model_params.history_num_frames": 2,
        "model_params.future_num_frames": 12,
    }
    assert told["num_buffer_values"] == 3


def test_what_does_not_fit_is_listed_and_is_a_finding(l5kit, folder):
    call = ("checkpoint", "info", folder / "module.pt", "--config", folder / "old.yaml", *PLANNER)
    done = l5kit(*call, "--set", "model_params.future_num_frames=10")
    assert done.exit_code == 1
    assert "model.9.weight: (36, 1568) in the file, (30, 1568) in the model" in done.stdout
    told = json.loads(l5kit(*call, "--set", "model_params.future_num_frames=10", "--json").stdout)["given_config"]
    assert not told["fits"]
    assert {"name": "model.9.bias", "in_file": [36], "in_model": [30]} in told["reshaped"]


@pytest.mark.parametrize("name", ["script", "state-dict", "training", "module"])
def test_a_converted_file_needs_nothing_else_and_predicts_the_same(l5kit, folder, name, tmp_path):
    permission = ("--allow-pickle",) if name == "module" else ()
    out = tmp_path / "planner.safetensors"
    call = ("checkpoint", "convert", folder / f"{name}.pt", out, *permission)
    done = l5kit(*call, "--config", folder / "old.yaml", *PLANNER)
    assert done.exit_code == 0, done.stderr
    assert "each the same as in the source" in done.stdout
    model = package.load_model(out, device="cpu")
    assert model.config.params.workflow == "raster_planner"
    batch = {"image": raster_batch()["image"].repeat(1, 2, 1, 1)[:, :9]}
    network = set_weights(of_1_5.RasterizedPlanningModel("simple_cnn", 9, 36)).eval()
    with torch.no_grad():
        torch.testing.assert_close(model(batch)["positions"], network(batch)["positions"])
    facts = read_checkpoint(out).facts["converted_from"]
    assert (facts["name"], len(facts["sha256"])) == (f"{name}.pt", 64)
    assert "raster_planner" in l5kit("checkpoint", "info", out).stdout


def test_a_file_that_is_there_is_kept_unless_it_is_to_be_replaced(l5kit, folder, tmp_path):
    out = tmp_path / "a.safetensors"
    out.write_text("mine")
    call = ("checkpoint", "convert", folder / "script.pt", out)
    for options, told in (((), "--overwrite"), (("--overwrite",), "was not written by l5kit, so it is not replaced")):
        refused = l5kit(*call, *options)
        assert (refused.exit_code, refused.stdout, out.read_text()) == (1, "", "mine")
        assert told in refused.stderr
    out.unlink()
    assert l5kit(*call).exit_code == 0
    done = l5kit(*call, "--overwrite", "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["model_class"] == "l5kit.planning.rasterized.model.RasterizedPlanningModel"
    assert (told["has_config"], told["num_tensors"]) == (False, 9)
    model = RasterizedPlanningModel("simple_cnn", 9, 36, [1.0] * 3, None, False)
    assert not read_checkpoint(out).load_into(model)


def test_a_conversion_that_fails_leaves_nothing(l5kit, folder, tmp_path):
    done = l5kit(
        "checkpoint", "convert", folder / "script.pt", tmp_path / "a.safetensors", "--config", "vector_planner"
    )
    assert done.exit_code == 1
    assert "does not fit" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_types_that_would_lose_precision_are_refused(l5kit, folder, tmp_path):
    weights = torch.load(folder / "state-dict.pt", weights_only=True)
    torch.save({name: value.double() / 3 for name, value in weights.items()}, tmp_path / "double.pt")
    out = tmp_path / "a.safetensors"
    done = l5kit("checkpoint", "convert", tmp_path / "double.pt", out, "--config", folder / "old.yaml", *PLANNER)
    assert done.exit_code == 1
    assert "as torch.float32 not the same as in the source, which has torch.float64" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "cannot be read|no checkpoint", id="empty"),
        pytest.param(b"weights: none\n" * 9, "cannot be read|no checkpoint", id="text"),
        pytest.param(b"PK\x03\x04 and no more", "broken archive", id="cut archive"),
        pytest.param(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00falsetR.", "torch did not write", id="malicious pickle"),
    ],
)
@pytest.mark.parametrize("command", ["info", "convert"])
def test_what_is_no_checkpoint_is_an_error_of_one_line(l5kit, command, content, message, tmp_path):
    (tmp_path / "a.pt").write_bytes(content)
    done = l5kit(
        "checkpoint", command, tmp_path / "a.pt", *([tmp_path / "b.safetensors"] if command == "convert" else [])
    )
    assert (done.exit_code, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "a.pt" in line
    assert "unexpected" not in line


def test_a_driver_is_not_converted(l5kit, tmp_path):
    with zipfile.ZipFile(tmp_path / "driver.zip", "w") as archive:
        archive.writestr("policy.pth", "")
        archive.writestr("_stable_baselines3_version", "2.4.0")
    done = l5kit("checkpoint", "convert", tmp_path / "driver.zip", tmp_path / "a.safetensors")
    assert done.exit_code == 1
    assert "stable_baselines3.PPO.load" in done.stderr
    assert not (tmp_path / "a.safetensors").exists()


def test_wrong_calls(l5kit, folder, tmp_path):
    assert l5kit("checkpoint", "info", folder / "script.pt", *PLANNER).exit_code == 2
    other = l5kit("checkpoint", "convert", folder / "script.pt", tmp_path / "a.pt")
    assert (other.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert ".safetensors" in other.stderr
    assert "does not exist" in l5kit("checkpoint", "info", tmp_path / "nothing.pt").stderr
    shutil.copy(folder / "old.yaml", tmp_path / "config.yaml")
    unfinished = l5kit("checkpoint", "info", tmp_path)
    assert unfinished.exit_code == 1
    assert "error: " in unfinished.stderr


def test_info_names_a_class_of_a_user_without_importing_it(l5kit, tmp_path):
    model = {"class_path": "of_nobody.Planner", "init_args": {"width": 3}}
    cfg = small_config("vector_planner", model_params={"model": model})
    network = torch.nn.Sequential(*(torch.nn.Linear(3, 2) for _ in range(3)))
    save_checkpoint(tmp_path / "own.safetensors", network, config=cfg)
    done = l5kit("checkpoint", "info", tmp_path / "own.safetensors")
    assert done.exit_code == 0, done.stderr
    for told in ("of_nobody.Planner, your own class", "width 3", "0.weight [2, 3]", "and 2 more", "vector_planner"):
        assert told in done.stdout


def test_info_of_a_configuration_without_parameters(l5kit, tmp_path):
    save_checkpoint(tmp_path / "bare.safetensors", torch.nn.Linear(3, 2), config={"model_params": None})
    done = l5kit("checkpoint", "info", tmp_path / "bare.safetensors")
    assert done.exit_code == 0, done.stderr

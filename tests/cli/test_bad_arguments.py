"""Invalid calls are refused before any slow import."""

import errno
import json
import os
import re
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from l5kit.configs import save_config_data
from l5kit.configs.overrides import load_driver_config

BAD_CALLS = (
    "train raster_planner --data CITY --out OUT --set train_params.max_num_step=3",
    "train raster_planner --data CITY --out OUT --set train_params.max_num_steps=many",
    "train raster_planner --data CITY --out OUT --workflow raster_planer",
    "train raster_planer --data CITY --out OUT",
    "train raster_planner --data nowhere --out OUT",
    "train raster_planner --data CITY --out CITY --set train_data_loader.key=scenes/sample.zarr",
    "train raster_planner --data CITY --out OUT --sweep train_params.sede=[1,2]",
    "train raster_planner --data CITY --out OUT --sweep train_params.seed=1",
    "train-rl --data CITY --out OUT --set rl_params.total_step=3",
    "train-rl --data CITY --out OUT --set gym_params.observation=pictures",
    "train-rl --data CITY --out CITY",
    "train-rl --data nowhere --out OUT",
    "train-rl no.yaml --data CITY --out OUT",
    "evaluate no.safetensors --data CITY",
    "evaluate CITY --data CITY",
    "evaluate WEIGHTS --data CITY --set train_params.max_num_step=3",
    "evaluate WEIGHTS --data CITY --config vector_planer",
    "evaluate WEIGHTS --data CITY --workflow raster_planer",
    "evaluate WEIGHTS --data CITY --key scenes/none.zarr",
    "evaluate WEIGHTS --data CITY --worst-by mean",
    "simulate CITY --planner idmm --out OUT",
    "simulate CITY --agents idmm --out OUT",
    "simulate CITY --moves trackd --out OUT",
    "simulate CITY --scenes 500:600 --out OUT",
    "simulate CITY --start-frame 5000 --out OUT",
    "simulate CITY --config no.yaml --out OUT",
    "simulate CITY --out CITY",
    "simulate nowhere --out OUT",
    "view nowhere",
    "view CITY --port PORT",
    "record nowhere --out scene.mcap",
    "record CITY --out nowhere/scene.mcap",
    "render nowhere --out frame.png",
    "render CITY --map-type semantc --out frame.png",
    "render CITY --out nowhere/frame.png",
    "bench --only semntic",
    "bench --data nowhere",
    "bench --data CITY --reference no.json",
    "synth CITY",
    "synth OUT --scenes 0",
    "import argoverse3 CITY OUT",
    "import argoverse2 nowhere OUT",
    "import womd CITY OUT",
    "resample nowhere OUT",
    "chop nowhere",
    "chop CITY --out CITY/scenes",
    "mask nowhere",
    "info nowhere",
    "validate nowhere",
    "cache nowhere",
    "demo --data nowhere --out OUT",
    "export nowhere OUT",
    "export CITY OUT --layout parqet",
    "checkpoint info no.pt",
    "checkpoint info WEIGHTS --config vector_planer",
    "checkpoint convert no.pt out.safetensors",
    "checkpoint convert WEIGHTS out.safetensors --config vector_planner --set model_params.num_step=2",
    "config schem",
    "manifest nowhere --out m.json",
    "verify nowhere --manifest no.json",
    "download --from no.txt",
    "warmup --jso",
)

PROBE = """
import json, sys
from typer.testing import CliRunner

class Waited(Exception):
    pass

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in {slow!r}:
            raise Waited(name)

sys.meta_path.insert(0, Watch())
from l5kit.cli.main import make_app

app, seen = make_app(), []
for call in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, call.split(), prog_name="l5kit")
    seen.append([call, done.exit_code, done.stderr])
print(json.dumps(seen))
"""
SLOW = ("torch", "lightning", "gymnasium", "stable_baselines3", "tornado", "bokeh", "av", "pandas", "ray", "dask")


@pytest.mark.process
def test_a_wrong_call_is_refused_before_anything_slow_is_imported(city, tmp_path):
    (tmp_path / "weights.safetensors").touch()
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        names = {"CITY": city, "OUT": tmp_path / "out", "WEIGHTS": tmp_path / "weights.safetensors"}
        names["PORT"] = taken.getsockname()[1]
        calls = [" ".join(_filled(word, names) for word in call.split()) for call in BAD_CALLS]
        source = PROBE.format(slow=SLOW)
        done = subprocess.run(
            [sys.executable, "-c", source, json.dumps(calls)], capture_output=True, text=True, cwd=tmp_path, check=True
        )
    seen = json.loads(done.stdout)
    assert len(seen) == len(BAD_CALLS)
    assert [row for row in seen if row[1] not in (1, 2) or "Waited" in row[2] or "unexpected" in row[2]] == []
    assert not (tmp_path / "out").exists()


def _filled(word, names):
    for name, value in names.items():
        word = word.replace(name, str(value))
    return word


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        ("trian raster_planner", "train"),
        ("train raster_planer --data CITY --out OUT", "raster_planner"),
        ("train raster_planner --data CITY --out OUT --workflow Raster-Planner", "raster_planner"),
        ("train raster_planner --data CITY --out OUT --set train_params.precision=16_mixed", "16-mixed"),
        ("train-rl --data CITY --out OUT --set gym_params.observation=rastr", "raster"),
        ("train-rl --data CITY --out OUT --set gym_params.actions=bycicle", "bicycle"),
        ("evaluate WEIGHTS --data CITY --workflow vectorplanner", "vector_planner"),
        ("simulate CITY/scenes/sample.zarr --planner rule --out OUT", "rules"),
        ("simulate CITY/scenes/sample.zarr --agents IDM --out OUT", "idm"),
        ("simulate CITY/scenes/sample.zarr --moves track --out OUT", "tracked"),
        ("render CITY --map-type semantc --out frame.png", "semantic"),
        ("bench --only semantic", "ego-semantic"),
        ("import argoverse CITY OUT", "argoverse2"),
        ("export CITY OUT --layout column", "columns"),
        ("synth OUT --engine process", "processes"),
        ("config show simnett", "simnet"),
        ("simulate CITY --planer idm --out OUT", "--planner"),
        ("simulate CITY --plannner=idm --out OUT", "--planner"),
        ("--verson", "--version"),
        ("simulat CITY", "simulate"),
        ("checkpoint convrt WEIGHTS", "convert"),
    ],
)
def test_what_was_meant_is_named(l5kit, city, tmp_path, call, meant):
    (tmp_path / "weights.safetensors").touch()
    names = {"CITY": city, "OUT": tmp_path / "out", "WEIGHTS": tmp_path / "weights.safetensors"}
    done = l5kit(*(_filled(word, names) for word in call.split()))
    assert done.exit_code in (1, 2)
    assert f"(did you mean '{meant}'?)" in done.stderr
    assert done.stderr.lower().count("possible options") + done.stderr.lower().count("did you mean") == 1


_FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
_IN_RUST = RuntimeError("Error while serializing: No space left on device (os error 28)")
_READ_ONLY = OSError(errno.EROFS, os.strerror(errno.EROFS), "somewhere/file")


@pytest.mark.parametrize(
    ("call", "target", "error", "told"),
    [
        ("synth OUT", "l5kit.cli.synth.make_city", _FULL, "cannot write 'OUT': No space left on device"),
        ("simulate CITY --out OUT", "l5kit.closedloop.run.simulate", _FULL, "cannot write 'OUT': No space left"),
        ("export CITY OUT", "l5kit.cli.export.export_columns", _READ_ONLY, "cannot write 'somewhere/file': Read-only"),
        ("chop CITY --out OUT", "l5kit.evaluation.chop_dataset.chopping.create_chopped_dataset", _IN_RUST, "'OUT': No"),
    ],
)
def test_a_full_disk_is_named(l5kit, city, tmp_path, monkeypatch, call, target, error, told):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(target, fail)
    names = {"CITY": city, "OUT": tmp_path / "out"}
    done = l5kit(*(_filled(word, names) for word in call.split()))
    assert done.exit_code == 1
    assert f"error: {told}".replace("error: '", "'").replace("OUT", str(tmp_path / "out")) in done.stderr


@pytest.mark.parametrize(
    "call", ["synth OUT", "simulate CITY --out OUT", "train vector_planner --data CITY --out OUT", "train-rl --out OUT"]
)
def test_a_folder_that_may_not_be_written_to_is_named_before_any_work(l5kit, city, tmp_path, monkeypatch, call):
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    names = {"CITY": city, "OUT": tmp_path / "out"}
    keys = "--set train_data_loader.key=scenes/sample.zarr --set val_data_loader.key=scenes/sample.zarr"
    words = f"{call} {keys}" if call.startswith("train ") else call
    done = l5kit(*(_filled(word, names) for word in words.split()))
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"the folder '{tmp_path}' is not writable; choose one that is" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--steps", "2000"), "note: 2,000 steps become 16,384, as each update takes 16,384: "),
        (("--steps", "16385"), "note: 16,385 steps become 32,768, "),
        (("--steps", "16384"), ""),
        (("--minutes", "3"), ""),
    ],
)
def test_that_steps_are_rounded_up_to_whole_updates_is_told_before_it_starts(l5kit, tmp_path, words, told):
    done = l5kit("train-rl", "--data", tmp_path / "nowhere", "--out", tmp_path / "out", *words)
    assert done.stderr.startswith(told or "error: ")


@pytest.mark.parametrize("call", [("train", "vector_planner"), ("train-rl", "CONFIG")])
def test_a_training_says_how_to_take_a_log_that_is_there(l5kit, city, tmp_path, call):
    config = tmp_path / "gym.yaml"
    cfg = load_driver_config(None)
    cfg["train_data_loader"] = {"key": "scenes/train.zarr"}
    save_config_data(cfg, str(config))
    words = [config if word == "CONFIG" else word for word in call]
    done = l5kit(*words, "--data", city, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "but there is sample.zarr" in done.stderr
    assert "--set train_data_loader.key=scenes/NAME.zarr" in done.stderr


@pytest.mark.parametrize("command", ["train", "train-rl"])
def test_a_data_folder_in_the_place_of_a_configuration_is_told_its_option(l5kit, city, command):
    done = l5kit(command, city)
    assert done.exit_code == 1
    assert f"{city} is a data folder; give a YAML file, and the folder with --data" in done.stderr


def test_help_cuts_nothing_in_a_narrow_terminal(l5kit, monkeypatch):
    """Eighty columns fit each option and each example; otherwise an ellipsis would appear."""
    monkeypatch.setenv("COLUMNS", "80")
    commands = [(), *((name,) for name in re.findall(r"^│ ([a-z-]+) ", l5kit("--help").stdout, re.MULTILINE))]
    commands += [("artifact", name) for name in re.findall(r"^│ ([a-z-]+) ", l5kit("artifact", "--help").stdout, re.M)]
    assert len(commands) > 25
    for command in commands:
        assert "…" not in l5kit(*command, "--help").stdout, command


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--seed", "many"), "'--seed': it must be a valid integer, got 'many'"),
        (("--scenes", "0"), "'--scenes': it must be at least 1, got '0'"),
        (("--density", "nan"), "'--density': it must be at most 2, got 'nan'"),
    ],
)
def test_numbers_that_do_not_fit_are_named(l5kit, tmp_path, options, told):
    done = l5kit("synth", tmp_path / "city", *options)
    assert done.exit_code == 2
    assert told in done.stderr

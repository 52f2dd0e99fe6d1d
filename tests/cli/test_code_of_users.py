"""Code of users that ends the process, prints, changes the directory or writes where it may not."""

import json
import os
import subprocess
import sys

import pytest

from l5kit.data.progress import on_terminal, tell
from support.simulated_folders import rows_of

DRIVER = """
import os, sys
from l5kit.simulation.drivers.simple import ConstantVelocity

{module}

class Mine:
    def __init__(self):
        {constructor}
        self.inner = ConstantVelocity(5)

    def drive(self, state):
        {method}
        return self.inner.drive(state)
"""


@pytest.fixture
def write(tmp_path):
    """Write a user's driver, with given lines in it; return the value of --planner."""

    def written(**lines):
        file = tmp_path / "mine.py"
        file.write_text(DRIVER.format(**({"module": "", "constructor": "pass", "method": "pass"} | lines)))
        return f"{file}:Mine"

    return written


def call(city, out, *options):
    return ("simulate", city, "--scenes", "0:2", "--frames", 4, "--out", out, *options)


ENDS = ["sys.exit(0)", "sys.exit()", "sys.exit('done')", "raise SystemExit(3)", "exit(0)"]


@pytest.mark.parametrize("line", ENDS)
@pytest.mark.parametrize("option", ["--planner", "--agents"])
def test_a_driver_that_ends_the_process_is_a_failed_scene_with_its_line(l5kit, city, tmp_path, write, line, option):
    done = l5kit(*call(city, tmp_path / "out", option, write(method=line)))
    assert done.exit_code == 1
    assert "Mine: SystemExit" in done.stderr
    assert f"(line 13 of {tmp_path / 'mine.py'})" in done.stderr
    assert [row["message"][:16] for row in rows_of(tmp_path / "out" / "scenes.csv")] == ["Mine: SystemExit"] * 2


def test_one_frame_that_ends_the_process_fails_one_scene(l5kit, city, tmp_path, write):
    line = "state.batch.scene_indices[state.scenes[-1]] == 1 and state.frame_indices[0] == 2 and sys.exit(0)"
    done = l5kit(*call(city, tmp_path / "out", "--planner", write(method=line), "--json"))
    assert done.exit_code == 0
    scores = json.loads(done.stdout)
    assert (scores["scenes"], [(each["scene"], each["frame"]) for each in scores["failed"]]) == (1, [(1, 2)])


@pytest.mark.parametrize("place", ["module", "constructor"])
def test_a_file_that_ends_the_process_when_it_is_loaded_is_an_error_with_its_line(l5kit, city, tmp_path, write, place):
    done = l5kit(*call(city, tmp_path / "out", "--planner", write(**{place: "sys.exit(0)"})))
    assert (done.exit_code, done.stdout) == (1, "")
    line = {"module": 5, "constructor": 9}[place]
    assert f"SystemExit: 0, at {tmp_path / 'mine.py'}:{line}" in done.stderr
    assert done.stderr.startswith("error: ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["module", "constructor", "method"])
def test_a_planner_that_prints_leaves_standard_output_to_json(l5kit, city, tmp_path, write, place):
    line = "print('hello'); sys.stdout.write('again\\n'); sys.stdout.flush()"
    done = l5kit(*call(city, tmp_path / "out", "--planner", write(**{place: line}), "--json"))
    assert done.exit_code == 0
    assert json.loads(done.stdout)["scenes"] == 2
    assert "hello\nagain\n" in done.stderr


@pytest.mark.parametrize("place", ["module", "constructor", "method"])
def test_a_planner_that_changes_the_directory_writes_where_it_was_told_to(l5kit, city, tmp_path, write, place):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    before = os.getcwd()
    try:
        os.chdir(tmp_path / "here")
        planner = write(**{place: f"os.chdir({str(tmp_path / 'elsewhere')!r})"})
        done = l5kit(*call(os.path.relpath(city), "out", "--planner", planner))
    finally:
        os.chdir(before)
    assert done.exit_code == 0, done.stderr
    assert "scores.json" in os.listdir(tmp_path / "here" / "out")
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.process
def test_a_process_that_prints_and_ends_a_scene_leaves_json_alone(city, tmp_path, write):
    line = "print('hello'); os.write(1, b'raw'); state.batch.scene_indices[state.scenes[-1]] == 1 and sys.exit(0)"
    words = call(city, tmp_path / "out", "--planner", write(method=line), "--json")
    command = [sys.executable, "-m", "l5kit", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    assert (scores["scenes"], [each["scene"] for each in scores["failed"]]) == (1, [1])
    assert "SystemExit" in scores["failed"][0]["message"]
    assert "raw" in done.stderr


MODEL = """
import sys
import torch
from torch import nn

{module}

class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        {constructor}
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, batch):
        {method}
        return {{"loss": self.weight.square()}}
"""


@pytest.mark.parametrize("place", ["module", "constructor", "method"])
def test_a_model_of_a_training_that_ends_the_process_is_an_error(l5kit, city, tmp_path, monkeypatch, place):
    pytest.importorskip("pytorch_lightning")
    name = f"mine_{place}"
    lines = {"module": "", "constructor": "pass", "method": "pass"} | {place: "sys.exit(0)"}
    (tmp_path / f"{name}.py").write_text(MODEL.format(**lines))
    monkeypatch.syspath_prepend(tmp_path)
    values = (f"model_params.model={name}.Mine", "train_params.max_num_steps=1")
    values += tuple(f"{loader}.key=scenes/sample.zarr" for loader in ("train_data_loader", "val_data_loader"))
    changes = [word for value in values for word in ("--set", value)]
    done = l5kit("train", "vector_planner", "--data", city, "--out", tmp_path / "out", *changes)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "SystemExit: 0, at " in done.stderr
    assert f"{name}.py:" in done.stderr


CALLBACK = """
import sys
from l5kit.training.lightning_parts import pl

class Mine(pl.Callback):
    def {method}(self, *_, **__):
        sys.exit(0)
"""


@pytest.mark.parametrize("method", ["setup", "on_train_batch_end", "state_dict"])
def test_a_callback_of_a_training_that_ends_the_process_is_an_error(l5kit, city, tmp_path, monkeypatch, method):
    pytest.importorskip("lightning")
    name = f"mine_{method}"
    (tmp_path / f"{name}.py").write_text(CALLBACK.format(method=method))
    monkeypatch.syspath_prepend(tmp_path)
    values = (
        f"train_params.callbacks=[{name}.Mine]",
        "train_params.max_num_steps=1",
        "train_params.eval_every_n_steps=1",
    )
    values += tuple(f"{loader}.key=scenes/sample.zarr" for loader in ("train_data_loader", "val_data_loader"))
    values += tuple(f"{loader}.batch_size=2" for loader in ("train_data_loader", "val_data_loader"))
    values += ("val_data_loader.max_num_batches=1",)
    changes = [word for value in values for word in ("--set", value)]
    done = l5kit("train", "vector_planner", "--data", city, "--out", tmp_path / "out", *changes)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "SystemExit: 0, at " in done.stderr
    assert f"{name}.py:" in done.stderr
    assert not (tmp_path / "out" / "result.json").exists()


@pytest.fixture
def without_streams(monkeypatch):
    """Take standard error away, as ``2>&-`` and ``pythonw`` do."""
    monkeypatch.setattr(sys, "stderr", None)


COMMANDS = {
    "simulate": lambda city, out: call(city, out, "--planner", "standing", "--json"),
    "synth": lambda _, out: ("synth", out, "--scenes", 1, "--frames", 12, "--town-size", 300),
    "info": lambda city, _: ("info", city, "--json"),
    "validate": lambda city, _: ("validate", city, "--json"),
    "mask": lambda city, _: ("mask", city, "--json"),
    "manifest": lambda city, out: ("manifest", city, "--out", f"{out}.json", "--json"),
    "cache": lambda city, out: ("cache", city, "--folder", out, "--json"),
    "chop": lambda city, out: ("chop", city, "--frames", 5, "--future", 3, "--out", out, "--json"),
    "export": lambda city, out: ("export", city, out, "--json"),
    "render": lambda city, out: ("render", city, "--out", f"{out}.png"),
    "view": lambda city, out: ("view", city, "--export", f"{out}.html"),
    "a wrong call": lambda city, _: ("render", city, "--out", "x.tiff"),
    "an error": lambda _, out: ("info", out, "--json"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_run_without_a_standard_error(city, tmp_path, capsys, monkeypatch, name):
    from l5kit.cli.main import make_app

    monkeypatch.setattr(sys, "stderr", None)
    words = [str(word) for word in COMMANDS[name](city, tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        make_app()(words, prog_name="l5kit")
    assert sys.stderr is None
    assert ended.value.code == {"a wrong call": 2, "an error": 1}.get(name, 0)
    printed = capsys.readouterr().out
    assert "error" not in printed
    if "--json" in words and not ended.value.code:
        json.loads(printed)


@pytest.mark.filterwarnings("ignore")
def test_a_command_runs_without_a_standard_output(city, monkeypatch):
    from l5kit.cli.main import make_app

    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, None)
    for words in (["info", str(city)], ["info", str(city), "--json"]):
        with pytest.raises(SystemExit) as ended:
            make_app()(words, prog_name="l5kit")
        assert ended.value.code == 0


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "none"])
def test_what_is_told_without_a_standard_error_goes_nowhere(capsys, monkeypatch, is_closed):
    with open(os.devnull, "w") as stream:
        pass
    monkeypatch.setattr(sys, "stderr", stream if is_closed else None)
    tell("a line")
    assert not on_terminal()
    assert capsys.readouterr().out == ""

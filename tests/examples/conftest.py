"""Running the examples that train, on a city that all of them share."""

import runpy
import sys
from pathlib import Path

import pytest

from l5kit.synthetic import make_city
from support.models import one_thread

__all__ = ["one_thread"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="session")
def split_city(tmp_path_factory):
    """A data folder with a scene to train on, one to validate with, and one more; never written to."""
    scenes = {"num_scenes": 1, "num_train_scenes": 1, "num_validate_scenes": 1, "num_frames": 130}
    return make_city(tmp_path_factory.mktemp("split") / "city", seed=5, town_size=300.0, **scenes).path


@pytest.fixture
def examples_on_path(monkeypatch):
    """Let Python import the scripts and the modules next to them."""
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.fixture
def train_little(monkeypatch, tmp_path, capsys, examples_on_path):
    """Run a script as people do, for two steps on few samples; returns what it prints."""

    def run(name, *options, changes=()):
        few = ("train_data_loader.batch_size=2", "val_data_loader.batch_size=8", "val_data_loader.max_num_batches=2")
        settings = [part for change in (*few, *changes) for part in ("--set", change)]
        arguments = ["--out", tmp_path / "out", "--steps", 2, *options, *settings]
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run

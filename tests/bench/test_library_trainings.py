"""``benchmarks/library_trainings.py``: each library that the documents name learns something in the environments."""

import argparse

import pytest

for library in ("torchrl", "skrl", "stable_baselines3", "pettingzoo"):
    pytest.importorskip(library)

ACTORS = "stable-baselines3, actors of PettingZoo"
"""Its policy takes longer than three minutes until it drives better than one that keeps its speed."""


@pytest.fixture
def script(import_script):
    return import_script("library_trainings")


@pytest.mark.long
@pytest.mark.parametrize("name", ["stable-baselines3", ACTORS, "TorchRL", "skrl", "one file (`examples/ppo.py`)"])
def test_a_library_learns(script, name, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "LIBRARIES", {name: script.LIBRARIES[name]})
    options = argparse.Namespace(work=tmp_path, minutes=3.0, scenes=12, only=None)
    ((_, _, decisions, score, before, _),) = [row.split("|") for row in script.measure(options)]
    assert int(decisions.replace(",", "")) > 1_000
    if name != ACTORS:
        assert float(score) > float(before)


def test_all_libraries_are_tried(script):
    assert len(script.LIBRARIES) == 5

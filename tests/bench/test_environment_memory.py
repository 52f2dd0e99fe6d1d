"""``benchmarks/environment_memory.py``, with a few environments and steps."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from l5kit.synthetic import make_city
from l5kit_bench.machine import has_memory_figures

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "environment_memory.py"

pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="benchmarks are not part of the source distribution")


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("environment_memory", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_episodes_of_all_modes_are_the_same_and_all_steps_are_told(script, tmp_path, capsys):
    city = make_city(tmp_path / "city", num_scenes=1, num_frames=110, town_size=300.0).path
    told = {}

    def tell(title, num_steps):
        told[title] = told.get(title, 0) + num_steps

    assert script.run_all(city, tmp_path, num_steps=6 * 600, num_envs=3, tell=tell)
    assert list(told) == [f"{others}, {mode}" for others in script.OTHERS for mode in script.MODES]
    assert all(600 <= num_steps < 600 + 3 for num_steps in told.values())
    assert capsys.readouterr().out.count("all are the same to the bit") == 2


@pytest.mark.parametrize(
    ("second", "line"),
    [
        pytest.param([[1.0, np.nan]], "1 episodes ended in a, b: all are the same to the bit", id="equal"),
        pytest.param([[1.0, 3.0]], "2 episodes ended in a, b: 1 DIFFER", id="one differs"),
        pytest.param([[np.nan, np.nan]], "0 episodes ended in a, b: all are the same to the bit", id="none"),
    ],
)
def test_only_episodes_that_ended_in_all_modes_are_compared(script, capsys, second, line):
    found = {"a": np.array([[1.0, 2.0]]), "b": np.array(second)}
    assert script.compare_modes(found, "log") is ("DIFFER" not in line and line[0] != "0")
    assert capsys.readouterr().out.strip() == f"log: {line}"


@pytest.mark.skipif(not has_memory_figures(), reason="this system does not tell the memory of a process")
def test_memory_is_told_every_so_many_steps(script, capsys):
    tell = script.MemoryTeller(10)
    for _ in range(5):
        tell("log, NextStep", 5)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["10", "steps"], ["20", "steps"]]
    assert all(" MB " in line for line in lines)

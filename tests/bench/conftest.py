"""A small synthetic city, rows that do nothing, and a clock whose time the test sets."""

import importlib
from pathlib import Path

import pytest

from l5kit.synthetic import make_city
from l5kit_bench.row import PreparedRow, Row


class ToldClock:
    """Stands still but when ``now`` is set."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def import_script(monkeypatch):
    """Return what imports a script of the benchmarks by its name."""
    if not BENCHMARKS.is_dir():
        pytest.skip("benchmarks are not part of the source distribution")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.fixture
def clock():
    return ToldClock()


@pytest.fixture
def make_row():
    """Return a row that does nothing."""

    def make(key, **values):
        ready = PreparedRow(lambda: 1)
        return Row(**{"key": key, "title": key.title(), "unit": "things", "prepare": lambda _: ready} | values)

    return make


@pytest.fixture(scope="session")
def city(tmp_path_factory):
    """Folder of a city with one short scene, never written to."""
    return make_city(tmp_path_factory.mktemp("bench") / "city", num_scenes=1, num_frames=40, town_size=300.0).path

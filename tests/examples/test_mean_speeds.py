"""The example that works out mean speeds with Dask."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import PERCEPTION_LABELS, ChunkedDataset

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mean_speeds.py"


@pytest.fixture
def run_example(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *map(str, arguments)])
        runpy.run_path(str(EXAMPLE), run_name="__main__")
        return capsys.readouterr().out

    return run


def expected_rows(city):
    """Class, rows and mean speeds as the example prints them."""
    agents = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open().agents[:]
    speeds = np.linalg.norm(agents["velocity"].astype(np.float64), axis=1)
    classes = agents["label_probabilities"].argmax(axis=1)
    rows = []
    for label in sorted(set(classes.tolist()), key=lambda label: -(classes == label).sum()):
        of_class = speeds[classes == label]
        moving = of_class[of_class > 0.5]
        mean_moving = f"{moving.mean():.2f}" if len(moving) else "-"
        rows.append([PERCEPTION_LABELS[label], str(len(of_class)), f"{of_class.mean():.2f}", mean_moving])
    return rows


@pytest.mark.process  # Dask asks `uname` for the processor
def test_threads_work_out_what_numpy_does(run_example, city):
    lines = run_example("--data", city, "--threads", "--chunks", 1).splitlines()
    assert lines[0].endswith("agent rows, 2 workers")
    rows = [line.split() for line in lines[3:]]
    assert rows == expected_rows(city)
    assert len(rows) >= 3


@pytest.mark.long
@pytest.mark.process
def test_processes_do_too(run_example, city):
    lines = run_example("--data", city).splitlines()
    assert [line.split() for line in lines[3:]] == expected_rows(city)

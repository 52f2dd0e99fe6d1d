"""The example that looks at a dataset."""

import runpy
import sys
from pathlib import Path

import pytest
from PIL import Image

from support.cities import small_city

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "visualise_data.py"


def run_example(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *map(str, arguments)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")


@pytest.mark.filterwarnings("ignore:the agents mask of")
def test_pictures_of_a_dataset_are_written(monkeypatch, tmp_path, capsys):
    small_city(tmp_path / "city")
    run_example(monkeypatch, "--data", tmp_path / "city", "--out", tmp_path / "out")
    assert "PERCEPTION_LABEL_CAR" in capsys.readouterr().out
    for map_type in ("py_semantic", "py_satellite"):
        for kind in ("ego", "agent"):
            assert Image.open(tmp_path / "out" / f"{kind}-{map_type}.png").size == (448, 448)
        assert Image.open(tmp_path / "out" / f"scene-{map_type}.gif").n_frames > 10


@pytest.mark.filterwarnings("ignore:the agents mask of")
def test_the_example_works_on_the_real_scene(monkeypatch, tmp_path, capsys, shared_data):
    run_example(monkeypatch, "--data", shared_data, "--out", tmp_path / "out")
    assert "20802" in capsys.readouterr().out
    assert (tmp_path / "out" / "ego-py_satellite.png").is_file()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:the agents mask of")
def test_the_example_makes_a_city_when_it_gets_no_data(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run_example(monkeypatch)
    assert (tmp_path / "visualise-out" / "city" / "meta.json").is_file()
    assert (tmp_path / "visualise-out" / "scene-py_semantic.gif").is_file()

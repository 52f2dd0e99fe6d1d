"""``l5kit demo``: three files that hold what they promise."""

import json
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from l5kit.visualization.birdseye.tones import EGO_RGB, tones_of


class Page(HTMLParser):
    """Elements that a page opens and does not close, and its links."""

    EMPTY = ("meta", "img", "br", "hr", "link")

    def __init__(self, text):
        super().__init__()
        self.open, self.sources, self.texts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data.strip())


@pytest.fixture(scope="module")
def demo_folder(city, tmp_path_factory):
    from typer.testing import CliRunner

    from l5kit.cli.main import make_app

    out = tmp_path_factory.mktemp("demo") / "out"
    arguments = ["demo", "--data", str(city), "--out", str(out), "--samples", "8"]
    return CliRunner().invoke(make_app(), arguments, prog_name="l5kit"), out


def test_it_ends_with_a_planner_that_drives_one_that_fails_and_the_speed_of_samples(demo_folder):
    done, out = demo_folder
    assert (done.exit_code, done.stderr) == (0, "")
    words = ["route_policy drives: score", "constant-velocity drives: score", "Samples per second", "drive.gif"]
    places = [done.stdout.index(word) for word in words]
    assert places == sorted(places)
    for name in ("drive.gif", "failure.png", "drive.html", "index.html"):
        assert str(out / name) in done.stdout
    for row in ("EgoDataset", "AgentDataset"):
        for kind in ("semantic", "satellite"):
            assert any(row in line and kind in line for line in done.stdout.splitlines())


def test_the_scores_are_those_of_the_simulations_in_the_folder(demo_folder):
    done, out = demo_folder
    for folder, planner in (("drives", "route_policy"), ("failing", "constant-velocity")):
        scores = json.loads((out / folder / "scores.json").read_text())
        assert scores["planner"] == planner
        assert f"{planner} drives: score {scores['score']:.3f} of 1" in done.stdout
        row = next(line for line in (done.stdout.partition(f"{planner} drives")[2]).splitlines() if "comfort" in line)
        assert f"{scores['metrics']['comfort']:.3f}" in row


def test_the_failure_shows_the_av_in_the_look_of_the_viewer(demo_folder):
    pixels = np.array(Image.open(demo_folder[1] / "failure.png").convert("RGB"))
    assert pixels.shape == (400, 600, 3)
    for color in (EGO_RGB, tones_of("light").lane, tones_of("light").plan):
        assert np.count_nonzero((pixels == color).all(axis=-1)) > 20


def test_the_film_moves(demo_folder):
    film = Image.open(demo_folder[1] / "drive.gif")
    assert film.n_frames > 50
    first = np.array(film.convert("RGB")).astype(int)
    film.seek(film.n_frames - 1)
    assert np.abs(np.array(film.convert("RGB")) - first).max() > 100


def test_the_page_is_whole_and_needs_no_other_file(demo_folder):
    page = Page((demo_folder[1] / "index.html").read_text("utf-8"))
    assert page.open == []
    assert len(page.sources) == 2
    assert all(source.startswith(("data:image/png;base64,", "data:image/gif;base64,")) for source in page.sources)
    assert {"EgoDataset", "AgentDataset", "300", "3"} <= set(page.texts)
    assert b"l5kit" in (demo_folder[1] / "drive.html").read_bytes()


@pytest.mark.long
def test_a_second_run_replaces_the_first(l5kit, city, tmp_path):
    arguments = ["demo", "--data", city, "--out", tmp_path / "out", "--samples", 2]
    assert l5kit(*arguments, "--scenes", 1).exit_code == 0
    done = l5kit(*arguments, "--scenes", 2)
    assert (done.exit_code, done.stderr) == (0, "")
    assert len((tmp_path / "out" / "drives" / "scenes.csv").read_text().splitlines()) == 3


def test_a_dataset_without_maps_is_shown_as_boxes(l5kit, city, tmp_path):
    path = shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "far" / "away" / "alone.zarr")
    done = l5kit("demo", "--data", path, "--out", tmp_path / "out", "--samples", 2)
    assert done.exit_code == 0
    assert done.stderr.count("note: no ") == 3
    assert "box" in done.stdout
    assert (tmp_path / "out" / "index.html").is_file()


def test_without_data_a_city_is_made(l5kit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = l5kit("demo", "--scenes", 1, "--samples", 2)
    assert done.exit_code == 0
    assert (tmp_path / "demo-out" / "made-city" / "scenes" / "sample.zarr").is_dir()
    assert (tmp_path / "demo-out" / "index.html").is_file()


def test_the_real_scene(l5kit, shared_data, tmp_path):
    done = l5kit("demo", "--data", shared_data, "--out", tmp_path / "out", "--samples", 20)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "20,802" in done.stdout
    assert (tmp_path / "out" / "index.html").is_file()


def test_a_damaged_dataset_is_an_error_in_one_line(l5kit, city_copy, tmp_path):
    (city_copy / "scenes" / "sample.zarr" / "agents" / "0").write_bytes(b"damaged")
    done = l5kit("demo", "--data", city_copy, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out" / "index.html").exists()


@pytest.mark.parametrize("name", ["x.png", "film.GIF", "page.html", "file"])
def test_a_file_as_out_is_a_wrong_call(l5kit, city, tmp_path, name):
    (tmp_path / "file").write_bytes(b"older")
    done = l5kit("demo", "--data", city, "--out", tmp_path / name)
    assert done.exit_code == 2
    assert "--out" in done.stderr
    assert "give a folder" in " ".join(done.stderr.replace("│", " ").split())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"older"

"""``l5kit render``: sizes, times, and colours where they belong."""

import shutil

import numpy as np
import pytest
from PIL import Image

from l5kit.rasterization.semantic_rasterizer import COLORS
from l5kit.visualization import TARGET_POINTS_COLOR

EGO_PX = (224, 240)
"""Column and row of the AV in a picture of 640 x 480 pixels."""
PLAIN = ("--no-caption", "--no-trajectories")


def pixels_of(path):
    return np.array(Image.open(path).convert("RGB"))


def count(pixels, color):
    return int(np.count_nonzero((pixels == color).all(axis=-1)))


def test_a_frame_has_road_lanes_ego_and_target(l5kit, city, tmp_path):
    done = l5kit("render", city, "--frame", 40, "--out", tmp_path / "a.png", *PLAIN)
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path / 'a.png'}\n")
    plain = pixels_of(tmp_path / "a.png")
    assert plain.shape == (480, 640, 3)
    assert count(plain, COLORS["ROAD"]) > 10_000
    assert sum(count(plain, COLORS[name]) for name in ("LANE_NOTL", "RED", "GREEN", "YELLOW")) > 200
    assert tuple(plain[EGO_PX[1], EGO_PX[0]]) == (0, 255, 0)

    assert l5kit("render", city, "--frame", 40, "--out", tmp_path / "b.png", "--no-caption").exit_code == 0
    drawn = pixels_of(tmp_path / "b.png")
    assert count(plain, TARGET_POINTS_COLOR) == 0
    assert count(drawn, TARGET_POINTS_COLOR) > 20


def test_the_caption_is_in_the_upper_left_corner(l5kit, city, tmp_path):
    assert l5kit("render", city, "--out", tmp_path / "with.png").exit_code == 0
    assert l5kit("render", city, "--out", tmp_path / "without.png", "--no-caption").exit_code == 0
    differ = (pixels_of(tmp_path / "with.png") != pixels_of(tmp_path / "without.png")).any(axis=-1)
    rows, columns = np.nonzero(differ)
    assert len(rows) > 100
    assert rows.max() < 40
    assert columns.max() < 400


def test_satellite_pictures_show_the_aerial_picture(l5kit, city, tmp_path):
    done = l5kit("render", city, "--frame", 40, "--out", tmp_path / "a.png", "--map-type", "satellite", *PLAIN)
    assert done.exit_code == 0
    pixels = pixels_of(tmp_path / "a.png")
    assert tuple(pixels[EGO_PX[1], EGO_PX[0]]) == (0, 255, 0)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 500


def test_a_film_has_its_size_its_frames_and_real_time(l5kit, city, tmp_path):
    out = tmp_path / "a.gif"
    done = l5kit("render", city, "--scene", 1, "--frames", "10:30:2", "--size", "200x100", "--out", out)
    assert done.exit_code == 0
    film = Image.open(out)
    assert film.size == (200, 100)
    durations = []
    for index in range(film.n_frames):
        film.seek(index)
        durations.append(film.info["duration"])
        assert len(np.unique(np.array(film.convert("RGB")).reshape(-1, 3), axis=0)) > 3
    assert sum(durations) == 10 * 200


def test_a_film_of_an_agent_has_the_frames_in_which_it_is_seen(l5kit, city, tmp_path):
    from l5kit.data import ChunkedDataset
    from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX

    scene = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open().get_scene_dataset(0)
    car = scene.agents["label_probabilities"][:, PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]] > 0.5
    tracks, counts = np.unique(scene.agents["track_id"][car], return_counts=True)
    short = tracks[(counts > 3) & (counts < 90)][0]
    out = tmp_path / "a.gif"
    done = l5kit("render", city, "--agent", short, "--size", "64x48", "--out", out, "--no-caption")
    assert done.exit_code == 0
    film = Image.open(out)
    total_ms = 0
    for index in range(film.n_frames):
        film.seek(index)
        total_ms += film.info["duration"]
    assert total_ms == 100 * counts[tracks == short][0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--scene", 3], "scene 3 is out of range; the dataset has 3 scenes", id="scene"),
        pytest.param(["--frame", 100], "frame 100 is out of range; scene 0 has the frames 0 to 99", id="frame"),
        pytest.param(["--agent", 99999], "track 99999", id="track"),
        pytest.param(["--pixel-size", -1], "pixel_size", id="pixel size"),
    ],
)
def test_what_is_not_there_is_an_error_in_one_line(l5kit, city, tmp_path, arguments, said):
    done = l5kit("render", city, "--out", tmp_path / "a.png", *arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "a.png").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--frames", "200:300"], "take none of the 100 frames", id="frames"),
        pytest.param(["--agent", 99999], "the tracks seen longest are", id="track"),
    ],
)
def test_what_is_not_there_is_an_error_in_films_too(l5kit, city, tmp_path, arguments, said):
    done = l5kit("render", city, "--out", tmp_path / "a.gif", *arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
    assert not (tmp_path / "a.gif").exists()


def test_a_dataset_without_a_map_asks_for_one_and_can_be_drawn_without(l5kit, city, tmp_path):
    path = shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "far" / "away" / "alone.zarr")
    refused = l5kit("render", path, "--out", tmp_path / "a.png")
    assert refused.exit_code == 1
    assert "a semantic map and a meta.json" in refused.stderr
    done = l5kit("render", path, "--out", tmp_path / "a.png", "--map-type", "box", *PLAIN)
    assert done.exit_code == 0
    assert tuple(pixels_of(tmp_path / "a.png")[EGO_PX[1], EGO_PX[0]]) == (0, 255, 0)

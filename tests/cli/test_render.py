"""``l5kit render``: sizes, times, and colours where they belong."""

import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image

from l5kit.errors import install_command
from l5kit.rasterization.semantic_rasterizer import COLORS
from l5kit.visualization import TARGET_POINTS_COLOR
from l5kit.visualization.sample_pictures import HISTORY_POINTS_COLOR
from l5kit.visualization.simulated.drive_overlay import AGENT_GHOST_COLOR, EGO_GHOST_COLOR, PLAN_COLOR

EGO_PX = (224, 240)
"""Column and row of the AV in a picture of 640 x 480 pixels."""
PLAIN = ("--no-caption", "--no-trajectories", "--style", "channels")


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

    assert (
        l5kit(
            "render", city, "--frame", 40, "--out", tmp_path / "b.png", "--no-caption", "--style", "channels"
        ).exit_code
        == 0
    )
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
    assert done.stderr == ""
    assert done.exit_code == 0
    film = Image.open(out)
    total_ms = 0
    for index in range(film.n_frames):
        film.seek(index)
        total_ms += film.info["duration"]
    assert total_ms == 100 * counts[tracks == short][0]


def test_a_film_of_fewer_frames_than_were_asked_for_says_so(l5kit, city, tmp_path):
    from l5kit.data import ChunkedDataset

    scene = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open().get_scene_dataset(0)
    tracks, counts = np.unique(scene.agents["track_id"], return_counts=True)
    short = tracks[(counts > 3) & (counts < 90)][0]
    arguments = ["render", city, "--agent", short, "--size", "64x48", "--out", tmp_path / "a.gif"]
    done = l5kit(*arguments, "--frames", ":")
    assert done.exit_code == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("note: the film shows ")
    assert f" of the {len(scene.frames)} frames, those with track {short}" in line
    film = ["render", city, "--size", "64x48", "--out", tmp_path / "b.gif", "--frames"]
    assert l5kit(*film, "0:3").stderr == ""
    cut = l5kit(*film, f"0:{len(scene.frames) + 50}:25")
    num_there = len(range(0, len(scene.frames), 25))
    note = f"takes {num_there} of {num_there + 2}, as scene 0 has no more"
    assert cut.stderr == f"note: --frames 0:{len(scene.frames) + 50}:25 {note}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--scene", 3], "scene 3 is out of range; the dataset has the scenes 0 to 2", id="scene"),
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


@pytest.mark.parametrize("size", ["4097x10", "10x4097", "10000x10000", "99999999x99999999", "9" * 5000 + "x1"])
def test_pictures_that_no_player_takes_are_refused(l5kit, city, tmp_path, size):
    done = l5kit("render", city, "--out", tmp_path / "a.png", "--size", size)
    assert done.exit_code == 2
    said = done.stderr.replace("\n", " ")
    assert "4096" in said or len(size) > 5000
    assert "Traceback" not in said
    assert not (tmp_path / "a.png").exists()


def test_the_largest_picture_is_drawn(l5kit, city, tmp_path):
    arguments = ["--map-type", "box", "--frame", "5", "--pixel-size", 0.5]
    assert l5kit("render", city, "--out", tmp_path / "a.png", "--size", "4096x32", *arguments).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--frames", "200:300"], "select none of the 100 frames", id="frames"),
        pytest.param(["--agent", 99999], "the tracks seen longest are", id="track"),
    ],
)
def test_what_is_not_there_is_an_error_in_films_too(l5kit, city, tmp_path, arguments, said):
    done = l5kit("render", city, "--out", tmp_path / "a.gif", *arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
    assert not (tmp_path / "a.gif").exists()


@pytest.fixture
def lonely_log(city, tmp_path):
    """A dataset without map, aerial picture and meta.json."""
    return shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "far" / "away" / "alone.zarr")


def test_a_dataset_without_a_map_is_drawn_without_and_says_so(l5kit, lonely_log, tmp_path):
    done = l5kit("render", lonely_log, "--out", tmp_path / "a.png", *PLAIN)
    assert done.exit_code == 0
    assert "no semantic map and no meta.json in or near" in done.stderr
    assert "--map-type box" in done.stderr
    assert done.stderr.count("\n") == 1
    asked = l5kit("render", lonely_log, "--out", tmp_path / "b.png", "--map-type", "box", *PLAIN)
    assert (asked.exit_code, asked.stderr) == (0, "")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert tuple(pixels_of(tmp_path / "a.png")[EGO_PX[1], EGO_PX[0]]) == (0, 255, 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--map-type", "semantic"], "need a semantic map and a meta.json", id="semantic"),
        pytest.param(["--map-type", "satellite"], "need an aerial picture and a meta.json", id="satellite"),
        pytest.param(
            ["--map", "{city}/semantic_map/semantic_map.pb"], "need a meta.json", id="a map without meta.json"
        ),
    ],
)
def test_a_map_that_was_asked_for_and_is_not_there_is_an_error(l5kit, city, lonely_log, tmp_path, arguments, said):
    arguments = [argument.format(city=city) for argument in arguments]
    done = l5kit("render", lonely_log, "--out", tmp_path / "a.png", *arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "a.png").exists()


@pytest.mark.parametrize(
    ("arguments", "fps"),
    [
        pytest.param(["--frames", "10:30"], 10, id="real time"),
        pytest.param(["--frames", "10:30:4"], 2.5, id="real time with a step"),
        pytest.param(["--frames", "10:30:4", "--fps", 20], 20, id="a rate of its own"),
    ],
)
def test_a_video_has_its_size_its_frames_and_its_rate(l5kit, city, tmp_path, arguments, fps):
    av = pytest.importorskip("av")
    out = tmp_path / "a.mp4"
    done = l5kit("render", city, "--size", "101x75", "--out", out, *arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{out}\n", "")
    with av.open(str(out)) as container:
        (stream,) = container.streams.video
        assert stream.codec_context.name == "h264"
        assert (stream.codec_context.width, stream.codec_context.height) == (102, 76)
        assert float(stream.average_rate) == fps
        assert stream.frames == (20 if ":4" not in arguments[1] else 5)


def test_a_rate_holds_for_a_gif_too(l5kit, city, tmp_path):
    out = tmp_path / "a.gif"
    assert l5kit("render", city, "--frames", "0:2", "--size", "64x48", "--fps", 4, "--out", out).exit_code == 0
    assert Image.open(out).info["duration"] == 250


def test_a_video_shows_the_pictures_of_its_frames(l5kit, city, tmp_path):
    av = pytest.importorskip("av")
    arguments = ("render", city, "--scene", 1, "--map-type", "satellite")
    assert l5kit(*arguments, "--frames", "30:50:10", "--out", tmp_path / "a.mp4").exit_code == 0
    with av.open(str(tmp_path / "a.mp4")) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    for frame_index, frame in zip((30, 40), frames, strict=True):
        assert l5kit(*arguments, "--frame", frame_index, "--out", tmp_path / "a.png").exit_code == 0
        assert np.abs(frame.astype(int) - pixels_of(tmp_path / "a.png")).mean() < 4


def test_a_video_without_the_extra_says_what_to_install(l5kit, city, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    done = l5kit("render", city, "--frames", "0:2", "--out", tmp_path / "a.mp4")
    assert (done.exit_code, done.stdout) == (1, "")
    assert install_command("viz") in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_past_positions_are_orange_and_future_ones_magenta(l5kit, city, tmp_path):
    """The AV of this scene moves: the past lies behind its middle, the future before it."""
    arguments = (
        "render",
        city,
        "--scene",
        1,
        "--frame",
        60,
        "--no-caption",
        "--map-type",
        "box",
        "--style",
        "channels",
    )
    assert l5kit(*arguments, "--out", tmp_path / "a.png").exit_code == 0
    pixels = pixels_of(tmp_path / "a.png")
    past_px = np.argwhere((pixels == HISTORY_POINTS_COLOR).all(axis=-1))
    future_px = np.argwhere((pixels == TARGET_POINTS_COLOR).all(axis=-1))
    assert len(past_px) > 100
    assert len(future_px) > 200
    assert past_px[:, 1].mean() < EGO_PX[0] < future_px[:, 1].mean()


@pytest.mark.parametrize("name", ["a.png", "a.gif", "a.mp4"])
@pytest.mark.parametrize(
    ("place", "said"),
    [
        pytest.param("nowhere/{}", "the folder '{tmp_path}/nowhere' does not exist; create it first", id="no folder"),
        pytest.param("closed/{}", "the folder '{tmp_path}/closed' is not writable", id="closed folder"),
        pytest.param("folder-{}", "is a folder; give the name of a file in it", id="a folder"),
    ],
)
def test_a_place_that_cannot_be_written_is_named_before_anything_is_read(
    l5kit, tmp_path, monkeypatch, name, place, said
):
    (tmp_path / "closed").mkdir()
    (tmp_path / f"folder-{name}").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path / "closed")  # root may write anywhere
    out = tmp_path / place.format(name)
    done = l5kit("render", tmp_path / "no dataset", "--out", out)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: --out {str(out)!r}")
    assert said.format(tmp_path=tmp_path) in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--out", "a.webm"], "'a.webm' must end in .png (one frame), .gif or .mp4", id="ending"),
        pytest.param(["--out", "a"], "'a' must end in .png (one frame), .gif or .mp4", id="no ending"),
        pytest.param(["--out", "a.png", "--fps", 5], "a .png shows one --frame", id="rate of a picture"),
        pytest.param(["--out", "a.mp4", "--frame", 5], "a .gif or .mp4 several --frames", id="one frame of a film"),
        pytest.param(["--out", "a.mp4", "--fps", 101], "'--fps'", id="too fast"),
        pytest.param(["--out", "a.mp4", "--fps", 0], "'--fps'", id="too slow"),
        pytest.param(["--out", "a.mp4", "--map-type", "x"], "'x' is not one of semantic, satellite, box", id="kind"),
    ],
)
def test_a_wrong_call_says_what_is_allowed(l5kit, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    done = l5kit("render", ".", *arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


def run_apart(*arguments, **options):
    """Start the command in a separate process."""
    words = [sys.executable, "-m", "l5kit.cli", *map(str, arguments)]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, **options)


@pytest.mark.process
@pytest.mark.long
def test_the_same_call_in_two_processes_gives_the_same_bytes(l5kit, city, tmp_path):
    """The second process has another seed of hashes and other values in fresh memory."""
    names = ["a.png", "a.gif", *(["a.mp4"] if find_spec("av") else [])]
    for name in names:
        arguments = ["render", city, "--scene", 1, "--size", "201x151", "--map-type", "semantic"]
        arguments += ["--frame", 40] if name == "a.png" else ["--frames", "40:46"]
        assert l5kit(*arguments, "--out", tmp_path / name).exit_code == 0
        environment = os.environ | {"PYTHONHASHSEED": "7", "MALLOC_PERTURB_": "85"}
        with run_apart(
            *arguments, "--out", tmp_path / f"apart-{name}", env=environment, stderr=subprocess.PIPE
        ) as apart:
            assert apart.communicate(timeout=120)[1] == b""
        assert apart.returncode == 0
        assert (tmp_path / name).read_bytes() == (tmp_path / f"apart-{name}").read_bytes(), name


def wait_until(holds, *, seconds=120):
    """Return whether something holds within a time."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs terminals and signals of POSIX")
@pytest.mark.parametrize("name", ["a.gif", "a.mp4"])
def test_on_a_terminal_there_is_a_bar_and_an_interruption_leaves_nothing(city, tmp_path, name):
    if name == "a.mp4":
        pytest.importorskip("av")
    terminal, end_of_command = os.openpty()
    out = tmp_path / name
    command = run_apart("render", city, "--out", out, stdout=subprocess.PIPE, stderr=end_of_command)
    with command:
        try:
            assert wait_until(lambda: [path.suffix == ".part" for path in tmp_path.iterdir()] == [True])
            assert b"Drawing" in os.read(terminal, 1_000_000)
            command.send_signal(signal.SIGINT)
            stdout, _ = command.communicate(timeout=60)
        finally:
            command.kill()
            os.close(terminal)
            os.close(end_of_command)
    assert (command.returncode, stdout) == (130, b"")
    assert list(tmp_path.iterdir()) == []


# Simulations


def test_a_driven_scene_is_drawn_on_the_map_of_its_log(l5kit, drives, tmp_path):
    for place, name in ((drives, "a.png"), (drives / "simulated.zarr", "b.png")):
        done = l5kit("render", place, "--scene", 1, "--frame", 40, "--out", tmp_path / name, *PLAIN)
        assert (done.exit_code, done.stderr) == (0, "")
    plain = pixels_of(tmp_path / "a.png")
    assert (plain == pixels_of(tmp_path / "b.png")).all()
    assert count(plain, COLORS["ROAD"]) > 10_000
    assert tuple(plain[EGO_PX[1], EGO_PX[0]]) == (0, 255, 0)
    assert count(plain, EGO_GHOST_COLOR) == count(plain, AGENT_GHOST_COLOR) == 0


def test_ghosts_and_plans_are_drawn_over_it_when_asked_for(l5kit, drives, tmp_path):
    call = ("render", drives, "--frame", 60, *PLAIN)
    assert l5kit(*call, "--ghosts", "--out", tmp_path / "ghosts.png").exit_code == 0
    assert l5kit(*call, "--plans", "--out", tmp_path / "plans.png").exit_code == 0
    ghosts, plans = pixels_of(tmp_path / "ghosts.png"), pixels_of(tmp_path / "plans.png")
    assert count(ghosts, EGO_GHOST_COLOR) > 50
    assert count(ghosts, AGENT_GHOST_COLOR) > 50
    assert count(ghosts, PLAN_COLOR) == 0
    assert count(plans, PLAN_COLOR) > 50
    assert count(plans, EGO_GHOST_COLOR) == 0


def test_a_simulation_without_its_log_is_drawn_with_a_note(l5kit, drives, tmp_path):
    copy = shutil.copytree(drives, tmp_path / "drives")
    (copy / "run.json").write_text("{}")
    done = l5kit("render", copy, "--frame", 60, "--ghosts", "--out", tmp_path / "a.png")
    assert done.exit_code == 0
    assert "names no log" in done.stderr
    assert "drawn without a map" in done.stderr


@pytest.mark.parametrize("option", ["--ghosts", "--plans"])
def test_a_dataset_has_no_ghosts_and_no_plans(l5kit, city, tmp_path, option):
    done = l5kit("render", city, option, "--out", tmp_path / "a.png")
    assert done.exit_code == 2
    assert "only simulations have" in done.stderr
    assert not (tmp_path / "a.png").exists()


def test_a_scene_that_was_not_driven_is_none_of_the_drawn(l5kit, drives, tmp_path):
    done = l5kit("render", drives, "--scene", 2, "--out", tmp_path / "a.png")
    assert done.exit_code == 1
    assert "the dataset has the scenes 0 to 1" in done.stderr

"""GIF, video and PNG files: sizes, frames, times, and that a failure leaves nothing behind."""

import os
import pathlib
import re
import subprocess
import sys
from importlib.util import find_spec

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageSequence

from l5kit.errors import InvalidArgumentError, MissingDependencyError, UnsupportedValueError, install_command
from l5kit.visualization import write_gif, write_png, write_video
from l5kit.visualization.gif import timed_frames
from l5kit.visualization.images import as_rgb, rgb_frames


def two_halves(height, width, left=(200, 30, 30), right=(20, 60, 220)):
    image = np.full((height, width, 3), right, dtype=np.uint8)
    image[:, : width // 2] = left
    return image


def shifting(num_frames, height=48, width=64):
    """Frames that all differ."""
    frames = [two_halves(height, width) for _ in range(num_frames)]
    for index, frame in enumerate(frames):
        frame[: 8 + index] = 250
    return frames


def gif_frames(path):
    with Image.open(path) as gif:
        return [(np.asarray(frame.convert("RGB")), frame.info["duration"]) for frame in ImageSequence.Iterator(gif)]


def video_frames(path):
    """RGB frames as OpenCV decodes them."""
    capture = cv2.VideoCapture(str(path))
    frames = []
    while True:
        there, frame = capture.read()
        if not there:
            return frames
        frames.append(frame[..., ::-1])


def write_gif_of(path, images, resolution):
    write_gif(path, images, resolution, fps=10)


def write_mp4_of(path, images, resolution):
    write_video(path, images, resolution, fps=10)


def write_h264_of(path, images, resolution):
    pytest.importorskip("av")
    write_video(path, images, resolution, fps=10, codec="h264")


FILM_WRITERS = [
    pytest.param(write_gif_of, "film.gif", id="gif"),
    pytest.param(write_mp4_of, "film.mp4", id="video"),
    pytest.param(write_h264_of, "film.mp4", id="h264"),
]


# --- one form for all pictures


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param((5, 7, 3), (5, 7, 3), id="channels last"),
        pytest.param((3, 5, 7), (5, 7, 3), id="channels first"),
        pytest.param((5, 7), (5, 7, 3), id="grayscale"),
        pytest.param((5, 7, 1), (5, 7, 3), id="grayscale with an axis"),
        pytest.param((3, 7), (3, 7, 3), id="grayscale of height 3"),
    ],
)
def test_every_form_becomes_rgb(shape, expected):
    image = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    rgb = as_rgb(image)
    assert rgb.shape == expected
    assert rgb.dtype == np.uint8
    if image.ndim == 2:
        np.testing.assert_array_equal(rgb[..., 2], image)
    elif shape[0] == 3:
        np.testing.assert_array_equal(rgb.transpose(2, 0, 1), image)


def test_v6_a_colour_picture_of_height_three_is_not_taken_for_channels_first():
    image = np.arange(3 * 7 * 3, dtype=np.uint8).reshape(3, 7, 3)
    np.testing.assert_array_equal(as_rgb(image), image)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        pytest.param(np.zeros((4, 4, 3), np.float32), "uint8", id="floats"),
        pytest.param(np.zeros((4, 4, 4), np.uint8), "shape", id="four channels"),
        pytest.param(np.zeros((0, 4, 3), np.uint8), "shape", id="empty"),
        pytest.param(np.zeros(4, np.uint8), "shape", id="one axis"),
    ],
)
@pytest.mark.parametrize(("write", "name"), FILM_WRITERS)
def test_other_pictures_are_refused_by_index_and_leave_no_file(write, name, image, message, tmp_path):
    with pytest.raises(InvalidArgumentError, match=rf"images\[1\].*{message}"):
        write(tmp_path / name, [two_halves(4, 4), image], (4, 4))
    assert list(tmp_path.iterdir()) == []


# --- films


@pytest.mark.parametrize(("write", "name"), FILM_WRITERS)
@pytest.mark.parametrize(
    "images",
    [
        pytest.param([two_halves(512, 512), two_halves(256, 256)], id="colour, two sizes"),
        pytest.param([two_halves(512, 512)[..., 0], two_halves(256, 256)[..., 0]], id="grayscale, two sizes"),
        pytest.param([two_halves(256, 256).transpose(2, 0, 1)], id="channels first"),
    ],
)
def test_pictures_of_1_5s_tests_make_a_film(write, name, images, tmp_path):
    write(tmp_path / name, images, (512, 512))
    read = (
        [frame for frame, _ in gif_frames(tmp_path / name)] if name.endswith("gif") else video_frames(tmp_path / name)
    )
    assert {frame.shape for frame in read} == {(512, 512, 3)}


@pytest.mark.parametrize(("write", "name"), FILM_WRITERS)
@pytest.mark.parametrize("shape", [(64, 48), (48, 64), (30, 40)], ids=["swapped", "right", "smaller"])
def test_v4_resolution_is_width_and_height(write, name, shape, tmp_path):
    write(tmp_path / name, [two_halves(*shape)], (64, 48))
    read = (
        [frame for frame, _ in gif_frames(tmp_path / name)] if name.endswith("gif") else video_frames(tmp_path / name)
    )
    (frame,) = read
    assert frame.shape == (48, 64, 3)
    takes_all_for_bt601 = cv2.__version__.startswith("4.10.")
    for column, color in ((8, (200, 30, 30)), (56, (20, 60, 220))):
        np.testing.assert_allclose(frame[24, column].astype(int), color, atol=20 if takes_all_for_bt601 else 12)


def test_a_picture_of_the_right_size_is_not_resized():
    image = two_halves(48, 64)
    (frame,) = rgb_frames([image], (64, 48), cv2.INTER_CUBIC)
    assert frame is image


def test_v3_gif_frames_stay_for_one_over_fps(tmp_path):
    write_gif(tmp_path / "film.gif", shifting(5), (64, 48), fps=10)
    frames = gif_frames(tmp_path / "film.gif")
    assert [duration for _, duration in frames] == [100] * 5
    for (read, _), written in zip(frames, shifting(5), strict=True):
        np.testing.assert_array_equal(read, written)


def test_v3_equal_gif_frames_keep_the_playing_time(tmp_path):
    write_gif(tmp_path / "film.gif", [two_halves(8, 8)] * 3 + shifting(2, 8, 8), (8, 8), fps=10)
    assert sum(duration for _, duration in gif_frames(tmp_path / "film.gif")) == 500


@given(num_frames=st.integers(1, 300), fps=st.floats(0.1, 100))
def test_gif_times_do_not_drift(num_frames, fps):
    frames = [np.zeros((1, 1, 3), np.uint8)] * num_frames
    durations_ms = [image.info["duration"] for image in timed_frames(frames, fps)]
    assert all(duration >= 10 and duration % 10 == 0 for duration in durations_ms)
    assert abs(sum(durations_ms) - 1000 * num_frames / fps) <= 5 + 1e-6


@pytest.mark.parametrize(("loop", "expected"), [(0, 0), (3, 3)], ids=["without end", "three times"])
def test_gif_loops(loop, expected, tmp_path):
    write_gif(tmp_path / "film.gif", shifting(2), (64, 48), loop=loop)
    with Image.open(tmp_path / "film.gif") as gif:
        assert gif.info["loop"] == expected


@pytest.mark.parametrize("codec", ["FMP4", "h264"])
def test_video_holds_every_frame_at_its_rate(codec, tmp_path):
    if codec == "h264":
        pytest.importorskip("av")
    path = tmp_path / "film.mp4"
    write_video(path, shifting(6), (64, 48), fps=12.5, codec=codec)
    frames = video_frames(path)
    assert len(frames) == 6
    assert cv2.VideoCapture(str(path)).get(cv2.CAP_PROP_FPS) == pytest.approx(12.5)
    for read, written in zip(frames, shifting(6), strict=True):
        assert np.abs(read.astype(int) - written).mean() < 12


@pytest.mark.parametrize("codec", ["FMP4", "h264"])
def test_v5_grayscale_video_shows_the_pictures_upright_and_gray(codec, tmp_path):
    if codec == "h264":
        pytest.importorskip("av")
    image = np.full((48, 64), 40, dtype=np.uint8)
    image[:24, :16] = 220
    write_video(tmp_path / "film.mp4", [image], (64, 48), codec=codec)
    (frame,) = video_frames(tmp_path / "film.mp4")
    np.testing.assert_allclose(frame[8, 6].astype(int), 220, atol=10)
    np.testing.assert_allclose(frame[40, 6].astype(int), 40, atol=10)
    np.testing.assert_allclose(frame[8, 50].astype(int), 40, atol=10)


@pytest.mark.parametrize("codec", ["FMP4", "h264"])
def test_an_odd_size_is_made_even_by_repeating_the_edge(codec, tmp_path):
    if codec == "h264":
        pytest.importorskip("av")
    write_video(tmp_path / "film.mp4", [two_halves(47, 63)], (63, 47), codec=codec)
    (frame,) = video_frames(tmp_path / "film.mp4")
    assert frame.shape == (48, 64, 3)
    np.testing.assert_allclose(frame[47, 63].astype(int), (20, 60, 220), atol=15)


def test_v15_h264_is_the_codec_that_browsers_play(tmp_path):
    av = pytest.importorskip("av")
    write_video(tmp_path / "film.mp4", shifting(3), (64, 48), codec="h264")
    with av.open(str(tmp_path / "film.mp4")) as container:
        (stream,) = container.streams.video
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")


def test_h264_names_its_colours_so_that_no_player_guesses(tmp_path):
    """BT.709 and its limited range, all by the numbers of ITU-T H.273; FFmpeg's number of the range is 1 too."""
    av = pytest.importorskip("av")
    write_video(tmp_path / "film.mp4", shifting(1), (64, 48), codec="h264")
    with av.open(str(tmp_path / "film.mp4")) as container:
        context = container.streams.video[0].codec_context
        named = (context.colorspace, context.color_primaries, context.color_trc, context.color_range)
    assert [int(value) for value in named] == [1, 1, 1, 1]


@pytest.mark.parametrize("name", ["film.MP4", "film.m4v", "film.mov", "film.mkv", "film.avi"])
def test_h264_fits_into_these_containers(name, tmp_path):
    av = pytest.importorskip("av")
    write_video(tmp_path / name, shifting(3), (64, 48), codec="h264")
    with av.open(str(tmp_path / name)) as container:
        assert len(list(container.decode(video=0))) == 3


@pytest.mark.parametrize("num_frames", [1, 6])
def test_h264_lasts_as_long_as_its_frames(num_frames, tmp_path):
    av = pytest.importorskip("av")
    write_video(tmp_path / "film.mp4", shifting(num_frames), (64, 48), fps=10, codec="h264")
    with av.open(str(tmp_path / "film.mp4")) as container:
        (stream,) = container.streams.video
        assert float(stream.duration * stream.time_base) == pytest.approx(num_frames / 10)


def test_h264_refuses_a_size_that_it_cannot_hold(tmp_path):
    pytest.importorskip("av")
    with pytest.raises(UnsupportedValueError, match=r"resolution \(16386, 2\).* 16384"):
        write_video(tmp_path / "film.mp4", [np.zeros((2, 16386, 3), np.uint8)], (16386, 2), codec="h264")
    assert list(tmp_path.iterdir()) == []


def test_h264_without_pyav_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("viz"))):
        write_video(tmp_path / "film.mp4", shifting(1), (64, 48), codec="h264")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "codec"),
    [("film.mp4", "H264X"), ("film.mp4", "XXXX"), ("film.nothing", "FMP4"), ("film", "FMP4")]
    + [(name, "h264") for name in ("film.nothing", "film", "film.webm", "film.gif", "film.png")],
)
def test_a_codec_that_cannot_be_written_is_refused(name, codec, tmp_path):
    if codec == "h264":
        pytest.importorskip("av")
    with pytest.raises(UnsupportedValueError, match=codec):
        write_video(tmp_path / name, shifting(1), (64, 48), codec=codec)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("write", "name"), FILM_WRITERS)
@pytest.mark.parametrize("resolution", [(0, 10), (10, -1), (10,), (10.5, 10)])
def test_a_wrong_resolution_is_refused(write, name, resolution, tmp_path):
    with pytest.raises(InvalidArgumentError, match="resolution"):
        write(tmp_path / name, shifting(1), resolution)


@pytest.mark.parametrize("fps", [0, -1, float("nan"), 0.001, 101])
def test_a_wrong_gif_rate_is_refused(fps, tmp_path):
    with pytest.raises(InvalidArgumentError, match="fps"):
        write_gif(tmp_path / "film.gif", shifting(1), (64, 48), fps=fps)


@pytest.mark.parametrize("fps", [0, -1, float("nan"), 1e-6, 1e9, float("inf")])
def test_a_wrong_video_rate_is_refused(fps, tmp_path):
    with pytest.raises(InvalidArgumentError, match="fps"):
        write_video(tmp_path / "film.mp4", shifting(1), (64, 48), fps=fps)


@pytest.mark.parametrize(("write", "name"), FILM_WRITERS)
def test_no_pictures_are_refused_and_the_older_file_stays(write, name, tmp_path):
    (tmp_path / name).write_bytes(b"older")
    with pytest.raises(InvalidArgumentError, match="images is empty"):
        write(tmp_path / name, iter(()), (4, 4))
    assert (tmp_path / name).read_bytes() == b"older"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(("write", "name"), FILM_WRITERS)
def test_pictures_may_come_from_a_generator_and_are_not_changed(write, name, tmp_path):
    frames = shifting(3)
    write(tmp_path / name, (frame for frame in frames), (64, 48))
    for frame, fresh in zip(frames, shifting(3), strict=True):
        np.testing.assert_array_equal(frame, fresh)


# --- PNG


def test_png_is_lossless_and_the_same_each_time(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (20, 31, 3), dtype=np.uint8)
    write_png(tmp_path / "a.png", image)
    write_png(tmp_path / "b.png", image)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    with Image.open(tmp_path / "a.png") as read:
        np.testing.assert_array_equal(np.asarray(read), image)


# --- the same each time


WRITE_ALL = """
import importlib.util, sys
import numpy as np
from l5kit.visualization import write_gif, write_png, write_video

folder = sys.argv[1]
rows, columns = np.mgrid[:240, :320]
channels = [(columns - 3 * k, rows + columns, (rows - 5 * k) ** 2 // 99) for k in range(8)]
pictures = [np.stack(three, axis=-1).astype(np.uint8) for three in channels]
write_png(folder + "/film.png", pictures[0])
write_gif(folder + "/film.gif", pictures, (320, 240), fps=10)
if importlib.util.find_spec("av"):
    write_video(folder + "/film.mp4", pictures, (320, 240), fps=10, codec="h264")
"""


@pytest.mark.process
def test_equal_pictures_give_equal_files_in_two_processes(tmp_path):
    """The C library fills fresh memory with another value in each, so that what reads such memory differs."""
    for name, perturbation in (("a", "85"), ("b", "170")):
        (tmp_path / name).mkdir()
        environment = os.environ | {"MALLOC_PERTURB_": perturbation, "PYTHONHASHSEED": perturbation}
        subprocess.run([sys.executable, "-c", WRITE_ALL, tmp_path / name], check=True, env=environment)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == (["film.gif", "film.mp4", "film.png"] if find_spec("av") else ["film.gif", "film.png"])
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_h264_does_not_depend_on_the_number_of_cores(tmp_path):
    """Encoders of several threads divide the frames among them, which changes the file from machine to machine."""
    pytest.importorskip("av")
    write_video(tmp_path / "film.mp4", shifting(3), (64, 48), codec="h264")
    assert b" threads=1 " in (tmp_path / "film.mp4").read_bytes()  # x264 writes its options into the film


# --- complete or not at all


def broken_off(images, error):
    """A film in which something happens after some pictures."""
    yield from images
    raise error


@pytest.mark.parametrize(("write", "name"), FILM_WRITERS)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("the disk is gone")], ids=["interrupted", "error"])
@pytest.mark.parametrize("num_done", [0, 1, 60])
def test_what_happens_midway_leaves_the_older_file_and_nothing_else(write, name, error, num_done, tmp_path):
    (tmp_path / name).write_bytes(b"older")
    with pytest.raises(type(error)):
        write(tmp_path / name, broken_off(shifting(num_done), error), (64, 48))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: b"older"}


@pytest.mark.parametrize(("write", "name"), FILM_WRITERS)
def test_a_folder_that_may_not_be_written_to_is_found_before_anything_is_drawn(write, name, tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(f"Permission denied: {path}")

    monkeypatch.setattr(pathlib.Path, "touch", refuse)
    with pytest.raises(PermissionError, match="Permission denied"):
        write(tmp_path / name, broken_off([], AssertionError("a picture was drawn")), (64, 48))


@pytest.mark.parametrize(("write", "name"), FILM_WRITERS)
def test_a_missing_folder_is_named(write, name, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"output_filepath.*nowhere"):
        write(tmp_path / "nowhere" / name, shifting(1), (64, 48))


def test_a_folder_is_not_overwritten(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_png(tmp_path, two_halves(4, 4))

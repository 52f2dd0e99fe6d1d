"""Films play in Chromium: size, length, time, and the colours of every frame."""

import base64

import numpy as np
import pytest
from PIL import Image

from l5kit.visualization import write_video
from support.browser import CHROMIUM

pytest.importorskip("av", reason="needs PyAV to write films")
pytest.importorskip("playwright.sync_api", reason="needs Playwright to control a browser")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="needs a Chromium: none of chromium, chromium-browser and google-chrome is in PATH"
    ),
]

CAN_PLAY = """document.createElement("video").canPlayType('video/mp4; codecs="avc1.64001f"')"""

PLAY = """async (address) => {
  const video = document.createElement("video")
  video.muted = true
  const happens = (name) => new Promise((resolve, reject) => {
    video.addEventListener(name, resolve, { once: true })
    video.addEventListener("error", () => reject(new Error(video.error.message)), { once: true })
  })
  document.body.append(video)
  const playing = happens("playing"), ended = happens("ended")
  video.src = address
  await video.play()
  await playing
  const times = [video.currentTime], states = [video.readyState]
  video.addEventListener("timeupdate", () => {
    times.push(video.currentTime)
    states.push(video.readyState)
  })
  await ended
  const { videoWidth, videoHeight, duration, currentTime, error } = video
  return { size: [videoWidth, videoHeight], duration, currentTime, times, states, error: error && error.message }
}"""

SHOW = """async ([address, times]) => {
  const video = document.createElement("video")
  video.muted = true
  const loaded = new Promise((resolve, reject) => {
    video.onloadeddata = resolve
    video.onerror = () => reject(new Error(video.error.message))
  })
  video.src = address
  document.body.append(video)
  await loaded
  const canvas = document.createElement("canvas")
  canvas.width = video.videoWidth
  canvas.height = video.videoHeight
  const pen = canvas.getContext("2d")
  const shown = []
  for (const time of times) {
    const seeked = new Promise((resolve) => { video.onseeked = resolve })
    const presented = new Promise((resolve) => video.requestVideoFrameCallback(resolve))  // may come after "seeked"
    const unchanged = new Promise((resolve) => setTimeout(resolve, 2000))  // and not at all for the frame that is shown
    video.currentTime = time
    await seeked
    await Promise.race([presented, unchanged])
    pen.drawImage(video, 0, 0)
    shown.push(canvas.toDataURL("image/png").split(",")[1])
  }
  video.remove()
  return shown
}"""
"""Pictures at some times, as PNG in base64."""


@pytest.fixture
def page(browser):
    """An empty page that can play H.264."""
    page = browser.new_page()
    page.set_content("<p>A film</p>")
    if not page.evaluate(CAN_PLAY):
        pytest.skip("this Chromium says that it cannot play H.264")
    yield page
    page.close()


def address_of(path):
    """A data URL, whose pixels the page may read."""
    return "data:video/mp4;base64," + base64.b64encode(path.read_bytes()).decode()


def shown_at(page, path, times_s, tmp_path):
    """The pictures that the browser shows at these times, uint8 ``[N, H, W, 3]``."""
    pictures = []
    for encoded in page.evaluate(SHOW, [address_of(path), times_s]):
        (tmp_path / "shown.png").write_bytes(base64.b64decode(encoded))
        with Image.open(tmp_path / "shown.png") as picture:
            pictures.append(np.array(picture.convert("RGB")))
    return np.stack(pictures)


COLORS = np.array(
    [
        [255, 0, 255],
        [255, 140, 0],
        [0, 255, 0],
        [0, 0, 255],
        [17, 17, 31],
        [255, 217, 82],
        [255, 255, 255],
        [200, 30, 30],
    ],
    dtype=np.uint8,
)
"""The future, the past, the AV, an agent, road, lane, ground, and a red light."""


def bars(height, width, *, shift=0):
    """Upright bars of all colours, moved on by some bars."""
    columns = (np.arange(width) * len(COLORS) // width + shift) % len(COLORS)
    return np.broadcast_to(COLORS[columns], (height, width, 3))


def middles_of_bars(picture):
    """The colours in the middle of each bar, ``[..., 8, 3]``, as int."""
    height, width = picture.shape[-3:-1]
    columns = ((np.arange(len(COLORS)) + 0.5) * width / len(COLORS)).astype(int)
    return picture[..., height // 2, columns, :].astype(int)


@pytest.mark.long
@pytest.mark.parametrize(
    ("size", "num_frames", "fps"),
    [
        pytest.param((320, 240), 15, 10, id="10 a second"),
        pytest.param((320, 240), 6, 2.5, id="real time with a step of 4"),
        pytest.param((160, 120), 30, 29.97, id="a rate with a fraction"),
        pytest.param((201, 151), 10, 10, id="odd size"),
        pytest.param((3, 1), 10, 10, id="tiny"),
        pytest.param((320, 240), 1, 10, id="one frame"),
    ],
)
def test_a_film_plays_from_its_start_to_its_end(page, tmp_path, size, num_frames, fps):
    frames = (bars(size[1], size[0], shift=index) for index in range(num_frames))
    write_video(tmp_path / "film.mp4", frames, size, fps=fps, codec="h264")
    played = page.evaluate(PLAY, address_of(tmp_path / "film.mp4"))
    assert played["error"] is None
    assert played["size"] == [size[0] + size[0] % 2, size[1] + size[1] % 2]
    assert played["duration"] == pytest.approx(num_frames / fps, abs=0.01)
    assert played["times"] == sorted(played["times"])
    assert played["currentTime"] == pytest.approx(played["duration"], abs=0.2)
    assert min(played["states"]) >= 2, "a state below HAVE_CURRENT_DATA: nothing to show at that time"


@pytest.mark.parametrize("size", [(640, 480), (1280, 720), (201, 151)], ids=["sd", "hd", "odd"])
def test_every_frame_is_shown_in_its_time_and_in_its_colours(page, tmp_path, size):
    """Browsers guess colours that a film does not name: by BT.601 below 720 lines, by BT.709 from there on."""
    frames = [bars(size[1], size[0], shift=index) for index in range(5)]
    write_video(tmp_path / "film.mp4", frames, size, fps=10, codec="h264")
    shown = shown_at(page, tmp_path / "film.mp4", [(index + 0.5) / 10 for index in range(5)], tmp_path)
    np.testing.assert_allclose(middles_of_bars(shown), middles_of_bars(np.stack(frames)), atol=8)


def test_a_film_plays_from_a_file_that_stands_beside_its_page(page, tmp_path):
    write_video(
        tmp_path / "film.mp4", [bars(120, 160, shift=index) for index in range(12)], (160, 120), fps=10, codec="h264"
    )
    (tmp_path / "page.html").write_text("<!DOCTYPE html><title>Film</title><body></body>", "utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    played = page.evaluate(PLAY, "film.mp4")
    assert (played["error"], played["size"]) == (None, [160, 120])
    assert played["duration"] == pytest.approx(1.2, abs=0.01)
    assert played["currentTime"] > played["times"][0]


AV_PX = (120, 112)
"""Row and column of the AV in a picture of 320 x 240 pixels."""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["semantic", "satellite", "box"])
def test_what_the_command_draws_plays_and_shows_its_pictures(page, city_files, tmp_path, kind):
    pytest.importorskip("torch", reason="needs torch to sample from datasets")
    from typer.testing import CliRunner

    from l5kit.cli.main import make_app

    def render(*arguments):
        words = ["render", str(city_files.dataset), "--scene", "1", "--map-type", kind, "--size", "320x240", *arguments]
        assert CliRunner().invoke(make_app(), words).exit_code == 0

    film = tmp_path / "film.mp4"
    render("--frames", "20:40:2", "--out", str(film))
    played = page.evaluate(PLAY, address_of(film))
    assert (played["error"], played["size"]) == (None, [320, 240])
    assert played["duration"] == pytest.approx(2.0, abs=0.2)
    shown = shown_at(page, film, [0.1, 1.5], tmp_path)
    drawn = []
    for frame_index in ("20", "34"):
        render("--frame", frame_index, "--out", str(tmp_path / "frame.png"))
        with Image.open(tmp_path / "frame.png") as picture:
            drawn.append(np.array(picture.convert("RGB")))
    differences = np.abs(shown[:, None].astype(int) - np.stack(drawn)).mean(axis=(2, 3, 4))
    assert np.diag(differences).max() < 6
    assert np.diag(differences).max() < min(differences[0, 1], differences[1, 0]), "each is its own picture"
    np.testing.assert_allclose(shown[:, *AV_PX].astype(int), np.stack(drawn)[:, *AV_PX], atol=60)

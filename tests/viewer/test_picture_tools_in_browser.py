"""What a person measures, clicks and lays under the picture of the viewer, in headless Chromium."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tornado")
sync_api = pytest.importorskip("playwright.sync_api")

from l5kit.visualization.viewer.exported_page import write_exported_page  # noqa: E402
from l5kit.visualization.viewer.server import ViewerServer  # noqa: E402
from l5kit.visualization.viewer.viewed_log import ViewedLog  # noqa: E402
from support.browser import CHROMIUM, OPTIONS, viewer_page  # noqa: E402

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on PATH, which is not here"),
]

FRAME = 40
WITHOUT_WEBGL = [option for option in OPTIONS if "gl" not in option and "swiftshader" not in option] + [
    "--disable-gpu",
    "--disable-software-rasterizer",
]


@pytest.fixture(scope="module")
def playwright():
    with sync_api.sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def browser(playwright):
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def plain_browser(playwright):
    """A browser without WebGL."""
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=WITHOUT_WEBGL)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def view(city_files):
    return ViewedLog(city_files)


@pytest.fixture(scope="module")
def url(view):
    with ViewerServer(view) as server:
        yield server.url


@pytest.fixture(scope="module")
def exported(view, tmp_path_factory):
    """Address of a file with scene 1."""
    path = tmp_path_factory.mktemp("exported") / "scene.html"
    write_exported_page(path, view, 1)
    return path.as_uri()


def drag(page, start_m, end_m):
    """Press on a place of the world, and let go on another one."""
    page.page.mouse.move(*page.place_of(*start_m))
    page.page.mouse.down()
    page.page.mouse.move(*page.place_of(*end_m), steps=4)
    page.page.mouse.up()


def measured_m(page):
    return float(page.part("ruler-length").text_content().removesuffix(" m"))


def test_the_ruler_measures_between_two_clicks_and_stays_while_frames_play(browser, url):
    with viewer_page(browser) as page:
        page.open_scene(f"{url}#scene=1&frame={FRAME}")
        x_m, y_m = page.page.evaluate("() => { const { x, y } = window.l5kitViewer.birdseye.camera; return [x, y] }")
        page.page.keyboard.press("r")
        for place in ((x_m, y_m), (x_m + 3, y_m - 4)):
            page.page.mouse.click(*page.place_of(*place))
        assert measured_m(page) == pytest.approx(5, abs=0.3)  # a pixel is 0.2 m
        assert page.state["track"] is None, "the click is the ruler's, though the AV is there"
        drag(page, (x_m + 3, y_m - 4), (x_m + 30, y_m + 40))
        assert measured_m(page) == pytest.approx(50, abs=0.5)
        end = page.part("ruler-end-1").bounding_box()
        page.part("play").click()
        page.wait_for("(frame) => window.l5kitViewer.state().frame > frame + 5", FRAME)
        page.page.keyboard.press("Space")
        page.settle()
        moved = page.part("ruler-end-1").bounding_box()
        place = page.place_of(x_m + 30, y_m + 40)
        assert [moved["x"] + moved["width"] / 2, moved["y"] + moved["height"] / 2] == pytest.approx(place, abs=4)
        assert np.hypot(moved["x"] - end["x"], moved["y"] - end["y"]) > 4, "the view has followed the AV"
        assert measured_m(page) == pytest.approx(50, abs=0.5)
        page.page.keyboard.press("Escape")
        assert not page.part("ruler-length").is_visible()
        assert page.part("ruler-toggle").get_attribute("aria-pressed") == "false"


def test_the_ruler_measures_in_a_file_and_without_webgl(plain_browser, exported):
    with viewer_page(plain_browser, offline=True) as page:
        page.open_scene(f"{exported}#frame={FRAME}")
        assert page.page.evaluate("() => window.l5kitViewer.birdseye.stats.renderer") == "canvas"
        x_m, y_m = page.page.evaluate("() => { const { x, y } = window.l5kitViewer.birdseye.camera; return [x, y] }")
        page.part("ruler-toggle").click()
        for place in ((x_m - 20, y_m), (x_m + 20, y_m)):
            page.page.mouse.click(*page.place_of(*place))
        assert measured_m(page) == pytest.approx(40, abs=0.5)
        page.part("ruler-toggle").click()
        assert not page.part("ruler-length").is_visible()

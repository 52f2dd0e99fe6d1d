"""The interactive page of a scene in headless Chromium: how it fits windows, and what the view shows."""

import pytest

pytest.importorskip("bokeh")
pytest.importorskip("playwright.sync_api")

from l5kit.visualization.visualizer.visualizer import visualize, write_scene_page
from l5kit.visualization.visualizer.zarr_utils import zarr_to_visualizer_scene
from support.browser import CHROMIUM
from support.logs import make_agent, make_agents, make_faces, make_scene
from support.maps import make_map
from support.tolerances import FLOAT32

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on PATH, which is not here"),
]

SIZES = [(320, 568), (380, 700), (740, 360), (800, 600), (1000, 600), (768, 1024), (1280, 800), (1920, 1080)]

FIGURE = """() => {
  const models = [...(globalThis.Bokeh?.documents[0]?._all_models.values() ?? [])]
  const figure = models.find(({ type }) => type === "Figure")
  const slider = models.find(({ type }) => type === "Slider")
  if (!(figure?.inner_width > 0)) return null
  const { x_range: x, y_range: y, inner_width: width, inner_height: height } = figure
  return { x: [x.start, x.end], y: [y.start, y.end], width, height, frame: slider?.value }
}"""
SET = """([type, name, value]) => {
  const model = [...Bokeh.documents[0]._all_models.values()].find((model) => model.type === type)
  model[name] = value
}"""
ZOOM = """([half_x, half_y]) => {
  const figure = [...Bokeh.documents[0]._all_models.values()].find(({ type }) => type === "Figure")
  for (const [range, half] of [[figure.x_range, half_x], [figure.y_range, half_y]]) {
    const middle = (range.start + range.end) / 2 + 1
    range.setv({ start: middle - half, end: middle + half })
  }
}"""


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """Twenty frames, in which the AV goes 1 m each to the east."""
    agents = [make_agents(make_agent(1, (5, 0)), make_agent(2, (7, 3), labels={"CYCLIST": 0.9}))] * 20
    scene = make_scene(agents, [make_faces(R=1)] * 20)
    return zarr_to_visualizer_scene(scene, make_map(tmp_path_factory.mktemp("page") / "map.pb"))


@pytest.fixture(scope="module")
def address(frames, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_scene_page(path, 3, frames)
    return path.as_uri()


@pytest.fixture
def page(browser, address, size):
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height})
    page = context.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    settled(page)
    yield page
    context.close()
    assert problems == []


def settled(page):
    """The figure, once its size and view have stayed the same for a moment."""
    page.wait_for_function(f"() => ({FIGURE})() !== null")
    seen = None
    for _ in range(100):
        last, seen = seen, page.evaluate(FIGURE)
        if seen == last:
            return seen
        page.wait_for_timeout(150)
    raise AssertionError("the page does not come to rest")


def centre(bounds):
    return (bounds[0] + bounds[1]) / 2


def assert_scale(figure, *, shorter_m):
    """Equal metres per pixel along both axes, and a fixed number along the shorter side."""
    m_per_px = (figure["x"][1] - figure["x"][0]) / figure["width"]
    assert (figure["y"][1] - figure["y"][0]) / figure["height"] == pytest.approx(m_per_px)
    assert m_per_px * min(figure["width"], figure["height"]) == pytest.approx(shorter_m)


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_page_fits_the_window(page, size):
    width, height = size
    figure = settled(page)
    assert_scale(figure, shorter_m=100)
    assert min(figure["width"], figure["height"]) >= 0.5 * min(width, height)
    assert figure["width"] == pytest.approx(figure["height"], rel=0.4), "the picture is about square"
    scroll = "() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    assert page.evaluate(scroll) <= [width, height]
    for text in ("Play", "AV", "red light"):
        box = page.get_by_text(text, exact=text != "Play").first.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width
        assert 0 <= box["y"] <= box["y"] + box["height"] <= height


@pytest.mark.long
@pytest.mark.parametrize("size", [(800, 600), (740, 360), (380, 700)], ids=str)
def test_the_play_button_is_not_covered(page, size):
    box = page.get_by_text("Play").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function(f"() => ({FIGURE})().frame >= 2")
    page.get_by_text("Pause").click()
    stopped = page.evaluate(FIGURE)["frame"]
    page.wait_for_timeout(300)
    assert page.evaluate(FIGURE)["frame"] == stopped


@pytest.mark.parametrize("size", [(1280, 800)], ids=str)
def test_the_view_follows_the_av_and_keeps_zoom_and_place_when_the_window_changes(page):
    first = settled(page)
    assert (centre(first["x"]), centre(first["y"])) == pytest.approx((0, 0), abs=FLOAT32)
    page.evaluate(ZOOM, [20 * first[side] / min(first["width"], first["height"]) for side in ("width", "height")])
    page.set_viewport_size({"width": 420, "height": 760})
    # a browser under load takes a while to lay the page out anew
    page.wait_for_function(f"width => ({FIGURE})().width < width", arg=first["width"])
    narrow = settled(page)
    assert_scale(narrow, shorter_m=40)
    assert (centre(narrow["x"]), centre(narrow["y"])) == pytest.approx((1, 1)), "the reader's place is kept"
    page.evaluate(SET, ["Slider", "value", 7])
    moved = settled(page)
    assert_scale(moved, shorter_m=40)
    assert (centre(moved["x"]), centre(moved["y"])) == pytest.approx((7, 0), abs=FLOAT32), (
        "a frame has the AV in the middle"
    )
    page.locator("[title='Reset']").click()
    reset = settled(page)
    assert_scale(reset, shorter_m=100)
    assert (centre(reset["x"]), centre(reset["y"])) == pytest.approx((7, 0), abs=FLOAT32)


def test_in_a_notebook_the_layout_is_not_higher_than_a_screen(frames):
    layout = visualize(0, frames)
    assert layout.styles["height"].endswith(", 760px)")
    assert layout.styles["width"] == "100%"

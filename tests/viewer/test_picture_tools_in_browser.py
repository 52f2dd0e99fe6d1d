"""Measuring, clicking and layers in the picture of the viewer, in headless Chromium."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tornado")
pytest.importorskip("playwright.sync_api")

from l5kit.visualization.viewer.content_bytes import lane_bytes
from l5kit.visualization.viewer.exported_page import write_exported_page
from l5kit.visualization.viewer.server import ViewerServer
from l5kit.visualization.viewer.viewed_log import ViewedLog
from support.browser import CHROMIUM, viewer_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on PATH, which is not here"),
]

FRAME = 40


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


@pytest.mark.long
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


# Lanes


def lit_lane(city_map, scene, frame_index):
    """Number of a lane with a light in a frame, the colour, and a place of it alone, away from agents."""
    rows = scene.lights.rows_of(frame_index)
    midlines = city_map.lane_lines(21).xyz_midlane[..., :2]
    boxes = np.vstack(
        [scene.agents.centroids_m[scene.agents.rows_of(frame_index)], scene.ego_positions_m[frame_index, :2]]
    )
    for lane, color in zip(scene.lights.lanes[rows].tolist(), scene.lights.colors[rows].tolist(), strict=True):
        for place_m in midlines[lane, 3:-3]:
            is_free = np.linalg.norm(boxes - place_m, axis=1).min() > 6
            if is_free and len(city_map.get_lanes_within(place_m, 0.5)) == 1:
                return lane, ("green", "yellow", "red")[color], place_m
    raise AssertionError("no lane with a light is free in this frame; choose another frame")


@pytest.mark.long
def test_a_click_on_a_lane_tells_about_it_and_its_neighbours(browser, view, url, city_map, unpack):
    scene = view.scene(1)
    lane, color, place_m = lit_lane(city_map, scene, FRAME)
    lanes = unpack(lane_bytes(city_map.arrays, city_map.network))
    lane_id, ahead = lanes.facts["ids"][lane], city_map.get_lanes_ahead(lanes.facts["ids"][lane])
    with viewer_page(browser) as page:
        asked = []
        page.page.on("request", lambda request: asked.append(request.url))
        page.open_scene(f"{url}#scene=1&frame={FRAME}&track=av")
        page.look(*place_m, px_per_m=10)
        before = page.colors()
        assert not any(address.endswith("/api/lanes") for address in asked), "asked for before a lane is"
        page.page.mouse.click(*page.place_of(*place_m))
        page.part("lane-title").filter(has_text=f"Lane {lane_id}").wait_for()
        limit_mps = city_map.get_lane_speed_limit(lane_id)
        limit = f"{limit_mps:.1f} m/s ({round(limit_mps * 3.6)} km/h)"
        assert page.part("lane-limit").inner_text() == limit
        assert page.part("lane-length").inner_text() == f"{lanes.arrays['length_m'][lane]:.1f} m"
        assert page.part("lane-light").inner_text() == color
        assert page.part("lane-ahead").inner_text().split() == ahead
        assert {name: page.state[name] for name in ("track", "lane")} == {"track": None, "lane": lane_id}
        page.settle()
        beside = place_m + 0.6 * np.array([1.0, 1.0]) / np.sqrt(2)
        assert np.abs(page.color_at(*beside) - page.color_at(*beside, picture=before)).max() > 20, "it is marked"
        page.part("lane-ahead").locator("button").first.click()
        page.part("lane-title").filter(has_text=f"Lane {ahead[0]}").wait_for()
        page.wait_for("(id) => location.hash.includes(`lane=${encodeURIComponent(id)}`)", ahead[0])
        page.page.keyboard.press("Escape")
        assert not page.part("lane-panel").is_visible()
        page.wait_for("() => !location.hash.includes('lane=')")


def test_a_link_shows_a_lane_of_a_file_without_webgl(plain_browser, exported, view, city_map):
    lane_id = city_map.arrays.lane_ids[lit_lane(city_map, view.scene(1), FRAME)[0]]
    with viewer_page(plain_browser, offline=True, color_scheme="dark") as page:
        page.open_scene(f"{exported}#frame={FRAME}&lane={lane_id}")
        page.part("lane-title").filter(has_text=f"Lane {lane_id}").wait_for()
        assert page.part("lane-light").inner_text() in ("green", "yellow", "red")
        page.page.evaluate("() => { location.hash = '#lane=nowhere' }")
        page.part("notice").filter(has_text="lane=nowhere (this map has no such lane)").wait_for()
        assert not page.part("lane-panel").is_visible()


# The aerial picture


@pytest.fixture(scope="module")
def marked_view(city_files, tmp_path_factory):
    """The city over a blue picture with a yellow square of 6 m, 15 m west and 30 m north of the AV, and that place."""
    log = ViewedLog(city_files)
    ego_m = log.scene(1).ego_positions_m[FRAME, :2]
    place_m = ego_m + (-15, 30)
    matrix = log.aerial.pixel_from_world(log.ego_height_m(1))
    picture = np.zeros_like(cv2.imread(str(city_files.aerial)))
    picture[:] = (200, 60, 20)
    corners_m = place_m + 3 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    corners_px = corners_m @ matrix[:, :2].T + matrix[:, 2]
    low, high = np.rint(corners_px.min(axis=0)).astype(int), np.rint(corners_px.max(axis=0)).astype(int)
    picture[low[1] : high[1], low[0] : high[0]] = (0, 220, 240)
    path = tmp_path_factory.mktemp("marked") / "aerial.png"
    cv2.imwrite(str(path), picture)
    return ViewedLog(replace(city_files, aerial=path)), place_m


def require_marked(page, place_m):
    """The square is yellow up to its edges, and around it the picture is blue."""
    page.look(*place_m, px_per_m=12)
    for tone, reach_m in (((240, 220, 0), 1.8), ((20, 60, 200), 4.2)):
        page.wait_for("() => window.l5kitViewer.birdseye.seeThrough")
        page.page.wait_for_load_state("networkidle")
        page.settle()
        picture = page.colors()
        for step_m in reach_m * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]):
            seen = page.color_at(*(place_m + step_m), picture=picture)
            assert np.abs(seen - tone).max() < 60, f"{step_m} from the middle: {seen}"


HIDE_AGENTS = """() => {
  const { agentSpace, mapSpace } = window.l5kitViewer.birdseye
  agentSpace.visible = mapSpace.visible = false
}"""


def test_the_aerial_picture_lies_where_its_world_is(browser, marked_view):
    view, place_m = marked_view
    with ViewerServer(view) as server, viewer_page(browser) as page:
        asked = []
        page.page.on("request", lambda request: asked.append(request.url))
        page.open_scene(f"{server.url}#scene=1&frame={FRAME}")
        page.page.evaluate(HIDE_AGENTS)
        page.look(*place_m, px_per_m=12)
        ground = page.color_at(*place_m)
        assert not [address for address in asked if "/api/aerial" in address or "/api/tile" in address]
        page.page.keyboard.press("a")
        require_marked(page, place_m)
        page.wait_for("() => location.hash.includes('aerial=1')")
        page.part("aerial-toggle").click()
        page.settle()
        assert np.abs(page.color_at(*place_m) - ground).max() <= 2
        page.wait_for("() => !location.hash.includes('aerial')")


def test_a_link_shows_the_aerial_picture_of_a_file_without_webgl(plain_browser, marked_view, tmp_path):
    view, place_m = marked_view
    write_exported_page(tmp_path / "scene.html", view, 1)
    with viewer_page(plain_browser, offline=True) as page:
        page.open_scene(f"{(tmp_path / 'scene.html').as_uri()}#frame={FRAME}&aerial=1")
        page.page.evaluate(HIDE_AGENTS)
        require_marked(page, place_m)


# Plots


def place_in(plot, part):
    """A place in a plot, by the part of its width."""
    box = plot.locator(".u-over").bounding_box()
    return box["x"] + part * box["width"], box["y"] + 0.4 * box["height"]


def line_of(plot):
    """Position of the line of the frame, as a share of the width of the plot."""
    box, line = plot.locator(".u-over").bounding_box(), plot.locator(".plot-now").bounding_box()
    return (line["x"] + line["width"] / 2 - box["x"]) / box["width"]


@pytest.mark.long
@pytest.mark.parametrize("names", [("plot-speed", "plot-yaw"), ("curve-speed", "curve-log_distance")], ids="-".join)
def test_plots_show_the_frame_and_are_dragged_through(browser, url, driven_view, names):
    if names[0].startswith("curve"):
        with ViewerServer(driven_view) as server:
            drag_through(browser, f"{server.url}#scene=0", names)
    else:
        drag_through(browser, f"{url}#scene=1&track=av", names)


def drag_through(browser, address, names):
    with viewer_page(browser, height=1000) as page:
        page.open_scene(address)
        last = page.page.evaluate("() => window.l5kitViewer.player.numFrames - 1")
        first, second = (page.part(name) for name in names)
        page.page.mouse.move(*place_in(first, 0.2))
        page.page.mouse.down()
        seen = []
        for part in (0.4, 0.6, 0.8):
            page.page.mouse.move(*place_in(first, part))
            seen.append(page.state["frame"] / last)
        page.page.mouse.move(place_in(first, 0)[0] + 5000, 10)  # far out of the plot: its end
        assert page.state["frame"] == last
        page.page.mouse.move(*place_in(first, 0.5))
        page.page.mouse.up()
        page.page.mouse.move(*place_in(first, 0.9))  # the button is up
        assert seen == pytest.approx([0.4, 0.6, 0.8], abs=0.02)
        assert page.state["frame"] / last == pytest.approx(0.5, abs=0.02)
        page.settle()
        for plot in (first, second):
            assert line_of(plot) == pytest.approx(0.5, abs=0.02)
        page.part("play").click()
        page.wait_for("(frame) => window.l5kitViewer.state().frame > frame + 5", page.state["frame"])
        page.part("play").click()
        page.settle()
        for plot in (first, second):
            assert line_of(plot) == pytest.approx(page.state["frame"] / last, abs=0.02)

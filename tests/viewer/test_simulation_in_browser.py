"""The page of a simulation in headless Chromium, as a person uses it."""

import csv
import json
import shutil

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tornado")
pytest.importorskip("playwright.sync_api")

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.evaluation.driving import Fault, Metric
from l5kit.simulation.drivers.key_driver import KeyDriver
from l5kit.simulation.folder.simulation_folder import SimulationFolder
from l5kit.visualization.viewer.exported_page import write_exported_page
from l5kit.visualization.viewer.server import ViewerServer
from l5kit.visualization.viewer.viewed_log import ViewedLog
from l5kit.visualization.viewer.viewed_simulation import ViewedSimulation
from support.browser import CHROMIUM, rgb_of, viewer_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on PATH, which is not here"),
]

ONLY = """(shown) => window.l5kitViewer.birdseye.setOptions(
  { past: false, future: false, labels: false, mask: false, ghosts: false, plan: false, ...shown })"""
FRAME = 60


@pytest.fixture(scope="module")
def url(driven_view):
    with ViewerServer(driven_view) as server:
        yield server.url


@pytest.fixture(scope="module")
def drive(driven_view, unpack):
    return unpack(driven_view.drive_bytes(0))


@pytest.fixture(scope="module")
def origin_m(driven_view, unpack):
    return np.array(unpack(driven_view.scene_bytes(0)).facts["origin_m"])


def change_first_row(path, **cells):
    """Write other cells into the first row of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows[0].update(cells)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_scenes_are_listed_by_score_with_what_failed(browser, drives, tmp_path):
    copy = shutil.copytree(drives, tmp_path / "drives")
    change_first_row(copy / "scenes.csv", score="0.75", no_at_fault_collisions="1.0")
    with ViewerServer(ViewedSimulation(SimulationFolder(copy))) as server, viewer_page(browser) as page:
        page.open(server.url)
        rows = page.part("scene-row").all()
        assert [row.get_attribute("data-scene") for row in rows] == ["1", "0", "2"]
        assert "collision, off road" in rows[0].inner_text()
        assert "0.75" in rows[1].inner_text()
        assert "collision" not in rows[1].inner_text()
        assert "not driven to its end" in rows[2].inner_text()
        assert page.state["scene"] == 1, "the worst is opened first"
        page.part("filter-text").fill("collision")
        assert [row.get_attribute("data-scene") for row in page.part("scene-row").all()] == ["1"]


def test_the_metrics_of_the_scene_are_a_table(browser, url, drive):
    with viewer_page(browser) as page:
        page.open_scene(f"{url}#scene=0")
        assert page.part("drive-score").inner_text() == "Score 0.00"
        for metric in drive.facts["metrics"]:
            cell = page.part(f"metric-{metric['name']}")
            assert cell.inner_text() == f"{metric['value']:.2f}"
            assert ("failed" in (cell.get_attribute("class") or "")) == metric["failed"]
        assert any(metric["failed"] for metric in drive.facts["metrics"])


@pytest.mark.parametrize("part", ["failure", "failure-mark"])
def test_a_failure_that_is_clicked_plays_from_two_seconds_before(browser, url, drive, part):
    failures = drive.facts["failures"]
    number = next(at for at, failure in enumerate(failures) if failure["first_frame"] > 30)
    start = failures[number]["first_frame"] - 20
    with viewer_page(browser) as page:
        page.open_scene(f"{url}#scene=0&frame=5")
        assert page.part(part).count() == len(failures)
        page.part(part).nth(number).click()
        assert page.state["playing"]
        assert start <= page.state["frame"] <= start + 15
        page.wait_for("(frame) => window.l5kitViewer.state().frame >= frame", start + 20)


def test_keys_play_one_failure_after_the_other(browser, url, drive):
    firsts = [failure["first_frame"] for failure in drive.facts["failures"]]
    with viewer_page(browser) as page:
        page.open_scene(f"{url}#scene=0")
        for keys, failure in (("e", 0), ("e", 1), ("Shift+E", 0), ("Shift+E", -1)):
            page.page.keyboard.press(keys)
            state = page.state
            assert state["playing"]
            assert 0 <= state["frame"] - (firsts[failure] - 20) <= 10


def test_a_mark_can_be_reached_and_pressed_by_keyboard(browser, url):
    with viewer_page(browser) as page:
        page.open_scene(f"{url}#scene=0")
        mark = page.part("failure-mark").first
        assert mark.get_attribute("aria-label").startswith("Play ")
        mark.focus()
        page.page.keyboard.press("Enter")
        assert page.state["playing"]


@pytest.mark.long
def test_a_mark_on_a_curve_plays_and_the_curve_beside_it_seeks(browser, url):
    with viewer_page(browser, height=1000) as page:
        page.open_scene(f"{url}#scene=0")
        curve = page.part("curve-off_road")
        curve.scroll_into_view_if_needed()
        box = curve.locator(".u-over").bounding_box()
        page.page.mouse.click(box["x"] + 0.1 * box["width"], box["y"] + 0.5 * box["height"])
        assert not page.state["playing"]
        assert 5 <= page.state["frame"] <= 14
        curve.get_by_test_id("plot-mark").first.click(position={"x": 2, "y": 20})
        assert page.state["playing"]


@pytest.mark.long
def test_each_curve_can_be_hidden(browser, url):
    with viewer_page(browser) as page:
        page.open_scene(f"{url}#scene=0")
        for name in ("speed", "log_distance", "time_to_collision", "off_road", "speed_excess"):
            curve = page.part(f"curve-{name}")
            assert curve.is_visible()
            page.part(f"toggle-{name}").click()
            assert not curve.is_visible()
        page.part("toggle-speed").click()
        assert page.part("curve-speed").is_visible()


@pytest.mark.long
def test_ghosts_are_outlines_where_the_log_was(browser, url, drive, origin_m):
    x_m, y_m = drive.arrays["log_xy"][FRAME] + origin_m
    yaw = float(drive.arrays["log_yaw"][FRAME])
    side_m = np.array([-np.sin(yaw), np.cos(yaw)]) * 1.85 / 2
    with viewer_page(browser) as page:
        page.open_scene(f"{url}#scene=0&frame={FRAME}")
        page.look(x_m, y_m, px_per_m=20)
        tone = rgb_of(page.constant("EGO_COLOR"))

        def edge_gap(picture):
            near = [page.color_at(x_m + t * side_m[0], y_m + t * side_m[1], picture=picture) for t in (0.95, 1, 1.05)]
            return min(np.abs(color - tone).max() for color in near)

        page.page.evaluate(ONLY, {"ghosts": True})
        page.settle()
        shown = page.colors()
        page.page.evaluate(ONLY, {})
        page.settle()
        hidden = page.colors()
        assert edge_gap(shown) < 40
        assert edge_gap(hidden) > 60
        inside = (x_m - 0.5 * side_m[0] * 1.2, y_m - 0.5 * side_m[1] * 1.2)
        assert np.abs(page.color_at(*inside, picture=shown) - page.color_at(*inside, picture=hidden)).max() < 12


def test_the_plan_of_the_frame_is_a_line(browser, url, drive, origin_m):
    x_m, y_m = drive.arrays["plan_xy"][FRAME, 20] + origin_m
    with viewer_page(browser) as page:
        page.open_scene(f"{url}#scene=0&frame={FRAME}")
        assert "planned" in page.page.locator("#legend").inner_text()
        page.look(x_m, y_m, px_per_m=20)
        tone = page.constant("THEMES")["light"]["plan"]
        wanted = np.array([tone >> 16, tone >> 8 & 255, tone & 255])
        page.page.evaluate(ONLY, {"plan": True})
        page.settle()
        assert np.abs(page.color_at(x_m, y_m) - wanted).max() < 30
        page.page.keyboard.press("d")
        page.page.keyboard.press("d")
        page.page.evaluate(ONLY, {})
        page.settle()
        assert np.abs(page.color_at(x_m, y_m) - wanted).max() > 60


def test_a_scene_that_was_not_driven_says_why_and_the_others_work(browser, url):
    with viewer_page(browser) as page:
        page.open(f"{url}#scene=2")
        error = page.part("error").filter(visible=True)
        assert "Scene 2 cannot be shown" in error.inner_text()
        assert "frame 30" in error.inner_text()
        page.page.locator('[data-testid="scene-row"][data-scene="1"]').click()
        page.wait_for_scene(1)
        assert page.part("drive-panel").is_visible()


def test_without_the_log_the_page_says_so(browser, drives, tmp_path):
    copy = shutil.copytree(drives, tmp_path / "drives")
    run = json.loads((copy / "run.json").read_text())
    run["files"]["log"] = str(tmp_path / "gone.zarr")
    (copy / "run.json").write_text(json.dumps(run))
    with ViewerServer(ViewedSimulation(SimulationFolder(copy))) as server, viewer_page(browser) as page:
        page.open_scene(f"{server.url}#scene=0")
        assert any("no longer exists" in line.inner_text() for line in page.part("notice").all())
        assert page.part("failure").count() > 0


def test_a_file_shows_the_drive_without_a_server(browser, driven_view, tmp_path):
    write_exported_page(tmp_path / "drive.html", driven_view, 0)
    with viewer_page(browser) as page:
        page.open_scene((tmp_path / "drive.html").as_uri())
        assert page.part("drive-score").inner_text() == "Score 0.00"
        page.part("failure").first.click()
        assert page.state["playing"]


def test_a_metric_of_the_user_is_a_curve_a_value_and_a_failure(browser, city, tmp_path):
    """Of frames in metres, the least of a scene, of pedestrians alone; the page knows nothing of its code."""

    def distance_to_pedestrian(scenes):
        is_pedestrian = scenes.road_users.are("PERCEPTION_LABEL_PEDESTRIAN")
        return scenes.least_of_rows(np.where(is_pedestrian, scenes.gaps_m, np.inf))

    metric = Metric(
        name="distance_to_pedestrian_m",
        label="Nearest pedestrian",
        sentence="least distance from the AV to a pedestrian",
        unit="m",
        of_frames=distance_to_pedestrian,
        of_scenes="least",
        fault=Fault("<", 100.0, name="Near a pedestrian"),
        passes_from=100.0,
        failure="near people",
    )
    options = ClosedLoopOptions(show_bar=False, scenes=[0])
    result = simulate(city, tmp_path / "drives", planner="constant-velocity", metrics=[metric], options=options)
    least_m = result.metrics["distance_to_pedestrian_m"]
    view = ViewedSimulation(SimulationFolder(result.folder))
    with ViewerServer(view) as server, viewer_page(browser) as page:
        page.open_scene(f"{server.url}#scene=0")
        assert page.part("metric-distance_to_pedestrian_m").inner_text() == f"{least_m:.2f} m"
        assert "failed" in page.part("metric-distance_to_pedestrian_m").get_attribute("class")
        assert page.part("curve-distance_to_pedestrian_m").is_visible()
        page.part("toggle-distance_to_pedestrian_m").click()
        assert not page.part("curve-distance_to_pedestrian_m").is_visible()
        assert page.part("curve-speed").is_visible()
        texts = [failure.inner_text() for failure in page.part("failure").all()]
        assert any(text.startswith("Near a pedestrian, ") for text in texts)
        page.page.locator("#scenes-toggle").click()
        assert "near people" in page.page.locator("#scene-row-0").inner_text()


@pytest.mark.long
def test_a_driver_that_makes_no_plans_has_none_in_the_legend(browser, city, tmp_path):
    options = ClosedLoopOptions(show_bar=False, scenes=[0])
    result = simulate(city, tmp_path / "drives", planner=KeyDriver(()).seat, options=options)
    with ViewerServer(ViewedSimulation(SimulationFolder(result.folder))) as server, viewer_page(browser) as page:
        page.open_scene(f"{server.url}#scene=0")
        legend = page.page.locator("#legend").inner_text()
        assert "in the log" in legend
        assert "planned" not in legend


def test_a_dataset_has_nothing_of_a_simulation(browser, city_files):
    from l5kit.visualization.viewer.viewed_log import ViewedLog

    with ViewerServer(ViewedLog(city_files)) as server, viewer_page(browser) as page:
        page.open_scene(f"{server.url}#scene=0")
        for name in ("drive-panel", "curves", "failure-mark"):
            assert page.part(name).filter(visible=True).count() == 0
        assert not page.page.locator("#option-ghosts").is_visible()
        frame = page.state["frame"]
        page.page.keyboard.press("e")
        assert (page.state["frame"], page.state["playing"]) == (frame, False)


@pytest.mark.long  # two pages at once wait long for each other on a busy machine
@pytest.mark.parametrize(
    ("width", "height", "is_upright", "has_curves"),
    [
        pytest.param(1400, 900, False, True, id="a window"),
        pytest.param(800, 900, True, True, id="half a screen"),
        pytest.param(844, 390, False, False, id="a phone held sideways"),
        pytest.param(390, 844, True, True, id="a phone"),
    ],
)
def test_pictures_beside_each_other_have_half_of_the_height(
    browser, driven_view, width, height, is_upright, has_curves
):
    """Maps come first: curves are those of both in one plot each, and panels are where there is room."""
    with (
        ViewerServer(driven_view, beside=driven_view) as server,
        viewer_page(browser, width=width, height=height) as page,
    ):
        page.page.goto(f"{server.url}#scene=0&frame=5")
        sides = [page.page.frame(f"l5kit-{side}") for side in ("left", "right")]
        for side in sides:
            side.wait_for_function("() => window.l5kitViewer?.birdseye?.stats.drawn > 0")
        heights = [side.evaluate("() => document.getElementById('birdseye').clientHeight") for side in sides]
        assert (sum(heights) if is_upright else min(heights)) >= height / 2
        for side in sides:
            side.locator("#panel").wait_for(state="attached")
            assert not side.locator("#sample-panel").is_visible()
            assert side.locator("#scene-score").is_visible() != side.locator("#drive-panel").is_visible()
        curves = page.page.locator("#both-curves")
        assert curves.is_visible() == has_curves
        if has_curves:
            plot = page.page.get_by_test_id("curve-speed")
            assert plot.locator(".plot-value").inner_text().count("/") == 1
            at = plot.locator(".plot-now").evaluate("(mark) => new DOMMatrix(getComputedStyle(mark).transform).m41")
            assert at > 0, "the mark is at the frame that is open"
            box = plot.locator(".u-over").bounding_box()
            page.page.mouse.click(box["x"] + box["width"] - 1, box["y"] + 20)
            last = "() => { const { frame } = window.l5kitViewer.state(); return frame > 5 && frame }"
            frames = [side.wait_for_function(last).json_value() for side in sides]
            assert frames[0] == frames[1]


@pytest.mark.long  # two pages at once wait long for each other on a busy machine
def test_a_log_beside_its_simulation_shows_the_same_scenes(browser, city_files, city_log, driven_view):
    """The simulation has scenes 0 and 2 of the log as 0 and 1, and scene 1, which failed, as 2, from frame 5 on."""
    state = "([scene, frame]) => (({ scene: s, frame: f }) => s === scene && f === frame)(window.l5kitViewer.state())"
    with ViewerServer(ViewedLog(city_files), beside=driven_view) as server, viewer_page(browser) as page:
        page.page.goto(f"{server.url}#scene=2&frame=20")
        log, simulation = (page.page.frame(f"l5kit-{side}") for side in ("left", "right"))
        for side in (log, simulation):
            side.wait_for_function("() => window.l5kitViewer")
            side.evaluate("async () => { await window.l5kitViewer.ready }")
        simulation.wait_for_function(state, arg=[1, 15])
        simulation.locator("#birdseye").press("ArrowRight")
        log.wait_for_function(state, arg=[2, 21])
        simulation.locator("#scenes-toggle").click()
        simulation.locator("#scene-row-0 .cell-scene").click()
        log.wait_for_function(state, arg=[0, 5])
        log.locator("#birdseye").click(position={"x": 5, "y": 5})  # keys go to the page that was clicked last
        log.locator("#birdseye").press("End")
        last = int(city_log.scenes["frame_index_interval"][0, 1]) - 1
        log.wait_for_function(state, arg=[0, last])
        simulation.wait_for_function(state, arg=[0, last - 5])

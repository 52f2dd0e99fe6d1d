"""The page of ``l5kit drive`` in headless Chromium: keys, pads, and a drive that is saved and scored."""

import json
import threading

import numpy as np
import pytest

pytest.importorskip("playwright.sync_api")

from l5kit.cli.drive import static_server
from l5kit.closedloop.key_drives import read_key_drive, score_key_drive
from l5kit.closedloop.options import ClosedLoopOptions
from l5kit.closedloop.page_policies import page_policy
from l5kit.data.dataset_files import find_dataset_files
from l5kit.visualization.drive.drive_folder import write_drive_folder
from support.browser import CHROMIUM, ViewerPage
from support.key_lists import key_lists

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on PATH, which is not here"),
]

SCENE = 1
VEHICLE = "() => l5kitDrive.app.simulation.vehicle"
FRAME = "() => l5kitDrive.app.simulation.frame"
KEYS = "() => l5kitDrive.app.simulation.keys"
SIZES = {"desk": (1280, 800), "tablet": (820, 1180), "phone": (390, 844), "sideways": (844, 390)}


@pytest.fixture(scope="module")
def address(city, policy, tmp_path_factory):
    """Address of the page on a plain file server."""
    folder = write_drive_folder(
        tmp_path_factory.mktemp("page") / "drive",
        find_dataset_files(city),
        name="city",
        policy=page_policy(policy, name="route_policy"),
    )
    with static_server(folder.path) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/?scene={SCENE}"
        server.shutdown()
        thread.join()


@pytest.fixture
def open_page(browser, address):
    """Open the page at a size; nothing may be wrong in its console."""
    opened = []

    def open_at(size="desk", **options):
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        page = ViewerPage(context.new_page())
        page.page.goto(address)
        page.page.evaluate("async () => { await l5kitDrive.ready }")
        page.wait_for("() => l5kitDrive.app.birdseye?.stats.drawn > 0")
        opened.append((context, page))
        return page

    yield open_at
    for context, page in opened:
        context.close()
        assert page.problems == []


@pytest.fixture(scope="module")
def keys(batches):
    """A recorded list of keys, to the end of the scene."""
    return key_lists(int(batches[SCENE].stops[0]) - 1)[2]


def test_the_page_waits_until_a_key_is_pressed_and_drives_with_the_keys_that_are_held(open_page):
    page = open_page()
    page.settle()
    assert page.page.evaluate(FRAME) == 0
    assert page.part("start-hint").is_visible()
    before = page.page.evaluate(VEHICLE)
    page.page.keyboard.down("ArrowUp")
    page.page.keyboard.down("a")
    page.wait_for("() => l5kitDrive.app.simulation.frame > 4")
    page.page.keyboard.up("a")
    page.page.keyboard.up("ArrowUp")
    page.wait_for("() => l5kitDrive.app.simulation.keys.at(-1) === 0")
    assert not page.part("start-hint").is_visible()
    held = page.page.evaluate(KEYS)
    assert 5 in held, "forward and left"
    assert page.page.evaluate(VEHICLE)["x"] != before["x"]


def test_pause_stops_time_and_the_window_that_loses_the_focus_pauses(open_page):
    page = open_page()
    page.page.keyboard.press("w")
    page.wait_for("() => l5kitDrive.app.simulation.frame > 1")
    page.page.keyboard.press("p")
    page.settle()
    frame = page.page.evaluate(FRAME)
    page.page.wait_for_timeout(400)
    assert page.page.evaluate(FRAME) == frame
    page.part("pause").click()
    page.wait_for("(frame) => l5kitDrive.app.simulation.frame > frame", frame)
    page.page.evaluate("() => window.dispatchEvent(new Event('blur'))")
    page.settle()
    assert not page.page.evaluate("() => l5kitDrive.app.isRunning")


def test_the_list_of_keys_pauses_the_drive_that_it_covers(open_page):
    page = open_page()
    page.page.keyboard.press("w")
    page.wait_for("() => l5kitDrive.app.simulation.frame > 1")
    page.page.keyboard.press("?")
    page.page.locator("#keys[open]").wait_for()
    assert not page.page.evaluate("() => l5kitDrive.app.isRunning")


def test_of_two_scenes_the_one_that_was_picked_last_is_driven(open_page):
    page = open_page()
    scenes = page.page.evaluate("""async () => {
      const { app } = l5kitDrive
      const { fetch } = window
      let goOn
      const later = new Promise((resolve) => { goOn = resolve })
      window.fetch = (url) => (url.includes("scene-0") ? later : Promise.resolve()).then(() => fetch(url))
      const slow = app.open(0)
      await app.open(2)
      goOn()
      await slow
      return [app.scene, app.simulation.facts.scene_index, app.driveFile().scene]
    }""")
    assert scenes == [2, 2, 2]


def test_a_scene_that_cannot_be_opened_says_why(open_page):
    page = open_page()
    page.page.route("**/scene-0.bin", lambda route: route.fulfill(body=b"damaged"))
    page.part("scene-picker").select_option("0")
    page.page.get_by_text("The scene cannot be opened:").wait_for()
    page.part("scene-picker").select_option("2")
    page.page.get_by_text("The scene cannot be opened:").wait_for(state="hidden")


def test_a_car_far_from_the_road_is_off_it(open_page):
    page = open_page()
    assert page.page.locator("#now-road").inner_text() == "on it"
    off = """(offRoad_m) => {
      const { app } = l5kitDrive
      app.judge.terms.at(-1).offRoad_m = offRoad_m
      app.board.show(app.judge)
      return document.getElementById("now-road").textContent
    }"""
    assert page.page.evaluate(off, 0.2) == "0.2 m off"
    assert page.page.evaluate(f"({off})(Infinity)") == "off it"


def test_a_list_of_keys_gives_the_drive_of_the_simulation(open_page, batches, drive_by_keys, keys):
    page = open_page()
    page.page.evaluate("(keys) => l5kitDrive.app.replay(keys)", keys)
    states = page.page.evaluate("() => l5kitDrive.app.driveFile().states")
    ours = drive_by_keys(batches[SCENE], keys)
    np.testing.assert_allclose(np.array(states)[:, :2], ours.driven.arrays(0).ego_positions_m[:, :2], rtol=0, atol=1e-9)
    assert page.page.evaluate("() => l5kitDrive.app.judge.report().score") == pytest.approx(
        ours.scored.details.scores.score[0], abs=1e-6
    )


def test_the_file_of_a_drive_scores_to_the_numbers_that_are_shown(open_page, city, keys, tmp_path):
    page = open_page()
    assert page.page.locator("#save").is_disabled()
    page.page.evaluate("(keys) => { l5kitDrive.app.replay(keys.slice(0, -2)); l5kitDrive.app.run() }", keys)
    page.page.locator("#ended[open]").wait_for()  # the last steps are driven in time
    shown = page.part("end-score").inner_text()
    with page.page.expect_download() as download:
        page.part("save").click()
    path = tmp_path / "drive.json"
    download.value.save_as(path)
    drive = read_key_drive(path)
    assert (drive.scene, drive.keys[:-2]) == (SCENE, tuple(keys[:-2]))
    scored = score_key_drive(drive, city, tmp_path / "mine", options=ClosedLoopOptions(show_bar=False))
    assert scored.different == ()
    assert shown == f"{scored.scores['score']:.2f}"
    assert json.loads(path.read_text())["city"] == "city"


def test_the_picture_follows_the_av_and_shows_the_plan(open_page):
    page = open_page()
    page.page.evaluate("() => l5kitDrive.app.replay(Array(20).fill(1))")
    page.settle()
    x, y = page.page.evaluate("() => { const { x, y } = l5kitDrive.app.simulation.vehicle; return [x, y] }")
    column, row = page.page.evaluate(
        "([x, y]) => { const { x: a, y: b } = l5kitDrive.app.birdseye.worldToPage(x, y); return [a, b] }", [x, y]
    )
    width, height = page.page.evaluate(
        "() => [l5kitDrive.app.birdseye.view.width, l5kitDrive.app.birdseye.view.height]"
    )
    assert (column, row) == (pytest.approx(width / 2, abs=1), pytest.approx(height / 2, abs=1))
    assert page.page.evaluate("() => l5kitDrive.app.live.plan.length") == 40
    page.page.keyboard.press("g")
    page.page.evaluate("() => l5kitDrive.app.replay([1])")
    assert page.page.evaluate("() => l5kitDrive.app.live.plan.length") == 0


def test_whose_plan_is_shown_can_be_chosen_while_keys_still_drive(open_page):
    page = open_page()
    for _ in range(2):  # the second drive forgets the first one
        page.page.evaluate("() => l5kitDrive.app.replay(Array(20).fill(1))")
    ends = "() => [l5kitDrive.app.policy, l5kitDrive.app.simulation].map((planner) => planner.plan().at(-1))"
    of_policy, of_idm = page.page.evaluate(ends)
    assert of_policy != of_idm
    end = "() => l5kitDrive.app.live.plan.at(-1) ?? null"
    picker = page.part("plan-picker")
    assert (picker.input_value(), page.page.evaluate(end)) == ("policy", of_policy)
    for kind, plan in (("idm", of_idm), ("none", None), ("policy", of_policy)):
        picker.select_option(kind)
        assert page.page.evaluate(end) == plan
    page.page.keyboard.press("ArrowUp")
    page.wait_for("() => l5kitDrive.app.simulation.frame > 20")
    assert picker.input_value() == "policy"
    page.page.keyboard.press("p")


def test_the_car_at_the_end_of_the_plan_is_shown_where_it_does_not_cover_the_av(open_page):
    page = open_page()
    boxes = """(way_m) => {
      const { live, simulation: { vehicle: { x, y, yaw } } } = l5kitDrive.app
      live.plan = [[x + way_m, y, yaw]]
      return live.planGhosts().length
    }"""
    assert [page.page.evaluate(boxes, way_m) for way_m in (0.0, 2.0, 20.0)] == [0, 0, 1]


def test_without_a_policy_the_page_shows_the_plan_of_the_idm(browser, address):
    context = browser.new_context()
    page = ViewerPage(context.new_page())

    def without_policy(route):
        content = route.fetch().json()
        route.fulfill(json=content | {"policy": None})

    page.page.route("**/drives.json", without_policy)
    page.page.goto(address)
    page.page.evaluate("async () => { await l5kitDrive.ready }")
    assert page.part("plan-picker").locator("option").all_inner_texts() == ["Plan: IDM", "No plan"]
    assert page.page.evaluate("() => l5kitDrive.app.live.plan.length") == 40
    assert page.problems == []
    context.close()


@pytest.mark.long
def test_a_view_that_moves_little_stays_until_the_av_comes_near_its_edge(open_page):
    page = open_page(reduced_motion="reduce")
    drive_on = """(steps) => {
      const { app } = l5kitDrive
      for (let step = 0; step < steps; step += 1) app.step(1)
      app.live.show(1)
      app.keepInView()
      const { x, y } = app.birdseye.camera
      return [x, y]
    }"""
    assert page.page.evaluate("() => l5kitDrive.app.birdseye.options.follow") is False
    before = page.page.evaluate(drive_on, 0)
    assert page.page.evaluate(drive_on, 4) == before
    after = page.page.evaluate(drive_on, 60)
    vehicle = page.page.evaluate(VEHICLE)
    assert after == pytest.approx([vehicle["x"], vehicle["y"]], abs=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("size", ["phone", "sideways", "tablet"])
def test_pads_drive_with_fingers_and_all_that_matters_is_within_the_window(open_page, size):
    page = open_page(size, has_touch=True, is_mobile=True)
    for name in ("pad-left", "pad-forward", "pause", "speed", "score", "scene-picker", "plan-picker", "theme"):
        box = page.part(name).bounding_box()
        assert box, name
        width, height = SIZES[size]
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width, name
        assert 0 <= box["y"] <= box["y"] + box["height"] <= height, name
    hold = """(name) => document.querySelector(`[data-key=${name}]`)
      .dispatchEvent(new PointerEvent('pointerdown', { pointerId: 1 }))"""
    page.page.evaluate("() => { HTMLElement.prototype.setPointerCapture = () => {} }")
    page.page.evaluate(hold, "FORWARD")
    page.wait_for("() => l5kitDrive.app.simulation.keys.includes(1)")
    assert page.page.evaluate("() => document.querySelector('[data-key=FORWARD]').classList.contains('held')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes(open_page, theme):
    page = open_page(color_scheme=theme)
    tone = page.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in tone[4:-1].split(",")) > 3 * 128) == (theme == "light")
    assert page.page.evaluate("() => l5kitDrive.app.birdseye.theme") == theme


def test_what_cannot_start_says_why(browser, address):
    context = browser.new_context()
    page = context.new_page()
    page.route("**/drives.json", lambda route: route.fulfill(status=404))
    page.goto(address)
    page.get_by_text("The page cannot start: the server answered 404 for data/drives.json").wait_for()
    context.close()


def test_without_webgl(plain_browser, address):
    page = ViewerPage(plain_browser.new_page())
    page.page.goto(address)
    page.page.evaluate("async () => { await l5kitDrive.ready }")
    page.page.keyboard.down("w")
    page.wait_for("() => l5kitDrive.app.simulation.frame > 2")

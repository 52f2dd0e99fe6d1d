"""The page of the viewer in headless Chromium, as a person uses it."""

import re
import threading
from urllib.parse import parse_qs, urlsplit

import cv2
import numpy as np
import pytest
from numba.core import event

pytest.importorskip("torch")
pytest.importorskip("tornado")
pytest.importorskip("playwright.sync_api")

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import DatasetFiles, find_dataset_files
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.visualization.viewer.exported_page import write_exported_page
from l5kit.visualization.viewer.server import ViewerServer
from l5kit.visualization.viewer.viewed_log import ViewedLog
from support.browser import CHROMIUM, rgb_of, viewer_page
from support.cities import NUM_FRAMES, NUM_SCENES, small_city
from support.logs import make_agent, make_agents, make_scene

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on PATH, which is not here"),
]

FRAME = 40
HIDE_LINES = "() => window.l5kitViewer.birdseye.setOptions({ past: false, future: false, labels: false, mask: false })"


@pytest.fixture(scope="module")
def city_view(tmp_path_factory):
    """A page with a synthetic city."""
    return ViewedLog(find_dataset_files(small_city(tmp_path_factory.mktemp("viewer") / "city").path))


@pytest.fixture(scope="module")
def city_url(city_view):
    with ViewerServer(city_view) as server:
        yield server.url


@pytest.fixture(scope="module")
def real_view(shared_data):
    """The real scene on the street map of 9,680 lanes."""
    single = shared_data / "single_scene.zarr"
    return ViewedLog(DatasetFiles(single, shared_data / "semantic_synth.pb", shared_data / "meta.json", None, ()))


@pytest.fixture(scope="module")
def real_url(real_view):
    with ViewerServer(real_view) as server:
        yield server.url


def lone_car(scene, frame_index):
    """Row of a car in a frame with no other agent within 6 m, at most 40 m from the AV."""
    rows = np.arange(scene.agents.starts[-1])[scene.agents.rows_of(frame_index)]
    places = scene.agents.centroids_m[rows]
    ego = scene.ego_positions_m[frame_index, :2]
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) + 1e9 * np.eye(len(rows))
    from_ego = np.linalg.norm(places - ego, axis=1)
    is_car = scene.agents.labels[rows] == PERCEPTION_LABELS.index("PERCEPTION_LABEL_CAR")
    is_alone = (gaps.min(axis=1) > 6) & (from_ego > 6) & is_car
    assert is_alone.any(), "no car of this frame stands alone; choose another frame"
    return int(rows[is_alone][from_ego[is_alone].argmin()])


def test_the_list_has_a_row_for_each_scene_with_its_figures(browser, city_view, city_url):
    columns = city_view.scene_columns
    with viewer_page(browser) as page:
        page.open(city_url)
        rows = page.part("scene-row")
        assert rows.count() == NUM_SCENES
        for index in range(NUM_SCENES):
            text = page.page.locator(f'[data-testid="scene-row"][data-scene="{index}"]').inner_text()
            assert columns["turn"][index] in text.lower()
            assert re.search(rf"\b{round(columns['distance_m'][index])}\b", text.replace(",", ""))


def test_rows_are_sorted_by_the_column_that_is_clicked(browser, city_view, city_url):
    distances = city_view.scene_columns["distance_m"]
    with viewer_page(browser) as page:
        page.open(city_url)
        header = page.page.locator("[aria-sort]").filter(has_text=re.compile("dist|driven|way", re.IGNORECASE))
        header.locator("button").or_(header).last.click()
        order = [int(row.get_attribute("data-scene")) for row in page.part("scene-row").all()]
        assert header.get_attribute("aria-sort") in ("ascending", "descending")
        expected = sorted(range(NUM_SCENES), key=distances.__getitem__)
        assert order == (expected if header.get_attribute("aria-sort") == "ascending" else expected[::-1])


def test_the_scene_plays_pauses_and_steps(browser, city_url):
    with viewer_page(browser) as page:
        page.open_scene(f"{city_url}#scene=0&frame=0")
        page.part("play").click()
        page.wait_for("() => window.l5kitViewer.state().frame >= 5")
        assert page.state["playing"]
        page.page.keyboard.press("Space")
        page.wait_for("() => !window.l5kitViewer.state().playing")
        stopped = page.state["frame"]
        page.page.keyboard.press("ArrowRight")
        assert page.state["frame"] == stopped + 1
        page.page.keyboard.press("Shift+ArrowLeft")
        assert page.state["frame"] == max(stopped + 1 - 10, 0)
        page.page.keyboard.press("End")
        assert page.state["frame"] == NUM_FRAMES - 1
        assert f"{NUM_FRAMES - 1}" in page.part("frame-label").inner_text()


@pytest.mark.long
def test_playing_takes_as_long_as_the_log(browser, city_url):
    with viewer_page(browser) as page:
        page.open_scene(f"{city_url}#scene=0&frame=0")
        frames = page.page.evaluate(
            """async () => {
              const { player, state } = window.l5kitViewer
              player.setSpeed(1)
              player.play()
              const start = performance.now()
              while (performance.now() - start < 2000) await new Promise(requestAnimationFrame)
              player.pause()
              return state().frame
            }"""
        )
        assert 17 <= frames <= 23  # two seconds at ten frames a second


def test_a_click_on_an_agent_tells_about_it(browser, city_view, city_url):
    scene = city_view.scene(1)
    row = lone_car(scene, FRAME)
    agents = scene.agents
    with viewer_page(browser) as page:
        page.open_scene(f"{city_url}#scene=1&frame={FRAME}")
        page.seek(FRAME)
        page.page.mouse.click(*page.place_of(*agents.centroids_m[row]))
        panel = page.part("agent-panel")
        panel.get_by_text(str(agents.track_ids[row]), exact=False).first.wait_for()
        assert page.state["track"] == str(agents.track_ids[row])
        text = panel.inner_text()
        assert "car" in text.lower()
        assert f"{agents.extents_m[row, 0]:.1f}" in text
        assert scene.mask.reasons[scene.mask.reason_indices[row]] in page.part("mask-reason").inner_text()
        is_in = page.part("in-mask").inner_text().lower()
        assert is_in.startswith("yes" if scene.mask.is_in_mask[row] else "no")
        speed = np.hypot(*agents.velocities_mps[row])
        assert f"{speed:.1f}" in text
        assert panel.locator("canvas").count() == 2  # plots of speed and heading
        page.page.keyboard.press("Escape")
        page.wait_for("() => window.l5kitViewer.state().track === null")


def test_the_samples_of_the_frame_are_beside_it(browser, city_url):
    with viewer_page(browser) as page:
        page.open_scene(f"{city_url}#scene=1&frame={FRAME}")
        for name in ("raster", "vector"):
            page.wait_for(
                "(name) => { const image = document.querySelector(`[data-testid=${name}]`);"
                " return image?.complete && image.naturalWidth > 0 }",
                name,
            )
        assert page.part("raster").evaluate("(image) => [image.naturalWidth, image.naturalHeight]") == [224, 224]


class HeldSamples:
    """Stands in for what draws samples: nothing is drawn before it is released."""

    def __init__(self, log):
        self.begun, self.released, self.samples = [], threading.Event(), log.samples

    def raster_png(self, scene_index, frame_index, track_id, *, map_kind):
        self.hold("raster", frame_index)
        return self.samples.raster_png(scene_index, frame_index, track_id, map_kind=map_kind)

    def vector_svg(self, scene_index, frame_index, track_id):
        self.hold("vector", frame_index)
        return self.samples.vector_svg(scene_index, frame_index, track_id)

    def hold(self, kind, frame_index):
        self.begun.append((kind, frame_index))
        assert self.released.wait(60)


@pytest.fixture
def held(city_view):
    """A page's address whose samples are not drawn before they are released, and what holds them."""
    log = ViewedLog(city_view._files)
    log.samples = held = HeldSamples(log)
    with ViewerServer(log) as server:
        yield server.url, held
        held.released.set()


SAMPLES_SHOWN = """() => ["raster", "vector"].every((name) => {
  const image = document.querySelector(`[data-testid=${name}]`)
  const box = image?.closest("figure")
  return image?.complete && image.naturalWidth > 0 && box.getAttribute("aria-busy") === "false"
})"""


WAITING = """() => ["raster", "vector"].map((name) => {
  const text = document.querySelector(`[data-testid=${name}-waiting]`)
  return text.checkVisibility() ? text.textContent : null
})"""


def test_the_boxes_of_samples_say_that_kernels_are_compiled_while_they_are(browser, held):
    url, samples = held
    with viewer_page(browser) as page:
        page.open_scene(f"{url}#scene=1&frame={FRAME}")
        page.wait_for(f"() => ({WAITING})().every((text) => text === 'Drawing')")
        with event.trigger_event("numba:compile"):
            page.wait_for(f"() => ({WAITING})().every((text) => text === 'Compiling, once, about 15 seconds')")
            page.part("play").click()  # it plays meanwhile, and other scenes are opened
            page.wait_for("(frame) => window.l5kitViewer.state().frame > frame + 3", FRAME)
            page.page.keyboard.press("Space")
            page.page.locator('[data-testid="scene-row"][data-scene="2"]').click()
            page.wait_for_scene(2)
        samples.released.set()
        page.wait_for(SAMPLES_SHOWN)
        assert page.page.evaluate(WAITING) == [None, None]


@pytest.mark.long
def test_where_the_slider_goes_on_only_the_last_sample_is_drawn(browser, held):
    url, samples = held
    with viewer_page(browser) as page:
        page.open_scene(f"{url}#scene=1&frame=0")
        page.wait_for("() => document.querySelector('[data-name=raster]').getAttribute('aria-busy') === 'true'")
        wait_until(page, lambda: samples.begun)
        for frame in range(10, 60, 10):
            with page.page.expect_request(lambda request, frame=frame: f"/api/raster/1/{frame}?" in request.url):
                page.seek(frame)
        page.page.evaluate("async () => { for (let i = 0; i < 3; i++) await (await fetch('/api/dataset')).json() }")
        samples.released.set()
        page.wait_for(SAMPLES_SHOWN)
        assert "frame 50" in page.part("raster").get_attribute("alt")
        assert "frame 50" in page.part("vector").get_attribute("alt")
    assert samples.begun == [("raster", 0), ("raster", 50), ("vector", 50)]


def wait_until(page, condition):
    for _ in range(300):
        if condition():
            return
        page.page.wait_for_timeout(50)
    raise AssertionError("nothing has happened for 15 seconds")


def test_a_link_shows_what_was_seen(browser, city_view, city_url):
    scene = city_view.scene(2)
    track = str(scene.agents.track_ids[lone_car(scene, FRAME)])
    with viewer_page(browser) as page:
        page.open_scene(f"{city_url}#scene=2&frame={FRAME}&track={track}")
        page.seek(FRAME + 1)
        x_m, y_m = (scene.ego_positions_m[FRAME, :2] + 12).tolist()
        page.part("follow").click()
        page.look(x_m, y_m, px_per_m=9)
        page.page.mouse.move(*page.place_of(x_m, y_m))
        page.page.mouse.down()
        page.page.mouse.move(*page.place_of(x_m + 2, y_m), steps=4)
        page.page.mouse.up()
        page.wait_for("() => /frame=41/.test(location.hash) && /zoom=/.test(location.hash)")
        link, camera = page.page.url, page.page.evaluate("() => window.l5kitViewer.birdseye.camera")
    with viewer_page(browser) as other:
        other.open_scene(link)
        assert {name: other.state[name] for name in ("scene", "frame", "track")} == {
            "scene": 2,
            "frame": FRAME + 1,
            "track": track,
        }
        seen = other.page.evaluate("() => window.l5kitViewer.birdseye.camera")
        assert [seen["x"], seen["y"]] == pytest.approx([camera["x"], camera["y"]], abs=0.2)
        assert seen["scale"] == pytest.approx(camera["scale"], rel=0.02)
        assert parse_qs(urlsplit(other.page.url).fragment)["track"] == [track]


@pytest.mark.long
@pytest.mark.parametrize(
    "address", ["scene=99", "scene=-1", "scene=x&frame=nan", "scene=0&frame=1e9&track=zz&zoom=-3&x=a"]
)
def test_a_wrong_address_is_told_and_shows_something(browser, city_url, address):
    with viewer_page(browser) as page:
        page.open(f"{city_url}#{address}")
        assert page.part("scene-row").count() == NUM_SCENES
        assert page.page.get_by_role("status").or_(page.page.get_by_role("alert")).first.inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lanes_lights_boxes_and_the_av_have_their_colours_where_they_are(browser, city_view, city_url, theme):
    scene, shapes = city_view.scene(1), city_view.map_shapes
    frame = next(index for index in range(FRAME, NUM_FRAMES) if 2 in scene.lights.colors[scene.lights.rows_of(index)])
    with viewer_page(browser, color_scheme=theme) as page:
        page.open_scene(f"{city_url}#scene=1&frame={frame}")
        page.page.evaluate(HIDE_LINES)
        assert np.abs(rear_tone(page, scene, frame) - car_tone(page)).max() < 60
        ego = scene.ego_positions_m[frame, :2]
        page.look(*ego, px_per_m=20)
        behind = ego - 1.2 * np.array([np.cos(scene.ego_yaws_rad[frame]), np.sin(scene.ego_yaws_rad[frame])])
        assert np.abs(page.color_at(*behind) - rgb_of(page.constant("EGO_COLOR"))).max() < 60

        lights = scene.lights.rows_of(frame)
        red = free_places(scene, shapes, frame, scene.lights.lanes[lights][scene.lights.colors[lights] == 2])
        plain = free_places(
            scene, shapes, frame, np.setdiff1d(np.arange(len(shapes.lanes)), scene.lights.lanes[lights])
        )
        red_tone, plain_tone = tone_at(page, red[0]), tone_at(page, plain[0])
        off_road = tone_at(page, shapes.lanes.points_m.min(axis=0) - 30)
        assert red_tone[0] > red_tone[1] + 25, "a lane with a red light is red"
        assert red_tone[0] > red_tone[2] + 25
        assert np.ptp(plain_tone) < 40, "a lane without a light is a kind of gray"
        assert np.abs(plain_tone - off_road).max() > 4, "a lane differs from what is no road"


def test_a_browser_without_webgl_draws_on_a_canvas(plain_browser, city_view, city_url):
    with viewer_page(plain_browser) as page:
        page.open_scene(f"{city_url}#scene=1&frame={FRAME}")
        assert page.page.evaluate("() => window.l5kitViewer.birdseye.stats.renderer") == "canvas"
        page.page.evaluate(HIDE_LINES)
        assert np.abs(rear_tone(page, city_view.scene(1), FRAME) - car_tone(page)).max() < 60


def car_tone(page):
    return rgb_of(page.constant("CLASS_COLORS")["PERCEPTION_LABEL_CAR"])


def rear_tone(page, scene, frame_index):
    """Colour of the picture at the rear of a car, away from the mark of its heading."""
    row = lone_car(scene, frame_index)
    yaw, centre = scene.agents.yaws_rad[row], scene.agents.centroids_m[row]
    page.look(*centre, px_per_m=20)
    return page.color_at(*(centre - 0.3 * scene.agents.extents_m[row, 0] * np.array([np.cos(yaw), np.sin(yaw)])))


def tone_at(page, place_m):
    """Colour of the picture at a place, seen from near."""
    page.look(*place_m, px_per_m=20)
    return page.color_at(*place_m)


def margin_m(polygon, place_m):
    """How far inside of a polygon a place is; negative outside."""
    return cv2.pointPolygonTest(polygon.astype(np.float32)[:, None], place_m.tolist(), True)


def free_places(scene, shapes, frame_index, lanes):
    """The middle of lanes that overlap no other lane, at least 8 m from all boxes."""
    boxes = np.vstack(
        [scene.agents.centroids_m[scene.agents.rows_of(frame_index)], scene.ego_positions_m[frame_index, :2]]
    )
    outlines, places = shapes.lanes, []
    polygons = [outlines.points_m[slice(*outlines.starts[lane : lane + 2])] for lane in range(len(outlines))]
    for lane in lanes.tolist():
        outline = polygons[lane]
        left = outline[: shapes.lane_left_counts[lane]]
        right = outline[shapes.lane_left_counts[lane] :][::-1]
        middle = (left[len(left) // 2] + right[len(right) // 2]) / 2
        around = [polygon for polygon in polygons if margin_m(polygon, middle) > -0.6]
        crossings = shapes.crosswalks.bounds_m
        is_crossing = ((crossings[:, 0] - 3 < middle) & (crossings[:, 1] + 3 > middle)).all(axis=1).any()
        is_alone = len(around) == 1 and margin_m(outline, middle) > 0.6
        if is_alone and not is_crossing and np.linalg.norm(boxes - middle, axis=1).min() > 8:
            places.append(middle)
    assert places, "no lane of this frame is free; choose another frame"
    return places


def test_an_exported_scene_plays_offline(browser, city_view, tmp_path):
    path = tmp_path / "scene.html"
    write_exported_page(path, city_view, 1)
    scene = city_view.scene(1)
    with viewer_page(browser, offline=True) as page:
        asked = []
        page.page.on("request", lambda request: asked.append(request.url))
        page.open_scene(f"{path.as_uri()}#frame={FRAME}")
        assert page.state["scene"] == 1
        assert page.state["frame"] == FRAME
        page.part("play").click()
        page.wait_for("(frame) => window.l5kitViewer.state().frame > frame", FRAME + 3)
        page.part("play").click()
        page.seek(FRAME)
        row = lone_car(scene, FRAME)
        page.page.mouse.click(*page.place_of(*scene.agents.centroids_m[row]))
        page.wait_for("(track) => window.l5kitViewer.state().track === track", str(scene.agents.track_ids[row]))
        assert "l5kit view" in page.page.locator("body").inner_text()
        loaded = [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
        assert loaded == []


def hostile_log(tmp_path):
    """A dataset whose host is markup and whose last scene has lost a chunk of agents; the first two are whole."""
    agents = [make_agents(make_agent(2**60 + 1, (10 + frame, 4)), make_agent(2, (20, -4))) for frame in range(30)]
    whole = make_scene(agents)
    scenes = np.array(whole.scenes)
    scenes["host"] = "<img src=x>"
    log = ChunkedDataset.in_memory(scenes=scenes, frames=whole.frames, agents=whole.agents, tl_faces=whole.tl_faces)
    path = tmp_path / "<b id=x>log.zarr"
    ChunkedDataset.concatenate([log, log]).save(path)
    return path


def test_markup_in_names_is_shown_as_text(browser, tmp_path):
    path = hostile_log(tmp_path)
    with ViewerServer(ViewedLog(find_dataset_files(path))) as server, viewer_page(browser) as page:
        page.open_scene(f"{server.url}#scene=1")
        assert page.page.locator("img[src='x'], b#x").count() == 0
        assert "<b id=x>log" in page.page.locator("body").inner_text()
        assert "<b id=x>log" in page.page.title()


@pytest.mark.long
def test_track_ids_beyond_53_bits_are_whole(browser, tmp_path):
    track = str(2**60 + 1)
    with ViewerServer(ViewedLog(find_dataset_files(hostile_log(tmp_path)))) as server, viewer_page(browser) as page:
        page.open_scene(f"{server.url}#scene=0&frame=3&track={track}")
        assert page.state["track"] == track
        assert track in page.part("agent-panel").inner_text()


def test_a_damaged_scene_shows_its_error_in_place_while_others_play(browser, city_view, tmp_path):
    path = tmp_path / "damaged.zarr"
    whole = hostile_log(tmp_path)
    log = ChunkedDataset(whole).open()
    frames = np.array(log.frames[:])
    frames["agent_index_interval"][40] = [7, 10**9]  # in the second scene
    ChunkedDataset.in_memory(
        scenes=np.array(log.scenes[:]),
        frames=frames,
        agents=np.array(log.agents[:]),
        tl_faces=np.array(log.tl_faces[:]),
    ).save(path)
    with ViewerServer(ViewedLog(find_dataset_files(path))) as server, viewer_page(browser) as page:
        page.open_scene(f"{server.url}#scene=0")
        page.page.locator('[data-testid="scene-row"][data-scene="1"]').click()
        page.part("error").first.wait_for()
        assert "agent_index_interval" in page.part("error").first.inner_text()
        page.page.locator('[data-testid="scene-row"][data-scene="0"]').click()
        page.wait_for_scene(0)
        page.part("play").click()
        page.wait_for("() => window.l5kitViewer.state().frame > 3")
        page.problems[:] = [text for text in page.problems if "422" not in text]  # the browser's note of the answer


def test_a_scene_with_an_impossible_position_is_marked_and_plays(browser, tmp_path):
    log = ChunkedDataset(hostile_log(tmp_path)).open()
    frames = np.array(log.frames[:])
    frames["ego_translation"][42, 0] = 1.2e307  # in the second scene
    arrays = {name: np.array(getattr(log, name)[:]) for name in ("scenes", "agents", "tl_faces")}
    ChunkedDataset.in_memory(frames=frames, **arrays).save(tmp_path / "broken.zarr")
    with (
        ViewerServer(ViewedLog(find_dataset_files(tmp_path / "broken.zarr"))) as server,
        viewer_page(browser) as page,
    ):
        page.open_scene(f"{server.url}#scene=0")
        row = page.page.locator('[data-testid="scene-row"][data-scene="1"]')
        assert "ego_translation of frame 12 is not finite, or more than" in row.get_attribute("title")
        assert "damaged" in row.inner_text()
        assert page.part("notice").filter(has_text="is damaged").count() == 0
        row.click()
        page.part("notice").filter(has_text="Scene 1 is damaged: ego_translation of frame 12").wait_for()
        page.seek(10)
        page.part("play").click()
        page.wait_for("() => window.l5kitViewer.state().frame > 14")
        page.problems[:] = [text for text in page.problems if "422" not in text]  # samples around it have no target


def test_a_dataset_without_scenes_says_so(browser, tmp_path):
    path = tmp_path / "empty.zarr"
    empty = make_scene([make_agents()])
    ChunkedDataset.in_memory(scenes=empty.scenes[:0], frames=empty.frames[:0]).save(path)
    with ViewerServer(ViewedLog(find_dataset_files(path))) as server, viewer_page(browser) as page:
        page.open(server.url)
        assert "no scenes" in page.page.locator("body").inner_text()


SIZES = [
    (320, 568), (360, 640), (380, 700), (430, 932), (568, 320), (667, 375), (740, 360), (932, 430), (600, 600),
    (768, 1024), (800, 600), (960, 1080), (1000, 600), (1024, 600), (1024, 768), (1100, 900), (1101, 640), (1280, 400),
    (1280, 520), (1280, 521), (1280, 800), (1366, 768), (1920, 1080), (2560, 1300),
]  # fmt: skip
"""Phones upright and sideways, tablets, halves of laptop screens, laptops, and on to large screens."""

CONTROLS = ["play", "slider", "frame-label", "loop", "speed", "follow", "fit", "copy-link", "theme"]

UNREACHABLE = """(names) => names.filter((name) => {
  const element = document.querySelector(`[data-testid="${name}"]`)
  const { left, top, width, height } = element.getBoundingClientRect()
  const places = [0.1, 0.5, 0.9].flatMap((x) => [0.1, 0.5, 0.9].map((y) => [left + x * width, top + y * height]))
  return !places.every(([x, y]) => element.contains(document.elementFromPoint(x, y)))
})"""
"""Parts of which some place is covered or outside of the window."""


SCROLL_BACK = """() => {
  window.scrollTo(0, 0)
  for (const element of document.querySelectorAll(".panel, .panel *")) element.scrollTop = 0
}"""
IS_AT = """([name, x, y]) => Boolean(document.elementFromPoint(x, y)?.closest(`[data-testid="${name}"]`))"""


@pytest.fixture(scope="module", params=["nobody", "an agent"])
def page_of_any_size(request, browser, city_view, city_url):
    """A page with a resizable window, with or without a selected agent."""
    scene = city_view.scene(1)
    track = f"&track={scene.agents.track_ids[lone_car(scene, FRAME)]}" if request.param == "an agent" else ""
    with viewer_page(browser) as page:
        page.open_scene(f"{city_url}#scene=1&frame={FRAME}{track}")
        page.wait_for(SAMPLES_SHOWN)
        yield page


@pytest.mark.long
@pytest.mark.parametrize(("width", "height"), SIZES, ids=str)
def test_the_window_may_have_any_size(page_of_any_size, width, height):
    page = page_of_any_size
    page.page.set_viewport_size({"width": width, "height": height})
    page.page.evaluate(SCROLL_BACK)
    page.settle()
    assert page.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert page.page.evaluate(UNREACHABLE, CONTROLS) == []
    box = page.page.locator("#birdseye").bounding_box()
    assert box["height"] >= 0.4 * height, "the picture is low"
    assert box["width"] >= min(0.35 * width, 700), "the picture is narrow"
    canvas = page.page.locator("#birdseye canvas").bounding_box()
    assert (canvas["width"], canvas["height"]) == pytest.approx((box["width"], box["height"]), abs=4)
    assert page.page.locator("#panel").bounding_box()["y"] < height - 20, "nothing tells that there is a panel"
    for name in ("agent-list", "raster", "vector"):
        part = page.part(name)
        part.scroll_into_view_if_needed()
        place = part.bounding_box()
        assert min(place["width"], place["height"]) >= 90, f"{name} is small"
        middle = [place["x"] + place["width"] / 2, place["y"] + place["height"] / 2]
        assert page.page.evaluate(IS_AT, [name, *middle]), f"{name} cannot be brought into view"


@pytest.mark.long
@pytest.mark.parametrize(("width", "height"), [(380, 700), (740, 360), (800, 600), (1100, 700)], ids=str)
def test_the_list_is_a_drawer_where_the_window_is_narrow(browser, city_url, width, height):
    with viewer_page(browser, width=width, height=height) as page:
        page.open_scene(f"{city_url}#scene=0&frame=5")
        assert not page.part("scene-rows").is_visible()
        page.page.locator("#scenes-toggle").click()
        page.page.locator('[data-testid="scene-row"][data-scene="2"]').click()
        page.wait_for_scene(2)
        assert not page.part("scene-rows").is_visible()
        assert page.page.evaluate(UNREACHABLE, CONTROLS) == []


@pytest.mark.long
@pytest.mark.parametrize(("width", "height"), [(740, 360), (800, 600), (1280, 800)], ids=str)
def test_notices_leave_the_controls_in_the_window(browser, city_url, width, height):
    with viewer_page(browser, width=width, height=height) as page:
        page.open_scene(f"{city_url}#scene=99&frame=-1&zoom=no")
        page.page.evaluate(
            """async () => {
              const { notice } = await import("l5kit/notices")
              for (let number = 0; number < 9; number++) notice(`${number}: ${"long ".repeat(80)}`, { stays: true })
            }"""
        )
        page.settle()
        assert page.page.evaluate(UNREACHABLE, CONTROLS) == []
        assert page.page.locator("#birdseye").bounding_box()["height"] > 0.3 * height


def test_the_real_scene_plays_on_the_street_map(browser, real_view, real_url):
    scene = real_view.scene(0)
    with viewer_page(browser) as page:
        page.open_scene(f"{real_url}#scene=0&frame=100")
        page.page.evaluate(
            "() => window.l5kitViewer.birdseye.setOptions({ past: false, future: false, labels: false })"
        )
        assert np.abs(rear_tone(page, scene, 100) - car_tone(page)).max() < 60
        row = lone_car(scene, 100)
        page.page.mouse.click(*page.place_of(*scene.agents.centroids_m[row]))
        page.wait_for("(track) => window.l5kitViewer.state().track === track", str(scene.agents.track_ids[row]))
        page.part("play").click()
        page.wait_for("() => window.l5kitViewer.state().frame >= 105")


@pytest.mark.long
def test_tags_are_listed_searched_and_gone_to(browser, city_view, city_url, tmp_path):
    with viewer_page(browser) as page:
        page.open(city_url)
        page.part("tag-chip").first.wait_for()
        page.wait_for("() => !document.querySelector('.list-count').textContent.includes('found')")
        found = city_view.tags.since(0)["scenes"]
        scene, events = next((int(number), events) for number, events in found.items() if events)
        name, frames = next(iter(events.items()))
        label = next(tag["label"] for tag in city_view.tags.since(0)["tags"] if tag["name"] == name)
        page.part("filter-text").fill(label)
        having = [number for number, other in found.items() if name in other]
        page.wait_for("(count) => document.querySelectorAll('.list-row').length === count", len(having))
        page.page.locator(f"#scene-row-{scene} [data-tag={name}]").click()
        page.wait_for_scene(scene)
        page.wait_for("(frame) => window.l5kitViewer.state().frame === frame", frames[0][0])
        page.part("filter-text").fill("")
        page.page.get_by_text("Ranges, turns, tags").click()
        page.part(f"filter-tag-{name}").click()
        assert page.part("scene-count").inner_text() in (
            f"{len(having)} of {NUM_SCENES} scenes",
            f"{NUM_SCENES} scenes",
        )
        assert not page.problems
    file = tmp_path / "scene.html"
    write_exported_page(file, city_view, scene)
    with viewer_page(browser) as page:
        page.open(file.as_uri())
        chips = page.page.locator("#scene-tags .tag-chip")
        chips.first.wait_for()
        assert [chip.get_attribute("data-tag") for chip in chips.all()] == [
            kind["name"] for kind in city_view.tags.since(0)["tags"] if kind["name"] in events
        ]


@pytest.mark.long  # two pages at once wait long for each other on a busy machine
def test_two_datasets_beside_each_other_are_in_step(browser, city_view, real_view):
    """Whatever is done on one side is done on both; a scene that the other does not have is said."""
    both = "() => ({ ...window.l5kitViewer.state(), zoom: window.l5kitViewer.birdseye.camera.scale })"
    with ViewerServer(city_view, beside=city_view) as server, viewer_page(browser) as page:
        page.page.goto(f"{server.url}#scene=1&frame=30")
        sides = [page.page.frame(f"l5kit-{side}") for side in ("left", "right")]

        def in_step(**expected):
            for side in sides:
                side.wait_for_function(
                    "(expected) => { const state = { ...window.l5kitViewer?.state(), "
                    "zoom: window.l5kitViewer?.birdseye?.camera.scale }; "
                    "return Object.entries(expected).every(([name, value]) => state[name] === value) }",
                    arg=expected,
                )

        in_step(scene=1, frame=30, follow=True)
        sides[1].locator("#step-forward").click()
        in_step(frame=31, playing=False)
        sides[0].locator("#zoom-in").click()
        in_step(zoom=sides[0].evaluate(both)["zoom"])
        sides[1].locator("#play").click()
        in_step(playing=True)
        sides[0].locator("#play").click()
        in_step(playing=False, frame=sides[0].evaluate(both)["frame"])
        sides[0].locator("#follow").click()
        in_step(follow=False)
        sides[1].locator("#birdseye").press("n")
        in_step(scene=2, frame=0)
    with ViewerServer(city_view, beside=real_view) as server, viewer_page(browser, width=700) as page:
        page.page.goto(f"{server.url}#scene=2")
        boxes = [page.page.locator(f"#{side}").bounding_box() for side in ("left", "right")]
        assert boxes[0]["x"] == boxes[1]["x"]
        assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"]
        page.page.frame("l5kit-right").get_by_text("Scene 2, which is shown beside, is not in this dataset.").wait_for()

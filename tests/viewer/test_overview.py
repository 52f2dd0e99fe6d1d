"""A comparison in the viewer: planners in columns, scenes in rows, and two drives that play side by side."""

import json
import shutil
import urllib.error
import urllib.request

import pytest

pytest.importorskip("torch")
pytest.importorskip("tornado")

from l5kit.comparison import compare, write_comparison
from l5kit.comparison.folder import open_overview
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.evaluation.resampling import Resampling
from l5kit.visualization.viewer.server import ViewerServer
from support.browser import CHROMIUM, viewer_page
from support.compared_runs import write_evaluation

FEW = Resampling(num_draws=200)


@pytest.fixture(scope="module")
def other_drives(city, tmp_path_factory):
    """Another simulation of the city, in which all scenes are driven to their ends, and agents are replayed."""
    from support.driven_folders import drive_city

    return drive_city(city, tmp_path_factory.mktemp("other") / "drives", faulty=None, drives_agents=False)


@pytest.fixture(scope="module")
def compared(drives, other_drives, tmp_path_factory):
    """Folder of a comparison of both: scenes 0 and 2 are driven in both, scene 1 breaks in the first."""
    folder = tmp_path_factory.mktemp("compared") / "comparison"
    write_comparison(compare({"first": drives, "second": other_drives}, resampling=FEW), folder)
    return folder


@pytest.fixture(scope="module")
def server(compared):
    with ViewerServer(open_overview(compared)) as server:
        yield server


def ask(server, path):
    try:
        with urllib.request.urlopen(server.url.rstrip("/") + path, timeout=60) as answer:
            return answer.status, answer.read().decode("utf-8")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode("utf-8")


def test_scenes_have_their_numbers_in_each_simulation(compared):
    """The first simulation has scenes 0 and 2 as 0 and 1, the second all three."""
    overview = open_overview(compared)
    assert [(each.scene, list(each.places)) for each in overview.scenes] == [(0, [0, 0]), (2, [1, 2])]
    assert (overview.names, overview.reference) == (["first", "second"], 0)
    assert [log.facts()["name"] for log in overview.logs] == ["first", "second"]
    with pytest.raises(CorruptedDataError, match=r"comparison\.json cannot be read"):
        open_overview(compared.parent)


def test_the_server_has_the_overview_and_each_planner(server):
    status, page = ask(server, "/")
    assert status == 200
    assert "<title>Planners compared - l5kit</title>" in page
    content = json.loads(ask(server, "/api/overview")[1])
    assert [planner["name"] for planner in content["planners"]] == ["first", "second"]
    for number, name in enumerate(("first", "second")):
        assert json.loads(ask(server, f"/planner-{number}/api/dataset")[1])["name"] == name
        assert ask(server, f"/planner-{number}/")[0] == 200
    assert ask(server, "/beside?left=planner-0&right=planner-1")[0] == 200
    for path in ("/planner-2/", "/left/", "/api/dataset"):
        assert ask(server, path)[0] == 404


def test_a_simulation_that_is_gone_is_named(compared, tmp_path):
    copy = shutil.copytree(compared, tmp_path / "copy")
    facts = json.loads((copy / "comparison.json").read_text())
    (copy / "comparison.json").write_text(json.dumps(facts | {"reference": "nobody"}))
    with pytest.raises(CorruptedDataError, match=r"comparison\.json is no file of l5kit compare"):
        open_overview(copy)
    facts["planners"][1]["runs"] = [str(tmp_path / "gone")]
    (copy / "comparison.json").write_text(json.dumps(facts))
    with pytest.raises(InvalidArgumentError, match="gone' of 'second' was moved or deleted"):
        open_overview(copy)
    (copy / "comparison.json").write_text("{}")
    with pytest.raises(CorruptedDataError, match=r"comparison\.json is no file of l5kit compare"):
        open_overview(copy)


def test_evaluations_cannot_be_played(tmp_path):
    runs = [write_evaluation(tmp_path / name, {0: [(1.0, 1.0)], 1: [(1.0, 1.0)]}) for name in ("a", "b")]
    write_comparison(compare(runs, resampling=FEW), tmp_path / "compared")
    with pytest.raises(InvalidArgumentError, match=r"a comparison of evaluations, which cannot be played"):
        open_overview(tmp_path / "compared")


@pytest.mark.long  # two pages at once wait long for each other on a busy machine
@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium: none of its names is in PATH")
def test_a_click_plays_both_side_by_side(browser, server):
    with viewer_page(browser, width=1400, height=900) as page:
        page.page.goto(server.url)
        rows = page.page.locator("#overview-table tbody tr")
        rows.first.wait_for()
        assert [row.locator("th").inner_text() for row in rows.all()] == ["0", "2"]
        page.part("head-scene").get_by_role("button").click()
        assert [row.locator("th").inner_text() for row in rows.all()] == ["2", "0"]
        rows.first.locator("a").nth(1).click()
        sides = [("left", 1, "first"), ("right", 2, "second")]
        for side, scene, name in sides:
            page.page.wait_for_selector(f"#{side}")
            frame = page.page.frame(f"l5kit-{side}")
            frame.wait_for_function("(scene) => window.l5kitViewer?.state().scene === scene", arg=scene)
            assert frame.locator("#dataset-name").inner_text() == name
        page.page.locator("#both-curves").get_by_text("second").wait_for()
        page.part("to-overview").click()
        rows.first.wait_for()

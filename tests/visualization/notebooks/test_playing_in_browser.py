"""The page of a scene inside a notebook: it plays in a frame without a server, and is bounded in size."""

import shutil

import pytest

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.data import ChunkedDataset
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.visualization import play
from support.browser import CHROMIUM, OPTIONS


@pytest.fixture(scope="module")
def log(city):
    return ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()


def test_the_page_is_that_of_the_exported_file(city, log):
    assert play(log, 1).html == play(str(city), 1).html
    assert "map" in play(log.get_scene_dataset(1), data_folder=city).html


def test_a_page_that_is_too_large_or_not_there_is_an_error(log):
    size = len(play(log, 0)._repr_html_())
    assert size < 600_000
    with pytest.raises(InvalidArgumentError, match=rf"adds {size:,} bytes .* max_bytes is 1,000; .* --export FILE"):
        play(log, 0, max_bytes=1000)
    with pytest.raises(IndexOutOfRangeError, match="scene 9 is out of range"):
        play(log, 9)
    with pytest.raises(InvalidArgumentError, match="height_px is 20"):
        play(log, height_px=20)


def test_a_result_of_a_simulation_plays_with_its_log(city, tmp_path):
    options = ClosedLoopOptions(num_frames=5, scenes=slice(0, 1))
    result = simulate(city, tmp_path / "driven", planner="standing", options=options)
    page = play(result)
    assert '"drive": null' not in page.html
    assert page.html == play(tmp_path / "driven").html
    shutil.rmtree(tmp_path / "driven")


@pytest.mark.browser
def test_the_page_plays_in_a_sandboxed_frame(log, tmp_path):
    pytest.importorskip("playwright")
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><body>{play(log, 2)._repr_html_()}</body>", encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        page, problems = browser.new_page(), []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: request.url.startswith("http") and problems.append(request.url))
        page.goto(notebook.as_uri())
        frame = page.wait_for_selector("iframe", state="attached").content_frame()
        frame.wait_for_function("() => window.l5kitViewer !== undefined && window.l5kitViewer.birdseye.stats.drawn > 0")
        frame.wait_for_function("() => window.l5kitViewer.state().scene === 2")
        frame.evaluate("() => window.l5kitViewer.player.seek(7)")
        frame.wait_for_function("() => window.l5kitViewer.state().frame === 7")
        browser.close()
    assert problems == []

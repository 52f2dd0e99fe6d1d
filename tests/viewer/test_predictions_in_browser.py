"""Predictions on the page of the viewer in headless Chromium."""

import math

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tornado")
pytest.importorskip("playwright.sync_api")

from l5kit.data.dataset_files import DatasetFiles
from l5kit.visualization.viewer.exported_page import write_exported_page
from l5kit.visualization.viewer.predictions import Predictions
from l5kit.visualization.viewer.server import ViewerServer
from l5kit.visualization.viewer.viewed_log import ViewedLog
from support.browser import CHROMIUM, viewer_page
from support.logs import make_agent, make_agents, make_scene

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on PATH, which is not here"),
]

FRAME, NUM_STEPS = 2, 4
PROBABLE, OTHER = (20.0, 14.0), (24.0, 10.0)
"""Ends of the two predicted paths of the car after two steps."""


@pytest.fixture(scope="module")
def predicted_view(tmp_path_factory):
    """A stationary car at (20, 10) facing north, predicted in one frame: 2 m a step north, or east."""
    car = make_agents(make_agent(7, (20, 10), yaw=math.pi / 2))
    path = tmp_path_factory.mktemp("predicted") / "a.zarr"
    log = make_scene([car] * 8)
    log.save(path)
    steps = 2.0 * np.arange(1, NUM_STEPS + 1)
    ways = np.zeros((1, 2, NUM_STEPS, 2))
    ways[0, 0, :, 0], ways[0, 1, :, 1] = steps, steps
    time_ns = log.frames["timestamp"][FRAME]
    predictions = Predictions.of_arrays([time_ns, time_ns], [7, 8], np.repeat(ways, 2, 0), [[0.2, 0.8]] * 2)
    return ViewedLog(DatasetFiles(path, None, None, None, ()), predictions=predictions)


def predicted_tone(page, theme):
    tone = page.constant("THEMES")[theme]["predicted"]
    return np.array([tone >> 16, (tone >> 8) & 255, tone & 255])


def test_ways_lie_where_the_car_was_and_the_panel_tells_how_good_they_are(browser, predicted_view):
    with ViewerServer(predicted_view) as server, viewer_page(browser, color_scheme="light") as page:
        page.open_scene(f"{server.url}#scene=0")
        assert page.state["frame"] == FRAME  # the first one with predictions
        page.look(22, 12, px_per_m=30)
        tone, picture = predicted_tone(page, "light"), page.colors()
        ground = page.color_at(24, 14, picture=picture)
        assert np.abs(page.color_at(*PROBABLE, picture=picture) - tone).max() <= 8
        other = page.color_at(*OTHER, picture=picture)
        share = 0.25 + 0.75 * 0.2 / 0.8
        assert np.abs(other - (share * tone + (1 - share) * ground)).max() <= 12
        stripe = page.part("prediction-stripe")
        assert stripe.get_attribute("aria-label") == (
            "Predictions in 1 of 8 frames; 1 more have no agent in their frame"
        )
        assert "predicted (1 frame)" in page.page.locator("#legend").inner_text()
        assert "1 of 2 predictions have no row in this log" in page.page.locator("#notices").inner_text()

        page.page.mouse.click(*page.place_of(20, 10))
        page.wait_for("() => window.l5kitViewer.state().track === '7'")
        panel = page.part("prediction")
        assert page.part("prediction-head").inner_text() == "Predicted: 2 modes of 4 steps"
        rows = [row.inner_text().split("\t") for row in panel.locator("tbody tr").all()]
        assert rows == [
            ["best", "", "5.00 m", "8.00 m"],
            ["most probable", "80 %", "5.00 m", "8.00 m"],
            ["mode 2", "20 %", "5.00 m", "8.00 m"],
        ]
        page.seek(FRAME + 1)
        page.wait_for("() => document.querySelector('.prediction').innerText === 'Not predicted in this frame'")
        stripe.click(position={"x": 1, "y": 3})
        page.wait_for("(frame) => window.l5kitViewer.state().frame === frame", FRAME)

        page.page.keyboard.press("Escape")
        page.page.keyboard.press("w")
        page.settle()
        assert np.abs(page.color_at(*PROBABLE) - ground).max() <= 8
        assert page.part("option-predictions").get_attribute("aria-pressed") == "false"
        page.part("option-predictions").click()
        page.settle()
        assert np.abs(page.color_at(*PROBABLE) - tone).max() <= 8


def test_an_exported_page_has_them_and_a_log_without_has_none_of_it(browser, predicted_view, tmp_path):
    write_exported_page(tmp_path / "with.html", predicted_view, 0)
    plain = ViewedLog(predicted_view._files)
    write_exported_page(tmp_path / "without.html", plain, 0)
    with viewer_page(browser, offline=True, color_scheme="dark") as page:
        page.open_scene((tmp_path / "with.html").as_uri())
        page.look(22, 12, px_per_m=30)
        assert np.abs(page.color_at(*PROBABLE) - predicted_tone(page, "dark")).max() <= 8
        page.open_scene((tmp_path / "without.html").as_uri())
        assert page.state["frame"] == 0
        assert not page.part("prediction-stripe").is_visible()
        assert not page.part("option-predictions").is_visible()

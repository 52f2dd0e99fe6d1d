"""The interactive page of a scene."""

import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command
from l5kit.visualization.visualizer.common import LaneVisualization
from l5kit.visualization.visualizer.visualizer import visualize, write_scene_page
from l5kit.visualization.visualizer.zarr_utils import zarr_to_visualizer_scene
from support.logs import make_agent, make_agents, make_faces, make_scene
from support.maps import lane_lines_m, make_map

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_bokeh = pytest.mark.skipif(importlib.util.find_spec("bokeh") is None, reason="needs Bokeh")

READ_PAGE = """
<script>
const read_page = async () => {
  const models = [...(globalThis.Bokeh?.documents[0]?._all_models.values() ?? [])]
  const slider = models.find((model) => model.type == "Slider")
  if (slider == null) return setTimeout(read_page, 50)
  const figure = models.find((model) => model.type == "Figure")
  const read = async (value) => {
    slider.value = value
    await new Promise((resolve) => setTimeout(resolve, 50))  // scripts of a page run after the change
    const layers = {}
    for (const { name, data_source } of figure.renderers) {
      layers[name] = Object.fromEntries(Object.entries(data_source.data).map(
        ([key, column]) => [key, Array.from(column, (entry) => entry?.buffer ? Array.from(entry) : entry)]))
    }
    const [x_view, y_view] = [figure.x_range, figure.y_range].map(
      ({ start, end, reset_start, reset_end }) => [start, end, reset_start, reset_end])
    return { layers, x_view, y_view, size: [figure.inner_width, figure.inner_height] }
  }
  const result = document.createElement("pre")
  result.id = "result"
  const values = []
  for (let value = slider.start; value <= slider.end; value += slider.step) values.push(value)
  const shown = []
  for (const value of [...values, slider.start]) shown.push(await read(value))
  result.textContent = JSON.stringify(shown)
  document.body.append(result)
}
read_page()
</script>
"""


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """Five frames; agents come and go, the light changes, the second to last is empty."""
    agents = [
        make_agents(make_agent(1, (5, 0), velocity=(2, 0)), make_agent(2, (7, 3), labels={"CYCLIST": 0.9})),
        make_agents(make_agent(1, (6, 0))),
        make_agents(make_agent(3, (1, 1), labels={"PEDESTRIAN": 0.5})),
        make_agents(),
        make_agents(make_agent(1, (8, 0))),
    ]
    faces = [make_faces(R=1), make_faces(R=1), make_faces(G=1), make_faces(), make_faces(Y=1)]
    positions_m = [[1000.0 * k, 0] if k == 4 else [float(k), 0] for k in range(5)]
    scene = make_scene(agents, faces, positions_m=positions_m)
    return zarr_to_visualizer_scene(scene, make_map(tmp_path_factory.mktemp("page") / "map.pb"))


def models_of(layout, name):
    return list(layout.select({"type": getattr(importlib.import_module("bokeh.models"), name)}))


def figure_of(layout):
    (figure,) = models_of(layout, "Plot")
    return figure


def renderer(layout, name):
    return next(renderer for renderer in figure_of(layout).renderers if renderer.name == name)


def column(layout, layer, name):
    return renderer(layout, layer).data_source.data[name]


@needs_bokeh
def test_the_first_frame_is_shown_100_m_wide_around_the_av(frames):
    figure = figure_of(visualize(7, frames))
    assert figure.title.text == "Scene 7"
    assert [(axis.start, axis.end) for axis in (figure.x_range, figure.y_range)] == [(-50, 50), (-50, 50)]
    assert figure.sizing_mode == "stretch_both"
    assert not any(grid.visible for grid in figure.grid)
    assert figure.toolbar.active_scroll is next(tool for tool in figure.tools if type(tool).__name__ == "WheelZoomTool")
    assert [renderer.name for renderer in figure.renderers] == [
        "lanes", "lane_boundaries", "crosswalks", "ego", "agents", "agent_trajectory", "ego_trajectory"
    ]  # fmt: skip


@needs_bokeh
def test_layers_have_the_elements_of_the_first_frame(frames):
    layout = visualize(0, frames)
    assert column(layout, "lanes", "color") == [lane.color for lane in frames[0].lanes]
    assert column(layout, "agents", "track_id") == ["1", "2"]
    assert column(layout, "agents", "color") == ["#1F77B4", "#CC33FF"]
    assert column(layout, "agent_trajectory", "track_id") == ["1", "2"]
    np.testing.assert_array_equal(column(layout, "agents", "xs")[0], frames[0].agents[0].xs)


@needs_bokeh
def test_ids_of_tracks_have_all_their_digits(frames, tmp_path):
    first, last = (
        frame._replace(agents=[frame.agents[0]._replace(track_id=track_id)], trajectories=[])
        for frame, track_id in zip(frames, (2**53 + 1, 2**64 - 1), strict=False)
    )
    assert column(visualize(0, [first, last]), "agents", "track_id") == ["9007199254740993"]
    write_scene_page(tmp_path / "page.html", 0, [first, last])
    page = (tmp_path / "page.html").read_text("utf-8")
    assert '"9007199254740993"' in page
    assert '"18446744073709551615"' in page


@needs_bokeh
def test_v10_the_page_has_its_own_tones_unless_colours_are_set(frames):
    layout = visualize(0, frames)
    assert column(layout, "ego", "color") == ["#B53331"]
    assert column(layout, "crosswalks", "color") == ["#B5B50D"]
    other = frames[0]._replace(
        ego=frames[0].ego._replace(color="lime"), crosswalks=[frames[0].crosswalks[0]._replace(color="pink")]
    )
    layout = visualize(0, [other])
    assert (column(layout, "ego", "color"), column(layout, "crosswalks", "color")) == (["lime"], ["pink"])


@needs_bokeh
def test_v1_the_slider_ends_at_the_last_frame(frames):
    (slider,) = models_of(visualize(0, frames), "Slider")
    assert (slider.title, slider.start, slider.end, slider.step, slider.value) == ("frame", 0, 4, 1, 0)


@needs_bokeh
@pytest.mark.parametrize(("num_frames", "end"), [(3, 2), (4, 2), (5, 4)])
def test_v12_every_other_frame_can_be_shown(frames, num_frames, end):
    (slider,) = models_of(visualize(0, frames[:num_frames], frame_step=2), "Slider")
    assert (slider.end, slider.step) == (end, 2)


@needs_bokeh
def test_a_single_frame_needs_no_slider(frames):
    layout = visualize(0, frames[:1])
    assert models_of(layout, "Slider") == models_of(layout, "Toggle") == []
    assert layout.children == [figure_of(layout), *models_of(layout, "Div")]


@needs_bokeh
def test_lanes_have_their_boundaries_without_lines_across(frames):
    layout = visualize(0, frames)
    lines = zip(column(layout, "lane_boundaries", "xs"), column(layout, "lane_boundaries", "ys"), strict=True)
    shown = [np.stack(line, axis=1).tolist() for line in lines]
    assert len(shown) == 2 * len(frames[0].lanes)
    left, right = lane_lines_m(0.0)  # the first lane
    np.testing.assert_allclose(shown[0], left[:, :2], atol=1e-2)
    np.testing.assert_allclose(shown[1], right[::-1, :2], atol=1e-2)


@needs_bokeh
def test_lanes_of_unknown_boundaries_have_none(frames):
    plain = [
        frame._replace(lanes=[LaneVisualization(lane.xs, lane.ys, "gray") for lane in frame.lanes]) for frame in frames
    ]
    assert "lane_boundaries" not in [renderer.name for renderer in figure_of(visualize(0, plain)).renderers]
    mixed = visualize(0, [plain[0]._replace(lanes=[plain[0].lanes[0], frames[0].lanes[0]]), plain[1]])
    assert len(column(mixed, "lane_boundaries", "xs")) == 2


@needs_bokeh
def test_the_key_names_the_colours_of_all_frames(frames):
    (key,) = models_of(visualize(0, frames), "Div")
    entries = re.findall(r"background:([^\"]+)\"></span>([^<]+)</span>", key.text)
    assert dict(entries) == {
        "#B53331": "AV",
        "#1F77B4": "car",
        "#CC33FF": "cyclist",
        "#66CCFF": "pedestrian",
        "#B5B50D": "crosswalk",
        "#FF3300": "red light",
        "#33CC33": "green light",
    }


@needs_bokeh
def test_what_has_one_colour_has_one_entry_in_the_key_and_markup_is_text(frames):
    agents = [agent._replace(color="<b>", agent_type=kind) for agent, kind in zip(frames[0].agents, "ab", strict=True)]
    (key,) = models_of(visualize(0, [frames[0]._replace(agents=agents, lanes=[], crosswalks=[])]), "Div")
    assert "<b>" not in key.text
    assert 'background:&lt;b&gt;"></span>a, b</span>' in key.text


@needs_bokeh
def test_v2_hovering_over_agents_tells_about_them(frames):
    layout = visualize(0, frames)
    (hover,) = models_of(layout, "HoverTool")
    assert hover.renderers == [renderer(layout, "agents")]
    assert hover.tooltips == [
        ("Type", "@agent_type"),
        ("Probability", "@prob{0.00%}"),
        ("Track id", "@track_id"),
        ("Speed", "@speed_mps{custom}"),
    ]


@needs_bokeh
def test_labels_of_all_frames_are_in_the_legend_once_and_sorted(frames):
    line = frames[0].trajectories[0]
    frames = [*frames[:4], frames[4]._replace(trajectories=[line._replace(legend_label="a_way", color="orange")])]
    layout = visualize(0, frames)
    (legend,) = figure_of(layout).legend
    assert [item.label.value for item in legend.items] == ["a_way", "agent_trajectory", "ego_trajectory"]
    assert (legend.location, legend.click_policy) == ("top_left", "hide")
    assert column(layout, "a_way", "color") == ["orange"]
    assert column(layout, "a_way", "legend_label") == ["none"]


@needs_bokeh
def test_v11_a_scene_without_trajectories_has_no_legend_and_no_warning(frames):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layout = visualize(0, [frame._replace(trajectories=[]) for frame in frames])
    assert list(figure_of(layout).legend) == []


@needs_bokeh
def test_a_frame_with_nothing_but_the_av_has_null_elements(frames):
    empty = frames[0]._replace(agents=[], lanes=[], crosswalks=[], trajectories=[])
    layout = visualize(0, [empty])
    data = renderer(layout, "agents").data_source.data
    assert (data["track_id"], data["agent_type"], data["prob"]) == (["-2"], [""], [0.0])
    assert [len(xs) for xs in data["xs"]] == [0]
    assert [len(column(layout, layer, "xs")[0]) for layer in ("lanes", "crosswalks")] == [0, 0]


def test_v16_no_frames_are_refused():
    with pytest.raises(ValueError, match="frames is empty"):
        visualize(0, [])


def test_a_step_below_1_is_refused(frames):
    with pytest.raises(InvalidArgumentError, match="frame_step is 0"):
        visualize(0, frames, frame_step=0)


def test_without_bokeh_the_error_names_the_extra(frames, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("bokeh.") or name.endswith("visualizer.scene_page")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "bokeh", None)
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("viz"))):
        write_scene_page(tmp_path / "page.html", 0, frames)
    assert list(tmp_path.iterdir()) == []


@needs_bokeh
def test_v12_the_page_is_one_file_that_loads_nothing(frames, tmp_path):
    write_scene_page(tmp_path / "page.html", 3, frames)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<title>Scene 3</title>" in page
    assert re.findall(r"<(?:script|link|iframe)[^>]*\b(?:src|href)=", page) == []
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@needs_bokeh
def test_a_page_for_a_missing_folder_is_refused(frames, tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        write_scene_page(tmp_path / "nowhere" / "page.html", 0, frames)


def shown_by_browser(page, tmp_path):
    """Content of the page at each position of the slider, and again at the first."""
    path = tmp_path / "read.html"
    before, end, after = page.rpartition("</body>")
    path.write_text(before + READ_PAGE + end + after, "utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--virtual-time-budget=20000", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    (result,) = re.findall(r'<pre id="result">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    return json.loads(result)


def assert_shows(layer, elements):
    """Compare a layer in the browser with elements of a frame."""
    if not elements:
        assert layer["xs"] == [[]]
        return
    for name in ("color", "track_id", "agent_type", "prob", "legend_label"):
        if name in elements[0]._fields:
            as_shown = str if name == "track_id" else lambda value: value
            assert layer[name] == [as_shown(getattr(element, name)) for element in elements]
    for name in ("xs", "ys"):
        for seen, element in zip(layer[name], elements, strict=True):
            np.testing.assert_allclose(seen, getattr(element, name), atol=1e-3)


@pytest.mark.process
@needs_bokeh
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to run the scripts of the page")
@pytest.mark.parametrize("frame_step", [1, 2])
def test_v14_the_slider_shows_each_frame_in_a_browser(frames, tmp_path, frame_step):
    write_scene_page(tmp_path / "page.html", 0, frames, frame_step=frame_step)
    shown = shown_by_browser((tmp_path / "page.html").read_text("utf-8"), tmp_path)
    expected = [*frames[::frame_step], frames[0]]
    assert len(shown) == len(expected)
    for page, frame in zip(shown, expected, strict=True):
        layers, x = page["layers"], frame.ego.center_x
        assert_shows(layers["lanes"], frame.lanes)
        assert_shows(layers["agents"], frame.agents)
        assert_shows(layers["crosswalks"], [shape._replace(color="#B5B50D") for shape in frame.crosswalks])
        assert_shows(layers["ego"], [frame.ego._replace(color="#B53331")])
        for label in ("agent_trajectory", "ego_trajectory"):
            assert_shows(layers[label], [line for line in frame.trajectories if line.legend_label == label])
        assert len(layers["lane_boundaries"]["xs"]) == (2 * len(frame.lanes) or 1)
        for view, center, size in zip((page["x_view"], page["y_view"]), (x, 0), page["size"], strict=True):
            half = 50 * size / min(page["size"])  # 100 m along the shorter side
            assert view == pytest.approx([center - half, center + half] * 2)

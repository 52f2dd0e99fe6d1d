"""Vector samples as drawings: what is available is drawn, in its colour, at its place."""

from xml.etree import ElementTree

import numpy as np
import pytest

from l5kit.visualization.viewer.vector_drawing import draw_vector_sample

SVG = "{http://www.w3.org/2000/svg}"
LINE_M = [[0.0, 0.0, 0.0], [10.0, 0.0, 0.0], [20.0, 5.0, 0.0]]


def padded(lines, num_lines, num_points, num_columns=3):
    """Lines as an array (N, P, C) and what is available of it."""
    array = np.zeros((num_lines, num_points, num_columns), np.float32)
    available = np.zeros((num_lines, num_points), np.float32)
    for index, line in enumerate(lines):
        array[index, : len(line)] = np.asarray(line)[:, :num_columns]
        available[index, : len(line)] = 1
    return array, available


def make_sample(
    *, crosswalks=(), boundaries=(), midlines=(), agents=(), past_m=(), future_m=(), extent_m=(4.0, 2.0, 1.0)
):
    """A sample with some things available among more that are not."""
    sample = {"extent": np.array(extent_m, np.float32)}
    for name, lines in (("crosswalks", crosswalks), ("lanes", boundaries), ("lanes_mid", midlines)):
        sample[name], sample[f"{name}_availabilities"] = padded(lines, 4, 5)
    ways, known = padded(agents, 3, 4)
    sample["other_agents_polyline"], sample["other_agents_polyline_availability"] = ways, known.astype(bool)
    sample["all_other_agents_history_extents"] = np.tile(np.float32([6, 2]), (3, 4, 1))
    for name, positions_m in (("history", past_m), ("target", future_m)):
        array, available = padded([positions_m] if len(positions_m) else [], 1, 6, 2)
        sample[f"{name}_positions"], sample[f"{name}_availabilities"] = array[0], available[0]
    return sample


def draw(sample):
    """Elements of the drawing, by tag."""
    root = ElementTree.fromstring(draw_vector_sample(sample))
    assert root.tag == f"{SVG}svg"
    by_tag = {}
    for element in root:
        by_tag.setdefault(element.tag.removeprefix(SVG), []).append(element)
    return root, by_tag


def of_class(elements, kind):
    return [element for element in elements if element.get("class") == kind]


def points_of(element):
    return [tuple(map(float, pair.split(","))) for pair in element.get("points").split()]


def test_an_empty_sample_shows_the_target_only():
    root, by_tag = draw(make_sample())
    assert root.get("viewBox") == "-40.0 -40.0 80.0 80.0"
    assert {tag: len(elements) for tag, elements in by_tag.items()} == {"rect": 1, "polygon": 1}
    (target,) = of_class(by_tag["polygon"], "target")
    assert sorted(points_of(target)) == [(-2, -1), (-2, 1), (2, -1), (2, 1)]


def test_the_y_axis_points_up():
    _, by_tag = draw(make_sample(midlines=[LINE_M]))
    (lane,) = of_class(by_tag["polyline"], "lane")
    assert points_of(lane) == [(0, 0), (10, 0), (20, -5)]


@pytest.mark.parametrize(
    ("state", "tone"),
    [(-1, "#7b8492"), (0, "#7b8492"), (1, "#2e9e4f"), (2, "#d9a400"), (3, "#d93a2b")],
    ids=["no light", "unknown", "green", "yellow", "red"],
)
def test_midlines_have_the_colour_of_their_light(state, tone):
    _, by_tag = draw(make_sample(midlines=[LINE_M, [[x, y, state] for x, y, _ in LINE_M]]))
    lanes = of_class(by_tag["polyline"], "lane")
    assert [lane.get("stroke") for lane in lanes] == ["#7b8492", tone]


def test_everything_that_is_available_is_drawn_once():
    sample = make_sample(
        crosswalks=[LINE_M],
        boundaries=[LINE_M, LINE_M],
        midlines=[LINE_M] * 3,
        agents=[LINE_M, LINE_M[:1]],
        past_m=LINE_M,
        future_m=LINE_M[:2],
    )
    _, by_tag = draw(sample)
    counts = {kind: len(of_class(by_tag["polyline"], kind)) for kind in ("boundary", "lane", "past")}
    assert counts == {"boundary": 2, "lane": 3, "past": 2}
    counts = {kind: len(of_class(by_tag["polygon"], kind)) for kind in ("crosswalk", "agent", "target")}
    assert counts == {"crosswalk": 1, "agent": 2, "target": 1}
    assert [dot.get("fill") for dot in by_tag["circle"]] == ["#ff8c00"] * 3 + ["#d100d1"] * 2
    assert [(float(dot.get("cx")), float(dot.get("cy"))) for dot in by_tag["circle"]][:3] == [(0, 0), (10, 0), (20, -5)]


def test_boxes_of_agents_are_turned_by_their_heading():
    _, by_tag = draw(make_sample(agents=[[[10.0, 20.0, np.pi / 2]]]))
    (agent,) = of_class(by_tag["polygon"], "agent")
    corners = np.array(points_of(agent))
    np.testing.assert_allclose(corners.min(axis=0), [9, -23], atol=0.01)
    np.testing.assert_allclose(corners.max(axis=0), [11, -17], atol=0.01)


def test_an_agent_that_is_gone_now_is_left_out():
    sample = make_sample(agents=[LINE_M])
    sample["other_agents_polyline_availability"][0, 0] = False
    _, by_tag = draw(sample)
    assert of_class(by_tag["polygon"], "agent") == []
    assert "polyline" not in by_tag


@pytest.mark.filterwarnings("error")
def test_numbers_that_are_not_finite_are_left_out():
    broken = [[0.0, 0.0, 0.0], [np.nan, 1.0, 0.0], [5.0, np.inf, 0.0], [6.0, 6.0, 0.0]]
    content = draw_vector_sample(make_sample(midlines=[broken], past_m=broken, agents=[[[np.nan, 0.0, 0.0]]]))
    _, by_tag = draw(make_sample(midlines=[broken], past_m=broken))
    assert points_of(of_class(by_tag["polyline"], "lane")[0]) == [(0, 0), (6, -6)]
    assert len(by_tag["circle"]) == 2
    assert b"nan" not in content
    assert b"inf" not in content


def test_the_sample_is_not_changed_and_equal_samples_give_equal_bytes():
    sample = make_sample(midlines=[LINE_M], agents=[LINE_M], past_m=LINE_M)
    before = {name: array.copy() for name, array in sample.items()}
    assert draw_vector_sample(sample) == draw_vector_sample(sample)
    for name, array in before.items():
        np.testing.assert_array_equal(sample[name], array)

"""Layers of a page as columns, and packed."""

import math

import numpy as np
import pytest

from l5kit.visualization.visualizer.common import AgentVisualization, LaneVisualization, MovingAgentVisualization
from l5kit.visualization.visualizer.packed_layer import pack_layer
from l5kit.visualization.visualizer.visualizer import _visualization_list_to_dict

SQUARE = (np.array([0.0, 1, 1, 0]), np.array([0.0, 0, 1, 1]))
FAR_LINE = (np.array([5000.125, 5001]), np.array([-7000.0, -7001]))
NULL = LaneVisualization(np.empty(0), np.empty(0), "none")


def unpacked(layer, origin_m):
    """The elements of each frame, as the script of the page reads them."""
    frames = []
    for first, end in zip(layer.frame_starts[:-1], layer.frame_starts[1:], strict=True):
        elements = []
        for element in range(first, end):
            points = slice(*layer.shape_starts[layer.shapes[element] :][:2])
            values = {name: column.values[column.codes[element]] for name, column in layer.columns.items()}
            xs, ys = layer.xs[points].astype(float), layer.ys[points].astype(float)
            elements.append({"xs": (xs + origin_m[0]).tolist(), "ys": (ys + origin_m[1]).tolist(), **values})
        frames.append(elements)
    return frames


def test_elements_become_columns():
    lanes = [LaneVisualization(*SQUARE, "gray"), LaneVisualization(*FAR_LINE, "red")]
    columns = _visualization_list_to_dict(lanes, NULL)
    assert list(columns) == ["xs", "ys", "color"]
    assert columns["color"] == ["gray", "red"]
    assert [xs.tolist() for xs in columns["xs"]] == [[0, 1, 1, 0], [5000.125, 5001]]


def test_no_element_becomes_the_null_element():
    columns = _visualization_list_to_dict([], NULL)
    assert (columns["color"], len(columns["xs"]), len(columns["xs"][0])) == (["none"], 1, 0)


def test_elements_with_different_fields_are_refused():
    lanes = [LaneVisualization(*SQUARE, "gray"), AgentVisualization(*SQUARE, "gray", 1, "", 0.5)]
    with pytest.raises(ValueError, match="must have the same fields"):
        _visualization_list_to_dict(lanes, NULL)


def test_a_packed_layer_has_all_elements_of_all_frames():
    frames = [
        [LaneVisualization(*SQUARE, "gray"), LaneVisualization(*FAR_LINE, "red")],
        [],
        [LaneVisualization(*FAR_LINE, "gray")],
    ]
    square = {"xs": [0, 1, 1, 0], "ys": [0, 0, 1, 1]}
    line = {"xs": [5000.125, 5001], "ys": [-7000, -7001]}
    assert unpacked(pack_layer(frames, NULL, origin_m=(5000.0, -7000.0)), (5000.0, -7000.0)) == [
        [{**square, "color": "gray"}, {**line, "color": "red"}],
        [{"xs": [], "ys": [], "color": "none"}],
        [{**line, "color": "gray"}],
    ]


def test_a_shape_of_many_frames_is_stored_once():
    shapes = [LaneVisualization(np.array([1.0, 2, k]), np.array([3.0, 4, 5]), "gray") for k in (0, 1, 0, 1, 0)]
    layer = pack_layer([[shape] for shape in shapes], NULL, origin_m=(0.0, 0.0))
    assert len(layer.xs) == len(layer.ys) == 6
    assert layer.shapes.tolist() == [0, 1, 0, 1, 0]
    assert layer.columns["color"].values == ["gray"]


def test_agents_are_tuples_of_six_as_in_1_5_beside_which_stands_their_speed():
    agent = MovingAgentVisualization(*SQUARE, "gray", 2, "", 0.5)
    assert math.isnan(agent.speed_mps)
    agent.speed_mps = 7.0
    _, _, color, track_id, agent_type, prob = agent._replace(color="red")
    assert (color, track_id, agent_type, prob) == ("red", 2, "", 0.5)
    assert agent._replace(color="red").speed_mps == 7.0
    assert agent._fields == AgentVisualization._fields


def test_as_many_xs_as_ys_are_needed():
    with pytest.raises(ValueError, match="2 xs and 4 ys"):
        pack_layer([[LaneVisualization(FAR_LINE[0], SQUARE[1], "gray")]], NULL, origin_m=(0.0, 0.0))

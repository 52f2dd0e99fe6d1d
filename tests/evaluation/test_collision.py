"""Collisions of the AV with agents."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.metrics import CollisionType, detect_collision
from support.logs import make_agents

BOX_DTYPE = np.dtype([("centroid", "f8", 2), ("extent", "f4", 3), ("yaw", "f4"), ("track_id", "u8")])
EGO = np.array([4.87, 1.85])
FRONT, REAR, SIDE = CollisionType.FRONT, CollisionType.REAR, CollisionType.SIDE


def boxes_of(*boxes):
    """Agents 1, 2, ... from (x, y, length, width, yaw)."""
    rows = [((x, y), (length, width, 1.5), yaw, track) for track, (x, y, length, width, yaw) in enumerate(boxes, 1)]
    return np.array(rows, BOX_DTYPE)


def type_of(*boxes, centroid=(0.0, 0.0), yaw=0.0):
    found = detect_collision(np.array(centroid), yaw, EGO, boxes_of(*boxes))
    return found and found[0]


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        pytest.param([(4.3, 0, 4, 1.8, 0)], FRONT, id="ahead"),
        pytest.param([(-4.3, 0, 4, 1.8, 0)], REAR, id="behind"),
        pytest.param([(0, 1.8, 4, 1.8, 0)], SIDE, id="left"),
        pytest.param([(0, -1.8, 4, 1.8, 0)], SIDE, id="right"),
        pytest.param([(4.2, 1.5, 4, 1.8, 0)], FRONT, id="front left corner"),
        pytest.param([(4.5, 0, 4, 1.8, 0)], None, id="just ahead"),
        pytest.param([(0, 0, 10, 5, 0)], SIDE, id="covered by the agent"),
        pytest.param([(0, 0, 1, 1, 0)], FRONT, id="agent inside"),
        pytest.param([(4.435, 0, 4, 1.8, 0)], FRONT, id="touching"),
        pytest.param([(-4.5, 0, 4, 1.8, 0)], None, id="just behind"),
        pytest.param([(0, 1.86, 4, 1.8, 0)], None, id="just left"),
        pytest.param([(0, -1.86, 4, 1.8, 0)], None, id="just right"),
        pytest.param([(1.9, 1.6, 4, 0, 3 * math.pi / 4)], None, id="a line past a corner"),
        pytest.param([(1.9, 1.3, 4, 0, 3 * math.pi / 4)], FRONT, id="a line over a corner"),
        pytest.param([(0, 0, 6, 1, math.pi / 2)], SIDE, id="crossing"),
        pytest.param([(-4.3, 0, 4, 1.8, 0), (4.3, 0, 4, 1.8, 0)], REAR, id="the first decides"),
        pytest.param([(100, 0, 4, 1.8, 0), (4.3, 0, 4, 1.8, 0)], FRONT, id="far ones are passed over"),
        pytest.param([(4.2, 2.2, 4, 1.8, math.pi / 4)], None, id="in range, boxes apart"),
        pytest.param([(3.0, 0, 0, 1.8, 0)], None, id="a line ahead"),
        pytest.param([(2.0, 0, 0, 1.8, 0)], FRONT, id="a line inside"),
        pytest.param([], None, id="no agents"),
    ],
)
def test_known_collisions(boxes, expected):
    assert type_of(*boxes) == expected


@pytest.mark.parametrize(("x", "y", "expected"), [(4, 0, FRONT), (-4, 0, REAR), (0, 2, SIDE), (0, -2, SIDE)])
def test_a_side_that_lies_on_that_of_an_agent_is_touched_all_along(x, y, expected):
    found = detect_collision(np.zeros(2), 0.0, np.array([4.0, 2.0]), boxes_of((x, y, 4, 2, 0)))
    assert found is not None
    assert found[0] == expected


def test_track_ids_keep_their_type_and_the_first_agent_in_range_decides():
    agents = boxes_of((500.0, 0, 4, 2, 0), (0.5, 0.2, 4.87, 1.85, 1.0), (0.5, 0.2, 4.87, 1.85, 1.0))
    found = detect_collision(np.array([0.5, 0.2]), 1.0, EGO, agents)
    assert found == (SIDE, 2)
    assert isinstance(found[1], np.uint64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_identical_boxes_touch_along_their_longest_sides(dtype):
    """Of each side all lies on the edge of the other box: the first of the longest decides."""
    agents = boxes_of((0, 0, 5, 2, 1.0))
    for yaw in (1.0, dtype(1.0), np.array([1.0], dtype)):
        found = detect_collision(np.zeros(2), yaw, np.array([5.0, 2.0], dtype), agents)
        assert found == (SIDE, 1)


@pytest.mark.parametrize(
    "yaw", [0.3, np.float32(0.3), np.array(0.3), np.array([0.3]), np.array([0.3], np.float32), [0.3]]
)
def test_a_heading_is_a_number_or_of_shape_1(yaw):
    found = detect_collision(np.zeros(2), yaw, EGO, boxes_of((4.0, 1.0, 4, 1.8, 0.3)))
    assert found == (FRONT, 1)


@pytest.mark.parametrize(
    "hide",
    [
        pytest.param({"extent": 0}, id="no size"),
        pytest.param({"label_probabilities": -1}, id="negative probability"),
        pytest.param({"extent": 0, "label_probabilities": -1}, id="both"),
    ],
)
def test_m4_agents_that_a_simulation_has_hidden_do_not_collide(hide):
    agents = make_agents({})
    assert detect_collision(np.zeros(2), 0.0, EGO, agents) is not None
    for field, value in hide.items():
        agents[field] = value
    assert detect_collision(np.zeros(2), 0.0, EGO, agents) is None


@given(
    x=st.floats(-6, 6),
    y=st.floats(-4, 4),
    yaw=st.floats(-3, 3),
    turn=st.floats(-3, 3),
    shift=st.tuples(st.floats(-50, 50), st.floats(-50, 50)),
)
def test_moving_and_turning_the_world_changes_nothing(x, y, yaw, turn, shift):
    """Boxes that only just touch are left out: there rounding decides."""
    grown, shrunk = (type_of((x, y, 4 * scale, 1.8 * scale, yaw)) for scale in (1.001, 0.999))
    if grown != shrunk:
        return
    cos, sin = math.cos(turn), math.sin(turn)
    moved = (cos * x - sin * y + shift[0], sin * x + cos * y + shift[1], 4, 1.8, yaw + turn)
    assert type_of(moved, centroid=shift, yaw=turn) == grown


@given(x=st.floats(-6, 6), y=st.floats(-4, 4), yaw=st.floats(-3, 3), length=st.floats(0.1, 8), width=st.floats(0.1, 4))
def test_collisions_and_types_are_those_of_shapely(x, y, yaw, length, width):
    """Boxes that only just touch, or cross two sides equally, are left out: there rounding decides."""
    shapely = pytest.importorskip("shapely")
    box = tuple(float(np.float32(value)) for value in (length, width, yaw))

    def corners(centroid, yaw_rad, extent):
        along = np.array([math.cos(yaw_rad), math.sin(yaw_rad)]) * extent[0] / 2
        across = np.array([-math.sin(yaw_rad), math.cos(yaw_rad)]) * extent[1] / 2
        return [centroid + a * along + b * across for a, b in ((1, 1), (1, -1), (-1, -1), (-1, 1))]

    front_left, front_right, rear_right, rear_left = corners(np.zeros(2), 0.0, EGO)
    ego = shapely.Polygon([front_left, front_right, rear_right, rear_left])
    agent = shapely.Polygon(corners(np.array([x, y]), box[2], box[:2]))
    overlap = ego.intersection(agent).area
    found = type_of((x, y, *box))
    if not ego.intersects(agent):
        assert found is None
    elif overlap > 1e-6:
        sides = [(front_left, front_right), (rear_right, rear_left), (front_left, rear_left), (front_right, rear_right)]
        lengths = [shapely.LineString(side).intersection(agent).length for side in sides]
        best = sorted(lengths)[-2:]
        if best[1] == 0 or best[1] - best[0] > 1e-6:
            assert found == (FRONT, REAR, SIDE, SIDE)[int(np.argmax(lengths))]


@pytest.mark.parametrize(
    ("centroid", "extent", "agents", "message"),
    [
        pytest.param(np.zeros(3), EGO, boxes_of(), "pred_centroid has shape", id="three coordinates"),
        pytest.param(np.zeros(2), EGO[:1], boxes_of(), "pred_extent has shape", id="length only"),
        pytest.param([np.nan, 0], EGO, boxes_of(), "pred_centroid is", id="a position that is not known"),
        pytest.param(
            np.zeros(2), EGO, boxes_of((0, 0, 4, 2, np.nan)), "track 1 of target_agents", id="a heading that is not"
        ),
        pytest.param(np.zeros(2), EGO, np.zeros((3, 2)), "target_agents must be", id="plain array"),
        pytest.param(
            np.zeros(2), EGO, boxes_of()[["centroid", "extent"]], "without yaw, track_id", id="fields missing"
        ),
        pytest.param(np.zeros(2), EGO, boxes_of((0, 0, 1, 1, 0))[0], "target_agents must be", id="one record"),
    ],
)
def test_wrong_arguments_are_named(centroid, extent, agents, message):
    with pytest.raises(InvalidArgumentError, match=message):
        detect_collision(centroid, 0.0, extent, agents)


@pytest.mark.parametrize("yaw", [np.zeros(2), np.zeros((1, 1)), np.nan])
def test_wrong_headings_are_named(yaw):
    with pytest.raises(InvalidArgumentError, match="pred_yaw"):
        detect_collision(np.zeros(2), yaw, EGO, boxes_of((0, 0, 4, 2, 0)))

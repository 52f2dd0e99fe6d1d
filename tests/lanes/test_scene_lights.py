"""Lights of scenes: which lanes have them, their ranks in all frames, and the lights of lines."""

import numpy as np

from l5kit.lanes.red_lights import (
    RED,
    YELLOW,
    LaneColors,
    lights_of_lines,
    lights_of_scenes,
    rank_of_line,
    rank_of_lit_lane,
)

COLORS = LaneColors(
    scene_starts=np.array([0, 2, 3, 5]),
    starts=np.array([0, 2, 3, 3, 4, 6]),
    lanes=np.array([7, 2, 7, 2, 4, 4]),
    ranks=np.array([RED, YELLOW, YELLOW, RED, YELLOW, RED]),
)
"""Three scenes of 2, 1 and 2 frames: lanes 2 and 7, none, and lanes 2 and 4, which is lit twice in the last frame."""


def test_a_scene_has_the_lanes_that_are_ever_lit():
    lights = lights_of_scenes(COLORS)
    assert lights.lane_starts.tolist() == [0, 2, 2, 4]
    assert lights.lanes.tolist() == [2, 7, 2, 4]
    ranks = [lights.ranks[slice(*bounds)].tolist() for bounds in zip(lights.starts, lights.starts[1:], strict=False)]
    assert ranks == [[YELLOW, RED], [0, YELLOW], [], [RED, 0], [0, RED]]


def test_no_lights():
    none = np.zeros(0, np.int64)
    lights = lights_of_scenes(LaneColors(np.array([0, 3]), np.zeros(4, np.int64), none, none))
    assert (lights.lanes.size, lights.ranks.size, lights.starts.tolist()) == (0, 0, [0, 0, 0, 0])
    lines = np.array([[-1, -1], [3, -1]])
    assert lights_of_lines(lights, np.zeros(2, np.int64), lines).tolist() == [[-1, -1], [-1, -1]]


def test_lines_have_the_lights_of_their_scene():
    lines = np.array([[7, 2], [-1, 7], [4, 2], [-1, 2], [2, 4], [-1, 7]])
    found = lights_of_lines(lights_of_scenes(COLORS), np.array([0, 0, 0, 1, 2, 2]), lines)
    assert found.tolist() == [[1, 0], [-1, 1], [-1, 0], [-1, -1], [0, 1], [-1, -1]]


def test_a_light_that_a_scene_does_not_have_is_none():
    ranks = np.array([YELLOW, RED], np.int8)
    assert [rank_of_lit_lane(np.array([2, 7]), ranks, lane) for lane in (1, 2, 5, 7, 8)] == [0, YELLOW, 0, RED, 0]
    assert rank_of_line(np.array([[0, 1], [0, -1], [-1, 2]]), 0, ranks) == RED
    assert [rank_of_line(np.array([[0, 1], [0, -1], [-1, 2]]), piece, ranks) for piece in (1, 2)] == [YELLOW, 0]

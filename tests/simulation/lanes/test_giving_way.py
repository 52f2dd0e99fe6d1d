"""Giving way at a crossing, in cases that can be computed by hand."""

import numpy as np
import pytest

from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.simulation.drivers.intelligent import POPULATIONS, IntelligentDriver, intelligent_traffic
from l5kit.simulation.engine.scene_simulation import SceneSimulation
from l5kit.simulation.lanes.courses import COURSE_POINTS, make_courses
from l5kit.simulation.lanes.giving_way import _gap_to_give_way
from l5kit.simulation.lanes.lane_following import Styles
from l5kit.simulation.lanes.leaders import OBJECT_FIELDS, write_object
from support.crossing_worlds import (
    always_on,
    av_boxes_of,
    batch_of,
    boxes_of,
    crossing_map,
    lit_crossing_map,
    moving,
)

NORTH = np.pi / 2
YIELDING = POPULATIONS["yielding"]


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    return crossing_map(tmp_path_factory.mktemp("crossing"))


def driven(batch, driver=YIELDING):
    return SceneSimulation(batch, agents=intelligent_traffic(driver), strict=True).run().records(0)


def frames_in_contact(first, second):
    there = np.isfinite(first).all(axis=1) & np.isfinite(second).all(axis=1)
    return [frame for frame in np.flatnonzero(there).tolist() if boxes_overlap(first[frame], second[frame])]


def speeds_of(boxes):
    return np.linalg.norm(np.diff(boxes[:, :2], axis=0), axis=1) / 0.1


def test_it_lets_the_av_pass_that_the_published_driver_hits(road):
    """Both would be at the crossing after about 5 s."""
    batch = batch_of(road, moving((0.0, -42.0), 8.0, NORTH), [moving((-45.0, 0.0), 8.0)])
    records = driven(batch, IntelligentDriver())
    assert frames_in_contact(boxes_of(records, 1), av_boxes_of(records))
    records = driven(batch)
    boxes = boxes_of(records, 1)
    assert not frames_in_contact(boxes, av_boxes_of(records))
    assert speeds_of(boxes).min() < 6.0
    assert boxes[-1, 0] > 10.0  # and continues after it


@pytest.mark.parametrize("speed_mps", [0.0, 8.0])
def test_who_is_alone_drives_as_the_published_driver_with_its_parameters(road, speed_mps):
    """No vehicle waits for an AV that stands before the crossing, or has passed it long before."""
    batch = batch_of(road, moving((0.0, -12.0), speed_mps, NORTH), [moving((-60.0, 0.0), 8.0)])
    alone = driven(batch, IntelligentDriver(params=YIELDING.params))
    assert boxes_of(driven(batch), 1).tobytes() == boxes_of(alone, 1).tobytes()


def test_who_comes_long_before_the_other_goes_ahead(road):
    """It has left the crossing after 2 s, when the AV is still 40 m away."""
    batch = batch_of(road, moving((0.0, -60.0), 8.0, NORTH), [moving((-10.0, 0.0), 8.0)])
    boxes = boxes_of(driven(batch), 1)
    assert speeds_of(boxes).min() > 7.5


def test_it_waits_for_a_pedestrian_who_crosses(road):
    walker = moving((40.0, -7.0), 1.4, NORTH, label="PEDESTRIAN")
    batch = batch_of(road, moving((0.0, -80.0), 0.0, NORTH), [moving((0.0, 0.0), 9.0), walker])
    records = driven(batch)
    assert not frames_in_contact(boxes_of(records, 1), boxes_of(records, 2))
    assert speeds_of(boxes_of(records, 1)).min() < 5.0
    published = driven(batch, IntelligentDriver())
    assert frames_in_contact(boxes_of(published, 1), boxes_of(published, 2))


def test_of_two_who_both_give_way_the_first_goes_first(road):
    """The one to the north is nearer by 8 m."""
    agents = [moving((-45.0, 0.0), 8.0), moving((0.0, -37.0), 8.0, NORTH)]
    batch = batch_of(road, moving((0.0, -80.0), 0.0, NORTH), agents)
    records = driven(batch)
    first, second = boxes_of(records, 2), boxes_of(records, 1)
    assert not frames_in_contact(first, second)
    assert speeds_of(first).min() > 7.5
    passed = [int(np.argmax(boxes[:, axis] > 0.0)) for boxes, axis in ((first, 1), (second, 0))]
    assert 0 < passed[0] < passed[1]


def test_nobody_waits_for_ever_where_two_stand_at_a_crossing(road):
    agents = [moving((-6.0, 0.0), 1.0), moving((0.0, -6.0), 1.0, NORTH)]
    records = driven(batch_of(road, moving((0.0, -80.0), 0.0, NORTH), agents))
    assert boxes_of(records, 1)[-1, 0] > 20.0
    assert boxes_of(records, 2)[-1, 1] > 20.0
    assert not frames_in_contact(boxes_of(records, 1), boxes_of(records, 2))


def test_nobody_waits_for_one_whom_a_red_light_holds_back(tmp_path):
    """It would be at the crossing first, and passes where the light is dark."""
    road, far = lit_crossing_map(tmp_path), moving((-80.0, 0.0), 0.0)
    crosses, comes = moving((-45.0, 0.0), 8.0), moving((0.0, -42.0), 8.0, NORTH)
    red = {"faces": always_on("red", "lamp")}
    alone = boxes_of(driven(batch_of(road, far, [crosses], **red)), 1)
    held = driven(batch_of(road, far, [crosses, comes], **red))
    assert boxes_of(held, 1).tobytes() == alone.tobytes()
    assert boxes_of(held, 2)[-1, 1] < -12.0
    free = driven(batch_of(road, far, [crosses, comes]))
    assert boxes_of(free, 2)[-1, 1] > 20.0
    assert speeds_of(boxes_of(free, 1)).min() < speeds_of(alone).min() - 1.0


def line_of(start, yaw_rad, *, num_straight=COURSE_POINTS, turn_rad=0.0):
    """Points 2 m apart that go straight on, then turn within 8 m, and go straight on."""
    turns_rad = turn_rad * np.clip((np.arange(COURSE_POINTS - 1) - num_straight + 1) / 4, 0.0, 1.0)
    steps_m = 2.0 * np.column_stack([np.cos(yaw_rad + turns_rad), np.sin(yaw_rad + turns_rad)])
    return np.concatenate([[start], start + np.cumsum(steps_m, axis=0)])


@pytest.mark.parametrize(
    "other_m",
    [
        pytest.param(line_of((-24.0, 0.0), 0.0), id="straight on"),
        pytest.param(line_of((-24.0, 0.0), 0.0, num_straight=9, turn_rad=-NORTH), id="to the right into the same road"),
    ],
)
def test_who_turns_left_waits_for_oncoming_ones_who_come_later(other_m):
    """It is 4 m nearer, and would go first if both went straight on."""
    left_m = line_of((20.0, 4.0), np.pi, num_straight=8, turn_rad=NORTH)
    courses, objects = make_courses(2), np.empty((2, OBJECT_FIELDS))
    courses.counts[:], courses.reaches_m[:], courses.sizes_m[:] = COURSE_POINTS, 60.0, (2.0, 1.0)
    courses.speeds_mps[:], courses.wanted_mps[:] = 8.0, 8.0
    for index, (points_m, yaw_rad) in enumerate(((left_m, np.pi), (other_m, 0.0))):
        courses.points_m[index] = points_m
        box, velocity_mps = np.array([*points_m[0], yaw_rad, 4.0, 2.0]), np.array([8.0 * np.cos(yaw_rad), 0.0])
        write_object(objects, index, box, velocity_mps)
    styles = Styles(
        params=np.array([YIELDING.params.kernel_parameters]),
        limit_parts=np.ones(1),
        bends_mps=np.empty((1, 0)),
        of_vehicles=np.zeros(2, np.int64),
        step_s=0.1,
    )
    of_left, of_other = (_gap_to_give_way(index, 2, courses, objects, styles, np.ones(1, np.bool_)) for index in (0, 1))
    assert 5.0 < of_left < 25.0
    assert of_other == np.inf

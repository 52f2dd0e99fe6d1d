"""Counts of synthetic traffic: colliding and off-road tracks and rows, selection of agents, and runs of scenes."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.evaluation.driving.scene_states import read_ego_states, read_road_users
from l5kit.evaluation.realism.traffic_counts import FEATURES, TrafficCounts, count_traffic, count_values
from l5kit.evaluation.realism.traffic_values import measure_traffic
from support.realism import scene_of_cars, straight_car

PEDESTRIAN = 14


def sideways(num_frames, y_m):
    poses = straight_car(num_frames, start_m=(20, 0), speed_mps=0)
    poses[:, 1] = y_m
    return poses


def test_events_of_a_scene(road_edges):
    """One car leaves the road and comes back and leaves it again, one never was on it, two meet for two frames."""
    leaves = sideways(6, [0, -3, -3, 0, -3, 0])
    never_on = sideways(6, [-20] * 6)
    stands, meets = straight_car(6, start_m=(60, 4), speed_mps=0), straight_car(6, start_m=(60, 0), speed_mps=0)
    meets[2:4, 1] = 2.5
    counts = count_traffic([scene_of_cars([leaves, never_on, stands, meets])], edges=road_edges)
    assert counts.events.tolist() == [[2, 4, 1, 3 + 6]]
    assert counts.chances.tolist() == [[4, 24, 4, 24]]
    assert [cells.sum() for cells in counts.cells] == [24] * 6


def test_who_counts():
    cars = [straight_car(3), straight_car(3, start_m=(0, 9)), straight_car(3, start_m=(0, 18))]
    scene = scene_of_cars(cars, labels=[3, PEDESTRIAN, 3])
    assert count_traffic([scene]).chances[0].tolist() == [2, 6, 0, 0]
    assert count_traffic([scene], groups=[RoadUserGroup.VULNERABLE]).chances[0, 0] == 1
    assert count_traffic([scene], groups=list(RoadUserGroup)).chances[0, 0] == 3
    of_tracks = count_traffic([scene, scene], tracks=[np.array([30, 99], np.uint64), np.array([], np.uint64)])
    assert of_tracks.chances[:, 0].tolist() == [1, 0]
    with pytest.raises(InvalidArgumentError, match="one array of ids for each of 1 scenes"):
        count_traffic([scene], tracks=[])


def test_which_track_of_several_counts():
    """Only the second car is fast; the pedestrian between them has an index but does not count."""
    cars = [
        straight_car(3, speed_mps=1),
        straight_car(3, start_m=(0, 9)),
        straight_car(3, start_m=(0, 18), speed_mps=30),
    ]
    scene = scene_of_cars(cars, labels=[3, PEDESTRIAN, 3])
    counts = count_traffic([scene], tracks=[[30]])
    assert np.flatnonzero(counts.cells[0][0]).tolist() == FEATURES[0].cells_of(np.array([30.0])).tolist()


def test_a_scene_alone_counts_as_among_others():
    rng = np.random.default_rng(0)
    scenes = []
    for num_frames in rng.integers(2, 12, 40):
        cars = [straight_car(num_frames, start_m=rng.uniform(0, 40, 2), speed_mps=rng.uniform(0, 9)) for _ in range(4)]
        scenes.append(scene_of_cars(cars))
    together = count_traffic(scenes)
    alone = TrafficCounts.joined([count_traffic([scene]) for scene in scenes])
    for first, second in zip(
        (*together.cells, together.events, together.chances), (*alone.cells, alone.events, alone.chances), strict=True
    ):
        assert_array_equal(first, second)


def test_scenes_without_anybody():
    nobody = scene_of_cars([np.full((3, 3), np.nan)])
    counts = count_traffic([nobody, scene_of_cars([straight_car(3)])])
    assert counts.chances[:, 1].tolist() == [0, 3]
    assert count_traffic([]).num_scenes == 0


def test_counts_that_do_not_fit_are_refused():
    counts = count_traffic([scene_of_cars([straight_car(3)])])
    with pytest.raises(InvalidArgumentError, match="cells must have the shapes"):
        dataclasses.replace(counts, cells=counts.cells[:-1])
    scene = scene_of_cars([straight_car(3)])
    users = read_road_users([scene, scene])
    values = measure_traffic(read_ego_states([scene, scene]), users, is_subject=np.ones(len(users), np.bool_))
    with pytest.raises(InvalidArgumentError, match="values of scene 1"):
        count_values(values, num_scenes=1)

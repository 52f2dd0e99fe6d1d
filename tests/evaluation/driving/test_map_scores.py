"""Drivable surface, driving direction and speed limit on a made road (see ``make_road_map``), which is 8 m wide."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.evaluation.driving.lane_positions import find_lane_positions
from l5kit.evaluation.driving.map_scores import (
    drivable_area_compliance,
    driving_direction_compliance,
    find_distances_off_road,
    find_progress_along_lanes,
    find_speed_excess,
    limits_of_lanes,
    speed_limit_compliance,
    sum_over_last_second,
)
from support.driving import drive_along, stacked, straight_drive

ROUNDED_M = 0.02


@pytest.mark.parametrize(
    ("position_m", "yaw_rad", "distance_m", "score"),
    [
        pytest.param((20, 0), 0.0, 0.0, 1.0, id="in its lane"),
        pytest.param((20, 2), 0.0, 0.0, 1.0, id="across two lanes"),
        pytest.param((20, -1.25), 0.0, 0.25, 1.0, id="a quarter of a metre off"),
        pytest.param((20, -1.35), 0.0, 0.35, 0.0, id="more than 0.3 m off"),
        pytest.param((52, -1.35), 0.0, 0.0, 1.0, id="on a crosswalk"),
        pytest.param((109, 3), 0.6, 0.0, 1.0, id="between the lanes of the junction"),
        pytest.param((20, -20), 0.0, np.inf, 0.0, id="in the fields"),
    ],
)
def test_drivable_area(road_map, position_m, yaw_rad, distance_m, score):
    states = drive_along([(20, 0), position_m], [0.0, yaw_rad])
    distances_m = find_distances_off_road(states, road_map)
    assert_allclose(distances_m[0], [0, distance_m], atol=ROUNDED_M)
    assert drivable_area_compliance(distances_m) == score


@pytest.mark.parametrize(
    ("drive", "score"),
    [
        pytest.param(straight_drive(40, start_m=(20, 0)), 1.0, id="forward"),
        pytest.param(straight_drive(40, start_m=(20, 0), speed_mps=-1.5), 1.0, id="rolls back slowly"),
        pytest.param(straight_drive(40, start_m=(60, 0), speed_mps=-4.0), 0.5, id="drives back"),
        pytest.param(straight_drive(40, start_m=(60, 0), speed_mps=-7.0), 0.0, id="drives back fast"),
        pytest.param(straight_drive(40, start_m=(60, 0), yaw_rad=np.pi), 0.0, id="wrong way"),
        pytest.param(straight_drive(5, start_m=(60, 0), speed_mps=-4.0), 1.0, id="drives back for a moment"),
        pytest.param(straight_drive(40, start_m=(60, -20), yaw_rad=np.pi), 1.0, id="off the lanes"),
    ],
)
def test_driving_direction(road_map, drive, score):
    places = find_lane_positions(drive, road_map)
    sums_m = sum_over_last_second(find_progress_along_lanes(drive, road_map, places), drive)
    assert driving_direction_compliance(sums_m) == score


def test_the_frame_of_another_lane_has_no_progress(road_map):
    drive = drive_along([[98, 0], [99, 0], [101, 0], [102, 0], [102, 9]], [0] * 5)
    found_m = find_progress_along_lanes(drive, road_map, find_lane_positions(drive, road_map))
    assert_allclose(found_m, [[0, 1, 0, 1, 0]], atol=ROUNDED_M)


def test_a_second_is_eleven_values_at_ten_hertz():
    drive = straight_drive(13)
    assert_array_equal(sum_over_last_second(np.ones((1, 13)), drive)[0], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 11])


def test_frames_that_are_not_there_have_no_sum():
    drives = stacked(straight_drive(3), straight_drive(1))
    assert_array_equal(sum_over_last_second(np.ones((2, 3)), drives), [[1, 2, 3], [1, 0, 0]])


@pytest.mark.parametrize(
    ("smallest_sum_m", "score"),
    [(1.0, 1.0), (-1.99, 1.0), (-2.0, 0.5), (-5.99, 0.5), (-6.0, 0.0)],
)
def test_score_of_the_way_back(smallest_sum_m, score):
    assert driving_direction_compliance(np.array([[3.0, smallest_sum_m]])) == score


@pytest.mark.parametrize(
    ("drive", "score"),
    [
        pytest.param(straight_drive(11, speed_mps=10.0, start_m=(20, 0)), 1.0, id="as fast as allowed"),
        # 11 values of 1 m/s too much, 0.1 s each, of 2.23 m/s x 1 s
        pytest.param(straight_drive(11, speed_mps=11.0, start_m=(20, 0)), 1 - 1.1 / 2.23, id="1 m/s too fast"),
        pytest.param(straight_drive(11, speed_mps=15.0, start_m=(20, 0)), 0.0, id="5 m/s too fast"),
        pytest.param(straight_drive(11, speed_mps=15.0, start_m=(0, -20)), 1.0, id="off the lanes"),
        pytest.param(
            straight_drive(11, speed_mps=15.0, start_m=(120, 30), yaw_rad=np.pi / 2), 1.0, id="no limit known"
        ),
        pytest.param(straight_drive(5, speed_mps=15.0, start_m=(105, 0)), 1.0, id="junction with a faster road behind"),
        pytest.param(straight_drive(1), 1.0, id="no duration"),
    ],
)
def test_speed_limit(road_map, drive, score):
    limits_mps = limits_of_lanes(road_map, find_lane_positions(drive, road_map).lanes)
    assert_allclose(speed_limit_compliance(find_speed_excess(drive, limits_mps), drive), score, atol=1e-9)


def test_a_batch_has_the_scores_of_its_scenes(road_map):
    drives = [
        straight_drive(30, speed_mps=10.5, start_m=(20, 0)),
        straight_drive(12, speed_mps=-4.0, start_m=(50, -1.4)),
    ]
    batch = stacked(*drives)

    def scores(states):
        places = find_lane_positions(states, road_map)
        excess_mps = find_speed_excess(states, limits_of_lanes(road_map, places.lanes))
        sums_m = sum_over_last_second(find_progress_along_lanes(states, road_map, places), states)
        return np.stack(
            [
                drivable_area_compliance(find_distances_off_road(states, road_map)),
                driving_direction_compliance(sums_m),
                speed_limit_compliance(excess_mps, states),
            ]
        )

    assert_allclose(scores(batch), np.concatenate([scores(drive) for drive in drives], axis=1), rtol=1e-12)
    assert scores(batch)[:2].tolist() == [[1, 0], [1, 0.5]]

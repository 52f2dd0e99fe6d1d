"""Feature values of synthetic traffic: motion, neighbours, and positions on the road."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.scene_states import read_ego_states, read_road_users
from l5kit.evaluation.realism.traffic_values import measure_traffic
from support.realism import scene_of_cars, straight_car

TIMES_S = 0.1 * np.arange(30)
ROUNDED = 1e-5
NAN_POSE = (np.nan, np.nan, np.nan)


def values_of(*scenes, edges=None, **options):
    users = read_road_users(scenes)
    is_subject = np.ones(len(users), np.bool_)
    return measure_traffic(read_ego_states(scenes), users, is_subject=is_subject, edges=edges, **options)


def car_along(x_m, y_m=0.0, yaw_rad=0.0):
    return np.column_stack(np.broadcast_arrays(x_m, y_m, yaw_rad))


def test_motion_of_a_car_that_brakes():
    values = values_of(scene_of_cars([car_along(20 * TIMES_S - TIMES_S**2)]))
    inner = slice(10, -10)  # where differences reach five frames to both sides, twice
    assert_allclose(values.speeds_mps[inner], 20 - 2 * TIMES_S[inner], atol=1e-9)
    assert_allclose(values.accelerations_mps2[inner], -2.0, atol=1e-9)
    assert_allclose(values.speeds_mps[0], 20 - 0.5, atol=1e-9)
    assert_allclose(values.yaw_rates_radps, 0.0)


@pytest.mark.parametrize("rate_radps", [0.8, -0.8])
def test_yaw_rate_of_a_car_that_turns_past_half_a_circle(rate_radps):
    yaws_rad = 2.0 * np.sign(rate_radps) + rate_radps * TIMES_S
    wrapped = (yaws_rad + np.pi) % (2 * np.pi) - np.pi
    assert (np.abs(np.diff(wrapped)) > 6).any()
    values = values_of(scene_of_cars([car_along(5 * np.cos(yaws_rad), 5 * np.sin(yaws_rad), wrapped)]))
    assert_allclose(values.yaw_rates_radps, rate_radps, atol=ROUNDED)


def test_tracks_do_not_mix_and_gaps_are_bridged():
    slow, fast = straight_car(20, speed_mps=2.0), straight_car(20, start_m=(0, 50), speed_mps=9.0)
    slow[5:15] = NAN_POSE
    scene = scene_of_cars([slow, fast])
    values = values_of(scene, scene)
    for number, speed_mps in ((0, 2.0), (1, 9.0)):
        assert_allclose(values.speeds_mps[values.tracks == number], speed_mps, atol=1e-9)
    assert np.bincount(values.scenes).tolist() == [30, 30]
    assert_allclose(values.accelerations_mps2, 0.0, atol=1e-9)


def test_the_motion_of_a_single_row_is_not_known():
    short = straight_car(3)
    short[1:] = NAN_POSE
    values = values_of(scene_of_cars([short, straight_car(3, start_m=(0, 9))]))
    assert_array_equal(np.isnan(values.speeds_mps), values.tracks == 0)
    assert_array_equal(np.isnan(values.yaw_rates_radps), values.tracks == 0)
    assert_array_equal(np.isnan(values.accelerations_mps2), values.tracks == 0)
    assert np.isfinite(values.nearest_gaps_m).all()


def test_a_car_behind_another():
    """Boxes are 4 m long: 16 m between the centres are 12 m from box to box, closed at 10 - 4 m/s."""
    values = values_of(scene_of_cars([straight_car(2), straight_car(2, start_m=(16, 0), speed_mps=4.0)]))
    assert_allclose(values.nearest_gaps_m, [12, 12, 12 - 0.6, 12 - 0.6])
    assert_allclose(values.times_to_collision_s, [2.0, 5.0, 1.9, 5.0])
    assert not values.is_colliding.any()


@pytest.mark.parametrize(
    ("other_m", "other_mps", "time_s"),
    [
        pytest.param((-16, 0), 20.0, 5.0, id="who comes from behind"),
        pytest.param((9, 9), 0.0, 5.0, id="who is more than 30 degrees off the heading"),
        pytest.param((30, 3), 0.0, 5.0, id="whom it will pass"),
        pytest.param((84, 0), -10.0, 4.0, id="who comes"),
        pytest.param((94, 0), 0.0, 5.0, id="who is farther than 5 s"),
    ],
)
def test_time_to_collision_of_a_car_of_10_mps_with_one(other_m, other_mps, time_s):
    other = straight_car(2, start_m=other_m, speed_mps=other_mps)
    assert_allclose(values_of(scene_of_cars([straight_car(2), other])).times_to_collision_s[0], time_s)


def test_who_stands_has_no_time_to_collision():
    values = values_of(scene_of_cars([straight_car(2, speed_mps=0.4), straight_car(2, start_m=(4.5, 0), speed_mps=0)]))
    assert_array_equal(values.times_to_collision_s, 5.0)


def test_the_av_is_somebody_to_be_near_to():
    """Its box is 4.87 m long and stationary."""
    values = values_of(scene_of_cars([straight_car(2)], ego_m=(20.0, 0.0)))
    assert_allclose(values.nearest_gaps_m, [20 - 2 - 2.435, 20 - 2 - 2.435 - 1])
    assert_allclose(values.times_to_collision_s, [1.5565, 1.4565])


def test_nobody_near():
    values = values_of(scene_of_cars([straight_car(2), straight_car(2, start_m=(0, 42.1))]))
    assert_array_equal(values.nearest_gaps_m, 40.0)
    assert_array_equal(values.times_to_collision_s, 5.0)


def test_boxes_that_overlap_collide_and_those_that_touch_do_not():
    values = values_of(
        scene_of_cars([straight_car(2), straight_car(2, start_m=(3, 1)), straight_car(2, start_m=(0, -2))])
    )
    assert_array_equal(values.is_colliding, [True, True, False] * 2)
    assert_array_equal(values.nearest_gaps_m, 0.0)
    assert_array_equal(values.times_to_collision_s[values.tracks == 0], 0.0)


@pytest.mark.parametrize(
    ("at_m", "yaw_rad", "distance_m", "is_off"),
    [
        pytest.param((20, 0), 0.0, 2.0, False, id="in its lane"),
        pytest.param((20, 2), 0.0, 4.0, False, id="across two lanes"),
        pytest.param((20, -1.2), 0.0, 0.8, False, id="0.2 m over the edge"),
        pytest.param((20, -1.4), 0.0, 0.6, True, id="0.4 m over the edge"),
        pytest.param((20, -0.6), np.pi / 2, 1.4, True, id="across the edge"),
        pytest.param((20, -5), 0.0, -3.0, True, id="beside the road"),
        pytest.param((20, -50), 0.0, -10.0, True, id="in the fields"),
    ],
)
def test_places_on_the_road(road_edges, at_m, yaw_rad, distance_m, is_off):
    values = values_of(scene_of_cars([car_along(np.full(2, at_m[0]), at_m[1], yaw_rad)]), edges=road_edges)
    assert_allclose(values.road_edge_distances_m, distance_m, atol=0.02)
    assert values.is_off_road.tolist() == [is_off, is_off]


def test_without_a_map_nothing_is_known_of_the_road():
    values = values_of(scene_of_cars([straight_car(2)]))
    assert np.isnan(values.road_edge_distances_m).all()
    assert not values.has_map


def test_subjects_alone_are_measured_beside_all_others():
    scene = scene_of_cars([straight_car(2), straight_car(2, start_m=(0, 5))])
    users = read_road_users([scene])
    values = measure_traffic(read_ego_states([scene]), users, is_subject=users.tracks == 1)
    assert values.tracks.tolist() == [1, 1]
    assert_allclose(values.nearest_gaps_m, 3.0)
    with pytest.raises(InvalidArgumentError, match=r"is_subject must be bool of shape \(4,\)"):
        measure_traffic(read_ego_states([scene]), users, is_subject=np.ones(3, np.bool_))

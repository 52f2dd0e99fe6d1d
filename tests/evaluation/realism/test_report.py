"""Realism of simulated scenes: the log against itself, standing agents, and traffic that is known by hand."""

import dataclasses
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.data.scene_arrays import read_scene_arrays
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.realism import EVENTS, FEATURES, Resampling, compare_counts, compare_traffic, count_traffic
from l5kit.evaluation.resampling import Estimate
from l5kit.lanes.driving_map import build_driving_map
from support.cities import small_city
from support.realism import scene_of_cars, standing, straight_car

NOTHING = Estimate(0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    path = tmp_path_factory.mktemp("realism") / "city"
    small_city(path)
    log = ChunkedDataset(str(path / "scenes/sample.zarr")).open()
    scenes = [read_scene_arrays(log, index) for index in range(len(log.scenes))]
    return scenes, build_driving_map(open_map(find_dataset_files(path)))


def feature_of(report, name):
    return next(feature for feature in report.features if feature.name == name)


def rate_of(report, name):
    return next(rate for rate in report.rates if rate.name == name)


def test_replay_is_the_log(city):
    scenes, driving_map = city
    report = compare_traffic(scenes, scenes, driving_map=driving_map)
    assert [feature.name for feature in report.features] == [feature.name for feature in FEATURES]
    for feature in report.features:
        assert feature.num_simulated == feature.num_logged > 1000
        assert feature.jensen_shannon == feature.wasserstein == NOTHING
    assert [rate.name for rate in report.rates] == list(EVENTS)
    assert all(rate.difference == NOTHING and rate.simulated == rate.logged for rate in report.rates)


def test_standing_agents_are_not_the_log(city):
    scenes, driving_map = city
    report = compare_traffic([standing(scene) for scene in scenes], scenes, driving_map=driving_map)
    for name in ("speeds_mps", "accelerations_mps2", "nearest_gaps_m", "times_to_collision_s"):
        distances = feature_of(report, name)
        for estimate in (distances.jensen_shannon, distances.wasserstein):
            assert 0 < estimate.low <= estimate.value <= estimate.high, name
    moving_mps = count_traffic(scenes).cells[0].sum(axis=0) @ (
        np.arange(FEATURES[0].num_cells) * FEATURES[0].cell_width
    )
    speeds = feature_of(report, "speeds_mps")
    assert_allclose(speeds.wasserstein.value, moving_mps / speeds.num_logged)
    assert rate_of(report, "collisions_by_track").difference.value > 0
    assert rate_of(report, "leaving_road_by_track").simulated == NOTHING


def test_cars_one_metre_per_second_faster():
    """All values of the speeds are one m/s apart, in the log as in the simulation."""
    logged = [scene_of_cars([straight_car(5, speed_mps=speed)]) for speed in (2.01, 5.01, 9.01)]
    simulated = [scene_of_cars([straight_car(5, speed_mps=speed + 1)]) for speed in (2.01, 5.01, 9.01)]
    report = compare_traffic(simulated, logged, resampling=Resampling(num_draws=200, seed=1))
    speeds = feature_of(report, "speeds_mps")
    assert (speeds.num_simulated, speeds.num_logged, speeds.unit) == (15, 15, "m/s")
    assert_allclose(dataclasses.astuple(speeds.wasserstein), 1.0)
    assert_allclose(dataclasses.astuple(speeds.jensen_shannon), 1.0)
    assert feature_of(report, "yaw_rates_radps").wasserstein == NOTHING


def test_collisions_in_one_of_two_scenes():
    apart = scene_of_cars([straight_car(4), straight_car(4, start_m=(0, 9))])
    meeting = straight_car(4, start_m=(0, 9))
    meeting[3, 1] = 1.0
    crash = scene_of_cars([straight_car(4), meeting])
    report = compare_traffic([apart, crash], [apart, apart])
    assert_allclose(dataclasses.astuple(rate_of(report, "collisions_by_track").simulated), (0.5, 0.0, 1.0), atol=0.05)
    assert rate_of(report, "collisions_by_track").logged == NOTHING
    assert rate_of(report, "collisions_by_frame").difference.value == 2 / 16


def test_only_driven_tracks_count():
    logged = scene_of_cars([straight_car(5, speed_mps=5), straight_car(5, start_m=(0, 9), speed_mps=5)])
    simulated = scene_of_cars([straight_car(5, speed_mps=9), straight_car(5, start_m=(0, 9), speed_mps=5)])
    replayed, driven = (
        compare_traffic([simulated] * 2, [logged] * 2, driven_tracks=[np.array([track])] * 2) for track in (20, 10)
    )
    assert feature_of(replayed, "speeds_mps").wasserstein == NOTHING
    assert_allclose(feature_of(driven, "speeds_mps").wasserstein.value, 4.0, atol=0.03)
    assert (driven.num_scenes, driven.num_simulated_tracks, driven.num_logged_tracks) == (2, 2, 2)


def test_as_plain_values_without_a_map():
    scenes = [scene_of_cars([straight_car(5)])] * 2
    report = compare_traffic(scenes, scenes)
    plain = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    nothing = {"value": 0.0, "interval": [0.0, 0.0]}
    unknown = {"value": None, "interval": None}
    assert plain["features"]["speeds_mps"] == {
        "unit": "m/s",
        "num_simulated": 10,
        "num_logged": 10,
        "jensen_shannon": nothing,
        "wasserstein": nothing,
    }
    assert plain["features"]["road_edge_distances_m"]["wasserstein"] == unknown
    assert plain["features"]["road_edge_distances_m"]["num_logged"] == 0
    assert plain["rates"]["leaving_road_by_track"] == dict.fromkeys(["simulated", "logged", "difference"], unknown)
    rows = report.rows()
    assert len(rows) == 2 * len(FEATURES) + 3 * len(EVENTS)
    assert rows[1] == {"what": "speeds_mps", "measure": "wasserstein", "unit": "m/s", "value": 0, "low": 0, "high": 0}
    assert rows[-1]["value"] is None


def test_one_scene_has_no_intervals():
    scene = scene_of_cars([straight_car(5)])
    plain = compare_traffic([scene], [scene]).as_dict()
    assert plain["features"]["speeds_mps"]["wasserstein"] == {"value": 0.0, "interval": None}


def test_no_scenes():
    report = compare_traffic([], [])
    assert report.num_scenes == 0
    assert all(row["value"] is None for row in report.rows())


def test_scenes_that_are_not_the_same_are_refused():
    scene = scene_of_cars([straight_car(5)])
    with pytest.raises(InvalidArgumentError, match="got 1 and 2 of them"):
        compare_traffic([scene], [scene, scene])
    with pytest.raises(InvalidArgumentError, match="scene 0 has 4 frames simulated and 5 logged"):
        compare_traffic([scene_of_cars([straight_car(4)])], [scene])
    with pytest.raises(InvalidArgumentError, match="got 1 and 0 of them"):
        compare_counts(count_traffic([scene]), count_traffic([]))

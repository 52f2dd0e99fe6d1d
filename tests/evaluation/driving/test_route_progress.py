"""Progress along the route of the expert on a made road (see ``make_road_map``)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.lane_positions import find_lane_positions
from l5kit.evaluation.driving.route_progress import (
    expert_progress_ratio,
    find_progress,
    find_routes,
    making_progress,
)
from support.driving import ROAD_LANES, drive_along, drive_around, make_ring_map, stacked, straight_drive

ROUNDED_M = 0.05
RIGHT, LEFT, STRAIGHT, TURN, EAST, NORTH = range(len(ROAD_LANES))

EXPERT = straight_drive(101, start_m=(50, 0))
"""From x = 50 to 150: the road, the junction, the road to the east."""


def progress_m(states, expert, road_map):
    places, expert_places = find_lane_positions(states, road_map), find_lane_positions(expert, road_map)
    return find_progress(
        states, places, routes=find_routes(expert_places, road_map, expert=expert), driving_map=road_map
    )


def test_parts_of_a_route(road_map):
    routes = find_routes(find_lane_positions(EXPERT, road_map), road_map, expert=EXPERT)
    assert_array_equal(routes.parents, road_map.parents[[RIGHT, STRAIGHT, EAST]])
    assert_allclose(routes.arc_lengths_m[[0, -1]], [0, 220], atol=ROUNDED_M)


def test_a_change_of_lanes_within_a_road_stays_in_one_part(road_map):
    changes = drive_along([[10, 0], [20, 4], [30, 0], [110, 0]], [0] * 4)
    routes = find_routes(find_lane_positions(changes, road_map), road_map, expert=changes)
    assert_array_equal(routes.parents, road_map.parents[[RIGHT, STRAIGHT]])
    assert_allclose(progress_m(changes, changes, road_map)[0], [0, 10, 10, 80], atol=ROUNDED_M)


@pytest.mark.parametrize(
    ("drive", "total_m", "ratio"),
    [
        pytest.param(EXPERT, 100.0, 1.0, id="as the expert"),
        pytest.param(straight_drive(101, start_m=(50, 0), speed_mps=5.0), 50.0, 0.5, id="half as fast"),
        pytest.param(straight_drive(101, start_m=(50, 0), speed_mps=12.0), 120.0, 1.0, id="faster"),
        pytest.param(straight_drive(51, start_m=(50, 4)), 50.0, 0.5, id="beside it on the same road"),
        pytest.param(straight_drive(101, start_m=(50, 0), speed_mps=0.0), 0.0, 0.02, id="stands"),
        pytest.param(straight_drive(20, start_m=(50, 0), speed_mps=-1.0), -1.9, 0.02, id="rolls back"),
        pytest.param(straight_drive(41, start_m=(50, 0), speed_mps=-1.0), -4.0, 0.0, id="drives back"),
        pytest.param(straight_drive(101, start_m=(50, -30)), 0.0, 0.02, id="off the route"),
        pytest.param(drive_along([[95, 0], [125, 0], [135, 0]], [0] * 3), 40.0, 0.4, id="jumps over a part"),
        pytest.param(drive_along([[125, 0], [115, 0], [105, 0]], [0] * 3), 0.0, 0.02, id="never back to a part"),
        pytest.param(drive_along([[60, 0], [70, 0], [80, -30], [90, 0], [95, 0]], [0] * 5), 15.0, 0.15, id="leaves"),
    ],
)
def test_progress(road_map, drive, total_m, ratio):
    found_m = progress_m(drive, EXPERT, road_map)
    assert_allclose(found_m.sum(), total_m, atol=ROUNDED_M)
    ratios = expert_progress_ratio(found_m, progress_m(EXPERT, EXPERT, road_map))
    assert_allclose(ratios, ratio, atol=1e-3)
    assert making_progress(ratios) == float(ratio >= 0.2)


def test_a_turn_is_measured_along_its_centre_line(road_map):
    angles = np.linspace(0, np.pi / 2, 50)
    around = np.stack([100 + 19 * np.sin(angles), 20 - 19 * np.cos(angles)], axis=-1)
    turn = drive_along(np.concatenate([[[98, 0]], around, [[120, 25]]]), [0, *angles, np.pi / 2])
    assert_allclose(progress_m(turn, turn, road_map).sum(), 2 + 10 * np.pi + 5, atol=ROUNDED_M)


@pytest.mark.parametrize(
    "expert",
    [straight_drive(20, speed_mps=1.0), straight_drive(101, start_m=(50, -30)), straight_drive(1)],
    ids=["drove less than 2 m", "off the lanes", "one frame"],
)
def test_without_a_route_it_does_not_apply(road_map, expert):
    ratios = expert_progress_ratio(progress_m(EXPERT, expert, road_map), progress_m(expert, expert, road_map))
    assert_array_equal(ratios, [np.nan])
    assert_array_equal(making_progress(ratios), [np.nan])


def test_a_batch_has_the_progress_of_its_scenes(road_map):
    drives = [EXPERT, straight_drive(30), straight_drive(60, start_m=(60, -30)), straight_drive(90, speed_mps=12)]
    experts = [EXPERT, straight_drive(7), EXPERT, straight_drive(101, speed_mps=11)]
    batch_m = progress_m(stacked(*drives), stacked(*experts), road_map)
    for scene, (drive, expert) in enumerate(zip(drives, experts, strict=True)):
        num_frames = drive.is_there.shape[1]
        assert_allclose(batch_m[scene, :num_frames], progress_m(drive, expert, road_map)[0], atol=1e-9)
        assert not batch_m[scene, num_frames:].any()


@pytest.mark.parametrize("radius_m", [4.5, 7.5, 20.0])
@pytest.mark.parametrize(
    ("num_lanes", "is_one_junction"), [(1, True), (2, True), (4, True), (4, False)], ids=["1", "2", "4", "4 segments"]
)
@pytest.mark.parametrize("laps", [0.9, 1.4, 3.0])
def test_every_lap_of_a_roundabout_counts(tmp_path, radius_m, num_lanes, is_one_junction, laps):
    """The AV drives ``laps``, the expert three; a centre line has fewer points than the boundaries."""
    ring = make_ring_map(tmp_path, radius_m=radius_m, num_lanes=num_lanes, is_one_junction=is_one_junction)
    expert, drive = (drive_around(each, radius_m=radius_m) for each in (3.0, laps))
    found_m, expert_m = progress_m(drive, expert, ring), progress_m(expert, expert, ring)
    lap_m = 2 * np.pi * radius_m
    assert_allclose(expert_m.sum(), 3 * lap_m, rtol=0.03, atol=1.0)
    assert_allclose(found_m.sum(), laps * lap_m, rtol=0.03, atol=1.0)
    assert_allclose(expert_progress_ratio(found_m, expert_m), laps / 3, rtol=0.05)
    assert found_m.min() > -0.05


def test_routes_of_other_scenes_are_refused(road_map):
    with pytest.raises(InvalidArgumentError, match="1 scenes like the states, got 2"):
        progress_m(EXPERT, stacked(EXPERT, EXPERT), road_map)

"""Paths along lanes: forks, lane changes, ends, and tracks that have none."""

import numpy as np
import pytest

from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.errors import InvalidArgumentError
from l5kit.lanes.driving_map import build_driving_map
from l5kit.lanes.lane_paths import TrackPoses, find_moving_tracks, make_lane_paths, make_path_of_lanes
from support.driving import ROAD_LANES, make_ring_map, make_road_map
from support.maps import WORLD_TO_ECEF


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    return make_road_map(tmp_path_factory.mktemp("road"))


def tracks_along(*drives, yaws=None, duration_s=10.0):
    """Tracks through points, with the headings of the way from each to the next."""
    rows = [np.array(drive, float) for drive in drives]
    headings = [np.arctan2(*np.diff(drive, axis=0, append=2 * drive[-1:] - drive[-2:-1]).T[::-1]) for drive in rows]
    starts = np.cumsum([0, *map(len, rows)])
    yaws_rad = np.concatenate(headings) if yaws is None else np.array(yaws, float)
    return TrackPoses(starts, np.concatenate(rows), yaws_rad, np.full(len(rows), duration_s))


def line(start, end, count=30):
    return np.linspace(start, end, count)


def names(paths, track=0):
    return [ROAD_LANES[lane] for lane in paths.lanes_of(track)]


TURN = np.stack([100 + 20 * np.sin(np.linspace(0, 1.5, 20)), 20 - 20 * np.cos(np.linspace(0, 1.5, 20))], axis=-1)


@pytest.mark.parametrize(
    ("drive", "lanes"),
    [
        pytest.param(line((10, 0), (30, 0)), ["right", "straight", "east"], id="the straightest at a fork"),
        pytest.param(np.concatenate([line((80, 0), (99, 0)), TURN]), ["right", "turn", "north"], id="as in the log"),
        pytest.param(line((105, 0.5), (130, 0.5)), ["straight", "east"], id="begins in the junction"),
        pytest.param(line((10, 4), (90, 4)), ["left"], id="a lane that ends"),
        pytest.param(line((10, 4), (60, 0)), ["left", "right", "straight", "east"], id="lane change"),
        pytest.param(
            np.concatenate([line((120, 40), (120, 50)), line((10, 0), (30, 0))]), ["north"], id="seen again behind"
        ),
    ],
)
def test_lanes_of_paths(road, drive, lanes):
    paths = make_lane_paths(tracks_along(drive), road)
    assert names(paths) == lanes


def test_a_track_that_is_lost_and_found_again_drives_along_the_lanes_between(tmp_path):
    ring = make_ring_map(tmp_path, radius_m=50.0, num_lanes=8, is_one_junction=False)
    turns = np.concatenate([np.linspace(0.1, 0.5, 10), np.linspace(4.1, 4.6, 10)])
    drive = 50.0 * np.stack([np.cos(turns), np.sin(turns)], axis=-1)
    paths = make_lane_paths(tracks_along(drive, yaws=turns + np.pi / 2), ring)
    np.testing.assert_allclose(np.linalg.norm(paths.points_of(0)[:-1], axis=-1), 50.0, atol=0.1)
    assert paths.lanes_of(0)[:7].tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_a_path_is_one_even_line_with_limits(road):
    paths = make_lane_paths(tracks_along(line((10, 0.7), (30, 0.7))), road)
    points_m = paths.points_of(0)
    np.testing.assert_allclose(points_m[:105], np.column_stack([10 + 2.0 * np.arange(105), np.zeros(105)]), atol=0.02)
    assert paths.lengths_m[0] == pytest.approx(210, abs=0.05)  # to the end of the road to the east
    np.testing.assert_allclose(paths.piece_arcs_m, [0, 90, 110], atol=0.05)
    right, straight = ROAD_LANES.index("right"), ROAD_LANES.index("straight")
    assert paths.line_lanes.tolist() == [[-1, -1], [right, straight], [-1, -1]]
    assert paths.piece_limits_mps.tolist() == [10.0, 20.0, 20.0]


def test_lanes_without_a_limit_have_the_given_one(road):
    tracks = tracks_along(np.concatenate([line((80, 0), (99, 0)), TURN]))
    assert make_lane_paths(tracks, road).piece_limits_mps[-1] == 10.0
    assert make_lane_paths(tracks, road, unknown_limit_mps=15.0).piece_limits_mps[-1] == 15.0


def test_a_lane_change_bends_gently(road):
    points_m = make_lane_paths(tracks_along(line((10, 4), (60, 0))), road).points_of(0)[:-1]
    headings = np.arctan2(*np.diff(points_m, axis=0).T[::-1])
    assert np.abs(np.diff(headings)).max() < 0.12
    np.testing.assert_allclose(points_m[0], [10, 4], atol=0.02)
    np.testing.assert_allclose(points_m[20:, 1], 0, atol=0.02)  # the row in the other lane is at x = 35


def test_a_path_is_as_long_as_a_vehicle_at_the_limits_needs(road):
    brief = make_lane_paths(tracks_along(line((10, 0), (30, 0)), duration_s=0.0), road)
    assert names(brief) == ["right", "straight", "east"]
    assert brief.lengths_m[0] >= 150


@pytest.mark.parametrize(
    ("drive", "yaws"),
    [
        pytest.param(line((10, -4.5), (30, -4.5)), None, id="2.5 m beside"),
        pytest.param(line((30, 0), (10, 0)), None, id="against the lane"),
        pytest.param(line((10, 0), (30, 0)), np.full(30, 0.8), id="turned by more than 45 degrees"),
        pytest.param(line((1000, 0), (1030, 0)), None, id="far away"),
    ],
)
def test_tracks_on_no_lane_have_no_path(road, drive, yaws):
    paths = make_lane_paths(tracks_along(drive, yaws=yaws), road)
    assert not paths.has_path[0]
    assert paths.lengths_m[0] == 0


def test_a_track_close_to_a_lane_has_a_path(road):
    assert make_lane_paths(tracks_along(line((10, -3.9), (30, -3.9))), road).has_path[0]


def test_paths_do_not_depend_on_other_tracks(road):
    drives = [line((10, 0), (30, 0)), line((10, 4), (60, 0)), line((1000, 0), (1030, 0)), line((80, 0), (99, 0.5))]
    together = make_lane_paths(tracks_along(*drives), road)
    for track, drive in enumerate(drives):
        alone = make_lane_paths(tracks_along(drive), road)
        assert alone.points_m.tobytes() == together.points_of(track).tobytes()
        assert alone.piece_lanes.tolist() == together.lanes_of(track).tolist()


def test_parked_tracks_stay_within_a_metre():
    tracks = tracks_along(line((0, 0), (0.99, 0)), line((0, 0), (1.01, 0)), [[0, 0], [2, 0], [0, 0]])
    assert find_moving_tracks(tracks).tolist() == [False, True, True]


def test_poses_that_are_not_finite(road):
    with pytest.raises(InvalidArgumentError, match="1 rows are not finite, for example row 3"):
        make_lane_paths(tracks_along([[0, 0], [1, 0], [2, 0], [np.nan, 0]], yaws=np.zeros(4)), road)


@pytest.mark.parametrize(
    ("lit", "place_m", "line_lanes"),
    [
        pytest.param("before", (100.0, 3.0), [0, -1], id="of who leaves a lane"),
        pytest.param("before", (125.0, 3.0), [0, -1], id="behind the crossing"),
        pytest.param("after", (100.0, 3.0), [0, 1], id="of who enters a lane, as in imported maps"),
        pytest.param("after", (140.0, 3.0), [0, -1], id="at the end of the lane behind"),
    ],
)
def test_stop_lines_are_where_lights_stand(tmp_path, lit, place_m, line_lanes):
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_traffic_light("light", np.array([*place_m, 4.0]), faces=["red"])
    builder.add_traffic_light_face("red")
    for name, ends, ahead in (("before", (0.0, 100.0), ["after"]), ("after", (100.0, 140.0), [])):
        left_m, right_m = (np.array([(x, y, 0.0) for x in ends]) for y in (2.0, -2.0))
        controls = ["light", "red"] if name == lit else []
        builder.add_lane(name, left_m, right_m, lanes_ahead=ahead, traffic_controls=controls)
    builder.save(tmp_path / "map.pb")
    paths = make_lane_paths(
        tracks_along(line((10, 0), (30, 0))), build_driving_map(MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF))
    )
    assert paths.line_lanes.tolist() == [[-1, -1], line_lanes]


def rows(*lanes):
    return np.array([ROAD_LANES.index(lane) for lane in lanes])


@pytest.mark.parametrize(
    ("drive", "start_m"),
    [
        pytest.param(line((10, 0), (30, 0)), 10.0, id="straight on"),
        pytest.param(np.concatenate([line((80, 0), (99, 0)), TURN]), 80.0, id="around a corner"),
        pytest.param(line((10, 4), (90, 4)), 10.0, id="a lane that ends"),
    ],
)
def test_a_path_of_lanes_is_that_of_a_track_that_drives_them(road, drive, start_m):
    expected = make_lane_paths(tracks_along(drive), road)
    found = make_path_of_lanes(expected.lanes_of(0), road, start_m=start_m)
    assert found.lengths_m[0] == pytest.approx(expected.lengths_m[0], abs=0.02)
    np.testing.assert_allclose(found.points_m, expected.points_m, atol=0.02)
    np.testing.assert_allclose(found.piece_arcs_m, expected.piece_arcs_m, atol=0.02)
    for name in ("starts", "piece_starts", "piece_lanes", "line_lanes", "piece_limits_mps"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def test_a_path_of_lanes_ends_where_it_is_told(road):
    path = make_path_of_lanes(rows("right", "straight", "east"), road, start_m=95.0, end_m=7.0)
    assert path.lengths_m[0] == pytest.approx(5 + 20 + 7, abs=0.02)
    np.testing.assert_allclose(path.points_of(0)[[0, -2]], [(95, 0), (127, 0)], atol=0.02)
    np.testing.assert_allclose(path.piece_arcs_m, [0, 5, 25], atol=0.02)
    assert make_path_of_lanes(rows("right"), road, start_m=30.0, end_m=30.0).lengths_m[0] == 0.0


def test_a_lane_change_of_given_lanes_bends_gently_in_the_middle(road):
    path = make_path_of_lanes(rows("left", "right", "turn", "north"), road, start_m=10.0)
    points_m = path.points_of(0)[:-1]
    headings = np.unwrap(np.arctan2(*np.diff(points_m, axis=0).T[::-1]))
    assert np.abs(np.diff(headings)).max() < 0.12
    is_before, is_after = points_m[:, 0] < 45 - 0.02, (points_m[:, 0] > 65 + 2) & (points_m[:, 0] < 100)
    np.testing.assert_allclose(points_m[is_before, 1], 4, atol=0.02)
    np.testing.assert_allclose(points_m[is_after, 1], 0, atol=0.02)
    np.testing.assert_allclose(points_m[-1], [120, 100], atol=2.0)
    right, turn = rows("right", "turn").tolist()
    assert path.line_lanes.tolist() == [[-1, -1], [-1, -1], [right, turn], [-1, -1]]
    assert path.piece_limits_mps[-1] == 10.0
    assert make_path_of_lanes(rows("north"), road, unknown_limit_mps=15.0).piece_limits_mps.tolist() == [15.0]


@pytest.mark.parametrize(
    ("lanes", "options", "match"),
    [
        ([], {}, r"lanes must be at least one row from 0 to 5"),
        ([0, 6], {}, r"lanes must be at least one row from 0 to 5"),
        ([-1], {}, r"lanes must be at least one row from 0 to 5"),
        ([0], {"start_m": 100.5}, "must lie on the first and the last centre line, from 0 to 100"),
        ([0], {"start_m": 20.0, "end_m": 19.0}, "in this order on a single lane"),
        ([0, 2], {"end_m": np.nan}, "end_m nan must lie"),
        ([0], {"unknown_limit_mps": 0.0}, "unknown_limit_mps is 0"),
    ],
    ids=str,
)
def test_paths_of_lanes_that_cannot_be(road, lanes, options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        make_path_of_lanes(np.array(lanes, np.int64), road, **options)

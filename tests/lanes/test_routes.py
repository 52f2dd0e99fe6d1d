"""Routes of logs: their edges, especially in lane changes."""

import numpy as np
import pytest

from l5kit.data import find_dataset_files
from l5kit.data.map.api import MapAPI
from l5kit.data.map.builder import MapBuilder
from l5kit.data.map.opened import open_map
from l5kit.lanes.lane_paths import PATH_STEP_M
from l5kit.lanes.route_map import build_route_map
from l5kit.lanes.routes import SceneRoutes
from support.driving import straight_lane
from support.logs import make_frames
from support.maps import WORLD_TO_ECEF


def routes_of(drives, route_map):
    """Routes of logs whose AVs drive through points."""
    headings = [np.arctan2(*np.diff(drive, axis=0, append=2 * drive[-1:] - drive[-2:-1]).T[::-1]) for drive in drives]
    frames = [
        make_frames(len(drive), positions_m=drive, yaws_rad=yaws)[0]
        for drive, yaws in zip(drives, headings, strict=True)
    ]
    routes = SceneRoutes(lambda scene: frames[scene], len(drives), route_map=route_map, step_time_s=0.1)
    return routes.find(np.arange(len(drives)))[0]


def points_on(routes):
    """Points of each route before its end, and their distances to the edges."""
    for route, length_m in enumerate(routes.lengths_m):
        rows = slice(routes.starts[route], routes.starts[route] + int(length_m / PATH_STEP_M))
        yield routes.points_m[rows], routes.widths_m[rows]


@pytest.fixture(scope="module")
def town(city):
    return build_route_map(open_map(find_dataset_files(city)))


def lane_changes(road, part):
    """Drives along each lane that has a neighbour, which change to it after part of its length."""
    lines_m, lengths_m = road.driving.centre_lines_m, road.driving.arc_lengths_m
    for lane, side in np.argwhere(road.side_rows >= 0):
        change_m = part * lengths_m[lane, -1]
        if lengths_m[lane, -1] > 15.0:
            places_m = np.arange(0.0, lengths_m[lane, -1], 1.5)
            before_m, behind_m = (
                np.stack([np.interp(places_m, lengths_m[row], lines_m[row, :, axis]) for axis in range(2)], axis=-1)
                for row in (lane, road.side_rows[lane, side])
            )
            yield np.where((places_m < change_m)[:, None], before_m, behind_m)


@pytest.mark.parametrize("part", [0.1, 0.4, 0.5, 0.9], ids=lambda part: f"after {part:.0%}")
def test_edges_in_lane_changes_of_a_town_are_those_of_the_lane_that_the_route_is_in(town, part):
    routes = routes_of(list(lane_changes(town, part)), town)
    assert (routes.widths_m >= 0).all()
    num_checked = 0
    for points_m, widths_m in points_on(routes):
        lanes, starts = town.driving.lanes_at(points_m)
        is_clear = np.diff(starts) == 1  # lanes of junctions lie over each other
        here = lanes[starts[:-1][is_clear]]
        places_m = town.driving.arcs_on_lanes_m(points_m[is_clear], here)
        for row, lane in enumerate(here.tolist()):
            known = town.half_widths_m[lane], *town.driving.centre_lines_m[lane].T
            half_m, *centre_m = (np.interp(places_m[row], town.driving.arc_lengths_m[lane], part) for part in known)
            left_m, right_m = widths_m[is_clear][row]
            assert left_m + right_m == pytest.approx(2 * half_m, abs=0.02)
            assert abs(left_m - right_m) / 2 == pytest.approx(np.hypot(*points_m[is_clear][row] - centre_m), abs=0.02)
        num_checked += len(here)
    assert num_checked > 1000


def test_beside_a_gap_between_lanes_the_route_has_no_width(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    for lane, y in (("left", 5.0), ("right", 0.0)):
        builder.add_lane(lane, *straight_lane((0, y), (150, y)))
    builder.save(tmp_path / "gap.pb")
    drive = np.column_stack([np.arange(80.0), np.where(np.arange(80) < 40, 5.0, 0.0)])
    road = build_route_map(MapAPI(str(tmp_path / "gap.pb"), WORLD_TO_ECEF))
    ((points_m, widths_m),) = points_on(routes_of([drive], road))
    y_m = points_m[:, 1]
    is_between = (y_m > 2) & (y_m < 3)
    assert is_between.any()
    expected = np.where((y_m >= 3)[:, None], np.stack([7 - y_m, y_m - 3], -1), np.stack([2 - y_m, y_m + 2], -1))
    np.testing.assert_allclose(widths_m[~is_between], expected[~is_between], atol=0.1)
    assert (widths_m[is_between].min(axis=1) == 0).all()

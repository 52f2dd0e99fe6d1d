"""Elements of recordings: trajectories, lane areas, changes of lights, and their extent."""

import math
from dataclasses import replace

import numpy as np
import pytest

from support.tolerances import FLOAT64, FLOAT64_LONG

pytest.importorskip("torch", reason="scenes are read with the rules of the datasets, which need torch")

from l5kit.data import MapAPI
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.log_facts import LogFacts
from l5kit.data.map.builder import MapBuilder
from l5kit.errors import InvalidArgumentError
from l5kit.visualization.recording import RecordingForm
from l5kit.visualization.recording.colors import CLASS_RGB, EGO_RGB, LIGHT_RGB, class_title
from l5kit.visualization.recording.nearby_map import MAX_LINE_POINTS, find_nearby_map, light_changes
from l5kit.visualization.recording.scene_elements import Boxes, collect_elements, frames_within, track_windows
from l5kit.visualization.scene_content import LaneLightRows
from support.maps import WORLD_TO_ECEF
from support.recordings import read_case

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("horizon_s", "firsts", "stops"),
    [
        pytest.param(0.0, [0, 1, 2, 3], [1, 2, 3, 4], id="nothing but the frame"),
        pytest.param(1.0, [0, 0, 1, 3], [2, 3, 3, 4], id="the end is within"),
        pytest.param(0.999, [0, 1, 2, 3], [1, 2, 3, 4], id="just not within"),
        pytest.param(5.0, [0, 0, 0, 3], [3, 3, 3, 4], id="a gap is not filled"),
        pytest.param(1e12, [0, 0, 0, 0], [4, 4, 4, 4], id="longer than the scene"),
    ],
)
def test_frames_within_a_time(horizon_s, firsts, stops):
    times_ns = SECOND_NS * np.array([0, 1, 2, 8])
    found = frames_within(times_ns, horizon_s)
    assert [values.tolist() for values in found] == [firsts, stops]


def test_windows_hold_the_rows_of_the_track_only():
    """Against a search row by row."""
    generator = np.random.default_rng(3)
    is_seen = generator.random((30, 4)) < 0.7
    frames, columns = np.nonzero(is_seen)
    tracks = np.array([0, 7, 2**64 - 1, 12], np.uint64)[columns]
    times_ns = SECOND_NS * np.cumsum(generator.integers(1, 4, 30))
    windows = track_windows(tracks, frames, frames_within(times_ns, 5.0))
    row_times_ns = times_ns[frames]
    for row in range(len(frames)):
        same = tracks == tracks[row]
        near = np.abs(row_times_ns - row_times_ns[row]) <= 5 * SECOND_NS
        around = {*windows.past(row).tolist(), *windows.future(row).tolist()}
        assert around == set(np.flatnonzero(same & near).tolist())
        assert (row_times_ns[windows.past(row)] <= row_times_ns[row]).all()
        assert windows.past(row)[-1] == windows.future(row)[0] == row


def test_no_agents_have_no_windows():
    windows = track_windows(np.zeros(0, np.uint64), np.zeros(0, np.int64), frames_within(np.array([5, 6]), 1.0))
    assert len(windows.order) == 0


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"map_radius_m": -1.0}, id="negative radius"),
        pytest.param({"map_radius_m": math.nan}, id="no radius"),
        pytest.param({"ego_trajectory_s": -0.1}, id="negative time of the AV"),
        pytest.param({"agent_trajectory_s": math.inf}, id="endless time of agents"),
    ],
)
def test_a_form_out_of_range_is_refused(values):
    ((name, value),) = values.items()
    with pytest.raises(InvalidArgumentError, match=f"{name} is {value}"):
        RecordingForm(**values)


def test_an_infinite_radius_takes_the_whole_map(tmp_path):
    scene, map_api = read_case(tmp_path / "map.pb")
    elements = collect_elements(scene, map_api, RecordingForm(map_radius_m=math.inf))
    assert [lane.lane_id for lane in elements.nearby_map.lanes.values()] == map_api.bounds_info["lanes"]["ids"]
    assert len(elements.nearby_map.crosswalks) == 2
    near = collect_elements(scene, map_api, RecordingForm(map_radius_m=0))
    assert [lane.lane_id for lane in near.nearby_map.lanes.values()] == ["lights"]


def test_an_empty_map_has_nothing_near(tmp_path):
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_traffic_light_face("R", "signal_red_face")
    builder.save(tmp_path / "empty.pb")
    map_api = MapAPI(str(tmp_path / "empty.pb"), WORLD_TO_ECEF)
    found = find_nearby_map(map_api.arrays, np.zeros((1, 2)), 100.0, origin_m=np.zeros(2))
    assert (found.lanes, found.crosswalks) == ({}, [])


def test_the_area_of_a_bent_lane_is_covered_once(tmp_path):
    """A quarter of a ring between the radii 4 and 8 with 9 and 30 points."""
    inner, outer = (radius * np.column_stack([np.sin(a), np.cos(a), 0 * a]) for radius, a in _arcs())
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("bend", outer, inner)  # clockwise, so that the outer side is the left one
    builder.save(tmp_path / "map.pb")
    map_api = MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF)
    (lane,) = find_nearby_map(map_api.arrays, np.zeros((1, 2)), 100.0, origin_m=np.zeros(2)).lanes.values()
    assert lane.triangles.shape == (9 + 30 - 2, 3)
    points = lane.vertices_m[lane.triangles]
    ab, ac = points[:, 1] - points[:, 0], points[:, 2] - points[:, 0]
    areas = 0.5 * (ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0])
    assert (areas > 0).all()
    polygon = np.concatenate([lane.left_m, lane.right_m[::-1]])
    x, y = polygon.T
    np.testing.assert_allclose(areas.sum(), 0.5 * abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)), rtol=FLOAT64_LONG)


@pytest.mark.parametrize("num_points", [MAX_LINE_POINTS, MAX_LINE_POINTS + 1, 3 * MAX_LINE_POINTS + 7])
def test_a_line_of_very_many_points_is_thinned_from_end_to_end(tmp_path, num_points):
    line = np.column_stack([np.linspace(0, 90, num_points), np.zeros(num_points), np.zeros(num_points)])
    few = np.array([[0.0, -4, 0], [90, -4, 0]])
    builder = MapBuilder(WORLD_TO_ECEF)
    builder.add_lane("long", line, few)
    builder.add_crosswalk("wide", line + [0, 3, 0])
    builder.save(tmp_path / "map.pb")
    map_api = MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF)
    found = find_nearby_map(map_api.arrays, np.zeros((1, 2)), 100.0, origin_m=np.zeros(2))
    lane = found.lanes[0]
    for shown_m in (lane.left_m, found.crosswalks[0]):
        assert len(shown_m) == MAX_LINE_POINTS
        np.testing.assert_allclose(shown_m[[0, -1], 0], [0, 90], atol=0.02)
        assert np.diff(shown_m[:, 0]).max() < 2.5 * 90 / MAX_LINE_POINTS + 0.02
    assert len(lane.right_m) == 2
    assert lane.triangles.max() == MAX_LINE_POINTS + 1


def _arcs():
    return (4.0, np.linspace(0, np.pi / 2, 9)), (8.0, np.linspace(0, np.pi / 2, 30))


def test_lights_change_where_a_lane_that_is_there_does():
    lights = LaneLightRows(
        starts=np.array([0, 2, 3, 5, 6], np.int32),
        lanes=np.array([4, 9, 4, 4, 9, 4], np.int32),
        colors=np.array([2, 0, 2, 2, 1, 0], np.uint8),
    )
    everywhere = dict(light_changes(lights, dict.fromkeys((4, 9))))
    assert everywhere == {0: {4: 2, 9: 0}, 1: {4: 2}, 2: {4: 2, 9: 1}, 3: {4: 0}}
    assert dict(light_changes(lights, dict.fromkeys((4,)))) == {0: {4: 2}, 3: {4: 0}}
    assert dict(light_changes(lights, {})) == {0: {}}


def test_the_av_is_as_large_as_its_log_says(tmp_path):
    scene, _ = read_case(tmp_path / "map.pb")
    elements = collect_elements(replace(scene, facts=LogFacts((8.0, 3.0, 4.0))), None, RecordingForm())
    assert elements.ego.sizes_m.tolist() == [[8, 3, 4]] * 4
    assert elements.ego.centers_m[:, 2].tolist() == [2] * 4


def test_boxes_stand_on_the_ground_and_look_ahead():
    boxes = Boxes.standing(np.array([[5.0, 6.0]]), np.array([np.pi / 2]), np.array([[4.0, 2.0, 1.0]], np.float32))
    np.testing.assert_allclose(boxes.centers_m, [[5, 6, 0.5]])
    np.testing.assert_allclose(boxes.quaternions, [[0, 0, np.sqrt(0.5), np.sqrt(0.5)]])
    start, end = boxes.heading_marks_m[0]
    np.testing.assert_allclose(end - start, [0, 2, 0], atol=FLOAT64)


def test_positions_far_from_the_world_origin_keep_their_places(tmp_path):
    scene, _ = read_case(tmp_path / "map.pb")
    far_m = np.array([4e6, -7e6])
    scene.ego_positions_m[:, :2] += far_m
    scene.agents.centroids_m[:] += far_m
    elements = collect_elements(scene, None, RecordingForm())
    np.testing.assert_allclose(elements.agents.centers_m[0, :2], [3, 1], atol=1e-8)
    np.testing.assert_array_equal(elements.origin_m, far_m + [7, 1])


def test_colours_are_those_of_the_pages():
    assert CLASS_RGB[PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]].tolist() == [0x1F, 0x77, 0xB4]
    assert CLASS_RGB[PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_PEDESTRIAN"]].tolist() == [0x66, 0xCC, 0xFF]
    assert CLASS_RGB[0].tolist() == [0x1F, 0x77, 0xB4]
    assert LIGHT_RGB.tolist() == [[0x33, 0xCC, 0x33], [0xFF, 0xFF, 0x66], [0xFF, 0x33, 0x00]]
    assert EGO_RGB == (255, 0, 0)


@pytest.mark.parametrize(
    ("label", "title"),
    [
        ("PERCEPTION_LABEL_CAR", "car"),
        ("PERCEPTION_LABEL_EMERGENCY_VEHICLE", "emergency vehicle"),
        ("AVRESEARCH_LABEL_DONTCARE", "dontcare"),
    ],
)
def test_labels_have_short_titles(label, title):
    assert class_title(label) == title

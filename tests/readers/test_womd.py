"""The reader of the Waymo Open Motion Dataset: what an import has is what the messages say, read by other code.

Where ``L5KIT_REAL_WOMD`` names a folder of real files, the tests of whole imports run on its first scenarios, too.
"""

import errno
import json
import os
import pickle
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.map.api import MapAPI
from l5kit.data.scene_arrays import read_scene_arrays
from l5kit.errors import DatasetNotFoundError
from l5kit.readers.importing import import_dataset
from l5kit.readers.map_writing import boundaries_of
from l5kit.readers.reader import SourceDataError
from l5kit.readers.scene_conversion import face_id
from l5kit.readers.source_scene import LightState
from l5kit.readers.womd import WomdReader, read_scenario
from l5kit.readers.womd_map import longest_beside
from support import womd

MOST_REAL_SCENARIOS = 5
LABELS = {0: "UNKNOWN", 1: "CAR", 2: "PEDESTRIAN", 3: "CYCLIST", 4: "UNKNOWN"}
SHOWN = {0: None, 1: "red", 2: "yellow", 3: "green", 4: "red", 5: "yellow", 6: "green", 7: "red", 8: "yellow"}


def make_files(folder: Path) -> Path:
    """Two files of two parts of the dataset, one in a folder within."""
    scenarios = [womd.small_scenario("a1"), womd.small_scenario("b2", num_steps=11)]
    womd.write_file(folder / "training.tfrecord-00000-of-00001", scenarios)
    shifted = womd.small_scenario("c3")
    for track in shifted.tracks:
        track.id += 1000
    womd.write_file(folder / "more" / "uncompressed_scenario_validation_validation.tfrecord-00003-of-00150", [shifted])
    return folder


class Imported(NamedTuple):
    """An import and its source messages, in the order of its scenes."""

    folder: Path
    scenes: list
    map_api: MapAPI


def vendor_scenarios(folder: Path):
    """Every message of a folder by file and record index, split by the lengths alone."""
    found = {}
    for path in sorted(folder.rglob("*.tfrecord*")):
        data, start, number = path.read_bytes(), 0, 0
        while start < len(data):
            (length,) = struct.unpack_from("<Q", data, start)
            content = data[start + 12 : start + 12 + length]
            found[path.relative_to(folder).as_posix(), number] = womd.Scenario.FromString(content)
            start, number = start + length + 16, number + 1
    return found


@pytest.fixture(
    scope="module",
    params=[
        "made",
        pytest.param(
            "real", marks=pytest.mark.skipif("L5KIT_REAL_WOMD" not in os.environ, reason="L5KIT_REAL_WOMD is not set")
        ),
    ],
)
def imported(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("womd")
    source = make_files(out / "source") if request.param == "made" else Path(os.environ["L5KIT_REAL_WOMD"])
    result = import_dataset(WomdReader(source), out / "dataset", max_scenes=MOST_REAL_SCENARIOS)
    assert not result.failed
    messages = vendor_scenarios(source)
    scenes = []
    for split, path in result.scenes.items():
        log = ChunkedDataset(str(path)).open()
        rows = map(json.loads, (result.folder / "sources" / f"{split}.jsonl").read_text("utf-8").splitlines())
        for row in rows:
            message = messages[row["file"], int(row["record"].removeprefix("record "))]
            scenes.append((message, read_scene_arrays(log, row["scene"]), np.array(row["offset_m"]), split))
    world_to_ecef = json.loads((result.folder / "meta.json").read_text("utf-8"))["world_to_ecef"]
    map_api = MapAPI(str(result.folder / "semantic_map" / "semantic_map.pb"), np.array(world_to_ecef))
    return Imported(result.folder, scenes, map_api)


# --- whole imports


def test_every_state_is_an_agent_at_its_place(imported):
    for message, scene, offset_m, _ in imported.scenes:
        expected = [
            (step, track.id, state, LABELS[track.object_type])
            for row, track in enumerate(message.tracks)
            for step, state in enumerate(track.states)
            if state.valid and row != message.sdc_track_index
        ]
        expected.sort(key=lambda entry: entry[:2])
        agents = scene.agents
        assert len(agents.track_ids) == len(expected)
        assert np.repeat(np.arange(scene.num_frames), np.diff(agents.starts)).tolist() == [e[0] for e in expected]
        assert agents.track_ids.tolist() == [e[1] for e in expected]
        places_m = np.array([(e[2].center_x, e[2].center_y) for e in expected]).reshape(-1, 2)
        np.testing.assert_allclose(agents.centroids_m - offset_m, places_m, rtol=0, atol=1e-3)
        sizes_m = np.array([(e[2].length, e[2].width, e[2].height) for e in expected]).reshape(-1, 3)
        np.testing.assert_allclose(agents.extents_m, sizes_m, rtol=1e-6)
        velocities = np.array([(e[2].velocity_x, e[2].velocity_y) for e in expected]).reshape(-1, 2)
        np.testing.assert_allclose(agents.velocities_mps, velocities, rtol=1e-6)
        turned_rad = agents.yaws_rad - np.array([e[2].heading for e in expected])
        np.testing.assert_allclose(np.sin(turned_rad / 2), 0, atol=1e-6)
        labels = [PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{e[3]}"] for e in expected]
        assert agents.labels.tolist() == labels


def test_the_av_has_the_poses_of_its_track_and_stands_on_the_ground(imported):
    for message, scene, offset_m, _ in imported.scenes:
        states = message.tracks[message.sdc_track_index].states
        assert scene.num_frames == len(states)
        places_m = np.array([(s.center_x, s.center_y, s.center_z - s.height / 2) for s in states])
        np.testing.assert_allclose(scene.ego_positions_m - [*offset_m, 0], places_m, rtol=0, atol=1e-3)
        turned_rad = scene.ego_yaws_rad - np.array([s.heading for s in states])
        np.testing.assert_allclose(np.sin(turned_rad / 2), 0, atol=1e-6)
        np.testing.assert_allclose(scene.timestamps_ns / 1e9 - 1, message.timestamps_seconds, rtol=0, atol=1e-9)


def test_lights_show_what_the_states_of_lanes_say(imported):
    for message, scene, _, _ in imported.scenes:
        lanes = {feature.id for feature in message.map_features if len(feature.lane.polyline) > 1}
        for step, states in enumerate(message.dynamic_map_states):
            rows = slice(*scene.tl_faces.starts[step : step + 2])
            found = dict(
                zip(
                    scene.tl_faces.face_ids[rows].tolist(),
                    scene.tl_faces.statuses[rows].argmax(axis=1).tolist(),
                    strict=True,
                )
            )
            expected = {}
            for signal in states.lane_states:
                if signal.lane not in lanes:
                    continue
                for color in ("red", "yellow", "green"):
                    face = face_id(message.scenario_id, str(signal.lane), color)
                    shown = SHOWN[signal.state]
                    expected[face] = 2 if shown is None else int(shown != color)
            assert found == expected, step


def test_lanes_lie_where_they_lay_and_lead_where_they_led(imported):
    api = imported.map_api
    for message, _, offset_m, _ in imported.scenes:
        name = message.scenario_id
        lanes = {feature.id: feature.lane for feature in message.map_features if len(feature.lane.polyline) > 1}
        for feature_id, lane in lanes.items():
            coordinates = api.get_lane_coords(f"{name}/{feature_id}")
            centre_m = np.array([(point.x, point.y) for point in lane.polyline])
            for side in ("xyz_left", "xyz_right"):
                line_m = coordinates[side][:, :2] - offset_m
                gaps_m = np.linalg.norm(line_m[:, None] - centre_m, axis=-1).min(axis=1)
                assert gaps_m.max() < 12.0
                assert not np.isnan(line_m).any()
            ahead = {f"{name}/{after}" for after in lane.exit_lanes if after in lanes}
            ahead |= {f"{name}/{other}" for other, entered in lanes.items() if feature_id in entered.entry_lanes}
            assert set(api.get_lanes_ahead(f"{name}/{feature_id}")) == ahead


def test_crosswalks_keep_their_corners(imported):
    for message, _, offset_m, _ in imported.scenes:
        for feature in message.map_features:
            if len(feature.crosswalk.polygon) > 3:
                corners_m = np.array([(point.x, point.y) for point in feature.crosswalk.polygon])
                if (corners_m[0] == corners_m[-1]).all():
                    corners_m = corners_m[:-1]
                name = f"{message.scenario_id}/crosswalk/{feature.id}"
                found_m = imported.map_api.get_crosswalk_coords(name)["xyz"][:, :2] - offset_m
                np.testing.assert_allclose(found_m, corners_m, rtol=0, atol=0.011)


def test_logs_are_whole(imported):
    for path in (imported.folder / "scenes").iterdir():
        assert not ChunkedDataset(str(path)).open().validate()


def test_the_provenance_is_there(imported):
    told = json.loads((imported.folder / "import.json").read_text("utf-8"))
    assert told["dataset"] == "Waymo Open Motion Dataset"
    assert "Non-Commercial" in told["licence"]
    assert told["step_time_s"] == 0.1
    assert all(sentence.endswith(".") for sentence in told["missing"] + told["made_up"])


# --- single scenarios


@pytest.fixture
def scenario():
    return womd.small_scenario()


def read(scenario):
    return read_scenario(scenario.SerializeToString())


def lanes_of(scene):
    return {lane.lane_id: lane for lane in scene.map.lanes}


def test_splits_are_told_by_files_and_folders(tmp_path):
    make_files(tmp_path)
    womd.write_file(tmp_path / "testing_interactive" / "part-7.tfrecord", [womd.small_scenario("d4")])
    womd.write_file(tmp_path / "mine.tfrecord", [womd.small_scenario("e5")])
    refs = WomdReader(tmp_path).list_scenes()
    assert [(ref.split, ref.record) for ref in refs] == [
        ("sample", "record 0"),
        ("testing_interactive", "record 0"),
        ("training", "record 0"),
        ("training", "record 1"),
        ("validation", "record 0"),
    ]
    assert len({(ref.split, ref.name) for ref in refs}) == 5


def test_a_reader_can_be_pickled_and_reads_twice_the_same(tmp_path):
    reader = pickle.loads(pickle.dumps(WomdReader(str(make_files(tmp_path)))))
    ref = reader.list_scenes()[1]
    first, second = reader.read(ref), reader.read(ref)
    assert first.name == "b2"
    np.testing.assert_array_equal(first.tracks.positions_m, second.tracks.positions_m)


def test_targets_are_those_that_are_to_be_predicted(scenario):
    tracks = read(scenario).tracks
    assert tracks.ids == ("11", "7", "8", "9")
    assert tracks.is_target.tolist() == [True, False, True, False]
    assert tracks.classes == ("vehicle", "pedestrian", "cyclist", "other")


def test_lights_have_the_state_and_the_stop_point_of_their_lane(scenario):
    lights = read(scenario).lights
    assert lights.lane_ids == ("101", "102")
    red, green = LightState.RED, LightState.GREEN
    assert lights.states[0].tolist() == [red] * 12 + [green] * 9
    shown = [LightState.UNKNOWN, red, LightState.YELLOW, green, red, LightState.YELLOW, green, red, LightState.YELLOW]
    assert lights.states[1].tolist() == [LightState.ABSENT] * 4 + [shown[step % 9] for step in range(4, 21)]
    # a light without a stop point stops vehicles at the entry of its lane
    np.testing.assert_array_equal(lights.positions_m, [[39.0, 0.0, 7.0], [0.0, 3.5, 7.0]])


def test_a_light_state_of_a_later_version_is_unknown(scenario):
    scenario.dynamic_map_states[0].lane_states[0].state = 9
    assert read(scenario).lights.states[0, 0] == LightState.UNKNOWN


def test_lanes_have_what_the_message_says(scenario):
    lanes = lanes_of(read(scenario))
    assert {lane: each.kind for lane, each in lanes.items()} == {
        "101": "vehicle", "102": "vehicle", "103": "vehicle", "104": "bike",
    }  # fmt: skip
    assert [each.is_in_junction for each in lanes.values()] == [None, None, True, None]
    assert lanes["101"].speed_limit_mps == pytest.approx(25 * 1609.344 / 3600)
    assert lanes["103"].speed_limit_mps is None
    assert (lanes["101"].successors, lanes["103"].predecessors) == (("103",), ("101", "102"))
    assert (lanes["101"].left_neighbour, lanes["101"].right_neighbour) == ("102", None)  # the longer one of two
    assert lanes["102"].right_neighbour == "101"
    np.testing.assert_array_equal(lanes["101"].centre_m, womd.straight_line(0.0))


def test_the_lane_beside_is_the_longest_that_the_map_has():
    beside = [(2, "a"), (5, "b"), (9, "gone")]
    assert longest_beside(beside, {"a", "b"}) == "b"
    assert longest_beside(beside, {"c"}) is None


def test_a_boundary_is_where_the_lines_beside_the_lane_are(scenario):
    lane = lanes_of(read(scenario))["101"]
    np.testing.assert_allclose(lane.left_m, womd.straight_line(1.75), atol=1e-9)
    before, behind = womd.straight_line(-1.5, z_m=7.5)[:40], womd.straight_line(-2.5, z_m=7.5)[40:]
    np.testing.assert_allclose(lane.right_m, np.vstack([before, behind]), atol=1e-9)


def test_a_boundary_goes_on_as_wide_as_it_was_where_nothing_is_told(scenario):
    lane = lanes_of(read(scenario))["102"]
    np.testing.assert_allclose(lane.left_m, womd.straight_line(6.0, z_m=7.5), atol=1e-9)


def test_between_two_known_stretches_the_width_changes_evenly(scenario):
    lane = scenario.map_features[0].lane
    del lane.right_boundaries[:]
    lane.right_boundaries.add(lane_start_index=0, lane_end_index=10, boundary_feature_id=202)
    lane.right_boundaries.add(lane_start_index=50, lane_end_index=80, boundary_feature_id=203)
    right_m = lanes_of(read(scenario))["101"].right_m
    np.testing.assert_allclose(right_m[10:51, 1], np.linspace(-1.5, -2.5, 41), atol=1e-9)


@pytest.mark.parametrize("y_m", [1.0, 11.0, -10.5], ids=["wrong side", "wrong side and far", "far"])
def test_a_line_that_cannot_bound_the_lane_is_not_taken(scenario, y_m):
    feature = next(feature for feature in scenario.map_features if feature.id == 202)
    del feature.road_edge.polyline[:]
    womd.add_points(feature.road_edge.polyline, womd.straight_line(y_m))
    right_m = lanes_of(read(scenario))["101"].right_m
    np.testing.assert_allclose(right_m[:, 1], -2.5, atol=1e-9)


def test_a_lane_of_which_no_boundary_is_told_gets_half_a_usual_width(scenario):
    lane = lanes_of(read(scenario))["103"]
    assert (lane.left_m, lane.right_m) == (None, None)
    left_m, right_m = boundaries_of(lane)
    np.testing.assert_allclose(np.linalg.norm(left_m - right_m, axis=1), 3.5)


def test_boundaries_of_a_curve_lie_on_the_circles_beside_it(scenario):
    angles = np.linspace(0, np.pi, 200)
    circle = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(200)])
    lane = womd.add_lane(scenario, 500, circle * 20.0)
    for feature_id, radius_m, stretches in ((501, 18.0, lane.left_boundaries), (502, 22.0, lane.right_boundaries)):
        stretches.add(lane_start_index=0, lane_end_index=199, boundary_feature_id=feature_id)
        womd.add_points(scenario.map_features.add(id=feature_id).road_line.polyline, circle[::-1] * radius_m)
    found = lanes_of(read(scenario))["500"]
    for line_m, radius_m in ((found.left_m, 18.0), (found.right_m, 22.0)):
        np.testing.assert_allclose(np.linalg.norm(line_m, axis=1), radius_m, atol=2e-3)
        np.testing.assert_allclose(line_m / radius_m, circle, atol=2e-3)


@pytest.mark.parametrize(("first", "last", "feature_id"), [(0, 10_000, 201), (-5, 80, 201), (0, 80, 777), (70, 3, 201)])
def test_stretches_beyond_the_lane_or_of_unknown_lines_do_no_harm(scenario, first, last, feature_id):
    stretch = scenario.map_features[0].lane.left_boundaries[0]
    stretch.lane_start_index, stretch.lane_end_index, stretch.boundary_feature_id = first, last, feature_id
    lane = lanes_of(read(scenario))["101"]
    if feature_id == 201 and first < last:
        np.testing.assert_allclose(lane.left_m, womd.straight_line(1.75), atol=1e-9)
    else:
        assert lane.left_m is None


def test_areas_and_signs_have_their_places(scenario):
    found = read(scenario).map
    assert [(area.kind, area.area_id, len(area.outline_m)) for area in found.areas] == [
        ("crosswalk", "401", 4), ("speed_bump", "402", 4), ("driveway", "403", 4),
    ]  # fmt: skip
    (sign,) = found.signs
    assert (sign.sign_id, sign.lane_ids, sign.position_m.tolist()) == ("301", ("102", "103"), [38.0, 6.5, 9.0])


def test_a_scenario_without_a_map_lights_and_others_is_a_scene(scenario):
    del scenario.map_features[:], scenario.dynamic_map_states[:], scenario.tracks_to_predict[:]
    ego = scenario.tracks[2].SerializeToString()
    del scenario.tracks[:]
    scenario.tracks.add().ParseFromString(ego)
    scenario.sdc_track_index = 0
    scene = read(scenario)
    assert (len(scene.tracks.ids), len(scene.lights.lane_ids), len(scene.map.lanes)) == (0, 0, 0)
    assert len(scene.ego.yaws_rad) == 21


def test_fields_that_nobody_knows_are_skipped(scenario):
    track = scenario.tracks[0].SerializeToString() + b"\xa2\x06\x03abc" + b"\x98\x06\x05"
    data = scenario.SerializeToString() + b"\x12" + bytes([len(track) & 0x7F | 0x80, len(track) >> 7]) + track
    scene = read_scenario(data.replace(b"\x08\x0b", b"\x08\x0c", 1))  # the first one gets another id
    assert scene.tracks.ids == ("12", "7", "8", "9", "11")
    np.testing.assert_array_equal(scene.tracks.positions_m[0], scene.tracks.positions_m[4])


# --- what is mended


def test_lanes_without_a_line_are_left_out_and_named(scenario):
    scenario.map_features.add(id=150).lane.type = 2
    womd.add_lane(scenario, 151, [[1.0, 2.0, 3.0]])
    womd.add_lane(scenario, 152, [[1.0, 2.0, 3.0]] * 3)
    womd.add_lane(scenario, 153, [[1.0, 2.0, 3.0], [np.nan, 2.0, 3.0]])
    womd.add_lane(scenario, 154, [[1.0, 2.0, 3.0], [1.1e5, 2.0, 3.0]])
    scene = read(scenario)
    assert lanes_of(scene).keys() == {"101", "102", "103", "104"}
    assert scene.remarks == ("lanes without a centre line are left out: 150, 151, 152, 153, 154",)


def test_areas_without_corners_and_signs_without_a_place_are_left_out_and_named(scenario):
    womd.add_points(scenario.map_features.add(id=450).crosswalk.polygon, [[0, 0, 0], [1, 1, 1]])
    scenario.map_features.add(id=350).stop_sign.lane.append(101)
    assert read(scenario).remarks == (
        "crosswalk areas with less than three corners are left out: 450",
        "stop signs without a position are left out: 350",
    )


def test_an_unknown_class_is_taken_for_unset_and_told(scenario):
    scenario.tracks[0].object_type = 7
    scene = read(scenario)
    assert scene.tracks.classes[0] == "unset"
    assert scene.remarks == ("tracks of unknown object_type 7 are treated as unset",)


def test_steps_without_the_av_at_the_ends_are_left_out(scenario):
    for step in (0, 1, 20):
        scenario.tracks[2].states[step].valid = False
    scene = read(scenario)
    assert scene.remarks == ("steps 2 to 19 of 21 are kept: the AV is not seen in the others",)
    np.testing.assert_allclose(scene.timestamps_ns / 1e9 - 1, scenario.timestamps_seconds[2:20])
    assert (scene.tracks.is_valid.shape, scene.lights.states.shape) == ((4, 18), (2, 18))
    assert scene.lights.states[1, 2] == LightState.RED  # step 4


def test_the_av_goes_straight_on_through_a_gap(scenario):
    for step in (7, 8):
        scenario.tracks[2].states[step].Clear()
    scene = read(scenario)
    assert scene.remarks == ("poses of the AV are interpolated in steps 7, 8, where it is unseen",)
    np.testing.assert_allclose(scene.ego.positions_m[:, 0], 2.0 + 0.9 * np.arange(21), atol=1e-9)


def test_a_gap_over_the_turn_of_the_angle_does_not_turn_around(scenario):
    for step, state in enumerate(scenario.tracks[2].states):
        state.heading = (3.0 + 0.02 * step + np.pi) % (2 * np.pi) - np.pi
    scenario.tracks[2].states[7].Clear()
    np.testing.assert_allclose(read(scenario).ego.yaws_rad, 3.0 + 0.02 * np.arange(21), atol=1e-6)


# --- what is refused


def change(scenario, fault):
    """Damage a scenario in one way."""
    if fault == "no AV":
        scenario.ClearField("sdc_track_index")
    elif fault == "AV beyond":
        scenario.sdc_track_index = 5
    elif fault == "AV never seen":
        for state in scenario.tracks[2].states:
            state.valid = False
    elif fault == "twice":
        scenario.tracks[1].id = 11
    elif fault == "backwards":
        scenario.timestamps_seconds[4] = 0.25
    elif fault == "time not finite":
        scenario.timestamps_seconds[4] = np.nan
    elif fault == "time too great":
        scenario.timestamps_seconds[4] = 1e10
    elif fault == "too few states":
        del scenario.tracks[3].states[20]
    elif fault == "lights":
        del scenario.dynamic_map_states[3]
    elif fault == "target beyond":
        scenario.tracks_to_predict[1].track_index = 5
    elif fault == "not finite":
        scenario.tracks[0].states[6].center_y = np.inf
    elif fault == "too far":
        scenario.tracks[0].states[6].center_x = 2e5
    elif fault == "too large":
        scenario.tracks[2].states[0].height = 101.0
    elif fault == "AV too far":
        scenario.tracks[2].states[0].center_x = 1.1e7
    elif fault == "no size":
        scenario.tracks[0].states[6].width = 0.0
    elif fault == "lane twice":
        womd.add_lane(scenario, 101, womd.straight_line(9.0))
    elif fault == "no id":
        scenario.ClearField("scenario_id")
    elif fault == "no tracks":
        del scenario.tracks[:]
    return scenario


FAULTS = {
    "no AV": "sdc_track_index, the track of the AV, must be from 0 to 4, got none",
    "AV beyond": "sdc_track_index, the track of the AV, must be from 0 to 4, got 5",
    "AV never seen": "the AV, track 90, is seen in no step",
    "twice": "track '11' occurs twice",
    "backwards": "times must ascend, but step 4 is at 1250000000 ns after 1300000000 ns",
    "time not finite": "timestamps_seconds must be from -1 to 9.2e+09, got nan in step 4",
    "time too great": "timestamps_seconds must be from -1 to 9.2e+09, got 10000000000.0 in step 4",
    "too few states": "track 3 has 20 states for 21 times",
    "lights": "there are 20 dynamic_map_states for 21 times",
    "target beyond": "tracks_to_predict has track 5; there are tracks 0 to 4",
    "not finite": "center_y of track 11 must be within 100000 of that of the AV, got inf in step 6",
    "too far": "center_x of track 11 must be within 100000 of that of the AV, got 200000.0 in step 6",
    "too large": "height of track 90 must be within 100, got 101.0 in step 0",
    "AV too far": "the AV must be within 1e+07 m, got [11000000.0, 3.5, 8.0]",
    "no size": "sizes_m of track '11', step 6 must be finite, above 0 and up to 100 m",
    "lane twice": "the map has lane '101' twice",
    "no id": "the record has no scenario_id, so it is no Scenario",
    "no tracks": "the record has no tracks, so it is no Scenario",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_names_file_record_and_what_is_wrong_and_the_others_go_on(tmp_path, fault):
    scenarios = [womd.small_scenario("a"), change(womd.small_scenario("b"), fault), womd.small_scenario("c")]
    womd.write_file(tmp_path / "source" / "training.tfrecord", scenarios)
    reader = WomdReader(tmp_path / "source")
    first, second, third = reader.list_scenes()
    with pytest.raises(SourceDataError) as caught:
        reader.read(second)
    assert str(caught.value).startswith("training.tfrecord (record 1): ")
    assert FAULTS[fault] in str(caught.value)
    assert (reader.read(first).name, reader.read(third).name) == ("a", "c")


@pytest.mark.parametrize(
    "content",
    [b"", b"no message at all", b"\x0a\x05\x0a\x03abc", b"\x12\x02\xff\xff", b"\x42\x03\x1a\x01\xff"],
    ids=["empty", "text", "tf.Example", "cut track", "cut lane"],
)
def test_a_record_of_something_else_is_no_scenario(tmp_path, content):
    womd.write_file(tmp_path / "training.tfrecord", [content])
    reader = WomdReader(tmp_path)
    (ref,) = reader.list_scenes()
    with pytest.raises(SourceDataError, match=r"^training.tfrecord \(record 0\): the record .* tf.Example$"):
        reader.read(ref)


def test_a_damaged_state_names_its_track(scenario):
    content = scenario.SerializeToString()
    state = scenario.tracks[1].states[0].SerializeToString()
    damaged = content.replace(state, b"\xff" * len(state), 1)
    with pytest.raises(ValueError, match="track 1 is no message as protobuf writes it"):
        read_scenario(damaged)


def test_an_import_tells_of_damaged_records_and_has_the_rest(tmp_path):
    records = [womd.record_of(womd.small_scenario(name).SerializeToString()) for name in "abcde"]
    damaged = bytearray(b"".join(records))
    damaged[len(records[0]) + 100] ^= 1  # content of b
    damaged[sum(map(len, records[:3])) + 3] ^= 1  # length of d
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "training.tfrecord-1").write_bytes(damaged)
    (tmp_path / "source" / "training.tfrecord-2").touch()
    (tmp_path / "source" / "training.tfrecord-3").write_bytes(records[0][:-10])
    result = import_dataset(WomdReader(tmp_path / "source"), tmp_path / "out")
    assert result.num_scenes == 3
    assert [(each.ref.file, each.ref.record) for each in result.failed] == [
        ("training.tfrecord-1", "record 1"),
        ("training.tfrecord-1", "record 3"),
        ("training.tfrecord-2", "record 0"),
        ("training.tfrecord-3", "record 0"),
    ]
    problems = [each.message for each in result.failed]
    for problem, expected in zip(
        problems,
        ["its content does not fit its checksum", "its length, ", "the file is empty", "the file ends 10 bytes before"],
        strict=True,
    ):
        assert expected in problem


def test_a_file_that_may_not_be_read_is_told_and_the_others_go_on(tmp_path, monkeypatch):
    source = tmp_path / "source"
    for name in "abc":
        womd.write_file(source / f"training.tfrecord-{name}", [womd.small_scenario(name)])
    (source / "training.tfrecord-d").mkdir()  # which is no file, and may hold some
    womd.write_file(source / "training.tfrecord-d" / "training.tfrecord-e", [womd.small_scenario("e")])
    opened = Path.open

    def refusing(path, *arguments, **options):
        if path.name == "training.tfrecord-b":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refusing)
    reader = WomdReader(source)
    listed = [(ref.file, ref.record) for ref in reader.list_scenes()]
    others = ["training.tfrecord-c", "training.tfrecord-d/training.tfrecord-e"]
    assert listed == [(file, "record 0") for file in ("training.tfrecord-a", "training.tfrecord-b", *others)]
    result = import_dataset(reader, tmp_path / "out")
    assert result.num_scenes == 3
    (failed,) = result.failed
    assert failed.message.startswith("training.tfrecord-b (record 0): PermissionError: [Errno 13] Permission denied")


@pytest.mark.parametrize("make", [False, True], ids=["missing", "empty"])
def test_a_folder_without_files_is_told(tmp_path, make):
    folder = tmp_path / "nothing"
    if make:
        folder.mkdir()
        (folder / "notes.txt").touch()
    with pytest.raises(DatasetNotFoundError, match=r"there is no (folder|TFRecord file)"):
        WomdReader(folder).list_scenes()


def test_random_damage_is_a_named_error_or_a_scene_as_before_in_parts(scenario):
    """Damage below the checksums: bytes of a message are changed, cut out and put in."""
    whole = scenario.SerializeToString()
    rng = np.random.default_rng(5)
    ends = {"scene": 0, "error": 0}
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            place, kind = int(rng.integers(len(data))), rng.integers(4)
            if kind == 0:
                data[place] ^= 1 << int(rng.integers(8))
            elif kind == 1:
                data[place] = int(rng.integers(256))
            elif kind == 2:
                del data[place : place + int(rng.integers(1, 200))]
            else:
                data[place:place] = rng.bytes(int(rng.integers(1, 20)))
        try:
            scene = read_scenario(bytes(data))
        except ValueError:
            ends["error"] += 1
            continue
        ends["scene"] += 1
        assert np.isfinite(scene.tracks.positions_m[scene.tracks.is_valid]).all()
        assert np.isfinite(scene.ego.positions_m).all()
    assert min(ends.values()) > 20, ends


def test_records_without_content_fail_as_one_stretch(tmp_path):
    """So that a file of hundreds of thousands of them, a few megabytes, takes no longer than any other."""
    whole = womd.small_scenario("a1").SerializeToString()
    womd.write_file(tmp_path / "a.tfrecord", [b"", whole, b"", b"", b"", whole, b""])
    reader = WomdReader(tmp_path)
    refs = reader.list_scenes()
    assert [ref.record for ref in refs] == ["record 0", "record 1", "records 2 to 4", "record 5", "record 6"]
    with pytest.raises(SourceDataError, match=r"a.tfrecord \(records 2 to 4\): the record has no scenario_id"):
        reader.read(refs[2])
    assert reader.read(refs[3]).name == "a1"

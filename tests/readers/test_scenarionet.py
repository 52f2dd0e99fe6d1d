"""The reader of ScenarioNet: what it makes of sets of several datasets and versions, and what it refuses.

Where ``L5KIT_REAL_SCENARIONET`` names a folder of real scenarios, the whole import runs on its first ones, too.
"""

import copy
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.checks.path_validation import validate_path
from l5kit.data.jobs.worker_processes import WorkerProcesses
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError
from l5kit.readers.formats import ReaderOptions, guess_format, open_reader
from l5kit.readers.importing import import_dataset
from l5kit.readers.reader import SourceDataError
from l5kit.readers.source_scene import LightState
from support import scenarionet_files as sn

DATASETS = ("waymo", "nuscenes", "nuplan")


def read_one(folder, scenario, **written):
    """The scene that the reader makes of a scenario."""
    sn.write_set(folder, [scenario], **written)
    reader = open_reader("scenarionet", folder)
    (ref,) = reader.list_scenes()
    return reader.read(ref)


@pytest.fixture(params=DATASETS)
def dataset(request):
    return request.param


def test_tracks_have_their_places_sizes_and_gaps(tmp_path, dataset):
    scene = read_one(tmp_path, sn.make_scenario("a", dataset))
    assert scene.ego.positions_m[:, 0] == pytest.approx(0.8 * np.arange(sn.NUM_STEPS), abs=1e-5)
    height_m = 0.8 - 0.8 if dataset == "waymo" else 0.8
    assert scene.ego.positions_m[:, 2] == pytest.approx(np.full(sn.NUM_STEPS, height_m), abs=1e-6)
    wanted_m = (4.084, 1.73, 1.562) if dataset == "nuscenes" else (4.8, 2.0, 1.6)
    assert scene.ego.size_m.tolist() == pytest.approx(wanted_m, abs=1e-6)
    tracks = scene.tracks
    assert (tracks.ids, tracks.classes) == (("7", "8", "9"), ("VEHICLE", "PEDESTRIAN", "TRAFFIC_CONE"))
    assert tracks.is_valid.sum(axis=1).tolist() == [sn.NUM_STEPS, 4, sn.NUM_STEPS]
    assert tracks.sizes_m[0, 0].tolist() == pytest.approx((4.5, 1.9, 1.6), abs=1e-6)
    assert tracks.velocities_mps[0, 3].tolist() == [8.0, 0.0]
    assert tracks.yaws_rad[1, 6] == pytest.approx(np.pi / 2)
    assert tracks.is_target.tolist() == [True, False, False]


def test_only_in_sets_whose_vehicles_are_wider_than_long_is_length_exchanged(tmp_path):
    scenario = sn.make_scenario("a", "nuscenes")
    told = read_one(tmp_path / "swapped", scenario)
    assert any("swapped" in remark for remark in told.remarks)
    for track in scenario["tracks"].values():
        state = track["state"]
        state["length"], state["width"] = state["width"], state["length"]
    right = read_one(tmp_path / "right", scenario)
    assert not any("swapped" in remark for remark in right.remarks)
    assert np.array_equal(right.tracks.sizes_m[0], told.tracks.sizes_m[0])


def test_the_map_has_lanes_areas_and_signs(tmp_path, dataset):
    scene = read_one(tmp_path, sn.make_scenario("a", dataset))
    lanes = {lane.lane_id: lane for lane in scene.map.lanes}
    assert set(lanes) == {"1", "2", "3", "bike"}
    first = lanes["1"]
    assert first.centre_m[[0, -1], 0].tolist() == [-50.0, 100.0]
    assert (first.successors, lanes["3"].predecessors) == (("3",), ("1",))
    assert (first.left_neighbour, first.right_neighbour) == ("2", None)
    assert (lanes["bike"].kind, lanes["3"].is_in_junction) == ("bike", True)
    limit_mps = {"waymo": 11.176, "nuscenes": None, "nuplan": 15.0}[dataset]
    assert first.speed_limit_mps == (None if limit_mps is None else pytest.approx(limit_mps))
    sides_m = {"waymo": (2.0, -1.5), "nuplan": (1.8, -1.6)}.get(dataset)
    if sides_m is None:
        assert (first.left_m, first.right_m) == (None, None)
    else:
        assert np.allclose(first.left_m[:, 1], sides_m[0])
        assert np.allclose(first.right_m[:, 1], sides_m[1])
        assert first.left_m[-1, 0] > first.left_m[0, 0]
    assert sorted(area.kind for area in scene.map.areas) == ["crosswalk", "speed_bump", "walkway"]
    assert {len(area.outline_m) for area in scene.map.areas} == {4}
    assert [(sign.sign_id, sign.lane_ids) for sign in scene.map.signs] == [("40", ("2",))]


def test_lights_are_those_of_lanes_of_the_map(tmp_path):
    scene = read_one(tmp_path, sn.make_scenario("a", "nuplan"))
    lights, middle = scene.lights, sn.NUM_STEPS // 2
    assert lights.lane_ids == ("3",)
    assert set(lights.states[0, :middle]) == {LightState.RED}
    assert lights.states[0, middle] == LightState.ABSENT
    assert set(lights.states[0, middle + 1 :]) == {LightState.GREEN}
    assert lights.positions_m.tolist() == [[99.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("LANE_STATE_CAUTION", LightState.YELLOW),
        ("LANE_STATE_FLASHING_STOP", LightState.RED),
        ("LANE_STATE_UNKNOWN", LightState.UNKNOWN),
        ("TRAFFIC_LIGHT_GREEN", LightState.GREEN),
        ("something else", LightState.UNKNOWN),
        (None, LightState.ABSENT),
    ],
)
def test_states_of_lights_have_the_words_of_several_versions(tmp_path, told, shown):
    scenario = sn.make_scenario("a", "nuplan")
    light = scenario["dynamic_map_states"]["3"]
    light["state"]["object_state"] = np.array([told] * sn.NUM_STEPS, object)
    light["stop_point"] = None
    scene = read_one(tmp_path, scenario)
    assert set(scene.lights.states[0]) == {shown}
    assert scene.lights.positions_m[0].tolist() == [100.0, 0.0, 0.0], "where the lane begins"


def test_arrays_may_have_a_column_and_places_no_height(tmp_path):
    scenario = sn.make_scenario("a", "nuplan")
    wanted = read_one(tmp_path / "flat", copy.deepcopy(scenario))
    for track in scenario["tracks"].values():
        for name in ("heading", "length", "width", "height"):
            track["state"][name] = track["state"][name][:, None]
        track["state"]["position"] = track["state"]["position"][:, :2]
    found = read_one(tmp_path / "columns", scenario)
    assert np.array_equal(found.tracks.sizes_m, wanted.tracks.sizes_m)
    assert np.array_equal(found.ego.positions_m[:, :2], wanted.ego.positions_m[:, :2])


def test_velocities_that_are_missing_are_made_of_places(tmp_path):
    scenario = sn.make_scenario("a")
    del scenario["tracks"]["7"]["state"]["velocity"]
    scene = read_one(tmp_path, scenario)
    assert scene.tracks.velocities_mps[0, :, 0] == pytest.approx(np.full(sn.NUM_STEPS, 8.0), abs=1e-4)
    assert "Velocities of 1 tracks are differences of their positions." in scene.remarks


def test_gaps_of_the_av_are_filled_and_steps_without_it_left_out(tmp_path):
    scenario = sn.make_scenario("a", "nuplan")
    scenario["tracks"]["ego"]["state"]["valid"][[0, 1, 40, 90]] = False
    scene = read_one(tmp_path, scenario)
    assert len(scene.timestamps_ns) == 88
    assert scene.ego.positions_m[:, 0] == pytest.approx(0.8 * np.arange(2, 90), abs=1e-4)
    assert any("not seen in steps 40" in remark for remark in scene.remarks)
    assert any(remark.startswith("Steps 2 to 89 of 91 are kept") for remark in scene.remarks)


def test_scenarios_of_one_map_lie_in_one_frame_where_their_shift_is_told(tmp_path):
    scenarios = []
    for name, origin_m in (("a", (1000.0, 500.0)), ("b", (1040.0, 500.0))):
        scenario = sn.make_scenario(name, "nuplan")
        for feature in scenario["map_features"].values():
            for key in ("polyline", "polygon"):
                if key in feature:
                    feature[key] = feature[key] - np.array([*origin_m, 0.0])[: feature[key].shape[1]]
        for track in scenario["tracks"].values():
            track["state"]["position"] = track["state"]["position"] - np.float32([*origin_m, 0.0])
        del scenario["map_features"]["40"]
        scenario["dynamic_map_states"] = {}
        scenario["metadata"]["old_origin_in_current_coordinate"] = -np.array(origin_m)
        scenarios.append(scenario)
    sn.write_set(tmp_path / "set", scenarios)
    result = import_dataset(open_reader("scenarionet", tmp_path / "set"), tmp_path / "out")
    told = json.loads((tmp_path / "out" / "import.json").read_text())
    assert (list(told["map_offsets_m"]), told["map_remarks"]) == (["town"], [])
    log = ChunkedDataset(str(result.scenes["sample"])).open()
    assert log.frames["ego_translation"][[0, 91], 0] == pytest.approx([0.0, 0.0], abs=1e-3)


# --- folders


def test_files_lie_where_the_mapping_says(tmp_path):
    sn.write_set(tmp_path / "train_set", [sn.make_scenario("a"), sn.make_scenario("b")], subfolder="waymo_0")
    refs = open_reader("scenarionet", tmp_path / "train_set").list_scenes()
    assert [(ref.split, ref.name, ref.file) for ref in refs] == [
        ("train", "sd_waymo_v1.2_a", "waymo_0/sd_waymo_v1.2_a.pkl"),
        ("train", "sd_waymo_v1.2_b", "waymo_0/sd_waymo_v1.2_b.pkl"),
    ]


@pytest.mark.parametrize("written", [{"has_mapping": False}, {"has_mapping": False, "has_summary": False}])
def test_older_sets_lack_the_mapping_or_the_summary(tmp_path, written):
    sn.write_set(tmp_path, [sn.make_scenario("a", step_s=0.2)], subfolder="val", **written)
    reader = open_reader("scenarionet", tmp_path)
    (ref,) = reader.list_scenes()
    assert (ref.split, ref.file, reader.info.step_time_s) == ("val", "val/sd_waymo_v1.2_a.pkl", 0.2)


@pytest.mark.parametrize("times", [None, np.array(0.2), "0.2", [0.0], [[0.0], [0.1, 0.2]]], ids=repr)
def test_times_that_a_summary_does_not_tell_leave_the_usual_step(tmp_path, times):
    (tmp_path / "dataset_summary.pkl").write_bytes(pickle.dumps({"sd_a.pkl": {"ts": times}}))
    assert open_reader("scenarionet", tmp_path).info.step_time_s == 0.1


def test_the_licence_is_that_of_what_a_set_was_made_of(tmp_path):
    sn.write_set(tmp_path, [sn.make_scenario("a"), sn.make_scenario("b", "nuplan"), sn.make_scenario("c", "kitti")])
    info = open_reader("scenarionet", tmp_path).info
    assert info.dataset == "ScenarioNet (kitti, nuplan, waymo)"
    for text in ("Waymo Dataset License Agreement", "nuPlan: CC BY-NC-SA 4.0", "kitti: that of the dataset"):
        assert text in info.licence


def test_what_is_no_set_is_refused(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="there is no such folder"):
        open_reader("scenarionet", tmp_path / "none").list_scenes()
    with pytest.raises(DatasetNotFoundError, match=r"there is no dataset_summary\.pkl in it, and no sd_"):
        open_reader("scenarionet", tmp_path).list_scenes()
    (tmp_path / "dataset_summary.pkl").write_bytes(pickle.dumps({"sd_a.pkl": {}})[:-4])
    with pytest.raises(SourceDataError, match=r"^dataset_summary\.pkl: it ends too early"):
        open_reader("scenarionet", tmp_path).list_scenes()
    (tmp_path / "dataset_summary.pkl").write_bytes(pickle.dumps({"../sd_a.pkl": {}}))
    with pytest.raises(SourceDataError, match="names must be those of files"):
        open_reader("scenarionet", tmp_path).list_scenes()


def test_the_format_of_a_set_is_guessed(tmp_path):
    sn.write_set(tmp_path, [sn.make_scenario("a")], subfolder="waymo_0")
    assert guess_format(tmp_path) == "scenarionet"


def test_a_file_that_was_renamed_is_told(tmp_path):
    sn.write_set(tmp_path, [sn.make_scenario("abc")], has_summary=False, has_mapping=False)
    (tmp_path / "sd_waymo_v1.2_abc.pkl").rename(tmp_path / "sd_waymo_v1.2_other.pkl")
    reader = open_reader("scenarionet", tmp_path)
    assert any("was it renamed?" in remark for remark in reader.read(reader.list_scenes()[0]).remarks)


# --- damage


def _without(*path):
    def change(scenario):
        for key in path[:-1]:
            scenario = scenario[key]
        del scenario[path[-1]]

    return change


def _with(value, *path):
    def change(scenario):
        for key in path[:-1]:
            scenario = scenario[key]
        scenario[path[-1]] = value

    return change


def _never_seen(scenario):
    scenario["tracks"]["ego"]["state"]["valid"][:] = False


def _nan_heading(scenario):
    scenario["tracks"]["8"]["state"]["heading"][6] = np.nan


DAMAGE = {
    "no AV": (_without("metadata", "sdc_id"), r"metadata\.sdc_id must be one of the tracks, the AV, got none"),
    "two AVs": (_with(["ego", "7"], "metadata", "sdc_id"), r"metadata\.sdc_id must name the one AV, got 2"),
    "AV without track": (_with("99", "metadata", "sdc_id"), r"must be one of the tracks, the AV, got '99'"),
    "AV never seen": (_never_seen, "the AV, track 'ego', is seen in no step"),
    "no map": (_without("map_features"), "map_features is missing; there are: id, version"),
    "no tracks": (_without("tracks"), "tracks is missing"),
    "tracks no dictionary": (_with([1], "tracks"), "tracks must hold a dictionary, got a list"),
    "NaN heading": (_nan_heading, "yaws_rad of track '8', step 6 must be finite"),
    "empty scene": (_with(np.zeros(0), "metadata", "ts"), "there are 0 times"),
    "other length": (_with(50, "length"), r"there are 91 times \(metadata\.ts\) for a length of 50 steps"),
    "no times": (
        lambda scenario: (_without("length")(scenario), _without("metadata", "ts")(scenario)),
        "the times of the steps are unknown",
    ),
    "times descend": (_with(np.linspace(9, 0, 91), "metadata", "ts"), "times must ascend"),
    "other rate": (
        _with(np.linspace(0, 45, 91), "metadata", "ts"),
        r"steps are 0\.5 s apart, those of the source are 0\.1 s",
    ),
    "missing array": (_without("tracks", "7", "state", "width"), r"tracks\['7'\]\.state\.width is missing"),
    "short array": (
        _with(np.zeros(5), "tracks", "7", "state", "heading"),
        r"tracks\['7'\]\.state\.heading must have the shape \(91\), got \(5,\)",
    ),
    "text for numbers": (
        _with(["a"] * 91, "tracks", "7", "state", "heading"),
        r"tracks\['7'\]\.state\.heading must be numbers, got a list",
    ),
    "short light": (
        _with(["LANE_STATE_GO"], "dynamic_map_states", "3", "state", "object_state"),
        r"object_state must be a list of 91 states",
    ),
    "type of a feature": (_without("map_features", "1", "type"), r"map_features\['1'\]\.type must be text, got None"),
    "odd polyline": (_with(np.zeros(7), "map_features", "1", "polyline"), r"map_features\['1'\]\.polyline must have"),
    "no dictionary": (None, "the file must hold a dictionary, got a list"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_fails_one_scene_with_file_and_field(tmp_path, kind):
    change, message = DAMAGE[kind]
    damaged = sn.make_scenario("a")
    sn.write_set(tmp_path / "set", [damaged, sn.make_scenario("b"), sn.make_scenario("c")])
    if change is not None:
        change(damaged)
    content = [damaged] if change is None else damaged
    (tmp_path / "set" / "sd_waymo_v1.2_a.pkl").write_bytes(pickle.dumps(content))
    result = import_dataset(open_reader("scenarionet", tmp_path / "set"), tmp_path / "out")
    assert result.num_scenes == 2
    (failed,) = result.failed
    assert failed.message.startswith("sd_waymo_v1.2_a.pkl: ")
    with pytest.raises(ValueError, match=message):
        raise ValueError(failed.message)


def test_a_missing_file_and_one_that_wants_to_run_something_fail_alone(tmp_path):
    sn.write_set(tmp_path / "set", [sn.make_scenario(name) for name in "abc"])
    (tmp_path / "set" / "sd_waymo_v1.2_a.pkl").unlink()
    (tmp_path / "set" / "sd_waymo_v1.2_b.pkl").write_bytes(b"cos\nsystem\n(S'touch " + bytes(tmp_path) + b"/ran'\ntR.")
    result = import_dataset(open_reader("scenarionet", tmp_path / "set"), tmp_path / "out")
    missing, runs = (failed.message for failed in result.failed)
    assert "there is no such file, although the folder lists it" in missing
    assert "it names os.system, and a pickle may run what it names" in runs
    assert not (tmp_path / "ran").exists()


def test_features_without_geometry_are_left_out_and_told(tmp_path):
    scenario = sn.make_scenario("a")
    scenario["map_features"]["bike"]["polyline"] = np.zeros((0, 2))
    scenario["map_features"]["30"]["polygon"] = np.zeros((2, 3))
    scene = read_one(tmp_path, scenario)
    assert "Map features without geometry are left out: bike, 30." in scene.remarks
    assert "bike" not in {lane.lane_id for lane in scene.map.lanes}


# --- windows of one log


def make_windows(starts, *, length=30, has_own_times=True):
    """Windows that were cut out of one drive at some steps."""
    windows = []
    for number, start in enumerate(starts):
        scenario = sn.make_scenario(
            f"w{number}",
            "nuplan",
            num_steps=length,
            start_s=sn.STEP_S * start if has_own_times else 0.0,
            start_m=(0.8 * start, 0.0),
        )
        scenario["metadata"]["log_name"] = "drive 1"
        windows.append(scenario)
    return windows


def scenes_of(folder, *, joins):
    reader = open_reader("scenarionet", folder, ReaderOptions(joins_windows=joins))
    return [reader.read(ref) for ref in reader.list_scenes()]


def test_windows_of_one_log_are_joined_or_kept_as_asked(tmp_path):
    sn.write_set(tmp_path, [*make_windows([0, 20, 50, 200]), sn.make_scenario("other", "nuplan")])
    kept = scenes_of(tmp_path, joins=False)
    assert [len(scene.timestamps_ns) for scene in kept] == [91, 30, 30, 30, 30]
    other, drive, late = scenes_of(tmp_path, joins=True)
    assert (other.name, len(other.timestamps_ns)) == ("sd_nuplan_v1.2_other", 91)
    assert (drive.name, late.name) == ("sd_nuplan_v1.2_w0", "sd_nuplan_v1.2_w3")
    assert drive.ego.positions_m[:, 0] == pytest.approx(0.8 * np.arange(80), abs=1e-3)
    assert drive.tracks.is_valid.sum(axis=1).tolist() == [80, 12, 80]
    assert drive.tracks.ids == ("7", "8", "9")
    assert drive.remarks[0] == "3 windows of one log are joined."
    assert {lane.lane_id for lane in drive.map.lanes} == {"1", "2", "3", "bike"}
    assert drive.lights.states.shape == (1, 80)


def test_windows_whose_order_nothing_tells_are_kept(tmp_path):
    sn.write_set(tmp_path, make_windows([0, 20], has_own_times=False))
    assert [len(scene.timestamps_ns) for scene in scenes_of(tmp_path, joins=True)] == [30, 30]


def test_windows_that_contradict_each_other_fail(tmp_path):
    first, second = make_windows([0, 20])
    second["tracks"]["ego"]["state"]["position"][:, 1] += 3.0
    sn.write_set(tmp_path, [first, second])
    with pytest.raises(
        SourceDataError, match=r"3\.00 m away from where another one has it .*import them without --join"
    ):
        scenes_of(tmp_path, joins=True)


def test_options_of_other_formats_are_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="sources in the format womd have no such option; only scenarionet"):
        open_reader("womd", tmp_path, ReaderOptions(joins_windows=True))


# --- whole imports


@pytest.fixture(
    params=[
        "made",
        pytest.param(
            "real",
            marks=pytest.mark.skipif(
                "L5KIT_REAL_SCENARIONET" not in os.environ, reason="L5KIT_REAL_SCENARIONET is not set"
            ),
        ),
    ]
)
def source(request, tmp_path):
    if request.param == "real":
        return Path(os.environ["L5KIT_REAL_SCENARIONET"])
    sn.write_set(tmp_path / "set", [sn.make_scenario(name, kind) for name, kind in zip("abc", DATASETS, strict=True)])
    return tmp_path / "set"


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.process
def test_an_import_is_valid_and_the_same_for_any_number_of_processes(source, tmp_path):
    reader = open_reader("scenarionet", source)
    result = import_dataset(reader, tmp_path / "one", max_scenes=10)
    assert not result.failed
    for path in result.scenes.values():
        assert validate_path(path) == []
    with WorkerProcesses(2) as workers:
        import_dataset(reader, tmp_path / "two", max_scenes=10, workers=workers)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")

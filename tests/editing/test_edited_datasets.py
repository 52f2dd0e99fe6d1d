"""Datasets of edited scenes: files, provenance, what is left out, and that planners see what was put there."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from l5kit.cli.validate import check_files
from l5kit.closedloop import simulate
from l5kit.data import (
    ChunkedDataset,
    dataset_digest,
    find_dataset_files,
    open_map,
    read_scene_arrays,
)
from l5kit.editing import (
    AnotherGoal,
    BrakingLeader,
    Cones,
    CutIn,
    DenserTraffic,
    FewerAgents,
    ImpossibleEditError,
    ParkedVehicle,
    PedestrianStepsOut,
    RedLight,
    SceneEdit,
    SlowLeader,
    edit_dataset,
)
from l5kit.editing.edit_texts import EDITS, parse_edit
from l5kit.errors import InvalidArgumentError
from support.cities import small_city
from support.edited_scenes import drive_ahead, fork_setting, lit_setting, save_dataset, track_of
from support.many_maps import import_both

PARK = ParkedVehicle(ahead_m=40.0)


@pytest.fixture(scope="module")
def fork_dataset(tmp_path_factory):
    """Three scenes: on the way to a fork, past it, and in a lane without one."""
    scenes = [
        drive_ahead(start_m=(60.0, 0.0), num_frames=80, others=[{"start": (90.0, 4.0), "speed": 10.0}]),
        drive_ahead(),
        drive_ahead(start_m=(10.0, 4.0)),
    ]
    folder = tmp_path_factory.mktemp("data")
    return save_dataset(folder / "fork", fork_setting(folder), scenes)


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    """A synthetic city with three scenes."""
    return small_city(tmp_path_factory.mktemp("cities") / "city").path


def test_an_edited_dataset_has_all_that_the_source_has(fork_dataset, tmp_path):
    before = dataset_digest(fork_dataset)
    edited = edit_dataset(fork_dataset, tmp_path / "edited", PARK, scenes=[2, 0])
    assert dataset_digest(fork_dataset) == before
    assert (edited.path, edited.scenes.tolist(), edited.left_out) == (tmp_path / "edited", [2, 0], {})
    files = find_dataset_files(edited.path)
    source = find_dataset_files(fork_dataset)
    assert files.semantic_map.read_bytes() == source.semantic_map.read_bytes()
    assert files.meta.read_bytes() == source.meta.read_bytes()
    log = ChunkedDataset(edited.log).open()
    assert log.facts == ChunkedDataset(source.dataset).open().facts
    assert len(log.scenes) == 2
    bus = track_of(read_scene_arrays(log, 0), 1)
    np.testing.assert_allclose(bus["xy"][0], (58.0, 4.0))


def test_the_record_has_source_edits_and_scenes(fork_dataset, tmp_path):
    edits = [PARK, AnotherGoal()]
    edited = edit_dataset(fork_dataset, tmp_path / "edited", edits, seed=3)
    record = json.loads((edited.path / "edits.json").read_text())
    source = find_dataset_files(fork_dataset).dataset
    assert record["source"] == {"path": str(source), "digest": dataset_digest(source), "num_scenes": 3}
    assert record["seed"] == 3
    assert record["edits"] == [
        {"edit": "ParkedVehicle", "ahead_m": 40.0, "left_m": 0.0, "kind": "bus"},
        {"edit": "AnotherGoal", "goal_m": None, "ahead_m": 10.0, "speed_mps": None},
    ]
    assert record["scenes"] == edited.scenes.tolist() == [0]
    assert [each["scene"] for each in record["left_out"]] == list(edited.left_out) == [1, 2]
    assert edited.left_out[1].startswith("AnotherGoal: the AV of the log reaches no fork")


def test_the_same_arguments_give_the_same_files(city, tmp_path):
    digests = []
    for name, seed in (("first", 1), ("second", 1), ("other", 2)):
        edited = edit_dataset(city, tmp_path / name, DenserTraffic(), seed=seed)
        digests.append(dataset_digest(edited.path))
    assert digests[0] == digests[1] != digests[2]


EVERY = [
    ParkedVehicle(ahead_m=20.0),
    Cones(ahead_m=15.0),
    PedestrianStepsOut(ahead_m=15.0, pace_mps=4.0),
    SlowLeader(ahead_m=10.0),
    BrakingLeader(ahead_m=10.0, brakes_at_s=1.0),
    CutIn(at_s=1.0, side="either"),
    DenserTraffic(factor=1.5),
    FewerAgents(share=0.5),
    AnotherGoal(speed_mps=8.0),
    RedLight(ahead_m=0.0),
]


def test_every_edit_of_the_command_is_among_these():
    assert {type(edit) for edit in EVERY} == set(EDITS.values())


@pytest.mark.parametrize("edit", EVERY, ids=lambda edit: type(edit).__name__)
def test_edited_scenes_of_a_city_are_as_valid_as_before(city, tmp_path, edit):
    edited = edit_dataset(city, tmp_path / "edited", edit)
    before, after = (check_files(find_dataset_files(path)) for path in (city, edited.path))
    assert {(each.check, each.severity) for each in after} <= {(each.check, each.severity) for each in before}
    assert open_map(find_dataset_files(edited.path)) is not None


def test_a_folder_of_many_maps_keeps_those_of_its_scenes(tmp_path):
    source = import_both(tmp_path)["apart"]
    edited = edit_dataset(source, tmp_path / "edited", ParkedVehicle(ahead_m=5.0), scenes=[0])
    assert len(json.loads((edited.path / "maps" / "index.json").read_text())["maps"]) == 1


class Backwards(SceneEdit):
    """An edit of a user, which is no dataclass."""

    def apply(self, scene, setting):
        return scene

    def __repr__(self):
        return "Backwards()"


def test_an_edit_of_a_user_is_recorded_as_it_prints(fork_dataset, tmp_path):
    edited = edit_dataset(fork_dataset, tmp_path / "edited", [Backwards()])
    record = json.loads((edited.path / "edits.json").read_text())
    assert record["edits"] == [{"edit": "Backwards", "text": "Backwards()"}]


@dataclass(frozen=True)
class WithArray(SceneEdit):
    """An edit of a user with a parameter that JSON does not have."""

    offsets_m: object

    def apply(self, scene, setting):
        return scene


def test_parameters_that_json_does_not_have_are_recorded_as_they_print(fork_dataset, tmp_path):
    edited = edit_dataset(fork_dataset, tmp_path / "edited", WithArray(np.arange(2)))
    record = json.loads((edited.path / "edits.json").read_text())
    assert record["edits"] == [{"edit": "WithArray", "offsets_m": "array([0, 1])"}]


# --- what is refused


class Forgetful(SceneEdit):
    """An edit of a user without a return."""

    def apply(self, scene, setting):
        pass


def test_an_edit_without_a_scene_is_refused(fork_dataset, tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"Forgetful\.apply returned NoneType for scene 0"):
        edit_dataset(fork_dataset, tmp_path / "edited", Forgetful())
    assert list(tmp_path.iterdir()) == []


def test_the_source_is_not_replaced_nor_written_into(fork_dataset, tmp_path):
    edited = edit_dataset(fork_dataset, tmp_path / "edited", PARK)
    before = dataset_digest(edited.log)
    (tmp_path / "link").symlink_to(edited.log)
    with pytest.raises(InvalidArgumentError, match="would overwrite the input"):
        edit_dataset(edited.path, edited.path, Cones(), overwrite=True)
    for out in (edited.log / "again", tmp_path / "link" / "again"):
        with pytest.raises(InvalidArgumentError, match="inside the source log"):
            edit_dataset(edited.path, out, Cones())
    assert dataset_digest(edited.log) == before
    assert not (edited.log / "again").exists()


def test_edits_that_fit_no_scene_leave_nothing(fork_dataset, tmp_path):
    with pytest.raises(ImpossibleEditError, match="fit none of the 1 scenes; scene 1: AnotherGoal: "):
        edit_dataset(fork_dataset, tmp_path / "edited", AnotherGoal(), scenes=1)
    assert list(tmp_path.iterdir()) == []


def test_only_an_edited_dataset_is_replaced(fork_dataset, tmp_path):
    edited = edit_dataset(fork_dataset, tmp_path / "edited", PARK)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        edit_dataset(fork_dataset, tmp_path / "edited", PARK)
    assert len(edit_dataset(fork_dataset, tmp_path / "edited", PARK, scenes=0, overwrite=True).scenes) == 1
    (edited.path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"notes\.txt"):
        edit_dataset(fork_dataset, tmp_path / "edited", PARK, overwrite=True)
    with pytest.raises(InvalidArgumentError, match="no edited dataset"):
        edit_dataset(fork_dataset, fork_dataset, PARK, overwrite=True)


@pytest.mark.parametrize(
    ("edits", "others", "message"),
    [
        pytest.param([], {}, "edits is empty", id="no edits"),
        pytest.param(["cones"], {}, "edits must be SceneEdits, .* got 'cones'", id="a text"),
        pytest.param(PARK, {"seed": -1}, "seed must be a whole number of at least 0, got -1", id="seed"),
        pytest.param(PARK, {"scenes": []}, "scenes selects none of the 3 scenes", id="no scenes"),
    ],
)
def test_calls_that_make_no_sense_are_refused(fork_dataset, tmp_path, edits, others, message):
    with pytest.raises(InvalidArgumentError, match=message):
        edit_dataset(fork_dataset, tmp_path / "edited", edits, **others)


# --- texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cones", Cones()),
        ("parked-vehicle,ahead_m=30,kind=car", ParkedVehicle(ahead_m=30.0, kind="car")),
        ("another_goal,goal_m=[120, -4.5]", AnotherGoal(goal_m=(120.0, -4.5))),
        ("fewer_agents, labels=[car,van], share=0.5", FewerAgents(share=0.5, labels=("car", "van"))),
        ("red_light,until_s=3", RedLight(until_s=3.0)),
    ],
)
def test_edits_have_texts(text, expected):
    assert parse_edit(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cone", "there is no edit 'cone' .did you mean 'cones'"),
        ("cones,colour=red", "cones: 'colour=red' is not a parameter"),
        ("cones,count", "cones: 'count' is not a parameter"),
        ("cones,count=3,count=4", "is repeated"),
        ("cones,count=many", "cones: "),
        ("parked_vehicle,kind=plane", "kind must be one of car, van, bus, truck"),
    ],
)
def test_texts_of_no_edit_are_refused(text, message):
    with pytest.raises(InvalidArgumentError, match=message):
        parse_edit(text)


# --- what it is for


def drive(dataset, folder, planner):
    """Whether the AV collides at fault in the only scene, and where it is at the end."""
    scores = simulate(dataset, folder, planner=planner).scores
    frames = ChunkedDataset(str(folder / "simulated.zarr")).open().frames
    return scores["scenes_failing"]["no_at_fault_collisions"] == 1, frames[-1]["ego_translation"][:2]


AHEAD = [
    ParkedVehicle(),
    Cones(),
    PedestrianStepsOut(),
    SlowLeader(),
    BrakingLeader(),
    CutIn(apart_m=4.0),
]


@pytest.fixture(scope="module")
def on_the_road(tmp_path_factory):
    """One scene on the way to the fork, without collisions."""
    folder = tmp_path_factory.mktemp("road")
    source = save_dataset(folder / "source", fork_setting(folder), [drive_ahead(num_frames=100)])
    assert not drive(source, folder / "logged", "replay")[0]
    return source


@pytest.mark.parametrize("edit", AHEAD, ids=lambda edit: type(edit).__name__)
def test_the_log_hits_what_is_put_there_and_a_planner_does_not(on_the_road, tmp_path, edit):
    edited = edit_dataset(on_the_road, tmp_path / "edited", edit)
    assert drive(edited.path, tmp_path / "replayed", "replay")[0]
    collides, end_m = drive(edited.path, tmp_path / "rules", "rules")
    assert not collides
    assert end_m[0] < 100.0  # it has slowed down


@pytest.mark.parametrize("planner", ["replay", "idm"])
def test_planners_follow_another_goal(tmp_path, planner):
    scene = drive_ahead(start_m=(60.0, 0.0), num_frames=120)
    source = save_dataset(tmp_path / "source", fork_setting(tmp_path), [scene])
    edited = edit_dataset(source, tmp_path / "edited", AnotherGoal())
    for dataset, goes_north in ((source, False), (edited.path, True)):
        _, end_m = drive(dataset, tmp_path / f"driven {goes_north}", planner)
        assert (end_m[1] > 30.0) == goes_north
        assert (end_m[0] > 140.0) != goes_north


def test_a_planner_waits_at_a_red_light(tmp_path):
    source = save_dataset(tmp_path / "source", lit_setting(tmp_path), [drive_ahead(num_frames=100)])
    edited = edit_dataset(source, tmp_path / "edited", RedLight())
    assert drive(source, tmp_path / "free", "idm")[1][0] > 80.0
    assert 50.0 < drive(edited.path, tmp_path / "waiting", "idm")[1][0] < 58.5  # half of 4 m before the line at 60

"""Drives that the page saves: read, driven again and scored to the same numbers."""

import json

import pytest

from l5kit.closedloop.key_drives import read_key_drive, score_key_drive
from l5kit.closedloop.options import ClosedLoopOptions
from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.jobs.data_record import DataRecord
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.simulation.folder.simulation_folder import find_simulation_folder
from support.key_lists import key_lists

SCENE = 1
QUIET = ClosedLoopOptions(show_bar=False)


@pytest.fixture(scope="module")
def saved(city, batches, drive_by_keys):
    """The file that the page would save of a drive, computed by the simulation."""
    keys = key_lists(int(batches[SCENE].stops[0]) - 1)[2]
    drive = drive_by_keys(batches[SCENE], keys)
    scores, states = drive.scored.details.scores, drive.scored.details.states
    names = ("no_at_fault_collisions", "drivable_area_compliance", "progress", "comfort")
    poses = [states.positions_m[0, :, 0], states.positions_m[0, :, 1], states.yaws_rad[0], states.speeds_mps[0]]
    return {
        "format": "l5kit drive",
        "version": 1,
        "city": "city",
        "log": "sample.zarr",
        "digest": DataRecord.of_log(find_dataset_files(city).dataset).digest,
        "scene": SCENE,
        "keys": keys,
        "states": list(zip(*(values.tolist() for values in poses), strict=True)),
        "score": float(scores.score[0]),
        "metrics": {name: float(getattr(scores, name)[0]) for name in names},
    }


@pytest.fixture
def file_of(tmp_path):
    """Write what is saved to a file."""

    def write(content):
        path = tmp_path / "drive.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def test_a_drive_scores_to_the_numbers_of_the_page(city, saved, file_of, tmp_path):
    scored = score_key_drive(read_key_drive(file_of(saved)), city, tmp_path / "mine", options=QUIET)
    assert scored.different == ()
    assert scored.most_apart_m < 1e-9
    assert scored.scores["score"] == pytest.approx(saved["score"], abs=1e-6)
    folder = find_simulation_folder(tmp_path / "mine")
    assert folder is not None
    assert len(ChunkedDataset(scored.result.driven_log).open().scenes) == 1


@pytest.mark.parametrize(
    ("change", "different"),
    [
        ({"score": 0.123}, ("score",)),
        ({"metrics": {"comfort": None}}, ("comfort",)),
        ({"states": [[0.0, 0.0, 0.0, 0.0]]}, ("states",)),
    ],
    ids=["score", "metric", "states"],
)
def test_what_differs_from_the_page_is_named(city, saved, file_of, tmp_path, change, different):
    if "states" in change:
        change = {"states": [[x + 1e-3, y, yaw, speed] for x, y, yaw, speed in saved["states"]]}
    scored = score_key_drive(read_key_drive(file_of(saved | change)), city, tmp_path / "mine", options=QUIET)
    assert scored.different == different


def test_a_drive_in_another_log_is_refused(city, saved, file_of, tmp_path):
    drive = read_key_drive(file_of(saved | {"digest": "0" * 64}))
    with pytest.raises(InvalidArgumentError, match="pass the dataset that the page was written from"):
        score_key_drive(drive, city, tmp_path / "mine", options=QUIET)
    assert not (tmp_path / "mine").exists()


def test_a_drive_that_ended_early_is_refused(city, saved, file_of, tmp_path):
    early = saved | {"keys": saved["keys"][:-5], "states": saved["states"][:-5]}
    with pytest.raises(InvalidArgumentError, match=r"has 95 frames, but scene 1 has 100; drive to the end"):
        score_key_drive(read_key_drive(file_of(early)), city, tmp_path / "mine", options=QUIET)


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        ("{", CorruptedDataError, "is not JSON"),
        ("[]", CorruptedDataError, "is not a drive"),
        ({"format": "else"}, CorruptedDataError, "is not a drive"),
        ({"version": 9}, InvalidArgumentError, "a file of version 9; this l5kit reads version 1"),
        ({"keys": ["up"]}, CorruptedDataError, "damaged drive"),
        ({"keys": [77]}, CorruptedDataError, "keys of step 0 are 77"),
        ({"states": []}, CorruptedDataError, "need 100 states, it has 0"),
        ({"states": [[0.0, 1.0]]}, CorruptedDataError, "damaged drive"),
        ({"metrics": 3}, CorruptedDataError, "damaged drive"),
        ({"metrics": {"comfort": "high"}}, CorruptedDataError, "damaged drive"),
        ({"score": "high"}, CorruptedDataError, "damaged drive"),
        ({"scene": -1}, CorruptedDataError, "its scene is -1, which must be at least 0"),
        ({"scene": float("inf")}, CorruptedDataError, "damaged drive"),
        ({"keys": [float("inf")]}, CorruptedDataError, "damaged drive"),
        ({"keys": [1e300], "states": [[0.0] * 4] * 2}, CorruptedDataError, "damaged drive"),
        ({"keys": [0], "states": [[0.0] * 4, [float("nan")] * 4]}, CorruptedDataError, "its states must be finite"),
    ],
    ids=str,
)
def test_files_that_are_no_drives_are_refused(saved, file_of, content, error, text):
    content = content if isinstance(content, str) else saved | content
    with pytest.raises(error, match=text):
        read_key_drive(file_of(content))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_key_drive(tmp_path / "drive.json")


def test_no_key_is_held_behind_the_last_one(batches, drive_by_keys):
    whole = [1] * 5 + [0] * (int(batches[SCENE].stops[0]) - 6)
    short, padded = (drive_by_keys(batches[SCENE], keys).driven.motion.speeds_mps for keys in ([1] * 5, whole))
    assert short.tolist() == padded.tolist()

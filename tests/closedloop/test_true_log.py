"""Simulations in which planners see one log and are scored against another, that of the true boxes."""

import dataclasses
import json

import numpy as np
import pytest

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.data import ChunkedDataset
from l5kit.data.log_writer import write_log
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError
from support.crashes import drive_into
from support.simulated_folders import rows_of

SEEN_M, TRUE_M = 32.0, 30.0


def write(path, *scenes):
    with write_log(path) as writer:
        for scene in scenes:
            writer.append(scene)
    return path


def run(folder, truth=None, **values):
    arguments = {name: values.pop(name) for name in ("planner", "agents") if name in values}
    options = ClosedLoopOptions(show_bar=False, **values)
    return simulate(folder / "seen.zarr", folder / "out", truth=truth, options=options, **arguments)


@pytest.fixture
def seen(tmp_path):
    """Folder of a log in which a parked car is 2 m farther away than it is."""
    write(tmp_path / "seen.zarr", drive_into(SEEN_M), drive_into(SEEN_M))
    return tmp_path


@pytest.fixture
def truth(seen):
    """The true log."""
    return write(seen / "true.zarr", drive_into(TRUE_M), drive_into(TRUE_M))


@pytest.mark.parametrize("batch_size", [1, 2])
def test_collisions_are_those_with_true_boxes_and_the_driven_log_has_those_that_are_seen(seen, truth, batch_size):
    result = run(seen, truth, planner="constant-velocity", start_frame=2, num_frames=30, batch_size=batch_size)
    collided = [int(row["frame"]) for row in rows_of(result.frames_table) if row["collisions"] != "0"]
    assert collided == [26, 26]  # the front of 4.87 m is at 28.4, the rear of the true car at 28, of the seen one at 30
    driven = ChunkedDataset(str(seen / "out" / "simulated.zarr")).open()
    assert set(driven.agents["centroid"][:, 0]) == {SEEN_M}


def test_without_the_true_log_collisions_are_those_with_seen_boxes(seen):
    result = run(seen, planner="constant-velocity")
    assert [int(row["frame"]) for row in rows_of(result.frames_table) if row["collisions"] != "0"] == [28, 28]
    assert "truth" not in result.scores["digests"]
    assert "truth" not in result.scores["files"]


def test_a_log_that_is_its_own_truth_has_the_same_tables(seen):
    run(seen, planner="idm", overwrite=True)
    before = [(seen / "out" / name).read_bytes() for name in ("scenes.csv", "frames.csv")]
    run(seen, seen / "seen.zarr", planner="idm", overwrite=True)
    assert [(seen / "out" / name).read_bytes() for name in ("scenes.csv", "frames.csv")] == before


def test_the_true_log_is_named_and_another_one_is_another_simulation(seen, truth):
    result = run(seen, truth, planner="replay")
    assert result.scores["files"]["truth"] == str(truth)
    assert result.scores["digests"]["truth"] != result.scores["digests"]["data"]
    assert json.loads((seen / "out" / "run.json").read_text())["digests"] == result.scores["digests"]
    with pytest.raises(InvalidArgumentError, match=r"the digest of the truth was .* and is none"):
        run(seen, planner="replay")


def shifted(scene, **values):
    return dataclasses.replace(scene, **values)


SCENE = drive_into(TRUE_M)


@pytest.mark.parametrize(
    ("scenes", "message"),
    [
        pytest.param([SCENE], r"it has 1 scenes instead of 2", id="fewer scenes"),
        pytest.param(
            [SCENE, drive_into(TRUE_M, 39)], r"scene 1 has frames \[40, 79\], but the log has \[40, 80\]", id="frames"
        ),
        pytest.param(
            [SCENE, shifted(SCENE, timestamps_ns=SCENE.timestamps_ns + 7)],
            r"scene 1 has start time 1000000007, but the log has 1000000000; pass the true log",
            id="start time",
        ),
    ],
)
def test_a_log_of_other_scenes_is_refused_with_what_differs(seen, scenes, message):
    other = write(seen / "other.zarr", *scenes)
    with pytest.raises(InvalidArgumentError, match=rf"truth \(--truth\) is '.*other.zarr', .*: {message}"):
        run(seen, other)
    assert not (seen / "out").exists()


def moved(values, place, by):
    changed = np.array(values)
    changed[place] += by
    return changed


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"timestamps_ns": moved(SCENE.timestamps_ns, 7, 1)}, "time differs"),
        ({"ego_positions_m": moved(SCENE.ego_positions_m, (7, 1), 0.01)}, "AV position differs"),
        ({"ego_rotations": moved(SCENE.ego_rotations, (7, 0, 1), 0.01)}, "AV rotation differs"),
    ],
    ids=["time", "place", "rotation"],
)
def test_a_scene_with_another_av_fails_by_name_and_the_others_are_scored(seen, changed, message):
    other = write(seen / "other.zarr", SCENE, shifted(SCENE, **changed))
    result = run(seen, other, planner="standing")
    assert result.num_scenes == 1
    (failed,) = result.failed
    assert (failed.scene, failed.frame) == (1, 7)
    assert f"the true log does not match: {message}" in str(failed)


def test_a_true_scene_that_cannot_be_scored_fails_by_name(seen):
    broken = SCENE.to_records()
    broken.agents["centroid"][5, 0] = np.nan
    result = run(seen, write(seen / "other.zarr", broken, SCENE), planner="standing")
    assert [each.scene for each in result.failed] == [0]
    assert "in the true log: " in str(result.failed[0])


def test_driven_agents_have_no_true_boxes(seen, truth):
    with pytest.raises(InvalidArgumentError, match=r"agents \(--agents\) is 'constant-velocity', which moves them"):
        run(seen, truth, agents="constant-velocity")


def test_a_true_log_that_is_not_there_is_named(seen):
    with pytest.raises(DatasetNotFoundError, match=r"nowhere\.zarr"):
        run(seen, seen / "nowhere.zarr")


def test_the_records_of_the_true_scenes_are_those_of_the_log(seen, truth):
    """Only boxes differ, so that what is checked is what is read."""
    a, b = (SceneRecords.read(ChunkedDataset(str(path)).open(), 0) for path in (truth, seen / "seen.zarr"))
    assert np.array_equal(a.frames, b.frames)
    assert not np.array_equal(a.agents["centroid"], b.agents["centroid"])

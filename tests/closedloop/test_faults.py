"""Failing scenes: reported with frame and track, left out of means, without effect on the others."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.closedloop.blocks import FailedSceneError
from l5kit.closedloop.scenes import FailedScene
from l5kit.data import ChunkedDataset
from l5kit.data.log_writer import write_log
from l5kit.data.records import AGENT_INTERVAL
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.engine.actions import Actions, Controls
from l5kit.simulation.engine.scene_simulation import EgoSeat, SimulationError
from l5kit.simulation.vehicle_models import KinematicBicycle
from support.logs import write_with_chunks
from support.simulated_folders import rows_of, write_planner


def run(path, folder, planner="replay", **values):
    return simulate(path, folder, planner=planner, options=ClosedLoopOptions(num_frames=20, show_bar=False, **values))


FAULTS = {
    "nan": "not finite",
    "infinite": "not finite",
    "raises": "KeyError: 'speed'",
    "shape": "actors",
    "nothing": "must return Actions",
}


@pytest.mark.parametrize(("fault", "message"), FAULTS.items())
@pytest.mark.parametrize("batch_size", [1, 32])
def test_a_planner_that_fails_in_one_scene_drives_the_others(city, tmp_path, fault, message, batch_size):
    planner = write_planner(tmp_path, {(1, 7): fault})
    result = run(city, tmp_path / "out", planner, batch_size=batch_size)
    (failed,) = result.failed
    assert (failed.scene, failed.frame, failed.track) == (1, 7, None)
    assert message in failed.message
    assert result.num_scenes == 2
    rows = list(result.scenes())
    assert [row["position"] for row in rows] == [0, None, 1]
    assert [row["score"] is None for row in rows] == [False, True, False]
    assert result.score == pytest.approx((rows[0]["score"] + rows[2]["score"]) / 2)
    assert len(ChunkedDataset(str(result.driven_log)).open().scenes) == 2
    assert {row["scene"] for row in rows_of(result.frames_table)} == {"0", "2"}
    with np.load(result.plans) as plans:
        assert sorted(plans.files) == ["scene_0", "scene_2", "times_s"]


HELPED = """
import numpy as np


class Helped:
    def drive(self, state):
        return self.plan(state)

    def plan(self, state):
        {statement}
"""


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        pytest.param("raise KeyError('speed')", "Helped: KeyError: 'speed' (line 10 of {file})", id="here"),
        pytest.param(
            "np.concatenate(np.split(np.zeros(3), 2))",
            "Helped: ValueError: array split does not result in an equal division (line 10 of {file})",
            id="in a library",
        ),
        pytest.param(
            "return None", "Helped: InvalidArgumentError: drive() must return Actions, got NoneType", id="nowhere"
        ),
    ],
)
def test_the_line_of_the_drivers_file_that_fails_is_named(city, tmp_path, statement, message):
    file = tmp_path / "helped.py"
    file.write_text(HELPED.format(statement=statement))
    result = run(city, tmp_path / "out", f"{file}:Helped", scenes=[0, 1])
    assert [failed.message for failed in result.failed] == [message.format(file=file)] * 2


class Launched:
    """Turns as far as the wheels do, and in scene 1 speeds up in the last step as much as a number can."""

    MODEL = Controls(KinematicBicycle(acceleration_lag_s=0.0, steering_lag_s=0.0, max_steering_rad=1.57))

    def __init__(self, steering_rate_radps):
        self.steering_rate_radps = steering_rate_radps

    def drive(self, state):
        controls = np.tile((1.0, self.steering_rate_radps), (len(state), 1))
        is_last = state.frame_indices == 18
        controls[is_last & (state.batch.scene_indices[state.scenes] == 1), 0] = 1.7e308
        return Actions(controls)


@pytest.mark.parametrize("batch_size", [1, 32])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_scene_whose_accelerations_are_beyond_numbers_fails_alone(city, tmp_path, batch_size):
    planner = EgoSeat(Launched(steering_rate_radps=100.0), Launched.MODEL)
    result = run(city, tmp_path / "out", planner, batch_size=batch_size)
    assert [failed.scene for failed in result.failed] == [1]
    assert "accelerations_mps2 are not finite" in result.failed[0].message
    assert result.num_scenes == 2


def test_the_largest_speed_of_all_is_scored(city, tmp_path):
    result = run(city, tmp_path / "out", EgoSeat(Launched(steering_rate_radps=0.0), Launched.MODEL), scenes=[1])
    assert result.failed == ()
    (row,) = result.scenes()
    assert row["comfort"] == row["speed_limit_compliance"] == 0.0
    assert float(rows_of(result.frames_table)[-1]["speed_mps"]) > 1e307


def test_where_a_planner_fails_in_all_scenes_nothing_is_scored(city, tmp_path):
    planner = write_planner(tmp_path, {(scene, 0): "raises" for scene in range(3)})
    result = run(city, tmp_path / "out", planner)
    assert (result.num_scenes, result.score, len(result.failed)) == (0, None, 3)
    assert set(result.metrics.values()) == {None}
    assert len(ChunkedDataset(str(result.driven_log)).open().scenes) == 0
    assert len((tmp_path / "out" / "frames.csv").read_text().splitlines()) == 1


def test_strict_ends_at_the_first_scene_and_goes_on_without(city, tmp_path):
    planner = write_planner(tmp_path, {(1, 7): "raises"})
    with pytest.raises(SimulationError, match="scene 1, frame 7") as error:
        run(city, tmp_path / "out", planner, strict=True, batch_size=1)
    assert isinstance(error.value.__cause__, KeyError)
    assert not (tmp_path / "out" / "scores.json").exists()
    assert run(city, tmp_path / "out", planner).num_scenes == 2
    with pytest.raises(FailedSceneError, match="scene 1, frame 7"):
        run(city, tmp_path / "out", planner, strict=True)


def changed(scene, **fields):
    """A scene with other values in some rows of agents, or of frames: field, row and value by array."""
    arrays = {"agents": scene.agents.copy(), "frames": scene.frames.copy()}
    for array, (field, row, value) in fields.items():
        arrays[array][field][row] = value
    return replace(scene, **arrays)


def times_from(first_ns, count):
    return first_ns + 100_000_000 * np.arange(count)


def row_in_frame(scene, frame, place):
    return int(scene.frames[AGENT_INTERVAL][frame, 0]) + place


DAMAGES = ["nan agent", "track twice", "nan AV", "time stands still", "far", "large", "fast", "far AV", "time wraps"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_wrong_in_a_log_is_named(city, scenes, tmp_path, damage):
    scene = scenes[1]
    row = row_in_frame(scene, 12, 3)
    track, other = int(scene.agents["track_id"][row]), int(scene.agents["track_id"][row - 1])
    broken, frame, about, message = {
        "nan agent": (changed(scene, agents=("centroid", row, np.nan)), 12, track, "not finite"),
        "track twice": (changed(scene, agents=("track_id", row, other)), 12, other, "twice"),
        "nan AV": (changed(scene, frames=("ego_translation", 9, np.nan)), 9, None, "not finite"),
        "time stands still": (
            changed(scene, frames=("timestamp", 9, scene.frames["timestamp"][8])),
            9,
            None,
            "not after",
        ),
        "far": (changed(scene, agents=("centroid", row, 1e300)), 12, track, "centroid of the agent is [1e+300"),
        "large": (changed(scene, agents=("extent", row, 1e20)), 12, track, "no road user is beyond 10000"),
        "fast": (changed(scene, agents=("velocity", row, -1e10)), 12, track, "velocity of the agent"),
        "far AV": (changed(scene, frames=("ego_translation", 9, 1e155)), 9, None, "more than 1e+07 m"),
        "time wraps": (changed(scene, frames=("timestamp", slice(0, 9), times_from(-(2**63), 9))), 9, None, "a year"),
    }[damage]
    folder = tmp_path / "city"
    shutil.copytree(city, folder, ignore=shutil.ignore_patterns("*.zarr"))
    with write_log(folder / "scenes" / "broken.zarr") as writer:
        for each in (scenes[0], broken, scenes[2]):
            writer.append(each)
    result = run(folder, tmp_path / "out", "constant-velocity")
    (failed,) = result.failed
    assert (failed.scene, failed.frame, failed.track) == (1, frame, about)
    assert message in failed.message
    assert result.num_scenes == 2
    assert json.loads((tmp_path / "out" / "scores.json").read_text())["failed"] == [failed.as_json()]


def test_a_corrupted_scene_among_many_is_left_out(city, tmp_path):
    folder = tmp_path / "city"
    shutil.copytree(city, folder, ignore=shutil.ignore_patterns("*.zarr"))
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    write_with_chunks(log, folder / "scenes" / "sample.zarr")
    chunks = sorted((folder / "scenes" / "sample.zarr" / "frames").glob("[0-9]*"), key=lambda path: int(path.name))
    middle = chunks[len(chunks) // 2]
    middle.write_bytes(b"no chunk")
    result = run(folder, tmp_path / "out")
    assert {failed.scene for failed in result.failed} == {1}
    assert "cannot be read" in result.failed[0].message
    assert result.num_scenes == 2


def test_a_table_of_scenes_that_cannot_be_read_fails_by_scene_whatever_the_start(city, tmp_path):
    folder = shutil.copytree(city, tmp_path / "city")
    (folder / "scenes" / "sample.zarr" / "scenes" / "0").write_bytes(b"no chunk")
    result = run(folder, tmp_path / "out", start_frame=5)
    assert [failed.scene for failed in result.failed] == [0, 1, 2]
    assert all("cannot be read" in failed.message for failed in result.failed)


def test_scenes_that_are_too_short_fail(mixed_city, tmp_path):
    result = run(mixed_city, tmp_path, start_frame=30)
    assert [failed.scene for failed in result.failed] == [1, 4]
    assert "the scene has 20 frames" in result.failed[1].message


def test_a_start_that_no_chosen_scene_has_is_refused(mixed_city, tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"start_frame \(--start-frame\) is 35, .* scene has 35 frames"):
        run(mixed_city, tmp_path / "out", start_frame=35, scenes=[1, 2, 4])
    assert not (tmp_path / "out").exists()
    # from its last frame on nothing is driven, so that the scene has no score
    result = run(mixed_city, tmp_path / "out", start_frame=34, scenes=[1, 2, 4])
    assert (result.num_scenes, len(result.failed), len(result.scores["unscored"])) == (0, 2, 1)


def test_how_a_failed_scene_reads():
    assert str(FailedScene(4, 7, 12, "it jumps")) == "scene 4, frame 7, track 12: it jumps"
    assert str(FailedScene(4, None, None, "it is gone")) == "scene 4: it is gone"


def city_of(city, folder, scenes):
    """The city with other scenes."""
    shutil.copytree(city, folder, ignore=shutil.ignore_patterns("*.zarr"))
    with write_log(folder / "scenes" / "changed.zarr") as writer:
        for scene in scenes:
            writer.append(scene)
    return folder


@pytest.mark.parametrize("batch_size", [1, 32])
def test_a_scene_whose_av_is_where_nobody_can_be_fails_alone(city, scenes, tmp_path, batch_size):
    far = changed(scenes[1], frames=("ego_translation", (9, 0), 1e155))
    folder = city_of(city, tmp_path / "city", [scenes[0], far, scenes[2]])
    result = run(folder, tmp_path / "out", batch_size=batch_size)
    (failed,) = result.failed
    assert (failed.scene, failed.frame, failed.track) == (1, 9, None)
    assert "more than 1e+07 m from the origin" in failed.message
    assert result.num_scenes == 2


def test_tracks_beyond_the_whole_numbers_with_a_sign_are_named(city, scenes, tmp_path):
    row = row_in_frame(scenes[1], 12, 3)
    ids = scenes[1].agents["track_id"] + np.uint64(2**63)
    broken = changed(scenes[1], agents=("track_id", slice(None), ids))
    broken.agents["centroid"][row] = np.nan
    folder = city_of(city, tmp_path / "city", [scenes[0], broken])
    result = run(folder, tmp_path / "out", "constant-velocity")
    (failed,) = result.failed
    assert failed.track == int(ids[row]) >= 2**63
    assert [each["failed_track"] for each in result.scenes()] == [None, failed.track]


def test_messages_with_bytes_that_are_no_text_are_written_out(city, tmp_path):
    class Lost:
        def drive(self, state):
            raise FileNotFoundError(b"/data/\xff.npy".decode("utf-8", "surrogateescape"))

    result = run(city, tmp_path / "out", Lost(), scenes=[0])
    (failed,) = result.failed
    assert "/data/\\udcff.npy" in failed.message
    assert next(result.scenes())["message"] == failed.message

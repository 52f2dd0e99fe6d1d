"""Logs at another rate, against motions that are known at any time."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.checks.path_validation import validate_path
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.log_facts import LogFacts
from l5kit.data.log_writer import write_log
from l5kit.data.scene_arrays import FaceRows, SceneArrays
from l5kit.data.tracks import Tracks, faces_of_frames, label_probabilities_of
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError
from l5kit.geometry.transform import rotations33_as_yaws, yaws_as_rotations33
from l5kit.readers.resampling import resample_dataset, resample_scene

START_NS = 1_600_000_000_000_000_000
RADIUS_M, SPEED_MPS = 20.0, 10.0
LABELS = ("PERCEPTION_LABEL_CAR", "PERCEPTION_LABEL_CYCLIST")


def straight(times_s):
    positions_m = np.stack([3.0 + 12.0 * times_s, -5.0 + 4.0 * times_s], axis=-1)
    return positions_m, np.full(len(times_s), np.arctan2(4.0, 12.0)), np.tile([12.0, 4.0], (len(times_s), 1))


def circle(times_s):
    """A turn to the left that starts close to the heading at which angles jump."""
    yaws_rad = 3.0 + SPEED_MPS / RADIUS_M * times_s
    along = np.stack([np.cos(yaws_rad), np.sin(yaws_rad)], axis=-1)
    return RADIUS_M * np.stack([along[:, 1], -along[:, 0]], axis=-1), yaws_rad, SPEED_MPS * along


def scene_at(times_s, *, is_valid=None, ego=straight):
    """Two cars, one straight on and one in a circle; the AV drives as ``ego``."""
    times_s = np.asarray(times_s, float)
    motions = [straight(times_s), circle(times_s)]
    tracks = Tracks(
        track_ids=np.array([5, 3]),
        is_valid=np.ones((2, len(times_s)), bool) if is_valid is None else is_valid,
        positions_m=np.stack([motion[0] for motion in motions]),
        headings_rad=np.stack([motion[1] for motion in motions]),
        velocities_mps=np.stack([motion[2] for motion in motions]),
        sizes_m=np.array([[4.0, 2.0, 1.5], [5.0, 2.0, 1.5]]),
        label_probabilities=label_probabilities_of([PERCEPTION_LABEL_TO_INDEX[label] for label in LABELS]),
    )
    positions_m, yaws_rad, _ = ego(times_s)
    return SceneArrays(
        host="car",
        timestamps_ns=START_NS + np.rint(times_s * 1e9).astype(np.int64),
        ego_positions_m=np.column_stack([positions_m, 2.0 * times_s]),
        ego_rotations=yaws_as_rotations33(yaws_rad),
        agents=tracks.to_agent_rows(),
        tl_faces=FaceRows.none(len(times_s)),
    )


def times_of(scene):
    return (scene.timestamps_ns - START_NS) / 1e9


def of_track(scene, track):
    """Times, positions, headings and velocities of a track."""
    agents = scene.agents
    frames = np.repeat(np.arange(len(scene.timestamps_ns)), np.diff(agents.starts))
    rows = np.flatnonzero(agents.track_ids == track)
    return times_of(scene)[frames[rows]], agents.centroids_m[rows], agents.yaws_rad[rows], agents.velocities_mps[rows]


def apart(angles_rad, others_rad):
    return np.abs(np.angle(np.exp(1j * (angles_rad - others_rad))))


@pytest.mark.parametrize("rate_hz", [2.0, 4.0, 20.0, 12.5])
def test_straight_motion_at_any_rate_is_what_it_is(rate_hz):
    found = resample_scene(scene_at(np.arange(0.0, 6.01, 1 / rate_hz)), 0.1)
    assert np.allclose(times_of(found), 0.1 * np.arange(61))
    times_s, positions_m, yaws_rad, velocities_mps = of_track(found, 5)
    assert len(times_s) == 61
    expected_m, expected_rad, expected_mps = straight(times_s)
    assert np.abs(positions_m - expected_m).max() < 1e-6
    assert np.abs(yaws_rad - expected_rad).max() < 1e-6
    assert np.abs(velocities_mps - expected_mps).max() < 1e-5
    assert (
        np.abs(found.ego_positions_m - np.column_stack([straight(times_of(found))[0], 2.0 * times_of(found)])).max()
        < 1e-6
    )


@pytest.mark.parametrize("rate_hz", [2.0, 4.0, 12.5])
def test_in_a_circle_headings_are_right_and_positions_on_the_chords(rate_hz):
    found = resample_scene(scene_at(np.arange(0.0, 14.01, 1 / rate_hz), ego=circle), 0.1)  # a whole turn and more
    way_m = SPEED_MPS / rate_hz
    deepest_m = RADIUS_M * (1 - np.cos(way_m / RADIUS_M / 2))
    times_s, positions_m, yaws_rad, _ = of_track(found, 3)
    expected_m, expected_rad, _ = circle(times_s)
    assert apart(yaws_rad, expected_rad).max() < 1e-5
    assert np.abs(yaws_rad).max() <= np.float32(np.pi)
    off_m = RADIUS_M - np.linalg.norm(positions_m, axis=1)
    assert off_m.min() > -1e-6
    assert off_m.max() < deepest_m + 1e-6
    assert np.linalg.norm(positions_m - expected_m, axis=1).max() < 1.2 * deepest_m
    assert apart(rotations33_as_yaws(found.ego_rotations), circle(times_of(found))[1]).max() < 1e-6


def test_frames_at_the_right_times_are_kept_to_the_bit():
    jitter_s = np.random.default_rng(0).uniform(-5e-5, 5e-5, 30)
    jitter_s[0] = 0.0
    scene = scene_at(0.1 * np.arange(30) + jitter_s)
    found = resample_scene(scene, 0.1)
    assert len(found.timestamps_ns) == 30
    for name, values in vars(scene.agents).items():
        assert np.array_equal(getattr(found.agents, name), values)
    assert np.array_equal(found.ego_positions_m, scene.ego_positions_m)


def test_gaps_stay_gaps_and_a_track_of_one_frame_is_there_at_its_time_only():
    is_valid = np.ones((2, 7), bool)
    is_valid[0, 3] = False
    is_valid[1] = False
    is_valid[1, 2] = True
    found = resample_scene(scene_at(0.5 * np.arange(7), is_valid=is_valid), 0.1)
    assert np.allclose(of_track(found, 5)[0], [*np.arange(0.0, 1.01, 0.1), *np.arange(2.0, 3.01, 0.1)])
    assert np.allclose(of_track(found, 3)[0], [1.0])


def test_where_frames_are_missing_nobody_but_the_av_is_there():
    found = resample_scene(scene_at([0.0, 0.5, 1.0, 2.0, 2.5, 3.0]), 0.1)
    assert np.allclose(times_of(found), 0.1 * np.arange(31))
    for track in (5, 3):
        assert np.allclose(of_track(found, track)[0], [*np.arange(0.0, 1.01, 0.1), *np.arange(2.0, 3.01, 0.1)])


def test_frames_that_come_late_by_less_than_a_step_are_bridged():
    found = resample_scene(scene_at([0.0, 0.5, 1.0, 1.94, 2.4]), 0.1)
    assert len(of_track(found, 5)[0]) == 25


def test_classes_and_lights_are_those_of_the_frame_before():
    scene = scene_at([0.0, 0.5, 1.0])
    labels = label_probabilities_of([PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"] for name in
                                     ("CAR", "CAR", "BUS", "BUS", "VAN", "VAN")])  # fmt: skip
    faces = faces_of_frames(
        3, np.array([0, 1, 1]), face_ids=["r", "g", "y"], light_ids=["l"] * 3, statuses=np.eye(3, dtype=np.float32)
    )
    scene = replace(scene, agents=replace(scene.agents, label_probabilities=labels), tl_faces=faces)
    found = resample_scene(scene, 0.1)
    at = [PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"] for name in ("CAR", "BUS", "VAN")]
    assert found.agents.labels.tolist() == [at[0]] * 10 + [at[1]] * 10 + [at[2]] * 2
    assert np.diff(found.tl_faces.starts).tolist() == [1] * 5 + [2] * 5 + [0]
    assert found.tl_faces.face_ids.tolist() == ["r"] * 5 + ["g", "y"] * 5
    assert np.array_equal(found.tl_faces.statuses[5:7], np.eye(3)[1:])


def test_a_scene_of_one_frame_stays_as_it_is():
    found = resample_scene(scene_at([0.0]), 0.1)
    assert (len(found.timestamps_ns), len(found.agents.track_ids)) == (1, 2)


@pytest.mark.parametrize("step_s", [0.0, -0.1, np.nan, np.inf])
def test_a_step_that_is_none_is_refused(step_s):
    with pytest.raises(InvalidArgumentError, match="step_time_s must be above 0"):
        resample_scene(scene_at([0.0, 0.5]), step_s)


def test_times_that_do_not_ascend_are_refused():
    with pytest.raises(InvalidArgumentError, match="those of frames 1 and 2 do not"):
        resample_scene(scene_at([0.0, 0.5, 0.5, 1.0]), 0.1)


@pytest.fixture
def folder(tmp_path):
    """A dataset folder with two logs at 2 Hz."""
    path = tmp_path / "slow"
    (path / "semantic_map").mkdir(parents=True)
    (path / "semantic_map" / "semantic_map.pb").write_bytes(b"map")
    (path / "meta.json").write_text("{}")
    (path / "mine.txt").write_text("not of a dataset")
    facts = LogFacts((4.0, 2.0, 1.5), 0.5, sources=({"dataset": "made"},))
    for name in ("train", "val"):
        with write_log(path / "scenes" / f"{name}.zarr", facts=facts) as log:
            for length in (5, 9, 3):
                log.append(scene_at(0.5 * np.arange(length)))
    return path


def files_of(path):
    return {each.relative_to(path): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def test_all_logs_of_a_folder_are_resampled_and_its_map_is_copied(folder, tmp_path):
    told = []
    frames = resample_dataset(folder, tmp_path / "fast", progress=lambda *counts: told.append(counts))
    assert frames == {"train.zarr": (17, 21 + 41 + 11), "val.zarr": (17, 21 + 41 + 11)}
    assert told[-1] == (3, 3)
    for name in ("train", "val"):
        log = ChunkedDataset(str(tmp_path / "fast" / "scenes" / f"{name}.zarr")).open()
        assert log.facts == LogFacts((4.0, 2.0, 1.5), 0.1, sources=({"dataset": "made"},))
        assert np.diff(log.scenes["frame_index_interval"], axis=1).ravel().tolist() == [21, 41, 11]
        assert validate_path(tmp_path / "fast" / "scenes" / f"{name}.zarr") == []
    assert (tmp_path / "fast" / "semantic_map" / "semantic_map.pb").read_bytes() == b"map"
    assert json.loads((tmp_path / "fast" / "meta.json").read_text()) == {}
    assert not (tmp_path / "fast" / "mine.txt").exists()
    resample_dataset(folder, tmp_path / "threads", workers=3)
    assert files_of(tmp_path / "threads") == files_of(tmp_path / "fast")


def test_one_log_becomes_one_log(folder, tmp_path):
    frames = resample_dataset(folder / "scenes" / "val.zarr", tmp_path / "val-5hz.zarr", step_time_s=0.2)
    assert frames == {"val.zarr": (17, 11 + 21 + 6)}
    assert ChunkedDataset(str(tmp_path / "val-5hz.zarr")).open().facts.step_time_s == 0.2


def test_nothing_is_replaced_and_nothing_half_is_left(folder, tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(FileExistsError, match="which exists"):
        resample_dataset(folder, tmp_path / "there")
    chunk = folder / "scenes" / "val.zarr" / "agents" / "0"
    chunk.write_bytes(chunk.read_bytes()[:20])
    with pytest.raises(OSError, match=r"val\.zarr"):
        resample_dataset(folder, tmp_path / "fast")
    assert not (tmp_path / "fast").exists()
    with pytest.raises(DatasetNotFoundError, match="does not exist"):
        resample_dataset(tmp_path / "none", tmp_path / "fast")
    shutil.rmtree(folder / "scenes")
    with pytest.raises(DatasetNotFoundError, match="there is no"):
        resample_dataset(folder, tmp_path / "fast")

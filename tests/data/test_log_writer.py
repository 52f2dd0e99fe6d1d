"""The writer of logs, and road users as tracks."""

import json
from dataclasses import replace

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.log_facts import LogFacts
from l5kit.data.log_writer import write_log
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.scene_arrays import FaceRows, SceneArrays, read_scene_arrays
from l5kit.data.scene_records import SceneRecords
from l5kit.data.tracks import Observations, Tracks, faces_of_frames, label_probabilities_of, spans_as_mask
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import yaws_as_rotations33
from support.random_logs import assert_same_records, random_dataset
from support.tolerances import FLOAT32

CAR, PEDESTRIAN = (PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"] for name in ("CAR", "PEDESTRIAN"))


@pytest.mark.parametrize("num_scenes", [0, 1, 8, 19])
def test_a_log_written_scene_by_scene_is_the_log(num_scenes, tmp_path):
    log = random_dataset(np.random.default_rng(num_scenes), num_scenes)
    facts = LogFacts(step_time_s=0.25)
    with write_log(tmp_path / "sub" / "a.zarr", facts=facts) as writer:
        for index in range(num_scenes):
            scene = read_scene_arrays(log, index) if index % 2 else SceneRecords.read(log, index)
            assert writer.append(scene) == index
        assert not (tmp_path / "sub" / "a.zarr").exists()
    opened = ChunkedDataset(str(tmp_path / "sub" / "a.zarr")).open()
    assert_same_records(opened, log)
    assert opened.facts == facts
    log.save(tmp_path / "b.zarr")
    for file in (tmp_path / "b.zarr").rglob("*"):
        if file.is_file() and file.name != ".zattrs":
            written = tmp_path / "sub" / "a.zarr" / file.relative_to(tmp_path / "b.zarr")
            assert written.read_bytes() == file.read_bytes(), file


def test_scenes_of_a_buffer_are_written(tmp_path):
    log = random_dataset(np.random.default_rng(0), 3)
    buffer = RecordBuffer([SceneRecords.read(log, index) for index in range(3)], spare_frames=2)
    with write_log(tmp_path / "a.zarr") as writer:
        writer.append_log(buffer.to_log())
        writer.append_log(buffer.to_log())
    expected = ChunkedDataset.concatenate([log, log])
    assert_same_records(ChunkedDataset(str(tmp_path / "a.zarr")).open(), expected)
    assert json.loads((tmp_path / "a.zarr" / ".zattrs").read_text())["ego_extent_m"] == [4.87, 1.85, 1.8]


def test_many_agents_are_written_before_there_are_more(tmp_path, monkeypatch):
    monkeypatch.setattr("l5kit.data.log_writer._AGENTS_AT_ONCE", 1)
    log = random_dataset(np.random.default_rng(3), 3)
    with write_log(tmp_path / "a.zarr") as writer:
        for index in range(3):
            writer.append(SceneRecords.read(log, index))
            assert len(writer._waiting) == 0
    assert_same_records(ChunkedDataset(str(tmp_path / "a.zarr")).open(), log)


def test_a_log_that_is_not_complete_is_not_there(tmp_path):
    def write(error):
        with write_log(tmp_path / "a.zarr", overwrite=True) as writer:
            writer.append(read_scene_arrays(random_dataset(np.random.default_rng(0), 1), 0))
            if error is not None:
                raise error

    with pytest.raises(ZeroDivisionError):
        write(ZeroDivisionError())
    assert list(tmp_path.iterdir()) == []
    write(None)
    with pytest.raises(ZeroDivisionError):
        write(ZeroDivisionError())
    assert len(ChunkedDataset(str(tmp_path / "a.zarr")).open().scenes) == 1


def test_what_is_there_is_replaced_only_if_asked_for(tmp_path):
    for overwrite in (False, True):
        with write_log(tmp_path / "a.zarr", overwrite=overwrite):
            pass
    with pytest.raises(FileExistsError, match="exists"), write_log(tmp_path / "a.zarr"):
        pytest.fail("the block must not run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(InvalidArgumentError, match="but no dataset"), write_log(tmp_path / "other", overwrite=True):
        pytest.fail("the block must not run")
    with pytest.raises(InvalidArgumentError, match=r"save\(\) makes a zip file"), write_log(tmp_path / "a.zarr.zip"):
        pytest.fail("the block must not run")


# Tracks


def tracks():
    """A car in frames 0 and 1 and a pedestrian in 1 and 2, of 3 frames."""
    return Tracks(
        track_ids=np.array([7, 2]),
        is_valid=spans_as_mask([[0, 2], [1, 3]], 3),
        positions_m=np.arange(12.0).reshape(2, 3, 2),
        headings_rad=np.array([[0, 4.0, np.nan], [np.nan, -0.5, 2 * np.pi]]),
        velocities_mps=np.arange(12.0).reshape(2, 3, 2) / 10,
        sizes_m=np.array([[4, 2, 1.5], [0.5, 0.6, 1.75]]),
        label_probabilities=label_probabilities_of([CAR, PEDESTRIAN]),
    )


def test_tracks_become_rows_by_frame_and_track():
    rows = tracks().to_agent_rows()
    assert rows.starts.tolist() == [0, 1, 3, 4]
    assert rows.track_ids.tolist() == [7, 2, 7, 2]
    assert rows.centroids_m.tolist() == [[0, 1], [8, 9], [2, 3], [10, 11]]
    np.testing.assert_allclose(rows.yaws_rad, [0, -0.5, 4 - 2 * np.pi, 0], atol=FLOAT32)
    assert rows.extents_m[:, 2].tolist() == [1.5, 1.75, 1.5, 1.75]
    assert rows.labels.tolist() == [CAR, PEDESTRIAN, CAR, PEDESTRIAN]
    np.testing.assert_array_equal(rows.velocities_mps, np.float32([[0, 0.1], [0.8, 0.9], [0.2, 0.3], [1, 1.1]]))


def test_sizes_and_labels_may_change_with_time():
    still = tracks()
    moving = replace(
        still,
        sizes_m=np.repeat(still.sizes_m[:, None], 3, axis=1),
        label_probabilities=np.repeat(still.label_probabilities[:, None], 3, axis=1),
    )
    moving.sizes_m[0, 1] = [5, 2, 1]
    first, second = still.to_agent_rows(), moving.to_agent_rows()
    assert first.label_probabilities.tolist() == second.label_probabilities.tolist()
    assert np.flatnonzero((first.extents_m != second.extents_m).any(axis=1)).tolist() == [2]


def test_a_scene_of_tracks_and_lights_is_written(tmp_path):
    faces = faces_of_frames(
        3,
        np.array([2, 0, 2]),
        face_ids=["c", "a", "b"],
        light_ids=["L"] * 3,
        statuses=np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1.0]]),
    )
    scene = SceneArrays(
        host="reader",
        timestamps_ns=np.array([0, 100, 200]),
        ego_positions_m=np.zeros((3, 3)),
        ego_rotations=yaws_as_rotations33([0.0, 0.1, 0.2]),
        agents=tracks().to_agent_rows(),
        tl_faces=faces,
    )
    with write_log(tmp_path / "a.zarr") as writer:
        writer.append(scene)
    opened = ChunkedDataset(str(tmp_path / "a.zarr")).open()
    assert opened.scenes[["host", "start_time", "end_time"]].tolist() == [("reader", 0, 200)]
    assert opened.frames["agent_index_interval"].tolist() == [[0, 1], [1, 3], [3, 4]]
    assert opened.frames["traffic_light_faces_index_interval"].tolist() == [[0, 1], [1, 1], [1, 3]]
    assert opened.tl_faces["face_id"].tolist() == ["a", "c", "b"]


def test_there_may_be_no_tracks_and_no_lights():
    nothing = Tracks(
        *(np.zeros(0), np.zeros((0, 2), bool), np.zeros((0, 2, 2)), np.zeros((0, 2)), np.zeros((0, 2, 2))),
        *(np.zeros((0, 3)), np.zeros((0, 17))),
    )
    assert nothing.to_agent_rows().starts.tolist() == [0, 0, 0]
    faces = faces_of_frames(2, np.zeros(0, int), face_ids=[], light_ids=[], statuses=np.zeros((0, 3)))
    for name, array in vars(FaceRows.none(2)).items():
        assert array.tolist() == getattr(faces, name).tolist()
        assert array.dtype == getattr(faces, name).dtype


def observations():
    return tracks().to_observations()


@pytest.mark.parametrize("frame", [-1, 3])
def test_observations_outside_the_scene_are_refused(frame):
    seen = observations()
    seen.frame_indices[1] = frame
    with pytest.raises(InvalidArgumentError, match=f"frame_indices has {frame}, but the scene has 3 frames"):
        seen.to_agent_rows(3)


def test_a_track_that_is_twice_in_a_frame_is_named():
    seen = observations()
    twice = Observations(**{name: np.concatenate([array, array[-1:]]) for name, array in vars(seen).items()})
    with pytest.raises(InvalidArgumentError, match="track 2 is in frame 2 twice"):
        twice.to_agent_rows(3)


@pytest.mark.parametrize("name", [name for name in Observations.__dataclass_fields__ if name != "frame_indices"])
def test_observations_of_other_shapes_are_refused(name):
    seen = observations()
    with pytest.raises(InvalidArgumentError, match=rf"Observations: shapes do not fit; .*{name} \(3,"):
        replace(seen, **{name: getattr(seen, name)[1:]})


@pytest.mark.parametrize("name", [name for name in Tracks.__dataclass_fields__ if name != "is_valid"])
def test_tracks_of_other_shapes_are_refused(name):
    with pytest.raises(InvalidArgumentError, match=rf"Tracks: shapes do not fit; .*{name} \(1,"):
        replace(tracks(), **{name: getattr(tracks(), name)[1:]})
    with pytest.raises(InvalidArgumentError, match="is_valid must be bool"):
        replace(tracks(), is_valid=np.ones((2, 3)))


@pytest.mark.parametrize("span", [[-1, 2], [2, 1], [0, 4]])
def test_spans_outside_the_scene_are_refused(span):
    assert spans_as_mask([[0, 3], [3, 3]], 3).tolist() == [[True] * 3, [False] * 3]
    with pytest.raises(InvalidArgumentError, match=r"is \[first frame, end frame\) within the 3 frames"):
        spans_as_mask([[0, 1], span], 3)


def test_labels_and_lights_that_there_are_not_are_refused():
    assert label_probabilities_of([]).shape == (0, 17)
    for label in (-1, 17):
        with pytest.raises(InvalidArgumentError, match=f"labels has {label}; allowed are 0 to 16"):
            label_probabilities_of([0, label])
    for frames in ([-1, 0], [0, 2]):
        with pytest.raises(InvalidArgumentError, match="frame_indices must be from 0 to 1"):
            faces_of_frames(2, np.array(frames), face_ids=["a"] * 2, light_ids=["L"] * 2, statuses=np.zeros((2, 3)))
    with pytest.raises(InvalidArgumentError, match="has room for 16 characters"):
        faces_of_frames(1, np.array([0]), face_ids=["a" * 17], light_ids=["L"], statuses=np.zeros((1, 3)))
    with pytest.raises(InvalidArgumentError, match=r"light_ids must have shape \(1,\)"):
        faces_of_frames(1, np.array([0]), face_ids=["a" * 16], light_ids=["L", "L"], statuses=np.zeros((1, 3)))


WRONG_TRACKS = {
    "negative": np.array([1, -2]),
    "part": np.array([1, 1.5]),
    "nan": np.array([np.nan, 2]),
    "large": np.array([1e25, 2]),
    "larger": np.array([2**70, 2]),
    "text": np.array(["1", "2"]),
    "bool": np.array([True, False]),
}


@pytest.mark.parametrize("wrong", WRONG_TRACKS.values(), ids=WRONG_TRACKS.keys())
def test_numbers_that_no_track_can_have_are_refused(wrong):
    with pytest.raises(InvalidArgumentError, match=r"track_ids has .* a whole one from 0"):
        replace(tracks(), track_ids=wrong)
    seen = observations()
    with pytest.raises(InvalidArgumentError, match=r"track_ids has .* a whole one from 0"):
        replace(seen, track_ids=np.resize(wrong, len(seen.track_ids)))


@pytest.mark.parametrize("right", [np.array([7.0, 2.0]), np.array([7, 2], np.uint8), np.array([7, 2], object)])
def test_numbers_of_tracks_may_have_any_type_of_numbers(right):
    rows = replace(tracks(), track_ids=right).to_agent_rows()
    assert (rows.track_ids.dtype, rows.track_ids.tolist()) == (np.uint64, [7, 2, 7, 2])
    largest = replace(tracks(), track_ids=np.array([2**64 - 1, 2], np.uint64)).to_agent_rows()
    assert largest.track_ids.tolist() == [2**64 - 1, 2, 2**64 - 1, 2]


@pytest.mark.parametrize(
    "frames", [np.array([0.0]), np.array([np.nan]), [0], np.array([[0]]), np.array([True])], ids=str
)
def test_frames_that_are_no_integers_are_refused(frames):
    one = {name: array[:1] for name, array in vars(observations()).items()}
    with pytest.raises(InvalidArgumentError, match="frame_indices must be an array of integers"):
        Observations(**one | {"frame_indices": frames})
    with pytest.raises(InvalidArgumentError, match="frame_indices must be an array of integers"):
        faces_of_frames(1, frames, face_ids=["a"], light_ids=["L"], statuses=np.zeros((1, 3)))

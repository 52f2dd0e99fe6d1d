"""Predictions as the page asks for them: read from files and arrays, matched to a log, placed in the world."""

import gzip
import math

import numpy as np
import pytest

pytest.importorskip("torch")

from l5kit.data.index.track_ids import EGO_TRACK_ID
from l5kit.errors import DataChangedError, DatasetNotFoundError, DuplicateTrackError, InvalidArgumentError
from l5kit.evaluation import world_displacements, write_gt_csv, write_pred_csv
from l5kit.visualization.notebooks.playing import play
from l5kit.visualization.scene_content import read_scene_content
from l5kit.visualization.viewer.exported_page import exported_page
from l5kit.visualization.viewer.prediction_matches import find_in_log, prediction_bytes
from l5kit.visualization.viewer.predictions import Predictions
from l5kit.visualization.viewer.viewed_log import ViewedLog
from support.logs import make_agent, make_agents, make_scene

HALF_TURN = 0.5 * math.pi
X_M, Y_M = 1000.0, -2000.0
AHEAD_M = [[2.0, 0.0], [4.0, 1.0]]
"""In the frame of an agent: 2 m ahead, then 4 m ahead and 1 m to the left."""


@pytest.fixture
def log():
    """Two scenes of three frames; in each frame a car that looks north, and in the first frames another one."""
    car = make_agent(7, (X_M, Y_M), yaw=HALF_TURN)
    other = make_agent(9, (X_M + 20, Y_M))
    return make_scene([make_agents(car, other), make_agents(car, other), make_agents(car)])


@pytest.fixture
def times_ns(log):
    return log.frames["timestamp"][:].astype(np.int64)


def two_modes(num_rows):
    """Modes that go 1 m and 2 m east in a step, and 3 m and 4 m north."""
    return np.tile([[[1.0, 0.0], [2.0, 0.0]], [[0.0, 3.0], [0.0, 4.0]]], (num_rows, 1, 1, 1))


def test_a_prediction_of_a_turned_agent_lies_where_its_model_put_it(log, times_ns, unpack):
    pose = np.array([[[0.0, -1.0, X_M], [1.0, 0.0, Y_M], [0.0, 0.0, 1.0]]])  # looks north: ahead is +y, left is -x
    coords = world_displacements(np.array([AHEAD_M]), pose, np.array([[X_M, Y_M]]))
    predictions = Predictions.of_arrays(times_ns[1:2], [7], coords)
    scene = read_scene_content(log, 0, map_api=None)
    packed = unpack(prediction_bytes(predictions, scene))
    assert packed.arrays["starts"].tolist() == [0, 0, 1, 1]
    assert packed.arrays["agent_row"].tolist() == [2]
    assert packed.arrays["confidence"].tolist() == [[1.0]]
    origin_m = np.round(np.median(scene.ego_positions_m[:, :2], axis=0))
    world_m = packed.arrays["xy"].astype(np.float64) + origin_m
    np.testing.assert_allclose(world_m, [[[[X_M, Y_M + 2], [X_M - 1, Y_M + 4]]]], atol=1e-4)


def test_a_prediction_of_the_av_starts_from_its_position(times_ns, unpack):
    log = make_scene([[], [], []], positions_m=[(10.0, 20.0, 0.0), (11.0, 20.0, 0.0), (12.0, 20.0, 0.0)])
    predictions = Predictions.of_arrays(times_ns[:1], [EGO_TRACK_ID], [[[1.0, 2.0]]])
    packed = unpack(prediction_bytes(predictions, read_scene_content(log, 0, map_api=None)))
    assert packed.arrays["agent_row"].tolist() == [-1]
    assert packed.arrays["xy"].tolist() == [[[[0.0, 2.0]]]]  # counted from (11, 20)


def test_rows_without_time_or_track_in_the_log_are_lost(log, times_ns, unpack):
    times = [*times_ns, times_ns[2], times_ns[0], times_ns[0] + 1]
    tracks = [7, 9, 7, 9, 8, 7]  # 9 is not in frame 2, 8 is nowhere, the last is between two frames
    predictions = Predictions.of_arrays(times, tracks, np.zeros((6, 2, 2)))
    found = find_in_log(predictions, log)
    keys = zip(predictions.timestamps_ns[~found].tolist(), predictions.track_ids[~found].tolist(), strict=True)
    assert sorted(keys) == sorted([(times_ns[0], 8), (times_ns[0] + 1, 7), (times_ns[2], 9)])
    packed = unpack(prediction_bytes(predictions, read_scene_content(log, 0, map_api=None)))
    assert packed.facts["num_lost"] == 2
    assert packed.arrays["starts"].tolist() == [0, 1, 2, 3]
    assert packed.arrays["agent_row"].tolist() == [0, 3, 4]


@pytest.fixture
def csv_file(tmp_path, times_ns):
    path = tmp_path / "predictions.csv"
    write_pred_csv(path, times_ns[[2, 0, 1]], [7, 7, 9], two_modes(3), np.array([[0.25, 0.75]] * 3))
    return path


def test_a_file_has_the_numbers_that_were_written_whatever_the_order_of_columns(csv_file, times_ns):
    lines = [line.split(",") for line in csv_file.read_text().splitlines()]
    turned = csv_file.with_name("turned.csv")
    turned.write_text("\r\n".join(",".join(f'"{field}"' for field in line[::-1]) for line in lines) + "\r\n\r\n")
    for path in (csv_file, turned):
        predictions = Predictions.open(path)
        assert predictions.timestamps_ns.tolist() == times_ns.tolist()
        assert predictions.track_ids.tolist() == [7, 9, 7]
        assert (predictions.num_modes, predictions.num_steps) == (3, 2)
        confidences, positions_m = predictions.read(np.array([2, 0]))
        np.testing.assert_array_equal(confidences, [[0.25, 0.75, np.nan]] * 2)  # the third only fills up the rows
        np.testing.assert_array_equal(positions_m[:, :2], two_modes(2))
        assert np.isnan(positions_m[:, 2]).all()


def test_a_packed_file_is_read_like_the_plain_one(csv_file):
    packed = csv_file.with_name("pred.csv.gz")
    packed.write_bytes(gzip.compress(csv_file.read_bytes()))
    plain, unpacked = Predictions.open(csv_file), Predictions.open(packed)
    assert unpacked.name == "pred.csv.gz"
    for one, other in zip(plain.read(np.arange(3)), unpacked.read(np.arange(3)), strict=True):
        np.testing.assert_array_equal(one, other)
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(InvalidArgumentError, match=r"pred\.csv\.gz.*damaged or truncated"):
        Predictions.open(packed)


def test_a_packed_file_that_would_be_many_times_its_size_is_refused(csv_file):
    packed = csv_file.with_name("pred.csv.gz")
    packed.write_bytes(gzip.compress(csv_file.read_bytes() + bytes(1 << 26), compresslevel=1))
    with pytest.raises(InvalidArgumentError, match=r"pred\.csv\.gz.*many times its size"):
        Predictions.open(packed)


HEADER = "timestamp,track_id,conf_0,coord_x00,coord_y00"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a\.csv', line 1: the columns are not those of predictions"),
        ("frame,x,y\n", "not those of predictions: timestamp, track_id, conf_0.*found frame; x; y"),
        (f"{HEADER},coord_z\n", "6 columns are not those of predictions"),
        (f"{HEADER.replace('track_id', 'track')}\n", "missing track_id; unknown track"),
        (f"{HEADER}\n1,2,1,0,0\n1,3,1,0\n", "line 3: 4 columns instead of 5"),
        (f"{HEADER}\n1.5,2,1,0,0\n", r"line 2: timestamp is '1\.5'; it must be a whole number"),
        (f"{HEADER}\n1,car,1,0,0\n", "line 2: track_id is 'car'"),
        (f"{HEADER}\n1,{2**64},1,0,0\n", "line 2: track_id is"),
        (f"{HEADER}\n5,2,1,0,0\n4,2,1,0,0\n5,2,1,0,0\n", "lines 2 and 4 are both track 2 at 5"),
    ],
    ids=["empty", "other", "a column more", "no track", "short", "time", "track", "large", "twice"],
)
def test_files_that_are_none_are_refused_with_their_line(tmp_path, text, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError, match=message) as raised:
        Predictions.open(path)
    assert "\n" not in str(raised.value)


def test_a_file_of_true_positions_is_none_of_predictions(tmp_path):
    write_gt_csv(tmp_path / "gt.csv", [1], [2], np.zeros((1, 1, 2)), np.ones((1, 1)))
    with pytest.raises(InvalidArgumentError, match="found timestamp; track_id; avail_0"):
        Predictions.open(tmp_path / "gt.csv")


def test_a_word_among_numbers_is_told_when_its_row_is_asked_for(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"{HEADER}\n1,2,1,0,0\n2,2,1,far,0\n")
    predictions = Predictions.open(path)
    assert predictions.read(np.array([0]))[0].tolist() == [[1.0]]
    with pytest.raises(InvalidArgumentError, match=r"a\.csv', line 3: could not convert.*far"):
        predictions.read(np.array([1]))


def test_a_file_that_is_written_over_is_not_read_on(csv_file):
    predictions = Predictions.open(csv_file)
    csv_file.write_text(HEADER)
    with pytest.raises(DataChangedError, match="has changed since it was opened"):
        predictions.read(np.array([0]))


def test_the_file_is_found_in_a_folder_of_results(csv_file, tmp_path):
    assert len(Predictions.open(tmp_path)) == 3
    inner = tmp_path / "run" / "scores"
    inner.mkdir(parents=True)
    with pytest.raises(DatasetNotFoundError, match=r"has no predictions\.csv; l5kit evaluate writes it"):
        Predictions.open(tmp_path / "run")
    csv_file.rename(inner / "predictions.csv")
    assert len(Predictions.open(tmp_path / "run")) == 3
    (inner / "pred.csv").write_text(HEADER)
    with pytest.raises(InvalidArgumentError, match="has several files of predictions"):
        Predictions.open(inner)
    with pytest.raises(DatasetNotFoundError, match="which does not exist"):
        Predictions.open(tmp_path / "missing")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coords": np.zeros((2, 3))}, r"coords has shape \(2, 3\)"),
        ({"confidences": None}, r"needs confidences of shape \(2, 2\)"),
        ({"confidences": np.ones((2, 3))}, r"confidences has shape \(2, 3\); it must be \(2, 2\)"),
        ({"track_ids": [7]}, r"track_ids has shape \(1,\); it must be \(2,\)"),
        ({"timestamps": [1.0, 2.0]}, "timestamps is of float64"),
    ],
    ids=["coords", "no confidences", "confidences", "tracks", "times"],
)
def test_arrays_that_do_not_fit_are_refused(change, message):
    fitting = {"timestamps": [1, 2], "track_ids": [7, 7], "coords": two_modes(2), "confidences": np.ones((2, 2)) / 2}
    with pytest.raises(InvalidArgumentError, match=message):
        Predictions.of_arrays(**fitting | change)


def test_an_agent_twice_at_a_time_is_refused():
    with pytest.raises(DuplicateTrackError, match="rows 0 and 1 are both track 7 at 1"):
        Predictions.of_arrays([1, 1], [7, 7], np.zeros((2, 1, 2)))


@pytest.fixture(scope="module")
def city_predictions(city_log):
    """A prediction of the agents of frame 3 of scene 1, and one that belongs to nothing."""
    frame = int(city_log.scenes[1]["frame_index_interval"][0]) + 3
    rows = slice(*city_log.frames[frame]["agent_index_interval"].tolist())
    tracks = [*city_log.agents[rows]["track_id"].astype(np.int64).tolist(), 10**9]
    times = np.full(len(tracks), city_log.frames[frame]["timestamp"])
    return Predictions.of_arrays(times, tracks, np.ones((len(tracks), 5, 2)), name="mine.csv")


def test_a_log_tells_of_its_predictions_and_of_those_that_are_lost(city_files, city_predictions, unpack):
    log = ViewedLog(city_files, predictions=city_predictions)
    assert log.facts()["predictions"] == "mine.csv"
    assert log.notes[-1] == f"1 of {len(city_predictions)} predictions have no row in this log"
    here = unpack(log.prediction_bytes(1))
    assert (here.facts["num_lost"], np.diff(here.arrays["starts"])[3]) == (1, len(city_predictions) - 1)
    assert unpack(log.prediction_bytes(0)).arrays["xy"].shape == (0, 1, 5, 2)
    assert ViewedLog(city_files).prediction_bytes(1) is None


def test_predictions_are_in_exported_pages_and_in_notebooks(city_files, city_predictions):
    assert '"predictions": null, "map"' in exported_page(ViewedLog(city_files), 1)
    assert '"predictions": null, "map"' not in exported_page(ViewedLog(city_files, predictions=city_predictions), 1)
    page = play(city_files.dataset, 1, predictions=city_predictions)
    assert '"predictions": "mine.csv"' in page.html


def test_predictions_of_a_simulation_are_refused(drives, csv_file):
    with pytest.raises(InvalidArgumentError, match=r"is a simulation.*give the log that they were made on"):
        play(drives, 0, predictions=csv_file)

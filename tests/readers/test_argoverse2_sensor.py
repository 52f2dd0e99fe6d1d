"""The reader of sensor logs of Argoverse 2: frames of the AV and of the city, sizes, maps, and what is refused.

Where ``L5KIT_REAL_AV2_SENSOR`` names a folder of real logs, the whole import runs on its first ones, too.
"""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from l5kit.data.checks.path_validation import validate_path
from l5kit.data.jobs.worker_processes import WorkerProcesses
from l5kit.errors import DatasetNotFoundError
from l5kit.readers.arrow_columns import codes_of
from l5kit.readers.formats import guess_format, open_reader
from l5kit.readers.importing import import_dataset
from l5kit.readers.reader import SourceDataError
from support import argoverse2_files as av2

NAME = "0000001a-0000-4000-8000-000000000000"
OTHERS = ("0000002a-0000-4000-8000-000000000000", "0000003a-0000-4000-8000-000000000000")


def read_one(folder, **written):
    av2.write_sensor_log(folder, NAME, **written)
    reader = open_reader("argoverse2-sensor", folder)
    (ref,) = reader.list_scenes()
    return reader.read(ref)


def test_the_av_is_at_the_middle_of_its_box(tmp_path):
    scene = read_one(tmp_path)
    x_m, y_m = av2.SENSOR_START_M
    steps = np.arange(av2.SENSOR_STEPS)
    assert scene.timestamps_ns.tolist() == (av2.START_NS + av2.STEP_NS * steps).tolist()
    wanted_m = np.stack([np.full(len(steps), x_m), y_m + 1.339 + 0.8 * steps, np.full(len(steps), 22.0)], axis=1)
    assert scene.ego.positions_m == pytest.approx(wanted_m)
    assert scene.ego.yaws_rad == pytest.approx(np.full(len(steps), np.pi / 2))
    assert scene.remarks == ()


def test_boxes_are_turned_into_the_frame_of_the_city(tmp_path):
    tracks = read_one(tmp_path).tracks
    x_m, y_m = av2.SENSOR_START_M
    assert (tracks.ids, tracks.classes) == (("car", "bike"), ("REGULAR_VEHICLE", "BICYCLIST"))
    assert tracks.positions_m[0, 5].tolist() == pytest.approx([x_m, y_m + 0.8 * 5 + 20.0])
    assert tracks.positions_m[1, 6].tolist() == pytest.approx([x_m - 5.0, y_m]), "it stands, to the left of the start"
    assert tracks.yaws_rad[0, 0] == pytest.approx(np.pi / 2)
    assert abs(tracks.yaws_rad[1, 0]) == pytest.approx(np.pi)
    assert tracks.sizes_m[0, 0].tolist() == [4.5, 1.9, 1.6]
    assert tracks.is_valid[1].tolist() == [step % 2 == 0 for step in range(av2.SENSOR_STEPS)]
    assert tracks.velocities_mps[0, 3].tolist() == pytest.approx([0.0, 8.0])


def test_centre_lines_are_the_middle_of_the_boundaries(tmp_path):
    source_map = read_one(tmp_path).map
    lanes = {lane.lane_id: lane for lane in source_map.lanes}
    assert source_map.name == "PIT"
    assert lanes["11"].centre_m[[0, -1]] == pytest.approx(np.array([[90, -1.75, 22], [160, -1.75, 22]]))
    assert (lanes["11"].successors, lanes["31"].is_in_junction, lanes["41"].kind) == (("31",), True, "bike")
    assert sorted(area.kind for area in source_map.areas) == ["crosswalk", "drivable_area"]


def test_poses_lie_between_two_where_none_has_the_time_of_boxes(tmp_path):
    boxes = av2.sensor_boxes()
    boxes["timestamp_ns"] = [time_ns + 10_000_000 for time_ns in boxes["timestamp_ns"]]
    scene = read_one(tmp_path, boxes=boxes)
    assert scene.ego.positions_m[0, 1] == pytest.approx(av2.SENSOR_START_M[1] + 1.339 + 0.08)
    assert f"Poses of {av2.SENSOR_STEPS} steps are interpolated, as none has their time." in scene.remarks


def test_unknown_categories_are_told(tmp_path):
    boxes = av2.sensor_boxes()
    boxes["category"] = [name.replace("BICYCLIST", "UNICORN") for name in boxes["category"]]
    scene = read_one(tmp_path, boxes=boxes)
    assert scene.tracks.classes == ("REGULAR_VEHICLE", "OTHER")
    assert "Boxes of the unknown categories UNICORN are OTHER." in scene.remarks


def test_texts_are_numbered_as_they_come_whatever_their_dictionary():
    encoded = pa.DictionaryArray.from_arrays(np.array([3, 1, 3, 0], np.int32), ["c", "b", "unused", "a"])
    codes, texts = codes_of(pa.chunked_array([encoded[:2], encoded[2:]]))
    assert (codes.tolist(), texts) == ([0, 1, 0, 2], ["a", "b", "c"])


def test_splits_are_those_of_folders(tmp_path):
    av2.write_sensor_log(tmp_path / "val", NAME)
    av2.write_sensor_log(tmp_path / "train", OTHERS[0])
    wanted = {tmp_path: ["train", "val"], tmp_path / "val": ["val"], tmp_path / "val" / NAME: ["sample"]}
    for source, splits in wanted.items():
        refs = open_reader("argoverse2-sensor", source).list_scenes()
        assert [ref.split for ref in refs] == splits
        assert len(open_reader("argoverse2-sensor", source).read(refs[-1]).timestamps_ns) == av2.SENSOR_STEPS
    assert guess_format(tmp_path) == "argoverse2-sensor"


def test_what_is_no_folder_of_logs_is_refused(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="there is no such folder"):
        open_reader("argoverse2-sensor", tmp_path / "none").list_scenes()
    with pytest.raises(DatasetNotFoundError, match="no sensor logs of Argoverse 2"):
        open_reader("argoverse2-sensor", tmp_path).list_scenes()


# --- damage


def _boxes(**changes):
    def change(folder):
        columns = av2.sensor_boxes()
        for name, value in changes.items():
            if value is None:
                del columns[name]
            elif callable(value):
                columns[name] = value(columns[name])
            else:
                columns[name][3] = value
        pyarrow.feather.write_feather(pa.table(columns), folder / "annotations.feather")

    return change


def _encoded_with_hole(values):
    return pa.DictionaryArray.from_arrays(np.arange(len(values), dtype=np.int32), pa.array([None, *values[1:]]))


def _remove(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def _second_map(folder):
    (file,) = (folder / "map").iterdir()
    (folder / "map" / file.name.replace("31043", "7")).write_bytes(file.read_bytes())


def _write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


DAMAGE = {
    "no boxes": (_remove("annotations.feather"), r"annotations\.feather: there is no such file; logs of the test set"),
    "empty file": (_write("annotations.feather", b""), r"annotations\.feather: it cannot be read as feather"),
    "no rows": (
        _boxes(**dict.fromkeys(av2.sensor_boxes(), lambda _: [])),
        r"annotations\.feather: it has 0 rows",
    ),
    "no column": (_boxes(length_m=None), r"there is no column length_m"),
    "a hole": (_boxes(tx_m=lambda values: [None, *values[1:]]), r"column tx_m has 1 rows without a value"),
    "a hole in a dictionary": (_boxes(category=_encoded_with_hole), r"column category has 1 rows without a value"),
    "text": (_boxes(tx_m=lambda values: list(map(str, values))), r"column tx_m must hold numbers, got string"),
    "numbers": (_boxes(category=lambda values: [1] * len(values)), r"column category must hold text, got int64"),
    "NaN": (_boxes(tx_m=float("nan")), r"positions_m of track 'car'"),
    "no size": (_boxes(length_m=0.0), r"sizes_m of track 'car'"),
    "no rotation": (_boxes(qw=0.0, qz=0.0), r"rotation must be a quaternion of length 1, got .* in box 3"),
    "a box twice": (_boxes(timestamp_ns=av2.START_NS), r"track 'car' has two boxes at \d+ ns"),
    "a time without a pose": (_boxes(timestamp_ns=av2.START_NS - 10**9), r"there is no pose of the AV at \d+ ns"),
    "no map": (lambda folder: shutil.rmtree(folder / "map"), r"map: there must be one .*found 0"),
    "two maps": (_second_map, r"map: there must be one log_map_archive_LOG____CITY_city_N\.json, found 2"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_fails_one_log_with_file_and_field(tmp_path, kind):
    change, message = DAMAGE[kind]
    for name in (NAME, *OTHERS):
        av2.write_sensor_log(tmp_path / "set", name)
    change(tmp_path / "set" / NAME)
    result = import_dataset(open_reader("argoverse2-sensor", tmp_path / "set"), tmp_path / "out")
    assert result.num_scenes == 2
    (failed,) = result.failed
    assert failed.message.startswith(f"{NAME}/")
    with pytest.raises(ValueError, match=message):
        raise ValueError(failed.message)


def test_a_log_without_poses_is_none(tmp_path):
    av2.write_sensor_log(tmp_path, NAME)
    reader = open_reader("argoverse2-sensor", tmp_path)
    (ref,) = reader.list_scenes()
    (tmp_path / NAME / "city_SE3_egovehicle.feather").unlink()
    with pytest.raises(SourceDataError, match=r"city_SE3_egovehicle\.feather: there is no such file"):
        reader.read(ref)


# --- whole imports


@pytest.fixture(
    params=[
        "made",
        pytest.param(
            "real",
            marks=pytest.mark.skipif(
                "L5KIT_REAL_AV2_SENSOR" not in os.environ, reason="L5KIT_REAL_AV2_SENSOR is not set"
            ),
        ),
    ]
)
def source(request, tmp_path):
    if request.param == "real":
        return Path(os.environ["L5KIT_REAL_AV2_SENSOR"])
    for name in (NAME, *OTHERS):
        av2.write_sensor_log(tmp_path / "set", name)
    return tmp_path / "set"


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.process
def test_an_import_is_valid_and_the_same_for_any_number_of_processes(source, tmp_path):
    reader = open_reader("argoverse2-sensor", source)
    result = import_dataset(reader, tmp_path / "one", max_scenes=5)
    assert not result.failed
    for path in result.scenes.values():
        assert validate_path(path) == []
    with WorkerProcesses(2) as workers:
        import_dataset(reader, tmp_path / "two", max_scenes=5, workers=workers)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")

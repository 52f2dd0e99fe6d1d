import copy
import json
import os
import warnings

import numpy as np
import pytest

from l5kit.data import (
    AGENT_DTYPE,
    FRAME_DTYPE,
    PERCEPTION_LABELS,
    SCENE_DTYPE,
    TL_FACE_DTYPE,
    ChunkedDataset,
    get_agents_slice_from_frames,
    get_frames_slice_from_scenes,
)
from l5kit.data.dataset_summary import text_table
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX, TL_FACE_LABEL_TO_INDEX, TL_FACE_LABELS
from l5kit.errors import CorruptedDataError, DatasetNotFoundError, InvalidArgumentError, L5KitError, MissingArrayError
from support.fixture_s import make_fixture_s
from support.logs import log_of, make_frames, scenes_of, write_with_chunks
from support.random_logs import ARRAYS, assert_same_records, random_dataset

pytestmark = pytest.mark.filterwarnings("ignore:dataset path .* does not exist:RuntimeWarning")


@pytest.fixture
def dataset():
    return random_dataset(np.random.default_rng(11), 5)


def log_at(timestamps_s, scene_lengths):
    frames, *_ = make_frames(len(timestamps_s), timestamps_ns=np.round(np.asarray(timestamps_s) * 1e9))
    return log_of(scenes_of(scene_lengths), frames)


def test_a_new_dataset_is_empty():
    dataset = ChunkedDataset("")
    for name, dtype in zip(ARRAYS, (SCENE_DTYPE, FRAME_DTYPE, AGENT_DTYPE, TL_FACE_DTYPE), strict=True):
        array = getattr(dataset, name)
        assert isinstance(array, np.ndarray)
        assert (len(array), array.dtype) == (0, np.dtype(dtype))
    assert not hasattr(dataset, "root")


def test_types_and_labels_are_lists_as_in_1_5():
    for dtype in (SCENE_DTYPE, FRAME_DTYPE, AGENT_DTYPE, TL_FACE_DTYPE):
        assert isinstance(dtype, list)
    assert (len(PERCEPTION_LABELS), PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_PEDESTRIAN"]) == (17, 14)
    assert (TL_FACE_LABELS, TL_FACE_LABEL_TO_INDEX["UNKNOWN"]) == (["ACTIVE", "INACTIVE", "UNKNOWN"], 2)


def test_b1_key_is_kept_and_ignored():
    assert ChunkedDataset("", "scenes/train").key == "scenes/train"


def test_b2_only_a_path_that_a_user_gives_can_warn(tmp_path, dataset):
    with pytest.warns(RuntimeWarning, match=r"does not contain '\.zarr'"):
        ChunkedDataset(str(tmp_path))
    with pytest.warns(RuntimeWarning, match="does not exist"):
        ChunkedDataset(str(tmp_path / "none.zarr"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ChunkedDataset("")
        dataset.get_scene_dataset(0).get_scene_dataset(0)
        ChunkedDataset.concatenate([dataset, dataset])


def test_b3_an_unknown_version_and_other_labels_are_warned_about(tmp_path, dataset):
    path = write_with_chunks(dataset, tmp_path / "a.zarr")
    attributes = tmp_path / "a.zarr" / ".zattrs"
    attributes.write_text(json.dumps({"format_version": 3, "labels": PERCEPTION_LABELS}))
    with pytest.warns(RuntimeWarning, match="format_version 3"):
        ChunkedDataset(path).open()
    attributes.write_text(json.dumps({"format_version": 2, "labels": ["CAR"]}))
    with pytest.warns(RuntimeWarning, match="CAR"):
        opened = ChunkedDataset(path).open()
    assert [finding.check for finding in opened.validate()] == ["format"]
    for content in ("{}", None):
        attributes.unlink() if content is None else attributes.write_text(content)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_same_records(ChunkedDataset(path).open(), dataset)


def test_initialize_makes_arrays_that_grow(tmp_path, dataset):
    path = str(tmp_path / "new.zarr")
    made = ChunkedDataset(path).initialize(num_scenes=2, num_frames=3)
    assert [len(getattr(made, name)) for name in ARRAYS] == [2, 3, 0, 0]
    assert [getattr(made, name).chunks for name in ARRAYS] == [(10_000,), (10_000,), (20_000,), (10_000,)]
    assert made.root.attrs["format_version"] == 2
    made.scenes[:] = dataset.scenes[:2]
    made.scenes.append(dataset.scenes[2:])
    made.agents.append(dataset.agents)
    made.tl_faces.append(dataset.tl_faces)
    made.frames.resize(0)
    made.frames.append(dataset.frames)
    assert_same_records(made, dataset)
    assert_same_records(ChunkedDataset(path).open(), dataset)
    assert len(ChunkedDataset(path).initialize().scenes) == 0


def test_initialize_refuses_what_would_lose_data(tmp_path, dataset):
    (tmp_path / "notes.zarr").mkdir()
    (tmp_path / "notes.zarr" / "thesis.txt").write_text("years of work")
    (tmp_path / "file.zarr").write_text("x")
    for name in ("notes.zarr", "file.zarr"):
        with pytest.raises(InvalidArgumentError, match="choose"):
            ChunkedDataset(str(tmp_path / name)).initialize()
    assert (tmp_path / "notes.zarr" / "thesis.txt").read_text() == "years of work"
    path = write_with_chunks(dataset, tmp_path / "data.zarr")
    with pytest.raises(InvalidArgumentError, match="there is a dataset"):
        ChunkedDataset(path).initialize("w-")
    with pytest.raises(InvalidArgumentError, match=r"open\('r\+'\)"):
        ChunkedDataset(path).initialize("a", num_scenes=1)
    assert_same_records(ChunkedDataset(path).open(), dataset)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda dataset: dataset.initialize("q"), "mode must be one of"),
        (lambda dataset: dataset.initialize(num_agents=-1), "num_agents must be a whole number of at least 0, got -1"),
        (lambda dataset: dataset.open("w"), "mode must be one of"),
        (lambda dataset: ChunkedDataset("").initialize(), "without a path"),
        (lambda dataset: ChunkedDataset.concatenate([]), "at least one"),
    ],
)
def test_bad_arguments(tmp_path, call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call(ChunkedDataset(str(tmp_path / "bad.zarr")))


def test_open_without_a_dataset(tmp_path):
    (tmp_path / "empty.zarr").mkdir()
    for path in (tmp_path / "none.zarr", tmp_path / "empty.zarr"):
        for builtin in (ValueError, FileNotFoundError, DatasetNotFoundError):
            with pytest.raises(builtin, match=path.name):
                ChunkedDataset(str(path)).open()


@pytest.mark.parametrize("name", ["scenes", "frames", "agents"])
def test_open_without_an_array_is_a_key_error(tmp_path, dataset, name):
    path = write_with_chunks(dataset, tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / name / ".zarray").unlink()
    for builtin in (KeyError, MissingArrayError):
        with pytest.raises(builtin, match=name):
            ChunkedDataset(path).open()


def test_a_failed_open_leaves_the_dataset_as_it_was(tmp_path, dataset):
    path = write_with_chunks(dataset, tmp_path / "a.zarr")
    opened = ChunkedDataset(path).open()
    (tmp_path / "a.zarr" / "agents" / ".zarray").unlink()
    with pytest.raises(L5KitError):
        opened.open()
    assert_same_records(opened, dataset)


def test_attributes_may_be_replaced_by_numpy_arrays(tmp_path, dataset):
    opened = ChunkedDataset(write_with_chunks(dataset, tmp_path / "a.zarr")).open()
    opened.agents = dataset.agents.copy()
    opened.agents["yaw"] = 0.5
    assert (opened.get_scene_dataset(0).agents["yaw"] == 0.5).all()
    assert str(opened) == str(dataset)


def test_get_scene_dataset_shifts_all_intervals(tmp_path, dataset):
    opened = ChunkedDataset(write_with_chunks(dataset, tmp_path / "a.zarr")).open()
    for index in range(5):
        scene = opened.get_scene_dataset(index)
        frames = dataset.frames[get_frames_slice_from_scenes(dataset.scenes[index])]
        assert scene.scenes["frame_index_interval"].tolist() == [[0, len(frames)]]
        assert scene.scenes["host"] == dataset.scenes[index]["host"]
        assert scene.frames["timestamp"].tolist() == frames["timestamp"].tolist()
        assert scene.frames["agent_index_interval"][0, 0] == 0
        assert scene.frames["traffic_light_faces_index_interval"][0, 0] == 0
        for before, after in zip(frames, scene.frames, strict=True):
            old = dataset.agents[get_agents_slice_from_frames(before)]
            assert scene.agents[get_agents_slice_from_frames(after)].tobytes() == old.tobytes()
        assert scene.path == ""
        assert scene.validate() == []


def test_get_scene_dataset_is_a_copy(dataset):
    before = copy.deepcopy(dataset)
    scene = dataset.get_scene_dataset(1)
    for name in ARRAYS:
        assert not np.shares_memory(getattr(scene, name), getattr(dataset, name))
        getattr(scene, name)[:] = np.zeros((), dtype=getattr(scene, name).dtype)
    assert_same_records(before, dataset)


def test_b6_negative_scene_indices_and_scenes_without_frames(dataset):
    for index in range(-5, 0):
        assert_same_records(dataset.get_scene_dataset(index), dataset.get_scene_dataset(index + 5))
    for index in (5, 999, -6):
        for builtin in (ValueError, InvalidArgumentError):
            with pytest.raises(builtin, match="use -5 to 4"):
                dataset.get_scene_dataset(index)
    dataset.scenes["frame_index_interval"][2] = dataset.scenes["frame_index_interval"][2, 0]
    empty = dataset.get_scene_dataset(2)
    assert [len(getattr(empty, name)) for name in ARRAYS] == [1, 0, 0, 0]
    assert empty.scenes["frame_index_interval"].tolist() == [[0, 0]]


def test_scenes_of_a_concatenation_are_the_originals(shared_data):
    real = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    joined = ChunkedDataset.concatenate([real, real, real])
    for index in range(3):
        assert_same_records(joined.get_scene_dataset(index), real)
    with pytest.raises(ValueError, match="3"):
        joined.get_scene_dataset(3)


def test_the_real_scene(shared_data):
    real = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    assert [len(getattr(real, name)) for name in ARRAYS] == [1, 248, 20_802, 3_216]
    assert real.scenes[0]["host"].startswith("host-a")
    assert real.validate() == []
    assert real.agents[0]["track_id"] == 1
    np.testing.assert_allclose(real.frames["ego_translation"][:, 2], 271, atol=3)


def test_fixture_s_has_its_totals():
    fixture = make_fixture_s()
    assert [len(getattr(fixture, name)) for name in ARRAYS] == [1, 30, 98, 60]
    assert fixture.summary().frequency_hz == 10.0
    assert {finding.check for finding in fixture.validate()} == {"agents: labels"}  # its labels do not add up to 1


def test_str_is_the_table_of_1_5():
    lines = str(log_at(0.1 * np.arange(30) + 1, [30])).splitlines()
    assert [len(line) for line in lines] == [len(lines[0])] * 5
    assert [cell.strip() for cell in lines[1].strip("|").split("|")] == [
        "Num Scenes",
        "Num Frames",
        "Num Agents",
        "Num TR lights",
        "Total Time (hr)",
        "Avg Frames per Scene",
        "Avg Agents per Frame",
        "Avg Scene Time (sec)",
        "Avg Frame frequency",
    ]
    values = [cell.strip() for cell in lines[3].strip("|").split("|")]
    assert values == ["1", "30", "0", "0", "0.00", "30.00", "0.00", "3.00", "10.00"]


@pytest.mark.parametrize(
    ("timestamps_s", "scene_lengths"),
    [
        ([1.0, 1.2, 1.4, 99.0, 99.2, 99.4], [3, 3]),
        ([1.0, 1.2, 1.2, 1.4], [4]),
        ([1.0, 50.0, 50.2, 90.0], [1, 2, 1]),
        ([1.0, 1.2, 0.5, 0.7], [2, 2]),
    ],
    ids=["two scenes", "equal timestamps", "one-frame scenes", "time goes back"],
)
def test_b7_the_frame_rate_is_measured_inside_scenes(timestamps_s, scene_lengths):
    assert log_at(timestamps_s, scene_lengths).summary().frequency_hz == pytest.approx(5.0)


@pytest.mark.parametrize("scene_lengths", [[], [1], [1, 1]], ids=["no frame", "one frame", "one-frame scenes"])
def test_too_few_frames_to_measure_give_a_warning_and_10_hz(scene_lengths):
    dataset = log_at(1.0 + 7 * np.arange(sum(scene_lengths)), np.array(scene_lengths, dtype=int))
    with pytest.warns(RuntimeWarning, match="10 Hz"):
        assert dataset.summary().frequency_hz == 10.0


def test_save_and_overwrite(tmp_path, dataset):
    path = tmp_path / "deep" / "down" / "saved.zarr"
    dataset.save(path)
    assert_same_records(ChunkedDataset(str(path)).open(), dataset)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        dataset.save(path)
    other = random_dataset(np.random.default_rng(5), 2)
    steps = []
    other.save(path, overwrite=True, progress=lambda done, total: steps.append((done, total)))
    assert_same_records(ChunkedDataset(str(path)).open(), other)
    assert steps[-1][0] == steps[-1][1] == sum(len(getattr(other, name)) for name in ARRAYS)
    assert [file.name for file in path.parent.iterdir()] == ["saved.zarr"]


def test_save_replaces_itself(tmp_path, dataset):
    path = write_with_chunks(dataset, tmp_path / "self.zarr")
    ChunkedDataset(path).open().save(path, overwrite=True)
    assert_same_records(ChunkedDataset(path).open(), dataset)


def test_save_replaces_no_folder_that_is_no_dataset(tmp_path, dataset):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text.txt").write_text("years of work")
    with pytest.raises(InvalidArgumentError, match="no dataset"):
        dataset.save(tmp_path / "thesis", overwrite=True)
    assert (tmp_path / "thesis" / "text.txt").exists()


@pytest.mark.parametrize("name", ["half.zarr", "half.zarr.zip"])
def test_a_save_that_fails_leaves_nothing_new_and_the_old_untouched(tmp_path, dataset, name):
    dataset.save(tmp_path / name)

    class FullDiskError(Exception):
        pass

    def fail(done, total):
        raise FullDiskError

    with pytest.raises(FullDiskError):
        random_dataset(np.random.default_rng(6), 3).save(tmp_path / name, overwrite=True, progress=fail)
    with pytest.raises(FullDiskError):
        dataset.save(tmp_path / f"new-{name}", progress=fail)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert_same_records(ChunkedDataset(str(tmp_path / name)).open(), dataset)


def test_the_old_dataset_is_put_back_if_the_new_cannot_be_moved(tmp_path, dataset, monkeypatch):
    dataset.save(tmp_path / "a.zarr")
    replace, moved = os.replace, []

    def fail_for_the_new(source, target):  # zarr renames files of the store in the same way; these go on
        if target == tmp_path / "a.zarr":
            moved.append(source.name)
            if source.name == "a.zarr":
                raise PermissionError("in use")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_for_the_new)
    with pytest.raises(PermissionError):
        dataset.save(tmp_path / "a.zarr", overwrite=True)
    assert moved == ["a.zarr", "replaced"]
    assert_same_records(ChunkedDataset(str(tmp_path / "a.zarr")).open(), dataset)
    assert [file.name for file in tmp_path.iterdir()] == ["a.zarr"]


def test_save_fills_an_empty_folder(tmp_path, dataset):
    (tmp_path / "empty.zarr").mkdir()
    dataset.save(tmp_path / "empty.zarr", overwrite=True)
    assert_same_records(ChunkedDataset(str(tmp_path / "empty.zarr")).open(), dataset)


def test_deep_copies_are_independent_readers(tmp_path, dataset):
    opened = ChunkedDataset(write_with_chunks(dataset, tmp_path / "a.zarr")).open()
    twin = copy.deepcopy(opened)
    assert_same_records(twin, dataset)
    assert twin.agents is not opened.agents


@pytest.mark.parametrize("argument", ["num_scenes", "num_frames", "num_agents", "num_tl_faces"])
@pytest.mark.parametrize("value", [3.0, -1, "3", None], ids=repr)
def test_initialize_checks_all_lengths_before_it_wipes(dataset, tmp_path, argument, value):
    path = write_with_chunks(dataset, tmp_path / "full.zarr")
    with pytest.raises(InvalidArgumentError, match=f"^{argument} must be a whole number of at least 0"):
        ChunkedDataset(path).initialize(**{argument: value})
    assert_same_records(ChunkedDataset(path).open(), dataset)


def test_initialize_takes_integers_of_numpy(tmp_path):
    created = ChunkedDataset(str(tmp_path / "new.zarr")).initialize(num_frames=np.int32(3))
    assert [len(getattr(created, name)) for name in ARRAYS] == [0, 3, 0, 0]


def test_concatenate_takes_any_iterable(dataset):
    joined = ChunkedDataset.concatenate(part for part in (dataset, dataset))
    assert_same_records(joined.get_scene_dataset(5), dataset.get_scene_dataset(0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (ChunkedDataset.in_memory(), "datasets must be a list of opened datasets, got the single <ChunkedDataset"),
        ("train.zarr", "datasets must be a list of opened datasets, got the single 'train.zarr'"),
        (["train.zarr"], r"got 'train.zarr'; pass ChunkedDataset\(path\).open\(\)"),
        ([ChunkedDataset.in_memory(), None], "must hold opened datasets, got None"),
        (None, "got the single None"),
        (iter([]), "at least one"),
    ],
)
def test_concatenate_names_what_is_no_dataset(wrong, message):
    with pytest.raises(InvalidArgumentError, match=message):
        ChunkedDataset.concatenate(wrong)


@pytest.mark.parametrize("path", [b"train.zarr", 3, None], ids=repr)
def test_a_path_of_another_type_is_named(path):
    with pytest.raises(InvalidArgumentError, match=f"^path must be text, .*got {path!r} of type {type(path).__name__}"):
        ChunkedDataset(path)


def test_a_scene_of_a_dataset_without_scenes():
    with pytest.raises(InvalidArgumentError, match="the dataset has no scenes"):
        ChunkedDataset.in_memory().get_scene_dataset(0)


def test_frames_without_scenes_are_damage():
    dataset = random_dataset(np.random.default_rng(5), 3)
    dataset.scenes = dataset.scenes[:0]
    with pytest.raises(CorruptedDataError, match=rf"has {len(dataset.frames)} frames but no scenes.* restore"):
        dataset.get_scene_dataset(0)


def test_repr_tells_path_and_counts(tmp_path):
    created = ChunkedDataset(str(tmp_path / "new.zarr")).initialize(num_scenes=1, num_frames=2, num_agents=30)
    assert repr(created) == f"<ChunkedDataset '{tmp_path / 'new.zarr'}': 1 scenes, 2 frames, 30 agents, 0 tl_faces>"
    assert repr(ChunkedDataset.in_memory()).startswith("<ChunkedDataset 'in memory': 0 scenes")


def test_the_table_is_laid_out_by_prettytable():
    prettytable = pytest.importorskip("prettytable")
    for columns in ({"Num Scenes": 1, "Frequency (Hz)": 10.0}, {"ab": 12345, "abc": 7, "abcd": 123}):
        wanted = prettytable.PrettyTable(field_names=list(columns), float_format=".2")
        wanted.add_row(list(columns.values()))
        assert text_table(columns) == wanted.get_string()

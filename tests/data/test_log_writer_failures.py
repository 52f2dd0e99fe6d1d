"""Failures of the log writer: concurrent writers, full disks, late calls and bad arguments."""

import errno

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.log_facts import LogFacts
from l5kit.data.log_writer import write_log
from l5kit.data.record_buffer import RecordBuffer
from l5kit.data.scene_arrays import read_scene_arrays
from l5kit.data.scene_records import SceneRecords
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.errors import CorruptedDataError, InvalidArgumentError, ReadOnlyDatasetError
from support.random_logs import random_dataset


def scene_of(seed=0):
    return SceneRecords.read(random_dataset(np.random.default_rng(seed), 1, min_frames=3), 0)


def put_precious(path):
    path.mkdir(exist_ok=True)
    (path / "precious.txt").touch()


# concurrent writers of the same path


def test_a_log_does_not_replace_what_has_come_to_its_place(tmp_path):
    path = tmp_path / "a.zarr"

    def write():
        with write_log(path) as writer:
            writer.append(scene_of())
            put_precious(path)

    with pytest.raises(FileExistsError, match=r"a\.zarr exists"):
        write()
    assert [entry.name for entry in tmp_path.rglob("*")] == ["a.zarr", "precious.txt"]


def test_of_two_writers_of_one_log_the_first_to_end_wins(tmp_path):
    path = tmp_path / "a.zarr"

    def write():
        with write_log(path) as late:
            late.append(scene_of(1))
            with write_log(path) as early:
                early.append(scene_of(2))

    with pytest.raises(FileExistsError, match="exists"):
        write()
    assert ChunkedDataset(str(path)).open().agents[:].tobytes() == scene_of(2).agents.tobytes()


def test_a_folder_of_something_else_is_not_replaced_even_if_it_came_late(tmp_path):
    path = tmp_path / "a.zarr"
    with pytest.raises(InvalidArgumentError, match="but no dataset"), write_log(path, overwrite=True):
        put_precious(path)
    log = random_dataset(np.random.default_rng(0), 2)
    other = tmp_path / "b.zarr"
    with pytest.raises(InvalidArgumentError, match="but no dataset"):
        log.save(other, overwrite=True, progress=lambda *_: put_precious(other))
    assert sorted(entry.name for entry in tmp_path.rglob("*")) == ["a.zarr", "b.zarr", "precious.txt", "precious.txt"]


@pytest.mark.parametrize("name", ["a.zarr", "a.zarr.zip"])
def test_a_saved_log_does_not_replace_what_has_come_to_its_place(name, tmp_path):
    path = tmp_path / name
    log = random_dataset(np.random.default_rng(0), 2)
    with pytest.raises(FileExistsError, match=r"a\.zarr.* exists"):
        log.save(path, progress=lambda *_: path.write_text("precious"))
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_no_log_to_be_replaced(tmp_path):
    path = tmp_path / "a.zarr"
    path.write_text("precious")
    with pytest.raises(InvalidArgumentError, match="which is a file"), write_log(path, overwrite=True):
        pytest.fail("the block must not run")
    with pytest.raises(InvalidArgumentError, match="which is a file"):
        random_dataset(np.random.default_rng(0), 1).save(path, overwrite=True)
    assert path.read_text() == "precious"


@pytest.mark.parametrize("url", ["s3://bucket/a.zarr", "memory://a.zarr"])
def test_a_url_is_no_folder_to_write_a_log_to(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError, match="path is the URL"), write_log(url):
        pytest.fail("the block must not run")
    with pytest.raises(InvalidArgumentError, match="path is the URL"):
        random_dataset(np.random.default_rng(0), 1).save(url)
    assert list(tmp_path.iterdir()) == []


# Writing that fails, and calls that come late


def test_after_a_full_disk_nothing_more_is_written_and_no_log_appears(tmp_path, monkeypatch):
    num_writes, append = 0, ChunkedArray.append

    def full_for_a_moment(array, rows):
        nonlocal num_writes
        num_writes += 1
        if num_writes == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(array, rows)

    def write(path):
        with write_log(path) as writer:
            writer.append(scene_of())
            with pytest.raises(OSError, match="No space left"):
                writer.flush()
            for call in (lambda: writer.append(scene_of()), writer.flush):
                with pytest.raises(CorruptedDataError, match=r"could not be written .*No space left"):
                    call()

    monkeypatch.setattr(ChunkedArray, "append", full_for_a_moment)
    with pytest.raises(CorruptedDataError, match="could not be written") as caught:
        write(tmp_path / "a.zarr")
    assert isinstance(caught.value.__cause__, OSError)
    assert num_writes == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_writer_whose_block_has_ended_writes_nothing(is_interrupted, tmp_path):
    def write():
        with write_log(tmp_path / "a.zarr") as writer:
            kept.append(writer)
            writer.append(scene_of())
            if is_interrupted:
                raise ZeroDivisionError

    kept = []
    if is_interrupted:
        with pytest.raises(ZeroDivisionError):
            write()
    else:
        write()
    before = sorted(tmp_path.rglob("*"))
    log = RecordBuffer([scene_of()]).to_log()
    for call in (lambda: kept[0].append(scene_of()), lambda: kept[0].append_log(log), kept[0].flush):
        with pytest.raises(ReadOnlyDatasetError, match="has ended"):
            call()
    assert kept[0].num_scenes == 1
    assert sorted(tmp_path.rglob("*")) == before


# What is handed over


def test_arrays_may_be_used_again_once_a_scene_is_appended(tmp_path):
    scene, expected = scene_of(), scene_of()
    with write_log(tmp_path / "a.zarr") as writer:
        writer.append(scene)
        for records in (scene.frames, scene.agents, scene.tl_faces):
            records.view(np.uint8)[:] = 1
    opened = ChunkedDataset(str(tmp_path / "a.zarr")).open()
    assert opened.agents[:].tobytes() == expected.agents.tobytes()
    assert opened.tl_faces[:].tobytes() == expected.tl_faces.tobytes()
    assert opened.frames["timestamp"].tolist() == expected.frames["timestamp"].tolist()


def test_what_is_no_scene_is_refused_at_once(tmp_path):
    log = random_dataset(np.random.default_rng(0), 1)
    with write_log(tmp_path / "a.zarr") as writer:
        for other in (None, log, [scene_of()], RecordBuffer([scene_of()]).to_log()):
            with pytest.raises(InvalidArgumentError, match=f"scene must be SceneArrays .* got {type(other).__name__}"):
                writer.append(other)
        with pytest.raises(InvalidArgumentError, match="log must be LogRecords"):
            writer.append_log(scene_of())
        writer.append(read_scene_arrays(log, 0))
    assert len(ChunkedDataset(str(tmp_path / "a.zarr")).open().scenes) == 1


@pytest.mark.parametrize("facts", [{"step_time_s": 0.1}, 0.1, LogFacts], ids=["mapping", "number", "class"])
def test_what_are_no_facts_is_refused(facts, tmp_path):
    with pytest.raises(InvalidArgumentError, match="facts must be LogFacts"), write_log(tmp_path / "a", facts=facts):
        pytest.fail("the block must not run")
    with pytest.raises(InvalidArgumentError, match="facts must be LogFacts"):
        RecordBuffer([scene_of()], facts=facts)
    with pytest.raises(InvalidArgumentError, match="facts must be LogFacts"):
        ChunkedDataset.in_memory(facts=facts)
    assert list(tmp_path.iterdir()) == []


def test_a_log_with_scenes_without_frames_is_valid(tmp_path):
    scene = scene_of()
    empty = SceneRecords(scene.frames[:0], scene.agents[:0], scene.tl_faces[:0], host="car")
    with write_log(tmp_path / "a.zarr") as writer:
        writer.append(empty)
        writer.append(empty)
    opened = ChunkedDataset(str(tmp_path / "a.zarr")).open()
    assert len(opened.scenes) == 2
    assert opened.validate() == []

"""Verification: its findings, and resuming after an interruption."""

import os
import time

import pytest

from l5kit.data.digests.digest import _Hashing
from l5kit.data.digests.file_trees import _LocalTree
from l5kit.data.digests.manifest import Manifest, ManifestDifferences
from l5kit.data.digests.verification import verify
from l5kit.data.user_cache import cache_folder

FILES = {f"agents/{number}": bytes([number]) * 100 for number in range(8)}
EQUAL = ManifestDifferences((), (), ())


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "city"
    (place / "agents").mkdir(parents=True)
    for path, content in FILES.items():
        (place / path).write_bytes(content)
        os.utime(place / path, ns=(time.time_ns() - 60 * 10**9,) * 2)
    return place


@pytest.fixture
def manifest(folder):
    return Manifest.of(folder)


@pytest.fixture
def read_files(manifest, monkeypatch):
    """Paths of the files that are read, after the manifest was made."""
    opened = []
    original = _Hashing.result_of

    def note(self, file):
        opened.append(file.path)
        return original(self, file)

    monkeypatch.setattr(_Hashing, "result_of", note)
    return opened


class Stop(BaseException):
    """Stands for Ctrl-C."""


@pytest.fixture
def stop_after(monkeypatch):
    """Function that interrupts the next verification like Ctrl-C after some number of files."""

    def stop(num_files):
        original, count = _Hashing.result_of, [0]

        def count_down(self, file):
            count[0] += 1
            if count[0] > num_files:
                monkeypatch.setattr(_Hashing, "result_of", original)
                raise Stop
            return original(self, file)

        monkeypatch.setattr(_Hashing, "result_of", count_down)

    return stop


def stopped(stop_after, folder, manifest, num_files=3):
    stop_after(num_files)
    with pytest.raises(Stop):
        verify(folder, manifest, workers=1)


def kept():
    place = cache_folder() / "verifications"
    return sorted(os.listdir(place)) if place.is_dir() else []


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_copy_is_equal(folder, manifest, workers):
    found = verify(folder, manifest, workers=workers)
    assert (found.is_equal, found.differences, found.unreadable, found.num_known) == (True, EQUAL, {}, 0)
    assert kept() == []


def test_differences_are_told_by_name_and_files_of_another_size_are_not_read(folder, manifest, read_files):
    (folder / "agents" / "1").write_bytes(b"\x02" * 100)
    (folder / "agents" / "2").write_bytes(b"short")
    (folder / "agents" / "3").unlink()
    (folder / "agents" / "9").write_bytes(b"new")
    found = verify(folder, manifest)
    assert found.differences == ManifestDifferences(("agents/3",), ("agents/1", "agents/2"), ("agents/9",))
    assert not found.is_equal
    assert sorted(read_files) == [f"agents/{number}" for number in (0, 1, 4, 5, 6, 7)]


def test_files_that_cannot_be_read_are_told_of_and_the_others_are_checked(folder, manifest, monkeypatch):
    original = _LocalTree.open_file

    def fail(self, path):
        if path == "agents/5":
            raise OSError(5, "Input/output error")
        return original(self, path)

    monkeypatch.setattr(_LocalTree, "open_file", fail)
    (folder / "agents" / "7").write_bytes(b"\x00" * 100)
    found = verify(folder, manifest)
    assert found.differences == ManifestDifferences((), ("agents/7",), ())
    assert found.unreadable == {"agents/5": "[Errno 5] Input/output error"}
    assert not found.is_equal


def test_it_goes_on_where_it_was_stopped(folder, manifest, read_files, stop_after):
    stopped(stop_after, folder, manifest)
    assert sorted(os.listdir(folder)) == ["agents"]
    assert len(read_files) == 3
    told, bars = [], []
    found = verify(
        folder, manifest, tell=lambda *numbers: told.append(numbers), progress=lambda *numbers: bars.append(numbers)
    )
    assert told == [(3, 8)]
    assert (found.is_equal, found.num_known) == (True, 3)
    assert sorted(read_files) == sorted(FILES)  # each was read once
    assert (bars[0], bars[-1]) == ((400, 800), (800, 800))
    assert kept() == []
    assert verify(folder, manifest).num_known == 0  # a run that came to its end has no successor


@pytest.mark.parametrize("change", ["content", "content and time", "another file"])
def test_files_that_changed_since_it_was_stopped_are_read_again(folder, manifest, stop_after, change):
    stopped(stop_after, folder, manifest)
    target = folder / "agents" / "0"
    status, other = target.stat(), folder.parent / "other"
    place = other if change == "another file" else target
    place.write_bytes(b"\x09" * 100)
    if change != "content":
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
    if change == "another file":
        os.replace(other, target)
    found = verify(folder, manifest)
    assert (found.num_known, found.differences.changed) == (2, ("agents/0",))


def test_files_that_were_found_changed_stay_so(folder, manifest, stop_after):
    target = folder / "agents" / "1"
    target.write_bytes(b"\x09" * 100)
    os.utime(target, ns=(time.time_ns() - 60 * 10**9,) * 2)
    stopped(stop_after, folder, manifest)
    found = verify(folder, manifest)
    assert (found.num_known, found.differences.changed) == (3, ("agents/1",))


def test_files_that_have_just_been_written_are_read_again(folder, manifest, stop_after):
    (folder / "agents" / "1").write_bytes(FILES["agents/1"])
    stopped(stop_after, folder, manifest)
    assert verify(folder, manifest).num_known == 2


def test_fresh_reads_all_files(folder, manifest, read_files, stop_after):
    stopped(stop_after, folder, manifest)
    read_files.clear()
    assert verify(folder, manifest, fresh=True).num_known == 0
    assert sorted(read_files) == sorted(FILES)
    assert kept() == []


def test_a_fresh_run_that_is_stopped_has_forgotten_the_one_before(folder, manifest, stop_after):
    stopped(stop_after, folder, manifest, 5)
    stop_after(2)
    with pytest.raises(Stop):
        verify(folder, manifest, fresh=True, workers=1)
    assert verify(folder, manifest).num_known == 2


def test_each_place_and_manifest_goes_on_by_itself(folder, manifest, stop_after, tmp_path):
    stopped(stop_after, folder, manifest)
    copy = tmp_path / "copy"
    folder.rename(copy)
    assert verify(copy, manifest).num_known == 0
    copy.rename(folder)
    assert verify(folder, Manifest(manifest.files[1:])).num_known == 0
    assert verify(folder, manifest).num_known == 3


def test_half_a_line_and_other_damage_of_the_journal_are_left_aside(folder, manifest, stop_after):
    stopped(stop_after, folder, manifest)
    (journal,) = (cache_folder() / "verifications").glob("*.jsonl")
    content = journal.read_bytes()
    journal.write_bytes(
        b'\xff{"state": 1}\n[]\n{}\n{"state": [], "sha256": []}\n' + b"[" * 5000 + b"\n" + content[:-20]
    )
    stop_after(2)
    with pytest.raises(Stop):
        verify(folder, manifest, workers=1)
    assert verify(folder, manifest).num_known == 4


def test_without_a_place_for_a_journal(folder, manifest, stop_after, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / "file"))
    stopped(stop_after, folder, manifest)
    assert verify(folder, manifest).is_equal


def test_threads_end_when_it_is_stopped(folder, manifest):
    def stop(done, _):
        if done > 300:
            raise Stop

    with pytest.raises(Stop):
        verify(folder, manifest, workers=3, progress=stop)

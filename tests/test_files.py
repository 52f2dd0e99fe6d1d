"""Files that are written whole or not at all, with the permissions of any new file, and what killed writers leave."""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import filelock
import numpy as np
import pytest

from l5kit._files import (
    clear_leftovers,
    clear_leftovers_in,
    placed_when_complete,
    publish,
    remove_whole,
    replaced_when_complete,
    scratch_beside,
)
from l5kit.configs import save_config_data
from l5kit.data import SCENE_DTYPE, ChunkedDataset
from l5kit.data.map.builder import MapBuilder
from l5kit.errors import TERMINATED
from l5kit.visualization import write_png


@pytest.fixture(params=[0o022, 0o077, 0o002], ids=oct)
def umask(request):
    """The umask of this process for one test."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_appears_only_when_complete(tmp_path):
    target = tmp_path / "file.bin"
    with replaced_when_complete(target) as path:
        path.write_bytes(b"half")
        assert path.parent.parent == tmp_path
        assert path.name == "file.bin"
        assert not target.exists()
    assert target.read_bytes() == b"half"


def interrupted(path):
    path.write_bytes(b"half")
    raise KeyboardInterrupt


def test_a_folder_that_may_not_be_written_to_is_named(tmp_path, monkeypatch):
    def refuse(folder, mode):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(PermissionError, match="is not writable") as raised, scratch_beside(tmp_path / "a"):
        pass
    assert str(tmp_path) in str(raised.value)


def test_an_interruption_as_soon_as_the_scratch_folder_is_there_leaves_nothing(tmp_path, monkeypatch):
    make = Path.mkdir

    def make_and_interrupt(folder, mode):
        make(folder, mode)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", make_and_interrupt)
    with pytest.raises(KeyboardInterrupt), scratch_beside(tmp_path / "a"):
        pytest.fail("the block must not run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="folders are not opened to be removed here")
@pytest.mark.parametrize("ending", [KeyboardInterrupt(), SystemExit(TERMINATED)], ids=["Ctrl-C", "SIGTERM"])
def test_an_interruption_while_the_scratch_folder_is_closed_stays_one(tmp_path, monkeypatch, ending):
    """Python's own removal of folders closes one again that it was interrupted in closing."""
    close = os.close
    endings = [ending]

    def close_and_end(descriptor):
        close(descriptor)
        if endings:
            raise endings.pop()

    with pytest.raises(type(ending)) as raised, scratch_beside(tmp_path / "a"):
        monkeypatch.setattr(os, "close", close_and_end)
    assert raised.value is ending


def test_a_folder_that_cannot_be_removed_for_another_reason_is_an_error(tmp_path, monkeypatch):
    def fail(folder, **_):
        raise OSError(errno.EIO, "broken", str(folder))

    monkeypatch.setattr("shutil.rmtree", fail)
    with pytest.raises(OSError, match="broken"), scratch_beside(tmp_path / "a"):
        pass


def test_a_scratch_folder_of_another_writer_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / ".a.0.part").mkdir()
    tokens = iter("01")
    monkeypatch.setattr("secrets.token_hex", lambda num_bytes: next(tokens))
    with scratch_beside(tmp_path / "a") as scratch:
        assert scratch.name == ".a.1.part"
    assert [path.name for path in tmp_path.iterdir()] == [".a.0.part"]


def test_an_interruption_keeps_the_older_file(tmp_path):
    target = tmp_path / "file.bin"
    target.write_bytes(b"older")
    with pytest.raises(KeyboardInterrupt), replaced_when_complete(target) as path:
        interrupted(path)
    assert target.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        pytest.param(
            "nowhere/file.bin", FileNotFoundError, r"^path '.*file\.bin': the folder '.*nowhere' does", id="no folder"
        ),
        pytest.param("", IsADirectoryError, "^path .* is a folder", id="a folder"),
    ],
)
def test_a_wrong_place_is_named(tmp_path, wanted, error, message):
    with pytest.raises(error, match=message), replaced_when_complete(tmp_path / wanted, argument="path"):
        pytest.fail("the block must not run")


def write_config(path):
    save_config_data({"a": 1}, str(path))


def write_map(path):
    MapBuilder(np.eye(4)).save(path)


def write_picture(path):
    write_png(path, np.zeros((2, 3, 3), np.uint8))


def write_dataset(path):
    ChunkedDataset.in_memory(scenes=np.zeros(1, SCENE_DTYPE)).save(path)


@pytest.mark.skipif(os.name == "nt", reason="the umask is one of POSIX")
@pytest.mark.parametrize(
    ("write", "name"),
    [(write_config, "a.yaml"), (write_map, "a.pb"), (write_picture, "a.png"), (write_dataset, "a.zarr.zip")],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_files_honour_the_umask(umask, write, name, tmp_path):
    write(tmp_path / name)
    assert permissions(tmp_path / name) == 0o666 & ~umask


@pytest.mark.skipif(os.name == "nt", reason="the umask is one of POSIX")
def test_folders_of_a_dataset_honour_the_umask(umask, tmp_path):
    write_dataset(tmp_path / "a.zarr")
    written = [tmp_path / "a.zarr", *(tmp_path / "a.zarr").rglob("*")]
    assert len(written) > 10
    for path in written:
        assert permissions(path) == (0o777 if path.is_dir() else 0o666) & ~umask


WRITERS = {
    "a file": """
from l5kit._files import replaced_when_complete
with replaced_when_complete("target") as path:
    path.write_bytes(b"half")
    hang()
""",
    "a dataset": """
import numpy as np
from l5kit.data import ChunkedDataset
scenes = np.zeros(3, ChunkedDataset("").scenes.dtype)
ChunkedDataset.in_memory(scenes=scenes).save("target", progress=lambda *_: hang())
""",
    "a city": """
from l5kit.synthetic import make_city
make_city("target", num_scenes=2, num_frames=10, town_size=300.0, progress=lambda *_: hang())
""",
    "a film": """
import numpy as np
from l5kit.visualization import write_gif
def pictures():
    yield np.zeros((4, 4, 3), np.uint8)
    hang()
write_gif("target", pictures(), (4, 4), fps=10)
""",
    "a video": """
import numpy as np
from l5kit.visualization import write_video
def pictures():
    yield np.zeros((4, 4, 3), np.uint8)
    hang()
write_video("target.mp4", pictures(), (4, 4), fps=10)
""",
    "a picture": """
import numpy as np
from PIL import Image
from l5kit.visualization import write_png
Image.Image.save = lambda *_, **__: hang()
write_png("target", np.zeros((4, 4, 3), np.uint8))
""",
    "a test set": """
import tempfile
from pathlib import Path
from l5kit.warmup.small_log import write_small_log
from l5kit.evaluation.chop_dataset import chopping
log = write_small_log(Path(tempfile.mkdtemp(dir="."))).dataset
chopping.export_zarr_to_csv = lambda *_, **__: hang()
chopping.create_chopped_dataset(str(log), 0.5, 20, 10, 1, output_folder="target", verbose=False)
""",
    "a kept agents mask": """
import numpy as np
from pathlib import Path
from l5kit.data.stores import npy_files
npy_files.npy_header = lambda *_: hang()
npy_files.keep_npy(Path("target"), np.zeros((4, 2), np.uint32))
""",
    "an agents mask inside a dataset": """
from types import SimpleNamespace
import os
import numpy as np
from l5kit.dataset.select_agents import stored_mask
from l5kit.dataset.select_agents.thresholds import MaskThresholds
os.makedirs("log.zarr", exist_ok=True)
MaskThresholds.as_attributes = lambda *_: hang()
stored_mask.write_mask(SimpleNamespace(path="log.zarr"), MaskThresholds(0.5), np.zeros((4, 2), np.uint32))
""",
}
"""Scripts that write "target" in the working folder and call hang() in the midst of it."""

TARGETS = {"an agents mask inside a dataset": "log.zarr/agents_mask", "a video": "target.mp4"}


def hanging(script, folder):
    """Start a writer, and return its process once it hangs."""
    prelude = "import time\ndef hang():\n    print('hangs', flush=True)\n    time.sleep(600)\n"
    process = subprocess.Popen([sys.executable, "-c", prelude + script], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "hangs\n"
    return process


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    process.stdout.close()


@pytest.fixture
def killed(tmp_path):
    """Kill a writer of a file in a folder in the midst of its work; returns what it has left."""

    def run(script=WRITERS["a file"], folder=tmp_path):
        kill(hanging(script, folder))
        (left,) = folder.glob(".target.*.part")
        return left

    return run


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does")
@pytest.mark.parametrize("name", WRITERS)
def test_the_next_writer_clears_what_a_killed_one_left(name, tmp_path):
    target = tmp_path / TARGETS.get(name, "target")
    kill(hanging(WRITERS[name], tmp_path))
    (left,) = target.parent.glob(f".{target.name}.*.part")
    following = hanging(WRITERS[name], tmp_path)
    try:
        (at_work,) = target.parent.glob(f".{target.name}.*.part")
    finally:
        kill(following)
    assert at_work != left


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does")
def test_nothing_of_a_writer_at_work_is_cleared(tmp_path):
    at_work = hanging(WRITERS["a file"], tmp_path)
    try:
        (its_own,) = tmp_path.glob(".target.*.part")
        kill(hanging(WRITERS["a file"], tmp_path))
        assert len(list(tmp_path.glob(".target.*.part"))) == 2
        clear_leftovers(tmp_path / "target")
        assert list(tmp_path.glob(".target.*.part")) == [its_own]
        assert (its_own / "target").read_bytes() == b"half"
    finally:
        kill(at_work)


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does")
def test_what_others_write_and_other_names_stay(killed, tmp_path):
    left = killed()
    for other in (".target.txt.abcdefgh.part", ".targe.abcdefgh.part", ".target.part", "target.abcdefgh.part"):
        shutil.copytree(left, tmp_path / other)
    others = set(tmp_path.iterdir()) - {left}
    clear_leftovers(tmp_path / "target")
    assert set(tmp_path.iterdir()) == others


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does")
def test_leftovers_of_all_names_in_a_folder_are_cleared(killed, tmp_path):
    left = killed()
    for other in (".target.txt.abcdefgh.part", ".a b.c\n.abcdefgh.part"):
        shutil.copytree(left, tmp_path / other)
    others = [tmp_path / name for name in (".target.part", "target.abcdefgh.part", ".target.abcdefgh.parts")]
    for other in others:
        shutil.copytree(left, other)
    clear_leftovers_in(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(others)
    clear_leftovers_in(tmp_path / "none")


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does")
@pytest.mark.parametrize("file", ["owner.txt", "owner.lock"])
def test_what_another_machine_or_an_older_release_left_is_cleared_after_a_day_only(killed, tmp_path, file):
    """If a shared folder does not share its locks, a lock of another machine is invisible."""
    left = killed()
    (left / "owner.txt").write_text("another-machine\n0000-1111")
    if file == "owner.lock":
        (left / file).unlink()
    clear_leftovers(tmp_path / "target")
    assert left.exists()
    yesterday = time.time() - 25 * 3600
    for path in (*left.iterdir(), left):
        os.utime(path, (yesterday, yesterday))
    clear_leftovers(tmp_path / "target")
    assert not left.exists()


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does")
def test_a_container_on_the_same_machine_is_no_other_machine(killed, tmp_path):
    left = killed()
    lines = (left / "owner.txt").read_text().split("\n")
    if len(lines) < 2:
        pytest.skip("this system has no number of its running kernel")
    (left / "owner.txt").write_text(f"another-container\n{lines[1]}")
    clear_leftovers(tmp_path / "target")
    assert not left.exists()


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does")
def test_what_a_killed_writer_had_taken_away_comes_back(killed, tmp_path):
    """It was killed between moving the older folder away and moving the new one to its place."""
    left = killed()
    (left / "replaced").mkdir()
    (left / "replaced" / "older").write_text("the only copy")
    clear_leftovers(tmp_path / "target")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert (tmp_path / "target" / "older").read_text() == "the only copy"


def test_a_file_system_without_locks_keeps_what_is_there(tmp_path, monkeypatch):
    """A writer continues without a lock, and its files are not mistaken for leftovers."""

    def refuse(*_, **__):
        raise NotImplementedError("no locks here")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with replaced_when_complete(tmp_path / "target") as path:
        path.write_bytes(b"half")
        clear_leftovers(tmp_path / "target")
        assert path.exists()
    assert (tmp_path / "target").read_bytes() == b"half"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_two_writers_of_one_place_in_one_process_do_not_disturb_each_other(tmp_path):
    target = tmp_path / "target"
    with replaced_when_complete(target) as first:
        first.write_bytes(b"first")
        with replaced_when_complete(target) as second:
            second.write_bytes(b"second")
        assert target.read_bytes() == b"second"
    assert target.read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_a_folder_is_there_when_it_is_complete_and_not_before(tmp_path):
    target = tmp_path / "folders" / "around" / "target"
    with placed_when_complete(target) as complete:
        complete.mkdir()
        (complete / "file").write_text("first")
        assert not target.exists()
    with pytest.raises(FileNotFoundError), placed_when_complete(target) as complete:
        (complete / "file").write_text("in a folder that was not made")
    assert (target / "file").read_text() == "first"
    with placed_when_complete(target) as complete:
        complete.write_text("second")
    assert target.read_text() == "second"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_place_that_is_taken_is_refused_where_nothing_may_be_replaced(tmp_path):
    target = tmp_path / "target"
    for make in (Path.mkdir, Path.touch):
        with placed_when_complete(target, may_replace=False) as complete:
            make(complete)
        with (
            pytest.raises(FileExistsError, match="another process"),
            placed_when_complete(target, may_replace=False) as complete,
        ):
            make(complete)
        assert [path.name for path in tmp_path.iterdir()] == ["target"]
        target.rmdir() if target.is_dir() else target.unlink()


def test_a_place_that_is_taken_in_the_last_moment_is_refused(tmp_path, monkeypatch):
    """Another writer is through between the question whether the place is free and the move."""
    target = tmp_path / "target"
    (target / "of another").mkdir(parents=True)
    answers = iter([False])
    lexists = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: next(answers, True) if path == target else lexists(path))
    with scratch_beside(target) as scratch:
        (scratch / "new").mkdir()
        with pytest.raises(FileExistsError, match="another process"):
            publish(scratch / "new", target, scratch=scratch, may_replace=False)
    assert (target / "of another").is_dir()


def test_the_scratch_folder_may_lie_beside_another_place(tmp_path):
    target = tmp_path / "group" / "target"
    with placed_when_complete(target, scratch_by=target.parent) as complete:
        assert complete.parent.parent == tmp_path
        complete.write_text("new")
    assert target.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["group"]


def test_a_new_file_takes_the_place_of_an_older_one_in_one_step(tmp_path, monkeypatch):
    """At no moment a reader finds no file."""
    target, replace, moves = tmp_path / "target", os.replace, []
    target.write_text("older")
    monkeypatch.setattr(os, "replace", lambda source, place: (moves.append(Path(place)), replace(source, place)))
    with placed_when_complete(target) as complete:
        complete.write_text("new")
    assert moves == [target]
    assert target.read_text() == "new"


def test_a_folder_is_removed_under_another_name(tmp_path, monkeypatch):
    folder, rmtree, was_there = tmp_path / "target", shutil.rmtree, []
    folder.mkdir()
    monkeypatch.setattr(shutil, "rmtree", lambda *args, **kw: (was_there.append(folder.exists()), rmtree(*args, **kw)))
    remove_whole(folder)
    assert was_there
    assert not any(was_there)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        remove_whole(folder)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_comes_back_where_the_new_cannot_be_moved(tmp_path, monkeypatch):
    target, replace = tmp_path / "target", os.replace
    target.write_text("older")

    def fail_for_the_new(source, place):
        if Path(source).name == "new":
            raise PermissionError("in use")
        replace(source, place)

    monkeypatch.setattr(os, "replace", fail_for_the_new)
    with scratch_beside(target) as scratch:
        (scratch / "new").write_text("new")
        with pytest.raises(PermissionError, match="in use"):
            publish(scratch / "new", target, scratch=scratch)
    assert target.read_text() == "older"


def test_what_cannot_come_back_is_kept_for_the_next_run(tmp_path, monkeypatch):
    target, replace = tmp_path / "target", os.replace
    target.mkdir()
    (target / "file").write_text("the only copy")

    def fail_for_the_place(source, place):
        if place == target:
            raise PermissionError("in use")
        replace(source, place)

    def replace_target():
        with scratch_beside(target) as scratch:
            (scratch / "new").mkdir()
            publish(scratch / "new", target, scratch=scratch)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail_for_the_place)
        with pytest.raises(PermissionError):
            replace_target()
        assert not target.exists()
    clear_leftovers(target)
    assert (target / "file").read_text() == "the only copy"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_an_interruption_while_the_scratch_folder_is_being_made_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(filelock.FileLock, "acquire", interrupt)
    with pytest.raises(KeyboardInterrupt), replaced_when_complete(tmp_path / "a.mp4"):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_a_block_that_nobody_leaves_leaves_nothing_and_says_nothing(tmp_path):
    """Python closes it when it ends, at a time at which modules may have lost their functions."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from l5kit._files import placed_when_complete\n"
        f"sys.held = placed_when_complete(Path({str(tmp_path / 'log.zarr')!r}))\n"
        "sys.held.__enter__().mkdir()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []

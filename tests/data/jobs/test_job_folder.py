"""Job folders: a killed job resumes, repeats nothing, and uses no damaged part."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.digests.manifest import Manifest
from l5kit.data.jobs.job_folder import WritesFiles, open_job
from l5kit.data.jobs.scene_jobs import KeptWorkers, count_workers, map_scenes, without_job
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
from l5kit.errors import EngineError, InvalidArgumentError

FACTS = {"command": "count", "data": ["log", "1"]}


@dataclass
class Counts:
    """Squares and the requested scenes; fails at one scene while the test wants it to."""

    asked: list
    fails_at: int | None = None

    def __call__(self, scenes):
        self.asked.extend(scenes.tolist())
        if self.fails_at in scenes:
            raise ConnectionError("gone")
        return (scenes**2).tolist()


@dataclass(frozen=True)
class Writes(WritesFiles):
    """Writes a file for each scene."""

    def __call__(self, scenes):
        for scene in scenes.tolist():
            (self.folder / "deep").mkdir(exist_ok=True)
            (self.folder / "deep" / f"{scene}.txt").write_text(f"scene {scene}")
        return len(scenes)


def squares_of(job, folder, *, workers=1, scenes=range(10), block_size=2):
    with open_job(folder, FACTS) as opened:
        parts = map_scenes(job, scenes, KeptWorkers(workers, opened), block_size=block_size)
        return [square for part in parts for square in part]


@pytest.mark.parametrize("workers", [1, 3])
def test_what_is_done_is_not_done_again(tmp_path, workers):
    first, again = Counts([], fails_at=5), Counts([])
    with pytest.raises(ConnectionError, match="gone") as caught:
        squares_of(first, tmp_path / "job", workers=workers)
    assert caught.value.__notes__ == ["in scene 5"]
    assert squares_of(again, tmp_path / "job", workers=workers) == [scene * scene for scene in range(10)]
    assert not set(again.asked) & {0, 1, 2, 3}
    assert {4, 5} <= set(again.asked)
    third = Counts([])
    assert squares_of(third, tmp_path / "job", workers=workers) == [scene * scene for scene in range(10)]
    assert third.asked == []


def test_other_numbers_of_workers_keep_the_blocks(tmp_path):
    with pytest.raises(ConnectionError):
        squares_of(Counts([], fails_at=9), tmp_path / "job", block_size=3)
    again = Counts([])
    assert squares_of(again, tmp_path / "job", workers=2, block_size=1) == [scene * scene for scene in range(10)]
    assert again.asked == [9]


@pytest.mark.parametrize("damage", ["flipped", "shorter", "missing", "receipt", "no receipt"])
def test_a_damaged_part_is_made_again(tmp_path, damage):
    squares_of(Counts([]), tmp_path / "job")
    part = tmp_path / "job" / "0-scene" / "000000004"
    result, receipt = part / "result.pickle", part / "receipt.json"
    content = result.read_bytes()
    if damage == "flipped":
        result.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    elif damage == "shorter":
        result.write_bytes(content[:-1])
    elif damage == "receipt":
        receipt.write_text(receipt.read_text().replace('"scenes": 2', '"scenes": 3'))
    else:
        (result if damage == "missing" else receipt).unlink()
    again = Counts([])
    with pytest.warns(RuntimeWarning, match=r"000000004 is damaged: .*; it is rebuilt"):
        assert squares_of(again, tmp_path / "job") == [scene * scene for scene in range(10)]
    assert again.asked == [4, 5]


def test_files_of_somebody_else_do_not_go_with_a_damaged_part(tmp_path):
    squares_of(Counts([]), tmp_path / "job")
    part = tmp_path / "job" / "0-scene" / "000000004"
    (part / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"000000004, which would be rebuilt, but 'notes.txt' in it"):
        squares_of(Counts([]), tmp_path / "job")
    assert (part / "notes.txt").read_text() == "mine"
    (part / "notes.txt").unlink()
    again = Counts([])
    assert squares_of(again, tmp_path / "job") == [scene * scene for scene in range(10)]
    assert again.asked == []


def rename(first, second):
    """Let two folders have the names of each other."""
    between = first.with_name("between")
    for source, target in ((first, between), (second, first), (between, second)):
        source.rename(target)


def test_parts_that_are_whole_but_of_other_scenes_are_made_again(tmp_path):
    squares_of(Counts([]), tmp_path / "job")
    stage = tmp_path / "job" / "0-scene"
    rename(stage / "000000002", stage / "000000006")
    again = Counts([])
    with pytest.warns(
        RuntimeWarning, match=r"000000002 is damaged: it is another part: first is 6 instead of 2; it is rebuilt"
    ):
        assert squares_of(again, tmp_path / "job") == [scene * scene for scene in range(10)]
    assert sorted(again.asked) == [2, 3, 6, 7]


@pytest.mark.parametrize("of", ["job", "listing", "pass"])
def test_parts_of_another_job_are_made_again(tmp_path, of):
    def run(folder, *, facts=FACTS, listing=1, job=None, passes=1):
        with open_job(folder, facts) as opened:
            opened.require_same("listing", {"files": listing})
            for _ in range(passes):
                parts = map_scenes(job or Counts([]), range(4), KeptWorkers(1, opened), block_size=2)
                result = [square for part in parts for square in part]
            return result

    run(tmp_path / "job", passes=2)
    changes = {"job": {"facts": {**FACTS, "data": ["log", "2"]}}, "listing": {"listing": 2}, "pass": {"passes": 2}}[of]
    run(tmp_path / "other", **changes)
    shutil.rmtree(tmp_path / "job" / "0-scene" / "000000002")
    other = "1-scene" if of == "pass" else "0-scene"
    shutil.copytree(tmp_path / "other" / other / "000000002", tmp_path / "job" / "0-scene" / "000000002")
    again = Counts([])
    with pytest.warns(RuntimeWarning, match="000000002 is damaged: it is another part: job is "):
        assert run(tmp_path / "job", job=again) == [0, 1, 4, 9]
    assert again.asked == [2, 3]


def damage_some(folder, rng):
    """Flip, cut, empty, remove or double a file of a folder, or let two parts have the names of each other."""
    parts = sorted((folder / "0-scene").glob("0*"))
    path = rng.choice(sorted(file for file in folder.rglob("*") if file.is_file()))
    content = bytearray(path.read_bytes())
    kind = rng.randrange(8)
    if kind == 0:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del content[rng.randrange(len(content)) :]
    elif kind == 2:
        content *= 2
    elif kind == 3:
        content = rng.choice([b"", b"null", b"{}", b"[1]", b'{"block_size": 10}', b"\xff" * 9])
    if kind < 4:
        path.write_bytes(content)
    elif kind == 4:
        path.unlink()
    elif kind == 5:
        rename(*rng.sample(parts, 2))
    elif kind == 6:
        first, second = rng.sample(parts, 2)
        shutil.rmtree(second)
        shutil.copytree(first, second)
    else:
        (path.parent / "more.txt").write_text("more")


@pytest.mark.filterwarnings("ignore:.*is rebuilt:RuntimeWarning")
def test_a_job_folder_that_is_damaged_at_random_gives_the_same_or_is_refused(tmp_path):
    squares_of(Counts([]), tmp_path / "whole")
    refused = 0
    for seed in range(60):
        folder, rng = tmp_path / str(seed), random.Random(seed)
        shutil.copytree(tmp_path / "whole", folder)
        damage_some(folder, rng)
        try:
            assert squares_of(Counts([]), folder) == [scene * scene for scene in range(10)], seed
        except InvalidArgumentError as error:
            refused += "job (--job) is" in str(error)
    assert 0 < refused < 30


@pytest.mark.parametrize(("num_scenes", "num_parts"), [(10, 10), (200, 67), (2000, 125)])
def test_one_worker_keeps_few_parts_of_many_scenes_and_loses_little_of_few(tmp_path, num_scenes, num_parts):
    squares_of(Counts([]), tmp_path / "job", scenes=range(num_scenes), block_size=None)
    assert len(list((tmp_path / "job" / "0-scene").glob("[0-9]*"))) == num_parts


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_a_pass_that_has_forgotten_its_blocks_takes_no_part_of_other_blocks(tmp_path, content):
    squares_of(Counts([]), tmp_path / "job", block_size=4)
    (tmp_path / "job" / "0-scene" / "stage.json").write_text(content)
    again = Counts([])
    with pytest.warns(RuntimeWarning, match=r"000000000 is damaged: it is another part: scenes is 4 instead of 2"):
        assert squares_of(again, tmp_path / "job", block_size=2) == [scene * scene for scene in range(10)]


@pytest.mark.parametrize("size", [0, -3, "8", None, 1.5])
def test_a_size_of_blocks_that_is_none_is_told(tmp_path, size):
    squares_of(Counts([]), tmp_path / "job")
    stage = tmp_path / "job" / "0-scene" / "stage.json"
    stage.write_text(json.dumps(json.loads(stage.read_text()) | {"block_size": size}))
    with pytest.raises(
        InvalidArgumentError, match=r"block_size of 0-scene/stage\.json must be an integer of at least 1"
    ):
        squares_of(Counts([]), tmp_path / "job")


def test_what_a_killed_writer_has_left_is_no_part(tmp_path):
    squares_of(Counts([]), tmp_path / "job", scenes=range(4))
    stage = tmp_path / "job" / "0-scene"
    os.rename(stage / "000000002", stage / ".000000002.abcd1234.part")
    again = Counts([])
    assert squares_of(again, tmp_path / "job", scenes=range(4)) == [0, 1, 4, 9]
    assert again.asked == [2, 3]


def test_files_appear_where_they_belong_also_those_of_a_run_before(tmp_path):
    for run in ("first", "second"):
        out = tmp_path / run
        out.mkdir()
        with open_job(tmp_path / "job", FACTS) as job:
            assert sum(map_scenes(Writes(out), range(5), KeptWorkers(1, job), block_size=2)) == 5
        assert {file.name: file.read_text() for file in (out / "deep").iterdir()} == {
            f"{scene}.txt": f"scene {scene}" for scene in range(5)
        }


def test_another_job_is_refused(tmp_path):
    squares_of(Counts([]), tmp_path / "job")
    with (
        pytest.raises(InvalidArgumentError, match=r"which belongs to another job: data differ"),
        open_job(tmp_path / "job", {**FACTS, "data": ["log", "2"]}),
    ):
        pass
    with pytest.raises(InvalidArgumentError, match=r"holds parts of 10 scenes, not of these 11 scenes"):
        squares_of(Counts([]), tmp_path / "job", scenes=range(11))


def test_a_folder_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with (
        pytest.raises(InvalidArgumentError, match=r"holds letter\.txt and is not a job folder"),
        open_job(tmp_path, FACTS),
    ):
        pass
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_a_folder_in_use_is_refused(tmp_path):
    with (
        open_job(tmp_path / "job", FACTS),
        pytest.raises(InvalidArgumentError, match="which another process uses now"),
        open_job(tmp_path / "job", FACTS),
    ):
        pass


def test_a_part_that_was_written_elsewhere_is_told_of(tmp_path):
    with open_job(tmp_path / "job", FACTS) as job:
        stage = job.next_stage(np.arange(4), unit="scene", block_size=2)
        with pytest.raises(EngineError, match=r"name a job folder .* that all machines share"):
            stage.read(np.arange(2))


def test_kept_workers_are_as_many_as_their_carriers(tmp_path):
    with open_job(tmp_path / "job", FACTS) as job:
        kept = KeptWorkers(3, job)
        assert (count_workers(kept), without_job(kept), without_job(2)) == (3, 3, 2)


def test_a_mask_from_parts_has_the_same_bits(city, tmp_path):
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    mask, report = compute_agents_mask(log, MaskThresholds(0.5))
    for workers in (1, 2):
        with open_job(tmp_path / "job", FACTS) as job:
            kept, kept_report = compute_agents_mask(log, MaskThresholds(0.5), workers=KeptWorkers(workers, job))
        np.testing.assert_array_equal(kept, mask)
        assert kept_report == report


def test_a_manifest_from_parts_is_of_the_files_as_they_are(city, tmp_path):
    copy = tmp_path / "data"
    copy.mkdir()
    for number in range(5):
        (copy / f"{number}.txt").write_text(f"{number}")
    for _ in range(2):
        with open_job(tmp_path / "job", FACTS) as job:
            assert Manifest.of(copy, workers=KeptWorkers(1, job)) == Manifest.of(copy)
    (copy / "3.txt").write_text("another")
    with open_job(tmp_path / "job", FACTS) as job, pytest.raises(InvalidArgumentError, match="another listing"):
        Manifest.of(copy, workers=KeptWorkers(1, job))


@pytest.mark.process
def test_a_command_that_was_killed_goes_on(city, tmp_path):
    """Kill a command at its first part; what it has printed in the end is what one prints that was left alone."""
    command = [
        sys.executable,
        "-m",
        "l5kit",
        "info",
        str(city),
        "--statistics",
        "--json",
        "--job",
        str(tmp_path / "job"),
    ]
    killed = subprocess.Popen([*command, "--engine", "processes"], stdout=subprocess.DEVNULL)
    while killed.poll() is None and not list(tmp_path.glob("job/*/*/receipt.json")):
        time.sleep(0.001)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    done = [subprocess.run(line, capture_output=True, check=True, text=True).stdout for line in (command, command[:-2])]
    assert done[0] == done[1]
    assert '"kilometres"' in done[0]

"""``l5kit manifest`` and ``l5kit verify``."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from l5kit.data.digests.digest import dataset_digest
from l5kit.data.digests.manifest import Manifest
from l5kit.data.user_cache import cache_folder


@pytest.fixture
def manifest(city, tmp_path):
    """The manifest of the city, a file."""
    Manifest.of(city).write(tmp_path / "city.json")
    return tmp_path / "city.json"


def test_a_manifest_is_written(l5kit, city, tmp_path):
    done = l5kit("manifest", city, "--out", tmp_path / "city.json", "--workers", 2)
    written = Manifest.read(tmp_path / "city.json")
    assert written == Manifest.of(city)
    numbers = f"{len(written.files)} files, {written.num_bytes:,} bytes, digest {dataset_digest(city)}"
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path / 'city.json'}: {numbers}\n")


def test_a_manifest_as_json(l5kit, city, tmp_path):
    done = l5kit("manifest", city / "meta.json", "--out", tmp_path / "meta.json", "--json")
    assert json.loads(done.stdout) == {
        "path": str(city / "meta.json"),
        "manifest": str(tmp_path / "meta.json"),
        "digest": dataset_digest(city / "meta.json"),
        "num_files": 1,
        "num_bytes": (city / "meta.json").stat().st_size,
    }


@pytest.mark.parametrize(
    ("path", "out", "message"),
    [
        ("nowhere", "m.json", "this path does not exist"),
        ("", "copy/m.json", "would be one of its files"),
        ("", "nowhere/m.json", "the folder .* does not exist"),
    ],
)
def test_what_cannot_be_made_is_one_line(l5kit, city_copy, tmp_path, path, out, message):
    done = l5kit("manifest", city_copy / path, "--out", tmp_path / out)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert re.search(f"^error: .*{message}", line)


def test_an_equal_copy(l5kit, city_copy, manifest):
    done = l5kit("verify", city_copy, "--manifest", manifest)
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{city_copy}: as in {manifest} (")
    assert dataset_digest(city_copy) in done.stdout


def test_differences_are_named_and_are_status_1(l5kit, city_copy, manifest):
    (city_copy / "meta.json").unlink()
    (city_copy / "new.txt").write_text("new")
    chunk = city_copy / "scenes" / "sample.zarr" / "agents" / "0"
    content = bytearray(chunk.read_bytes())
    content[-1] ^= 1
    chunk.write_bytes(content)
    done = l5kit("verify", city_copy, "--manifest", manifest)
    assert done.exit_code == 1
    *lines, summary = done.stdout.splitlines()
    assert lines == ["missing    meta.json", "changed    scenes/sample.zarr/agents/0", "extra      new.txt"]
    assert summary.startswith(f"{city_copy}: 1 missing, 1 changed, 1 extra; compared with {manifest} (")
    done = l5kit("verify", city_copy, "--manifest", manifest, "--json")
    facts = json.loads(done.stdout)
    assert done.exit_code == 1
    assert {name: facts[name] for name in ("missing", "changed", "extra", "unreadable", "is_equal")} == {
        "missing": ["meta.json"],
        "changed": ["scenes/sample.zarr/agents/0"],
        "extra": ["new.txt"],
        "unreadable": {},
        "is_equal": False,
    }


def test_a_manifest_that_is_not_there_is_one_line(l5kit, city, tmp_path):
    done = l5kit("verify", city, "--manifest", tmp_path / "nope.json")
    assert done.exit_code == 1
    assert re.fullmatch(r"error: manifest .*nope\.json does not exist; check the spelling of the path\n", done.stderr)


def test_a_damaged_manifest_is_one_line(l5kit, city, manifest):
    manifest.write_text(manifest.read_text().replace('"num_files": ', '"num_files": 1'))
    done = l5kit("verify", city, "--manifest", manifest)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: manifest {manifest} was damaged or changed by hand: num_files is 1")
    assert len(done.stderr.splitlines()) == 1


SLOW_COMMAND = """
import time
from l5kit.cli.main import run
from l5kit.data.digests.digest import _Hashing

original = _Hashing.result_of

def wait_for_ctrl_c(self, file):
    time.sleep(600 if file.path == "30" else 0)
    return original(self, file)

_Hashing.result_of = wait_for_ctrl_c
run()
"""


def num_noted():
    return sum(path.read_text().count("sha256") for path in (cache_folder() / "verifications").glob("*.jsonl"))


@pytest.mark.process
def test_after_ctrl_c_it_goes_on(l5kit, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(50):
        (folder / f"{number:02d}").write_bytes(bytes(1000))
        os.utime(folder / f"{number:02d}", (1e9, 1e9))
    Manifest.of(folder).write(tmp_path / "m.json")
    command = [
        sys.executable,
        "-c",
        SLOW_COMMAND,
        "verify",
        folder,
        "--manifest",
        tmp_path / "m.json",
        "--workers",
        "1",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline_s = time.monotonic() + 120
        while num_noted() < 30 and process.poll() is None and time.monotonic() < deadline_s:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, len(err.splitlines())) == (130, "", 1)
    done = l5kit("verify", folder, "--manifest", tmp_path / "m.json")
    assert (done.exit_code, done.stderr) == (
        0,
        "resuming: 30 of 50 files are already checked (--fresh checks them again)\n",
    )
    assert l5kit("verify", folder, "--manifest", tmp_path / "m.json").stderr == ""

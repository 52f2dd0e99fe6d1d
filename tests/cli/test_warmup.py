"""``l5kit warmup``: afterwards nothing is left to compile."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from l5kit.data import ChunkedDataset
from l5kit.warmup.small_log import write_small_log
from l5kit.warmup.warm_up import warm_up

USES = """
import sys, warnings
from pathlib import Path
from tempfile import TemporaryDirectory

warnings.simplefilter("ignore")
from numba.core import event

compiled = []


class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__qualname__)

    def on_end(self, event):
        pass


event.register("numba:compile", Listener())
from l5kit.warmup.workloads import WORKLOADS
from l5kit.warmup.workloads import config_with_files, make_samples
from l5kit.data import find_dataset_files
from l5kit.data import ChunkedDataset

files = find_dataset_files(Path(sys.argv[1]))
log = ChunkedDataset(str(files.dataset)).open()
logs = [log, ChunkedDataset(str(files.dataset)).open(cached="mmap"), ChunkedDataset.concatenate([log, log])]
for workload in WORKLOADS:
    for opened in [*logs, log.get_scene_dataset(0)]:
        for changes in ({}, {"image_dtype": "uint8"}):
            cfg = config_with_files(workload, files)
            cfg["raster_params"].update(changes)
            samples = make_samples(workload, cfg, opened)
            samples[3]
            samples.__getitems__([1, 2, len(samples) - 1])

from l5kit.closedloop import ClosedLoopOptions, simulate

for planner, agents in (("idm", "idm"), ("rules", "idm"), ("constant-velocity", "changing")):
    with TemporaryDirectory() as folder:
        options = ClosedLoopOptions(show_bar=False)
        asked = {"planner": planner, "agents": agents, "score": "nuplan,epdms"}
        done = simulate(sys.argv[1], Path(folder) / "out", **asked, options=options)
        assert not done.failed, done.failed
print(",".join(compiled))
"""


def test_the_small_log_has_what_every_kernel_needs(tmp_path):
    log = ChunkedDataset(str(write_small_log(tmp_path).dataset)).open()
    assert log.validate() == []
    assert (len(log.scenes), len(log.frames), len(log.agents), len(log.tl_faces)) == (1, 32, 96, 32)


def test_each_step_is_reported_when_it_is_done():
    reported = []
    warm_up(progress=lambda done, of_all: reported.append((done, of_all)))
    num_steps = len(reported)
    assert num_steps > 1
    assert reported == [(done, num_steps) for done in range(1, num_steps + 1)]


def test_it_says_what_it_did_and_where(l5kit, monkeypatch, tmp_path):
    done = l5kit("warmup", "--json")
    assert done.exit_code == 0, done.stderr
    content = json.loads(done.stdout)
    assert set(content) == {"seconds", "was_cold", "cache_folder"}
    assert os.path.isdir(content["cache_folder"])
    assert "Folder" in l5kit("warmup").stdout


@pytest.mark.process
@pytest.mark.long
def test_afterwards_nothing_is_left_to_compile(city, tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    command = [sys.executable, "-m", "l5kit.cli", "warmup", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    content = json.loads(done.stdout)
    assert content["was_cold"] is True
    assert content["cache_folder"] == str(tmp_path / "kernels")
    used = subprocess.run(
        [sys.executable, "-c", USES, str(city)], env=environment, capture_output=True, text=True, check=False
    )
    assert used.returncode == 0, used.stderr
    assert used.stdout.strip() == ""
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["was_cold"] is False

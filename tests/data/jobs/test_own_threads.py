"""Threads that end with a generator, and what is still alive when Python ends."""

import os
import subprocess
import sys
import threading

import pytest

from l5kit.data.jobs.own_threads import own_threads


def test_they_end_with_the_block_and_give_up_what_they_have_not_begun():
    started, go_on, done = threading.Event(), threading.Event(), []

    def work(number):
        started.set()
        go_on.wait(10)
        done.append(number)

    with own_threads(1, name="test own") as threads:
        futures = [threads.submit(work, number) for number in range(3)]
        started.wait(10)
        threading.Timer(0.05, go_on.set).start()
    assert done == [0]
    assert [future.cancelled() for future in futures] == [False, True, True]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("test own")]


KEPT = {
    "batches of threads": """
from l5kit.dataset.batch_loader import run_ahead
kept = run_ahead(lambda order: order, iter(range(100)), num_threads=2, num_ahead=4)
""",
    "digests of files": """
from pathlib import Path
from l5kit.data.digests.digest import hash_files
from l5kit.data.digests.file_trees import open_tree
for number in range(30):
    Path(f"{number}.bin").write_bytes(bytes(1000))
tree = open_tree(".")
kept = hash_files(tree, tree.list_files(), workers=2)
""",
    "results of scenes": """
from concurrent.futures import ThreadPoolExecutor
from l5kit.data.jobs.scene_jobs import map_scenes
kept = map_scenes(lambda scenes: scenes.tolist(), range(100), ThreadPoolExecutor(2), block_size=1)
""",
    "results of processes": """
from operator import neg
from l5kit.data.jobs.scene_jobs import map_scenes
from l5kit.data.jobs.worker_processes import WorkerProcesses
kept = map_scenes(neg, range(20), WorkerProcesses(1), block_size=1)
""",
}


@pytest.mark.process
@pytest.mark.parametrize("made", list(KEPT.values()), ids=list(KEPT))
def test_what_is_alive_when_python_ends_prints_nothing(made, tmp_path):
    # kept by another module, it is closed after the names of most modules are gone
    script = f"{made}\nimport numpy\nnext(kept)\nnumpy.kept = kept\ndel kept\nprint('here')\n"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert (told.returncode, told.stdout, told.stderr) == (0, "here\n", "")

"""Compilation of kernels as a process sees it."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from numba import njit
from numba.core import event

from l5kit._compiling import CompilationWatch, interrupted_after_compiling


@pytest.fixture
def kernel():
    """A kernel that has not been compiled."""

    @njit
    def add_one(x):
        return x + 1

    return add_one


@pytest.fixture
def watched():
    """A running watch, and its messages."""
    told = []
    watch = CompilationWatch(lambda: told.append(watch.is_compiling))
    watch.start()
    yield watch, told
    watch.stop()


def test_the_first_compilation_is_told_once_and_while_it_goes_on(watched, kernel):
    watch, told = watched
    assert not watch.is_compiling
    kernel(1)
    kernel(1.0)
    assert told == [True]
    assert not watch.is_compiling


def test_started_twice_it_watches_once(watched, kernel):
    watch, told = watched
    watch.start()
    kernel(1)
    assert told == [True]
    assert not watch.is_compiling


def test_a_compilation_that_began_before_the_watch_leaves_the_next_ones_to_be_seen(watched, kernel):
    watch, told = watched
    event.end_event("numba:compile")
    assert not watch.is_compiling
    kernel(1)
    assert told == [True]


def test_what_is_compiled_after_the_end_is_not_told(watched, kernel):
    watch, told = watched
    watch.stop()
    watch.stop()
    kernel(1)
    assert told == []


@pytest.mark.process
def test_a_kernel_from_disk_is_no_compilation(tmp_path):
    (tmp_path / "one.py").write_text(
        "from numba import njit\n"
        "from l5kit._compiling import CompilationWatch, interrupted_after_compiling\n"
        "watch = CompilationWatch(lambda: print('compiling'))\n"
        "watch.start()\n"
        "@njit(cache=True)\n"
        "def f(x):\n    return x + 1\n"
        "print(f(1))\n"
    )
    call = [sys.executable, str(tmp_path / "one.py")]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    runs = [subprocess.run(call, env=environment, check=True, capture_output=True, text=True).stdout for _ in range(2)]
    assert [run.split() for run in runs] == [["compiling", "2"], ["2"]]


USE = """
import sys
{logging}
import numpy as np
from numba import njit
from l5kit.data import SCENE_DTYPE, ChunkedDataset

ChunkedDataset.in_memory(scenes=np.zeros(1, SCENE_DTYPE)).save("log.zarr")
for _ in range(2):
    ChunkedDataset("log.zarr").open()

@njit
def add_one(x):
    return x + 1

add_one(1), add_one(1.0)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("shown", "lines"),
    [
        pytest.param('import logging; logging.basicConfig(level="INFO")', 1, id="records of INFO are shown"),
        pytest.param("", 0, id="nobody asked for records"),
    ],
)
def test_programs_in_python_are_told_once_where_they_want_to_be(shown, lines, tmp_path):
    call = [sys.executable, "-W", "ignore", "-c", USE.format(logging=shown)]
    done = subprocess.run(call, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == lines
    assert done.stderr.startswith("INFO:l5kit:compiling kernels") == bool(lines)


def interrupt(*_):
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_waits_until_the_kernel_is_compiled(kernel):
    watch = CompilationWatch(interrupt)
    watch.start()
    try:
        with pytest.raises(KeyboardInterrupt), interrupted_after_compiling():
            kernel(1)
    finally:
        watch.stop()
    assert len(kernel.signatures) == 1, "nothing of the compilation was lost"
    assert kernel(1) == 2


def test_ctrl_c_waits_until_the_kernel_is_loaded_from_disk(kernel, monkeypatch):
    load = kernel._cache.load_overload
    monkeypatch.setattr(kernel._cache, "load_overload", lambda *arguments: (interrupt(), load(*arguments))[1])
    with pytest.raises(KeyboardInterrupt), interrupted_after_compiling():
        kernel(1)
    assert len(kernel.signatures) == 1


def test_ctrl_c_waits_for_nothing_else(kernel):
    kernel(1)
    with pytest.raises(KeyboardInterrupt), interrupted_after_compiling():
        interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_program_stays(kernel):
    came = []
    before = signal.signal(signal.SIGINT, lambda *_: came.append(1))
    try:
        with interrupted_after_compiling():
            interrupt()
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [1]


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no such signals")
@pytest.mark.parametrize("takes_back", [False, True])
def test_ctrl_c_stays_ignored_but_in_tests_and_what_they_start(takes_back):
    script = """
import os, signal, subprocess, sys
from l5kit._compiling import interrupted_after_compiling
from support.processes.interrupts import take_back_ctrl_c
if {takes_back}:
    take_back_ctrl_c()
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
else:
    with interrupted_after_compiling():
        os.kill(os.getpid(), signal.SIGINT)
    print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
child = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('goes on')"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout.strip() or "ended")
"""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does that starts something in the background
    try:
        told = subprocess.run(
            [sys.executable, "-c", script.replace("{takes_back}", str(takes_back))],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert told.stdout.split("\n")[:2] == ["True", "ended" if takes_back else "goes on"], told.stderr


def test_nothing_is_held_for_other_threads(kernel):
    """Only the main thread gets Ctrl-C: compilations and blocks of other threads do not affect it."""

    def compile_in_block():
        with interrupted_after_compiling():
            kernel(1)

    def interrupt_after_another_thread():
        with interrupted_after_compiling():
            with ThreadPoolExecutor(1) as pool:
                pool.submit(compile_in_block).result()
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        interrupt_after_another_thread()
    assert len(kernel.signatures) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

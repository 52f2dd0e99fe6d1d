"""Memory over many samples and of several processes, and the cost of starting."""

import shutil

import pytest

from l5kit.warmup.workloads import RowLeftOutError
from l5kit_bench import startup
from l5kit_bench.machine import ProcessMemory, has_memory_figures
from l5kit_bench.memory import (
    SHARED_COLUMNS,
    MemoryAmounts,
    MemoryCourse,
    SharedMemory,
    measure_course,
    measure_processes,
)
from l5kit_bench.startup import STARTUP_COLUMNS, StartupTimes, measure_startup
from l5kit_bench.workplace import QUICK, Workplace, find_bench_files

needs_memory_figures = pytest.mark.skipif(not has_memory_figures(), reason="only Linux tells the memory of a process")


@pytest.fixture
def place(city):
    with Workplace(find_bench_files(city), QUICK) as place:
        yield place


@pytest.mark.parametrize(
    ("readings", "is_flat", "verdict"),
    [
        pytest.param((500, 510, 505), True, "stays flat: readings lie 10.0 MB apart, 20 MB are", id="flat"),
        pytest.param((500, 520), True, "stays flat", id="at the limit"),
        pytest.param((500, 510, 520.1), False, "does not stay flat: readings lie 20.1 MB apart", id="growing"),
        pytest.param((530, 500), False, "does not stay flat", id="shrinking"),
    ],
)
def test_memory_is_flat_within_20_mb(readings, is_flat, verdict):
    course = MemoryCourse(dict(enumerate(readings)))
    assert course.is_flat == is_flat
    assert verdict in course.verdict()


@pytest.mark.slow
@needs_memory_figures
def test_memory_is_read_at_regular_numbers_of_samples(place):
    seen = []
    amounts = MemoryAmounts(num_samples=25, samples_per_reading=10)
    course = measure_course(place, amounts, progress=lambda *counts: seen.append(counts))
    assert list(course.readings_mb) == [10, 20]
    assert min(course.readings_mb.values()) > 0
    assert seen == [(10, 25), (20, 25)]


def test_cells_of_processes_are_medians_and_the_sum_of_shares():
    memory = SharedMemory(tuple(ProcessMemory(100 * n, 10 * n, 1000 * n) for n in (1, 2, 9)), 7)
    assert len(SHARED_COLUMNS) == len(memory.cells())
    assert memory.cells() == ("3", "200 MB", "20 MB", "12,000 MB")


@pytest.mark.long
@pytest.mark.process
@needs_memory_figures
def test_processes_are_measured_while_all_of_them_run(place):
    (shared,) = measure_processes(place, MemoryAmounts(process_counts=(2,)))
    assert len(shared.processes) == 2
    assert shared.dataset_mb > 0
    for memory in shared.processes:
        assert memory.proportional_mb < memory.resident_mb  # pages are shared with the other


def test_lines_of_starting_end_with_the_sum_up_to_the_first_sample():
    steps = ("import", "open", "rasterizer", "dataset", "sample", "sample again", "batch", "batch again")
    cold = dict(zip(steps, (1, 2, 3, 4, 5, 600, 700, 800), strict=True))
    lines = StartupTimes(cold, dict.fromkeys(steps, 0.001)).lines()
    assert len(lines) == len(steps) + 1
    assert len(STARTUP_COLUMNS) == len(lines[0])
    assert lines[0] == ("import l5kit.dataset", "1,000.0 ms", "1.0 ms")
    assert lines[-1] == ("all up to the first sample", "15,000.0 ms", "5.0 ms")


def test_starting_is_measured_in_two_processes_of_which_the_first_has_no_kernels(place, monkeypatch):
    started = []
    monkeypatch.setattr("l5kit_bench.startup._start", lambda task, cache: started.append(cache.exists()) or {})
    measure_startup(place)
    assert started == [False, False]


def test_starting_without_a_map_says_what_is_missing(city, tmp_path):
    shutil.copytree(city / "scenes", tmp_path / "scenes")
    with Workplace(find_bench_files(tmp_path), QUICK) as place, pytest.raises(RowLeftOutError, match="no semantic map"):
        measure_startup(place)


@pytest.mark.long
@pytest.mark.process
def test_a_process_that_fails_to_start_tells_its_last_line(place):
    with pytest.raises(RowLeftOutError, match="KeyError: 'dataset'"):
        startup._start("{}", place.scratch)

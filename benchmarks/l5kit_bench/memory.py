"""Memory: growth while drawing samples, and that of processes that read the same decoded files."""

import statistics
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from l5kit.data.progress import Progress
from l5kit.warmup.workloads import AGENT_SEMANTIC
from l5kit_bench.fast_store import StoreReader, StoreTask, make_copies
from l5kit_bench.machine import ProcessMemory, one_opencv_thread, read_process_memory
from l5kit_bench.sample_rows import draw_batches, in_batches
from l5kit_bench.workplace import Workplace

FLAT_MB = 20
"""Largest spread of readings of a process that does not grow."""


@dataclass(frozen=True, kw_only=True)
class MemoryAmounts:
    """Amounts of work for memory measurements.

    Attributes:
        num_samples: Samples drawn.
        samples_per_reading: Samples between two readings.
        process_counts: Numbers of processes that read the same files.
    """

    num_samples: int = 20_000
    samples_per_reading: int = 2_000
    process_counts: tuple[int, ...] = (1, 4, 8)


QUICK_MEMORY = MemoryAmounts(num_samples=40, samples_per_reading=20, process_counts=(1, 2))
"""Little work, to check that everything runs."""


@dataclass(frozen=True)
class MemoryCourse:
    """Resident memory while samples are drawn.

    Attributes:
        readings_mb: For each number of samples drawn so far, the memory.
    """

    readings_mb: dict[int, float]

    @property
    def spread_mb(self) -> float:
        """Largest reading less the smallest."""
        return max(self.readings_mb.values()) - min(self.readings_mb.values())

    @property
    def is_flat(self) -> bool:
        """Whether all readings lie within :data:`FLAT_MB`."""
        return self.spread_mb <= FLAT_MB

    def verdict(self) -> str:
        """Return one sentence on whether the memory stays flat."""
        stays = "stays" if self.is_flat else "does not stay"
        return f"Resident memory {stays} flat: readings lie {self.spread_mb:.1f} MB apart, {FLAT_MB} MB are allowed."


@dataclass(frozen=True)
class SharedMemory:
    """Memory of processes that read the same decoded files at the same time.

    Attributes:
        processes: The memory of each.
        dataset_mb: Size of the decoded files.
    """

    processes: tuple[ProcessMemory, ...]
    dataset_mb: float

    def cells(self) -> tuple[str, ...]:
        """Return number of processes; medians of resident and anonymous memory; what all take together."""
        resident = statistics.median(memory.resident_mb for memory in self.processes)
        anonymous = statistics.median(memory.anonymous_mb for memory in self.processes)
        together = sum(memory.proportional_mb for memory in self.processes)
        return f"{len(self.processes)}", *(f"{value:,.0f} MB" for value in (resident, anonymous, together))


SHARED_COLUMNS = ("Processes", "Resident, each", "Anonymous, each", "All together")
"""Titles of :meth:`SharedMemory.cells`."""


def measure_course(place: Workplace, amounts: MemoryAmounts, *, progress: Progress | None = None) -> MemoryCourse:
    """Return the resident memory of this process while it draws samples at random, in batches.

    Args:
        place: What is drawn from.
        amounts: How many.
        progress: Called with the samples drawn, and their total.
    """
    samples, generator = place.samples_of(AGENT_SEMANTIC), np.random.default_rng(0)
    readings, step = dict[int, float](), amounts.samples_per_reading
    with one_opencv_thread():
        for done in range(step, amounts.num_samples + 1, step):
            indices = generator.integers(0, len(samples), step).tolist()
            draw_batches(samples, in_batches(indices, place.amounts.batch_size))
            readings[done] = read_process_memory().resident_mb
            if progress is not None:
                progress(done, amounts.num_samples)
    return MemoryCourse(readings)


def measure_processes(
    place: Workplace, amounts: MemoryAmounts, *, progress: Progress | None = None
) -> list[SharedMemory]:
    """Return the memory of several processes that draw samples of many copies of the dataset, joined and decoded.

    Args:
        place: What is copied.
        amounts: How many processes.
        progress: Called with the counts that are done, and how many there are.
    """
    task, shared = make_copies(place), []
    size_mb = sum(file.stat().st_size for file in task.cache_folder.rglob("*.npy")) / 1e6
    for done, count in enumerate(amounts.process_counts, 1):
        shared.append(SharedMemory(_memory_of_readers(task, count), size_mb))
        if progress is not None:
            progress(done, len(amounts.process_counts))
    return shared


def _memory_of_readers(task: StoreTask, count: int) -> tuple[ProcessMemory, ...]:
    """Return the memory of processes after all have drawn their samples, before any of them ends."""
    with ExitStack() as at_end:
        readers = [StoreReader(task) for _ in range(count)]
        for reader in readers:
            at_end.callback(reader.close)
        for wait in [reader.start_drawing() for reader in readers]:
            wait()
        return tuple(reader.memory() for reader in readers)

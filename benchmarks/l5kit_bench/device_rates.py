"""Rates on a device: samples and traffic on a GPU, and how busy a training keeps it."""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from l5kit._types import JsonObject
from l5kit.data.device_log import DEVICE_AGENT_DTYPE
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.batch_loader import BatchPlan, BatchSource
from l5kit.dataset.sample_batch import collate
from l5kit.device.backend import Backend
from l5kit.warmup.workloads import AGENT_SEMANTIC, URBAN_DRIVER, RowLeftOutError, VectorWorkload, Workload
from l5kit_bench.workplace import Workplace

if TYPE_CHECKING:
    import torch

__all__ = ["DEVICE_COLUMNS", "QUICK_ON_DEVICE", "DeviceAmounts", "DeviceReport", "measure_device"]

DEVICE_COLUMNS: Final = ("What", "Rate", "Asked", "Least bytes each", "Rate of the memory", "Part of it")

_GIGA: Final = 1e9


@dataclass(frozen=True, kw_only=True)
class DeviceAmounts:
    """Amounts of work on a device.

    Attributes:
        batch_size: Samples of a batch with rasters.
        vector_batch_size: Samples of a batch of vectors.
        num_batches: Batches of a pass.
        num_passes: Passes, whose median counts.
        num_threads: Threads that request batches.
        num_slots: Scenes with traffic that step together.
        num_steps: Steps of the traffic.
        num_scenes: Scenes that are generated for it.
        trained_batch_size: Samples of a training batch.
        num_trained_steps: Profiled steps of the training.
        copied_bytes: Bytes that are copied to measure the memory bandwidth.
        is_for_figures: Whether this is enough work for meaningful rates.
    """

    batch_size: int = 256
    vector_batch_size: int = 1024
    num_batches: int = 48
    num_passes: int = 3
    num_threads: int = 2
    num_slots: int = 4096
    num_steps: int = 60
    num_scenes: int = 8
    trained_batch_size: int = 64
    num_trained_steps: int = 40
    copied_bytes: int = 1 << 30
    is_for_figures: bool = True


QUICK_ON_DEVICE: Final = DeviceAmounts(
    batch_size=4,
    vector_batch_size=4,
    num_batches=3,
    num_passes=1,
    num_threads=1,
    num_slots=4,
    num_steps=3,
    num_scenes=1,
    trained_batch_size=2,
    num_trained_steps=2,
    copied_bytes=1 << 16,
    is_for_figures=False,
)
"""Little work, to check that everything runs."""


@dataclass(frozen=True)
class DeviceRate:
    """A measured rate.

    Attributes:
        title: Name of the row.
        unit: Unit of the rate.
        rate: Units per second.
        asked: Required rate on one H200.
        bytes_each: Least bytes of device memory traffic for one unit; 0 if unknown.
    """

    title: str
    unit: str
    rate: float
    asked: float
    bytes_each: float

    def cells(self, copied_per_s: float) -> tuple[str, ...]:
        """Return the cells of the row in a table."""
        limit = copied_per_s / self.bytes_each if self.bytes_each else math.inf
        by_memory = (f"{self.bytes_each:,.0f}", f"{limit:,.0f}/s", f"{self.rate / limit:.1%}")
        return (
            self.title,
            f"{self.rate:,.0f} {self.unit}/s",
            f"{self.asked:,.0f}",
            *(by_memory if self.bytes_each else ("-", "-", "-")),
        )


@dataclass(frozen=True)
class DeviceReport:
    """Results of a device.

    Attributes:
        device: Its name.
        copied_per_s: Bytes per second that its memory reads and writes in a copy.
        sent_per_s: Bytes per second from host to device.
        rates: The rates.
        busy: Share of the time of a training in which it was busy; None if unknown.
        busy_with_samples: Share of the time in which it made samples.
        left_out: Reasons for rows that were not measured, by title.
    """

    device: str
    copied_per_s: float
    sent_per_s: float
    rates: Sequence[DeviceRate]
    busy: float | None
    busy_with_samples: float | None
    left_out: dict[str, str]

    def facts(self) -> dict[str, str]:
        """Return the lines above the table."""
        facts = {
            "device": self.device,
            "memory": f"{self.copied_per_s / _GIGA:,.0f} GB/s, read and written",
            "sent to it": f"{self.sent_per_s / _GIGA:,.1f} GB/s",
        }
        if self.busy is not None and self.busy_with_samples is not None:
            facts["training"] = (
                f"busy {self.busy:.1%} of the time, {self.busy_with_samples:.1%} with samples; asked: 90 %"
            )
        return facts

    def lines(self) -> list[tuple[str, ...]]:
        """Return the rows of the table."""
        return [rate.cells(self.copied_per_s) for rate in self.rates]

    def as_json(self) -> JsonObject:
        """Return the results as JSON."""
        return asdict(self)


TrafficMaker = Callable[[Path, int], None]
"""Function that generates a city with some scenes in a folder."""


def measure_device(
    place: Workplace, backend: Backend, amounts: DeviceAmounts, *, make_city: TrafficMaker | None = None
) -> DeviceReport:
    """Measure a device.

    Args:
        place: The dataset, and a scratch folder.
        backend: The device.
        amounts: Amounts of work.
        make_city: Generates the city of the traffic rows; None to leave them out.
    """
    rates: list[DeviceRate] = []
    left_out: dict[str, str] = {}
    rows: list[tuple[str, Workload | VectorWorkload, int, float, dict[str, str]]] = [
        ("py_semantic as bytes", AGENT_SEMANTIC, amounts.batch_size, 20_000, {"image_dtype": "uint8"}),
        ("py_semantic as float32", AGENT_SEMANTIC, amounts.batch_size, 10_000, {"image_dtype": "float32"}),
        ("vectors of the AV", URBAN_DRIVER, amounts.vector_batch_size, 100_000, {}),
    ]
    for title, workload, batch_size, asked, raster_params in rows:
        try:
            samples = place.samples_of(workload, **raster_params)
        except RowLeftOutError as error:
            left_out[title] = str(error)
            continue
        rate, num_bytes = _measure_samples(samples, backend, amounts, batch_size)
        rates.append(DeviceRate(title, "samples", rate, asked, num_bytes))
    if make_city is not None:
        rates.append(_measure_traffic(place, backend, amounts, make_city))
    busy = _measure_training(place, backend, amounts, left_out)
    copied_per_s, sent_per_s = _measure_memory(backend, amounts)
    return DeviceReport(_name_of(backend), copied_per_s, sent_per_s, rates, *busy, left_out)


def _name_of(backend: Backend) -> str:
    import torch

    return "processor" if backend.device == "cpu" else torch.cuda.get_device_name(backend.device)


def _loader_of(
    samples: BaseEgoDataset, backend: Backend, amounts: DeviceAmounts, batch_size: int, num_batches: int
) -> Iterable[dict[str, "torch.Tensor"]]:
    """Return batches of random samples."""
    from l5kit.dataset.device_samples import BackendLoader

    generator = np.random.default_rng(0)
    indices = generator.integers(0, len(samples), batch_size * num_batches).tolist()
    plan = BatchPlan(indices, batch_size, drop_last=True, seed=0, rank=0)
    source = BatchSource(samples, collate, pin_memory=False, prefetch=2)
    loader: Any = BackendLoader(plan, source, backend=backend, num_threads=amounts.num_threads)
    batches: Iterable[dict[str, torch.Tensor]] = loader
    return batches


def _measure_samples(
    samples: BaseEgoDataset, backend: Backend, amounts: DeviceAmounts, batch_size: int
) -> tuple[float, float]:
    """Return samples per second, and the least bytes that one moves: its own and those of the agents in its window."""
    loader = _loader_of(samples, backend, amounts, batch_size, amounts.num_batches)
    num_bytes = 0.0
    for batch in itertools.islice(loader, 2):
        num_bytes = sum(column.nbytes for column in batch.values()) / batch_size
    log, params = samples.dataset, samples.cfg["model_params"]
    num_frames = 1 + max(int(value) for key, value in params.items() if key.startswith("history_num_frames"))
    num_bytes += len(log.agents) / max(len(log.frames), 1) * num_frames * DEVICE_AGENT_DTYPE.itemsize
    rates = []
    for _ in range(amounts.num_passes):
        backend.wait()
        start, count = time.perf_counter(), 0
        for batch in loader:
            count += len(next(iter(batch.values())))
        backend.wait()
        rates.append(count / (time.perf_counter() - start))
    return statistics.median(rates), num_bytes


def _measure_traffic(place: Workplace, backend: Backend, amounts: DeviceAmounts, make_city: TrafficMaker) -> DeviceRate:
    """Return agent-steps per second."""
    from l5kit_bench.device_traffic import TrafficBench

    bench = TrafficBench.of_city(place.scratch / "device-city", amounts.num_scenes, make_city)
    seconds, num_moved = bench.measure(backend, amounts.num_slots, amounts.num_steps, amounts.num_passes)
    return DeviceRate("traffic by IDM", "agent-steps", num_moved / seconds, 1_000_000, 0)


def _measure_training(
    place: Workplace, backend: Backend, amounts: DeviceAmounts, left_out: dict[str, str]
) -> tuple[float | None, float | None]:
    """Return the shares of the time of a training in which the device was busy, and made samples."""
    from l5kit_bench.device_training import measure_busy

    title = "training of agent_motion"
    if backend.device == "cpu":
        left_out[title] = "the processor is not told how busy it is"
        return None, None
    try:
        samples = place.samples_of(AGENT_SEMANTIC, image_dtype="uint8")
    except RowLeftOutError as error:
        left_out[title] = str(error)
        return None, None
    batches = _loader_of(samples, backend, amounts, amounts.trained_batch_size, amounts.num_trained_steps + 12)
    return measure_busy(batches, samples, backend.device, amounts.num_trained_steps)


def _measure_memory(backend: Backend, amounts: DeviceAmounts) -> tuple[float, float]:
    """Return the bytes per second that memory reads and writes, and that are sent from host to device."""
    import torch

    source = torch.ones(amounts.copied_bytes, dtype=torch.uint8, device=backend.device)
    target = torch.empty_like(source)
    here = torch.ones(amounts.copied_bytes, dtype=torch.uint8, pin_memory=backend.device != "cpu")
    copied_s = _shortest_s(backend, lambda: target.copy_(source))
    sent_s = _shortest_s(backend, lambda: target.copy_(here, non_blocking=True))
    return 2 * amounts.copied_bytes / copied_s, amounts.copied_bytes / sent_s


def _shortest_s(backend: Backend, work: Callable[[], object]) -> float:
    """Return the seconds of the fastest pass."""
    times = []
    for _ in range(5):
        backend.wait()
        start = time.perf_counter()
        work()
        backend.wait()
        times.append(time.perf_counter() - start)
    return min(times)

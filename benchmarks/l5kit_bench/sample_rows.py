"""Rows that draw samples: one by one, in batches, and through the loader."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from l5kit.warmup.workloads import (
    AGENT_BOX,
    AGENT_SATELLITE,
    AGENT_SEMANTIC,
    AGENT_STUB,
    EGO_SEMANTIC,
    SAFEPATHNET,
    URBAN_DRIVER,
    RowLeftOutError,
    VectorWorkload,
    Workload,
)
from l5kit_bench.row import PreparedRow, Row
from l5kit_bench.workplace import Workplace

if TYPE_CHECKING:
    from l5kit.dataset.base import BaseEgoDataset

UNIT = "samples"

SINGLE_SCENE_KEY = "agent-semantic"
_ONE_THREAD_KEY = "loader-1"


def sample_rows() -> tuple[Row, ...]:
    """Return the rows that draw samples item by item or in batches on one thread."""
    rows = (
        (SINGLE_SCENE_KEY, AGENT_SEMANTIC, 9),
        ("ego-semantic", EGO_SEMANTIC, 8),
        ("agent-satellite", AGENT_SATELLITE, 8),
        ("agent-box", AGENT_BOX, 12),
        ("agent-stub", AGENT_STUB, 40),
    )
    first, *others = (_item_row(*row) for row in rows)
    return (
        first,
        _batch_row("batches", AGENT_SEMANTIC, 10),
        _batch_row("batches-uint8", AGENT_SEMANTIC, 14, image_dtype="uint8"),
        *others,
        _batch_row("urban-driver", URBAN_DRIVER, 30),
        _batch_row("safepathnet", SAFEPATHNET, 30),
    )


def loader_rows() -> tuple[Row, ...]:
    """Return the rows that draw batches through the loader, on one thread and on several."""
    title = f"{AGENT_SEMANTIC.name}, loader, "
    one = Row(key=_ONE_THREAD_KEY, title=f"{title}1 thread", unit=UNIT, prepare=partial(_prepare_loader, threads=1))
    two = Row(
        key="loader-2",
        title=f"{title}2 threads",
        unit=UNIT,
        prepare=partial(_prepare_loader, threads=2),
        floor=1.7,
        base=_ONE_THREAD_KEY,
        base_title="1 thread",
    )
    return one, two


def draw_items(samples: "BaseEgoDataset", indices: Iterable[int]) -> int:
    """Draw samples one by one, and return their number."""
    count = 0
    for index in indices:
        samples[index]
        count += 1
    return count


def draw_batches(samples: "BaseEgoDataset", batches: Sequence[Sequence[int]]) -> int:
    """Draw samples in batches, and return their number."""
    return sum(len(samples.__getitems__(batch)) for batch in batches)


def in_batches(indices: Sequence[int], batch_size: int) -> list[list[int]]:
    """Return indices cut into batches; the last may be shorter."""
    return [list(indices[start : start + batch_size]) for start in range(0, len(indices), batch_size)]


def _item_row(key: str, workload: Workload, floor: float) -> Row:
    def prepare(place: Workplace) -> PreparedRow:
        samples = place.samples_of(workload)
        return PreparedRow(partial(draw_items, samples, place.indices_of(samples)))

    return Row(key=key, title=workload.name, unit=UNIT, prepare=prepare, floor=floor, reference=workload.name)


def _batch_row(key: str, workload: Workload | VectorWorkload, floor: float, **raster_params: str) -> Row:
    """Return a row of batches; its title names the values of ``raster_params``."""

    def prepare(place: Workplace) -> PreparedRow:
        samples = place.samples_of(workload, **raster_params)
        batches = in_batches(place.indices_of(samples), place.amounts.batch_size)
        return PreparedRow(partial(draw_batches, samples, batches))

    title = f"{' '.join([workload.name, *raster_params.values()])}, batches"
    return Row(key=key, title=title, unit=UNIT, prepare=prepare, floor=floor, reference=workload.name)


def _prepare_loader(place: Workplace, threads: int) -> PreparedRow:
    # imported here, so that other rows need no torch and can be compared with commits without a loader
    try:
        from torch.utils.data import Subset
    except ModuleNotFoundError as error:
        raise RowLeftOutError("torch is not installed") from error
    from l5kit.dataset.loading import loader

    samples, batch_size = place.samples_of(AGENT_SEMANTIC), place.amounts.batch_size
    indices = place.indices_of(samples)
    repeats = -(-place.amounts.num_loaded_batches * batch_size // len(indices))
    subset = Subset(samples, np.tile(indices, repeats).tolist())
    batches = loader(subset, batch_size=batch_size, threads=threads)

    def work() -> int:
        return sum(len(batch["track_id"]) for batch in batches)

    return PreparedRow(work)

"""Work in processes of their own that read the same decoded files: a large dataset of copies of a small one."""

import multiprocessing
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cv2

from l5kit.bench.machine import ProcessMemory, has_memory_figures, read_process_memory
from l5kit.bench.row import Fact, PreparedRow, Row, RowLeftOutError
from l5kit.bench.sample_rows import SINGLE_SCENE_KEY, UNIT, draw_items
from l5kit.bench.workloads import AGENT_SEMANTIC
from l5kit.bench.workplace import Amounts, Workplace, config_with_files, drawn_indices, make_samples
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.data.zarr_utils import zarr_concat
from l5kit.errors import L5KitError

_ANONYMOUS_LIMIT_MB = 300
_CACHE_FOLDER = "cache"
_PATIENCE_S = 10


@dataclass(frozen=True)
class StoreTask:
    """What a process reads.

    Attributes:
        path: The dataset.
        files: Its maps.
        cache_folder: Where its decoded files are.
        num_samples: Samples of a pass.
    """

    path: Path
    files: DatasetFiles
    cache_folder: Path
    num_samples: int


class StoreReader:
    """A process that draws samples of a dataset from its decoded files.

    Args:
        task: What it reads.

    Raises:
        RowLeftOutError: It could not open or decode the dataset.
    """

    def __init__(self, task: StoreTask) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._connection, other = spawning.Pipe()
        self._process = spawning.Process(target=_read_store, args=(task, other), daemon=True)
        self._process.start()
        other.close()

    def draw(self) -> int:
        """Draw the samples once, and return how many."""
        return int(self._ask("draw"))

    def memory(self) -> ProcessMemory:
        """Return the memory of the process."""
        memory: ProcessMemory = self._ask("memory")
        return memory

    def memory_at_start(self) -> ProcessMemory:
        """Return the memory that the process had when all was imported and nothing open."""
        memory: ProcessMemory = self._ask("memory at start")
        return memory

    def start_drawing(self) -> Callable[[], int]:
        """Let it draw the samples once, and return a function that waits for their number."""
        self._connection.send("draw")
        return lambda: int(self._answer())

    def close(self) -> None:
        """End the process."""
        with suppress(OSError):
            self._connection.send("end")
        self._process.join(_PATIENCE_S)
        if self._process.is_alive():
            self._process.terminate()

    def _ask(self, request: str) -> Any:
        self._connection.send(request)
        return self._answer()

    def _answer(self) -> Any:
        try:
            is_good, answer = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join(_PATIENCE_S)
            raise RowLeftOutError(f"its process ended with exit code {self._process.exitcode}") from None
        if not is_good:
            raise RowLeftOutError(answer)
        return answer


def copies_row() -> Row:
    """Return the row that draws samples of many copies of the dataset, joined to a large one."""
    return Row(
        key="copies",
        title=f"{AGENT_SEMANTIC.name}, copies joined, decoded files",
        unit=UNIT,
        prepare=_prepare_copies,
        floor=0.7,
        base=SINGLE_SCENE_KEY,
        base_title="one copy",
    )


def make_copies(place: Workplace) -> StoreTask:
    """Join copies of the dataset to a large one on disk, decode it, and return the task of reading it.

    Raises:
        RowLeftOutError: A map is missing, the dataset is large itself, or it could not be decoded.
    """
    config_with_files(AGENT_SEMANTIC, place.files)
    count = _num_copies(len(place.dataset.agents), place.amounts)
    path, cache_folder = place.scratch / "copies.zarr", place.scratch / _CACHE_FOLDER
    if not path.exists():
        zarr_concat([str(place.files.dataset)] * count, str(path), verbose=False)
    _open_mapped(path, cache_folder)  # here, so that readers only read
    return StoreTask(path, place.files, cache_folder, place.amounts.num_samples)


def _num_copies(num_rows: int, amounts: Amounts) -> int:
    count = min(amounts.num_copies, amounts.num_joined_rows // max(num_rows, 1))
    if count < 1:
        raise RowLeftOutError(
            f"the dataset has {num_rows:,} agent rows, and this row joins copies of a small one, "
            f"{amounts.num_joined_rows:,} rows at most"
        )
    return count


def _open_mapped(path: Path, cache_folder: Path) -> ChunkedDataset:
    """Open a dataset from its decoded files, built if there are none; never from its chunks."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            return ChunkedDataset(str(path)).open(cached="mmap", cache_folder=cache_folder, progress=False)
        except RuntimeWarning as warning:
            raise RowLeftOutError(str(warning)) from warning


def _prepare_copies(place: Workplace) -> PreparedRow:
    task = make_copies(place)
    num_rows = len(_open_mapped(task.path, task.cache_folder).agents)
    reader = StoreReader(task)
    place.at_end.callback(reader.close)
    reader.draw()

    def facts() -> Sequence[Fact]:
        if not has_memory_figures():
            return ()
        return (
            Fact(f"anonymous memory, {num_rows:,} agent rows", reader.memory().anonymous_mb, _ANONYMOUS_LIMIT_MB),
            Fact("of it before the dataset was opened", reader.memory_at_start().anonymous_mb),
        )

    return PreparedRow(reader.draw, facts)


def _read_store(task: StoreTask, connection: Connection) -> None:
    """Answer requests until the end; the first one waits until the dataset is open."""
    try:
        cv2.setNumThreads(1)
        at_start = read_process_memory() if has_memory_figures() else None
        answers: dict[str, Callable[[], Any]] = {
            "draw": _open_store(task),
            "memory": read_process_memory,
            "memory at start": lambda: at_start,
        }
        while (request := connection.recv()) != "end":
            connection.send((True, answers[request]()))
    except (L5KitError, OSError) as error:
        with suppress(OSError):
            connection.send((False, f"{type(error).__name__}: {error}"))
    except EOFError:
        return


def _open_store(task: StoreTask) -> Callable[[], int]:
    from l5kit.data.user_cache import CACHE_DIR_ENV_KEY  # here, so that commits without it can be compared otherwise

    os.environ[CACHE_DIR_ENV_KEY] = str(task.cache_folder)  # the mask of a dataset that will not last goes there too
    dataset = _open_mapped(task.path, task.cache_folder)
    samples = make_samples(AGENT_SEMANTIC, config_with_files(AGENT_SEMANTIC, task.files), dataset)
    indices = drawn_indices(samples, task.num_samples)
    return lambda: draw_items(samples, indices)

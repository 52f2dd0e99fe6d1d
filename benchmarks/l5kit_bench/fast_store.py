"""Separate processes that read the same decoded files: a large dataset of copies of a small one."""

import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import cv2

from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.data.zarr_utils import zarr_concat
from l5kit.errors import L5KitError
from l5kit.warmup.workloads import AGENT_SEMANTIC, RowLeftOutError, config_with_files, make_samples
from l5kit_bench.machine import ProcessMemory, has_memory_figures, read_process_memory
from l5kit_bench.row import Fact, PreparedRow, Row
from l5kit_bench.sample_rows import SINGLE_SCENE_KEY, UNIT, draw_items
from l5kit_bench.workplace import Amounts, Workplace, drawn_indices

_ANONYMOUS_LIMIT_MB = 300
_CACHE_FOLDER = "cache"
_PATIENCE_S = 10
_FOLDER = Path(__file__).resolve().parents[1]


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
        # not multiprocessing, whose processes would import what this command has imported
        script = (
            f"import sys; sys.path.insert(0, {str(_FOLDER)!r}); from {__name__} import serve_requests; serve_requests()"
        )
        command = [sys.executable, "-c", script]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._send(task)

    def draw(self) -> int:
        """Draw the samples once, and return how many."""
        return int(self._ask("draw"))

    def memory(self) -> ProcessMemory:
        """Return the memory of the process."""
        memory: ProcessMemory = self._ask("memory")
        return memory

    def memory_at_start(self) -> ProcessMemory:
        """Return the memory of the process after its imports, with nothing open."""
        memory: ProcessMemory = self._ask("memory at start")
        return memory

    def start_drawing(self) -> Callable[[], int]:
        """Start drawing all samples once, and return a function that waits for their number."""
        self._send("draw")
        return lambda: int(self._answer())

    def close(self) -> None:
        """End the process."""
        with suppress(OSError):
            self._send("end")
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _send(self, message: object) -> None:
        """Send a message, unless the process has ended, which its missing answer will show."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                pickle.dump(message, self._process.stdin)
                self._process.stdin.flush()

    def _ask(self, request: str) -> Any:
        self._send(request)
        return self._answer()

    def _answer(self) -> Any:
        try:
            is_good, answer = pickle.load(self._process.stdout or BytesIO())
        except (EOFError, pickle.UnpicklingError, OSError):
            raise RowLeftOutError(f"its process ended with exit code {self._process.wait()}") from None
        if not is_good:
            raise RowLeftOutError(answer)
        return answer


def copies_row() -> Row:
    """Return the row that draws samples of a large dataset, joined from copies of a small one."""
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
    _open_mapped(path, cache_folder)  # decode here, so that readers only read
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


def serve_requests() -> None:
    """Read a task and then requests from standard input, and answer them on standard output, until the end."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # printed output must not mix with the answers
    with suppress(EOFError, BrokenPipeError):
        for answer in _answers(requests):
            pickle.dump(answer, answers)
            answers.flush()


def _answers(requests: BinaryIO) -> Iterator[tuple[bool, object]]:
    """Yield whether each request could be answered, and the answer; the first one waits until the dataset is open."""
    task = pickle.load(requests)
    try:
        cv2.setNumThreads(1)
        at_start = read_process_memory() if has_memory_figures() else None
        answers: dict[str, Callable[[], object]] = {
            "draw": _open_store(task),
            "memory": read_process_memory,
            "memory at start": lambda: at_start,
        }
        while (request := pickle.load(requests)) != "end":
            yield True, answers[request]()
    except (L5KitError, OSError) as error:
        yield False, f"{type(error).__name__}: {error}"


def _open_store(task: StoreTask) -> Callable[[], int]:
    # imported here, so that older commits without it can be compared in other rows
    from l5kit.data.user_cache import CACHE_DIR_ENV_KEY

    os.environ[CACHE_DIR_ENV_KEY] = str(task.cache_folder)  # also put the agents mask of this temporary dataset there
    dataset = _open_mapped(task.path, task.cache_folder)
    samples = make_samples(AGENT_SEMANTIC, config_with_files(AGENT_SEMANTIC, task.files), dataset)
    indices = drawn_indices(samples, task.num_samples)
    return lambda: draw_items(samples, indices)

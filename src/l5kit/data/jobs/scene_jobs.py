"""Scene jobs: a function applied to all scenes of a log, in this thread, by threads or by processes, in order.

All passes over a whole log use :func:`map_scenes`: the agents mask, validation, digests, true positions, test sets, the
scene table and synthetic cities. A job is a picklable function (of a module, or a frozen dataclass with ``__call__``)
and the indices that it is applied to, so that it can run in another process.
"""

import operator
import os
import pickle
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np

from l5kit._types import Int64Array
from l5kit.data.jobs.job_folder import JobFolder, Stage, WritesFiles
from l5kit.data.progress import Progress
from l5kit.errors import InvalidArgumentError, WorkerDiedError, is_termination

Result = TypeVar("Result")


@dataclass(frozen=True)
class KeptWorkers:
    """Workers with a folder that keeps the parts of a job.

    Attributes:
        carriers: Workers of the job, an executor or a number of threads.
        job: Folder of its parts, from :func:`~l5kit.data.jobs.job_folder.open_job`.
    """

    carriers: Executor | int
    job: JobFolder


Workers = Executor | int | KeptWorkers
"""Workers of a job: a number of threads (1: the calling thread; 0: one per core that this process may use), or an
executor of ``concurrent.futures``, which stays open; either optionally with a folder for the parts."""

_BLOCKS_PER_WORKER = 4
_LEAST_PARTS = 64
"""Smallest number of parts for one worker, if there are enough scenes, so that little is lost if it is killed."""

_MOST_IN_BLOCK = 16
"""Neighbours share a chunk of the log; larger blocks would save little, and make the last one take long."""

_BLOCKS_AHEAD = 2
_PATIENCE_S = 5.0
_MOST_BYTES_SENT = 16 * 2**20
"""Size above which a function is assumed to hold a log in memory, and is not sent with every block."""

_ADVICE = (
    "the code that it ran may have ended it, for example your planner or reader: run it with one worker "
    "(--workers 1) to see what fails; if memory ran out, use fewer workers"
)


def map_scenes(
    function: Callable[..., Result],
    scenes: Sequence[int] | Int64Array,
    executor: Workers | None = None,
    *,
    block_size: int | None = None,
    num_ahead: int | None = None,
    unit: str = "scene",
    progress: Progress | None = None,
    brief: Callable[[Int64Array], object] | None = None,
) -> "SceneResults[Result]":
    """Return the results of a function for blocks of scenes, in the order of the scenes, as they become available.

    The first blocks are submitted at once, further ones as results are taken, so that at most ``num_ahead`` results
    wait in memory. Closing the results, or an error, cancels the remaining blocks.

    The function must depend only on its argument and must not modify anything, as a block that fails is repeated scene
    by scene: the error of the first scene that fails is raised, with its type and a note that names the scene,
    whatever runs the blocks. A ``StopIteration``, which would end the results, is raised as a ``RuntimeError``. The
    function is pickled for other processes, which for a dataset means the location of its files. If that is impossible,
    a ``RuntimeWarning`` is issued and the blocks run in this process.

    Args:
        function: Called with the indices of successive scenes, int64, shape (B,).
        scenes: Indices of the scenes; or of files, blocks of rows or other items named by ``unit``.
        executor: Workers that run the blocks; None for the thread that takes the results.
        block_size: Scenes per block; None for a size that gives all workers some blocks.
        num_ahead: Blocks that are submitted before their results are taken; None for two per worker.
        unit: Name of an item, in messages.
        progress: Called with the number of scenes whose results have been taken and of all scenes.
        brief: Creates, in this process, the second argument of the function for a block: each block is sent only its
            part of a large object.

    Raises:
        InvalidArgumentError: A number is out of its range, or ``executor`` is not a kind of workers.
        WorkerDiedError: A worker process has died; the message names the scenes that it had.
    """
    indices = np.asarray(scenes, np.int64)
    if indices.ndim != 1:
        raise InvalidArgumentError(f"scenes must be indices of shape (N,), got shape {indices.shape}")
    job = executor.job if isinstance(executor, KeptWorkers) else None
    carriers = None if executor is None else without_job(executor)
    num_workers = count_workers(carriers)
    most = int(getattr(carriers, "scenes_of_block", _MOST_IN_BLOCK))
    size = (
        _usual_size(len(indices), num_workers, most, is_kept=job is not None)
        if block_size is None
        else _at_least_one("block_size", block_size)
    )
    ahead = _BLOCKS_AHEAD * num_workers if num_ahead is None else _at_least_one("num_ahead", num_ahead)

    # a resumed job keeps its original blocks
    stage = None if job is None else job.next_stage(indices, unit=unit, block_size=size)
    size = size if stage is None else stage.block_size
    blocks = [indices[start : start + size] for start in range(0, len(indices), size)]
    call: Callable[..., Result] = _NamingCall(function, unit, stage)

    # threads share the function, processes get it pickled if possible; a single block needs no thread
    runner, owned = None, None
    if isinstance(carriers, Executor):
        sent: Callable[..., Result] | None = call if isinstance(carriers, ThreadPoolExecutor) else _as_sendable(call)
        runner = carriers if sent is not None else None
        call = sent or call
    elif num_workers > 1 and len(blocks) > 1:
        runner = owned = ThreadPoolExecutor(min(num_workers, len(blocks)), thread_name_prefix=f"l5kit {unit}s")
    return SceneResults(
        call,
        blocks,
        runner,
        unit=unit,
        num_ahead=ahead,
        progress=progress,
        owned=owned,
        brief=brief,
        kept=None if stage is None else _Kept(stage, function.folder if isinstance(function, WritesFiles) else None),
    )


def without_job(workers: Workers) -> Executor | int:
    """Return workers without the folder for their parts."""
    return workers.carriers if isinstance(workers, KeptWorkers) else workers


@dataclass(frozen=True)
class _Kept:
    """Kept parts, and the folder for files written by blocks."""

    stage: Stage
    folder: Path | None


class SceneResults(Iterator[Result]):
    """Results of a job in the order of the scenes, from :func:`map_scenes`; closed when used as a context manager.

    Args:
        call: Called with each block.
        blocks: Indices of the scenes of each block.
        executor: Runs the call; None for the thread that takes the result.
        unit: Name of an item, in messages.
        num_ahead: Blocks that are submitted before the first of their results is taken.
        progress: Called with the number of scenes whose results have been taken and of all scenes.
        owned: Threads that are shut down with the results.
        brief: Creates the second argument of the call for a block.
        kept: Parts from which results are read after the call has written them.
    """

    def __init__(
        self,
        call: Callable[..., Result],
        blocks: list[Int64Array],
        executor: Executor | None,
        *,
        unit: str,
        num_ahead: int,
        progress: Progress | None,
        owned: ThreadPoolExecutor | None = None,
        brief: Callable[[Int64Array], object] | None = None,
        kept: _Kept | None = None,
    ) -> None:
        self._call = call
        self._left = iter(blocks)
        self._executor = executor
        self._unit = unit
        self._progress = progress
        self._owned = owned
        self._brief = brief
        self._kept = kept
        self._num_scenes = sum(map(len, blocks))
        self._num_taken = self._num_reported = 0
        self._pending: deque[tuple[Int64Array, Future[Result] | None]] = deque()
        for _ in range(num_ahead):
            self._submit_next()

    def __next__(self) -> Result:
        """Return the next result; progress is reported up to the previous one.

        Raises:
            WorkerDiedError: A worker process has died.
        """
        try:
            # a request for the next result means that the previous one was processed
            if self._num_taken > self._num_reported:
                self._num_reported = self._num_taken
                self._submit_next()
                if self._progress is not None:
                    self._progress(self._num_reported, self._num_scenes)
            if not self._pending:
                raise StopIteration

            # a block without a future runs here
            block, future = self._pending[0]
            if future is None:
                result = self._call(*self._arguments(block))
            else:
                try:
                    result = future.result()
                except BrokenExecutor as error:
                    raise WorkerDiedError(f"{self._describe_victims(error)}; {_ADVICE}") from error
            if self._kept is not None:
                result = self._kept.stage.read(block, self._kept.folder)
            self._pending.popleft()
            self._num_taken += len(block)
        except BaseException:
            self.close()
            raise
        return result

    def close(self) -> None:
        """Cancel the remaining blocks; blocks running in owned threads are waited for."""
        self._left = iter(())
        while self._pending:
            _, future = self._pending.pop()
            if future is not None:
                future.cancel()
        if self._owned is not None:
            self._owned.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        for _, future in getattr(self, "_pending", ()):
            if future is not None:
                future.cancel()

    def _submit_next(self) -> None:
        """Submit the next block: with a completed future if its part is kept, without a future to run it here."""
        for block in self._left:
            future: Future[Any] | None = None
            try:
                if self._kept is not None and self._kept.stage.is_done(block):
                    future = Future()
                    future.set_result(None)
                elif self._executor is not None:
                    future = self._executor.submit(self._call, *self._arguments(block))
            except BrokenExecutor:
                if not self._pending:  # otherwise its error says more
                    raise
            else:
                self._pending.append((block, future))
            return

    def _arguments(self, block: Int64Array) -> tuple[object, ...]:
        return (block,) if self._brief is None else (block, self._brief(block))

    def _describe_victims(self, error: BrokenExecutor) -> str:
        """Return which worker died and which blocks it may have had: only its own if the error is of one worker."""
        if isinstance(error, WorkerDiedError):
            return f"{error}, and had {_named(self._unit, self._pending[0][0])}"
        wait(
            [future for _, future in self._pending if future is not None], timeout=_PATIENCE_S
        )  # until all futures have failed
        at_risk = [
            block
            for block, future in self._pending
            if future is not None and future.done() and not future.cancelled()
            if isinstance(future.exception(), BrokenExecutor)
        ]
        named = _named(self._unit, np.concatenate(at_risk))
        return f"a worker process of the executor died, and had some of {named} ({error})"


def count_workers(workers: Workers | None) -> int:
    """Return the number of blocks that run at the same time.

    Raises:
        InvalidArgumentError: ``workers`` is neither an executor nor a whole number of at least 0.
    """
    if workers is None:
        return 1
    if isinstance(workers, KeptWorkers):
        return count_workers(workers.carriers)
    if isinstance(workers, Executor):
        return int(getattr(workers, "_max_workers", 0)) or _num_cores()
    try:
        number = -1 if isinstance(workers, bool) else operator.index(workers)
    except TypeError:
        number = -1
    if number < 0:
        raise InvalidArgumentError(
            "workers must be a number of threads (1 for the calling thread only, 0 for one per core) or an executor "
            f"of concurrent.futures, got {workers!r}"
        )
    return number or _num_cores()


def _num_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _usual_size(num_scenes: int, num_workers: int, most: int, *, is_kept: bool) -> int:
    """Return the number of scenes per block: one for a single worker, unless keeping that many parts costs too much."""
    if num_workers == 1 and not is_kept:
        return 1
    num_blocks = _LEAST_PARTS if num_workers == 1 else _BLOCKS_PER_WORKER * num_workers
    return min(most, max(1, num_scenes // num_blocks))


def _at_least_one(argument: str, value: int) -> int:
    if value < 1:
        raise InvalidArgumentError(f"{argument} must be at least 1, got {value}")
    return value


@dataclass(frozen=True)
class _NamingCall(Generic[Result]):
    """A function whose errors name the scene that caused them, and whose result is kept if there is a stage."""

    function: Callable[..., Result]
    unit: str
    stage: Stage | None = None

    def __call__(self, block: Int64Array, *brief: object) -> Any:
        if self.stage is None:
            return self._run(block, *brief)

        # files of a block are written to the folder of its part, and moved when it is complete
        def carry_out(folder: Path) -> Result:
            if not isinstance(self.function, WritesFiles):
                return self._run(block, *brief)
            function: Any = replace(self.function, folder=folder)
            there: _NamingCall[Result] = _NamingCall(function, self.unit)
            return there._run(block, *brief)

        self.stage.write(block, carry_out)
        return None  # the result is read from the part

    def _run(self, block: Int64Array, *brief: object) -> Result:
        try:
            return self.function(block, *brief)
        except (Exception, SystemExit) as error:  # user code may call sys.exit()
            if is_termination(error):
                raise
            # find the first scene of the block that fails by itself, if any
            hit, block_error = block, error
            for index in range(len(block) if len(block) > 1 else 0):
                try:
                    self.function(block[index : index + 1], *brief)
                except (Exception, SystemExit) as own_error:
                    hit, block_error = block[index : index + 1], own_error
                    break
            if isinstance(block_error, StopIteration):  # it would end the results like the last scene
                stop = block_error
                block_error = RuntimeError(
                    f"{_title(self.function)} raised StopIteration; give next() a default, or catch it, as only "
                    "iterators may raise it"
                )
                block_error.__cause__ = stop
            block_error.add_note(f"in {_named(self.unit, hit)}")
            if block_error is error:
                raise
            raise block_error from block_error.__cause__


def _named(unit: str, indices: Int64Array) -> str:
    """Return indices in words: ``scene 3``, ``scenes 3 to 7``."""
    if len(indices) == 1:
        return f"{unit} {indices[0]}"
    return f"{unit}s {indices.min()} to {indices.max()}"


def _as_sendable(call: Any) -> "_SentCall[Result] | None":
    """Return a call that another process can run; None, after a warning, if that is impossible."""
    try:
        payload = pickle.dumps(call, protocol=pickle.HIGHEST_PROTOCOL)
        problem = f"it takes {len(payload) / 1e6:,.0f} MB" if len(payload) > _MOST_BYTES_SENT else ""
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        payload, problem = b"", str(error)
    if not problem:
        return _SentCall(payload)
    warnings.warn(
        f"the {call.unit}s are processed one after the other in this process, not by the executor: "
        f"{_title(call.function)} and its data cannot be sent to its workers ({problem}); open a log from its files, "
        "or pass a number of threads as workers",
        RuntimeWarning,
        stacklevel=4,
    )
    return None


def _title(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


@dataclass(frozen=True)
class _SentCall(Generic[Result]):
    """A pickled call, unpickled once by each process that runs it."""

    payload: bytes

    def __call__(self, block: Int64Array, *brief: object) -> Result:
        try:
            result: Result = _opened(self.payload)(block, *brief)
            return result
        except Exception as error:
            # many errors with their own constructors do not survive pickling
            try:
                can_be_sent = type(pickle.loads(pickle.dumps(error))) is type(error)
            except Exception:  # any error of its class while it is pickled
                can_be_sent = False
            if can_be_sent:
                raise
            stand_in = RuntimeError(f"{type(error).__name__}: {error}")
            for note in getattr(error, "__notes__", []):
                stand_in.add_note(note)
            raise stand_in from None


@lru_cache(maxsize=2)
def _opened(payload: bytes) -> Callable[..., Any]:
    call: Callable[..., Any] = pickle.loads(payload)
    return call

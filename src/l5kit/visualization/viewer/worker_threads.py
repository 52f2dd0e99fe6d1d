"""Worker threads for requests that never delay the end of the process."""

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class WorkerThreads(Executor):
    """Threads that execute calls in the order of submission, skipping cancelled ones.

    Unlike those of ``ThreadPoolExecutor``, they do not delay the end of the process: compiling the kernels of a sample
    would delay it by a quarter of a minute.

    Args:
        num_threads: Number of concurrent calls.
        name: Name of the threads.
        after: Future to wait for before the first call, whatever its result.
    """

    def __init__(self, num_threads: int, *, name: str, after: Future[Any] | None = None) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._after = after
        self._lock = threading.Lock()
        self._is_shut_down = False
        self._threads = [threading.Thread(target=self._work, name=name, daemon=True) for _ in range(num_threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> Future[T]:
        """Return the future of a call.

        Raises:
            RuntimeError: :meth:`shutdown` has been called.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("no calls are accepted after the shutdown")
            self._calls.put(_Call(future, lambda: function(*arguments, **options)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads after the submitted calls, or after the running ones.

        Args:
            wait: Whether to return only when the threads have ended.
            cancel_futures: Whether to cancel calls that have not started.
        """
        with self._lock:
            self._is_shut_down = True
            if cancel_futures:
                with contextlib.suppress(Empty):
                    while True:
                        call = self._calls.get_nowait()
                        if call is not None:
                            call.future.cancel()
                            call.future.set_running_or_notify_cancel()  # notifies waiters
            for _ in self._threads:
                self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def join(self, timeout_s: float) -> None:
        """Wait for the threads to end after a :meth:`shutdown`, for at most ``timeout_s`` seconds in total."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        if self._after is not None:
            wait([self._after])
        while (call := self._calls.get()) is not None:
            call.carry_out()
            del call  # free its result, which may be large, before waiting for the next call


class _Call(NamedTuple):
    future: Future[Any]
    function: Callable[[], Any]

    def carry_out(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.function()
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

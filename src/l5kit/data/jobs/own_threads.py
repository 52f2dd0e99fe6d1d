"""Threads owned by a generator, which end with it even if Python exits first."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def own_threads(num_threads: int, *, name: str) -> Iterator[ThreadPoolExecutor]:
    """Provide threads for the block; on exit running tasks are waited for, and queued ones are cancelled.

    Args:
        num_threads: Number of threads, at least 1.
        name: Prefix of their names.
    """
    # A generator that is alive when Python exits is closed after the globals of this module and of concurrent.futures
    # were cleared. Python has ended all threads by then.
    is_finalizing = sys.is_finalizing
    threads = ThreadPoolExecutor(num_threads, thread_name_prefix=name)
    try:
        yield threads
    finally:
        if not is_finalizing():
            threads.shutdown(wait=True, cancel_futures=True)

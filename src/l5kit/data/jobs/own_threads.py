"""Threads that belong to a generator and end with it, also where Python ends before it does."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def own_threads(num_threads: int, *, name: str) -> Iterator[ThreadPoolExecutor]:
    """Hand out threads that end with the block, which waits for what they are at; what they have not begun is given up.

    Args:
        num_threads: How many, at least 1.
        name: What their names begin with.
    """
    # A generator that is alive when Python ends is closed after modules have lost their names, those here and those of
    # concurrent.futures. Python has ended all threads by then.
    is_finalizing = sys.is_finalizing
    threads = ThreadPoolExecutor(num_threads, thread_name_prefix=name)
    try:
        yield threads
    finally:
        if not is_finalizing():
            threads.shutdown(wait=True, cancel_futures=True)

"""A cache for decoded chunks of arrays."""

import contextlib
import os
import threading
from collections import OrderedDict

from l5kit._types import NumericArray, PickledState


class ChunkCache:
    """Decoded chunks of several arrays, the least recently used given up first when a size is exceeded.

    It may be used from several threads. Pickled, it is empty.

    Args:
        max_bytes: Upper bound of the decoded size of all chunks kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._chunks: OrderedDict[tuple[str, int], NumericArray] = OrderedDict()
        self._make_lock()

    def _make_lock(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()

    def get(self, key: tuple[str, int]) -> NumericArray | None:
        """Return a chunk if it is kept."""
        chunk = self._chunks.get(key)
        if chunk is not None:
            with contextlib.suppress(KeyError):  # another thread has just given it up
                self._chunks.move_to_end(key)
        return chunk

    def reserve(self, num_bytes: int) -> bool:
        """Set part of the size apart for good, for rows kept elsewhere; return whether there is room for it."""
        if os.getpid() != self._process:
            self._make_lock()
        with self._lock:
            has_room = self.num_bytes + num_bytes <= self.max_bytes
            self.num_bytes += num_bytes if has_room else 0
        return has_room

    def put(self, key: tuple[str, int], chunk: NumericArray) -> None:
        """Keep a chunk, unless it is larger than the whole cache."""
        if chunk.nbytes > self.max_bytes:
            return
        if os.getpid() != self._process:
            self._make_lock()  # this process was forked, perhaps while another thread held the lock
        with self._lock:
            self._remove(key)
            self._chunks[key] = chunk
            self.num_bytes += chunk.nbytes
            while self.num_bytes > self.max_bytes and self._chunks:
                _, oldest = self._chunks.popitem(last=False)
                self.num_bytes -= oldest.nbytes

    def discard(self, key: tuple[str, int]) -> None:
        """Give up a chunk."""
        if os.getpid() != self._process:
            self._make_lock()
        with self._lock:
            self._remove(key)

    def _remove(self, key: tuple[str, int]) -> None:
        chunk = self._chunks.pop(key, None)
        if chunk is not None:
            self.num_bytes -= chunk.nbytes

    def __len__(self) -> int:
        return len(self._chunks)

    def __getstate__(self) -> dict[str, object]:
        return {"max_bytes": self.max_bytes}

    def __setstate__(self, state: PickledState) -> None:
        self.__init__(state["max_bytes"])  # type: ignore[misc]

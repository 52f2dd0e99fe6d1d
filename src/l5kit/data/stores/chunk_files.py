"""Chunk files of an array, decoded in the calling thread, and a cache of decoded chunks.

zarr passes each chunk through several threads; for files of a local folder that costs more than decoding, and keeps
threads from reading in parallel. Files of a service are requested together.

The size of Blosc chunks is checked before decoding. The library trusts the length in the header of a chunk: if the file
was truncated, it decodes the memory after it, which mostly results in an error, and occasionally in wrong records.
"""

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numcodecs
import numpy as np
import zarr
from numcodecs.compat import ensure_contiguous_ndarray
from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore

from l5kit._types import NumericArray, PickledState
from l5kit.configs.texts import require_regular_file
from l5kit.data.stores.remote_store import RemoteStore
from l5kit.data.stores.remote_zip import RemoteZipStore
from l5kit.data.stores.store import ZarrArray, answers_of

_HEADER_NUM_BYTES = 16

_STORED_NUM_BYTES = slice(12, 16)
"""Position in the header of the size of the chunk in bytes, little-endian."""

_NONBLOCKING = getattr(os, "O_NONBLOCK", 0)
"""With this flag, opening a pipe in place of a file does not block until somebody writes to it."""


class ChunkCache:
    """Decoded chunks of several arrays; the least recently used are evicted when a size is exceeded.

    It may be used from several threads. A pickled cache is empty.

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
        """Return a chunk if it is cached."""
        chunk = self._chunks.get(key)
        if chunk is not None:
            with contextlib.suppress(KeyError):  # just evicted by another thread
                self._chunks.move_to_end(key)
        return chunk

    def reserve(self, num_bytes: int) -> bool:
        """Reserve part of the size permanently, for rows kept elsewhere; return whether there was room."""
        if os.getpid() != self._process:
            self._make_lock()
        with self._lock:
            has_room = self.num_bytes + num_bytes <= self.max_bytes
            self.num_bytes += num_bytes if has_room else 0
        return has_room

    def put(self, key: tuple[str, int], chunk: NumericArray) -> None:
        """Cache a chunk, unless it is larger than the whole cache."""
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
        """Evict a chunk."""
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


class CheckedBlosc(numcodecs.Blosc):  # type: ignore[misc]
    """The codec ``blosc`` that refuses truncated chunks."""

    def decode(self, buf: object, out: object = None) -> bytes | NumericArray:
        """Return the decoded bytes of a chunk.

        Raises:
            ValueError: The chunk is truncated.
        """
        chunk = ensure_contiguous_ndarray(buf).view(np.uint8)
        declared = int.from_bytes(chunk[_STORED_NUM_BYTES].tobytes(), "little")
        if len(chunk) < max(declared, _HEADER_NUM_BYTES):
            raise ValueError(f"it has {len(chunk)} bytes, but should have {max(declared, _HEADER_NUM_BYTES)}")
        decoded: bytes | NumericArray = super().decode(buf, out)
        return decoded


def with_checked_lengths(array: Any, **config: bool) -> Any:
    """Return a zarr array that decodes its chunks with :class:`CheckedBlosc` if Blosc compressed them.

    Args:
        array: A zarr array; any other object is returned unchanged.
        **config: Options for reading and writing, named as in zarr.
    """
    if not isinstance(array, zarr.Array):
        return array
    metadata: Any = array.metadata
    compressor = getattr(metadata, "compressor", None)
    if isinstance(compressor, numcodecs.Blosc):
        kept = {key: value for key, value in compressor.get_config().items() if key != "id"}
        metadata = replace(metadata, compressor=CheckedBlosc(**kept))
    settings: Any = config or None
    return zarr.Array(zarr.AsyncArray(metadata=metadata, store_path=array.store_path, config=settings))


def decode_local_chunk(array: ZarrArray, index: int) -> NumericArray | None:
    """Return all rows of a chunk as stored, (chunk length, ...); None if zarr has to read it.

    That is the case for other stores and formats, and for missing or damaged files, for which zarr raises the error.

    Args:
        array: A zarr array from :func:`~l5kit.data.stores.chunk_files.with_checked_lengths`, whose chunks consist of
            whole rows.
        index: Number of the chunk.
    """
    store: Store = array.store_path.store
    metadata: Any = array.metadata
    has_whole_rows = array.ndim == 1 or (getattr(metadata, "order", "") == "C" and array.chunks[1:] == array.shape[1:])
    if type(store) is not LocalStore or not hasattr(metadata, "compressor") or not has_whole_rows:
        return None
    key = metadata.dimension_separator.join([str(index)] + ["0"] * (array.ndim - 1))
    file_path = store.root / array.store_path.path / key
    try:
        with open(file_path, "rb", opener=lambda path, flags: os.open(path, flags | _NONBLOCKING)) as file:
            return decode_file(array, file.read())
    except Exception:  # any error of file system or codec for a damaged file: zarr fails the same way, with a message
        require_regular_file(file_path, called="chunk file")  # zarr would block on a pipe
        return None


def is_remote(store: Store) -> bool:
    """Return whether the files of a store come from a service, at the cost of a request each."""
    return isinstance(store, (RemoteStore, RemoteZipStore))


def is_decoded_here(array: ZarrArray) -> bool:
    """Return whether the chunks of an array are fetched and decoded by l5kit instead of zarr."""
    return is_remote(array.store) and hasattr(getattr(array, "metadata", None), "compressor")


def fetch_files(chunks: Sequence[tuple[ZarrArray, int]]) -> list[bytes | None]:
    """Return the contents of the files of chunks, None for missing ones; all are requested at the same time.

    Args:
        chunks: For each chunk, its array and number.

    Raises:
        UnreachableDataError: The service refuses the request, or does not answer.
        CorruptedDataError: A zip file was replaced.
    """
    prototype = default_buffer_prototype()
    paths = [f"{array.store_path.path}/{index}".lstrip("/") for array, index in chunks]
    stores = [array.store for array, _ in chunks]
    contents = sync(answers_of(store.get(path, prototype) for store, path in zip(stores, paths, strict=True)))
    return [None if content is None else content.to_bytes() for content in contents]


def decode_file(array: ZarrArray, content: bytes) -> NumericArray:
    """Return all rows of a chunk as stored, (chunk length, ...).

    Args:
        array: The array, in zarr format 2, whose chunks consist of whole rows.
        content: Content of the file.

    Raises:
        ValueError: It does not hold a chunk of the array; codecs may raise other errors.
    """
    decoded: Any = content
    metadata: Any = array.metadata
    for codec in (metadata.compressor, *reversed(metadata.filters or ())):
        decoded = decoded if codec is None else codec.decode(decoded)
    rows: NumericArray = np.frombuffer(decoded, dtype=array.dtype).reshape(-1, *array.chunks[1:])
    if len(rows) != array.chunks[0]:
        raise ValueError(f"it has {len(rows)} rows, but should have {array.chunks[0]}")
    return rows

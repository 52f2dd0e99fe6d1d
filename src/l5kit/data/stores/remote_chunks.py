"""Chunks of remote arrays: several are asked for at the same time, and decoded by the thread that needs them."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from l5kit._types import NumericArray
from l5kit.data.stores.remote_store import RemoteStore
from l5kit.data.stores.remote_zip import RemoteZipStore
from l5kit.data.stores.store import ZarrArray

NUM_READ_AHEAD = 32
"""Most chunks that are asked for before the first of them is used."""


def is_remote(store: Store) -> bool:
    """Return whether the files of a store come from a service, each at the cost of a request."""
    return isinstance(store, (RemoteStore, RemoteZipStore))


def is_decoded_here(array: ZarrArray) -> bool:
    """Return whether the chunks of an array are fetched and decoded here, and not by zarr."""
    return is_remote(array.store) and hasattr(getattr(array, "metadata", None), "compressor")


def fetch_files(chunks: Sequence[tuple[ZarrArray, int]]) -> list[bytes | None]:
    """Return the content of the files of chunks; None for each that is missing. They are asked for at the same time.

    Args:
        chunks: For each chunk, its array and number.

    Raises:
        UnreachableDataError: The service refuses, or does not answer.
        CorruptedDataError: A zip file has been replaced.
    """

    async def fetch() -> list[bytes | None]:
        prototype = default_buffer_prototype()
        paths = [f"{array.store_path.path}/{index}".lstrip("/") for array, index in chunks]
        stores = [array.store for array, _ in chunks]
        questions = [store.get(path, prototype) for store, path in zip(stores, paths, strict=True)]
        contents = await asyncio.gather(*questions)
        return [None if content is None else content.to_bytes() for content in contents]

    return sync(fetch())


def decode_file(array: ZarrArray, content: bytes) -> NumericArray:
    """Return all rows of a chunk as they are stored, (chunk length,).

    Args:
        array: The array, of format 2 of zarr.
        content: Content of the file.

    Raises:
        ValueError: It does not hold a chunk of the array; or whatever else a codec raises.
    """
    decoded: Any = content
    metadata: Any = array.metadata
    for codec in (metadata.compressor, *reversed(metadata.filters or ())):
        decoded = decoded if codec is None else codec.decode(decoded)
    rows: NumericArray = np.frombuffer(decoded, dtype=array.dtype)
    if len(rows) != array.chunks[0]:
        raise ValueError(f"it has {len(rows)} rows, but should have {array.chunks[0]}")
    return rows


def reading_ahead(
    wanted: Sequence[int],
    read: Callable[[Sequence[int]], Sequence[NumericArray]],
    held: Mapping[int, NumericArray],
) -> Callable[[int], NumericArray]:
    """Return a function that gives the chunks that are wanted, in their order, which reads some of them at once.

    Args:
        wanted: Numbers of the chunks, in the order in which they will be asked for; some may not be.
        read: Returns chunks by their numbers.
        held: Chunks that are there.
    """
    left: Iterator[int] = iter(wanted)
    held = dict(held)

    def give(index: int) -> NumericArray:
        if index not in held:
            together = [index]
            for number in left:
                if number > index:
                    together.append(number)
                if len(together) == NUM_READ_AHEAD:
                    break
            held.update(zip(together, read(together), strict=True))
        return held.pop(index)

    return give

"""Processes that build one fast store at the same time; a module, so that spawned ones can import it."""

import hashlib
import json
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np

from l5kit.data import ChunkedDataset
from l5kit.data.stores.decoded_store_list import build_decoded_store

ARRAYS = ("scenes", "frames", "agents", "tl_faces")


def stop_in_the_middle(path: str, is_building: Event) -> None:
    """Begin to build the store, and never go on after the first chunk."""

    def stop(done: int, total: int) -> None:
        assert 0 < done < total
        is_building.set()
        time.sleep(3600)

    build_decoded_store(path, progress=stop)


def build_and_read(path: str, is_ready: Event, result: str) -> None:
    """Build the store unless it exists, read it, and write the builder and a digest of its rows to a file."""
    chunks_decoded = 0

    def count(done: int, total: int) -> None:
        nonlocal chunks_decoded
        chunks_decoded += 1
        time.sleep(0.02)

    is_ready.set()
    _, is_new = build_decoded_store(path, progress=count)
    opened = ChunkedDataset(path).open(cached="mmap")
    part = Path(f"{result}.part")
    part.write_text(json.dumps({"is_new": is_new, "chunks_decoded": chunks_decoded, "digest": digest_of(opened)}))
    part.rename(result)


def digest_of(dataset: ChunkedDataset) -> str:
    digest = hashlib.sha256()
    for name in ARRAYS:
        digest.update(np.ascontiguousarray(np.asarray(getattr(dataset, name))).tobytes())
    return digest.hexdigest()

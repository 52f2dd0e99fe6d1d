"""Random logs on disk whose files have few rows, and their readers."""

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.layout import ARRAYS
from l5kit.data.stores import chunked_array
from support.random_logs import random_dataset

ROWS = {"scenes": 4, "frames": 20, "agents": 10, "traffic_light_faces": 32}
"""Rows of a chunk of the files."""


@pytest.fixture
def small_chunks(monkeypatch):
    """Let datasets and exports be written in chunks of few rows."""
    for key, rows in ROWS.items():
        monkeypatch.setitem(ARRAYS, key, ARRAYS[key]._replace(chunks=(rows,)))


@pytest.fixture
def made():
    """A log of ten scenes in memory."""
    return random_dataset(np.random.default_rng(5), 10)


@pytest.fixture
def stored(made, small_chunks, tmp_path):
    """The same log on disk."""
    made.save(tmp_path / "log.zarr")
    return ChunkedDataset(str(tmp_path / "log.zarr")).open()


@pytest.fixture
def chunks_read(monkeypatch):
    """Names of the chunk files that are read from now on, in the order of reading."""
    read = []
    decode = chunked_array.decode_local_chunk

    def noticed(array, index):
        read.append(f"{array.path}/{index}")
        return decode(array, index)

    monkeypatch.setattr(chunked_array, "decode_local_chunk", noticed)
    return read

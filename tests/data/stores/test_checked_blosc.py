"""Chunks that were cut short are an error, whatever lies behind them in memory."""

import pickle
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.stores.checked_blosc import CheckedBlosc
from l5kit.errors import CorruptedDataError
from support.fixture_s import make_fixture_s
from support.logs import write_with_chunks


def make_chunk() -> np.ndarray:
    values = np.random.default_rng(0).integers(0, 50, 3000)
    return np.frombuffer(numcodecs.Blosc("lz4", 5, 1).encode(values), np.uint8)


def test_what_lies_behind_a_chunk_is_not_read() -> None:
    chunk = make_chunk()
    for length in (len(chunk) - 1, len(chunk) - 11, len(chunk) // 2, 16, 15, 3, 0):
        with pytest.raises(ValueError, match=f"it has {length} bytes, but should have"):
            CheckedBlosc("lz4", 5, 1).decode(chunk[:length])  # the rest of it lies behind


def test_whole_chunks_are_decoded_as_ever() -> None:
    chunk, codec = make_chunk(), CheckedBlosc("lz4", 5, 1)
    for given in (chunk, chunk.tobytes(), np.append(chunk, np.uint8(7))):
        assert bytes(codec.decode(given)) == bytes(numcodecs.Blosc().decode(chunk))
    assert codec.get_config() == numcodecs.Blosc("lz4", 5, 1).get_config()
    assert type(pickle.loads(pickle.dumps(codec))) is CheckedBlosc


@pytest.mark.filterwarnings("ignore:.*is read from its chunks:RuntimeWarning")
@pytest.mark.parametrize("cached", [True, False, "mmap"])
def test_a_chunk_file_that_was_cut_is_named(tmp_path: Path, cached: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / "cache"))
    path = write_with_chunks(make_fixture_s(), tmp_path / "log.zarr")
    file = next(iter(sorted((Path(path) / "frames").glob("[0-9]*"))))
    content = file.read_bytes()
    for num_lost in range(1, len(content), max(len(content) // 40, 1)):
        file.write_bytes(content[:-num_lost])
        dataset = ChunkedDataset(path).open(cached=cached)
        with pytest.raises(CorruptedDataError, match=r"frames.*it has \d+ bytes, but should have"):
            dataset.frames[:]

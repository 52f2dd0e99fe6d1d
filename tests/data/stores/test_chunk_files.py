"""Chunk files: those of a folder are decoded here, to the same bits, and those that are cut short are refused."""

import pickle
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore, MemoryStore

from l5kit.data import ChunkedDataset
from l5kit.data.stores.chunk_files import CheckedBlosc, decode_local_chunk, with_checked_lengths
from l5kit.errors import CorruptedDataError
from support.fixture_s import make_fixture_s
from support.logs import write_with_chunks
from support.random_logs import random_dataset


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


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.zarr"
    write_with_chunks(random_dataset(np.random.default_rng(3), 5, min_frames=6, max_frames=9), path)
    return ChunkedDataset(str(path)).open(cached=False)


def test_a_chunk_has_the_rows_that_zarr_reads(log):
    array = log.agents.zarr_array
    chunk_length, num_rows = array.chunks[0], array.shape[0]
    assert num_rows % chunk_length  # the last chunk is not full
    for index in range(log.agents.num_chunks):
        start, stop = index * chunk_length, min((index + 1) * chunk_length, num_rows)
        rows = decode_local_chunk(array, index)
        assert rows is not None
        assert len(rows) == chunk_length
        assert rows[: stop - start].tobytes() == np.asarray(array[start:stop]).tobytes()


@pytest.mark.parametrize("damage", ["missing", "short", "other", "folder"])
def test_a_file_that_is_damaged_is_left_to_zarr(log, tmp_path, damage):
    file = tmp_path / "log.zarr" / "agents" / "1"
    content = file.read_bytes()
    file.unlink()
    if damage == "folder":
        file.mkdir()
    elif damage != "missing":
        file.write_bytes(content[: len(content) // 2] if damage == "short" else b"x" * 100)
    assert decode_local_chunk(log.agents.zarr_array, 1) is None
    assert decode_local_chunk(log.agents.zarr_array, 0) is not None
    with pytest.raises(CorruptedDataError, match="agents/1"):
        log.agents.rows(0, len(log.agents), strict=True)


def test_a_chunk_of_another_length_is_left_to_zarr(log, tmp_path):
    """They are the whole file of another array, and a chunk of fewer records, so that they can be decoded."""
    file = tmp_path / "log.zarr" / "agents" / "1"
    file.write_bytes((tmp_path / "log.zarr" / "scenes" / "0").read_bytes())
    assert decode_local_chunk(log.agents.zarr_array, 1) is None
    fewer = np.zeros(log.agents.chunks[0] - 1, log.agents.zarr_array.dtype)
    file.write_bytes(numcodecs.Blosc("lz4", 1, 1).encode(fewer))
    assert decode_local_chunk(log.agents.zarr_array, 1) is None


@pytest.mark.parametrize("compressor", [None, numcodecs.Zlib(1), numcodecs.Blosc("lz4", 1, 1)], ids=str)
def test_filters_are_undone_in_their_order_behind_any_compressor(tmp_path, compressor):
    values = np.arange(23, dtype="<u4")[::-1] ** 2
    array = zarr.create_array(
        LocalStore(tmp_path / "array"),
        data=values,
        chunks=(5,),
        zarr_format=2,
        filters=[numcodecs.Delta("<u4"), numcodecs.BZ2(1)],
        compressors=compressor,
    )
    decoded = decode_local_chunk(with_checked_lengths(array), 4)
    assert decoded is not None
    assert decoded[:3].tolist() == values[20:].tolist()


def test_other_stores_are_left_to_zarr(log):
    other = ChunkedDataset(MemoryStore()).initialize(num_agents=3)
    assert decode_local_chunk(other.agents.zarr_array, 0) is None


@pytest.mark.parametrize("separator", [".", "/"])
def test_chunks_of_whole_rows_of_a_table_are_decoded(tmp_path, separator):
    table = np.arange(23 * 2, dtype="<u4").reshape(23, 2)
    for chunks, order, is_decoded in (((5, 2), "C", True), ((5, 1), "C", False), ((5, 2), "F", False)):
        array = zarr.create_array(
            LocalStore(tmp_path / f"{separator == '/'}{chunks}{order}"),
            data=table,
            chunks=chunks,
            order=order,
            zarr_format=2,
            compressors=numcodecs.Blosc("lz4", 1, 1),
            chunk_key_encoding={"name": "v2", "separator": separator},
        )
        decoded = decode_local_chunk(with_checked_lengths(array), 4)
        assert (decoded is not None) == is_decoded
        if decoded is not None:
            assert decoded.shape == (5, 2)
            assert decoded[:3].tolist() == table[20:].tolist()

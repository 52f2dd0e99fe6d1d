"""Passes over all rows of an array, with chunks that are not kept."""

import warnings

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.errors import CorruptedDataError
from support.logs import make_frames

NUM_FRAMES = 25_000  # three chunks of 10,000


@pytest.fixture
def log(tmp_path):
    """A log of frames alone; those of the second chunk are all zero."""
    frames, *_ = make_frames(NUM_FRAMES, timestamps_ns=np.arange(1, NUM_FRAMES + 1))
    frames["timestamp"][10_000:20_000] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        log = ChunkedDataset(tmp_path / "log.zarr")
    log.initialize(mode="w", num_scenes=0, num_frames=NUM_FRAMES, num_agents=0, num_tl_faces=0)
    log.frames[:] = frames
    return ChunkedDataset(tmp_path / "log.zarr").open()


@pytest.mark.parametrize("rows", [(0, NUM_FRAMES), (0, 0), (9_999, 10_001), (10_000, 20_000), (24_000, NUM_FRAMES)])
def test_the_rows_are_those_of_a_slice(log, rows):
    assert log.frames.chunks == (10_000,)
    assert np.array_equal(log.frames.passing_rows(*rows), log.frames[slice(*rows)])


@pytest.mark.parametrize("rows", [(0, NUM_FRAMES), (20_000, 20_001), (19_000, 21_000)])
def test_a_missing_chunk_is_no_zeros(log, tmp_path, rows):
    (tmp_path / "log.zarr" / "frames" / "2").unlink()
    with pytest.raises(CorruptedDataError, match="frames/2 is missing"):
        log.frames.passing_rows(*rows)
    assert len(log.frames.passing_rows(0, 20_000)) == 20_000


def test_a_damaged_chunk_is_named(log, tmp_path):
    (tmp_path / "log.zarr" / "frames" / "0").write_bytes(b"\0" * 100)
    with pytest.raises(CorruptedDataError, match="frames/0 cannot be read"):
        log.frames.passing_rows(0, NUM_FRAMES)

"""Packed files that say that they are many times their size are refused before they are unpacked."""

import io
import zipfile

import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.unpack_limits import UnpackLimits
from l5kit.errors import DatasetNotFoundError


def zip_of(*sizes):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, size in enumerate(sizes):
            archive.writestr(str(number), bytes(size))
    return packed


@pytest.mark.parametrize("sizes", [(1000,), (400, 600), (0, 1000)])
def test_what_any_archive_may_have_is_read_and_no_more(sizes):
    with zipfile.ZipFile(zip_of(*sizes)) as archive:
        UnpackLimits(max_ratio=0, free_bytes=1000).require_readable(archive)
        with pytest.raises(zipfile.BadZipFile, match=r"would be 1,000 unpacked; at most 999 are read"):
            UnpackLimits(max_ratio=0, free_bytes=999).require_readable(archive)
        assert archive.testzip() is None  # its place in the file is as before


def test_large_archives_may_have_more():
    packed = zip_of(100_000)
    size = len(packed.getvalue())
    with zipfile.ZipFile(packed) as archive:
        UnpackLimits(max_ratio=100_000 / size + 1, free_bytes=0).require_readable(archive)
        with pytest.raises(zipfile.BadZipFile):
            UnpackLimits(max_ratio=100_000 / size - 1, free_bytes=0).require_readable(archive)


def test_logs_in_such_zip_files_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zarr.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(".zgroup", '{"zarr_format": 2}')
        archive.writestr("agents/.zarray", b" " * (80 << 20))
    with pytest.raises(DatasetNotFoundError, match=r"unpacked; at most 67,108,864 are read"):
        ChunkedDataset(tmp_path / "a.zarr.zip").open()

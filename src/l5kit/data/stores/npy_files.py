"""Arrays in ``.npy`` files that are mapped into memory: their pages are read when touched, and shared by processes."""

import mmap
import os
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from l5kit._types import NumericArray


def npy_header(dtype: DTypeLike, shape: tuple[int, ...]) -> bytes:
    """Return how the ``.npy`` file of an array begins; its rows follow."""
    header = BytesIO()
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    return header.getvalue()


def map_npy(file: Path, *, dtype: DTypeLike, shape: tuple[int, ...]) -> NumericArray | None:
    """Return the array of an ``.npy`` file, mapped read-only; None if it is not whole or holds something else.

    Raises:
        OSError: The file does not exist or cannot be read.
    """
    header = npy_header(dtype, shape)
    num_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    with file.open("rb") as opened:
        is_whole = os.fstat(opened.fileno()).st_size == len(header) + num_bytes
        if not is_whole or opened.read(len(header)) != header:
            return None
        mapped = np.memmap(opened, dtype=dtype, mode="r", offset=len(header), shape=shape)
    return mapped.view(np.ndarray)  # slices of np.memmap cost five times as much


def release_pages(array: NumericArray) -> None:
    """Take the pages of a mapped array out of this process; they stay in the memory of the system, and come back.

    What is touched at random places would count as memory of the process for as long as the system has enough.

    Args:
        array: From :func:`map_npy`, or any other, with which nothing is done.
    """
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)

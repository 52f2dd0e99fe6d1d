"""Memory-mapped ``.npy`` files, their use as arrays of a dataset, and reading of pieces without mapping.

Pages of a mapped file are read when they are touched, and shared by processes; but each touch maps up to 2 MiB around
it into the process, and pages that no other process has mapped count as its own memory.
"""

import mmap
import os
import weakref
from io import BytesIO
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import DTypeLike

from l5kit._files import replaced_when_complete
from l5kit._types import Int64Array, NumericArray, PickledState
from l5kit.data.record_sequence import ROWS_PER_BLOCK, RecordSequence, require_within
from l5kit.errors import CorruptedDataError, ReadOnlyDatasetError


def npy_header(dtype: DTypeLike, shape: tuple[int, ...]) -> bytes:
    """Return the header of the ``.npy`` file of an array; the rows follow it."""
    header = BytesIO()
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    return header.getvalue()


def map_npy(file: Path, *, dtype: DTypeLike, shape: tuple[int, ...]) -> NumericArray | None:
    """Return the array of an ``.npy`` file, mapped read-only; None if the file is incomplete or has other content.

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
    return mapped.view(np.ndarray)  # slicing an np.memmap takes five times as long


def kept_npy(file: Path, *, dtype: DTypeLike, shape: tuple[int, ...]) -> NumericArray | None:
    """Return the result of :func:`map_npy` for a cached file; None also if it cannot be read."""
    try:
        return map_npy(file, dtype=dtype, shape=shape)
    except OSError:
        return None


def keep_npy(file: Path, array: NumericArray) -> None:
    """Write an array as an ``.npy`` file atomically; the caller must hold the lock of the file.

    Raises:
        OSError: It cannot be written.
    """
    with replaced_when_complete(file) as temporary, temporary.open("wb") as opened:
        opened.write(npy_header(array.dtype, array.shape))
        opened.write(np.ascontiguousarray(array).data)


class NpyPieces:
    """Reads pieces of a one-dimensional ``.npy`` file: the system caches the pages, this process copies only pieces.

    Threads and forked processes may share it; it cannot be pickled.

    Args:
        file: The file.
        array: Result of :func:`map_npy` for the file.

    Raises:
        OSError: The file cannot be opened.
    """

    can_be_made = hasattr(os, "pread")
    """Whether the operating system supports it."""

    def __init__(self, file: Path, array: NumericArray) -> None:
        self._file = file
        self._dtype, self._length = array.dtype, len(array)
        self._first_byte = len(npy_header(array.dtype, array.shape))
        self._descriptor = os.open(file, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)

    def __getstate__(self) -> object:
        raise TypeError(f"NpyPieces of {self._file} cannot be pickled or copied; another process opens the file itself")

    def read(self, starts: Int64Array, length: int) -> NumericArray:
        """Return pieces of the array, (B, length).

        Args:
            starts: Start of each piece, which must lie within the array, (B,).
            length: Length of each piece.

        Raises:
            CorruptedDataError: The file has been truncated.
        """
        num_bytes = length * self._dtype.itemsize
        offsets = (self._first_byte + starts * self._dtype.itemsize).tolist()
        content = b"".join([os.pread(self._descriptor, num_bytes, offset) for offset in offsets])
        if len(content) != len(starts) * num_bytes:
            raise CorruptedDataError(
                f"{self._file} has fewer than the {self._length} rows that it had when it was opened; remove it and "
                "open the dataset again, which rebuilds it"
            )
        return np.frombuffer(content, self._dtype).reshape(len(starts), length)


def release_pages(array: NumericArray) -> None:
    """Release the pages of a mapped array from this process; the system keeps them cached for later use.

    Otherwise pages touched at random would count as memory of the process for as long as the system has enough.

    Args:
        array: Array from :func:`map_npy`; nothing is done for any other array.
    """
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)


class MappedArray(RecordSequence):
    """One array of a dataset in a decoded ``.npy`` file, memory-mapped and never changed.

    Reading follows NumPy, as in the other arrays of a dataset: ``array[10:20]`` is a copy; :meth:`rows`, :attr:`whole`
    and ``np.asarray(array)`` are read-only views of the file. Pages are read when they are touched, and shared by all
    processes that map the file. A pickled array holds the path of the file, which is mapped again when unpickled.

    Args:
        file: The ``.npy`` file.
        dtype: Type of its records.
        length: Number of its rows.
        name: Name of the array on disk, for messages.
        signature: Signature of the decoded array, returned by :meth:`signature`.

    Raises:
        CorruptedDataError: The file is missing, incomplete or has other content.
    """

    def __init__(self, file: Path, *, dtype: np.dtype[np.void], length: int, name: str, signature: object) -> None:
        self.dtype = np.dtype(dtype)
        self.file = Path(file)
        self.name = name
        self._length = length
        self._signature = signature

        # a changed dataset has its files in another folder, so a file that does not match is damaged
        advice = "open the dataset with cached='mmap' again, which rebuilds the file"
        try:
            rows = map_npy(self.file, dtype=self.dtype, shape=(length,))
        except OSError as error:
            raise CorruptedDataError(
                f"the decoded file {file} cannot be read ({error}); it may have been removed because its source "
                f"changed, or by l5kit cache: {advice}"
            ) from error
        if rows is None:
            raise CorruptedDataError(
                f"the decoded file {file} is damaged: it must hold exactly {length} rows of {dtype.itemsize} bytes; "
                f"remove it and {advice}"
            )
        self._rows = rows

    def __len__(self) -> int:
        return self._length

    @property
    def whole(self) -> NumericArray:
        """All rows, as a read-only view of the file."""
        return self._rows

    @property
    def chunks(self) -> tuple[int]:
        """Rows per block in a pass over all rows, as a tuple."""
        return (ROWS_PER_BLOCK,)

    def rows(self, start: int, stop: int, *, strict: bool = False) -> NumericArray:
        """Return rows [start, stop) as a read-only view of the file; see the base class."""
        if strict and not 0 <= start <= stop <= self._length:
            require_within(self, slice(start, stop))
        return self._rows[start:stop]

    def signature(self) -> object:
        """Return the signature of the decoded array."""
        return self._signature

    def _block_of(self, row: int) -> tuple[int, NumericArray]:
        start = row // ROWS_PER_BLOCK * ROWS_PER_BLOCK
        return start, self._rows[start : start + ROWS_PER_BLOCK]

    def _gather(self, positions: NumericArray) -> NumericArray:
        return self._rows[positions]

    def _as_numpy(self, dtype: DTypeLike | None, copy: bool | None) -> NumericArray:
        return np.array(self._rows, dtype=dtype, copy=copy)

    def _refuse(self, *_args: object) -> NoReturn:
        """Refuse writing, appending and resizing.

        Raises:
            ReadOnlyDatasetError: Always.
        """
        raise ReadOnlyDatasetError(
            f"{self.name!r} is read from decoded files ({self.file}), which are never changed; "
            "open the dataset with mode='r+' and without cached='mmap' to write to it"
        )

    __setitem__ = append = resize = _refuse

    def __getstate__(self) -> dict[str, object]:
        return {
            "file": self.file,
            "dtype": self.dtype,
            "length": self._length,
            "name": self.name,
            "signature": self._signature,
        }

    def __setstate__(self, state: PickledState) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __deepcopy__(self, memo: dict[int, object]) -> "MappedArray":
        return self  # immutable

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self._length} rows of {self.dtype.itemsize} bytes, {self.file}>"

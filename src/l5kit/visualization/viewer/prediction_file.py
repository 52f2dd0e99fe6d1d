"""Files of predictions that may exceed the memory, read through an index of row offsets."""

import contextlib
import csv
import gzip
import os
import tempfile
import weakref
import zlib
from array import array
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from l5kit._types import Float64Array, Int64Array
from l5kit.configs.texts import require_regular_file
from l5kit.data.unpack_limits import USUAL_LIMITS
from l5kit.errors import DataChangedError, InvalidArgumentError
from l5kit.evaluation.csv_utils import prediction_columns

_GZIP: Final = b"\x1f\x8b"
_MOST_INT64: Final = 2**63 - 1
_BUFFER_BYTES: Final = 2**20


class PredictionFile:
    """A csv file of predictions as written by :func:`l5kit.evaluation.write_pred_csv`, optionally gzipped.

    The file is scanned once to index its rows, with 32 bytes of memory per row. A gzipped file is decompressed into a
    temporary file, which exists as long as this object.

    Args:
        path: The file.

    Attributes:
        timestamps_ns: Times of the rows, int64 (n,).
        track_ids: Tracks of the rows, int64 (n,).
        lines: Line numbers of the rows, the header being line 1, int64 (n,).
        num_modes: Modes M of a row.
        num_steps: Steps T of a mode.

    Raises:
        FileNotFoundError: There is no such file.
        InvalidArgumentError: It is not such a file, or a row has no time, no track or a wrong number of columns.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._name = os.fspath(path)
        require_regular_file(path, called="file of predictions")
        # the first bytes show whether the file is gzipped, whatever its name
        with open(path, "rb") as file:
            is_packed = file.read(len(_GZIP)) == _GZIP
        self._path = Path(path) if not is_packed else self._unpacked()
        with open(self._path, "rb", buffering=_BUFFER_BYTES) as file:
            self._state = _state_of(file)
            try:
                line = file.readline(_BUFFER_BYTES).decode("utf-8-sig")
                header = next(csv.reader([line], strict=True), [])
            except (UnicodeDecodeError, csv.Error) as error:
                raise InvalidArgumentError(
                    f"{self._name!r}, line 1: not csv text ({error}); predictions are a csv file as written by "
                    "write_pred_csv, gzipped or not"
                ) from error
            self.num_modes, order = prediction_columns(self._name, header)
            self._keys, self._value_columns, self._num_columns = order[:2], order[2:], len(order)
            self.num_steps = (len(self._value_columns) - self.num_modes) // (2 * self.num_modes)
            self.timestamps_ns, self.track_ids, self.lines, self._offsets = self._index(file)

    def __len__(self) -> int:
        return len(self.timestamps_ns)

    def read(self, rows: Int64Array) -> tuple[Float64Array, Float64Array]:
        """Return probabilities (k, M) and positions (k, M, T, 2) of rows, in metres along world axes.

        Raises:
            InvalidArgumentError: A row contains something other than numbers.
            DataChangedError: The file has changed since it was opened.
        """
        values = np.empty((len(rows), len(self._value_columns)))
        with open(self._path, "rb") as file:
            if _state_of(file) != self._state:
                raise DataChangedError(f"{self._name!r} has changed since it was opened; open it again")
            for index, row in enumerate(rows.tolist()):
                file.seek(int(self._offsets[row]))
                fields = file.readline().replace(b'"', b"").split(b",")
                try:
                    values[index] = [float(fields[column]) for column in self._value_columns]
                except ValueError as error:
                    text = f"{error}; the columns after the track must be numbers"
                    raise self._error(int(self.lines[row]), text) from error
        confidences = np.ascontiguousarray(values[:, : self.num_modes])
        positions_m = values[:, self.num_modes :].reshape(len(rows), self.num_modes, self.num_steps, 2)
        return confidences, positions_m

    def _unpacked(self) -> Path:
        """Decompress the file into a temporary file and return its path."""
        handle, name = tempfile.mkstemp(prefix="l5kit-predictions-", suffix=".csv")
        weakref.finalize(self, _remove, name)
        try:
            left = USUAL_LIMITS.most_bytes(Path(self._name))
            with gzip.open(self._name, "rb") as packed, open(handle, "wb") as unpacked:
                while left > 0 and (block := packed.read(min(_BUFFER_BYTES, left))):
                    unpacked.write(block)
                    left -= len(block)
                if packed.read(1):
                    raise gzip.BadGzipFile("it decompresses to implausibly many times its size")
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InvalidArgumentError(
                f"{self._name!r} is a damaged or truncated gzip file ({error}); write it again"
            ) from error
        return Path(name)

    def _index(self, file: BinaryIO) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Return times, tracks, lines and offsets of all rows after the header."""
        times, tracks, lines, offsets = (array("q") for _ in range(4))
        offset, last_comma = file.tell(), self._num_columns - 1
        # split rows only up to the keys; the numbers, most of the line, are merely counted
        num_split = max(self._keys) + 1
        time_at, track_at = self._keys
        for number, line in enumerate(file, start=2):
            if not line.isspace():
                fields = line.split(b",", num_split)
                if line.count(b",") != last_comma:
                    raise self._error(number, f"{line.count(b',') + 1} columns instead of {self._num_columns}")
                times.append(self._whole(fields[time_at], number, "timestamp"))
                tracks.append(self._whole(fields[track_at], number, "track_id"))
                lines.append(number)
                offsets.append(offset)
            offset += len(line)
        columns = [np.array(column, np.int64) for column in (times, tracks, lines, offsets)]
        return columns[0], columns[1], columns[2], columns[3]

    def _whole(self, field: bytes, line: int, name: str) -> int:
        try:
            value = int(field.strip(b'" \r\n'))
        except ValueError:
            value = _MOST_INT64 + 1
        if not -_MOST_INT64 <= value <= _MOST_INT64:
            text = field[:30].decode("utf-8", "replace")
            raise self._error(line, f"{name} is {text!r}; it must be a whole number below 2**63")
        return value

    def _error(self, line: int, text: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self._name!r}, line {line}: {text}")


def _state_of(file: BinaryIO) -> tuple[int, int]:
    """Return the size and the modification time of a file."""
    state = os.fstat(file.fileno())
    return state.st_size, state.st_mtime_ns


def _remove(name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name)

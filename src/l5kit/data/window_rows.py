"""Window rows: the agents, or the traffic light faces, of the frames of several windows."""

from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass

import numpy as np

from l5kit._types import BoolArray, Int64Array, NumericArray, RecordArray
from l5kit.data.record_bytes import join_records
from l5kit.errors import InvalidArgumentError


@dataclass(frozen=True)
class WindowRows:
    """Agents, or traffic light faces, of the frames of B windows, without a copy where one array holds them all.

    Attributes:
        arrays: One array with the rows of all windows, or one array for each window.
        starts: First row of each frame in the array of its window, (B, F).
        stops: End row of each frame, not included, (B, F); equal to the start where a window has no such frame.
        is_known_to_fit: Given by whoever vouches for the arrays, which are then not looked through.

    Raises:
        InvalidArgumentError: The shapes do not fit, there is another number of arrays, or the rows of a frame do not
            lie within the array of its window.
    """

    arrays: Sequence[RecordArray]
    starts: Int64Array
    stops: Int64Array
    is_known_to_fit: InitVar[bool] = False

    def __post_init__(self, is_known_to_fit: bool) -> None:
        if is_known_to_fit:
            return
        shape = self.starts.shape
        if self.stops.shape != shape or len(shape) != 2 or len(self.arrays) not in (1, shape[0]):
            raise InvalidArgumentError(
                f"WindowRows: starts {shape} and stops {self.stops.shape} must be (B, F) alike, and arrays one or B; "
                f"there are {len(self.arrays)}"
            )
        if self.starts.dtype.kind != "i" or self.stops.dtype.kind != "i":
            raise InvalidArgumentError(
                f"WindowRows: starts and stops must be signed integers, got {self.starts.dtype} and {self.stops.dtype}"
            )
        self._require_within()

    def _require_within(self) -> None:
        """Refuse rows outside of the arrays; where there are none, the place does not matter."""
        lengths = np.array([len(array) for array in self.arrays], np.int64)[:, None]
        starts, stops = self.starts, self.stops
        is_wrong = (starts < 0) | (stops < starts) | ((stops > lengths) & (stops > starts))
        if is_wrong.any():
            window, frame = np.argwhere(is_wrong)[0].tolist()
            num_rows = len(self.arrays[0] if len(self.arrays) == 1 else self.arrays[window])
            raise InvalidArgumentError(
                f"WindowRows: frame {frame} of window {window} has rows {starts[window, frame]} to "
                f"{stops[window, frame]}, which must ascend from 0 on and lie within the {num_rows} rows of its array"
            )

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def num_frames(self) -> int:
        """F."""
        return int(self.starts.shape[1])

    @property
    def counts(self) -> Int64Array:
        """Number of rows of each frame, (B, F)."""
        return self.stops - self.starts

    @property
    def dtype(self) -> np.dtype[np.void]:
        """Type of the rows."""
        return self.arrays[0].dtype

    def frames(self, first: int, end: int) -> "WindowRows":
        """Return the rows of some of the frames of each window."""
        starts, stops = self.starts[:, first:end], self.stops[:, first:end]
        # contiguous for any number of windows, lest kernels be compiled for one of them and again for several
        return WindowRows(self.arrays, np.ascontiguousarray(starts), np.ascontiguousarray(stops), is_known_to_fit=True)

    def head(self, num_frames: int) -> "WindowRows":
        """Return the rows of the first frames of each window."""
        return self.frames(0, num_frames)

    def taken(self, windows: Int64Array | BoolArray) -> "WindowRows":
        """Return the rows of some of the windows, in the same arrays."""
        arrays = self.arrays
        if len(arrays) > 1:
            arrays = [arrays[window] for window in np.arange(len(arrays))[windows].tolist()] or arrays[:1]
        return WindowRows(arrays, self.starts[windows], self.stops[windows], is_known_to_fit=True)

    def parts(self) -> Iterator[tuple[RecordArray, slice]]:
        """Yield each array with the windows whose rows it holds."""
        if len(self.arrays) == 1:
            yield self.arrays[0], slice(0, len(self.starts))
            return
        for window, rows in enumerate(self.arrays):
            yield rows, slice(window, window + 1)

    def rows_of_frame(self, window: int, frame: int) -> RecordArray:
        """Return the rows of one frame, a view."""
        rows = self.arrays[0] if len(self.arrays) == 1 else self.arrays[window]
        return rows[self.starts[window, frame] : self.stops[window, frame]]

    def frames_of(self, window: int, num_frames: int) -> list[RecordArray]:
        """Return the rows of each of the first frames of a window, views."""
        return [self.rows_of_frame(window, frame) for frame in range(num_frames)]

    def take(self, rows: Int64Array) -> RecordArray:
        """Return one row of each window, counted in its array, copies, (B,)."""
        if len(self.arrays) == 1:
            return self.arrays[0][rows]
        return np.array([array[row] for array, row in zip(self.arrays, rows.tolist(), strict=True)])

    @classmethod
    def from_frames(cls, frames: Sequence[RecordArray], dtype: np.dtype[np.void]) -> "WindowRows":
        """Return one window with the given rows of each frame.

        Args:
            frames: Rows of each frame; may be empty.
            dtype: Type of the rows if there are none.
        """
        stops = np.cumsum([len(rows) for rows in frames], dtype=np.int64)[None]
        starts = np.zeros_like(stops)
        starts[:, 1:] = stops[:, :-1]
        rows = join_records(frames) if len(frames) else np.empty(0, dtype)
        return cls([rows], starts, stops, is_known_to_fit=True)


def read_only_field(rows: RecordArray, name: str) -> NumericArray:
    """Return a field of records as a read-only view, so that kernels are compiled for one kind of arrays."""
    field: NumericArray = rows[name]
    field.setflags(write=False)
    return field

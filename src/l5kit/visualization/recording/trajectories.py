"""Which rows of a scene are the past and the future of a row."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import Int64Array, NumericArray
from l5kit.data.array_shapes import require_shapes


@dataclass(frozen=True)
class TrackWindows:
    """The rows of the same track before and after each of N rows.

    Attributes:
        order: The rows sorted by track, those of a track by frame, int64, shape (N,).
        order_indices: Index of each row in ``order``, shape (N,).
        starts: Where its past starts in ``order``, shape (N,).
        stops: Where its future ends, shape (N,).
    """

    order: Int64Array
    order_indices: Int64Array
    starts: Int64Array
    stops: Int64Array

    def __post_init__(self) -> None:
        shape = (len(self.order),)
        require_shapes(self, order=shape, order_indices=shape, starts=shape, stops=shape)

    def past(self, row: int) -> Int64Array:
        """Return the rows up to this one, which is the last."""
        return self.order[self.starts[row] : self.order_indices[row] + 1]

    def future(self, row: int) -> Int64Array:
        """Return the rows from this one on."""
        return self.order[self.order_indices[row] : self.stops[row]]


def frames_within(timestamps_ns: Int64Array, horizon_s: float) -> tuple[Int64Array, Int64Array]:
    """Return the first frame and the end of the frames within a time of each of F frames, int64, shape (F,) each.

    Args:
        timestamps_ns: Ascending, shape (F,).
        horizon_s: The time, which itself is within.
    """
    longest_ns = int(timestamps_ns[-1] - timestamps_ns[0])
    horizon_ns = min(round(horizon_s * 1e9), longest_ns)
    firsts = np.searchsorted(timestamps_ns, timestamps_ns - horizon_ns, side="left")
    stops = np.searchsorted(timestamps_ns, timestamps_ns + horizon_ns, side="right")
    return firsts, stops


def track_windows(
    track_ids: NumericArray, frame_indices: Int64Array, within: tuple[Int64Array, Int64Array]
) -> TrackWindows:
    """Return the rows of each track around each row.

    Args:
        track_ids: Of N rows, shape (N,).
        frame_indices: Frames of the rows, shape (N,).
        within: First frame and end of the frames around each of F frames, see :func:`frames_within`.
    """
    # rows in order by one number, track times more than the frames there are plus the frame: in that order the first
    # frame around a row, and the end of those, are searched for with the number of its own track
    firsts, stops = within
    _, tracks = np.unique(track_ids, return_inverse=True)
    base = tracks.reshape(-1).astype(np.int64) * (len(firsts) + 1)
    keys = base + frame_indices
    order = np.argsort(keys, kind="stable")
    order_indices = np.empty(len(order), np.int64)
    order_indices[order] = np.arange(len(order))
    return TrackWindows(
        order=order,
        order_indices=order_indices,
        starts=np.searchsorted(keys[order], base + firsts[frame_indices], side="left"),
        stops=np.searchsorted(keys[order], base + stops[frame_indices], side="left"),
    )

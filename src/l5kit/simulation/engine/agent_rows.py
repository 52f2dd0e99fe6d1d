"""Agent rows of a frame: all agents of the current frames of scenes, read from records in one pass."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from l5kit._types import Float64Array, Int64Array, NumericArray, RecordArray
from l5kit.data.records import AGENT_INTERVAL
from l5kit.evaluation.driving.road_users import groups_of_labels
from l5kit.simulation.engine.track_table import TrackTable

__all__ = ["AgentsNow", "read_agents"]


@dataclass(frozen=True, eq=False)
class AgentsNow:
    """The N agents of the current frames of R scenes, one scene after the other.

    Attributes:
        starts: First of the rows of each scene and the end of the last one, int64 (R + 1,).
        buffer_rows: Rows of the agents in the records, int64 (N,).
        track_rows: Their rows in the track table of the batch, -1 for a track that the log does not have, int64 (N,).
        groups: A ``RoadUserGroup`` of each, by the label of this frame, NONE for what is no road user, int64 (N,).
        boxes: World x and y of the centre, yaw, length and width, metres and radians, float64 (N, 5).
        velocities_mps: World x and y, float64 (N, 2).
    """

    starts: Int64Array
    buffer_rows: Int64Array
    track_rows: Int64Array
    groups: Int64Array
    boxes: Float64Array
    velocities_mps: Float64Array

    def __len__(self) -> int:
        return len(self.buffer_rows)

    @property
    def positions_m(self) -> Float64Array:
        """World x and y, a view (N, 2)."""
        return self.boxes[:, :2]

    @property
    def yaws_rad(self) -> Float64Array:
        """World headings, a view (N,)."""
        return self.boxes[:, 2]

    @property
    def scenes_of_rows(self) -> Int64Array:
        """Which of the R scenes each row is of, (N,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def taken(self, scene: int) -> "AgentsNow":
        """Return the agents of one of the scenes."""
        rows = slice(int(self.starts[scene]), int(self.starts[scene + 1]))
        return AgentsNow(
            np.array([0, rows.stop - rows.start]),
            *(getattr(self, name)[rows] for name in ("buffer_rows", "track_rows", "groups", "boxes", "velocities_mps")),
        )


def read_agents(
    agents: RecordArray, frames: RecordArray, tracks: TrackTable, scenes: Int64Array, threshold: float
) -> AgentsNow:
    """Return the agents of one frame of each of R scenes.

    Args:
        agents: Records of all agents, ``AGENT_DTYPE``.
        frames: The current frame of each scene, ``FRAME_DTYPE``, (R,); their intervals lie within ``agents``.
        tracks: The tracks of all scenes.
        scenes: The scenes, counted in the table of tracks, (R,).
        threshold: What the probability of a label must be above.
    """
    intervals = np.ascontiguousarray(frames[AGENT_INTERVAL])
    starts = np.zeros(len(frames) + 1, np.int64)
    np.cumsum(intervals[:, 1] - intervals[:, 0], out=starts[1:])
    size = int(starts[-1])
    buffer_rows, track_rows, groups = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    boxes, velocities_mps = np.empty((size, 5)), np.empty((size, 2))
    ids = tracks.track_ids
    _find_rows(
        (intervals[:, 0].copy(), starts, np.ascontiguousarray(scenes)),
        _read_only(agents["track_id"]),
        (tracks.starts, ids),
        buffer_rows,
        track_rows,
    )
    _read_rows(
        buffer_rows,
        (_read_only(agents["centroid"]), _read_only(agents["extent"]), _read_only(agents["yaw"])),
        _read_only(agents["velocity"]),
        boxes,
        velocities_mps,
    )
    _read_groups(
        buffer_rows,
        (_read_only(agents["label_probabilities"]), _read_only(agents["extent"])),
        groups_of_labels(),
        float(np.float32(threshold)),
        groups,
    )
    return AgentsNow(starts, buffer_rows, track_rows, groups, boxes, velocities_mps)


def _read_only(array: NumericArray) -> NumericArray:
    """Return a view that kernels are compiled for once."""
    view = array.view()
    view.setflags(write=False)
    return view


@njit(nogil=True, cache=True, error_model="numpy")
def _find_rows(
    frames: tuple[Int64Array, Int64Array, Int64Array],
    record_ids: NumericArray,
    tracks: tuple[Int64Array, NumericArray],
    buffer_rows: Int64Array,
    track_rows: Int64Array,
) -> None:
    """Write the rows of the agents of frames, and their tracks, found by halving."""
    firsts, starts, scenes = frames
    track_starts, track_ids = tracks
    for place in range(len(firsts)):
        begin, stop = track_starts[scenes[place]], track_starts[scenes[place] + 1]
        for row in range(starts[place], starts[place + 1]):
            buffer_row = firsts[place] + row - starts[place]
            wanted = record_ids[buffer_row]
            low, high = begin, stop
            while low < high:
                middle = (low + high) // 2
                if track_ids[middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            buffer_rows[row] = buffer_row
            track_rows[row] = low if low < stop and track_ids[low] == wanted else -1


@njit(nogil=True, cache=True, error_model="numpy")
def _read_rows(
    rows: Int64Array,
    records: tuple[NumericArray, NumericArray, NumericArray],
    record_velocities_mps: NumericArray,
    boxes: Float64Array,
    velocities_mps: Float64Array,
) -> None:
    """Write boxes and velocities of rows of records."""
    centroids_m, extents_m, yaws_rad = records
    for place in range(len(rows)):
        row = rows[place]
        boxes[place, 0], boxes[place, 1] = centroids_m[row, 0], centroids_m[row, 1]
        boxes[place, 2] = yaws_rad[row]
        boxes[place, 3], boxes[place, 4] = extents_m[row, 0], extents_m[row, 1]
        velocities_mps[place, 0] = record_velocities_mps[row, 0]
        velocities_mps[place, 1] = record_velocities_mps[row, 1]


@njit(nogil=True, cache=True, error_model="numpy")
def _read_groups(
    rows: Int64Array,
    records: tuple[NumericArray, NumericArray],
    group_of_label: Int64Array,
    threshold: float,
    groups: Int64Array,
) -> None:
    """Write the group of each row, by the rule of ``classify_rows``."""
    probabilities, extents_m = records
    for place in range(len(rows)):
        row = rows[place]
        best, is_hidden = 0, extents_m[row, 0] == 0 and extents_m[row, 1] == 0
        for label in range(probabilities.shape[1]):
            is_hidden = is_hidden or probabilities[row, label] < 0
            if probabilities[row, label] > probabilities[row, best]:
                best = label
        is_known = probabilities[row, best] > threshold and not is_hidden
        groups[place] = group_of_label[best] if is_known else -1

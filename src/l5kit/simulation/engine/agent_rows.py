"""Agent rows of a frame: all agents of the current frames of scenes, with columns read from records on first use."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array, NumericArray, RecordArray
from l5kit.data.array_shapes import as_read_only
from l5kit.data.frame_rows import expand_ranges
from l5kit.data.records import AGENT_INTERVAL
from l5kit.evaluation.driving.road_users import groups_of_labels, write_groups
from l5kit.simulation.engine.track_table import TrackTable
from l5kit.simulation.lanes.lane_following import SceneRows


@dataclass(frozen=True, eq=False)
class AgentsNow:
    """The N agents of the current frames of R scenes, one scene after the other.

    Columns are read from the records on first use, which may be later, as past frames never change.

    Attributes:
        starts: First of the rows of each scene and the end of the last one, int64 (R + 1,).
        firsts: Row of the first agent of each scene in the records, int64 (R,).
        scenes: Indices of the scenes in the track table, int64 (R,).
        records: Records of all agents, ``AGENT_DTYPE``.
        tracks: Tracks of all scenes.
        threshold: An agent has a class if the probability of its label is above this.
    """

    starts: Int64Array
    firsts: Int64Array
    scenes: Int64Array
    records: RecordArray
    tracks: TrackTable
    threshold: float

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def buffer_rows(self) -> Int64Array:
        """Rows of the agents in the records, int64 (N,)."""
        return expand_ranges(self.firsts, np.diff(self.starts))

    @cached_property
    def track_rows(self) -> Int64Array:
        """Rows of the agents in the track table of the batch, -1 for tracks that the log lacks, int64 (N,)."""
        rows = np.empty(len(self), np.int64)
        ids = as_read_only(self.records["track_id"])
        frames = _Frames(self.firsts, self.starts, self.scenes)
        _find_tracks(frames, ids, (self.tracks.starts, self.tracks.track_ids), rows)
        return rows

    @cached_property
    def groups(self) -> Int64Array:
        """``RoadUserGroup`` of each agent by the label of this frame, NONE if it is not a road user, int64 (N,)."""
        groups = np.empty(len(self), np.int64)
        columns = as_read_only(self.records["label_probabilities"]), as_read_only(self.records["extent"])
        threshold = float(np.float32(self.threshold))
        write_groups(self.buffer_rows, *columns, groups_of_labels(), threshold, False, groups)
        return groups

    @property
    def boxes(self) -> Float64Array:
        """World x and y of the centre, yaw, length and width, metres and radians, float64 (N, 5)."""
        return self._motions[0]

    @property
    def velocities_mps(self) -> Float64Array:
        """World x and y, float64 (N, 2)."""
        return self._motions[1]

    @property
    def scene_rows(self) -> SceneRows:
        """The agents for kernels: ``starts``, ``groups``, ``boxes`` and ``velocities_mps``."""
        return SceneRows(self.starts, self.groups, self.boxes, self.velocities_mps)

    @property
    def positions_m(self) -> Float64Array:
        """World x and y, a view (N, 2)."""
        return self.boxes[:, :2]

    @property
    def yaws_rad(self) -> Float64Array:
        """World headings, a view (N,)."""
        return self.boxes[:, 2]

    @cached_property
    def scenes_of_rows(self) -> Int64Array:
        """Index of the scene, of R, for each row, (N,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def taken(self, scene: int) -> "AgentsNow":
        """Return the agents of one of the scenes."""
        size = self.starts[scene + 1] - self.starts[scene]
        one = slice(scene, scene + 1)
        return replace(self, starts=np.array([0, size]), firsts=self.firsts[one], scenes=self.scenes[one])

    def without(self, rows: Int64Array) -> "AgentsNow":
        """Return the agents without those of rows (K,), which have been removed from the records."""
        is_left = np.ones(len(self), np.bool_)
        is_left[rows] = False
        left = replace(self, starts=np.concatenate([[0], np.cumsum(is_left)])[self.starts])
        kept = np.flatnonzero(is_left)
        # reuse columns that are already read, by filling the cached properties
        vars(left)["track_rows"], vars(left)["groups"] = self.track_rows.take(kept), self.groups.take(kept)
        vars(left)["_motions"] = (self.boxes.take(kept, axis=0), self.velocities_mps.take(kept, axis=0))
        return left

    @cached_property
    def _motions(self) -> tuple[Float64Array, Float64Array]:
        """Boxes and velocities."""
        boxes, velocities_mps = np.empty((len(self), 5)), np.empty((len(self), 2))
        columns = (as_read_only(self.records[field]) for field in ("centroid", "extent", "yaw", "velocity"))
        _read_motions(self.buffer_rows, _Records(*columns), boxes, velocities_mps)
        return boxes, velocities_mps


def read_agents(
    agents: RecordArray, frames: RecordArray, tracks: TrackTable, scenes: Int64Array, threshold: float
) -> AgentsNow:
    """Return the agents of one frame of each of R scenes.

    Args:
        agents: Records of all agents, ``AGENT_DTYPE``.
        frames: The current frame of each scene, ``FRAME_DTYPE``, (R,); their intervals lie within ``agents``.
        tracks: The tracks of all scenes.
        scenes: Indices of the scenes in the track table, (R,).
        threshold: An agent has a class if the probability of its label is above this.
    """
    intervals = frames[AGENT_INTERVAL]
    starts = np.zeros(len(frames) + 1, np.int64)
    np.cumsum(intervals[:, 1] - intervals[:, 0], out=starts[1:])
    return AgentsNow(starts, intervals[:, 0].copy(), np.ascontiguousarray(scenes), agents, tracks, threshold)


class _Frames(NamedTuple):
    """The current frames of R scenes; fields as in :class:`AgentsNow`."""

    firsts: Int64Array
    starts: Int64Array
    scenes: Int64Array


class _Records(NamedTuple):
    """Fields of the records of agents."""

    centroids_m: NumericArray
    extents_m: NumericArray
    yaws_rad: NumericArray
    velocities_mps: NumericArray


@kernel_jit
def _find_tracks(
    frames: _Frames,
    record_ids: NumericArray,
    tracks: tuple[Int64Array, NumericArray],
    track_rows: Int64Array,
) -> None:
    """Write the track rows of the agents of frames.

    Each search starts after the previous track, with doubling steps and then bisection: most frames are sorted by
    track.
    """
    starts, (track_starts, track_ids) = frames.starts, tracks
    for index in range(len(frames.firsts)):
        scene = frames.scenes[index]
        begin, stop = track_starts[scene], track_starts[scene + 1]
        low = begin
        for row in range(starts[index], starts[index + 1]):
            wanted = record_ids[frames.firsts[index] + row - starts[index]]
            # rows that are not sorted restart at the first track
            if low > begin and track_ids[low - 1] >= wanted:
                low = begin
            high, step = low, 1
            while high < stop and track_ids[high] < wanted:
                low = high + 1
                high += step
                step *= 2
            high = min(high, stop)
            while low < high:
                middle = (low + high) // 2
                if track_ids[middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            track_rows[row] = low if low < stop and track_ids[low] == wanted else -1


@kernel_jit
def _read_motions(
    rows: Int64Array,
    records: _Records,
    boxes: Float64Array,
    velocities_mps: Float64Array,
) -> None:
    """Write boxes and velocities of rows of records."""
    centroids_m, extents_m = records.centroids_m, records.extents_m
    for index in range(len(rows)):
        row = rows[index]
        boxes[index, 0], boxes[index, 1] = centroids_m[row, 0], centroids_m[row, 1]
        boxes[index, 2] = records.yaws_rad[row]
        boxes[index, 3], boxes[index, 4] = extents_m[row, 0], extents_m[row, 1]
        velocities_mps[index, 0] = records.velocities_mps[row, 0]
        velocities_mps[index, 1] = records.velocities_mps[row, 1]

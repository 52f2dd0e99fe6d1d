"""States of the AV and rows of road users, read from recorded scenes into the plain arrays of scores."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array, NumericArray, RecordArray, UInt64Array
from l5kit.data.array_shapes import as_read_only
from l5kit.data.index.track_ids import number_tracks
from l5kit.data.records import AGENT_INTERVAL
from l5kit.data.scene_arrays import SceneArrays
from l5kit.evaluation.driving.ego_states import EgoBody, EgoStates
from l5kit.evaluation.driving.motion import rates_of_frames, split_along_headings, velocities_of_rows
from l5kit.evaluation.driving.road_users import RoadUserGroup, RoadUsers, class_of_row, groups_of_labels, with_unknown

_NONE = int(RoadUserGroup.NONE)


class _Rows(NamedTuple):
    """Columns of road users to be written."""

    tracks: Int64Array
    groups: Int64Array
    labels: Int64Array
    boxes: Float64Array
    velocities_mps: Float64Array

    def cut(self, begin: int, end: int) -> "_Rows":
        """Return views of a range of rows."""
        columns: tuple[NumericArray, ...] = self
        return _Rows(*(column[begin:end] for column in columns))


class _Agents(NamedTuple):
    """Columns of agents, with any strides.

    Attributes:
        track_ids: uint64, (any,), like the following columns.
        centroids_m: World x and y, float64 (any, 2).
        yaws_rad: World headings, float32 (any,).
        extents_m: Length, width and height, float32 (any, 3).
        velocities_mps: World x and y, float32 (any, 2).
        label_probabilities: float32 (any, 17).
    """

    track_ids: NumericArray
    centroids_m: NumericArray
    yaws_rad: NumericArray
    extents_m: NumericArray
    velocities_mps: NumericArray
    label_probabilities: NumericArray


@dataclass(frozen=True, eq=False)
class AgentColumns:
    """The agents of a scene of F frames: columns, and the range of rows of each frame.

    Attributes:
        times_s: Times, seconds, (F,).
        firsts: First row of each frame, int64 (F,).
        counts: Number of rows of each frame, int64 (F,).
        agents: The columns.
    """

    times_s: Float64Array
    firsts: Int64Array
    counts: Int64Array
    agents: _Agents

    @classmethod
    def of_arrays(cls, scene: SceneArrays) -> "AgentColumns":
        """Return views of the agents of a scene."""
        starts = scene.agents.starts.astype(np.int64)
        agents = _Agents(*(getattr(scene.agents, name) for name in _Agents._fields))
        return cls(scene.times_s, starts[:-1], np.diff(starts), agents)

    @classmethod
    def of_records(cls, frames: RecordArray, agents: RecordArray) -> "AgentColumns":
        """Return the agents of frames of a scene as views of the records.

        Args:
            frames: ``FRAME_DTYPE``, (F,); their intervals lie within ``agents``.
            agents: ``AGENT_DTYPE``, possibly with agents of other frames.
        """
        intervals, times_ns = frames[AGENT_INTERVAL], frames["timestamp"]
        names = ("track_id", "centroid", "yaw", "extent", "velocity", "label_probabilities")
        columns = _Agents(*(agents[name] for name in names))
        return cls((times_ns - times_ns[:1]) * 1e-9, intervals[:, 0].copy(), intervals[:, 1] - intervals[:, 0], columns)


def join_road_users(
    scenes: Iterable[AgentColumns], *, num_frames: int, threshold: float, include_unknown: bool
) -> RoadUsers:
    """Return the road users of scenes.

    The velocity of a row is the recorded one unless that is 0, else computed from the positions of its track.

    Args:
        scenes: S scenes.
        num_frames: Number of frames of the longest scene.
        threshold: Labels need a probability above it.
        include_unknown: Whether rows of unknown class count as other objects at rest, instead of being left out.

    Raises:
        InvalidArgumentError: A value of a road user is not finite.
    """
    parts = list(scenes)
    if not parts:
        return RoadUsers.none(0, num_frames)
    counts = np.zeros((len(parts), num_frames), np.int64)
    size = sum(int(scene.counts.sum()) for scene in parts)
    tracks, groups, labels = np.empty((3, size), np.int64)
    rows = _Rows(tracks, groups, labels, np.empty((size, 5)), np.empty((size, 2)))
    classes = (groups_of_labels(), float(np.float32(threshold)), include_unknown)
    end = 0
    for index, scene in enumerate(parts):
        # write all agents of the scene after the road users of the previous scenes
        num_rows = int(scene.counts.sum())
        own = rows.cut(end, end + num_rows)
        track_ids, is_stationary = np.empty(num_rows, np.uint64), np.empty(num_rows, np.bool_)
        agents = _Agents(*map(as_read_only, scene.agents))
        _read_rows((scene.firsts, scene.counts), agents, classes, track_ids, own, is_stationary)
        own.tracks[:] = number_tracks(track_ids)[1]
        # rows without a recorded velocity get that of their track
        if is_stationary.any():
            times_s = np.repeat(scene.times_s, scene.counts)
            differences_mps = velocities_of_rows(own.boxes[:, :2], times_s, own.tracks, np.zeros(num_rows, np.int64))
            np.copyto(own.velocities_mps, differences_mps, where=is_stationary[:, None])
        # rows that are no road users were needed to number tracks only
        kept_counts = np.empty(len(scene.counts), np.int64)
        end += _keep_road_users(scene.counts, own, kept_counts)
        counts[index, : len(scene.counts)] = kept_counts
    starts = np.concatenate([[0], np.cumsum(counts)])
    kept = rows.cut(0, end)
    return RoadUsers(starts, kept.tracks, kept.groups, kept.labels, kept.boxes, kept.velocities_mps)


@kernel_jit
def _read_rows(
    frames: tuple[Int64Array, Int64Array],
    agents: _Agents,
    classes: tuple[Int64Array, float, bool],
    track_ids: UInt64Array,
    rows: _Rows,
    is_stationary: BoolArray,
) -> None:
    """Write the agents of frames, in order; ``is_stationary`` marks those without a recorded velocity."""
    (firsts, counts), boxes = frames, rows.boxes
    centroids_m, extents_m, velocities_mps = agents.centroids_m, agents.extents_m, agents.velocities_mps
    group_of_label, threshold, include_unknown = classes
    index = 0
    for frame in range(len(firsts)):
        for row in range(firsts[frame], firsts[frame] + counts[frame]):
            label, group, is_hidden = class_of_row(
                row, agents.label_probabilities, extents_m, group_of_label, threshold
            )
            rows.labels[index] = label
            rows.groups[index] = with_unknown(group, is_hidden, include_unknown)
            is_other = rows.groups[index] != group  # unknown class, assumed at rest
            track_ids[index] = agents.track_ids[row]
            boxes[index, 0], boxes[index, 1] = centroids_m[row, 0], centroids_m[row, 1]
            boxes[index, 2] = agents.yaws_rad[row]
            boxes[index, 3], boxes[index, 4] = extents_m[row, 0], extents_m[row, 1]
            for axis in range(2):
                rows.velocities_mps[index, axis] = 0.0 if is_other else velocities_mps[row, axis]
            is_stationary[index] = velocities_mps[row, 0] == 0 and velocities_mps[row, 1] == 0 and not is_other
            index += 1


@kernel_jit
def _keep_road_users(num_rows: Int64Array, rows: _Rows, counts: Int64Array) -> int:
    """Move the rows of road users to the front, write their number in each frame, (F,), and return the total."""
    row, kept = 0, 0
    for frame in range(len(num_rows)):
        begin = kept
        for _ in range(num_rows[frame]):
            if rows.groups[row] != _NONE:
                # in place: the target row has been read before, as kept <= row
                rows.tracks[kept] = rows.tracks[row]
                rows.groups[kept] = rows.groups[row]
                rows.labels[kept] = rows.labels[row]
                for column in range(5):
                    rows.boxes[kept, column] = rows.boxes[row, column]
                rows.velocities_mps[kept, 0] = rows.velocities_mps[row, 0]
                rows.velocities_mps[kept, 1] = rows.velocities_mps[row, 1]
                kept += 1
            row += 1
        counts[frame] = kept - begin
    return kept


def ego_states_of_poses(
    positions_m: Float64Array,
    yaws_rad: Float64Array,
    *,
    timestamps_s: Float64Array,
    is_there: BoolArray | None = None,
    body: EgoBody | None = None,
) -> EgoStates:
    """Return states of the AV with speeds and accelerations computed from its poses.

    Args:
        positions_m: World x and y of the centre of the box, (S, F, 2).
        yaws_rad: World headings, (S, F).
        timestamps_s: Seconds, (S, F).
        is_there: Mask of the frames of a scene, followed by padding, (S, F); all by default.
        body: The box; that of the published dataset by default.

    Raises:
        InvalidArgumentError: As for :class:`EgoStates`.
    """
    there = np.ones(yaws_rad.shape, np.bool_) if is_there is None else is_there
    # accelerations, along the heading and to the left of it, are differences of world velocities
    velocities_mps = rates_of_frames(positions_m, timestamps_s, there)
    accelerations_mps2 = split_along_headings(rates_of_frames(velocities_mps, timestamps_s, there), yaws_rad)
    return EgoStates(
        timestamps_s=np.array(timestamps_s, np.float64),
        is_there=there.copy(),
        positions_m=np.array(positions_m, np.float64),
        yaws_rad=np.array(yaws_rad, np.float64),
        speeds_mps=np.hypot(velocities_mps[..., 0], velocities_mps[..., 1]),
        accelerations_mps2=accelerations_mps2,
        body=EgoBody.of_extent() if body is None else body,
    )


def read_ego_states(scenes: Sequence[SceneArrays], *, body: EgoBody | None = None) -> EgoStates:
    """Return the states of the AV in recorded scenes, padded to the longest.

    Args:
        scenes: S scenes, each with at least one frame.
        body: The box of the AV; that of the published dataset by default.

    Raises:
        InvalidArgumentError: As for :class:`EgoStates`.
    """
    shape = (len(scenes), _num_frames(scenes))
    is_there = np.zeros(shape, np.bool_)
    timestamps_s, yaws_rad, positions_m = np.zeros(shape), np.zeros(shape), np.zeros((*shape, 2))
    for row, scene in enumerate(scenes):
        end = scene.num_frames
        is_there[row, :end], timestamps_s[row, :end] = True, scene.times_s
        yaws_rad[row, :end], positions_m[row, :end] = scene.ego_yaws_rad, scene.ego_positions_m[:, :2]
    return ego_states_of_poses(positions_m, yaws_rad, timestamps_s=timestamps_s, is_there=is_there, body=body)


def read_road_users(
    scenes: Sequence[SceneArrays], *, threshold: float = 0.5, include_unknown: bool = False
) -> RoadUsers:
    """Return the road users of recorded scenes, in the frames of :func:`read_ego_states`.

    The velocity of a row is the recorded one unless that is 0, else computed from the positions of its track.

    Args:
        scenes: S scenes.
        threshold: Labels need a probability above it.
        include_unknown: Whether rows of unknown class count as other objects at rest, instead of being left out.

    Raises:
        InvalidArgumentError: A value of a road user is not finite.
    """
    return join_road_users(
        map(AgentColumns.of_arrays, scenes),
        num_frames=_num_frames(scenes),
        threshold=threshold,
        include_unknown=include_unknown,
    )


def _num_frames(scenes: Sequence[SceneArrays]) -> int:
    return max((scene.num_frames for scene in scenes), default=0)

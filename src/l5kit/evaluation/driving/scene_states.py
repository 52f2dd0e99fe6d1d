"""States and road users of recorded scenes, read from their plain arrays for scores of driving."""

from collections.abc import Sequence

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.scene_arrays import SceneArrays
from l5kit.evaluation.driving.ego_states import EgoBody, EgoStates
from l5kit.evaluation.driving.motion import accelerations_of_ego, rates_of_frames, velocities_of_rows
from l5kit.evaluation.driving.road_users import RoadUserGroup, RoadUsers, classify_rows

__all__ = ["ego_states_of_poses", "read_ego_states", "read_road_users"]


def ego_states_of_poses(
    positions_m: Float64Array,
    yaws_rad: Float64Array,
    *,
    timestamps_s: Float64Array,
    is_there: BoolArray | None = None,
    body: EgoBody | None = None,
) -> EgoStates:
    """Return states of the AV whose speeds and accelerations are differences of its poses.

    Args:
        positions_m: World x and y of the centre of its box, (S, F, 2).
        yaws_rad: World headings, (S, F).
        timestamps_s: Seconds, (S, F).
        is_there: Which frames a scene has, the first ones, (S, F); all by default.
        body: Its box; that of the published dataset by default.

    Raises:
        InvalidArgumentError: As :class:`EgoStates` says.
    """
    there = np.ones(yaws_rad.shape, np.bool_) if is_there is None else is_there
    velocities_mps = rates_of_frames(positions_m, timestamps_s, there)
    return EgoStates(
        timestamps_s=np.array(timestamps_s, np.float64),
        is_there=there.copy(),
        positions_m=np.array(positions_m, np.float64),
        yaws_rad=np.array(yaws_rad, np.float64),
        speeds_mps=np.hypot(velocities_mps[..., 0], velocities_mps[..., 1]),
        accelerations_mps2=accelerations_of_ego(velocities_mps, yaws_rad, timestamps_s, there),
        body=EgoBody.of_extent() if body is None else body,
    )


def read_ego_states(scenes: Sequence[SceneArrays], *, body: EgoBody | None = None) -> EgoStates:
    """Return the states of the AV in recorded scenes, padded to the longest.

    Args:
        scenes: S scenes, each with at least one frame.
        body: Its box; that of the published dataset by default.

    Raises:
        InvalidArgumentError: As :class:`EgoStates` says.
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

    The velocity of a row is its own where that is not 0, else of differences of the positions of its track.

    Args:
        scenes: S scenes.
        threshold: What the probability of a label must be above.
        include_unknown: Whether rows of unknown class are other objects that stand still, in place of none.

    Raises:
        InvalidArgumentError: A road user has a value that is not finite.
    """
    num_frames = _num_frames(scenes)
    if not scenes:
        return RoadUsers.none(0, num_frames)
    agents = [scene.agents for scene in scenes]
    counts = np.zeros((len(scenes), num_frames), np.int64)
    for row, scene in enumerate(scenes):
        counts[row, : scene.num_frames] = np.diff(scene.agents.starts)
    probabilities = np.concatenate([rows.label_probabilities for rows in agents])
    extents_m = np.concatenate([rows.extents_m for rows in agents])
    groups = classify_rows(probabilities, extents_m, threshold=threshold)
    velocities_mps = _velocities(scenes)
    if include_unknown:
        known, groups = groups, classify_rows(probabilities, extents_m, threshold=threshold, include_unknown=True)
        velocities_mps[known == RoadUserGroup.NONE] = 0.0
    is_used = groups != RoadUserGroup.NONE
    frames = np.repeat(np.arange(counts.size), counts.reshape(-1))[is_used]
    tracks = np.concatenate([_numbered(rows.track_ids) for rows in agents])
    positions_m = np.concatenate([rows.centroids_m for rows in agents])
    yaws_rad = np.concatenate([rows.yaws_rad for rows in agents]).astype(np.float64)
    return RoadUsers(
        starts=np.concatenate([[0], np.cumsum(np.bincount(frames, minlength=counts.size))]),
        tracks=tracks[is_used],
        groups=groups[is_used],
        boxes=np.column_stack([positions_m, yaws_rad, extents_m[:, :2]])[is_used],
        velocities_mps=velocities_mps[is_used],
    )


def _num_frames(scenes: Sequence[SceneArrays]) -> int:
    return max((scene.num_frames for scene in scenes), default=0)


def _numbered(track_ids: Int64Array) -> Int64Array:
    """Return numbers of tracks from 0 on, (N,)."""
    numbers: Int64Array = np.unique(track_ids, return_inverse=True)[1].astype(np.int64)
    return numbers


def _velocities(scenes: Sequence[SceneArrays]) -> Float64Array:
    """Return the velocities of all rows of agents: their own, or differences where that is 0, (N, 2)."""
    counts = [len(scene.agents.track_ids) for scene in scenes]
    times_s = np.concatenate([np.repeat(scene.times_s, np.diff(scene.agents.starts)) for scene in scenes])
    tracks = np.concatenate([_numbered(scene.agents.track_ids) for scene in scenes])
    positions_m = np.concatenate([scene.agents.centroids_m for scene in scenes])
    velocities_mps = np.concatenate([scene.agents.velocities_mps for scene in scenes]).astype(np.float64)
    stands = (velocities_mps == 0).all(axis=1)
    differences = velocities_of_rows(positions_m, times_s, tracks, np.repeat(np.arange(len(scenes)), counts))
    velocities_mps[stands] = differences[stands]
    return velocities_mps

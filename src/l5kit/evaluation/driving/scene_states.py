"""States and road users of recorded scenes, read from their plain arrays for scores of driving."""

from collections.abc import Sequence

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.data.scene_arrays import SceneArrays
from l5kit.evaluation.driving.ego_states import EgoBody, EgoStates
from l5kit.evaluation.driving.motion import rates_of_frames, split_along_headings
from l5kit.evaluation.driving.road_user_rows import AgentColumns, join_road_users
from l5kit.evaluation.driving.road_users import RoadUsers


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
    return join_road_users(
        map(AgentColumns.of_arrays, scenes),
        num_frames=_num_frames(scenes),
        threshold=threshold,
        include_unknown=include_unknown,
    )


def _num_frames(scenes: Sequence[SceneArrays]) -> int:
    return max((scene.num_frames for scene in scenes), default=0)

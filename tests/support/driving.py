"""Made drives: the AV and road users along a few poses, for tests of scores of driving."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from l5kit.evaluation.driving.ego_states import EgoBody, EgoStates
from l5kit.evaluation.driving.road_users import RoadUserGroup, RoadUsers
from l5kit.evaluation.driving.scene_states import ego_states_of_poses

BODY = EgoBody(length_m=4.0, width_m=2.0, rear_axle_to_centre_m=1.0)
STEP_S = 0.1


def straight_drive(
    num_frames: int,
    *,
    speed_mps: float = 10.0,
    start_m: Sequence[float] = (0.0, 0.0),
    yaw_rad: float = 0.0,
    course_rad: float | None = None,
) -> EgoStates:
    """Return one scene of the AV, 4 x 2 m, with one speed; it moves along its heading unless told a course."""
    course = yaw_rad if course_rad is None else course_rad
    ways_m = speed_mps * STEP_S * np.arange(num_frames)[:, None]
    positions_m = np.array(start_m, float) + ways_m * [np.cos(course), np.sin(course)]
    return drive_along(positions_m, np.full(num_frames, yaw_rad))


def drive_along(positions_m: Any, yaws_rad: Any) -> EgoStates:
    """Return one scene of the AV at poses, (F, 2) and (F,), ten times a second."""
    yaws = np.array(yaws_rad, float)
    times_s = STEP_S * np.arange(len(yaws))
    return ego_states_of_poses(np.array(positions_m, float)[None], yaws[None], timestamps_s=times_s[None], body=BODY)


def stacked(*drives: EgoStates) -> EgoStates:
    """Return scenes of different lengths as one batch; frames that are not there hold NaN."""
    longest = max(drive.is_there.shape[1] for drive in drives)

    def padded(name: str, fill: Any) -> Any:
        parts = [getattr(drive, name)[0] for drive in drives]
        rows = [np.pad(p, [(0, longest - len(p)), *[(0, 0)] * (p.ndim - 1)], constant_values=fill) for p in parts]
        return np.stack(rows)

    names = ("timestamps_s", "positions_m", "yaws_rad", "speeds_mps", "accelerations_mps2")
    return EgoStates(
        **{name: padded(name, np.nan) for name in names}, is_there=padded("is_there", False), body=drives[0].body
    )


def road_users_at(frames: Sequence[Sequence[dict[str, Any]]]) -> RoadUsers:
    """Return road users given for each frame of all scenes: ``track``, ``at``, and ``yaw``, ``size``, ``v``, ``group``.

    Without them it is a car of 4 x 2 m that stands along x.
    """
    rows = [row for frame in frames for row in frame]
    yaws = [row.get("yaw", 0.0) for row in rows]
    sizes = [row.get("size", (4.0, 2.0)) for row in rows]
    return RoadUsers(
        starts=np.cumsum([0, *map(len, frames)]),
        tracks=np.array([row.get("track", 0) for row in rows], np.int64),
        groups=np.array([row.get("group", RoadUserGroup.VEHICLE) for row in rows], np.int64),
        boxes=np.array([(*row["at"], yaw, *size) for row, yaw, size in zip(rows, yaws, sizes, strict=True)]).reshape(
            -1, 5
        ),
        velocities_mps=np.array([row.get("v", (0.0, 0.0)) for row in rows], float).reshape(-1, 2),
    )

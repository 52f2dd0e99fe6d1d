"""Time to collision of the AV, if it and the road users keep their speeds and headings."""

import math
from dataclasses import dataclass

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.collisions import (
    BEHIND_RAD,
    CollisionKind,
    Collisions,
    angle_from_heading,
    count_at_fault,
)
from l5kit.evaluation.driving.ego_states import EgoArrays, EgoStates
from l5kit.evaluation.driving.lane_positions import LanePositions, is_across_lanes
from l5kit.evaluation.driving.road_users import RoadUserArrays, RoadUsers
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.lanes.road_surface import RoadSurface, is_in_junction

STOPPED_MPS = 0.005
"""Speed of the AV at or below which no time to collision is computed."""

AHEAD_RAD = math.radians(30.0)
"""Road users count up to this angle off the heading, seen from the rear axle.

Across lanes and in junctions, all count that are not behind.
"""


@dataclass(frozen=True)
class LookAhead:
    """Time steps of the computation of a time to collision; the defaults are those of the score.

    Attributes:
        step_s: Time step, seconds; the first step is one ahead.
        horizon_s: Horizon, seconds; the last step is one before it.
        least_s: Time to collision that the score requires to be exceeded, seconds.

    Raises:
        InvalidArgumentError: The step is not above 0, or exceeds the horizon.
    """

    step_s: float = 0.1
    horizon_s: float = 3.0
    least_s: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.step_s <= self.horizon_s:
            raise InvalidArgumentError(
                f"LookAhead: step_s must be above 0 and at most horizon_s, got {self.step_s} and {self.horizon_s}"
            )

    @property
    def num_steps(self) -> int:
        """Number of time steps."""
        return round(self.horizon_s / self.step_s) - 1

    @property
    def num_least_steps(self) -> int:
        """Number of time steps up to ``least_s``; without a collision in these, the score is 1."""
        return int(self.least_s / self.step_s)


def find_times_to_collision(
    states: EgoStates,
    road_users: RoadUsers,
    lane_positions: LanePositions,
    collisions: Collisions,
    *,
    look: LookAhead | None = None,
) -> Float64Array:
    """Return the time until boxes meet if all keep their speeds and headings.

    Road users count if they have not collided before and are at most 30 degrees off the heading, seen from the rear
    axle; if the corners of the AV lie neither in one lane nor in successive lanes, or its rear axle is in a junction,
    at most 150 degrees off.

    Args:
        states: The AV in S scenes.
        road_users: The road users in the same frames.
        lane_positions: Lanes of the AV.
        collisions: The collisions with the same road users.
        look: Time steps and horizon.

    Returns:
        Seconds, (S, F): infinite if no box is met within the horizon, if the AV drives at 0.005 m/s or less, and in
        padding; 0 in the frame of a collision at fault.

    Raises:
        InvalidArgumentError: Road users, lane positions or collisions have another number of frames or rows.
    """
    road_users.require_frames_of(states.is_there.shape)
    lane_positions.require_shape(states.is_there.shape)
    if len(collisions.kinds) != len(road_users):
        raise InvalidArgumentError(
            f"collisions must be of the {len(road_users)} rows of road_users, got {len(collisions.kinds)}"
        )
    look = LookAhead() if look is None else look
    times_s = np.full(states.is_there.shape, np.inf)
    widest_rad: Float64Array = np.where(lane_positions.is_across | lane_positions.is_in_junction, BEHIND_RAD, AHEAD_RAD)
    _write_times(
        states.arrays,
        states.rear_axles_m,
        widest_rad,
        road_users.arrays,
        road_users.speeds_mps,
        collisions.kinds != CollisionKind.NONE,
        (look.step_s, look.num_steps),
        np.zeros(road_users.num_tracks, np.bool_),
        times_s,
    )
    is_at_fault = count_at_fault(states, road_users, collisions).sum(axis=-1) > 0
    times_s[is_at_fault] = 0.0
    return times_s


def find_meeting_times(
    states: EgoStates, road_users: RoadUsers, *, is_left_out: BoolArray, looks: Int64Array, step_time_s: float
) -> tuple[Float64Array, Float64Array]:
    """Return the time until the AV, extrapolated along its heading, meets a box of a later frame.

    Unlike in :func:`find_times_to_collision`, road users are not extrapolated but taken from the later frames. Angles
    are seen from the rear axle of the extrapolated AV. Frames whose last step would exceed the scene meet no box, nor
    does an AV slower than 0.005 m/s.

    Args:
        states: The AV in S scenes.
        road_users: The road users in the same frames.
        is_left_out: Rows of the N road users after whose frame their track no longer counts, (N,).
        looks: Numbers of frames to look ahead, ascending from 0, (L,).
        step_time_s: Time between frames.

    Returns:
        Seconds, infinite for never, until it meets a box at most 30 degrees off its heading, and one at most 150
        degrees off, which is never later, (S, F) each.

    Raises:
        InvalidArgumentError: Road users or rows have another number of frames or rows.
    """
    road_users.require_frames_of(states.is_there.shape)
    if is_left_out.shape != (len(road_users),):
        raise InvalidArgumentError(
            f"is_left_out must be of the {len(road_users)} rows of road_users, got {is_left_out.shape}"
        )
    shape = states.is_there.shape
    ahead_s, around_s = np.full(shape, np.inf), np.full(shape, np.inf)
    _write_meetings(
        states.arrays,
        float(states.body.rear_axle_to_centre_m),
        road_users.arrays,
        is_left_out,
        looks,
        float(step_time_s),
        np.zeros(road_users.num_tracks, np.int64),
        ahead_s,
        around_s,
    )
    return ahead_s, around_s


def time_to_collision(times_s: Float64Array, *, look: LookAhead | None = None) -> Float64Array:
    """Return the score of scenes: 1 if all times (S, F) are above 0.95 s, else 0, (S,)."""
    least_s = (LookAhead() if look is None else look).least_s
    return np.asarray(np.all(times_s > least_s, axis=1), np.float64)


@kernel_jit
def _write_times(
    egos: EgoArrays,
    rear_axles_m: Float64Array,
    widest_rad: Float64Array,
    others: RoadUserArrays,
    other_speeds_mps: Float64Array,
    collides: BoolArray,
    look: tuple[float, int],
    has_collided: BoolArray,
    times_s: Float64Array,
) -> None:
    """Lower the times of frames to the first time at which the AV meets a road user that counts."""
    boxes, tracks = others.boxes, others.tracks
    for scene in range(len(egos.num_frames)):
        has_collided[:] = False
        for frame in range(egos.num_frames[scene]):
            frame_index = scene * egos.boxes.shape[1] + frame
            ego, speed_mps = egos.boxes[scene, frame], egos.speeds_mps[scene, frame]
            for row in range(others.starts[frame_index], others.starts[frame_index + 1]):
                has_collided[tracks[row]] |= collides[row]
                if has_collided[tracks[row]] or speed_mps <= STOPPED_MPS:
                    continue
                angle_rad = angle_from_heading(ego[2], rear_axles_m[scene, frame], boxes[row])
                if angle_rad <= widest_rad[scene, frame]:
                    time_s = meeting_time(ego, speed_mps, boxes[row], other_speeds_mps[row], look)
                    times_s[scene, frame] = min(times_s[scene, frame], time_s)


@kernel_jit
def counts_ahead(
    angle_rad: float, surface: RoadSurface, corners_m: Float64Array, rear_axle_m: Float64Array, room: Int64Array
) -> bool:
    """Return whether a road user at some angle off the heading counts, by :func:`find_times_to_collision`.

    Args:
        angle_rad: Angle seen from the rear axle, 0 to pi.
        surface: The map.
        corners_m: Corners of the AV, (4, 2).
        rear_axle_m: Middle of its rear axle, (2,).
        room: Buffer of :func:`~l5kit.evaluation.driving.lane_positions.is_across_lanes`.
    """
    if angle_rad <= AHEAD_RAD:
        return True
    if angle_rad > BEHIND_RAD:
        return False
    return is_across_lanes(surface, corners_m, room) or is_in_junction(surface, rear_axle_m)


@kernel_jit
def meeting_time(
    ego: Float64Array, ego_speed_mps: float, other: Float64Array, speed_mps: float, look: tuple[float, int]
) -> float:
    """Return the first time step at which two boxes overlap, infinite for none."""
    step_s, num_steps = look
    # skip boxes whose circumscribed circles cannot meet within the horizon, whatever the headings
    reach_m = 0.5 * (np.hypot(ego[3], ego[4]) + np.hypot(other[3], other[4]))
    travel_m = num_steps * step_s * (ego_speed_mps + speed_mps)
    if np.hypot(other[0] - ego[0], other[1] - ego[1]) > reach_m + travel_m:
        return np.inf
    ego_cos, ego_sin, cos, sin = np.cos(ego[2]), np.sin(ego[2]), np.cos(other[2]), np.sin(other[2])
    for step in range(1, num_steps + 1):
        time_s = step * step_s
        x, y = ego[0] + time_s * ego_speed_mps * ego_cos, ego[1] + time_s * ego_speed_mps * ego_sin
        other_x, other_y = other[0] + time_s * speed_mps * cos, other[1] + time_s * speed_mps * sin
        moved = (x, y, ego[2], ego[3], ego[4])
        if boxes_overlap(moved, (other_x, other_y, other[2], other[3], other[4])):
            return time_s
    return np.inf


@kernel_jit
def _write_meetings(
    egos: EgoArrays,
    rear_axle_to_centre_m: float,
    others: RoadUserArrays,
    is_left_out: BoolArray,
    looks: Int64Array,
    step_s: float,
    ends: Int64Array,
    ahead_s: Float64Array,
    around_s: Float64Array,
) -> None:
    """Lower the times of frames to the first step at which the extrapolated AV meets a road user that counts.

    ``ends`` is a buffer for the frames after which the tracks of a scene no longer count.
    """
    starts, tracks = others.starts, others.tracks
    moved, rear_m = np.empty(5), np.empty(2)
    for scene in range(len(egos.num_frames)):
        # frame after which each track no longer counts
        ends[:] = egos.num_frames[scene]
        first = scene * egos.boxes.shape[1]
        for frame in range(egos.num_frames[scene]):
            for row in range(starts[first + frame], starts[first + frame + 1]):
                if is_left_out[row]:
                    ends[tracks[row]] = min(ends[tracks[row]], frame)
        for frame in range(egos.num_frames[scene] - looks[-1]):
            speed_mps = egos.speeds_mps[scene, frame]
            if speed_mps < STOPPED_MPS:
                continue
            moved[:] = egos.boxes[scene, frame]
            cos, sin = np.cos(moved[2]), np.sin(moved[2])
            for later in looks:
                # extrapolate the AV, and take road users from the later frame
                time_s = later * step_s
                moved[0] = egos.boxes[scene, frame, 0] + time_s * speed_mps * cos
                moved[1] = egos.boxes[scene, frame, 1] + time_s * speed_mps * sin
                rear_m[0] = moved[0] - rear_axle_to_centre_m * cos
                rear_m[1] = moved[1] - rear_axle_to_centre_m * sin
                for row in range(starts[first + frame + later], starts[first + frame + later + 1]):
                    if frame + later > ends[tracks[row]] or not boxes_overlap(moved, others.boxes[row]):
                        continue
                    angle_rad = angle_from_heading(moved[2], rear_m, others.boxes[row])
                    if angle_rad <= AHEAD_RAD:
                        ahead_s[scene, frame] = min(ahead_s[scene, frame], time_s)
                    if angle_rad <= BEHIND_RAD:
                        around_s[scene, frame] = min(around_s[scene, frame], time_s)
                # a road user ahead is also around, so later steps could lower neither time
                if ahead_s[scene, frame] < np.inf:
                    break

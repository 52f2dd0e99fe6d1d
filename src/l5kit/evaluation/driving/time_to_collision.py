"""Time to collision of the AV, when it and the others go on as they are."""

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
"""No TTC is computed for an AV at or below this speed."""

AHEAD_RAD = math.radians(30.0)
"""Others count that are at most this far off the heading, seen from the rear axle.

Across lanes and in junctions all count that are not behind.
"""


@dataclass(frozen=True)
class LookAhead:
    """How far a time to collision looks ahead; the defaults are those of the score.

    Attributes:
        step_s: Time between two looks, seconds; the first look is one step ahead.
        horizon_s: The last look is a step before it, seconds.
        least_s: The score wants every time to be above it, seconds.

    Raises:
        InvalidArgumentError: The step is not above 0, or the horizon below it.
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
        """Number of looks."""
        return round(self.horizon_s / self.step_s) - 1

    @property
    def num_least_steps(self) -> int:
        """Number of looks up to the least time: who is met by none of them is far enough ahead."""
        return int(self.least_s / self.step_s)


def find_times_to_collision(
    states: EgoStates,
    road_users: RoadUsers,
    lane_positions: LanePositions,
    collisions: Collisions,
    *,
    look: LookAhead | None = None,
) -> Float64Array:
    """Return after what time boxes meet when all go on with their speeds along their own headings.

    Others count that have not collided so far and are at most 30 degrees off the heading, seen from the rear axle;
    where the corners of the AV do not lie in one lane or in lanes that follow each other, or its rear axle is in a
    junction, those at most 150 degrees off.

    Args:
        states: The AV in S scenes.
        road_users: The others in the same frames.
        lane_positions: Where on the lanes the AV is.
        collisions: The collisions of the same road users.
        look: How far to look ahead.

    Returns:
        Seconds, infinite where nobody is met within the horizon, where the AV has at most 0.005 m/s, and where no frame
        is; 0 in the frame of a collision at fault; (S, F).

    Raises:
        InvalidArgumentError: Road users, lane positions or collisions are those of another number of frames or rows.
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
    """Return after what time the AV, moved on along its heading with its speed, meets the box that another has then.

    Others are not forecast, as :func:`find_times_to_collision` does: they are where later frames have them. Angles are
    those from the rear axle of the moved AV. Frames after which the last look would lie behind the end of the scene
    meet nobody, nor does an AV slower than 0.005 m/s.

    Args:
        states: The AV in S scenes.
        road_users: The others in the same frames.
        is_left_out: Rows of N road users behind whose frame their track does not count any more, (N,).
        looks: How many frames later boxes are looked at, ascending from 0, (L,).
        step_time_s: Time from one frame to the next.

    Returns:
        Seconds, infinite for never, until it meets those at most 30 degrees off its heading, and those at most 150
        degrees off, who come not later, (S, F) each.

    Raises:
        InvalidArgumentError: Road users or rows are those of another number of frames or rows.
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
    """Return the score of scenes: 1 where every time (S, F) is above 0.95 s, else 0, (S,)."""
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
    """Lower the times of the frames to the first at which the AV meets somebody who counts."""
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
    """Return whether somebody counts who is so far off the heading, as :func:`find_times_to_collision` says.

    Args:
        angle_rad: Seen from the rear axle, 0 to pi.
        surface: The map.
        corners_m: Those of the AV, (4, 2).
        rear_axle_m: Its middle, (2,).
        room: As :func:`~l5kit.evaluation.driving.lane_positions.is_across_lanes` takes it.
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
    """Return the first of the times ahead at which two boxes overlap, infinite for none."""
    step_s, num_steps = look
    # circles around the boxes that cannot meet within the horizon, whatever the headings, cost no look at boxes
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
    """Lower the times of the frames to the first look at which the moved AV meets somebody who counts.

    ``ends`` has room for the frames behind which the tracks of a scene do not count any more.
    """
    starts, tracks = others.starts, others.tracks
    moved, rear_m = np.empty(5), np.empty(2)
    for scene in range(len(egos.num_frames)):
        # the frame of each track behind which it is left out
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
                # the AV straight on, and the others where the later frame has them
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
                # who is ahead is also around: later looks could lower neither
                if ahead_s[scene, frame] < np.inf:
                    break

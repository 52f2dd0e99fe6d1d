"""Windows of EPDMS: plans rolled out from frames of scenes, with road users and lights; and thresholds."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.road_users import RoadUsers
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_paths import LanePaths
from l5kit.lanes.red_lights import LaneColors
from l5kit.lanes.route_map import lanes_closed_by_red

STEP_S: Final = 0.1
"""Time between two states of a window, seconds."""


@dataclass(frozen=True)
class EpdmsParams:
    """Thresholds of the terms, and length and spacing of windows; the defaults are those of NAVSIM v2.

    Attributes:
        horizon_s: Length of a window.
        past_s: Length of the past that history comfort includes.
        stride_s: Time between windows, whose plans extended comfort compares.
        seam_m: Distance from the road at which a corner is off it. NAVSIM has no tolerance; the map format stores
            centimetres, so areas that share a border may be this far apart.
        looks_s: Times ahead at which the time to collision is evaluated.
        free_way_m: If no plan drives farther, progress is 1.
        most_offset_m: Largest distance between the centre and the route's centre line when keeping the lane.
        offset_s: Time for which the offset must be exceeded.
        acceleration_mps2: Largest root mean square difference of the accelerations of two plans in extended comfort.
        jerk_mps3: The same for jerks.
        yaw_rate_radps: The same for yaw rates.
        yaw_acceleration_radps2: The same for yaw accelerations.

    Raises:
        InvalidArgumentError: A value is negative, or a time is not a multiple of the step.
    """

    horizon_s: float = 4.0
    past_s: float = 1.5
    stride_s: float = 0.5
    seam_m: float = 0.01
    looks_s: tuple[float, ...] = (0.0, 0.3, 0.6, 0.9)
    free_way_m: float = 5.0
    most_offset_m: float = 0.5
    offset_s: float = 2.0
    acceleration_mps2: float = 0.7
    jerk_mps3: float = 0.5
    yaw_rate_radps: float = 0.1
    yaw_acceleration_radps2: float = 0.1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            values = value if isinstance(value, tuple) else (value,)
            is_time = name.endswith("_s")
            is_whole = not is_time or all(abs(each - STEP_S * steps_of(each)) < 1e-6 for each in values)
            if not (values and min(values) >= 0 and is_whole):
                raise InvalidArgumentError(
                    f"EpdmsParams: {name} is {value}; it must be at least 0, and times must be multiples of {STEP_S} s"
                )
        if not 0 < self.stride_s <= self.horizon_s or max(self.looks_s) > self.horizon_s:
            raise InvalidArgumentError(
                f"EpdmsParams: stride_s {self.stride_s} must be above 0, and neither it nor looks_s {self.looks_s} "
                f"above horizon_s {self.horizon_s}"
            )

    @property
    def num_steps(self) -> int:
        """Number of steps of a window, which has one more state."""
        return steps_of(self.horizon_s)

    @property
    def num_past(self) -> int:
        """Number of past states, without the present one."""
        return steps_of(self.past_s)

    @property
    def num_between(self) -> int:
        """Number of steps from one window to the next."""
        return steps_of(self.stride_s)


def steps_of(time_s: float) -> int:
    """Return the number of steps in a time."""
    return round(time_s / STEP_S)


@dataclass(frozen=True, eq=False)
class WindowRoutes(ReadOnlyArrays):
    """The map, and the routes of N scenes on it.

    Attributes:
        driving_map: L lanes.
        paths: The paths of the N scenes; a path without lanes means no route.
        is_of_route: Lanes of each route, as :func:`l5kit.lanes.route_map.mark_route_lanes` marks them, (N, L).
        colors: The lights of the frames of these scenes; None without lights.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    driving_map: DrivingMap
    paths: LanePaths
    is_of_route: BoolArray
    colors: LaneColors | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, is_of_route=(len(self.paths), self.driving_map.num_lanes))

    @cached_property
    def closed_by_red(self) -> tuple[Int64Array, Int64Array]:
        """The lanes that the red light of each lane closes; see :func:`l5kit.lanes.route_map.lanes_closed_by_red`."""
        return lanes_closed_by_red(self.driving_map)


@dataclass(frozen=True, eq=False)
class PlanWindows(ReadOnlyArrays):
    """W windows of T states, the first of which is the present.

    Attributes:
        states: The AV following the rolled-out plan, without padding, (W, T).
        past: The AV in the P frames before, (W, P).
        road_users: The road users in the frames of ``states``; those too far away to be met may be left out.
        scenes: Scene of each window, for its route and lights, (W,).
        frames: First frame of each window in its scene, for its lights, (W,).
        arcs_m: Approximate arc length of the first state along the route; NaN if unknown, (W,).
        following: The window of the same scene one stride later; -1 for none, (W,).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    states: EgoStates
    past: EgoStates
    road_users: RoadUsers
    scenes: Int64Array
    frames: Int64Array
    arcs_m: Float64Array
    following: Int64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = (self.states.num_scenes,)
        require_shapes(self, scenes=shape, frames=shape, arcs_m=shape, following=shape)
        self.road_users.require_frames_of(self.states.is_there.shape)
        if self.past.num_scenes != len(self) or not (self.states.is_there.all() and self.past.is_there.all()):
            raise InvalidArgumentError(
                f"PlanWindows: states and past must have {len(self)} windows without padding, got past of "
                f"{self.past.num_scenes}"
            )

    def __len__(self) -> int:
        return self.states.num_scenes

    @property
    def with_past(self) -> EgoStates:
        """The AV in the past and in the window, (W, P + T)."""
        return self.past.followed_by(self.states)


def bounds_of_meetings(states: EgoStates, ahead_s: float) -> Float64Array:
    """Return lowest and highest x and y reached by the boxes of AVs in windows, also if extrapolated, (W, 2, 2).

    Args:
        states: The AV, without padding, (W, T).
        ahead_s: Time of the extrapolation.
    """
    # half of length plus width exceeds half the diagonal
    body = states.body
    moved_m = states.positions_m + ahead_s * states.speeds_mps[..., None] * states.directions
    points_m = np.concatenate([states.positions_m, moved_m], axis=1)
    half_m = 0.5 * (body.length_m + body.width_m)
    return np.stack([points_m.min(axis=1) - half_m, points_m.max(axis=1) + half_m], axis=1)

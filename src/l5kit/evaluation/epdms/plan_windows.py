"""Windows: plans that were rolled out from frames of scenes on, with the others and the lights of the same seconds."""

from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True, eq=False)
class WindowRoutes(ReadOnlyArrays):
    """The map, and the routes of N scenes on it.

    Attributes:
        driving_map: L lanes.
        paths: The path of each scene, N of them; one without lanes has no route.
        is_of_route: Which lanes belong to each, as :func:`l5kit.lanes.route_map.mark_route_lanes` says, (N, L).
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
    """W windows of T states each, the first of which is the present.

    Attributes:
        states: The AV as the plan was rolled out, all frames there, (W, T).
        past: The AV in the P frames before, (W, P).
        road_users: The others in the frames of ``states``; those who are too far away to be met may be left out.
        scenes: The scene of each window, for its route and its lights, (W,).
        frames: The frame of the scene in which it begins, for its lights, (W,).
        arcs_m: Length of the route up to where the AV is at first, about; NaN for anywhere, (W,).
        following: The window of the same scene that begins a stride later; -1 for none, (W,).

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
                f"PlanWindows: states and past must be of {len(self)} windows with all frames there, got past of "
                f"{self.past.num_scenes}"
            )

    def __len__(self) -> int:
        return self.states.num_scenes

    @property
    def with_past(self) -> EgoStates:
        """The AV in the frames before and in the window, (W, P + T)."""
        before, after = self.past, self.states
        return EgoStates(
            timestamps_s=np.concatenate([before.timestamps_s, after.timestamps_s], axis=1),
            is_there=np.concatenate([before.is_there, after.is_there], axis=1),
            positions_m=np.concatenate([before.positions_m, after.positions_m], axis=1),
            yaws_rad=np.concatenate([before.yaws_rad, after.yaws_rad], axis=1),
            speeds_mps=np.concatenate([before.speeds_mps, after.speeds_mps], axis=1),
            accelerations_mps2=np.concatenate([before.accelerations_mps2, after.accelerations_mps2], axis=1),
            body=after.body,
        )


def bounds_of_meetings(states: EgoStates, ahead_s: float) -> Float64Array:
    """Return lowest and highest x and y of what boxes of AVs reach in windows or when moved straight on, (W, 2, 2).

    Args:
        states: The AV, all frames there, (W, T).
        ahead_s: For how long it is moved on.
    """
    # half the sum of length and width is more than half the diagonal
    body = states.body
    moved_m = states.positions_m + ahead_s * states.speeds_mps[..., None] * states.directions
    points_m = np.concatenate([states.positions_m, moved_m], axis=1)
    half_m = 0.5 * (body.length_m + body.width_m)
    return np.stack([points_m.min(axis=1) - half_m, points_m.max(axis=1) + half_m], axis=1)

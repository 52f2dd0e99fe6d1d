"""Vehicles ahead of the AV on its path: a slow leader, a braking leader, and a vehicle that cuts in."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array
from l5kit.data.scene_arrays import SceneArrays
from l5kit.editing.av_path import AvPath
from l5kit.editing.new_agents import KINDS, SEARCH_M, VEHICLES, add_agents, boxes_of_frame, centre_ahead_m, has_room
from l5kit.editing.scene_edit import ImpossibleEditError, SceneEdit, SceneSetting, require_in_range, require_one_of
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_choice import find_lanes_of_track

_DRIVES_MPS = 1.0
"""A slower AV counts as standing; braking leaders and cut-ins are refused then."""

_STEEPEST_RAD = np.deg2rad(30.0)
"""Largest angle of a vehicle to the path during a lane change."""


@dataclass(frozen=True)
class SlowLeader(SceneEdit):
    """Vehicle ahead of the AV on its path at constant speed; it leaves the scene at the end of the path.

    Attributes:
        ahead_m: Distance along the path from the front of the AV in the first frame to the rear of the vehicle.
        speed_mps: Speed of the vehicle.
        kind: ``car``, ``van``, ``bus`` or ``truck``.

    Raises:
        InvalidArgumentError: A parameter is out of range.
    """

    ahead_m: float = 20.0
    speed_mps: float = 3.0
    kind: str = "car"

    def __post_init__(self) -> None:
        require_in_range(self, ahead_m=(0.0, 500.0), speed_mps=(0.0, 60.0))
        require_one_of(self, "kind", VEHICLES)

    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the scene with the vehicle; see :meth:`SceneEdit.apply`."""
        path = AvPath.of_scene(scene, setting.driving_map)
        first_m = centre_ahead_m(KINDS[self.kind], self.ahead_m, setting)
        return _add_on_path(scene, setting, path, self.kind, arcs_m=first_m + self.speed_mps * scene.times_s)


@dataclass(frozen=True)
class BrakingLeader(SceneEdit):
    """Vehicle ahead of the AV that moves like the logged AV, and suddenly brakes to a stop.

    Attributes:
        ahead_m: Distance along the path from the front of the logged AV to the rear of the vehicle, until it brakes.
        brakes_at_s: Start of braking, seconds after the first frame.
        braking_mps2: Deceleration.
        kind: ``car``, ``van``, ``bus`` or ``truck``.

    Raises:
        InvalidArgumentError: A parameter is out of range.
    """

    ahead_m: float = 15.0
    brakes_at_s: float = 3.0
    braking_mps2: float = 5.0
    kind: str = "car"

    def __post_init__(self) -> None:
        require_in_range(self, ahead_m=(0.0, 500.0), brakes_at_s=(0.0, 3600.0), braking_mps2=(0.5, 12.0))
        require_one_of(self, "kind", VEHICLES)

    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the scene with the vehicle; see :meth:`SceneEdit.apply`."""
        path = AvPath.of_scene(scene, setting.driving_map)
        driven_m, speed_mps = _motion_at(scene, path, self.brakes_at_s)
        first_m = centre_ahead_m(KINDS[self.kind], self.ahead_m, setting)

        # like the AV up to then; after that v t - b t^2 / 2, until it stands after v / b
        braked_s = np.clip(scene.times_s - self.brakes_at_s, 0.0, speed_mps / self.braking_mps2)
        braked_m = speed_mps * braked_s - 0.5 * self.braking_mps2 * braked_s**2
        arcs_m = np.where(scene.times_s < self.brakes_at_s, path.frame_arcs_m, driven_m + braked_m)
        return _add_on_path(scene, setting, path, self.kind, arcs_m=first_m + arcs_m)


@dataclass(frozen=True)
class CutIn(SceneEdit):
    """Vehicle ahead of the AV in the adjacent lane that moves over into its lane, and slows down.

    It keeps its distance to the logged AV until it begins to move over. During the lane change its speed changes
    evenly, and is constant afterwards. On a map, an adjacent lane of the same direction must exist up to then.

    Attributes:
        ahead_m: Distance along the path from the front of the logged AV to the rear of the vehicle, until it moves
            over.
        at_s: Start of the lane change, seconds after the first frame.
        duration_s: Duration of the lane change.
        side: Side it comes from: ``left``, ``right``, or ``either``, which prefers left if there is a lane.
        apart_m: Distance between the centres of the two lanes.
        speed_share: Final speed as a share of the speed of the logged AV at ``at_s``.
        kind: ``car``, ``van``, ``bus`` or ``truck``.

    Raises:
        InvalidArgumentError: A parameter is out of range.
    """

    ahead_m: float = 6.0
    at_s: float = 3.0
    duration_s: float = 3.0
    side: str = "either"
    apart_m: float = 3.5
    speed_share: float = 0.7
    kind: str = "car"

    def __post_init__(self) -> None:
        require_in_range(self, ahead_m=(0.0, 200.0), at_s=(0.0, 3600.0), duration_s=(0.5, 20.0))
        require_in_range(self, apart_m=(2.0, 8.0), speed_share=(0.1, 2.0))
        require_one_of(self, "side", ("left", "right", "either"))
        require_one_of(self, "kind", VEHICLES)

    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the scene with the vehicle; see :meth:`SceneEdit.apply`."""
        path = AvPath.of_scene(scene, setting.driving_map)
        driven_m, speed_mps = _motion_at(scene, path, self.at_s)
        first_m = centre_ahead_m(KINDS[self.kind], self.ahead_m, setting)
        since_s = scene.times_s - self.at_s

        # refuse a lane change that is so fast for the speed that the vehicle would stand across the lane
        done = np.linspace(0.0, 1.0, 101)
        across_mps = 0.5 * np.pi * self.apart_m / self.duration_s * np.sin(np.pi * done)
        turn_rad = np.arctan2(across_mps, speed_mps * (1.0 + (self.speed_share - 1.0) * done)).max()
        if turn_rad > _STEEPEST_RAD:
            raise ImpossibleEditError(
                f"at {speed_mps:.1f} m/s the vehicle would turn by {np.rad2deg(turn_rad):.0f} degrees to move over "
                f"{self.apart_m:g} m in {self.duration_s:g} s, more than {np.rad2deg(_STEEPEST_RAD):.0f}; choose a "
                "larger duration_s or speed_share, or another at_s"
            )

        # constant acceleration from one speed to the other over the whole lane change, without jumps
        moving_s = np.clip(since_s, 0.0, self.duration_s)
        change_mps = (self.speed_share - 1.0) * speed_mps
        changed_m = change_mps * (since_s - moving_s + 0.5 * moving_s**2 / self.duration_s)
        onward_m = driven_m + speed_mps * since_s + changed_m
        arcs_m = first_m + np.where(since_s < 0, path.frame_arcs_m, onward_m)

        # half a cosine wave from the adjacent lane into that of the AV
        done = np.clip(since_s / self.duration_s, 0.0, 1.0)
        aside_m = 0.5 * self.apart_m * (1.0 + np.cos(np.pi * done))
        sign = self._sign(path, setting.driving_map, arcs_m[since_s < 0] if self.at_s > 0 else arcs_m[:1])
        return _add_on_path(scene, setting, path, self.kind, arcs_m=arcs_m, left_m=sign * aside_m)

    def _sign(self, path: AvPath, driving_map: DrivingMap | None, arcs_m: Float64Array) -> float:
        """Return 1 for left or -1 for right: the first allowed side with a lane all the way.

        Raises:
            ImpossibleEditError: There is no such lane.
        """
        signs = [sign for name, sign in (("left", 1.0), ("right", -1.0)) if self.side in (name, "either")]
        if driving_map is None:
            return signs[0]
        for sign in signs:
            if (find_lanes_of_track(driving_map, *path.poses_at(arcs_m, left_m=sign * self.apart_m)) >= 0).all():
                return sign
        raise ImpossibleEditError(
            f"there is no lane of the same direction {self.apart_m:g} m beside the AV to come from ({self.side}) until "
            f"{self.at_s:g} s; choose another at_s or side"
        )


def _motion_at(scene: SceneArrays, path: AvPath, time_s: float) -> tuple[float, float]:
    """Return arc length and speed of the logged AV at a time.

    Raises:
        ImpossibleEditError: The scene has ended by then, or the AV is standing.
    """
    if not time_s < scene.times_s[-1]:
        raise ImpossibleEditError(
            f"the scene lasts {scene.times_s[-1]:.1f} s, so nothing can happen at {time_s:g} s; choose an earlier time"
        )
    speed_mps = float(np.interp(time_s, scene.times_s, scene.ego_speeds_mps))
    if speed_mps < _DRIVES_MPS:
        raise ImpossibleEditError(
            f"the AV of the log drives {speed_mps:.1f} m/s at {time_s:g} s, less than {_DRIVES_MPS:g}; choose another "
            "time"
        )
    return float(np.interp(time_s, scene.times_s, path.frame_arcs_m)), speed_mps


def _add_on_path(
    scene: SceneArrays,
    setting: SceneSetting,
    path: AvPath,
    kind: str,
    *,
    arcs_m: Float64Array,
    left_m: Float64Array | None = None,
) -> SceneArrays:
    """Return a scene with an additional vehicle on a path; the vehicle leaves at the end of the path.

    If its first position is occupied, the whole drive is shifted to the next metre with room, by up to 20 m.

    Args:
        scene: The scene.
        setting: Map and log facts of the scene.
        path: The path of the AV.
        kind: Name of the vehicle in :data:`~l5kit.editing.new_agents.KINDS`.
        arcs_m: Arc length of its centre in each frame, never decreasing, (F,).
        left_m: Offset to the left of the path in each frame, (F,); None for 0.

    Raises:
        ImpossibleEditError: The path is too short, or there is no room at the start.
    """
    vehicle, others = KINDS[kind], boxes_of_frame(scene, 0, setting)
    half_m = 0.5 * vehicle.size_m[0]
    path.require_reach(float(arcs_m[0] + half_m), "the front of the vehicle")
    aside_m = np.zeros(len(arcs_m)) if left_m is None else left_m

    # a vehicle that changes lanes is turned along its motion
    turns_rad = np.zeros(len(arcs_m))
    if len(arcs_m) > 1:
        moved_m, along_m = np.gradient(aside_m), np.gradient(arcs_m)
        turns_rad = np.where(along_m > 0, np.arctan2(moved_m, np.maximum(along_m, 1e-9)), 0.0)
    for shifted_m in (arcs_m + shift_m for shift_m in range(SEARCH_M + 1)):
        positions_m, yaws_rad = path.poses_at(shifted_m, left_m=aside_m)
        yaws_rad = yaws_rad + turns_rad
        is_there = shifted_m + half_m <= path.length_m
        if is_there[0] and has_room(np.array([*positions_m[0], yaws_rad[0], *vehicle.size_m[:2]]), others):
            return add_agents(
                scene, [vehicle], positions_m=positions_m[None], yaws_rad=yaws_rad[None], is_there=is_there[None]
            )
    raise ImpossibleEditError(
        f"there is no room for the {kind} from {arcs_m[0]:.1f} m to {arcs_m[0] + SEARCH_M:.1f} m along the path of the "
        "AV: other road users are there in the first frame; choose another ahead_m"
    )

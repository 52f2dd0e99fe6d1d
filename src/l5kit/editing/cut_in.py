"""A vehicle that cuts in: it drives beside the AV, and moves into its lane."""

from dataclasses import dataclass

import numpy as np

from l5kit.data.scene_arrays import SceneArrays
from l5kit.editing.av_path import AvPath, av_path
from l5kit.editing.leaders import add_on_path, motion_at
from l5kit.editing.new_agents import KINDS, VEHICLES
from l5kit.editing.scene_edit import (
    ImpossibleEditError,
    SceneEdit,
    SceneSetting,
    require_in_range,
    require_one_of,
)
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_choice import find_lanes_of_track

_STEEPEST_RAD = np.deg2rad(30.0)
"""A car that moves over does not turn further than this from the path."""


@dataclass(frozen=True)
class CutIn(SceneEdit):
    """A vehicle that drives ahead of the AV in the lane beside it, moves over into its lane, and slows down.

    It keeps its distance to the AV of the log until it begins to move over. While it does, it slows down evenly, and
    has one speed from then on. On a map there must be a lane of the same direction where it drives before.

    Attributes:
        ahead_m: Distance along the path from the front of the AV of the log to the rear of the vehicle, until it moves.
        at_s: Seconds from the first frame on until it begins to move over.
        duration_s: How long that takes.
        side: Where it comes from: ``left``, ``right``, or ``either``, which is left where there is a lane.
        apart_m: Distance between the middle of the two lanes.
        speed_share: Its speed afterwards, as a share of that of the AV of the log at ``at_s``.
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
        path = av_path(scene, setting)
        driven_m, speed_mps = motion_at(scene, path, self.at_s)
        first_m = self.ahead_m + 0.5 * (setting.facts.ego_extent_m[0] + KINDS[self.kind].size_m[0])
        since_s = scene.times_s - self.at_s
        self._require_gentle(speed_mps)

        # from one speed to the other with the same acceleration all along: no car loses a third of its speed in a frame
        moving_s = np.clip(since_s, 0.0, self.duration_s)
        change_mps = (self.speed_share - 1.0) * speed_mps
        changed_m = change_mps * (since_s - moving_s + 0.5 * moving_s**2 / self.duration_s)
        onward_m = driven_m + speed_mps * since_s + changed_m
        arcs_m = first_m + np.where(since_s < 0, path.frame_arcs_m, onward_m)

        # half a wave of a cosine from the lane beside into that of the AV
        done = np.clip(since_s / self.duration_s, 0.0, 1.0)
        aside_m = 0.5 * self.apart_m * (1.0 + np.cos(np.pi * done))
        sign = self._sign(path, setting.driving_map, arcs_m[since_s < 0] if self.at_s > 0 else arcs_m[:1])
        return add_on_path(scene, setting, path, self.kind, arcs_m=arcs_m, left_m=sign * aside_m)

    def _require_gentle(self, speed_mps: float) -> None:
        """Refuse to move over so fast for a speed that the vehicle would stand across the lane.

        Raises:
            ImpossibleEditError: As above.
        """
        done = np.linspace(0.0, 1.0, 101)
        across_mps = 0.5 * np.pi * self.apart_m / self.duration_s * np.sin(np.pi * done)
        turn_rad = np.arctan2(across_mps, speed_mps * (1.0 + (self.speed_share - 1.0) * done)).max()
        if turn_rad > _STEEPEST_RAD:
            raise ImpossibleEditError(
                f"at {speed_mps:.1f} m/s the vehicle would turn by {np.rad2deg(turn_rad):.0f} degrees to move over "
                f"{self.apart_m:g} m in {self.duration_s:g} s, more than {np.rad2deg(_STEEPEST_RAD):.0f}; choose a "
                "larger duration_s or speed_share, or another at_s"
            )

    def _sign(self, path: AvPath, driving_map: DrivingMap | None, arcs_m: np.ndarray) -> float:
        """Return 1 for the left, -1 for the right: the first allowed side with a lane all along.

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

"""A pedestrian who steps out in front of the AV."""

from dataclasses import dataclass

import numpy as np

from l5kit.data.scene_arrays import SceneArrays
from l5kit.editing.av_path import av_path
from l5kit.editing.new_agents import KINDS, add_agents, boxes_of_frame, has_room
from l5kit.editing.scene_edit import (
    ImpossibleEditError,
    SceneEdit,
    SceneSetting,
    require_in_range,
    require_one_of,
)


@dataclass(frozen=True)
class PedestrianStepsOut(SceneEdit):
    """A pedestrian who waits beside the path of the AV and crosses it so late that the AV of the log hits them.

    They are in the middle of the path when the front of the AV of the log gets there, walk on to the other side, and
    stay there.

    Attributes:
        ahead_m: Distance along the path from the front of the AV in the first frame to where they cross.
        side: Where they come from, ``left`` or ``right``.
        aside_m: How far from the path they wait, and stop.
        pace_mps: How fast they walk.
        late_s: By how much later they are in the middle than the AV; below 0 for earlier, so that there is more time.

    Raises:
        InvalidArgumentError: A parameter is out of range.
    """

    ahead_m: float = 40.0
    side: str = "right"
    aside_m: float = 4.0
    pace_mps: float = 1.6
    late_s: float = 0.0

    def __post_init__(self) -> None:
        require_in_range(self, ahead_m=(0.0, 500.0), aside_m=(1.5, 20.0), pace_mps=(0.1, 10.0), late_s=(-60.0, 60.0))
        require_one_of(self, "side", ("left", "right"))

    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the scene with the pedestrian; see :meth:`SceneEdit.apply`."""
        kind, path = KINDS["pedestrian"], av_path(scene, setting)
        half_m = 0.5 * setting.facts.ego_extent_m[0]
        crossing_m = half_m + self.ahead_m

        # when the front of the AV gets there, between two frames, and when they have to start
        fronts_m = path.frame_arcs_m + half_m
        if fronts_m[-1] < crossing_m:
            raise ImpossibleEditError(
                f"the AV of the log does not get to {self.ahead_m:g} m ahead of where it begins: it drives "
                f"{path.frame_arcs_m[-1]:.1f} m; choose a smaller ahead_m"
            )
        frame = int(np.argmax(fronts_m >= crossing_m))
        before = max(frame - 1, 0)
        arrival_s = float(np.interp(crossing_m, fronts_m[[before, frame]], scene.times_s[[before, frame]]))
        start_s = arrival_s + self.late_s - self.aside_m / self.pace_mps
        if start_s < 0:
            raise ImpossibleEditError(
                f"the pedestrian would have to start {-start_s:.1f} s before the scene does; choose a larger "
                "ahead_m or pace_mps, or a smaller aside_m"
            )
        if start_s >= scene.times_s[-1]:
            raise ImpossibleEditError(
                f"the pedestrian would start after {start_s:.1f} s, and the scene lasts {scene.times_s[-1]:.1f} s; "
                "choose a smaller late_s or aside_m"
            )

        # from one side to the other, square to the path
        walked_m = np.clip((scene.times_s - start_s) * self.pace_mps, 0.0, 2 * self.aside_m)
        sign = 1.0 if self.side == "left" else -1.0
        arcs_m = np.full(scene.num_frames, crossing_m)
        positions_m, yaws_rad = path.poses_at(arcs_m, left_m=sign * (self.aside_m - walked_m))
        yaws_rad = yaws_rad - sign * 0.5 * np.pi
        box = np.array([*positions_m[0], yaws_rad[0], *kind.size_m[:2]])
        if not has_room(box, boxes_of_frame(scene, 0, setting)):
            raise ImpossibleEditError(
                f"somebody is {self.aside_m:g} m to the {self.side} of the path, where the pedestrian would wait; "
                "choose another ahead_m, aside_m or side"
            )
        return add_agents(scene, [kind], positions_m=positions_m[None], yaws_rad=yaws_rad[None])

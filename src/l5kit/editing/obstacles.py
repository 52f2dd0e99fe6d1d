"""Obstacles for the AV: a parked vehicle, cones that close its lane, a crossing pedestrian."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array
from l5kit.data.scene_arrays import SceneArrays
from l5kit.editing.av_path import AvPath
from l5kit.editing.new_agents import (
    KINDS,
    SEARCH_M,
    VEHICLES,
    AgentKind,
    add_agents,
    boxes_of_frame,
    centre_ahead_m,
    has_room,
)
from l5kit.editing.scene_edit import ImpossibleEditError, SceneEdit, SceneSetting, require_in_range, require_one_of
from l5kit.errors import InvalidArgumentError


@dataclass(frozen=True)
class ParkedVehicle(SceneEdit):
    """Parked vehicle on the path of the AV in all frames.

    If another road user occupies the position in the first frame, the vehicle is placed at the next metre along the
    path with room, up to 20 m further.

    Attributes:
        ahead_m: Distance along the path from the front of the AV in the first frame to the rear of the vehicle.
        left_m: Offset of its centre to the left of the path of the AV; negative to the right.
        kind: ``car``, ``van``, ``bus`` or ``truck``.

    Raises:
        InvalidArgumentError: A parameter is out of range.
    """

    ahead_m: float = 40.0
    left_m: float = 0.0
    kind: str = "bus"

    def __post_init__(self) -> None:
        require_in_range(self, ahead_m=(0.0, 500.0), left_m=(-20.0, 20.0))
        require_one_of(self, "kind", VEHICLES)

    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the scene with the vehicle; see :meth:`SceneEdit.apply`."""
        kind = KINDS[self.kind]
        centre_m = centre_ahead_m(kind, self.ahead_m, setting)
        return _add_standing(scene, setting, [kind], arcs_m=np.array([centre_m]), left_m=np.array([self.left_m]))


@dataclass(frozen=True)
class Cones(SceneEdit):
    """Slanting row of cones that closes the lane of the AV, and the trailer with the sign after the last cone.

    Drivers and scores skip objects of unknown class such as cones; the trailer counts. Room is searched as for
    :class:`ParkedVehicle`, for all objects together.

    Attributes:
        ahead_m: Distance along the path from the front of the AV in the first frame to the first cone.
        length_m: Length of the row along the path.
        count: Number of cones.
        from_left_m: Offset of the first cone to the left of the path of the AV; negative to the right.
        to_left_m: The same for the last cone; the others are on a line between them.
        has_trailer: Whether to add a trailer.

    Raises:
        InvalidArgumentError: A parameter is out of range.
    """

    ahead_m: float = 30.0
    length_m: float = 15.0
    count: int = 6
    from_left_m: float = -1.5
    to_left_m: float = 1.5
    has_trailer: bool = True

    def __post_init__(self) -> None:
        require_in_range(self, ahead_m=(0.0, 500.0), length_m=(0.0, 200.0), count=(1, 100))
        require_in_range(self, from_left_m=(-20.0, 20.0), to_left_m=(-20.0, 20.0))
        if not isinstance(self.count, int):
            raise InvalidArgumentError(f"Cones: count must be a whole number, got {self.count!r}")
        row_m, cone_m = float(np.hypot(self.length_m, self.to_left_m - self.from_left_m)), KINDS["cone"].size_m[0]
        if row_m < (self.count - 1) * np.sqrt(2.0) * cone_m:  # a diagonal apart, boxes never overlap at any angle
            raise InvalidArgumentError(
                f"Cones: {self.count} cones of {cone_m:g} m do not fit into a row of {row_m:.1f} m; choose a smaller "
                "count or a larger length_m"
            )

    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the scene with the cones; see :meth:`SceneEdit.apply`."""
        cone, trailer = KINDS["cone"], KINDS["trailer"]
        first_m = centre_ahead_m(cone, self.ahead_m, setting)
        arcs_m = np.linspace(first_m, first_m + self.length_m, self.count)
        left_m = np.linspace(self.from_left_m, self.to_left_m, self.count)
        kinds = [cone] * self.count
        if self.has_trailer:
            # a metre after the last cone, in the middle of the row
            behind_m = arcs_m[-1] + 0.5 * (cone.size_m[0] + trailer.size_m[0]) + 1.0
            kinds, arcs_m = [*kinds, trailer], np.append(arcs_m, behind_m)
            left_m = np.append(left_m, 0.5 * (self.from_left_m + self.to_left_m))
        return _add_standing(scene, setting, kinds, arcs_m=arcs_m, left_m=left_m)


@dataclass(frozen=True)
class PedestrianStepsOut(SceneEdit):
    """Pedestrian who waits next to the path of the AV and crosses it so late that the logged AV hits them.

    They reach the centre of the path at the same time as the front of the logged AV, walk on to the other side, and
    stop there.

    Attributes:
        ahead_m: Distance along the path from the front of the AV in the first frame to the crossing.
        side: Side they come from, ``left`` or ``right``.
        aside_m: Distance from the path at which they wait, and stop.
        pace_mps: Walking speed.
        late_s: Delay of their arrival behind that of the AV; negative if they are early, which leaves more time.

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
        kind, path = KINDS["pedestrian"], AvPath.of_scene(scene, setting.driving_map)
        half_m = 0.5 * setting.facts.ego_extent_m[0]
        crossing_m = half_m + self.ahead_m

        # arrival of the front of the AV, interpolated between frames, and start of the pedestrian
        fronts_m = path.frame_arcs_m + half_m
        if fronts_m[-1] < crossing_m:
            raise ImpossibleEditError(
                f"the AV of the log does not reach {self.ahead_m:g} m ahead of its start: it drives "
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
                f"the pedestrian would start after {start_s:.1f} s, but the scene lasts {scene.times_s[-1]:.1f} s; "
                "choose a smaller late_s or aside_m"
            )

        # from one side to the other, perpendicular to the path
        walked_m = np.clip((scene.times_s - start_s) * self.pace_mps, 0.0, 2 * self.aside_m)
        sign = 1.0 if self.side == "left" else -1.0
        arcs_m = np.full(scene.num_frames, crossing_m)
        positions_m, yaws_rad = path.poses_at(arcs_m, left_m=sign * (self.aside_m - walked_m))
        yaws_rad = yaws_rad - sign * 0.5 * np.pi
        box = np.array([*positions_m[0], yaws_rad[0], *kind.size_m[:2]])
        if not has_room(box, boxes_of_frame(scene, 0, setting)):
            raise ImpossibleEditError(
                f"a road user is {self.aside_m:g} m to the {self.side} of the path, where the pedestrian would wait; "
                "choose another ahead_m, aside_m or side"
            )
        return add_agents(scene, [kind], positions_m=positions_m[None], yaws_rad=yaws_rad[None])


def _add_standing(
    scene: SceneArrays, setting: SceneSetting, kinds: list[AgentKind], *, arcs_m: Float64Array, left_m: Float64Array
) -> SceneArrays:
    """Return a scene with K standing agents, shifted together along the path to a position with room for all.

    Args:
        scene: The scene.
        setting: Map and log facts of the scene.
        kinds: Kind of each agent.
        arcs_m: Arc length of each centre on the path of the AV, (K,).
        left_m: Offset of each to the left of the path, (K,).

    Raises:
        ImpossibleEditError: The path is too short, or there is no room.
    """
    path = AvPath.of_scene(scene, setting.driving_map)
    path.require_reach(float(arcs_m.max()), "the added agent")
    others = boxes_of_frame(scene, 0, setting)
    for shift_m in range(SEARCH_M + 1):
        positions_m, yaws_rad = path.poses_at(arcs_m + shift_m, left_m=left_m)
        boxes = np.column_stack([positions_m, yaws_rad, [kind.size_m[:2] for kind in kinds]])
        if arcs_m.max() + shift_m <= path.length_m and all(has_room(box, others) for box in boxes):
            shape = (len(kinds), scene.num_frames)
            return add_agents(
                scene,
                kinds,
                positions_m=np.broadcast_to(positions_m[:, None], (*shape, 2)).copy(),
                yaws_rad=np.broadcast_to(yaws_rad[:, None], shape).copy(),
            )
    raise ImpossibleEditError(
        f"there is no room from {arcs_m.min():.1f} m to {arcs_m.max() + SEARCH_M:.1f} m along the path of the AV: "
        "other road users are there in the first frame; choose another ahead_m or left_m"
    )

"""What stands in the way of the AV: a parked vehicle, and cones that close its lane."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array
from l5kit.data.scene_arrays import SceneArrays
from l5kit.editing.av_path import AvPath, av_path
from l5kit.editing.new_agents import KINDS, SEARCH_M, VEHICLES, AgentKind, add_agents, boxes_of_frame, has_room
from l5kit.editing.scene_edit import (
    ImpossibleEditError,
    SceneEdit,
    SceneSetting,
    require_in_range,
    require_one_of,
)
from l5kit.errors import InvalidArgumentError


@dataclass(frozen=True)
class ParkedVehicle(SceneEdit):
    """A vehicle that stands on the path of the AV in all frames.

    Where somebody is in the first frame, it stands at the next metre along the path that has room, up to 20 m further.

    Attributes:
        ahead_m: Distance along the path from the front of the AV in the first frame to the rear of the vehicle.
        left_m: How far its middle is to the left of the path of the AV; below 0 to the right.
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
        centre_m = self.ahead_m + 0.5 * (setting.facts.ego_extent_m[0] + kind.size_m[0])
        return _add_standing(scene, setting, [kind], arcs_m=np.array([centre_m]), left_m=np.array([self.left_m]))


@dataclass(frozen=True)
class Cones(SceneEdit):
    """Cones in a slanting row that closes the lane of the AV, and the trailer with the sign behind the last one.

    Drivers and scores leave out objects of unknown class, as the cones are; the trailer counts. Room is looked for as
    for :class:`ParkedVehicle`, for all of them together.

    Attributes:
        ahead_m: Distance along the path from the front of the AV in the first frame to the first cone.
        length_m: Length of the row along the path.
        count: Number of cones.
        from_left_m: How far the first cone is to the left of the path of the AV; below 0 to the right.
        to_left_m: The same of the last cone; those between lie on a line.
        has_trailer: Whether there is a trailer.

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
        if row_m < (self.count - 1) * np.sqrt(2.0) * cone_m:  # a diagonal apart, boxes do not overlap at any angle
            raise InvalidArgumentError(
                f"Cones: {self.count} cones of {cone_m:g} m do not fit into a row of {row_m:.1f} m; choose a smaller "
                "count or a larger length_m"
            )

    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the scene with the cones; see :meth:`SceneEdit.apply`."""
        cone, trailer = KINDS["cone"], KINDS["trailer"]
        first_m = self.ahead_m + 0.5 * (setting.facts.ego_extent_m[0] + cone.size_m[0])
        arcs_m = np.linspace(first_m, first_m + self.length_m, self.count)
        left_m = np.linspace(self.from_left_m, self.to_left_m, self.count)
        kinds = [cone] * self.count
        if self.has_trailer:
            # a metre behind the last cone, in the middle of the row
            behind_m = arcs_m[-1] + 0.5 * (cone.size_m[0] + trailer.size_m[0]) + 1.0
            kinds, arcs_m = [*kinds, trailer], np.append(arcs_m, behind_m)
            left_m = np.append(left_m, 0.5 * (self.from_left_m + self.to_left_m))
        return _add_standing(scene, setting, kinds, arcs_m=arcs_m, left_m=left_m)


def _add_standing(
    scene: SceneArrays, setting: SceneSetting, kinds: list[AgentKind], *, arcs_m: Float64Array, left_m: Float64Array
) -> SceneArrays:
    """Return a scene with K things that stand beside each other, moved on together to where all have room.

    Args:
        scene: The scene.
        setting: What is known beside it.
        kinds: What they are.
        arcs_m: Length of the path of the AV up to the middle of each, (K,).
        left_m: How far each is to the left of the path, (K,).

    Raises:
        ImpossibleEditError: The path is too short, or there is no room.
    """
    path = av_path(scene, setting)
    path.require_reach(float(arcs_m.max()), "what is added")
    others = boxes_of_frame(scene, 0, setting)
    for shift_m in range(SEARCH_M + 1):
        boxes = _boxes_on_path(path, kinds, arcs_m + shift_m, left_m)
        if arcs_m.max() + shift_m <= path.length_m and all(has_room(box, others) for box in boxes):
            shape = (len(kinds), scene.num_frames)
            return add_agents(
                scene,
                kinds,
                positions_m=np.broadcast_to(boxes[:, None, :2], (*shape, 2)).copy(),
                yaws_rad=np.broadcast_to(boxes[:, None, 2], shape).copy(),
            )
    raise ImpossibleEditError(
        f"there is no room from {arcs_m.min():.1f} m to {arcs_m.max() + SEARCH_M:.1f} m along the path of the AV: "
        "others are there in the first frame; choose another ahead_m or left_m"
    )


def _boxes_on_path(path: AvPath, kinds: list[AgentKind], arcs_m: Float64Array, left_m: Float64Array) -> Float64Array:
    """Return world x, y, yaw, length and width of things along a path, (K, 5)."""
    positions_m, yaws_rad = path.poses_at(arcs_m, left_m=left_m)
    return np.column_stack([positions_m, yaws_rad, [kind.size_m[:2] for kind in kinds]])

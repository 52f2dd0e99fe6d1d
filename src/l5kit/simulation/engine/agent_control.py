"""Control of agents: which of them a driver moves, from when on, who finds room, and what records hold then."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array, RecordArray
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.record_bytes import as_bytes
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.road_users import RoadUserGroup
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.simulation.engine.agent_rows import AgentsNow
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.track_table import Classes, require_classes
from l5kit.simulation.vehicle_models import VehicleStates

_CAR = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]


@dataclass(frozen=True, eq=False)
class DrivenTracks:
    """Which of the T tracks of a batch are driven.

    Attributes:
        may_drive: Those that may be, by all rules that do not change from frame to frame, (T,).
        is_driven: Those that were in the last step, (T,).
        was_driven: Those that were in any step, (T,).
        threshold: What the probability of a label must be above.
    """

    may_drive: BoolArray
    is_driven: BoolArray
    was_driven: BoolArray
    threshold: float

    @classmethod
    def of(cls, may_drive: BoolArray, threshold: float) -> "DrivenTracks":
        """Return tracks (T,) none of which was driven yet."""
        return cls(may_drive, np.zeros(len(may_drive), np.bool_), np.zeros(len(may_drive), np.bool_), threshold)

    def note(self, tracks: Int64Array) -> None:
        """Note those that are driven in this step, (K,)."""
        self.is_driven[:] = False
        self.is_driven[tracks] = True
        self.was_driven[tracks] = True


@dataclass(frozen=True)
class AgentControl:
    """Which agents a driver moves; the defaults are the rules of L5Kit 1.5.

    Attributes:
        classes: Which classes are driven.
        near_m: An agent that is not driven yet is driven from when it is closer to the AV than this, metres.
        far_m: One that is driven stays so while it is closer than this, metres.
        tracks: Returns which tracks of a batch may be driven at all, (T,); None for all.
        leaves_with_log: Whether an agent that is driven ends with the last frame of its track; else it goes on.
        waits_for_room: Whether an agent that would appear in a frame, and be driven, appears only when no box stands
            where the log has it then.
        keeps_rows: Whether rows of driven agents keep label and class and have a velocity; else they are cars for
            sure that have none, as in 1.5.

    Raises:
        InvalidArgumentError: A value is not possible.
    """

    classes: Classes = "cars"
    near_m: float = 15.0
    far_m: float = 30.0
    tracks: Callable[[SceneBatch], BoolArray] | None = None
    leaves_with_log: bool = False
    waits_for_room: bool = False
    keeps_rows: bool = False

    def __post_init__(self) -> None:
        require_classes("classes", self.classes)
        for name in ("near_m", "far_m"):
            if not getattr(self, name) >= 0:
                raise InvalidArgumentError(f"{name} is {getattr(self, name)}; it must be a distance from 0 on")

    @classmethod
    def of_traffic(
        cls, *, tracks: Callable[[SceneBatch], BoolArray] | None = None, classes: Classes = "vehicles"
    ) -> "AgentControl":
        """Return the rules for traffic that reacts: vehicles from 100 m of the AV on, for as long as the log has them.

        Args:
            tracks: Returns which tracks of a batch may be driven at all.
            classes: Which classes are driven.
        """
        return cls(classes, 100.0, math.inf, tracks, leaves_with_log=True, waits_for_room=True, keeps_rows=True)

    def begin(self, batch: SceneBatch) -> DrivenTracks:
        """Return which tracks of a batch may be driven, none of which was yet.

        Raises:
            InvalidArgumentError: ``tracks`` of this object gives no bool for each track.
        """
        tracks = batch.tracks
        may = tracks.is_of_classes(self.classes)
        if self.tracks is not None:
            chosen = self.tracks(batch)
            if np.shape(chosen) != (len(tracks),):
                raise InvalidArgumentError(
                    f"tracks must give one bool for each of the {len(tracks)} tracks, got shape {np.shape(chosen)}"
                )
            may &= chosen
        return DrivenTracks.of(may, batch.threshold)

    def choose(
        self, agents: AgentsNow, ego_positions_m: Float64Array, *, records: RecordArray, tracks: DrivenTracks
    ) -> Int64Array:
        """Return the rows of agents that are driven, ascending, (K,).

        Args:
            agents: All agents of the current frames of R scenes.
            ego_positions_m: World x and y of the AVs, (R, 2).
            records: Records of all agents.
            tracks: Who may be driven, and was.
        """
        is_chosen = np.zeros(len(agents), np.bool_)
        _mark_chosen(
            (agents.starts, agents.track_rows),
            agents.boxes,
            np.ascontiguousarray(ego_positions_m),
            (tracks.may_drive, tracks.is_driven),
            (float(self.near_m), float(self.far_m)),
            self.classes != "cars",
            is_chosen,
        )
        chosen: Int64Array = np.flatnonzero(is_chosen)
        if self.classes != "cars":
            is_of: BoolArray = agents.groups[chosen] != RoadUserGroup.NONE
        else:
            probabilities = records["label_probabilities"][agents.buffer_rows[chosen], _CAR]
            is_of = probabilities > np.float32(tracks.threshold)
        return np.asarray(chosen[is_of])

    def moved_records(self, records: RecordArray, moved: VehicleStates) -> RecordArray:
        """Return the records of K agents after a step.

        Args:
            records: What they were, ``AGENT_DTYPE``, (K,).
            moved: Where they are now.
        """
        if self.keeps_rows:
            after = as_bytes(records).copy().view(records.dtype)
            after["velocity"] = moved.velocities_mps
        else:
            after = np.zeros_like(records)
            after["extent"], after["track_id"] = records["extent"], records["track_id"]
            after["label_probabilities"][:, _CAR] = 1
        after["centroid"], after["yaw"] = moved.positions_m, moved.yaws_rad
        return after


@kernel_jit
def is_near(box: Float64Array, ego_position_m: Float64Array, reach_m: float) -> bool:
    """Return whether a road user has a length and is nearer to the AV than some metres."""
    return box[3] > 0 and _is_within(box, ego_position_m, reach_m)


@kernel_jit
def _is_within(box: Float64Array, ego_position_m: Float64Array, reach_m: float) -> bool:
    """Return whether a road user of any size is nearer to the AV than some metres."""
    x_m, y_m = box[0] - ego_position_m[0], box[1] - ego_position_m[1]
    return bool(math.sqrt(x_m * x_m + y_m * y_m) < reach_m)


@kernel_jit
def _mark_chosen(
    agents: tuple[Int64Array, Int64Array],
    boxes: Float64Array,
    ego_positions_m: Float64Array,
    tracks: tuple[BoolArray, BoolArray],
    reaches_m: tuple[float, float],
    needs_length: bool,
    is_chosen: BoolArray,
) -> None:
    """Mark the agents, but for their labels, that are driven."""
    (starts, track_rows), (may_drive, is_driven), (near_m, far_m) = agents, tracks, reaches_m
    for scene in range(len(starts) - 1):
        for row in range(starts[scene], starts[scene + 1]):
            track = track_rows[row]
            if track < 0 or not may_drive[track]:
                continue
            # drivers need to know how long a vehicle is; the networks of 1.5 are asked for cars of any size
            reach_m = far_m if is_driven[track] else near_m
            if needs_length:
                is_chosen[row] = is_near(boxes[row], ego_positions_m[scene], reach_m)
            else:
                is_chosen[row] = _is_within(boxes[row], ego_positions_m[scene], reach_m)


def find_blocked(
    starts: Int64Array, boxes: Float64Array, ego_boxes: Float64Array, is_there: BoolArray, is_new: BoolArray
) -> Int64Array:
    """Return the agents that would appear where a box stands, ascending, (K,).

    Of several that appear at the same place, the first in the order of the rows does.

    Args:
        starts: First of the N rows of each of R scenes and the end of the last one, (R + 1,).
        boxes: World x and y, yaw, length and width, (N, 5).
        ego_boxes: Those of the AVs, (R, 5).
        is_there: Which rows are road users that take room, (N,).
        is_new: Which of the rows appear, (N,).
    """
    is_blocked = np.zeros(len(boxes), np.bool_)
    if is_new.any():
        mark_blocked(starts, boxes, ego_boxes, is_there, is_new, is_blocked)
    return np.flatnonzero(is_blocked)


@kernel_jit
def mark_blocked(
    starts: Int64Array,
    boxes: Float64Array,
    ego_boxes: Float64Array,
    is_there: BoolArray,
    is_new: BoolArray,
    is_blocked: BoolArray,
) -> None:
    """Mark the rows that appear where a box stands; arguments as for :func:`find_blocked`."""
    for scene in range(len(starts) - 1):
        ends = starts[scene], starts[scene + 1]
        mark_blocked_rows(ends[0], ends[1], boxes, ego_boxes[scene], is_there, is_new, is_blocked)


@kernel_jit
def mark_blocked_rows(
    first: int,
    stop: int,
    boxes: Float64Array,
    ego_box: Float64Array,
    is_there: BoolArray,
    is_new: BoolArray,
    is_blocked: BoolArray,
) -> None:
    """Mark the rows of a scene that appear where a box stands; they are those from ``first`` to ``stop``."""
    for row in range(first, stop):
        if not is_new[row]:
            continue
        is_blocked[row] = boxes_overlap(boxes[row], ego_box)
        for other in range(first, stop):
            if is_blocked[row]:
                break
            # of those that appear only the ones before it, and only if they found room themselves
            stands = is_there[other] and other != row and not is_blocked[other]
            if stands and (other < row or not is_new[other]):
                is_blocked[row] = boxes_overlap(boxes[row], boxes[other])

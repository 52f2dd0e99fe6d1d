"""Control of agents: which agents a driver moves, room for new agents, and records after a step."""

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
    """Control status of the T tracks of a batch.

    Attributes:
        may_drive: Tracks that may be driven by all rules that do not change from frame to frame, (T,).
        is_driven: Tracks that were driven in the last step, (T,).
        was_driven: Tracks that were driven in any step, (T,).
        threshold: An agent has a class if the probability of its label is above this.
    """

    may_drive: BoolArray
    is_driven: BoolArray
    was_driven: BoolArray
    threshold: float

    @classmethod
    def of(cls, may_drive: BoolArray, threshold: float) -> "DrivenTracks":
        """Return the status of tracks (T,) before any step."""
        return cls(may_drive, np.zeros(len(may_drive), np.bool_), np.zeros(len(may_drive), np.bool_), threshold)

    def note(self, tracks: Int64Array) -> None:
        """Set the tracks that are driven in this step, (K,)."""
        self.is_driven[:] = False
        self.is_driven[tracks] = True
        self.was_driven[tracks] = True


@dataclass(frozen=True)
class AgentControl:
    """Selection of agents that a driver moves; the defaults are the rules of L5Kit 1.5.

    Attributes:
        classes: Classes that are driven.
        near_m: An agent becomes driven when it is closer to the AV than this, metres.
        far_m: A driven agent stays driven while it is closer to the AV than this, metres.
        tracks: Returns the mask of tracks of a batch that may be driven, (T,); None for all.
        leaves_with_log: Whether a driven agent disappears after the last logged frame of its track; otherwise it
            continues.
        waits_for_room: Whether a new agent that would be driven appears only when its logged position is free.
        keeps_rows: Whether rows of driven agents keep label and class and have a velocity; otherwise they become cars
            without velocity, as in 1.5.

    Raises:
        InvalidArgumentError: A value is invalid.
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
        """Return the rules for reactive traffic: vehicles within 100 m of the AV, for as long as the log has them.

        Args:
            tracks: Returns the mask of tracks of a batch that may be driven.
            classes: Classes that are driven.
        """
        return cls(classes, 100.0, math.inf, tracks, leaves_with_log=True, waits_for_room=True, keeps_rows=True)

    def begin(self, batch: SceneBatch) -> DrivenTracks:
        """Return the initial control status of the tracks of a batch.

        Raises:
            InvalidArgumentError: ``tracks`` of this object does not return one bool for each track.
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
            tracks: Control status of the tracks.
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
            records: Previous records, ``AGENT_DTYPE``, (K,).
            moved: States after the step.
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
    """Return whether a road user has a length and is within a distance of the AV."""
    return box[3] > 0 and _is_within(box, ego_position_m, reach_m)


@kernel_jit
def _is_within(box: Float64Array, ego_position_m: Float64Array, reach_m: float) -> bool:
    """Return whether a road user of any size is within a distance of the AV."""
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
    """Mark the agents that are driven, before the check of their labels."""
    (starts, track_rows), (may_drive, is_driven), (near_m, far_m) = agents, tracks, reaches_m
    for scene in range(len(starts) - 1):
        for row in range(starts[scene], starts[scene + 1]):
            track = track_rows[row]
            if track < 0 or not may_drive[track]:
                continue
            # drivers need the length of a vehicle; the networks of 1.5 drive cars of any size
            reach_m = far_m if is_driven[track] else near_m
            if needs_length:
                is_chosen[row] = is_near(boxes[row], ego_positions_m[scene], reach_m)
            else:
                is_chosen[row] = _is_within(boxes[row], ego_positions_m[scene], reach_m)


def find_blocked(
    starts: Int64Array, boxes: Float64Array, ego_boxes: Float64Array, is_there: BoolArray, is_new: BoolArray
) -> Int64Array:
    """Return the agents that would appear on top of a box, ascending, (K,).

    Of several that appear at the same position, only the first row appears.

    Args:
        starts: First of the N rows of each of R scenes and the end of the last one, (R + 1,).
        boxes: World x and y, yaw, length and width, (N, 5).
        ego_boxes: Boxes of the AVs, (R, 5).
        is_there: Mask of the rows that are road users and take room, (N,).
        is_new: Mask of the rows that appear, (N,).
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
    """Mark the rows that would appear on top of a box; arguments as for :func:`find_blocked`."""
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
    """Mark the rows ``first`` to ``stop`` of a scene that would appear on top of a box."""
    for row in range(first, stop):
        if not is_new[row]:
            continue
        is_blocked[row] = boxes_overlap(boxes[row], ego_box)
        for other in range(first, stop):
            if is_blocked[row]:
                break
            # of the new rows only earlier ones count, and only if they found room themselves
            stands = is_there[other] and other != row and not is_blocked[other]
            if stands and (other < row or not is_new[other]):
                is_blocked[row] = boxes_overlap(boxes[row], boxes[other])

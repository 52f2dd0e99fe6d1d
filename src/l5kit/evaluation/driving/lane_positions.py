"""Lanes of the AV in each frame: the lane it drives on, and whether it reaches into others."""

from dataclasses import dataclass

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.geometry.box import compute_box_outline
from l5kit.geometry.polygon import is_inside_polygon, project_on_line
from l5kit.geometry.relative_pose import turn_between
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.road_surface import RoadSurface, write_lanes_at

_ALL_CORNERS = 0b1111


@dataclass(frozen=True, eq=False)
class LanePositions(ReadOnlyArrays):
    """Positions of the AV on the lanes of a map, in S scenes of up to F frames.

    Attributes:
        lanes: The lane that the AV drives on, -1 for none, int64 (S, F). Among the lanes that contain the centre of its
            box, the first choice is the lane of the previous frame, the second a successor of it, the third the lane
            with the closest heading, then the first in the map.
        is_across: Whether its corners lie neither in one lane nor in successive lanes, bool (S, F).
        is_in_junction: Whether a lane of a junction contains the middle of its rear axle, bool (S, F).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    lanes: Int64Array
    is_across: BoolArray
    is_in_junction: BoolArray

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.lanes.shape
        require_shapes(self, is_across=shape, is_in_junction=shape)

    @classmethod
    def unknown(cls, shape: tuple[int, ...]) -> "LanePositions":
        """Return positions without a map: on no lane and across none, (S, F)."""
        return cls(np.full(shape, -1, np.int64), np.zeros(shape, np.bool_), np.zeros(shape, np.bool_))

    def require_shape(self, shape: tuple[int, ...]) -> None:
        """Require the shape (S, F) of the states.

        Raises:
            InvalidArgumentError: The positions have another shape.
        """
        if self.lanes.shape != shape:
            raise InvalidArgumentError(
                f"LanePositions: states of shape {shape} need positions of the same shape, got {self.lanes.shape}"
            )


def find_lane_positions(states: EgoStates, driving_map: DrivingMap | None) -> LanePositions:
    """Return the lanes of the AV; without a map it is on no lane and across none."""
    shape = states.is_there.shape
    if driving_map is None:
        return LanePositions.unknown(shape)
    lanes, points_m = np.full(shape, -1, np.int64), states.positions_m.reshape(-1, 2)
    _write_chosen_lanes(
        points_m,
        states.yaws_rad.reshape(-1),
        states.num_frames,
        driving_map.lanes_at(points_m),
        driving_map.centre_lines_m,
        (driving_map.ahead_starts, driving_map.ahead_rows),
        lanes,
    )
    # corners in padding are masked below
    corners_m = _corners_of(states.boxes).reshape(-1, 4, 2)
    is_across, room = np.zeros(len(corners_m), np.bool_), np.empty(room_for_lanes(driving_map, 1), np.int64)[0]
    _write_across(driving_map.surface, corners_m, room, is_across)
    return LanePositions(
        lanes=lanes,
        is_across=is_across.reshape(shape) & states.is_there,
        is_in_junction=are_in_junction(states.rear_axles_m, driving_map) & states.is_there,
    )


def are_in_several_lanes(boxes: Float64Array, driving_map: DrivingMap) -> BoolArray:
    """Return whether boxes are in several lanes by the rule of NAVSIM: two lanes contain corners, and none all four.

    Unlike for :attr:`LanePositions.is_across`, successive lanes count as several. A box whose corners are either in
    one lane or off the road is in a single lane.

    Args:
        boxes: World x and y, yaw, length and width, (..., 5).
        driving_map: The map.

    Returns:
        A mask, (...,).
        (...,).
    """
    rows, starts = driving_map.lanes_at(_corners_of(boxes).reshape(-1, 2))
    is_in_several = np.zeros(boxes.shape[:-1], np.bool_)
    _write_several(rows, starts, is_in_several.reshape(-1))
    return is_in_several


def are_in_junction(points_m: Float64Array, driving_map: DrivingMap) -> BoolArray:
    """Return whether points, world x and y (..., 2), are in a lane of a junction, (...,)."""
    one_kind = np.zeros(1, np.int64)
    is_inside = driving_map.hold_tracks(points_m.reshape(1, -1, 2), driving_map.is_in_junction[None], one_kind)
    return is_inside.reshape(points_m.shape[:-1])


def _corners_of(boxes: Float64Array) -> Float64Array:
    """Return the corners of boxes (..., 5), (..., 4, 2)."""
    return compute_box_outline(boxes[..., :2], boxes[..., 2], boxes[..., 3:])


def room_for_lanes(driving_map: DrivingMap | None, num_slots: int) -> tuple[int, int, int]:
    """Return the shape of the int64 buffer that :func:`is_across_lanes` needs for ``num_slots`` boxes at a time."""
    return num_slots, 5, max(5, 0 if driving_map is None else driving_map.most_lanes_of_corners)


@kernel_jit
def _is_ahead(ahead: tuple[Int64Array, Int64Array], lane: int, other: int) -> bool:
    """Return whether a lane follows another without a lane change."""
    starts, rows = ahead
    is_ahead = False
    for slot in range(starts[lane], starts[lane + 1]):
        is_ahead |= rows[slot] == other
    return is_ahead


@kernel_jit
def turn_to_line(line: Float64Array, point_m: Float64Array, yaw_rad: float) -> float:
    """Return the absolute angle between a heading and a line at its nearest point to a given one, 0 to pi.

    Args:
        line: Points in metres, float64 (N, 2), N >= 2.
        point_m: The given point, float64 (2,).
        yaw_rad: The heading.
    """
    edge, _ = project_on_line(line, point_m)
    heading = np.arctan2(line[edge + 1, 1] - line[edge, 1], line[edge + 1, 0] - line[edge, 0])
    return turn_between(heading, yaw_rad)


@kernel_jit
def _write_chosen_lanes(
    points_m: Float64Array,
    yaws_rad: Float64Array,
    num_frames: Int64Array,
    lanes_of_points: tuple[Int64Array, Int64Array],
    centre_lines_m: Float64Array,
    ahead: tuple[Int64Array, Int64Array],
    lanes: Int64Array,
) -> None:
    """Write the lane of each frame, (S, F); ``lanes_of_points`` lists the lanes that contain each point."""
    rows, starts = lanes_of_points
    for scene in range(len(num_frames)):
        before = -1
        for frame in range(num_frames[scene]):
            point = scene * lanes.shape[1] + frame
            chosen, chosen_rank, chosen_turn = -1, 3, np.inf
            # rank before angle: the lane of the previous frame, then its successors, then any other
            for slot in range(starts[point], starts[point + 1]):
                lane = rows[slot]
                rank = 2
                if before >= 0 and (lane == before or _is_ahead(ahead, before, lane)):
                    rank = 0 if lane == before else 1
                turn = turn_to_line(centre_lines_m[lane], points_m[point], yaws_rad[point])
                if rank < chosen_rank or (rank == chosen_rank and turn < chosen_turn):
                    chosen, chosen_rank, chosen_turn = lane, rank, turn
            lanes[scene, frame] = chosen
            before = chosen


@kernel_jit
def _write_across(surface: RoadSurface, corners_m: Float64Array, room: Int64Array, is_across: BoolArray) -> None:
    """Mark frames (N,) whose four corners (N, 4, 2) lie neither in one lane nor in successive lanes."""
    # most boxes lie in the lane of the previous frame, which is tested without searching lanes for each corner
    before, room[1, 0:2] = -1, 0
    for frame in range(len(is_across)):
        is_in_one = before >= 0
        for corner in range(4):
            if is_in_one:
                line_m = surface.points_m[surface.starts[before] : surface.starts[before + 1]]
                is_in_one = is_inside_polygon(line_m, corners_m[frame, corner])
        if is_in_one:
            continue
        is_across[frame] = is_across_lanes(surface, corners_m[frame], room)
        rows, starts = room[0], room[1]
        before = rows[0] if starts[1] > 0 else -1


@kernel_jit
def is_across_lanes(surface: RoadSurface, corners_m: Float64Array, room: Int64Array) -> bool:
    """Return whether corners (4, 2) lie neither in one lane nor in successive lanes; never without a map.

    Args:
        surface: The map.
        corners_m: World x and y.
        room: A buffer, one slot of the shape of :func:`room_for_lanes`.
    """
    if len(surface.starts) == 0:
        return False
    rows, starts, lanes, corners, reached = room[0], room[1], room[2], room[3], room[4]
    starts[0] = 0
    for corner in range(4):
        starts[corner + 1] = starts[corner] + write_lanes_at(surface, corners_m[corner], rows[starts[corner] :])

    # Collect the lanes that contain corners, with a bit for each corner, and their successors, which may connect them.
    # One step suffices: between two lanes with corners lies at most one lane without.
    num_lanes = 0
    for corner in range(4):
        for slot in range(starts[corner], starts[corner + 1]):
            num_lanes = _put_lane(rows[slot], 1 << corner, lanes, corners, num_lanes)
    ahead_starts, ahead_rows = surface.ahead
    for index in range(num_lanes):
        for slot in range(ahead_starts[lanes[index]], ahead_starts[lanes[index] + 1]):
            num_lanes = _put_lane(ahead_rows[slot], 0, lanes, corners, num_lanes)

    # For each lane, the sets of corners covered by chains that end there, as one bit per set. Each round extends the
    # chains by at least one lane, so as many rounds as lanes suffice.
    for index in range(num_lanes):
        reached[index] = 1 << corners[index]
    for _ in range(num_lanes):
        for index in range(num_lanes):
            if reached[index] >> _ALL_CORNERS & 1:  # a chain covers all corners
                return False
        for index in range(num_lanes):
            for other in range(num_lanes):
                if index != other and _is_ahead(surface.ahead, lanes[index], lanes[other]):
                    for held in range(_ALL_CORNERS + 1):
                        if reached[index] >> held & 1:
                            reached[other] |= 1 << (held | corners[other])
    return True


@kernel_jit
def _write_several(rows: Int64Array, starts: Int64Array, is_in_several: BoolArray) -> None:
    """Mark boxes (N,) with corners (4 N,) in at least two lanes, none of which contains all four."""
    for box in range(len(is_in_several)):
        first, end = starts[4 * box], starts[4 * box + 4]
        are_several, one_holds_all = False, False
        for slot in range(first, end):
            are_several = are_several or rows[slot] != rows[first]
            num_held = 0
            for other in range(first, end):
                num_held += rows[other] == rows[slot]
            one_holds_all = one_holds_all or num_held == 4
        is_in_several[box] = are_several and not one_holds_all


@kernel_jit
def _put_lane(lane: int, held: int, lanes: Int64Array, corners: Int64Array, num_lanes: int) -> int:
    """Add corners of a lane, appending the lane if it is new, and return the number of lanes."""
    index = 0
    while index < num_lanes and lanes[index] != lane:
        index += 1
    if index < num_lanes:
        corners[index] |= held
        return num_lanes
    lanes[index], corners[index] = lane, held
    return num_lanes + 1

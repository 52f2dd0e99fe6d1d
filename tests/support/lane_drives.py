"""Checks of drives without knowledge of the drivers' paths: red lights passed, and rear collisions."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import BoolArray, Float64Array
from l5kit.data.scene_records import SceneRecords
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.red_lights import RED, LaneColors

STEP_S = 0.1
FORGIVEN_M = 0.3
"""Way in which a vehicle that could just not stop is forgiven."""


@dataclass(frozen=True)
class SceneDrives:
    """Boxes of N vehicles in F frames, x, y, yaw, length, width, (F, N, 5), NaN for absent ones; which are driven."""

    boxes: Float64Array
    is_driven: BoolArray
    names: list[int]

    @property
    def ways_m(self) -> Float64Array:
        """How far each has come until a frame, (F, N)."""
        steps_m = np.linalg.norm(np.diff(self.boxes[..., :2], axis=0), axis=-1)
        return np.concatenate([np.zeros((1, len(self.names))), np.nancumsum(steps_m, axis=0)])

    @property
    def fronts_m(self) -> Float64Array:
        """The middle of the front, (F, N, 2)."""
        yaws = self.boxes[..., 2]
        return self.boxes[..., :2] + 0.5 * self.boxes[..., 3:4] * np.stack([np.cos(yaws), np.sin(yaws)], axis=-1)


def drives_of_agents(records: SceneRecords, driven: set[int], states: EgoStates, scene: int) -> SceneDrives:
    """Return the drives of the agents of a scene, followed by that of the AV, which is not checked."""
    intervals = records.frames["agent_index_interval"] - records.frames["agent_index_interval"][0, 0]
    agents = records.agents
    names, numbers = np.unique(agents["track_id"], return_inverse=True)
    boxes = np.full((len(intervals), len(names) + 1, 5), np.nan)
    frames = np.repeat(np.arange(len(intervals)), np.diff(intervals, axis=1)[:, 0])
    boxes[frames, numbers] = np.column_stack([agents["centroid"], agents["yaw"], agents["extent"][:, :2]])
    boxes[:, -1] = states.boxes[scene, : len(intervals)]
    is_driven = np.array([*(int(name) in driven for name in names), False])
    return SceneDrives(boxes, is_driven, [*names.tolist(), -1])


def drives_of_av(records: SceneRecords, states: EgoStates, scene: int) -> SceneDrives:
    """Return the same with the AV alone as the one that is looked at."""
    drives = drives_of_agents(records, set(), states, scene)
    return SceneDrives(drives.boxes, np.arange(len(drives.names)) == len(drives.names) - 1, drives.names)


def find_red_crossings(
    drives: SceneDrives, driving_map: DrivingMap, colors: LaneColors, first_frame: int, braking_mps2: float
) -> tuple[int, list[tuple[int, int]]]:
    """Return how often a front left a lane with a red light, and names and frames of vehicles that could have stopped.

    A red lane is left if the front is in it in that frame, and a step later in a lane that follows it. A vehicle could
    have stopped if braking at b from the first red frame, or from its own first frame, stops it before the line.
    """
    num_frames = len(drives.boxes)
    red = np.zeros((num_frames, driving_map.num_lanes), np.bool_)
    lit: set[int] = set()
    for frame in range(num_frames):
        rows = slice(*colors.starts[first_frame + frame : first_frame + frame + 2])
        red[frame, colors.lanes[rows][colors.ranks[rows] == RED]] = True
        lit |= set(colors.lanes[rows].tolist())
    count, found, ways_m, fronts_m = 0, [], drives.ways_m, drives.fronts_m
    for vehicle in np.flatnonzero(drives.is_driven):
        there = np.flatnonzero(np.isfinite(drives.boxes[:, vehicle, 0]))
        lanes, starts = driving_map.lanes_at(fronts_m[there, vehicle])
        held = [set(lanes[slice(*starts[row : row + 2])].tolist()) for row in range(len(there))]
        for row in range(len(there) - 1):
            for lane in (held[row] & lit) - held[row + 1]:
                if there[row + 1] != there[row] + 1 or driving_map.has_line_at_start[lane]:
                    continue
                if not held[row + 1] & set(driving_map.ahead_of(lane).tolist()):
                    continue
                count += 1
                frame = there[row]
                if not red[frame, lane]:
                    continue
                change = max(_first_of_run(red[: frame + 1, lane]), there[0])
                way_m = ways_m[frame + 1, vehicle] - ways_m[change, vehicle]
                speed_mps = _first_speed_mps(ways_m[change:, vehicle])
                if speed_mps**2 / (2 * braking_mps2) + FORGIVEN_M < way_m:
                    found.append((drives.names[vehicle], int(frame)))
    return count, found


def _first_speed_mps(ways_m: Float64Array) -> float:
    """Return the speed in the first of some frames; the mean speed of the next step is lower for a braking vehicle."""
    steps_mps = np.diff(ways_m[:3]) / STEP_S
    return float(steps_mps[0] + 0.5 * (steps_mps[0] - steps_mps[-1]))


def _first_of_run(is_so: BoolArray) -> int:
    """Return since when something is so that is so at the end."""
    before = np.flatnonzero(~is_so)
    return int(before[-1]) + 1 if len(before) else 0


def find_rear_hits(drives: SceneDrives, braking_mps2: float) -> tuple[int, list[tuple[int, int, int]]]:
    """Return how often a driven vehicle hit another with its front, and names and frames where braking at b sufficed.

    The other vehicle is in the way while its box meets the boxes that the vehicle drives over from then on and no other
    box does so before: a vehicle hides those behind it. Braking at b starts in the first of these frames, along the
    same path.
    """
    boxes, count, found = drives.boxes, 0, []
    radii_m = 0.5 * np.linalg.norm(boxes[..., 3:], axis=-1)
    for vehicle in np.flatnonzero(drives.is_driven):
        far_m = np.linalg.norm(boxes[..., :2] - boxes[:, vehicle : vehicle + 1, :2], axis=-1)
        is_near = far_m < radii_m + radii_m[:, vehicle : vehicle + 1]
        is_near[:, vehicle] = False
        for other in np.flatnonzero(is_near.any(axis=0)):
            meets = [boxes_overlap(boxes[f, vehicle], boxes[f, other]) for f in np.flatnonzero(is_near[:, other])]
            if not any(meets):
                continue
            frame = int(np.flatnonzero(is_near[:, other])[int(np.argmax(meets))])
            if not _meets_with_front(boxes[frame, vehicle], boxes[frame, other]):
                continue
            count += 1
            if _could_brake(boxes, vehicle, other, frame, braking_mps2):
                found.append((drives.names[vehicle], drives.names[other], frame))
    return count, found


def _meets_with_front(box: Float64Array, other: Float64Array) -> bool:
    """Return whether the front quarter of a box overlaps another, and its rear half does not."""
    ahead = np.array([np.cos(box[2]), np.sin(box[2])])
    front, rear = box.copy(), box.copy()
    front[:2], front[3] = box[:2] + 0.375 * box[3] * ahead, 0.25 * box[3]
    rear[:2], rear[3] = box[:2] - 0.25 * box[3] * ahead, 0.5 * box[3]
    return bool(boxes_overlap(front, other) and not boxes_overlap(rear, other))


def _could_brake(boxes: Float64Array, vehicle: int, other: int, frame: int, braking_mps2: float) -> bool:
    """Return whether braking at b from the first frame in which the other is in the way keeps the two apart."""
    own, others = boxes[:, vehicle], boxes[:, other]
    there = np.flatnonzero(np.isfinite(own[:, 0]))
    first = frame
    while first > there[0] and _is_first_in_way(own[first - 1 : frame + 1], boxes[first - 1], vehicle, other):
        first -= 1
    if first == frame:
        return False
    way = own[first : there[-1] + 1]
    ways_m = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(way[:, :2], axis=0), axis=-1))])
    speed_mps = _first_speed_mps(ways_m)
    for step in range(len(way)):
        time_s = min(step * STEP_S, speed_mps / braking_mps2)
        braked_m = speed_mps * time_s - 0.5 * braking_mps2 * time_s**2 + FORGIVEN_M * min(step, 1)
        place = min(int(np.searchsorted(ways_m, braked_m)), len(way) - 1)
        if np.isfinite(others[first + step, 0]) and boxes_overlap(way[place], others[first + step]):
            return False
    return True


def _is_first_in_way(way: Float64Array, boxes: Float64Array, vehicle: int, other: int) -> bool:
    """Return whether, of boxes (N, 5) with NaN for none, that of another is the first that a way of a vehicle meets."""
    radii_m = 0.5 * np.linalg.norm(boxes[:, 3:], axis=-1)
    far_m = np.linalg.norm(way[:, None, :2] - boxes[:, :2], axis=-1)
    is_near = far_m < radii_m + radii_m[vehicle]
    is_near[:, vehicle] = False
    for place in range(len(way)):
        if is_near[place, other] and boxes_overlap(way[place], boxes[other]):
            return True
        if any(boxes_overlap(way[place], boxes[near]) for near in np.flatnonzero(is_near[place])):
            return False
    return False

"""Tags that need a map: stops at red lights, lane changes, and crossings without a light."""

from collections.abc import Sequence

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.evaluation.driving.ego_states import EgoArrays, EgoStates
from l5kit.evaluation.driving.lane_positions import LanePositions, turn_to_line
from l5kit.evaluation.driving.road_users import RoadUserArrays, RoadUserGroup, RoadUsers
from l5kit.evaluation.scene_tags.tag_map import TagMap
from l5kit.evaluation.scene_tags.tag_table import TagThresholds, find_runs
from l5kit.geometry.box_overlap import boxes_overlap
from l5kit.geometry.relative_pose import turn_between
from l5kit.lanes.driving_map import DrivingMap

_OTHER = int(RoadUserGroup.OTHER)


def find_stops_at_red(
    states: EgoStates,
    lane_positions: LanePositions,
    red_lanes: Sequence[Int64Array],
    *,
    standing: Int64Array,
    driving_map: DrivingMap,
    thresholds: TagThresholds,
) -> Int64Array:
    """Return the runs (R, 2) of frames in which the AV stands at a red light.

    Args:
        states: One scene.
        lane_positions: Lanes of the AV.
        red_lanes: Lanes with a red light in each frame.
        standing: Runs in which the AV stands, (any, 2).
        driving_map: The lanes.
        thresholds: Thresholds of the definitions.
    """
    lanes, num_frames = lane_positions.lanes[0], states.is_there.shape[1]
    along_m = driving_map.arcs_on_lanes_m(states.positions_m[0], lanes)
    # the next other lane after each frame, -1 for none, from the last frame to the first
    later = np.full(num_frames, -1, np.int64)
    for frame in range(num_frames - 2, -1, -1):
        later[frame] = later[frame + 1] if lanes[frame + 1] in (lanes[frame], -1) else lanes[frame + 1]
    # frames in which the AV stands: the cumulative sum of 1 at the start of a run and -1 after its end
    steps = np.zeros(num_frames + 1, np.int64)
    np.add.at(steps, standing[:, 0], 1)
    np.add.at(steps, standing[:, 1], -1)
    stands = np.cumsum(steps[:-1]) > 0
    is_marked = np.zeros(num_frames, np.bool_)
    for frame in np.flatnonzero(stands & (lanes >= 0)).tolist():
        red = set(red_lanes[frame].tolist())
        if red:
            lane, arc_m = int(lanes[frame]), float(along_m[frame])
            reach_m = thresholds.light_ahead_m + 0.5 * states.body.length_m + arc_m
            is_begun = driving_map.has_line_at_start[lane] and lane in red and arc_m <= thresholds.light_behind_m
            is_marked[frame] = is_begun or _leads_to(driving_map, red, lane, wanted=int(later[frame]), reach_m=reach_m)
    return find_runs(is_marked, states.timestamps_s[0], merge_s=thresholds.merge_s)


def find_lane_changes(
    states: EgoStates, lane_positions: LanePositions, *, driving_map: DrivingMap, thresholds: TagThresholds
) -> Int64Array:
    """Return the runs (R, 2) of frames of lane changes: the last frame on the old lane and the first on the new one.

    Both lanes are in one road segment, not in a junction, and neither follows the other; the AV stays on each of them
    for a while, and drives along the new one.
    """
    lanes, times_s = lane_positions.lanes[0], states.timestamps_s[0]
    changes = np.flatnonzero(lanes[1:] != lanes[:-1]) + 1
    bounds = np.concatenate([[0], changes, [len(lanes)]])
    runs = []
    for number, frame in enumerate(changes.tolist()):
        before, after = int(lanes[frame - 1]), int(lanes[frame])
        before_s = times_s[frame] - times_s[bounds[number]]
        after_s = times_s[bounds[number + 2] - 1] - times_s[frame]
        is_held = min(before_s, after_s) >= thresholds.lane_hold_s - 1e-9
        if not is_held or min(before, after) < 0 or driving_map.parents[before] != driving_map.parents[after]:
            continue
        follows = after in driving_map.ahead_of(before) or before in driving_map.ahead_of(after)
        if not follows and not driving_map.is_in_junction[[before, after]].any():
            line, point_m = driving_map.centre_lines_m[after], states.positions_m[0, frame]
            if turn_to_line(line, point_m, states.yaws_rad[0, frame]) <= np.radians(thresholds.same_way_deg):
                runs.append((frame - 1, frame + 1))
    return np.array(runs, np.int64).reshape(-1, 2)


def find_unprotected_crossings(
    states: EgoStates,
    road_users: RoadUsers,
    lane_positions: LanePositions,
    *,
    tag_map: TagMap,
    thresholds: TagThresholds,
) -> Int64Array:
    """Return the runs (R, 2) of frames in which another road user crosses the path of the AV shortly before or after.

    The AV is on a lane of a junction without a light, and both move. The time between them is the post-encroachment
    time: between the frames in which the boxes of both are at the same position.
    """
    lanes, times_s = lane_positions.lanes[0], states.timestamps_s[0]
    # a map may have no lanes, so index only with frames on a lane
    is_open = (lanes >= 0) & (states.speeds_mps[0] >= thresholds.moving_mps)
    open_lanes = lanes[is_open]
    is_open[is_open] = tag_map.driving_map.is_in_junction[open_lanes] & ~tag_map.has_light[open_lanes]
    is_marked = np.zeros(len(lanes), np.bool_)
    _mark_crossings(
        states.arrays,
        is_open,
        road_users.arrays,
        road_users.speeds_mps,
        (thresholds.moving_mps, np.radians(thresholds.crossing_deg), thresholds.crossing_s),
        is_marked,
    )
    return find_runs(is_marked, times_s, merge_s=thresholds.merge_s)


def _leads_to(driving_map: DrivingMap, red: set[int], lane: int, *, wanted: int, reach_m: float) -> bool:
    """Return whether a red light is within ``reach_m`` of the start of a lane; ``wanted`` is the lane driven on next.

    The stop line of a lane is at its end or at its start, as ``driving_map`` says.
    """
    length_m = float(driving_map.arc_lengths_m[lane, -1])
    if length_m > reach_m:
        return False
    if lane in red and not driving_map.has_line_at_start[lane]:
        return True
    ahead = driving_map.ahead_of(lane).tolist()
    ahead = [wanted] if wanted in ahead else ahead
    if any(other in red and driving_map.has_line_at_start[other] for other in ahead):
        return True
    left_m = reach_m - length_m
    return length_m > 0 and any(
        _leads_to(driving_map, red, other, wanted=-1, reach_m=left_m) for other in ahead if other != lane
    )


@kernel_jit
def _mark_crossings(
    ego: EgoArrays,
    is_open: BoolArray,
    others: RoadUserArrays,
    speeds_mps: Float64Array,
    limits: tuple[float, float, float],
    is_marked: BoolArray,
) -> None:
    """Mark the open frames of a scene whose box is crossed by another road user in a frame close in time."""
    boxes, times_s = ego.boxes[0], ego.times_s[0]
    moving_mps, crossing_rad, within_s = limits
    first = 0
    for frame in range(len(boxes)):
        if not is_open[frame]:
            continue
        # the window of frames close in time moves with the frame
        while times_s[frame] - times_s[first] > within_s + 1e-9:
            first += 1
        other_frame = first
        while (
            not is_marked[frame]
            and other_frame < len(boxes)
            and times_s[other_frame] - times_s[frame] <= within_s + 1e-9
        ):
            for row in range(others.starts[other_frame], others.starts[other_frame + 1]):
                if others.groups[row] == _OTHER or speeds_mps[row] < moving_mps:
                    continue
                turn_rad = turn_between(others.boxes[row, 2], boxes[frame, 2])
                if turn_rad >= crossing_rad and boxes_overlap(boxes[frame], others.boxes[row]):
                    is_marked[frame] = True
            other_frame += 1

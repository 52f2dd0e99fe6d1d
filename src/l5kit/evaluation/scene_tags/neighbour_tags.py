"""Tags of the AV and its neighbours, without a map: cut-ins, close passes, pedestrians and cyclists near."""

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.evaluation.driving.ego_states import EgoArrays, EgoStates
from l5kit.evaluation.driving.road_users import RoadUserArrays, RoadUserGroup, RoadUsers
from l5kit.evaluation.scene_tags.tag_table import TagThresholds, find_runs
from l5kit.geometry.box_overlap import box_gap
from l5kit.geometry.polygon import project_on_line
from l5kit.geometry.relative_pose import turn_between

_VULNERABLE = int(RoadUserGroup.VULNERABLE)
_SPARE_M = 10.0
"""Margin beyond thresholds and half the lengths of boxes, outside of which road users are skipped."""


def tag_neighbours(states: EgoStates, road_users: RoadUsers, thresholds: TagThresholds) -> dict[str, Int64Array]:
    """Return the runs (R, 2) of the tags of a scene about the AV and its neighbours, by name.

    Args:
        states: One scene.
        road_users: The road users in the same frames.
        thresholds: Thresholds of the definitions.

    Raises:
        InvalidArgumentError: Road users have another number of frames.
    """
    road_users.require_frames_of(states.is_there.shape)
    times_s = states.timestamps_s[0]
    marks = {name: np.zeros(len(times_s), np.bool_) for name in ("cut_in", "close_pass", "vulnerable_near")}
    _write_cut_ins(
        states.arrays,
        road_users.arrays,
        road_users.speeds_mps,
        (thresholds.moving_mps, np.radians(thresholds.same_way_deg), thresholds.cut_in_s),
        (thresholds.cut_in_inside_m, thresholds.cut_in_beside_m, thresholds.cut_in_ahead_m),
        np.full(road_users.num_tracks, -np.inf),
        marks["cut_in"],
    )
    _mark_near(
        states.arrays,
        road_users.arrays,
        (thresholds.moving_mps, thresholds.passing_mps),
        (thresholds.close_gap_m, thresholds.vulnerable_gap_m),
        marks["close_pass"],
        marks["vulnerable_near"],
    )
    return {name: find_runs(is_marked, times_s, merge_s=thresholds.merge_s) for name, is_marked in marks.items()}


@kernel_jit
def _mark_near(
    ego: EgoArrays,
    others: RoadUserArrays,
    speeds: tuple[float, float],
    gaps_m: tuple[float, float],
    is_close_pass: BoolArray,
    is_vulnerable_near: BoolArray,
) -> None:
    """Mark the frames in which the AV moves and a road user passes closely, or a pedestrian or cyclist is near."""
    boxes, speeds_mps = ego.boxes[0], ego.speeds_mps[0]
    (moving_mps, passing_mps), (close_m, vulnerable_m) = speeds, gaps_m
    most_m = max(close_m, vulnerable_m)
    for frame in range(len(boxes)):
        if speeds_mps[frame] < moving_mps:
            continue
        box = boxes[frame]
        x_mps, y_mps = speeds_mps[frame] * np.cos(box[2]), speeds_mps[frame] * np.sin(box[2])
        for row in range(others.starts[frame], others.starts[frame + 1]):
            other, velocity_mps = others.boxes[row], others.velocities_mps[row]
            reach_m = most_m + 0.5 * (np.hypot(box[3], box[4]) + np.hypot(other[3], other[4]))
            if np.hypot(other[0] - box[0], other[1] - box[1]) > reach_m:
                continue
            gap_m = box_gap(box, other)
            if others.groups[row] == _VULNERABLE and gap_m < vulnerable_m:
                is_vulnerable_near[frame] = True
            is_moving = np.hypot(velocity_mps[0], velocity_mps[1]) >= moving_mps
            if (
                gap_m < close_m
                and is_moving
                and np.hypot(velocity_mps[0] - x_mps, velocity_mps[1] - y_mps) >= passing_mps
            ):
                is_close_pass[frame] = True


@kernel_jit
def _write_cut_ins(
    ego: EgoArrays,
    others: RoadUserArrays,
    other_speeds_mps: Float64Array,
    limits: tuple[float, float, float],
    distances_m: tuple[float, float, float],
    last_beside_s: Float64Array,
    is_marked: BoolArray,
) -> None:
    """Mark the frames of cut-ins of a scene; ``last_beside_s`` stores the last time of each track beside the path."""
    boxes, speeds_mps, times_s = ego.boxes[0], ego.speeds_mps[0], ego.times_s[0]
    (moving_mps, same_way_rad, within_s), (inside_m, beside_m, ahead_m) = limits, distances_m
    # the path that the AV drives, and its length up to each frame
    path = boxes[:, :2].copy()
    lengths_m = np.zeros(len(path))
    for frame in range(1, len(path)):
        step_m = np.hypot(path[frame, 0] - path[frame - 1, 0], path[frame, 1] - path[frame - 1, 1])
        lengths_m[frame] = lengths_m[frame - 1] + step_m
    for frame in range(len(boxes) - 1):
        for row in range(others.starts[frame], others.starts[frame + 1]):
            other, track = others.boxes[row], others.tracks[row]
            half_m = 0.5 * (boxes[frame, 3] + other[3])
            most_m = ahead_m + half_m + beside_m + _SPARE_M
            if np.hypot(other[0] - boxes[frame, 0], other[1] - boxes[frame, 1]) > most_m:
                continue
            aside_m, along_m, turn_rad = _project_on_path(path, lengths_m, frame, other, most_m)
            if aside_m >= beside_m:
                last_beside_s[track] = times_s[frame]
            gap_m = along_m - half_m
            is_inside = aside_m <= inside_m and 0 < gap_m <= ahead_m and turn_rad <= same_way_rad
            is_moving = min(speeds_mps[frame], other_speeds_mps[row]) >= moving_mps
            # counted once: a track must get beside the path again before its next cut-in
            if is_inside and is_moving and times_s[frame] - last_beside_s[track] <= within_s:
                is_marked[frame] = True
                last_beside_s[track] = -np.inf


@kernel_jit
def _project_on_path(
    path: Float64Array, lengths_m: Float64Array, frame: int, other: Float64Array, most_m: float
) -> tuple[float, float, float]:
    """Return the distances of a road user from the path and along it, from a frame on, and the angle to it.

    All are NaN for road users behind the AV or beyond the end of its path.
    """
    # only the part of the path within reach, with at least one step
    end = frame + 1
    while end < len(path) - 1 and lengths_m[end] - lengths_m[frame] <= most_m:
        end += 1
    line = path[frame : end + 1]
    edge, part = project_on_line(line, other[:2])
    step = line[edge + 1] - line[edge]
    if (edge == 0 and part <= 0.0) or (edge == len(line) - 2 and part >= 1.0):
        return np.nan, np.nan, np.nan
    nearest = line[edge] + part * step
    along_m = lengths_m[frame + edge] - lengths_m[frame] + part * np.hypot(step[0], step[1])
    turn_rad = turn_between(other[2], np.arctan2(step[1], step[0]))
    return np.hypot(other[0] - nearest[0], other[1] - nearest[1]), along_m, turn_rad

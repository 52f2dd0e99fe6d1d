"""Progress of the AV along the route of the expert, the lanes driven in the log."""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from l5kit._kernels import kernel_jit
from l5kit._types import Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_starts
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving.ego_states import EgoStates
from l5kit.evaluation.driving.lane_positions import LanePositions
from l5kit.lanes.driving_map import DrivingMap, project_onward

_LEAST_PROGRESS_M = 2.0
_LEAST_RATIO = 0.2
_REACH_M = 10.0
_REACH_PER_M = 2.0


@dataclass(frozen=True, eq=False)
class ExpertRoutes(ReadOnlyArrays):
    """The routes of S scenes as parts in driving order; a part is a road segment or junction that the expert drove.

    Attributes:
        part_starts: First part of each scene and the end of the last one, int64 (S + 1,).
        parents: Segment or junction of each part, as :class:`DrivingMap` numbers them, int64 (parts,).
        line_starts: First point of each part and the end of the last one, int64 (parts + 1,).
        points_m: Centre lines of the expert's lanes of each part, world x and y, float64 (points, 2).
        arc_lengths_m: Length of the route of the scene up to each point, float64 (points,).

    Raises:
        InvalidArgumentError: The shapes do not fit, or a part has fewer than two points.
    """

    part_starts: Int64Array
    parents: Int64Array
    line_starts: Int64Array
    points_m: Float64Array
    arc_lengths_m: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        require_starts(self, "part_starts", num_parts=len(self.part_starts) - 1, end=len(self.parents))
        require_starts(self, "line_starts", num_parts=len(self.parents), end=len(self.points_m))
        if self.arc_lengths_m.shape != (len(self.points_m),) or (np.diff(self.line_starts) < 2).any():
            raise InvalidArgumentError(
                f"ExpertRoutes: every part needs two points and {len(self.points_m)} points as many arc_lengths_m, got "
                f"{np.diff(self.line_starts).min(initial=2)} and {self.arc_lengths_m.shape}"
            )


def find_routes(lane_positions: LanePositions, driving_map: DrivingMap, *, expert: EgoStates) -> ExpertRoutes:
    """Return the routes of the expert.

    Successive lanes of the expert with the same parent form one part. Its line joins the centre line of the first lane
    and those of its successors without a lane change; a lane that leads into itself is repeated for each lap.

    Args:
        lane_positions: Lanes of the expert.
        driving_map: The map of these lanes.
        expert: The expert in the same frames.

    Raises:
        InvalidArgumentError: The lane positions have another number of frames.
    """
    lane_positions.require_shape(expert.is_there.shape)
    along_m = driving_map.arcs_on_lanes_m(expert.positions_m.reshape(-1, 2), lane_positions.lanes.reshape(-1))
    parts: list[list[int]] = []
    counts = [0]
    for lanes, along_of_scene_m in zip(lane_positions.lanes, along_m.reshape(lane_positions.lanes.shape), strict=True):
        driven, driven_m = lanes[lanes >= 0], along_of_scene_m[lanes >= 0]
        # a lane begins where the lane changes, or where the expert has jumped back by more than half of its length
        is_back = -np.diff(driven_m, prepend=np.nan) > driving_map.arc_lengths_m[driven, -1] / 2
        num_before, begun = len(parts), driven[(np.diff(driven, prepend=-1) != 0) | is_back].tolist()
        parents = driving_map.parents[begun].tolist()
        for index, lane in enumerate(begun):
            if index == 0 or parents[index] != parents[index - 1]:
                parts.append([lane])
            elif lane in driving_map.ahead_of(begun[index - 1]):
                parts[-1].append(lane)  # after a lane change, the lane is not on the line
        counts.append(len(parts) - num_before)
    lines_m = [driving_map.centre_lines_m[part].reshape(-1, 2) for part in parts]
    part_starts, line_starts = np.cumsum(counts), np.cumsum([0, *map(len, lines_m)])
    points_m = np.concatenate([np.zeros((0, 2)), *lines_m])

    # length of the route up to each point, without gaps between parts; summed scene by scene, so that no bit depends on
    # the scenes before
    steps_m = np.linalg.norm(np.diff(points_m, axis=0, prepend=points_m[:1]), axis=1)
    steps_m[line_starts[:-1]] = 0.0
    arc_lengths_m, route_starts = np.zeros(len(points_m)), line_starts[part_starts].tolist()
    for start, end in itertools.pairwise(route_starts):
        np.cumsum(steps_m[start:end], out=arc_lengths_m[start:end])
    return ExpertRoutes(
        part_starts=part_starts,
        parents=driving_map.parents[[part[0] for part in parts]] if parts else np.zeros(0, np.int64),
        line_starts=line_starts,
        points_m=points_m,
        arc_lengths_m=arc_lengths_m,
    )


def find_progress(
    states: EgoStates, lane_positions: LanePositions, *, routes: ExpertRoutes, driving_map: DrivingMap
) -> Float64Array:
    """Return the distance of the centre of the AV along the route since the previous frame.

    The AV is on the part of the route that its lane belongs to. When it leaves a part, later parts are tried in order,
    and skipped parts count; it never returns to an earlier part. Within a part it is searched near its previous
    position, as far as it may have come, so that each lap of a roundabout counts.

    Args:
        states: The AV.
        lane_positions: Lanes of the AV.
        routes: Routes of the same scenes.
        driving_map: The map of lanes and routes.

    Returns:
        Metres, 0 in the first frame and where the AV is off the route in this frame or the previous one, (S, F).

    Raises:
        InvalidArgumentError: Routes have another number of scenes, or positions another number of frames.
    """
    lane_positions.require_shape(states.is_there.shape)
    if len(routes.part_starts) != states.num_scenes + 1:
        raise InvalidArgumentError(
            f"routes must be of {states.num_scenes} scenes like the states, got {len(routes.part_starts) - 1}"
        )
    along_m = np.full(states.is_there.shape, np.nan)
    parents = np.append(driving_map.parents, -1)[lane_positions.lanes]
    _write_positions_on_routes(
        states.positions_m,
        states.num_frames,
        parents,
        _Routes(**vars(routes)),
        along_m,
    )
    progress_m = np.zeros(states.is_there.shape)
    progress_m[:, 1:] = np.nan_to_num(np.diff(along_m, axis=1))
    return progress_m


def expert_progress_ratio(progress_m: Float64Array, expert_progress_m: Float64Array) -> Float64Array:
    """Return the score of scenes: the distance of the AV along the route as a share of that of the expert, at most 1.

    Args:
        progress_m: Progress of the AV, as :func:`find_progress` returns it, (S, F).
        expert_progress_m: Progress of the expert along its own route, (S, any).

    Returns:
        min(1, max(AV, 2 m) / max(expert, 2 m)); 0 if the AV ends more than 2 m behind its start; NaN if the expert
        drives less than 2 m along a route; (S,).
    """
    total_m, expert_m = progress_m.sum(axis=1), expert_progress_m.sum(axis=1)
    ratios: Float64Array = np.minimum(
        1.0, np.maximum(total_m, _LEAST_PROGRESS_M) / np.maximum(expert_m, _LEAST_PROGRESS_M)
    )
    ratios[total_m < -_LEAST_PROGRESS_M] = 0.0
    ratios[expert_m < _LEAST_PROGRESS_M] = np.nan
    return ratios


def making_progress(ratios: Float64Array) -> Float64Array:
    """Return the score of scenes: 1 for a ratio of at least 0.2, else 0; NaN where the ratio is, (S,)."""
    return np.where(np.isnan(ratios), np.nan, (ratios >= _LEAST_RATIO).astype(np.float64))


class _Routes(NamedTuple):
    """Routes as kernel arguments; fields as in :class:`ExpertRoutes`."""

    part_starts: Int64Array
    parents: Int64Array
    line_starts: Int64Array
    points_m: Float64Array
    arc_lengths_m: Float64Array


@kernel_jit
def _write_positions_on_routes(
    positions_m: Float64Array,
    num_frames: Int64Array,
    parents: Int64Array,
    routes: _Routes,
    along_m: Float64Array,
) -> None:
    """Write the route length up to the AV in the frames in which it is on the route."""
    for scene in range(len(num_frames)):
        present, end = routes.part_starts[scene], routes.part_starts[scene + 1]
        last_part, last_frame = -1, 0
        for frame in range(num_frames[scene]):
            part = present
            while part < end and routes.parents[part] != parents[scene, frame]:
                part += 1
            if part == end:
                continue
            present = part
            # search near the previous position, as far as the AV may have come, or anywhere on a new part
            here, there = positions_m[scene, frame], positions_m[scene, last_frame]
            reach_m = _REACH_M + _REACH_PER_M * np.hypot(here[0] - there[0], here[1] - there[1])
            before_m = along_m[scene, last_frame] if part == last_part else np.nan
            line = slice(routes.line_starts[part], routes.line_starts[part + 1])
            points_m, lengths_m = routes.points_m[line], routes.arc_lengths_m[line]
            along_m[scene, frame] = project_onward(points_m, lengths_m, here, before_m, reach_m)
            last_part, last_frame = part, frame

"""New goal: the AV of the log takes other lanes, and planners get the new route."""

import itertools
from dataclasses import dataclass, replace

import numpy as np

from l5kit._types import Float64Array
from l5kit.data.scene_arrays import SceneArrays
from l5kit.editing.av_path import AvPath, lane_path_of_log
from l5kit.editing.scene_edit import ImpossibleEditError, SceneEdit, SceneSetting, require_in_range
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import yaws_as_rotations33
from l5kit.lanes.lane_choice import lane_arrays, straightest_ahead
from l5kit.lanes.lane_paths import PATH_STEP_M, LanePaths, make_path_of_lanes, write_highest_speeds

_ACROSS_MPS2, _BRAKING_MPS2, _SPEEDING_UP_MPS2 = 2.0, 1.5, 1.5
"""Lateral acceleration in bends, braking and acceleration of the AV, metres per second squared."""

_HARDER_MPS2 = (3.0, 6.0)
"""Stronger braking, tried in turn if a bend or the goal is too close at the start."""

_FASTEST_MPS = 100.0
"""Speed that means no limit."""

_MARGIN_M = 50.0
"""Length of lanes beyond the drive of the AV, as for routes."""

_SETTLE_M = 20.0
"""Length over which the AV moves from its position in the lane to the lane centre."""

_MOST_LANES = 1000


@dataclass(frozen=True)
class AnotherGoal(SceneEdit):
    """New goal for the AV: from the first frame on, its log follows other lanes.

    Planners, samples and scores take the route from the logged drive of the AV, and so get the new route. The logged AV
    keeps its speed, or drives at ``speed_mps``, slows down for bends, and stops at the goal. It ignores other road
    users and lights, so a replay of the edited log may collide. Its height in each frame is unchanged.

    Attributes:
        goal_m: World x and y of the goal, reached by the shortest route along lanes; None for another exit of the first
            fork on the path of the AV, drawn with the seed if there are several.
        ahead_m: Least distance of the fork ahead of the AV in the first frame.
        speed_mps: Desired speed of the AV; None for its logged speed, so that an AV at rest stays at rest.

    Raises:
        InvalidArgumentError: A parameter is out of range.
    """

    goal_m: tuple[float, float] | None = None
    ahead_m: float = 10.0
    speed_mps: float | None = None

    def __post_init__(self) -> None:
        require_in_range(self, ahead_m=(0.0, 500.0))
        if self.speed_mps is not None:
            require_in_range(self, speed_mps=(0.5, 60.0))
        if self.goal_m is not None:
            goal = np.asarray(self.goal_m)
            if goal.shape != (2,) or goal.dtype.kind not in "iuf" or not np.isfinite(goal).all():
                raise InvalidArgumentError(
                    f"AnotherGoal: goal_m must be x and y in metres, or None for another exit, got {self.goal_m!r}"
                )
            object.__setattr__(self, "goal_m", (float(self.goal_m[0]), float(self.goal_m[1])))

    def apply(self, scene: SceneArrays, setting: SceneSetting) -> SceneArrays:
        """Return the scene with the AV driving to the goal; see :meth:`SceneEdit.apply`."""
        map_api, driving_map = setting.require_map(self)
        wanted_mps = scene.ego_speeds_mps
        driven_m = float(AvPath.of_scene(scene, driving_map).frame_arcs_m[-1])
        if self.speed_mps is not None:
            # from the first speed to the desired one, as gently as when braking for bends
            most_mps = _BRAKING_MPS2 * scene.times_s
            wanted_mps = wanted_mps[0] + np.clip(self.speed_mps - wanted_mps[0], -most_mps, most_mps)
            driven_m = self.speed_mps * float(scene.times_s[-1])
        if self.goal_m is not None:
            heading_rad = float(scene.ego_yaws_rad[0])
            try:
                route = map_api.find_route(scene.ego_positions_m[0], self.goal_m, heading_rad=heading_rad)
                path = make_path_of_lanes(route.lane_rows, driving_map, start_m=route.start_m, end_m=route.end_m)
            except InvalidArgumentError as error:  # includes RouteNotFoundError
                raise ImpossibleEditError(f"the goal is not reached: {error}") from error
            return _drive(scene, path, wanted_mps)

        # Without a goal: lanes of the AV up to a fork, an exit that it did not take, and the straightest lanes after
        # that.
        logged, rng = lane_path_of_log(scene, driving_map), np.random.default_rng(setting.seed)
        taken_lanes = logged.lanes_of(0).tolist()
        for index, (lane, taken) in enumerate(itertools.pairwise(taken_lanes)):
            fork_m = float(logged.piece_arcs_m[index + 1])
            ahead = driving_map.ahead_of(lane).tolist()
            others = [other for other in ahead if other != taken]
            if taken not in ahead or not others or not self.ahead_m <= fork_m <= driven_m:
                continue
            chosen, behind_m = [*taken_lanes[: index + 1], int(rng.choice(others))], 0.0
            arrays = lane_arrays(driving_map)
            # until the lanes after the fork cover the drive of the AV and a margin
            while len(chosen) < _MOST_LANES and behind_m < driven_m + _MARGIN_M:
                onward = int(straightest_ahead(arrays, chosen[-1]))
                if onward < 0:
                    break
                chosen.append(onward)
                behind_m += float(driving_map.arc_lengths_m[onward, -1])
            lanes = np.array(chosen, np.int64)
            start_m = driving_map.arcs_on_lanes_m(scene.ego_positions_m[:1, :2], lanes[:1])
            return _drive(scene, make_path_of_lanes(lanes, driving_map, start_m=float(start_m[0])), wanted_mps)
        raise ImpossibleEditError(
            f"the AV of the log reaches no fork of lanes from {self.ahead_m:g} m on in the {driven_m:.1f} m that it "
            "drives; name a goal (goal_m) or a speed (speed_mps), or choose a smaller ahead_m"
        )


def _drive(scene: SceneArrays, lane_path: LanePaths, wanted_mps: Float64Array) -> SceneArrays:
    """Return a scene whose AV drives along a path from its first pose on, with an upper speed for each frame.

    Raises:
        ImpossibleEditError: The AV is too fast for a near bend or goal.
    """
    # the weakest braking that suffices for the first speed
    points_m, length_m = lane_path.points_of(0), float(lane_path.lengths_m[0])
    first_mps = min(float(scene.ego_speeds_mps[0]), float(wanted_mps[0]))
    highest_mps = np.empty(len(points_m))
    for braking_mps2 in (_BRAKING_MPS2, *_HARDER_MPS2):
        write_highest_speeds(lane_path.arrays, _ACROSS_MPS2, braking_mps2, False, highest_mps)
        if first_mps <= min(highest_mps[0], np.sqrt(2.0 * braking_mps2 * length_m)):
            break
    else:
        raise ImpossibleEditError(
            f"the AV drives {first_mps:.1f} m/s in the first frame, too fast for the near bend or goal: it would brake "
            f"by more than {_HARDER_MPS2[-1]:g} m/s2; choose a goal (goal_m) or a fork (ahead_m) further on"
        )
    write_highest_speeds(lane_path.arrays, _ACROSS_MPS2, _BRAKING_MPS2, False, highest_mps)
    highest_mps = np.minimum(highest_mps, _FASTEST_MPS)

    # Arc length in each frame, (F,), with at most this braking. Squared speeds are interpolated, because they are
    # linear in the arc length while braking; this avoids jerks every 2 m.
    points_arcs_m, highest_squared = PATH_STEP_M * np.arange(len(highest_mps)), highest_mps**2
    arcs_m, speed_mps = np.zeros(scene.num_frames), float(scene.ego_speeds_mps[0])
    for frame in range(1, scene.num_frames):
        step_s = float(scene.times_s[frame] - scene.times_s[frame - 1])
        arc_m = float(arcs_m[frame - 1])
        in_bend_mps = np.sqrt(np.interp(arc_m, points_arcs_m, highest_squared))
        to_stop_mps = np.sqrt(2.0 * _BRAKING_MPS2 * max(length_m - arc_m, 0.0))
        allowed_mps = max(min(in_bend_mps, to_stop_mps), speed_mps - braking_mps2 * step_s)
        speed_mps = float(min(wanted_mps[frame], allowed_mps, speed_mps + _SPEEDING_UP_MPS2 * step_s))
        arcs_m[frame] = min(arc_m + speed_mps * step_s, length_m)
    line = AvPath(points_m, PATH_STEP_M * np.arange(len(points_m), dtype=np.float64), arcs_m)

    # from the offset in the lane to its centre
    start_m, yaws_rad = line.poses_at(np.zeros(1))
    beside_m = scene.ego_positions_m[0, :2] - start_m[0]
    left_m = float(beside_m[1] * np.cos(yaws_rad[0]) - beside_m[0] * np.sin(yaws_rad[0]))
    rest = 1.0 - np.clip(arcs_m / _SETTLE_M, 0.0, 1.0)
    positions_m, headings_rad = line.poses_at(arcs_m, left_m=left_m * rest**2 * (3.0 - 2.0 * rest))
    headings_rad -= np.arctan(left_m * 6.0 * rest * (1.0 - rest) / _SETTLE_M)  # along the motion, not the lane
    return replace(
        scene,
        ego_positions_m=np.column_stack([positions_m, scene.ego_positions_m[:, 2]]),
        ego_rotations=yaws_as_rotations33(headings_rad),
    )

"""Path of the AV: its drive in the log, continued along its lanes."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes
from l5kit.data.scene_arrays import SceneArrays
from l5kit.editing.scene_edit import ImpossibleEditError
from l5kit.lanes.driving_map import DrivingMap
from l5kit.lanes.lane_paths import LanePaths, TrackPoses, make_lane_paths

_STEP_M = 0.5
"""Least distance between two points of a path; a standing AV jitters by less."""

_JOIN_M = 10.0
"""Length over which the path changes from the end of the log to the centre of the lane."""

_LOOK_M = 1.0
"""The heading at a point of the path is measured from this far before to this far after it."""


@dataclass(frozen=True, eq=False)
class AvPath(ReadOnlyArrays):
    """Line of P points, 2 or more, from the first pose of the AV on.

    Attributes:
        points_m: World x and y, float64 (P, 2).
        arcs_m: Arc length at each point, ascending from 0, float64 (P,).
        frame_arcs_m: Arc length of the centre of the AV in each of F frames, never decreasing, float64 (F,).

    Raises:
        InvalidArgumentError: The shapes do not match.
    """

    points_m: Float64Array
    arcs_m: Float64Array
    frame_arcs_m: Float64Array

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shapes(self, points_m=(len(self.arcs_m), 2))

    @classmethod
    def of_scene(cls, scene: SceneArrays, driving_map: DrivingMap | None) -> "AvPath":
        """Return the path of the AV of a scene; without a map, or off the lanes, it ends with the log.

        Raises:
            ImpossibleEditError: The scene has no frames, or a pose of the AV is not finite.
        """
        positions_m, yaws_rad = finite_poses(scene)

        # points of the log that are some distance apart, and the arc length of each frame
        kept, frame_arcs_m, arc_m = [0], np.zeros(scene.num_frames), 0.0
        for frame in range(1, scene.num_frames):
            driven_m = float(np.linalg.norm(positions_m[frame] - positions_m[kept[-1]]))
            if driven_m >= _STEP_M:
                kept.append(frame)
                arc_m += driven_m
                driven_m = 0.0
            frame_arcs_m[frame] = max(arc_m + driven_m, frame_arcs_m[frame - 1])
        points_m = positions_m[kept]

        # the straightest lanes ahead of the last pose, or just its heading
        heading = np.array([np.cos(yaws_rad[-1]), np.sin(yaws_rad[-1])])
        onward_m = (points_m[-1] + _STEP_M * heading)[None]
        if driving_map is not None and driving_map.num_lanes > 0:
            last = TrackPoses(np.array([0, 1]), positions_m[-1:].copy(), yaws_rad[-1:].copy(), np.zeros(1))
            ahead_m = make_lane_paths(last, driving_map).points_m
            is_joined = np.linalg.norm(ahead_m - positions_m[-1], axis=1) >= _JOIN_M
            onward_m = ahead_m[int(np.argmax(is_joined)) :] if is_joined.any() else onward_m
        points_m = np.concatenate([points_m, onward_m])
        steps_m = np.linalg.norm(np.diff(points_m, axis=0), axis=1)
        return cls(points_m, np.concatenate([[0.0], np.cumsum(steps_m)]), frame_arcs_m)

    @property
    def length_m(self) -> float:
        """Length of the path."""
        return float(self.arcs_m[-1])

    def points_at(self, arcs_m: Float64Array) -> Float64Array:
        """Return world x and y at arc lengths (n,); before the start and after the end the path continues straight."""
        edges = np.clip(np.searchsorted(self.arcs_m, arcs_m, side="right") - 1, 0, len(self.arcs_m) - 2)
        shares = (arcs_m - self.arcs_m[edges]) / (self.arcs_m[edges + 1] - self.arcs_m[edges])
        steps_m = self.points_m[edges + 1] - self.points_m[edges]
        points_m: Float64Array = self.points_m[edges] + shares[:, None] * steps_m
        return points_m

    def poses_at(
        self, arcs_m: Float64Array, *, left_m: Float64Array | float = 0.0
    ) -> tuple[Float64Array, Float64Array]:
        """Return world positions (n, 2) and headings (n,) at arc lengths.

        Args:
            arcs_m: Arc lengths, (n,).
            left_m: Offset to the left of the path, metres, for all or for each.
        """
        ahead_m = self.points_at(arcs_m + _LOOK_M) - self.points_at(arcs_m - _LOOK_M)
        yaws_rad = np.arctan2(ahead_m[:, 1], ahead_m[:, 0])
        to_left = np.stack([-np.sin(yaws_rad), np.cos(yaws_rad)], axis=1)
        positions_m: Float64Array = self.points_at(arcs_m) + np.asarray(left_m, np.float64).reshape(-1, 1) * to_left
        return positions_m, yaws_rad

    def require_reach(self, arc_m: float, what: str) -> None:
        """Refuse a position beyond the end of the path.

        Raises:
            ImpossibleEditError: The position is beyond the end.
        """
        if arc_m > self.length_m:
            raise ImpossibleEditError(
                f"{what} would be {arc_m:.1f} m along the path of the AV, which is known for {self.length_m:.1f} m; "
                "choose a smaller ahead_m, or give the scene a map"
            )


def lane_path_of_log(scene: SceneArrays, driving_map: DrivingMap) -> LanePaths:
    """Return the path of the AV of a scene along the centres of its lanes, like a route.

    Raises:
        ImpossibleEditError: The scene has no frames, the AV is on no lane in the first one, or a pose is not finite.
    """
    positions_m, yaws_rad = finite_poses(scene)
    tracks = TrackPoses(np.array([0, len(yaws_rad)]), positions_m, yaws_rad, np.zeros(1))
    paths = make_lane_paths(tracks, driving_map)
    if not paths.has_path[0]:
        raise ImpossibleEditError("the AV is on no lane in the first frame")
    return paths


def finite_poses(scene: SceneArrays) -> tuple[Float64Array, Float64Array]:
    """Return world positions (F, 2) and headings (F,) of the AV.

    Raises:
        ImpossibleEditError: There are no poses, or one is not finite.
    """
    positions_m, yaws_rad = scene.ego_positions_m[:, :2].copy(), scene.ego_yaws_rad.astype(np.float64)
    if scene.num_frames == 0 or not (np.isfinite(positions_m).all() and np.isfinite(yaws_rad).all()):
        raise ImpossibleEditError("the scene has no frames, or poses of the AV that are not finite")
    return positions_m, yaws_rad

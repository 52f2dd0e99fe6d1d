"""Bank arrays: scenes as kernels read them, one or many of them, in memory of the processor or of a device."""

from typing import NamedTuple

import numpy as np

from l5kit.device.backend import DeviceArray
from l5kit.environment.traffic.traffic_kernels import LogRows
from l5kit.environment.traffic.traffic_steps import SceneStarts
from l5kit.lanes.lane_paths import PathArrays
from l5kit.lanes.red_lights import SceneLights


class EgoLog(NamedTuple):
    """The logged AVs in F frames.

    Attributes:
        poses: World x, y and yaw, float64 (F, 3).
        motion: Speed in m/s, acceleration along in m/s2, yaw rate in rad/s and steering in rad, float64 (F, 4).
        arcs_m: How far they are along their own routes, float64 (F,).
    """

    poses: DeviceArray
    motion: DeviceArray
    arcs_m: DeviceArray


class BankArrays(NamedTuple):
    """S scenes with all their frames, tracks and paths, one after the other.

    Attributes:
        starts: Where scenes begin.
        rows: The agent rows of all frames.
        paths: All paths, in each scene that of the AV, then those of the vehicles that may be driven; ``line_lanes``
            holds numbers of the lights of the scene, -1 for none.
        path_tracks: Track of each path, a row of ``track_ids``, -1 for an AV, int64 (P,).
        path_last_frames: Last frame of this track, counted in its scene; that of the scene for an AV, int64 (P,).
        ego: The logged AVs.
        lights: The lights of all scenes.
        track_ids: The tracks of all scenes, as in the log, uint64 (T,).
    """

    starts: SceneStarts
    rows: LogRows
    paths: PathArrays
    path_tracks: DeviceArray
    path_last_frames: DeviceArray
    ego: EgoLog
    lights: SceneLights
    track_ids: DeviceArray

    @classmethod
    def empty(cls) -> "BankArrays":
        """Return no scenes."""
        start, whole, part = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)
        points_m, boxes = np.zeros((0, 2)), np.zeros((0, 5))
        seats, is_new = np.zeros(0, np.int32), np.zeros(0, np.bool_)
        return cls(
            SceneStarts(start, start),
            LogRows(start, seats, is_new, whole, boxes, points_m, points_m, whole, part),
            PathArrays(start, points_m, part, start, part, whole, np.zeros((0, 2), np.int64), part),
            whole,
            whole,
            EgoLog(np.zeros((0, 3)), np.zeros((0, 4)), part),
            SceneLights(start, np.zeros(0, np.int8), start, whole),
            np.zeros(0, np.uint64),
        )

"""Paths of AVs: the lanes that they follow in the log, or straight ones where there are none."""

from l5kit.lanes.lane_paths import UNKNOWN_LIMIT_MPS, LanePaths, filled_paths, make_lane_paths, straight_paths
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.lanes.track_poses import poses_of_avs


def paths_of_avs(batch: SceneBatch, *, unknown_limit_mps: float = UNKNOWN_LIMIT_MPS) -> LanePaths:
    """Return the path of the AV of each of S scenes, by its poses in the frames that are simulated; S paths.

    Args:
        batch: The scenes.
        unknown_limit_mps: Speed limit where the map does not say one, above 0.
    """
    poses, driving_map = poses_of_avs(batch), batch.driving_map
    straight = straight_paths(poses, limit_mps=unknown_limit_mps)
    if driving_map is None or driving_map.num_lanes == 0:
        return straight
    return filled_paths(make_lane_paths(poses, driving_map, unknown_limit_mps=unknown_limit_mps), straight)

"""Drives of a simulation as the page takes them: ghosts of the log, plans, curves of metrics, and failures."""

import dataclasses
from typing import Final

import numpy as np

from l5kit._types import Float32Array, NumericArray
from l5kit.data.scene_arrays import SceneArrays
from l5kit.visualization.simulated.scene_drive import SceneDrive
from l5kit.visualization.viewer.content_bytes import places_from, scene_origin_m
from l5kit.visualization.viewer.packed_arrays import pack_arrays

__all__ = ["drive_bytes"]

_MOST_OFF_ROAD_M: Final = 0.5
"""Distances from the road are known up to this; what is farther is infinite in the table."""

_CURVES: Final = {
    "speed": "speed_mps",
    "log_distance": "distance_to_log_m",
    "time_to_collision": "time_to_collision_s",
    "off_road": "distance_off_road_m",
    "speed_excess": "speed_excess_mps",
}
"""Columns of the table of frames by the names that the page knows them under."""


def drive_bytes(drive: SceneDrive, scene: SceneArrays) -> bytes:
    """Return a drive as bytes; see :mod:`l5kit.visualization.viewer.packed_arrays` for their form.

    Args:
        drive: The drive.
        scene: The scene as it was driven; positions are counted from the same origin as those of its own bytes.
    """
    result, ghosts = drive.result, drive.ghosts
    origin_m = scene_origin_m(scene)
    plans = drive.plans
    facts = {
        "log": result.log,
        "log_scene": result.scene,
        "score": result.score,
        "metrics": result.metrics,
        "failed": result.failed,
        "failures": [_as_fact(dataclasses.asdict(failure)) for failure in drive.failures],
        "plan_times_s": [] if plans is None else np.asarray(plans.times_s, np.float64).tolist(),
        "has_log": ghosts.has_log,
    }
    plan_m = np.zeros((scene.num_frames, 0, 2)) if plans is None else plans.poses[..., :2].astype(np.float64)
    arrays: dict[str, NumericArray] = {
        "log_xy": places_from(ghosts.ego_positions_m, origin_m),
        "log_yaw": ghosts.ego_yaws_rad.astype(np.float32),
        "log_speed": ghosts.ego_speeds_mps.astype(np.float32),
        "ghost_starts": ghosts.starts.astype(np.uint32),
        "ghost_xy": places_from(ghosts.centroids_m, origin_m),
        "ghost_yaw": ghosts.yaws_rad,
        "ghost_extent": ghosts.extents_m,
        "plan_xy": places_from(plan_m, origin_m),
    }
    return pack_arrays(facts, arrays | {name: _curve(drive, name, scene.num_frames) for name in _CURVES})


def _curve(drive: SceneDrive, name: str, num_frames: int) -> Float32Array:
    """Return the values of a curve, NaN where there is none."""
    values = drive.columns.get(_CURVES[name], np.full(num_frames, np.nan))
    if name == "off_road":
        values = np.minimum(values, _MOST_OFF_ROAD_M)
    return np.where(np.isfinite(values), values, np.nan).astype(np.float32)


def _as_fact(failure: dict[str, object]) -> dict[str, object]:
    """Return a failure as JSON takes it; JavaScript's numbers have 53 bits, ids of tracks 64."""
    track_id = failure["track_id"]
    return failure | {"track_id": None if track_id is None else str(track_id)}

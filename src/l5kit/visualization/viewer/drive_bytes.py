"""Drives of a simulation as the page takes them: ghosts of the log, plans, curves of metrics, and failures."""

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np

from l5kit._types import NumericArray
from l5kit.data.scene_arrays import SceneArrays
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.driving.scene_score import METRICS
from l5kit.evaluation.epdms.terms import EPDMS
from l5kit.visualization.simulated.scene_drive import SceneDrive
from l5kit.visualization.viewer.content_bytes import positions_from, scene_origin_m
from l5kit.visualization.viewer.packed_arrays import pack_arrays

_SOMEBODY: Final = ("collision_at_fault", "collision", "appeared_close")


@dataclasses.dataclass(frozen=True)
class _Curve:
    """A curve under the player.

    Attributes:
        key: Of its values among the arrays.
        column: Of the table of frames.
        name: For people.
        chip: The same on the button that hides it.
        unit: Of the values.
        digits: Behind the point.
        axis: What the page calls its range: ``speed``, ``close``, ``off_road`` or ``values``.
        kinds: Kinds of failures that are marked on it.
    """

    key: str
    column: str
    name: str
    chip: str
    unit: str
    digits: int
    axis: str
    kinds: tuple[str, ...]


_CURVES: Final = (
    _Curve("speed", "speed_mps", "Speed", "Speed", "m/s", 1, "speed", (*_SOMEBODY, "comfort")),
    _Curve("log_distance", "distance_to_log_m", "Distance to log", "To log", "m", 1, "speed", ("wrong_direction",)),
    _Curve(
        key="time_to_collision",
        column="time_to_collision_s",
        name="Time to collision",
        chip="Collision",
        unit="s",
        digits=1,
        axis="close",
        kinds=("time_to_collision", *_SOMEBODY),
    ),
    _Curve("off_road", "distance_off_road_m", "Off road", "Off road", "m", 2, "off_road", ("off_road",)),
    _Curve("speed_excess", "speed_excess_mps", "Over the limit", "Over limit", "m/s", 1, "speed", ("speeding",)),
)


def _curves_of(metrics: Sequence[MetricFacts]) -> list[_Curve]:
    """Return the curves of a drive: the usual ones, those of metrics that the user has added, and that of EPDMS."""
    curves, usual = list(_CURVES), {metric.name for metric in METRICS}
    for metric in metrics:
        is_term = metric.of_score == EPDMS and metric.name != EPDMS
        if metric.column is not None and metric.name not in usual and not is_term:
            kinds = () if metric.fault is None else (metric.fault.kind,)
            key, name, digits = metric.name, metric.label, min(metric.digits, 2)
            curves.append(_Curve(key, metric.column, name, name, metric.unit, digits, "values", kinds))
    return curves


def drive_bytes(drive: SceneDrive, scene: SceneArrays) -> bytes:
    """Return a drive as bytes; see :mod:`l5kit.visualization.viewer.packed_arrays` for their form.

    Args:
        drive: The drive.
        scene: The scene as it was driven; positions are counted from the same origin as those of its own bytes.
    """
    result, ghosts = drive.result, drive.ghosts
    origin_m = scene_origin_m(scene)
    plans, curves = drive.plans, _curves_of(drive.metrics)
    facts = {
        "log": result.log,
        "log_scene": result.scene,
        "score": result.score,
        "metrics": [
            {"name": metric.name, "label": metric.label, "sentence": metric.sentence, "unit": metric.unit}
            | {"digits": min(metric.digits, 2), "value": result.metrics[metric.name], "failed": metric in result.failed}
            for metric in drive.metrics
        ],
        "curves": [
            {name: value for name, value in dataclasses.asdict(curve).items() if name != "column"} for curve in curves
        ],
        # JavaScript's numbers have 53 bits, ids of tracks 64
        "failures": [
            dataclasses.asdict(failure) | {"track_id": None if failure.track_id is None else str(failure.track_id)}
            for failure in drive.failures
        ],
        "plan_times_s": [] if plans is None else np.asarray(plans.times_s, np.float64).tolist(),
        "has_log": ghosts.has_log,
    }
    plan_m = np.zeros((scene.num_frames, 0, 2)) if plans is None else plans.poses[..., :2].astype(np.float64)
    arrays: dict[str, NumericArray] = {
        "log_xy": positions_from(ghosts.ego_positions_m, origin_m),
        "log_yaw": ghosts.ego_yaws_rad.astype(np.float32),
        "log_speed": ghosts.ego_speeds_mps.astype(np.float32),
        "ghost_starts": ghosts.starts.astype(np.uint32),
        "ghost_xy": positions_from(ghosts.centroids_m, origin_m),
        "ghost_yaw": ghosts.yaws_rad,
        "ghost_extent": ghosts.extents_m,
        "plan_xy": positions_from(plan_m, origin_m),
    }
    for curve in curves:
        values = drive.columns.get(curve.column, np.full(scene.num_frames, np.nan))
        known = np.flatnonzero(np.isfinite(values))
        # values of windows are known where these begin, and hold up to the begin of the next one
        if curve.column == EPDMS and len(known):
            frames, values = np.arange(known[0], known[-1] + 1), values.copy()
            values[frames] = values[known[np.searchsorted(known, frames, side="right") - 1]]
        arrays[curve.key] = np.where(np.isfinite(values), values, np.nan).astype(np.float32)
    return pack_arrays(facts, arrays)

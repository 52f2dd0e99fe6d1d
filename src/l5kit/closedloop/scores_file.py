"""Scores of a simulation: means over its scenes, and totals, as JSON holds them."""

import math
from collections.abc import Sequence
from typing import Final

from l5kit._types import JsonObject
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.epdms.params import EpdmsParams
from l5kit.simulation.engine.scored_drives import LEAST_WAY_M

_TOTALS: Final = ("frames", "way_m", "expert_way_m", "collisions", "collisions_at_fault")
"""Columns of the table of scenes that are added up, beside those of frames with a fault, and ``appeared_close``."""


def scores_of(rows: Sequence[JsonObject], metrics: Sequence[MetricFacts], run: JsonObject) -> JsonObject:
    """Return the scores of scenes.

    Args:
        rows: Rows of the table of scenes, those that failed included.
        metrics: What was measured.
        run: What was run.

    Returns:
        Means over the scenes for which a metric applies, or what else the metric makes of them, None where there is
        none; ``about_metrics`` says what each is. Scenes that failed are listed in ``failed``, those in which nobody
        drives in ``unscored``; both are in no mean. ``appeared_close`` lists the
        scenes in which the log lets road users appear where the AV cannot stop before them, with their number and the
        first of them. ``driven_by`` says how many steps the planner and its fallback drove, where there is one.
    """
    driven = [row for row in rows if row["message"] is None]
    scored = [row for row in driven if row["score"] is not None]
    failed = [row for row in rows if row["message"] is not None]
    counted = [metric.counted_as for metric in metrics if metric.counted_as is not None]
    need_map = [metric.name for metric in metrics if metric.needs_map and metric.role is not None]
    return {
        "score": _mean(scored, "score"),
        "scenes": len(scored),
        "metrics": {metric.name: metric.over([row[metric.name] for row in scored]) for metric in metrics},
        "totals": {name: _total(scored, name) for name in (*_TOTALS, *counted, "appeared_close")},
        "scenes_failing": {metric.name: _num_failing(scored, metric) for metric in metrics},
        "about_metrics": [metric.as_json() for metric in metrics],
        "appeared_close": [
            {
                "scene": row["scene"],
                "count": row["appeared_close"],
                "frame": row["first_appeared_frame"],
                "track": row["first_appeared_track"],
            }
            for row in driven
            if row["appeared_close"]
        ],
        "unscored": [{"scene": row["scene"], "message": _why_unscored(row)} for row in driven if row["score"] is None],
        "without_map": bool(scored) and all(row[name] is None for row in scored for name in need_map),
        "failed": [
            {
                "scene": row["scene"],
                "frame": row["failed_frame"],
                "track": row["failed_track"],
                "message": row["message"],
            }
            for row in failed
        ],
        **_driven_by(driven),
        **run,
    }


def _why_unscored(row: JsonObject) -> str:
    """Return why a scene that was driven has no score."""
    if row["frames"] < 2:
        return "one frame, in which nothing is driven"
    if max(row["way_m"], row["expert_way_m"]) < LEAST_WAY_M:
        return f"neither the planner ({row['way_m']:.2f} m) nor the log ({row['expert_way_m']:.2f} m) moves"
    params = EpdmsParams()
    return (
        f"{row['frames']} frames are too few for a window: it needs {params.past_s} s before and {params.horizon_s} s "
        "behind its first frame"
    )


def _driven_by(rows: Sequence[JsonObject]) -> JsonObject:
    """Return how many steps the planner and its fallback drove; nothing where there is no fallback."""
    known = [row for row in rows if row["fallback_steps"] is not None]
    if not known:
        return {}
    steps, of_fallback = sum(row["frames"] - 1 for row in known), sum(row["fallback_steps"] for row in known)
    return {"driven_by": {"planner": steps - of_fallback, "fallback": of_fallback}}


def _total(rows: Sequence[JsonObject], name: str) -> float:
    values = [row[name] for row in rows]
    return math.fsum(values) if any(isinstance(value, float) for value in values) else sum(values)


def _mean(rows: Sequence[JsonObject], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return math.fsum(values) / len(values) if values else None


def _num_failing(rows: Sequence[JsonObject], metric: MetricFacts) -> int:
    """Return in how many scenes a metric of the score is below 1, and another one is not met."""
    values = [row[metric.name] for row in rows if row[metric.name] is not None]
    return sum(value < 1 if metric.role is not None else metric.fails(value) for value in values)

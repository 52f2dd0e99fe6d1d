"""Scores of a simulation: means over its scenes, and totals, as JSON holds them."""

import math
from collections.abc import Sequence
from typing import Final

from l5kit._types import JsonObject
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.epdms.params import EpdmsParams
from l5kit.simulation.engine.driven_scenes import LEAST_WAY_M

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

    # lengths are added as floats whose sum is exact and so has no order, counts as whole numbers, which JSON shows so
    totals: dict[str, float] = {}
    for name in (*_TOTALS, *counted, "appeared_close"):
        values = [row[name] for row in scored]
        totals[name] = math.fsum(values) if any(isinstance(value, float) for value in values) else sum(values)

    # a metric of the score fails below 1, another one where it is not met
    scenes_failing: dict[str, int] = {}
    for metric in metrics:
        values = [row[metric.name] for row in scored if row[metric.name] is not None]
        scenes_failing[metric.name] = sum(
            value < 1 if metric.role is not None else metric.fails(value) for value in values
        )

    # only scenes with a fallback know who drove; the first frame is no step
    driven_by: JsonObject = {}
    known = [row for row in driven if row["fallback_steps"] is not None]
    if known:
        steps, of_fallback = sum(row["frames"] - 1 for row in known), sum(row["fallback_steps"] for row in known)
        driven_by = {"driven_by": {"planner": steps - of_fallback, "fallback": of_fallback}}

    return {
        "score": math.fsum(row["score"] for row in scored) / len(scored) if scored else None,
        "scenes": len(scored),
        "metrics": {metric.name: metric.over([row[metric.name] for row in scored]) for metric in metrics},
        "totals": totals,
        "scenes_failing": scenes_failing,
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
        **driven_by,
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

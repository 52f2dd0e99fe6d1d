"""Output files of a finished simulation, assembled scene by scene: tables, driven scenes, plans, scores."""

import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

from l5kit._files import replaced_when_complete
from l5kit._types import FloatArray, Int64Array, JsonObject
from l5kit.closedloop.parts import FinishedScene, Part
from l5kit.closedloop.scenes import FailedScene
from l5kit.closedloop.tables import frame_columns, frame_columns_of, scene_columns_of, write_table
from l5kit.data.log_facts import LogFacts
from l5kit.data.log_writer import write_log
from l5kit.data.progress import Progress
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.epdms.plan_windows import EpdmsParams
from l5kit.geometry.transform import round_world
from l5kit.simulation.engine.actions import join_times, plans_at
from l5kit.simulation.engine.driven_scenes import LEAST_WAY_M
from l5kit.simulation.folder.simulation_folder import DRIVEN_LOG, FRAMES_TABLE, PLANS_FILE, SCENES_TABLE

_MIDNIGHT = (1980, 1, 1, 0, 0, 0)
"""Fixed time of all archive entries, so that equal plans give equal files."""


def assemble(
    folder: Path,
    parts: Sequence[Part],
    scenes: Int64Array,
    *,
    metrics: Sequence[MetricFacts],
    facts: LogFacts,
    with_parquet: bool,
    progress: Progress | None = None,
) -> list[JsonObject]:
    """Write tables, driven scenes and plans, and return the table rows of the scenes.

    Args:
        folder: Output folder.
        parts: Parts that together hold all scenes.
        scenes: The scenes, ascending, (S,).
        metrics: The measured metrics.
        facts: Facts of the log.
        with_parquet: Whether to write the tables as Parquet, too.
        progress: Called with the number of written scenes and the total.
    """
    of_frames, of_scenes = frame_columns_of(metrics), scene_columns_of(metrics)
    rows: list[JsonObject] = []
    num_positions = 0
    times_s = join_times([part.plan_times_s for part in parts])
    with ExitStack() as stack:
        frame_table = stack.enter_context(write_table(folder / FRAMES_TABLE, of_frames, with_parquet=with_parquet))
        scene_table = stack.enter_context(write_table(folder / SCENES_TABLE, of_scenes, with_parquet=with_parquet))
        log = stack.enter_context(write_log(folder / DRIVEN_LOG, facts=facts, overwrite=True))
        plans_path = stack.enter_context(replaced_when_complete(folder / PLANS_FILE, argument="folder"))
        archive = stack.enter_context(zipfile.ZipFile(plans_path, "w", zipfile.ZIP_STORED))
        for done, scene in enumerate(_scenes_of(parts, scenes), start=1):
            row = scene.row
            if scene.records is not None and scene.frames is not None:
                row = row | {"position": num_positions}
                num_positions += 1
                log.append(scene.records)
                frame_table.append(frame_columns(scene.frames, of_frames))
            if scene.plans is not None:
                # round again: a part stays in float64 for all its scenes if one of them is far from the origin
                plans = round_world(plans_at(times_s, scene.plans, np.array(scene.plan_times_s)))
                _write_array(archive, f"scene_{scene.scene}", plans)
            scene_table.append({name: [row[name]] for name in of_scenes})
            rows.append(row)
            if progress is not None:
                progress(done, len(scenes))
        _write_array(archive, "times_s", times_s)
    return rows


def _scenes_of(parts: Sequence[Part], scenes: Int64Array) -> Iterator[FinishedScene]:
    """Yield scenes in order, closing each part after its last scene."""
    part_of: Mapping[int, Part] = {scene: part for part in parts for scene in part.scenes}
    for scene in scenes.tolist():
        part = part_of[scene]
        yield part.read(scene)
        if scene == part.scenes[-1]:
            part.close()


def _write_array(archive: zipfile.ZipFile, name: str, array: FloatArray) -> None:
    """Write an array as ``numpy.savez`` does, with a fixed time."""
    with archive.open(zipfile.ZipInfo(f"{name}.npy", _MIDNIGHT), "w", force_zip64=True) as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


_TOTALS: Final = ("frames", "way_m", "expert_way_m", "collisions", "collisions_at_fault")
"""Summed columns of the scenes table, next to ``appeared_close`` and the counts of frames with a fault."""


def scores_of(rows: Sequence[JsonObject], metrics: Sequence[MetricFacts], run: JsonObject) -> JsonObject:
    """Return the scores of a simulation.

    Args:
        rows: Rows of the scenes table, including failed scenes.
        metrics: The measured metrics.
        run: Description of the run, copied into the result.

    Returns:
        The content of ``scores.json``. ``metrics`` has the mean of each metric over the scenes it applies to, or the
        metric's own aggregate, None if it applies to none; ``about_metrics`` describes them. ``failed`` lists failed
        scenes; ``unscored`` lists scenes with too few frames and those in which the AV moves neither here nor in the
        log; neither count in any mean. ``appeared_close`` lists the scenes in which the log lets road users appear
        closer than the AV can stop, with their number and the first of them. With a fallback, ``driven_by`` counts the
        steps driven by the planner and by its fallback.
    """
    driven = [row for row in rows if row["message"] is None]
    scored = [row for row in driven if row["score"] is not None]
    failed = filter(None, map(FailedScene.of_row, rows))
    counted = [metric.counted_as for metric in metrics if metric.counted_as is not None]
    need_map = [metric.name for metric in metrics if metric.needs_map and metric.role is not None]

    # fsum is exact and so independent of the order of the scenes; counts stay integers in JSON
    totals: dict[str, float] = {}
    for name in (*_TOTALS, *counted, "appeared_close"):
        values = [row[name] for row in scored]
        totals[name] = math.fsum(values) if any(isinstance(value, float) for value in values) else sum(values)

    # metrics of the score fail below 1, others by their own rule
    scenes_failing: dict[str, int] = {}
    for metric in metrics:
        values = [row[metric.name] for row in scored if row[metric.name] is not None]
        scenes_failing[metric.name] = sum(
            value < 1 if metric.role is not None else metric.fails(value) for value in values
        )

    # Only scenes with a fallback record who drove. The first frame is not a step.
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
        "failed": [each.as_json() for each in failed],
        **driven_by,
        **run,
    }


def _why_unscored(row: JsonObject) -> str:
    """Return why a driven scene has no score."""
    if row["frames"] < 2:
        return "one frame, in which nothing is driven"
    if max(row["way_m"], row["expert_way_m"]) < LEAST_WAY_M:
        return f"neither the planner ({row['way_m']:.2f} m) nor the log ({row['expert_way_m']:.2f} m) moves"
    params = EpdmsParams()
    return (
        f"{row['frames']} frames are too few for a window: it needs {params.past_s} s before and {params.horizon_s} s "
        "after its first frame"
    )

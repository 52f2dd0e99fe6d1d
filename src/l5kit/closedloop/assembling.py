"""Assembling of the files of a simulation from its parts, a scene at a time."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from l5kit._files import replaced_when_complete
from l5kit._types import FloatArray, Int64Array, JsonObject
from l5kit.closedloop.columns import frame_columns_of, scene_columns_of
from l5kit.closedloop.parts import FinishedScene, Part
from l5kit.closedloop.tables import frame_columns, write_table
from l5kit.data.log_facts import LogFacts
from l5kit.data.log_writer import write_log
from l5kit.data.progress import Progress
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.geometry.transform import round_world
from l5kit.simulation.engine.kept_plans import join_times, plans_at
from l5kit.simulation.folder.simulation_folder import DRIVEN_LOG, FRAMES_TABLE, PLANS_FILE, SCENES_TABLE

_MIDNIGHT = (1980, 1, 1, 0, 0, 0)
"""The time of all entries of an archive, so that equal plans are equal files."""


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
    """Write tables, driven scenes and plans, and return the rows of the scenes.

    Args:
        folder: Where to write.
        parts: Have all scenes.
        scenes: The scenes, ascending, (S,).
        metrics: What was measured.
        facts: Facts of the log.
        with_parquet: Whether tables are written as Parquet, too.
        progress: Called with the number of scenes that are written and of all.
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
                # once more, as a far scene of the same part leaves those of near ones in float64
                plans = round_world(plans_at(times_s, scene.plans, np.array(scene.plan_times_s)))
                _write_array(archive, f"scene_{scene.scene}", plans)
            scene_table.append({name: [row[name]] for name in of_scenes})
            rows.append(row)
            if progress is not None:
                progress(done, len(scenes))
        _write_array(archive, "times_s", times_s)
    return rows


def _scenes_of(parts: Sequence[Part], scenes: Int64Array) -> Iterator[FinishedScene]:
    """Yield scenes in their order, from parts of which few are open at a time."""
    part_of: Mapping[int, Part] = {scene: part for part in parts for scene in part.scenes}
    for scene in scenes.tolist():
        part = part_of[scene]
        yield part.read(scene)
        if scene == part.scenes[-1]:
            part.close()


def _write_array(archive: zipfile.ZipFile, name: str, array: FloatArray) -> None:
    """Write an array as ``numpy.savez`` does, but for the time."""
    with archive.open(zipfile.ZipInfo(f"{name}.npy", _MIDNIGHT), "w", force_zip64=True) as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)

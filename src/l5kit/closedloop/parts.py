"""Parts of a simulation: finished blocks of scenes on disk, each written atomically."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from l5kit._files import clear_leftovers_in, placed_when_complete, remove_whole
from l5kit._types import Float64Array, FloatArray, JsonObject, RecordArray
from l5kit.data.jobs.owned_outputs import LOG_FILES
from l5kit.data.jobs.receipts import find_damage, read_receipt, write_receipt
from l5kit.data.log_facts import LogFacts
from l5kit.data.log_writer import write_log
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.simulation.engine.actions import join_times, plans_at

PARTS_FOLDER: Final = "parts"

_ROWS_FILE: Final = "scenes.json"
_FRAMES_FILE: Final = "frames.npy"
_PLANS_FILE: Final = "plans.npy"
_LOG_FOLDER: Final = "scenes.zarr"

PART_PATHS: Final = (
    rf"\d{{8,}}/(?:{re.escape(_ROWS_FILE)}|{re.escape(_FRAMES_FILE)}|{re.escape(_PLANS_FILE)}"
    rf"|{re.escape(_LOG_FOLDER)}/{LOG_FILES})"
)
"""Pattern of the files of parts, relative to the folder of parts."""


@dataclass(frozen=True, eq=False)
class FinishedScene:
    """A simulated or failed scene.

    Attributes:
        row: Its row in the scenes table.
        frames: Its rows in the frames table, (F,); None if it failed.
        records: Its frames as driven; None if it failed.
        plans: Plan of each frame, (F, T, 3), NaN where there is none; None without any plan.
        plan_times_s: Times of the poses of a plan, seconds after the frame of the plan.
    """

    row: JsonObject
    frames: RecordArray | None = None
    records: SceneRecords | None = None
    plans: FloatArray | None = None
    plan_times_s: tuple[float, ...] = ()

    @property
    def scene(self) -> int:
        """Index of the scene in its log."""
        return int(self.row["scene"])


class Part:
    """A finished block of scenes on disk.

    Args:
        folder: Folder of the part.

    Attributes:
        rows: Rows of the scenes table.
        scenes: Its scenes.
        plan_times_s: Times of the poses of its plans, seconds after the frame of the plan, (T,).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        content = read_receipt(folder, _ROWS_FILE)
        self.rows: list[JsonObject] = content["rows"]
        self.scenes = [int(row["scene"]) for row in self.rows]
        self.plan_times_s: Float64Array = np.array(content["plan_times_s"], np.float64)

    def read(self, scene: int) -> FinishedScene:
        """Return one of its scenes."""
        number = self.scenes.index(scene)
        row = self.rows[number]
        if row.get("message") is not None:
            return FinishedScene(row)
        # failed scenes have a row but no frames, plans or records, so these are counted over the other scenes
        before = [other for other in self.rows[:number] if other.get("message") is None]
        first = sum(other["frames"] for other in before)
        rows = slice(first, first + row["frames"])
        plans = None if self._plans is None else np.array(self._plans[rows])
        return FinishedScene(
            row=row,
            frames=np.array(self._frames[rows]),
            records=SceneRecords.read(self._log, len(before)),
            plans=None if plans is None or np.isnan(plans).all() else plans,  # a scene of one frame has none
            plan_times_s=tuple(self.plan_times_s.tolist()),
        )

    def close(self) -> None:
        """Close the files; they are opened again when needed."""
        for name in ("_frames", "_plans", "_log"):
            vars(self).pop(name, None)

    @cached_property
    def _frames(self) -> RecordArray:
        frames: RecordArray = np.load(self._folder / _FRAMES_FILE, mmap_mode="r")
        return frames

    @cached_property
    def _plans(self) -> FloatArray | None:
        file = self._folder / _PLANS_FILE
        return np.load(file, mmap_mode="r") if file.is_file() else None

    @cached_property
    def _log(self) -> ChunkedDataset:
        return ChunkedDataset(str(self._folder / _LOG_FOLDER)).open(cached=False)


def write_part(folder: Path, scenes: list[FinishedScene], *, facts: LogFacts, run: str) -> None:
    """Write a block of scenes.

    Args:
        folder: Folder of the parts.
        scenes: The scenes, ascending, at least one.
        facts: Facts of the log.
        run: Digest of the run; parts of another simulation have a different one.
    """
    driven = [scene for scene in scenes if scene.records is not None and scene.frames is not None]
    times_s = join_times([np.array(scene.plan_times_s) for scene in driven])
    with placed_when_complete(folder / _name_of_part(scenes[0].scene)) as part:
        part.mkdir()
        with write_log(part / _LOG_FOLDER, facts=facts) as log:
            for scene in driven:
                if scene.records is not None:
                    log.append(scene.records)
        frames = [scene.frames for scene in driven if scene.frames is not None]
        np.save(part / _FRAMES_FILE, np.concatenate(frames) if frames else np.zeros(0))
        if len(times_s):
            # one array for the block, (F, T, 3), at the times of the part; NaN where a scene has no plan
            plans = [np.full((len(each), len(times_s), 3), np.nan, np.float32) for each in frames]
            for number, scene in enumerate(driven):
                if scene.plans is not None:
                    plans[number] = plans_at(times_s, scene.plans, np.array(scene.plan_times_s))
            np.save(part / _PLANS_FILE, np.concatenate(plans))
        rows, of_plans = [scene.row for scene in scenes], times_s.tolist()
        write_receipt(part, _ROWS_FILE, {"run": run, "rows": rows, "plan_times_s": of_plans})


def find_parts(folder: Path) -> Iterator[Part]:
    """Yield all parts of a folder of parts."""
    for path in sorted(folder.glob("[0-9]*")):
        yield Part(path)


def drop_damaged(folder: Path, run: str) -> None:
    """Remove leftovers of killed writers and, with a warning, parts whose files were changed or are incomplete.

    Args:
        folder: Folder of the parts.
        run: Digest of the run; parts of another simulation are removed, too.
    """
    clear_leftovers_in(folder)
    for path in sorted(folder.glob("[0-9]*")):
        damage = find_damage(path, _ROWS_FILE)
        if damage is None and read_receipt(path, _ROWS_FILE).get("run") != run:
            damage = "it is of another simulation, or of an earlier l5kit"
        if damage is None:
            # intact, but under the name of another part: its scenes would count twice
            scenes = Part(path).scenes
            if not scenes or path.name != _name_of_part(int(scenes[0])):
                damage = f"it starts with scenes {scenes[:1]} and so belongs to another part"
        if damage is not None:
            text = f"{path} is damaged: {damage}; it is removed and its scenes are simulated again"
            warnings.warn(text, RuntimeWarning, stacklevel=4)
            remove_whole(path)


def _name_of_part(first_scene: int) -> str:
    return f"{first_scene:08d}"

"""Datasets as folders of py123d, for people who work there: logs and a map in Arrow files."""

import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from l5kit._types import Int64Array
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.interop.arrow_columns import require_pyarrow
from l5kit.data.interop.export_folder import placed_export, require_export_target
from l5kit.data.interop.py123d_arrow import DATASET
from l5kit.data.interop.py123d_logs import LightsOfLanes, write_scene
from l5kit.data.interop.py123d_map import LOCATION, read_areas, write_map
from l5kit.data.interop.table_parts import with_scenes_in_memory
from l5kit.data.job_folder import require_shared
from l5kit.data.map.opened import open_map
from l5kit.data.progress import Progress
from l5kit.data.scene_jobs import KeptWorkers, Workers, map_scenes
from l5kit.data.scene_selection import SceneSelection, selected_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError

_SPLIT = re.compile(r"[\w-]+")


def export_py123d(
    dataset: ChunkedDataset,
    out: str | os.PathLike[str],
    *,
    files: DatasetFiles | None = None,
    split: str = "train",
    scenes: SceneSelection = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    workers: Workers = 1,
) -> None:
    """Write a dataset as logs and a map of py123d to a new folder, complete or not at all.

    The folder has ``logs/l5kit_SPLIT/scene-000000/`` for each scene, with the files ``sync``, ``ego_state_se3``,
    ``box_detections_se3`` and, with a map, ``traffic_light_detections.arrow``, and ``maps/l5kit/l5kit_world.arrow``.
    They are of the Arrow IPC format, and can be read with pyarrow and msgpack alone. Coordinates are those of the
    dataset. What py123d asks for and no log tells is made up: the wheelbase of the AV, the heights at which boxes are,
    which stand on the ground of the AV, and the motion of the AV, which is told by differences. Scenes without frames
    are left out.

    Args:
        dataset: An opened dataset, or one in memory.
        out: The folder.
        files: Where its map lies, and the areas beside it; None, or files without a map, for logs without one.
        split: ``train``, ``val``, ``test`` or what else the logs are for.
        scenes: Scenes to write, none twice; None for all.
        overwrite: Replace an export or a dataset that is there.
        progress: Called with the number of scenes written and of all.
        workers: Number of threads that write scenes at the same time, or an executor; the files are the same.

    Raises:
        CorruptedDataError: Rows or the map cannot be read, or times of a scene do not ascend.
        FileExistsError: There is something at ``out``, and ``overwrite`` is False.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: ``split`` is no name, there are no scenes, what is at ``out`` is no export, or the parts
            that ``workers`` keep are of another split or map.
        MissingDependencyError: pyarrow is not installed.
    """
    require_pyarrow("an export to py123d")
    if not _SPLIT.fullmatch(split):
        raise InvalidArgumentError(f"split must be a name of letters and digits such as 'train', got {split!r}")
    scene_indices = selected_scenes(scenes, len(dataset))
    if len(scene_indices) == 0 or len(set(scene_indices.tolist())) < len(scene_indices):
        raise InvalidArgumentError(f"scenes must name scenes to write, each once, got {scenes!r} of {len(dataset)}")
    require_export_target(out, overwrite=overwrite)
    semantic_map = open_map(files, what="an export to py123d") if files is not None else None
    lights = LightsOfLanes.of(semantic_map.arrays.lights) if semantic_map is not None else None
    with placed_export(out, overwrite=overwrite) as folder:
        folder.mkdir()
        if semantic_map is not None and files is not None and files.semantic_map is not None:
            maps = folder / "maps" / DATASET
            maps.mkdir(parents=True)
            areas = read_areas(files.semantic_map.parent / "areas.json")
            write_map(maps / f"{DATASET}_{LOCATION}.arrow", semantic_map, areas)
        logs = folder / "logs" / f"{DATASET}_{split}"
        logs.mkdir(parents=True)
        if isinstance(workers, KeptWorkers):
            # lights of logs depend on the map, so that parts of another one are of no use
            digest_of_map = None
            if files is not None and files.semantic_map is not None:
                with files.semantic_map.open("rb") as file:
                    digest_of_map = hashlib.file_digest(file, "sha256").hexdigest()
            workers.job.require_same("export", {"split": split, "map": digest_of_map})
        job = _WriteScenes(with_scenes_in_memory(dataset), logs, logs.name, lights)
        with map_scenes(job, scene_indices, workers, progress=progress) as written:
            for _ in written:
                pass


@dataclass(frozen=True)
class _WriteScenes:
    """Writes the logs of scenes, and returns how many."""

    dataset: ChunkedDataset
    folder: Path
    split: str
    lights: LightsOfLanes | None

    def in_folder(self, folder: Path) -> "_WriteScenes":
        """Return the job that writes into another folder."""
        return replace(self, folder=folder)

    def __call__(self, scenes: Int64Array) -> int:
        require_shared(self.folder)
        for scene in scenes.tolist():
            log = self.dataset.view_scene(scene)
            name = f"scene-{scene:06}"
            if len(log.frames):
                write_scene(self.folder / name, log, split=self.split, name=name, lights=self.lights)
        return len(scenes)


def split_of_log(path: str | os.PathLike[str]) -> str:
    """Return what the scenes of a log are for, told from its name: ``train``, ``val``, ``test``, or else ``train``."""
    name = os.path.basename(os.fspath(path).rstrip("/\\")).lower()
    return next((split for split in ("val", "test") if name.startswith(split)), "train")

"""Dataset of edited scenes: a folder with log, map and a record of the edits, written completely or not at all."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from l5kit import __version__
from l5kit._files import clear_leftovers, placed_when_complete, write_json
from l5kit._types import Int64Array, JsonObject
from l5kit.data.dataset_files import DatasetFiles, find_dataset_files
from l5kit.data.jobs.data_record import DataRecord
from l5kit.data.jobs.owned_outputs import LOG_FILES, OutputKind, holds_keys, require_own_folder
from l5kit.data.kept import Kept
from l5kit.data.layout import name_of_log
from l5kit.data.log_writer import LogWriter, write_log
from l5kit.data.map.map_folder import INDEX_FILE, MAPS_FOLDER, MapIndex, MapIndexWriter, is_map_index
from l5kit.data.map.opened import SceneMaps, open_maps
from l5kit.data.progress import Progress
from l5kit.data.save import require_local
from l5kit.data.scene_arrays import SceneArrays, read_scene_arrays
from l5kit.data.scene_selection import SceneSelection, selected_scenes
from l5kit.data.stores.store import is_url, path_of
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.editing.scene_edit import ImpossibleEditError, SceneEdit, SceneSetting
from l5kit.errors import InvalidArgumentError
from l5kit.random.seeding import mix_seeds

EDITS_FILE: Final = "edits.json"
"""Name of the file in the dataset folder that records the edits."""

_MOST_MAPS: Final = 8
_EDITED: Final = OutputKind(
    "an edited dataset",
    lambda folder: holds_keys(folder / EDITS_FILE, {"l5kit_version", "source", "edits", "scenes"}),
    rf"{EDITS_FILE}|meta\.json|semantic_map/semantic_map\.pb|{MAPS_FOLDER}/(?:{INDEX_FILE}|\d+/\d+\.pb)"
    rf"|aerial_map/aerial_map\.png|scenes/[^/]+\.zarr/{LOG_FILES}",
)


@dataclass(frozen=True)
class EditedDataset:
    """Dataset of edited scenes.

    Attributes:
        path: Folder of the dataset.
        log: Path of its log.
        scenes: Scene index in the source for each scene, int64 (S,).
        left_out: Skipped scenes, which an edit does not fit: reason by scene index in the source.
    """

    path: Path
    log: Path
    scenes: Int64Array
    left_out: dict[int, str]


def edit_dataset(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    edits: SceneEdit | Sequence[SceneEdit],
    *,
    scenes: SceneSelection = None,
    seed: int = 0,
    map_path: str | os.PathLike[str] | None = None,
    meta_path: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> EditedDataset:
    """Apply the same edits to scenes of a dataset, and write these as a dataset that appears once it is complete.

    Map, ``meta.json``, aerial image and facts are copied; the source is not changed. ``edits.json`` records the source
    with its digest, the edits with their parameters, and the source index of each scene. Scenes that an edit does not
    fit are skipped and listed with the reason. The same arguments give the same files.

    Args:
        path: A dataset folder or log; if a folder has several logs, the path of one of them.
        out: Folder to write.
        edits: Edits of each scene, in this order.
        scenes: Scenes of the log; None for all.
        seed: Seed of random choices of edits, at least 0; combined with the scene index in the source.
        map_path: Semantic map, if it is not in the dataset.
        meta_path: ``meta.json``, likewise.
        overwrite: Replace an existing edited dataset; a folder with any other content is never replaced.
        progress: Called with the number of finished scenes and the total.

    Raises:
        DatasetNotFoundError: There is no dataset.
        FileExistsError: ``out`` exists, and ``overwrite`` is False.
        ImpossibleEditError: The edits fit none of the scenes.
        InvalidArgumentError: There are no edits or no scenes, the seed is negative, ``out`` has other content, or
            ``out`` would overwrite or mix with files of the source; or an edit does not return a scene.
        CorruptedDataError: A file of the log or the map is damaged.
    """
    several: list[object] = list(edits) if isinstance(edits, Sequence) else [edits]
    chosen = [edit for edit in several if isinstance(edit, SceneEdit)]
    if wrong := [edit for edit in several if not isinstance(edit, SceneEdit)]:
        raise InvalidArgumentError(
            f"edits must be SceneEdits, such as ParkedVehicle(ahead_m=40), got {wrong[0]!r}; derive your own class "
            "from SceneEdit"
        )
    if not chosen:
        raise InvalidArgumentError("edits is empty; name at least one, such as ParkedVehicle(ahead_m=40)")
    require_local("out", out)
    target = Path(out).absolute()
    files = find_dataset_files(path, map_path=map_path, meta_path=meta_path)
    log = ChunkedDataset(files.dataset).open()
    wanted = selected_scenes(scenes, len(log.scenes))
    if len(wanted) == 0:
        raise InvalidArgumentError(f"scenes selects none of the {len(log.scenes)} scenes of {path_of(files.dataset)}")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InvalidArgumentError(f"seed must be a whole number of at least 0, got {seed!r}")
    clear_leftovers(target)
    _require_free(target, overwrite=overwrite)
    _require_apart(target, files)

    maps = open_maps(files)
    name = f"{name_of_log(Path(path_of(files.dataset)).name)}.zarr"
    with placed_when_complete(target, may_replace=overwrite) as complete:
        (complete / "scenes").mkdir(parents=True)
        with write_log(complete / "scenes" / name, facts=log.facts) as writer:
            kept, left_out = _write_scenes(
                writer, log, maps, scenes=wanted, edits=chosen, seed=int(seed), progress=progress
            )
        if files.meta is not None:
            shutil.copyfile(files.meta, complete / "meta.json")
        if files.aerial is not None and not is_url(path_of(files.aerial)):  # a remote image is not downloaded
            (complete / "aerial_map").mkdir()
            shutil.copyfile(files.aerial, complete / "aerial_map" / "aerial_map.png")
        _copy_maps(files, complete, maps=maps, rows=[] if maps is None else maps.rows_of_scenes(log, kept).tolist())
        record = {
            "l5kit_version": __version__,
            "source": DataRecord.of(files.dataset, num_scenes=len(log.scenes)).as_dict(),
            "seed": int(seed),
            "edits": [_edit_as_json(edit) for edit in chosen],
            "scenes": kept,
            "left_out": [{"scene": scene, "reason": reason} for scene, reason in left_out.items()],
        }
        write_json(complete / EDITS_FILE, record)
        _require_free(target, overwrite=overwrite)
    return EditedDataset(target, target / "scenes" / name, np.array(kept, np.int64), left_out)


def _write_scenes(
    writer: LogWriter,
    log: ChunkedDataset,
    maps: SceneMaps | None,
    *,
    scenes: Int64Array,
    edits: Sequence[SceneEdit],
    seed: int,
    progress: Progress | None,
) -> tuple[list[int], dict[int, str]]:
    """Write edited scenes, and return the scenes written, and the reasons of the skipped ones by scene.

    Raises:
        ImpossibleEditError: All scenes were skipped.
    """
    settings: Kept[SceneSetting] = Kept(_MOST_MAPS)
    kept: list[int] = []
    left_out: dict[int, str] = {}
    for number, scene in enumerate(scenes.tolist()):
        row = -1 if maps is None else int(maps.rows_of_scenes(log, [scene])[0])
        setting = settings.get(
            row,
            lambda row=row: SceneSetting.on(  # type: ignore[misc]
                None if maps is None else maps.map_of([row]), facts=log.facts
            ),
        )
        arrays = read_scene_arrays(log, scene)
        try:
            for position, edit in enumerate(edits):
                arrays = edit.apply(arrays, replace(setting, seed=mix_seeds(seed, scene, position)))
                if not isinstance(arrays, SceneArrays):
                    raise InvalidArgumentError(
                        f"{type(edit).__name__}.apply returned {type(arrays).__name__} for scene {scene}; it must "
                        "return SceneArrays, such as the scene passed to it"
                    )
        except ImpossibleEditError as error:
            left_out[scene] = f"{type(edit).__name__}: {error}"
        else:
            writer.append(arrays)
            kept.append(scene)
        if progress is not None:
            progress(number + 1, len(scenes))
    if not kept:
        scene, reason = next(iter(left_out.items()))
        raise ImpossibleEditError(f"the edits fit none of the {len(scenes)} scenes; scene {scene}: {reason}")
    return kept, left_out


def _copy_maps(files: DatasetFiles, folder: Path, *, maps: SceneMaps | None, rows: Sequence[int]) -> None:
    """Copy the map into the folder of a dataset; of many maps only those of the written scenes.

    Args:
        files: Files of the source.
        folder: Folder of the dataset.
        maps: The maps; None without any, or if no meta.json gives their frame.
        rows: Row of the map of each scene.
    """
    if files.semantic_map is None or (maps is None and is_map_index(files.semantic_map)):
        return
    if maps is None or maps.is_single:
        (folder / "semantic_map").mkdir()
        shutil.copyfile(files.semantic_map, folder / "semantic_map" / "semantic_map.pb")
        return
    (folder / MAPS_FOLDER).mkdir()
    index, writer = MapIndex.read(files.semantic_map), MapIndexWriter(folder / MAPS_FOLDER)
    for row in sorted(set(rows)):
        source = index.path_of(row)
        writer.add(index.names[row], index.bounds_m[row], lambda path, source=source: shutil.copyfile(source, path))  # type: ignore[misc]
    writer.finish()


def _edit_as_json(edit: SceneEdit) -> JsonObject:
    """Return name and parameters of an edit; ``repr`` replaces what JSON cannot hold.

    This applies to a user's edit that is not a dataclass, and to parameters such as arrays.
    """
    params = asdict(edit) if is_dataclass(edit) else {"text": repr(edit)}
    as_json: JsonObject = json.loads(json.dumps({"edit": type(edit).__name__, **params}, default=repr))
    return as_json


def _require_apart(target: Path, files: DatasetFiles) -> None:
    """Refuse a folder inside the source log, or one that contains files of the source, so that these stay intact."""
    log, *others = (
        None if file is None or is_url(path_of(file)) else Path(path_of(file)).resolve()
        for file in (files.dataset, files.semantic_map, files.meta, files.aerial)
    )
    folder = target.resolve()
    if log is not None and folder.is_relative_to(log):
        raise InvalidArgumentError(f"out is {str(target)!r}, inside the source log; choose a folder outside it")
    held = next((file for file in (log, *others) if file is not None and file.is_relative_to(folder)), None)
    if held is not None:
        raise InvalidArgumentError(
            f"out is {str(target)!r}, but writing there would overwrite the input {str(held)!r}; choose another folder"
        )


def _require_free(target: Path, *, overwrite: bool) -> None:
    """Refuse a path that exists and is not an edited dataset, or may not be replaced."""
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise FileExistsError(f"out is {str(target)!r}, which exists; name another folder, or pass overwrite=True")
    require_own_folder(target, _EDITED, argument="out")

"""Output folder of ``l5kit drive``: a page with scenes to drive, as static files for any web server."""

import gzip
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from l5kit._files import placed_when_complete
from l5kit._types import JsonObject
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.jobs.data_record import DataRecord
from l5kit.data.jobs.owned_outputs import OutputKind, holds_keys, require_own_folder
from l5kit.data.map.opened import open_map
from l5kit.data.scene_records import SceneRecords
from l5kit.data.stores.store import file_name_of
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.evaluation.driving.record_faults import find_record_fault
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.visualization.drive.drive_content import drive_scene_bytes, road_bytes
from l5kit.visualization.map_shapes import read_map_shapes
from l5kit.visualization.viewer.content_bytes import map_bytes
from l5kit.visualization.viewer.page_files import PageFile, fill_template, page_files, page_style

_ENTRY: Final = "l5kit/drive/app"
_IMPORT: Final = re.compile(r"""(?:^|;|\n)import (?:[\w*{][^"';]*? from )?["']([^"']+)["']""")
_LIST: Final = "data/drives.json"
_FORMAT: Final = "l5kit drive folder"
_STEP_SLACK_S: Final = 1e-6
_GZIP: Final = b"\x1f\x8b"
"""First bytes of gzip data."""

_LICENSE: Final = resources.files("l5kit.visualization.viewer") / "page" / "vendor" / "pixi.LICENSE.txt"
"""License that must be distributed with PixiJS."""

DRIVE_FOLDER: Final = OutputKind(
    called="a page of l5kit drive",
    is_marked=lambda folder: holds_keys(folder / _LIST, {"scenes", "road"}, format=_FORMAT),
    paths=r"index\.html|pixi\.LICENSE\.txt|scripts/[\w.]+|data/(?:drives\.json|(?:map|road|policy|scene-\d+)\.bin)",
)
"""Output that the command may replace."""


@dataclass(frozen=True)
class PagePolicy:
    """A policy whose plan the page shows, in the format of the page.

    Attributes:
        name: Display name.
        step_time_s: Seconds per step; scenes with other steps are shown without its plan.
        content: Facts and weights, packed by :func:`~l5kit.visualization.viewer.packed_arrays.pack_arrays`.
    """

    name: str
    step_time_s: float
    content: bytes


@dataclass(frozen=True)
class DriveFolder:
    """A written folder.

    Attributes:
        path: Path of the folder.
        scenes: The scenes that can be driven.
        num_bytes: Bytes of all files.
        num_zipped_bytes: Bytes sent by a server that compresses uncompressed files.
    """

    path: Path
    scenes: tuple[int, ...]
    num_bytes: int
    num_zipped_bytes: int


def write_drive_folder(
    folder: str | os.PathLike[str],
    files: DatasetFiles,
    *,
    name: str,
    scenes: Sequence[int] = (),
    policy: PagePolicy | None = None,
    overwrite: bool = False,
) -> DriveFolder:
    """Write a page on which scenes of a log can be driven, complete or not at all.

    Args:
        folder: The output folder.
        files: Paths of log and map.
        name: Name of the dataset on the page.
        scenes: Scenes of the log; all by default.
        policy: Policy whose plan the page can show next to that of the IDM, if its steps are as long as those of the
            log.
        overwrite: Whether an existing folder of this kind is replaced.

    Raises:
        InvalidArgumentError: There is no map with lanes, a scene has a fault, or the folder holds something else.
        IndexOutOfRangeError: There is no such scene.
        CorruptedDataError: The log or the map cannot be read.
    """
    target = Path(folder)
    if target.exists():
        if not overwrite:
            raise InvalidArgumentError(
                f"folder (--out) is {str(target)!r}, which exists; choose another one, or pass overwrite "
                "(--overwrite) to replace it"
            )
        require_own_folder(target, DRIVE_FOLDER, argument="folder (--out)")
    log = ChunkedDataset(files.dataset).open()
    map_api = open_map(files)
    if map_api is None or map_api.arrays.num_lanes == 0:
        raise InvalidArgumentError(
            f"dataset {files.dataset} has no semantic map with lanes, which traffic needs; give one (--map, --meta)"
        )
    road = RoadMap(map_api)
    chosen = _scenes_of(log, scenes)
    record = DataRecord.of(files.dataset, num_scenes=len(log.scenes))
    with placed_when_complete(target) as scratch:
        (scratch / "data").mkdir(parents=True)
        (scratch / "scripts").mkdir()
        listed = [_write_scene(scratch / "data", log, scene, road) for scene in chosen]
        _write_zipped(scratch / "data" / "map.bin", map_bytes(read_map_shapes(road.api.arrays)))
        _write_zipped(scratch / "data" / "road.bin", road_bytes(road.driving))
        if policy is not None and abs(policy.step_time_s - float(log.facts.step_time_s)) > _STEP_SLACK_S:
            policy = None
        if policy is not None:
            _write_zipped(scratch / "data" / "policy.bin", policy.content)
        facts = {
            "format": _FORMAT,
            "name": name,
            "log": file_name_of(files.dataset),
            "digest": record.digest,
            "map": "map.bin",
            "road": "road.bin",
            "policy": None if policy is None else {"name": policy.name, "file": "policy.bin"},
            "scenes": listed,
        }
        (scratch / _LIST).write_text(json.dumps(facts, indent=1), "utf-8")
        scripts = drive_page_files()
        for file in scripts:
            (scratch / "scripts" / file.name).write_bytes(file.content)
        (scratch / "index.html").write_text(_page(scripts), "utf-8")
        (scratch / _LICENSE.name).write_bytes(_LICENSE.read_bytes())
        num_bytes, num_zipped = _count_bytes(scratch)
    return DriveFolder(target, tuple(chosen), num_bytes, num_zipped)


def drive_page_files() -> tuple[PageFile, ...]:
    """Return the scripts of the page, including viewer scripts that they import."""
    own = resources.files(__package__) / "page"
    names = sorted(entry.name for entry in own.iterdir() if entry.name.endswith(".js"))
    known = {file.specifier: file for file in page_files()}
    for name in names:
        specifier = f"l5kit/drive/{name.removesuffix('.js')}"
        known[specifier] = PageFile(f"drive_{name}", specifier, (own / name).read_bytes())
    needed, waiting = {}, [_ENTRY]
    while waiting:
        specifier = waiting.pop()
        if specifier in needed:
            continue
        file = needed[specifier] = known[specifier]
        if specifier.startswith("l5kit/"):  # libraries import nothing
            waiting += _IMPORT.findall(file.content.decode("utf-8"))
    return tuple(needed[specifier] for specifier in sorted(needed))


def _page(scripts: Sequence[PageFile]) -> str:
    """Return the page as HTML, for scripts in the folder next to it."""
    own = resources.files(__package__) / "page"
    return fill_template(
        (own / "drive.html").read_text("utf-8"),
        style=f"{page_style()}\n{(own / 'drive.css').read_text('utf-8')}",
        imports={file.specifier: f"./scripts/{file.name}" for file in scripts},
    )


def _scenes_of(log: ChunkedDataset, scenes: Sequence[int]) -> list[int]:
    """Return the requested scenes, ascending."""
    size = len(log.scenes)
    chosen = sorted(set(scenes)) or list(range(size))
    if not chosen or not 0 <= chosen[0] <= chosen[-1] < size:
        raise IndexOutOfRangeError(f"scenes are {list(scenes)}; the log has {size} scenes, counted from 0")
    return chosen


def _write_scene(folder: Path, log: ChunkedDataset, scene: int, road: RoadMap) -> JsonObject:
    """Write a scene, and return its entry in the list."""
    records = SceneRecords.read(log, scene)
    fault = find_record_fault(records)
    if fault is not None or len(records.frames) < 2:
        reason = "it has fewer than two frames" if fault is None else f"frame {fault.frame}: {fault.message}"
        raise InvalidArgumentError(f"scene {scene} cannot be driven: {reason}; exclude it (--scene)")
    batch = SceneBatch.of_scenes([records], scene_indices=[scene], facts=log.facts, road=road)
    _write_zipped(folder / f"scene-{scene}.bin", drive_scene_bytes(batch))
    num_frames = len(records.frames)
    return {
        "scene": scene,
        "duration_s": round((num_frames - 1) * float(log.facts.step_time_s), 3),
        "agents_per_frame": round(len(records.agents) / num_frames, 1),
        "file": f"scene-{scene}.bin",
    }


def _write_zipped(path: Path, content: bytes) -> None:
    """Write gzip data that the page decompresses itself, independent of the server."""
    path.write_bytes(gzip.compress(content, mtime=0))


def _count_bytes(folder: Path) -> tuple[int, int]:
    """Return the bytes of all files, and those sent by a server that compresses uncompressed files."""
    num_bytes, num_zipped = 0, 0
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            num_bytes += len(content)
            num_zipped += len(content if content.startswith(_GZIP) else gzip.compress(content))
    return num_bytes, num_zipped

"""Import of another dataset: scenes are read one by one and become logs and a map in one world frame."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from l5kit._files import clear_leftovers, clear_leftovers_in, placed_when_complete, remove_whole
from l5kit._types import Int64Array, JsonObject
from l5kit.data.jobs.folder_lock import held_alone
from l5kit.data.jobs.job_folder import require_shared
from l5kit.data.jobs.owned_outputs import OutputKind, require_own_folder
from l5kit.data.jobs.receipts import find_loss, finish_output
from l5kit.data.jobs.scene_jobs import Workers, map_scenes
from l5kit.data.map.builder import MOST_MAP_BYTES
from l5kit.data.progress import Progress, progress_of_part
from l5kit.data.scene_records import SceneRecords
from l5kit.data.texts import as_unicode
from l5kit.errors import EngineError, InvalidArgumentError, L5KitError, MapTooLargeError, is_termination
from l5kit.readers.formats import MapLayout
from l5kit.readers.import_files import IMPORT, ImportFiles
from l5kit.readers.parts import Part, naming_path, part_path, write_part
from l5kit.readers.reader import Reader, SceneRef, SourceDataError, SourceInfo, naming_source
from l5kit.readers.scene_conversion import to_records
from l5kit.readers.source_scene import SourceScene

_PARTS_SUFFIX = ".parts"
_LOCK = "import.lock"
_PARTS = OutputKind("an import", Path.is_dir, rf"{re.escape(_LOCK)}|[0-9a-f]{{2}}/[0-9a-f]{{30}}\.npz")
_CHANGED = "the file was changed while it was imported; import it again"
_SPLIT = re.compile(r"\w[\w-]{0,99}")
_LONGEST_MESSAGE = 2_000
_SCENES_SENT = 10_000
"""Maximum scenes per job sent to processes."""


@dataclass(frozen=True)
class FailedImport:
    """A scene that could not be read.

    Attributes:
        ref: Location of the scene.
        message: The reason, with file and record; characters that UTF-8 cannot encode are escaped.
    """

    ref: SceneRef
    message: str

    def as_json(self) -> JsonObject:
        """Return the entry of ``import.json``."""
        ref = self.ref
        content = {"split": ref.split, "name": ref.name, "file": ref.file, "record": ref.record}
        return {name: _as_written(text) for name, text in (*content.items(), ("message", self.message))}


@dataclass(frozen=True)
class ImportResult:
    """The outcome of an import.

    Attributes:
        folder: The dataset folder.
        scenes: The log of each split.
        num_scenes: Number of scenes in all logs.
        info: Facts of the source.
        failed: Scenes that could not be read.
        num_remarks: Number of dropped or repaired items, listed in ``sources/SPLIT.jsonl`` and ``import.json``.
    """

    folder: Path
    scenes: dict[str, Path]
    num_scenes: int
    info: SourceInfo
    failed: tuple[FailedImport, ...]
    num_remarks: int


def import_dataset(
    reader: Reader,
    out: str | os.PathLike[str],
    *,
    max_scenes: int | None = None,
    strict: bool = False,
    overwrite: bool = False,
    maps: str = MapLayout.ONE,
    workers: Workers = 1,
    progress: Progress | None = None,
) -> ImportResult:
    """Read a dataset in another format and write it as a dataset folder, which appears when it is complete.

    The folder gets ``scenes/SPLIT.zarr`` for each part of the source, ``semantic_map/semantic_map.pb`` with all maps,
    ``semantic_map/areas.json`` with areas that the semantic map cannot hold, ``meta.json``, ``sources/SPLIT.jsonl``
    with the origin of each scene, one per line, and ``import.json``. The files are the same for any number of workers.
    With ``maps="apart"`` a folder ``maps`` with an index and one file per map replaces ``semantic_map``.

    Scenes that cannot be read are listed as failed, and the import continues. Scenes already read are kept in the
    neighbouring folder ``OUT.parts``, from which a killed import continues when it is started again.

    Args:
        reader: Reader of the source.
        out: The folder to write; it must not exist or be empty, unless ``overwrite``.
        max_scenes: Maximum number of scenes to read, in order; None for all.
        strict: Raise the error of the first scene that fails, instead of continuing.
        overwrite: Replace an existing import in the folder.
        maps: ``one`` for one semantic map with all maps of the source; ``apart`` for a folder of maps that are loaded
            on demand: for a source in which every scene has its own map, so that memory use stays bounded.
        workers: Number of reading threads, or an executor; see :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.
        progress: Called with the number of scenes read and their total.

    Raises:
        DatasetNotFoundError: The source does not exist, or holds nothing in its format.
        MapTooLargeError: The semantic map of all scenes would exceed 2 GB, or cover too much of the earth; reported as
            soon as it is certain. Scenes read until then are kept for an import of fewer scenes.
        InvalidArgumentError: The folder is not empty, another process imports into it, or a number is out of range.
        SourceDataError: No scene can be read, or with ``strict`` one cannot.
        EngineError: A worker does not see the output folder.
        OSError: For example, the disk is full; scenes read until then are kept.
    """
    if max_scenes is not None and max_scenes < 1:
        raise InvalidArgumentError(f"max_scenes must be at least 1, or None for all, got {max_scenes}")
    if maps not in tuple(MapLayout):
        raise InvalidArgumentError(f"maps must be one of {', '.join(MapLayout)}, got {maps!r}")
    target = Path(out).absolute()
    clear_leftovers(target)
    _require_free(target, overwrite=overwrite)
    refs = sorted(reader.list_scenes())[:max_scenes]
    for split in {ref.split for ref in refs}:
        if not _SPLIT.fullmatch(split):
            raise InvalidArgumentError(
                f"split must be a name of letters, digits, - and _, as it becomes that of a log, got {split!r}"
            )
    with _parts_beside(target) as parts:
        has_one_map = maps == MapLayout.ONE
        failed = _read_missing(
            reader, parts, refs, strict=strict, has_one_map=has_one_map, workers=workers, progress=progress
        )
        # A missing part means that a file of the scene changed meanwhile, as the part's name depends on its files.
        left_out = {each.ref for each in failed}
        paths = {ref: part_path(parts, reader, ref) for ref in refs if ref not in left_out}
        failed += [FailedImport(ref, f"{ref.file}: {_CHANGED}") for ref, path in paths.items() if not path.exists()]
        failed.sort(key=lambda each: each.ref)
        done = [Part(path) for path in paths.values() if path.exists()]
        if not done:
            first = f"; the first one: {failed[0].message}" if failed else ""
            raise SourceDataError(str(reader.source), "", f"none of {len(refs)} scenes could be read{first}")
        files = ImportFiles(done, reader.info, [each.as_json() for each in failed], has_one_map=has_one_map)
        # the folder may have been filled while scenes were read
        with naming_path(target), placed_when_complete(target) as complete:
            _require_free(target, overwrite=overwrite)
            complete.mkdir()
            num_remarks = files.write(complete)
            finish_output(complete, "import")

        # Delete the parts while the lock is held, as another import may begin at once. The lock file stays until it is
        # released, and foreign files are kept.
        foreign = set(_PARTS.foreign_in(parts))
        for entry in sorted(parts.iterdir()):
            if entry.is_dir() and not any(path.startswith(f"{entry.name}/") for path in foreign):
                remove_whole(entry)
    scenes = {split: target / "scenes" / f"{split}.zarr" for split in files.splits}
    return ImportResult(target, scenes, len(done), reader.info, tuple(failed), num_remarks)


@contextmanager
def _parts_beside(target: Path) -> Iterator[Path]:
    """Yield the locked folder of the parts next to that of an import; it is deleted at the end if empty.

    Parts left by a killed import are reused.

    Raises:
        InvalidArgumentError: It holds foreign files, which would be deleted with it, or another process imports there.
    """
    parts = target.with_name(target.name + _PARTS_SUFFIX)
    clear_leftovers(parts)
    foreign = next(_PARTS.foreign_in(parts), None)
    if foreign is not None or (os.path.lexists(parts) and not parts.is_dir()):
        raise InvalidArgumentError(
            f"out: scenes wait in {str(parts)!r} until an import is complete, and "
            + (f"it holds {foreign!r}, which is no part of an import" if foreign else "it is not a folder")
            + "; move that away, or name another folder"
        )
    parts.mkdir(parents=True, exist_ok=True)
    busy = f"out is {str(target)!r}, into which another process is importing; name another folder"
    try:
        with held_alone(parts / _LOCK, busy):
            clear_leftovers_in(parts)
            yield parts
    finally:
        with suppress(OSError):  # it still holds parts, or is already deleted
            parts.rmdir()


@dataclass(frozen=True)
class _ReadScenes:
    """Job of an import: read some scenes and write each as a part, unless it exists."""

    reader: Reader
    parts: Path
    refs: Sequence[SceneRef]
    strict: bool

    def __call__(self, indices: Int64Array) -> list["_ReadScene"]:
        """Return the state of each scene."""
        require_shared(self.parts)
        known = []
        for number in indices.tolist():
            ref = self.refs[number]
            path = part_path(self.parts, self.reader, ref)
            head = Part(path).head_if_whole(ref)
            if head is None:
                if path.is_dir():
                    remove_whole(path)
                path.unlink(missing_ok=True)
                try:
                    scene, records = self._read_source(ref)
                except MemoryError:
                    raise
                except (Exception, SystemExit) as error:  # a bad scene must not stop the others
                    if self.strict or is_termination(error):
                        raise
                    known.append(_ReadScene(number, _as_written(str(error)), path, "", 0))
                    continue
                head = write_part(path, ref, scene, records)
            known.append(_ReadScene(number, None, path, head.map_name, head.map_bytes))
        return known

    def _read_source(self, ref: SceneRef) -> tuple[SourceScene, SceneRecords]:
        """Return a scene and its records; errors name file and record."""
        if ref != (written := replace(ref, name=_as_written(ref.name), file=_as_written(ref.file))):
            raise SourceDataError(written.file, written.record, "its name cannot be written as UTF-8; rename the file")
        try:
            scene = self.reader.read(ref)
            with naming_source(ref.file, ref.record):
                return scene, to_records(scene, self.reader.info)
        except (L5KitError, MemoryError):
            raise
        except (Exception, SystemExit) as error:  # readers may be user code
            if is_termination(error):
                raise
            text = " ".join(str(error).split())
            raise SourceDataError(ref.file, ref.record, f"{type(error).__name__}: {text}") from error


@dataclass(frozen=True)
class _ReadScene:
    """State of a scene after reading: the error, or its part, its map and a lower bound of the map's bytes."""

    number: int
    problem: str | None
    part: Path
    map_name: str
    map_bytes: int


def _read_missing(
    reader: Reader,
    parts: Path,
    refs: Sequence[SceneRef],
    *,
    strict: bool,
    has_one_map: bool,
    workers: Workers,
    progress: Progress | None,
) -> list[FailedImport]:
    """Read the scenes that have no part yet, and return the failed ones.

    Raises:
        MapTooLargeError: There is one map for all scenes, and it exceeds the limit of a semantic map.
    """
    failed: list[FailedImport] = []
    map_bytes: dict[str, int] = {}
    all_bytes = 0
    for start in range(0, len(refs), _SCENES_SENT):
        some = refs[start : start + _SCENES_SENT]
        job = _ReadScenes(reader, parts, some, strict)
        of_all = progress_of_part(progress, start, len(refs))
        with closing(map_scenes(job, range(len(some)), workers, progress=of_all)) as results:
            for scene in chain.from_iterable(results):
                if scene.problem is not None:
                    failed.append(FailedImport(some[scene.number], scene.problem))
                    continue
                if not scene.part.exists():
                    raise EngineError(
                        f"{scene.part} was written by a worker, and is not here; import into a folder that all "
                        "machines share, under the same path"
                    )
                if not has_one_map:
                    continue
                # Pieces of a map are merged, so each map has at least as many bytes as its largest piece.
                before = map_bytes.get(scene.map_name, 0)
                map_bytes[scene.map_name] = max(before, scene.map_bytes)
                all_bytes += map_bytes[scene.map_name] - before
                if all_bytes > MOST_MAP_BYTES:
                    num_scenes = start + scene.number + 1
                    raise MapTooLargeError(
                        f"the maps of the first {num_scenes} scenes have more than {MOST_MAP_BYTES:,} bytes, which is "
                        "the most that one semantic map can have; keep them in a folder of maps (--maps apart), or "
                        f"import fewer scenes (--max-scenes {max(1, num_scenes // 2)}, for example). What was read is "
                        f"kept in {parts}"
                    )
    return failed


def _as_written(text: str) -> str:
    """Return a text that is encodable as UTF-8 and of limited length."""
    shown = text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]} ..."
    return as_unicode(shown)


def _require_free(target: Path, *, overwrite: bool) -> None:
    """Refuse a target that is not empty, except for an import that may be replaced."""
    require_own_folder(target, IMPORT, argument="out")
    if not overwrite and target.is_dir() and any(target.iterdir()):
        loss = find_loss(target, needs_receipt=False)
        if loss is not None:
            raise InvalidArgumentError(
                f"out is {str(target)!r}, which holds a damaged import: {loss}; import into another folder, or "
                "replace it (--overwrite)"
            )
        raise InvalidArgumentError(
            f"out is {str(target)!r}, which holds an import; choose another folder, or replace it (--overwrite)"
        )

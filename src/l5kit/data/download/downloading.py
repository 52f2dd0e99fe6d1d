"""Download of a dataset: files are fetched, verified, unpacked and moved to their paths in the data folder."""

import filecmp
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from l5kit._files import clear_leftovers, publish, scratch_beside
from l5kit.data.digests.manifest import Manifest
from l5kit.data.download.addresses import Address, parse_address
from l5kit.data.download.archives import archive_kind, unpack
from l5kit.data.download.fetching import NoRoomError, Retries, fetch_file, has_digest, require_digest
from l5kit.data.download.finished import recall_paths, remember_paths
from l5kit.data.download.http_source import HttpSource
from l5kit.data.download.manifest_check import ManifestCheck
from l5kit.data.download.published_layout import SINGLE_FILES, FoundParts, PlacedPart, plan_layout
from l5kit.data.download.tree_copy import ListedTree, copy_tree, list_tree
from l5kit.data.jobs.owned_outputs import DATASET, files_in
from l5kit.data.progress import Progress, show_progress
from l5kit.data.unpack_limits import UnpackLimits
from l5kit.errors import CorruptedDataError, DownloadError, InvalidArgumentError

WORK_FOLDER = ".l5kit-download"
"""Subfolder of the data folder for incomplete files; it is removed when everything is complete."""

Stage = Callable[[str], AbstractContextManager[Progress]]
"""Opens a progress bar with a title."""

_ARCHIVE_SUFFIXES = (".tar", ".gz", ".tgz", ".bz2", ".tbz2", ".xz", ".txz", ".zip", ".lz4", ".zst", ".7z", ".rar")
_ZIPPED = ".zarr.zip"


@dataclass(frozen=True)
class DownloadedDataset:
    """Result of a download.

    Attributes:
        folder: The data folder.
        placed: New files and zarrs, relative to the folder.
        present: Files and zarrs that already existed and are identical.
        extra: Downloaded files that are not in the manifest.
    """

    folder: Path
    placed: tuple[PurePosixPath, ...]
    present: tuple[PurePosixPath, ...]
    extra: tuple[str, ...]

    @property
    def datasets(self) -> tuple[Path, ...]:
        """The logs among them, new or existing."""
        parts = (PlacedPart(self.folder / path, path) for path in sorted({*self.placed, *self.present}))
        return tuple(part.source for part in parts if part.is_dataset)


def download_dataset(
    addresses: Sequence[str | Address],
    folder: str | os.PathLike[str],
    *,
    manifest: Manifest | None = None,
    overwrite: bool = False,
    workers: int = 8,
    retries: Retries | None = None,
    limits: UnpackLimits | None = None,
    timeout_s: float = 60.0,
    stage: Stage | None = None,
) -> DownloadedDataset:
    """Download files, folders or buckets into a data folder, laid out as the dataset is published.

    Only complete and verified files are moved to their paths. A download that was stopped, by an error or by Ctrl-C,
    is resumed by the next call. Finished downloads of earlier calls are not repeated.

    Args:
        addresses: Files of web servers, folders, files or fsspec URLs such as ``s3://bucket/prefix``; archives are
            unpacked. See :func:`~l5kit.data.download.addresses.parse_address` for appending digests.
        folder: The data folder; it is created if needed.
        manifest: Manifest of the data folder, or of a single zarr; files that differ are not placed.
        overwrite: Replace files in the folder that have the same name and differ.
        workers: Threads that copy the files of a folder or bucket; 0 for one per core.
        retries: Number and delays of retries; None for six tries within a minute.
        limits: Limits on the content of an archive; None for limits that any dataset satisfies.
        timeout_s: Seconds without a byte after which a connection counts as broken.
        stage: Opens a progress bar.

    Raises:
        DownloadError: A file is not available, is not as expected, or does not fit on the disk.
        CorruptedDataError: An archive is damaged.
        InvalidArgumentError: There is no address, or one is invalid.
        FileExistsError: The folder has something else under the same name.
    """
    parsed = [parse_address(address) if isinstance(address, str) else address for address in addresses]
    out = Path(folder)
    if not parsed:
        raise InvalidArgumentError("there is no address; `l5kit download` without one prints where to get the data")
    if out.exists() and not out.is_dir():
        raise InvalidArgumentError(f"{str(out)!r} is a file; give the destination folder of the dataset")

    # a folder copied into itself would never end, and its files would be moved while they are read
    for address in parsed:
        path = address.local_path
        if path is None:
            continue
        if not path.exists():
            raise DownloadError(f"there is nothing at {address.name!r}; check the spelling")
        inner, outer = os.path.realpath(path), os.path.realpath(out)
        if path.is_dir() and os.path.commonpath([inner, outer]) in (inner, outer):
            raise InvalidArgumentError(f"{address.name!r} and {str(out)!r} are nested; choose another folder")
    check = None if manifest is None else ManifestCheck(manifest, out)
    out.mkdir(parents=True, exist_ok=True)
    with _work_folder(out) as work:
        download = _Download(
            out,
            work,
            check,
            overwrite,
            workers,
            retries or Retries(),
            limits or UnpackLimits(),
            timeout_s,
            stage or _no_bar,
        )
        for address in dict.fromkeys(parsed):
            download.take(address)
    if check is not None:
        with (stage or _no_bar)("Checking the manifest"):
            check.finish()
    extra = () if check is None else tuple(check.extra)
    return DownloadedDataset(out, tuple(download.placed), tuple(download.present), extra)


def _no_bar(title: str) -> AbstractContextManager[Progress]:
    return show_progress(title, visible=False)


@contextmanager
def _work_folder(out: Path) -> Iterator[Path]:
    """Provide the folder for incomplete files, locked by one process; an empty one is removed at the end."""
    from filelock import FileLock, Timeout  # imported on use, as elsewhere in l5kit

    work = out / WORK_FOLDER
    work.mkdir(exist_ok=True)
    lock = FileLock(work / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise DownloadError(f"another process is downloading to {str(out)!r}; wait for it") from None
    except (OSError, NotImplementedError):  # some file systems do not support locks
        pass
    try:
        yield work
    finally:
        if {entry.name for entry in work.iterdir()} <= {"lock"}:
            with suppress(OSError):
                (work / "lock").unlink(missing_ok=True)
                work.rmdir()
        lock.release()


@dataclass
class _Download:
    """A call of :func:`download_dataset`, and its results so far."""

    out: Path
    work: Path
    check: ManifestCheck | None
    overwrite: bool
    workers: int
    retries: Retries
    limits: UnpackLimits
    timeout_s: float
    stage: Stage
    placed: list[PurePosixPath] = field(default_factory=list)
    present: list[PurePosixPath] = field(default_factory=list)

    def take(self, address: Address) -> None:
        """Download the files at an address, and move them to their paths."""
        # skip what an earlier call has finished, unless the source has changed
        tree = None if address.is_web else list_tree(address, self.retries)
        version = (address.expected.sha256 or "") if tree is None else tree.identity
        known = None if self.overwrite else recall_paths(address, self.out, version)
        if known is not None:
            self._check([PlacedPart(self.out / path, path) for path in known])
            self.present += known
            return

        # each address has its own work folder; if the source has changed, it starts over
        own = self.work / f"{address.identity[:12]}-{'file' if tree is None else tree.identity[:12]}"
        for older in self.work.glob(f"{address.identity[:12]}-*"):
            if older != own:
                shutil.rmtree(older)
        own.mkdir(exist_ok=True)
        if tree is None or tree.is_file:
            folders = [self._take_file(address, tree, own)]
        else:
            folders = self._take_tree(address, tree, own)
        parts = plan_layout(folders, called=address.name)
        self._move_in(parts)
        remember_paths(address, self.out, version, parts)
        shutil.rmtree(own)

    def _take_file(self, address: Address, tree: ListedTree | None, own: Path) -> FoundParts:
        """Fetch one file; return the folder with its content."""
        file = address.local_path
        if file is None:
            file = own / address.file_name
            with self.stage(f"Downloading {file.name}") as progress:
                # a call that was stopped while unpacking leaves a complete file
                if not (file.exists() and has_digest(file, address.expected)):
                    file.unlink(missing_ok=True)
                    fetch_file(
                        HttpSource(address.text, address.name, self.timeout_s) if tree is None else tree.files[0],
                        file,
                        identity=address.identity if tree is None else tree.identity,
                        expected=address.expected,
                        retries=self.retries,
                        advance=lambda done, total: progress(done, total or done),
                    )
        else:
            require_digest(file, address.expected, called=address.name)
        with _removed_if_useless(file if own in file.parents else None):
            if not file.name.endswith(_ZIPPED) and archive_kind(file, called=address.name) is not None:
                return self._unpack(file, own / "unpacked", address.name)
            # a single file that is not part of a dataset may be the login page of a server
            if file.name not in SINGLE_FILES and not file.name.endswith(_ZIPPED):
                with file.open("rb") as opened:
                    is_page = opened.read(512).lstrip().lower().startswith((b"<!doctype", b"<html"))
                kind = "a web page, which may require a login" if is_page else "neither"
                raise DownloadError(
                    f"{address.name} must be an archive (tar, zip) or a file of a dataset, and is {kind}"
                )
        folder = own / "single"
        folder.mkdir(exist_ok=True)
        shutil.copyfile(file, folder / file.name)
        return FoundParts(folder, _title_of(file))

    def _unpack(self, archive: Path, folder: Path, called: str) -> FoundParts:
        shutil.rmtree(folder, ignore_errors=True)  # left by a call that was stopped
        folder.mkdir()
        with self.stage(f"Unpacking {archive.name}") as progress:
            unpack(archive, folder, called=called, limits=self.limits, progress=progress)
        return FoundParts(folder, _title_of(archive))

    def _take_tree(self, address: Address, tree: ListedTree, own: Path) -> list[FoundParts]:
        """Copy a folder or bucket; return the folder with it, and those with the content of archives at its top."""
        files = own / "files"
        files.mkdir(exist_ok=True)
        with self.stage(f"Copying {address.file_name}") as progress:
            copy_tree(tree, files, address=address, retries=self.retries, workers=self.workers, progress=progress)

        # recognize archives by name; zipped zarrs stay as they are, as l5kit reads them directly
        archives = [
            file
            for file in sorted(files.iterdir())
            if file.is_file() and file.suffix in _ARCHIVE_SUFFIXES and not file.name.endswith(_ZIPPED)
        ]
        unpacked = []
        for number, archive in enumerate(archives):
            with _removed_if_useless(archive):
                unpacked.append(self._unpack(archive, own / f"unpacked-{number}", archive.name))
        return [FoundParts(files, address.file_name, without=frozenset(archives)), *unpacked]

    def _move_in(self, parts: list[PlacedPart]) -> None:
        """Check parts and move them to their paths; move none if one is wrong or has a conflict."""
        for part in parts:
            clear_leftovers(self.out / part.path)

        # check everything that may stop the move before the first part is moved
        same = []
        for part in parts:
            target = self.out / part.path
            if not os.path.lexists(target):
                continue
            if _are_same(part.source, target):
                same.append(part)
            elif self.overwrite:
                # refuse to replace a folder with files that were not downloaded, except stored masks
                came = set(files_in(part.source))
                others = (path for path in DATASET.foreign_in(target) if path not in came)
                if (other := next(others, None)) is not None:
                    raise FileExistsError(
                        f"{target} holds {other!r}, which was not downloaded, so it is not replaced; move it away, or "
                        "name another folder; the downloaded files are kept for that"
                    )
            else:
                raise FileExistsError(
                    f"{target} exists and differs from the downloaded files; --overwrite replaces it, or name another "
                    "folder to keep both; the downloaded files are kept for that"
                )
        self._check(parts)

        new = [part for part in parts if part not in same]
        for part in new:
            target, source = self.out / part.path, part.source
            target.parent.mkdir(parents=True, exist_ok=True)
            with scratch_beside(target) as scratch:
                # the target of a link may be on another disk: copy there, as renaming works only on one disk
                if _device(scratch) != _device(source):
                    copy = scratch / "copied"
                    copy.mkdir()
                    copied = shutil.copytree if source.is_dir() else shutil.copyfile
                    source = Path(copied(source, copy / source.name))
                publish(source, target, scratch=scratch, may_replace=self.overwrite)
        self.placed += [part.path for part in new]
        self.present += [part.path for part in same]

    def _check(self, parts: list[PlacedPart]) -> None:
        if self.check is not None:
            for part in parts:
                self.check.check(part)


@contextmanager
def _removed_if_useless(file: Path | None) -> Iterator[None]:
    """Remove a file that turns out to be useless, so that the next call does not reuse it; not if the disk is full."""
    try:
        yield
    except NoRoomError:
        raise
    except (DownloadError, CorruptedDataError):
        if file is not None:
            file.unlink(missing_ok=True)
        raise


def _title_of(file: Path) -> str:
    """Return the name of a file without archive suffixes."""
    name = file.name
    while (shorter := name.removesuffix(Path(name).suffix)) and Path(name).suffix in _ARCHIVE_SUFFIXES:
        name = shorter
    return name


def _device(path: Path) -> int:
    return path.stat().st_dev


def _are_same(first: Path, second: Path) -> bool:
    """Return whether two files or two folders have the same content."""
    if first.is_file() and second.is_file():
        return filecmp.cmp(first, second, shallow=False)
    if not (first.is_dir() and second.is_dir()):
        return False
    # folders are the same if they have the same names, with the same bytes in each file
    names = {path.relative_to(first) for path in first.rglob("*")}
    if names != {path.relative_to(second) for path in second.rglob("*")}:
        return False
    return all(
        filecmp.cmp(first / name, second / name, shallow=False)
        for name in names
        if (first / name).is_file() or (second / name).is_file()
    )

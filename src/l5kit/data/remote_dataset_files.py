"""Files of a dataset on a remote service: locations of its log and related files, and local copies."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from zarr.core.sync import sync

from l5kit._files import placed_when_complete
from l5kit.data.layout import ARRAYS, GROUP_FILES, LOG_SUFFIXES
from l5kit.data.progress import show_progress
from l5kit.data.stores.remote_files import RemoteFiles, version_of
from l5kit.data.stores.remote_reading import FileInfo, RemoteReading
from l5kit.data.stores.store import answers_of, is_remote_zip, is_url, path_of
from l5kit.data.user_cache import cache_folder, key_of
from l5kit.errors import CorruptedDataError, DatasetNotFoundError

_SCENES_FOLDER = "scenes"
_PIECE_NUM_BYTES = 2**23
_SHOWN_NUM_BYTES = 2**24
"""Size from which on a bar is shown while a file is copied."""


def find_remote_datasets(url: str) -> list[str]:
    """Return the URLs of the logs in a dataset folder, sorted, or of the ``.zarr`` folder, group or zip file itself.

    Logs in a folder are recognised by their names; if there are none, by the files of groups.

    Raises:
        DatasetNotFoundError: There is none, or the folder cannot be listed.
        UnreachableDataError: The service refuses, or does not answer.
    """
    files, path = _files_at(url)
    path = path.rstrip("/")
    if is_remote_zip(url) or path.endswith(".zarr") or sync(_is_group(files, path)):
        return [url.rstrip("/")]
    folders = [path, f"{path}/{_SCENES_FOLDER}"]
    names = {folder: sync(files.names(folder)) for folder in folders}
    logs = [f"{folder}/{name}" for folder in folders for name in names[folder] if name.endswith(LOG_SUFFIXES)]
    if not logs:
        # groups without such a name, except for the arrays of a dataset itself
        paths = [
            f"{folder}/{name}"
            for folder, listed in names.items()
            if listed and not sync(_is_group(files, folder))
            for name, is_folder in listed.items()
            if is_folder and name not in ARRAYS
        ]
        are_groups = sync(answers_of(_is_group(files, each) for each in paths))
        logs = [each for each, is_one in zip(paths, are_groups, strict=True) if is_one]
    if not logs:
        raise DatasetNotFoundError(
            f"no dataset in {url!r}: there is no *.zarr in it or in {_SCENES_FOLDER}/, or the service lists no "
            "folders; pass the URL of a .zarr folder or zip file"
        )
    return sorted(map(files.url_of, logs))


def find_beside(url: str, dataset: str, names: Sequence[str]) -> list[str]:
    """Return the URLs of those files that are inside, next to or one level above a remote dataset.

    Args:
        url: The given URL.
        dataset: URL of its log.
        names: Names of files, relative to the searched folders.
    """
    files, given = _files_at(url)
    _, log = _files_at(dataset)
    beside = _parent_of(log.rstrip("/"))
    folders = [given.rstrip("/"), log.rstrip("/"), beside, _parent_of(beside)]
    if is_remote_zip(dataset):
        folders = [folder for folder in folders if not folder.endswith(".zip")]
    paths = [f"{folder}/{name}" for folder in dict.fromkeys(filter(None, folders)) for name in names]
    are_there = sync(answers_of(files.can_be_read(path) for path in paths))
    return [files.url_of(path) for path, there in zip(paths, are_there, strict=True) if there]


def exists_remotely(url: str) -> bool:
    """Return whether there is a file at a URL, or a zarr group in a folder."""
    files, path = _files_at(url)
    return is_remote_group(url) or sync(files.exists(f"{path}/{GROUP_FILES[0]}" if path.endswith(".zarr") else path))


def is_remote_group(url: str) -> bool:
    """Return whether there is a zarr group at a URL, if its files are readable."""
    return sync(_is_group(*_files_at(url.rstrip("/"))))


async def _is_group(files: RemoteFiles, folder: str) -> bool:
    return any(await answers_of(files.can_be_read(f"{folder}/{name}") for name in GROUP_FILES))


def local_file(path: str | Path) -> Path:
    """Return the local path of a file: a URL is copied into the cache folder, any other path is unchanged.

    An unchanged file is copied once.

    Raises:
        CorruptedDataError: It changed while it was copied.
        FileNotFoundError: There is no such file at the URL.
        UnreachableDataError: The service refuses, or does not answer.
    """
    url = path_of(path)
    if not is_url(url):
        return Path(path)
    files, remote_path = _files_at(url)
    info = sync(files.info(remote_path))
    if info is None:
        raise FileNotFoundError(f"there is no file at {url!r}; check the spelling of the URL")
    version = version_of(info)
    folder = cache_folder().absolute() / "remote" / key_of(url)
    # the last part of the path, without a signature, in characters that every file system accepts
    name = re.sub(r"[^\w.=+@ -]", "_", urlsplit(url).path.rpartition("/")[2])[-100:].lstrip(". ") or "file"
    copy = folder / key_of(repr(version)) / name
    if not version or not copy.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        copy.parent.mkdir(parents=True, exist_ok=True)
        with placed_when_complete(copy, may_replace=True) as unfinished:
            _copy_file(files, remote_path, info, unfinished)
    return copy


def _copy_file(files: RemoteFiles, path: str, info: FileInfo, target: Path) -> None:
    size = int(info.get("size") or 0)
    with (
        target.open("wb") as file,
        show_progress(f"Copying {target.name}", visible=size >= _SHOWN_NUM_BYTES) as progress,
    ):
        while size == 0 or file.tell() < size:
            start = file.tell()
            piece = sync(files.read(path, start, min(start + _PIECE_NUM_BYTES, size)) if size else files.read(path))
            if not piece or (start and len(piece) > _PIECE_NUM_BYTES):
                break
            file.write(piece)
            if not size:
                break
            progress(file.tell(), size)
        if size and file.tell() != size:
            raise CorruptedDataError(
                f"{files.url_of(path)} should have {size} bytes, but {file.tell()} came; it changed, or the service "
                "answers no ranges: copy it yourself"
            )


def _files_at(url: str) -> tuple[RemoteFiles, str]:
    return RemoteFiles.at(url.removeprefix("zip::"), RemoteReading.from_environment())


def _parent_of(path: str) -> str:
    """Return the parent folder of a path; an empty text above a bucket or a host."""
    parent = path.rpartition("/")[0]
    return "" if parent.endswith((":/", ":", "/")) else parent

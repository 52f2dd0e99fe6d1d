"""File trees: the files of a folder, a zip file or a URL, by relative path, listed and read in a uniform way."""

import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from l5kit.data.stores.remote_files import unreachable
from l5kit.data.stores.remote_reading import (
    FileInfo,
    FileSystem,
    find_files,
    open_file_system,
    path_in_list,
    path_on_server,
)
from l5kit.data.stores.store import is_url, is_zip, path_of
from l5kit.errors import (
    DatasetNotFoundError,
    InvalidArgumentError,
    L5KitError,
    UnreachableDataError,
)

_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_TICK_NS = 2 * 10**9
_VERSION_FIELDS = ("ETag", "etag", "mtime", "LastModified", "md5Hash")


@dataclass(frozen=True)
class ListedFile:
    """A file of a tree.

    Attributes:
        path: Relative path, its parts separated by ``/``.
        size: Bytes.
        version: Values that change when the file is modified: of a local file, modification time and status change time
            in ns, and inode; of others, what the service reports, possibly nothing.
    """

    path: str
    size: int
    version: tuple[int | str, ...]

    def is_settled(self, at_ns: int) -> bool:
        """Return whether the version would differ if the file was modified after a time, in ns since 1970.

        Clocks of file systems tick in steps, so a file that was modified just before is not settled.
        """
        return bool(self.version) and (isinstance(self.version[0], str) or self.version[0] <= at_ns - _TICK_NS)


class FileTree(Protocol):
    """Files below a location."""

    @property
    def location(self) -> str:
        """The location, for messages."""

    def list_files(self) -> list[ListedFile]:
        """Return all files, sorted by the bytes of their paths."""

    def open_file(self, path: str) -> BinaryIO:
        """Return an opened file."""

    def look_again(self, file: ListedFile) -> ListedFile:
        """Return the current state of a file."""


def open_tree(location: str | os.PathLike[str]) -> FileTree:
    """Return the files below a location; nothing is listed yet.

    Args:
        location: A folder; a zip file (``*.zip``), for its content; any other file, for itself; or a URL of fsspec.

    Raises:
        DatasetNotFoundError: There is nothing at the location, or no readable zip file.
        InvalidArgumentError: It is not a path, or fsspec does not know the kind of URL.
        MissingDependencyError: fsspec needs a library for this kind of URL.
    """
    path = path_of(location)
    if is_url(path):
        file_system, root = open_file_system(path)
        files = _RemoteTree(path, root.rstrip("/"), file_system)
        if not path.endswith(".zip"):
            return files
        # a remote zip file is read in pieces, on demand
        try:
            opened = cast("BinaryIO", file_system.open(files.root, "rb"))
        except Exception as error:  # from the library behind fsspec
            raise unreachable(path, error, attempts=1, seconds=0.0) from error
        try:
            archive = _opened_zip(opened, path)
        except DatasetNotFoundError as error:
            if not isinstance(error.__cause__, ValueError):  # raised by fsspec if it cannot seek
                raise
            raise InvalidArgumentError(
                f"cannot read {path!r} piece by piece: the service does not support range requests; "
                "copy the zip file to this machine, or name a folder there"
            ) from error
        return _ZipTree(path, archive, lambda: files.known_of(files.root, "").version)
    if not os.path.exists(path):
        raise DatasetNotFoundError(f"no files at {path!r}: this path does not exist; check the spelling")
    if os.path.isdir(path):
        return _LocalTree(os.path.realpath(path), os.path.realpath(path))
    whole = os.path.abspath(path)
    return _ZipTree.at(path) if is_zip(path) else _LocalTree(whole, os.path.dirname(whole))


def name_problem(path: str) -> str | None:
    """Return why a relative path is not allowed in a list of files; None if it is.

    Allowed paths are valid on all systems and stay below the location that they are relative to.
    """
    parts = path.split("/")
    if not path or "" in parts or "." in parts or ".." in parts:
        return "it must be a relative path with / between its parts, none of which is empty, '.' or '..'"
    if _DRIVE.match(path):
        return "it must not begin with a drive letter"
    if _CONTROL.search(path):
        return "it must not contain backslashes or control characters"
    if _SURROGATE.search(path):
        return "it must be text that can be encoded as UTF-8"
    return None


def _require_names(files: list[ListedFile], location: str) -> list[ListedFile]:
    """Return files sorted by the bytes of their paths, after checking each path."""
    seen: set[str] = set()
    for file in files:
        problem = name_problem(file.path)
        if problem is None and file.path in seen:
            problem = "it occurs twice"
        if problem is not None:
            raise InvalidArgumentError(f"{location} holds a file named {file.path!r}: {problem}; rename or remove it")
        seen.add(file.path)
    if not files:
        advice = "; on a web server without listings, only zip files can be read" if location.startswith("http") else ""
        raise DatasetNotFoundError(f"no files at {location!r}; check the spelling of the path{advice}")
    return sorted(files, key=lambda file: file.path.encode())


@dataclass(frozen=True)
class _LocalTree:
    """Files in a local folder, or a single file; links are followed, and refused if they lead outside.

    Attributes:
        location: The folder or file.
        folder: The folder that paths are relative to.
    """

    location: str
    folder: str

    def list_files(self) -> list[ListedFile]:
        if self.location == self.folder:
            return _require_names(list(self._below("", ())), self.folder)
        name = os.path.basename(self.location)
        return _require_names([_as_listed(name, os.stat(self.location), self.folder)], self.folder)

    def open_file(self, path: str) -> BinaryIO:
        return open(os.path.join(self.folder, path), "rb")

    def look_again(self, file: ListedFile) -> ListedFile:
        return _listed(file.path, os.stat(os.path.join(self.folder, file.path)))

    def _below(self, folder: str, around: tuple[str, ...]) -> Iterator[ListedFile]:
        """Yield the files below a folder; ``around`` holds the real paths of the folders above it."""
        directory = os.path.join(self.location, folder)
        around = (*around, os.path.realpath(directory))
        with os.scandir(directory) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                # a link must not lead outside, to nothing, or back to a folder above it
                if entry.is_symlink():
                    target, problem = os.path.realpath(os.path.join(self.location, path)), None
                    if not Path(target).is_relative_to(self.location):
                        problem = f"leads out of it, to {target!r}; replace it with the file"
                    elif not os.path.exists(target):
                        problem = f"leads to {target!r}, which does not exist; remove it"
                    elif target in around:
                        problem = f"leads back to {target!r}, which contains it; remove it"
                    if problem is not None:
                        raise InvalidArgumentError(f"{self.location} holds the link {path!r}, which {problem}")
                if entry.is_dir():
                    yield from self._below(f"{path}/", around)
                else:
                    yield _as_listed(path, entry.stat(), self.location)


@dataclass(frozen=True)
class _ZipTree:
    """Files in a zip file, as unpacked; each has the version of the zip file."""

    location: str
    archive: zipfile.ZipFile
    version: Callable[[], tuple[int | str, ...]]

    @classmethod
    def at(cls, path: str) -> "_ZipTree":
        return cls(os.path.abspath(path), _opened_zip(path, path), lambda: _version_of(os.stat(path)))

    def list_files(self) -> list[ListedFile]:
        version = self.version()
        infos = [info for info in self.archive.infolist() if not info.filename.endswith("/")]
        return _require_names([ListedFile(info.filename, info.file_size, version) for info in infos], self.location)

    def open_file(self, path: str) -> BinaryIO:
        return cast("BinaryIO", self.archive.open(path))

    def look_again(self, file: ListedFile) -> ListedFile:
        return ListedFile(file.path, file.size, self.version())


def _opened_zip(file: str | BinaryIO, location: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except Exception as error:  # any error of zipfile for a damaged file
        raise DatasetNotFoundError(f"no files at {location!r}: this is not a readable zip file ({error})") from error


@dataclass(frozen=True)
class _RemoteTree:
    """Files at a URL."""

    location: str
    root: str
    file_system: FileSystem

    def list_files(self) -> list[ListedFile]:
        try:
            infos = find_files(self.file_system, self.root)
            files = [self._as_listed(name, facts) for name, facts in infos.items()]
        except L5KitError:
            raise
        except Exception as error:  # from the library behind fsspec
            raise unreachable(self.location, error, attempts=1, seconds=0.0) from error
        return _require_names(files, self.location)

    def open_file(self, path: str) -> BinaryIO:
        return cast("BinaryIO", self.file_system.open(self._name_of(path), "rb"))

    def look_again(self, file: ListedFile) -> ListedFile:
        return self.known_of(self._name_of(file.path), file.path)

    def known_of(self, name: str, path: str) -> ListedFile:
        """Return what the service reports about a file now."""
        self.file_system.invalidate_cache(name)
        facts = self.file_system.info(name)
        if facts.get("size") is None:
            raise UnreachableDataError(f"{self.location}: the service does not report the size of {path!r}; copy it")
        return ListedFile(path, int(facts["size"]), _version_in(facts))

    def _as_listed(self, name: str, facts: FileInfo) -> ListedFile:
        path = path_in_list(self.file_system, name.removeprefix(self.root).lstrip("/") or name.rpartition("/")[2])
        # a listing without sizes, as from web servers, needs a request for each file
        if facts.get("size") is None:
            return self.known_of(name, path)
        return ListedFile(path, int(facts["size"]), _version_in(facts))

    def _name_of(self, path: str) -> str:
        name = path_on_server(self.file_system, path)
        is_this_file = path_in_list(self.file_system, self.root).endswith(f"/{path}")
        is_this_file = is_this_file and self.file_system.isfile(self.root)
        return self.root if is_this_file else f"{self.root}/{name}"


def _version_in(facts: FileInfo) -> tuple[str, ...]:
    return tuple(f"{field} {facts[field]}" for field in _VERSION_FIELDS if facts.get(field))


def _as_listed(path: str, status: os.stat_result, location: str) -> ListedFile:
    """Return a file, after checking that it is a regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise InvalidArgumentError(
            f"{location} holds {path!r}, which is neither file nor folder, but a pipe, socket or device; remove it"
        )
    return _listed(path, status)


def _listed(path: str, status: os.stat_result) -> ListedFile:
    return ListedFile(path, status.st_size, _version_of(status))


def _version_of(status: os.stat_result) -> tuple[int, ...]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino

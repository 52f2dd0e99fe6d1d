"""File systems of fsspec: opened by URL, and lists of their files that leave out none that cannot be listed."""

from collections.abc import Iterator
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command

FileSystem: TypeAlias = Any
"""A file system of fsspec, which has no types."""

FileInfo: TypeAlias = dict[str, Any]
"""What such a file system tells of a file: ``name``, ``size``, ``type``, and what is its own."""

_OF_FSSPEC = frozenset({"fsspec.asyn", "fsspec.spec"})


def open_file_system(url: str, **options: object) -> tuple[FileSystem, str]:
    """Return the file system that a URL names, and the path that the URL has there.

    Raises:
        InvalidArgumentError: fsspec does not know the kind of URL, or an option.
        MissingDependencyError: fsspec needs a library for it.
    """
    import fsspec  # here, so that opening a dataset does not load it

    try:
        file_system, root = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        raise MissingDependencyError(
            f"{url!r} needs a library that is not installed ({error}); the extra 'remote' has those for S3, GCS and "
            f"HTTP: {install_command('remote')}"
        ) from error
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"cannot open {url!r}: {error}") from error
    return file_system, str(root)


def find_files(file_system: FileSystem, root: str) -> dict[str, FileInfo]:
    """Return what a file system tells of all files below a place, by the names that it has for them.

    Args:
        file_system: Of fsspec, synchronous.
        root: The place, as fsspec's ``url_to_fs`` gives it; a file is told of itself.

    Raises:
        Exception: A folder cannot be listed, whatever the file system raises for that.
    """
    find = getattr(type(file_system), "_find", None) or type(file_system).find
    if find.__module__ not in _OF_FSSPEC:  # buckets list all their files with one question
        return dict(file_system.find(root, detail=True))
    try:
        listed = file_system.ls(root, detail=True)
    except FileNotFoundError:
        listed = []
    infos = {info["name"]: info for info in _below(file_system, root, listed)}
    return infos or ({root: file_system.info(root)} if file_system.isfile(root) else {})


def is_web(file_system: FileSystem) -> bool:
    """Return whether a file system is that of web servers, whose lists are pages with links."""
    protocol = file_system.protocol
    return not {"http", "https"}.isdisjoint((protocol,) if isinstance(protocol, str) else protocol)


def path_in_list(file_system: FileSystem, name: str) -> str:
    """Return a relative path as it reads; web servers link to it with letters quoted."""
    return unquote(name) if is_web(file_system) else name


def path_on_server(file_system: FileSystem, path: str) -> str:
    """Return how a file system is asked for a relative path; the other way round than :func:`path_in_list`."""
    return quote(path) if is_web(file_system) else path


def _below(file_system: FileSystem, folder: str, listed: list[FileInfo]) -> Iterator[FileInfo]:
    """Yield the files of a folder and of those in it; fsspec's own walk leaves out what it fails to list."""
    for info in listed:
        name = str(info["name"])
        if is_web(file_system) and ("?" in name or "#" in name):  # links that sort the page
            continue
        if info["type"] != "directory":
            yield info
        elif name.rstrip("/") != folder.rstrip("/"):
            inner = name.rstrip("/")
            yield from _below(file_system, inner, file_system.ls(inner, detail=True))

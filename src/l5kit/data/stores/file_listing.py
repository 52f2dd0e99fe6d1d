"""Lists of all files below a place of fsspec, from which none is missing because a folder could not be listed."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

__all__ = ["find_files", "is_web", "path_in_list", "path_on_server"]

_OF_FSSPEC = frozenset({"fsspec.asyn", "fsspec.spec"})


def find_files(file_system: Any, root: str) -> dict[str, dict[str, Any]]:
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


def is_web(file_system: Any) -> bool:
    """Return whether a file system is that of web servers, whose lists are pages with links."""
    protocol = file_system.protocol
    return not {"http", "https"}.isdisjoint((protocol,) if isinstance(protocol, str) else protocol)


def path_in_list(file_system: Any, name: str) -> str:
    """Return a relative path as it reads; web servers link to it with letters quoted."""
    return unquote(name) if is_web(file_system) else name


def path_on_server(file_system: Any, path: str) -> str:
    """Return how a file system is asked for a relative path; the other way round than :func:`path_in_list`."""
    return quote(path) if is_web(file_system) else path


def _below(file_system: Any, folder: str, listed: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
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

"""Access to remote services: timeouts and retries, and file systems of fsspec with complete listings."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeAlias
from urllib.parse import quote, unquote

from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command

_ENV_PREFIX = "L5KIT_REMOTE_"

FileSystem: TypeAlias = Any
"""A file system of fsspec, which is untyped."""

FileInfo: TypeAlias = dict[str, Any]
"""Facts about a file from such a file system: ``name``, ``size``, ``type``, and others specific to it."""

_FSSPEC_MODULES = frozenset({"fsspec.asyn", "fsspec.spec"})


@dataclass(frozen=True)
class RemoteReading:
    """Timeouts, retries and concurrency for reading files from a remote service.

    Reading a file takes at most ``attempts`` times ``timeout_s``, plus the delays between attempts.

    Attributes:
        attempts: Number of requests for a file if the service does not answer, disconnects or is busy.
        timeout_s: Longest time for one attempt, seconds.
        first_delay_s: Time before the second attempt, seconds; it doubles after each attempt.
        max_delay_s: Longest time between two attempts, seconds.
        concurrency: Largest number of files of a dataset that a process requests at the same time.

    Raises:
        InvalidArgumentError: A number is out of range.
    """

    attempts: int = 5
    timeout_s: float = 30.0
    first_delay_s: float = 0.25
    max_delay_s: float = 8.0
    concurrency: int = 16

    def __post_init__(self) -> None:
        for name in ("attempts", "concurrency"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1000:
                raise InvalidArgumentError(f"{name} of RemoteReading must be a whole number, 1 to 1000, got {value!r}")
        for name in ("timeout_s", "first_delay_s", "max_delay_s"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
                raise InvalidArgumentError(f"{name} of RemoteReading must be seconds, 0 or more, got {value!r}")
        if self.timeout_s == 0:
            raise InvalidArgumentError("timeout_s of RemoteReading must be more than 0 seconds, got 0")

    @classmethod
    def from_environment(cls) -> Self:
        """Return the defaults, overridden by environment variables such as ``L5KIT_REMOTE_TIMEOUT_S=5``.

        Raises:
            InvalidArgumentError: The value of a variable is not a number, or out of range.
        """
        given: dict[str, Any] = {}
        for field in fields(cls):
            variable = _ENV_PREFIX + field.name.upper()
            text = os.environ.get(variable)
            if text:
                try:
                    given[field.name] = int(text) if field.type is int else float(text)
                except ValueError as error:
                    raise InvalidArgumentError(
                        f"the environment variable {variable} must be a number, got {text!r}"
                    ) from error
        return replace(cls(), **given)

    def delays_s(self) -> Iterator[float]:
        """Yield the delays between attempts, seconds; one fewer than attempts."""
        for repetition in range(self.attempts - 1):
            yield min(self.first_delay_s * 2.0**repetition, self.max_delay_s)


def open_file_system(url: str, **options: object) -> tuple[FileSystem, str]:
    """Return the file system of a URL, and the path of the URL on it.

    Raises:
        InvalidArgumentError: fsspec does not know the kind of URL, or an option.
        MissingDependencyError: fsspec needs a library for it.
    """
    import fsspec  # imported on use, so that opening a dataset does not load it

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
    """Return what a file system reports about all files below a location, by their names on it.

    Args:
        file_system: File system of fsspec, synchronous.
        root: The location, from fsspec's ``url_to_fs``; for a file, the result has only that file.

    Raises:
        Exception: A folder cannot be listed; the type depends on the file system.
    """
    find = getattr(type(file_system), "_find", None) or type(file_system).find
    if find.__module__ not in _FSSPEC_MODULES:  # buckets list all their files in one request
        return dict(file_system.find(root, detail=True))
    try:
        listed = file_system.ls(root, detail=True)
    except FileNotFoundError:
        listed = []
    infos = {info["name"]: info for info in _walk(file_system, root, listed)}
    return infos or ({root: file_system.info(root)} if file_system.isfile(root) else {})


def is_web(file_system: FileSystem) -> bool:
    """Return whether a file system accesses web servers, whose listings are pages with links."""
    protocol = file_system.protocol
    return not {"http", "https"}.isdisjoint((protocol,) if isinstance(protocol, str) else protocol)


def path_in_list(file_system: FileSystem, name: str) -> str:
    """Return a relative path in readable form; links of web servers are percent-encoded."""
    return unquote(name) if is_web(file_system) else name


def path_on_server(file_system: FileSystem, path: str) -> str:
    """Return the form in which a file system is asked for a relative path; the inverse of :func:`path_in_list`."""
    return quote(path) if is_web(file_system) else path


def _walk(file_system: FileSystem, folder: str, listed: list[FileInfo]) -> Iterator[FileInfo]:
    """Yield the files of a folder and its subfolders; fsspec's own walk skips folders that it fails to list."""
    for info in listed:
        name = str(info["name"])
        if is_web(file_system) and ("?" in name or "#" in name):  # links for sorting the page
            continue
        if info["type"] != "directory":
            yield info
        elif name.rstrip("/") != folder.rstrip("/"):
            inner = name.rstrip("/")
            yield from _walk(file_system, inner, file_system.ls(inner, detail=True))

"""Files of a remote service, accessed through fsspec with time limits, retries and limited concurrency.

:func:`is_passing` decides which failures are transient, and :func:`unreachable` builds the error for the others.
"""

import asyncio
import errno
import itertools
import os
import pickle
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote

from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

from l5kit._types import PickledState
from l5kit.data.stores.remote_reading import FileInfo, RemoteReading, open_file_system
from l5kit.errors import CorruptedDataError, UnreachableDataError

PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_PASSING_ERRNO = frozenset(
    getattr(errno, name, errno.EIO)
    for name in (
        "EBUSY",
        "EREMOTEIO",
        "ETIMEDOUT",
        "ECONNRESET",
        "ECONNREFUSED",
        "ECONNABORTED",
        "ENETUNREACH",
        "ENETDOWN",
        "EHOSTUNREACH",
        "EPIPE",
        "EAGAIN",
    )
)
_PASSING_CLASSES = frozenset(
    {
        "ClientError",  # aiohttp; that of botocore has a status
        "HTTPClientError",
        "ResponseStreamingError",
        "IncompleteReadError",
        "IncompleteRead",
        "AioConnectionError",
    }
)
"""Class names of aiohttp, botocore and urllib3, which are not imported here."""

_REFUSED_STATUS = frozenset({401, 403})

_T = TypeVar("_T")

_HTTP = frozenset({"http", "https"})

_S3 = ("s3://", "s3a://")

_VERSION_FIELDS = ("ETag", "etag", "mtime", "LastModified", "Last-Modified", "md5Hash", "Content-MD5", "created")

_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def is_passing(error: BaseException) -> bool:
    """Return whether a retry may help: no answer, a broken connection, a busy service.

    A missing file or a refused access stays so at the next attempt.
    """
    status = status_of(error)
    if status is not None:
        return status in PASSING_STATUS
    if isinstance(error, (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)):
        return False
    if isinstance(error, (TimeoutError, ConnectionError, EOFError)):
        return True
    if isinstance(error, OSError) and error.errno in _PASSING_ERRNO:
        return True
    return not _PASSING_CLASSES.isdisjoint(kind.__name__ for kind in type(error).__mro__)


def is_refusal(error: BaseException) -> bool:
    """Return whether a service refuses to let a file be read, or requires credentials."""
    return (
        isinstance(error, PermissionError)
        or type(error).__name__ == "NoCredentialsError"
        or status_of(error) in _REFUSED_STATUS
    )


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status in an error of a client library; None if there is none."""
    for source in (error, error.__cause__):
        if source is None:
            continue
        response = getattr(source, "response", None)
        if isinstance(response, dict):  # botocore
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:
            status = getattr(source, "status", None) or getattr(source, "code", None)
        if isinstance(status, int) and 100 <= status <= 599:
            return status
    return None


def unreachable(url: str, error: BaseException, *, attempts: int, seconds: float) -> UnreachableDataError:
    """Return the error for a file that cannot be read.

    Args:
        url: URL of the file.
        error: Error of the last attempt.
        attempts: Number of attempts.
        seconds: Total duration of the attempts.
    """
    # a file named by a number is a chunk of the array in its folder
    *_, array, name = url.rsplit("/", 2) if url.count("/") > 1 else ("", url)
    chunk = f" (chunk {name} of array {array!r})" if name.isdigit() and array else ""
    what = f"{url}{chunk} cannot be read"
    if is_refusal(error):
        return UnreachableDataError(
            f"{what}: the service refuses it ({_line_of(error, url)}); check the rights, or pass storage_options, such "
            "as {'anon': True} for a public bucket. Some services also report missing files this way"
        )
    if is_passing(error):
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        return UnreachableDataError(
            f"{what}: {_line_of(error, url)}, after {tries} in {seconds:.1f} s; check the network and the service. "
            "Data that was read once needs no network with open(cached='mmap') or in a copy (l5kit chop, save())"
        )
    return UnreachableDataError(f"{what}: {_line_of(error, url)}; check the URL, and storage_options")


def _line_of(error: BaseException, url: str) -> str:
    """Return an error in one line, without secrets of the URL, which services may quote in parts."""
    text = " ".join(str(error).split())
    secrets = [*re.findall(r"://([^/]+@)", url), *re.findall(r"\?[^#]+", url)]
    for secret in secrets:
        for written in (secret, unquote(secret)):
            text = text.replace(written, "")
    if not text and isinstance(error, TimeoutError):
        text = "no answer in time"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class RemoteFiles:
    """The files of a file system of fsspec, for coroutines of zarr's event loop.

    After a fork or unpickling, a process creates its own file system.

    Args:
        fs: The file system, asynchronous.
        reading: Time limits, retries and concurrency.
    """

    def __init__(self, fs: AsyncFileSystem, reading: RemoteReading) -> None:
        self.reading = reading
        self._fs = fs
        self._start()

    @classmethod
    def at(
        cls, url: str, reading: RemoteReading, storage_options: Mapping[str, object] | None = None
    ) -> tuple["RemoteFiles", str]:
        """Return the files of the service of a URL, and the path of the URL on it.

        Raises:
            InvalidArgumentError: fsspec does not know the kind of URL, or an option.
            MissingDependencyError: fsspec needs a library for it.
        """
        options: dict[str, Any] = {"asynchronous": True, **(storage_options or {})}
        if url.startswith(_S3):
            options.setdefault("max_concurrency", 1)  # with more, s3fs requests the size of a file before reading it
            # retries are done here, not by botocore
            config = {
                "retries": {"total_max_attempts": 1},
                "connect_timeout": reading.timeout_s,
                "read_timeout": reading.timeout_s,
                "max_pool_connections": max(10, reading.concurrency),
            }
            options["config_kwargs"] = config | dict(options.get("config_kwargs", {}))
        fs, path = open_file_system(url, **options)
        return cls(fs if fs.async_impl else AsyncFileSystemWrapper(fs, asynchronous=True), reading), path

    def _start(self) -> None:
        self._process = os.getpid()
        self._gate = asyncio.Semaphore(self.reading.concurrency)
        if hasattr(self._fs, "retries"):  # retries are done here
            self._fs.retries = 1

    @property
    def fs(self) -> AsyncFileSystem:
        """The file system of this process."""
        if os.getpid() != self._process:
            self._fs = pickle.loads(pickle.dumps(self._fs))
            self._start()
        return self._fs

    @property
    def is_http(self) -> bool:
        """Whether it is a web server, which may not list files."""
        protocol = self.fs.protocol
        return not _HTTP.isdisjoint((protocol,) if isinstance(protocol, str) else protocol)

    def url_of(self, path: str) -> str:
        """Return the URL of a file, for messages."""
        return str(getattr(self.fs, "sync_fs", self.fs).unstrip_protocol(path))

    async def ask(self, path: str, question: Callable[[AsyncFileSystem], Awaitable[_T]]) -> _T:
        """Return the answer to a request about a file.

        Args:
            path: The file.
            question: Performs the request on the file system; may be called several times.

        Raises:
            FileNotFoundError: There is no such file.
            UnreachableDataError: The service refuses the request, or did not answer at any attempt.
        """
        started, delays_s = time.monotonic(), self.reading.delays_s()
        fs = self.fs
        for attempt in itertools.count(1):
            try:
                async with self._gate:
                    return await asyncio.wait_for(question(fs), self.reading.timeout_s)
            except (*_ABSENT, CorruptedDataError, UnreachableDataError):
                raise
            except Exception as error:
                delay_s = next(delays_s, None)
                if delay_s is None or not is_passing(error):
                    seconds = time.monotonic() - started
                    raise unreachable(self.url_of(path), error, attempts=attempt, seconds=seconds) from error
                await asyncio.sleep(delay_s)
        raise RuntimeError("never reached")

    async def read(self, path: str, start: int | None = None, stop: int | None = None) -> bytes | None:
        """Return the bytes [start, stop) of a file, which may be fewer; None if there is no such file.

        Args:
            path: The file.
            start: First byte; a negative value counts from the end, without ``stop``; None for the whole file.
            stop: End byte.

        Raises:
            UnreachableDataError: See :meth:`ask`.
        """

        async def question(fs: AsyncFileSystem) -> bytes:
            try:
                return bytes(await fs._cat_file(path, start=start, end=stop))
            except OSError as error:
                if "not satisfiable" in str(error) or "InvalidRange" in str(error):
                    return b""
                raise

        try:
            return await self.ask(path, question)
        except _ABSENT:
            return None

    async def read_if_allowed(self, path: str, start: int | None = None, stop: int | None = None) -> bytes | None:
        """Return the bytes [start, stop) of a file; None if it does not exist or must not be read.

        A service without permission to list refuses missing files.
        """
        try:
            return await self.read(path, start, stop)
        except UnreachableDataError as error:
            if error.__cause__ is not None and is_refusal(error.__cause__):
                return None
            raise

    async def exists(self, path: str) -> bool:
        """Return whether a file exists, by reading its first byte: the check of fsspec hides connection failures."""
        return await self.read(path, 0, 1) is not None

    async def can_be_read(self, path: str) -> bool:
        """Return whether a file exists and may be read; a service without permission to list refuses missing files."""
        return await self.read_if_allowed(path, 0, 1) is not None

    async def _ask_anew(self, path: str, question: Callable[[AsyncFileSystem], Awaitable[_T]]) -> _T | None:
        """Return the answer to a request about a file, bypassing the caches of fsspec; None if it does not exist."""

        def anew(fs: AsyncFileSystem) -> Awaitable[_T]:
            getattr(fs, "sync_fs", fs).invalidate_cache()
            return question(fs)

        try:
            return await self.ask(path, anew)
        except _ABSENT:
            return None

    async def info(self, path: str) -> FileInfo | None:
        """Return what the service reports about a file, bypassing the caches of fsspec; None if there is none."""
        info = await self._ask_anew(path, lambda fs: fs._info(path))
        if info is None:  # for web servers, fsspec takes every failure for a missing file
            return {} if await self.exists(path) else None
        return dict(info)

    async def find(self, path: str) -> dict[str, FileInfo]:
        """Return what the service reports about all files below a path, bypassing the caches of fsspec."""
        return dict(await self._ask_anew(path, lambda fs: fs._find(path, detail=True, withdirs=False)) or {})

    async def names(self, path: str) -> dict[str, bool]:
        """Return the entries of a folder, bypassing the caches of fsspec: sorted names, and whether each is a folder.

        The result is empty if the folder cannot be listed.
        """
        listed = await self._ask_anew(path, lambda fs: fs._ls(path, detail=True)) or []
        below = path.rstrip("/") + "/"
        is_folder = {str(entry["name"]).rstrip("/"): entry.get("type") == "directory" for entry in listed}
        return {name[len(below) :]: is_folder[name] for name in sorted(is_folder) if name.startswith(below)}

    def __getstate__(self) -> dict[str, object]:
        return {"fs": self._fs, "reading": self.reading}

    def __setstate__(self, state: PickledState) -> None:
        self.__init__(state["fs"], state["reading"])  # type: ignore[misc]


def version_of(info: Mapping[str, object]) -> tuple[str, ...]:
    """Return the reported version of a file (size with time, ETag or checksum); empty if there is none.

    Args:
        info: What the service reports about the file.
    """
    fields = [str(info[field]) for field in _VERSION_FIELDS if info.get(field)]
    return (str(info.get("size")), *fields) if fields else ()

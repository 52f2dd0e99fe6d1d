"""Failures of remote services: which of them pass, and what the error says that is raised for the others."""

import errno
import re
from urllib.parse import unquote

from l5kit.errors import UnreachableDataError

PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status of HTTP after which it is worth asking again."""

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
        "ClientError",  # of aiohttp; botocore's has a status
        "HTTPClientError",
        "ResponseStreamingError",
        "IncompleteReadError",
        "IncompleteRead",
        "AioConnectionError",
    }
)
"""Names of classes of aiohttp, botocore and urllib3, which are not imported here."""

_REFUSED_STATUS = frozenset({401, 403})


def is_passing(error: BaseException) -> bool:
    """Return whether it is worth asking again: no answer, a connection that broke, a service that is busy.

    A service that says that there is no such file, or that one may not read it, says so the second time too.
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
    """Return whether a service says that one may not read a file, or would have to be told who asks."""
    return (
        isinstance(error, PermissionError)
        or type(error).__name__ == "NoCredentialsError"
        or status_of(error) in _REFUSED_STATUS
    )


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error of a client library tells; None if it tells none."""
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
        error: What the last attempt raised.
        attempts: How many there were.
        seconds: How long they took together.
    """
    # a file with a number as its name is a chunk of the array that its folder is
    *_, array, name = url.rsplit("/", 2) if url.count("/") > 1 else ("", url)
    chunk = f" (chunk {name} of array {array!r})" if name.isdigit() and array else ""
    what = f"{url}{chunk} cannot be read"
    if is_refusal(error):
        return UnreachableDataError(
            f"{what}: the service refuses it ({_line_of(error, url)}); check the rights, or pass storage_options, such "
            "as {'anon': True} for a public bucket. Some services also say this of a file that is missing"
        )
    if is_passing(error):
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        return UnreachableDataError(
            f"{what}: {_line_of(error, url)}, after {tries} in {seconds:.1f} s; check the network and the service. "
            "What was read once needs no network with open(cached='mmap') or in a copy (l5kit chop, save())"
        )
    return UnreachableDataError(f"{what}: {_line_of(error, url)}; check the URL, and storage_options")


def _line_of(error: BaseException, url: str) -> str:
    """Return an error in a line, without what is secret in the URL, of which services quote parts by themselves."""
    text = " ".join(str(error).split())
    secrets = [*re.findall(r"://([^/]+@)", url), *re.findall(r"\?[^#]+", url)]
    for secret in secrets:
        for written in (secret, unquote(secret)):
            text = text.replace(written, "")
    if not text and isinstance(error, TimeoutError):
        text = "no answer in time"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

"""Error classes of l5kit, and helpers for messages: redaction of secrets in URLs, and commands to install extras.

Every error of l5kit is an :class:`L5KitError`. Where scripts written for L5Kit 1.x may catch a built-in type, the class
inherits that built-in too, so that old ``except`` clauses keep working.
"""

import json
import re
import signal
from concurrent.futures import BrokenExecutor
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

TERMINATED: Final = 128 + signal.SIGTERM
"""Exit status of a process that was ended by SIGTERM."""

_SCHEME: Final = r"\b[A-Za-z][A-Za-z0-9+.-]+:/{1,2}"
_URL: Final = re.compile(rf"(?<=\"){_SCHEME}[^\"\\\n]*|(?<='){_SCHEME}[^'\\\n]*|{_SCHEME}(?:[^\s\"'<>\\]|'(?=\w))*")
"""A URL in a text: in quotes, everything up to the closing quote; otherwise up to a character that URLs must escape."""

_OF_AZURE: Final = re.compile(r"(?:abfs|wasb)s?:")
"""URL schemes of Azure, which have the container in place of the user."""

_SECRET_PARAMETERS: Final = re.compile(r"[#;].*(?:tok(?:en)?|sig(?:nature)?|secret|password|key)=.*", re.IGNORECASE)


class L5KitError(Exception):
    """Base class of all errors that l5kit raises on purpose."""

    def __str__(self) -> str:
        """Return the message without secrets in URLs, and unquoted also for subclasses of ``KeyError``."""
        return without_secrets(Exception.__str__(self))


class ConfigError(L5KitError, KeyError, ValueError):
    """A configuration key is missing, of the wrong type or out of range; the message names its YAML path."""


class InvalidArgumentError(L5KitError, AssertionError, ValueError):
    """An argument has a shape or value that is not allowed (an ``AssertionError`` in L5Kit 1.x)."""


class MapTooLargeError(InvalidArgumentError):
    """A semantic map would exceed 2 GB, the maximum size of a file of its format."""


class UnsupportedValueError(L5KitError, NotImplementedError, ValueError):
    """An argument names a variant that does not exist (a ``NotImplementedError`` in L5Kit 1.x)."""


class UnsupportedConfigError(ConfigError, UnsupportedValueError):
    """A configuration key names a variant that does not exist (a ``NotImplementedError`` in L5Kit 1.x)."""


class MissingDependencyError(L5KitError, ImportError):
    """An optional library is needed; the message names the extra that installs it."""


class TrackNotFoundError(L5KitError, IndexError, ValueError):
    """The requested track is not in the current frame or does not pass the label filter."""


class TensorSizeError(InvalidArgumentError, RuntimeError):
    """A tensor has a size that a network does not support (a ``RuntimeError`` of torch in L5Kit 1.x)."""


class RouteNotFoundError(InvalidArgumentError):
    """No path leads along the lanes of a map from one point to another."""


class SampleError(L5KitError, RuntimeError):
    """A dataset could not make one of its samples; the message names it and the cause is chained.

    It is never an ``IndexError``, so that a ``for`` loop over the dataset does not end silently.
    """


class IndexOutOfRangeError(L5KitError, IndexError):
    """An index is past the end."""


class NegativeIndexError(L5KitError, IndexError, ValueError):
    """A negative index reaches before the start (a ``ValueError`` in L5Kit 1.x)."""


class DatasetNotFoundError(L5KitError, ValueError, FileNotFoundError):
    """There is no dataset at the given path (a ``ValueError`` in L5Kit 1.x)."""


class DownloadError(L5KitError, OSError):
    """A file cannot be downloaded, or has unexpected content; complete files are kept for the next call."""


class MissingArrayError(L5KitError, KeyError):
    """A dataset lacks one of the arrays that every dataset must have."""


class DatasetFormatError(L5KitError, ValueError):
    """An array of a dataset has the wrong record type, shape or length."""


class CorruptedDataError(L5KitError, OSError, ValueError):
    """A file of a dataset cannot be decoded, is short or is missing; the message names it."""


class DataChangedError(L5KitError, RuntimeError):
    """A file was modified, replaced or removed while it was read; the message names it."""


class ReadOnlyDatasetError(L5KitError, PermissionError):
    """A dataset that was opened for reading, or whose store cannot be changed, was written to."""


class EvaluationPlanError(L5KitError, RuntimeError, ValueError):
    """A closed-loop evaluation plan has duplicate names or lacks a required part (a ``RuntimeError`` in L5Kit 1.x)."""


class TrajectoryLengthError(L5KitError, RuntimeError, ValueError):
    """Trajectories that are compared frame by frame have different lengths (a ``RuntimeError`` in L5Kit 1.x)."""


class EpisodeEndedError(L5KitError, RuntimeError, ValueError):
    """An environment was stepped after the end of its episode, or before its first one."""


class UnpicklableStoreError(L5KitError, TypeError):
    """A dataset held in this process's memory cannot be handed to another process."""


class UnreachableDataError(L5KitError, ConnectionError):
    """A file of a remote dataset cannot be read: its service does not answer, or refuses; the message names the URL."""


class EngineError(L5KitError, RuntimeError):
    """A cluster of Ray or Dask does not answer, or its workers have a different version of l5kit."""


class WorkerDiedError(L5KitError, BrokenExecutor):
    """A worker process has died, for example out of memory; the message names it and its scenes."""


class DuplicateTrackError(InvalidArgumentError, AssertionError):
    """A frame contains a track more than once (an ``AssertionError`` in L5Kit 1.x)."""


def is_termination(error: BaseException) -> bool:
    """Return whether an error is the termination of the process by SIGTERM, which must not be suppressed.

    Any other ``SystemExit`` comes from user code, as l5kit never raises one, and counts as an error of that code.
    """
    return isinstance(error, SystemExit) and error.code == TERMINATED


def ending_behind(error: BaseException | None) -> BaseException | None:
    """Return the Ctrl-C or SIGTERM in the chain of an error, which that error hides; None without one.

    Cleanup code may fail when it is interrupted: ``shutil.rmtree``, for example, may close a folder twice.
    """
    while error is not None and not (isinstance(error, KeyboardInterrupt) or is_termination(error)):
        error = error.__cause__ if error.__suppress_context__ else error.__context__
    return error


def error_text(error: BaseException) -> str:
    """Return the type name and the message of an error."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def error_line(error: BaseException) -> str:
    """Return the message of an error in one line, or its type name if the message is empty."""
    return " ".join(str(error).split()) or type(error).__name__


def without_secrets(text: str) -> str:
    """Return a URL, or a text that contains URLs, without users, passwords and queries.

    The remaining scheme, server and path identify the file, in any chain of file systems of fsspec.
    """
    return _URL.sub(_without_secrets_of, text) if ":/" in text else text


def _without_secrets_of(url: re.Match[str]) -> str:
    """Return a URL without its secrets."""
    names = []
    for part in re.split(rf"::(?={_SCHEME})", url[0]):  # chains of file systems, such as zip://a::s3://b
        scheme, slashes, rest = re.split(r"(:/{1,2})", part, maxsplit=1)
        # passwords are not always escaped, so everything up to the last @ before the path belongs to the user
        server, slash, path = rest.partition("/")
        if not _OF_AZURE.match(part):
            server = server.rpartition("@")[2]
        name = f"{server}{slash}{path}".partition("?")[0]  # signed queries grant access to the file
        names.append(f"{scheme}{slashes}{_SECRET_PARAMETERS.sub('', name)}")
    return "::".join(names)


def install_command(*extras: str) -> str:
    """Return the command that installs extras of l5kit in the same way as l5kit itself: from a clone or from an index.

    Args:
        extras: Names of extras, such as ``viz``.
    """
    names = ",".join(extras)
    clone = find_clone()
    if clone is None:
        return f"pip install 'l5kit2[{names}]'"
    return f"pip install -e '{'.' if clone == Path.cwd() else clone}[{names}]'"


def find_clone() -> Path | None:
    """Return the clone that l5kit runs from or was installed from; None if it was installed from an index."""
    candidates = [Path(__file__).resolve().parents[2]]
    try:
        origin = json.loads(distribution("l5kit2").read_text("direct_url.json") or "{}")  # PEP 610
        address = urlsplit(str(origin.get("url", "")))
        candidates += [Path(unquote(address.path))] if address.scheme == "file" else []
    except (PackageNotFoundError, ValueError, AttributeError):
        pass
    parts = ("pyproject.toml", "src/l5kit")
    return next((each for each in candidates if all((each / part).exists() for part in parts)), None)

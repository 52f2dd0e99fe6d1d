"""Commands that go over all logs of a folder."""

from collections.abc import Sequence
from pathlib import Path

from l5kit._types import JsonObject
from l5kit.data.stores.store import path_of
from l5kit.errors import InvalidArgumentError

__all__ = ["for_each_log", "require_one_log"]


def for_each_log(contents: Sequence[JsonObject]) -> JsonObject:
    """Return what ``--json`` prints: that of the only log, or a list of those of all logs by the name ``logs``."""
    return contents[0] if len(contents) == 1 else {"logs": list(contents)}


def require_one_log(logs: Sequence[Path], *, option: str) -> None:
    """Refuse several logs where an option is about one.

    Raises:
        InvalidArgumentError: As above.
    """
    if len(logs) > 1:
        raise InvalidArgumentError(
            f"{option} is about one log, and there are several: {', '.join(map(path_of, logs))}; pass the path of one"
        )

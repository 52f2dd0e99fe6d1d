"""Names of the entries of archives and buckets, which must stay in the folder that they are unpacked to."""

import re
import unicodedata
from pathlib import PurePosixPath

from l5kit.errors import DownloadError

_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_MAX_PART_BYTES = 255
_MAX_PARTS = 64
_BESIDE_THE_POINT = re.compile(r"(.*/)?(__MACOSX(/.*)?|\._[^/]*|\.DS_Store)", re.DOTALL)
"""What macOS adds to archives."""


class EntryNames:
    """The names that an archive has used so far.

    A name that leaves the folder, or means something else on another system, is refused; so are two names that some
    file system takes for one, a file that is there twice, and a name that is both file and folder.

    Args:
        called: The archive, for messages.
    """

    def __init__(self, called: str) -> None:
        self._called = called
        self._entries: dict[str, tuple[str, bool]] = {}

    def add(self, name: str, *, is_folder: bool = False) -> PurePosixPath | None:
        """Return the path of an entry in the folder; None for the folder itself and for what no dataset needs.

        Args:
            name: As the archive has it, with slashes.
            is_folder: Whether the entry is a folder, which may be there more than once.

        Raises:
            DownloadError: The name is refused.
        """
        if _BESIDE_THE_POINT.fullmatch(name.rstrip("/")):
            return None
        parts = [part for part in name.split("/") if part not in ("", ".")]

        # names have to lie inside the folder, and to be names, on any system
        if name.startswith("/") or ".." in parts:
            raise self._refused(name, "leaves the folder")
        if _FORBIDDEN.search(name) or any(_DEVICES.fullmatch(part) or part[-1] in " ." for part in parts):
            raise self._refused(name, "is not a name on every system")
        try:
            is_long = any(len(part.encode("utf-8")) > _MAX_PART_BYTES for part in parts)
        except UnicodeEncodeError:
            raise self._refused(name, "is no text") from None
        if is_long or len(parts) > _MAX_PARTS:
            raise self._refused(name, "is too long")
        if not parts:
            return None

        # folders around it count as entries, too, so that none of them is a file elsewhere
        for end in range(1, len(parts)):
            self._enter("/".join(parts[:end]), name, is_folder=True)
        is_new = self._enter("/".join(parts), name, is_folder=is_folder)
        if not (is_new or is_folder):
            raise self._refused(name, "is there twice")
        return PurePosixPath(*parts)

    def _enter(self, path: str, name: str, *, is_folder: bool) -> bool:
        """Keep a path; return whether it is new."""
        key = unicodedata.normalize("NFC", path).casefold()
        num_before = len(self._entries)
        known = self._entries.setdefault(key, (path, is_folder))
        if known[0] != path:
            raise self._refused(name, f"and {known[0]!r:.120} are one name on some systems")
        if known[1] != is_folder:
            raise self._refused(name, "is both a file and a folder")
        return len(self._entries) > num_before

    def _refused(self, name: str, problem: str) -> DownloadError:
        return DownloadError(f"{self._called}: the entry {name!r:.120} {problem}; nothing of the archive is used")

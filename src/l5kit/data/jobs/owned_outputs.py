"""Ownership of outputs: which files and folders a command may remove or replace.

One rule holds for every output. It must have its mark, a file that identifies its writer, and all other files in the
folder must have names that this kind of output has; otherwise the error names the first foreign entry, and nothing is
touched. A name alone is not a mark: other programs write ``scores.json`` and ``parts``, too.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from l5kit._files import is_scratch
from l5kit.data.layout import ARRAYS
from l5kit.errors import InvalidArgumentError

_METADATA: Final = r"\.z(?:group|attrs|array|metadata)"
LOG_FILES: Final = rf"(?:{_METADATA}|(?:{'|'.join(ARRAYS)}|agents_mask(?:/[^/]+)?)/(?:{_METADATA}|\d+(?:\.\d+)*))"
"""Pattern of the paths in a log: metadata and chunks of its arrays, and of masks stored in it."""

_SYSTEM_FILES: Final = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""Files that operating systems leave in folders; they may be removed."""

_HEAD_BYTES: Final = 2**16
_WORD: Final = b"l5kit"


@dataclass(frozen=True)
class OutputKind:
    """A kind of folder written by commands.

    Attributes:
        called: Its name with its article, such as ``a simulation``.
        is_marked: Whether a folder has the mark of its writer.
        paths: Pattern of the paths of its files, relative, with ``/``.
    """

    called: str
    is_marked: Callable[[Path], bool]
    paths: str

    def foreign_in(self, folder: Path, *, within: str = "") -> Iterator[str]:
        """Yield the paths of files in a folder that do not belong to such an output.

        Args:
            folder: The folder.
            within: Subfolder to search; it may be missing. By default the whole folder is searched.
        """
        known = re.compile(self.paths)
        yield from (path for path in files_in(folder, within) if not known.fullmatch(path))


def files_in(folder: Path, within: str = "") -> Iterator[str]:
    """Yield the relative paths of the files and links below a folder, sorted, without scratch folders of writers."""
    for directory, names, files in os.walk(folder / within):
        root = Path(directory)
        links = [name for name in names if (root / name).is_symlink()]
        names[:] = sorted(name for name in names if name not in links and not is_scratch(root / name))
        for name in sorted([*files, *links]):
            if name not in _SYSTEM_FILES:
                yield (root / name).relative_to(folder).as_posix()


def holds_keys(file: Path, keys: Set[str], **values: object) -> bool:
    """Return whether a file is a JSON object with these keys and values, as the mark of an output is."""
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and keys <= content.keys() and values.items() <= content.items()


def tells_l5kit(file: Path) -> bool:
    """Return whether a file is empty or names l5kit in its first or last 64 KiB, as files written by l5kit do."""
    try:
        with file.open("rb") as opened:
            head = opened.read(_HEAD_BYTES)
            opened.seek(max(len(head), file.stat().st_size - _HEAD_BYTES))
            return not head or _WORD in head or _WORD in opened.read()
    except OSError:
        return False


def require_own_folder(folder: Path, kind: OutputKind, *, argument: str) -> None:
    """Refuse to replace a folder that is not entirely an output of a kind; empty and missing ones are allowed.

    Args:
        folder: The folder.
        kind: The allowed kind of output.
        argument: Name of the folder's argument, for the error.

    Raises:
        InvalidArgumentError: It is a link or a file, holds files without the mark of the kind, or a foreign file; the
            message names the first one.
    """
    what = f"{argument} is {str(folder)!r}"
    if folder.is_symlink() and os.path.lexists(folder):
        raise InvalidArgumentError(f"{what}, which is a link and is not replaced; name its target")
    if os.path.lexists(folder) and not folder.is_dir():
        raise InvalidArgumentError(f"{what}, which is a file; name a folder")
    first = next(files_in(folder), None)
    if first is None:
        return
    noun = kind.called.partition(" ")[2]
    if not kind.is_marked(folder):
        raise InvalidArgumentError(
            f"{what}, which holds {first!r}, but no {noun}, so nothing in it is replaced; name another folder, or move "
            "that away"
        )
    foreign = next(kind.foreign_in(folder), None)
    if foreign is not None:
        raise InvalidArgumentError(
            f"{what}, which holds {foreign!r} in addition to {kind.called}, so nothing in it is replaced; move that "
            "away, or name another folder"
        )


def require_own_file(file: Path, *, argument: str) -> None:
    """Refuse to replace a file that was not written by l5kit.

    Args:
        file: The file, which need not exist.
        argument: Name of the file's argument, for the error.

    Raises:
        InvalidArgumentError: It does not name l5kit and thus is foreign, or it is a pipe or device.
    """
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise InvalidArgumentError(f"{argument} is {str(file)!r}, a pipe or device, which a file cannot replace")
    if file.is_file() and not tells_l5kit(file):
        raise InvalidArgumentError(
            f"{argument} is {str(file)!r}, which was not written by l5kit, so it is not replaced; name another file, "
            "or move it away"
        )


def require_absent(target: Path, *, overwrite: bool) -> None:
    """Refuse an existing path, unless it may be replaced.

    Raises:
        FileExistsError: Something exists there, even a dangling link, and ``overwrite`` is False.
    """
    if not overwrite and os.path.lexists(target):
        raise FileExistsError(f"{target} exists; choose another path, or replace it (overwrite=True)")


DATASET: Final = OutputKind(
    "a dataset",
    lambda folder: (folder / ".zgroup").is_file() and any((folder / key / ".zarray").is_file() for key in ARRAYS),
    LOG_FILES,
)
"""A single log."""

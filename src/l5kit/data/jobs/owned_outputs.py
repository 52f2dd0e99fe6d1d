"""What a command may remove or replace: outputs with a mark of l5kit, and nothing of anybody else in them.

One rule holds for every output. What goes is known by its mark, a file that tells who wrote it, and all else in the
folder has names that this kind of output has; where there is anything else, the first such entry is named, and nothing
is touched. A name alone is no mark: others have a ``scores.json`` and a ``parts``, too.
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
"""Pattern of the paths in a log: metadata and chunks of its arrays, and of masks that are stored in it."""

_OF_SYSTEMS: Final = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""What systems leave in folders that somebody looks at; nobody misses it."""

_HEAD_BYTES: Final = 2**16
_WORD: Final = b"l5kit"


@dataclass(frozen=True)
class OutputKind:
    """A kind of folder that commands write.

    Attributes:
        called: What it is, with its article, such as ``a simulation``.
        is_marked: Whether a folder has the mark of its writer.
        paths: Pattern of the paths of its files, relative, with ``/``.
    """

    called: str
    is_marked: Callable[[Path], bool]
    paths: str

    def foreign_in(self, folder: Path, *, within: str = "") -> Iterator[str]:
        """Yield the paths in a folder of files that such an output does not have.

        Args:
            folder: The folder.
            within: A folder in it that is looked through alone; it may be missing.
        """
        known = re.compile(self.paths)
        yield from (path for path in files_in(folder, within) if not known.fullmatch(path))


def files_in(folder: Path, within: str = "") -> Iterator[str]:
    """Yield the relative paths of the files and links below a folder, sorted; scratch folders of writers left out."""
    for directory, names, files in os.walk(folder / within):
        root = Path(directory)
        links = [name for name in names if (root / name).is_symlink()]
        names[:] = sorted(name for name in names if name not in links and not is_scratch(root / name))
        for name in sorted([*files, *links]):
            if name not in _OF_SYSTEMS:
                yield (root / name).relative_to(folder).as_posix()


def holds_keys(file: Path, keys: Set[str], **values: object) -> bool:
    """Return whether a file is an object of JSON with these keys and values, as the mark of an output is."""
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and keys <= content.keys() and values.items() <= content.items()


def tells_l5kit(file: Path) -> bool:
    """Return whether a file names l5kit in its first or last 64 KiB, as the files that it writes do, or is empty."""
    try:
        with file.open("rb") as opened:
            head = opened.read(_HEAD_BYTES)
            opened.seek(max(len(head), file.stat().st_size - _HEAD_BYTES))
            return not head or _WORD in head or _WORD in opened.read()
    except OSError:
        return False


def require_own_folder(folder: Path, kind: OutputKind, *, argument: str) -> None:
    """Refuse to remove or replace a folder that is not wholly of a kind of output; one that is empty or no more is.

    Args:
        folder: The folder.
        kind: What may be there.
        argument: What the caller knows the folder as, for the error.

    Raises:
        InvalidArgumentError: It is a link or a file, holds files without the mark of the kind, or a file of somebody
            else; the message names the first one.
    """
    what = f"{argument} is {str(folder)!r}"
    if folder.is_symlink() and os.path.lexists(folder):
        raise InvalidArgumentError(f"{what}, which is a link and is not replaced; name the folder that it leads to")
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
            f"{what}, which holds {foreign!r} beside {kind.called}, so nothing in it is replaced; move that away, or "
            "name another folder"
        )


def require_own_file(file: Path, *, argument: str) -> None:
    """Refuse to replace a file that l5kit has not written.

    Args:
        file: The file, which need not be there.
        argument: What the caller knows it as, for the error.

    Raises:
        InvalidArgumentError: It is somebody else's, as it does not name l5kit, or a pipe or device.
    """
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise InvalidArgumentError(f"{argument} is {str(file)!r}, a pipe or device, which a file cannot replace")
    if file.is_file() and not tells_l5kit(file):
        raise InvalidArgumentError(
            f"{argument} is {str(file)!r}, which is there and is not of l5kit, so it is not replaced; name another "
            "file, or move it away"
        )


def require_absent(target: Path, *, overwrite: bool) -> None:
    """Refuse a place where something is, unless it may be replaced.

    Raises:
        FileExistsError: There is something, if only a link that leads nowhere, and ``overwrite`` is False.
    """
    if not overwrite and os.path.lexists(target):
        raise FileExistsError(f"{target} exists; choose another path, or replace it (overwrite=True)")


DATASET: Final = OutputKind(
    "a dataset",
    lambda folder: (folder / ".zgroup").is_file() and any((folder / key / ".zarray").is_file() for key in ARRAYS),
    LOG_FILES,
)
"""A log by itself."""

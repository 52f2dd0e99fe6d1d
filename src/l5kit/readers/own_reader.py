"""Readers of files of the user, named as ``FILE.py:NAME``."""

import os
from pathlib import Path
from typing import Final

from l5kit.configs.own_code import read_own, with_whole_file
from l5kit.errors import InvalidArgumentError
from l5kit.readers.reader import Reader, SceneRef, SourceInfo
from l5kit.readers.source_scene import SourceScene

_MEMBERS: Final = ("source", "info", "list_scenes", "read")


class OwnReader:
    """A reader of a file of the user, which workers load again from the file.

    Args:
        reference: ``FILE.py:NAME`` of a class or function that makes a reader of the folder of a source.
        source: The folder.

    Attributes:
        source: As above.
        code: What tells the code of the reader from that of others.

    Raises:
        FileNotFoundError: There is no such file.
        InvalidArgumentError: It cannot be loaded, has no such name, or that makes no reader.
    """

    def __init__(self, reference: str, source: str | os.PathLike[str]) -> None:
        self.source, self._reference = Path(source).absolute(), with_whole_file(reference)
        made, self.code = read_own(
            reference, "FORMAT", called="reader", is_one=lambda _: False, arguments=(self.source,)
        )
        missing = [name for name in _MEMBERS if not hasattr(made, name)]
        if missing:
            raise InvalidArgumentError(
                f"FORMAT is {reference!r}, which makes {type(made).__name__}; a reader has {', '.join(_MEMBERS)}, and "
                f"it lacks {', '.join(missing)}; see docs/own_reader.md"
            )
        self._reader: Reader = made  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type["OwnReader"], tuple[str, Path]]:
        """Return what another process makes it of."""
        return type(self), (self._reference, self.source)

    @property
    def info(self) -> SourceInfo:
        """What holds for all scenes."""
        return self._reader.info

    def list_scenes(self) -> list[SceneRef]:
        """Return the scenes of the source."""
        return self._reader.list_scenes()

    def read(self, ref: SceneRef) -> SourceScene:
        """Return a scene."""
        return self._reader.read(ref)
